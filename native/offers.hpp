// Offers: an item that may answer a query is scored and, if it is among the best so far, kept. Included by kernels.cpp,
// once per level.

// The index of a value in an ascending array, or -1.
int64_t index_of(const int64_t* values, int64_t low, int64_t high, int64_t value) {
    const int64_t end = high;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (values[middle] < value)
            low = middle + 1;
        else
            high = middle;
    }
    return low < end && values[low] == value ? low : -1;
}

// Whether the item at a position is live and passes the filter that all queries share.
bool may_answer_any(const Items& items, const RowFilter& filter, int64_t position) {
    if (items.removed && has_bit(items.removed, position)) return false;
    return !filter.allowed || has_bit(filter.allowed, items.rows[position]);
}

// Whether one query excludes a row.
bool is_excluded(const RowFilter& filter, int64_t query, int64_t row) {
    if (!filter.excluded_starts) return false;
    return index_of(filter.excluded, filter.excluded_starts[query], filter.excluded_starts[query + 1], row) >= 0;
}

// Prefetches an item's factor, or the first part of a long one.
void prefetch(const Items& items, int64_t position) {
    const float* item = items.factors + position * items.n_factors;
    for (int64_t j = 0; j < items.n_factors && j < 128; j += 16) __builtin_prefetch(item + j);
}

// Scores the item at a position and keeps it if it may answer and is among the best so far; returns whether it was
// kept. If items may be `repeated`, it is first looked up among the answers.
bool offer(const Items& items, const Queries& queries, int64_t query, int64_t position, bool repeated, Heap& heap,
           int64_t& n_scored) {
    if (!may_answer_any(items, queries.filter, position)) return false;
    const int64_t rank = rank_of(items.rows[position], items.base + position);
    const float* factor = queries.factors + query * items.n_factors;
    const float score = score_of(factor, items.factors + position * items.n_factors, items.n_factors);
    ++n_scored;
    if (!is_wanted(heap, score, rank) || is_excluded(queries.filter, query, row_of(rank))) return false;
    for (int64_t i = 0; repeated && i < heap.count; ++i)
        if (heap.ranks[i] == rank) return false;
    keep(heap, score, rank);
    return true;
}

// The scores of four items, summed in the same order as by score_of.
void score_four(const float* query, const float* const* items, int64_t n_factors, float* scores) {
    EightFloats first[4] = {};
    EightFloats second[4] = {};
    int64_t j = 0;
    for (; j + 16 <= n_factors; j += 16) {
        const EightFloats low = loaded<EightFloats>(query + j);
        const EightFloats high = loaded<EightFloats>(query + j + 8);
        for (int i = 0; i < 4; ++i) {
            first[i] += low * loaded<EightFloats>(items[i] + j);
            second[i] += high * loaded<EightFloats>(items[i] + j + 8);
        }
    }
    if (j < n_factors) {
        const EightFloats low = loaded_part(query + j, n_factors - j);
        for (int i = 0; i < 4; ++i) first[i] += low * loaded_part(items[i] + j, n_factors - j);
    }
    if (j + 8 < n_factors) {
        const EightFloats high = loaded_part(query + j + 8, n_factors - j - 8);
        for (int i = 0; i < 4; ++i) second[i] += high * loaded_part(items[i] + j + 8, n_factors - j - 8);
    }
    FourFloats four[4];
    for (int i = 0; i < 4; ++i) {
        const EightFloats eight = first[i] + second[i];
        const float* halves = reinterpret_cast<const float*>(&eight);
        four[i] = loaded<FourFloats>(halves) + loaded<FourFloats>(halves + 4);
    }
#if defined(__AVX2__)
    __m128 a = (__m128)four[0], b = (__m128)four[1], c = (__m128)four[2], d = (__m128)four[3];
    _MM_TRANSPOSE4_PS(a, b, c, d);
    _mm_storeu_ps(scores, _mm_add_ps(_mm_add_ps(a, c), _mm_add_ps(b, d)));
#else
    for (int i = 0; i < 4; ++i) scores[i] = (four[i][0] + four[i][2]) + (four[i][1] + four[i][3]);
#endif
}

typedef int32_t EightInts __attribute__((vector_size(32)));

// Some items in order of their rows, few enough for the L1 cache.
struct Handful {
    static constexpr int64_t MOST = 64;
    const float* factors[MOST];
    int64_t ranks[MOST];
    int64_t n;
    uint64_t marks[16];  // a bit for each row, modulo 1,024

    // The index of a row, or -1. Most rows are not there, and most of these have no mark.
    int64_t find(int64_t row) const {
        if (!(marks[row >> 6 & 15] >> (row & 63) & 1)) return -1;
        int64_t at = 0;
        while (at < n && row_of(ranks[at]) < row) ++at;
        return at < n && row_of(ranks[at]) == row ? at : -1;
    }
};

// Collects the items at some positions, at most a handful, that pass the filter shared by all queries.
void take_handful(const Items& items, const int32_t* positions, int64_t n_positions, const RowFilter& filter,
                  Handful& handful) {
    handful.n = 0;
    for (uint64_t& each : handful.marks) each = 0;
    for (int64_t i = 0; i < n_positions; ++i) {
        if (!may_answer_any(items, filter, positions[i])) continue;
        prefetch(items, positions[i]);
        const int64_t row = items.rows[positions[i]];
        const int64_t rank = rank_of(row, items.base + positions[i]);
        int64_t at = handful.n++;
        for (; at > 0 && handful.ranks[at - 1] > rank; --at) {  // positions are mostly in this order
            handful.ranks[at] = handful.ranks[at - 1];
            handful.factors[at] = handful.factors[at - 1];
        }
        handful.ranks[at] = rank;
        handful.factors[at] = items.factors + positions[i] * items.n_factors;
        handful.marks[row >> 6 & 15] |= uint64_t{1} << (row & 63);
    }
}

