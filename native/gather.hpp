// Gather first, score last: for many answers, items are gathered by the bounds of their scores and scored at the end.
// Included by kernels.cpp, once per level.
//
// Each gathered item has an upper and a lower bound. The k-th largest lower bound is the cut: an item whose upper bound
// is below the cut is not among the best k. While items are gathered, a histogram of lower bounds raises the cut, which
// may lag a little behind; at the end it is exact. The cut only rises, and an item's lower bound never exceeds its
// upper bound, so the items that are left do not depend on the order in which they were gathered.

// The items that one query has gathered.
struct Gatherer {
    float* uppers;
    uint32_t* lowers;    // as sortable bits
    int32_t* positions;  // with the base added
    int64_t count;
    int64_t room;
    int64_t k;
    Cut* cut;
};

Gatherer gatherer_of(const Gathered& gathered, int64_t query) {
    const int64_t first = query * gathered.room;
    return {gathered.uppers + first, gathered.lowers + first, gathered.positions + first,
            gathered.counts[query],  gathered.room,           gathered.k,
            gathered.cuts + query};
}

float from_rising(uint32_t bits) {
    const uint32_t plain = bits & 0x80000000u ? bits & 0x7fffffffu : ~bits;
    float value;
    __builtin_memcpy(&value, &plain, sizeof value);
    return value;
}

// Raises the cut to the k-th largest lower bound, and drops the items that do not reach it.
void raise_cut(Gatherer& gatherer) {
    if (gatherer.count < gatherer.k) return;
    Cut& cut = *gatherer.cut;
    const auto [low, high] = range_of(gatherer.lowers, gatherer.count);
    const float least = from_rising(find_largest(gatherer.lowers, gatherer.count, gatherer.k, low, high));
    cut.value = least - cut.spare > cut.value ? least - cut.spare : cut.value;
    int64_t kept = 0;
    for (int64_t i = 0; i < gatherer.count; ++i) {
        const float upper = gatherer.uppers[i];
        gatherer.uppers[kept] = upper;
        gatherer.lowers[kept] = gatherer.lowers[i];
        gatherer.positions[kept] = gatherer.positions[i];
        kept += upper >= cut.value;
    }
    gatherer.count = kept;
    cut.origin = least;
    cut.width = (from_rising(high) - least) / CUT_STEPS;
}

// Counts a lower bound, and raises the cut by as many steps as k lower bounds allow.
void count_lower(Cut& cut, float lower, int64_t k) {
    const float steps = (lower - cut.origin) * cut.inverse;
    if (!(steps >= static_cast<float>(cut.step))) return;  // also if the width is 0
    const int32_t step = steps < CUT_STEPS ? static_cast<int32_t>(steps) : CUT_STEPS - 1;
    ++cut.counts[step];
    ++cut.n_above;
    while (cut.n_above - cut.counts[cut.step] >= k && cut.step + 1 < CUT_STEPS) {
        cut.n_above -= cut.counts[cut.step++];
        const float value = cut.origin + static_cast<float>(cut.step - 1) * cut.width - cut.spare;
        cut.value = value > cut.value ? value : cut.value;
    }
}

// Starts a new histogram.
void count_lowers(Gatherer& gatherer) {
    Cut& cut = *gatherer.cut;
    for (int32_t& count : cut.counts) count = 0;
    cut.step = 0;
    cut.n_above = 0;
    cut.inverse = cut.width > LEAST_CODE_STEP ? 1.0f / cut.width : 0.0f;
    if (cut.inverse == 0.0f) cut.origin = __builtin_inff();  // nothing will be counted
    for (int64_t i = 0; i < gatherer.count; ++i) count_lower(cut, from_rising(gatherer.lowers[i]), gatherer.k);
}

// Makes room for 64 more items; returns false if there is none.
bool make_room(Gatherer& gatherer) {
    if (gatherer.count < gatherer.cut->next) return true;
    raise_cut(gatherer);
    count_lowers(gatherer);
    gatherer.cut->next = gatherer.room - 64;
    gatherer.cut->full = gatherer.count > gatherer.cut->next;
    return !gatherer.cut->full;
}

