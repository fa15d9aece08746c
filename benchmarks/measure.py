"""How benchmarks measure: ratios of one run, recall with every speed, and the machine they were seen on."""

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

# Large arrays then stay with the process instead of going back to the system after each call, so that neither side
# of a ratio is timed on fresh pages. Both sides run under it.
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(2**34), "MALLOC_TRIM_THRESHOLD_": str(2**36)}
STRETCH, UNCOUNTED = 100, 5
ONE_BLAS_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"), "1")


def settle_process() -> None:
    """Start this script again with memory kept and BLAS on one thread, and refuse to measure the NumPy reference."""
    if _kernels.core().simd == _kernels.REFERENCE:
        sys.exit("Benchmarks need the native core; install a C++ compiler and reinstall tessella.")
    wanted = KEEP_MEMORY | ONE_BLAS_THREAD
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **wanted})  # noqa: S606


def alternate(calls: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Seconds of every call, all of them in turn, `repeats` times, after a turn that does not count."""
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
    """One call's fastest turn over another's, which may be turns of a faster and a slower hour of the machine."""
    return min(seconds[ours]) / min(seconds[theirs])


def median_ratio(seconds: Mapping[str, list[float]], ours: str, theirs: str) -> float:
    """The median, over turns, of one call's time over another's in the same turn: both then met the same machine."""
    return statistics.median(a / b for a, b in zip(seconds[ours], seconds[theirs], strict=True))


def recall(found: np.ndarray, true: np.ndarray, items: np.ndarray, users: np.ndarray) -> float:
    """Share of answers whose score is within 1e-5 of the true k-th, each item counting once; ids are row numbers."""
    return float(np.mean(tie_aware_recall(found, exact_scores(found, items, users), exact_scores(true, items, users))))


def exact_scores(ids: np.ndarray, items: np.ndarray, users: np.ndarray) -> np.ndarray:
    """Inner products of answers with their users in float64, a block of users at a time; -inf for a missing answer."""
    products = np.empty(ids.shape)
    block = max(1, 10_000_000 // max(1, ids.shape[1] * items.shape[1]))
    for first in range(0, len(ids), block):
        part = slice(first, first + block)
        found, asked = items[ids[part]].astype(np.float64), users[part].astype(np.float64)
        products[part] = np.matmul(found, asked[:, :, None])[:, :, 0]
    return np.where(ids >= 0, products, -np.inf)


def latencies(calls: Mapping[str, Callable[[np.ndarray], object]], users: np.ndarray) -> dict[str, list[float]]:
    """Seconds of single queries from Python, one user after another.

    Calls take turns, each with a stretch of users, as a service answers one query after another: what a library finds
    in the caches is then its own. The first few of a stretch, which find another's there, are asked and not counted.
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
    """Median and 99th percentile in microseconds."""
    return float(1e6 * np.median(seconds)), float(1e6 * np.percentile(seconds, 99))


def goal(value: float, *, least: float | None = None, most: float | None = None) -> str:
    """The goal beside a figure, and whether it was missed; nothing where there is no goal."""
    if least is None and most is None:
        return ""
    if least is not None:
        return f"  (goal: at least {least:g}{'' if value >= least else '; MISSED'})"
    return f"  (goal: at most {most:g}{'' if value <= most else '; MISSED'})"


def machine() -> dict[str, str]:
    """What a figure was seen on."""
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
