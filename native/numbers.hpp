// The constants of rounding errors, with their derivations. Every certified bound is built from them. The same numbers
// are in src/tessella/_numbers.py; a test keeps the two equal.
#pragma once

#include <cstdint>

namespace tessella {

// The engine's numbers for the methods.
enum class Method : int { exact = 0, tiles = 1, slots = 2 };
inline constexpr int N_METHODS = 3;

inline constexpr int64_t MAX_FACTORS = 4096;

// Norms and errors are computed in double, with a relative error below 4096 * 2^-53. Some are then rounded to float,
// with a relative error of at most 2^-24. Increasing them by this share makes each an upper bound.
inline constexpr double NORM_SPARE = 1e-6;

// A rotation in double differs from the exact one by at most 4096 * 2^-53 = 5e-13 of a norm, and by twice that share of
// its square. An index is not loaded if the product of any two of its axes is off by more than 1e-11. With 4096 axes,
// that is an error of at most 4096 * 1e-11 = 4.1e-8 of a square.
inline constexpr double ROTATION_SPARE = 5e-8;
inline constexpr double LARGEST_SKEW = 1e-11;

// Rounding a rotated factor to float changes each coordinate by at most 2^-24 of itself, and so its square by at most
// 2^-23 = 1.2e-7.
inline constexpr double ROUNDED_ROTATION_SPARE = 3e-7;

// Below the smallest normal float, the spacing of floats is constant: one product, or one rounding, may lose or gain
// 2^-149. This is twice that.
inline constexpr double UNDERFLOW_LOSS = 0x1p-148;
inline constexpr double LEAST_NORMAL_FLOAT = 0x1p-126;

// A query is answered if its norm, and its norm times that of the longest item, are at most these. Then scores fit in a
// float, and bounds, which may be a few times larger, are at most LARGEST_BOUND.
inline constexpr double LARGEST_NORM = 0x1.fffffep+126;  // half the largest float
inline constexpr double LARGEST_PRODUCT = 1e38;
inline constexpr float LARGEST_BOUND = 3.4e38f;

// The largest error of a score, summed in float, as a share of |u| |v|: each of n products and sums is rounded by at
// most 2^-24. The rest is a margin for the rounding of rotated factors.
static inline double rounding_share(int64_t n_factors) {
    return static_cast<double>(n_factors) * 0x1p-23 + ROUNDED_ROTATION_SPARE;
}

// Codes. A coordinate of an item is a signed 8-bit integer; one of a query has 7 bits and is stored with 64 added. The
// norms of codes are limited, rounding included, so that by the Cauchy-Schwarz inequality their products fit in 16
// bits: 214 * 152 = 32,528.
inline constexpr int32_t QUERY_OFFSET = 64;
inline constexpr double LARGEST_ITEM_CODE = 127.0;
inline constexpr double LARGEST_QUERY_CODE = 63.0;
inline constexpr double LONGEST_ITEM_CODE = 214.0;
inline constexpr double LONGEST_QUERY_CODE = 152.0;
inline constexpr float LEAST_CODE_STEP = 1e-30f;   // of a tile code; its inverse is a float
inline constexpr double LEAST_SCALE = 0x1p-1000;   // of an exact code; its inverse is a double
inline constexpr int32_t LEAST_PRODUCT = -32768;   // every product of codes is at least this
inline constexpr int32_t BEYOND_PRODUCTS = 32768;  // every product is below this

// The number of coordinates of a code for exact search: the head and the norm of the tail, rounded up to an even
// number.
static inline int64_t exact_code_size(int64_t n_head, int64_t n_factors) {
    const int64_t n = n_head < n_factors ? n_head + 1 : n_head;
    return n + n % 2;
}

// The number of coordinates that tiles code: those of a sketch (n_head axes and a tail) if it is at most a third as
// wide as a factor, else those of the factor. Wider sketches would not pay: they take time, and lower bounds are
// weaker.
static inline int64_t tile_width(int64_t n_head, int64_t n_factors) {
    return 3 * (n_head + 1) <= n_factors ? n_head + 1 : n_factors;
}

// The number of coordinates of a code for tile search: the width, rounded up to an even number.
static inline int64_t tile_code_size(int64_t width) {
    return width + width % 2;
}

// Slots search. An item's partial product is at most |u| |v|. In units of |u| |v| / 2^29 it fits in 31 bits, with a
// margin for rounding the weights of 4096 slots.
inline constexpr double PARTIAL_PRODUCT_UNITS = 0x1p29;
inline constexpr int32_t FAINT = 32;                 // contributions below 1/32 of the largest are skipped
inline constexpr int64_t PROVABLE_POSITIONS = 2048;  // how many positions a certificate checks for unscored items

// Layouts.
inline constexpr int64_t BLOCK_ITEMS = 64;       // items of exact codes that share a scale
inline constexpr int64_t GROUP_ITEMS = 16;       // items of tile codes that are read together
inline constexpr int64_t POSTING_BLOCK = 65536;  // items whose partial products stay in the cache
inline constexpr int64_t STRIDE = 64;            // positions examined together, and postings skipped together

inline constexpr int64_t FEW_GROUPS = 24;  // a tile with at most this many groups is read without bounding them first

// For at least this many answers, items are gathered first and scored last.
inline constexpr int64_t SCORED_LAST = 32;

// If at most this many items, or 1/8 of all, are allowed, answers are exact, whatever the method.
inline constexpr int64_t FEW_ALLOWED = 256;
inline constexpr int64_t FEW_ALLOWED_SHARE = 8;

// If items are in two tiles, each is compared with the answers so far. For more answers than this, search is exact.
inline constexpr int64_t MOST_WITH_REPEATS = 1000;

}  // namespace tessella
