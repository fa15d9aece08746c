// Blocks of rows over plain threads. Nothing outlives the call, so a process may fork at any other time.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace tessella {

inline constexpr int64_t ROWS_PER_BLOCK = 512;

// Calls work(thread, first_row, last_row) until all rows are done, on `threads` threads counting the caller's. Blocks
// are handed out in no fixed order, so a block's work must not depend on another's. `work` must not throw.
template <typename Work>
void for_each_block(int64_t n_rows, int64_t threads, const Work& work) {
    std::atomic<int64_t> next{0};
    const auto run = [&](int64_t thread) {
        while (true) {
            const int64_t first = next.fetch_add(ROWS_PER_BLOCK);
            if (first >= n_rows) return;
            work(thread, first, first + ROWS_PER_BLOCK < n_rows ? first + ROWS_PER_BLOCK : n_rows);
        }
    };
    std::vector<std::thread> helpers;
    helpers.reserve(static_cast<size_t>(threads));
    try {
        for (int64_t thread = 1; thread < threads; ++thread) helpers.emplace_back(run, thread);
    } catch (const std::system_error&) {
        // The machine gives no more threads: those that started, and this one, do the work.
    }
    run(0);
    for (std::thread& helper : helpers) helper.join();
}

// How many threads are worth starting for so many rows.
inline int64_t useful_threads(int64_t n_rows, int64_t threads) {
    const int64_t blocks = (n_rows + ROWS_PER_BLOCK - 1) / ROWS_PER_BLOCK;
    const int64_t useful = threads < blocks ? threads : blocks;
    return useful > 1 ? useful : 1;
}

}  // namespace tessella
