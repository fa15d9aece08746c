// The arrays that Python hands over, checked and seen as kernels want them.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels.hpp"

namespace nb = nanobind;

namespace tessella {
namespace {

template <typename Item>
using Matrix = nb::ndarray<nb::numpy, Item, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <typename Item>
using Vector = nb::ndarray<nb::numpy, Item, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// The levels this processor can run, plainest first.
const std::vector<const Kernels*>& available() {
    static const std::vector<const Kernels*> levels = [] {
        std::vector<const Kernels*> found = {&baseline_kernels()};
#if defined(TESSELLA_HAS_AVX2)
        __builtin_cpu_init();
        if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) found.push_back(&avx2_kernels());
#endif
        return found;
    }();
    return levels;
}

const Kernels& kernels_at(int64_t level) {
    if (level < 0 || level >= static_cast<int64_t>(available().size()))
        throw nb::value_error("there is no such SIMD level on this machine");
    return *available()[static_cast<size_t>(level)];
}

void require(bool holds, const char* sentence) {
    if (!holds) throw nb::value_error(sentence);
}

size_t blocks_of(size_t n_items) {
    return (n_items + BLOCK_ITEMS - 1) / BLOCK_ITEMS;
}

void require_starts(const Vector<const int64_t>& starts, size_t end) {
    int64_t before = 0;
    for (size_t i = 0; i < starts.shape(0); ++i) {
        require(before <= starts.data()[i] && starts.data()[i] <= static_cast<int64_t>(end), "starts leave the arrays");
        before = starts.data()[i];
    }
}

template <typename Counts>
void require_counts(const Counts& counts, size_t most) {
    for (size_t i = 0; i < counts.shape(0); ++i)
        require(counts.data()[i] >= 0 && counts.data()[i] <= static_cast<int64_t>(most), "counts leave the arrays");
}

int64_t rows_of(const Matrix<const float>& factors) {
    return static_cast<int64_t>(factors.shape(0));
}
int64_t columns_of(const Matrix<const float>& factors) {
    return static_cast<int64_t>(factors.shape(1));
}

template <typename Other>
void require_same_shape(const Matrix<const float>& factors, const Other& other) {
    require(factors.shape(0) == other.shape(0) && factors.shape(1) == other.shape(1), "shapes differ");
}

void require_width(const Matrix<const float>& factors) {
    require(columns_of(factors) >= 1 && columns_of(factors) <= 4096, "rows have 1 to 4096 coordinates");
}

Items items_of(const Matrix<const float>& factors, const Vector<const int32_t>& rows,
               const std::optional<Vector<const uint8_t>>& dead, int64_t base) {
    const size_t n = factors.shape(0);
    require_width(factors);
    require(rows.shape(0) == n && (!dead || dead->shape(0) >= (n + 7) / 8), "shapes differ");
    require(base >= 0 && base + static_cast<int64_t>(n) <= INT32_MAX, "places leave 31 bits");
    return {factors.data(),          rows.data(),         dead ? dead->data() : nullptr,
            static_cast<int64_t>(n), columns_of(factors), base};
}

Queries queries_of(const Matrix<const float>& queries, const Items& items,
                   const std::optional<Vector<const uint8_t>>& allowed, const Vector<const int64_t>& excluded,
                   const Vector<const int64_t>& starts) {
    require(columns_of(queries) == items.n_factors && starts.shape(0) == queries.shape(0) + 1, "shapes differ");
    require_starts(starts, excluded.shape(0));
    return {queries.data(), allowed ? allowed->data() : nullptr, excluded.data(), starts.data(), rows_of(queries)};
}

BestArrays best_arrays(const Matrix<float>& scores, const Matrix<int64_t>& answers, const Vector<int64_t>& counts,
                       const Vector<int64_t>& scored, int64_t n_queries, uint8_t* open) {
    const size_t q = static_cast<size_t>(n_queries);
    require(scores.shape(0) == q && answers.shape(0) == q && answers.shape(1) == scores.shape(1) &&
                counts.shape(0) == q && scored.shape(0) == q && scores.shape(1) >= 1,
            "shapes differ");
    require_counts(counts, scores.shape(1));
    return {scores.data(), answers.data(), counts.data(), scored.data(), open, static_cast<int64_t>(scores.shape(1))};
}

Codes codes_of(const Vector<const int8_t>& codes, const Vector<const int16_t>& offsets,
               const Matrix<const double>& block_terms, size_t n_items, size_t code_size) {
    const size_t n_blocks = blocks_of(n_items);
    require(code_size % 2 == 0 && codes.shape(0) == n_blocks * code_size * BLOCK_ITEMS &&
                offsets.shape(0) == n_blocks * BLOCK_ITEMS && block_terms.shape(0) == n_blocks &&
                block_terms.shape(1) == 4,
            "shapes differ");
    return {codes.data(), offsets.data(), reinterpret_cast<const BlockTerms*>(block_terms.data()),
            static_cast<int64_t>(code_size)};
}

size_t coding_scratch(int64_t n_factors, int64_t code_size) {
    return static_cast<size_t>(4 * (n_factors + code_size + 3));
}

size_t groups_of(size_t n_rows) {
    return (n_rows + GROUP_ROWS - 1) / GROUP_ROWS;
}

// Rows of which there are at most `n_rows`, and a whole number of groups.
CodedRows coded_rows(const Vector<const int8_t>& codes, const Vector<const int16_t>& offsets,
                     const Vector<const float>& scales, size_t n_rows, size_t code_size) {
    const size_t padded = groups_of(n_rows) * GROUP_ROWS;
    require(code_size % 2 == 0 && code_size >= 2 && codes.shape(0) == padded * code_size &&
                offsets.shape(0) == padded && scales.shape(0) == padded,
            "shapes differ");
    return {codes.data(), offsets.data(), scales.data(), static_cast<int64_t>(code_size)};
}

Askers askers_of(const Matrix<const uint8_t>& codes, const Matrix<const float>& terms) {
    require(codes.shape(0) == terms.shape(0) && terms.shape(1) == 2, "shapes differ");
    return {codes.data(), reinterpret_cast<const AskerTerms*>(terms.data())};
}

size_t largest_tile(const Vector<const int32_t>& starts) {
    int32_t largest = 0;
    for (size_t i = 1; i < starts.shape(0); ++i) largest = std::max(largest, starts.data()[i] - starts.data()[i - 1]);
    return static_cast<size_t>(largest);
}

FiledItems filed_of(const Vector<const int32_t>& places, const Vector<const int32_t>& starts,
                    const Vector<const int8_t>& codes, const Vector<const int16_t>& offsets,
                    const Vector<const float>& scales, const Vector<const float>& radii, size_t code_size,
                    size_t n_items) {
    require(starts.shape(0) >= 3, "there is at least one tile around a centre");
    const size_t n_tiles = starts.shape(0) - 2;
    require(radii.shape(0) == groups_of(n_tiles) * GROUP_ROWS, "shapes differ");
    int32_t before = 0;
    for (size_t i = 0; i < starts.shape(0); ++i) {
        require(before <= starts.data()[i], "starts leave the arrays");
        before = starts.data()[i];
    }
    require(starts.data()[0] == 0 && static_cast<size_t>(before) == places.shape(0), "starts leave the arrays");
    return {places.data(),
            starts.data(),
            coded_rows(codes, offsets, scales, places.shape(0), code_size),
            radii.data(),
            static_cast<int64_t>(n_tiles),
            places.shape(0) > n_items};
}

// What tile_scan works in, kept by each thread. The largest tile decides how much.
TileScratch tile_scratch(size_t largest, size_t k, size_t n_queries) {
    thread_local std::vector<float> bounds;
    thread_local std::vector<float> classes;
    thread_local std::vector<uint64_t> keys;
    thread_local std::vector<float> slacks;
    thread_local std::vector<float> lengths;
    thread_local std::vector<float> floors;
    thread_local std::vector<int32_t> coming;
    thread_local std::vector<uint32_t> wanted;
    thread_local std::vector<int32_t> marked_rows;
    thread_local std::vector<float> marked_bounds;
    const size_t n_classes = (2 * std::min(k, largest) + 31) / 32 * 32;
    bounds.resize((largest + 2 * GROUP_ROWS + 63) / 64 * 64);
    classes.resize(n_classes);
    keys.resize(n_classes);
    slacks.resize(n_queries);
    lengths.resize(n_queries);
    floors.resize(n_queries);
    coming.resize(n_queries);
    wanted.resize(n_queries);
    marked_rows.resize(2 * largest);
    marked_bounds.resize(2 * largest);
    return {bounds.data(),
            classes.data(),
            keys.data(),
            slacks.data(),
            lengths.data(),
            floors.data(),
            coming.data(),
            wanted.data(),
            marked_rows.data(),
            marked_bounds.data(),
            static_cast<int64_t>(n_classes),
            static_cast<int64_t>(largest)};
}

}  // namespace
}  // namespace tessella
