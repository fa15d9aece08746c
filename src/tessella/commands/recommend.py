"""Recommend: the command that queries a recommender, with its users, seen items and titles."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
import typer
from numpy.typing import NDArray

from tessella._threads import cut
from tessella.commands import everybody, tables, writing
from tessella.commands.files import check_place, has_texts, load, read_allowed, titles_of
from tessella.commands.options import (
    ALLOW,
    AT_MOST,
    BOOST,
    DIVERSIFY,
    EXACT,
    NOW,
    OVERWRITE,
    THREADS,
    WHERE,
    WITH_SEEN,
    given,
    rules_of,
)
from tessella.jobs.all_users import USERS_PER_BLOCK, answer_bytes, users_per_block
from tessella.recommender import Recommender
from tessella.results import SearchResult

ROWS_ON_SCREEN = 50

MODEL = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL",
        help="The file of a recommender; build writes one if given users, seen items, attributes or signals.",
        show_default=False,
    ),
]
_LIKED = "Item ids, separated by commas"


def recommend(
    model: MODEL,
    users: Annotated[
        list[str] | None,
        typer.Option(
            metavar="IDS",
            help="User ids, separated by commas. Pass ids that contain commas with --ids.",
            show_default=False,
        ),
    ] = None,
    ids: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file of user ids, one per line.", show_default=False)
    ] = None,
    all_users: Annotated[bool, typer.Option("--all-users", help="Recommend to all users; needs -o.")] = False,
    liked: Annotated[
        list[str] | None,
        typer.Option(
            metavar="IDS",
            help=f"{_LIKED}. Recommends to a new user who liked them. With --users, adds them to the items that these "
            "users have seen.",
            show_default=False,
        ),
    ] = None,
    like: Annotated[
        list[str] | None, typer.Option(metavar="IDS", help=f"{_LIKED}. Finds items like these.", show_default=False)
    ] = None,
    dislike: Annotated[
        list[str] | None, typer.Option(metavar="IDS", help=f"{_LIKED}. Finds items unlike these.", show_default=False)
    ] = None,
    where: WHERE = None,
    boost: BOOST = None,
    now: NOW = None,
    at_most: AT_MOST = None,
    diversify: DIVERSIFY = None,
    allow: ALLOW = None,
    with_seen: WITH_SEEN = False,
    regularization: Annotated[
        float | None,
        typer.Option(help="For --liked: the regularization used in training; 0.01 by default.", show_default=False),
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(help="For --liked: the alpha used in training; 1 by default.", show_default=False)
    ] = None,
    after: Annotated[
        str | None,
        typer.Option(
            metavar="CURSOR", help="Show the next page, given the cursor printed under a page.", show_default=False
        ),
    ] = None,
    k: Annotated[int, typer.Option("-k", help="How many items to recommend to each user.")] = 10,
    exact: EXACT = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="The file to write: .parquet, .csv or .jsonl (user, rank, item, score and, if there are titles, "
            "title), or .npz; with --all-users, it may also be a folder, as for search-all. By default, a terminal "
            "shows a table, and a pipe gets values separated by tabs.",
            show_default=False,
        ),
    ] = None,
    overwrite: OVERWRITE = False,
    threads: THREADS = None,
) -> None:
    """Recommend items to users of a recommender.

    Without users, recommend to someone of whom only the likes are known (--liked), or by example (--like, --dislike).
    """
    _one_question(users=users or ids, all_users=all_users, liked=liked, like=like or dislike)
    if all_users and output is None:
        raise typer.BadParameter("--all-users needs -o, which is not given.")
    if output is not None and all_users:
        everybody.check_output(output, overwrite)
    elif output is not None:
        writing.writer(output)
        check_place(output, overwrite)
    if liked is None and (regularization is not None or alpha is not None):
        raise typer.BadParameter("--regularization and --alpha need --liked, which is not given.")
    rules = rules_of(where=where, boost=boost, now=now, at_most=at_most, diversify=diversify)
    loaded = load(model, mmap=True)
    if not isinstance(loaded, Recommender):
        raise ValueError(f"{model} holds items only; build it with --users, --seen or --attributes, or use search.")
    index = loaded.index
    asked = rules | given(allow=read_allowed(index, allow), exact=exact, threads=threads)
    asked["exclude_seen"] = not with_seen
    if all_users:
        _to_everybody(cast("Path", output), loaded, k, asked, overwrite=overwrite)
        return
    texts = has_texts(index)
    items = {
        name: tables.as_ids(_split(listed), texts=texts).tolist()
        for name, listed in (("liked", liked), ("like", like), ("dislike", dislike))
        if listed is not None
    }
    items |= given(regularization=regularization, alpha=alpha)
    who = _user_ids(loaded, users, ids)
    if who is not None and liked is not None:
        items["liked"] = [items["liked"]] * len(who)
    answers = _answers(loaded, who, k, asked | items | given(after=after))
    n = 1 if who is None else len(who)
    if output is not None:
        n_certified = writing.write(output, answers, n, overwrite=overwrite)
        typer.echo(f"{output}: the top {k} for {n:,} {'user' if n == 1 else 'users'}, {n_certified:,} certified")
    elif sys.stdout.isatty():
        _show(loaded, who, k, asked | items | given(after=after))
    else:
        writing.write_rows(sys.stdout, answers, "\t")


def _one_question(**ways: object) -> None:
    """Refuse a request for nobody, and options that do not go together."""
    named = [name for name, value in ways.items() if value]
    if not named:
        raise typer.BadParameter("pass users with --users, --ids or --all-users, or items with --liked or --like.")
    if len(named) > 1 and named != ["users", "liked"]:
        raise typer.BadParameter(
            "--users, --all-users, --liked and --like cannot be combined, except --users with --liked; pass only one."
        )


def _to_everybody(out: Path, model: Recommender, k: int, asked: dict[str, Any], *, overwrite: bool) -> None:
    def into(folder: Path) -> SearchResult:
        return cast("SearchResult", model.recommend_all(k, out=folder, overwrite=overwrite, **asked))

    def truth(chosen: NDArray[np.int64]) -> SearchResult:
        return model.recommend(model.user_ids[chosen], k, **asked | {"exact": True})

    job = everybody.Job(k, model.user_ids, titles_of(model), into, truth)
    everybody.answer_everybody(out, job, overwrite=overwrite)


def _answers(
    model: Recommender, users: NDArray[Any] | None, k: int, asked: dict[str, Any]
) -> Iterator[writing.UserAnswers]:
    """Yield the lists of some users, block by block, or the one list for someone without an id."""
    titles = titles_of(model)
    if users is None:
        found = model.recommend(None, k, **asked)
        one = SearchResult(*(np.asarray(part)[None] for part in found.arrays().values()))
        yield writing.UserAnswers(None, one, titles)
        return
    per_block = min(USERS_PER_BLOCK, users_per_block(answer_bytes(model._edition.version, max(1, k))))
    blocks = cut(len(users), len(users) if "after" in asked else per_block)  # a cursor covers all users of a request
    for some in blocks:
        own = asked | ({"liked": asked["liked"][some]} if "liked" in asked else {})
        yield writing.UserAnswers(users[some], model.recommend(users[some], k, **own), titles)


def _show(model: Recommender, users: NDArray[Any] | None, k: int, asked: dict[str, Any]) -> None:
    """Print a table, and how to get the next page."""
    n = 1 if users is None else len(users)
    shown = min(n, max(1, ROWS_ON_SCREEN // max(1, k)))
    if "after" in asked:
        shown = n
    who = None if users is None else users[:shown]
    own = asked | ({"liked": asked["liked"][:shown]} if users is not None and "liked" in asked else {})
    found = model.recommend(who, k, **own)
    lists = SearchResult(*(np.asarray(part)[None] if users is None else part for part in found.arrays().values()))
    writing.show(writing.UserAnswers(who, lists, titles_of(model)), n)
    if shown == n and (found.scores > -np.inf).any():
        typer.echo(f"For the next page, pass --after {found.next}")


def _user_ids(model: Recommender, listed: list[str] | None, path: Path | None) -> NDArray[Any] | None:
    named = [*_split(listed or []), *(tables.read_ids(path) if path is not None else [])]
    if listed is None and path is None:
        return None
    return tables.as_ids(named, texts=model.user_ids.dtype.kind == "U")


def _split(listed: list[str]) -> list[str]:
    """Split ids that are separated by commas."""
    ids = [text.strip() for part in listed for text in part.split(",")]
    if not all(ids):
        raise typer.BadParameter(f"{','.join(listed)!r} has an empty id; separate ids by single commas.")
    return ids
