"""Speed and memory of the mapping, as ratios within one run.

Prints each figure with its goal, and appends them to results/mapping.jsonl.
"""

import argparse
import json
import re
import resource
import subprocess
import sys
from pathlib import Path

import measure
import numpy as np

import tessella as ts

# What is measured: the call, the call it is compared with, and the largest acceptable ratio.
RATIOS = {
    "SparseMap(Ternary, CounterTree).transform / numpy.sort(numpy.abs(Z), axis=1)": ("transform", "sort", 1.5),
    "DAry(4).tiles / Ternary().tiles": ("DAry(4).tiles", "Ternary().tiles", 8.0),
    "transform, 2 threads / 1": ("transform on 2 threads", "transform", 0.6),
}
MEMORY_GOAL = 1.3


def generated(n: int, k: int) -> np.ndarray:
    """Generate Gaussian factors in float32."""
    return np.random.default_rng(0).standard_normal((n, k), dtype=np.float32)


def time_calls(n: int, k: int, repeats: int) -> dict[str, list[float]]:
    """Return the seconds of each call, turn by turn."""
    factors = generated(n, k)
    mapper = ts.SparseMap(ts.Schema(ts.Ternary(), ts.CounterTree()))
    return measure.alternate(
        {
            "sort": lambda: np.sort(np.abs(factors), axis=1),
            "transform": lambda: mapper.transform(factors, threads=1),
            "transform on 2 threads": lambda: mapper.transform(factors, threads=2),
            "Ternary().tiles": lambda: ts.Ternary().tiles(factors, threads=1),
            "DAry(4).tiles": lambda: ts.DAry(4).tiles(factors, threads=1),
        },
        repeats,
    )


def peak_bytes() -> int:
    """Return the peak memory of this process."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage would include the memory of the parent before it started this process
        return 1024 * int(re.search(r"VmHWM:\s+(\d+)", status.read_text())[1])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def memory_ratio(n: int, k: int, threshold: float) -> float:
    """Return the extra peak memory of one transform over the bytes of its result. Run this in a fresh process."""
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
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--memory-at", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory_at is not None:
        print(json.dumps(memory_ratio(options.rows, options.factors, options.memory_at)))
        return
    measure.settle_process()
    print(f"{options.rows:,} x {options.factors} float32, one thread unless stated, {options.repeats} turns")
    print("  ".join(f"{name} {value}" for name, value in measure.machine().items()))
    seconds = time_calls(options.rows, options.factors, options.repeats)
    figures = {}
    print("  median turn  fastest turns")
    for name, (ours, theirs, goal) in RATIOS.items():
        best, median = (kind(seconds, ours, theirs) for kind in (measure.best_ratio, measure.median_ratio))
        figures[name] = {"best": best, "median": median}
        print(f"{median:13.2f}  {best:13.2f}  {name}{measure.goal(median, most=goal)}")
    shape = ["--rows", str(options.rows), "--factors", str(options.factors)]
    for threshold in ("0", "1.3"):
        command = [sys.executable, __file__, *shape, "--memory-at", threshold]
        extra = json.loads(subprocess.check_output(command))
        name = f"peak extra memory of transform / the CSR it returns, threshold {threshold}"
        figures[name] = extra
        print(f"{extra:13.2f}  {'':13}  {name}{measure.goal(extra, most=MEMORY_GOAL)}")
    print("rows per second, not comparable between machines:")
    for name, taken in seconds.items():
        print(f"{options.rows / min(taken):13,.0f}  {name}")
    measure.record("mapping", {"rows": options.rows, "factors": options.factors, "figures": figures})


if __name__ == "__main__":
    main()
