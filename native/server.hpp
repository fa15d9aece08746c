// Answers single queries in one call: an index's arrays, checked once and kept, and the kernels over them.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "arrays.hpp"
#include "kernels.hpp"

namespace tessella {

// Kept by each thread, so that a query need not ask for memory.
struct ServerScratch {
    std::vector<double> wide;
    std::vector<uint8_t> codes;
    std::vector<float> nears;
    std::vector<int64_t> answers;
};

class Server {
public:
    Server(int64_t n_factors, double longest, Matrix<const double> head, double largest_code, double longest_code,
           int64_t level)
        : kernels_(kernels_at(level)), n_factors_(n_factors), longest_(longest), head_(head) {
        require(n_factors <= MAX_FACTORS && static_cast<int64_t>(head.shape(0)) == n_factors && head.shape(1) >= 1 &&
                    head.shape(1) <= head.shape(0),
                "shapes differ");
        require(largest_code >= 1.0 && largest_code <= QUERY_OFFSET - 1 && longest_code >= 1.0,
                "codes do not fit their places");
        const int64_t n_head = static_cast<int64_t>(head.shape(1));
        coding_ = {head_.data(), n_head, n_head + 1 + (n_head + 1) % 2, largest_code, longest_code};
    }

    void learn(Vector<const int8_t> codes, Vector<const int16_t> offsets, Vector<const float> scales) {
        const size_t code_size = static_cast<size_t>(n_factors_ + n_factors_ % 2);
        centres_ = coded_rows(codes, offsets, scales, scales.shape(0), code_size);
        n_groups_ = static_cast<int64_t>(scales.shape(0)) / GROUP_ROWS;
        require(n_groups_ >= 1, "there are no centres");
        keep(codes, offsets, scales);
    }

    void add(Matrix<const float> factors, Vector<const int32_t> rows, std::optional<Vector<const uint8_t>> dead,
             int64_t base, Vector<const int64_t> ids, Vector<const int8_t> codes, Vector<const int16_t> offsets,
             Matrix<const double> block_terms) {
        Part part = {};
        part.items = items_of(factors, rows, dead, base);
        part.codes = codes_of(codes, offsets, block_terms, factors.shape(0), static_cast<size_t>(coding_.code_size));
        require(part.items.n_factors == n_factors_ && ids.shape(0) == factors.shape(0), "shapes differ");
        part.ids = ids.data();
        parts_.push_back(part);
        keep(factors, rows, ids, codes, offsets, block_terms);
        if (dead) keep(*dead);
    }

    // The tiles of the segment that was added last.
    void file(Vector<const int32_t> places, Vector<const int32_t> starts, Vector<const int8_t> codes,
              Vector<const int16_t> offsets, Vector<const float> scales, Vector<const float> radii) {
        require(parts_.size() == n_filed_ + 1 && n_groups_ > 0, "there is no segment or no centre");
        Part& part = parts_.back();
        part.filed = filed_of(places, starts, codes, offsets, scales, radii, static_cast<size_t>(centres_.code_size),
                              static_cast<size_t>(part.items.n_items));
        require(static_cast<int64_t>(radii.shape(0)) == n_groups_ * GROUP_ROWS, "shapes differ");
        part.largest_tile = largest_tile(starts);
        ++n_filed_;
        keep(places, starts, codes, offsets, scales, radii);
    }

    // Fills in the best of all live items, exactly if `reach` is negative, else by tiles; how many were scored. Returns
    // -1, having done nothing, for a query that is not finite, too long, or of another width.
    int64_t search(Vector<const float> query, double reach, Vector<int64_t> ids, Vector<float> scores) const {
        const size_t k = ids.shape(0);
        require(scores.shape(0) == k && k >= 1 && (reach < 0.0 || n_filed_ == parts_.size()), "shapes differ");
        if (static_cast<int64_t>(query.shape(0)) != n_factors_) return -1;
        if (kernels_.first_bad_row(query.data(), 1, n_factors_) == 0) return -1;
        double square = 0.0;
        for (int64_t j = 0; j < n_factors_; ++j)
            square += static_cast<double>(query.data()[j]) * static_cast<double>(query.data()[j]);
        const double norm = std::sqrt(square);
        if (!(norm * std::max(longest_, 1.0) <= 1e37)) return -1;
        nb::gil_scoped_release unlocked;
        static thread_local ServerScratch scratch;
        scratch.answers.resize(k);
        const int64_t no_excluded[2] = {0, 0};
        const Queries asked = {query.data(), nullptr, no_excluded, no_excluded, 1};
        int64_t count = 0;
        int64_t scored = 0;
        uint8_t open = 0;
        const BestArrays found = {scores.data(), scratch.answers.data(), &count, &scored,
                                  &open,         static_cast<int64_t>(k)};
        if (reach < 0.0)
            scan_exactly(asked, scratch, found);
        else
            scan_tiles(asked, reach, scratch, found);
        kernels_.sort_found(found, 1);
        for (int64_t i = 0; i < count; ++i) ids.data()[i] = id_of(scratch.answers[static_cast<size_t>(i)]);
        return count == static_cast<int64_t>(k) ? scored : -1;
    }

private:
    struct Part {
        Items items;
        Codes codes;
        FiledItems filed;
        size_t largest_tile;
        const int64_t* ids;
    };

    template <typename... Arrays>
    void keep(const Arrays&... arrays) {
        (kept_.push_back(nb::cast(arrays)), ...);
    }

    void scan_exactly(const Queries& asked, ServerScratch& scratch, const BestArrays& found) const {
        scratch.wide.resize(coding_scratch(n_factors_, coding_.code_size));
        scratch.codes.resize(static_cast<size_t>(coding_.code_size));
        QueryTerms terms;
        kernels_.code_queries(asked.factors, 1, n_factors_, coding_, scratch.wide.data(), scratch.codes.data(), &terms);
        for (const Part& part : parts_)
            kernels_.exact_scan(part.items, part.codes, asked, {scratch.codes.data(), &terms}, found);
    }

    void scan_tiles(const Queries& asked, double reach, ServerScratch& scratch, const BestArrays& found) const {
        scratch.codes.resize(static_cast<size_t>(centres_.code_size));
        scratch.nears.resize(static_cast<size_t>(n_groups_ * GROUP_ROWS));
        AskerTerms terms;
        kernels_.code_askers(asked.factors, 1, n_factors_, centres_.code_size, scratch.codes.data(), &terms);
        const Askers askers = {scratch.codes.data(), &terms};
        kernels_.rank_tiles(centres_, n_groups_, n_factors_, askers, 1, reach, scratch.nears.data());
        for (const Part& part : parts_)
            kernels_.tile_scan(part.items, part.filed, asked, askers, scratch.nears.data(), reach,
                               tile_scratch(part.largest_tile, static_cast<size_t>(found.k), 1), found);
    }

    int64_t id_of(int64_t answer) const {
        const int64_t place = answer & 0xffffffff;
        for (const Part& part : parts_)
            if (place < part.items.base + part.items.n_items) return part.ids[place - part.items.base];
        return -1;
    }

    const Kernels& kernels_;
    int64_t n_factors_;
    double longest_;
    Matrix<const double> head_;
    QueryCoding coding_ = {};
    CodedRows centres_ = {};
    int64_t n_groups_ = 0;
    std::vector<Part> parts_;
    size_t n_filed_ = 0;            // of the parts
    std::vector<nb::object> kept_;  // the arrays, so that they live as long
};

}  // namespace tessella
