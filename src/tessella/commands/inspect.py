"""Inspect: the commands that show what is in an index file."""

from typing import Annotated, Any

import typer
from numpy.typing import NDArray

from tessella import __version__
from tessella.commands import tables
from tessella.commands.files import has_texts, load, read_excluded
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
from tessella.recommender import Recommender
from tessella.versions import storage


def info(index: INDEX) -> None:
    """Show what an index or a recommender holds."""
    loaded = load(index)
    lines = _of_items(loaded) if isinstance(loaded, Index) else _of_items(loaded.index) | _of_users(loaded)
    if isinstance(loaded, Recommender):
        lines["factors"] = loaded.n_factors
    lines["memory"] = f"{loaded.nbytes / 2**20:,.1f} MiB: " + ", ".join(
        f"{name} {part / 2**20:,.1f}" for name, part in loaded.memory.items()
    )
    lines |= {
        "file": f"{index.stat().st_size / 2**20:,.1f} MiB",
        "format": storage.format_of(index),
        "tessella": __version__,
    }
    width = max(9, *map(len, lines))
    lines["search"] = str(loaded.plan).replace("\n", f"\n{'':<{width}} ")
    for name, value in lines.items():
        typer.echo(f"{name:<{width}} {value}")


def _of_items(index: Index) -> dict[str, object]:
    schema = index.schema
    return {
        "items": f"{len(index):,}",
        "factors": index.n_factors,
        "ids": _kind(index.ids),
        "schema": f"{schema.tessellation}, {schema.slot_map}, threshold {schema.threshold:g}",
        "tiles": "none" if index.tiles is None else index.tiles,
    }


def _of_users(recommender: Recommender) -> dict[str, object]:
    """What a recommender holds beside its items."""
    edition = recommender._edition
    users, attributes, signals = edition.users, edition.attributes, edition.signals
    lines: dict[str, object] = {"users": "none", "seen": "nothing"}
    if users is not None:
        vectors = (
            "no factors" if users.factors is None else f"{users.n_interests} vector{'s' * (users.n_interests > 1)} each"
        )
        lines["users"] = f"{len(users):,}, ids are {_kind(users.ids)}, {vectors}"
        if users.seen is not None:
            lines["seen"] = f"{users.seen.n_entries:,} items, by all users together"
    kinds = [] if attributes is None else [f"{name} ({kind})" for name, kind in attributes.kinds.items()]
    lines["attributes"] = ", ".join(kinds) or "none"
    lines["signals"] = "none" if signals is None else ", ".join(signals.names)
    return lines | {"model": f"{recommender.generation}, version {recommender.version}"}


def _kind(ids: NDArray[Any]) -> str:
    return "texts" if ids.dtype.kind == "U" else "whole numbers"


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
    listed = range(len(table.factors)) if table.ids is None else tables.as_ids(table.ids)
    names = [str(name) for name in listed]
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
    typer.echo(f"{index} is sound: {load(index)}")
