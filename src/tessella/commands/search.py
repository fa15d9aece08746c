"""Search: the commands that recommend items to users."""

import itertools
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from tessella import _files
from tessella._threads import cut
from tessella.commands import tables
from tessella.commands.files import check_place, names_of, read_excluded
from tessella.commands.options import (
    BUDGET,
    COLUMNS,
    EXACT,
    EXCLUDE,
    INDEX,
    MAX_SLOTS,
    OVERWRITE,
    REACH,
    THREADS,
    USERS,
    given,
    method_of,
)
from tessella.index import Index
from tessella.jobs import answer_folder
from tessella.jobs.all_users import USERS_PER_BLOCK
from tessella.jobs.progress import bar
from tessella.results import SearchResult
from tessella.search.recall import recall

ROWS_ON_SCREEN = 50
USERS_COMPARED = 200  # with exact answers, where not all are certified


def search(
    index: INDEX,
    users: USERS,
    k: Annotated[int, typer.Option("-k", help="How many items to recommend to each user.")] = 10,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Where answers go: .parquet, .csv or .jsonl (user, rank, item, score), or .npz (ids, scores, "
            "n_scored, certified). Without, the first are shown, and a pipe gets all of them, separated by tabs.",
            show_default=False,
        ),
    ] = None,
    exclude: EXCLUDE = None,
    columns: COLUMNS = None,
    reach: REACH = None,
    budget: BUDGET = None,
    max_slots: MAX_SLOTS = None,
    exact: EXACT = False,
    overwrite: OVERWRITE = False,
    threads: THREADS = None,
) -> None:
    """Recommend items to users: the k with the largest inner products."""
    if output is not None:
        tables.writer(output)  # before the work, not after it
        check_place(output, overwrite)
    loaded = Index.load(index)
    table = tables.read_factors(users, loaded.n_factors)
    names = names_of(table)
    seen = read_excluded(loaded, exclude, columns, len(names))
    method = method_of(reach=reach, budget=budget, max_slots=max_slots, exact=exact)

    def answers(n_users: int) -> Iterator[tables.UserAnswers]:
        for batch in cut(n_users, USERS_PER_BLOCK) or [slice(0, 0)]:  # where there are no users, k is still looked at
            excluded = None if seen is None else (seen[0][batch], seen[1])
            found = loaded.search(table.factors[batch], k, method=method, exclude=excluded, **given(threads=threads))
            yield tables.UserAnswers(names[batch], found)

    if output is not None:
        n_certified = _write(output, answers(len(names)), len(names), overwrite)
        typer.echo(f"{output}: the top {k} for {len(names):,} users, {n_certified:,} of them certified")
    elif sys.stdout.isatty():
        shown = min(len(names), max(1, ROWS_ON_SCREEN // max(1, k)))
        _show(next(answers(shown)), len(names))
    else:
        tables.write_rows(sys.stdout, answers(len(names)), "\t")


def search_all(
    index: INDEX,
    users: USERS,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            metavar="FOLDER",
            help="Where answers go: ids.npy, scores.npy, n_scored.npy and certified.npy, a row a user. Until all "
            "are there, its name ends in .partial, and after an interruption, repeat the command to resume.",
            show_default=False,
        ),
    ],
    k: Annotated[int, typer.Option("-k", "--k", help="How many items to recommend to each user.")] = 10,
    exclude: EXCLUDE = None,
    columns: COLUMNS = None,
    reach: REACH = None,
    budget: BUDGET = None,
    max_slots: MAX_SLOTS = None,
    exact: EXACT = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a folder of answers, or one that is partial and does not fit.")
    ] = False,
    threads: THREADS = None,
) -> None:
    """Recommend items to all users, in little memory, and go on after an interruption."""
    answer_folder.check_place(out, overwrite=overwrite)
    loaded = Index.load(index)
    method = method_of(reach=reach, budget=budget, max_slots=max_slots, exact=exact)
    factors = tables.open_factors(users, loaded.n_factors)
    seen = read_excluded(loaded, exclude, columns, len(factors))
    before, start = answer_folder.users_done(out), time.perf_counter()
    try:
        source = users if users.suffix.lower() == ".npy" else factors  # the path names it in sentences
        found = loaded.search_all(
            source, k, method=method, exclude=seen, out=out, overwrite=overwrite, **given(threads=threads)
        )
    except (KeyboardInterrupt, SystemExit) as stop:  # by Ctrl-C, or because the process is to end
        done = answer_folder.users_done(out)
        kept = f"{done:,} of {len(factors):,} users are done and kept; repeat the command to resume."
        if isinstance(stop, KeyboardInterrupt):
            raise KeyboardInterrupt(f"interrupted. {kept}" if done else "interrupted.") from None
        if done:
            typer.echo(f"tessella: interrupted. {kept}", err=True)
        raise
    seconds, n_now = time.perf_counter() - start, len(factors) - before
    earlier = f" ({before:,} from an earlier run)" if before else ""
    speed = f", {n_now / seconds:,.0f} users a second" if n_now else ""
    quality = _quality(loaded, factors, seen, found)
    typer.echo(f"{out}: the top {k} for {len(factors):,} users{earlier}, {quality}{speed}")


def _write(path: Path, answers: Iterator[tables.UserAnswers], n_users: int, overwrite: bool) -> int:
    """Write answers, whole or not at all; how many are certified."""
    n_certified = 0

    def watched() -> Iterator[tables.UserAnswers]:
        nonlocal n_certified
        for part in answers:
            yield part
            n_certified += int(part.found.certified.sum())
            advance(len(part.users))

    with bar(n_users) as advance, _files.replacing(path, overwrite=overwrite) as temporary:
        tables.writer(path)(temporary, watched())
    return n_certified


def _quality(index: Index, users: NDArray[Any], seen: Any, found: SearchResult) -> str:
    """How good answers are: all are certified, or what share of the true top k a sample of users got."""
    n_certified = int(np.count_nonzero(found.certified))
    if n_certified == len(users):
        return "all certified"
    chosen = np.unique(np.linspace(0, len(users) - 1, USERS_COMPARED).astype(np.int64))
    k = found.scores.shape[1]
    excluded = None if seen is None else (seen[0][chosen], seen[1])
    true = index.search(users[chosen], k, exclude=excluded, exact=True)
    share = recall(found.scores[chosen], true.scores).mean()
    certified = f"{n_certified:,} certified" if n_certified else "none certified"
    return f"{certified}, recall {share:.3f} measured with {len(chosen):,} users"


def _show(answers: tables.UserAnswers, n_users: int) -> None:
    """A table of a few answers, for people."""
    shown = Table(*tables.COLUMNS, box=SIMPLE)
    for _, rows in itertools.groupby(tables.rows(answers), key=lambda row: row[0]):
        for row in rows:
            shown.add_row(*map(str, row))
        shown.add_section()
    console = Console(markup=False, emoji=False, highlight=False)
    console.print(shown)
    console.print(f"The first {len(answers.users):,} of {n_users:,} users; -o writes the answers to all.")
