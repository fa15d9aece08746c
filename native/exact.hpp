// Certified exact search: queries -> the true top k. Included by kernels.cpp, once a level.
//
// Items lie in blocks of 64 in order of falling norm. Each has a code of small integers: its first principal
// coordinates and the norm of the rest, so that for a query coded alike, code product + slack bounds the score from
// above. An item whose bound is below the k-th best score is left out; the others are scored. Codes are integers and
// sums wrap around, so a level cannot change what is left out.

// Sum of products in 16 fixed stripes folded in a fixed order: the score of an item.
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

// The best answers of one query so far, worst first: a heap by (score, then earlier row).
struct Best {
    float* scores;
    int64_t* rows;
    int64_t count;
    int64_t k;
};

bool worse(float score, int64_t row, float other_score, int64_t other_row) {
    return score < other_score || (score == other_score && row > other_row);
}

void sift_down(const Best& best, int64_t at) {
    const float score = best.scores[at];
    const int64_t row = best.rows[at];
    while (true) {
        int64_t child = 2 * at + 1;
        if (child >= best.count) break;
        if (child + 1 < best.count &&
            worse(best.scores[child + 1], best.rows[child + 1], best.scores[child], best.rows[child]))
            ++child;
        if (!worse(best.scores[child], best.rows[child], score, row)) break;
        best.scores[at] = best.scores[child];
        best.rows[at] = best.rows[child];
        at = child;
    }
    best.scores[at] = score;
    best.rows[at] = row;
}

void sift_up(const Best& best, int64_t at) {
    const float score = best.scores[at];
    const int64_t row = best.rows[at];
    while (at > 0) {
        const int64_t parent = (at - 1) / 2;
        if (!worse(score, row, best.scores[parent], best.rows[parent])) break;
        best.scores[at] = best.scores[parent];
        best.rows[at] = best.rows[parent];
        at = parent;
    }
    best.scores[at] = score;
    best.rows[at] = row;
}

void keep(Best& best, float score, int64_t row) {
    if (best.count < best.k) {
        best.scores[best.count] = score;
        best.rows[best.count] = row;
        sift_up(best, best.count++);
    } else if (worse(best.scores[0], best.rows[0], score, row)) {
        best.scores[0] = score;
        best.rows[0] = row;
        sift_down(best, 0);
    }
}

// From a heap to best first.
void sort_best(Best best) {
    while (best.count > 1) {
        const int64_t last = --best.count;
        const float score = best.scores[0];
        const int64_t row = best.rows[0];
        best.scores[0] = best.scores[last];
        best.rows[0] = best.rows[last];
        best.scores[last] = score;
        best.rows[last] = row;
        sift_down(best, 0);
    }
}

void sort_found(const BestArrays& found, int64_t n_queries) {
    for (int64_t query = 0; query < n_queries; ++query)
        sort_best({found.scores + query * found.k, found.rows + query * found.k, found.counts[query], found.k});
}

// Short vectors of queries, coded, with the terms of their bounds widened for rounding. Sums go in a fixed order, so a
// query's code does not depend on the batch it came in.
void code_queries(const float* queries, int64_t n_queries, int64_t n_factors, const QueryCoding& coding, double* terse,
                  uint8_t* codes, QueryTerms* terms) {
    for (int64_t query = 0; query < n_queries; ++query) {
        const float* factor = queries + query * n_factors;
        for (int64_t j = 0; j < coding.code_size; ++j) terse[j] = 0.0;
        for (int64_t i = 0; i < n_factors; ++i) {
            const double z = factor[i];
            const double* axis = coding.head + i * coding.n_head;
            for (int64_t j = 0; j < coding.n_head; ++j) terse[j] += z * axis[j];
        }
        double squares = 0.0;
        double largest_place = 0.0;
        for (int64_t j = 0; j < coding.n_head; ++j) squares += terse[j] * terse[j];
        if (coding.n_head < n_factors) {
            const double rest = sum_of_squares(factor, n_factors) * (1.0 + 1e-11) - squares;
            terse[coding.n_head] = rest > 0.0 ? __builtin_sqrt(rest) : 0.0;
            squares += terse[coding.n_head] * terse[coding.n_head];
        }
        for (int64_t j = 0; j < coding.code_size; ++j)
            largest_place = __builtin_fabs(terse[j]) > largest_place ? __builtin_fabs(terse[j]) : largest_place;
        const double norm = __builtin_sqrt(squares);
        double scale = norm / coding.longest > largest_place / coding.largest ? norm / coding.longest
                                                                              : largest_place / coding.largest;
        scale = scale > 0.0 ? scale : 1.0;
        double error = 0.0;
        for (int64_t j = 0; j < coding.code_size; ++j) {
            const double exact = terse[j] / scale;
            const int32_t code = static_cast<int32_t>(exact < 0.0 ? exact - 0.5 : exact + 0.5);
            const double off = terse[j] - static_cast<double>(code) * scale;
            error += off * off;
            codes[query * coding.code_size + j] = static_cast<uint8_t>(code + QUERY_OFFSET);
        }
        terms[query] = {norm * (1.0 + 1e-6), __builtin_sqrt(error) * (1.0 + 1e-6), scale};
    }
}

