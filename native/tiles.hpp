// Tile search (P14): queries -> tiles that may hold answers -> coded members -> scores. Included by kernels.cpp, once a
// level.

// Which of 64 bounds are at least `limit` and below `done`, as bits.
uint64_t from_to(const float* bounds, float limit, float done) {
    uint64_t found = 0;
#if defined(__AVX2__)
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

// What all queries of a scan share.
struct TileScan {
    const Items& items;
    const TiledItems& tiled;
    const Queries& queries;
    const TileQueries& coded;
    const float* centre_bounds;
    double reach;
    const TileScratch& scratch;
    const TopK& best;
    int64_t n_groups;  // of tiles
    float lost;        // what products may lose or gain by underflow

    const float* centre_bounds_of(int64_t query) const { return centre_bounds + query * n_groups * GROUP_ITEMS; }
};

// A query on its way through the tiles.
struct Visitor {
    int64_t query;
    float scale;
    float slack;
    float per_radius;      // reach times the query's norm
    float most_per_scale;  // times a member's scale: what it, or a shorter one, scores at most
    float lost;            // what products may lose or gain by underflow
    Heap heap;
    int64_t n_scored;

    // What a bound must reach to be worth a look. `lost` is subtracted only where it can matter: subnormal
    // floats are slow.
    float worst() const {
        if (!heap.is_full()) return -LARGEST_BOUND;
        return __builtin_fabsf(heap.worst()) < LEAST_CODE_STEP ? heap.worst() - lost : heap.worst();
    }
    // The least bound worth scoring, in steps of the query's scale.
    float limit() const { return heap.is_full() ? finite(worst() / scale) : -LARGEST_BOUND; }
};

// Members of a tile that a query is about to score.
struct Marked {
    int64_t query;
    int64_t tile;
    int64_t count;
    int32_t* members;
    float* bounds;
};

// Scores the items of a tile with bounds from `limit` up to those that have been dealt with.
void score_between(const TileScan& scan, int64_t first, int64_t n, float limit, float done, Visitor& visitor) {
    const float* bounds = scan.scratch.bounds;
    const int32_t* members = scan.tiled.members + first;
    for (int64_t from = 0; from < n; from += 64) {
        uint64_t found = from_to(bounds + from, limit, done);
        for (uint64_t left = found & (found - 1); left; left &= left - 1)
            prefetch(scan.items, members[from + __builtin_ctzll(left)]);
        for (; found; found &= found - 1) {
            const int64_t at = from + __builtin_ctzll(found);
            if (bounds[at] < limit) continue;  // it may have risen since
            if (offer(scan.items, scan.queries, visitor.query, members[at], scan.tiled.repeats, visitor.heap,
                      visitor.n_scored) &&
                visitor.heap.is_full()) {
                const float risen = visitor.limit();
                limit = risen > limit ? risen : limit;
            }
        }
    }
}

// While there are fewer than k answers nothing can be left out, so the items that may score most are scored first. They
// are found through the largest bounds of classes of items, so many of which are reached by as many items or more.
float score_best_bounded(const TileScan& scan, int64_t first, int64_t n, Visitor& visitor) {
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
        const uint64_t key = find_largest(scratch.keys, count, wanted, 0, high);
        const float least = scratch.classes[lower_of(key)];
        score_between(scan, first, n, least, done, visitor);
        done = least;
    }
    return done;
}

// Where a tile's items, which are by falling norm, become too short for the query.
int64_t first_too_short(const float* scales, int64_t start, int64_t stop, const Visitor& visitor) {
    const float worst = visitor.worst();
    int64_t member = start;
    while (member < stop && visitor.most_per_scale * scales[member] >= worst)
        member = member / GROUP_ITEMS * GROUP_ITEMS + GROUP_ITEMS;
    return member < stop ? member : stop;
}

// Members of a tile, from a whole group on and in whole 64s; the bounds of those that are not of the tile are minus
// infinity.
struct BoundedMembers {
    int64_t first;
    int64_t n;
};

