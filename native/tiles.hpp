// Learned tiles (P14): queries -> tiles that may hold answers -> coded items -> scores. Included by kernels.cpp, once a
// level.
//
// Rows, which are items or the centres of tiles, are coded each in steps of its own scale. The integer product of a
// coded row and a coded query, with some slack, bounds their inner product from above; with the radius of a tile it
// bounds every score in the tile. `reach` is the share of slack and radius that is believed: with all of it, answers
// are proven. All sums of codes are of integers and wrap around, so a level cannot change what is left out.

typedef float EightFloats __attribute__((vector_size(32), aligned(4), may_alias));

constexpr float LARGEST = 3.4e38f;

// Bounds stay finite, so that infinities mark what is not there.
float finite(float bound) {
    return bound < LARGEST ? (bound > -LARGEST ? bound : -LARGEST) : LARGEST;
}

// How far a code may lie from what it stands for, in steps.
double half_steps(int64_t code_size) {
    return 0.5 * __builtin_sqrt(static_cast<double>(code_size));
}

// What one step of a row's code stands for.
float step_of(const float* row, int64_t n_factors, double norm, double most, double longest) {
    float largest = 0.0f;
    for (int64_t j = 0; j < n_factors; ++j) {
        const float size = __builtin_fabsf(row[j]);
        largest = size > largest ? size : largest;
    }
    const double by_norm = norm / longest;
    const double by_place = static_cast<double>(largest) / most;
    const float step = static_cast<float>((by_norm > by_place ? by_norm : by_place) * (1.0 + 1e-6));
    return step > SMALLEST_STEP ? step : SMALLEST_STEP;
}

void code_rows(const float* factors, int64_t n_rows, int64_t n_factors, int64_t code_size, int8_t* codes,
               int16_t* offsets, float* scales) {
    const double longest = LONGEST_ROW_CODE - half_steps(code_size);
    for (int64_t row = 0; row < (n_rows + GROUP_ROWS - 1) / GROUP_ROWS * GROUP_ROWS; ++row) {
        const float* factor = factors + row * n_factors;
        const bool there = row < n_rows;
        const double norm = there ? __builtin_sqrt(sum_of_squares(factor, n_factors)) : 0.0;
        scales[row] = there ? step_of(factor, n_factors, norm, 127.0, longest) : 0.0f;
        const double inverse = there ? 1.0 / static_cast<double>(scales[row]) : 0.0;
        int8_t* group = codes + row / GROUP_ROWS * GROUP_ROWS * code_size + row % GROUP_ROWS * 2;
        int32_t sum = 0;
        for (int64_t j = 0; j < code_size; ++j) {
            const int32_t code = there && j < n_factors ? nearest(static_cast<double>(factor[j]) * inverse) : 0;
            group[j / 2 * GROUP_ROWS * 2 + j % 2] = static_cast<int8_t>(code);
            sum += code;
        }
        offsets[row] = static_cast<int16_t>(static_cast<uint16_t>(-QUERY_OFFSET * sum));
    }
}

void code_askers(const float* queries, int64_t n_queries, int64_t n_factors, int64_t code_size, uint8_t* codes,
                 AskerTerms* terms) {
    const double longest = LONGEST_ASKER_CODE - half_steps(code_size);
    for (int64_t query = 0; query < n_queries; ++query) {
        const float* factor = queries + query * n_factors;
        uint8_t* code = codes + query * code_size;
        const double norm = __builtin_sqrt(sum_of_squares(factor, n_factors));
        const float scale = step_of(factor, n_factors, norm, 63.0, longest);
        const double inverse = 1.0 / static_cast<double>(scale);
        for (int64_t j = 0; j < n_factors; ++j)
            code[j] = static_cast<uint8_t>(nearest(static_cast<double>(factor[j]) * inverse) + QUERY_OFFSET);
        for (int64_t j = n_factors; j < code_size; ++j) code[j] = QUERY_OFFSET;
        terms[query] = {scale, static_cast<float>(norm * (1.0 + 1e-6) + 0x1p-126)};  // below, floats are coarse
    }
}

// The share of a product of norms that a score in float32 may stray, with some to spare.
double rounding_room(int64_t n_factors) {
    return static_cast<double>(n_factors) * 0x1p-23 + 3e-7;
}

// What may be missing from a product of codes, in their steps: both codes lie off, and scores are rounded.
float slack_of(const AskerTerms& terms, int64_t n_factors, int64_t code_size, double reach) {
    const double half = half_steps(code_size);
    const double norm = static_cast<double>(terms.norm) / static_cast<double>(terms.scale);
    const double strayed = half + rounding_room(n_factors) * norm;
    return static_cast<float>(reach * reach * ((norm + half) * half + LONGEST_ROW_CODE * strayed + 1.0));
}

// What a row scores at most, in steps of its scale: its code is as long as a code may be, or shorter.
float length_of(const AskerTerms& terms, int64_t n_factors, int64_t code_size) {
    const double longest = LONGEST_ROW_CODE - half_steps(code_size);
    const double length = static_cast<double>(terms.norm) * longest * (1.0 + rounding_room(n_factors));
    return length < LARGEST ? static_cast<float>(length) : __builtin_inff();
}

