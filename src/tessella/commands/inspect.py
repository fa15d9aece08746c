"""Inspect: the commands that show what is in an index file."""

from typing import Annotated

import typer

from tessella import __version__
from tessella.commands import tables
from tessella.commands.files import has_texts, names_of, read_excluded
from tessella.commands.options import (
    BUDGET,
    COLUMNS,
    EXACT,
    EXCLUDE,
    INDEX,
    MAX_SLOTS,
    REACH,
    USERS,
    method_of,
)
from tessella.index import Index
from tessella.versions import storage


def info(index: INDEX) -> None:
    """Show what an index holds."""
    loaded = Index.load(index)
    lines: dict[str, object] = {
        "items": f"{len(loaded):,}",
        "factors": loaded.n_factors,
        "ids": "texts" if has_texts(loaded) else "whole numbers",
        "schema": f"{loaded.schema.tessellation}, {loaded.schema.slot_map}, threshold {loaded.schema.threshold:g}",
        "tiles": "none" if loaded.tiles is None else loaded.tiles,
        "memory": f"{loaded.nbytes / 2**20:,.1f} MiB: "
        + ", ".join(f"{name} {part / 2**20:,.1f}" for name, part in loaded.memory.items()),
        "file": f"{index.stat().st_size / 2**20:,.1f} MiB",
        "format": storage.format_of(index),
        "tessella": __version__,
    }
    lines["search"] = str(loaded.plan).replace("\n", f"\n{'':<9} ")
    for name, value in lines.items():
        typer.echo(f"{name:<9} {value}")


def explain(
    index: INDEX,
    users: USERS,
    user: Annotated[
        str, typer.Option(help="The user's row number, or id if the file of users has ids.", show_default=False)
    ],
    item: Annotated[str, typer.Option(help="The item's id.", show_default=False)],
    k: Annotated[int, typer.Option("-k", help="How many items are recommended to each user.")] = 10,
    exclude: EXCLUDE = None,
    columns: COLUMNS = None,
    reach: REACH = None,
    budget: BUDGET = None,
    max_slots: MAX_SLOTS = None,
    exact: EXACT = False,
) -> None:
    """Show why a search does, or does not, recommend an item to a user."""
    loaded = Index.load(index)
    table = tables.read_factors(users, loaded.n_factors)
    names = [str(name) for name in names_of(table)]
    if user not in names:
        rows = f"row {user}; its rows are 0 to {len(names) - 1}." if table.ids is None else f"user with id {user!r}."
        raise ValueError(f"{users} has no {rows}")
    row = names.index(user)
    seen = read_excluded(loaded, exclude, columns, len(names))
    method = method_of(reach=reach, budget=budget, max_slots=max_slots, exact=exact)
    item_id = tables.as_ids([item], texts=has_texts(loaded))[0].item()
    excluded = None if seen is None else (seen[0][[row]], seen[1])
    typer.echo(loaded.explain(table.factors[row], item_id, k, method=method, exclude=excluded))


def verify(index: INDEX) -> None:
    """Look at every byte of an index file and list all that is damaged."""
    damages = storage.damages(index)
    for damage in damages:
        typer.echo(f"{index}: {damage}")
    if damages:
        raise ValueError(f"{index} is damaged; build it again or take a copy.")
    typer.echo(f"{index} is sound: {Index.load(index)}")
