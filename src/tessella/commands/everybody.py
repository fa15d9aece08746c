"""Everybody: a job for all users that writes a folder or one file, and can be interrupted and resumed."""

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

from tessella import _files
from tessella._threads import cut
from tessella.commands import writing
from tessella.commands.files import check_place
from tessella.jobs import answer_folder
from tessella.jobs.all_users import USERS_PER_BLOCK
from tessella.jobs.answer_folder import Listed
from tessella.results import SearchResult
from tessella.search.recall import recall

USERS_COMPARED = 200  # how many users to compare with exact answers, if not all are certified


class Job(NamedTuple):
    """A request for all users, and how to run it."""

    k: int
    names: Listed
    titles: writing.Titles | None
    into: Callable[[Path], SearchResult]  # writes a folder of answers
    truth: Callable[[NDArray[np.int64]], SearchResult]  # the true answers for some users


def check_output(out: Path, overwrite: bool) -> None:
    """Refuse an output that cannot be written, before the work starts."""
    if writing.is_file(out):
        writing.writer(out)
        check_place(out, overwrite)
        answer_folder.check_place(_answers(out), overwrite=True)
    else:
        answer_folder.check_place(out, overwrite=overwrite)


def answer_everybody(out: Path, job: Job, *, overwrite: bool) -> None:
    """Run a job and report how it went, or what is kept if it is interrupted."""
    n_users = len(job.names)
    folder = _answers(out) if writing.is_file(out) else out
    if folder != out:
        _reopen(folder)
    before, start = answer_folder.users_done(folder), time.perf_counter()
    try:
        found = job.into(folder)
        seconds = time.perf_counter() - start
        quality = _quality(job, found)
        if folder != out:
            writing.write(out, _parts(job, found), n_users, overwrite=overwrite, shown=False)
            shutil.rmtree(folder, ignore_errors=True)
    except (KeyboardInterrupt, SystemExit) as stop:  # by Ctrl-C, or by a signal to terminate
        done = n_users if folder != out and folder.exists() else answer_folder.users_done(folder)
        kept = f"{done:,} of {n_users:,} users are done and kept; repeat the command to resume."
        if isinstance(stop, KeyboardInterrupt):
            raise KeyboardInterrupt(f"interrupted. {kept}" if done else "interrupted.") from None
        if done:
            typer.echo(f"tessella: interrupted. {kept}", err=True)
        raise
    n_now = n_users - before
    earlier = f" ({before:,} from an earlier run)" if before else ""
    speed = f", {n_now / seconds:,.0f} users per second" if n_now else ""
    typer.echo(f"{out}: the top {job.k} for {n_users:,} users{earlier}, {quality}{speed}")


def _answers(out: Path) -> Path:
    """Return the folder that holds the answers until they are written to one file."""
    return _files.beside(_files.followed(out), "", ".answers")


def _reopen(folder: Path) -> None:
    """Rename a complete folder that was not yet written to a file to a partial one, so that it is checked again."""
    partial = answer_folder.partial_of(folder)
    if folder.is_dir() and not partial.exists():
        folder.rename(partial)


def _parts(job: Job, found: SearchResult) -> Iterator[writing.UserAnswers]:
    """Yield the answers in a folder, block by block."""
    for some in cut(len(job.names), USERS_PER_BLOCK) or [slice(0, 0)]:
        block = SearchResult(*(part[some] for part in found.arrays().values()))
        yield writing.UserAnswers(job.names[some], block, job.titles)


def _quality(job: Job, found: SearchResult) -> str:
    """Describe the quality of the answers: all certified, or the recall measured on a sample of users."""
    n_users, n_certified = len(job.names), int(np.count_nonzero(found.certified))
    if n_certified == n_users:
        return "all certified"
    chosen = np.unique(np.linspace(0, n_users - 1, USERS_COMPARED).astype(np.int64))
    share = recall(found.scores[chosen], job.truth(chosen).scores).mean()
    certified = f"{n_certified:,} certified" if n_certified else "none certified"
    return f"{certified}, recall {share:.3f} measured with {len(chosen):,} users"
