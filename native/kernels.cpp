// Compiled once for each SIMD level with that level's flags and TESSELLA_LEVEL set to its name.
//
// Everything below has internal linkage and uses no standard library: the linker could replace an inline function
// that is shared between levels by a version that the processor cannot run.
#include "kernels.hpp"
#include "packing.hpp"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define TESSELLA_JOIN_(a, b) a##b
#define TESSELLA_JOIN(a, b) TESSELLA_JOIN_(a, b)
#define TESSELLA_TEXT_(a) #a
#define TESSELLA_TEXT(a) TESSELLA_TEXT_(a)

namespace tessella {
namespace {

// How many vectors are sorted together, one per lane of a register. A vector's arithmetic never crosses lanes, so the
// width of a level cannot change a result.
#if defined(__AVX2__)
constexpr int64_t LANES = 8;
#else
constexpr int64_t LANES = 4;
#endif

// In the order of the data flow, not in alphabetical order.
// clang-format off
#include "arithmetic.hpp"
#include "prepare.hpp"
#include "lanes.hpp"
#include "tessellation.hpp"
#include "dary.hpp"
#include "slot_maps.hpp"
#include "selection.hpp"
#include "offers.hpp"
#include "gather.hpp"
#include "exact_codes.hpp"
#include "exact.hpp"
#include "postings.hpp"
#include "tile_codes.hpp"
#include "tiles.hpp"
#include "neighbours.hpp"
// clang-format on

}  // namespace

const Kernels& TESSELLA_JOIN(TESSELLA_LEVEL, _kernels)() {
    static const Kernels kernels = {
        TESSELLA_TEXT(TESSELLA_LEVEL),
        first_nonfinite,
        prepare,
        count_entries,
        ternary_tiles,
        nearest_dary_tiles,
        rounded_dary_tiles,
        fill<int32_t>,
        fill<int64_t>,
        inner_products,
        code_items,
        sketch,
        code_tile_items,
        nearest_tiles,
        group_neighbours,
        first_refused,
        code_exact_queries,
        scan_exact,
        gather_exact,
        code_tile_queries,
        bound_centres,
        count_groups,
        make_probes,
        scan_tile_0,
        scan_tiles,
        gather_tiles,
        raise_cuts,
        score_gathered,
        select_best,
        scan_postings,
        score_candidates,
        score_sharing,
        score_positions,
        sort_answers,
    };
    return kernels;
}

}  // namespace tessella
