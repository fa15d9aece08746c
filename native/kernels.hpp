// The kernels of one SIMD level, as a table of plain functions, and the arrays they read and fill.
//
// Every function runs on the calling thread, in memory that no other call uses. kernels.cpp is compiled once for each
// level; nothing in it may be shared between levels. A struct has the name of the Python class whose arrays it views.
#pragma once

#include <cstddef>
#include <cstdint>

#include "numbers.hpp"

namespace tessella {

// The mapping: factors -> tiles -> slots -> entries of sparse vectors.

// Memory of one call, sized by OwnedWorkspace for vectors of n_factors coordinates.
struct Workspace {
    float* lanes;      // (n_factors rounded up to 8, up to 16 lanes) magnitudes, one vector per lane; 64-byte aligned
    float* unit;       // magnitudes as multiples of each vector's largest
    double* prefix;    // (n_factors rounded up to 8, + 1, up to 16 lanes) running sums of sorted magnitudes
    double* wide;      // (4, n_factors) vectors to be rotated
    double* rotated;   // (4, n_factors) rotated vectors, before rounding
    int64_t* slots;    // (n_factors) the slots of one vector, in coordinate order
    int32_t* regions;  // (n_factors) the counter tree's region of each
    int64_t* kept_slots;  // (n_factors + 8) some of a vector's entries, before they are stored
    float* kept_values;   // (n_factors + 8)
};

struct Preparation {
    const double* rotation;  // (n_factors, n_factors), or null for none
    double threshold;        // coordinates smaller than this become zero
    bool relative;           // threshold is a multiple of the vector's own root mean square
};

struct SlotRule {
    int32_t levels;  // tiles hold integers in [-levels, levels]
    int32_t depth;   // window of the parse tree; 0 is the counter tree
};

// Items, queries, filters and answers, for every method.

// The items of a segment by falling norm: an item's number in that order is its position.
struct Items {
    const float* factors;    // (n_items, n_factors)
    const int32_t* rows;     // (n_items) the order in which items were added
    const uint8_t* removed;  // a bit for each position, set if its item was removed, or null
    int64_t n_items;
    int64_t n_factors;
    int64_t base;  // added to a position, so that those of several segments differ
};

// Which rows may answer: those whose bit is set, except those that a query excludes.
struct RowFilter {
    const uint8_t* allowed;          // a bit for each row, or null for all
    const int64_t* excluded;         // rows, ascending for each query
    const int64_t* excluded_starts;  // (n_queries + 1), or null if none are excluded
};

struct Queries {
    const float* factors;  // (n_queries, n_factors)
    int64_t n_queries;
    RowFilter filter;
};

// The best answers so far of some queries.
struct TopK {
    float* scores;      // (n_queries, stride), the first `counts` of each are a heap with the worst first
    int64_t* ranks;     // (n_queries, stride), see packing.hpp
    int64_t* counts;    // (n_queries) how many answers there are
    int64_t* n_scored;  // (n_queries) grows by the items scored
    uint8_t* ordered;   // (n_queries) whether the answers are sorted instead of a heap
    int64_t k;          // how many are kept
    int64_t stride;
};

// Exact search: see exact.hpp.

struct BlockTerms {     // upper bounds over the items of a block
    double norm;        // of norms, with a margin for the rounding of scores
    double error;       // of distances between sketches and their codes, with the same margin
    double coded_norm;  // of norms of coded sketches
    double scale;       // the step size of codes; not a bound
    double tail;        // of norms of tails
};

struct ExactCodes {
    const int8_t* codes;      // (n_blocks, code_size / 2, BLOCK_ITEMS, 2)
    const int16_t* offsets;   // (n_blocks, BLOCK_ITEMS) -QUERY_OFFSET * the sum of each code, modulo 2^16
    const BlockTerms* terms;  // (n_blocks)
    int64_t code_size;        // even
};

struct Axes {
    const double* head;  // (n_factors, n_head) axes as columns
    int64_t n_head;
    int64_t code_size;
};

struct ExactQueryTerms {
    double norm;
    double error;  // distance between the sketch and its code
    double scale;
    double tail;  // norm of the tail
};

struct ExactQueries {
    const uint8_t* codes;          // (n_queries, code_size), from 1 to 127: QUERY_OFFSET more than the code
    const ExactQueryTerms* terms;  // (n_queries)
};

// Tile search: see tiles.hpp.

// Items, or the centres of tiles, as small integers, each with its own scale, in groups of GROUP_ITEMS that are stored
// in pairs of coordinates.
struct TileCodes {
    const int8_t* codes;     // (n_groups, code_size / 2, GROUP_ITEMS, 2)
    const int16_t* offsets;  // (n_groups, GROUP_ITEMS) -QUERY_OFFSET * the sum of each code, modulo 2^16
    const float* scales;     // (n_groups, GROUP_ITEMS), zero beyond the last
    int64_t code_size;       // even
};

struct TileQueryTerms {
    float scale;
    float norm;
    float tail;  // of a sketch, or 0
};

// Queries, or items that are assigned to tiles.
struct TileQueries {
    const uint8_t* codes;         // (n, code_size), from 1 to 127: QUERY_OFFSET more than the code
    const TileQueryTerms* terms;  // (n)
};

// The items of a segment by tile. Tile 0 holds the longest; tile t + 1 lies around centre t. A tile's items are in
// groups of neighbours, of which the last may not be full. Each group has its own centre.
struct TiledItems {
    const int32_t* members;        // (n_groups, GROUP_ITEMS) positions, -1 where there is none
    const int32_t* starts;         // (n_tiles + 2) the first group of each tile
    const uint8_t* rooms;          // (n_tiles + 1) the number of free places in each tile's last group
    TileCodes coded;               // of members
    TileCodes groups;              // of the groups' centres; those of a tile begin at a multiple of GROUP_ITEMS
    const int32_t* centre_starts;  // (n_tiles + 2) where they begin, in units of GROUP_ITEMS
    const float* group_radii;      // for each of `groups`, the largest distance of its items from its centre
    const float* radii;            // (n_tiles, rounded up to GROUP_ITEMS) the same for each tile
    int64_t n_tiles;               // around centres
    int64_t largest;               // groups of the largest tile
    bool repeats;                  // whether an item is a member of several tiles
};

// The centres of tiles, by falling norm.
struct Centres {
    TileCodes coded;
    const float* norms;     // (n_groups) a bound of the norms of the centres in this group and all later ones
    const float* farthest;  // (n_groups) the largest radius in this group and all later ones
    int64_t n_groups;
};

// What a query needs to bound tiles, groups and items. Bounds of groups and items are in steps of the query's scale.
struct Probe {
    int64_t query;
    const uint8_t* code;
    float scale;
    float slack;
    float norm;
    float per_radius;        // reach times the query's norm
    float steps_per_radius;  // the same in steps
    float lost;              // what products may lose or gain by underflow
    float tail;           // what the tails of the query and an item may take away, in steps, for a step of the item's
    int64_t tail_column;  // of codes
};

struct TileScratch {
    float* bounds;              // (items of the largest tile, rounded up to 64)
    float* caps;                // (groups of the largest tile, rounded up to GROUP_ITEMS)
    int32_t* groups;            // (groups of the largest tile, + 1)
    float* classes;             // (n_classes)
    uint64_t* keys;             // (n_classes, or groups of the largest tile)
    const Probe* probes;        // (n_queries)
    float* floors;              // (n_queries)
    int32_t* visitors;          // (n_queries + 1)
    uint32_t* tiles_to_visit;   // (n_queries + 1)
    int32_t* marked_positions;  // (2 * items of the largest tile)
    float* marked_bounds;       // (2 * items of the largest tile)
    float* marked_caps;         // (2 * items of the largest tile)
    int64_t n_classes;
};

// Items that may answer, gathered to be scored last: see gather.hpp.

inline constexpr int32_t CUT_STEPS = 256;

// The value that upper bounds must reach, and a histogram of lower bounds to raise it with.
struct Cut {
    float value;
    float spare;   // how much lower the cut is than lower bounds, since scores may lose that much by underflow
    int64_t next;  // the number of items at which it is raised exactly
    bool full;     // there was no room left: the query must be answered in another way
    float origin, width, inverse;
    int32_t step;
    int64_t n_above;            // the number of lower bounds from this step on
    int32_t counts[CUT_STEPS];  // of lower bounds, in steps of `width` from `origin`
};

// The cut of a query that has gathered nothing.
static inline Cut first_cut(int64_t k, int64_t room) {
    Cut cut;
    cut.value = -LARGEST_BOUND;
    cut.spare = 0.0f;
    cut.next = 2 * k < room - 64 ? 2 * k : room - 64;
    cut.full = false;
    cut.origin = __builtin_inff();  // nothing is counted yet
    cut.width = cut.inverse = 0.0f;
    cut.step = 0;
    cut.n_above = 0;
    return cut;
}

struct Gathered {
    float* uppers;       // (n_queries, room) what they score at most
    uint32_t* lowers;    // (n_queries, room) and at least, as bits that rise
    int32_t* positions;  // (n_queries, room) with the base added
    int64_t* counts;     // (n_queries)
    Cut* cuts;           // (n_queries)
    int64_t room;
    int64_t k;
};

// An answer to be sorted.
struct Ordered {
    uint64_t key;   // larger for better answers: the sortable bits of the score, then the inverted row
    uint32_t from;  // the index of its rank
};

// Slots search: see postings.hpp.

struct Postings {
    const uint16_t* positions;   // (n_entries) within a block
    const int8_t* impacts;       // (n_entries) falling in size along a list
    const int64_t* slots;        // (n_lists) ascending within a block
    const int64_t* starts;       // (n_lists + 1)
    const float* scales;         // (n_lists) the step sizes of impacts
    const int64_t* block_lists;  // (n_blocks + 1) the first list of each block
    int64_t n_blocks;
};

// The sparse map of queries.
struct Entries {
    const int64_t* starts;  // (n_queries + 1)
    const int64_t* slots;   // ascending for each query
    const float* values;
};

struct SlotsSetting {
    int64_t budget;     // items scored for a query
    int64_t max_slots;  // of a query, those with the largest values
    int64_t min_overlap;
    double longest;  // at least the norm of every item of every segment
};

// The items chosen to be scored, by position; see packing.hpp.
struct Candidates {
    uint64_t* keys;   // (n_queries, budget)
    int64_t* counts;  // (n_queries)
    int64_t budget;
};

// All zeros between calls, except `buffer` and `heaviest`.
struct SlotsScratch {
    int32_t* sums;       // (POSTING_BLOCK) partial products
    uint16_t* overlaps;  // (POSTING_BLOCK) slots shared
    uint8_t* touched;    // (POSTING_BLOCK / STRIDE)
    uint64_t* buffer;    // (4 * budget + STRIDE)
    uint64_t* heaviest;  // (MAX_FACTORS)
};

struct Kernels {
    const char* name;
    // The first vector with a NaN or an infinity, or n.
    int64_t (*first_nonfinite)(const float* factors, int64_t n, int64_t n_factors);
    void (*prepare)(const float* factors, int64_t n, int64_t n_factors, const Preparation& how, const Workspace& space,
                    float* prepared);
    // Non-zeros of each vector, up to the first with a NaN or an infinity; returns that one, or n.
    int64_t (*count_entries)(const float* prepared, int64_t n, int64_t n_factors, int64_t* counts);
    void (*ternary_tiles)(const float* factors, int64_t n, int64_t n_factors, int64_t max_nonzeros,
                          const Workspace& space, int8_t* tiles);
    void (*nearest_dary_tiles)(const float* factors, int64_t n, int64_t n_factors, int32_t levels,
                               const Workspace& space, int8_t* tiles);
    void (*rounded_dary_tiles)(const float* factors, int64_t n, int64_t n_factors, int32_t levels, int8_t* tiles);
    // Writes the entries of each vector from its start to the next, ascending by slot. Returns n, or the first vector
    // whose entries do not fill that room.
    int64_t (*fill_narrow)(const float* prepared, const int8_t* tiles, int64_t n, int64_t n_factors,
                           const SlotRule& rule, const Workspace& space, const int32_t* starts, int32_t* slots,
                           float* values);
    int64_t (*fill_wide)(const float* prepared, const int8_t* tiles, int64_t n, int64_t n_factors, const SlotRule& rule,
                         const Workspace& space, const int64_t* starts, int64_t* slots, float* values);
    // The inner products of all queries and all items.
    void (*inner_products)(const float* queries, int64_t n_queries, const float* items, int64_t n_items,
                           int64_t n_factors, float* products);

