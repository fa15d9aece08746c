"""Rows: reads and writes items and users as SQLite rows, each with a checksum over all its values."""

import json
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tessella.store.tables import Entry

Id: TypeAlias = int | str
WHOLE, TEXTS = "whole numbers", "texts"  # the kinds of ids, as stored
CHUNK = 10_000  # rows at a time
_ASKED_AT_ONCE = 500  # ids in one statement
_ITEM = "place, id, factors, attributes, signals, payload, crc"
_USER = "place, id, factors, seen, weights, crc"


class ItemRow(NamedTuple):
    """A complete item."""

    id: Id
    factors: bytes  # float32, little-endian
    attributes: dict[str, Any] | None = None
    signals: dict[str, float] | None = None
    payload: Any = None
    place: int | None = None  # None for an item that is not stored yet

    @property
    def vector(self) -> NDArray[np.float32]:
        """The factors as an array, for reading only."""
        return np.frombuffer(self.factors, "<f4")


class UserRow(NamedTuple):
    """A complete user."""

    id: Id
    factors: bytes | None  # all vectors, one after another
    seen: tuple[Id, ...] | None = None
    weights: tuple[float, ...] | None = None
    place: int | None = None


class Items(NamedTuple):
    """All items, in insertion order."""

    ids: NDArray[Any]
    factors: NDArray[np.float32]
    attributes: list[dict[str, Any]] | None
    signals: list[dict[str, float]] | None


class Users(NamedTuple):
    """All users, in insertion order."""

    ids: NDArray[Any]
    factors: NDArray[np.float32] | None
    seen: "list[NDArray[Any]] | None"
    weights: list[NDArray[np.float32]] | None


class DamagedRowError(ValueError):
    """A row does not match its checksum, or rows are missing."""


def as_json(value: Any) -> str | None:
    """Return a value as compact JSON; None stays None."""
    return None if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _item_crc(
    place: int, item: Id, factors: bytes, attributes: str | None, signals: str | None, payload: str | None
) -> int:
    head = f"{place}\x1f{item!r}\x1f{attributes}\x1f{signals}\x1f{payload}"
    return zlib.crc32(factors, zlib.crc32(head.encode()))


def _user_crc(place: int, user: Id, factors: bytes | None, seen: bytes | None, weights: bytes | None) -> int:
    crc = zlib.crc32(f"{place}\x1f{user!r}".encode())
    for part in (factors, seen, weights):
        crc = zlib.crc32(b"\x1f-" if part is None else b"\x1f+" + len(part).to_bytes(8, "little") + part, crc)
    return crc


def item_values(
    place: int, item: Id, factors: bytes, attributes: str | None, signals: str | None, payload: str | None
) -> tuple[Any, ...]:
    """Return the values to insert for an item."""
    crc = _item_crc(place, item, factors, attributes, signals, payload)
    return place, item, factors, attributes, signals, payload, crc


def user_values(
    place: int, user: Id, factors: bytes | None, seen: bytes | None, weights: bytes | None
) -> tuple[Any, ...]:
    """Return the values to insert for a user."""
    return place, user, factors, seen, weights, _user_crc(place, user, factors, seen, weights)


def put_items(database: sqlite3.Connection, number: int, rows: Iterable[tuple[Any, ...]]) -> None:
    """Write items; a row with the same place is replaced."""
    database.executemany(f"INSERT OR REPLACE INTO items_{number} ({_ITEM}) VALUES (?, ?, ?, ?, ?, ?, ?)", rows)  # noqa: S608


def put_users(database: sqlite3.Connection, number: int, rows: Iterable[tuple[Any, ...]]) -> None:
    """Write users; a row with the same place is replaced."""
    database.executemany(f"INSERT OR REPLACE INTO users_{number} ({_USER}) VALUES (?, ?, ?, ?, ?, ?)", rows)  # noqa: S608


def remove(database: sqlite3.Connection, table: str, ids: Sequence[Id]) -> None:
    """Delete rows by id."""
    database.executemany(f"DELETE FROM {table} WHERE id = ?", [(one,) for one in ids])  # noqa: S608


def next_place(database: sqlite3.Connection, table: str) -> int:
    """Return the place after the last row."""
    return int(database.execute(f"SELECT coalesce(max(place), -1) + 1 FROM {table}").fetchone()[0])  # noqa: S608


def seen_bytes(seen: Sequence[Id] | NDArray[Any] | None, kind: str | None) -> bytes | None:
    """Serialise the items that a user has seen."""
    if seen is None:
        return None
    if kind == TEXTS:
        return json.dumps(list(map(str, seen)), ensure_ascii=False, separators=(",", ":")).encode()
    return np.asarray(seen, "<i8").tobytes()


