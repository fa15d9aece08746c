"""Building: makes a recommender from rows, and its next edition from a change of rows."""

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from tessella.recommend.attributes import Attributes
from tessella.recommend.edition import Edition
from tessella.recommend.seen import Seen
from tessella.recommend.signals import Decaying
from tessella.recommend.users import Users
from tessella.recommender import Recommender
from tessella.store import rows
from tessella.store.rows import Id, ItemRow, UserRow
from tessella.store.tables import Entry
from tessella.versions import storage


class StoredRecommender(Recommender):
    """The recommender of a generation in a store. It answers like any other; changes must go through the store."""

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise ValueError(
            "this recommender belongs to a store and cannot be changed directly; call the store's method instead."
        )

    add_items = update_items = remove_items = add_users = update_users = remove_users = _refuse
    tune = rebuild = _refuse


class Delta(NamedTuple):
    """The effect of a change: rows that were written, and ids that were removed, even if they were added again."""

    items: Sequence[ItemRow] = ()
    removed_items: frozenset[Id] = frozenset()
    users: Sequence[UserRow] = ()
    removed_users: frozenset[Id] = frozenset()


def columns_of(entry: Entry) -> Attributes | None:
    """Return the attributes of a generation, as columns without entries."""
    if entry.columns is None:
        return None
    name = f"generation {entry.name!r}"
    return Attributes.from_arrays(*storage.from_buffer(np.frombuffer(entry.columns, np.uint8), name))


def columns_bytes(attributes: Attributes | None) -> bytes | None:
    """Serialise the names and kinds of attributes; `columns_of` reads them."""
    if attributes is None:
        return None
    nothing = attributes.take(np.zeros(0, np.int64))
    return storage.to_bytes(nothing.to_arrays(), nothing.facts())


def build(database: sqlite3.Connection, path: Path, entry: Entry) -> StoredRecommender | None:
    """Build the recommender of a generation from all its rows; None if it has no items."""
    if not entry.n_items:
        return None
    items, users = rows.all_items(database, path, entry), rows.all_users(database, path, entry)
    known = bool(len(users.ids))
    made = Recommender.build(
        items.factors,
        users.factors if known else None,
        item_ids=items.ids,
        user_ids=users.ids if known else None,
        signals=_signals(entry, items.signals),
        **entry.options,
    )._edition
    held = made.users
    if held is not None and users.seen is not None:
        held = replace(held, seen=seen_of(users.seen, users.weights))
    like = columns_of(entry)
    attributes = None if like is None else attributes_of(like, items.attributes or [{}] * len(items.ids))
    return StoredRecommender(
        replace(made, users=held, attributes=attributes, generation=entry.token, number=entry.version)
    )


def attributes_of(like: Attributes, known: Sequence[dict[str, Any]]) -> Attributes:
    """Turn the attributes of single items into columns; attributes that an item lacks are missing values."""
    for one in known:
        for name in one:
            like.column(name)
    columns = {name: [one.get(name) for one in known] for name in like.names}
    return like.joined(Attributes.of(columns, len(known), like=like))


def _signals(entry: Entry, values: Sequence[dict[str, float]] | None) -> dict[str, Any] | None:
    """Return the columns of signals that `Recommender.build` takes."""
    if entry.signals is None or values is None:
        return None
    columns = {name: np.array([one[name] for one in values], np.float64) for name in entry.signals}
    lifetimes = entry.signals
    return {
        name: column if lifetimes[name] is None else Decaying(column, tau=lifetimes[name])
        for name, column in columns.items()
    }


def changed(edition: Edition, entry: Entry, delta: Delta) -> Edition:
    """Return the edition after a change of rows, with the generation's version; refuse rows that no index can hold."""
    trial = Recommender(edition)
    _change_items(trial, delta)
    return numbered(_with_users(trial._edition, delta), entry.version)


def numbered(edition: Edition, number: int) -> Edition:
    """Copy an edition under another number, together with its cached properties."""
    after = replace(edition, number=number)
    vars(after).update({name: value for name, value in vars(edition).items() if name not in vars(after)})
    return after


def _change_items(trial: Recommender, delta: Delta) -> None:
    gone = _present(trial, [*delta.removed_items])
    if gone:
        trial.remove_items(gone)
    there = set(_present(trial, [row.id for row in delta.items]))
    new = sorted((row for row in delta.items if row.id not in there), key=_place)
    old = [row for row in delta.items if row.id in there]
    if old:
        _update(trial, old)
    if new:
        trial.add_items(
            np.stack([row.vector for row in new]),
            [row.id for row in new],
            attributes=_columns(trial._edition, new),
            signals=_signal_columns(trial._edition, new),
        )


