// Two numbers in 64 bits, of which the upper decides.
#pragma once

#include <cstdint>

namespace tessella {

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

// An answer: an item's row and, among the items of all segments, its position. Of two with equal scores the one with
// the smaller number comes first. Neither is negative.
static inline int64_t answer_of(int64_t row, int64_t position) {
    return static_cast<int64_t>(packed(static_cast<uint32_t>(row), static_cast<uint32_t>(position)));
}
static inline int64_t row_of(int64_t answer) {
    return static_cast<int64_t>(upper_of(static_cast<uint64_t>(answer)));
}
static inline int64_t position_of(int64_t answer) {
    return static_cast<int64_t>(lower_of(static_cast<uint64_t>(answer)));
}

// A candidate of slots search: its partial product, then its position from the end, so that the larger number is the
// better candidate, and of equals the earlier position.
static inline uint64_t candidate_of(int32_t product, int64_t position) {
    return packed(static_cast<uint32_t>(product), static_cast<uint32_t>(LOW_HALF - static_cast<uint64_t>(position)));
}
static inline int32_t product_of(uint64_t candidate) {
    return static_cast<int32_t>(upper_of(candidate));
}
static inline int64_t candidate_position(uint64_t candidate) {
    return static_cast<int64_t>(LOW_HALF - lower_of(candidate));
}

}  // namespace tessella
