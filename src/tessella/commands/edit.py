"""Edit: the commands that build the file of an index or a recommender and change its items."""

import enum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from tessella.commands import known, tables
from tessella.commands.files import (
    check_place,
    has_texts,
    load,
    open_users,
    read_items,
    read_items_for,
    replace,
    report,
)
from tessella.commands.options import (
    ATTRIBUTES,
    INDEX,
    ITEMS,
    NEW_IDS,
    OVERWRITE,
    SIGNALS,
    THREADS,
    USER_IDS,
    given,
    half_lives_of,
)
from tessella.index import Index
from tessella.recommend.signals import Decaying
from tessella.recommender import Recommender

DAY = 86_400  # seconds


class Methods(enum.StrEnum):
    """The search methods of `tessella build`."""

    AUTO = "auto"
    EXACT = "exact"
    TILES = "tiles"


def build(
    items: ITEMS,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="INDEX", help="The file to write.", show_default=False)
    ],
    ids: Annotated[
        Path | None,
        typer.Option(
            help="A file of item ids, one per line: integers if every line is one, without leading zeros, and strings "
            "otherwise. By default, the ids stored with the factors, or row numbers from 0.",
            show_default=False,
        ),
    ] = None,
    users: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="User factors from the same model, in a file like ITEMS. Builds a recommender, to use with the "
            "recommend command.",
            show_default=False,
        ),
    ] = None,
    user_ids: USER_IDS = None,
    seen: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Items that users have seen: .csv or .parquet with columns user and item, which hold ids, and "
            "optionally weight; or a sparse matrix of users x items from scipy.sparse.save_npz.",
            show_default=False,
        ),
    ] = None,
    attributes: ATTRIBUTES = None,
    signals: SIGNALS = None,
    half_life: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=DAYS",
            help="Treat a signal as dates: it halves with every DAYS days of an item's age. Can be repeated.",
            show_default=False,
        ),
    ] = None,
    method: Annotated[
        Methods,
        typer.Option(
            help="How to search: auto uses the fastest method that reaches the target recall, exact finds the true top "
            "k, and tiles uses learned tiles."
        ),
    ] = Methods.AUTO,
    target_recall: Annotated[
        float | None,
        typer.Option(
            help="The share of the true top k to find, from 0 to 1, for every k; 0.95 by default for auto. With tiles, "
            "the method is then selected to reach it, as by Index.tune.",
            show_default=False,
        ),
    ] = None,
    queries: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="User factors to measure recall with, in a file like ITEMS. By default, queries are generated from "
            "the items.",
            show_default=False,
        ),
    ] = None,
    k: Annotated[
        int | None,
        typer.Option(
            "-k",
            "--k",
            help="The number of items you will request most often; recall is also measured for it.",
            show_default=False,
        ),
    ] = None,
    overwrite: OVERWRITE = False,
    threads: THREADS = None,
) -> None:
    """Build an index or a recommender from factors.

    Item factors alone make an index. With users, seen items, attributes or signals, the file holds a recommender.
    """
    if method is Methods.EXACT and (target_recall is not None or queries is not None):
        raise typer.BadParameter(
            "--target-recall and --queries do not apply to --method exact, whose recall is always 1; leave them out."
        )
    decaying = half_lives_of(half_life)
    if decaying and signals is None:
        raise typer.BadParameter("--half-life needs --signals, which is not given.")
    check_place(output, overwrite)
    factors, listed = read_items(items, ids)
    measured = None if queries is None else tables.read_factors(queries, factors.shape[1]).factors
    options = given(target_recall=target_recall, queries=measured, k=k, threads=threads)
    if users is seen is attributes is signals is None:
        if user_ids is not None:
            raise typer.BadParameter("--user-ids needs --users or --seen, but neither is given.")
        index = Index.build(factors, listed, method=method.value, **options)
        index.save(output, overwrite=overwrite)
        report(output, index)
        return
    item_ids = np.arange(len(factors)) if listed is None else listed
    people = None if users is None else open_users(users, user_ids, factors.shape[1], output.parent)
    named = None if people is None or people.ids is None else people.ids[:]
    said = []
    if people is None and user_ids is not None:
        named = tables.as_ids(tables.read_ids(user_ids))
    if seen is not None:
        n_users = len(people) if people is not None else None if named is None else len(named)
        met = known.read_interactions(seen, named, n_users, item_ids)
        named = met.user_ids if named is None else named
        said.append(met.passed_over)
        options["seen"] = met.matrix
    for name, path in _paths(attributes, signals):
        options[name], passed_over = known.read_columns(path, item_ids, name)
        said.append(passed_over)
    if signals is not None:
        options["signals"] |= _decaying(signals, options["signals"], decaying)
    user_factors = None if people is None else people.factors
    recommender = Recommender.build(
        factors, user_factors, item_ids=listed, user_ids=named, method=method.value, **options
    )
    recommender.save(output, overwrite=overwrite)
    report(output, recommender, said)