def _seen(data: bytes, kind: str | None) -> NDArray[Any]:
    if kind == TEXTS:
        listed = json.loads(data)
        return np.array(listed, np.str_) if listed else np.zeros(0, np.str_)
    return np.frombuffer(data, "<i8").astype(np.int64)


def some_items(database: sqlite3.Connection, path: Path, entry: Entry, ids: Sequence[Id]) -> dict[Id, ItemRow]:
    """Return the rows of the given items that exist, by id."""
    found = {}
    for row in _asked(database, f"items_{entry.number}", _ITEM, ids):
        _check_item(row, path, entry)
        found[row[1]] = _item_row(row)
    return found


def items_by_place(
    database: sqlite3.Connection, path: Path, entry: Entry, after: int, limit: int, title: str | None = None
) -> list[ItemRow]:
    """Return a page of items in insertion order after a place; `title` matches part of the title, or the whole id."""
    condition, values = "place > ?", [after]
    if title is not None:
        condition += " AND (json_extract(attributes, '$.title') LIKE ? ESCAPE '\\' OR CAST(id AS TEXT) = ?)"
        escaped = title.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        values += [f"%{escaped}%", title]  # type: ignore[list-item]
    query = f"SELECT {_ITEM} FROM items_{entry.number} WHERE {condition} ORDER BY place LIMIT ?"  # noqa: S608
    rows = database.execute(query, (*values, limit)).fetchall()
    for row in rows:
        _check_item(row, path, entry)
    return [_item_row(row) for row in rows]


def some_users(database: sqlite3.Connection, path: Path, entry: Entry, ids: Sequence[Id]) -> dict[Id, UserRow]:
    """Return the rows of the given users that exist, by id."""
    found = {}
    for row in _asked(database, f"users_{entry.number}", _USER, ids):
        _check_user(row, path, entry)
        found[row[1]] = _user_row(row, entry)
    return found


def users_by_place(
    database: sqlite3.Connection, path: Path, entry: Entry, after: int, limit: int, start: str | None = None
) -> list[UserRow]:
    """Return a page of users in insertion order after a place; `start` matches the beginning of the id."""
    condition, values = "place > ?", [after]
    if start is not None:
        condition += " AND substr(CAST(id AS TEXT), 1, ?) = ?"
        values += [len(start), start]  # type: ignore[list-item]
    query = f"SELECT {_USER} FROM users_{entry.number} WHERE {condition} ORDER BY place LIMIT ?"  # noqa: S608
    rows = database.execute(query, (*values, limit)).fetchall()
    for row in rows:
        _check_user(row, path, entry)
    return [_user_row(row, entry) for row in rows]


def payloads(database: sqlite3.Connection, entry: Entry, ids: Sequence[Id]) -> dict[Id, Any]:
    """Return the payloads of the given items by id; items without one are left out."""
    asked = _asked(database, f"items_{entry.number}", "id, payload", ids)
    return {item: json.loads(text) for item, text in asked if text is not None}


def _asked(database: sqlite3.Connection, table: str, fields: str, ids: Sequence[Id]) -> Iterator[tuple[Any, ...]]:
    for start in range(0, len(ids), _ASKED_AT_ONCE):
        some = ids[start : start + _ASKED_AT_ONCE]
        marks = ", ".join("?" * len(some))
        yield from database.execute(f"SELECT {fields} FROM {table} WHERE id IN ({marks})", tuple(some))  # noqa: S608


def _item_row(row: tuple[Any, ...]) -> ItemRow:
    place, item, factors, attributes, signals, payload, _ = row
    known, numbers, more = (None if text is None else json.loads(text) for text in (attributes, signals, payload))
    return ItemRow(item, factors, known, numbers, more, place)


def _user_row(row: tuple[Any, ...], entry: Entry) -> UserRow:
    place, user, factors, seen, weights, _ = row
    met = None if seen is None else tuple(_seen(seen, entry.item_ids).tolist())
    how = None if weights is None else tuple(np.frombuffer(weights, "<f4").tolist())
    return UserRow(user, factors, met, how, place)


def _check_item(row: tuple[Any, ...], path: Path, entry: Entry) -> None:
    try:
        sound = _item_crc(*row[:6]) == row[6] and len(row[2]) == 4 * entry.n_factors
    except (TypeError, AttributeError, UnicodeError):
        sound = False
    if not sound:
        raise _damaged(path, f"item {row[1]!r}", entry)


