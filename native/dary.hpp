// Factors -> the nearest D-ary tiles (P5). Included by kernels.cpp, once per level.
//
// Exact D-ary tiles. A coordinate of magnitude z reaches level m when the sweep's slope falls to z / (2m - 1). That
// event adds z to the dot product and 2m - 1 to the squared norm. In order of falling slope, the events form a concave
// line of vertices (squared norm, dot), and the best tile is one of them.
//
// Most vertices are ruled out without being computed. In SIMD lanes, in float, the line is measured at a few rungs
// between two scales, where a scale is 1 / (2 slope): a rung is the vector multiplied by its scale and rounded. No
// vertex between two rungs lies above the tangents through them. The ratio is convex in (squared norm, dot), so at the
// intersection of the tangents it is at least as large as at any vertex between them. What this cannot rule out, with a
// margin wider than its rounding, is measured again at finer rungs, and finally walked exactly.
constexpr int32_t MAX_LEVELS = 127;
constexpr int32_t RUNGS = 8;
constexpr int MAX_ZOOMS = 6;
constexpr float FEW_EVENTS = 14.0f;

struct Rung {
    WholeFloats scale;
    WholeFloats dot;
    WholeFloats squared_norm;
};

// The scales between which the best vertex of each vector lies.
struct Span {
    WholeFloats low;
    WholeFloats high;
};

WholeFloats larger(WholeFloats a, WholeFloats b) {
    return a > b ? a : b;
}
WholeFloats smaller(WholeFloats a, WholeFloats b) {
    return a < b ? a : b;
}

// Sums eight wires at a time, then those sums, so that no product takes part in more than 8 + n_wires / 8 additions.
void measure_rungs(const WholeFloats* unit, int64_t n_wires, int32_t levels, Rung& one, Rung& two) {
    const Wire top = levels - Wire{};
    one.dot = two.dot = one.squared_norm = two.squared_norm = WholeFloats{};
    for (int64_t first = 0; first < n_wires; first += 8) {
        WholeFloats dot_one = {}, dot_two = {}, norm_one = {}, norm_two = {};
        for (int64_t i = first; i < first + 8; ++i) {
            const WholeFloats z = unit[i];
            const Wire whole_one = __builtin_convertvector(z * one.scale + 0.5f, Wire);
            const Wire whole_two = __builtin_convertvector(z * two.scale + 0.5f, Wire);
            const WholeFloats level_one = __builtin_convertvector(whole_one < top ? whole_one : top, WholeFloats);
            const WholeFloats level_two = __builtin_convertvector(whole_two < top ? whole_two : top, WholeFloats);
            dot_one += level_one * z;
            dot_two += level_two * z;
            norm_one += level_one * level_one;
            norm_two += level_two * level_two;
        }
        one.dot += dot_one, one.squared_norm += norm_one;
        two.dot += dot_two, two.squared_norm += norm_two;
    }
}

// The part of the span that may hold the best vertex; `best` is raised to the best ratio seen.
Span zoom(const WholeFloats* unit, int64_t n_wires, int32_t levels, const Span& span, WholeFloats& best) {
    Rung rungs[RUNGS];
    for (int32_t r = 0; r < RUNGS; ++r)
        rungs[r].scale = span.low + (span.high - span.low) * (static_cast<float>(r) / (RUNGS - 1));
    for (int32_t r = 0; r < RUNGS; r += 2) measure_rungs(unit, n_wires, levels, rungs[r], rungs[r + 1]);
    for (const Rung& rung : rungs) best = larger(best, rung.dot * rung.dot / rung.squared_norm);
    const float additions = static_cast<float>(8 + n_wires / 8);
    const WholeFloats bar = best * (1.0f - 16.0f * (additions + 8.0f) * 0x1p-24f);
    Span kept = {span.high, span.low};
    for (int32_t r = 0; r < RUNGS; ++r) {
        const Rung& after = rungs[r];
        const Wire itself = after.dot * after.dot >= bar * after.squared_norm;
        kept.low = smaller(kept.low, itself ? after.scale : span.high);
        kept.high = larger(kept.high, itself ? after.scale : span.low);
        if (r == 0) continue;
        const Rung& before = rungs[r - 1];
        const WholeFloats steep = 0.5f / before.scale;
        const WholeFloats shallow = 0.5f / after.scale;
        const WholeFloats steep_rise = before.dot - steep * before.squared_norm;
        const WholeFloats shallow_rise = after.dot - shallow * after.squared_norm;
        WholeFloats crossing = (shallow_rise - steep_rise) / (steep - shallow);
        crossing = smaller(larger(crossing, before.squared_norm), after.squared_norm);
        const WholeFloats dot = steep_rise + steep * crossing;
        const Wire between = ~(dot * dot < bar * crossing) & (after.squared_norm > before.squared_norm);
        kept.low = smaller(kept.low, between ? before.scale : span.high);
        kept.high = larger(kept.high, between ? after.scale : span.low);
    }
    return kept;
}