// Integer products of a query and up to four groups of rows.
template <int n_groups>
void group_products(const uint8_t* query, const int8_t* codes, const int16_t* offsets, int64_t code_size,
                    int16_t* products) {
#if defined(__AVX2__)
    __m256i sums[n_groups];
    for (int g = 0; g < n_groups; ++g) sums[g] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(offsets) + g);
    for (int64_t at = 0; at < code_size; at += 2) {
        int16_t both;
        __builtin_memcpy(&both, query + at, sizeof both);
        const __m256i factor = _mm256_set1_epi16(both);
        for (int g = 0; g < n_groups; ++g) {
            const int8_t* column = codes + (g * code_size + at) * GROUP_ROWS;
            const __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(column));
            sums[g] = _mm256_add_epi16(sums[g], _mm256_maddubs_epi16(factor, pairs));
        }
    }
    for (int g = 0; g < n_groups; ++g) _mm256_storeu_si256(reinterpret_cast<__m256i*>(products) + g, sums[g]);
#else
    for (int g = 0; g < n_groups; ++g) {
        uint16_t sums[GROUP_ROWS];
        for (int i = 0; i < GROUP_ROWS; ++i) sums[i] = static_cast<uint16_t>(offsets[g * GROUP_ROWS + i]);
        for (int64_t at = 0; at < code_size; at += 2) {
            const int8_t* column = codes + (g * code_size + at) * GROUP_ROWS;
            const int32_t one = query[at];
            const int32_t two = query[at + 1];
            for (int i = 0; i < GROUP_ROWS; ++i)
                sums[i] = static_cast<uint16_t>(sums[i] + one * column[2 * i] + two * column[2 * i + 1]);
        }
        for (int i = 0; i < GROUP_ROWS; ++i) products[g * GROUP_ROWS + i] = static_cast<int16_t>(sums[i]);
    }
#endif
}

// (product + slack) * the row's scale, for some groups of rows: in steps of the query's scale, at least the score.
void coded_bounds(const CodedRows& rows, int64_t first_group, int64_t n_groups, const uint8_t* query, float slack,
                  float* bounds) {
    for (int64_t group = 0; group < n_groups; group += 4) {
        const int64_t count = n_groups - group < 4 ? n_groups - group : 4;
        const int64_t row = (first_group + group) * GROUP_ROWS;
        const int8_t* codes = rows.codes + row * rows.code_size;
        int16_t products[4 * GROUP_ROWS];
        switch (count) {
            case 1:
                group_products<1>(query, codes, rows.offsets + row, rows.code_size, products);
                break;
            case 2:
                group_products<2>(query, codes, rows.offsets + row, rows.code_size, products);
                break;
            case 3:
                group_products<3>(query, codes, rows.offsets + row, rows.code_size, products);
                break;
            default:
                group_products<4>(query, codes, rows.offsets + row, rows.code_size, products);
        }
        for (int64_t i = 0; i < count * GROUP_ROWS; ++i) {
            bounds[group * GROUP_ROWS + i] = finite((static_cast<float>(products[i]) + slack) * rows.scales[row + i]);
        }
    }
}

void rank_tiles(const CodedRows& centres, int64_t n_groups, int64_t n_factors, const Askers& askers, int64_t n_queries,
                double reach, float* nears) {
    for (int64_t query = 0; query < n_queries; ++query) {
        const AskerTerms& terms = askers.terms[query];
        float* own = nears + query * n_groups * GROUP_ROWS;
        coded_bounds(centres, 0, n_groups, askers.codes + query * centres.code_size,
                     slack_of(terms, n_factors, centres.code_size, reach), own);
        for (int64_t i = 0; i < n_groups * GROUP_ROWS; ++i) {
            const float near = own[i] < LARGEST ? finite(own[i] * terms.scale) : LARGEST;
            own[i] = centres.scales[i] > 0.0f ? near : -__builtin_inff();  // there is no such tile
        }
    }
}

// The tile whose centre is nearest: |v - c|^2 / 2 less |v|^2 / 2 is |c|^2 / 2 - v . c.
void nearest_tiles(const CodedRows& centres, const float* halves, int64_t n_tiles, const Askers& askers,
                   int64_t n_queries, const int32_t* taken, float* bounds, int32_t* tiles) {
    const int64_t n_groups = (n_tiles + GROUP_ROWS - 1) / GROUP_ROWS;
    for (int64_t query = 0; query < n_queries; ++query) {
        coded_bounds(centres, 0, n_groups, askers.codes + query * centres.code_size, 0.0f, bounds);
        const float scale = askers.terms[query].scale;
        if (taken) bounds[taken[query]] = -__builtin_inff();
        float best = -__builtin_inff();
        int32_t tile = 0;
        for (int64_t t = 0; t < n_tiles; ++t) {
            const float value = bounds[t] * scale - halves[t];
            tile = value > best ? static_cast<int32_t>(t) : tile;
            best = value > best ? value : best;
        }
        tiles[query] = tile;
    }
}

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
        for (uint64_t left = found & (found - 1); left; left &= left - 1) {
            const int64_t place = places[from + __builtin_ctzll(left)];
            const float* item = scan.items.factors + place * scan.items.n_factors;
            for (int64_t j = 0; j < scan.items.n_factors && j < 128; j += 16) __builtin_prefetch(item + j);
        }
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
            const float* item = scan.items.factors + scan.filed.places[rows.first + at] * scan.items.n_factors;
            for (int64_t j = 0; j < scan.items.n_factors && j < 128; j += 16) __builtin_prefetch(item + j);
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
