// Answers queries in one call: an index's arrays, checked once and kept, and the kernels over them.
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

// Kept by each thread, so that a call need not ask for memory.
struct ServerScratch {
    std::vector<double> wide;
    std::vector<uint8_t> codes;
    std::vector<QueryTerms> query_terms;
    std::vector<AskerTerms> asker_terms;
    std::vector<float> nears;
    std::vector<int64_t> counts;
    std::vector<uint8_t> open;
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

    // Fills in the best of the live items that may be answers to each query, exactly if `reach` is negative, else by
    // tiles, and how many were scored; where there are fewer than k, id -1 and score minus infinity. Returns false,
    // having done nothing of use, if a query is not finite, too long or of another width.
    bool search(Matrix<const float> queries, double reach, std::optional<Vector<const uint8_t>> allowed,
                Vector<const int64_t> excluded, Vector<const int64_t> excluded_starts, Matrix<int64_t> ids,
                Matrix<float> scores, Vector<int64_t> scored) const {
        const size_t q = queries.shape(0);
        require(ids.shape(0) == q && scores.shape(0) == q && scores.shape(1) == ids.shape(1) && scored.shape(0) == q &&
                    excluded_starts.shape(0) == q + 1,
                "shapes differ");
        require_starts(excluded_starts, excluded.shape(0));
        if (columns_of(queries) != n_factors_) return false;
        const Queries asked = {queries.data(), allowed ? allowed->data() : nullptr, excluded.data(),
                               excluded_starts.data(), static_cast<int64_t>(q)};
        return answer(asked, reach, ids.data(), scores.data(), scored.data(), ids.shape(1));
    }

    // The same of one query, all live items for answers; how many were scored, or -1.
    int64_t search_one(Vector<const float> query, double reach, Vector<int64_t> ids, Vector<float> scores) const {
        require(ids.shape(0) == scores.shape(0), "shapes differ");
        if (static_cast<int64_t>(query.shape(0)) != n_factors_) return -1;
        const int64_t nothing[2] = {0, 0};
        int64_t scored = 0;
        const Queries asked = {query.data(), nullptr, nothing, nothing, 1};
        return answer(asked, reach, ids.data(), scores.data(), &scored, ids.shape(0)) ? scored : -1;
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

    bool answer(const Queries& asked, double reach, int64_t* ids, float* scores, int64_t* scored, size_t k) const {
        require(k >= 1 && (reach < 0.0 || n_filed_ == parts_.size()), "shapes differ");
        nb::gil_scoped_release unlocked;
        if (!may_ask(asked)) return false;
        static thread_local ServerScratch scratch;
        const size_t q = static_cast<size_t>(asked.n_queries);
        scratch.counts.assign(q, 0);
        scratch.open.resize(q);
        const BestArrays found = {
            scores, ids, scratch.counts.data(), scored, scratch.open.data(), static_cast<int64_t>(k)};
        std::fill_n(scored, q, 0);
        if (reach < 0.0)
            scan_exactly(asked, scratch, found);
        else
            scan_tiles(asked, reach, scratch, found);
        kernels_.sort_found(found, asked.n_queries);
        for (size_t query = 0; query < q; ++query) {
            const size_t first = query * k;
            const size_t end = first + static_cast<size_t>(scratch.counts[query]);
            for (size_t i = first; i < end; ++i) ids[i] = id_of(ids[i]);
            std::fill(ids + end, ids + first + k, -1);
            std::fill(scores + end, scores + first + k, -INFINITY);
        }
        return true;
    }

    // Whether products with all items stay well within floats; a NaN or an infinity in a query fails this, too.
    bool may_ask(const Queries& asked) const {
        for (int64_t query = 0; query < asked.n_queries; ++query) {
            const float* factor = asked.factors + query * n_factors_;
            double square = 0.0;
            for (int64_t j = 0; j < n_factors_; ++j)
                square += static_cast<double>(factor[j]) * static_cast<double>(factor[j]);
            if (!(std::sqrt(square) * std::max(longest_, 1.0) <= 1e37)) return false;
        }
        return true;
    }

    void scan_exactly(const Queries& asked, ServerScratch& scratch, const BestArrays& found) const {
        const size_t q = static_cast<size_t>(asked.n_queries);
        scratch.wide.resize(coding_scratch(n_factors_, coding_.code_size));
        scratch.codes.resize(q * static_cast<size_t>(coding_.code_size));
        scratch.query_terms.resize(q);
        kernels_.code_queries(asked.factors, asked.n_queries, n_factors_, coding_, scratch.wide.data(),
                              scratch.codes.data(), scratch.query_terms.data());
        for (const Part& part : parts_)
            kernels_.exact_scan(part.items, part.codes, asked, {scratch.codes.data(), scratch.query_terms.data()},
                                found);
    }

    void scan_tiles(const Queries& asked, double reach, ServerScratch& scratch, const BestArrays& found) const {
        const size_t q = static_cast<size_t>(asked.n_queries);
        scratch.codes.resize(q * static_cast<size_t>(centres_.code_size));
        scratch.nears.resize(q * static_cast<size_t>(n_groups_ * GROUP_ROWS));
        scratch.asker_terms.resize(q);
        kernels_.code_askers(asked.factors, asked.n_queries, n_factors_, centres_.code_size, scratch.codes.data(),
                             scratch.asker_terms.data());
        const Askers askers = {scratch.codes.data(), scratch.asker_terms.data()};
        kernels_.rank_tiles(centres_, n_groups_, n_factors_, askers, asked.n_queries, reach, scratch.nears.data());
        for (const Part& part : parts_)
            kernels_.tile_scan(part.items, part.filed, asked, askers, scratch.nears.data(), reach,
                               tile_scratch(part.largest_tile, static_cast<size_t>(found.k), q), found);
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
