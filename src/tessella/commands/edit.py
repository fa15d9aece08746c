"""Edit: the commands that build the file of an index or a recommender, and change its items."""

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
    """How `tessella build` makes an index answer."""

    AUTO = "auto"
    EXACT = "exact"
    TILES = "tiles"


def build(
    items: ITEMS,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="INDEX", help="Where the index goes.", show_default=False)
    ],
    ids: Annotated[
        Path | None,
        typer.Option(
            help="Ids of the items, one a line: whole numbers if every line is one, without leading zeros, and texts "
            "otherwise. Without, ids are those beside the factors, or row numbers from 0.",
            show_default=False,
        ),
    ] = None,
    users: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Factors of users, of the same model, in a file like that of items: makes a recommender, to be asked "
            "with recommend.",
            show_default=False,
        ),
    ] = None,
    user_ids: USER_IDS = None,
    seen: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="What users have seen: .csv or .parquet with the columns user and item, which hold ids, and perhaps "
            "weight; or a sparse matrix of users x items from scipy.sparse.save_npz.",
            show_default=False,
        ),
    ] = None,
    attributes: ATTRIBUTES = None,
    signals: SIGNALS = None,
    half_life: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=DAYS",
            help="A signal that holds dates, and halves with every so many days of an item's age; once for each.",
            show_default=False,
        ),
    ] = None,
    method: Annotated[
        Methods,
        typer.Option(
            help="How searches answer: by the fastest method that reaches the recall, exactly, or by learned tiles."
        ),
    ] = Methods.AUTO,
    target_recall: Annotated[
        float | None,
        typer.Option(
            help="The share of the true top k to find, 0 to 1, for every k; for auto 0.95 if not given. With tiles, "
            "the method is then chosen for it, as tune does.",
            show_default=False,
        ),
    ] = None,
    queries: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Factors of users to measure recall with, in a file like that of items. Without, some are made from "
            "the items.",
            show_default=False,
        ),
    ] = None,
    k: Annotated[
        int | None,
        typer.Option(
            "-k",
            "--k",
            help="How many items you will ask for most; recall is then measured for it, too.",
            show_default=False,
        ),
    ] = None,
    overwrite: OVERWRITE = False,
    threads: THREADS = None,
) -> None:
    """Build an index from the factors of items, or a recommender from those of users, too."""
    if method is Methods.EXACT and (target_recall is not None or queries is not None):
        raise typer.BadParameter("--target-recall and --queries are not for --method exact, which finds all.")
    decaying = half_lives_of(half_life)
    if decaying and signals is None:
        raise typer.BadParameter("--half-life is of --signals, but there are none.")
    check_place(output, overwrite)
    factors, listed = read_items(items, ids)
    measured = None if queries is None else tables.read_factors(queries, factors.shape[1]).factors
    options = given(target_recall=target_recall, queries=measured, k=k, threads=threads)
    if users is seen is attributes is signals is None:
        if user_ids is not None:
            raise typer.BadParameter("--user-ids are those of --users, but there are none.")
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
    """Signals that decay, by name."""
    unknown = [name for name in half_lives if name not in columns]
    if unknown:
        raise ValueError(f"--half-life names {unknown[0]!r}, but {path} has {', '.join(map(repr, columns))}.")
    return {name: Decaying(columns[name], half_life=DAY * days) for name, days in half_lives.items()}


def add(
    index: INDEX, items: ITEMS, ids: NEW_IDS = None, attributes: ATTRIBUTES = None, signals: SIGNALS = None
) -> None:
    """Add items to an index or a recommender, all or none."""
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
            help="New factors of items, in a file as for build; for a recommender they may stay as they are.",
            show_default=False,
        ),
    ] = None,
    ids: NEW_IDS = None,
    attributes: ATTRIBUTES = None,
    signals: SIGNALS = None,
) -> None:
    """Give items new factors, or in a recommender new attributes and signals, all or none.

    Rows of --attributes and --signals are found by their column id. Columns that a file has not stay as they are.
    """
    if items is None and attributes is signals is None:
        raise typer.BadParameter("name a file of factors, or what is to change with --attributes or --signals.")
    loaded, said = load(index), []
    if isinstance(loaded, Index):
        _refuse_columns(index, attributes, signals)
    if items is not None:
        factors, named = read_items_for(loaded, items, ids)
        (loaded.update if isinstance(loaded, Index) else loaded.update_items)(factors, named)
    elif ids is not None:
        raise typer.BadParameter("--ids are those of factors, but there are none.")
    if isinstance(loaded, Recommender):
        for name, path in _paths(attributes, signals):
            like = loaded._edition.attributes if name == "attributes" else None
            named, columns, passed_over = known.read_changes(path, loaded.item_ids, name, like)
            loaded.update_items(None, named, **{name: columns})
            said.append(passed_over)
    replace(index, loaded, said)


def remove(
    index: INDEX,
    items: Annotated[list[str] | None, typer.Argument(metavar="ID", help="Ids.", show_default=False)] = None,
    ids: Annotated[Path | None, typer.Option(help="A file of ids, one a line.", show_default=False)] = None,
) -> None:
    """Remove items from an index or a recommender, all or none."""
    named = [*(items or []), *(tables.read_ids(ids) if ids is not None else [])]
    if not named:
        raise typer.BadParameter("name the items to remove, one by one or with --ids.")
    loaded = load(index)
    gone = tables.as_ids(named, texts=has_texts(loaded))
    (loaded.remove if isinstance(loaded, Index) else loaded.remove_items)(gone)
    replace(index, loaded)


def _paths(attributes: Path | None, signals: Path | None) -> list[tuple[str, Path]]:
    """The files of columns that were named."""
    named = (("attributes", attributes), ("signals", signals))
    return [(name, path) for name, path in named if path is not None]


def _refuse_columns(index: Path, attributes: Path | None, signals: Path | None) -> None:
    for name, _ in _paths(attributes, signals):
        raise ValueError(f"{index} holds an index, which has no {name}; build a recommender with --{name}.")
