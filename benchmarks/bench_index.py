"""Exact and slots search against faiss, ScaNN and hnswlib: one thread, one run, recall with speed; memory and churn.

Real factors are read from factors/ in the folder that TESSELLA_DATA names (or ../shared/data): a folder for each set,
with items.npy and users.npy. Sets that are not there are left out. Appends to results/index.jsonl.
"""

import argparse
import os
import time
from collections.abc import Callable
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
ALS = ("gowalla-als-k64", "gowalla-als-alpha20-k64")
RECALLS = (0.90, 0.95, 0.99)
EFFORTS = [(budget, slots) for budget in (100, 200, 300, 400, 600) for slots in (16, 24, 40)]
CHURN_SET = "gowalla-als-alpha20-k64"


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


def latencies(search: Callable[[np.ndarray], object], users: np.ndarray) -> tuple[float, float]:
    """Microseconds of single queries from Python: median and 99th percentile."""
    taken = []
    for user in users[:1000]:
        start = time.perf_counter()
        search(user)
        taken.append(time.perf_counter() - start)
    return float(1e6 * np.median(taken)), float(1e6 * np.percentile(taken, 99))


def measure_set(name: str, items: np.ndarray, users: np.ndarray, repeats: int) -> dict[str, object]:
    """Print and return the figures of one set."""
    build = float(np.median(measure.alternate({"build": lambda: ts.Index.build(items, target_recall=1.0, threads=1)}, 3)["build"]))
    index = ts.Index.build(items, target_recall=1.0, threads=1)
    exact = index.search(users, K, threads=1)
    flat = peers.flat(items)
    print(f"\n{name}: {len(items):,} x {items.shape[1]}, {len(users):,} queries, k = {K}, built in {build:.3f} s")
    figures: dict[str, object] = {"set": name, "build": build, "memory": memory(name, index, items)}
    calls: dict[str, Callable[[], object]] = {
        "tessella exact": lambda: index.search(users, K, threads=1),
        "faiss Flat": lambda: flat.search(users, K),
    }
    recalls = {"tessella exact": recall(exact.ids, flat.search(users, K), items, users), "faiss Flat": 1.0}
    if len(items) <= 200_000:
        effort = best_effort(index, exact.ids, items, users)
        if effort is not None:
            budget, max_slots, recalls["tessella slots"] = effort
            calls["tessella slots"] = lambda: index.search(users, K, budget=budget, max_slots=max_slots, threads=1)
            print(f"  slots search reaches 0.99 with a budget of {budget} and {max_slots} slots")
        fastest, hnsw_build = best_peers(exact.ids, items, users)
        for level, peer in fastest.items():
            calls[f"peer {level}"], recalls[f"peer {level}"] = lambda peer=peer: peer[1].search(users, K), peer[2]
        figures |= {"hnsw_over_build": hnsw_build / build, "peers": {k: str(v[1]) for k, v in fastest.items()}}
    seconds = measure.alternate(calls, repeats)
    for call, taken in seconds.items():
        print(f"  {call:<16} recall {recalls[call]:.4f}  {len(users) / min(taken):>9,.0f} q/s")
        figures[call] = {"recall": recalls[call], "queries_per_second": len(users) / min(taken)}
    print(f"  exact search scored {exact.scored.mean():.0f} items a query, and proved {exact.certified.mean():.0%}")
    for way, call in {"exact": {}, "slots": {"budget": 40 * K}}.items():
        middle, slow = latencies(lambda user, call=call: index.search(user, K, threads=1, **call), users)
        print(f"  single query, {way}: {middle:.0f} us, p99 {slow:.0f} us")
        figures[f"single_{way}"] = (middle, slow)
    return figures | ratios(name, seconds, figures)


def ratios(name: str, seconds: dict[str, list[float]], figures: dict[str, object]) -> dict[str, float]:
    """Print and return how many times as fast we are as others in the same turns."""
    found: dict[str, float] = {}

    def compare(ours: str, theirs: str, least: float | None) -> None:
        if ours in seconds and theirs in seconds:
            ratio = measure.median_ratio(seconds, theirs, ours)
            print(f"  {ours} over {theirs}: {ratio:.2f}{goal(ratio, least)}")
            found[f"{ours} over {theirs}"] = ratio

    compare("tessella exact", "faiss Flat", EXACT_GOALS.get(name))
    compare("tessella exact", "peer 0.99", 1.3 if name in ALS else None)
    compare("tessella slots", "peer 0.99", 1.0 if name in ALS else None)
    if "hnsw_over_build" in figures:
        compare("tessella exact", "peer hnswlib", 4.0 if name in ALS else None)
        compare("tessella slots", "peer hnswlib", 4.0 if name in ALS else None)
        if "peer hnswlib" not in seconds:
            print("  hnswlib never reaches a recall of 0.90")
        ratio = float(figures["hnsw_over_build"])  # type: ignore[arg-type]
        print(f"  build, hnswlib over tessella: {ratio:.0f}{goal(ratio, 50.0 if name in ALS else None)}")
    return found


