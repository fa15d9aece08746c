"""Where the time of a tile search goes, on one thread: coding queries, ranking tiles, codes of items, scores, Python.

Kernels are called as a search calls them, one after another, so that each can be timed. What it costs to score an item
is measured apart, and the scores are taken out of the scan. Appends to results/profile.jsonl.
"""

import argparse
import time
from collections.abc import Callable

import measure
import numpy as np
import sets

import tessella as ts
from tessella._kernels import core
from tessella.retrieval.filters import filters_for
from tessella.retrieval.found import Found
from tessella.retrieval.scoring import score_all
from tessella.retrieval.tile_search import QUERIES_PER_BATCH
from tessella.retrieval.tiles import Askers

K = 10
TURNS = 25


def least_seconds(call: Callable[[], object]) -> float:
    """The time of the fastest of several calls."""
    taken = []
    for _ in range(TURNS):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return min(taken)


def profile(name: str, factors: sets.Factors) -> dict[str, object]:
    """Print and return microseconds a query of every part, at the reach for a recall of 0.95."""
    items, users = factors.items, np.ascontiguousarray(factors.users[:QUERIES_PER_BATCH])
    index = ts.Index.build(items, schema=ts.LearnedTiles())
    reach = index.tune(factors.users).reach
    state, running = index._state, core()
    (segment,), tiling = state.segments, state.fitted.tiling
    filed = segment.filed
    nears = np.empty((len(users), len(tiling.coded.scales)), np.float32)
    askers = Askers.of(users)
    tiling.rank(askers, reach, nears)
    ((_, filters),) = filters_for(state, len(users), None, None)

    def scan() -> Found:
        found = Found.empty(len(users), K)
        running.kernels.tile_scan(
            segment.factors, segment.rows, segment.dead, 0,
            filed.places, filed.starts, filed.coded.codes, filed.coded.offsets, filed.coded.scales, filed.radii,
            users, askers.codes, askers.terms, nears, reach, None, filters.excluded, filters.excluded_starts,
            found.scores, found.answers, found.counts, found.scored, running.level,
        )  # fmt: skip
        return found

    found = index.search(users, K, reach=reach, threads=1)
    places = np.sort(np.random.default_rng(0).permutation(len(items))[:64])
    score = least_seconds(lambda: score_all(state, users, filters, places, Found.empty(len(users), K)))
    whole = least_seconds(lambda: index.search(users, K, reach=reach, threads=1))
    parts = {
        "code the query": least_seconds(lambda: Askers.of(users)),
        "rank the tiles": least_seconds(lambda: tiling.rank(askers, reach, nears)),
        "score items exactly": score / len(places) * float(found.scored.mean()),
    }
    parts["visit tiles and their codes"] = least_seconds(scan) - parts["score items exactly"]
    parts["Python, ids and order"] = max(0.0, whole - sum(parts.values()))
    exact = index.search(users, K, exact=True, threads=1)
    last = exact.scores[:, -1:]
    recall = float(np.mean(found.scores >= last - 1e-5 * np.abs(last)))
    shape = f"{len(items):,} x {items.shape[1]}, {len(tiling.centres):,} tiles"
    print(f"\n{name}: {shape}, reach {reach:g}, recall {recall:.4f}")
    print(f"  {1e6 * whole / len(users):6.2f} us a query, {found.scored.mean():.0f} items scored")
    for part, seconds in parts.items():
        print(f"  {1e6 * seconds / len(users):6.2f} us  {seconds / whole:4.0%}  {part}")
    row = parts["rank the tiles"] / len(users) / len(tiling.coded.scales)
    one_score = score / len(users) / len(places)
    print(f"  a coded row takes {1e9 * row:.2f} ns, an exact score {1e9 * one_score:.1f} ns")
    each = {part: seconds / len(users) for part, seconds in parts.items()}
    return {"set": name, "reach": reach, "recall": recall, "seconds": whole / len(users), "parts": each,
            "coded_row": row, "score": one_score}  # fmt: skip


def main() -> None:
    """Profile every set that is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="profile only sets whose names hold this")
    options = parser.parse_args()
    measure.settle_process()
    print("  ".join(f"{name} {value}" for name, value in measure.machine().items()))
    chosen = {name: (lambda name=name: sets.learned(name).sample(2000, None)) for name in sets.learned_names()}
    chosen["generated 1,000,000 x 64"] = lambda: sets.generated(1_000_000, 64, 2000)
    for name, factors in chosen.items():
        if options.only in name:
            measure.record("profile", profile(name, factors()))


if __name__ == "__main__":
    main()
