// Scores, the best k of each query, and who may be among them. Included by kernels.cpp, once a level.

// Sum of products in 16 fixed stripes folded in a fixed order: the score of an item.
float score_of(const float* query, const float* item, int64_t n_factors) {
    float stripes[16] = {};
    int64_t j = 0;
    for (; j + 16 <= n_factors; j += 16)
        for (int l = 0; l < 16; ++l) stripes[l] += query[j + l] * item[j + l];
    for (int l = 0; j + l < n_factors; ++l) stripes[l] += query[j + l] * item[j + l];
    for (int half = 8; half > 0; half /= 2)
        for (int l = 0; l < half; ++l) stripes[l] += stripes[l + half];
    return stripes[0];
}

// The best answers of one query so far, worst first: a heap by (score, then earlier row).
struct Best {
    float* scores;
    int64_t* answers;  // row << 32 | place
    int64_t count;
    int64_t k;
};

bool worse(float score, int64_t answer, float other_score, int64_t other_answer) {
    return score < other_score || (score == other_score && answer > other_answer);
}

void sift_down(const Best& best, int64_t at) {
    const float score = best.scores[at];
    const int64_t answer = best.answers[at];
    while (true) {
        int64_t child = 2 * at + 1;
        if (child >= best.count) break;
        if (child + 1 < best.count &&
            worse(best.scores[child + 1], best.answers[child + 1], best.scores[child], best.answers[child]))
            ++child;
        if (!worse(best.scores[child], best.answers[child], score, answer)) break;
        best.scores[at] = best.scores[child];
        best.answers[at] = best.answers[child];
        at = child;
    }
    best.scores[at] = score;
    best.answers[at] = answer;
}

void sift_up(const Best& best, int64_t at) {
    const float score = best.scores[at];
    const int64_t answer = best.answers[at];
    while (at > 0) {
        const int64_t parent = (at - 1) / 2;
        if (!worse(score, answer, best.scores[parent], best.answers[parent])) break;
        best.scores[at] = best.scores[parent];
        best.answers[at] = best.answers[parent];
        at = parent;
    }
    best.scores[at] = score;
    best.answers[at] = answer;
}

void keep(Best& best, float score, int64_t answer) {
    if (best.count < best.k) {
        best.scores[best.count] = score;
        best.answers[best.count] = answer;
        sift_up(best, best.count++);
    } else if (worse(best.scores[0], best.answers[0], score, answer)) {
        best.scores[0] = score;
        best.answers[0] = answer;
        sift_down(best, 0);
    }
}

// From a heap to best first.
void sort_best(Best best) {
    while (best.count > 1) {
        const int64_t last = --best.count;
        const float score = best.scores[0];
        const int64_t answer = best.answers[0];
        best.scores[0] = best.scores[last];
        best.answers[0] = best.answers[last];
        best.scores[last] = score;
        best.answers[last] = answer;
        sift_down(best, 0);
    }
}

void sort_found(const BestArrays& found, int64_t n_queries) {
    for (int64_t query = 0; query < n_queries; ++query)
        sort_best({found.scores + query * found.k, found.answers + query * found.k, found.counts[query], found.k});
}

bool contains(const int64_t* sorted, int64_t n, int64_t value) {
    while (n > 0) {
        const int64_t half = n / 2;
        if (sorted[half] == value) return true;
        if (sorted[half] < value) {
            sorted += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return false;
}

// Whether an item is there and may be an answer to any query.
bool present(const Items& items, const Queries& queries, int64_t place) {
    const int64_t row = items.rows[place];
    if (is_dead(items.dead, place)) return false;
    return !queries.allowed || (queries.allowed[row / 8] >> (row % 8) & 1);
}

// Whether one query leaves an item out.
bool is_excluded(const Queries& queries, int64_t query, int64_t row) {
    const int64_t first = queries.excluded_starts[query];
    const int64_t n = queries.excluded_starts[query + 1] - first;
    return n > 0 && contains(queries.excluded + first, n, row);
}

// Has an item's factor, or the first part of a long one, on the way from memory.
void fetch(const Items& items, int64_t place) {
    const float* item = items.factors + place * items.n_factors;
    for (int64_t j = 0; j < items.n_factors && j < 128; j += 16) __builtin_prefetch(item + j);
}

int64_t answer_of(const Items& items, int64_t place) {
    return static_cast<int64_t>(items.rows[place]) << 32 | (items.base + place);
}

Best best_of(const BestArrays& found, int64_t query) {
    return {found.scores + query * found.k, found.answers + query * found.k, found.counts[query], found.k};
}

// Scores an item and keeps it if it is there, may be an answer, and is among the best so far; whether it was kept.
// Items that may be `repeated` are looked for among the answers.
bool offer(const Items& items, const Queries& queries, int64_t query, int64_t place, bool repeated, Best& best,
           int64_t& scored) {
    if (!present(items, queries, place)) return false;
    const int64_t answer = answer_of(items, place);
    const float* factor = queries.factors + query * items.n_factors;
    const float score = score_of(factor, items.factors + place * items.n_factors, items.n_factors);
    ++scored;
    if (best.count == best.k && !worse(best.scores[0], best.answers[0], score, answer)) return false;
    if (is_excluded(queries, query, answer >> 32)) return false;
    for (int64_t i = 0; repeated && i < best.count; ++i)
        if (best.answers[i] == answer) return false;
    keep(best, score, answer);
    return true;
}