    // `rotated` holds the factors along the principal axes; `sketches` is scratch for BLOCK_ITEMS codes, their size
    // rounded up to 4.
    void (*code_items)(const float* factors, const float* rotated, int64_t n_items, int64_t n_factors, int64_t n_head,
                       double* sketches, int8_t* codes, int16_t* offsets, BlockTerms* terms);
    // Coordinates along the first axes, and an upper bound of the norm of the rest. `scratch` has room for four factors
    // and four codes, their size rounded up to 4.
    void (*sketch)(const float* factors, int64_t n, int64_t n_factors, const Axes& axes, double* scratch,
                   float* sketches);
    void (*code_tile_items)(const float* factors, int64_t n, int64_t n_factors, int64_t code_size, int8_t* codes,
                            int16_t* offsets, float* scales);
    // The tile whose centre is nearest to each query, except the one in `taken`, if given. `halves` are half the
    // squared norms of centres.
    void (*nearest_tiles)(const TileCodes& centres, const float* halves, int64_t n_tiles, const TileQueries& queries,
                          int64_t n_queries, const int32_t* taken, float* bounds, int32_t* tiles);

    // Sorts the members of each tile into groups of neighbours; the last group may be smaller. Scratch: `direction`
    // (n_factors), `sums` (n_factors, + 3), `keys` and `others` (members of the largest tile).
    void (*group_neighbours)(const float* factors, int64_t n_factors, const int64_t* starts, int64_t n_tiles,
                             float* direction, double* sums, uint64_t* keys, int32_t* others, int32_t* members);

