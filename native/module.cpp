// Bindings only: shapes are checked, the GIL is released, a kernel runs on the calling thread. See README.md.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "arrays.hpp"
#include "kernels.hpp"
#include "server.hpp"
#include "workspace.hpp"

using namespace nb::literals;

namespace tessella {
namespace {

std::vector<std::string> levels() {
    std::vector<std::string> names;
    for (const Kernels* kernels : available()) names.emplace_back(kernels->name);
    return names;
}

int64_t first_bad_row(Matrix<const float> factors, int64_t level) {
    const Kernels& kernels = kernels_at(level);
    nb::gil_scoped_release unlocked;
    return kernels.first_bad_row(factors.data(), rows_of(factors), columns_of(factors));
}

void prepare(Matrix<const float> factors, std::optional<Matrix<const double>> rotation, double threshold, bool relative,
             Matrix<float> prepared, int64_t level) {
    const Kernels& kernels = kernels_at(level);
    require_width(factors);
    require_same_shape(factors, prepared);
    require(!rotation || (rotation->shape(0) == factors.shape(1) && rotation->shape(1) == factors.shape(1)),
            "the rotation is not square or not of the factors' width");
    const Preparation how = {rotation ? rotation->data() : nullptr, threshold, relative};
    const OwnedWorkspace space(columns_of(factors));
    nb::gil_scoped_release unlocked;
    kernels.prepare(factors.data(), rows_of(factors), columns_of(factors), how, space.view, prepared.data());
}

int64_t count_entries(Matrix<const float> prepared, Vector<int64_t> counts, int64_t level) {
    const Kernels& kernels = kernels_at(level);
    require(prepared.shape(0) == counts.shape(0), "shapes differ");
    nb::gil_scoped_release unlocked;
    return kernels.count_entries(prepared.data(), rows_of(prepared), columns_of(prepared), counts.data());
}

void ternary_tiles(Matrix<const float> factors, int64_t max_nonzeros, Matrix<int8_t> tiles, int64_t level) {
    const Kernels& kernels = kernels_at(level);
    require_width(factors);
    require_same_shape(factors, tiles);
    require(max_nonzeros >= 1 && max_nonzeros <= columns_of(factors),
            "max_nonzeros is from 1 to the number of coordinates");
    const OwnedWorkspace space(columns_of(factors));
    nb::gil_scoped_release unlocked;
    kernels.ternary_tiles(factors.data(), rows_of(factors), columns_of(factors), max_nonzeros, space.view,
                          tiles.data());
}

void dary_tiles(Matrix<const float> factors, int32_t n_levels, bool exact, Matrix<int8_t> tiles, int64_t level) {
    const Kernels& kernels = kernels_at(level);
    require_width(factors);
    require_same_shape(factors, tiles);
    require(n_levels >= 1 && n_levels <= 127, "levels are from 1 to 127");
    const OwnedWorkspace space(columns_of(factors));
    nb::gil_scoped_release unlocked;
    if (exact)
        kernels.exact_tiles(factors.data(), rows_of(factors), columns_of(factors), n_levels, space.view, tiles.data());
    else
        kernels.rounded_tiles(factors.data(), rows_of(factors), columns_of(factors), n_levels, tiles.data());
}

template <typename Index, typename Fill>
int64_t fill_with(Fill fill, const Matrix<const float>& prepared, const Matrix<const int8_t>& tiles,
                  const SlotRule& rule, const Vector<const Index>& starts, const Vector<Index>& slots,
                  const Vector<float>& values) {
    require_width(prepared);
    require_same_shape(prepared, tiles);
    require(rule.levels >= 1 && rule.levels <= 127 && rule.depth >= 0 && rule.depth <= 32,
            "levels are from 1 to 127 and depth from 0 to 32");
    require(starts.shape(0) == prepared.shape(0) + 1 && slots.shape(0) == values.shape(0), "shapes differ");
    const OwnedWorkspace space(columns_of(prepared));
    nb::gil_scoped_release unlocked;
    int64_t before = 0;
    for (size_t row = 0; row < starts.shape(0); ++row) {
        const int64_t start = starts.data()[row];
        require(before <= start && start <= static_cast<int64_t>(slots.shape(0)), "starts leave the arrays");
        before = start;
    }
    return fill(prepared.data(), tiles.data(), rows_of(prepared), columns_of(prepared), rule, space.view, starts.data(),
                slots.data(), values.data());
}

int64_t fill_narrow(Matrix<const float> prepared, Matrix<const int8_t> tiles, int32_t n_levels, int32_t depth,
                    Vector<const int32_t> starts, Vector<int32_t> slots, Vector<float> values, int64_t level) {
    return fill_with<int32_t>(kernels_at(level).fill_narrow, prepared, tiles, {n_levels, depth}, starts, slots, values);
}

int64_t fill_wide(Matrix<const float> prepared, Matrix<const int8_t> tiles, int32_t n_levels, int32_t depth,
                  Vector<const int64_t> starts, Vector<int64_t> slots, Vector<float> values, int64_t level) {
    return fill_with<int64_t>(kernels_at(level).fill_wide, prepared, tiles, {n_levels, depth}, starts, slots, values);
}

void code_queries(Matrix<const float> queries, Matrix<const double> head, double largest, double longest,
                  Matrix<uint8_t> codes, Matrix<double> terms, int64_t level) {
    const Kernels& kernels = kernels_at(level);
    require_width(queries);
    require(head.shape(0) == queries.shape(1) && head.shape(1) <= head.shape(0), "shapes differ");
    require(codes.shape(0) == queries.shape(0) && codes.shape(1) > head.shape(1) && codes.shape(1) <= head.shape(1) + 2,
            "shapes differ");
    require(terms.shape(0) == queries.shape(0) && terms.shape(1) == 3, "shapes differ");
    require(largest >= 1.0 && largest <= QUERY_OFFSET - 1 && longest >= 1.0, "codes do not fit their places");
    std::vector<double> scratch(coding_scratch(columns_of(queries), static_cast<int64_t>(codes.shape(1))));
    const QueryCoding coding = {head.data(), static_cast<int64_t>(head.shape(1)), static_cast<int64_t>(codes.shape(1)),
                                largest, longest};
    nb::gil_scoped_release unlocked;
    kernels.code_queries(queries.data(), rows_of(queries), columns_of(queries), coding, scratch.data(), codes.data(),
                         reinterpret_cast<QueryTerms*>(terms.data()));
}

void find_ids(Vector<const int64_t> ids, Vector<const int32_t> by_id, std::optional<Vector<const uint8_t>> dead,
              int64_t base, Vector<const int64_t> wanted, Vector<int64_t> places, int64_t level) {
    const Kernels& kernels = kernels_at(level);
    const size_t n = ids.shape(0);
    require(by_id.shape(0) == n && (!dead || dead->shape(0) >= (n + 7) / 8) && places.shape(0) == wanted.shape(0),
            "shapes differ");
    const IdTable table = {ids.data(), by_id.data(), dead ? dead->data() : nullptr, static_cast<int64_t>(n)};
    nb::gil_scoped_release unlocked;
    kernels.find_ids(table, base, wanted.data(), static_cast<int64_t>(wanted.shape(0)), places.data());
}

void sort_found(Matrix<float> scores, Matrix<int64_t> answers, Vector<int64_t> counts, int64_t level) {
    const Kernels& kernels = kernels_at(level);
    require(scores.shape(0) == answers.shape(0) && scores.shape(1) == answers.shape(1) &&
                counts.shape(0) == scores.shape(0),
            "shapes differ");
    require_counts(counts, scores.shape(1));
    const BestArrays found = {scores.data(), answers.data(), counts.data(),
                              nullptr,       nullptr,        static_cast<int64_t>(scores.shape(1))};
    kernels.sort_found(found, static_cast<int64_t>(scores.shape(0)));
}

void code_items(Matrix<const float> factors, Matrix<const float> turned, int64_t n_head, double largest, double longest,
                double room, Vector<int8_t> codes, Vector<int16_t> offsets, Matrix<double> block_terms, int64_t level) {
    const Kernels& kernels = kernels_at(level);
    require_width(factors);
    require_same_shape(factors, turned);
    const size_t n_blocks = blocks_of(factors.shape(0));
    require(n_head >= 1 && n_head <= columns_of(factors), "the head is wider than the factors");
    require(block_terms.shape(0) == n_blocks && block_terms.shape(1) == 4 && offsets.shape(0) == n_blocks * BLOCK_ITEMS,
            "shapes differ");
    const int64_t code_size = n_head + 1 + (n_head + 1) % 2;
    require(codes.shape(0) == static_cast<size_t>(code_size) * offsets.shape(0), "shapes differ");
    require(largest >= 1.0 && largest <= 127.0 && longest >= 1.0, "codes do not fit their places");
    std::vector<double> terse(static_cast<size_t>(code_size + 3) * BLOCK_ITEMS);
    nb::gil_scoped_release unlocked;
    kernels.code_items(factors.data(), turned.data(), rows_of(factors), columns_of(factors),
                       {n_head, code_size, largest, longest, room}, terse.data(), codes.data(), offsets.data(),
                       reinterpret_cast<BlockTerms*>(block_terms.data()));
}

// Rows are not looked at: that would cost as much as a search.
void exact_scan(Matrix<const float> factors, Vector<const int32_t> rows, std::optional<Vector<const uint8_t>> dead,
                int64_t base, Vector<const int8_t> codes, Vector<const int16_t> offsets,
                Matrix<const double> block_terms, Matrix<const float> queries, Matrix<const uint8_t> query_codes,
                Matrix<const double> query_terms, std::optional<Vector<const uint8_t>> allowed,
                Vector<const int64_t> excluded, Vector<const int64_t> excluded_starts, Matrix<float> scores,
                Matrix<int64_t> answers, Vector<int64_t> counts, Vector<int64_t> scored, int64_t level) {
    const Kernels& kernels = kernels_at(level);
    const Items items = items_of(factors, rows, dead, base);
    const Queries asked = queries_of(queries, items, allowed, excluded, excluded_starts);
    const size_t q = queries.shape(0);
    const Codes coded = codes_of(codes, offsets, block_terms, factors.shape(0), query_codes.shape(1));
    require(query_codes.shape(0) == q && query_terms.shape(0) == q && query_terms.shape(1) == 3, "shapes differ");
    std::vector<uint8_t> open(q);
    const BestArrays found = best_arrays(scores, answers, counts, scored, asked.n_queries, open.data());
    const QueryCodes query_coded = {query_codes.data(), reinterpret_cast<const QueryTerms*>(query_terms.data())};
    nb::gil_scoped_release unlocked;
    kernels.exact_scan(items, coded, asked, query_coded, found);
}

// What slot_scan works in, kept by each thread so that a single query need not clear memory for all items.
SlotScratch slot_scratch(size_t budget, size_t n_heaviest, bool counting) {
    thread_local std::vector<int32_t> sums(POSTING_BLOCK);
    thread_local std::vector<uint16_t> overlaps;
    thread_local std::vector<uint8_t> touched(POSTING_BLOCK / STRIDE);
    thread_local std::vector<uint64_t> buffer;
    thread_local std::vector<uint64_t> heaviest;
    if (counting) overlaps.resize(POSTING_BLOCK);
    buffer.resize(4 * budget + STRIDE);
    heaviest.resize(n_heaviest);
    return {sums.data(), overlaps.data(), touched.data(), buffer.data(), heaviest.data()};
}

void slot_scan(Matrix<const float> factors, Vector<const int32_t> rows, std::optional<Vector<const uint8_t>> dead,
               int64_t base, Vector<const uint16_t> places, Vector<const int8_t> impacts, Vector<const int64_t> slots,
               Vector<const int64_t> starts, Vector<const float> scales, Vector<const int64_t> block_lists,
               Matrix<const float> queries, Vector<const int64_t> entry_starts, Vector<const int64_t> entry_slots,
               Vector<const float> entry_values, std::optional<Vector<const uint8_t>> allowed,
               Vector<const int64_t> excluded, Vector<const int64_t> excluded_starts, int64_t max_slots,
               int64_t min_overlap, double longest, Matrix<uint64_t> keys, Vector<int64_t> counts, int64_t level) {
    const Kernels& kernels = kernels_at(level);
    const Items items = items_of(factors, rows, dead, base);
    const Queries asked = queries_of(queries, items, allowed, excluded, excluded_starts);
    const size_t q = queries.shape(0);
    require(places.shape(0) == impacts.shape(0) && starts.shape(0) == slots.shape(0) + 1 &&
                scales.shape(0) == slots.shape(0) &&
                block_lists.shape(0) == (factors.shape(0) + POSTING_BLOCK - 1) / POSTING_BLOCK + 1,
            "shapes differ");
    require_starts(block_lists, slots.shape(0));
    require(starts.data()[0] == 0 && starts.data()[slots.shape(0)] == static_cast<int64_t>(places.shape(0)),
            "starts leave the arrays");
    require(entry_starts.shape(0) == q + 1 && entry_slots.shape(0) == entry_values.shape(0), "shapes differ");
    require_starts(entry_starts, entry_slots.shape(0));
    require(keys.shape(0) == q && counts.shape(0) == q && keys.shape(1) >= 1, "shapes differ");
    require_counts(counts, keys.shape(1));
    require(max_slots >= 1 && min_overlap >= 1, "max_slots and min_overlap are at least 1");
    int64_t most = 0;
    for (size_t query = 0; query < q; ++query)
        most = std::max(most, entry_starts.data()[query + 1] - entry_starts.data()[query]);
    require(most <= MAX_FACTORS, "a query has at most 4096 entries");
    const SlotScratch scratch = slot_scratch(keys.shape(1), static_cast<size_t>(most), min_overlap > 1);
    const Postings filed = {places.data(),
                            impacts.data(),
                            slots.data(),
                            starts.data(),
                            scales.data(),
                            block_lists.data(),
                            static_cast<int64_t>(block_lists.shape(0)) - 1};
    const QueryEntries entries = {entry_starts.data(), entry_slots.data(), entry_values.data()};
    const Chosen chosen = {keys.data(), counts.data(), static_cast<int64_t>(keys.shape(1))};
    nb::gil_scoped_release unlocked;
    kernels.slot_scan(items, filed, asked, entries, {max_slots, min_overlap, longest}, scratch, chosen);
}

void score_chosen(Matrix<const float> factors, Vector<const int32_t> rows, std::optional<Vector<const uint8_t>> dead,
                  int64_t base, Matrix<const double> block_terms, Matrix<const float> queries,
                  std::optional<Vector<const uint8_t>> allowed, Vector<const int64_t> excluded,
                  Vector<const int64_t> excluded_starts, Matrix<uint64_t> keys, Vector<int64_t> chosen_counts,
                  Matrix<float> scores, Matrix<int64_t> answers, Vector<int64_t> counts, Vector<int64_t> scored,
                  Vector<double> unseen, int64_t level) {
    const Kernels& kernels = kernels_at(level);
    const Items items = items_of(factors, rows, dead, base);
    const Queries asked = queries_of(queries, items, allowed, excluded, excluded_starts);
    const size_t q = queries.shape(0);
    require(block_terms.shape(0) == blocks_of(factors.shape(0)) && block_terms.shape(1) == 4, "shapes differ");
    require(keys.shape(0) == q && chosen_counts.shape(0) == q && unseen.shape(0) == q, "shapes differ");
    require_counts(chosen_counts, keys.shape(1));
    const BestArrays found = best_arrays(scores, answers, counts, scored, asked.n_queries, nullptr);
    const Chosen chosen = {keys.data(), chosen_counts.data(), static_cast<int64_t>(keys.shape(1))};
    std::vector<int64_t> cursors(q);
    nb::gil_scoped_release unlocked;
    kernels.score_chosen(items, reinterpret_cast<const BlockTerms*>(block_terms.data()), asked, chosen, found,
                         cursors.data(), unseen.data());
}

void code_rows(Matrix<const float> factors, Vector<int8_t> codes, Vector<int16_t> offsets, Vector<float> scales,
               int64_t level) {
    const Kernels& kernels = kernels_at(level);
    require_width(factors);
    const size_t padded = groups_of(factors.shape(0)) * GROUP_ROWS;
    const size_t code_size = padded ? codes.shape(0) / padded : factors.shape(1) + factors.shape(1) % 2;
    require(code_size % 2 == 0 && code_size >= factors.shape(1) && codes.shape(0) == padded * code_size &&
                offsets.shape(0) == padded && scales.shape(0) == padded,
            "shapes differ");
    nb::gil_scoped_release unlocked;
    kernels.code_rows(factors.data(), rows_of(factors), columns_of(factors), static_cast<int64_t>(code_size),
                      codes.data(), offsets.data(), scales.data());
}

void code_askers(Matrix<const float> queries, Matrix<uint8_t> codes, Matrix<float> terms, int64_t level) {
    const Kernels& kernels = kernels_at(level);
    require_width(queries);
    require(codes.shape(0) == queries.shape(0) && codes.shape(1) >= queries.shape(1) && codes.shape(1) % 2 == 0 &&
                terms.shape(0) == queries.shape(0) && terms.shape(1) == 2,
            "shapes differ");
    nb::gil_scoped_release unlocked;
    kernels.code_askers(queries.data(), rows_of(queries), columns_of(queries), static_cast<int64_t>(codes.shape(1)),
                        codes.data(), reinterpret_cast<AskerTerms*>(terms.data()));
}

void nearest_tiles(Vector<const int8_t> codes, Vector<const int16_t> offsets, Vector<const float> scales,
                   Vector<const float> halves, Matrix<const uint8_t> asker_codes, Matrix<const float> asker_terms,
                   std::optional<Vector<const int32_t>> taken, Vector<int32_t> tiles, int64_t level) {
    const Kernels& kernels = kernels_at(level);
    const size_t n_tiles = halves.shape(0);
    require(n_tiles >= 1 && tiles.shape(0) == asker_codes.shape(0), "shapes differ");
    require(!taken || taken->shape(0) == tiles.shape(0), "shapes differ");
    for (size_t i = 0; taken && i < taken->shape(0); ++i)
        require(taken->data()[i] >= 0 && taken->data()[i] < static_cast<int64_t>(n_tiles), "there is no such tile");
    const CodedRows centres = coded_rows(codes, offsets, scales, n_tiles, asker_codes.shape(1));
    const Askers askers = askers_of(asker_codes, asker_terms);
    std::vector<float> bounds(groups_of(n_tiles) * GROUP_ROWS);
    nb::gil_scoped_release unlocked;
    kernels.nearest_tiles(centres, halves.data(), static_cast<int64_t>(n_tiles), askers,
                          static_cast<int64_t>(tiles.shape(0)), taken ? taken->data() : nullptr, bounds.data(),
                          tiles.data());
}

void rank_tiles(Vector<const int8_t> codes, Vector<const int16_t> offsets, Vector<const float> scales,
                int64_t n_factors, Matrix<const uint8_t> asker_codes, Matrix<const float> asker_terms, double reach,
                Matrix<float> nears, int64_t level) {
    const Kernels& kernels = kernels_at(level);
    const CodedRows centres = coded_rows(codes, offsets, scales, nears.shape(1), asker_codes.shape(1));
    const Askers askers = askers_of(asker_codes, asker_terms);
    require(nears.shape(0) == asker_codes.shape(0) && nears.shape(1) % GROUP_ROWS == 0, "shapes differ");
    nb::gil_scoped_release unlocked;
    kernels.rank_tiles(centres, static_cast<int64_t>(groups_of(nears.shape(1))), n_factors, askers,
                       static_cast<int64_t>(nears.shape(0)), reach, nears.data());
}

void tile_scan(Matrix<const float> factors, Vector<const int32_t> rows, std::optional<Vector<const uint8_t>> dead,
               int64_t base, Vector<const int32_t> places, Vector<const int32_t> starts, Vector<const int8_t> codes,
               Vector<const int16_t> offsets, Vector<const float> scales, Vector<const float> radii,
               Matrix<const float> queries, Matrix<const uint8_t> asker_codes, Matrix<const float> asker_terms,
               Matrix<const float> nears, double reach, std::optional<Vector<const uint8_t>> allowed,
               Vector<const int64_t> excluded, Vector<const int64_t> excluded_starts, Matrix<float> scores,
               Matrix<int64_t> answers, Vector<int64_t> counts, Vector<int64_t> scored, int64_t level) {
    const Kernels& kernels = kernels_at(level);
    const Items items = items_of(factors, rows, dead, base);
    const Queries asked = queries_of(queries, items, allowed, excluded, excluded_starts);
    const Askers askers = askers_of(asker_codes, asker_terms);
    const size_t q = queries.shape(0);
    const FiledItems filed =
        filed_of(places, starts, codes, offsets, scales, radii, asker_codes.shape(1), factors.shape(0));
    require(asker_codes.shape(0) == q && nears.shape(0) == q && nears.shape(1) == radii.shape(0) &&
                asker_codes.shape(1) >= queries.shape(1),
            "shapes differ");
    const BestArrays found = best_arrays(scores, answers, counts, scored, asked.n_queries, nullptr);
    const TileScratch scratch = tile_scratch(largest_tile(starts), scores.shape(1), q);
    nb::gil_scoped_release unlocked;
    kernels.tile_scan(items, filed, asked, askers, nears.data(), reach, scratch, found);
}

}  // namespace
}  // namespace tessella