// Let y = dot and x = squared norm. At the vertex with the best y^2 / x, neither removing an event nor adding one
// helps: its events have slopes of at least y / 2x, and all others at most that. Since magnitudes are at most 1, y <=
// x; and y / x = ratio / y is at least any known ratio divided by the largest dot product.
Span best_span(const WholeFloats* unit, int64_t n_wires, int32_t levels) {
    WholeFloats sum = {};
    WholeFloats positive = {};
    for (int64_t i = 0; i < n_wires; ++i) {
        sum += unit[i];
        positive += unit[i] > 0.0f ? 1.0f - WholeFloats{} : WholeFloats{};
    }
    WholeFloats best = larger(sum * sum / positive, 1.0f - WholeFloats{});
    Span span = {0.9999f - WholeFloats{}, 1.0001f * static_cast<float>(levels) * sum / best};
    for (int pass = 0; pass < MAX_ZOOMS; ++pass) {
        const WholeFloats events = (span.high - span.low) * sum;
        float most = 0.0f;
        for (int64_t l = 0; l < LANES; ++l) most = events[l] > most ? events[l] : most;
        if (most < FEW_EVENTS) break;
        span = zoom(unit, n_wires, levels, span, best);
    }
    return span;
}

// A slope with 16 significant bits: its products with 2m - 1 are exact floats, so comparisons with them are exact and
// runs of equal events stay together.
WholeFloats coarse(WholeFloats slope) {
    Wire bits;
    __builtin_memcpy(&bits, &slope, sizeof bits);
    bits &= ~0xff;
    __builtin_memcpy(&slope, &bits, sizeof bits);
    return slope;
}

// The exact walk of one vector. A vertex is given by how many of the sorted magnitudes have reached each level, and its
// dot product by their running sums, so its value does not depend on how it was found.
struct Walk {
    const float* sorted;   // magnitude i at sorted[i * LANES]
    const double* prefix;  // sum of the first i at prefix[i * LANES]
    int32_t n;
    int32_t levels;
    float shallowest;  // events below this slope are skipped
    double best_ratio;
    double best_norm;
    int32_t reached[MAX_LEVELS];
    int32_t best[MAX_LEVELS];
};

void offer(Walk& walk) {
    double dot = 0.0;
    int64_t squared_norm = 0;
    for (int32_t m = 0; m < walk.levels; ++m) {
        dot += walk.prefix[walk.reached[m] * LANES];
        squared_norm += static_cast<int64_t>(2 * m + 1) * walk.reached[m];
    }
    const double norm = static_cast<double>(squared_norm);
    const double ratio = squared_norm > 0 ? dot * dot / norm : 0.0;
    if (ratio < walk.best_ratio || (ratio == walk.best_ratio && norm >= walk.best_norm)) return;
    walk.best_ratio = ratio;
    walk.best_norm = norm;
    for (int32_t m = 0; m < walk.levels; ++m) walk.best[m] = walk.reached[m];
}

