// Sums in a fixed order, so that neither a level nor a batch changes them. Included by kernels.cpp, once a level.

typedef double Doubles __attribute__((vector_size(32)));

// Sum of squares in 16 fixed stripes folded in a fixed order.
double sum_of_squares(const float* values, int64_t n) {
    double stripes[16] = {};
    int64_t j = 0;
    for (; j + 16 <= n; j += 16)
        for (int l = 0; l < 16; ++l)
            stripes[l] += static_cast<double>(values[j + l]) * static_cast<double>(values[j + l]);
    for (int l = 0; j + l < n; ++l)
        stripes[l] += static_cast<double>(values[j + l]) * static_cast<double>(values[j + l]);
    for (int half = 8; half > 0; half /= 2)
        for (int l = 0; l < half; ++l) stripes[l] += stripes[l + half];
    return stripes[0];
}

// The same of doubles in four stripes; n is a multiple of four.
double sum_of_squares(const double* values, int64_t n) {
    Doubles sums{};
    for (int64_t j = 0; j < n; j += 4) {
        Doubles four;
        __builtin_memcpy(&four, values + j, sizeof four);
        sums += four * four;
    }
    return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}

// The score of an item: a sum of products in 16 fixed stripes folded in a fixed order.
float score_of(const float* query, const float* item, int64_t n_factors) {
    float stripes[16] = {};
    int64_t j = 0;
    for (; j + 16 <= n_factors; j += 16)
        for (int l = 0; l < 16; ++l) stripes[l] += query[j + l] * item[j + l];
    for (int l = 0; j + l < n_factors; ++l) stripes[l] += query[j + l] * item[j + l];
    for (int half = 8; half > 0; half /= 2)
        for (int l = 0; l < half; ++l) stripes[l] += stripes[l + half];
    return stripes[0];
}

void inner_products(const float* queries, int64_t n_queries, const float* items, int64_t n_items, int64_t n_factors,
                    float* products) {
    for (int64_t query = 0; query < n_queries; ++query)
        for (int64_t item = 0; item < n_items; ++item)
            products[query * n_items + item] =
                score_of(queries + query * n_factors, items + item * n_factors, n_factors);
}

int32_t nearest(double value) {
    return static_cast<int32_t>(value < 0.0 ? value - 0.5 : value + 0.5);
}

uint32_t bits_of(float value) {
    uint32_t bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
}

// A number that is larger for a larger float.
uint32_t rising_bits(float value) {
    const uint32_t bits = bits_of(value);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

int64_t first_refused(const float* queries, int64_t n_queries, int64_t n_factors, double longest) {
    for (int64_t query = 0; query < n_queries; ++query) {
        const double norm = __builtin_sqrt(sum_of_squares(queries + query * n_factors, n_factors));
        if (!(norm <= LARGEST_NORM && norm * longest <= LARGEST_PRODUCT)) return query;  // nor is a NaN
    }
    return n_queries;
}
