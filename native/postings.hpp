// Slots search: queries -> the items with the largest partial products over shared slots -> scores (P12, weighted).
// Included by kernels.cpp, once per level.
//
// Postings are in blocks of 65,536 items, so that a block's partial products fit in the cache and a position takes two
// bytes. Along a list, impacts fall in size, so small contributions are skipped at its end. All sums are of integers.

// The entries of a query with the largest values, in their order; the lower half of a key is the entry's inverted
// number.
int64_t heaviest_entries(const Entries& entries, int64_t query, int64_t max_slots, uint64_t* keys) {
    const int64_t first = entries.starts[query];
    int64_t count = entries.starts[query + 1] - first;
    for (int64_t i = 0; i < count; ++i)
        keys[i] = falling_key(static_cast<int32_t>(bits_of(entries.values[first + i]) & 0x7fffffffu), i);
    if (count > max_slots) keep_largest(keys, count, max_slots);
    return count;
}

// The list of a slot in a block of postings, or -1.
int64_t list_of(const Postings& postings, int64_t block, int64_t slot) {
    return index_of(postings.slots, postings.block_lists[block], postings.block_lists[block + 1], slot);
}

struct WeightedList {
    int64_t start;
    int64_t stop;
    int32_t weight;
};

// What is recorded for each item of a list besides its sum: that its stride is touched, and that it shares a slot.
struct Noting {
    bool strides;
    bool overlaps;
};

template <bool strides, bool overlaps>
void add_entries(const Postings& postings, int64_t from, int64_t to, int32_t weight, const SlotsScratch& scratch) {
    const uint16_t* __restrict positions = postings.positions + from;
    const int8_t* __restrict impacts = postings.impacts + from;
    int32_t* __restrict sums = scratch.sums;
    uint8_t* __restrict touched = scratch.touched;
    for (int64_t entry = 0; entry < to - from; ++entry) {
        const uint32_t at = positions[entry];
        sums[at] += weight * impacts[entry];
        if constexpr (strides) touched[at / STRIDE] = 1;
        if constexpr (overlaps) ++scratch.overlaps[at];
    }
}

// Where along a list contributions fall below `least`, rounded to strides.
int64_t end_of(const Postings& postings, const WeightedList& list, int32_t least) {
    int64_t from = list.start;
    for (; from < list.stop; from += STRIDE) {
        const int32_t contribution = list.weight * postings.impacts[from];
        if ((contribution < 0 ? -contribution : contribution) < least) return from;
    }
    return list.stop;
}

void add_list(const Postings& postings, const WeightedList& list, const Noting& noting, const SlotsScratch& scratch) {
    if (noting.overlaps)
        add_entries<true, true>(postings, list.start, list.stop, list.weight, scratch);
    else if (noting.strides)
        add_entries<true, false>(postings, list.start, list.stop, list.weight, scratch);
    else
        add_entries<false, false>(postings, list.start, list.stop, list.weight, scratch);
}

// The largest sum of a stride.
int32_t largest_sum(const int32_t* sums) {
#if defined(__AVX2__)
    const __m256i* vectors = reinterpret_cast<const __m256i*>(sums);
    const __m256i a = _mm256_max_epi32(_mm256_loadu_si256(vectors), _mm256_loadu_si256(vectors + 1));
    const __m256i b = _mm256_max_epi32(_mm256_loadu_si256(vectors + 2), _mm256_loadu_si256(vectors + 3));
    const __m256i c = _mm256_max_epi32(_mm256_loadu_si256(vectors + 4), _mm256_loadu_si256(vectors + 5));
    const __m256i d = _mm256_max_epi32(_mm256_loadu_si256(vectors + 6), _mm256_loadu_si256(vectors + 7));
    const __m256i eight = _mm256_max_epi32(_mm256_max_epi32(a, b), _mm256_max_epi32(c, d));
    const __m128i four = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    const __m128i two = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return _mm_cvtsi128_si32(_mm_max_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
#else
    int32_t most = sums[0];
    for (int i = 1; i < STRIDE; ++i) most = sums[i] > most ? sums[i] : most;
    return most;
#endif
}

// The positions of a stride with sums above `cutoff`, as bits.
uint64_t above(const int32_t* sums, int32_t cutoff) {
    uint64_t found = 0;
#if defined(__AVX2__)
    const __m256i bar = _mm256_set1_epi32(cutoff);
    for (int v = 0; v < 8; ++v) {
        const __m256i values = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(sums) + v);
        const int set = _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(values, bar)));
        found |= static_cast<uint64_t>(static_cast<uint32_t>(set)) << (8 * v);
    }
#else
    for (int i = 0; i < STRIDE; ++i) found |= static_cast<uint64_t>(sums[i] > cutoff) << i;
#endif
    return found;
}