// The slope of the next event of a level, or -1 when there is none.
double upcoming(const Walk& walk, int32_t m) {
    if (walk.reached[m] == walk.n) return -1.0;
    const float z = walk.sorted[walk.reached[m] * LANES];
    if (z == 0.0f || z < walk.shallowest * static_cast<float>(2 * m + 1)) return -1.0;
    return static_cast<double>(z) / static_cast<double>(2 * m + 1);
}

// Visits every vertex after walk.reached by merging the levels' events; on a tie, the lower level comes first.
void find_best(Walk& walk) {
    double next[MAX_LEVELS];
    for (int32_t m = 0; m < walk.levels; ++m) next[m] = upcoming(walk, m);
    walk.best_ratio = 0.0;
    walk.best_norm = 0.0;
    for (int32_t m = 0; m < walk.levels; ++m) walk.best[m] = 0;
    while (true) {
        offer(walk);
        int32_t m = 0;
        for (int32_t other = 1; other < walk.levels; ++other) m = next[other] > next[m] ? other : m;
        if (next[m] < 0.0) return;
        ++walk.reached[m];
        next[m] = upcoming(walk, m);
    }
}

void nearest_dary_tiles(const float* factors, int64_t n, int64_t n_factors, int32_t levels, const Workspace& space,
                        int8_t* tiles) {
    const int64_t n_wires = (n_factors + 7) / 8 * 8;
    WholeFloats* wires = reinterpret_cast<WholeFloats*>(space.lanes);
    WholeFloats* unit = reinterpret_cast<WholeFloats*>(space.unit);
    Wire reached[MAX_LEVELS];
    for (int64_t first = 0; first < n; first += LANES) {
        const int64_t here = n - first < LANES ? n - first : LANES;
        load_magnitudes(factors + first * n_factors, here, n_factors, space.lanes);
        sort_lanes(space.lanes, n_factors);
        // Near the smallest floats, slopes would lose some of their 16 bits, so such vectors are scaled up, exactly.
        const WholeFloats enlarged = wires[0] < 0x1p-64f ? 0x1p64f - WholeFloats{} : 1.0f - WholeFloats{};
        for (int64_t i = 0; i < n_wires; ++i) wires[i] *= enlarged;
        const WholeFloats largest = wires[0] > 0.0f ? wires[0] : 1.0f - WholeFloats{};
        for (int64_t i = 0; i < n_wires; ++i) unit[i] = wires[i] / largest;
        const Span span = best_span(unit, n_wires, levels);
        const WholeFloats steepest = coarse(wires[0] * (0.5001f / span.low));
        const WholeFloats shallowest = coarse(wires[0] * (0.4999f / span.high));
        for (int32_t m = 0; m < levels; ++m) {
            const WholeFloats bar = steepest * static_cast<float>(2 * m + 1);
            reached[m] = Wire{};
            for (int64_t i = 0; i < n_wires; ++i) reached[m] -= (wires[i] >= bar) & (wires[i] > 0.0f);
        }
        running_sums(space.lanes, n_wires, space.prefix);
        for (int64_t l = 0; l < here; ++l) {
            Walk walk;
            walk.sorted = space.lanes + l;
            walk.prefix = space.prefix + l;
            walk.n = static_cast<int32_t>(n_wires);
            walk.levels = levels;
            walk.shallowest = shallowest[l];
            for (int32_t m = 0; m < levels; ++m) walk.reached[m] = reached[m][l];
            find_best(walk);
            const float* z = factors + (first + l) * n_factors;
            int8_t* tile = tiles + (first + l) * n_factors;
            for (int64_t j = 0; j < n_factors; ++j) tile[j] = 0;
            for (int32_t m = 0; m < levels && walk.best[m] > 0; ++m)
                add_level(z, n_factors, walk.sorted[(walk.best[m] - 1) * LANES] / enlarged[l], tile);
        }
    }
}
