// Factors -> prepared factors: checked, rotated, thresholded. Included by kernels.cpp, once per level.

// Whether a float is NaN or infinite.
uint32_t is_nonfinite(float value) {
    uint32_t bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return (bits & 0x7f800000u) == 0x7f800000u;
}

int64_t first_nonfinite(const float* factors, int64_t n, int64_t n_factors) {
    for (int64_t vector = 0; vector < n; ++vector) {
        const float* z = factors + vector * n_factors;
        uint32_t bad = 0;
        for (int64_t j = 0; j < n_factors; ++j) bad |= is_nonfinite(z[j]);
        if (bad) return vector;
    }
    return n;
}

constexpr int64_t ROTATED_TOGETHER = 4;  // vectors, so that an axis is loaded once for all of them

// Coordinates of up to four vectors along axes that are columns of a matrix, in double, each summed in sequence. `wide`
// has room for ROTATED_TOGETHER * n_factors numbers, `rotated` for ROTATED_TOGETHER * stride.
void rotate(const float* vectors, int64_t n, int64_t n_factors, const double* axes, int64_t n_axes, double* wide,
            int64_t stride, double* rotated) {
    for (int64_t i = 0; i < ROTATED_TOGETHER * n_factors; ++i)
        wide[i] = i < n * n_factors ? static_cast<double>(vectors[i]) : 0.0;
    const double* w0 = wide;
    const double* w1 = w0 + n_factors;
    const double* w2 = w1 + n_factors;
    const double* w3 = w2 + n_factors;
    for (int64_t next = 0; n_axes >= 8 && next < n_axes; next += 8) {
        const int64_t c = next < n_axes - 8 ? next : n_axes - 8;  // the last eight may overlap those before
        Doubles a0{}, a1{}, b0{}, b1{}, c0{}, c1{}, d0{}, d1{};
        for (int64_t j = 0; j < n_factors; ++j) {
            Doubles x0, x1;
            __builtin_memcpy(&x0, axes + j * n_axes + c, sizeof x0);
            __builtin_memcpy(&x1, axes + j * n_axes + c + 4, sizeof x1);
            a0 += w0[j] * x0;
            a1 += w0[j] * x1;
            b0 += w1[j] * x0;
            b1 += w1[j] * x1;
            c0 += w2[j] * x0;
            c1 += w2[j] * x1;
            d0 += w3[j] * x0;
            d1 += w3[j] * x1;
        }
        const Doubles sums[8] = {a0, a1, b0, b1, c0, c1, d0, d1};
        for (int64_t r = 0; r < ROTATED_TOGETHER; ++r)
            __builtin_memcpy(rotated + r * stride + c, sums + 2 * r, 2 * sizeof a0);
    }
    for (int64_t c = 0; n_axes < 8 && c < n_axes; ++c)
        for (int64_t r = 0; r < ROTATED_TOGETHER; ++r) {
            double sum = 0.0;
            for (int64_t j = 0; j < n_factors; ++j) sum += wide[r * n_factors + j] * axes[j * n_axes + c];
            rotated[r * stride + c] = sum;
        }
}

// Rotated coordinates are rounded to float only once.
void prepare(const float* factors, int64_t n, int64_t n_factors, const Preparation& how, const Workspace& space,
             float* prepared) {
    for (int64_t vector = 0; vector < n; ++vector) {
        const float* z = factors + vector * n_factors;
        float* out = prepared + vector * n_factors;
        if (how.rotation) {
            const int64_t at = vector % ROTATED_TOGETHER;
            if (at == 0)
                rotate(z, n - vector < ROTATED_TOGETHER ? n - vector : ROTATED_TOGETHER, n_factors, how.rotation,
                       n_factors, space.wide, n_factors, space.rotated);
            for (int64_t j = 0; j < n_factors; ++j) out[j] = static_cast<float>(space.rotated[at * n_factors + j]);
        } else {
            for (int64_t j = 0; j < n_factors; ++j) out[j] = z[j];
        }
        double cut = how.threshold;
        if (how.relative) cut *= __builtin_sqrt(sum_of_squares(out, n_factors) / static_cast<double>(n_factors));
        for (int64_t j = 0; j < n_factors; ++j) {
            const double magnitude = __builtin_fabsf(out[j]);
            out[j] = magnitude < cut ? 0.0f : out[j];
        }
    }
}

int64_t count_entries(const float* prepared, int64_t n, int64_t n_factors, int64_t* counts) {
    for (int64_t vector = 0; vector < n; ++vector) {
        const float* z = prepared + vector * n_factors;
        int32_t count = 0;
        uint32_t bad = 0;
        for (int64_t j = 0; j < n_factors; ++j) {
            count += z[j] != 0.0f;
            bad |= is_nonfinite(z[j]);
        }
        if (bad) return vector;
        counts[vector] = count;
    }
    return n;
}
