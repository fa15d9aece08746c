"""The paper's experiments end to end: factors, sweeps, final lists, figures, report."""

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
    """Run the experiments, write the report to a folder, atomically, and return its numbers.

    Parameters
    ----------
    kind : {"synthetic", "movielens", "all"}
        Which experiments to run.
    out : Path
        The folder to create.
    quick : bool, default False
        Whether to use fewer items, users, settings and datasets.
    data : Path, default None
        The data folder; for None, see `tessella.datasets.movielens`.
    seed : int, default 0
        Equal seeds give equal numbers, except for times.
    overwrite : bool, default False
        Whether to replace an existing report.
    scale : Scale, default None
        How much work to do; None follows `quick`.
    tell : callable
        Called before each step with its description, how many steps are done, and how many there are, once known.
    """
    _checks.one_of(kind, "kind", KINDS)
    plots.pyplot()  # if matplotlib is missing, fail before the work, not after it
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
        _refuse_other_files(place)  # again, since the experiments take a long time
    return results


@contextlib.contextmanager
def _one_thread() -> Iterator[bool]:
    """Limit NumPy to one thread, if threadpoolctl is installed: for timing, and because its threads would compete."""
    if importlib.util.find_spec("threadpoolctl") is None:
        yield False
        return
    from threadpoolctl import threadpool_limits  # noqa: PLC0415 - an extra

    with threadpool_limits(1):
        yield True


def _problems(
    kind: str, size: Scale, seed: int, data: Path | None, *, quick: bool, tell: Callable[[str], None]
) -> tuple[list[Problem], list[str]]:
    """Return the problems to run, and what had to be left out."""
    left_out: list[str] = []
    found: list[Problem] = []
    if kind in ("movielens", "all"):  # first: it may lack data
        found, left_out = problems.movielens_problems(data, size, seed, more=not quick, tell=tell)
    if kind in ("synthetic", "all"):
        found = problems.synthetic_problems(size, seed) + found
    return found, left_out


def _measured(asked: list[Problem], size: Scale, tell: Tell) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the numbers and the times of each problem."""
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
    """Return the command that reproduces these numbers, without the paths of data and output."""
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
    """Return the versions of the software used."""
    found = {"tessella": __version__, "python": platform.python_version(), "machine": platform.machine()}
    for name in ("numpy", "scipy", "matplotlib", "implicit"):
        if importlib.util.find_spec(name) is not None:
            found[name] = importlib.metadata.version(name)
    return found


def _refuse_other_files(path: Path) -> None:
    """Refuse to replace a folder with files that are not part of a report."""
    others = sorted({entry.name for entry in path.iterdir()} - {*report.FILES, report.FIGURES}) if path.exists() else []
    if others:
        raise FileExistsError(
            f"{path} contains {others[0]}, which is not part of a report, so it is not replaced; choose another path."
        )
