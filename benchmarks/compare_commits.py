"""Compare the speed of this commit with that of another: `make compare BASE=<commit>`.

Builds each into its own folder under build/compare, and measures them in turns in one run, a process each, on one
thread. A ratio above 1 means that this commit is faster. Appends to results/compare.jsonl.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import measure
import numpy as np
import sets
from compare_worker import K

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "build" / "compare"
N_USERS = 2_000
BUILDS, MOST_BUILDS = ("build exact", "build tiles"), 3
BATCHES = ("batch 0.95", "batch 0.99", "batch exact", "batch slots")
DEPTHS = tuple(f"deep {how} {k}" for k in (1, 100, 500) for how in ("0.95", "exact"))
FILTERS = ("exclude lists", "exclude csr", "own 0.001", "own 0.01", "own 0.1", "own 0.5")
SEARCHES = (*BATCHES, *DEPTHS, "single 0.95", "single exact", "single plan", *FILTERS, "changes", "churn")
PARTS = tuple(dict.fromkeys(command.split()[0] for command in (*BUILDS, *SEARCHES)))
HEADING = f"  {'':<22} {'this/base':>9}  {'quartiles':>12}  {'base':>10} {'recall':>14}  {'this':>10} {'recall':>14}"
Pair = tuple[dict, dict]  # a figure of the base and of this commit, in the same turn


def git(*arguments: str) -> str:
    """Return the output of git."""
    return subprocess.run(["git", "-C", ROOT, *arguments], check=True, capture_output=True, text=True).stdout.strip()


def install_base(commit: str) -> Path:
    """Install a commit, unless that was done before; return its Python."""
    folder = FOLDER / commit
    if not (folder / "done").exists():
        if not (folder / "source").exists():
            git("worktree", "add", "--force", "--detach", str(folder / "source"), commit)
        install(folder / "source", folder / "venv")
        (folder / "done").touch()
    return folder / "venv" / "bin" / "python"


def install(source: Path, venv: Path) -> Path:
    """Install a source tree into its own environment; return its Python."""
    python = venv / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", source]
    subprocess.run(command, check=True, env={**os.environ, "TESSELLA_REQUIRE_NATIVE": "1"})
    return python


class Worker:
    """A process that measures one version; see compare_worker.py."""

    def __init__(self, python: Path, *arrays: Path) -> None:
        command = [python, Path(__file__).with_name("compare_worker.py"), *arrays]
        alone = {**os.environ, **measure.KEEP_MEMORY, **measure.ONE_BLAS_THREAD}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=alone)

    def ask(self, command: str) -> dict:
        """Return the answer to a command."""
        print(command, file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"A worker ended at {command!r}; its output is above.")
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        self.process.stdin.close()
        self.process.wait()


def in_turns(workers: list[Worker], commands: Iterable[str], n_turns: int) -> dict[str, list[Pair]]:
    """Return the figures of both versions by title, turn by turn, after a warm-up turn. Which begins alternates."""
    figures: dict[str, list[Pair]] = {}
    for turn in range(n_turns + 1):
        for command in commands:
            found = {side: workers[side].ask(command) for side in ((0, 1) if turn % 2 else (1, 0))}
            for title in found[0] if turn else ():
                figures.setdefault(title, []).append((found[0][title], found[1][title]))
    return figures


def compare(factors: sets.Factors, pythons: list[Path], n_turns: int, parts: list[str]) -> dict[str, list[Pair]]:
    """Return all figures of one set, or those of some commands."""
    paths = [FOLDER / f"{part}.npy" for part in factors._fields]
    for path, array in zip(paths, factors, strict=True):
        np.save(path, array)
    workers = [Worker(python, *paths) for python in pythons]
    figures = in_turns(workers, BUILDS, min(n_turns, MOST_BUILDS) if "build" in parts else 0)
    swept = [worker.ask("sweep") for worker in workers]
    if not np.allclose(swept[0]["scores"], swept[1]["scores"], rtol=1e-5):
        sys.exit("The exact answers of the two versions differ.")
    if swept[0]["numpy"] != swept[1]["numpy"]:
        sys.exit(f"The two versions use different NumPy versions; remove {FOLDER}, so that both are installed again.")
    print(f"  least reach for a recall: base {swept[0]['reaches']}, this {swept[1]['reaches']}")
    figures |= in_turns(workers, [command for command in SEARCHES if command.split()[0] in parts], n_turns)
    for worker in workers:
        worker.close()
    return figures


def summary(pairs: list[Pair]) -> dict[str, object]:
    """Return medians of the figures, and of their ratios turn by turn, with the quartiles of the ratios."""
    rates = np.array([[figure["rate"] for figure in pair] for pair in pairs])
    low, middle, high = np.percentile(rates[:, 1] / rates[:, 0], (25, 50, 75)).tolist()
    base, this = ({**figure, "rate": float(rate)} for figure, rate in zip(pairs[-1], np.median(rates, 0), strict=True))
    return {"ratio": middle, "quartiles": [low, high], "base": base, "this": this}


def line(title: str, found: dict) -> str:
    """Format a row of the table."""
    quartiles = "{:.2f} to {:.2f}".format(*found["quartiles"])
    return f"  {title:<22} {found['ratio']:>9.2f}  {quartiles:>12}  {shown(found['base'])}  {shown(found['this'])}"


def shown(figure: dict) -> str:
    """Format a speed in its unit, with the recall."""
    unit, rate = figure["unit"], figure["rate"]
    value = {"us": f"{1e6 / rate:,.1f}", "s": f"{1 / rate:,.2f}"}.get(unit, f"{rate:,.0f}")
    return f"{value:>10} {unit:<7} {'-' if figure['recall'] is None else format(figure['recall'], '.4f'):>6}"


def main() -> None:
    """Build both, measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", help="the commit to compare with")
    parser.add_argument("--turns", type=int, default=7, help="number of turns, after a warm-up turn (default: 7)")
    parser.add_argument("--only", default="", metavar="SET", help="compare only on sets whose names contain this")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"what to measure, of {','.join(PARTS)}")
    parser.add_argument("--many", type=int, default=1_000_000, help="number of generated items (default: 1,000,000)")
    options = parser.parse_args()
    measure.settle_process()
    start = time.perf_counter()
    base, this = git("rev-parse", "--short", f"{options.base}^{{commit}}"), git("describe", "--always", "--dirty")
    print("  ".join(f"{name} {value}" for name, value in measure.machine().items()))
    print(f"base {base}, this {this}; both are installed first, which takes minutes", flush=True)
    pythons = [install_base(base), install(ROOT, FOLDER / "this")]
    learned = (*sets.LEARNED, *sets.EXPANDED)
    chosen = {name: (lambda name=name: sets.learned(name).sample(N_USERS)) for name in learned}
    chosen[f"generated {options.many:,} x 64"] = lambda: sets.generated(options.many, 64, N_USERS)
    for name in (name for name in chosen if options.only in name):
        if name in learned and name not in sets.learned_names():
            print(f"\n{name} is skipped: it is neither in {sets.DATA / 'factors'} nor in {sets.CACHE}")
            continue
        print(f"\n{name}: {N_USERS:,} queries, k = {K}, one thread, {options.turns} turns", flush=True)
        figures = compare(chosen[name](), pythons, options.turns, options.parts.split(","))
        print(HEADING)
        for title, pairs in figures.items():
            found = summary(pairs)
            print(line(title, found))
            commits = {"base_commit": base, "this_commit": this}
            measure.record("compare", {**commits, "set": name, "title": title, "turns": len(pairs), **found})
    print(f"\n{time.perf_counter() - start:.0f} s in all")


if __name__ == "__main__":
    main()