// Scores a handful, without the items that a query excludes; these, and the rest of 64, get minus infinity. Returns how
// many were scored.
int64_t score_handful(const Handful& handful, const Queries& queries, int64_t query, int64_t n_factors, float* scores) {
    const float* factor = queries.factors + query * n_factors;
    int64_t i = 0;
    for (; i + 4 <= handful.n; i += 4) score_four(factor, handful.factors + i, n_factors, scores + i);
    for (; i < handful.n; ++i) scores[i] = score_of(factor, handful.factors[i], n_factors);
    for (; i < Handful::MOST; ++i) scores[i] = -__builtin_inff();
    int64_t n_scored = handful.n;
    const int64_t* starts = queries.filter.excluded_starts;
    for (int64_t e = starts ? starts[query] : 0; starts && e < starts[query + 1]; ++e) {
        const int64_t at = handful.find(queries.filter.excluded[e]);
        if (at < 0) continue;
        scores[at] = -__builtin_inff();
        --n_scored;
    }
    return n_scored;
}

// Which of 64 scores are at least `limit`, as bits.
uint64_t reaching(const float* scores, float limit) {
    uint64_t found = 0;
#if defined(__AVX2__)
    const __m256 low = _mm256_set1_ps(limit);
    for (int v = 0; v < 8; ++v) {
        const __m256 reach = _mm256_cmp_ps(_mm256_loadu_ps(scores + 8 * v), low, _CMP_GE_OQ);
        found |= static_cast<uint64_t>(static_cast<uint32_t>(_mm256_movemask_ps(reach))) << (8 * v);
    }
#else
    for (int i = 0; i < 64; ++i) found |= static_cast<uint64_t>(scores[i] >= limit) << i;
#endif
    return found;
}

// The place of each score when they are sorted, best first; equal scores keep their order. Each score is compared with
// all others, so that no branch depends on a score. The sizes of both arrays are rounded up to a multiple of eight.
void find_places(const float* scores, int64_t n, int32_t* places) {
    const EightInts lanes = {0, 1, 2, 3, 4, 5, 6, 7};
    for (int64_t from = 0; from < n; from += 8) {
        const EightFloats own = loaded<EightFloats>(scores + from);
        EightInts ahead{};
        int64_t j = 0;
        for (; j < from; ++j) ahead -= (EightInts)(scores[j] >= own);
        for (; j < n && j < from + 8; ++j)
            ahead -= (EightInts)(scores[j] > own) |
                     ((EightInts)(scores[j] == own) & (lanes > static_cast<int32_t>(j - from)));
        for (; j < n; ++j) ahead -= (EightInts)(scores[j] > own);
        __builtin_memcpy(places + from, &ahead, sizeof ahead);
    }
}

// Merges n sorted answers into the sorted answers of a query; those beyond k are dropped.
void merge_answers(const float* scores, const int64_t* ranks, int64_t n, Heap& best) {
    int64_t old = best.count - 1;
    int64_t added = n - 1;
    for (int64_t to = old + n; added >= 0; --to) {
        const bool take = old < 0 || is_worse(scores[added], ranks[added], best.scores[old], best.ranks[old]);
        if (to < best.k) {
            best.scores[to] = take ? scores[added] : best.scores[old];
            best.ranks[to] = take ? ranks[added] : best.ranks[old];
        }
        --(take ? added : old);
    }
    best.count = best.count + n < best.k ? best.count + n : best.k;
}

// Scores the items at some positions for all queries, a handful at a time. Those that reach the k-th best answer so far
// are sorted, then merged into the answers.
void score_positions(const Items& items, const int32_t* positions, int64_t n_positions, const Queries& queries,
                     const TopK& best) {
    Handful handful;
    float scores[Handful::MOST], found_scores[Handful::MOST] = {}, ordered_scores[Handful::MOST];
    int64_t found_ranks[Handful::MOST], ordered_ranks[Handful::MOST];
    int32_t places[Handful::MOST];
    for (int64_t query = 0; query < queries.n_queries; ++query) {
        if (!best.ordered[query]) sort_heap(heap_of(best, query));
        best.ordered[query] = 1;
    }
    for (int64_t first = 0; first < n_positions; first += Handful::MOST) {
        const int64_t n_here = n_positions - first < Handful::MOST ? n_positions - first : Handful::MOST;
        take_handful(items, positions + first, n_here, queries.filter, handful);
        for (int64_t query = 0; query < queries.n_queries; ++query) {
            best.n_scored[query] += score_handful(handful, queries, query, items.n_factors, scores);
            Heap own = heap_of(best, query);
            int64_t n = 0;
            for (uint64_t left = reaching(scores, own.is_full() ? own.scores[own.k - 1] : -__FLT_MAX__); left;
                 left &= left - 1) {
                found_scores[n] = scores[__builtin_ctzll(left)];
                found_ranks[n++] = handful.ranks[__builtin_ctzll(left)];
            }
            find_places(found_scores, n, places);
            for (int64_t i = 0; i < n; ++i) {
                ordered_scores[places[i]] = found_scores[i];
                ordered_ranks[places[i]] = found_ranks[i];
            }
            merge_answers(ordered_scores, ordered_ranks, n < own.k ? n : own.k, own);
            best.counts[query] = own.count;
        }
    }
}