BoundedMembers bound_members(const TileScan& scan, int64_t start, int64_t stop, const Visitor& visitor) {
    const int64_t group = start / GROUP_ITEMS;
    const int64_t first = group * GROUP_ITEMS;
    const int64_t n_groups = (stop + GROUP_ITEMS - 1) / GROUP_ITEMS - group;
    const int64_t n = (n_groups * GROUP_ITEMS + 63) / 64 * 64;
    float* bounds = scan.scratch.bounds;
    const uint8_t* code = scan.coded.codes + visitor.query * scan.tiled.coded.code_size;
    coded_bounds(scan.tiled.coded, group, n_groups, code, visitor.slack, bounds);
    for (int64_t i = 0; i < start - first; ++i) bounds[i] = -__builtin_inff();
    for (int64_t i = stop - first; i < n; ++i) bounds[i] = -__builtin_inff();
    return {first, n};
}

void visit(const TileScan& scan, int64_t tile, Visitor& visitor) {
    const int64_t start = scan.tiled.starts[tile];
    const int64_t stop = first_too_short(scan.tiled.coded.scales, start, scan.tiled.starts[tile + 1], visitor);
    if (start == stop) return;
    const BoundedMembers bounded = bound_members(scan, start, stop, visitor);
    float done = __builtin_inff();
    if (!visitor.heap.is_full()) done = score_best_bounded(scan, bounded.first, bounded.n, visitor);
    score_between(scan, bounded.first, bounded.n, visitor.limit(), done, visitor);
}

// What the best item of a tile is believed to score at most.
EightFloats tile_bounds(const float* centre_bounds, const float* radii, float reach) {
    const EightFloats centres = *reinterpret_cast<const EightFloats*>(centre_bounds);
    const EightFloats bound = centres + reach * *reinterpret_cast<const EightFloats*>(radii);
    return bound < LARGEST_BOUND ? bound : EightFloats{} + LARGEST_BOUND;
}

// The greatest bound below `floor`, or minus infinity.
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

Visitor visitor_of(const TileScan& scan, int64_t query) {
    const TileQueryTerms& terms = scan.coded.terms[query];
    return {query,
            terms.scale,
            scan.scratch.slacks[query],
            static_cast<float>(scan.reach * static_cast<double>(terms.norm)),
            scan.scratch.lengths[query],
            scan.lost,
            heap_of(scan.best, query),
            0};
}

void leave(const TileScan& scan, const Visitor& visitor) {
    scan.best.counts[visitor.query] = visitor.heap.count;
    scan.best.n_scored[visitor.query] += visitor.n_scored;
}

void visit_longest(const TileScan& scan, int64_t query) {
    Visitor visitor = visitor_of(scan, query);
    visit(scan, 0, visitor);
    leave(scan, visitor);
}

// Returns the least bound of the tiles that were visited.
float visit_best_bounded(const TileScan& scan, int64_t query) {
    const float* centre_bounds = scan.centre_bounds_of(query);
    const float* radii = scan.tiled.radii;
    Visitor visitor = visitor_of(scan, query);
    float floor = __builtin_inff();
    do {
        const float bound = next_bound(centre_bounds, radii, scan.n_groups * GROUP_ITEMS, visitor.per_radius, floor);
        if (bound < -LARGEST_BOUND) break;
        for (int64_t at = 0; at < scan.n_groups * GROUP_ITEMS; at += GROUP_ITEMS)
            for (uint32_t same = tiles_between(centre_bounds + at, radii + at, visitor.per_radius, bound, floor); same;
                 same &= same - 1)
                visit(scan, 1 + at + __builtin_ctz(same), visitor);
        floor = bound;
    } while (!visitor.heap.is_full());
    leave(scan, visitor);
    return floor;
}

// Notes the members of a tile that a query may have to score, and prefetches their factors.
void mark(const TileScan& scan, int64_t tile, const Visitor& visitor, Marked& marked) {
    marked.query = visitor.query;
    marked.tile = tile;
    marked.count = 0;
    const int64_t start = scan.tiled.starts[tile];
    const int64_t stop = first_too_short(scan.tiled.coded.scales, start, scan.tiled.starts[tile + 1], visitor);
    if (start == stop) return;
    const BoundedMembers bounded = bound_members(scan, start, stop, visitor);
    const float limit = visitor.limit();
    for (int64_t from = 0; from < bounded.n; from += 64)
        for (uint64_t found = from_to(scan.scratch.bounds + from, limit, __builtin_inff()); found; found &= found - 1) {
            const int64_t at = from + __builtin_ctzll(found);
            marked.members[marked.count] = static_cast<int32_t>(bounded.first + at);
            marked.bounds[marked.count++] = scan.scratch.bounds[at];
            prefetch(scan.items, scan.tiled.members[bounded.first + at]);
        }
}

