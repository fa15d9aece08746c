// Tile search (P14): queries -> tiles that may hold answers -> coded members -> scores. Included by kernels.cpp, once
// per level.

// Which of 64 bounds are at least `limit` and below `done`, as bits.
uint64_t from_to(const float* bounds, float limit, float done) {
    uint64_t found = 0;
#if defined(__AVX512F__)
    const __m512 low = _mm512_set1_ps(limit);
    const __m512 high = _mm512_set1_ps(done);
    for (int v = 0; v < 4; ++v) {
        const __m512 values = _mm512_loadu_ps(bounds + 16 * v);
        const __mmask16 reached = _mm512_cmp_ps_mask(values, low, _CMP_GE_OQ);
        found |= static_cast<uint64_t>(_mm512_mask_cmp_ps_mask(reached, values, high, _CMP_LT_OQ)) << (16 * v);
    }
#elif defined(__AVX2__)
    const __m256 low = _mm256_set1_ps(limit);
    const __m256 high = _mm256_set1_ps(done);
    for (int v = 0; v < 8; ++v) {
        const __m256 values = _mm256_loadu_ps(bounds + 8 * v);
        const __m256 inside =
            _mm256_and_ps(_mm256_cmp_ps(values, low, _CMP_GE_OQ), _mm256_cmp_ps(values, high, _CMP_LT_OQ));
        found |= static_cast<uint64_t>(static_cast<uint32_t>(_mm256_movemask_ps(inside))) << (8 * v);
    }
#else
    for (int i = 0; i < 64; ++i) found |= static_cast<uint64_t>(bounds[i] >= limit && bounds[i] < done) << i;
#endif
    return found;
}

// What the queries of a scan have in common.
struct TileScan {
    const Items& items;
    const TiledItems& tiled;
    const Queries& queries;
    const float* centre_bounds;
    const int64_t* n_bounded;  // groups of centres for each query; no tile beyond them is worth a visit
    const TileScratch& scratch;
    int64_t n_groups;  // of tiles around centres

    const float* centre_bounds_of(int64_t query) const { return centre_bounds + query * n_groups * GROUP_ITEMS; }
};

void make_probes(const TileQueries& coded, int64_t n_queries, int64_t n_factors, int64_t code_size, int64_t tail_column,
                 double reach, Probe* probes) {
    const float lost = static_cast<float>(n_factors) * static_cast<float>(UNDERFLOW_LOSS);
    for (int64_t query = 0; query < n_queries; ++query) {
        const TileQueryTerms& terms = coded.terms[query];
        const float per_radius = static_cast<float>(reach * static_cast<double>(terms.norm));
        probes[query] = {query,
                         coded.codes + query * code_size,
                         terms.scale,
                         slack_of(terms, n_factors, code_size, reach),
                         terms.norm,
                         per_radius,
                         per_radius / terms.scale,
                         lost,
                         finite(static_cast<float>(1.0 + reach) * terms.tail / terms.scale),
                         tail_column};
    }
}

// A centre's bound is capped by the product of norms. So from the first group where that product is too small, no
// centre has to be bounded.
void bound_centres(const Centres& centres, const Probe* probes, int64_t n_queries, const int64_t* n_bounded,
                   float* centre_bounds) {
    for (int64_t query = 0; query < n_queries; ++query) {
        const Probe& probe = probes[query];
        float* own = centre_bounds + query * centres.n_groups * GROUP_ITEMS;
        bounds_from(centres.coded, 0, n_bounded[query], probe.code, probe.slack, own);
        for (int64_t group = 0; group < n_bounded[query]; ++group) {
            const float most = finite(probe.norm * centres.norms[group]);
            for (int64_t i = group * GROUP_ITEMS; i < (group + 1) * GROUP_ITEMS; ++i) {
                const float bound = own[i] < LARGEST_BOUND ? finite(own[i] * probe.scale) : LARGEST_BOUND;
                const float capped = bound < most ? bound : most;
                own[i] = centres.coded.scales[i] > 0.0f ? capped : -__builtin_inff();  // there is no such tile
            }
        }
    }
}

