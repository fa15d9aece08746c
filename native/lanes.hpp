// Vectors in lanes: loaded transposed, sorted, summed. Included by kernels.cpp, once per level.

// GCC's and Clang's portable vectors, of the level's register width. A wire holds one magnitude of each of LANES
// vectors. Magnitudes are compared as integers: non-negative floats sort like their bits, and without -ffast-math
// compilers recognise a maximum and a minimum only of integers.
typedef int32_t Wire __attribute__((vector_size(4 * LANES), may_alias));
typedef float WholeFloats __attribute__((vector_size(4 * LANES), may_alias));
typedef float HalfFloats __attribute__((vector_size(2 * LANES), may_alias));
typedef double HalfDoubles __attribute__((vector_size(4 * LANES), may_alias));

// |factors| of up to LANES vectors, one per lane, padded with zero wires to a multiple of 8.
void load_magnitudes(const float* factors, int64_t n, int64_t n_factors, float* lanes) {
    for (int64_t j = n_factors; j % 8 != 0; ++j)
        for (int64_t l = 0; l < LANES; ++l) lanes[j * LANES + l] = 0.0f;
    for (int64_t l = 0; l < LANES; ++l)
        for (int64_t j = 0; j < n_factors; ++j)
            lanes[j * LANES + l] = l < n ? __builtin_fabsf(factors[l * n_factors + j]) : 0.0f;
}

void order(Wire& upper, Wire& lower) {
    const Wire a = upper;
    const Wire b = lower;
    upper = a > b ? a : b;
    lower = a > b ? b : a;
}

void sort_eight(Wire* w) {  // 19 comparators
    Wire a = w[0], b = w[1], c = w[2], d = w[3], e = w[4], f = w[5], g = w[6], h = w[7];
    order(a, c), order(b, d), order(e, g), order(f, h);
    order(a, e), order(b, f), order(c, g), order(d, h);
    order(a, b), order(c, d), order(e, f), order(g, h);
    order(c, e), order(d, f);
    order(b, e), order(d, g);
    order(b, c), order(d, e), order(f, g);
    w[0] = a, w[1] = b, w[2] = c, w[3] = d, w[4] = e, w[5] = f, w[6] = g, w[7] = h;
}

void merge_eight(Wire* w) {  // the last three stages of a bitonic merge
    Wire a = w[0], b = w[1], c = w[2], d = w[3], e = w[4], f = w[5], g = w[6], h = w[7];
    order(a, e), order(b, f), order(c, g), order(d, h);
    order(a, c), order(b, d), order(e, g), order(f, h);
    order(a, b), order(c, d), order(e, f), order(g, h);
    w[0] = a, w[1] = b, w[2] = c, w[3] = d, w[4] = e, w[5] = f, w[6] = g, w[7] = h;
}

// Bitonic merge sort, descending in every lane. Every comparator puts the larger value on the wire with the smaller
// number. So imaginary wires beyond the last would hold minus infinity throughout: their comparators are left out, and
// any number of wires can be sorted.
void sort_lanes(float* lanes, int64_t n_factors) {
    Wire* w = reinterpret_cast<Wire*>(lanes);
    const int64_t n = (n_factors + 7) / 8 * 8;
    for (int64_t i = 0; i < n; i += 8) sort_eight(w + i);
    for (int64_t run = 8; run < n; run *= 2) {
        for (int64_t base = 0; base + run < n; base += 2 * run) {
            const int64_t mirror = 2 * (base + run) - 1;
            const int64_t first = mirror - n + 1 > base ? mirror - n + 1 : base;
            for (int64_t i = first; i < base + run; ++i) order(w[i], w[mirror - i]);
        }
        for (int64_t stride = run / 2; stride >= 8; stride /= 2)
            for (int64_t base = 0; base + stride < n; base += 2 * stride)
                for (int64_t i = base; i < base + stride && i + stride < n; ++i) order(w[i], w[i + stride]);
        for (int64_t i = 0; i < n; i += 8) merge_eight(w + i);
    }
}

// prefix[i * LANES + l]: the sum of the first i magnitudes of lane l.
void running_sums(const float* lanes, int64_t n_wires, double* prefix) {
    for (int64_t l = 0; l < LANES; l += LANES / 2) {
        HalfDoubles sum = {};
        *reinterpret_cast<HalfDoubles*>(prefix + l) = sum;
        for (int64_t i = 0; i < n_wires; ++i) {
            sum += __builtin_convertvector(*reinterpret_cast<const HalfFloats*>(lanes + i * LANES + l), HalfDoubles);
            *reinterpret_cast<HalfDoubles*>(prefix + (i + 1) * LANES + l) = sum;
        }
    }
}
