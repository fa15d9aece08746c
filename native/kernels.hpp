// The kernels of one SIMD level, as a table of plain functions.
//
// Every function works on a block of rows, on the calling thread, in a Workspace that no other call uses. kernels.cpp
// is compiled once for each level; nothing in it may be shared between levels.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessella {

// Memory of one call, sized by OwnedWorkspace for rows of n_factors coordinates.
struct Workspace {
    float* lanes;         // (n_factors rounded up to 8, up to 16 lanes) magnitudes, a row to a lane; 64-byte aligned
    float* unit;          // the same, as multiples of each row's largest
    double* prefix;       // (n_factors rounded up to 8, + 1, up to 16 lanes) running sums of sorted magnitudes
    double* wide;         // (4, n_factors) rows to be rotated
    double* turned;       // (4, n_factors) and rotated, before rounding
    int64_t* slots;       // (n_factors) the slots of one row, in coordinate order
    int32_t* regions;     // (n_factors) the counter tree's region of each
    int64_t* kept_slots;  // (n_factors + 8) some of a row's entries, before they are stored
    float* kept_values;   // (n_factors + 8)
};

struct Preparation {
    const double* rotation;  // (n_factors, n_factors), or null for none
    double threshold;        // coordinates smaller than this become zero
    bool relative;           // threshold is a multiple of the row's own root mean square
};

struct SlotRule {
    int32_t levels;  // tiles hold integers in [-levels, levels]
    int32_t depth;   // window of the parse tree; 0 is the counter tree
};

inline constexpr int64_t MAX_FACTORS = 4096;

// Exact search: see exact.hpp.
inline constexpr int64_t BLOCK_ITEMS = 64;
inline constexpr int64_t STRETCH_BLOCKS = 32;
inline constexpr int32_t QUERY_OFFSET = 64;

struct BlockTerms {     // of the items of a block, each an upper bound
    double norm;        // norms, with room for the rounding of scores
    double error;       // distances between coordinates and their codes, with the same room
    double coded_norm;  // norms of coded coordinates
    double scale;       // what one step of a code stands for
};

struct QueryTerms {
    double norm;
    double error;  // distance between coordinates and their code
    double scale;
};

struct QueryCoding {
    const double* head;  // (n_factors, n_head) axes as columns
    int64_t n_head;
    int64_t code_size;
    double largest;  // the largest place of a code
    double longest;  // its greatest norm
};

// Some of the items, by falling norm: an item's number in that order is its place.
struct Items {
    const float* factors;  // (n_items, n_factors)
    const int32_t* rows;   // (n_items) the row of each, for ties and filters
    const uint8_t* dead;   // a bit for each place whose item is no longer there, or null
    int64_t n_items;
    int64_t n_factors;
    int64_t base;  // added to a place, so that those of several segments differ
};

struct Codes {
    const int8_t* codes;      // (n_blocks, code_size / 2, BLOCK_ITEMS, 2)
    const int16_t* offsets;   // (n_blocks, BLOCK_ITEMS) -64 * the sum of each code, modulo 2^16
    const BlockTerms* terms;  // (n_blocks)
    int64_t code_size;        // even
};

struct ItemCoding {
    int64_t n_head;  // coordinates of a turned factor that are coded
    int64_t code_size;
    double largest;
    double longest;
    double room;  // how much of a norm rounding may take, that of scores and that of turned factors
};

struct Queries {
    const float* factors;            // (n_queries, n_factors)
    const uint8_t* allowed;          // a bit for each row, or null for all
    const int64_t* excluded;         // rows, ascending for each query
    const int64_t* excluded_starts;  // (n_queries + 1)
    int64_t n_queries;
};

struct QueryCodes {
    const uint8_t* codes;     // (n_queries, code_size), from 1 to 127: 64 more than the code
    const QueryTerms* terms;  // (n_queries)
};

// An answer is held as its row and place in one number, so that equal scores go by row.
struct BestArrays {
    float* scores;     // (n_queries, k), a heap with the worst first
    int64_t* answers;  // (n_queries, k) row << 32 | base + place
    int64_t* counts;   // (n_queries) how many are filled
    int64_t* scored;   // (n_queries) grows by the items scored
    uint8_t* open;     // (n_queries) scratch
    int64_t k;
};

