// Owns the memory that kernels work in, one Workspace for each thread of a call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "kernels.hpp"

namespace tessella {

class Workspaces {
public:
    Workspaces(int64_t threads, int64_t n_factors) {
        const size_t wires = static_cast<size_t>(n_factors + 7) / 8 * 8;
        const size_t lanes = 16;
        for (int64_t thread = 0; thread < threads; ++thread)
            spaces_.push_back({
                take<float>(wires * lanes),
                take<float>(wires * lanes),
                take<double>((wires + 1) * lanes),
                take<double>(wires),
                take<int64_t>(wires),
                take<int32_t>(wires),
                take<int64_t>(wires + 8),
                take<float>(wires + 8),
            });
    }

    const Workspace& operator[](int64_t thread) const { return spaces_[static_cast<size_t>(thread)]; }

private:
    struct Release {
        void operator()(void* memory) const { ::operator delete(memory, std::align_val_t{64}); }
    };

    template <typename Item>
    Item* take(size_t count) {
        memory_.emplace_back(::operator new(count * sizeof(Item), std::align_val_t{64}));
        return static_cast<Item*>(memory_.back().get());
    }

    std::vector<std::unique_ptr<void, Release>> memory_;
    std::vector<Workspace> spaces_;
};

}  // namespace tessella