void clear(int32_t* sums) {
#if defined(__AVX2__)
    for (int v = 0; v < 8; ++v) _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums) + v, _mm256_setzero_si256());
#else
    for (int i = 0; i < STRIDE; ++i) sums[i] = 0;
#endif
}

// A query's candidates while a segment is scanned.
struct Chosen {
    uint64_t* keys;
    int64_t count;
    int64_t budget;
    int32_t cutoff;  // only larger partial products are kept: `budget` candidates are at least this large

    void shrink() {
        if (count > budget) cutoff = product_in(keep_largest(keys, count, budget));
    }
};

// Some strides of a block; each key begins with the stride's largest sum.
struct Strides {
    uint64_t keys[POSTING_BLOCK / STRIDE];
    int64_t count;
};

struct BlockOfSums {
    const Items& items;
    const Queries& queries;
    int64_t query;
    int64_t first;  // position
    int64_t min_overlap;
    const SlotsScratch& scratch;

    int64_t n_strides() const {
        const int64_t left = items.n_items - first;
        return ((left < POSTING_BLOCK ? left : POSTING_BLOCK) + STRIDE - 1) / STRIDE;
    }
};

constexpr int64_t ENTRIES_PER_STRIDE = 4;

// Adds a block's items with sums above `cutoff` to the chosen. Returns whether the chosen were cut back to the budget
// on the way.
bool choose_above(const BlockOfSums& block, const Strides& strides, int32_t cutoff, Chosen& chosen) {
    bool shrank = false;
    for (int64_t i = 0; i < strides.count; ++i) {
        if (product_in(strides.keys[i]) <= cutoff) continue;
        const int64_t start = static_cast<int64_t>(lower_of(strides.keys[i])) * STRIDE;
        for (uint64_t found = above(block.scratch.sums + start, cutoff); found; found &= found - 1) {
            const int64_t at = start + __builtin_ctzll(found);
            const int64_t position = block.first + at;
            if (block.min_overlap > 1 && block.scratch.overlaps[at] < block.min_overlap) continue;
            if (!may_answer_any(block.items, block.queries.filter, position) ||
                is_excluded(block.queries.filter, block.query, block.items.rows[position]))
                continue;
            chosen.keys[chosen.count++] = falling_key(block.scratch.sums[at], block.items.base + position);
        }
        if (chosen.count >= 4 * chosen.budget) {
            chosen.shrink();
            cutoff = chosen.cutoff;
            shrank = true;
        }
    }
    return shrank;
}

// Most strides hold no candidates, so a cutoff is guessed from the largest sums of strides, and lowered until enough
// items reach it.
void choose(const BlockOfSums& block, Chosen& chosen) {
    const int64_t n_strides = block.n_strides();
    const SlotsScratch& scratch = block.scratch;
    Strides strides;
    strides.count = 0;
    uint64_t most_of_all = 0;
    for (int64_t stride = 0; stride < n_strides; ++stride) {
        if (!scratch.touched[stride]) continue;
        const int32_t most = largest_sum(scratch.sums + stride * STRIDE);
        if (most <= chosen.cutoff) continue;
        const uint64_t key = packed(static_cast<uint32_t>(most), static_cast<uint32_t>(stride));
        most_of_all = key > most_of_all ? key : most_of_all;
        strides.keys[strides.count++] = key;
    }
    const int64_t count_before = chosen.count;
    for (int64_t deep = chosen.budget / 4 + 1;; deep *= 4) {
        int32_t guess = chosen.cutoff;
        if (deep < strides.count) {
            const uint64_t low = packed(static_cast<uint32_t>(chosen.cutoff), 0);
            const uint64_t least = find_largest(strides.keys, strides.count, deep, low, most_of_all);
            guess = product_in(least) - 1;
        }
        const bool all = guess == chosen.cutoff;
        const bool shrank = choose_above(block, strides, guess, chosen);
        if (all || shrank || chosen.count - count_before >= chosen.budget) break;
        chosen.count = count_before;
    }
    chosen.shrink();
    for (int64_t stride = 0; stride < n_strides; ++stride) {
        if (!scratch.touched[stride]) continue;
        scratch.touched[stride] = 0;
        clear(scratch.sums + stride * STRIDE);
        if (block.min_overlap > 1)
            for (int64_t i = 0; i < STRIDE; ++i) scratch.overlaps[stride * STRIDE + i] = 0;
    }
}

