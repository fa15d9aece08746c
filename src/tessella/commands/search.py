"""Search: the commands that search for users with factors in a file."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, cast

import numpy as np
import typer
from numpy.typing import NDArray

from tessella._threads import cut
from tessella.commands import everybody, writing
from tessella.commands.files import check_place, load_items, open_users, read_allowed, read_excluded
from tessella.commands.options import (
    ALLOW,
    BUDGET,
    COLUMNS,
    EXACT,
    EXCLUDE,
    INDEX,
    MAX_SLOTS,
    OVERWRITE,
    REACH,
    THREADS,
    USER_IDS,
    USERS,
    given,
    method_of,
)
from tessella.jobs import all_users
from tessella.jobs.all_users import USERS_PER_BLOCK, answer_bytes, users_per_block
from tessella.results import SearchResult

ROWS_ON_SCREEN = 50


def search(
    index: INDEX,
    users: USERS,
    k: Annotated[int, typer.Option("-k", help="How many items to recommend to each user.")] = 10,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="The file to write: .parquet, .csv or .jsonl (user, rank, item, score and, if there are titles, "
            "title), or .npz (users, ids, scores, n_scored, certified). By default, a terminal shows the first "
            "answers, and a pipe gets all of them, separated by tabs.",
            show_default=False,
        ),
    ] = None,
    ids: USER_IDS = None,
    exclude: EXCLUDE = None,
    columns: COLUMNS = None,
    allow: ALLOW = None,
    reach: REACH = None,
    budget: BUDGET = None,
    max_slots: MAX_SLOTS = None,
    exact: EXACT = False,
    overwrite: OVERWRITE = False,
    threads: THREADS = None,
) -> None:
    """Recommend items to users in a file of factors.

    Each user gets the k items with the largest inner products.
    """
    if output is not None:
        writing.writer(output)  # refuses a bad suffix before the work starts
        check_place(output, overwrite)
    loaded, titles = load_items(index)
    table = open_users(users, ids, loaded.n_factors, None if output is None else output.parent)
    table.check()
    names, n_users = table.names, len(table)
    seen = read_excluded(loaded, exclude, columns, n_users)
    allowed = read_allowed(loaded, allow)
    method = method_of(reach=reach, budget=budget, max_slots=max_slots, exact=exact)

    def answers(n_users: int) -> Iterator[writing.UserAnswers]:
        per_block = min(USERS_PER_BLOCK, users_per_block(answer_bytes(loaded._version, max(1, k))))
        for some in cut(n_users, per_block) or [slice(0, 0)]:  # even without users, k is checked
            excluded = None if seen is None else (seen[0][some], seen[1])
            options = given(threads=threads, allow=allowed)
            found = loaded.search(table.block(some), k, method=method, exclude=excluded, **options)
            yield writing.UserAnswers(names[some], found, titles)

    if output is not None:
        n_certified = writing.write(output, answers(n_users), n_users, overwrite=overwrite)
        typer.echo(f"{output}: the top {k} for {n_users:,} users, {n_certified:,} of them certified")
    elif sys.stdout.isatty():
        shown = min(n_users, max(1, ROWS_ON_SCREEN // max(1, k)))
        writing.show(next(answers(shown)), n_users)
    else:
        writing.write_rows(sys.stdout, answers(n_users), "\t")


def search_all(
    index: INDEX,
    users: USERS,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            metavar="PATH",
            help="The output: one file, as for search, or a folder of ids.npy, scores.npy, n_scored.npy and "
            "certified.npy, with one row per user, and users.json with the user ids. Until it is complete, answers are "
            "in a folder whose name ends in .partial.",
            show_default=False,
        ),
    ],
    k: Annotated[int, typer.Option("-k", "--k", help="How many items to recommend to each user.")] = 10,
    ids: USER_IDS = None,
    exclude: EXCLUDE = None,
    columns: COLUMNS = None,
    allow: ALLOW = None,
    reach: REACH = None,
    budget: BUDGET = None,
    max_slots: MAX_SLOTS = None,
    exact: EXACT = False,
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Replace an existing output, or a partial folder that cannot be resumed."),
    ] = False,
    threads: THREADS = None,
) -> None:
    """Recommend items to all users in a file, in little memory.

    Each user gets the k items with the largest inner products. After an interruption, repeat the command to resume.
    """
    everybody.check_output(out, overwrite)
    loaded, titles = load_items(index)
    method = method_of(reach=reach, budget=budget, max_slots=max_slots, exact=exact)
    table = open_users(users, ids, loaded.n_factors, out.parent)
    table.check()
    seen = read_excluded(loaded, exclude, columns, len(table))
    allowed = read_allowed(loaded, allow)

    def into(folder: Path) -> SearchResult:
        found = all_users.search_all(
            loaded._version,
            table.factors,
            k,
            method=method,
            exclude=seen,
            allow=allowed,
            user_ids=table.ids,
            out=folder,
            overwrite=overwrite,
            progress=None,
            threads=threads,
        )
        return cast("SearchResult", found)

    def truth(chosen: NDArray[np.int64]) -> SearchResult:
        excluded = None if seen is None else (seen[0][chosen], seen[1])
        return loaded.search(table.factors[chosen], k, exclude=excluded, exact=True, **given(allow=allowed))

    everybody.answer_everybody(out, everybody.Job(k, table.names, titles, into, truth), overwrite=overwrite)
