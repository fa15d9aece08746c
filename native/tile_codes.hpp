// Codes of tile search (P14): items, centres and queries as small integers. Included by kernels.cpp, once per level.
//
// Codes are made of sketches if these are much shorter than factors, else of the factors. A score is at most the inner
// product of the sketches, so everything said here about factors also holds for sketches. Each item, and each centre of
// a tile, is coded in steps of its own scale. The integer product of a coded item and a coded query plus some slack
// bounds their inner product from above; for a centre, adding the tile's radius times the query's norm bounds every
// score in the tile. `reach` shrinks these bounds: a share `reach` of the radius is added, and a share `reach` squared
// of the slack, which matters less. With a reach of 1, answers are certified. Integer sums are the same at every level,
// so a level cannot change which items are skipped.

// Bounds stay finite, because infinities mark missing items. Written so that it takes two instructions; a NaN counts as
// large.
float finite(float bound) {
    const float at_most = bound < LARGEST_BOUND ? bound : LARGEST_BOUND;
    return at_most > -LARGEST_BOUND ? at_most : -LARGEST_BOUND;
}

// The step size of a code.
float step_of(const float* factor, int64_t n_factors, double norm, double largest_code, double longest_code) {
    float largest = 0.0f;
    for (int64_t j = 0; j < n_factors; ++j) {
        const float size = __builtin_fabsf(factor[j]);
        largest = size > largest ? size : largest;
    }
    const double by_norm = norm / longest_code;
    const double by_coordinate = static_cast<double>(largest) / largest_code;
    const float step = static_cast<float>((by_norm > by_coordinate ? by_norm : by_coordinate) * (1.0 + NORM_SPARE));
    return step > LEAST_CODE_STEP ? step : LEAST_CODE_STEP;
}

void code_tile_items(const float* factors, int64_t n, int64_t n_factors, int64_t code_size, int8_t* codes,
                     int16_t* offsets, float* scales) {
    const double longest = LONGEST_ITEM_CODE - half_steps(code_size);
    for (int64_t item = 0; item < (n + GROUP_ITEMS - 1) / GROUP_ITEMS * GROUP_ITEMS; ++item) {
        const float* factor = factors + item * n_factors;
        const bool there = item < n;
        const double norm = there ? __builtin_sqrt(sum_of_squares(factor, n_factors)) : 0.0;
        scales[item] = there ? step_of(factor, n_factors, norm, LARGEST_ITEM_CODE, longest) : 0.0f;
        const double inverse = there ? 1.0 / static_cast<double>(scales[item]) : 0.0;
        int8_t* group = codes + item / GROUP_ITEMS * GROUP_ITEMS * code_size + item % GROUP_ITEMS * 2;
        int32_t sum = 0;
        for (int64_t j = 0; j < code_size; ++j) {
            const int32_t code = there && j < n_factors ? nearest(static_cast<double>(factor[j]) * inverse) : 0;
            group[j / 2 * GROUP_ITEMS * 2 + j % 2] = static_cast<int8_t>(code);
            sum += code;
        }
        offsets[item] = static_cast<int16_t>(static_cast<uint16_t>(-QUERY_OFFSET * sum));
    }
}

void code_tile_queries(const float* queries, int64_t n_queries, int64_t n_factors, int64_t code_size, uint8_t* codes,
                       TileQueryTerms* terms) {
    const double longest = LONGEST_QUERY_CODE - half_steps(code_size);
    for (int64_t query = 0; query < n_queries; ++query) {
        const float* factor = queries + query * n_factors;
        uint8_t* code = codes + query * code_size;
        const double norm = __builtin_sqrt(sum_of_squares(factor, n_factors));
        const float scale = step_of(factor, n_factors, norm, LARGEST_QUERY_CODE, longest);
        const double inverse = 1.0 / static_cast<double>(scale);
        for (int64_t j = 0; j < n_factors; ++j)
            code[j] = static_cast<uint8_t>(nearest(static_cast<double>(factor[j]) * inverse) + QUERY_OFFSET);
        for (int64_t j = n_factors; j < code_size; ++j) code[j] = QUERY_OFFSET;
        terms[query] = {scale, static_cast<float>(norm * (1.0 + NORM_SPARE) + LEAST_NORMAL_FLOAT),
                        0.0f};  // smaller floats are less precise
    }
}