// The bound, at this reach, of the best score in a tile around a centre.
float tile_bound_of(const TileScan& scan, const Probe& probe, int64_t tile) {
    return scan.centre_bounds_of(probe.query)[tile - 1] + probe.per_radius * scan.tiled.radii[tile - 1];
}

bool all_in_tile_0(const TiledItems& tiled) {
    return tiled.starts[1] == tiled.starts[tiled.n_tiles + 1];
}

// Whether the groups of a tile have bounds of their own; not those of the longest items, which every query reads.
bool has_bounded_groups(const TiledItems& tiled, int64_t tile) {
    const bool large = tiled.starts[tile + 1] - tiled.starts[tile] > FEW_GROUPS;
    return large && tiled.group_radii && (tile > 0 || all_in_tile_0(tiled));
}

// Bounds the groups of a tile.
void bound_groups(const TileScan& scan, const Probe& probe, int64_t tile) {
    const TiledItems& tiled = scan.tiled;
    const int64_t first = tiled.centre_starts[tile];
    const int64_t n = tiled.centre_starts[tile + 1] - first;
    bounds_from(tiled.groups, first, n, probe.code, probe.slack, scan.scratch.caps);
    const float* radii = tiled.group_radii + first * GROUP_ITEMS;
    for (int64_t i = 0; i < n * GROUP_ITEMS; ++i)
        scan.scratch.caps[i] = finite(scan.scratch.caps[i] + probe.steps_per_radius * radii[i]);
}

// Fills bounds with minus infinity where there is no item, up to a multiple of 64; returns the padded count.
int64_t pad_bounds(const TileScan& scan, int64_t tile, int64_t n) {
    const TileScratch& scratch = scan.scratch;
    int64_t end = n * GROUP_ITEMS;
    if (n > 0 && scratch.groups[n - 1] == scan.tiled.starts[tile + 1] - 1) end -= scan.tiled.rooms[tile];
    const int64_t padded = (n * GROUP_ITEMS + 63) / 64 * 64;
    for (int64_t i = end; i < padded; ++i) scratch.bounds[i] = -__builtin_inff();
    return padded;
}

// Reads all groups of a tile: lists them and bounds their items. Returns the number of items, padded to a multiple
// of 64.
int64_t read_all(const TileScan& scan, const Probe& probe, int64_t tile) {
    const int32_t first = scan.tiled.starts[tile];
    const int32_t n = scan.tiled.starts[tile + 1] - first;
    for (int32_t i = 0; i < n; ++i) scan.scratch.groups[i] = first + i;
    bounds_from(scan.tiled.coded, first, n, probe.code, probe.slack, scan.scratch.bounds);
    return pad_bounds(scan, tile, n);
}

// Reads those groups of a tile that have bounds from `limit` up to `below`.
int64_t read_between(const TileScan& scan, const Probe& probe, int64_t tile, float limit, float below) {
    const TileScratch& scratch = scan.scratch;
    const int32_t first = scan.tiled.starts[tile];
    const int32_t n_groups = scan.tiled.starts[tile + 1] - first;
    int64_t n = 0;
    for (int32_t i = 0; i < n_groups; ++i) {
        scratch.groups[n] = first + i;
        n += scratch.caps[i] >= limit && scratch.caps[i] < below;
    }
    coded_bounds(scan.tiled.coded, scratch.groups, n, probe.code, probe.slack, scratch.bounds);
    return pad_bounds(scan, tile, n);
}

// Reads those groups of a tile that may hold an item with a bound of at least `limit`.
int64_t read_tile(const TileScan& scan, const Probe& probe, int64_t tile, float limit) {
    if (!has_bounded_groups(scan.tiled, tile)) return read_all(scan, probe, tile);
    bound_groups(scan, probe, tile);
    return read_between(scan, probe, tile, limit, __builtin_inff());
}

// The bound of the group of an item that `read_tile` read.
float cap_read(const TileScan& scan, int64_t tile, int64_t at) {
    if (!has_bounded_groups(scan.tiled, tile)) return LARGEST_BOUND;
    return scan.scratch.caps[scan.scratch.groups[at / GROUP_ITEMS] - scan.tiled.starts[tile]];
}

