"""Options: the arguments shared by several commands."""

import json
import math
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from tessella.recommend import variety
from tessella.recommend.answering import Variety
from tessella.retrieval.plan import Exact, Method, Slots, Tiles

INDEX = Annotated[
    Path, typer.Argument(metavar="INDEX", help="The file of an index or a recommender.", show_default=False)
]
USERS = Annotated[
    Path,
    typer.Argument(metavar="USERS", help="User factors, one row per user, in a file as for build.", show_default=False),
]
ITEMS = Annotated[
    Path,
    typer.Argument(
        metavar="ITEMS",
        help="Item factors, one row per item: .npy; .npz (one array, or `factors`, and optionally `ids`); .csv (with "
        "or without column names; ids come first if the first name is `id`); .parquet (columns of numbers, or one "
        "column of lists, and optionally `id`).",
        show_default=False,
    ),
]
THREADS = Annotated[
    int | None,
    typer.Option(help="How many threads to use; by default, every CPU. Does not affect results.", show_default=False),
]
NEW_IDS = Annotated[
    Path | None,
    typer.Option(
        help="A file of item ids, one per line, of the same type as those in the index. By default, the ids stored "
        "with the factors.",
        show_default=False,
    ),
]
OVERWRITE = Annotated[bool, typer.Option("--overwrite", help="Replace the output if it exists.")]
EXCLUDE = Annotated[
    Path | None,
    typer.Option(
        help="Items not to recommend, such as seen items: a sparse matrix of users x items from "
        "scipy.sparse.save_npz, with columns in the order of the index or of --columns.",
        show_default=False,
    ),
]
COLUMNS = Annotated[
    Path | None,
    typer.Option(
        help="A file with the item id of each column of --exclude, one per line; needed once items have been removed.",
        show_default=False,
    ),
]
USER_IDS = Annotated[
    Path | None,
    typer.Option(
        help="A file of user ids, one per line, in the order of the factors. By default, the ids stored with the "
        "factors, or row numbers from 0.",
        show_default=False,
    ),
]
ALLOW = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Recommend only these items: a file of ids, one per line.", show_default=False),
]
REACH = Annotated[
    float | None,
    typer.Option(
        help="Search by tiles, in an index with tiles. From 0 to 1: a larger reach finds more and takes longer; 1 "
        "certifies the top k.",
        show_default=False,
    ),
]
BUDGET = Annotated[
    int | None,
    typer.Option(help="Search by slots: score only this many of the best candidates.", show_default=False),
]
MAX_SLOTS = Annotated[
    int | None, typer.Option(help="Search by slots: use at most this many slots of each user.", show_default=False)
]
ATTRIBUTES = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Item attributes: .csv or .parquet with a column id and one column for each attribute. A column named "
        "title is shown in results. In CSV, separate several values by |.",
        show_default=False,
    ),
]
SIGNALS = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Item signals, which recommend --boost can add to scores: .csv or .parquet with a column id and one "
        "column of numbers for each signal.",
        show_default=False,
    ),
]
WHERE = Annotated[
    str | None,
    typer.Option(
        metavar="JSON",
        help='A condition on item attributes, such as \'{"genre": "comedy", "year": {"from": 1990}}\'.',
        show_default=False,
    ),
]
BOOST = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=WEIGHT", help="Add weight x signal to scores. Can be repeated.", show_default=False),
]
NOW = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="The time for decaying signals, such as 2030-12-31T12:00. By default, the current time.",
        show_default=False,
    ),
]
AT_MOST = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN=N",
        help="Limit each list to N items for each value of an attribute.",
        show_default=False,
    ),
]
DIVERSIFY = Annotated[
    float | None,
    typer.Option(
        metavar="WEIGHT",
        help="Choose dissimilar items from the best 100: with 0 the order stays; with 1 only variety counts.",
        show_default=False,
    ),
]
WITH_SEEN = Annotated[bool, typer.Option("--with-seen", help="Also recommend items that users have seen.")]
EXACT = Annotated[bool, typer.Option("--exact", help="Find the true top k, certified.")]


def method_of(*, reach: float | None, budget: int | None, max_slots: int | None, exact: bool) -> Method | None:
    """Return the method that the options select, or None to follow the plan."""
    named = {
        "--exact": exact,
        "--reach": reach is not None,
        "--budget or --max-slots": budget is not None or max_slots is not None,
    }
    chosen = [name for name, is_named in named.items() if is_named]
    if len(chosen) > 1:
        raise ValueError(f"{' and '.join(chosen)} select different methods; pass only one of them.")
    if exact:
        return Exact()
    if reach is not None:
        return Tiles(reach)
    return Slots(budget, max_slots) if chosen else None


def rules_of(
    *, where: str | None, boost: list[str] | None, now: str | None, at_most: str | None, diversify: float | None
) -> dict[str, Any]:
    """Convert options to arguments of `Recommender.recommend`."""
    rules = {} if where is None else {"where": _json(where)}
    if boost is not None:
        rules["boosts"] = dict(_named_number(text, "--boost", "fresh=0.5") for text in boost)
    return rules | given(now=_moment(now), variety=_variety(at_most, diversify))


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (RecursionError, ValueError) as error:
        raise ValueError(f"--where is not valid JSON: {error}.") from None


def _moment(text: str | None) -> np.datetime64 | None:
    try:
        return None if text is None else np.datetime64(text)
    except ValueError:
        raise typer.BadParameter(f"--now is {text!r}, but must be a time such as 2030-12-31T12:00.") from None


def _variety(at_most: str | None, diversify: float | None) -> Variety | None:
    if at_most is not None and diversify is not None:
        raise typer.BadParameter("--at-most and --diversify are different rules; pass only one of them.")
    if at_most is None:
        return None if diversify is None else variety.diversify(diversify)
    column, n = _named_number(at_most, "--at-most", "genre=2")
    return variety.at_most(int(n) if n == int(n) else n, per=column)  # type: ignore[arg-type]


def half_lives_of(days: list[str] | None) -> dict[str, float]:
    """Return the half-lives in days by signal, from --half-life."""
    return dict(_named_number(text, "--half-life", "fresh=30") for text in days or [])


def _named_number(text: str, option: str, example: str) -> tuple[str, float]:
    """Parse a name and a number, such as name=0.5."""
    name, _, number = text.rpartition("=")
    try:
        value = float(number)
    except ValueError:
        name, value = "", 0.0
    if not name or not math.isfinite(value):
        raise typer.BadParameter(f"{option} is {text!r}, but must be a name and a number, such as {example}.")
    return name, value


def given(**options: Any) -> dict[str, Any]:
    """Return the options that were given."""
    return {name: value for name, value in options.items() if value is not None and value is not False}
