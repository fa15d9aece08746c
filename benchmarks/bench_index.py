"""Exact, certified search against faiss Flat and the best approximate peers: one thread, one run, recall with speed.

Real factors are read from factors/ in the folder that TESSELLA_DATA names (or ../shared/data): a folder for each set,
with items.npy and users.npy. Sets that are not there are left out. Appends to results/index.jsonl.
"""

import argparse
import os
import time
from pathlib import Path

import measure
import numpy as np
import peers

import tessella as ts

K = 10
EXACT_GOALS = {
    "gowalla-als-k64": 8.0,
    "gowalla-als-alpha20-k64": 7.0,
    "gowalla-bpr-k64": 2.0,
    "gaussian 10,000 x 50": 1.5,
    "skewed 1,000,000 x 64": 10.0,
}
PEER_GOALS = {"gowalla-als-k64": 1.3, "gowalla-als-alpha20-k64": 1.3}


def skewed(n: int, k: int, seed: int = 0) -> np.ndarray:
    """Factors with skewed norms, clustered directions and a decaying spectrum."""
    rng = np.random.default_rng(seed)
    spectrum = (1 + np.arange(k)) ** -0.5
    centres = rng.standard_normal((200, k), dtype=np.float32)
    factors = centres[rng.integers(0, 200, n)] + 0.8 * rng.standard_normal((n, k), dtype=np.float32)
    return (factors * spectrum * rng.lognormal(0, 0.8, (n, 1))).astype(np.float32)


def sets(only: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Item and user factors by name, those whose names hold `only`."""
    rng = np.random.default_rng(0)
    folder = Path(os.environ.get("TESSELLA_DATA", Path(__file__).parents[2] / "shared" / "data")) / "factors"
    found = {}
    for path in sorted(folder.glob("*/items.npy")):
        found[path.parent.name] = (np.load(path), np.load(path.parent / "users.npy"))
    found["gaussian 10,000 x 50"] = tuple(rng.standard_normal((n, 50), dtype=np.float32) for n in (10_000, 2_000))
    found["skewed 1,000,000 x 64"] = (skewed(1_000_000, 64), skewed(2_000, 64, seed=1))
    chosen = {name: factors for name, factors in found.items() if only in name}
    return {name: (items, users[rng.permutation(len(users))[:2000]]) for name, (items, users) in chosen.items()}


def recall(found: np.ndarray, exact: np.ndarray, items: np.ndarray, users: np.ndarray) -> float:
    """Share of answers whose score is within 1e-5 of the true k-th, each item counting once."""
    hits = 0
    for user, ids, true in zip(users.astype(np.float64), found, exact, strict=True):
        kept = np.unique(ids[ids >= 0])
        last = np.min(items[true].astype(np.float64) @ user)
        hits += min(K, np.count_nonzero(items[kept].astype(np.float64) @ user >= last - 1e-5 * abs(last)))
    return hits / (K * len(found))


def latencies(index: ts.Index, users: np.ndarray) -> tuple[float, float]:
    """Microseconds of single queries from Python: median and 99th percentile."""
    taken = []
    for user in users[:500]:
        start = time.perf_counter()
        index.search(user, K, threads=1)
        taken.append(time.perf_counter() - start)
    return float(1e6 * np.median(taken)), float(1e6 * np.percentile(taken, 99))


def measure_set(name: str, items: np.ndarray, users: np.ndarray, repeats: int) -> dict[str, object]:
    """Print and return the figures of one set."""
    start = time.perf_counter()
    index = ts.Index.build(items)
    build = time.perf_counter() - start
    flat = peers.flat(items)
    calls = {"exact": lambda: index.search(users, K, threads=1).ids, "flat": lambda: flat.search(users, K)}
    seconds = measure.alternate(calls, repeats)
    found = index.search(users, K, threads=1)
    beyond = (index.nbytes - items.nbytes) / len(items)
    ratio = measure.best_ratio(seconds, "flat", "exact")
    median, slow = latencies(index, users)
    print(f"\n{name}: {len(items):,} x {items.shape[1]}, {len(users):,} queries, k = {K}")
    print(f"  tessella exact   recall {recall(found.ids, flat.search(users, K), items, users):.4f}  "
          f"{len(users) / min(seconds['exact']):>9,.0f} q/s  {found.scored.mean():.0f} scored  built in {build:.2f} s  "
          f"{beyond:.0f} bytes an item beyond factors  single query {median:.0f} us, p99 {slow:.0f} us")  # fmt: skip
    print(f"  faiss Flat       recall 1.0000  {len(users) / min(seconds['flat']):>9,.0f} q/s")
    print(f"  exact over Flat: {ratio:.1f}{goal(ratio, EXACT_GOALS.get(name))}")
    figures: dict[str, object] = {"set": name, "over_flat": ratio, "scored": float(found.scored.mean()), "build": build}
    if len(items) <= 200_000:
        figures |= against_peers(name, index, items, users, build)
    return figures


def against_peers(name: str, index: ts.Index, items: np.ndarray, users: np.ndarray, build: float) -> dict[str, object]:
    """The best setting of each approximate peer at three recalls, and exact search over the best at 0.99."""
    exact = index.search(users, K, threads=1).ids
    best: dict[float, tuple[float, str]] = {}
    hnsw_build = 0.0
    for family in (peers.ivf_augmented, peers.scann_tree, peers.hnsw):
        reached: dict[float, tuple[float, str]] = {}
        for peer in family(items):
            hnsw_build = peer.build_seconds if peer.name.startswith("hnsw") else hnsw_build
            seconds = min(measure.alternate({peer.name: lambda peer=peer: peer.search(users, K)}, 2)[peer.name])
            got = recall(peer.search(users, K), exact, items, users)
            for level in (0.90, 0.95, 0.99):
                if got >= level and (level not in reached or seconds < reached[level][0]):
                    reached[level] = (seconds, f"{peer.name}, {peer.setting}, recall {got:.4f}")
        for level in (0.90, 0.95, 0.99):
            text = f"{len(users) / reached[level][0]:>9,.0f} q/s  {reached[level][1]}" if level in reached else "-"
            print(f"  at {level:.2f}: {text}" if level in reached else f"  at {level:.2f}: - ({family.__name__})")
            if level in reached and (level not in best or reached[level][0] < best[level][0]):
                best[level] = reached[level]
    taken = min(measure.alternate({"exact": lambda: index.search(users, K, threads=1)}, 5)["exact"])
    if 0.99 in best:
        ratio = best[0.99][0] / taken
        print(f"  exact over the best approximate peer at 0.99: {ratio:.2f}{goal(ratio, PEER_GOALS.get(name))}")
    print(f"  build, hnswlib over tessella: {hnsw_build / build:.0f}")
    return {"best_peers": {str(level): value for level, value in best.items()}, "exact_seconds": taken}


def goal(value: float, least: float | None) -> str:
    """The goal beside a figure, and whether it was missed."""
    if least is None:
        return ""
    return f"  (goal: at least {least:g}{'' if value >= least else '; MISSED'})"


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="measure only sets whose names hold this")
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    measure.settle_process()
    peers.faiss.omp_set_num_threads(1)
    print("  ".join(f"{name} {value}" for name, value in measure.machine().items()))
    for name, (items, users) in sets(options.only).items():
        figures = measure_set(name, items, np.ascontiguousarray(users), options.repeats)
        measure.record("index", figures)


if __name__ == "__main__":
    main()