// The code products of a block's 64 items.
void code_products(const uint8_t* query, const int8_t* codes, const int16_t* offsets, int64_t code_size,
                   int16_t* products) {
#if defined(__AVX2__)
    const __m256i* start = reinterpret_cast<const __m256i*>(offsets);
    __m256i a = _mm256_loadu_si256(start);  // four variables, not an array, so that they stay in registers
    __m256i b = _mm256_loadu_si256(start + 1);
    __m256i c = _mm256_loadu_si256(start + 2);
    __m256i d = _mm256_loadu_si256(start + 3);
    const __m256i* column = reinterpret_cast<const __m256i*>(codes);
    for (int64_t at = 0; at < code_size; at += 2, column += 4) {
        int16_t both;
        __builtin_memcpy(&both, query + at, sizeof both);
        const __m256i factor = _mm256_set1_epi16(both);
        a = _mm256_add_epi16(a, _mm256_maddubs_epi16(factor, _mm256_loadu_si256(column)));
        b = _mm256_add_epi16(b, _mm256_maddubs_epi16(factor, _mm256_loadu_si256(column + 1)));
        c = _mm256_add_epi16(c, _mm256_maddubs_epi16(factor, _mm256_loadu_si256(column + 2)));
        d = _mm256_add_epi16(d, _mm256_maddubs_epi16(factor, _mm256_loadu_si256(column + 3)));
    }
    __m256i* to = reinterpret_cast<__m256i*>(products);
    _mm256_store_si256(to, a);
    _mm256_store_si256(to + 1, b);
    _mm256_store_si256(to + 2, c);
    _mm256_store_si256(to + 3, d);
#else
    uint16_t sums[BLOCK_ITEMS];
    for (int i = 0; i < BLOCK_ITEMS; ++i) sums[i] = static_cast<uint16_t>(offsets[i]);
    for (int64_t at = 0; at < code_size; at += 2) {
        const int8_t* column = codes + at * BLOCK_ITEMS;
        const int32_t one = query[at];
        const int32_t two = query[at + 1];
        for (int i = 0; i < BLOCK_ITEMS; ++i)
            sums[i] = static_cast<uint16_t>(sums[i] + one * column[2 * i] + two * column[2 * i + 1]);
    }
    for (int i = 0; i < BLOCK_ITEMS; ++i) products[i] = static_cast<int16_t>(sums[i]);
#endif
}

// Which of them are at least `limit`, as bits.
uint64_t reaching(const int16_t* products, int32_t limit) {
    if (limit <= -32768) return ~uint64_t{0};
    if (limit > 32767) return 0;
    uint64_t found = 0;
#if defined(__AVX2__)
    const __m256i bar = _mm256_set1_epi16(static_cast<int16_t>(limit - 1));
    const __m256i* sums = reinterpret_cast<const __m256i*>(products);
    for (int v = 0; v < 4; v += 2) {
        const __m256i packed =
            _mm256_permute4x64_epi64(_mm256_packs_epi16(_mm256_cmpgt_epi16(_mm256_load_si256(sums + v), bar),
                                                        _mm256_cmpgt_epi16(_mm256_load_si256(sums + v + 1), bar)),
                                     0xd8);
        found |= static_cast<uint64_t>(static_cast<uint32_t>(_mm256_movemask_epi8(packed))) << (16 * v);
    }
#else
    for (int i = 0; i < BLOCK_ITEMS; ++i) found |= static_cast<uint64_t>(products[i] >= limit) << i;
#endif
    return found;
}

