// The engine: holds views of the arrays of one version of an index, and searches them by any method.
//
// Plain C++; the owner of an engine keeps the arrays alive. An engine does not change once all segments are added, so
// any number of threads may search; each has its own scratch memory. The specification is
// src/tessella/_reference/engine.py.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels.hpp"
#include "lookups.hpp"
#include "packing.hpp"

namespace tessella {

// How to search.
struct Setting {
    Method method;
    double reach;         // tiles: the share of radii that bounds include
    int64_t budget;       // slots: the number of items to score, or 0 for all that share enough slots
    int64_t max_slots;    // slots: how many slots of a query to use
    int64_t min_overlap;  // slots: how many of them an item must share
};

// Which rows may answer. `allowed` applies to all queries. `listed` has rows for each query, which are either excluded
// or the only ones that may answer; in the second case, `allowed` is null.
struct Filter {
    const uint8_t* allowed;  // a bit for each row, or null for all
    int64_t n_allowed;       // rows whose bit is set
    const int64_t* listed;   // ascending for each query
    const int64_t* starts;   // (n_queries + 1), or null if nothing is listed
    bool only;               // whether the listed rows are the only ones allowed, rather than excluded
};

// The arrays for the answers, best first. Missing answers have id -1 and score minus infinity.
struct Answers {
    int64_t* ids;       // (n_queries, k)
    float* scores;      // (n_queries, k)
    int64_t* n_scored;  // (n_queries)
    bool* certified;    // (n_queries)
    int64_t k;
};

// An immutable part of a version.
struct Segment {
    Items items;
    const int64_t* ids;     // (n_items), or null: then answers hold positions
    const int32_t* by_row;  // (n_items) the order that sorts the rows
    ExactCodes codes;
    Postings postings;
    TiledItems tiles;  // without tiles, n_tiles is 0
    int64_t n_live;

    RowTable row_table() const { return {items.rows, by_row, items.n_items}; }
};

// Scratch memory of a thread, kept so that a call need not allocate.
struct Scratch {
    std::vector<int64_t> counts, n_bounded;
    std::vector<uint8_t> codes;
    std::vector<double> wide;
    std::vector<float> sketches;
    std::vector<ExactQueryTerms> exact_terms;
    std::vector<uint8_t> open;
    std::vector<TileQueryTerms> tile_terms;
    std::vector<float> centre_bounds, bounds, caps, marked_caps, classes, floors, marked_bounds;
    std::vector<Probe> probes;
    std::vector<int32_t> groups, visitors, marked_positions, positions;
    std::vector<uint32_t> tiles_to_visit;
    std::vector<uint64_t> class_keys, candidates, buffer, heaviest;
    std::vector<int64_t> candidate_counts, cursors, allowed_rows;
    std::vector<double> unseen;
    std::vector<int32_t> sums;
    std::vector<uint16_t> overlaps;
    std::vector<uint8_t> touched, own_rows;
    std::vector<float> uppers, gathered_scores;
    std::vector<Cut> cuts;
    std::vector<uint32_t> lowers;
    std::vector<int32_t> gathered_positions;
    std::vector<int64_t> gathered_counts, gathered_ranks;
    std::vector<uint8_t> ordered;
    std::vector<Ordered> in_order;

    // The scratch memory of scan_tiles; its size depends on the largest tile.
    TileScratch for_tiles(int64_t largest, int64_t k, int64_t n_queries) {
        const size_t n = static_cast<size_t>(n_queries);
        const size_t n_groups = static_cast<size_t>((largest + GROUP_ITEMS - 1) / GROUP_ITEMS * GROUP_ITEMS + 1);
        const size_t most = n_groups * static_cast<size_t>(GROUP_ITEMS);
        const int64_t fewest = std::min(k, static_cast<int64_t>(most));
        const size_t n_classes = static_cast<size_t>((2 * fewest + 31) / 32 * 32);
        bounds.resize((most + 63) / 64 * 64);
        caps.resize(n_groups);
        groups.resize(n_groups);
        classes.resize(n_classes);
        class_keys.resize(std::max(n_classes, n_groups));
        floors.resize(n);
        visitors.resize(n + 1);
        tiles_to_visit.resize(n + 1);
        marked_positions.resize(2 * most);
        for (auto* each : {&marked_bounds, &marked_caps}) each->resize(2 * most);
        return {bounds.data(),
                caps.data(),
                groups.data(),
                classes.data(),
                class_keys.data(),
                probes.data(),
                floors.data(),
                visitors.data(),
                tiles_to_visit.data(),
                marked_positions.data(),
                marked_bounds.data(),
                marked_caps.data(),
                static_cast<int64_t>(n_classes)};
    }

