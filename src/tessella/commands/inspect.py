"""Inspect: the commands that show what a file holds."""

import sqlite3
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from tessella import __version__
from tessella.commands import tables
from tessella.commands.files import has_texts, load, read_excluded
from tessella.commands.options import (
    AT_MOST,
    BOOST,
    BUDGET,
    COLUMNS,
    DIVERSIFY,
    EXACT,
    EXCLUDE,
    INDEX,
    MAX_SLOTS,
    NOW,
    REACH,
    WHERE,
    WITH_SEEN,
    given,
    method_of,
    rules_of,
)
from tessella.index import Index
from tessella.recommender import Recommender
from tessella.store import Store
from tessella.versions import storage


def info(index: INDEX) -> None:
    """Show what an index, a recommender or a store holds."""
    if is_store(index):
        _print(_of_store(index))
        return
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
        "sqlite": sqlite3.sqlite_version,
        "search": loaded.plan,
    }
    _print(lines)


def _print(lines: dict[str, object]) -> None:
    width = max(9, *map(len, lines))
    for name, value in lines.items():
        shown = str(value).replace("\n", f"\n{'':<{width}} ")
        typer.echo(f"{name:<{width}} {shown}")


def is_store(path: Path) -> bool:
    """Return whether a file is a SQLite database, and so a store."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(16).startswith(b"SQLite format 3")


def _of_store(path: Path) -> dict[str, object]:
    """Describe a store."""
    with Store.open(path, read_only=True) as store:
        lines: dict[str, object] = {"store": path, "version": store.version, "live": store.live or "none"}
        for one in store.generations():
            size = f"{one.n_items:,} items, {one.n_users:,} users, {one.n_factors} factors, version {one.version}"
            lines[f"model {one.name}"] = size + (", live" if one.live else "")
    lines["file"] = f"{path.stat().st_size / 2**20:,.1f} MiB"
    return lines | {"tessella": __version__, "sqlite": sqlite3.sqlite_version}


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
    """Describe what a recommender holds besides its items."""
    edition = recommender._edition
    users, attributes, signals = edition.users, edition.attributes, edition.signals
    lines: dict[str, object] = {"users": "none", "seen": "none"}
    if users is not None:
        vectors = (
            "no factors" if users.factors is None else f"{users.n_interests} vector{'s' * (users.n_interests > 1)} each"
        )
        lines["users"] = f"{len(users):,}, ids are {_kind(users.ids)}, {vectors}"
        if users.seen is not None:
            lines["seen"] = f"{users.seen.n_entries:,} pairs of user and item"
    kinds = [] if attributes is None else [f"{name} ({kind})" for name, kind in attributes.kinds.items()]
    lines["attributes"] = ", ".join(kinds) or "none"
    lines["signals"] = "none" if signals is None else ", ".join(signals.names)
    return lines | {"model": f"{recommender.generation}, version {recommender.version}"}


def _kind(ids: NDArray[Any]) -> str:
    return "strings" if ids.dtype.kind == "U" else "integers"


def explain(
    index: INDEX,
    user: Annotated[
        str,
        typer.Option(
            help="The id of a user of the recommender. With a file of USERS: the user's id there, or the row number if "
            "the file has no ids.",
            show_default=False,
        ),
    ],
    item: Annotated[str, typer.Option(help="The id of the item.", show_default=False)],
    users: Annotated[
        Path | None,
        typer.Argument(
            metavar="[USERS]",
            help="User factors, in a file as for search; not needed for users of a recommender.",
            show_default=False,
        ),
    ] = None,
    k: Annotated[int, typer.Option("-k", help="How many items are recommended to each user.")] = 10,
    where: WHERE = None,
    boost: BOOST = None,
    now: NOW = None,
    at_most: AT_MOST = None,
    diversify: DIVERSIFY = None,
    with_seen: WITH_SEEN = False,
    exclude: EXCLUDE = None,
    columns: COLUMNS = None,
    reach: REACH = None,
    budget: BUDGET = None,
    max_slots: MAX_SLOTS = None,
    exact: EXACT = False,
) -> None:
    """Show why an item is, or is not, recommended to a user."""
    rules = rules_of(where=where, boost=boost, now=now, at_most=at_most, diversify=diversify)
    rules |= {"exclude_seen": False} if with_seen else {}
    loaded = load(index)
    asked = given(method=method_of(reach=reach, budget=budget, max_slots=max_slots, exact=exact))
    item_id = tables.as_ids([item], texts=has_texts(loaded))[0].item()
    if users is not None:
        vector, seen = _vector(loaded, users, user, exclude, columns)
        asked |= given(exclude=seen)
    elif isinstance(loaded, Index):
        raise typer.BadParameter(f"{index} holds items only; pass a file of users.")
    elif exclude is not None or columns is not None:
        raise typer.BadParameter("--exclude and --columns need a file of users, but there is none.")
    if isinstance(loaded, Recommender):
        who = vector if users is not None else tables.as_ids([user], texts=loaded.user_ids.dtype.kind == "U")[0].item()
        typer.echo(loaded.explain(who, item_id, k, **asked, **rules))
    elif rules:
        raise ValueError(
            f"{index} holds items only, without attributes, signals or seen items; omit the options that need them."
        )
    else:
        typer.echo(loaded.explain(vector, item_id, k, **asked))


def _vector(
    model: Index | Recommender, users: Path, user: str, exclude: Path | None, columns: Path | None
) -> tuple[NDArray[np.float32], Any]:
    """Return the factor of a user in a file, and what is excluded for this user."""
    table = tables.read_factors(users, model.n_factors)
    listed = range(len(table.factors)) if table.ids is None else tables.as_ids(table.ids)
    names = [str(name) for name in listed]
    if user not in names:
        rows = f"row {user}; its rows are 0 to {len(names) - 1}." if table.ids is None else f"user with id {user!r}."
        raise ValueError(f"{users} has no {rows}")
    row = names.index(user)
    seen = read_excluded(model if isinstance(model, Index) else model.index, exclude, columns, len(names))
    return table.factors[row], None if seen is None else (seen[0][[row]], seen[1])


def verify(index: INDEX) -> None:
    """Check every byte of an index file and list all damage."""
    damages = storage.damages(index)
    for damage in damages:
        typer.echo(f"{index}: {damage}")
    if damages:
        raise ValueError(f"{index} is damaged; build it again or restore a copy.")
    typer.echo(f"{index} is intact: {load(index)}")