// The weighted lists of a query's heaviest slots in a block; returns how many. `most` is the largest contribution.
int64_t weighted_lists(const Postings& postings, int64_t block, const Entries& entries, int64_t query,
                       const uint64_t* heaviest, int64_t n_heaviest, double unit, WeightedList* lists, int32_t& most) {
    int64_t n_lists = 0;
    most = 0;
    for (int64_t i = 0; i < n_heaviest; ++i) {
        const int64_t entry = entries.starts[query] + index_in(heaviest[i]);
        const int64_t list = list_of(postings, block, entries.slots[entry]);
        if (list < 0) continue;
        const double step = static_cast<double>(entries.values[entry]) * static_cast<double>(postings.scales[list]);
        const int32_t weight = nearest(step * unit);
        lists[n_lists] = {postings.starts[list], postings.starts[list + 1], weight};
        const int32_t first = weight * postings.impacts[lists[n_lists++].start];
        most = first > most ? first : -first > most ? -first : most;
    }
    return n_lists;
}

void scan_postings(const Items& items, const Postings& postings, const Queries& queries, const Entries& entries,
                   const SlotsSetting& setting, const SlotsScratch& scratch, const Candidates& candidates) {
    const bool counting = setting.min_overlap > 1;
    for (int64_t query = 0; query < queries.n_queries; ++query) {
        const double norm = __builtin_sqrt(sum_of_squares(queries.factors + query * items.n_factors, items.n_factors));
        if (!(norm > 0.0 && setting.longest > 0.0)) continue;
        const double unit = PARTIAL_PRODUCT_UNITS / (norm * setting.longest);
        const int64_t n_heaviest = heaviest_entries(entries, query, setting.max_slots, scratch.heaviest);
        uint64_t* kept = candidates.keys + query * candidates.budget;
        Chosen chosen = {scratch.buffer, candidates.counts[query], candidates.budget, 0};
        __builtin_memcpy(chosen.keys, kept, static_cast<size_t>(chosen.count) * sizeof *kept);
        for (int64_t i = 0; chosen.count == chosen.budget && i < chosen.count; ++i)
            chosen.cutoff = i == 0 || product_in(kept[i]) < chosen.cutoff ? product_in(kept[i]) : chosen.cutoff;
        for (int64_t block = 0; block < postings.n_blocks; ++block) {
            WeightedList lists[MAX_FACTORS];
            int32_t most;
            const int64_t n_lists =
                weighted_lists(postings, block, entries, query, scratch.heaviest, n_heaviest, unit, lists, most);
            const int32_t least = counting ? 0 : most / FAINT;
            int64_t n_entries = 0;
            for (int64_t list = 0; list < n_lists; ++list) {
                lists[list].stop = end_of(postings, lists[list], least);
                n_entries += lists[list].stop - lists[list].start;
            }
            const BlockOfSums sums = {items, queries, query, block * POSTING_BLOCK, setting.min_overlap, scratch};
            // With many entries hardly a stride stays untouched, and recording which costs more than it saves.
            const bool few = n_entries < ENTRIES_PER_STRIDE * sums.n_strides();
            if (!few) __builtin_memset(scratch.touched, 1, static_cast<size_t>(sums.n_strides()));
            for (int64_t list = 0; list < n_lists; ++list) add_list(postings, lists[list], {few, counting}, scratch);
            choose(sums, chosen);
        }
        candidates.counts[query] = chosen.count;
        __builtin_memcpy(kept, chosen.keys, static_cast<size_t>(chosen.count) * sizeof *kept);
    }
}

// A query's candidates in one segment, sorted by position.
struct CandidatesHere {
    const Items& items;
    const uint64_t* keys;
    int64_t count;

    // The position of the i-th candidate in the segment, or the number of items if there is none.
    int64_t position(int64_t i) const {
        if (i >= count) return items.n_items;
        const int64_t at = index_in(keys[i]) - items.base;
        return at >= 0 && at < items.n_items ? at : items.n_items;
    }
    // The first candidate that is not in an earlier segment.
    int64_t first() const {
        int64_t low = 0;
        for (int64_t n = count; n > 0;) {
            const int64_t half = n / 2;
            const bool earlier = index_in(keys[low + half]) < items.base;
            low += earlier ? half + 1 : 0;
            n = earlier ? n - half - 1 : half;
        }
        return low;
    }
};

// The first position of an item that may answer the query and is not a candidate. No later one is longer. Only the
// first PROVABLE_POSITIONS are examined.
int64_t first_unseen(const Items& items, const Queries& queries, int64_t query, const CandidatesHere& here, int64_t i) {
    int64_t at = 0;
    for (; at < items.n_items && at < PROVABLE_POSITIONS; ++at) {
        if (here.position(i) == at)
            ++i;
        else if (may_answer_any(items, queries.filter, at) && !is_excluded(queries.filter, query, items.rows[at]))
            break;
    }
    return at;
}