    // Memory for gathered items, empty so far.
    Gathered for_gathering(int64_t n_queries, int64_t room, int64_t k) {
        const size_t n = static_cast<size_t>(n_queries);
        const size_t all = n * static_cast<size_t>(room);
        if (lowers.size() < all) lowers.resize(all);
        if (gathered_positions.size() < all) gathered_positions.resize(all);
        if (uppers.size() < all) uppers.resize(all);
        gathered_counts.assign(n, 0);
        cuts.assign(n, first_cut(k, room));
        return {uppers.data(), lowers.data(), gathered_positions.data(), gathered_counts.data(), cuts.data(), room, k};
    }

    SlotsScratch for_slots(int64_t budget) {
        sums.resize(POSTING_BLOCK);
        overlaps.resize(POSTING_BLOCK);
        touched.resize(POSTING_BLOCK / STRIDE);
        buffer.resize(static_cast<size_t>(4 * budget + STRIDE));
        heaviest.resize(MAX_FACTORS);
        return {sums.data(), overlaps.data(), touched.data(), buffer.data(), heaviest.data()};
    }
};

class Engine {
public:
    static constexpr int64_t NONE_REFUSED = -1;
    static constexpr int64_t MOST_GATHERED = 1 << 20;  // items, for all queries together
    static constexpr double GLANCE_REACH = 0.2;        // of a first pass over tiles, before all items are read
    static constexpr int64_t GLANCE_SHARE = 8;         // without tiles, a first pass reads one in 8 items
    static constexpr int64_t MOST_SCORED = 2048;       // allowed items: up to this many are all scored for one query
    static constexpr int64_t TOGETHER = 8;             // queries that read the same items together
    static constexpr int64_t MOST_TOGETHER = 1 << 14;  // allowed items: up to this many are all scored for 8 queries
    static constexpr int64_t CODED_TOGETHER = 768;     // queries: for this many, coding the allowed items pays
    static constexpr int64_t FEWEST_CODED = 1024;      // allowed items: with fewer, scoring them all is as fast

    // `longest` is a bound of the norms of live items, `longest_held` of all items, removed ones included.
    Engine(int64_t n_factors, const Axes& axes, double longest, double longest_held)
        : n_factors_(n_factors), axes_(axes), longest_(longest), longest_held_(longest_held) {}

    void set_centres(const TileCodes& coded, const float* norms, const float* radii, int64_t n_groups) {
        farthest_.assign(radii, radii + n_groups * GROUP_ITEMS);
        for (size_t i = farthest_.size() - 1; i > 0; --i) farthest_[i - 1] = std::max(farthest_[i - 1], farthest_[i]);
        for (size_t group = 0; group < static_cast<size_t>(n_groups); ++group)
            farthest_[group] = farthest_[group * static_cast<size_t>(GROUP_ITEMS)];
        centres_ = {coded, norms, farthest_.data(), n_groups};
    }

    void add(const Segment& segment) {
        segments_.push_back(segment);
        n_live_ += segment.n_live;
    }

    int64_t n_factors() const { return n_factors_; }
    const Axes& axes() const { return axes_; }
    int64_t width() const { return tile_width(axes_.n_head, n_factors_); }  // of the vectors that tiles code
    int64_t n_groups() const { return centres_.n_groups; }
    bool has_tiles() const { return centres_.n_groups > 0; }

    // Answers all queries, or none if one is not finite or too long; then it returns the first such query. `entries`
    // are for slots search.
    int64_t search(const Kernels& kernels, const float* queries, int64_t n_queries, const Setting& setting,
                   const Entries& entries, const Filter& row_filter, const Answers& answers) const {
        const int64_t refused = kernels.first_refused(queries, n_queries, n_factors_, longest_);
        if (refused < n_queries) return refused;
        Scratch& scratch = Engine::scratch();
        scratch.counts.assign(static_cast<size_t>(n_queries), 0);
        scratch.ordered.assign(static_cast<size_t>(n_queries), 0);
        // Until `finish`, the ids of answers hold ranks.
        std::fill_n(answers.n_scored, n_queries, 0);
        const int64_t k = std::min(answers.k, n_live_);
        const bool excluding = row_filter.starts && !row_filter.only;
        const RowFilter shared = {row_filter.allowed, excluding ? row_filter.listed : nullptr,
                                  excluding ? row_filter.starts : nullptr};
        const Batch batch = {kernels,
                             {queries, n_queries, shared},
                             entries,
                             setting,
                             {answers.scores, answers.ids, scratch.counts.data(), answers.n_scored,
                              scratch.ordered.data(), k, answers.k},
                             answers.certified,
                             scratch};
        if (k == 0)
            std::fill_n(answers.certified, n_queries, true);
        else
            for (int64_t first = 0; first < n_queries;) {
                const bool zero = is_zero(queries + first * n_factors_);
                int64_t stop = first + 1;
                while (stop < n_queries && is_zero(queries + stop * n_factors_) == zero) ++stop;
                const Batch part = batch.of_queries(first, stop - first, n_factors_);
                if (zero)
                    answer_zeros(part, of_queries(row_filter, first));
                else
                    search_filtered(part, of_queries(row_filter, first));
                first = stop;
            }
        kernels.sort_answers(batch.best, n_queries);
        for (int64_t query = 0; query < n_queries; ++query) finish(answers, query, scratch.counts[query]);
        return NONE_REFUSED;
    }

