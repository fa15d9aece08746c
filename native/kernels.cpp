// Compiled once for each SIMD level with that level's flags and TESSELLA_LEVEL set to its name.
//
// Everything below has internal linkage and no standard library: an inline function shared with another level
// could be merged by the linker into code the processor cannot run.
#include "kernels.hpp"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define TESSELLA_JOIN_(a, b) a##b
#define TESSELLA_JOIN(a, b) TESSELLA_JOIN_(a, b)
#define TESSELLA_TEXT_(a) #a
#define TESSELLA_TEXT(a) TESSELLA_TEXT_(a)

namespace tessella {
namespace {

// Rows sorted together, one to a lane of a register. A row's arithmetic never crosses lanes, so the width of a level
// cannot change a result.
#if defined(__AVX2__)
constexpr int64_t LANES = 8;
#else
constexpr int64_t LANES = 4;
#endif

// In the order data flows, which is not the alphabet's.
// clang-format off
#include "prepare.hpp"
#include "lanes.hpp"
#include "tessellation.hpp"
#include "dary.hpp"
#include "slots.hpp"
#include "ids.hpp"
#include "best.hpp"
#include "codes.hpp"
#include "exact.hpp"
#include "postings.hpp"
#include "tiles.hpp"
#include "tile_scan.hpp"
// clang-format on

}  // namespace

const Kernels& TESSELLA_JOIN(TESSELLA_LEVEL, _kernels)() {
    static const Kernels kernels = {
        TESSELLA_TEXT(TESSELLA_LEVEL),
        first_bad_row,
        prepare,
        count_entries,
        ternary_tiles,
        exact_tiles,
        rounded_tiles,
        fill<int32_t>,
        fill<int64_t>,
        code_queries,
        find_ids,
        sort_found,
        code_items,
        exact_scan,
        slot_scan,
        score_chosen,
        code_rows,
        code_askers,
        nearest_tiles,
        rank_tiles,
        tile_scan,
    };
    return kernels;
}

}  // namespace tessella