def _check_user(row: tuple[Any, ...], path: Path, entry: Entry) -> None:
    try:
        sound = _user_crc(*row[:5]) == row[5]
        sound &= row[2] is None or len(row[2]) == 4 * entry.n_factors * (entry.interests or 0)
    except (TypeError, AttributeError, UnicodeError):
        sound = False
    if not sound:
        raise _damaged(path, f"user {row[1]!r}", entry)


def _damaged(path: Path, what: str, entry: Entry) -> DamagedRowError:
    return DamagedRowError(
        f"{path} is damaged: {what} of generation {entry.name!r} does not match its checksum; restore it from a backup."
    )


def all_items(database: sqlite3.Connection, path: Path, entry: Entry) -> Items:
    """Read all items of a generation and check them."""
    factors = np.empty((entry.n_items, entry.n_factors), np.float32)
    ids: list[Id] = []
    attributes: list[dict[str, Any]] | None = None if entry.columns is None else []
    signals: list[dict[str, float]] | None = None if entry.signals is None else []
    cursor = database.execute(f"SELECT {_ITEM} FROM items_{entry.number} ORDER BY place")  # noqa: S608
    while rows := cursor.fetchmany(CHUNK):
        start = len(ids)
        if start + len(rows) > entry.n_items:
            break
        for row in rows:
            if _item_crc(*row[:6]) != row[6]:
                raise _damaged(path, f"item {row[1]!r}", entry)
        blobs = b"".join([row[2] for row in rows])
        if len(blobs) != 4 * entry.n_factors * len(rows):
            for row in rows:
                _check_item(row, path, entry)
        ids += [row[1] for row in rows]
        factors[start : len(ids)] = np.frombuffer(blobs, "<f4").reshape(len(rows), entry.n_factors)
        if attributes is not None:
            attributes += [{} if row[3] is None else json.loads(row[3]) for row in rows]
        if signals is not None:
            signals += [{} if row[4] is None else json.loads(row[4]) for row in rows]
    _check_count(path, entry, "items", len(ids) + len(rows), entry.n_items)
    return Items(_id_array(ids, entry.item_ids), factors, attributes, signals)


def all_users(database: sqlite3.Connection, path: Path, entry: Entry) -> Users:
    """Read all users of a generation and check them."""
    n, interests = entry.n_users, entry.interests or 0
    shape = (n, entry.n_factors) if interests == 1 else (n, interests, entry.n_factors)
    factors = np.empty(shape, np.float32) if interests else None
    ids: list[Id] = []
    seen: list[NDArray[Any]] = []
    weights: list[NDArray[np.float32]] = []
    any_seen = weighted = False
    cursor = database.execute(f"SELECT {_USER} FROM users_{entry.number} ORDER BY place")  # noqa: S608
    nothing = _id_array([], entry.item_ids)
    while rows := cursor.fetchmany(CHUNK):
        start = len(ids)
        if start + len(rows) > n:
            break
        for row in rows:
            _check_user(row, path, entry)
        ids += [row[1] for row in rows]
        if factors is not None:
            blobs = b"".join([row[2] or b"" for row in rows])
            factors[start : len(ids)] = np.frombuffer(blobs, "<f4").reshape(len(rows), *shape[1:])
        for row in rows:
            any_seen |= row[3] is not None
            weighted |= row[4] is not None
            own = nothing if row[3] is None else _seen(row[3], entry.item_ids)
            seen.append(own)
            weights.append(np.ones(len(own), np.float32) if row[4] is None else np.frombuffer(row[4], "<f4"))
    _check_count(path, entry, "users", len(ids) + len(rows), n)
    held = _id_array(ids, entry.user_ids)
    return Users(held, factors, seen if any_seen else None, weights if weighted else None)


def _check_count(path: Path, entry: Entry, what: str, found: int, expected: int) -> None:
    if found != expected:
        raise DamagedRowError(
            f"{path} is damaged: generation {entry.name!r} holds {found:,} {what}, but should hold {expected:,}; "
            "restore it from a backup."
        )


def _id_array(ids: list[Id], kind: str | None) -> NDArray[Any]:
    if kind == TEXTS:
        return np.array(ids, np.str_) if ids else np.zeros(0, np.str_)
    return np.array(ids, np.int64)


def kind_of(ids: NDArray[Any]) -> str:
    """Return the kind of ids: `WHOLE` for integers, `TEXTS` for strings."""
    return TEXTS if ids.dtype.kind == "U" else WHOLE
