"""Options: the arguments that several commands share."""

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
    Path, typer.Argument(metavar="USERS", help="Factors of users, in a file like that of items.", show_default=False)
]
ITEMS = Annotated[
    Path,
    typer.Argument(
        metavar="ITEMS",
        help="Factors of items, a row each: .npy; .npz (one array, or `factors`, and perhaps `ids`); .csv (with column "
        "names or without, and ids first if the first name is `id`); .parquet (columns of numbers or one of lists, and "
        "perhaps `id`).",
        show_default=False,
    ),
]
THREADS = Annotated[
    int | None, typer.Option(help="Threads to use, if not one for each CPU. Changes no answer.", show_default=False)
]
NEW_IDS = Annotated[
    Path | None,
    typer.Option(
        help="Ids of the items, one a line, taken as whole numbers or as texts, as those in the index are. Without, "
        "ids are those beside the factors.",
        show_default=False,
    ),
]
OVERWRITE = Annotated[bool, typer.Option("--overwrite", help="Replace the output if it exists.")]
EXCLUDE = Annotated[
    Path | None,
    typer.Option(
        help="Items not to recommend, such as those seen: a sparse matrix of users x items, in the order of the "
        "index or of --columns, from scipy.sparse.save_npz.",
        show_default=False,
    ),
]
COLUMNS = Annotated[
    Path | None,
    typer.Option(
        help="Ids of the items that the columns of --exclude are, one a line; needed once items were removed.",
        show_default=False,
    ),
]
USER_IDS = Annotated[
    Path | None,
    typer.Option(
        help="Ids of the users, one a line, in the order of their factors. Without, ids are those beside the factors, "
        "or row numbers from 0.",
        show_default=False,
    ),
]
ALLOW = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Recommend only these items: a file of ids, one a line.", show_default=False),
]
REACH = Annotated[
    float | None,
    typer.Option(
        help="Search by tiles, for an index with tiles. How far their bounds are trusted, 0 to 1: more finds more and "
        "takes longer; 1 certifies the top k.",
        show_default=False,
    ),
]
BUDGET = Annotated[
    int | None,
    typer.Option(help="Search by slots: score only the best so many items by them.", show_default=False),
]
MAX_SLOTS = Annotated[
    int | None, typer.Option(help="Search by slots: look through this many for each user.", show_default=False)
]
ATTRIBUTES = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="What is known of items: .csv or .parquet with a column id, and one for each attribute. A column "
        "title is shown; in CSV, several values are separated by |.",
        show_default=False,
    ),
]
SIGNALS = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Numbers of items that recommend --boost can add to scores: .csv or .parquet with a column id, and "
        "one for each signal.",
        show_default=False,
    ),
]
WHERE = Annotated[
    str | None,
    typer.Option(
        metavar="JSON",
        help='A condition on attributes, such as \'{"genre": "comedy", "year": {"from": 1990}}\'.',
        show_default=False,
    ),
]
BOOST = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=WEIGHT", help="Add weight x signal to scores; once for each signal.", show_default=False
    ),
]
NOW = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", help="When it is, for decaying signals: 2030-12-31T12:00. Without, now.", show_default=False
    ),
]
AT_MOST = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN=N", help="At most so many items of a list for each value of an attribute.", show_default=False
    ),
]
DIVERSIFY = Annotated[
    float | None,
    typer.Option(
        metavar="WEIGHT",
        help="From the best 100, choose items that are unlike each other: 0 keeps the order, at 1 only variety counts.",
        show_default=False,
    ),
]
WITH_SEEN = Annotated[bool, typer.Option("--with-seen", help="Recommend what users have seen, too.")]
EXACT = Annotated[bool, typer.Option("--exact", help="Find the true top k, certified.")]


def method_of(*, reach: float | None, budget: int | None, max_slots: int | None, exact: bool) -> Method | None:
    """The method that options name, or None for the plan's."""
    named = {
        "--exact": exact,
        "--reach": reach is not None,
        "--budget or --max-slots": budget is not None or max_slots is not None,
    }
    chosen = [name for name, is_named in named.items() if is_named]
    if len(chosen) > 1:
        raise ValueError(f"{' and '.join(chosen)} name different methods; pass one of them.")
    if exact:
        return Exact()
    if reach is not None:
        return Tiles(reach)
    return Slots(budget, max_slots) if chosen else None


def rules_of(
    *, where: str | None, boost: list[str] | None, now: str | None, at_most: str | None, diversify: float | None
) -> dict[str, Any]:
    """What options ask of a list, as `Recommender.recommend` takes it."""
    rules = {} if where is None else {"where": _json(where)}
    if boost is not None:
        rules["boosts"] = dict(_named_number(text, "--boost", "fresh=0.5") for text in boost)
    return rules | given(now=_moment(now), variety=_variety(at_most, diversify))


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (RecursionError, ValueError) as error:
        raise ValueError(f"--where is no JSON: {error}.") from None


def _moment(text: str | None) -> np.datetime64 | None:
    try:
        return None if text is None else np.datetime64(text)
    except ValueError:
        raise typer.BadParameter(f"--now is {text!r}, but must be a time such as 2030-12-31T12:00.") from None


def _variety(at_most: str | None, diversify: float | None) -> Variety | None:
    if at_most is not None and diversify is not None:
        raise typer.BadParameter("--at-most and --diversify are different rules; pass one of them.")
    if at_most is None:
        return None if diversify is None else variety.diversify(diversify)
    column, n = _named_number(at_most, "--at-most", "genre=2")
    return variety.at_most(int(n) if n == int(n) else n, per=column)  # type: ignore[arg-type]


def half_lives_of(days: list[str] | None) -> dict[str, float]:
    """The half-lives in days by signal that --half-life names."""
    return dict(_named_number(text, "--half-life", "fresh=30") for text in days or [])


def _named_number(text: str, option: str, example: str) -> tuple[str, float]:
    """A name and a number, as in name=0.5."""
    name, _, number = text.rpartition("=")
    try:
        value = float(number)
    except ValueError:
        name, value = "", 0.0
    if not name or not math.isfinite(value):
        raise typer.BadParameter(f"{option} is {text!r}, but must be a name and a number, such as {example}.")
    return name, value


def given(**options: Any) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None and value is not False}
