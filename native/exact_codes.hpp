// Factors -> sketches, and codes for exact search. Included by kernels.cpp, once per level.
//
// A factor's sketch holds its coordinates along the first principal axes and the norm of the rest. Its code holds the
// sketch as small integers. Sums are computed in a fixed order, so a code does not depend on the batch.

constexpr int64_t MAX_SKETCH_SIZE = (MAX_FACTORS + 2 + 3) / 4 * 4;

// The size of a sketch: its number of coordinates rounded up to a multiple of four; the padding is zero.
int64_t sketch_size(int64_t code_size) {
    return (code_size + 3) / 4 * 4;
}

// The largest distance between a code and the vector it represents, in steps.
double half_steps(int64_t code_size) {
    return 0.5 * __builtin_sqrt(static_cast<double>(code_size));
}

// The last coordinate of a sketch: an upper bound of the norm of the coordinates that are not in the head.
void add_tail(const float* factor, int64_t n_factors, int64_t n_head, double spare, double lost, int64_t size,
              double* sketch) {
    for (int64_t j = n_head; j < size; ++j) sketch[j] = 0.0;
    if (n_head == n_factors) return;
    const double rest = sum_of_squares(factor, n_factors) * (1.0 + spare) - sum_of_squares(sketch, size);
    sketch[n_head] = (rest > 0.0 ? __builtin_sqrt(rest) : 0.0) + lost;
}

// The largest magnitude of a coordinate; size is a multiple of four.
double largest_coordinate(const double* sketch, int64_t size) {
    Doubles most{};
    for (int64_t j = 0; j < size; j += 4) {
        Doubles four;
        __builtin_memcpy(&four, sketch + j, sizeof four);
        four = four < 0.0 ? -four : four;
        most = four > most ? four : most;
    }
    const double a = most[0] > most[1] ? most[0] : most[1];
    const double b = most[2] > most[3] ? most[2] : most[3];
    return a > b ? a : b;
}

// The step size of a code such that no coordinate and no norm of the code is too large.
double scale_for(double norm, double largest, double largest_code, double longest_code) {
    const double by_norm = norm / longest_code;
    const double by_coordinate = largest / largest_code;
    const double scale = by_norm > by_coordinate ? by_norm : by_coordinate;
    return scale > LEAST_SCALE ? scale : 1.0;
}

// Rounds a sketch to steps of `scale`; `codes` takes the integers, `errors` the differences.
void code_sketch(double* sketch, int64_t size, double scale, int32_t* codes, double* errors) {
    const double inverse = 1.0 / scale;
    for (int64_t j = 0; j < size; ++j) codes[j] = nearest(sketch[j] * inverse);
    for (int64_t j = 0; j < size; ++j) {
        const double coded = static_cast<double>(codes[j]) * scale;
        errors[j] = sketch[j] - coded;
        sketch[j] = coded;
    }
}

// Sketches in float. The tail has a margin for the rounding.
void sketch(const float* factors, int64_t n, int64_t n_factors, const Axes& axes, double* scratch, float* sketches) {
    const int64_t size = sketch_size(axes.code_size);
    const double lost = __builtin_sqrt(static_cast<double>(n_factors)) * UNDERFLOW_LOSS;
    double* rotated = scratch + ROTATED_TOGETHER * n_factors;
    for (int64_t i = 0; i < n; ++i) {
        const float* factor = factors + i * n_factors;
        double* own = rotated + i % ROTATED_TOGETHER * size;
        float* rounded = sketches + i * (axes.n_head + 1);
        if (i % ROTATED_TOGETHER == 0) {
            const int64_t count = n - i < ROTATED_TOGETHER ? n - i : ROTATED_TOGETHER;
            rotate(factor, count, n_factors, axes.head, axes.n_head, scratch, size, rotated);
        }
        for (int64_t j = 0; j < axes.n_head; ++j) own[j] = rounded[j] = static_cast<float>(own[j]);
        add_tail(factor, n_factors, axes.n_head, ROUNDED_ROTATION_SPARE, lost, size, own);
        rounded[axes.n_head] = static_cast<float>(own[axes.n_head] * (1.0 + NORM_SPARE) + LEAST_NORMAL_FLOAT);
    }
}