// Slots search: see postings.hpp.
inline constexpr int64_t POSTING_BLOCK = 65536;
inline constexpr int64_t STRIDE = 64;             // places looked at together, and entries left out together
inline constexpr int32_t FAINT = 32;              // contributions below this share of the largest are left out
inline constexpr int64_t PROVABLE_PLACES = 2048;  // how far a proof looks for an item that was not scored

struct Postings {
    const uint16_t* places;      // (n_entries) within a block
    const int8_t* impacts;       // (n_entries) falling in size along a list
    const int64_t* slots;        // (n_lists) ascending within a block
    const int64_t* starts;       // (n_lists + 1)
    const float* scales;         // (n_lists) what one step of an impact stands for
    const int64_t* block_lists;  // (n_blocks + 1) the first list of each block
    int64_t n_blocks;
};

struct QueryEntries {
    const int64_t* starts;  // (n_queries + 1)
    const int64_t* slots;   // ascending for each query
    const float* values;
};

struct Ranking {
    int64_t max_slots;
    int64_t min_overlap;
    double longest;  // at least the norm of every item of every segment
};

// The items chosen to be scored: partial product << 32 | 2^32 - 1 - (base + place), so larger is better.
struct Chosen {
    uint64_t* keys;   // (n_queries, budget)
    int64_t* counts;  // (n_queries)
    int64_t budget;
};

// Zero between calls, but for `buffer` and `heaviest`.
struct SlotScratch {
    int32_t* sums;       // (POSTING_BLOCK) partial products
    uint16_t* overlaps;  // (POSTING_BLOCK) slots shared
    uint8_t* touched;    // (POSTING_BLOCK / STRIDE)
    uint64_t* buffer;    // (4 * budget + STRIDE)
    uint64_t* heaviest;  // (entries of the longest query)
};

// Learned tiles: see tiles.hpp.
inline constexpr int64_t GROUP_ROWS = 16;
inline constexpr double LONGEST_ROW_CODE = 214.0;  // what codes may measure: their products fit 16 bits
inline constexpr double LONGEST_ASKER_CODE = 152.0;
inline constexpr float SMALLEST_STEP = 1e-30f;

// Rows as small integers, each with a scale of its own, in groups of GROUP_ROWS that lie in pairs of places.
struct CodedRows {
    const int8_t* codes;     // (n_groups, code_size / 2, GROUP_ROWS, 2)
    const int16_t* offsets;  // (n_groups, GROUP_ROWS) -64 * the sum of each code, modulo 2^16
    const float* scales;     // (n_groups, GROUP_ROWS), zero beyond the last row
    int64_t code_size;       // even
};

struct AskerTerms {
    float scale;
    float norm;
};

// Queries, or items that look for their tile.
struct Askers {
    const uint8_t* codes;     // (n, code_size), from 1 to 127: 64 more than the code
    const AskerTerms* terms;  // (n)
};

// The items of a segment by tile. Tile 0 holds the longest; tile t + 1 lies around centre t.
struct FiledItems {
    const int32_t* places;  // (n_filed)
    const int32_t* starts;  // (n_tiles + 2)
    CodedRows coded;        // (n_filed)
    const float* radii;     // (n_tiles, rounded up to GROUP_ROWS) how far from its centre a tile's items lie at most
    int64_t n_tiles;        // around centres
    bool repeats;           // whether an item is filed under several tiles
};

struct TileScratch {
    float* bounds;         // (items of the largest tile, + 16 rounded up to 64)
    float* classes;        // (n_classes)
    uint64_t* keys;        // (n_classes)
    float* slacks;         // (n_queries)
    float* lengths;        // (n_queries)
    float* floors;         // (n_queries)
    int32_t* coming;       // (n_queries)
    uint32_t* wanted;      // (n_queries)
    int32_t* marked_rows;  // (2 * n_marked)
    float* marked_bounds;  // (2 * n_marked)
    int64_t n_classes;
    int64_t n_marked;  // items of the largest tile
};

// A segment's ids, with the order that sorts them.
struct IdTable {
    const int64_t* ids;    // (n_items)
    const int32_t* by_id;  // (n_items)
    const uint8_t* dead;   // a bit for each place, or null
    int64_t n_items;
};