    // The candidates of slots search, unsorted: keys (n_queries, budget) and how many there are.
    void choose(const Kernels& kernels, const Queries& queries, const Entries& entries, const Setting& setting,
                const Candidates& candidates) const {
        choose_candidates(kernels, queries, entries, setting, candidates, scratch());
    }

private:
    static Scratch& scratch() {
        static thread_local Scratch own;
        return own;
    }

    // One call of search, or the part of it for a range of queries.
    struct Batch {
        const Kernels& kernels;
        Queries queries;
        Entries entries;
        Setting setting;
        TopK best;
        bool* certified;
        Scratch& scratch;

        Batch of_queries(int64_t first, int64_t n, int64_t n_factors) const {
            Batch own = *this;
            own.queries.factors += first * n_factors;
            own.queries.n_queries = n;
            if (own.queries.filter.excluded_starts) own.queries.filter.excluded_starts += first;
            if (own.entries.starts) own.entries.starts += first;
            own.best.scores += first * best.stride;
            own.best.ranks += first * best.stride;
            own.best.counts += first;
            own.best.n_scored += first;
            own.best.ordered += first;
            own.certified += first;
            return own;
        }
    };

    bool is_zero(const float* query) const {
        return std::all_of(query, query + n_factors_, [](float each) { return each == 0.0f; });
    }

    static Filter of_queries(const Filter& filter, int64_t first) {
        Filter own = filter;
        if (own.starts) own.starts += first;
        return own;
    }

    void search_filtered(const Batch& batch, const Filter& filter) const {
        if (filter.starts && filter.only)
            search_own(batch, filter);
        else if (filter.allowed && is_few(filter.n_allowed))
            search_few(batch, filter);
        else
            search_by_method(batch);
    }

    // For a query of zeros every item scores 0, so the answers are the items that were added first. They are certified.
    void answer_zeros(const Batch& batch, const Filter& filter) const {
        std::vector<int64_t> cursors;
        for (int64_t query = 0; query < batch.queries.n_queries; ++query) {
            cursors.assign(segments_.size(), 0);
            Batch own = batch.of_queries(query, 1, n_factors_);
            int64_t count = 0;
            while (count < batch.best.k) {
                const Segment* next = nullptr;
                int64_t* cursor = nullptr;
                for (size_t i = 0; i < segments_.size(); ++i) {
                    const RowTable rows = segments_[i].row_table();
                    if (cursors[i] == rows.n_items) continue;
                    if (next && rows.row_at(cursors[i]) > next->row_table().row_at(*cursor)) continue;
                    next = &segments_[i];
                    cursor = &cursors[i];
                }
                if (!next) break;
                const int64_t position = next->by_row[(*cursor)++];
                if (!may_answer(*next, position, of_queries(filter, query))) continue;
                own.best.scores[count] = 0.0f;
                own.best.ranks[count++] = rank_of(next->items.rows[position], next->items.base + position);
            }
            *own.best.counts = *own.best.n_scored = count;
            *own.best.ordered = 1;
            *own.certified = true;
        }
    }

    // Whether the item at a position is live and may answer the first query of a filter.
    static bool may_answer(const Segment& segment, int64_t position, const Filter& filter) {
        const int64_t row = segment.items.rows[position];
        if (segment.items.removed && has_bit(segment.items.removed, position)) return false;
        if (filter.allowed && !has_bit(filter.allowed, row)) return false;
        if (!filter.starts) return true;
        return std::binary_search(filter.listed + filter.starts[0], filter.listed + filter.starts[1], row) ==
               filter.only;
    }

