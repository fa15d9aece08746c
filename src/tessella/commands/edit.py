"""Edit: the commands that build an index file and change its items."""

import enum
from pathlib import Path
from typing import Annotated

import typer

from tessella.commands import tables
from tessella.commands.files import check_place, has_texts, read_items, read_items_for, replace
from tessella.commands.options import INDEX, ITEMS, NEW_IDS, OVERWRITE, THREADS, given
from tessella.index import Index


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
    """Build an index from the factors of items."""
    if method is Methods.EXACT and (target_recall is not None or queries is not None):
        raise typer.BadParameter("--target-recall and --queries are not for --method exact, which finds all.")
    check_place(output, overwrite)
    factors, listed = read_items(items, ids)
    users = None if queries is None else tables.read_factors(queries, factors.shape[1]).factors
    options = given(target_recall=target_recall, queries=users, k=k, threads=threads)
    index = Index.build(factors, listed, method=method.value, **options)
    index.save(output, overwrite=overwrite)
    typer.echo(f"{output}: {index}")


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