// Adds an item that may answer; there must be room.
void gather(const Items& items, const Queries& queries, int64_t query, int64_t position, float upper, float lower,
            Gatherer& gatherer) {
    if (!may_answer_any(items, queries.filter, position)) return;
    if (is_excluded(queries.filter, query, items.rows[position])) return;
    gatherer.uppers[gatherer.count] = upper;
    gatherer.lowers[gatherer.count] = rising_bits(lower);
    gatherer.positions[gatherer.count++] = static_cast<int32_t>(items.base + position);
    count_lower(*gatherer.cut, lower, gatherer.k);
}

// Raises the cuts of all queries to their final values.
void raise_cuts(const Gathered& gathered, int64_t n_queries) {
    for (int64_t query = 0; query < n_queries; ++query) {
        Gatherer gatherer = gatherer_of(gathered, query);
        raise_cut(gatherer);
        gathered.counts[query] = gatherer.count;
    }
}

// Scores the gathered items of a query that are in a segment, from number `first` on, and returns the number of the
// first that is in another segment.
int64_t score_gathered(const Items& items, const float* query, const int32_t* positions, int64_t first, int64_t count,
                       float* scores, int64_t* ranks) {
    constexpr int64_t AHEAD = 8;
    const int64_t end = items.base + items.n_items;
    for (int64_t i = first; i < count && i < first + AHEAD && positions[i] < end; ++i)
        prefetch(items, positions[i] - items.base);
    int64_t i = first;
    for (; i < count && positions[i] < end; ++i) {
        if (i + AHEAD < count && positions[i + AHEAD] < end) prefetch(items, positions[i + AHEAD] - items.base);
        const int64_t position = positions[i] - items.base;
        scores[i] = score_of(query, items.factors + position * items.n_factors, items.n_factors);
        ranks[i] = rank_of(items.rows[position], positions[i]);
    }
    return i;
}

// Radix sort by the bytes of the key, from byte `first` on, the largest first; returns where the result is.
Ordered* sort_by_bytes(Ordered* values, Ordered* others, int64_t count, int first) {
    for (int byte = first; byte < 8; ++byte) {
        int32_t starts[257] = {};
        for (int64_t i = 0; i < count; ++i) ++starts[256 - (values[i].key >> (8 * byte) & 255)];
        if (starts[256 - (values[0].key >> (8 * byte) & 255)] == count) continue;
        for (int digit = 0; digit < 256; ++digit) starts[digit + 1] += starts[digit];
        for (int64_t i = 0; i < count; ++i) others[starts[255 - (values[i].key >> (8 * byte) & 255)]++] = values[i];
        Ordered* sorted = others;
        others = values;
        values = sorted;
    }
    return values;
}

// Sorts the best k of the scored items, best first; of equal scores, the earlier row comes first.
int64_t select_best(const float* scores, const int64_t* ranks, int64_t count, int64_t k, uint32_t* keys,
                    Ordered* ordered, float* best_scores, int64_t* best_ranks) {
    for (int64_t i = 0; i < count; ++i) keys[i] = rising_bits(scores[i] + 0.0f);  // turns -0 into +0
    const auto [low, high] = range_of(keys, count);
    const uint32_t least = count > k ? find_largest(keys, count, k, low, high) : 0;
    int64_t kept = 0;
    for (int64_t i = 0; i < count; ++i) {
        ordered[kept] = {packed(keys[i], static_cast<uint32_t>(LOW_HALF - static_cast<uint64_t>(row_of(ranks[i])))),
                         static_cast<uint32_t>(i)};
        kept += keys[i] >= least;
    }
    if (kept == 0) return 0;
    Ordered* sorted = sort_by_bytes(ordered, ordered + count, kept, 4);
    bool tied = false;
    for (int64_t i = 1; i < kept; ++i) tied |= sorted[i - 1].key < sorted[i].key;
    if (tied) sorted = sort_by_bytes(sorted, sorted == ordered ? ordered + count : ordered, kept, 0);
    const int64_t n = kept < k ? kept : k;
    for (int64_t i = 0; i < n; ++i) {
        best_scores[i] = scores[sorted[i].from];
        best_ranks[i] = ranks[sorted[i].from];
    }
    return n;
}
