// Factors -> codes for exact search. Included by kernels.cpp, once a level.
//
// A code holds a factor's coordinates along the first axes and the norm of the rest, as small integers. Sums go in a
// fixed order, so a code does not depend on the batch it came in.

// A short vector's room: its places rounded up to a multiple of four, the rest zeros.
int64_t rounded_size(int64_t code_size) {
    return (code_size + 3) / 4 * 4;
}

// Sum of squares in four stripes folded in a fixed order; n is a multiple of four.
double sum_of_squares(const double* values, int64_t n) {
    Doubles sums{};
    for (int64_t j = 0; j < n; j += 4) {
        Doubles four;
        __builtin_memcpy(&four, values + j, sizeof four);
        sums += four * four;
    }
    return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}

// The last place of a short vector: the norm of what is not in the others, or a little more.
void add_tail(const float* factor, int64_t n_factors, int64_t n_head, double spare, double lost, int64_t size,
              double* terse) {
    for (int64_t j = n_head; j < size; ++j) terse[j] = 0.0;
    if (n_head == n_factors) return;
    const double rest = sum_of_squares(factor, n_factors) * (1.0 + spare) - sum_of_squares(terse, size);
    terse[n_head] = (rest > 0.0 ? __builtin_sqrt(rest) : 0.0) + lost;
}

// The largest place, whatever its sign; size is a multiple of four.
double largest_place(const double* terse, int64_t size) {
    Doubles most{};
    for (int64_t j = 0; j < size; j += 4) {
        Doubles four;
        __builtin_memcpy(&four, terse + j, sizeof four);
        four = four < 0.0 ? -four : four;
        most = four > most ? four : most;
    }
    const double a = most[0] > most[1] ? most[0] : most[1];
    const double b = most[2] > most[3] ? most[2] : most[3];
    return a > b ? a : b;
}

// What one step of a code stands for, so that no place and no norm of a code is too large.
double scale_for(double norm, double largest, double most, double longest) {
    const double by_norm = norm / longest;
    const double by_place = largest / most;
    const double scale = by_norm > by_place ? by_norm : by_place;
    return scale > 0x1p-1000 ? scale : 1.0;  // so that its inverse is finite
}

int32_t nearest(double value) {
    return static_cast<int32_t>(value < 0.0 ? value - 0.5 : value + 0.5);
}

// Turns a short vector into its coded one, in steps of `scale`; `codes` takes the integers, `off` what is left.
void code_places(double* terse, int64_t size, double scale, int32_t* codes, double* off) {
    const double inverse = 1.0 / scale;
    for (int64_t j = 0; j < size; ++j) codes[j] = nearest(terse[j] * inverse);
    for (int64_t j = 0; j < size; ++j) {
        const double coded = static_cast<double>(codes[j]) * scale;
        off[j] = terse[j] - coded;
        terse[j] = coded;
    }
}

constexpr int64_t MAX_CODE_SIZE = (MAX_FACTORS + 2 + 3) / 4 * 4;

void code_queries(const float* queries, int64_t n_queries, int64_t n_factors, const QueryCoding& coding,
                  double* scratch, uint8_t* codes, QueryTerms* terms) {
    const int64_t size = rounded_size(coding.code_size);
    double* terse = scratch + ROWS_TURNED * n_factors;
    int32_t places[MAX_CODE_SIZE];
    double off[MAX_CODE_SIZE];
    for (int64_t query = 0; query < n_queries; ++query) {
        double* row = terse + query % ROWS_TURNED * size;
        if (query % ROWS_TURNED == 0) {
            const int64_t count = n_queries - query < ROWS_TURNED ? n_queries - query : ROWS_TURNED;
            turn_rows(queries + query * n_factors, count, n_factors, coding.head, coding.n_head, scratch, size, terse);
        }
        add_tail(queries + query * n_factors, n_factors, coding.n_head, 1e-11, 0.0, size, row);
        const double norm = __builtin_sqrt(sum_of_squares(row, size));
        const double scale = scale_for(norm, largest_place(row, size), coding.largest, coding.longest);
        code_places(row, size, scale, places, off);
        for (int64_t j = 0; j < coding.code_size; ++j)
            codes[query * coding.code_size + j] = static_cast<uint8_t>(places[j] + QUERY_OFFSET);
        terms[query] = {norm * (1.0 + 1e-6), __builtin_sqrt(sum_of_squares(off, size)) * (1.0 + 1e-6), scale};
    }
}

// A block's codes lie in pairs of places, item by item, as a scan reads them. Turned factors are rounded to float32:
// the tail has room for that, and so have the terms.
void code_items(const float* factors, const float* turned, int64_t n_items, int64_t n_factors, const ItemCoding& coding,
                double* terse, int8_t* codes, int16_t* offsets, BlockTerms* terms) {
    const int64_t size = rounded_size(coding.code_size);
    const double lost = __builtin_sqrt(static_cast<double>(n_factors)) * 0x1p-148;  // near zero, where floats are even
    const auto raise = [](double& most, double value) { most = value > most ? value : most; };
    int32_t places[MAX_CODE_SIZE];
    double off[MAX_CODE_SIZE];
    for (int64_t first = 0; first < n_items; first += BLOCK_ITEMS) {
        const int64_t block = first / BLOCK_ITEMS;
        const int64_t count = n_items - first < BLOCK_ITEMS ? n_items - first : BLOCK_ITEMS;
        double norm = 0.0;
        double short_norm = 0.0;
        double largest = 0.0;
        for (int64_t at = 0; at < count; ++at) {
            const float* factor = factors + (first + at) * n_factors;
            for (int64_t j = 0; j < coding.n_head; ++j) terse[at * size + j] = turned[(first + at) * n_factors + j];
            add_tail(factor, n_factors, coding.n_head, 3e-7, lost, size, terse + at * size);
            raise(norm, sum_of_squares(factor, n_factors));
            raise(short_norm, sum_of_squares(terse + at * size, size));
            raise(largest, largest_place(terse + at * size, size));
        }
        norm = __builtin_sqrt(norm);
        const double scale = scale_for(__builtin_sqrt(short_norm), largest, coding.largest, coding.longest);
        double error = 0.0;
        double coded_norm = 0.0;
        int8_t* block_codes = codes + block * coding.code_size * BLOCK_ITEMS;
        for (int64_t at = 0; at < BLOCK_ITEMS; ++at) {
            double* row = terse + at * size;
            for (int64_t j = 0; at >= count && j < size; ++j) row[j] = 0.0;
            code_places(row, size, scale, places, off);
            int32_t sum = 0;
            for (int64_t j = 0; j < coding.code_size; j += 2) {
                int8_t* pair = block_codes + (j / 2 * BLOCK_ITEMS + at) * 2;
                pair[0] = static_cast<int8_t>(places[j]);
                pair[1] = static_cast<int8_t>(places[j + 1]);
                sum += places[j] + places[j + 1];
            }
            offsets[first + at] = static_cast<int16_t>(static_cast<uint16_t>(-QUERY_OFFSET * sum));
            raise(error, sum_of_squares(off, size));
            raise(coded_norm, sum_of_squares(row, size));
        }
        const double room = norm * coding.room;
        terms[block] = {norm + room, __builtin_sqrt(error) * (1.0 + 1e-6) + room + lost,
                        __builtin_sqrt(coded_norm) * (1.0 + 1e-6), scale};
    }
}
