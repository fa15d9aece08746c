// Tiles -> slots -> the entries of the sparse map (P7-P11). Included by kernels.cpp, once per level.

// The sliding window of P8 and P10: one-hot for the first depth - 1 coordinates, then (2D + 1)^depth slots for each.
// Slots ascend with the coordinate.
template <typename Index>
void window_slots(const int8_t* tile, int64_t n_factors, const SlotRule& rule, Index* slots) {
    const Index values = static_cast<Index>(2 * rule.levels + 1);
    const int64_t head = rule.depth - 1 < n_factors ? rule.depth - 1 : n_factors;
    for (int64_t j = 0; j < head; ++j)
        slots[j] = static_cast<Index>(j) * values + static_cast<Index>(rule.levels - tile[j]);
    for (int64_t j = head; j < n_factors; ++j) slots[j] = static_cast<Index>(head) * values;
    Index place = 1;
    for (int64_t back = 0; back < rule.depth && head < n_factors; ++back) {
        for (int64_t j = head; j < n_factors; ++j) slots[j] += place * static_cast<Index>(rule.levels - tile[j - back]);
        place *= values;
    }
    for (int64_t j = head; j < n_factors; ++j) slots[j] += static_cast<Index>(j - head) * place;
}

// The counter tree of P9. A tile value v restarts the counter at k * (k * region + j), with a region for each non-zero
// value: 1, -1, 2, -2, ... A zero adds 1 to the counter, which starts from 0. So the slot of a coordinate depends only
// on the last restart; packed as position and region, that is a running maximum.
template <typename Index>
void counter_slots(const int8_t* tile, int64_t n_factors, Index* slots, int32_t* regions) {
    const int32_t n = static_cast<int32_t>(n_factors);
    for (int32_t j = 0; j < n; ++j) {
        const int32_t v = tile[j];
        const int32_t region = v > 0 ? 2 * v - 2 : -2 * v - 1;
        regions[j] = v == 0 ? 0 : ((j + 1) << 8 | region);
    }
    int32_t last = 0;
    for (int32_t j = 0; j < n; ++j) regions[j] = last = regions[j] > last ? regions[j] : last;
    const Index k = static_cast<Index>(n);
    for (int32_t j = 0; j < n; ++j) {
        const Index restart = static_cast<Index>(regions[j] >> 8);
        regions[j] &= 0xff;
        slots[j] = k * k * static_cast<Index>(regions[j]) + (k - 1) * restart + static_cast<Index>(j);
    }
}

// Collects one region's non-zero coordinates, in order. Every coordinate is written, and overwritten by the next one
// unless it is kept.
template <typename Index>
int64_t gather(const float* z, const Index* slots, const int32_t* regions, int32_t region, int64_t n_factors,
               Index* to_slots, float* to_values, int64_t first = 0, int64_t count = 0) {
    for (int64_t j = first; j < n_factors; ++j) {
        to_slots[count] = slots[j];
        to_values[count] = z[j];
        count += (z[j] != 0.0f) & (regions[j] == region);
    }
    return count;
}

#if defined(__AVX2__)
// For each set of kept lanes, the permutation that moves them to the front.
struct Packings {
    uint8_t lanes[256][8] = {};
    constexpr Packings() {
        for (int set = 0; set < 256; ++set) {
            int at = 0;
            for (int lane = 0; lane < 8; ++lane)
                if (set >> lane & 1) lanes[set][at++] = static_cast<uint8_t>(lane);
        }
    }
};
constexpr Packings PACKINGS;

int64_t gather(const float* z, const int32_t* slots, const int32_t* regions, int32_t region, int64_t n_factors,
               int32_t* to_slots, float* to_values) {
    int64_t count = 0;
    int64_t j = 0;
    for (; j + 8 <= n_factors; j += 8) {
        const __m256 values = _mm256_loadu_ps(z + j);
        const __m256i places = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(slots + j));
        const __m256i here = _mm256_cmpeq_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(regions + j)),
                                                _mm256_set1_epi32(region));
        const __m256 kept =
            _mm256_and_ps(_mm256_cmp_ps(values, _mm256_setzero_ps(), _CMP_NEQ_UQ), _mm256_castsi256_ps(here));
        const int set = _mm256_movemask_ps(kept);
        const __m256i packing =
            _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(PACKINGS.lanes[set])));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to_slots + count), _mm256_permutevar8x32_epi32(places, packing));
        _mm256_storeu_ps(to_values + count, _mm256_permutevar8x32_ps(values, packing));
        count += __builtin_popcount(static_cast<unsigned>(set));
    }
    return gather<int32_t>(z, slots, regions, region, n_factors, to_slots, to_values, j, count);
}
#endif

// A window's slots ascend with the coordinate. A counter's slots ascend within each region, so regions are processed
// one by one. Stops at the first vector whose entries do not match `starts`, which was then counted from other factors.
template <typename Index>
int64_t fill(const float* prepared, const int8_t* tiles, int64_t n, int64_t n_factors, const SlotRule& rule,
             const Workspace& space, const Index* starts, Index* slots, float* values) {
    Index* own_slots = reinterpret_cast<Index*>(space.slots);
    Index* kept_slots = reinterpret_cast<Index*>(space.kept_slots);
    const int32_t n_regions = rule.depth > 0 ? 1 : 2 * rule.levels;
    for (int64_t j = 0; j < n_factors; ++j) space.regions[j] = 0;
    for (int64_t vector = 0; vector < n; ++vector) {
        const float* z = prepared + vector * n_factors;
        const int8_t* tile = tiles + vector * n_factors;
        if (rule.depth > 0)
            window_slots(tile, n_factors, rule, own_slots);
        else
            counter_slots(tile, n_factors, own_slots, space.regions);
        int64_t at = starts[vector];
        for (int32_t region = 0; region < n_regions; ++region) {
            const int64_t count = gather(z, own_slots, space.regions, region, n_factors, kept_slots, space.kept_values);
            if (at + count > starts[vector + 1]) return vector;
            __builtin_memcpy(slots + at, kept_slots, sizeof(Index) * static_cast<size_t>(count));
            __builtin_memcpy(values + at, space.kept_values, sizeof(float) * static_cast<size_t>(count));
            at += count;
        }
        if (at != starts[vector + 1]) return vector;
    }
    return n;
}