    // Few rows are allowed, so the answers are exact. For very many queries it pays to code these items separately,
    // unless k is so large that most would be scored anyway. Otherwise they are all scored, or searched with all items.
    void search_few(const Batch& batch, const Filter& filter) const {
        const int64_t n = batch.queries.n_queries;
        const int64_t fewest_coded = batch.best.k < SCORED_LAST ? FEWEST_CODED : MOST_TOGETHER;
        const bool coded = n >= CODED_TOGETHER && filter.n_allowed > fewest_coded;
        if (!coded && filter.n_allowed > (n < TOGETHER ? MOST_SCORED : MOST_TOGETHER)) {
            search_exactly(batch);
        } else {
            std::vector<int64_t>& rows = batch.scratch.allowed_rows;
            rows.clear();
            for (int64_t byte = 0; static_cast<int64_t>(rows.size()) < filter.n_allowed; ++byte)
                for (unsigned left = filter.allowed[byte]; left; left &= left - 1)
                    rows.push_back(8 * byte + __builtin_ctz(left));
            Batch of_these = batch;
            of_these.queries.filter.allowed = nullptr;  // no other rows are read
            if (coded)
                search_in_one_tile(of_these, rows);
            else
                score_rows(of_these, rows.data(), filter.n_allowed);
        }
        std::fill_n(batch.best.n_scored, n, filter.n_allowed);
        std::fill_n(batch.certified, n, true);
    }

    // The items of some rows, coded as one tile that every query visits.
    struct OneTile {
        std::vector<int32_t> members;
        std::vector<int8_t> codes;
        std::vector<int16_t> offsets;
        std::vector<float> scales;
        int32_t starts[2];
        uint8_t room;

        TiledItems view(int64_t code_size) const {
            TiledItems tiled = {};
            tiled.members = members.data();
            tiled.starts = tiled.centre_starts = starts;
            tiled.rooms = &room;
            tiled.coded = {codes.data(), offsets.data(), scales.data(), code_size};
            tiled.largest = starts[1];
            return tiled;
        }
    };

    void put_in_one_tile(const Kernels& kernels, const Segment& segment, const std::vector<int64_t>& rows,
                         OneTile& tile) const {
        const size_t code_size = static_cast<size_t>(tile_code_size(n_factors_));
        const size_t whole = static_cast<size_t>(GROUP_ITEMS);
        find_positions(segment, rows.data(), static_cast<int64_t>(rows.size()), tile.members);
        std::sort(tile.members.begin(), tile.members.end());
        const size_t n = tile.members.size();
        const size_t padded = (n + whole - 1) / whole * whole;
        tile.members.resize(padded, -1);
        tile.room = static_cast<uint8_t>(padded - n);
        tile.codes.resize(padded * code_size);
        tile.offsets.resize(padded);
        tile.scales.resize(padded);
        tile.starts[0] = 0;
        tile.starts[1] = static_cast<int32_t>(padded / whole);
        std::vector<float> factors(whole * static_cast<size_t>(n_factors_));
        for (size_t first = 0; first < n; first += whole) {
            const size_t count = std::min(whole, n - first);
            for (size_t i = 0; i < count; ++i)
                std::copy_n(segment.items.factors + tile.members[first + i] * n_factors_, n_factors_,
                            factors.data() + i * static_cast<size_t>(n_factors_));
            kernels.code_tile_items(factors.data(), static_cast<int64_t>(count), n_factors_,
                                    static_cast<int64_t>(code_size), tile.codes.data() + first * code_size,
                                    tile.offsets.data() + first, tile.scales.data() + first);
        }
    }

    void search_in_one_tile(const Batch& batch, const std::vector<int64_t>& rows) const {
        std::vector<OneTile> tiles(segments_.size());
        for (size_t i = 0; i < segments_.size(); ++i) put_in_one_tile(batch.kernels, segments_[i], rows, tiles[i]);
        const auto tiled = [&](size_t i) { return tiles[i].view(tile_code_size(n_factors_)); };
        if (batch.best.k >= SCORED_LAST) {
            score_last(batch, [&](const Batch& part, const Gathered& gathered) {
                make_probes(part, part.queries.factors, n_factors_, 1.0);
                gather_tiles(part, tiled, nullptr, gathered);
            });
        } else {
            make_probes(batch, batch.queries.factors, n_factors_, 1.0);
            scan_in_pieces(batch, tiled);
        }
    }

