// Certified exact search: queries -> the true top k. Included by kernels.cpp, once per level.
//
// Items are stored in blocks of 64 in order of falling norm. Items and queries have integer codes, and the product of
// two codes plus some slack bounds the score from above. An item whose bound is below the k-th best score is skipped;
// the others are scored. Integer sums are the same at every level, so a level cannot change which items are skipped.

// The code products of a block's 64 items, in 64-byte aligned memory. A pair of codes of at most 127 times another such
// pair is at most 32,258, so no pair saturates.
void code_products(const uint8_t* query, const int8_t* codes, const int16_t* offsets, int64_t code_size,
                   int16_t* products) {
#if defined(__AVX512BW__)
    __m512i a = _mm512_loadu_si512(offsets);
    __m512i b = _mm512_loadu_si512(offsets + 32);
    for (int64_t at = 0; at < code_size; at += 2, codes += 2 * BLOCK_ITEMS) {
        int16_t both;
        __builtin_memcpy(&both, query + at, sizeof both);
        const __m512i factor = _mm512_set1_epi16(both);
        a = _mm512_add_epi16(a, _mm512_maddubs_epi16(factor, _mm512_loadu_si512(codes)));
        b = _mm512_add_epi16(b, _mm512_maddubs_epi16(factor, _mm512_loadu_si512(codes + BLOCK_ITEMS)));
    }
    _mm512_store_si512(products, a);
    _mm512_store_si512(products + 32, b);
#elif defined(__AVX2__)
    const __m256i* start = reinterpret_cast<const __m256i*>(offsets);
    __m256i a = _mm256_loadu_si256(start);  // four variables, not an array, so that they stay in registers
    __m256i b = _mm256_loadu_si256(start + 1);
    __m256i c = _mm256_loadu_si256(start + 2);
    __m256i d = _mm256_loadu_si256(start + 3);
    const __m256i* column = reinterpret_cast<const __m256i*>(codes);
    for (int64_t at = 0; at < code_size; at += 2, column += 4) {
        int16_t both;
        __builtin_memcpy(&both, query + at, sizeof both);
        const __m256i factor = _mm256_set1_epi16(both);
        a = _mm256_add_epi16(a, _mm256_maddubs_epi16(factor, _mm256_loadu_si256(column)));
        b = _mm256_add_epi16(b, _mm256_maddubs_epi16(factor, _mm256_loadu_si256(column + 1)));
        c = _mm256_add_epi16(c, _mm256_maddubs_epi16(factor, _mm256_loadu_si256(column + 2)));
        d = _mm256_add_epi16(d, _mm256_maddubs_epi16(factor, _mm256_loadu_si256(column + 3)));
    }
    __m256i* to = reinterpret_cast<__m256i*>(products);
    _mm256_store_si256(to, a);
    _mm256_store_si256(to + 1, b);
    _mm256_store_si256(to + 2, c);
    _mm256_store_si256(to + 3, d);
#else
    uint16_t sums[BLOCK_ITEMS];
    for (int i = 0; i < BLOCK_ITEMS; ++i) sums[i] = static_cast<uint16_t>(offsets[i]);
    for (int64_t at = 0; at < code_size; at += 2) {
        const int8_t* column = codes + at * BLOCK_ITEMS;
        const int32_t one = query[at];
        const int32_t two = query[at + 1];
        for (int i = 0; i < BLOCK_ITEMS; ++i)
            sums[i] = static_cast<uint16_t>(sums[i] + one * column[2 * i] + two * column[2 * i + 1]);
    }
    for (int i = 0; i < BLOCK_ITEMS; ++i) products[i] = static_cast<int16_t>(sums[i]);
#endif
}

