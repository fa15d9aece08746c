// Two numbers packed into 64 bits, sorted by the upper one; and bits in bytes.
#pragma once

#include <cstdint>

namespace tessella {

static inline bool has_bit(const uint8_t* bits, int64_t at) {
    return bits[at / 8] >> (at % 8) & 1;
}

inline constexpr uint64_t LOW_HALF = 0xffffffff;

static inline uint64_t packed(uint32_t upper, uint32_t lower) {
    return static_cast<uint64_t>(upper) << 32 | lower;
}
static inline uint32_t upper_of(uint64_t pair) {
    return static_cast<uint32_t>(pair >> 32);
}
static inline uint32_t lower_of(uint64_t pair) {
    return static_cast<uint32_t>(pair & LOW_HALF);
}

// A rank: an item's row and its position among the items of all segments. Of two answers with equal scores, the one
// with the smaller rank comes first. Neither number is negative.
static inline int64_t rank_of(int64_t row, int64_t position) {
    return static_cast<int64_t>(packed(static_cast<uint32_t>(row), static_cast<uint32_t>(position)));
}
static inline int64_t row_of(int64_t rank) {
    return static_cast<int64_t>(upper_of(static_cast<uint64_t>(rank)));
}
static inline int64_t position_of(int64_t rank) {
    return static_cast<int64_t>(lower_of(static_cast<uint64_t>(rank)));
}

// A key that is larger for a larger product and, among equal products, for a smaller index. The index is a position for
// candidates of slots search, and the number of the entry for entries of a query.
static inline uint64_t falling_key(int32_t product, int64_t index) {
    return packed(static_cast<uint32_t>(product), static_cast<uint32_t>(LOW_HALF - static_cast<uint64_t>(index)));
}
static inline int32_t product_in(uint64_t key) {
    return static_cast<int32_t>(upper_of(key));
}
static inline int64_t index_in(uint64_t key) {
    return static_cast<int64_t>(LOW_HALF - lower_of(key));
}

}  // namespace tessella
