// Slots search: queries -> the items with the largest partial products over shared slots -> scores (P12, weighed).
// Included by kernels.cpp, once a level.
//
// Postings lie in blocks of 65,536 items, so that a block's partial products stay in the cache and a place takes two
// bytes. Along a list impacts fall in size, so what adds little is left out at its end. All sums are of integers.

// The `wanted`-th largest of different keys that lie from low to high. Counts keys by their leading bits and looks
// again at those with the bits on the border, so most are neither moved nor sorted.
uint64_t find_largest(const uint64_t* keys, int64_t count, int64_t wanted, uint64_t low, uint64_t high) {
    constexpr int64_t FEW = 32;
    while (true) {
        const int width = high > low ? 64 - __builtin_clzll(high - low) : 0;
        const int shift = width > 8 ? width - 8 : 0;
        int32_t counts[256] = {};
        for (int64_t i = 0; i < count; ++i)
            if (keys[i] >= low && keys[i] <= high) ++counts[(keys[i] - low) >> shift];
        int border = 255;
        while (counts[border] < wanted) wanted -= counts[border--];
        low += static_cast<uint64_t>(border) << shift;
        if (shift == 0) return low;
        high = low + ((uint64_t{1} << shift) - 1);
        if (counts[border] > FEW) continue;
        uint64_t few[FEW];
        int64_t n_few = 0;
        for (int64_t i = 0; i < count; ++i) {
            if (keys[i] < low || keys[i] > high) continue;
            int64_t at = n_few++;
            for (; at > 0 && few[at - 1] < keys[i]; --at) few[at] = few[at - 1];
            few[at] = keys[i];
        }
        return few[wanted - 1];
    }
}

int64_t smallest_of(const uint64_t* keys, int64_t count) {
    uint64_t least = keys[0];
    for (int64_t i = 1; i < count; ++i) least = keys[i] < least ? keys[i] : least;
    int64_t at = 0;
    while (keys[at] != least) ++at;
    return at;
}

// Keeps the `wanted` largest of more keys than that, in their order, and returns the smallest of them.
uint64_t keep_largest(uint64_t* keys, int64_t& count, int64_t wanted) {
    constexpr int64_t FEW = 8;  // are as soon dropped one by one
    if (count - wanted <= FEW) {
        while (count > wanted) {
            const int64_t at = smallest_of(keys, count--);
            __builtin_memmove(keys + at, keys + at + 1, static_cast<size_t>(count - at) * sizeof *keys);
        }
        return keys[smallest_of(keys, count)];
    }
    uint64_t low = ~uint64_t{0};
    uint64_t high = 0;
    for (int64_t i = 0; i < count; ++i) {
        low = keys[i] < low ? keys[i] : low;
        high = keys[i] > high ? keys[i] : high;
    }
    const uint64_t least = find_largest(keys, count, wanted, low, high);
    int64_t kept = 0;
    for (int64_t i = 0; i < count; ++i) {
        keys[kept] = keys[i];
        kept += keys[i] >= least;
    }
    count = kept;
    return least;
}

uint32_t bits_of(float value) {
    uint32_t bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
}

// The entries of a query with the largest values, in their order; keys end in the entry's number.
int64_t heaviest_entries(const QueryEntries& entries, int64_t query, int64_t max_slots, uint64_t* keys) {
    const int64_t first = entries.starts[query];
    int64_t count = entries.starts[query + 1] - first;
    for (int64_t i = 0; i < count; ++i)
        keys[i] = static_cast<uint64_t>(bits_of(entries.values[first + i]) & 0x7fffffffu) << 32 |
                  (0xffffffffu - static_cast<uint64_t>(i));
    if (count > max_slots) keep_largest(keys, count, max_slots);
    return count;
}

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

struct WeighedList {
    int64_t start;
    int64_t stop;
    int32_t weight;
};

template <bool counting>
void add_entries(const Postings& postings, int64_t from, int64_t to, int32_t weight, const SlotScratch& scratch) {
    const uint16_t* __restrict places = postings.places + from;
    const int8_t* __restrict impacts = postings.impacts + from;
    int32_t* __restrict sums = scratch.sums;
    uint8_t* __restrict touched = scratch.touched;
    for (int64_t entry = 0; entry < to - from; ++entry) {
        const uint32_t place = places[entry];
        sums[place] += weight * impacts[entry];
        touched[place / STRIDE] = 1;
        if constexpr (counting) ++scratch.overlaps[place];
    }
}

