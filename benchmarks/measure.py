"""How benchmarks measure: ratios within one run, recall with every speed, and a record of the machine."""

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path

import numpy as np

from tessella import _kernels, _threads
from tessella.paper import tie_aware_recall

RESULTS = Path(__file__).parent / "results"

# The process then keeps the memory of large arrays instead of returning it to the system after each call, so that
# neither side of a ratio is timed on fresh pages. It applies to both sides.
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(2**34), "MALLOC_TRIM_THRESHOLD_": str(2**36)}
STRETCH, UNCOUNTED = 100, 5
ONE_BLAS_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"), "1")


def settle_process() -> None:
    """Restart this script so that it keeps memory and uses one BLAS thread; refuse to measure the NumPy reference."""
    if _kernels.core().simd == _kernels.REFERENCE:
        sys.exit("Benchmarks need the native core; install a C++ compiler and reinstall tessella.")
    wanted = KEEP_MEMORY | ONE_BLAS_THREAD
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **wanted})  # noqa: S606


def alternate(calls: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Return the seconds of every call; calls alternate, `repeats` times, after a warm-up turn."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(repeats + 1):
        for name, call in calls.items():
            if sys.stderr.isatty():
                print(f"\r\033[K{turn}/{repeats} {name}", end="", file=sys.stderr)
            start = time.perf_counter()
            call()
            taken = time.perf_counter() - start
            if turn:
                seconds[name].append(taken)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    return seconds


def best_ratio(seconds: Mapping[str, list[float]], ours: str, theirs: str) -> float:
    """Return the ratio of the fastest turns of two calls; the machine may not have been equally fast in both turns."""
    return min(seconds[ours]) / min(seconds[theirs])


def median_ratio(seconds: Mapping[str, list[float]], ours: str, theirs: str) -> float:
    """Return the median over turns of the ratio of two calls' times in the same turn, under the same conditions."""
    return statistics.median(a / b for a, b in zip(seconds[ours], seconds[theirs], strict=True))


def recall(found: np.ndarray, true: np.ndarray, items: np.ndarray, users: np.ndarray) -> float:
    """Return the share of answers that score within 1e-5 of the true k-th; items count once; ids are row numbers."""
    return float(np.mean(tie_aware_recall(found, exact_scores(found, items, users), exact_scores(true, items, users))))


def exact_scores(ids: np.ndarray, items: np.ndarray, users: np.ndarray) -> np.ndarray:
    """Return inner products of answers with their users in float64, block by block; -inf for missing answers."""
    products = np.empty(ids.shape)
    block = max(1, 10_000_000 // max(1, ids.shape[1] * items.shape[1]))
    for first in range(0, len(ids), block):
        part = slice(first, first + block)
        found, asked = items[ids[part]].astype(np.float64), users[part].astype(np.float64)
        products[part] = np.matmul(found, asked[:, :, None])[:, :, 0]
    return np.where(ids >= 0, products, -np.inf)


def latencies(calls: Mapping[str, Callable[[np.ndarray], object]], users: np.ndarray) -> dict[str, list[float]]:
    """Return the seconds of single queries from Python, one user after another.

    Calls take turns, each with a run of users, like a service that answers one query after another, so that a library
    finds its own data in the caches. The first few queries of a run, which find another library's, are not counted.
    """
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for first in range(0, len(users), STRETCH):
        stretch = users[first : first + STRETCH]
        for name, call in calls.items():
            for user in np.concatenate([stretch[:UNCOUNTED], stretch]):
                start = time.perf_counter()
                call(user)
                seconds[name].append(time.perf_counter() - start)
            del seconds[name][-len(stretch) - len(stretch[:UNCOUNTED]) : -len(stretch)]
    return seconds


def middle_and_slow(seconds: list[float]) -> tuple[float, float]:
    """Return the median and the 99th percentile in microseconds."""
    return float(1e6 * np.median(seconds)), float(1e6 * np.percentile(seconds, 99))


def goal(value: float, *, least: float | None = None, most: float | None = None) -> str:
    """Format the goal of a figure, and whether it was missed; an empty string if there is no goal."""
    if least is None and most is None:
        return ""
    if least is not None:
        return f"  (goal: at least {least:g}{'' if value >= least else '; MISSED'})"
    return f"  (goal: at most {most:g}{'' if value <= most else '; MISSED'})"


def machine() -> dict[str, str]:
    """Describe the machine and the versions that a figure was measured with."""
    processor = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        processor = names[0] if names else processor
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return {
        "cpu": processor,
        "simd": _kernels.core().simd,
        "cpus": str(_threads.thread_count(None)),
        "commit": commit.stdout.strip() or "unknown",
        **{name: version(name) for name in ("tessella", "numpy", "scipy")},
    }


def record(name: str, figures: Mapping[str, object], folder: Path = RESULTS) -> None:
    """Append a line of JSON to results/NAME.jsonl, or to that file in another folder."""
    folder.mkdir(exist_ok=True, parents=True)
    with (folder / f"{name}.jsonl").open("a") as file:
        file.write(json.dumps({"machine": machine(), **figures}) + "\n")
