"""The paper's experiments from end to end: factors, sweeps, final lists, figures, report."""

import contextlib
import importlib.metadata
import importlib.util
import itertools
import platform
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tessella import __version__, _checks, _files
from tessella.paper import plots, problems, report
from tessella.paper.experiments import run
from tessella.paper.final_lists import final_lists
from tessella.paper.methods import METHODS
from tessella.paper.problems import FULL, QUICK, Problem, Scale

KINDS = ("synthetic", "movielens", "all")
Tell = Callable[[str, int, int | None], None]


def reproduce(
    kind: str,
    out: Path,
    *,
    quick: bool = False,
    data: Path | None = None,
    seed: int = 0,
    overwrite: bool = False,
    scale: Scale | None = None,
    tell: Tell = lambda _doing, _done, _total: None,
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
        Whether to replace a report that stands there.
    scale : Scale, default None
        How much work to do, if not what `quick` says.
    tell : callable
        Called before each step with what is being done, how many steps are done, and of how many, once that is known.
    """
    _checks.one_of(kind, "kind", KINDS)
    plots.pyplot()  # refused before the work, not after it
    usual = QUICK if quick else FULL
    size = scale or usual
    place = Path(out)
    with _files.replacing_folder(place, overwrite=overwrite) as folder, _one_thread() as alone:
        _refuse_other_files(place)
        asked, left_out = _problems(kind, size, seed, data, quick=quick, tell=lambda doing: tell(doing, 0, None))
        found, times = _measured(asked, size, tell)
        results = {
            "command": _command(kind, seed, data, quick=quick, size=size, usual=usual),
            "seed": seed,
            "quick": quick,
            "versions": versions(),
            "one_thread": alone,
            "left_out": left_out,
            "problems": found,
        }
        report.write(results, times, folder)
        _refuse_other_files(place)  # again, as the experiments took long
    return results


@contextlib.contextmanager
def _one_thread() -> Iterator[bool]:
    """NumPy on one thread, if threadpoolctl is there: for times, and because its threads wait for each other's CPUs."""
    if importlib.util.find_spec("threadpoolctl") is None:
        yield False
        return
    from threadpoolctl import threadpool_limits  # noqa: PLC0415 - an extra

    with threadpool_limits(1):
        yield True


def _problems(
    kind: str, size: Scale, seed: int, data: Path | None, *, quick: bool, tell: Callable[[str], None]
) -> tuple[list[Problem], list[str]]:
    """The problems to work on, and what had to be left out."""
    left_out: list[str] = []
    found: list[Problem] = []
    if kind in ("movielens", "all"):  # first: it may lack data
        found, left_out = problems.movielens_problems(data, size, seed, more=not quick, tell=tell)
    if kind in ("synthetic", "all"):
        found = problems.synthetic_problems(size, seed) + found
    return found, left_out


def _measured(asked: list[Problem], size: Scale, tell: Tell) -> tuple[dict[str, Any], dict[str, Any]]:
    """The numbers and the times of each problem."""
    total = len(asked) * (len(METHODS) + 1) + 1
    done = itertools.count()
    found, times = {}, {}
    for problem in asked:

        def step(doing: str, title: str = problem.title) -> None:
            tell(f"{title}: {doing}", next(done), total)

        numbers = run(problem, size, step)
        step("final lists")
        numbers["lists"], times[problem.name] = final_lists(problem, numbers, size)
        found[problem.name] = numbers
    tell("Drawing", next(done), total)
    return found, times


def _command(kind: str, seed: int, data: Path | None, *, quick: bool, size: Scale, usual: Scale) -> str:
    """The command that gives these numbers, wherever its data and its output are."""
    words = ["tessella", "reproduce", kind, *(["--quick"] if quick else []), "--seed", str(seed)]
    if data is not None and kind != "synthetic":
        words += ["--data", "FOLDER"]
    if kind != "movielens":
        for name in ("items", "users"):
            if getattr(size, f"n_{name}") != getattr(usual, f"n_{name}"):
                words += [f"--{name}", str(getattr(size, f"n_{name}"))]
        if size.widths != usual.widths:
            words += [word for width in size.widths for word in ("--factors", str(width))]
    if size.n_draws != usual.n_draws:
        words += ["--draws", str(size.n_draws)]
    return shlex.join(words)


def versions() -> dict[str, str]:
    """What ran."""
    found = {"tessella": __version__, "python": platform.python_version(), "machine": platform.machine()}
    for name in ("numpy", "scipy", "matplotlib", "implicit"):
        if importlib.util.find_spec(name) is not None:
            found[name] = importlib.metadata.version(name)
    return found


def _refuse_other_files(path: Path) -> None:
    """Refuse to replace a folder that holds something else than a report."""
    others = sorted({entry.name for entry in path.iterdir()} - {*report.FILES, report.FIGURES}) if path.exists() else []
    if others:
        raise FileExistsError(f"{path} holds {others[0]}, which is no part of a report, so it is not replaced.")
