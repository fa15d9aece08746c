// Sums in a fixed order, which depends neither on the level nor on the batch. Included by kernels.cpp, once per level.

typedef double Doubles __attribute__((vector_size(32)));
typedef float FourFloats __attribute__((vector_size(16)));
typedef float EightFloats __attribute__((vector_size(32), aligned(4), may_alias));

template <typename Vector, typename Item>
Vector loaded(const Item* values) {
    Vector vector;
    __builtin_memcpy(&vector, values, sizeof vector);
    return vector;
}

// The first n of eight floats, with zeros for the others.
EightFloats loaded_part(const float* values, int64_t n) {
#if defined(__AVX2__)
    static const int32_t MASKS[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
    const int64_t first = n < 8 ? 8 - n : 0;
    const __m256i mask = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(MASKS + first));
    return (EightFloats)_mm256_maskload_ps(values, mask);
#else
    EightFloats part{};
    for (int64_t l = 0; l < n && l < 8; ++l) part[l] = values[l];
    return part;
#endif
}

// Sum of squares in 16 fixed stripes folded in a fixed order. Stripes beyond the end get zeros, which change nothing.
double sum_of_squares(const float* values, int64_t n) {
    Doubles stripes[4] = {};
    const auto add = [&stripes](const float* from) {
        for (int i = 0; i < 4; ++i) {
            const Doubles wide = __builtin_convertvector(loaded<FourFloats>(from + 4 * i), Doubles);
            stripes[i] += wide * wide;
        }
    };
    int64_t j = 0;
    for (; j + 16 <= n; j += 16) add(values + j);
    if (j < n) {
        float rest[16] = {};
        for (int l = 0; j + l < n; ++l) rest[l] = values[j + l];
        add(rest);
    }
    const Doubles four = (stripes[0] + stripes[2]) + (stripes[1] + stripes[3]);
    return (four[0] + four[2]) + (four[1] + four[3]);
}

// Sum of squares of doubles in four stripes; n is a multiple of four.
double sum_of_squares(const double* values, int64_t n) {
    Doubles sums{};
    for (int64_t j = 0; j < n; j += 4) {
        const Doubles four = loaded<Doubles>(values + j);
        sums += four * four;
    }
    return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}

// The score of an item: a sum of products in 16 fixed stripes folded in a fixed order.
float score_of(const float* query, const float* item, int64_t n_factors) {
#if defined(__AVX512F__)
    __m512 stripes = _mm512_setzero_ps();
    int64_t j = 0;
    for (; j + 16 <= n_factors; j += 16) stripes += _mm512_loadu_ps(query + j) * _mm512_loadu_ps(item + j);
    if (j < n_factors) {  // stripes beyond the end get zeros, which change nothing
        const __mmask16 left = static_cast<__mmask16>((1u << (n_factors - j)) - 1);
        stripes += _mm512_maskz_loadu_ps(left, query + j) * _mm512_maskz_loadu_ps(left, item + j);
    }
    const EightFloats eight =
        (EightFloats)_mm512_castps512_ps256(stripes) + (EightFloats)_mm512_extractf32x8_ps(stripes, 1);
#else
    EightFloats first{};
    EightFloats second{};
    int64_t j = 0;
    for (; j + 16 <= n_factors; j += 16) {
        first += loaded<EightFloats>(query + j) * loaded<EightFloats>(item + j);
        second += loaded<EightFloats>(query + j + 8) * loaded<EightFloats>(item + j + 8);
    }
    if (j < n_factors) {  // stripes beyond the end get zeros, which change nothing
        first += loaded_part(query + j, n_factors - j) * loaded_part(item + j, n_factors - j);
        if (j + 8 < n_factors)
            second += loaded_part(query + j + 8, n_factors - j - 8) * loaded_part(item + j + 8, n_factors - j - 8);
    }
    const EightFloats eight = first + second;
#endif
    const float* halves = reinterpret_cast<const float*>(&eight);
    const FourFloats four = loaded<FourFloats>(halves) + loaded<FourFloats>(halves + 4);
    return (four[0] + four[2]) + (four[1] + four[3]);
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

// An unsigned integer that sorts like the float.
uint32_t rising_bits(float value) {
    const uint32_t bits = bits_of(value);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

int64_t first_refused(const float* queries, int64_t n_queries, int64_t n_factors, double longest) {
    for (int64_t query = 0; query < n_queries; ++query) {
        const double norm = __builtin_sqrt(sum_of_squares(queries + query * n_factors, n_factors));
        if (!(norm <= LARGEST_NORM && norm * longest <= LARGEST_PRODUCT)) return query;  // a NaN fails both
    }
    return n_queries;
}
