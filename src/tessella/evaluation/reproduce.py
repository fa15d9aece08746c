"""The paper's experiments from end to end: factors, sweeps, figures, report."""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tessella.evaluation import experiments, plots, report
from tessella.evaluation.experiments import FULL, METHODS, QUICK, Problem, Scale


def problems_for(
    kind: str, scale: Scale, seed: int, data: Path | None, *, quick: bool
) -> tuple[list[Problem], list[str]]:
    """The problems to work on, and what had to be left out."""
    left_out: list[str] = []
    problems: list[Problem] = []
    if kind in ("movielens", "all"):  # first: it may lack data
        problems, left_out = experiments.movielens_problems(data, scale, seed, more=not quick)
    if kind in ("synthetic", "all"):
        problems = experiments.synthetic_problems(scale, seed) + problems
    return problems, left_out


def reproduce(
    kind: str,
    out: Path,
    *,
    quick: bool = False,
    data: Path | None = None,
    seed: int = 0,
    overwrite: bool = False,
    scale: Scale | None = None,
    started: Callable[[int], Callable[[], None]] = lambda _total: lambda: None,
) -> dict[str, Any]:
    """Run the experiments and write the report into a folder, whole or not at all; its numbers.

    Parameters
    ----------
    kind : {"synthetic", "movielens", "all"}
        Which experiments.
    out : Path
        The folder to make.
    quick : bool, default False
        Whether to be quick: fewer items, users, settings and sets.
    data : Path, default None
        The folder of data; None is what `tessella.datasets.movielens` makes of it.
    seed : int, default 0
        The same seed gives the same numbers, times aside.
    overwrite : bool, default False
        Whether to replace a folder that stands there.
    scale : Scale, default None
        How much work to do, if not what `quick` says.
    started : callable
        Called with the number of steps; what it gives is called after each.
    """
    plots.pyplot()  # refused before the work, not after it
    size = scale or (QUICK if quick else FULL)
    with _new_folder(out, overwrite) as folder:
        problems, left_out = problems_for(kind, size, seed, data, quick=quick)
        advance = started(len(problems) * len(METHODS))
        found = {problem.name: experiments.run(problem, size, advance) for problem in problems}
        times = {problem.name: experiments.times(problem, size) for problem in problems}
        command = f"tessella reproduce {kind}{' --quick' if quick else ''} --seed {seed}"
        results = {
            "command": command,
            "seed": seed,
            "quick": quick,
            "versions": experiments.versions(),
            "left_out": left_out,
            "goals": experiments.goals(found),
            "problems": found,
        }
        report.write(results, times, folder)
    return results


@contextlib.contextmanager
def _new_folder(path: Path, overwrite: bool) -> Iterator[Path]:
    """A temporary folder beside `path` to fill; filled, it takes its place, and otherwise it goes."""
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} exists already; pass --overwrite to replace it.")
    if path.exists() and not (path / "report.html").is_file() and (not path.is_dir() or any(path.iterdir())):
        raise FileExistsError(f"{path} holds something other than a report, so it is not replaced.")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.mkdir()
    try:
        yield temporary
        if path.exists():
            shutil.rmtree(path)
        temporary.rename(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