// Scores what was marked, if it is still worth it: meanwhile the query may have found better answers.
void score_marked(const TileScan& scan, Marked& marked) {
    const int64_t n = marked.count;
    marked.count = 0;
    if (n == 0) return;
    Visitor visitor = visitor_of(scan, marked.query);
    const float centre_bound = scan.centre_bounds_of(marked.query)[marked.tile - 1];
    if (centre_bound + visitor.per_radius * scan.tiled.radii[marked.tile - 1] < visitor.worst()) return;
    const int32_t* starts = scan.tiled.starts + marked.tile;
    const int64_t stop = first_too_short(scan.tiled.coded.scales, starts[0], starts[1], visitor);
    for (int64_t i = 0; i < n && marked.members[i] < stop; ++i)
        if (marked.bounds[i] >= visitor.limit())
            offer(scan.items, scan.queries, visitor.query, scan.tiled.members[marked.members[i]], scan.tiled.repeats,
                  visitor.heap, visitor.n_scored);
    leave(scan, visitor);
}

// The tiles of one group that may hold better answers, tile by tile. While the factors that one visit needs are on
// their way, the codes of the next are looked through.
void visit_rest(const TileScan& scan, int64_t group, Marked& last, Marked& next) {
    const int64_t at = group * GROUP_ITEMS;
    const float* radii = scan.tiled.radii + at;
    const TileScratch& scratch = scan.scratch;
    int64_t n_visitors = 0;
    for (int64_t query = 0; query < scan.queries.n_queries; ++query) {
        const Visitor visitor = visitor_of(scan, query);
        const uint32_t tiles = tiles_between(scan.centre_bounds_of(query) + at, radii, visitor.per_radius,
                                             visitor.worst(), scratch.floors[query]);
        scratch.visitors[n_visitors] = static_cast<int32_t>(query);
        scratch.tiles_to_visit[n_visitors] = tiles;
        n_visitors += tiles != 0;
    }
    for (int64_t t = 0; n_visitors && t < GROUP_ITEMS; ++t)
        for (int64_t i = 0; i < n_visitors; ++i) {
            if (!(scratch.tiles_to_visit[i] >> t & 1)) continue;
            const Visitor visitor = visitor_of(scan, scratch.visitors[i]);
            const float centre_bound = scan.centre_bounds_of(visitor.query)[at + t];
            if (centre_bound + visitor.per_radius * radii[t] < visitor.worst()) continue;
            mark(scan, 1 + at + t, visitor, next);
            score_marked(scan, last);
            const Marked marked = last;
            last = next;
            next = marked;
        }
}

// Tile 0, which holds the longest items, is for every query; then each query goes to its best-bounded tile, and
// to others until it has k answers; then, tile by tile so that codes are read once for many queries, to all tiles that
// may hold better ones.
void scan_tiles(const Items& items, const TiledItems& tiled, const Queries& queries, const TileQueries& coded,
                const float* centre_bounds, double reach, const TileScratch& scratch, const TopK& best) {
    const int64_t n_groups = (tiled.n_tiles + GROUP_ITEMS - 1) / GROUP_ITEMS;
    const float lost =
        static_cast<float>(items.n_factors) * static_cast<float>(UNDERFLOW_LOSS);  // once: a subnormal product is slow
    const TileScan scan = {items, tiled, queries, coded, centre_bounds, reach, scratch, best, n_groups, lost};
    for (int64_t query = 0; query < queries.n_queries; ++query) {
        scratch.slacks[query] = slack_of(coded.terms[query], items.n_factors, tiled.coded.code_size, reach);
        scratch.lengths[query] = most_per_scale_of(coded.terms[query], items.n_factors, tiled.coded.code_size);
        visit_longest(scan, query);
    }
    if (tiled.starts[1] == tiled.starts[tiled.n_tiles + 1]) return;  // all items are there
    for (int64_t query = 0; query < queries.n_queries; ++query) scratch.floors[query] = visit_best_bounded(scan, query);
    Marked last = {0, 0, 0, scratch.marked_members, scratch.marked_bounds};
    Marked next = {0, 0, 0, scratch.marked_members + tiled.largest, scratch.marked_bounds + tiled.largest};
    for (int64_t group = 0; group < n_groups; ++group) visit_rest(scan, group, last, next);
    score_marked(scan, last);
}