def _decaying(path: Path, columns: dict[str, Any], half_lives: dict[str, float]) -> dict[str, Decaying]:
    """Return the decaying signals by name."""
    unknown = [name for name in half_lives if name not in columns]
    if unknown:
        raise ValueError(f"--half-life names {unknown[0]!r}, but {path} has {', '.join(map(repr, columns))}.")
    return {name: Decaying(columns[name], half_life=DAY * days) for name, days in half_lives.items()}


def add(
    index: INDEX, items: ITEMS, ids: NEW_IDS = None, attributes: ATTRIBUTES = None, signals: SIGNALS = None
) -> None:
    """Add items to an index or a recommender. If an item cannot be added, the file stays unchanged."""
    loaded = load(index)
    factors, named = read_items_for(loaded, items, ids)
    said: list[str] = []
    if isinstance(loaded, Index):
        _refuse_columns(index, attributes, signals)
        loaded.add(factors, named)
    else:
        columns = {}
        for name, path in _paths(attributes, signals):
            like = loaded._edition.attributes if name == "attributes" else None
            columns[name], passed_over = known.read_columns(path, named, name, like, new=True)
            said.append(passed_over)
        loaded.add_items(factors, named, **columns)
    replace(index, loaded, said)


def update(
    index: INDEX,
    items: Annotated[
        Path | None,
        typer.Argument(
            metavar="[ITEMS]",
            help="New item factors, in a file as for build; optional for a recommender.",
            show_default=False,
        ),
    ] = None,
    ids: NEW_IDS = None,
    attributes: ATTRIBUTES = None,
    signals: SIGNALS = None,
) -> None:
    """Give items new factors, attributes or signals.

    Only a recommender has attributes and signals. Rows of --attributes and --signals are matched by their id column.
    Columns that are not in a file keep their values. If an item cannot be updated, the file stays unchanged.
    """
    if items is None and attributes is signals is None:
        raise typer.BadParameter("there is nothing to update; pass a file of factors, --attributes or --signals.")
    loaded, said = load(index), []
    if isinstance(loaded, Index):
        _refuse_columns(index, attributes, signals)
    if items is not None:
        factors, named = read_items_for(loaded, items, ids)
        (loaded.update if isinstance(loaded, Index) else loaded.update_items)(factors, named)
    elif ids is not None:
        raise typer.BadParameter("--ids needs a file of factors, but there is none.")
    if isinstance(loaded, Recommender):
        for name, path in _paths(attributes, signals):
            like = loaded._edition.attributes if name == "attributes" else None
            named, columns, passed_over = known.read_changes(path, loaded.item_ids, name, like)
            loaded.update_items(None, named, **{name: columns})
            said.append(passed_over)
    replace(index, loaded, said)


def remove(
    index: INDEX,
    items: Annotated[
        list[str] | None, typer.Argument(metavar="ID", help="Ids of the items to remove.", show_default=False)
    ] = None,
    ids: Annotated[Path | None, typer.Option(help="A file of ids, one per line.", show_default=False)] = None,
) -> None:
    """Remove items from an index or a recommender. If an item cannot be removed, the file stays unchanged."""
    named = [*(items or []), *(tables.read_ids(ids) if ids is not None else [])]
    if not named:
        raise typer.BadParameter("there is nothing to remove; pass the ids of items, or a file of them with --ids.")
    loaded = load(index)
    gone = tables.as_ids(named, texts=has_texts(loaded))
    (loaded.remove if isinstance(loaded, Index) else loaded.remove_items)(gone)
    replace(index, loaded)


def _paths(attributes: Path | None, signals: Path | None) -> list[tuple[str, Path]]:
    """Return the files of columns that were passed."""
    named = (("attributes", attributes), ("signals", signals))
    return [(name, path) for name, path in named if path is not None]


def _refuse_columns(index: Path, attributes: Path | None, signals: Path | None) -> None:
    for name, _ in _paths(attributes, signals):
        raise ValueError(f"{index} holds an index, which has no {name}; build a recommender with --{name}.")
