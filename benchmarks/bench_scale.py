"""Ten million items on one machine: build, save, load, search and answer all users; see docs/guides/scale.md.

Factors are generated in blocks and kept in the folder named in TESSELLA_BENCH_CACHE (or ~/.cache/tessella-bench).
Every step runs in its own process. Prints a table and, for ten million items, appends to results/scale.jsonl.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import measure
import memory_worker
import numpy as np
import sets

import tessella as ts
from tessella import _threads
from tessella.datasets import _RECIPES, _cooked

N_ITEMS, WIDTH, K = 10_000_000, 64, 10
BLOCK = 500_000  # items generated at once
ASKED, CHECKED = 2_000, 40  # users per call, and how many of them are checked against brute force
MEMORY_GOAL = 1.6  # times the factors' memory, in addition to the factors


def generated(n_items: int, n_users: int, folder: Path) -> None:
    """Write items.npy and users.npy, unless they exist."""
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / "users.npy").exists():
        return
    items = np.lib.format.open_memmap(folder / "items.npy", "w+", np.float32, (n_items, WIDTH))
    for first in range(0, n_items, BLOCK):
        shared, _, of_users = np.random.default_rng(0).spawn(3)
        generators = [shared, np.random.default_rng([1, first]), of_users]
        n = min(BLOCK, n_items - first)
        items[first : first + n] = _cooked(_RECIPES["als"], [n, 0], WIDTH, generators)[0]
    items.flush()
    np.save(folder / "users.npy", _cooked(_RECIPES["als"], [0, n_users], WIDTH, np.random.default_rng(0).spawn(3))[1])


def build(folder: str, method: str, out: str) -> dict[str, object]:
    """Build an index and save it."""
    factors = np.load(Path(folder) / "items.npy")
    ts.Index.build(factors[:100], method="exact")  # loads modules before memory is measured
    before, start = memory_worker.forget_peak(), time.perf_counter()
    index = ts.Index.build(factors, method=method)
    built = time.perf_counter()
    grown = memory_worker.peak() - before
    index.save(out, overwrite=True)
    parts = {part: size / len(factors) for part, size in index.memory.items()}
    return {"memory": grown / factors.nbytes, "kept": index.nbytes / factors.nbytes, "bytes_per_item": parts,
            "seconds": built - start, "save_seconds": time.perf_counter() - built,
            "file": Path(out).stat().st_size}  # fmt: skip


def search(folder: str, path: str) -> dict[str, object]:
    """Load an index by mmap, search it exactly and as planned, and check some answers."""
    users = np.load(Path(folder) / "users.npy", mmap_mode="r")[:ASKED].copy()
    before, start = memory_worker.forget_peak(), time.perf_counter()
    index = ts.Index.load(path, mmap=True)
    loaded = time.perf_counter() - start
    planned, exact = (index.search(users, K), index.search(users, K, exact=True))
    truth = _best_scores(Path(folder) / "items.npy", users[:CHECKED])
    if not np.allclose(exact.scores[:CHECKED], truth, rtol=1e-5):
        sys.exit("Exact search and brute force disagree.")
    recall = float(np.mean(planned.scores >= exact.scores[:, -1:] - 1e-5 * np.abs(exact.scores[:, -1:])))
    calls = {"planned": lambda: index.search(users, K), "exact": lambda: index.search(users, K, exact=True),
             "one": lambda: [index.search(user, K) for user in users[:200]]}  # fmt: skip
    seconds = {name: float(np.median(taken)) for name, taken in measure.alternate(calls, 3).items()}
    return {"load_seconds": loaded, "method": str(index.plan.method), "recall": recall,
            "planned": len(users) / seconds["planned"], "exact": len(users) / seconds["exact"],
            "one_us": seconds["one"] / 200 * 1e6, "resident": memory_worker.peak() - before}  # fmt: skip


def everyone(folder: str, path: str) -> dict[str, float]:
    """Write the top k of all users to a folder."""
    users = np.load(Path(folder) / "users.npy", mmap_mode="r")
    index = ts.Index.load(path, mmap=True)
    before, start = memory_worker.forget_peak(), time.perf_counter()
    with tempfile.TemporaryDirectory() as out:
        index.search_all(users, K, out=Path(out) / "answers")
    seconds = time.perf_counter() - start
    return {"users": len(users), "seconds": seconds, "grown": memory_worker.peak() - before}


def _best_scores(path: Path, users: np.ndarray) -> np.ndarray:
    """Return the best scores by brute force, block by block."""
    items = np.load(path, mmap_mode="r")
    best = np.full((len(users), K), -np.inf, np.float32)
    for first in range(0, len(items), BLOCK):
        scores = np.concatenate([best, users @ items[first : first + BLOCK].T], axis=1)
        best = -np.sort(-np.partition(scores, -K, axis=1)[:, -K:], axis=1)
    return best


def ask(step: str, *arguments: object) -> dict:
    """Run a step in its own process."""
    called = [sys.executable, __file__, "--step", step, *map(str, arguments)]
    ran = subprocess.run(called, capture_output=True, text=True, check=False)
    if ran.returncode:
        sys.exit(f"{step} failed: {ran.stderr.strip().splitlines()[-1] if ran.stderr.strip() else ran.returncode}")
    return json.loads(ran.stdout)


def main() -> None:
    """Measure, or run one step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=N_ITEMS)
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--methods", default="exact,auto")
    parser.add_argument("--step", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        steps = {"build": build, "search": search, "everyone": everyone}
        print(json.dumps(steps[options.step[0]](*options.step[1:])))
        return
    folder = sets.CACHE / f"scale-{options.items}"
    threads = _threads.thread_count(None)
    print(f"{options.items:,} generated items and {options.users:,} users x {WIDTH}, {threads} threads")
    generated(options.items, options.users, folder)
    for method in options.methods.split(","):
        path = folder / f"{method}.tessella"
        figures = {"build": ask("build", folder, method, path), "search": ask("search", folder, path),
                   "everyone": ask("everyone", folder, path)}  # fmt: skip
        made, found, job = figures.values()
        print(f"\nbuilt with method={method!r}")
        print(f"  build    {made['seconds']:.0f} s, extra peak memory {made['memory']:.2f} of the factors'"
              f"{measure.goal(made['memory'], most=MEMORY_GOAL)}, kept {made['kept']:.2f}")  # fmt: skip
        parts = ", ".join(f"{part} {size:.1f}" for part, size in made["bytes_per_item"].items())
        print(f"  kept     {sum(made['bytes_per_item'].values()):.1f} bytes per item: {parts}")
        print(f"  save     {made['save_seconds']:.0f} s, {made['file'] / 1e9:.2f} GB")
        print(f"  load     {found['load_seconds']:.1f} s by mmap")
        print(f"  search   {found['method']}: {found['planned']:,.0f} queries/s, recall {found['recall']:.4f}; "
              f"exact {found['exact']:,.0f}, recall 1; a single query {found['one_us']:,.0f} us")  # fmt: skip
        print(f"  everyone {job['users'] / job['seconds']:,.0f} users/s, {job['users']:,} users in "
              f"{job['seconds']:.0f} s, {job['grown'] / 1e6:.0f} MB more than the index")  # fmt: skip
        if options.items == N_ITEMS:
            measure.record("scale", {"items": options.items, "method": method, **figures})


if __name__ == "__main__":
    main()