// The number of a read item among the members, and its position.
int64_t member_read(const TileScan& scan, int64_t at) {
    return scan.scratch.groups[at / GROUP_ITEMS] * GROUP_ITEMS + at % GROUP_ITEMS;
}
int64_t position_read(const TileScan& scan, int64_t at) {
    return scan.tiled.members[member_read(scan, at)];
}

// A query that visits tiles, with its best answers so far.
struct Visitor {
    const Probe& probe;
    Heap heap;
    int64_t n_scored;

    // The least bound of a tile that is worth visiting. `lost` is subtracted only if it can matter, since subnormal
    // floats are slow.
    float worst() const {
        if (!heap.is_full()) return -LARGEST_BOUND;
        return __builtin_fabsf(heap.worst()) < LEAST_CODE_STEP ? heap.worst() - probe.lost : heap.worst();
    }
    // The least bound worth scoring, in steps of the query's scale.
    float limit() const { return heap.is_full() ? finite(worst() / probe.scale) : -LARGEST_BOUND; }
};

// Items of a tile that a query is about to score.
struct Marked {
    int64_t query;
    int64_t count;
    int32_t* positions;
    float* bounds;
    float* caps;       // bounds of their groups
    float tile_bound;  // not in steps
};

// Scores the items that were read and have bounds of at least `limit` and below `done`.
void score_between(const TileScan& scan, int64_t n, float limit, float done, Visitor& visitor) {
    const float* bounds = scan.scratch.bounds;
    for (int64_t from = 0; from < n; from += 64) {
        uint64_t found = from_to(bounds + from, limit, done);
        for (uint64_t left = found & (found - 1); left; left &= left - 1)
            prefetch(scan.items, position_read(scan, from + __builtin_ctzll(left)));
        for (; found; found &= found - 1) {
            const int64_t at = from + __builtin_ctzll(found);
            if (bounds[at] < limit) continue;  // the limit may have risen since
            if (offer(scan.items, scan.queries, visitor.probe.query, position_read(scan, at), scan.tiled.repeats,
                      visitor.heap, visitor.n_scored) &&
                visitor.heap.is_full()) {
                const float risen = visitor.limit();
                limit = risen > limit ? risen : limit;
            }
        }
    }
}

// While there are fewer than k answers, nothing can be skipped, so the items with the largest bounds are scored first.
// The limit is the n-th largest of the best bounds of classes of items, which at least n items reach.
float score_best_bounded(const TileScan& scan, int64_t n, Visitor& visitor) {
    const TileScratch& scratch = scan.scratch;
    for (int64_t c = 0; c < scratch.n_classes; ++c) scratch.classes[c] = -LARGEST_BOUND;
    for (int64_t from = 0; from < n; from += scratch.n_classes)
        for (int64_t c = 0; c < scratch.n_classes && from + c < n; ++c)
            scratch.classes[c] =
                scratch.bounds[from + c] > scratch.classes[c] ? scratch.bounds[from + c] : scratch.classes[c];
    int64_t count = 0;
    uint64_t high = 0;
    for (int64_t c = 0; c < scratch.n_classes; ++c) {
        if (scratch.classes[c] == -LARGEST_BOUND) continue;
        scratch.keys[count] = packed(rising_bits(scratch.classes[c]), static_cast<uint32_t>(c));
        high = scratch.keys[count] > high ? scratch.keys[count] : high;
        ++count;
    }
    float done = __builtin_inff();
    for (int64_t wanted = visitor.heap.k - visitor.heap.count;
         !visitor.heap.is_full() && wanted <= count && done > -LARGEST_BOUND; wanted *= 2) {
        const uint64_t key = find_largest(scratch.keys, count, wanted, uint64_t{0}, high);
        const float least = scratch.classes[lower_of(key)];
        score_between(scan, n, least, done, visitor);
        done = least;
    }
    return done;
}

