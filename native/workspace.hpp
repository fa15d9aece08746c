// Owns the scratch memory of a kernel, for one call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "kernels.hpp"

namespace tessella {

class OwnedWorkspace {
public:
    explicit OwnedWorkspace(int64_t n_factors) {
        const size_t wires = static_cast<size_t>(n_factors + 7) / 8 * 8;
        const size_t lanes = 16;
        size_t bytes = 0;
        const auto place = [&bytes](size_t size) {
            const size_t at = bytes;
            bytes += (size + 63) / 64 * 64;
            return at;
        };
        const size_t lanes_at = place(wires * lanes * sizeof(float));
        const size_t unit_at = place(wires * lanes * sizeof(float));
        const size_t prefix_at = place((wires + 1) * lanes * sizeof(double));
        const size_t wide_at = place(4 * wires * sizeof(double));
        const size_t rotated_at = place(4 * wires * sizeof(double));
        const size_t slots_at = place(wires * sizeof(int64_t));
        const size_t regions_at = place(wires * sizeof(int32_t));
        const size_t kept_slots_at = place((wires + 8) * sizeof(int64_t));
        const size_t kept_values_at = place((wires + 8) * sizeof(float));
        memory_.reset(static_cast<std::byte*>(::operator new(bytes, std::align_val_t{64})));
        view.lanes = reinterpret_cast<float*>(memory_.get() + lanes_at);
        view.unit = reinterpret_cast<float*>(memory_.get() + unit_at);
        view.prefix = reinterpret_cast<double*>(memory_.get() + prefix_at);
        view.wide = reinterpret_cast<double*>(memory_.get() + wide_at);
        view.rotated = reinterpret_cast<double*>(memory_.get() + rotated_at);
        view.slots = reinterpret_cast<int64_t*>(memory_.get() + slots_at);
        view.regions = reinterpret_cast<int32_t*>(memory_.get() + regions_at);
        view.kept_slots = reinterpret_cast<int64_t*>(memory_.get() + kept_slots_at);
        view.kept_values = reinterpret_cast<float*>(memory_.get() + kept_values_at);
    }

    Workspace view;

private:
    struct Release {
        void operator()(std::byte* memory) const { ::operator delete(memory, std::align_val_t{64}); }
    };
    std::unique_ptr<std::byte, Release> memory_;
};

}  // namespace tessella