def _update(trial: Recommender, old: Sequence[ItemRow]) -> None:
    """Update items from their rows, skipping factors and attributes that have not changed."""
    edition, ids = trial._edition, [row.id for row in old]
    factors = np.stack([row.vector for row in old])
    entries = edition.entries_of(np.array(ids))
    signals = _signal_columns(edition, old)
    if signals is not None and edition.signals is not None:
        before = edition.signals.to_arrays()["signals"][entries]
        now = np.stack([*signals.values()], axis=1) if signals else before
        same = bool(np.array_equal(before, now))
    else:
        same = True
    if same and np.array_equal(edition.item_vectors(np.array(ids)), factors):
        factors, signals = None, None  # type: ignore[assignment]
    attributes = _columns(edition, old)
    if attributes is not None and edition.attributes is not None:
        before_known = {name: edition.attributes.values(name, entries) for name in attributes}
        attributes = None if before_known == attributes else attributes
    if factors is not None or attributes is not None:
        trial.update_items(factors, ids, attributes=attributes, signals=signals)


def _columns(edition: Edition, new: Sequence[ItemRow]) -> dict[str, list[Any]] | None:
    if edition.attributes is None:
        return None
    return {name: [(row.attributes or {}).get(name) for row in new] for name in edition.attributes.names}


def _signal_columns(edition: Edition, new: Sequence[ItemRow]) -> dict[str, NDArray[np.float64]] | None:
    if edition.signals is None:
        return None
    return {name: np.array([(row.signals or {})[name] for row in new], np.float64) for name in edition.signals.names}


def _present(trial: Recommender, ids: Sequence[Id]) -> list[Id]:
    """Return those of some ids, all of the store's type, that are in the index."""
    if not ids:
        return []
    found = trial._edition.version.find(np.array(ids)) >= 0
    return [one for one, there in zip(ids, found, strict=True) if there]


def _place(row: ItemRow | UserRow) -> int:
    return -1 if row.place is None else row.place


def _with_users(edition: Edition, delta: Delta) -> Edition:
    """Return the edition after a change of users."""
    version, users = edition.version, edition.users
    if users is not None and delta.removed_users:
        ids = np.array(sorted(delta.removed_users))
        at = users.find(ids)
        users = users.removed(at[at >= 0])
    if delta.users:
        if users is None or not len(users):
            users = _nobody(edition, delta.users)
        at = users.find(np.array([row.id for row in delta.users]))
        old = [row for row, place in zip(delta.users, at, strict=True) if place >= 0]
        new = sorted((row for row, place in zip(delta.users, at, strict=True) if place < 0), key=_place)
        if old:
            users = users.updated(version, at[at >= 0], _factors(edition, old), _seen(edition, users, old))
        if new:
            ids = np.array([row.id for row in new])
            users = users.added(version, ids, _factors(edition, new), _seen(edition, users, new))
    return edition if users is edition.users or users is None else edition.with_users(users)


def _nobody(edition: Edition, like: Sequence[UserRow]) -> Users:
    """Return a table without users, with the id type and factor shape of the given rows."""
    factors = _factors(edition, like)
    return Users(np.array([row.id for row in like])[:0], None if factors is None else factors[:0], None)


def _factors(edition: Edition, some: Sequence[UserRow]) -> NDArray[np.float32] | None:
    if some[0].factors is None:
        return None
    stacked = np.stack([np.frombuffer(row.factors or b"", "<f4") for row in some])
    width = edition.n_factors
    return stacked if stacked.shape[1] == width else stacked.reshape(len(some), -1, width)


def _seen(edition: Edition, users: Users, some: Sequence[UserRow]) -> Seen | None:
    if all(row.seen is None for row in some) and users.seen is None:
        return None
    kind = np.str_ if edition.version.text_ids else np.int64
    lists = [np.array(row.seen or (), kind) for row in some]
    weighted = any(row.weights is not None for row in some)
    weights = [np.array(row.weights or (1.0,) * len(row.seen or ()), np.float32) for row in some]
    return seen_of(lists, weights if weighted else None)


def seen_of(lists: Sequence[NDArray[Any]], weights: Sequence[NDArray[np.float32]] | None) -> Seen:
    """Return what users have seen, from a list of ids per user; removed items may be among them."""
    starts = np.concatenate([[0], np.cumsum([len(own) for own in lists], dtype=np.int64)])
    ids, columns = np.unique(np.concatenate(lists), return_inverse=True)
    return Seen(
        np.ascontiguousarray(columns.reshape(-1), np.int32),
        starts,
        ids,
        None if weights is None else np.concatenate(weights).astype(np.float32, copy=False),
    )
