// What rounding may do, derived and named once: every bound that a certificate rests on is made of these. The same
// numbers stand in src/tessella/_numbers.py; a test holds them equal.
#pragma once

#include <cstdint>

namespace tessella {

// Methods, as engines number them.
enum class Method : int { exact = 0, tiles = 1, slots = 2 };
inline constexpr int N_METHODS = 3;

inline constexpr int64_t MAX_FACTORS = 4096;

// Norms and errors are computed in double, with a relative error below 4096 * 2^-53, and some are then rounded to
// float, which takes 2^-24 at most. This share on top makes each an upper bound.
inline constexpr double NORM_SPARE = 1e-6;

// A rotation in double strays from the exact one by at most 4096 * 2^-53 = 5e-13 of a norm, twice that of its square.
// An index whose axes are farther from orthonormal than 1e-11 in any product of two is not loaded, which for 4096 axes
// takes 4096 * 1e-11 = 4.1e-8 of a square at most.
inline constexpr double ROTATION_SPARE = 5e-8;
inline constexpr double LARGEST_SKEW = 1e-11;

// A rotated factor that is rounded to float keeps each coordinate within 2^-24 of itself, so its square within
// 2^-23 = 1.2e-7.
inline constexpr double ROUNDED_ROTATION_SPARE = 3e-7;

// Below the least normal float, steps do not shrink any further: one product, or one rounding, of floats may lose or
// gain 2^-149. This is twice that.
inline constexpr double UNDERFLOW_LOSS = 0x1p-148;
inline constexpr double LEAST_NORMAL_FLOAT = 0x1p-126;

// A query is answered if its norm, and its norm times that of the longest item, are at most these. Then scores are
// floats, and bounds, which may be a few times larger, are at most LARGEST_BOUND.
inline constexpr double LARGEST_NORM = 0x1.fffffep+126;  // half the largest float
inline constexpr double LARGEST_PRODUCT = 1e38;
inline constexpr float LARGEST_BOUND = 3.4e38f;

// The share of |u| |v| that a score, summed in float, may stray from the inner product u . v: each of n products and
// sums is rounded by 2^-24. The rest is room for the rounding of rotated factors.
static inline double rounding_share(int64_t n_factors) {
    return static_cast<double>(n_factors) * 0x1p-23 + ROUNDED_ROTATION_SPARE;
}

// Codes. A coordinate of an item takes 8 bits with a sign, one of a query 7 bits, stored with 64 added. The norms of
// codes are limited, rounding included, so that by Cauchy and Schwarz their products fit 16 bits: 214 * 152 = 32,528.
inline constexpr int32_t QUERY_OFFSET = 64;
inline constexpr double LARGEST_ITEM_CODE = 127.0;
inline constexpr double LARGEST_QUERY_CODE = 63.0;
inline constexpr double LONGEST_ITEM_CODE = 214.0;
inline constexpr double LONGEST_QUERY_CODE = 152.0;
inline constexpr float LEAST_CODE_STEP = 1e-30f;   // of a tile code; its inverse is a float
inline constexpr double LEAST_SCALE = 0x1p-1000;   // of an exact code; its inverse is a double
inline constexpr int32_t LEAST_PRODUCT = -32768;   // of codes: all reach it
inline constexpr int32_t BEYOND_PRODUCTS = 32768;  // none reaches it

// The coordinates of a code for exact search: the head, the norm of what is not in it, and one more if that is odd.
static inline int64_t exact_code_size(int64_t n_head, int64_t n_factors) {
    const int64_t n = n_head < n_factors ? n_head + 1 : n_head;
    return n + n % 2;
}

// The coordinates of what tiles code: a sketch of n_head axes and a tail where that is at most a third as wide as a
// factor, else the factor as it is. Less would not pay: sketches take time, and bounds from below lie lower.
static inline int64_t tile_width(int64_t n_head, int64_t n_factors) {
    return 3 * (n_head + 1) <= n_factors ? n_head + 1 : n_factors;
}

// The coordinates of a code for tile search: all, and one more if that is odd.
static inline int64_t tile_code_size(int64_t width) {
    return width + width % 2;
}

// Slots search. An item's partial product is at most |u| |v|; in units of that over 2^29 its sum fits 31 bits, with
// room for rounding the weights of 4096 slots.
inline constexpr double PARTIAL_PRODUCT_UNITS = 0x1p29;
inline constexpr int32_t FAINT = 32;                 // contributions below this share of the largest are left out
inline constexpr int64_t PROVABLE_POSITIONS = 2048;  // how far a certificate looks for an item that was not scored

// Layouts.
inline constexpr int64_t BLOCK_ITEMS = 64;       // items of exact codes that share a scale
inline constexpr int64_t GROUP_ITEMS = 16;       // items of tile codes that are read together
inline constexpr int64_t POSTING_BLOCK = 65536;  // items whose partial products stay in the cache
inline constexpr int64_t STRIDE = 64;            // positions looked at together, and postings left out together

inline constexpr int64_t FEW_GROUPS = 24;  // of a tile, are read without a look at their centres

// From so many answers on, items are gathered and scored last.
inline constexpr int64_t SCORED_LAST = 32;

// Where at most this many items, or this share of all, are allowed, answers are exact whatever the method.
inline constexpr int64_t FEW_ALLOWED = 256;
inline constexpr int64_t FEW_ALLOWED_SHARE = 8;

// An item in two tiles is looked for among the answers, which is for this many of them; for more, search is exact.
inline constexpr int64_t MOST_WITH_REPEATS = 1000;

}  // namespace tessella
