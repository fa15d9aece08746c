// Views of the arrays that Python passes, after checks. An error names the array.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "engine.hpp"
#include "levels.hpp"

namespace nb = nanobind;

namespace tessella {
namespace {

template <typename Item>
using Matrix = nb::ndarray<nb::numpy, Item, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <typename Item>
using Vector = nb::ndarray<nb::numpy, Item, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <typename Item>
using Array = nb::ndarray<nb::numpy, Item, nb::c_contig, nb::device::cpu>;  // of any number of dimensions

[[noreturn]] void refuse(const std::string& sentence) {
    throw nb::value_error(sentence.c_str());
}

void require(bool holds, const char* sentence) {
    if (!holds) refuse(sentence);
}

template <typename Any>
void require_size(const Any& array, const char* name, size_t size) {
    if (array.size() != size)
        refuse(std::string(name) + " has " + std::to_string(array.size()) + " entries, but " + std::to_string(size) +
               " are expected");
}

template <typename Any>
void require_shape(const Any& matrix, const char* name, size_t n, size_t width) {
    if (matrix.shape(0) != n || matrix.shape(1) != width)
        refuse(std::string(name) + " has shape (" + std::to_string(matrix.shape(0)) + ", " +
               std::to_string(matrix.shape(1)) + "), but (" + std::to_string(n) + ", " + std::to_string(width) +
               ") is expected");
}

// Requires pointers into an array of `end` entries: ascending and, with `all`, from 0 to `end`.
template <typename Pointer>
void require_starts(const Vector<Pointer>& starts, const char* name, size_t n, size_t end, bool all) {
    require_size(starts, name, n + 1);
    int64_t before = 0;
    for (size_t i = 0; i <= n; ++i) {
        const int64_t start = starts.data()[i];
        if (start < before || start > static_cast<int64_t>(end))
            refuse(std::string(name) + " points outside its array");
        before = start;
    }
    if (all && (starts.data()[0] != 0 || before != static_cast<int64_t>(end)))
        refuse(std::string(name) + " does not cover its array");
}

const Kernels& kernels_at(int64_t level) {
    require(level >= 0 && level < static_cast<int64_t>(available_levels().size()),
            "there is no such SIMD level on this machine");
    return *available_levels()[static_cast<size_t>(level)];
}

int64_t n_rows_of(const Matrix<const float>& factors) {
    return static_cast<int64_t>(factors.shape(0));
}
int64_t width_of(const Matrix<const float>& factors) {
    return static_cast<int64_t>(factors.shape(1));
}
void require_width(const Matrix<const float>& factors, const char* name) {
    if (width_of(factors) < 1 || width_of(factors) > MAX_FACTORS)
        refuse(std::string(name) + " must have from 1 to 4096 columns");
}

size_t in_groups(size_t n, int64_t size) {
    const size_t whole = static_cast<size_t>(size);
    return (n + whole - 1) / whole;
}

// The arrays of a Python object by name, kept alive as long as the core reads them.
class Fields {
public:
    Fields(nb::handle object, std::vector<nb::object>& kept) : object_(object), kept_(kept) {}

    nb::object operator[](const char* field) const { return object_.attr(field); }
    bool has(const char* field) const { return !object_.attr(field).is_none(); }
    // The name of a field in error messages.
    std::string name(const char* field) const {
        return nb::cast<std::string>(object_.type().attr("__name__")) + "." + field;
    }

    // Gets an array; returns false if the field is not an array of the right type.
    template <typename Any>
    bool find(const char* field, Any& array) const {
        nb::object value = object_.attr(field);
        if (!nb::try_cast(value, array, false)) return false;
        kept_.push_back(std::move(value));
        return true;
    }

    template <typename Any>
    Any get(const char* field) const {
        Any array;
        if (!find(field, array)) refuse(name(field) + " is not an array of the right type, dimensions and order");
        return array;
    }