    // Each piece of a tile, small enough for the L1 cache, is scanned for all queries before the next piece.
    template <typename TiledOf>
    void scan_in_pieces(const Batch& batch, const TiledOf& tiled_of) const {
        constexpr int64_t PIECE_BYTES = 24 << 10;
        const int64_t group_bytes = GROUP_ITEMS * tile_code_size(n_factors_);
        const int32_t n_groups = static_cast<int32_t>(std::max<int64_t>(1, PIECE_BYTES / group_bytes));
        for (size_t i = 0; i < segments_.size(); ++i) {
            TiledItems piece = tiled_of(i);
            const int32_t all = piece.starts[1];
            const uint8_t last_room = piece.rooms[0];
            for (int32_t first = 0; first < all; first += n_groups) {
                const int32_t starts[2] = {first, std::min(first + n_groups, all)};
                const uint8_t room = starts[1] == all ? last_room : uint8_t{0};
                piece.starts = starts;
                piece.rooms = &room;
                piece.largest = starts[1] - first;
                batch.kernels.scan_tile_0(segments_[i].items, piece, batch.queries, tile_scratch(batch, piece),
                                          batch.best);
            }
        }
    }

    bool is_few(int64_t n_allowed) const { return n_allowed <= std::max(FEW_ALLOWED, n_live_ / FEW_ALLOWED_SHARE); }

    void search_by_method(const Batch& batch) const {
        switch (batch.setting.method) {
            case Method::exact:
                return search_exactly(batch);
            case Method::tiles:
                return repeats() && batch.best.k > MOST_WITH_REPEATS ? search_exactly(batch) : search_by_tiles(batch);
            case Method::slots:
                return batch.setting.budget == 0 ? score_all_sharing(batch) : search_by_slots(batch);
        }
    }

    // Whether items may be members of two tiles.
    bool repeats() const {
        return std::any_of(segments_.begin(), segments_.end(), [](const Segment& each) { return each.tiles.repeats; });
    }

    void search_exactly(const Batch& batch) const {
        if (batch.best.k >= SCORED_LAST)
            score_last(batch, [this](const Batch& part, const Gathered& gathered) { gather_exactly(part, gathered); });
        else
            scan_exactly(batch);
        std::fill_n(batch.certified, batch.queries.n_queries, true);
    }

    ExactQueries coded_exactly(const Batch& batch) const {
        const size_t n = static_cast<size_t>(batch.queries.n_queries);
        Scratch& scratch = batch.scratch;
        scratch.wide.resize(rotation_room());
        scratch.codes.resize(n * static_cast<size_t>(axes_.code_size));
        scratch.exact_terms.resize(n);
        scratch.open.resize(n);
        batch.kernels.code_exact_queries(batch.queries.factors, batch.queries.n_queries, n_factors_, axes_,
                                         scratch.wide.data(), scratch.codes.data(), scratch.exact_terms.data());
        return {scratch.codes.data(), scratch.exact_terms.data()};
    }

    void scan_exactly(const Batch& batch) const {
        const ExactQueries coded = coded_exactly(batch);
        for (const Segment& segment : segments_)
            batch.kernels.scan_exact(segment.items, segment.codes, batch.queries, coded, batch.scratch.open.data(),
                                     batch.best);
    }

    // A first pass with bounds that are only likely finds k good answers: in the best tiles or, without tiles, among
    // the longest items. The worst of their scores is a certain cut for the second pass.
    void gather_exactly(const Batch& batch, const Gathered& gathered) const {
        if (has_tiles() && !repeats())
            gather_by_tiles(batch, gathered, GLANCE_REACH);
        else
            gather_by_codes(batch, gathered, GLANCE_REACH * GLANCE_REACH, GLANCE_SHARE);
        batch.kernels.raise_cuts(gathered, batch.queries.n_queries);
        for (int64_t query = 0; query < batch.queries.n_queries; ++query) {
            const int64_t n_scored = batch.best.n_scored[query];
            if (!gathered.cuts[query].full) score_what_was_gathered(batch, gathered, query);
            batch.best.n_scored[query] = n_scored;  // nearly all of these items will be scored again
            gathered.cuts[query] = first_cut(gathered.k, gathered.room);
            gathered.counts[query] = 0;
            if (batch.best.counts[query] == batch.best.k)
                gathered.cuts[query].value = batch.best.scores[query * batch.best.stride + batch.best.k - 1];
            batch.best.counts[query] = batch.best.ordered[query] = 0;
        }
        gather_by_codes(batch, gathered, 1.0, 1);
    }

