// Lookups: the positions of a segment's items by their ids and by their rows.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tessella {

struct IdTable {
    const int64_t* ids;      // (n_items)
    const int32_t* by_id;    // (n_items) the order that sorts them
    const uint8_t* removed;  // a bit for each position, or null
    int64_t n_items;
};

// The position of an id, or -1 if it is not there or its item was removed.
static inline int64_t position_of_id(const IdTable& table, int64_t id) {
    int64_t low = 0;
    for (int64_t n = table.n_items; n > 0;) {  // of equals, the first
        const int64_t half = n / 2;
        const bool below = table.ids[table.by_id[low + half]] < id;
        low += below ? half + 1 : 0;
        n = below ? n - half - 1 : half;
    }
    if (low == table.n_items) return -1;
    const int64_t position = table.by_id[low];
    if (table.ids[position] != id) return -1;
    return table.removed && (table.removed[position / 8] >> (position % 8) & 1) ? -1 : position;
}

struct RowTable {
    const int32_t* rows;    // (n_items)
    const int32_t* by_row;  // (n_items) the order that sorts them
    int64_t n_items;

    int64_t row_at(int64_t i) const { return rows[by_row[i]]; }
    int64_t last() const { return row_at(n_items - 1); }
};

// The position of a row, or -1 if it is not there. Rows seldom have gaps, so there is little to look through.
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
