// Factors -> codes for exact search. Included by kernels.cpp, once a level.
//
// A code holds a factor's coordinates along the first axes and the norm of the rest, as small integers. Sums go in a
// fixed order, so a code does not depend on the batch it came in.

// The short vector of a factor, in `code_size` places; returns the sum of its squares.
double shorten(const float* factor, int64_t n_factors, const double* head, int64_t n_head, int64_t code_size,
               double* terse) {
    for (int64_t j = 0; j < code_size; ++j) terse[j] = 0.0;
    for (int64_t i = 0; i < n_factors; ++i) {
        const double z = factor[i];
        const double* axis = head + i * n_head;
        for (int64_t j = 0; j < n_head; ++j) terse[j] += z * axis[j];
    }
    double squares = 0.0;
    for (int64_t j = 0; j < n_head; ++j) squares += terse[j] * terse[j];
    if (n_head < n_factors) {  // the subtraction may lose 1e-15 of the square; a little more is added
        const double rest = sum_of_squares(factor, n_factors) * (1.0 + 1e-11) - squares;
        terse[n_head] = rest > 0.0 ? __builtin_sqrt(rest) : 0.0;
        squares += terse[n_head] * terse[n_head];
    }
    return squares;
}

double largest_place(const double* terse, int64_t code_size) {
    double largest = 0.0;
    for (int64_t j = 0; j < code_size; ++j) {
        const double size = __builtin_fabs(terse[j]);
        largest = size > largest ? size : largest;
    }
    return largest;
}

// What one step of a code stands for, so that no place and no norm of a code is too large.
double scale_for(double norm, double largest, double most, double longest) {
    const double by_norm = norm / longest;
    const double by_place = largest / most;
    const double scale = by_norm > by_place ? by_norm : by_place;
    return scale > 0.0 ? scale : 1.0;
}

int32_t nearest(double value) {
    return static_cast<int32_t>(value < 0.0 ? value - 0.5 : value + 0.5);
}

void code_queries(const float* queries, int64_t n_queries, int64_t n_factors, const QueryCoding& coding, double* terse,
                  uint8_t* codes, QueryTerms* terms) {
    for (int64_t query = 0; query < n_queries; ++query) {
        const double squares =
            shorten(queries + query * n_factors, n_factors, coding.head, coding.n_head, coding.code_size, terse);
        const double norm = __builtin_sqrt(squares);
        const double scale = scale_for(norm, largest_place(terse, coding.code_size), coding.largest, coding.longest);
        double error = 0.0;
        for (int64_t j = 0; j < coding.code_size; ++j) {
            const int32_t code = nearest(terse[j] / scale);
            const double off = terse[j] - static_cast<double>(code) * scale;
            error += off * off;
            codes[query * coding.code_size + j] = static_cast<uint8_t>(code + QUERY_OFFSET);
        }
        terms[query] = {norm * (1.0 + 1e-6), __builtin_sqrt(error) * (1.0 + 1e-6), scale};
    }
}

// A block's codes lie in pairs of places, item by item, as a scan reads them. `terse` holds a block.
void code_items(const float* factors, int64_t n_items, int64_t n_factors, const ItemCoding& coding, double* terse,
                int8_t* codes, int16_t* offsets, BlockTerms* terms) {
    const int64_t size = coding.code_size;
    const auto raise = [](double& most, double value) { most = value > most ? value : most; };
    for (int64_t first = 0; first < n_items; first += BLOCK_ITEMS) {
        const int64_t block = first / BLOCK_ITEMS;
        const int64_t count = n_items - first < BLOCK_ITEMS ? n_items - first : BLOCK_ITEMS;
        double norm = 0.0;
        double short_norm = 0.0;
        double largest = 0.0;
        for (int64_t at = 0; at < count; ++at) {
            const float* factor = factors + (first + at) * n_factors;
            const double squares = shorten(factor, n_factors, coding.head, coding.n_head, size, terse + at * size);
            raise(norm, __builtin_sqrt(sum_of_squares(factor, n_factors)));
            raise(short_norm, __builtin_sqrt(squares));
            raise(largest, largest_place(terse + at * size, size));
        }
        const double scale = scale_for(short_norm, largest, coding.largest, coding.longest);
        double error = 0.0;
        double coded_norm = 0.0;
        for (int64_t at = 0; at < BLOCK_ITEMS; ++at) {
            double off_squares = 0.0;
            double squares = 0.0;
            int32_t sum = 0;
            for (int64_t j = 0; j < size; ++j) {
                const double value = at < count ? terse[at * size + j] : 0.0;
                const int32_t code = nearest(value / scale);
                const double coded = static_cast<double>(code) * scale;
                off_squares += (value - coded) * (value - coded);
                squares += coded * coded;
                sum += code;
                codes[block * size * BLOCK_ITEMS + (j / 2 * BLOCK_ITEMS + at) * 2 + j % 2] = static_cast<int8_t>(code);
            }
            offsets[first + at] = static_cast<int16_t>(static_cast<uint16_t>(-QUERY_OFFSET * sum));
            raise(error, __builtin_sqrt(off_squares));
            raise(coded_norm, __builtin_sqrt(squares));
        }
        const double room = norm * coding.room;
        terms[block] = {norm + room, error * (1.0 + 1e-6) + room, coded_norm * (1.0 + 1e-6), scale};
    }
}