    // Gathers from the longest 1 / `part` of the items of each segment.
    void gather_by_codes(const Batch& batch, const Gathered& gathered, double share, int64_t part) const {
        const ExactQueries coded = coded_exactly(batch);
        for (const Segment& segment : segments_) {
            Items items = segment.items;
            items.n_items = (items.n_items + part - 1) / part;
            batch.kernels.gather_exact(items, segment.codes, batch.queries, coded, share, batch.scratch.open.data(),
                                       gathered);
        }
    }

    void search_by_tiles(const Batch& batch) const {
        if (batch.best.k >= SCORED_LAST && !repeats())
            score_last(batch, [this](const Batch& part, const Gathered& gathered) {
                gather_by_tiles(part, gathered, part.setting.reach);
            });
        else
            scan_by_tiles(batch);
        std::fill_n(batch.certified, batch.queries.n_queries, batch.setting.reach >= 1.0);
    }

    // The number of doubles that the rotation of queries needs as scratch.
    size_t rotation_room() const { return static_cast<size_t>(4 * (n_factors_ + axes_.code_size + 3)); }

    // Codes queries, or their sketches.
    void make_probes(const Batch& batch, const float* vectors, int64_t width, double reach) const {
        const int64_t n = batch.queries.n_queries;
        const int64_t code_size = tile_code_size(width);
        Scratch& scratch = batch.scratch;
        scratch.codes.resize(static_cast<size_t>(n * code_size));
        scratch.tile_terms.resize(static_cast<size_t>(n));
        scratch.probes.resize(static_cast<size_t>(n));
        batch.kernels.code_tile_queries(vectors, n, width, code_size, scratch.codes.data(), scratch.tile_terms.data());
        if (width < n_factors_)
            for (int64_t query = 0; query < n; ++query)
                scratch.tile_terms[static_cast<size_t>(query)].tail = vectors[query * width + width - 1];
        const TileQueries coded = {scratch.codes.data(), scratch.tile_terms.data()};
        batch.kernels.make_probes(coded, n, n_factors_, code_size, width - 1, reach, scratch.probes.data());
    }

    // The queries' vectors as tiles code them: sketches or factors.
    const float* sketches_of(const Batch& batch) const {
        if (width() == n_factors_) return batch.queries.factors;
        Scratch& scratch = batch.scratch;
        scratch.wide.resize(rotation_room());
        scratch.sketches.resize(static_cast<size_t>(batch.queries.n_queries * width()));
        batch.kernels.sketch(batch.queries.factors, batch.queries.n_queries, n_factors_, axes_, scratch.wide.data(),
                             scratch.sketches.data());
        return scratch.sketches.data();
    }

    // Bounds the centres, of `n_bounded` groups for each query.
    const float* bound_centres(const Batch& batch) const {
        std::vector<float>& bounds = batch.scratch.centre_bounds;
        bounds.resize(static_cast<size_t>(batch.queries.n_queries * n_groups() * GROUP_ITEMS));
        batch.kernels.bound_centres(centres_, batch.scratch.probes.data(), batch.queries.n_queries,
                                    batch.scratch.n_bounded.data(), bounds.data());
        return bounds.data();
    }

    // The scores of the longest items tell how many centres have to be bounded.
    void scan_by_tiles(const Batch& batch) const {
        Scratch& scratch = batch.scratch;
        make_probes(batch, sketches_of(batch), width(), batch.setting.reach);
        for (const Segment& segment : segments_)
            batch.kernels.scan_tile_0(segment.items, segment.tiles, batch.queries, tile_scratch(batch, segment.tiles),
                                      batch.best);
        scratch.n_bounded.resize(static_cast<size_t>(batch.queries.n_queries));
        batch.kernels.count_groups(centres_, scratch.probes.data(), batch.queries.n_queries, batch.best,
                                   scratch.n_bounded.data());
        const float* centre_bounds = bound_centres(batch);
        for (const Segment& segment : segments_)
            batch.kernels.scan_tiles(segment.items, segment.tiles, batch.queries, centre_bounds,
                                     scratch.n_bounded.data(), tile_scratch(batch, segment.tiles), batch.best);
    }

    void gather_by_tiles(const Batch& batch, const Gathered& gathered, double reach) const {
        make_probes(batch, sketches_of(batch), width(), reach);
        batch.scratch.n_bounded.assign(static_cast<size_t>(batch.queries.n_queries), n_groups());
        const float* centre_bounds = bound_centres(batch);
        gather_tiles(batch, [this](size_t i) { return segments_[i].tiles; }, centre_bounds, gathered);
    }