// Candidates are sorted by position, so as many items as fit in the cache are scored for all queries before the next
// ones. Candidates that are too short to be among the best k are skipped.
void score_candidates(const Items& items, const BlockTerms* terms, const Queries& queries, const Candidates& candidates,
                      const TopK& best, int64_t* cursors, double* unseen) {
    constexpr int64_t TOGETHER = 1024;
    constexpr int64_t AHEAD = 4;
    const double underflow = static_cast<double>(items.n_factors) * UNDERFLOW_LOSS;
    const auto here_of = [&](int64_t query) {
        return CandidatesHere{items, candidates.keys + query * candidates.budget, candidates.counts[query]};
    };
    const auto norm_of = [&](int64_t query) {
        const double squares = sum_of_squares(queries.factors + query * items.n_factors, items.n_factors);
        return __builtin_sqrt(squares) * (1.0 + NORM_SPARE);
    };
    int64_t next = items.n_items;
    for (int64_t query = 0; query < queries.n_queries; ++query) {
        const CandidatesHere here = here_of(query);
        cursors[query] = here.first();
        const int64_t position = here.position(cursors[query]);
        next = position < next ? position : next;
        const int64_t first = first_unseen(items, queries, query, here, cursors[query]);
        if (first == items.n_items) continue;
        const double bound = norm_of(query) * terms[first / BLOCK_ITEMS].norm + underflow;
        unseen[query] = bound > unseen[query] ? bound : unseen[query];
    }
    while (next < items.n_items) {
        const int64_t end = next + TOGETHER;
        next = items.n_items;
        for (int64_t query = 0; query < queries.n_queries; ++query) {
            const CandidatesHere here = here_of(query);
            Heap heap = heap_of(best, query);
            int64_t i = cursors[query];
            int64_t position = here.position(i);
            if (position >= end) {
                next = position < next ? position : next;
                continue;
            }
            const double norm = norm_of(query);
            const float* factor = queries.factors + query * items.n_factors;
            for (; position < end && position < items.n_items; position = here.position(++i)) {
                const int64_t soon = here.position(i + AHEAD);
                if (soon < items.n_items) prefetch(items, soon);
                if (heap.is_full() &&
                    norm * terms[position / BLOCK_ITEMS].norm + underflow < static_cast<double>(heap.worst())) {
                    i = here.count;  // later candidates are not longer
                    position = items.n_items;
                    break;
                }
                keep(heap, score_of(factor, items.factors + position * items.n_factors, items.n_factors),
                     rank_of(items.rows[position], items.base + position));
                ++best.n_scored[query];
            }
            cursors[query] = i;
            best.counts[query] = heap.count;
            next = position < next ? position : next;
        }
    }
}

// Counts, for a block, how many of a query's slots each item has.
void count_overlaps(const Postings& postings, int64_t block, const Entries& entries, int64_t query, int64_t n_heaviest,
                    const SlotsScratch& scratch) {
    for (int64_t i = 0; i < n_heaviest; ++i) {
        const int64_t entry = entries.starts[query] + index_in(scratch.heaviest[i]);
        const int64_t list = list_of(postings, block, entries.slots[entry]);
        if (list < 0) continue;
        for (int64_t posting = postings.starts[list]; posting < postings.starts[list + 1]; ++posting) {
            const uint32_t at = postings.positions[posting];
            ++scratch.overlaps[at];
            scratch.touched[at / STRIDE] = 1;
        }
    }
}

void score_sharing(const Items& items, const Postings& postings, const Queries& queries, const Entries& entries,
                   const SlotsSetting& setting, const SlotsScratch& scratch, const TopK& best) {
    const int32_t least =
        static_cast<int32_t>(setting.min_overlap <= MAX_FACTORS ? setting.min_overlap : MAX_FACTORS + 1);
    for (int64_t query = 0; query < queries.n_queries; ++query) {
        Heap heap = heap_of(best, query);
        const int64_t n_heaviest = heaviest_entries(entries, query, setting.max_slots, scratch.heaviest);
        for (int64_t block = 0; block < postings.n_blocks; ++block) {
            count_overlaps(postings, block, entries, query, n_heaviest, scratch);
            const int64_t first = block * POSTING_BLOCK;
            const int64_t left = items.n_items - first;
            const int64_t n_strides = ((left < POSTING_BLOCK ? left : POSTING_BLOCK) + STRIDE - 1) / STRIDE;
            for (int64_t stride = 0; stride < n_strides; ++stride) {
                if (!scratch.touched[stride]) continue;
                scratch.touched[stride] = 0;
                uint16_t* overlaps = scratch.overlaps + stride * STRIDE;
                uint64_t found = reaching(reinterpret_cast<const int16_t*>(overlaps), least);
                for (int i = 0; i < STRIDE; ++i) overlaps[i] = 0;
                for (; found; found &= found - 1) {
                    const int64_t position = first + stride * STRIDE + __builtin_ctzll(found);
                    offer(items, queries, query, position, false, heap, best.n_scored[query]);
                }
            }
        }
        best.counts[query] = heap.count;
    }
}
