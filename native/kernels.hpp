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
    double* sums;         // (n_factors) one rotated row before rounding
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

struct ExactItems {
    const float* factors;     // (n_items, n_factors), by falling norm
    const int64_t* rows;      // (n_items) the row of each, for ties, filters and answers
    const uint8_t* dead;      // a bit for each item that is no longer there, or null
    const int8_t* codes;      // (n_blocks, code_size / 2, BLOCK_ITEMS, 2)
    const int16_t* offsets;   // (n_blocks, BLOCK_ITEMS) -64 * the sum of each code, modulo 2^16
    const BlockTerms* terms;  // (n_blocks)
    int64_t n_items;
    int64_t n_factors;
    int64_t code_size;  // even
};

struct ExactQueries {
    const float* factors;            // (n_queries, n_factors)
    const uint8_t* codes;            // (n_queries, code_size), from 1 to 127: 64 more than the code
    const QueryTerms* terms;         // (n_queries)
    const uint8_t* allowed;          // a bit for each row, or null for all
    const int64_t* excluded;         // rows, ascending for each query
    const int64_t* excluded_starts;  // (n_queries + 1)
    int64_t n_queries;
};

struct BestArrays {
    float* scores;    // (n_queries, k), a heap with the worst first
    int64_t* rows;    // (n_queries, k)
    int64_t* counts;  // (n_queries) how many are filled
    int64_t* scored;  // (n_queries) grows by the items scored
    uint8_t* open;    // (n_queries) scratch
    int64_t k;
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
                         double* terse, uint8_t* codes, QueryTerms* terms);
    // Puts each query's answers in order, best first.
    void (*sort_found)(const BestArrays& found, int64_t n_queries);
    // Offers every live item to every query's best k, leaving out those that cannot be among them.
    void (*exact_scan)(const ExactItems& items, const ExactQueries& queries, const BestArrays& found);
};

const Kernels& baseline_kernels();
#if defined(TESSELLA_HAS_AVX2)
const Kernels& avx2_kernels();
#endif

}  // namespace tessella