    template <typename TiledOf>
    void gather_tiles(const Batch& batch, const TiledOf& tiled_of, const float* centre_bounds,
                      const Gathered& gathered) const {
        for (size_t i = 0; i < segments_.size(); ++i) {
            const TiledItems tiled = tiled_of(i);
            batch.kernels.gather_tiles(segments_[i].items, tiled, batch.queries, centre_bounds,
                                       batch.scratch.n_bounded.data(), tile_scratch(batch, tiled), gathered);
        }
    }

    static TileScratch tile_scratch(const Batch& batch, const TiledItems& tiled) {
        return batch.scratch.for_tiles(tiled.largest, batch.best.k, batch.queries.n_queries);
    }

    // Gathers and then scores, for as many queries at once as there is room for. A query that runs out of room, because
    // very many items tie, gathers again with room for all.
    template <typename Gather>
    void score_last(const Batch& batch, const Gather& gather) const {
        const int64_t most = n_held() + BLOCK_ITEMS;
        const int64_t room = std::min(8 * batch.best.k + 2048, most);
        const int64_t together = std::clamp<int64_t>(MOST_GATHERED / room, 1, 128);
        std::vector<int64_t> left;
        const auto answer = [&](const Batch& part, int64_t with_room, int64_t first) {
            const Gathered gathered = batch.scratch.for_gathering(part.queries.n_queries, with_room, batch.best.k);
            gather(part, gathered);
            batch.kernels.raise_cuts(gathered, part.queries.n_queries);
            for (int64_t query = 0; query < part.queries.n_queries; ++query)
                if (gathered.cuts[query].full)
                    left.push_back(first + query);
                else
                    score_what_was_gathered(part, gathered, query);
        };
        for (int64_t first = 0; first < batch.queries.n_queries; first += together)
            answer(batch.of_queries(first, std::min(together, batch.queries.n_queries - first), n_factors_), room,
                   first);
        for (size_t i = 0; i < left.size(); ++i) answer(batch.of_queries(left[i], 1, n_factors_), most, left[i]);
    }

    void score_what_was_gathered(const Batch& batch, const Gathered& gathered, int64_t query) const {
        Scratch& scratch = batch.scratch;
        const int64_t count = gathered.counts[query];
        const size_t n = static_cast<size_t>(count);
        scratch.gathered_scores.resize(n);
        scratch.gathered_ranks.resize(n);
        scratch.in_order.resize(2 * n);
        int64_t scored = 0;
        for (const Segment& segment : segments_)
            scored = batch.kernels.score_gathered(segment.items, batch.queries.factors + query * n_factors_,
                                                  gathered.positions + query * gathered.room, scored, count,
                                                  scratch.gathered_scores.data(), scratch.gathered_ranks.data());
        batch.best.counts[query] = batch.kernels.select_best(
            scratch.gathered_scores.data(), scratch.gathered_ranks.data(), count, batch.best.k,
            gathered.lowers + query * gathered.room, scratch.in_order.data(),
            batch.best.scores + query * batch.best.stride, batch.best.ranks + query * batch.best.stride);
        batch.best.n_scored[query] += count;
        batch.best.ordered[query] = 1;
    }

    void search_by_slots(const Batch& batch) const {
        const int64_t n = batch.queries.n_queries;
        const int64_t k = batch.best.k;
        Scratch& scratch = batch.scratch;
        scratch.candidates.resize(static_cast<size_t>(n * batch.setting.budget));
        scratch.candidate_counts.resize(static_cast<size_t>(n));
        scratch.cursors.resize(static_cast<size_t>(n));
        scratch.unseen.assign(static_cast<size_t>(n), -INFINITY);
        const Candidates candidates = {scratch.candidates.data(), scratch.candidate_counts.data(),
                                       batch.setting.budget};
        choose_candidates(batch.kernels, batch.queries, batch.entries, batch.setting, candidates, scratch);
        for (const Segment& segment : segments_)
            batch.kernels.score_candidates(segment.items, segment.codes.terms, batch.queries, candidates, batch.best,
                                           scratch.cursors.data(), scratch.unseen.data());
        for (int64_t query = 0; query < n; ++query) {
            const double unseen = scratch.unseen[static_cast<size_t>(query)];
            const bool full = batch.best.counts[query] == k;
            const bool all_seen = unseen == -INFINITY;
            // The answers are still a heap, so the first score is the lowest.
            batch.certified[query] =
                all_seen || (full && static_cast<double>(batch.best.scores[query * batch.best.stride]) > unseen);
            if (!full && !all_seen) start_again_exactly(batch, query);
        }
    }

    // Searches exactly for a query that got fewer than k answers, although more items may answer.
    void start_again_exactly(const Batch& batch, int64_t query) const {
        batch.best.counts[query] = 0;
        search_exactly(batch.of_queries(query, 1, n_factors_));
    }