// The least bound of the groups that are read first while there are fewer than k answers. They hold four times as many
// items as are missing.
float first_floor(const TileScan& scan, int64_t tile, const Visitor& visitor) {
    const int64_t n_groups = scan.tiled.starts[tile + 1] - scan.tiled.starts[tile];
    const int64_t wanted = (4 * (visitor.heap.k - visitor.heap.count) + GROUP_ITEMS - 1) / GROUP_ITEMS;
    if (wanted == 0 || wanted >= n_groups) return -LARGEST_BOUND;
    for (int64_t i = 0; i < n_groups; ++i)
        scan.scratch.keys[i] = packed(rising_bits(scan.scratch.caps[i]), static_cast<uint32_t>(i));
    return scan.scratch.caps[lower_of(find_largest(scan.scratch.keys, n_groups, wanted, uint64_t{0}, ~uint64_t{0}))];
}

// Scores the items that were read and may be among the best.
void score_read(const TileScan& scan, int64_t n, Visitor& visitor) {
    const float done = visitor.heap.is_full() ? __builtin_inff() : score_best_bounded(scan, n, visitor);
    score_between(scan, n, visitor.limit(), done, visitor);
}

void visit(const TileScan& scan, int64_t tile, Visitor& visitor) {
    if (!has_bounded_groups(scan.tiled, tile)) return score_read(scan, read_all(scan, visitor.probe, tile), visitor);
    bound_groups(scan, visitor.probe, tile);
    const float floor = first_floor(scan, tile, visitor);
    if (floor > -LARGEST_BOUND)
        score_read(scan, read_between(scan, visitor.probe, tile, floor, __builtin_inff()), visitor);
    const float below = floor > -LARGEST_BOUND ? floor : __builtin_inff();
    score_read(scan, read_between(scan, visitor.probe, tile, visitor.limit(), below), visitor);
}

// The bounds, at this reach, of the best scores in eight tiles.
EightFloats tile_bounds(const float* centre_bounds, const float* radii, float reach) {
    const EightFloats centres = *reinterpret_cast<const EightFloats*>(centre_bounds);
    const EightFloats bound = centres + reach * *reinterpret_cast<const EightFloats*>(radii);
    return bound < LARGEST_BOUND ? bound : EightFloats{} + LARGEST_BOUND;
}

// The largest bound below `floor`, or minus infinity.
float next_bound(const float* centre_bounds, const float* radii, int64_t n_padded, float reach, float floor) {
    const EightFloats none = EightFloats{} - __builtin_inff();
    EightFloats most = none;
    for (int64_t t = 0; t < n_padded; t += 8) {
        const EightFloats bound = tile_bounds(centre_bounds + t, radii + t, reach);
        const EightFloats open = bound < floor ? bound : none;
        most = open > most ? open : most;
    }
    float greatest = most[0];
    for (int i = 1; i < 8; ++i) greatest = most[i] > greatest ? most[i] : greatest;
    return greatest;
}

// Bit t for each of 16 tiles with a bound from `limit` up to `floor`.
uint32_t tiles_between(const float* centre_bounds, const float* radii, float reach, float limit, float floor) {
    uint32_t found = 0;
    for (int half = 0; half < 2; ++half) {
        const EightFloats bound = tile_bounds(centre_bounds + 8 * half, radii + 8 * half, reach);
#if defined(__AVX2__)
        const __m256 values = (__m256)bound;
        const __m256 inside = _mm256_and_ps(_mm256_cmp_ps(values, _mm256_set1_ps(limit), _CMP_GE_OQ),
                                            _mm256_cmp_ps(values, _mm256_set1_ps(floor), _CMP_LT_OQ));
        found |= static_cast<uint32_t>(_mm256_movemask_ps(inside)) << (8 * half);
#else
        for (int i = 0; i < 8; ++i)
            found |= static_cast<uint32_t>(bound[i] >= limit && bound[i] < floor) << (8 * half + i);
#endif
    }
    return found;
}

Visitor visitor_of(const TileScan& scan, const TopK& best, int64_t query) {
    return {scan.scratch.probes[query], heap_of(best, query), 0};
}

void leave(const TopK& best, const Visitor& visitor) {
    best.counts[visitor.probe.query] = visitor.heap.count;
    best.n_scored[visitor.probe.query] += visitor.n_scored;
}

