// Tile search (P14): queries -> tiles that may hold answers -> coded items -> scores. Included by kernels.cpp, once a
// level.

typedef float EightFloats __attribute__((vector_size(32), aligned(4), may_alias));

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
    const FiledItems& filed;
    const Queries& queries;
    const Askers& askers;
    const float* nears;
    double reach;
    const TileScratch& scratch;
    const BestArrays& found;
    int64_t n_groups;  // of tiles
    float lost;        // what products may lose or gain near zero, where floats are even

    const float* nears_of(int64_t query) const { return nears + query * n_groups * GROUP_ROWS; }
};

// A query on its way through the tiles.
struct Visitor {
    int64_t query;
    float scale;
    float slack;
    float reach;   // share of a radius that is believed, times the query's norm
    float length;  // times the scale of a row: what the row, or a shorter one, scores at most
    float lost;    // what products may lose or gain near zero, where floats are even
    Best best;
    int64_t scored;

    // What a bound must reach to be worth a look. Where `lost` matters not it is left alone: subnormal floats are slow.
    float worst() const {
        if (best.count < best.k) return -LARGEST;
        return __builtin_fabsf(best.scores[0]) < SMALLEST_STEP ? best.scores[0] - lost : best.scores[0];
    }
    // The same in steps of the query's scale.
    float limit() const { return best.count == best.k ? finite(worst() / scale) : -LARGEST; }
};

// Rows of a tile that a query is about to score.
struct Marked {
    int64_t query;
    int64_t tile;
    int64_t count;
    int32_t* rows;
    float* bounds;
};

// Scores the items of a tile with bounds from `limit` up to those that have been dealt with.
void take(const TileScan& scan, int64_t first, int64_t n, float limit, float done, Visitor& visitor) {
    const float* bounds = scan.scratch.bounds;
    const int32_t* places = scan.filed.places + first;
    for (int64_t from = 0; from < n; from += 64) {
        uint64_t found = from_to(bounds + from, limit, done);
        for (uint64_t left = found & (found - 1); left; left &= left - 1)
            fetch(scan.items, places[from + __builtin_ctzll(left)]);
        for (; found; found &= found - 1) {
            const int64_t at = from + __builtin_ctzll(found);
            if (bounds[at] < limit) continue;  // it may have risen since
            if (offer(scan.items, scan.queries, visitor.query, places[at], scan.filed.repeats, visitor.best,
                      visitor.scored) &&
                visitor.best.count == visitor.best.k) {
                const float risen = visitor.limit();
                limit = risen > limit ? risen : limit;
            }
        }
    }
}

