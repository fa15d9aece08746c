// Selection: the best k answers as a heap, and the largest of many keys. Included by kernels.cpp, once per level.

// The best answers of one query so far, as a heap with the worst first: by score, then by row.
struct Heap {
    float* scores;
    int64_t* ranks;
    int64_t count;
    int64_t k;

    bool is_full() const { return count == k; }
    float worst() const { return scores[0]; }
};

bool is_worse(float score, int64_t rank, float other_score, int64_t other_rank) {
    return score < other_score || (score == other_score && rank > other_rank);
}

void sift_down(const Heap& heap, int64_t at) {
    const float score = heap.scores[at];
    const int64_t rank = heap.ranks[at];
    while (true) {
        int64_t child = 2 * at + 1;
        if (child >= heap.count) break;
        if (child + 1 < heap.count &&
            is_worse(heap.scores[child + 1], heap.ranks[child + 1], heap.scores[child], heap.ranks[child]))
            ++child;
        if (!is_worse(heap.scores[child], heap.ranks[child], score, rank)) break;
        heap.scores[at] = heap.scores[child];
        heap.ranks[at] = heap.ranks[child];
        at = child;
    }
    heap.scores[at] = score;
    heap.ranks[at] = rank;
}

void sift_up(const Heap& heap, int64_t at) {
    const float score = heap.scores[at];
    const int64_t rank = heap.ranks[at];
    while (at > 0) {
        const int64_t parent = (at - 1) / 2;
        if (!is_worse(score, rank, heap.scores[parent], heap.ranks[parent])) break;
        heap.scores[at] = heap.scores[parent];
        heap.ranks[at] = heap.ranks[parent];
        at = parent;
    }
    heap.scores[at] = score;
    heap.ranks[at] = rank;
}

// Whether an answer belongs in the heap.
bool is_wanted(const Heap& heap, float score, int64_t rank) {
    return !heap.is_full() || is_worse(heap.scores[0], heap.ranks[0], score, rank);
}

void keep(Heap& heap, float score, int64_t rank) {
    if (!heap.is_full()) {
        heap.scores[heap.count] = score;
        heap.ranks[heap.count] = rank;
        sift_up(heap, heap.count++);
    } else if (is_wanted(heap, score, rank)) {
        heap.scores[0] = score;
        heap.ranks[0] = rank;
        sift_down(heap, 0);
    }
}

// Sorts a heap, best first.
void sort_heap(Heap heap) {
    while (heap.count > 1) {
        const int64_t last = --heap.count;
        const float score = heap.scores[0];
        const int64_t rank = heap.ranks[0];
        heap.scores[0] = heap.scores[last];
        heap.ranks[0] = heap.ranks[last];
        heap.scores[last] = score;
        heap.ranks[last] = rank;
        sift_down(heap, 0);
    }
}

Heap heap_of(const TopK& best, int64_t query) {
    return {best.scores + query * best.stride, best.ranks + query * best.stride, best.counts[query], best.k};
}

void sort_answers(const TopK& best, int64_t n_queries) {
    for (int64_t query = 0; query < n_queries; ++query)
        if (!best.ordered[query]) sort_heap(heap_of(best, query));
}

// The `wanted`-th largest of the keys between low and high. Counts keys by their leading bits, and then examines only
// those with the bits at the border, so most keys are neither moved nor sorted. No branch depends on a key: if keys
// come in random order, such a branch is mispredicted half of the time.
template <typename Key>
Key find_largest(const Key* keys, int64_t count, int64_t wanted, Key low, Key high) {
    constexpr int64_t FEW = 32;
    constexpr Key OUTSIDE = 256;
    while (true) {
        const Key span = high - low;
        const int width = span ? 64 - __builtin_clzll(span) : 0;
        const int shift = width > 8 ? width - 8 : 0;
        int32_t counts[OUTSIDE + 1] = {};
        for (int64_t i = 0; i < count; ++i) {
            const Key above = keys[i] - low;
            ++counts[above <= span ? above >> shift : OUTSIDE];
        }
        int64_t border = OUTSIDE - 1;
        while (counts[border] < wanted) wanted -= counts[border--];
        low += static_cast<Key>(border) << shift;
        if (shift == 0) return low;
        high = low + ((Key{1} << shift) - 1);
        if (counts[border] > FEW) continue;
        Key few[FEW + 1];
        int64_t n_few = 0;
        for (int64_t i = 0; i < count; ++i) {
            few[n_few] = keys[i];
            n_few += keys[i] - low <= high - low;
        }
        for (int64_t i = 1; i < n_few; ++i) {
            const Key key = few[i];
            int64_t at = i;
            for (; at > 0 && few[at - 1] < key; --at) few[at] = few[at - 1];
            few[at] = key;
        }
        return few[wanted - 1];
    }
}

// The smallest and the largest of some keys.
template <typename Key>
struct Range {
    Key low;
    Key high;
};

template <typename Key>
Range<Key> range_of(const Key* keys, int64_t count) {
    Range<Key> range = {static_cast<Key>(~Key{0}), 0};
    for (int64_t i = 0; i < count; ++i) {
        range.low = keys[i] < range.low ? keys[i] : range.low;
        range.high = keys[i] > range.high ? keys[i] : range.high;
    }
    return range;
}

int64_t index_of_smallest(const uint64_t* keys, int64_t count) {
    uint64_t least = keys[0];
    for (int64_t i = 1; i < count; ++i) least = keys[i] < least ? keys[i] : least;
    int64_t at = 0;
    while (keys[at] != least) ++at;
    return at;
}

// Keeps the `wanted` largest of more keys than that, without reordering them, and returns the smallest of them.
uint64_t keep_largest(uint64_t* keys, int64_t& count, int64_t wanted) {
    constexpr int64_t FEW = 8;  // up to this many are dropped one by one
    if (count - wanted <= FEW) {
        while (count > wanted) {
            const int64_t at = index_of_smallest(keys, count--);
            __builtin_memmove(keys + at, keys + at + 1, static_cast<size_t>(count - at) * sizeof *keys);
        }
        return keys[index_of_smallest(keys, count)];
    }
    const auto [low, high] = range_of(keys, count);
    const uint64_t least = find_largest(keys, count, wanted, low, high);
    int64_t kept = 0;
    for (int64_t i = 0; i < count; ++i) {
        keys[kept] = keys[i];
        kept += keys[i] >= least;
    }
    count = kept;
    return least;
}