// Which of 64 numbers are at least `limit`, as bits.
uint64_t reaching(const int16_t* products, int32_t limit) {
    if (limit <= LEAST_PRODUCT) return ~uint64_t{0};
    if (limit >= BEYOND_PRODUCTS) return 0;
    uint64_t found = 0;
#if defined(__AVX512BW__)
    const __m512i bar = _mm512_set1_epi16(static_cast<int16_t>(limit));
    for (int v = 0; v < 2; ++v)
        found |= static_cast<uint64_t>(_mm512_cmpge_epi16_mask(_mm512_loadu_si512(products + 32 * v), bar)) << (32 * v);
#elif defined(__AVX2__)
    const __m256i bar = _mm256_set1_epi16(static_cast<int16_t>(limit - 1));
    const __m256i* sums = reinterpret_cast<const __m256i*>(products);
    for (int v = 0; v < 4; v += 2) {
        const __m256i packed =
            _mm256_permute4x64_epi64(_mm256_packs_epi16(_mm256_cmpgt_epi16(_mm256_loadu_si256(sums + v), bar),
                                                        _mm256_cmpgt_epi16(_mm256_loadu_si256(sums + v + 1), bar)),
                                     0xd8);
        found |= static_cast<uint64_t>(static_cast<uint32_t>(_mm256_movemask_epi8(packed))) << (16 * v);
    }
#else
    for (int i = 0; i < BLOCK_ITEMS; ++i) found |= static_cast<uint64_t>(products[i] >= limit) << i;
#endif
    return found;
}