def memory(name: str, index: ts.Index, items: np.ndarray) -> dict[str, float]:
    """Print and return bytes an item of every part of an index."""
    parts = {part: size / len(items) for part, size in index.memory.items()}
    both = sum(size for part, size in parts.items() if part != "factors")
    slots = both - parts["codes"]
    print("  bytes an item: " + ", ".join(f"{part} {size:.1f}" for part, size in parts.items()))
    wanted = 64 if items.shape[1] == 64 and name in ALS else None
    print(f"  beyond factors: {both:.1f}{goal(-both, -80.0 if wanted else None)}, "
          f"without the codes of exact search {slots:.1f}{goal(-slots, -24.0 if wanted else None)}")  # fmt: skip
    return parts


def best_effort(index: ts.Index, exact: np.ndarray, items: np.ndarray, users: np.ndarray) -> tuple | None:
    """The budget and slots with which slots search is fastest at a recall of 0.99, and that recall."""
    reached = []
    for budget, max_slots in EFFORTS:

        def search(budget: int = budget, max_slots: int = max_slots) -> ts.SearchResult:
            return index.search(users, K, budget=budget, max_slots=max_slots, threads=1)

        got = recall(search().ids, exact, items, users)
        if got >= 0.99:
            reached.append((min(measure.alternate({"slots": search}, 3)["slots"]), budget, max_slots, got))
    return min(reached)[1:] if reached else None


def best_peers(exact: np.ndarray, items: np.ndarray, users: np.ndarray) -> tuple[dict[str, tuple], float]:
    """The fastest peer at each recall, with its seconds and recall, hnswlib's fastest at 0.90, and its build time."""
    fastest: dict[str, tuple] = {}
    hnsw_build = 0.0
    for family in (peers.ivf_augmented, peers.scann_tree, peers.hnsw):
        own: dict[float, tuple] = {}
        for peer in family(items):
            hnsw_build = peer.build_seconds if family is peers.hnsw else hnsw_build
            got = recall(peer.search(users, K), exact, items, users)
            seconds = min(measure.alternate({peer.name: lambda peer=peer: peer.search(users, K)}, 2)[peer.name])
            for level in RECALLS:
                if got >= level and (level not in own or seconds < own[level][0]):
                    own[level] = (seconds, peer, got)
        for level in RECALLS:
            if level not in own:
                print(f"  at {level:.2f}: -  {family.__name__} does not reach it")
                continue
            seconds, peer, got = own[level]
            print(f"  at {level:.2f}: {len(users) / seconds:>9,.0f} q/s  {peer.name}, {peer.setting}, recall {got:.4f}")
            if f"{level:.2f}" not in fastest or seconds < fastest[f"{level:.2f}"][0]:
                fastest[f"{level:.2f}"] = own[level]
        if family is peers.hnsw and own:
            fastest["hnswlib"] = own[min(own)]
    return fastest, hnsw_build


def churn(items: np.ndarray, users: np.ndarray, repeats: int) -> dict[str, object]:
    """Print and return how fast items come and go while the index is searched, and what that leaves of its speed."""
    rng = np.random.default_rng(0)
    new = items[rng.integers(0, len(items), 100_000)] * rng.uniform(0.9, 1.1, (100_000, 1)).astype(np.float32)
    index = ts.Index.build(items, target_recall=1.0)
    added = removed = 0.0
    for first in range(0, len(new), 1000):
        start = time.perf_counter()
        index.add(new[first : first + 1000], len(items) + np.arange(first, first + 1000))
        added += time.perf_counter() - start
        newest = int(index.search(users[first // 1000], K, allow=[len(items) + first]).ids[0])
        if newest != len(items) + first:
            raise RuntimeError("an item that was added is not seen by the next search")
    leaving = rng.permutation(index.ids)[:50_000]
    for first in range(0, len(leaving), 1000):
        start = time.perf_counter()
        index.remove(leaving[first : first + 1000])
        removed += time.perf_counter() - start
        index.search(users[first // 1000], K)
    fresh = ts.Index.build(index[index.ids], index.ids, target_recall=1.0)
    calls = {name: lambda index=index: index.search(users, K, threads=1) for name, index in
             {"changed": index, "fresh": fresh}.items()}  # fmt: skip
    seconds = measure.alternate(calls, repeats)
    same = np.mean(index.search(users, K).ids == fresh.search(users, K).ids)
    figures = {
        "added_per_second": len(new) / added,
        "removed_per_second": len(leaving) / removed,
        "changed_over_fresh": measure.median_ratio(seconds, "fresh", "changed"),
    }
    print(f"\nchurn of {CHURN_SET}: 100,000 items come, 50,000 go, 1,000 at a time, with a search after each")
    print(f"  added   {figures['added_per_second']:>9,.0f} a second{goal(figures['added_per_second'], 100_000)}")
    print(f"  removed {figures['removed_per_second']:>9,.0f} a second{goal(figures['removed_per_second'], 200_000)}")
    ratio = figures["changed_over_fresh"]
    print(f"  search afterwards over a fresh build: {ratio:.2f}{goal(ratio, 0.8)}, {same:.1%} of answers the same")
    return figures


def goal(value: float, least: float | None) -> str:
    """The goal beside a figure, and whether it was missed; negative figures are to be small."""
    if least is None:
        return ""
    wanted = f"at least {least:g}" if least > 0 else f"at most {-least:g}"
    return f"  (goal: {wanted}{'' if value >= least else '; MISSED'})"


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
        if name == CHURN_SET:
            measure.record("churn", churn(items, np.ascontiguousarray(users), options.repeats))


if __name__ == "__main__":
    main()