NB_MODULE(_native, m) {
    using namespace tessella;
    const auto factors = nb::arg("factors").noconvert();
    const auto prepared = nb::arg("prepared").noconvert();
    const auto tiles = nb::arg("tiles").noconvert();
    const auto starts = nb::arg("starts").noconvert();
    const auto slots = nb::arg("slots").noconvert();
    const auto values = nb::arg("values").noconvert();
    m.doc() = "Native kernels of tessella. Private: every function fills arrays that Python allocated.";
    m.def("levels", &levels, "The SIMD levels this processor runs, plainest first.");
    m.def("first_bad_row", &first_bad_row, factors, "level"_a,
          "The first row holding a NaN or an infinity, or the number of rows.");
    m.def("prepare", &prepare, factors, nb::arg("rotation").noconvert().none(), "threshold"_a, "relative"_a, prepared,
          "level"_a, "Rotates, then zeroes coordinates below the threshold.");
    m.def("count_entries", &count_entries, prepared, nb::arg("counts").noconvert(), "level"_a,
          "Counts the non-zeros of each row, up to the first bad row; returns it, or the number of rows.");
    m.def("ternary_tiles", &ternary_tiles, factors, "max_nonzeros"_a, tiles, "level"_a,
          "Algorithm 2: the nearest ternary tile with at most max_nonzeros non-zeros.");
    m.def("dary_tiles", &dary_tiles, factors, "n_levels"_a, "exact"_a, tiles, "level"_a,
          "The nearest D-ary tile, or Algorithm 4's rounding.");
    m.def("fill_entries", &fill_narrow, prepared, tiles, "n_levels"_a, "depth"_a, starts, slots, values, "level"_a,
          "Each row's entries, ascending by slot; the first row that does not fit, or the number of rows.");
    m.def("fill_entries", &fill_wide, prepared, tiles, "n_levels"_a, "depth"_a, starts, slots, values, "level"_a);
    m.def("code_queries", &code_queries, nb::arg("queries").noconvert(), nb::arg("head").noconvert(), "largest"_a,
          "longest"_a, nb::arg("codes").noconvert(), nb::arg("terms").noconvert(), "level"_a,
          "Codes queries by their coordinates along the head's axes and the norm of the rest.");
    const auto array = [](const char* name) { return nb::arg(name).noconvert(); };
    const auto optional = [](const char* name) { return nb::arg(name).noconvert().none(); };
    m.def("find_ids", &find_ids, array("ids"), array("by_id"), optional("dead"), "base"_a, array("wanted"),
          array("places"), "level"_a, "Fills in the places, with the base added, of those ids that are there.");
    m.def("sort_found", &sort_found, array("scores"), array("answers"), array("counts"), "level"_a,
          "Puts each query's answers in order, best first.");
    m.def("code_items", &code_items, factors, array("turned"), "n_head"_a, "largest"_a, "longest"_a, "room"_a,
          array("codes"), array("offsets"), array("block_terms"), "level"_a,
          "Codes items in blocks, with the terms of their bounds.");
    m.def("exact_scan", &exact_scan, factors, array("rows"), optional("dead"), "base"_a, array("codes"),
          array("offsets"), array("block_terms"), array("queries"), array("query_codes"), array("query_terms"),
          optional("allowed"), array("excluded"), array("excluded_starts"), array("scores"), array("answers"),
          array("counts"), array("scored"), "level"_a,
          "Offers every live item to every query's best, leaving out those that cannot be among them.");
    m.def("slot_scan", &slot_scan, factors, array("rows"), optional("dead"), "base"_a, array("places"),
          array("impacts"), slots, starts, array("scales"), array("block_lists"), array("queries"),
          array("entry_starts"), array("entry_slots"), array("entry_values"), optional("allowed"), array("excluded"),
          array("excluded_starts"), "max_slots"_a, "min_overlap"_a, "longest"_a, array("keys"), array("counts"),
          "level"_a, "Offers every live item that shares slots with a query to its chosen ones.");
    m.def("score_chosen", &score_chosen, factors, array("rows"), optional("dead"), "base"_a, array("block_terms"),
          array("queries"), optional("allowed"), array("excluded"), array("excluded_starts"), array("keys"),
          array("chosen_counts"), array("scores"), array("answers"), array("counts"), array("scored"), array("unseen"),
          "level"_a, "Scores the chosen items; `unseen` rises to what an item that was not scored might reach.");
    m.def("code_rows", &code_rows, factors, array("codes"), array("offsets"), array("scales"), "level"_a,
          "Codes rows, each in steps of its own scale.");
    m.def("code_askers", &code_askers, array("queries"), array("codes"), array("terms"), "level"_a,
          "Codes queries, or items that look for their tile; scales and norms.");
    m.def("nearest_tiles", &nearest_tiles, array("codes"), array("offsets"), array("scales"), array("halves"),
          array("asker_codes"), array("asker_terms"), optional("taken"), array("tiles"), "level"_a,
          "The tile whose centre is nearest to each asker.");
    m.def("rank_tiles", &rank_tiles, array("codes"), array("offsets"), array("scales"), "n_factors"_a,
          array("asker_codes"), array("asker_terms"), "reach"_a, array("nears"), "level"_a,
          "What each query and each centre score at most, as far as `reach` believes.");
    m.def("tile_scan", &tile_scan, factors, array("rows"), optional("dead"), "base"_a, array("places"), starts,
          array("codes"), array("offsets"), array("scales"), array("radii"), array("queries"), array("asker_codes"),
          array("asker_terms"), array("nears"), "reach"_a, optional("allowed"), array("excluded"),
          array("excluded_starts"), array("scores"), array("answers"), array("counts"), array("scored"), "level"_a,
          "Offers the items of the tiles that may hold answers to each query's best.");
    nb::class_<Server>(m, "Server", "Answers queries over arrays that are checked once and kept.")
        .def(nb::init<int64_t, double, Matrix<const double>, double, double, int64_t>(), "n_factors"_a, "longest"_a,
             array("head"), "largest_code"_a, "longest_code"_a, "level"_a)
        .def("learn", &Server::learn, array("codes"), array("offsets"), array("scales"), "The centres of tiles.")
        .def("add", &Server::add, factors, array("rows"), optional("dead"), "base"_a, array("ids"), array("codes"),
             array("offsets"), array("block_terms"), "One more segment.")
        .def("file", &Server::file, array("places"), starts, array("codes"), array("offsets"), array("scales"),
             array("radii"), "The tiles of the segment that was added last.")
        .def("search", &Server::search, array("queries"), "reach"_a, optional("allowed"), array("excluded"),
             array("excluded_starts"), array("ids"), array("scores"), array("scored"),
             "Fills in the best items, exactly if reach is negative; whether all queries could be answered.")
        .def("search_one", &Server::search_one, array("query"), "reach"_a, array("ids"), array("scores"),
             "The same of one query over all items; how many were scored, or -1.");
}