void code_exact_queries(const float* queries, int64_t n_queries, int64_t n_factors, const Axes& axes, double* scratch,
                        uint8_t* codes, ExactQueryTerms* terms) {
    const int64_t size = sketch_size(axes.code_size);
    double* sketches = scratch + ROTATED_TOGETHER * n_factors;
    int32_t whole[MAX_SKETCH_SIZE];
    double errors[MAX_SKETCH_SIZE];
    for (int64_t query = 0; query < n_queries; ++query) {
        double* sketch = sketches + query % ROTATED_TOGETHER * size;
        if (query % ROTATED_TOGETHER == 0) {
            const int64_t count = n_queries - query < ROTATED_TOGETHER ? n_queries - query : ROTATED_TOGETHER;
            rotate(queries + query * n_factors, count, n_factors, axes.head, axes.n_head, scratch, size, sketches);
        }
        add_tail(queries + query * n_factors, n_factors, axes.n_head, ROTATION_SPARE, 0.0, size, sketch);
        const double norm = __builtin_sqrt(sum_of_squares(sketch, size));
        const double tail = axes.n_head < n_factors ? sketch[axes.n_head] : 0.0;
        const double scale = scale_for(norm, largest_coordinate(sketch, size), LARGEST_QUERY_CODE,
                                       LONGEST_QUERY_CODE - half_steps(axes.code_size));
        code_sketch(sketch, size, scale, whole, errors);
        for (int64_t j = 0; j < axes.code_size; ++j)
            codes[query * axes.code_size + j] = static_cast<uint8_t>(whole[j] + QUERY_OFFSET);
        const double error = __builtin_sqrt(sum_of_squares(errors, size));
        terms[query] = {norm * (1.0 + NORM_SPARE), error * (1.0 + NORM_SPARE), scale, tail * (1.0 + NORM_SPARE)};
    }
}

// A block's codes are stored as a scan reads them: in pairs of coordinates, and for each pair item by item. Rotated
// factors are rounded to float; the tail and the terms have a margin for that.
void code_items(const float* factors, const float* rotated, int64_t n_items, int64_t n_factors, int64_t n_head,
                double* sketches, int8_t* codes, int16_t* offsets, BlockTerms* terms) {
    const int64_t code_size = exact_code_size(n_head, n_factors);
    const int64_t size = sketch_size(code_size);
    const double lost = __builtin_sqrt(static_cast<double>(n_factors)) * UNDERFLOW_LOSS;
    const double share = rounding_share(n_factors);
    const auto raise = [](double& most, double value) { most = value > most ? value : most; };
    int32_t whole[MAX_SKETCH_SIZE];
    double errors[MAX_SKETCH_SIZE];
    for (int64_t first = 0; first < n_items; first += BLOCK_ITEMS) {
        const int64_t block = first / BLOCK_ITEMS;
        const int64_t count = n_items - first < BLOCK_ITEMS ? n_items - first : BLOCK_ITEMS;
        double norm = 0.0;
        double sketch_norm = 0.0;
        double largest = 0.0;
        double tail = 0.0;
        for (int64_t at = 0; at < count; ++at) {
            const float* factor = factors + (first + at) * n_factors;
            double* sketch = sketches + at * size;
            for (int64_t j = 0; j < n_head; ++j) sketch[j] = rotated[(first + at) * n_factors + j];
            add_tail(factor, n_factors, n_head, ROUNDED_ROTATION_SPARE, lost, size, sketch);
            raise(norm, sum_of_squares(factor, n_factors));
            raise(sketch_norm, sum_of_squares(sketch, size));
            raise(largest, largest_coordinate(sketch, size));
            if (n_head < n_factors) raise(tail, sketch[n_head]);
        }
        norm = __builtin_sqrt(norm);
        const double scale = scale_for(__builtin_sqrt(sketch_norm), largest, LARGEST_ITEM_CODE,
                                       LONGEST_ITEM_CODE - half_steps(code_size));
        double error = 0.0;
        double coded_norm = 0.0;
        int8_t* block_codes = codes + block * code_size * BLOCK_ITEMS;
        for (int64_t at = 0; at < BLOCK_ITEMS; ++at) {
            double* sketch = sketches + at * size;
            for (int64_t j = 0; at >= count && j < size; ++j) sketch[j] = 0.0;
            code_sketch(sketch, size, scale, whole, errors);
            int32_t sum = 0;
            for (int64_t j = 0; j < code_size; j += 2) {
                int8_t* pair = block_codes + (j / 2 * BLOCK_ITEMS + at) * 2;
                pair[0] = static_cast<int8_t>(whole[j]);
                pair[1] = static_cast<int8_t>(whole[j + 1]);
                sum += whole[j] + whole[j + 1];
            }
            offsets[first + at] = static_cast<int16_t>(static_cast<uint16_t>(-QUERY_OFFSET * sum));
            raise(error, sum_of_squares(errors, size));
            raise(coded_norm, sum_of_squares(sketch, size));
        }
        const double room = norm * share;
        terms[block] = {norm + room, __builtin_sqrt(error) * (1.0 + NORM_SPARE) + room + lost,
                        __builtin_sqrt(coded_norm) * (1.0 + NORM_SPARE), scale, tail * (1.0 + NORM_SPARE)};
    }
}