    // The first query that is not finite, or whose product with the longest item may overflow a float; else n_queries.
    int64_t (*first_refused)(const float* queries, int64_t n_queries, int64_t n_factors, double longest);
    void (*code_exact_queries)(const float* queries, int64_t n_queries, int64_t n_factors, const Axes& axes,
                               double* scratch, uint8_t* codes, ExactQueryTerms* terms);
    // Offers items to every query's best k, skipping those that cannot be among them. `open` is scratch (n_queries).
    void (*scan_exact)(const Items& items, const ExactCodes& codes, const Queries& queries, const ExactQueries& coded,
                       uint8_t* open, const TopK& best);
    // Gathers such items, with a share of the slack that certain bounds need.
    void (*gather_exact)(const Items& items, const ExactCodes& codes, const Queries& queries, const ExactQueries& coded,
                         double share, uint8_t* open, const Gathered& gathered);
    void (*code_tile_queries)(const float* queries, int64_t n_queries, int64_t n_factors, int64_t code_size,
                              uint8_t* codes, TileQueryTerms* terms);
    // Upper bounds of the products of queries and centres, with a share of the slack given by `reach`; minus infinity
    // beyond the last centre. For each query, `n_bounded` groups of centres are bounded.
    void (*bound_centres)(const Centres& centres, const Probe* probes, int64_t n_queries, const int64_t* n_bounded,
                          float* centre_bounds);
    // How many groups of centres may belong to tiles with answers, given the answers so far.
    void (*count_groups)(const Centres& centres, const Probe* probes, int64_t n_queries, const TopK& best,
                         int64_t* n_bounded);
    // Prepares queries for scanning tiles, once for all segments.
    void (*make_probes)(const TileQueries& coded, int64_t n_queries, int64_t n_factors, int64_t code_size,
                        int64_t tail_column, double reach, Probe* probes);
    // Offers the items of tile 0 to each query's best k.
    void (*scan_tile_0)(const Items& items, const TiledItems& tiled, const Queries& queries, const TileScratch& scratch,
                        const TopK& best);
    // Offers the items of the other tiles that may hold answers.
    void (*scan_tiles)(const Items& items, const TiledItems& tiled, const Queries& queries, const float* centre_bounds,
                       const int64_t* n_bounded, const TileScratch& scratch, const TopK& best);
    // Gathers the items of the tiles that may hold answers.
    void (*gather_tiles)(const Items& items, const TiledItems& tiled, const Queries& queries,
                         const float* centre_bounds, const int64_t* n_bounded, const TileScratch& scratch,
                         const Gathered& gathered);
    // Drops gathered items that cannot be answers.
    void (*raise_cuts)(const Gathered& gathered, int64_t n_queries);
    // Scores the items that a query gathered in a segment, from `first` on; returns the first that is in another
    // segment.
    int64_t (*score_gathered)(const Items& items, const float* query, const int32_t* positions, int64_t first,
                              int64_t count, float* scores, int64_t* ranks);
    // The best k of scored items, best first; returns how many there are. Scratch: `keys` (count), `ordered` (2 *
    // count).
    int64_t (*select_best)(const float* scores, const int64_t* ranks, int64_t count, int64_t k, uint32_t* keys,
                           Ordered* ordered, float* best_scores, int64_t* best_ranks);
    // Offers every item that shares slots with a query to its candidates.
    void (*scan_postings)(const Items& items, const Postings& postings, const Queries& queries, const Entries& entries,
                          const SlotsSetting& setting, const SlotsScratch& scratch, const Candidates& candidates);
    // Scores the candidates of a segment. `cursors` is scratch (n_queries). `unseen` is raised to a bound on the scores
    // of items that were not scored.
    void (*score_candidates)(const Items& items, const BlockTerms* terms, const Queries& queries,
                             const Candidates& candidates, const TopK& best, int64_t* cursors, double* unseen);
    // Scores every item that shares enough slots with a query: the paper's own rule.
    void (*score_sharing)(const Items& items, const Postings& postings, const Queries& queries, const Entries& entries,
                          const SlotsSetting& setting, const SlotsScratch& scratch, const TopK& best);
    // Scores the items at some positions for all queries.
    void (*score_positions)(const Items& items, const int32_t* positions, int64_t n_positions, const Queries& queries,
                            const TopK& best);
    // Sorts each query's answers, best first.
    void (*sort_answers)(const TopK& best, int64_t n_queries);
};

const Kernels& baseline_kernels();
#if defined(TESSELLA_X86)
const Kernels& avx2_kernels();
const Kernels& avx512_kernels();
#endif

}  // namespace tessella