// Calls `go` with the tiles that have the largest bound below `floor`, and returns that bound; or minus infinity if
// there is none, or if it is below `least`.
template <typename Go>
float go_to_best_bounded(const TileScan& scan, const Probe& probe, float least, float floor, const Go& go) {
    const float* centre_bounds = scan.centre_bounds_of(probe.query);
    const float* radii = scan.tiled.radii;
    const int64_t n = scan.n_bounded[probe.query] * GROUP_ITEMS;
    const float bound = next_bound(centre_bounds, radii, n, probe.per_radius, floor);
    if (bound < least) return -__builtin_inff();
    for (int64_t at = 0; at < n; at += GROUP_ITEMS)
        for (uint32_t same = tiles_between(centre_bounds + at, radii + at, probe.per_radius, bound, floor); same;
             same &= same - 1)
            go(1 + at + __builtin_ctz(same));
    return bound;
}

// Returns the least bound of the tiles that were visited.
float visit_best_bounded(const TileScan& scan, const TopK& best, int64_t query) {
    Visitor visitor = visitor_of(scan, best, query);
    float floor = __builtin_inff();
    do {
        const float bound = go_to_best_bounded(scan, visitor.probe, visitor.worst(), floor,
                                               [&](int64_t tile) { visit(scan, tile, visitor); });
        if (bound < -LARGEST_BOUND) break;
        floor = bound;
    } while (!visitor.heap.is_full());
    leave(best, visitor);
    return floor;
}

// Marks the items of a tile that a query may have to score, and prefetches their factors.
void mark(const TileScan& scan, int64_t tile, const Visitor& visitor, Marked& marked) {
    marked.query = visitor.probe.query;
    marked.count = 0;
    const float limit = visitor.limit();
    marked.tile_bound = tile_bound_of(scan, visitor.probe, tile);
    const int64_t n = read_tile(scan, visitor.probe, tile, limit);
    for (int64_t from = 0; from < n; from += 64)
        for (uint64_t found = from_to(scan.scratch.bounds + from, limit, __builtin_inff()); found; found &= found - 1) {
            const int64_t at = from + __builtin_ctzll(found);
            const int64_t position = position_read(scan, at);
            marked.positions[marked.count] = static_cast<int32_t>(position);
            marked.bounds[marked.count] = scan.scratch.bounds[at];
            marked.caps[marked.count++] = cap_read(scan, tile, at);
            prefetch(scan.items, position);
        }
}

// Scores the marked items that are still worth it: the query may have found better answers meanwhile.
void score_marked(const TileScan& scan, const TopK& best, Marked& marked) {
    const int64_t n = marked.count;
    marked.count = 0;
    if (n == 0) return;
    Visitor visitor = visitor_of(scan, best, marked.query);
    if (marked.tile_bound < visitor.worst()) return;
    const float limit = visitor.limit();
    for (int64_t i = 0; i < n; ++i)
        if (marked.caps[i] >= limit && marked.bounds[i] >= visitor.limit())
            offer(scan.items, scan.queries, marked.query, marked.positions[i], scan.tiled.repeats, visitor.heap,
                  visitor.n_scored);
    leave(best, visitor);
}

// Calls `go` for each query and each tile of a group whose bound is at least what the query needs and below its floor.
// Goes tile by tile, so that codes are read once for many queries.
template <typename Wanted, typename Go>
void go_to_rest(const TileScan& scan, int64_t group, const Wanted& wanted, const Go& go) {
    const int64_t at = group * GROUP_ITEMS;
    const float* radii = scan.tiled.radii + at;
    const TileScratch& scratch = scan.scratch;
    int64_t n_visitors = 0;
    for (int64_t query = 0; query < scan.queries.n_queries; ++query) {
        if (group >= scan.n_bounded[query]) continue;
        const uint32_t tiles = tiles_between(scan.centre_bounds_of(query) + at, radii, scratch.probes[query].per_radius,
                                             wanted(query), scratch.floors[query]);
        scratch.visitors[n_visitors] = static_cast<int32_t>(query);
        scratch.tiles_to_visit[n_visitors] = tiles;
        n_visitors += tiles != 0;
    }
    for (int64_t t = 0; n_visitors && t < GROUP_ITEMS; ++t)
        for (int64_t i = 0; i < n_visitors; ++i)
            if (scratch.tiles_to_visit[i] >> t & 1) go(scratch.visitors[i], 1 + at + t);
}

