// Items of a tile -> groups of neighbours. Included by kernels.cpp, once per level.

constexpr int SPLIT_ROUNDS = 4;

// Scratch memory for grouping the items of one tile.
struct Splitting {
    const float* factors;  // of all items
    int64_t n_factors;
    float* direction;  // (n_factors)
    double* sums;      // (n_factors, + 3)
    uint64_t* keys;    // (members)
    int32_t* others;   // (members)
};

// The unit vector from the mean of the last members to that of the first; returns false if the means are equal.
bool point_between(const Splitting& space, const int32_t* members, int64_t n_first, int64_t n) {
    const int64_t size = (space.n_factors + 3) / 4 * 4;
    for (int64_t j = 0; j < size; ++j) space.sums[j] = 0.0;
    const auto add = [&](int64_t from, int64_t to, double share) {
        for (int64_t i = from; i < to; ++i) {
            const float* factor = space.factors + members[i] * space.n_factors;
            for (int64_t j = 0; j < space.n_factors; ++j) space.sums[j] += static_cast<double>(factor[j]) * share;
        }
    };
    add(0, n_first, 1.0 / static_cast<double>(n_first));
    add(n_first, n, -1.0 / static_cast<double>(n - n_first));
    const double norm = __builtin_sqrt(sum_of_squares(space.sums, size));
    if (!(norm > 0.0)) return false;
    for (int64_t j = 0; j < space.n_factors; ++j) space.direction[j] = static_cast<float>(space.sums[j] / norm);
    return true;
}

// Splits members in half, by whole groups: first those that lie farthest along the line between the means of the
// halves. Repeats this with the new halves, then splits each half recursively.
void split(const Splitting& space, int32_t* members, int64_t n) {
    const int64_t n_groups = (n + GROUP_ITEMS - 1) / GROUP_ITEMS;
    if (n_groups < 2) return;
    const int64_t n_first = n_groups / 2 * GROUP_ITEMS;
    for (int round = 0; round < SPLIT_ROUNDS && point_between(space, members, n_first, n); ++round) {
        for (int64_t i = 0; i < n; ++i) {
            const float along =
                score_of(space.direction, space.factors + members[i] * space.n_factors, space.n_factors);
            space.keys[i] = packed(rising_bits(along + 0.0f), static_cast<uint32_t>(n - i));
        }
        const uint64_t least = find_largest(space.keys, n, n_first, uint64_t{0}, ~uint64_t{0});
        int64_t first = 0;
        int64_t last = n_first;
        for (int64_t i = 0; i < n; ++i) space.others[space.keys[i] >= least ? first++ : last++] = members[i];
        __builtin_memcpy(members, space.others, static_cast<size_t>(n) * sizeof *members);
    }
    split(space, members, n_first);
    split(space, members + n_first, n - n_first);
}

void group_neighbours(const float* factors, int64_t n_factors, const int64_t* starts, int64_t n_tiles, float* direction,
                      double* sums, uint64_t* keys, int32_t* others, int32_t* members) {
    const Splitting space = {factors, n_factors, direction, sums, keys, others};
    for (int64_t tile = 0; tile < n_tiles; ++tile)
        split(space, members + starts[tile], starts[tile + 1] - starts[tile]);
}