int16_t largest(const int16_t* products) {
#if defined(__AVX2__)
    const __m256i* sums = reinterpret_cast<const __m256i*>(products);
    const __m256i most = _mm256_max_epi16(_mm256_max_epi16(_mm256_load_si256(sums), _mm256_load_si256(sums + 1)),
                                          _mm256_max_epi16(_mm256_load_si256(sums + 2), _mm256_load_si256(sums + 3)));
    const __m128i half = _mm_max_epi16(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
    // There is an instruction for the least of eight unsigned numbers: turn the order around.
    const __m128i turned = _mm_xor_si128(half, _mm_set1_epi16(0x7fff));
    return static_cast<int16_t>(_mm_extract_epi16(_mm_minpos_epu16(turned), 0) ^ 0x7fff);
#else
    int16_t most = products[0];
    for (int i = 1; i < BLOCK_ITEMS; ++i) most = products[i] > most ? products[i] : most;
    return most;
#endif
}

bool contains(const int64_t* sorted, int64_t n, int64_t value) {
    while (n > 0) {
        const int64_t half = n / 2;
        if (sorted[half] == value) return true;
        if (sorted[half] < value) {
            sorted += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return false;
}

// Whether an item is there and may be an answer to any query.
bool present(const ExactItems& items, const ExactQueries& queries, int64_t place) {
    const int64_t row = items.rows[place];
    if (items.dead && (items.dead[place / 8] >> (place % 8) & 1)) return false;
    return !queries.allowed || (queries.allowed[row / 8] >> (row % 8) & 1);
}

// Whether one query leaves an item out.
bool is_excluded(const ExactQueries& queries, int64_t query, int64_t row) {
    const int64_t first = queries.excluded_starts[query];
    const int64_t n = queries.excluded_starts[query + 1] - first;
    return n > 0 && contains(queries.excluded + first, n, row);
}

// One query and the blocks of one stretch.
struct Stretch {
    int64_t first;
    int64_t n_blocks;
    alignas(64) int16_t products[STRETCH_BLOCKS][BLOCK_ITEMS];
    int32_t done[STRETCH_BLOCKS];         // products of at least this have been dealt with
    uint64_t candidates[STRETCH_BLOCKS];  // items to score next, as bits
};

// Marks the items of a block with products of at least `limit` that have not been dealt with, and has their factors on
// the way from memory by the time they are scored.
void mark(const ExactItems& items, Stretch& stretch, int64_t block, int32_t limit) {
    const int16_t* products = stretch.products[block];
    uint64_t found = reaching(products, limit);
    if (found && stretch.done[block] <= 32767) found &= ~reaching(products, stretch.done[block]);
    const int64_t first = (stretch.first + block) * BLOCK_ITEMS;
    if (items.n_items - first < BLOCK_ITEMS) found &= (uint64_t{1} << (items.n_items - first)) - 1;
    stretch.candidates[block] = found;
    for (; found; found &= found - 1) {
        const float* item = items.factors + (first + __builtin_ctzll(found)) * items.n_factors;
        for (int64_t j = 0; j < items.n_factors && j < 128; j += 16) __builtin_prefetch(item + j);
    }
}

// Scores the marked items of a block with products of at least `limit`, which may have risen since they were marked.
void score_marked(const ExactItems& items, const ExactQueries& queries, int64_t query, const Stretch& stretch,
                  int64_t block, int32_t limit, Best& best, int64_t& scored) {
    const float* factor = queries.factors + query * items.n_factors;
    for (uint64_t left = stretch.candidates[block]; left; left &= left - 1) {
        const int64_t at = __builtin_ctzll(left);
        const int64_t place = (stretch.first + block) * BLOCK_ITEMS + at;
        if (stretch.products[block][at] < limit || !present(items, queries, place)) continue;
        const int64_t row = items.rows[place];
        const float score = score_of(factor, items.factors + place * items.n_factors, items.n_factors);
        ++scored;
        if (best.count == best.k && !worse(best.scores[0], best.rows[0], score, row)) continue;
        if (!is_excluded(queries, query, row)) keep(best, score, row);
    }
}

int32_t clamped(double limit) {
    return limit > 40000.0 ? 40000 : limit < -32768.0 ? -32768 : static_cast<int32_t>(limit);
}

// While there are fewer than k answers nothing can be left out, so the items that promise most are scored first: those
// that reach what the best of so many blocks reach, then of twice as many, until there are k.
void score_promising(const ExactItems& items, const ExactQueries& queries, int64_t query, Stretch& stretch, Best& best,
                     int64_t& scored) {
    double promises[STRETCH_BLOCKS];
    for (int64_t block = 0; block < stretch.n_blocks; ++block)
        promises[block] =
            items.terms[stretch.first + block].scale * static_cast<double>(largest(stretch.products[block]));
    for (int64_t block = 1; block < stretch.n_blocks; ++block) {  // few, and nearly in order: the longest come first
        const double promise = promises[block];
        int64_t at = block;
        for (; at > 0 && promises[at - 1] < promise; --at) promises[at] = promises[at - 1];
        promises[at] = promise;
    }
    for (int64_t deep = best.k - best.count + 1; best.count < best.k && deep < stretch.n_blocks; deep *= 2) {
        int32_t limits[STRETCH_BLOCKS];
        for (int64_t block = 0; block < stretch.n_blocks; ++block) {
            limits[block] = clamped(promises[deep] / items.terms[stretch.first + block].scale);
            mark(items, stretch, block, limits[block]);
        }
        for (int64_t block = 0; block < stretch.n_blocks; ++block) {
            score_marked(items, queries, query, stretch, block, limits[block], best, scored);
            stretch.done[block] = limits[block] < stretch.done[block] ? limits[block] : stretch.done[block];
        }
    }
}

// Returns false when no later block can hold an answer.
bool scan_stretch(const ExactItems& items, const ExactQueries& queries, int64_t query, Stretch& stretch, Best& best,
                  int64_t& scored) {
    const QueryTerms& terms = queries.terms[query];
    const double underflow = static_cast<double>(items.n_factors) * 0x1p-148;  // what products may lose near zero
    const auto too_short = [&](int64_t block) {
        return best.count == best.k &&
               terms.norm * items.terms[block].norm + underflow < static_cast<double>(best.scores[0]);
    };
    const auto limit = [&](int64_t block) {
        const BlockTerms& bounds = items.terms[stretch.first + block];
        if (best.count < best.k) return -32768;
        const double slack = terms.norm * bounds.error + terms.error * bounds.coded_norm + underflow;
        return clamped((static_cast<double>(best.scores[0]) - slack) / (terms.scale * bounds.scale));
    };
    const bool filling = best.count < best.k;
    bool more = true;
    int64_t n_blocks = 0;
    for (; n_blocks < stretch.n_blocks; ++n_blocks) {
        const int64_t block = stretch.first + n_blocks;
        more = !too_short(block);
        if (!more) break;
        code_products(queries.codes + query * items.code_size, items.codes + block * items.code_size * BLOCK_ITEMS,
                      items.offsets + block * BLOCK_ITEMS, items.code_size, stretch.products[n_blocks]);
        stretch.done[n_blocks] = 40000;
        if (!filling) mark(items, stretch, n_blocks, limit(n_blocks));
    }
    stretch.n_blocks = n_blocks;
    if (filling) {
        score_promising(items, queries, query, stretch, best, scored);
        for (int64_t block = 0; block < n_blocks; ++block) mark(items, stretch, block, limit(block));
    }
    for (int64_t block = 0; block < n_blocks; ++block)
        if (stretch.candidates[block]) score_marked(items, queries, query, stretch, block, limit(block), best, scored);
    return more;
}

// A stretch of blocks small enough for the cache goes past all queries before the next.
void exact_scan(const ExactItems& items, const ExactQueries& queries, const BestArrays& found) {
    const int64_t n_blocks = (items.n_items + BLOCK_ITEMS - 1) / BLOCK_ITEMS;
    Stretch stretch;
    for (int64_t query = 0; query < queries.n_queries; ++query) found.open[query] = 1;
    for (int64_t first = 0; first < n_blocks; first += STRETCH_BLOCKS)
        for (int64_t query = 0; query < queries.n_queries; ++query) {
            if (!found.open[query]) continue;
            Best best = {found.scores + query * found.k, found.rows + query * found.k, found.counts[query], found.k};
            stretch.first = first;
            stretch.n_blocks = n_blocks - first < STRETCH_BLOCKS ? n_blocks - first : STRETCH_BLOCKS;
            found.open[query] = scan_stretch(items, queries, query, stretch, best, found.scored[query]);
            found.counts[query] = best.count;
        }
}