TileScan tile_scan_of(const Items& items, const TiledItems& tiled, const Queries& queries, const float* centre_bounds,
                      const int64_t* n_bounded, const TileScratch& scratch) {
    return {items, tiled, queries, centre_bounds, n_bounded, scratch, (tiled.n_tiles + GROUP_ITEMS - 1) / GROUP_ITEMS};
}

// Every query visits tile 0, which holds the longest items.
void scan_tile_0(const Items& items, const TiledItems& tiled, const Queries& queries, const TileScratch& scratch,
                 const TopK& best) {
    const TileScan scan = tile_scan_of(items, tiled, queries, nullptr, nullptr, scratch);
    for (int64_t query = 0; query < queries.n_queries; ++query) {
        Visitor visitor = visitor_of(scan, best, query);
        visit(scan, 0, visitor);
        leave(best, visitor);
    }
}

void count_groups(const Centres& centres, const Probe* probes, int64_t n_queries, const TopK& best,
                  int64_t* n_bounded) {
    for (int64_t query = 0; query < n_queries; ++query) {
        const Probe& probe = probes[query];
        const float worst = Visitor{probe, heap_of(best, query), 0}.worst();
        int64_t low = 0;
        int64_t high = centres.n_groups;
        while (low < high) {
            const int64_t middle = low + (high - low) / 2;
            const float most = finite(probe.norm * centres.norms[middle]) + probe.per_radius * centres.farthest[middle];
            (most < worst ? high : low) = most < worst ? middle : middle + 1;
        }
        n_bounded[query] = low;
    }
}

// After tile 0, each query visits tiles by falling bound until it has k answers, then all tiles that may hold better
// ones. While the factors for one visit are being fetched from memory, the codes of the next are scanned.
void scan_tiles(const Items& items, const TiledItems& tiled, const Queries& queries, const float* centre_bounds,
                const int64_t* n_bounded, const TileScratch& scratch, const TopK& best) {
    if (all_in_tile_0(tiled)) return;
    const TileScan scan = tile_scan_of(items, tiled, queries, centre_bounds, n_bounded, scratch);
    for (int64_t query = 0; query < queries.n_queries; ++query)
        scratch.floors[query] = visit_best_bounded(scan, best, query);
    const int64_t most = tiled.largest * GROUP_ITEMS;
    Marked last = {0, 0, scratch.marked_positions, scratch.marked_bounds, scratch.marked_caps, 0.0f};
    Marked next = {0,   0, scratch.marked_positions + most, scratch.marked_bounds + most, scratch.marked_caps + most,
                   0.0f};
    const auto worst = [&](int64_t query) { return visitor_of(scan, best, query).worst(); };
    const auto go = [&](int64_t query, int64_t tile) {
        const Visitor visitor = visitor_of(scan, best, query);
        if (tile_bound_of(scan, visitor.probe, tile) < visitor.worst()) return;
        mark(scan, tile, visitor, next);
        score_marked(scan, best, last);
        const Marked marked = last;
        last = next;
        next = marked;
    };
    for (int64_t group = 0; group < scan.n_groups; ++group) go_to_rest(scan, group, worst, go);
    score_marked(scan, best, last);
}

// The bound of a tile in steps; tile 0, which has no centre, is not bounded.
float most_steps_of(const TileScan& scan, const Probe& probe, int64_t tile) {
    return tile == 0 ? LARGEST_BOUND : finite(tile_bound_of(scan, probe, tile) / probe.scale);
}

// An upper bound of the tail of a coded item, in steps.
float tail_steps(const TileCodes& items, int64_t member, int64_t column) {
    const int8_t* group = items.codes + member / GROUP_ITEMS * GROUP_ITEMS * items.code_size;
    return static_cast<float>(group[column / 2 * GROUP_ITEMS * 2 + member % GROUP_ITEMS * 2 + column % 2]) + 0.5f;
}