    template <typename Any>
    Any get(const char* field, size_t size) const {
        const Any array = get<Any>(field);
        if (array.size() != size) require_size(array, name(field).c_str(), size);
        return array;
    }

private:
    nb::handle object_;
    std::vector<nb::object>& kept_;
};

ExactCodes exact_codes_of(const Fields& fields, size_t n_items, int64_t code_size) {
    const size_t n_blocks = in_groups(n_items, BLOCK_ITEMS);
    const auto terms = fields.get<Matrix<const double>>("block_terms");
    if (terms.shape(0) != n_blocks || terms.shape(1) != 5)
        require_shape(terms, fields.name("block_terms").c_str(), n_blocks, 5);
    return {fields.get<Vector<const int8_t>>("codes", n_blocks * BLOCK_ITEMS * static_cast<size_t>(code_size)).data(),
            fields.get<Vector<const int16_t>>("offsets", n_blocks * BLOCK_ITEMS).data(),
            reinterpret_cast<const BlockTerms*>(terms.data()), code_size};
}

TileCodes tile_codes_of(const Fields& fields, size_t n, int64_t width) {
    const size_t padded = in_groups(n, GROUP_ITEMS) * GROUP_ITEMS;
    const int64_t code_size = tile_code_size(width);
    return {fields.get<Vector<const int8_t>>("codes", padded * static_cast<size_t>(code_size)).data(),
            fields.get<Vector<const int16_t>>("offsets", padded).data(),
            fields.get<Vector<const float>>("scales", padded).data(), code_size};
}

Postings postings_of(const Fields& fields, size_t n_items) {
    const auto positions = fields.get<Vector<const uint16_t>>("positions");
    const auto slots = fields.get<Vector<const int64_t>>("slots");
    const auto starts = fields.get<Vector<const int64_t>>("starts", slots.size() + 1);
    const auto block_lists = fields.get<Vector<const int64_t>>("block_lists");
    const size_t n_blocks = in_groups(n_items, POSTING_BLOCK);
    require_starts(block_lists, fields.name("block_lists").c_str(), n_blocks, slots.size(), true);
    if (starts.data()[0] != 0 || starts.data()[slots.size()] != static_cast<int64_t>(positions.size()))
        refuse(fields.name("starts") + " does not cover its array");
    return {positions.data(),
            fields.get<Vector<const int8_t>>("impacts", positions.size()).data(),
            slots.data(),
            starts.data(),
            fields.get<Vector<const float>>("scales", slots.size()).data(),
            block_lists.data(),
            static_cast<int64_t>(n_blocks)};
}

// `radii` are the largest of all segments, so that a query visits a tile in all segments or in none.
TiledItems tiled_items_of(const Fields& fields, std::vector<nb::object>& kept, const Vector<const float>& radii,
                          int64_t n_groups, size_t n_items, int64_t width) {
    const auto members = fields.get<Vector<const int32_t>>("members");
    const auto starts = fields.get<Vector<const int32_t>>("starts");
    if (starts.size() < 3) refuse(fields.name("starts") + " has no tile around a centre");
    const size_t n_tiles = starts.size() - 2;
    const size_t whole = static_cast<size_t>(GROUP_ITEMS);
    if (members.size() % whole) refuse(fields.name("members") + " are not in whole groups");
    require_starts(starts, fields.name("starts").c_str(), n_tiles + 1, members.size() / whole, true);
    if (in_groups(n_tiles, GROUP_ITEMS) != static_cast<size_t>(n_groups))
        refuse(fields.name("starts") + " has a different number of tiles than there are centres");
    require_size(radii, "radii", static_cast<size_t>(n_groups * GROUP_ITEMS));
    const auto centre_starts = fields.get<Vector<const int32_t>>("centre_starts", starts.size());
    const auto group_radii = fields.get<Vector<const float>>("group_radii");
    require_starts(centre_starts, fields.name("centre_starts").c_str(), n_tiles + 1, group_radii.size() / whole, true);
    int32_t largest = 0;
    for (size_t i = 1; i < starts.size(); ++i) {
        const int32_t n = starts.data()[i] - starts.data()[i - 1];
        largest = std::max(largest, n);
        if (in_groups(static_cast<size_t>(n), GROUP_ITEMS) !=
            static_cast<size_t>(centre_starts.data()[i] - centre_starts.data()[i - 1]))
            refuse(fields.name("centre_starts") + " does not match the tiles");
    }
    return {members.data(),
            starts.data(),
            fields.get<Vector<const uint8_t>>("rooms", n_tiles + 1).data(),
            tile_codes_of(Fields(fields["coded"], kept), members.size(), width),
            tile_codes_of(Fields(fields["groups"], kept), group_radii.size(), width),
            centre_starts.data(),
            group_radii.data(),
            radii.data(),
            static_cast<int64_t>(n_tiles),
            largest,
            nb::cast<int64_t>(fields["n_members"]) > static_cast<int64_t>(n_items)};
}

}  // namespace
}  // namespace tessella
