"""Measure what Python's stable ABI costs a single query, `make bench-abi ARGS='--python /path/to/python3.12'`.

Builds the core twice for one interpreter, for the stable ABI and for that version alone, and runs single queries with
both, in turns, a process each, on one thread. A ratio above 1 means that the stable ABI is slower. Needs Python 3.12
or newer, numpy and scipy from PyPI, and a C++ compiler; the rest of tessella is the same in both.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "build" / "stable-abi"
BUILDS = {"stable": "wheel.py-api=cp312", "own": "wheel.py-api="}
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")
WORKER = """
import json, statistics, sys, time
import numpy as np
import tessella as ts
from tessella import _native

n_items, n_queries = int(sys.argv[1]), int(sys.argv[2])
items, users = ts.datasets.generated_factors(n_items, n_queries, 64, seed=0)
index = ts.Index.build(items)
asked = {"tiny: 1 of 100 items, exact": (ts.Index.build(items[:100], method="exact"), 1, True),
         "exact": (index, 10, True), "as planned": (index, 10, False)}
found = {"module": _native.__file__}
for name, (searched, k, exact) in asked.items():
    seconds = []
    for user in [*users[:100], *users]:
        start = time.perf_counter()
        searched.search(user, k, exact=exact, threads=1)
        seconds.append(time.perf_counter() - start)
    found[name] = statistics.median(seconds[100:])
print(json.dumps(found))
"""


def run(*command: str | Path, **environment: str) -> str:
    """Run a command and return its output."""
    ran = subprocess.run(command, check=False, capture_output=True, text=True, env={**os.environ, **environment})
    if ran.returncode:
        sys.exit(f"{command[0]} failed:\n{ran.stderr}")
    return ran.stdout


def install(python: str) -> Path:
    """Create an environment with what tessella needs, and both builds in folders next to it; return its Python."""
    if run(python, "-c", "import sys; print(sys.version_info >= (3, 12))").strip() != "True":
        sys.exit(f"{python} is older than Python 3.12, which is the first that the stable ABI is used with.")
    venv = FOLDER / "venv"
    run(python, "-m", "venv", "--clear", venv)
    pip = (venv / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*pip, "numpy", "scipy", "safetensors")
    for name, setting in BUILDS.items():
        options = ("--no-deps", "--upgrade", "--target", FOLDER / name, f"--config-settings={setting}")
        run(*pip, *options, ROOT, TESSELLA_REQUIRE_NATIVE="1")
    return venv / "bin" / "python"


def main() -> None:
    """Build, measure in turns, print."""
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--python", default="python3.12", help="an interpreter, 3.12 or newer")
    reader.add_argument("--items", type=int, default=20_000)
    reader.add_argument("--queries", type=int, default=5_000)
    reader.add_argument("--turns", type=int, default=9)
    given = reader.parse_args()
    python = install(given.python)
    turns: list[dict[str, dict]] = []
    for turn in range(given.turns):
        order = list(BUILDS) if turn % 2 else list(reversed(BUILDS))
        sizes = (str(given.items), str(given.queries))
        turns.append(
            {
                name: json.loads(run(python, "-c", WORKER, *sizes, PYTHONPATH=str(FOLDER / name), **ONE_THREAD))
                for name in order
            }
        )
    files = {name: Path(turns[0][name].pop("module")).name for name in BUILDS}
    print(
        f"Python {run(python, '-c', 'import platform; print(platform.python_version())').strip()}, one thread, medians"
    )
    print(f"of {given.turns} turns of {given.queries:,} single queries; {files['stable']} over {files['own']}\n")
    for what in turns[0]["own"]:
        micro = {name: [turn[name][what] * 1e6 for turn in turns] for name in BUILDS}
        ratios = [stable / own for stable, own in zip(micro["stable"], micro["own"], strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        stable, own = (statistics.median(micro[name]) for name in BUILDS)
        print(f"{what:<28} {stable:7.2f} us / {own:7.2f} us = {middle:.3f}  (quartiles {low:.3f} to {high:.3f})")


if __name__ == "__main__":
    main()
