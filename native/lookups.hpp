// Lookups: find items by id and by row, and make lists of rows for filters.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "packing.hpp"

namespace tessella {

// A table of the positions of a segment's items by id. If ids lie close together, there is a slot for each number from
// the first id on. Otherwise it is a hash table with linear probing.
struct IdTable {
    const int64_t* ids;      // (n_items)
    const int32_t* rows;     // (n_items)
    const uint8_t* removed;  // a bit for each position, or null
    const int32_t* slots;    // (n_slots) a position, or -1
    int64_t n_slots;         // a power of two for a hash table
    int64_t first;           // the first id, otherwise
    bool scattered;          // whether it is a hash table
};

// The hash of an id; the number of slots is a power of two. Every bit counts, so ids in steps of any size spread out.
static inline int64_t home_of_id(int64_t id, int64_t n_slots) {
    uint64_t mixed = static_cast<uint64_t>(id);
    mixed = (mixed ^ mixed >> 33) * 0xFF51AFD7ED558CCDu;
    mixed = (mixed ^ mixed >> 33) * 0xC4CEB9FE1A85EC53u;
    return static_cast<int64_t>((mixed ^ mixed >> 33) & static_cast<uint64_t>(n_slots - 1));
}

// Fills a hash table; there must be fewer ids than slots.
static inline void scatter_ids(const int64_t* ids, int64_t n, int32_t* slots, int64_t n_slots) {
    std::fill_n(slots, n_slots, -1);
    for (int64_t i = 0; i < n; ++i) {
        int64_t at = home_of_id(ids[i], n_slots);
        while (slots[at] >= 0) at = (at + 1) & (n_slots - 1);
        slots[at] = static_cast<int32_t>(i);
    }
}

// The position of an id, or -1 if it is unknown or its item was removed.
static inline int64_t position_of_id(const IdTable& table, int64_t id) {
    int64_t position = -1;
    if (table.scattered) {
        int64_t at = home_of_id(id, table.n_slots);
        while ((position = table.slots[at]) >= 0 && table.ids[position] != id) at = (at + 1) & (table.n_slots - 1);
    } else {
        const uint64_t at = static_cast<uint64_t>(id) - static_cast<uint64_t>(table.first);
        if (at < static_cast<uint64_t>(table.n_slots)) position = table.slots[at];
    }
    if (position < 0) return -1;
    return table.removed && has_bit(table.removed, position) ? -1 : position;
}

// Lists one after another: list i is values[starts[i]] up to values[starts[i + 1]].
struct Lists {
    const int64_t* values;
    const int64_t* starts;  // (n_lists + 1)
};

// Turns the entries of lists into rows, ascending and unique in every list, without those of another list.
class RowLists {
public:
    // `row_of` returns the row of an entry, or -1 to skip it. `rows` has room for every entry, `row_starts` for the
    // starts of all lists. `without` is empty, or has a list of rows to leave out for each list.
    template <typename RowOf>
    void fill(const RowOf& row_of, const int64_t* starts, int64_t n_lists, const Lists& without, int64_t* rows,
              int64_t* row_starts) {
        int64_t* end = rows;
        row_starts[0] = 0;
        for (int64_t list = 0; list < n_lists; ++list) {
            int64_t* const begin = end;
            int64_t last = -1;
            bool ascends = true;
            for (int64_t i = starts[list]; i < starts[list + 1]; ++i) {
                const int64_t row = row_of(i);
                if (row < 0) continue;
                ascends &= row > last;
                last = std::max(last, row);
                *end++ = row;
            }
            if (!ascends) end = in_order(begin, end, last);
            if (without.values) end = less(begin, end, without, list);
            row_starts[list + 1] = end - rows;
        }
    }

private:
    static constexpr int64_t MANY = 256;
    static constexpr int64_t MOST_IN_BUCKETS = 4096;
    static constexpr int32_t FULL_BUCKET = 16;

    // Sorts rows and removes duplicates. Many rows that lie close together are sorted with a bit set.
    int64_t* in_order(int64_t* begin, int64_t* end, int64_t last) {
        const int64_t n = end - begin;
        const int64_t n_words = last / 64 + 1;
        if (n < MANY || n_words > 4 * n) {
            if (n > MOST_IN_BUCKETS || !sort_in_buckets(begin, n, last)) std::sort(begin, end);
            return std::unique(begin, end);
        }
        marks_.assign(static_cast<size_t>(n_words), 0);
        for (int64_t i = 0; i < n; ++i) marks_[static_cast<size_t>(begin[i] / 64)] |= uint64_t{1} << begin[i] % 64;
        for (int64_t word = 0; word < n_words; ++word)
            for (uint64_t left = marks_[static_cast<size_t>(word)]; left; left &= left - 1)
                *begin++ = 64 * word + __builtin_ctzll(left);
        return begin;
    }

    // Bucket sort, with about as many buckets as rows, so that few rows remain to be sorted within each. Returns false,
    // without sorting, if too many rows fall into one bucket.
    bool sort_in_buckets(int64_t* rows, int64_t n, int64_t last) {
        int shift = 0;
        while (last >> shift >= n) ++shift;
        ends_.assign(static_cast<size_t>((last >> shift) + 2), 0);
        int32_t* const ends = ends_.data();
        for (int64_t i = 0; i < n; ++i)
            if (++ends[(rows[i] >> shift) + 1] > FULL_BUCKET) return false;
        for (size_t bucket = 1; bucket < ends_.size(); ++bucket) ends[bucket] += ends[bucket - 1];
        placed_.resize(static_cast<size_t>(n));
        for (int64_t i = 0; i < n; ++i) placed_[static_cast<size_t>(ends[rows[i] >> shift]++)] = rows[i];
        for (int64_t i = 0; i < n; ++i) {
            const int64_t row = placed_[static_cast<size_t>(i)];
            int64_t at = i;
            for (; at > 0 && rows[at - 1] > row; --at) rows[at] = rows[at - 1];
            rows[at] = row;
        }
        return true;
    }

    static int64_t* less(int64_t* begin, int64_t* end, const Lists& without, int64_t list) {
        const int64_t* other = without.values + without.starts[list];
        const int64_t* const others_end = without.values + without.starts[list + 1];
        int64_t* kept = begin;
        for (const int64_t* row = begin; row != end; ++row) {
            while (other != others_end && *other < *row) ++other;
            if (other == others_end || *other != *row) *kept++ = *row;
        }
        return kept;
    }

    std::vector<uint64_t> marks_;
    std::vector<int32_t> ends_;
    std::vector<int64_t> placed_;
};

struct RowTable {
    const int32_t* rows;    // (n_items)
    const int32_t* by_row;  // (n_items) the order that sorts them
    int64_t n_items;

    int64_t row_at(int64_t i) const { return rows[by_row[i]]; }
    int64_t last() const { return row_at(n_items - 1); }
};

// The position of a row, or -1 if it is not there. Rows seldom have gaps, so the range to search is small.
static inline int64_t position_of_row(const RowTable& table, int64_t row) {
    const int64_t first = table.row_at(0);
    if (row < first || row > table.last()) return -1;
    const int64_t gaps = table.last() - first + 1 - table.n_items;
    int64_t high = std::min(row - first, table.n_items - 1);
    int64_t low = std::max<int64_t>(0, row - first - gaps);
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (table.row_at(middle) < row)
            low = middle + 1;
        else
            high = middle;
    }
    return table.row_at(low) == row ? table.by_row[low] : -1;
}

}  // namespace tessella