int16_t largest(const int16_t* products) {
#if defined(__AVX2__)
    const __m256i* sums = reinterpret_cast<const __m256i*>(products);
    const __m256i most = _mm256_max_epi16(_mm256_max_epi16(_mm256_load_si256(sums), _mm256_load_si256(sums + 1)),
                                          _mm256_max_epi16(_mm256_load_si256(sums + 2), _mm256_load_si256(sums + 3)));
    const __m128i half = _mm_max_epi16(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
    // There is an instruction for the minimum of eight unsigned numbers, so the order is inverted.
    const __m128i inverted = _mm_xor_si128(half, _mm_set1_epi16(0x7fff));
    return static_cast<int16_t>(_mm_extract_epi16(_mm_minpos_epu16(inverted), 0) ^ 0x7fff);
#else
    int16_t most = products[0];
    for (int i = 1; i < BLOCK_ITEMS; ++i) most = products[i] > most ? products[i] : most;
    return most;
#endif
}

constexpr int64_t STRETCH_BLOCKS = 32;
constexpr int64_t NEXT_BLOCKS = 8;        // the most blocks of the stretches after the first
constexpr int64_t NEXT_BYTES = 24 << 10;  // the most bytes of their codes, so that they fit in the L1 cache

int64_t next_blocks(int64_t code_size) {
    const int64_t n = NEXT_BYTES / (BLOCK_ITEMS * code_size);
    return n < 1 ? 1 : n < NEXT_BLOCKS ? n : NEXT_BLOCKS;
}

// The largest error of a product of codes.
double slack_of(const ExactQueryTerms& terms, const BlockTerms& of_block) {
    return terms.norm * of_block.error + terms.error * of_block.coded_norm;
}

// Which places of the block that begins at `first` hold an item, as bits.
uint64_t items_there(const Items& items, int64_t first) {
    const int64_t n = items.n_items - first;
    return n < BLOCK_ITEMS ? (uint64_t{1} << n) - 1 : ~uint64_t{0};
}

struct ExactScan {
    const Items& items;
    const ExactCodes& codes;
    const Queries& queries;
    const ExactQueries& coded;
};

// One query and the blocks of one stretch.
struct Stretch {
    int64_t first;
    int64_t n_blocks;
    alignas(64) int16_t products[STRETCH_BLOCKS][BLOCK_ITEMS];
    int32_t done[STRETCH_BLOCKS];     // items with products of at least this are done
    uint64_t marked[STRETCH_BLOCKS];  // items to score next, as bits
};

// Marks the items of a block with products of at least `limit` that are not done, and prefetches their factors.
void mark(const ExactScan& scan, Stretch& stretch, int64_t block, int32_t limit) {
    const int16_t* products = stretch.products[block];
    uint64_t found = reaching(products, limit);
    if (found && stretch.done[block] < BEYOND_PRODUCTS) found &= ~reaching(products, stretch.done[block]);
    const int64_t first = (stretch.first + block) * BLOCK_ITEMS;
    found &= items_there(scan.items, first);
    stretch.marked[block] = found;
    for (; found; found &= found - 1) prefetch(scan.items, first + __builtin_ctzll(found));
}

// Scores the marked items of a block with products of at least `limit`, which may have risen since they were marked.
void score_marked(const ExactScan& scan, int64_t query, const Stretch& stretch, int64_t block, int32_t limit,
                  Heap& heap, int64_t& n_scored) {
    for (uint64_t left = stretch.marked[block]; left; left &= left - 1) {
        const int64_t at = __builtin_ctzll(left);
        if (stretch.products[block][at] < limit) continue;
        offer(scan.items, scan.queries, query, (stretch.first + block) * BLOCK_ITEMS + at, false, heap, n_scored);
    }
}

// Truncation never rules out a product at or above the limit: it lowers positive limits, and raises negative ones to
// the next integer, which is harmless because products are integers.
int32_t clamped(double limit) {
    if (limit > static_cast<double>(BEYOND_PRODUCTS)) return BEYOND_PRODUCTS;
    return limit < static_cast<double>(LEAST_PRODUCT) ? LEAST_PRODUCT : static_cast<int32_t>(limit);
}

// While there are fewer than k answers, nothing can be skipped, so the items with the largest bounds are scored first.
// The limit is the n-th largest of the blocks' best products; n is doubled until there are k answers.
void score_best_bounded(const ExactScan& scan, int64_t query, Stretch& stretch, Heap& heap, int64_t& n_scored) {
    double best_products[STRETCH_BLOCKS];
    for (int64_t block = 0; block < stretch.n_blocks; ++block)
        best_products[block] =
            scan.codes.terms[stretch.first + block].scale * static_cast<double>(largest(stretch.products[block]));
    for (int64_t block = 1; block < stretch.n_blocks; ++block) {  // few, and nearly sorted: the longest come first
        const double product = best_products[block];
        int64_t at = block;
        for (; at > 0 && best_products[at - 1] < product; --at) best_products[at] = best_products[at - 1];
        best_products[at] = product;
    }
    for (int64_t deep = heap.k - heap.count + 1; !heap.is_full() && deep < stretch.n_blocks; deep *= 2) {
        int32_t limits[STRETCH_BLOCKS];
        for (int64_t block = 0; block < stretch.n_blocks; ++block) {
            limits[block] = clamped(best_products[deep] / scan.codes.terms[stretch.first + block].scale);
            mark(scan, stretch, block, limits[block]);
        }
        for (int64_t block = 0; block < stretch.n_blocks; ++block) {
            score_marked(scan, query, stretch, block, limits[block], heap, n_scored);
            stretch.done[block] = limits[block] < stretch.done[block] ? limits[block] : stretch.done[block];
        }
    }
}

// Returns false when no later block can hold an answer.
bool scan_stretch(const ExactScan& scan, int64_t query, Stretch& stretch, Heap& heap, int64_t& n_scored) {
    const ExactQueryTerms& terms = scan.coded.terms[query];
    const int64_t code_size = scan.codes.code_size;
    const double underflow = static_cast<double>(scan.items.n_factors) * UNDERFLOW_LOSS;
    const auto too_short = [&](int64_t block) {
        return heap.is_full() &&
               terms.norm * scan.codes.terms[block].norm + underflow < static_cast<double>(heap.worst());
    };
    const auto limit = [&](int64_t block) {
        const BlockTerms& of_block = scan.codes.terms[stretch.first + block];
        if (!heap.is_full()) return LEAST_PRODUCT;
        const double slack = slack_of(terms, of_block) + underflow;
        return clamped((static_cast<double>(heap.worst()) - slack) / (terms.scale * of_block.scale));
    };
    const bool filling = !heap.is_full();
    bool more = true;
    int64_t n_blocks = 0;
    for (; n_blocks < stretch.n_blocks; ++n_blocks) {
        const int64_t block = stretch.first + n_blocks;
        more = !too_short(block);
        if (!more) break;
        code_products(scan.coded.codes + query * code_size, scan.codes.codes + block * code_size * BLOCK_ITEMS,
                      scan.codes.offsets + block * BLOCK_ITEMS, code_size, stretch.products[n_blocks]);
        stretch.done[n_blocks] = BEYOND_PRODUCTS;
        if (!filling) mark(scan, stretch, n_blocks, limit(n_blocks));
    }
    stretch.n_blocks = n_blocks;
    if (filling) {
        score_best_bounded(scan, query, stretch, heap, n_scored);
        for (int64_t block = 0; block < n_blocks; ++block) mark(scan, stretch, block, limit(block));
    }
    for (int64_t block = 0; block < n_blocks; ++block)
        if (stretch.marked[block]) score_marked(scan, query, stretch, block, limit(block), heap, n_scored);
    return more;
}

// Each stretch of blocks, small enough for the cache, is scanned for all queries before the next stretch.
void scan_exact(const Items& items, const ExactCodes& codes, const Queries& queries, const ExactQueries& coded,
                uint8_t* open, const TopK& best) {
    const ExactScan scan = {items, codes, queries, coded};
    const int64_t n_blocks = (items.n_items + BLOCK_ITEMS - 1) / BLOCK_ITEMS;
    const int64_t next = next_blocks(codes.code_size);
    Stretch stretch;
    for (int64_t query = 0; query < queries.n_queries; ++query) open[query] = 1;
    for (int64_t first = 0, length = STRETCH_BLOCKS; first < n_blocks; first += length, length = next)
        for (int64_t query = 0; query < queries.n_queries; ++query) {
            if (!open[query]) continue;
            Heap heap = heap_of(best, query);
            stretch.first = first;
            stretch.n_blocks = n_blocks - first < length ? n_blocks - first : length;
            open[query] = scan_stretch(scan, query, stretch, heap, best.n_scored[query]);
            best.counts[query] = heap.count;
        }
}

// A float that is at least as large.
float above(double value) {
    const double more = value + 2e-7 * __builtin_fabs(value);
    return more < static_cast<double>(LARGEST_BOUND) ? static_cast<float>(more) : LARGEST_BOUND;
}

// Visits blocks like scan_exact, but gathers items instead of scoring them. The norm of a tail is known, but not its
// direction: a score may be lower than the product of sketches by twice the product of tails. With a `share` of the
// slack below 1, bounds are only likely, not certain.
void gather_exact(const Items& items, const ExactCodes& codes, const Queries& queries, const ExactQueries& coded,
                  double share, uint8_t* open, const Gathered& gathered) {
    const int64_t n_blocks = (items.n_items + BLOCK_ITEMS - 1) / BLOCK_ITEMS;
    const double underflow = static_cast<double>(items.n_factors) * UNDERFLOW_LOSS;
    for (int64_t query = 0; query < queries.n_queries; ++query) {
        gathered.cuts[query].spare = static_cast<float>(2.0 * underflow);
        open[query] = 1;
    }
    const auto gather_block = [&](int64_t query, int64_t block, Gatherer& gatherer) {
        const ExactQueryTerms& terms = coded.terms[query];
        const BlockTerms& of_block = codes.terms[block];
        alignas(64) int16_t products[BLOCK_ITEMS];
        if (terms.norm * of_block.norm + underflow < static_cast<double>(gatherer.cut->value)) return false;
        code_products(coded.codes + query * codes.code_size, codes.codes + block * codes.code_size * BLOCK_ITEMS,
                      codes.offsets + block * BLOCK_ITEMS, codes.code_size, products);
        const double slack = share * slack_of(terms, of_block) + underflow;
        const double scale = terms.scale * of_block.scale;
        uint64_t found = reaching(products, clamped((static_cast<double>(gatherer.cut->value) - slack) / scale));
        const int64_t first = block * BLOCK_ITEMS;
        found &= items_there(items, first);
        if (!found) return true;
        if (!make_room(gatherer)) return false;
        const double below = slack + share * 2.0 * terms.tail * of_block.tail;
        for (; found; found &= found - 1) {
            const int64_t at = __builtin_ctzll(found);
            const double product = scale * static_cast<double>(products[at]);
            gather(items, queries, query, first + at, above(product + slack), -above(below - product), gatherer);
        }
        return true;
    };
    const int64_t next = next_blocks(codes.code_size);
    for (int64_t from = 0; from < n_blocks; from += next)
        for (int64_t query = 0; query < queries.n_queries; ++query) {
            if (!open[query]) continue;
            Gatherer gatherer = gatherer_of(gathered, query);
            const int64_t stop = n_blocks - from < next ? n_blocks : from + next;
            for (int64_t block = from; open[query] && block < stop; ++block)
                open[query] = !gatherer.cut->full && gather_block(query, block, gatherer);
            gathered.counts[query] = gatherer.count;
        }
}