// The largest error of a product of codes, in steps: both codes are rounded, and so are scores.
float slack_of(const TileQueryTerms& terms, int64_t n_factors, int64_t code_size, double reach) {
    const double half = half_steps(code_size);
    const double norm = static_cast<double>(terms.norm) / static_cast<double>(terms.scale);
    const double strayed = half + rounding_share(n_factors) * norm;
    return static_cast<float>(reach * reach * ((norm + half) * half + LONGEST_ITEM_CODE * strayed + 1.0));
}

// Integer products of a query and the items of up to four groups.
template <int n_groups>
void group_products(const uint8_t* query, const TileCodes& items, const int32_t* groups, int16_t* products) {
    const int64_t code_size = items.code_size;
    const int8_t* codes[n_groups];
    for (int g = 0; g < n_groups; ++g) codes[g] = items.codes + groups[g] * GROUP_ITEMS * code_size;
#if defined(__AVX512BW__)
    __m512i sums[n_groups];  // of every other pair of coordinates in each half
    for (int g = 0; g < n_groups; ++g)
        sums[g] = _mm512_zextsi256_si512(
            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(items.offsets + groups[g] * GROUP_ITEMS)));
    const __m512i halves = _mm512_inserti64x4(_mm512_set1_epi16(0x0100), _mm256_set1_epi16(0x0302), 1);
    int64_t at = 0;
    for (; at + 4 <= code_size; at += 4) {
        int32_t four;
        __builtin_memcpy(&four, query + at, sizeof four);
        const __m512i factor = _mm512_shuffle_epi8(_mm512_set1_epi32(four), halves);
        for (int g = 0; g < n_groups; ++g)
            sums[g] = _mm512_add_epi16(sums[g],
                                       _mm512_maddubs_epi16(factor, _mm512_loadu_si512(codes[g] + at * GROUP_ITEMS)));
    }
    if (at < code_size) {
        int16_t both;
        __builtin_memcpy(&both, query + at, sizeof both);
        const __m512i factor = _mm512_set1_epi16(both);
        for (int g = 0; g < n_groups; ++g) {
            const __m256i last = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes[g] + at * GROUP_ITEMS));
            sums[g] = _mm512_add_epi16(sums[g], _mm512_maddubs_epi16(factor, _mm512_zextsi256_si512(last)));
        }
    }
    for (int g = 0; g < n_groups; ++g)
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(products) + g,
                            _mm256_add_epi16(_mm512_castsi512_si256(sums[g]), _mm512_extracti64x4_epi64(sums[g], 1)));
#elif defined(__AVX2__)
    __m256i sums[n_groups];
    for (int g = 0; g < n_groups; ++g)
        sums[g] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(items.offsets + groups[g] * GROUP_ITEMS));
    for (int64_t at = 0; at < code_size; at += 2) {
        int16_t both;
        __builtin_memcpy(&both, query + at, sizeof both);
        const __m256i factor = _mm256_set1_epi16(both);
        for (int g = 0; g < n_groups; ++g) {
            const __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes[g] + at * GROUP_ITEMS));
            sums[g] = _mm256_add_epi16(sums[g], _mm256_maddubs_epi16(factor, pairs));
        }
    }
    for (int g = 0; g < n_groups; ++g) _mm256_storeu_si256(reinterpret_cast<__m256i*>(products) + g, sums[g]);
