// Factors -> prepared factors: checked, rotated, thresholded. Included by kernels.cpp, once a level.

// Sum of squares in 16 fixed stripes folded in a fixed order.
double sum_of_squares(const float* row, int64_t n_factors) {
    double stripes[16] = {};
    int64_t j = 0;
    for (; j + 16 <= n_factors; j += 16)
        for (int l = 0; l < 16; ++l) stripes[l] += static_cast<double>(row[j + l]) * static_cast<double>(row[j + l]);
    for (int l = 0; j + l < n_factors; ++l)
        stripes[l] += static_cast<double>(row[j + l]) * static_cast<double>(row[j + l]);
    for (int half = 8; half > 0; half /= 2)
        for (int l = 0; l < half; ++l) stripes[l] += stripes[l + half];
    return stripes[0];
}

// Whether a float is NaN or infinite.
uint32_t is_bad(float value) {
    uint32_t bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return (bits & 0x7f800000u) == 0x7f800000u;
}

int64_t first_bad_row(const float* factors, int64_t n_rows, int64_t n_factors) {
    for (int64_t row = 0; row < n_rows; ++row) {
        const float* z = factors + row * n_factors;
        uint32_t bad = 0;
        for (int64_t j = 0; j < n_factors; ++j) bad |= is_bad(z[j]);
        if (bad) return row;
    }
    return n_rows;
}

// Coordinates are summed in order, in double, and rounded once.
void rotate_row(const float* row, int64_t n_factors, const double* rotation, double* sums, float* rotated) {
    for (int64_t c = 0; c < n_factors; ++c) sums[c] = 0.0;
    for (int64_t j = 0; j < n_factors; ++j) {
        const double z = row[j];
        const double* axis = rotation + j * n_factors;
        for (int64_t c = 0; c < n_factors; ++c) sums[c] += z * axis[c];
    }
    for (int64_t c = 0; c < n_factors; ++c) rotated[c] = static_cast<float>(sums[c]);
}

void prepare(const float* factors, int64_t n_rows, int64_t n_factors, const Preparation& how, const Workspace& space,
             float* prepared) {
    for (int64_t row = 0; row < n_rows; ++row) {
        const float* z = factors + row * n_factors;
        float* out = prepared + row * n_factors;
        if (how.rotation)
            rotate_row(z, n_factors, how.rotation, space.sums, out);
        else
            for (int64_t j = 0; j < n_factors; ++j) out[j] = z[j];
        double cut = how.threshold;
        if (how.relative) cut *= __builtin_sqrt(sum_of_squares(out, n_factors) / static_cast<double>(n_factors));
        for (int64_t j = 0; j < n_factors; ++j) {
            const double magnitude = __builtin_fabsf(out[j]);
            out[j] = magnitude < cut ? 0.0f : out[j];
        }
    }
}

int64_t count_entries(const float* prepared, int64_t n_rows, int64_t n_factors, int64_t* counts) {
    for (int64_t row = 0; row < n_rows; ++row) {
        const float* z = prepared + row * n_factors;
        int32_t count = 0;
        uint32_t bad = 0;
        for (int64_t j = 0; j < n_factors; ++j) {
            count += z[j] != 0.0f;
            bad |= is_bad(z[j]);
        }
        if (bad) return row;
        counts[row] = count;
    }
    return n_rows;
}