// A number that is larger for a larger float.
uint64_t rising(float value) {
    const uint32_t bits = bits_of(value);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// While there are fewer than k answers nothing can be left out, so the items that promise most are scored first. They
// are found through the largest bounds of classes of items, so many of which are reached by as many items or more.
float take_promising(const TileScan& scan, int64_t first, int64_t n, Visitor& visitor) {
    const TileScratch& scratch = scan.scratch;
    for (int64_t c = 0; c < scratch.n_classes; ++c) scratch.classes[c] = -LARGEST;
    for (int64_t from = 0; from < n; from += scratch.n_classes)
        for (int64_t c = 0; c < scratch.n_classes && from + c < n; ++c)
            scratch.classes[c] =
                scratch.bounds[from + c] > scratch.classes[c] ? scratch.bounds[from + c] : scratch.classes[c];
    int64_t count = 0;
    uint64_t high = 0;
    for (int64_t c = 0; c < scratch.n_classes; ++c) {
        if (scratch.classes[c] == -LARGEST) continue;
        scratch.keys[count] = rising(scratch.classes[c]) << 32 | static_cast<uint64_t>(c);
        high = scratch.keys[count] > high ? scratch.keys[count] : high;
        ++count;
    }
    float done = __builtin_inff();
    for (int64_t wanted = visitor.best.k - visitor.best.count;
         visitor.best.count < visitor.best.k && wanted <= count && done > -LARGEST; wanted *= 2) {
        const uint64_t key = find_largest(scratch.keys, count, wanted, 0, high);
        const float least = scratch.classes[key & 0xffffffffu];
        take(scan, first, n, least, done, visitor);
        done = least;
    }
    return done;
}

// Where a tile's items, which are by falling norm, become too short for the query.
int64_t first_too_short(const float* scales, int64_t start, int64_t stop, const Visitor& visitor) {
    const float worst = visitor.worst();
    int64_t row = start;
    while (row < stop && visitor.length * scales[row] >= worst) row = row / GROUP_ROWS * GROUP_ROWS + GROUP_ROWS;
    return row < stop ? row : stop;
}

// Rows of a tile, from a whole group on and in whole 64s; the bounds of those that are not of the tile are minus
// infinity.
struct BoundedRows {
    int64_t first;
    int64_t n;
};

BoundedRows bound_rows(const TileScan& scan, int64_t start, int64_t stop, const Visitor& visitor) {
    const int64_t group = start / GROUP_ROWS;
    const int64_t first = group * GROUP_ROWS;
    const int64_t n_groups = (stop + GROUP_ROWS - 1) / GROUP_ROWS - group;
    const int64_t n = (n_groups * GROUP_ROWS + 63) / 64 * 64;
    float* bounds = scan.scratch.bounds;
    const uint8_t* code = scan.askers.codes + visitor.query * scan.filed.coded.code_size;
    coded_bounds(scan.filed.coded, group, n_groups, code, visitor.slack, bounds);
    for (int64_t i = 0; i < start - first; ++i) bounds[i] = -__builtin_inff();
    for (int64_t i = stop - first; i < n; ++i) bounds[i] = -__builtin_inff();
    return {first, n};
}

void visit(const TileScan& scan, int64_t tile, Visitor& visitor) {
    const int64_t start = scan.filed.starts[tile];
    const int64_t stop = first_too_short(scan.filed.coded.scales, start, scan.filed.starts[tile + 1], visitor);
    if (start == stop) return;
    const BoundedRows rows = bound_rows(scan, start, stop, visitor);
    float done = __builtin_inff();
    if (visitor.best.count < visitor.best.k) done = take_promising(scan, rows.first, rows.n, visitor);
    take(scan, rows.first, rows.n, visitor.limit(), done, visitor);
}

// What the best item of a tile is believed to score at most.
EightFloats hopes(const float* nears, const float* radii, float reach) {
    const EightFloats near = *reinterpret_cast<const EightFloats*>(nears);  // a copy would be read before it is written
    const EightFloats hope = near + reach * *reinterpret_cast<const EightFloats*>(radii);
    return hope < LARGEST ? hope : EightFloats{} + LARGEST;
}

// The greatest hope below `floor`, or minus infinity.
float next_hope(const float* nears, const float* radii, int64_t n_padded, float reach, float floor) {
    const EightFloats none = EightFloats{} - __builtin_inff();
    EightFloats most = none;
    for (int64_t t = 0; t < n_padded; t += 8) {
        const EightFloats hope = hopes(nears + t, radii + t, reach);
        const EightFloats open = hope < floor ? hope : none;
        most = open > most ? open : most;
    }
    float greatest = most[0];
    for (int i = 1; i < 8; ++i) greatest = most[i] > greatest ? most[i] : greatest;
    return greatest;
}

// Bit t for each of 16 tiles with a hope from `limit` up to `floor`.
uint32_t hopeful(const float* nears, const float* radii, float reach, float limit, float floor) {
    uint32_t found = 0;
    for (int half = 0; half < 2; ++half) {
        const EightFloats hope = hopes(nears + 8 * half, radii + 8 * half, reach);
#if defined(__AVX2__)
        const __m256 values = (__m256)hope;
        const __m256 inside = _mm256_and_ps(_mm256_cmp_ps(values, _mm256_set1_ps(limit), _CMP_GE_OQ),
                                            _mm256_cmp_ps(values, _mm256_set1_ps(floor), _CMP_LT_OQ));
        found |= static_cast<uint32_t>(_mm256_movemask_ps(inside)) << (8 * half);
#else
        for (int i = 0; i < 8; ++i)
            found |= static_cast<uint32_t>(hope[i] >= limit && hope[i] < floor) << (8 * half + i);
#endif
    }
    return found;
}

Visitor visitor_of(const TileScan& scan, int64_t query) {
    const AskerTerms& terms = scan.askers.terms[query];
    return {query,
            terms.scale,
            scan.scratch.slacks[query],
            static_cast<float>(scan.reach * static_cast<double>(terms.norm)),
            scan.scratch.lengths[query],
            scan.lost,
            best_of(scan.found, query),
            0};
}

void leave(const TileScan& scan, const Visitor& visitor) {
    scan.found.counts[visitor.query] = visitor.best.count;
    scan.found.scored[visitor.query] += visitor.scored;
}

void visit_longest(const TileScan& scan, int64_t query) {
    Visitor visitor = visitor_of(scan, query);
    visit(scan, 0, visitor);
    leave(scan, visitor);
}

// Returns the least hope of the tiles that were visited.
float visit_most_hopeful(const TileScan& scan, int64_t query) {
    const float* near = scan.nears_of(query);
    const float* radii = scan.filed.radii;
    Visitor visitor = visitor_of(scan, query);
    float floor = __builtin_inff();
    do {
        const float hope = next_hope(near, radii, scan.n_groups * GROUP_ROWS, visitor.reach, floor);
        if (hope < -LARGEST) break;
        for (int64_t at = 0; at < scan.n_groups * GROUP_ROWS; at += GROUP_ROWS)
            for (uint32_t same = hopeful(near + at, radii + at, visitor.reach, hope, floor); same; same &= same - 1)
                visit(scan, 1 + at + __builtin_ctz(same), visitor);
        floor = hope;
    } while (visitor.best.count < visitor.best.k);
    leave(scan, visitor);
    return floor;
}

// Notes the rows of a tile that a query may have to score, and has their factors on the way from memory.
void mark(const TileScan& scan, int64_t tile, const Visitor& visitor, Marked& marked) {
    marked.query = visitor.query;
    marked.tile = tile;
    marked.count = 0;
    const int64_t start = scan.filed.starts[tile];
    const int64_t stop = first_too_short(scan.filed.coded.scales, start, scan.filed.starts[tile + 1], visitor);
    if (start == stop) return;
    const BoundedRows rows = bound_rows(scan, start, stop, visitor);
    const float limit = visitor.limit();
    for (int64_t from = 0; from < rows.n; from += 64)
        for (uint64_t found = from_to(scan.scratch.bounds + from, limit, __builtin_inff()); found; found &= found - 1) {
            const int64_t at = from + __builtin_ctzll(found);
            marked.rows[marked.count] = static_cast<int32_t>(rows.first + at);
            marked.bounds[marked.count++] = scan.scratch.bounds[at];
            fetch(scan.items, scan.filed.places[rows.first + at]);
        }
}

// Scores what was marked, if it is still worth it: meanwhile the query may have found better answers.
void score_marked(const TileScan& scan, Marked& marked) {
    const int64_t n = marked.count;
    marked.count = 0;
    if (n == 0) return;
    Visitor visitor = visitor_of(scan, marked.query);
    const float near = scan.nears_of(marked.query)[marked.tile - 1];
    if (near + visitor.reach * scan.filed.radii[marked.tile - 1] < visitor.worst()) return;
    const int32_t* starts = scan.filed.starts + marked.tile;
    const int64_t stop = first_too_short(scan.filed.coded.scales, starts[0], starts[1], visitor);
    for (int64_t i = 0; i < n && marked.rows[i] < stop; ++i)
        if (marked.bounds[i] >= visitor.limit())
            offer(scan.items, scan.queries, visitor.query, scan.filed.places[marked.rows[i]], scan.filed.repeats,
                  visitor.best, visitor.scored);
    leave(scan, visitor);
}

// The tiles of one group that may hold better answers, tile by tile. While the factors that one visit needs are on
// their way, the codes of the next are looked through.
void visit_hopeful(const TileScan& scan, int64_t group, Marked& last, Marked& next) {
    const int64_t at = group * GROUP_ROWS;
    const float* radii = scan.filed.radii + at;
    const TileScratch& scratch = scan.scratch;
    int64_t n_coming = 0;
    for (int64_t query = 0; query < scan.queries.n_queries; ++query) {
        const Visitor visitor = visitor_of(scan, query);
        const uint32_t tiles =
            hopeful(scan.nears_of(query) + at, radii, visitor.reach, visitor.worst(), scratch.floors[query]);
        scratch.coming[n_coming] = static_cast<int32_t>(query);
        scratch.wanted[n_coming] = tiles;
        n_coming += tiles != 0;
    }
    for (int64_t t = 0; n_coming && t < GROUP_ROWS; ++t)
        for (int64_t i = 0; i < n_coming; ++i) {
            if (!(scratch.wanted[i] >> t & 1)) continue;
            const Visitor visitor = visitor_of(scan, scratch.coming[i]);
            const float near = scan.nears_of(visitor.query)[at + t];
            if (near + visitor.reach * radii[t] < visitor.worst()) continue;
            mark(scan, 1 + at + t, visitor, next);
            score_marked(scan, last);
            const Marked marked = last;
            last = next;
            next = marked;
        }
}

// Tile 0, which holds the longest items, is for every query; then each query goes to its most hopeful tile, and to
// others until it has k answers; then, tile by tile so that codes are read once for many queries, to all tiles that may
// hold better ones.
void tile_scan(const Items& items, const FiledItems& filed, const Queries& queries, const Askers& askers,
               const float* nears, double reach, const TileScratch& scratch, const BestArrays& found) {
    const int64_t n_groups = (filed.n_tiles + GROUP_ROWS - 1) / GROUP_ROWS;
    const float lost = static_cast<float>(items.n_factors) * 0x1p-148f;  // once: a subnormal product is slow
    const TileScan scan = {items, filed, queries, askers, nears, reach, scratch, found, n_groups, lost};
    for (int64_t query = 0; query < queries.n_queries; ++query) {
        scratch.slacks[query] = slack_of(askers.terms[query], items.n_factors, filed.coded.code_size, reach);
        scratch.lengths[query] = length_of(askers.terms[query], items.n_factors, filed.coded.code_size);
        visit_longest(scan, query);
    }
    if (filed.starts[1] == filed.starts[filed.n_tiles + 1]) return;  // all items are there
    for (int64_t query = 0; query < queries.n_queries; ++query) scratch.floors[query] = visit_most_hopeful(scan, query);
    Marked last = {0, 0, 0, scratch.marked_rows, scratch.marked_bounds};
    Marked next = {0, 0, 0, scratch.marked_rows + scratch.n_marked, scratch.marked_bounds + scratch.n_marked};
    for (int64_t group = 0; group < n_groups; ++group) visit_hopeful(scan, group, last, next);
    score_marked(scan, last);
}