#else
    for (int g = 0; g < n_groups; ++g) {
        uint16_t sums[GROUP_ITEMS];
        for (int i = 0; i < GROUP_ITEMS; ++i)
            sums[i] = static_cast<uint16_t>(items.offsets[groups[g] * GROUP_ITEMS + i]);
        for (int64_t at = 0; at < code_size; at += 2) {
            const int8_t* column = codes[g] + at * GROUP_ITEMS;
            const int32_t one = query[at];
            const int32_t two = query[at + 1];
            for (int i = 0; i < GROUP_ITEMS; ++i)
                sums[i] = static_cast<uint16_t>(sums[i] + one * column[2 * i] + two * column[2 * i + 1]);
        }
        for (int i = 0; i < GROUP_ITEMS; ++i) products[g * GROUP_ITEMS + i] = static_cast<int16_t>(sums[i]);
    }
#endif
}

// (product + slack) * the item's scale, for up to four groups: upper bounds of scores, in steps of the query's scale.
void bound_four(const TileCodes& items, const int32_t* groups, int64_t count, const uint8_t* query, float slack,
                float* bounds) {
    int16_t products[4 * GROUP_ITEMS];
    switch (count) {
        case 1:
            group_products<1>(query, items, groups, products);
            break;
        case 2:
            group_products<2>(query, items, groups, products);
            break;
        case 3:
            group_products<3>(query, items, groups, products);
            break;
        default:
            group_products<4>(query, items, groups, products);
    }
    for (int64_t g = 0; g < count; ++g) {
        const float* scales = items.scales + groups[g] * GROUP_ITEMS;
        for (int64_t i = g * GROUP_ITEMS; i < (g + 1) * GROUP_ITEMS; ++i)
            bounds[i] = finite((static_cast<float>(products[i]) + slack) * scales[i - g * GROUP_ITEMS]);
    }
}

// The bounds of the items of some groups, one group after another.
void coded_bounds(const TileCodes& items, const int32_t* groups, int64_t n_groups, const uint8_t* query, float slack,
                  float* bounds) {
    for (int64_t g = 0; g < n_groups; g += 4) {
        for (int64_t next = g + 4; next < n_groups && next < g + 8; ++next) {
            const int8_t* codes = items.codes + groups[next] * GROUP_ITEMS * items.code_size;
            for (int64_t at = 0; at < GROUP_ITEMS * items.code_size; at += 64) __builtin_prefetch(codes + at);
        }
        bound_four(items, groups + g, n_groups - g < 4 ? n_groups - g : 4, query, slack, bounds + g * GROUP_ITEMS);
    }
}

// The bounds of the items of consecutive groups.
void bounds_from(const TileCodes& items, int64_t first, int64_t n_groups, const uint8_t* query, float slack,
                 float* bounds) {
    for (int64_t g = 0; g < n_groups; g += 4) {
        const int32_t group = static_cast<int32_t>(first + g);
        const int32_t four[4] = {group, group + 1, group + 2, group + 3};
        bound_four(items, four, n_groups - g < 4 ? n_groups - g : 4, query, slack, bounds + g * GROUP_ITEMS);
    }
}

// The tile whose centre is nearest: |v - c|^2 / 2 - |v|^2 / 2 = |c|^2 / 2 - v . c.
void nearest_tiles(const TileCodes& centres, const float* halves, int64_t n_tiles, const TileQueries& queries,
                   int64_t n_queries, const int32_t* taken, float* bounds, int32_t* tiles) {
    const int64_t n_groups = (n_tiles + GROUP_ITEMS - 1) / GROUP_ITEMS;
    for (int64_t query = 0; query < n_queries; ++query) {
        bounds_from(centres, 0, n_groups, queries.codes + query * centres.code_size, 0.0f, bounds);
        const float scale = queries.terms[query].scale;
        if (taken) bounds[taken[query]] = -__builtin_inff();
        float best = -__builtin_inff();
        int32_t tile = 0;
        for (int64_t t = 0; t < n_tiles; ++t) {
            const float value = bounds[t] * scale - halves[t];
            tile = value > best ? static_cast<int32_t>(t) : tile;
            best = value > best ? value : best;
        }
        tiles[query] = tile;
    }
}
