// Offers: an item that may answer a query is scored and, if it is among the best so far, kept. Included by kernels.cpp,
// once a level.

// Where an ascending array holds a value, or -1.
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

// Whether the item at a position is there and may answer, as far as all queries share a filter.
bool may_answer_any(const Items& items, const RowFilter& filter, int64_t position) {
    if (items.removed && has_bit(items.removed, position)) return false;
    return !filter.allowed || has_bit(filter.allowed, items.rows[position]);
}

// Whether one query leaves a row out.
bool is_excluded(const RowFilter& filter, int64_t query, int64_t row) {
    if (!filter.excluded_starts) return false;
    return index_of(filter.excluded, filter.excluded_starts[query], filter.excluded_starts[query + 1], row) >= 0;
}

// Prefetches an item's factor, or the first part of a long one.
void prefetch(const Items& items, int64_t position) {
    const float* item = items.factors + position * items.n_factors;
    for (int64_t j = 0; j < items.n_factors && j < 128; j += 16) __builtin_prefetch(item + j);
}

// Scores the item at a position and keeps it if it may answer and is among the best so far; whether it was kept. Items
// that may be `repeated` are looked for among the answers.
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

// So many items as stay in the cache are offered to all queries before the next.
void score_positions(const Items& items, const int32_t* positions, int64_t n_positions, const Queries& queries,
                     const TopK& best) {
    constexpr int64_t TOGETHER = 1024;
    constexpr int64_t AHEAD = 4;
    for (int64_t first = 0; first < n_positions; first += TOGETHER) {
        const int64_t end = n_positions - first < TOGETHER ? n_positions : first + TOGETHER;
        for (int64_t query = 0; query < queries.n_queries; ++query) {
            Heap heap = heap_of(best, query);
            for (int64_t i = first; i < end; ++i) {
                if (i + AHEAD < end) prefetch(items, positions[i + AHEAD]);
                if (is_excluded(queries.filter, query, items.rows[positions[i]])) continue;
                offer(items, queries, query, positions[i], false, heap, best.n_scored[query]);
            }
            best.counts[query] = heap.count;
        }
    }
}
