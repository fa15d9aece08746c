"""Where the time of a tile search goes, on one thread: coding queries, bounding tiles, codes of items, scores, Python.

The engine answers in one call, so the parts are computed as differences: an engine with few items only codes queries
and bounds tiles; one with few tiles too does little but code queries. The cost of scoring an item is measured
separately, and subtracted from that of visiting tiles. Appends to results/profile.jsonl.
"""

import argparse
import functools
from collections.abc import Callable
from dataclasses import replace

import measure
import numpy as np
import sets
from methods import timed

import tessella as ts
from tessella.retrieval.engine import Answers, Engine
from tessella.retrieval.plan import setting_for
from tessella.search.filters import filter_for
from tessella.search.recall import recall
from tessella.search.route import QUERIES_PER_CALL
from tessella.versions.segment import Items, Segment

K = 10
TURNS = 25
FEW = 16  # items and tiles
SCORED = 64


def least_seconds(call: Callable[[], object]) -> float:
    """Return the time of the fastest of several calls."""
    return min(timed(call)[1] for _ in range(TURNS))


def with_few_items(index: ts.Index, n_tiles: int) -> Engine:
    """Return an engine with some of the tiles of an index, and its longest items, which every query visits."""
    version = index._version
    tiling = replace(version.fitted.tiling, centres=version.fitted.tiling.centres[:n_tiles])
    fitted = replace(version.fitted, tiling=tiling)
    longest = Items(*(part[:FEW] for part in version.segments[0].live_items))
    radii = version.radii[: len(tiling.coded.scales)]
    return Engine(fitted, [Segment.build(longest, fitted)], radii, (version.longest, version.longest_held))


def profile(name: str, factors: sets.Factors) -> dict[str, object]:
    """Print and return microseconds per query of every part, at the reach for a recall of 0.95."""
    items, users = factors.items, np.ascontiguousarray(factors.users[: QUERIES_PER_CALL[1]])
    index = ts.Index.build(items, method="tiles")
    reach = next(trial.method.reach for trial in index.tune(factors.users).trials if trial.method.name == "tiles")
    tiles, version = ts.Tiles(reach), index._version
    n_tiles = len(version.fitted.tiling.centres)
    answers = Answers.empty(len(users), K)

    def engine_seconds(engine: Engine, allow: np.ndarray | None = None) -> float:
        setting = setting_for(tiles, K, len(index), index.n_factors)
        rows = None if allow is None else filter_for(version, len(users), None, allow)
        return least_seconds(functools.partial(engine.search, users, setting, None, rows, answers))

    allowed = np.sort(np.random.default_rng(0).permutation(len(items))[:SCORED])
    one_score = engine_seconds(version.engine, allowed) / SCORED
    few_tiles, all_tiles = (engine_seconds(with_few_items(index, n)) - FEW * one_score for n in (FEW, n_tiles))
    row = (all_tiles - few_tiles) / (n_tiles - FEW)
    in_engine = engine_seconds(version.engine)
    whole = least_seconds(lambda: index.search(users, K, method=tiles, threads=1))
    found = index.search(users, K, method=tiles, threads=1)
    parts = {
        "code the query": all_tiles - row * n_tiles,
        "rank the tiles": row * n_tiles,
        "score items exactly": one_score * float(found.n_scored.mean()),
    }
    parts["visit tiles and their codes"] = in_engine - sum(parts.values())
    parts["Python"] = max(0.0, whole - in_engine)
    got = float(recall(found.scores, index.search(users, K, exact=True).scores).mean())
    shape = f"{len(items):,} x {items.shape[1]}, {n_tiles:,} tiles"
    print(f"\n{name}: {shape}, reach {reach:g}, recall {got:.4f}")
    print(f"  {1e6 * whole / len(users):6.2f} us per query, {found.n_scored.mean():.0f} items scored")
    for part, seconds in parts.items():
        print(f"  {1e6 * seconds / len(users):6.2f} us  {seconds / whole:4.0%}  {part}")
    row, one_score = row / len(users), one_score / len(users)
    print(f"  a coded row takes {1e9 * row:.2f} ns, an exact score {1e9 * one_score:.1f} ns")
    each = {part: seconds / len(users) for part, seconds in parts.items()}
    return {"set": name, "reach": reach, "recall": got, "seconds": whole / len(users), "parts": each,
            "coded_row": row, "score": one_score}  # fmt: skip


def main() -> None:
    """Profile every available set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="profile only sets whose names contain this")
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
