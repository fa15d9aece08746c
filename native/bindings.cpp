// Bindings only: shapes are checked, the GIL is released, the core runs on the calling thread. See README.md.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "arrays.hpp"
#include "engine.hpp"
#include "kernels.hpp"
#include "levels.hpp"
#include "lookups.hpp"
#include "workspace.hpp"

using namespace nb::literals;

namespace tessella {
namespace {

std::vector<std::string> levels() {
    std::vector<std::string> names;
    for (const Kernels* kernels : available_levels()) names.emplace_back(kernels->name);
    return names;
}

// The constants that Python has too, so that a test can compare them.
std::map<std::string, double> numbers() {
    return {{"EXACT", static_cast<int>(Method::exact)},
            {"TILES", static_cast<int>(Method::tiles)},
            {"SLOTS", static_cast<int>(Method::slots)},
            {"MAX_FACTORS", MAX_FACTORS},
            {"NORM_SPARE", NORM_SPARE},
            {"ROTATION_SPARE", ROTATION_SPARE},
            {"LARGEST_SKEW", LARGEST_SKEW},
            {"ROUNDED_ROTATION_SPARE", ROUNDED_ROTATION_SPARE},
            {"UNDERFLOW_LOSS", UNDERFLOW_LOSS},
            {"LEAST_NORMAL_FLOAT", LEAST_NORMAL_FLOAT},
            {"LARGEST_NORM", LARGEST_NORM},
            {"LARGEST_PRODUCT", LARGEST_PRODUCT},
            {"LARGEST_BOUND", LARGEST_BOUND},
            {"QUERY_OFFSET", QUERY_OFFSET},
            {"LARGEST_ITEM_CODE", LARGEST_ITEM_CODE},
            {"LARGEST_QUERY_CODE", LARGEST_QUERY_CODE},
            {"LONGEST_ITEM_CODE", LONGEST_ITEM_CODE},
            {"LONGEST_QUERY_CODE", LONGEST_QUERY_CODE},
            {"LEAST_CODE_STEP", LEAST_CODE_STEP},
            {"LEAST_SCALE", LEAST_SCALE},
            {"PARTIAL_PRODUCT_UNITS", PARTIAL_PRODUCT_UNITS},
            {"FAINT", FAINT},
            {"PROVABLE_POSITIONS", PROVABLE_POSITIONS},
            {"BLOCK_ITEMS", BLOCK_ITEMS},
            {"GROUP_ITEMS", GROUP_ITEMS},
            {"POSTING_BLOCK", POSTING_BLOCK},
            {"STRIDE", STRIDE},
            {"FEW_GROUPS", FEW_GROUPS},
            {"SCORED_LAST", SCORED_LAST},
            {"FEW_ALLOWED", FEW_ALLOWED},
            {"FEW_ALLOWED_SHARE", FEW_ALLOWED_SHARE},
            {"MOST_WITH_REPEATS", MOST_WITH_REPEATS},
            {"rounding_share(64)", rounding_share(64)}};
}

int64_t first_nonfinite(Matrix<const float> factors, int64_t level) {
    const Kernels& kernels = kernels_at(level);
    nb::gil_scoped_release unlocked;
    return kernels.first_nonfinite(factors.data(), n_rows_of(factors), width_of(factors));
}

void prepare(Matrix<const float> factors, std::optional<Matrix<const double>> rotation, double threshold, bool relative,
             Matrix<float> prepared, int64_t level) {
    const Kernels& kernels = kernels_at(level);
    require_width(factors, "factors");
    require_shape(prepared, "prepared", factors.shape(0), factors.shape(1));
    require(!rotation || (rotation->shape(0) == factors.shape(1) && rotation->shape(1) == factors.shape(1)),
            "rotation must be square and as wide as the factors");
    const Preparation how = {rotation ? rotation->data() : nullptr, threshold, relative};
    const OwnedWorkspace space(width_of(factors));
    nb::gil_scoped_release unlocked;
    kernels.prepare(factors.data(), n_rows_of(factors), width_of(factors), how, space.view, prepared.data());
}

int64_t count_entries(Matrix<const float> prepared, Vector<int64_t> counts, int64_t level) {
    const Kernels& kernels = kernels_at(level);
    require_size(counts, "counts", prepared.shape(0));
    nb::gil_scoped_release unlocked;
    return kernels.count_entries(prepared.data(), n_rows_of(prepared), width_of(prepared), counts.data());
}

void ternary_tiles(Matrix<const float> factors, int64_t max_nonzeros, Matrix<int8_t> tiles, int64_t level) {
    const Kernels& kernels = kernels_at(level);
    require_width(factors, "factors");
    require_shape(tiles, "tiles", factors.shape(0), factors.shape(1));
    require(max_nonzeros >= 1 && max_nonzeros <= width_of(factors),
            "max_nonzeros must be from 1 to the number of coordinates");
    const OwnedWorkspace space(width_of(factors));
    nb::gil_scoped_release unlocked;
    kernels.ternary_tiles(factors.data(), n_rows_of(factors), width_of(factors), max_nonzeros, space.view,
                          tiles.data());
}

void dary_tiles(Matrix<const float> factors, int32_t n_levels, bool exact, Matrix<int8_t> tiles, int64_t level) {
    const Kernels& kernels = kernels_at(level);
    require_width(factors, "factors");
    require_shape(tiles, "tiles", factors.shape(0), factors.shape(1));
    require(n_levels >= 1 && n_levels <= 127, "levels must be from 1 to 127");
    const OwnedWorkspace space(width_of(factors));
    nb::gil_scoped_release unlocked;
    if (exact)
        kernels.nearest_dary_tiles(factors.data(), n_rows_of(factors), width_of(factors), n_levels, space.view,
                                   tiles.data());
    else
        kernels.rounded_dary_tiles(factors.data(), n_rows_of(factors), width_of(factors), n_levels, tiles.data());
}

template <typename Index, typename Fill>
int64_t fill_with(Fill fill, const Matrix<const float>& prepared, const Matrix<const int8_t>& tiles,
                  const SlotRule& rule, const Vector<const Index>& starts, const Vector<Index>& slots,
                  const Vector<float>& values) {
    require_width(prepared, "prepared");
    require_shape(tiles, "tiles", prepared.shape(0), prepared.shape(1));
    require(rule.levels >= 1 && rule.levels <= 127 && rule.depth >= 0 && rule.depth <= 32,
            "levels must be from 1 to 127, and depth from 0 to 32");
    require_size(values, "values", slots.size());
    require_starts(starts, "starts", prepared.shape(0), slots.size(), false);
    const OwnedWorkspace space(width_of(prepared));
    nb::gil_scoped_release unlocked;
    return fill(prepared.data(), tiles.data(), n_rows_of(prepared), width_of(prepared), rule, space.view, starts.data(),
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

void inner_products(Matrix<const float> queries, Matrix<const float> items, Matrix<float> products, int64_t level) {
    const Kernels& kernels = kernels_at(level);
    require_width(items, "items");
    require_shape(queries, "queries", queries.shape(0), items.shape(1));
    require_shape(products, "products", queries.shape(0), items.shape(0));
    nb::gil_scoped_release unlocked;
    kernels.inner_products(queries.data(), n_rows_of(queries), items.data(), n_rows_of(items), width_of(items),
                           products.data());
}

void code_items(Matrix<const float> factors, Matrix<const float> rotated, int64_t n_head, Vector<int8_t> codes,
                Vector<int16_t> offsets, Matrix<double> block_terms, int64_t level) {
    const Kernels& kernels = kernels_at(level);
    require_width(factors, "factors");
    require_shape(rotated, "rotated", factors.shape(0), factors.shape(1));
    require(n_head >= 1 && n_head <= width_of(factors), "n_head must be from 1 to the number of coordinates");
    const size_t n_blocks = in_groups(factors.shape(0), BLOCK_ITEMS);
    const int64_t code_size = exact_code_size(n_head, width_of(factors));
    require_size(offsets, "offsets", n_blocks * BLOCK_ITEMS);
    require_size(codes, "codes", static_cast<size_t>(code_size) * offsets.size());
    require_shape(block_terms, "block_terms", n_blocks, 5);
    std::vector<double> sketches(static_cast<size_t>(code_size + 3) * BLOCK_ITEMS);
    nb::gil_scoped_release unlocked;
    kernels.code_items(factors.data(), rotated.data(), n_rows_of(factors), width_of(factors), n_head, sketches.data(),
                       codes.data(), offsets.data(), reinterpret_cast<BlockTerms*>(block_terms.data()));
}

Axes axes_of(const Matrix<const double>& head) {
    require(head.shape(0) >= 1 && head.shape(0) <= MAX_FACTORS && head.shape(1) >= 1 && head.shape(1) <= head.shape(0),
            "head must have from 1 to n_factors columns");
    const int64_t n_head = static_cast<int64_t>(head.shape(1));
    const int64_t n_factors = static_cast<int64_t>(head.shape(0));
    return {head.data(), n_head, exact_code_size(n_head, n_factors)};
}

void sketch(Matrix<const float> factors, Matrix<const double> head, Matrix<float> sketches, int64_t level) {
    const Kernels& kernels = kernels_at(level);
    require_width(factors, "factors");
    const Axes axes = axes_of(head);
    require_shape(head, "head", factors.shape(1), head.shape(1));
    require(axes.n_head < width_of(factors), "head must have fewer axes than there are coordinates");
    require_shape(sketches, "sketches", factors.shape(0), head.shape(1) + 1);
    std::vector<double> scratch(4 * (factors.shape(1) + static_cast<size_t>(axes.code_size) + 3));
    nb::gil_scoped_release unlocked;
    kernels.sketch(factors.data(), n_rows_of(factors), width_of(factors), axes, scratch.data(), sketches.data());
}

void code_tile_items(Matrix<const float> factors, Vector<int8_t> codes, Vector<int16_t> offsets, Vector<float> scales,
                     int64_t level) {
    const Kernels& kernels = kernels_at(level);
    require_width(factors, "factors");
    const size_t padded = in_groups(factors.shape(0), GROUP_ITEMS) * GROUP_ITEMS;
    const int64_t code_size = tile_code_size(width_of(factors));
    require_size(codes, "codes", padded * static_cast<size_t>(code_size));
    require_size(offsets, "offsets", padded);
    require_size(scales, "scales", padded);
    nb::gil_scoped_release unlocked;
    kernels.code_tile_items(factors.data(), n_rows_of(factors), width_of(factors), code_size, codes.data(),
                            offsets.data(), scales.data());
}

void nearest_tiles(nb::handle centres, Vector<const float> halves, Matrix<const float> factors,
                   std::optional<Vector<const int32_t>> taken, Vector<int32_t> tiles, int64_t level) {
    const Kernels& kernels = kernels_at(level);
    require_width(factors, "factors");
    const size_t n_tiles = halves.size();
    require(n_tiles >= 1, "halves is empty");
    require_size(tiles, "tiles", factors.shape(0));
    if (taken) {
        require_size(*taken, "taken", factors.shape(0));
        for (size_t i = 0; i < taken->size(); ++i)
            require(taken->data()[i] >= 0 && taken->data()[i] < static_cast<int64_t>(n_tiles),
                    "taken holds a tile that does not exist");
    }
    std::vector<nb::object> kept;
    const TileCodes coded = tile_codes_of(Fields(centres, kept), n_tiles, width_of(factors));
    nb::gil_scoped_release unlocked;
    std::vector<uint8_t> codes(factors.shape(0) * static_cast<size_t>(coded.code_size));
    std::vector<TileQueryTerms> terms(factors.shape(0));
    std::vector<float> bounds(in_groups(n_tiles, GROUP_ITEMS) * GROUP_ITEMS);
    kernels.code_tile_queries(factors.data(), n_rows_of(factors), width_of(factors), coded.code_size, codes.data(),
                              terms.data());
    kernels.nearest_tiles(coded, halves.data(), static_cast<int64_t>(n_tiles), {codes.data(), terms.data()},
                          n_rows_of(factors), taken ? taken->data() : nullptr, bounds.data(), tiles.data());
}

void group_neighbours(Matrix<const float> factors, Vector<const int64_t> starts, Vector<int32_t> members,
                      int64_t level) {
    const Kernels& kernels = kernels_at(level);
    require_width(factors, "factors");
    require(starts.size() >= 1, "starts is empty");
    const size_t n_tiles = starts.size() - 1;
    require_starts(starts, "starts", n_tiles, members.size(), true);
    size_t most = 0;
    for (size_t tile = 0; tile < n_tiles; ++tile)
        most = std::max(most, static_cast<size_t>(starts.data()[tile + 1] - starts.data()[tile]));
    for (size_t i = 0; i < members.size(); ++i)
        require(members.data()[i] >= 0 && members.data()[i] < n_rows_of(factors), "members point outside the factors");
    nb::gil_scoped_release unlocked;
    std::vector<float> direction(factors.shape(1));
    std::vector<double> sums(factors.shape(1) + 3);
    std::vector<uint64_t> keys(most);
    std::vector<int32_t> others(most);
    kernels.group_neighbours(factors.data(), width_of(factors), starts.data(), static_cast<int64_t>(n_tiles),
                             direction.data(), sums.data(), keys.data(), others.data(), members.data());
}

// Reorders rows in place, cycle by cycle.
void reorder(Matrix<float> factors, Vector<const int64_t> order) {
    const size_t n = order.size();
    require_size(factors, "factors", n * factors.shape(1));
    std::vector<bool> done(n, false);
    for (size_t i = 0; i < n; ++i) {
        const int64_t from = order.data()[i];
        require(from >= 0 && from < static_cast<int64_t>(n) && !done[static_cast<size_t>(from)],
                "order must hold every row once");
        done[static_cast<size_t>(from)] = true;
    }
    nb::gil_scoped_release unlocked;
    const size_t width = factors.shape(1);
    std::vector<float> first(width);
    for (size_t start = 0; start < n; ++start) {
        if (!done[start]) continue;  // every row is marked by now, and unmarked once it is in place
        std::copy_n(factors.data() + start * width, width, first.begin());
        for (size_t to = start;;) {
            done[to] = false;
            const size_t from = static_cast<size_t>(order.data()[to]);
            const float* row = from == start ? first.data() : factors.data() + from * width;
            std::copy_n(row, width, factors.data() + to * width);
            if (from == start) break;
            to = from;
        }
    }
}

IdTable id_table_of(const Fields& fields) {
    const auto ids = fields.get<Vector<const int64_t>>("ids");
    const size_t n = ids.size();
    IdTable table = {};
    table.ids = ids.data();
    table.rows = fields.get<Vector<const int32_t>>("rows", n).data();
    if (fields.has("removed")) table.removed = fields.get<Vector<const uint8_t>>("removed", (n + 7) / 8).data();
    const auto slots = fields.get<Vector<const int32_t>>("by_id");
    table.slots = slots.data();
    table.n_slots = static_cast<int64_t>(slots.size());
    table.scattered = !fields.has("first_id");
    if (table.scattered) {
        require(slots.size() > n && (slots.size() & (slots.size() - 1)) == 0,
                "the size of by_id must be a power of two above the number of ids");
    } else {
        table.first = nb::cast<int64_t>(fields["first_id"]);
    }
    return table;
}

using ListsArgument = std::tuple<Vector<const int64_t>, Vector<const int64_t>>;

// Lists to be filled with rows, and the entries they are made from.
class ListsView {
public:
    // Without starts there is one list.
    ListsView(const std::optional<Vector<const int64_t>>& starts, size_t n_entries,
              const std::optional<ListsArgument>& without, const Vector<int64_t>& rows,
              const Vector<int64_t>& row_starts)
        : whole_{0, static_cast<int64_t>(n_entries)},
          starts_(starts ? starts->data() : whole_),
          rows_(rows.data()),
          row_starts_(row_starts.data()) {
        require(!starts || starts->size() >= 1, "starts is empty");
        const size_t n = starts ? starts->size() - 1 : 1;
        if (starts) require_starts(*starts, "starts", n, n_entries, false);
        require_size(rows, "rows", static_cast<size_t>(starts_[n] - starts_[0]));
        require_size(row_starts, "row_starts", n + 1);
        if (without) {
            const auto& [values, their_starts] = *without;
            require_starts(their_starts, "without", n, values.size(), false);
            without_ = {values.data(), their_starts.data()};
        }
        n_lists_ = static_cast<int64_t>(n);
    }

    template <typename RowOf>
    void fill(const RowOf& row_of) const {
        static thread_local RowLists lists;
        lists.fill(row_of, starts_, n_lists_, without_, rows_, row_starts_);
    }

    ListsView(const ListsView&) = delete;

private:
    const int64_t whole_[2];
    const int64_t* starts_;
    Lists without_ = {};
    int64_t* rows_;
    int64_t* row_starts_;
    int64_t n_lists_ = 0;
};

// An engine, and the arrays it reads.
class BoundEngine {
public:
    using SettingArgument = std::tuple<int, double, int64_t, int64_t, int64_t>;
    using EntriesArgument = std::tuple<Vector<const int64_t>, Vector<const int64_t>, Vector<const float>>;
    using FilterArgument = std::tuple<std::optional<Vector<const uint8_t>>, int64_t, Vector<const int64_t>,
                                      std::optional<Vector<const int64_t>>, bool>;
    using AnswersArgument = std::tuple<Array<int64_t>, Array<float>, Vector<int64_t>, Vector<bool>>;

    BoundEngine(Matrix<const double> head, double longest, double longest_held, nb::object centres,
                std::optional<Vector<const float>> radii, const std::vector<nb::object>& segments)
        : engine_(static_cast<int64_t>(head.shape(0)), axes_of(head), longest, longest_held) {
        kept_.push_back(nb::cast(head));
        if (!centres.is_none()) {
            require(radii.has_value(), "radii is missing");
            const size_t n_groups = in_groups(radii->size(), GROUP_ITEMS);
            require(n_groups >= 1, "radii is empty");
            const Fields fields(centres, kept_);
            engine_.set_centres(tile_codes_of(fields, radii->size(), engine_.width()),
                                fields.get<Vector<const float>>("norms", n_groups).data(), radii->data(),
                                static_cast<int64_t>(n_groups));
            kept_.push_back(nb::cast(*radii));
        }
        int64_t base = 0;
        for (const nb::object& segment : segments) {
            const Segment added = segment_of(Fields(segment, kept_), radii, base);
            engine_.add(added);
            if (added.ids) id_tables_.push_back(id_table_of(Fields(segment, kept_)));
            base += added.items.n_items;
        }
    }

    // Returns the first query that cannot be answered, or -1.
    int64_t search(Array<const float> queries, const SettingArgument& setting,
                   const std::optional<EntriesArgument>& entries, const std::optional<FilterArgument>& filter,
                   const AnswersArgument& answers, int64_t level) const {
        const Kernels& kernels = kernels_at(level);
        const size_t width = static_cast<size_t>(engine_.n_factors());
        require(queries.ndim() >= 1 && queries.ndim() <= 2 && queries.shape(queries.ndim() - 1) == width,
                "queries must be as wide as the items");
        const size_t n = queries.ndim() == 1 ? 1 : queries.shape(0);
        const auto& [ids, scores, n_scored, certified] = answers;
        require(ids.ndim() == queries.ndim(), "ids must have as many dimensions as queries");
        const size_t k = ids.shape(ids.ndim() - 1);
        require_size(ids, "ids", n * k);
        require_size(scores, "scores", n * k);
        require_size(n_scored, "n_scored", n);
        require_size(certified, "certified", n);
        const Setting how = setting_of(setting);
        const Entries mapped = entries_of(entries, how, n);
        const Filter rows = filter_of(filter, n);
        nb::gil_scoped_release unlocked;
        return engine_.search(kernels, queries.data(), static_cast<int64_t>(n), how, mapped, rows,
                              {ids.data(), scores.data(), n_scored.data(), certified.data(), static_cast<int64_t>(k)});
    }

    int64_t choose(Vector<const float> query, const SettingArgument& setting, const EntriesArgument& entries,
                   const std::optional<FilterArgument>& filter, Vector<uint64_t> keys, int64_t level) const {
        const Kernels& kernels = kernels_at(level);
        require_size(query, "query", static_cast<size_t>(engine_.n_factors()));
        Setting how = setting_of(setting);
        require(how.method == Method::slots, "candidates need the method slots");
        how.budget = static_cast<int64_t>(keys.size());
        require(how.budget >= 1, "keys is empty");
        const Entries mapped = entries_of(entries, how, 1);
        const Filter rows = filter_of(filter, 1);
        require(!(rows.starts && rows.only), "candidates cannot be chosen from a list of allowed rows");
        int64_t count = 0;
        nb::gil_scoped_release unlocked;
        engine_.choose(kernels, {query.data(), 1, {rows.allowed, rows.listed, rows.starts}}, mapped, how,
                       {keys.data(), &count, how.budget});
        return count;
    }

    // Returns how many ids of the lists are unknown; -1 is skipped.
    int64_t list_ids(Vector<const int64_t> ids, const std::optional<Vector<const int64_t>>& starts,
                     const std::optional<ListsArgument>& without, Vector<int64_t> rows,
                     Vector<int64_t> row_starts) const {
        const ListsView lists(starts, ids.size(), without, rows, row_starts);
        int64_t n_unknown = 0;
        const auto row_of = [&](int64_t i) -> int64_t {
            const int64_t id = ids.data()[i];
            if (id == -1) return -1;
            for (const IdTable& table : id_tables_) {
                const int64_t position = position_of_id(table, id);
                if (position >= 0) return table.rows[position];
            }
            ++n_unknown;
            return -1;
        };
        nb::gil_scoped_release unlocked;
        lists.fill(row_of);
        return n_unknown;
    }

private:
    Segment segment_of(const Fields& fields, const std::optional<Vector<const float>>& radii, int64_t base) {
        const auto factors = fields.get<Matrix<const float>>("factors");
        const size_t n = factors.shape(0);
        const int64_t n_factors = engine_.n_factors();
        if (n == 0) refuse(fields.name("factors") + " is empty");
        if (width_of(factors) != n_factors)
            require_shape(factors, fields.name("factors").c_str(), n, static_cast<size_t>(n_factors));
        require(base + static_cast<int64_t>(n) <= INT32_MAX, "positions do not fit in 31 bits");
        Segment segment = {};
        segment.items = {factors.data(), fields.get<Vector<const int32_t>>("rows", n).data(),
                         nullptr,        static_cast<int64_t>(n),
                         n_factors,      base};
        if (fields.has("removed"))
            segment.items.removed = fields.get<Vector<const uint8_t>>("removed", (n + 7) / 8).data();
        Vector<const int64_t> ids;
        if (fields.find("ids", ids)) {  // strings stay in Python
            require_size(ids, "Segment.ids", n);
            segment.ids = ids.data();
        }
        segment.by_row = fields.get<Vector<const int32_t>>("by_row", n).data();
        segment.codes = exact_codes_of(Fields(fields["codes"], kept_), n, engine_.axes().code_size);
        segment.postings = postings_of(Fields(fields["postings"], kept_), n);
        if (fields.has("tiles") != engine_.has_tiles())
            refuse(fields.name("tiles") + " and centres must be passed together");
        if (engine_.has_tiles())
            segment.tiles =
                tiled_items_of(Fields(fields["tiles"], kept_), kept_, *radii, engine_.n_groups(), n, engine_.width());
        segment.n_live = nb::cast<int64_t>(fields["n_live"]);
        if (segment.n_live < 0 || segment.n_live > static_cast<int64_t>(n))
            refuse(fields.name("n_live") + " is out of range");
        return segment;
    }

    Setting setting_of(const SettingArgument& setting) const {
        const auto& [method, reach, budget, max_slots, min_overlap] = setting;
        require(method >= 0 && method < N_METHODS, "there is no such method");
        const Setting how = {static_cast<Method>(method), reach, budget, max_slots, min_overlap};
        require(how.method != Method::tiles || engine_.has_tiles(), "there are no tiles");
        require(reach >= 0.0 && reach <= 1.0, "reach must be from 0 to 1");
        require(how.method != Method::slots || (budget >= 0 && max_slots >= 1 && min_overlap >= 1),
                "budget, max_slots or min_overlap is too small");
        return how;
    }

    static Entries entries_of(const std::optional<EntriesArgument>& entries, const Setting& how, size_t n) {
        if (how.method != Method::slots) return {};
        require(entries.has_value(), "entries are missing");
        const auto& [starts, slots, values] = *entries;
        require_size(values, "values", slots.size());
        require_starts(starts, "entries", n, slots.size(), true);
        for (size_t query = 0; query < n; ++query)
            require(starts.data()[query + 1] - starts.data()[query] <= MAX_FACTORS, "a query has over 4096 entries");
        return {starts.data(), slots.data(), values.data()};
    }

    static Filter filter_of(const std::optional<FilterArgument>& filter, size_t n) {
        if (!filter) return {};
        const auto& [allowed, n_allowed, listed, starts, only] = *filter;
        if (starts) require_starts(*starts, "row_filter", n, listed.size(), false);
        return {allowed ? allowed->data() : nullptr, n_allowed, listed.data(), starts ? starts->data() : nullptr, only};
    }

    std::vector<nb::object> kept_;
    std::vector<IdTable> id_tables_;  // empty if ids are strings
    Engine engine_;
};

void scatter_ids_of(Vector<const int64_t> ids, Vector<int32_t> slots) {
    const size_t n = slots.size();
    require(n > ids.size() && (n & (n - 1)) == 0, "the size of slots must be a power of two above the number of ids");
    nb::gil_scoped_release unlocked;
    scatter_ids(ids.data(), static_cast<int64_t>(ids.size()), slots.data(), static_cast<int64_t>(n));
}

// Fills in the ids of lists and tuples; returns false if any is not a Python int of 64 bits.
bool read_ids(nb::handle lists, Vector<int64_t> ids) {
    require(PyList_Check(lists.ptr()), "lists must be a list");
    int64_t* next = ids.data();
    const int64_t* const end = next + ids.size();
    for (Py_ssize_t i = 0; i < PyList_Size(lists.ptr()); ++i) {
        PyObject* const list = PyList_GetItem(lists.ptr(), i);
        const bool is_list = PyList_CheckExact(list);
        if (!is_list && !PyTuple_CheckExact(list)) return false;
        const Py_ssize_t n = is_list ? PyList_Size(list) : PyTuple_Size(list);
        require(n <= end - next, "ids has fewer entries than the lists");
        for (Py_ssize_t j = 0; j < n; ++j) {
            PyObject* const number = is_list ? PyList_GetItem(list, j) : PyTuple_GetItem(list, j);
            int overflow = 0;
            if (!PyLong_CheckExact(number)) return false;
            *next++ = PyLong_AsLongLongAndOverflow(number, &overflow);
            if (overflow) return false;
        }
    }
    require(next == end, "ids has more entries than the lists");
    return true;
}

// Fills in the positions of known ids, with the base added; other positions are not changed.
void find_ids(nb::handle segment, int64_t base, Vector<const int64_t> wanted, Vector<int64_t> positions) {
    std::vector<nb::object> kept;
    const IdTable table = id_table_of(Fields(segment, kept));
    require_size(positions, "positions", wanted.size());
    nb::gil_scoped_release unlocked;
    for (size_t i = 0; i < wanted.size(); ++i) {
        const int64_t position = position_of_id(table, wanted.data()[i]);
        if (position >= 0) positions.data()[i] = base + position;
    }
}

// Returns the number of the first entry whose column is out of range, or -1.
template <typename Column>
int64_t list_columns(Vector<const Column> columns, const std::optional<Vector<const int64_t>>& starts,
                     std::optional<Vector<const int64_t>> row_of_column, const std::optional<ListsArgument>& without,
                     Vector<int64_t> rows, Vector<int64_t> row_starts) {
    const ListsView lists(starts, columns.size(), without, rows, row_starts);
    const int64_t* const table = row_of_column ? row_of_column->data() : nullptr;
    const uint64_t n_columns = row_of_column ? row_of_column->size() : uint64_t{INT64_MAX};
    const Column* const given = columns.data();
    int64_t wrong = -1;
    const auto row_of = [&](int64_t i) -> int64_t {
        const int64_t column = given[i];
        if (static_cast<uint64_t>(column) < n_columns) return table ? table[column] : column;
        if (table && wrong < 0) wrong = i;
        return -1;
    };
    nb::gil_scoped_release unlocked;
    lists.fill(row_of);
    return wrong;
}

}  // namespace
}  // namespace tessella

NB_MODULE(_native, m) {
    using namespace tessella;
    const auto array = [](const char* name) { return nb::arg(name).noconvert(); };
    const auto optional = [](const char* name) { return nb::arg(name).noconvert().none(); };
    m.doc() = "The native core of tessella. Private: every function fills arrays that Python allocated.";
    m.def("levels", &levels, "Return the SIMD levels that this processor supports, simplest first.");
    m.def("numbers", &numbers, "Return the constants of bounds and layouts by name.");
    m.def("first_nonfinite", &first_nonfinite, array("factors"), "level"_a,
          "Return the first vector with a NaN or an infinity, or the number of vectors.");
    m.def("prepare", &prepare, array("factors"), optional("rotation"), "threshold"_a, "relative"_a, array("prepared"),
          "level"_a, "Rotate vectors, then set coordinates below the threshold to zero.");
    m.def("count_entries", &count_entries, array("prepared"), array("counts"), "level"_a,
          "Count the non-zeros of each vector; return the first vector that is not finite, or the number of vectors.");
    m.def("ternary_tiles", &ternary_tiles, array("factors"), "max_nonzeros"_a, array("tiles"), "level"_a,
          "Fill in the nearest ternary tiles with at most max_nonzeros non-zeros (Algorithm 2).");
    m.def("dary_tiles", &dary_tiles, array("factors"), "n_levels"_a, "exact"_a, array("tiles"), "level"_a,
          "Fill in the nearest D-ary tiles, or Algorithm 4's rounded tiles.");
    m.def(
        "fill_entries", &fill_narrow, array("prepared"), array("tiles"), "n_levels"_a, "depth"_a, array("starts"),
        array("slots"), array("values"), "level"_a,
        "Fill in each vector's entries by ascending slot; return the first vector that does not fit, or the number of "
        "vectors.");
    m.def("fill_entries", &fill_wide, array("prepared"), array("tiles"), "n_levels"_a, "depth"_a, array("starts"),
          array("slots"), array("values"), "level"_a);
    m.def("inner_products", &inner_products, array("queries"), array("items"), array("products"), "level"_a,
          "Fill in inner products in float32, summed in the same order as scores.");
    m.def("code_items", &code_items, array("factors"), array("rotated"), "n_head"_a, array("codes"), array("offsets"),
          array("block_terms"), "level"_a, "Code items for exact search in blocks, with the terms of their bounds.");
    m.def("sketch", &sketch, array("factors"), array("head"), array("sketches"), "level"_a,
          "Fill in the coordinates along the axes, and an upper bound of the norm of the rest.");
    m.def("code_tile_items", &code_tile_items, array("factors"), array("codes"), array("offsets"), array("scales"),
          "level"_a, "Code items, or centres, for tile search, each in steps of its own scale.");
    m.def("nearest_tiles", &nearest_tiles, "centres"_a, array("halves"), array("factors"), optional("taken"),
          array("tiles"), "level"_a, "Fill in the tile whose centre is nearest to each factor.");
    m.def("reorder", &reorder, array("factors"), array("order"), "Reorder rows in place.");
    m.def("group_neighbours", &group_neighbours, array("factors"), array("starts"), array("members"), "level"_a,
          "Sort the members of each tile into groups of neighbours.");
    m.def("scatter_ids", &scatter_ids_of, array("ids"), array("slots"), "Fill a hash table of the positions of ids.");
    m.def("read_ids", &read_ids, "lists"_a, array("ids"),
          "Fill in the ids of lists and tuples; return False if any is not a Python int of 64 bits.");
    m.def("find_ids", &find_ids, "segment"_a, "base"_a, array("wanted"), array("positions"),
          "Fill in the positions, plus the base, of the ids that are in a segment.");
    m.def("list_columns", &list_columns<int32_t>, array("columns"), optional("starts"), optional("row_of_column"),
          optional("without"), array("rows"), array("row_starts"),
          "Turn lists of columns into ascending lists of rows; return the first entry out of range, or -1.");
    m.def("list_columns", &list_columns<int64_t>, array("columns"), optional("starts"), optional("row_of_column"),
          optional("without"), array("rows"), array("row_starts"));
    nb::class_<BoundEngine>(m, "Engine",
                            "Holds the arrays of one version of an index, and searches them by any method.")
        .def(nb::init<Matrix<const double>, double, double, nb::object, std::optional<Vector<const float>>,
                      const std::vector<nb::object>&>(),
             array("head"), "longest"_a, "longest_held"_a, "centres"_a.none(), optional("radii"), "segments"_a)
        .def("search", &BoundEngine::search, array("queries"), array("setting"), optional("entries"),
             optional("row_filter"), array("answers"), "level"_a,
             "Fill in the answers to all queries; return -1, or the first query that is not finite or too long.")
        .def("choose", &BoundEngine::choose, array("query"), array("setting"), array("entries"), optional("row_filter"),
             array("keys"), "level"_a,
             "Fill in the candidates of slots search for one query; return how many there are.")
        .def("list_ids", &BoundEngine::list_ids, array("ids"), optional("starts"), optional("without"), array("rows"),
             array("row_starts"), "Turn lists of ids into ascending lists of rows; return how many ids are unknown.");
}