// Gathers the items of a tile that may be answers. An item's bound is capped by its group's, and a group's by its
// tile's, so that the result does not depend on when the tile was visited.
void gather_tile(const TileScan& scan, int64_t tile, const Probe& probe, Gatherer& gatherer) {
    const TileScratch& scratch = scan.scratch;
    const Cut& cut = *gatherer.cut;
    const float most = most_steps_of(scan, probe, tile);
    if (most < cut.value) return;
    const int64_t n = read_tile(scan, probe, tile, cut.value);
    const float twice = 2.0f * probe.slack;
    for (int64_t from = 0; from < n; from += 64) {
        uint64_t found = from_to(scratch.bounds + from, cut.value, __builtin_inff());
        if (!found) continue;
        if (!make_room(gatherer)) return;
        for (; found; found &= found - 1) {
            const int64_t at = from + __builtin_ctzll(found);
            const float cap = cap_read(scan, tile, at);
            const float bound = scratch.bounds[at] < cap ? scratch.bounds[at] : cap;
            const float upper = bound < most ? bound : most;
            const int64_t member = member_read(scan, at);
            float lost = twice;
            if (probe.tail > 0.0f) lost += probe.tail * tail_steps(scan.tiled.coded, member, probe.tail_column);
            const float lower = upper - lost * scan.tiled.coded.scales[member];
            gather(scan.items, scan.queries, probe.query, position_read(scan, at), upper, lower, gatherer);
        }
    }
}

constexpr int64_t ANSWERS_A_TILE = 24;  // the approximate number of answers in one of the best tiles

// Visits tiles like scan_tiles, but gathers items, to be scored at the end.
void gather_tiles(const Items& items, const TiledItems& tiled, const Queries& queries, const float* centre_bounds,
                  const int64_t* n_bounded, const TileScratch& scratch, const Gathered& gathered) {
    const TileScan scan = tile_scan_of(items, tiled, queries, centre_bounds, n_bounded, scratch);
    for (int64_t query = 0; query < queries.n_queries; ++query) {
        const Probe& probe = scratch.probes[query];
        gathered.cuts[query].spare = 2.0f * probe.lost / probe.scale;
        Gatherer gatherer = gatherer_of(gathered, query);
        const auto go = [&](int64_t tile) {
            if (!gatherer.cut->full) gather_tile(scan, tile, probe, gatherer);
        };
        go(0);
        float floor = __builtin_inff();
        // The best tiles first, so that the cut is high when the others come.
        const int64_t wanted = 1 + gatherer.k / ANSWERS_A_TILE;
        for (int64_t n = 0; !all_in_tile_0(tiled) && !gatherer.cut->full && (n < wanted || gatherer.count < gatherer.k);
             ++n) {
            const float bound = go_to_best_bounded(scan, probe, -LARGEST_BOUND, floor, go);
            if (bound < -LARGEST_BOUND) break;
            floor = bound;
        }
        if (gatherer.count >= gatherer.k && gatherer.cut->next < gatherer.room - 64) {
            gatherer.cut->next = gatherer.count;
            make_room(gatherer);
        }
        scratch.floors[query] = gatherer.cut->full ? -__builtin_inff() : floor;
        gathered.counts[query] = gatherer.count;
    }
    if (all_in_tile_0(tiled)) return;
    // A little less than the cut: tiles are compared in units of scores, items in steps.
    const auto worst = [&](int64_t query) {
        const float cut = finite(gathered.cuts[query].value * scratch.probes[query].scale);
        return finite(cut - 1e-6f * __builtin_fabsf(cut));
    };
    const auto go = [&](int64_t query, int64_t tile) {
        Gatherer gatherer = gatherer_of(gathered, query);
        if (!gatherer.cut->full) gather_tile(scan, tile, scratch.probes[query], gatherer);
        gathered.counts[query] = gatherer.count;
    };
    for (int64_t group = 0; group < scan.n_groups; ++group) go_to_rest(scan, group, worst, go);
}
