"""Run where nothing but tessella is installed: build, search, save, load, and the command line."""

import importlib.metadata
import importlib.resources
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import tessella as ts
from tessella import _kernels


def require(holds: bool, sentence: str) -> None:
    """End with a sentence if something does not hold."""
    if not holds:
        raise SystemExit(f"smoke test: {sentence}")


def check_index(folder: Path) -> None:
    """An index finds what brute force finds, by every method, before and after it is saved."""
    items, users = ts.datasets.generated_factors(6000, 20, 24, seed=1)
    best = np.argsort(-(users @ items.T), axis=1)[:, :10]
    index = ts.Index.build(items, target_recall=0.9)
    found = index.search(users, 10, exact=True)
    require(bool(found.certified.all()), "exact answers are not certified")
    require(bool((found.ids == best).all()), "exact search differs from brute force")
    planned = index.search(users, 10).ids
    shared = np.mean([len(set(ours) & set(true)) for ours, true in zip(planned, best, strict=True)]) / 10
    require(shared > 0.8, f"planned search found {shared:.0%} of the top 10")
    index.add(3 * items[best[:1, 0]], [6000])
    require(index.search(users[0], 1, exact=True).ids[0] == 6000, "an added item is not found")
    index.save(folder / "items.tessella")
    again = ts.Index.load(folder / "items.tessella").search(users, 10, exact=True)
    require(bool((again.ids == index.search(users, 10, exact=True).ids).all()), "a loaded index answers otherwise")
    np.save(folder / "items.npy", items)
    np.save(folder / "users.npy", users)


def check_recommender() -> None:
    """A recommender leaves out what was seen."""
    items, users = ts.datasets.generated_factors(500, 5, 16, seed=2)
    plain = ts.Recommender.build(items, users)
    first = plain.recommend(0, k=3).ids
    seen = [[first[0]], [], [], [], []]
    without = ts.Recommender.build(items, users, seen=seen).recommend(0, k=2).ids
    require(list(without) == list(first[1:]), "a seen item is recommended")


def check_commands(folder: Path) -> None:
    """`tessella` and `python -m tessella` do the same."""
    version = importlib.metadata.version("tessella")
    script = str(Path(sys.executable).with_name("tessella"))
    module = [sys.executable, "-m", "tessella"]

    def run(*command: str) -> str:
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603
        require(ran.returncode == 0, f"{' '.join(command)} failed: {ran.stderr}")
        return ran.stdout

    for command in ([script], module):
        require(run(*command, "--version") == f"tessella {version}\n", f"{command} prints another version")
    run(script, "build", "items.npy", "-o", "built.tessella", "--method", "exact")
    run(*module, "search", "built.tessella", "users.npy", "-k", "3", "-o", "recs.csv")
    rows = (folder / "recs.csv").read_text().splitlines()
    require(rows[0] == "user,rank,item,score" and len(rows) == 61, f"recs.csv has {len(rows)} lines: {rows[0]}")


def check_files() -> None:
    """What has to be in a wheel is there, and what has not is not."""
    package = importlib.resources.files("tessella")
    for path in ("py.typed", "_native.pyi", "serve/console/index.html", "serve/console/js/main.js"):
        require(package.joinpath(path).is_file(), f"{path} is missing from the package")
    names = [str(file) for file in importlib.metadata.files("tessella") or []]
    strays = [name for name in names if name.split("/")[0] in ("tests", "benchmarks", "docs", "native", "examples")]
    require(not strays, f"{strays} should not be installed")


def main() -> None:
    """Run every check."""
    if os.environ.get("TESSELLA_SIMD") != "numpy":
        require(_kernels._native is not None, "the native core is missing")
    check_files()
    with tempfile.TemporaryDirectory() as name:
        check_index(Path(name))
        check_recommender()
        check_commands(Path(name))
    ts.show_config()


if __name__ == "__main__":
    main()
