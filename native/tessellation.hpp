// Factors -> ternary tiles (P4) and rounded D-ary tiles (P6). Included by kernels.cpp, once per level.
//
// Exact searches, here and in dary.hpp, try vectors of growing length. The ratio dot^2 / squared_norm is |z|^2 times
// the squared cosine between factor and tile. The largest ratio wins; ties go to the shorter vector.

void add_level(const float* z, int64_t n_factors, float cut, int8_t* tile) {
    for (int64_t j = 0; j < n_factors; ++j)
        tile[j] = static_cast<int8_t>(tile[j] + static_cast<int>(z[j] >= cut) - static_cast<int>(z[j] <= -cut));
}

// Of the magnitudes equal to the cut, later coordinates are dropped first.
void keep_at_most(const float* z, int64_t n_factors, float cut, int64_t most, int8_t* tile) {
    int64_t kept = 0;
    for (int64_t j = 0; j < n_factors; ++j) kept += tile[j] != 0;
    for (int64_t j = n_factors - 1; j >= 0 && kept > most; --j)
        if (__builtin_fabsf(z[j]) == cut) {
            tile[j] = 0;
            --kept;
        }
}

// For half the lanes, the smallest magnitude of the best prefix of the sorted wires; infinity for an all-zero vector.
void best_cuts(const float* wires, int64_t max_nonzeros, float* cuts) {
    HalfDoubles dot = {};
    HalfDoubles best = {};
    HalfDoubles cut = __builtin_inf() - HalfDoubles{};
    for (int64_t i = 0; i < max_nonzeros; ++i) {
        const HalfDoubles magnitude =
            __builtin_convertvector(*reinterpret_cast<const HalfFloats*>(wires + i * LANES), HalfDoubles);
        dot += magnitude;
        const HalfDoubles ratio = dot * dot / static_cast<double>(i + 1);
        cut = ratio > best ? magnitude : cut;
        best = ratio > best ? ratio : best;
    }
    *reinterpret_cast<HalfFloats*>(cuts) = __builtin_convertvector(cut, HalfFloats);
}

// Algorithm 2 (Lemma 1). Of a run of equal magnitudes, all or none are taken: within the run the ratio is convex in the
// number taken, so its maximum is at an end. Hence the tile is a cut on magnitudes; only max_nonzeros can split a run.
void ternary_tiles(const float* factors, int64_t n, int64_t n_factors, int64_t max_nonzeros, const Workspace& space,
                   int8_t* tiles) {
    for (int64_t first = 0; first < n; first += LANES) {
        const int64_t here = n - first < LANES ? n - first : LANES;
        load_magnitudes(factors + first * n_factors, here, n_factors, space.lanes);
        sort_lanes(space.lanes, n_factors);
        alignas(2 * LANES) float cuts[LANES];
        for (int64_t l = 0; l < LANES; l += LANES / 2) best_cuts(space.lanes + l, max_nonzeros, cuts + l);
        for (int64_t l = 0; l < here; ++l) {
            const float* z = factors + (first + l) * n_factors;
            int8_t* tile = tiles + (first + l) * n_factors;
            for (int64_t j = 0; j < n_factors; ++j) tile[j] = 0;
            add_level(z, n_factors, cuts[l], tile);
            if (max_nonzeros < n_factors) keep_at_most(z, n_factors, cuts[l], max_nonzeros, tile);
        }
    }
}

// Algorithm 4 on the unit factor: the nearest multiple of 1 / levels, the upper one on a tie. If every coordinate
// rounds to zero, which is not a tile, the first largest coordinate becomes +-1.
void rounded_dary_tiles(const float* factors, int64_t n, int64_t n_factors, int32_t levels, int8_t* tiles) {
    for (int64_t vector = 0; vector < n; ++vector) {
        const float* z = factors + vector * n_factors;
        int8_t* tile = tiles + vector * n_factors;
        const double norm = __builtin_sqrt(sum_of_squares(z, n_factors));
        int32_t any = 0;
        for (int64_t j = 0; j < n_factors; ++j) {
            const double scaled = norm > 0.0 ? static_cast<double>(levels) * static_cast<double>(z[j]) / norm : 0.0;
            const double toward_zero = static_cast<double>(static_cast<int32_t>(scaled));
            const double below = toward_zero > scaled ? toward_zero - 1.0 : toward_zero;
            const double above = below < scaled ? below + 1.0 : below;
            const int32_t nearest = static_cast<int32_t>(above - scaled <= scaled - below ? above : below);
            tile[j] = static_cast<int8_t>(nearest);
            any |= nearest;
        }
        if (any != 0) continue;
        int64_t largest = 0;
        for (int64_t j = 1; j < n_factors; ++j)
            if (__builtin_fabsf(z[j]) > __builtin_fabsf(z[largest])) largest = j;
        tile[largest] = static_cast<int8_t>((z[largest] > 0.0f) - (z[largest] < 0.0f));
    }
}
