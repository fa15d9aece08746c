"""Edit: the commands that build an index file and change its items."""

import enum
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from tessella.commands import known, tables
from tessella.commands.files import check_place, has_texts, open_users, read_items, read_items_for, replace
from tessella.commands.options import INDEX, ITEMS, NEW_IDS, OVERWRITE, THREADS, USER_IDS, given
from tessella.index import Index
from tessella.recommender import Recommender


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
    attributes: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="What is known of items: .csv or .parquet with a column id, and one for each attribute. A column "
            "title is shown; in CSV, several values are separated by |.",
            show_default=False,
        ),
    ] = None,
    signals: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Numbers of items that recommend --boost can add to scores: .csv or .parquet with a column id, and "
            "one for each signal.",
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
    check_place(output, overwrite)
    factors, listed = read_items(items, ids)
    measured = None if queries is None else tables.read_factors(queries, factors.shape[1]).factors
    options = given(target_recall=target_recall, queries=measured, k=k, threads=threads)
    if users is seen is attributes is signals is None:
        if user_ids is not None:
            raise typer.BadParameter("--user-ids are those of --users, but there are none.")
        index = Index.build(factors, listed, method=method.value, **options)
        index.save(output, overwrite=overwrite)
        typer.echo(f"{output}: {index}")
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
    for name, path in (("attributes", attributes), ("signals", signals)):
        if path is not None:
            options[name], passed_over = known.read_columns(path, item_ids, name)
            said.append(passed_over)
    user_factors = None if people is None else people.factors
    recommender = Recommender.build(
        factors, user_factors, item_ids=listed, user_ids=named, method=method.value, **options
    )
    recommender.save(output, overwrite=overwrite)
    for sentence in filter(None, said):
        typer.echo(sentence)
    typer.echo(f"{output}: {recommender}")


def add(index: INDEX, items: ITEMS, ids: NEW_IDS = None) -> None:
    """Add items to an index, all or none."""
    loaded = Index.load(index)
    loaded.add(*read_items_for(loaded, items, ids))
    replace(index, loaded)


def update(index: INDEX, items: ITEMS, ids: NEW_IDS = None) -> None:
    """Give items of an index new factors, all or none."""
    loaded = Index.load(index)
    loaded.update(*read_items_for(loaded, items, ids))
    replace(index, loaded)


def remove(
    index: INDEX,
    items: Annotated[list[str] | None, typer.Argument(metavar="ID", help="Ids.", show_default=False)] = None,
    ids: Annotated[Path | None, typer.Option(help="A file of ids, one a line.", show_default=False)] = None,
) -> None:
    """Remove items from an index, all or none."""
    named = [*(items or []), *(tables.read_ids(ids) if ids is not None else [])]
    if not named:
        raise typer.BadParameter("name the items to remove, one by one or with --ids.")
    loaded = Index.load(index)
    loaded.remove(tables.as_ids(named, texts=has_texts(loaded)))
    replace(index, loaded)
