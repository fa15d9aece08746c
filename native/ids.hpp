// Ids: the places of items by their ids. Included by kernels.cpp, once a level.

// Whether the item at a place was removed.
bool is_dead(const uint8_t* dead, int64_t place) {
    return dead && (dead[place / 8] >> (place % 8) & 1);
}

// The place of an id, or -1 if it is not there or its item is dead.
int64_t place_of(const IdTable& table, int64_t id) {
    int64_t low = 0;
    for (int64_t n = table.n_items; n > 0;) {  // of equals, the first
        const int64_t half = n / 2;
        const bool below = table.ids[table.by_id[low + half]] < id;
        low += below ? half + 1 : 0;
        n = below ? n - half - 1 : half;
    }
    if (low == table.n_items) return -1;
    const int64_t place = table.by_id[low];
    return table.ids[place] == id && !is_dead(table.dead, place) ? place : -1;
}

void find_ids(const IdTable& table, int64_t base, const int64_t* wanted, int64_t n_wanted, int64_t* places) {
    for (int64_t i = 0; i < n_wanted; ++i) {
        const int64_t place = place_of(table, wanted[i]);
        if (place >= 0) places[i] = base + place;
    }
}