struct Kernels {
    const char* name;
    // The first row with a NaN or an infinity, or n_rows.
    int64_t (*first_bad_row)(const float* factors, int64_t n_rows, int64_t n_factors);
    void (*prepare)(const float* factors, int64_t n_rows, int64_t n_factors, const Preparation& how,
                    const Workspace& space, float* prepared);
    // Non-zeros of each row, up to the first row with a NaN or an infinity; returns that row, or n_rows.
    int64_t (*count_entries)(const float* prepared, int64_t n_rows, int64_t n_factors, int64_t* counts);
    void (*ternary_tiles)(const float* factors, int64_t n_rows, int64_t n_factors, int64_t max_nonzeros,
                          const Workspace& space, int8_t* tiles);
    void (*exact_tiles)(const float* factors, int64_t n_rows, int64_t n_factors, int32_t levels, const Workspace& space,
                        int8_t* tiles);
    void (*rounded_tiles)(const float* factors, int64_t n_rows, int64_t n_factors, int32_t levels, int8_t* tiles);
    // Writes each row's entries from starts[row] to starts[row + 1], ascending by slot. Returns n_rows, or the first
    // row whose entries do not fill that room.
    int64_t (*fill_narrow)(const float* prepared, const int8_t* tiles, int64_t n_rows, int64_t n_factors,
                           const SlotRule& rule, const Workspace& space, const int32_t* starts, int32_t* slots,
                           float* values);
    int64_t (*fill_wide)(const float* prepared, const int8_t* tiles, int64_t n_rows, int64_t n_factors,
                         const SlotRule& rule, const Workspace& space, const int64_t* starts, int64_t* slots,
                         float* values);
    void (*code_queries)(const float* queries, int64_t n_queries, int64_t n_factors, const QueryCoding& coding,
                         double* scratch, uint8_t* codes, QueryTerms* terms);
    // Fills in the places, with the base added, of those ids that are there.
    void (*find_ids)(const IdTable& table, int64_t base, const int64_t* wanted, int64_t n_wanted, int64_t* places);
    // Puts each query's answers in order, best first.
    void (*sort_found)(const BestArrays& found, int64_t n_queries);
    // `turned` holds the factors along the principal axes; `terse` is scratch for BLOCK_ITEMS codes, their size rounded
    // up to 4.
    void (*code_items)(const float* factors, const float* turned, int64_t n_items, int64_t n_factors,
                       const ItemCoding& coding, double* terse, int8_t* codes, int16_t* offsets, BlockTerms* terms);
    // Offers every live item to every query's best k, leaving out those that cannot be among them.
    void (*exact_scan)(const Items& items, const Codes& codes, const Queries& queries, const QueryCodes& coded,
                       const BestArrays& found);
    // Offers every live item that shares slots with a query to its chosen ones.
    void (*slot_scan)(const Items& items, const Postings& postings, const Queries& queries, const QueryEntries& entries,
                      const Ranking& ranking, const SlotScratch& scratch, const Chosen& chosen);
    // Scores the chosen items of a segment, which go by place; `cursors` is scratch (n_queries), `unseen` rises to what
    // an item that was not scored might reach.
    void (*score_chosen)(const Items& items, const BlockTerms* terms, const Queries& queries, const Chosen& chosen,
                         const BestArrays& found, int64_t* cursors, double* unseen);
    void (*code_rows)(const float* factors, int64_t n_rows, int64_t n_factors, int64_t code_size, int8_t* codes,
                      int16_t* offsets, float* scales);
    void (*code_askers)(const float* queries, int64_t n_queries, int64_t n_factors, int64_t code_size, uint8_t* codes,
                        AskerTerms* terms);
    // The tile whose centre is nearest to each asker, other than the one that is `taken` if that is given; `halves` are
    // half the squared norms of centres.
    void (*nearest_tiles)(const CodedRows& centres, const float* halves, int64_t n_tiles, const Askers& askers,
                          int64_t n_askers, const int32_t* taken, float* bounds, int32_t* tiles);
    // What a query and a centre score at most, as far as `reach` believes; minus infinity beyond the last centre.
    void (*rank_tiles)(const CodedRows& centres, int64_t n_groups, int64_t n_factors, const Askers& askers,
                       int64_t n_queries, double reach, float* nears);
    // Offers the items of those tiles that may hold answers to each query's best k.
    void (*tile_scan)(const Items& items, const FiledItems& filed, const Queries& queries, const Askers& askers,
                      const float* nears, double reach, const TileScratch& scratch, const BestArrays& found);
};

const Kernels& baseline_kernels();
#if defined(TESSELLA_HAS_AVX2)
const Kernels& avx2_kernels();
#endif

}  // namespace tessella