    void choose_candidates(const Kernels& kernels, const Queries& queries, const Entries& entries,
                           const Setting& setting, const Candidates& candidates, Scratch& scratch) const {
        std::fill_n(candidates.counts, queries.n_queries, 0);
        const SlotsScratch space = scratch.for_slots(setting.budget);
        for (const Segment& segment : segments_)
            kernels.scan_postings(segment.items, segment.postings, queries, entries, slots_setting(setting), space,
                                  candidates);
    }

    SlotsSetting slots_setting(const Setting& setting) const {
        return {setting.budget, setting.max_slots, setting.min_overlap, longest_held_};
    }

    void score_all_sharing(const Batch& batch) const {
        const SlotsScratch space = batch.scratch.for_slots(0);
        for (const Segment& segment : segments_)
            batch.kernels.score_sharing(segment.items, segment.postings, batch.queries, batch.entries,
                                        slots_setting(batch.setting), space, batch.best);
        std::fill_n(batch.certified, batch.queries.n_queries, false);
    }

    // Searches for queries that each have a list of the only rows that may answer.
    void search_own(const Batch& batch, const Filter& filter) const {
        std::vector<uint8_t>& bits = batch.scratch.own_rows;
        for (int64_t query = 0; query < batch.queries.n_queries; ++query) {
            const int64_t* rows = filter.listed + filter.starts[query];
            const int64_t n = filter.starts[query + 1] - filter.starts[query];
            Batch own = batch.of_queries(query, 1, n_factors_);
            own.queries.filter = {};
            if (n <= MOST_SCORED && is_few(n)) {
                score_rows(own, rows, n);
            } else {
                const size_t n_bytes = static_cast<size_t>(rows[n - 1] / 8 + 1);
                bits.assign(std::max(n_bytes, n_row_bytes()), 0);
                for (int64_t i = 0; i < n; ++i)
                    bits[static_cast<size_t>(rows[i] / 8)] |= static_cast<uint8_t>(1 << rows[i] % 8);
                own.queries.filter.allowed = bits.data();
                if (is_few(n))
                    search_exactly(own);
                else
                    search_by_method(own);
            }
            if (is_few(n)) *own.best.n_scored = n;
        }
    }

    // The number of items in all segments, removed or not.
    int64_t n_held() const {
        return segments_.empty() ? 0 : segments_.back().items.base + segments_.back().items.n_items;
    }

    // The number of bytes that hold a bit for every row.
    size_t n_row_bytes() const {
        int64_t last = 0;
        for (const Segment& each : segments_) last = std::max(last, each.row_table().last());
        return static_cast<size_t>(last / 8 + 1);
    }

    // The positions of the rows that are in a segment.
    static void find_positions(const Segment& segment, const int64_t* rows, int64_t n,
                               std::vector<int32_t>& positions) {
        positions.clear();
        for (int64_t i = 0; i < n; ++i) {
            const int64_t position = position_of_row(segment.row_table(), rows[i]);
            if (position >= 0) positions.push_back(static_cast<int32_t>(position));
        }
    }

    void score_rows(const Batch& batch, const int64_t* rows, int64_t n) const {
        std::vector<int32_t>& positions = batch.scratch.positions;
        for (const Segment& segment : segments_) {
            find_positions(segment, rows, n, positions);
            batch.kernels.score_positions(segment.items, positions.data(), static_cast<int64_t>(positions.size()),
                                          batch.queries, batch.best);
        }
        std::fill_n(batch.certified, batch.queries.n_queries, true);
    }

    // Replaces ranks, best first, by ids.
    void finish(const Answers& answers, int64_t query, int64_t count) const {
        int64_t* ids = answers.ids + query * answers.k;
        for (int64_t i = 0; i < count; ++i) ids[i] = id_at(position_of(ids[i]));
        std::fill(ids + count, ids + answers.k, -1);
        float* scores = answers.scores + query * answers.k;
        std::fill(scores + count, scores + answers.k, -INFINITY);
    }

    int64_t id_at(int64_t position) const {
        for (const Segment& segment : segments_) {
            const int64_t at = position - segment.items.base;
            if (at < segment.items.n_items) return segment.ids ? segment.ids[at] : position;
        }
        return -1;
    }

    int64_t n_factors_;
    Axes axes_;
    double longest_;
    double longest_held_;
    Centres centres_ = {};
    std::vector<float> farthest_;
    std::vector<Segment> segments_;
    int64_t n_live_ = 0;
};

}  // namespace tessella
