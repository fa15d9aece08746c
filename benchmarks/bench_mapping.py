"""Speed and memory of the mapping, as ratios of one run.

Prints each figure beside its goal and appends them to results/mapping.jsonl.
"""

import argparse
import json
import re
import resource
import statistics
import subprocess
import sys
from pathlib import Path

import measure
import numpy as np

import tessella as ts

GOALS = {
    "SparseMap(Ternary, CounterTree).transform / numpy.sort(numpy.abs(Z), axis=1)": 1.5,
    "DAry(4).tiles / Ternary().tiles": 8.0,
    "transform, 2 threads / 1": 0.6,
    "peak extra memory of transform / the CSR it returns": 1.3,
}


def generated(n: int, k: int) -> np.ndarray:
    """Gaussian factors, float32."""
    return np.random.default_rng(0).standard_normal((n, k), dtype=np.float32)


def time_ratios(n: int, k: int, repeats: int) -> tuple[dict[str, float], dict[str, list[float]]]:
    """The three ratios of time, and the seconds behind them."""
    factors = generated(n, k)
    mapper = ts.SparseMap(ts.Schema(ts.Ternary(), ts.CounterTree()))
    calls = {
        "sort": lambda: np.sort(np.abs(factors), axis=1),
        "transform": lambda: mapper.transform(factors, threads=1),
        "transform on 2 threads": lambda: mapper.transform(factors, threads=2),
        "Ternary().tiles": lambda: ts.Ternary().tiles(factors, threads=1),
        "DAry(4).tiles": lambda: ts.DAry(4).tiles(factors, threads=1),
    }
    seconds = measure.alternate(calls, repeats)
    pairs = (("transform", "sort"), ("DAry(4).tiles", "Ternary().tiles"), ("transform on 2 threads", "transform"))
    names = list(GOALS)[:3]
    return {name: measure.ratio(seconds, *pair) for name, pair in zip(names, pairs, strict=True)}, seconds


def peak_bytes() -> int:
    """The most memory this process has held."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage would count what a parent held before it started this process
        return 1024 * int(re.search(r"VmHWM:\s+(\d+)", status.read_text())[1])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def memory_ratio(n: int, k: int, threshold: float) -> float:
    """Peak memory of one transform beyond what stood before it, over the bytes of its result. Run in a fresh process."""
    factors = generated(n, k)
    mapper = ts.SparseMap(ts.Schema(ts.Ternary(), ts.CounterTree(), threshold=threshold)).fit(factors)
    mapper.transform(factors[:1000])
    before = peak_bytes()
    phi = mapper.transform(factors, threads=1)
    returned = phi.data.nbytes + phi.indices.nbytes + phi.indptr.nbytes
    return (peak_bytes() - before) / returned


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--factors", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=11)
    parser.add_argument("--memory-at", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory_at is not None:
        print(json.dumps(memory_ratio(options.rows, options.factors, options.memory_at)))
        return
    measure.settle_process()
    ratios, seconds = time_ratios(options.rows, options.factors, options.repeats)
    shape = ["--rows", str(options.rows), "--factors", str(options.factors)]
    memory = {
        threshold: json.loads(subprocess.check_output([sys.executable, __file__, *shape, "--memory-at", threshold]))
        for threshold in ("0", "1.3")
    }
    ratios[list(GOALS)[3]] = max(memory.values())

    print(f"{options.rows:,} x {options.factors} float32, one thread unless said; medians of {options.repeats} turns")
    print("  ".join(f"{name} {value}" for name, value in measure.machine().items()))
    for name, value in ratios.items():
        print(f"{value:8.2f}  (goal: at most {GOALS[name]:g}{'' if value <= GOALS[name] else ', MISSED'})  {name}")
    print("rows a second, to read and not to compare between machines:")
    for name, taken in seconds.items():
        print(f"{options.rows / statistics.median(taken):14,.0f}  {name}")
    print(
        "peak extra memory over the CSR: " + ", ".join(f"{value:.2f} at threshold {at}" for at, value in memory.items())
    )
    measure.record("mapping", {"rows": options.rows, "factors": options.factors, "ratios": ratios, "memory": memory})


if __name__ == "__main__":
    main()