// Adds a list's contributions of at least `least`, in strides.
void add_list(const Postings& postings, const WeighedList& list, int32_t least, bool counting,
              const SlotScratch& scratch) {
    for (int64_t from = list.start; from < list.stop; from += STRIDE) {
        const int32_t contribution = list.weight * postings.impacts[from];
        if ((contribution < 0 ? -contribution : contribution) < least) break;
        const int64_t to = list.stop - from < STRIDE ? list.stop : from + STRIDE;
        if (counting)
            add_entries<true>(postings, from, to, list.weight, scratch);
        else
            add_entries<false>(postings, from, to, list.weight, scratch);
    }
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

// The places of a stride with sums above `cutoff`, as bits.
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

// A query's chosen items while a segment goes past.
struct Choice {
    uint64_t* keys;
    int64_t count;
    int64_t budget;
    int32_t cutoff;  // a partial product must be larger: there are `budget` that are at least as large

    void shrink() {
        if (count > budget) cutoff = static_cast<int32_t>(keep_largest(keys, count, budget) >> 32);
    }
};

// Some strides of a block with the largest sum of each: sum << 32 | stride.
struct Strides {
    uint64_t keys[POSTING_BLOCK / STRIDE];
    int64_t count;
};

struct BlockOfSums {
    const Items& items;
    const Queries& queries;
    int64_t query;
    int64_t first;  // place
    int64_t min_overlap;
    const SlotScratch& scratch;
};

// Adds a block's items with sums above `cutoff` to the choice; returns whether it shrank on the way, so that no more
// than its budget is left of what was there before.
bool take(const BlockOfSums& block, const Strides& strides, int32_t cutoff, Choice& choice) {
    bool shrank = false;
    for (int64_t i = 0; i < strides.count; ++i) {
        if (static_cast<int32_t>(strides.keys[i] >> 32) <= cutoff) continue;
        const int64_t start = static_cast<int64_t>(strides.keys[i] & 0xffffffffu) * STRIDE;
        for (uint64_t found = above(block.scratch.sums + start, cutoff); found; found &= found - 1) {
            const int64_t at = start + __builtin_ctzll(found);
            const int64_t place = block.first + at;
            if (block.min_overlap > 1 && block.scratch.overlaps[at] < block.min_overlap) continue;
            if (!present(block.items, block.queries, place) ||
                is_excluded(block.queries, block.query, block.items.rows[place]))
                continue;
            choice.keys[choice.count++] = static_cast<uint64_t>(block.scratch.sums[at]) << 32 |
                                          (0xffffffffu - static_cast<uint64_t>(block.items.base + place));
        }
        if (choice.count >= 4 * choice.budget) {
            choice.shrink();
            cutoff = choice.cutoff;
            shrank = true;
        }
    }
    return shrank;
}

// Most strides hold nothing worth having, so a cutoff is guessed from the largest sums of strides, and lowered until
// enough items reach it.
void choose(const BlockOfSums& block, Choice& choice) {
    const int64_t left = block.items.n_items - block.first;
    const int64_t n_strides = ((left < POSTING_BLOCK ? left : POSTING_BLOCK) + STRIDE - 1) / STRIDE;
    const SlotScratch& scratch = block.scratch;
    Strides strides;
    strides.count = 0;
    uint64_t most_of_all = 0;
    for (int64_t stride = 0; stride < n_strides; ++stride) {
        if (!scratch.touched[stride]) continue;
        const int32_t most = largest_sum(scratch.sums + stride * STRIDE);
        if (most <= choice.cutoff) continue;
        const uint64_t key = static_cast<uint64_t>(most) << 32 | static_cast<uint64_t>(stride);
        most_of_all = key > most_of_all ? key : most_of_all;
        strides.keys[strides.count++] = key;
    }
    const int64_t count_before = choice.count;
    for (int64_t deep = choice.budget / 4 + 1;; deep *= 4) {
        int32_t guess = choice.cutoff;
        if (deep < strides.count) {
            const uint64_t low = static_cast<uint64_t>(choice.cutoff) << 32;
            const uint64_t least = find_largest(strides.keys, strides.count, deep, low, most_of_all);
            guess = static_cast<int32_t>(least >> 32) - 1;
        }
        const bool all = guess == choice.cutoff;
        const bool shrank = take(block, strides, guess, choice);
        if (all || shrank || choice.count - count_before >= choice.budget) break;
        choice.count = count_before;
    }
    choice.shrink();
    for (int64_t stride = 0; stride < n_strides; ++stride) {
        if (!scratch.touched[stride]) continue;
        scratch.touched[stride] = 0;
        clear(scratch.sums + stride * STRIDE);
        if (block.min_overlap > 1)
            for (int64_t i = 0; i < STRIDE; ++i) scratch.overlaps[stride * STRIDE + i] = 0;
    }
}

void slot_scan(const Items& items, const Postings& postings, const Queries& queries, const QueryEntries& entries,
               const Ranking& ranking, const SlotScratch& scratch, const Chosen& chosen) {
    const bool counting = ranking.min_overlap > 1;
    for (int64_t query = 0; query < queries.n_queries; ++query) {
        const double norm = __builtin_sqrt(sum_of_squares(queries.factors + query * items.n_factors, items.n_factors));
        if (!(norm > 0.0 && ranking.longest > 0.0)) continue;
        // An item's partial product is at most norm * longest, so its sum fits 31 bits with room for rounding.
        const double unit = 0x1p29 / (norm * ranking.longest);
        const int64_t n_heaviest = heaviest_entries(entries, query, ranking.max_slots, scratch.heaviest);
        uint64_t* kept = chosen.keys + query * chosen.budget;
        Choice choice = {scratch.buffer, chosen.counts[query], chosen.budget, 0};
        __builtin_memcpy(choice.keys, kept, static_cast<size_t>(choice.count) * sizeof *kept);
        for (int64_t i = 0; choice.count == choice.budget && i < choice.count; ++i) {
            const int32_t product = static_cast<int32_t>(kept[i] >> 32);
            choice.cutoff = i == 0 || product < choice.cutoff ? product : choice.cutoff;
        }
        for (int64_t block = 0; block < postings.n_blocks; ++block) {
            WeighedList lists[MAX_FACTORS];
            int64_t n_lists = 0;
            int32_t most = 0;
            for (int64_t i = 0; i < n_heaviest; ++i) {
                const int64_t entry =
                    entries.starts[query] + static_cast<int64_t>(0xffffffffu - (scratch.heaviest[i] & 0xffffffffu));
                const int64_t list = index_of(postings.slots, postings.block_lists[block],
                                              postings.block_lists[block + 1], entries.slots[entry]);
                if (list < 0) continue;
                const double step =
                    static_cast<double>(entries.values[entry]) * static_cast<double>(postings.scales[list]);
                const int32_t weight = nearest(step * unit);
                lists[n_lists] = {postings.starts[list], postings.starts[list + 1], weight};
                const int32_t first = weight * postings.impacts[lists[n_lists++].start];
                most = first > most ? first : -first > most ? -first : most;
            }
            const int32_t least = counting ? 0 : most / FAINT;
            for (int64_t list = 0; list < n_lists; ++list) add_list(postings, lists[list], least, counting, scratch);
            choose({items, queries, query, block * POSTING_BLOCK, ranking.min_overlap, scratch}, choice);
        }
        chosen.counts[query] = choice.count;
        __builtin_memcpy(kept, choice.keys, static_cast<size_t>(choice.count) * sizeof *kept);
    }
}

// Chosen items go by place, so a tile of items small enough for the cache is scored for all queries before the next.
void score_chosen(const Items& items, const BlockTerms* terms, const Queries& queries, const Chosen& chosen,
                  const BestArrays& found, int64_t* cursors, double* unseen) {
    constexpr int64_t TILE_ITEMS = 1024;
    constexpr int64_t AHEAD = 4;
    const auto place_at = [&](int64_t query, int64_t i) {
        if (i >= chosen.counts[query]) return items.n_items;
        const uint64_t key = chosen.keys[query * chosen.budget + i];
        const int64_t place = static_cast<int64_t>(0xffffffffu - (key & 0xffffffffu)) - items.base;
        return place >= 0 && place < items.n_items ? place : items.n_items;  // later segments' items end the list
    };
    const uint64_t before = 0xffffffffu - static_cast<uint64_t>(items.base);  // keys of earlier segments are larger
    int64_t next = items.n_items;
    for (int64_t query = 0; query < queries.n_queries; ++query) {
        const uint64_t* keys = chosen.keys + query * chosen.budget;
        int64_t i = 0;
        for (int64_t n = chosen.counts[query]; n > 0;) {
            const int64_t half = n / 2;
            const bool earlier = (keys[i + half] & 0xffffffffu) > before;
            i += earlier ? half + 1 : 0;
            n = earlier ? n - half - 1 : half;
        }
        cursors[query] = i;
        const int64_t place = place_at(query, i);
        next = place < next ? place : next;
        // The longest item that could be an answer and is not chosen bounds all that are not.
        int64_t first = 0;
        while (first < items.n_items && first < PROVABLE_PLACES) {
            if (place_at(query, i) == first)
                ++i;
            else if (present(items, queries, first) && !is_excluded(queries, query, items.rows[first]))
                break;
            ++first;
        }
        if (first == items.n_items) continue;
        const double squares = sum_of_squares(queries.factors + query * items.n_factors, items.n_factors);
        const double bound = __builtin_sqrt(squares) * (1.0 + 1e-6) * terms[first / BLOCK_ITEMS].norm +
                             static_cast<double>(items.n_factors) * 0x1p-148;
        unseen[query] = bound > unseen[query] ? bound : unseen[query];
    }
    while (next < items.n_items) {
        const int64_t end = next + TILE_ITEMS;
        next = items.n_items;
        for (int64_t query = 0; query < queries.n_queries; ++query) {
            const float* factor = queries.factors + query * items.n_factors;
            Best best = best_of(found, query);
            int64_t i = cursors[query];
            int64_t place = place_at(query, i);
            for (; place < end && place < items.n_items; place = place_at(query, ++i)) {
                const int64_t soon = place_at(query, i + AHEAD);
                if (soon < items.n_items) fetch(items, soon);
                if (is_excluded(queries, query, items.rows[place])) continue;
                keep(best, score_of(factor, items.factors + place * items.n_factors, items.n_factors),
                     answer_of(items, place));
                ++found.scored[query];
            }
            cursors[query] = i;
            found.counts[query] = best.count;
            next = place < next ? place : next;
        }
    }
}
