// The SIMD levels this processor can run.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels.hpp"

namespace tessella {

// Plainest first.
inline const std::vector<const Kernels*>& available_levels() {
    static const std::vector<const Kernels*> levels = [] {
        std::vector<const Kernels*> found = {&baseline_kernels()};
#if defined(TESSELLA_X86)
        __builtin_cpu_init();
        if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) found.push_back(&avx2_kernels());
        if (found.size() == 2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
            __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
            found.push_back(&avx512_kernels());
#endif
        return found;
    }();
    return levels;
}

}  // namespace tessella
