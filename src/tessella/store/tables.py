"""Tables: the schema of a store's SQLite file.

Each generation has its own two tables, so that dropping a model does not touch others. The column `place` holds the
insertion order of items and users.
"""

import json
import secrets
import sqlite3
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tessella import _files
from tessella.store.connection import APPLICATION, FORMAT

MADE = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE generations (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    token TEXT NOT NULL,           -- its name in cursors and snapshots
    ready INTEGER NOT NULL,        -- 0 while its rows are being loaded
    n_factors INTEGER NOT NULL,
    item_ids TEXT,                 -- "whole numbers" or "texts"; null while it has no items
    user_ids TEXT,
    interests INTEGER,             -- vectors per user, 0 if users have none; null while it has no users
    columns BLOB,                  -- names and kinds of the attributes
    signals TEXT,                  -- by name: the lifetime of a decaying signal, null for others
    options TEXT NOT NULL,         -- how its index is built
    n_items INTEGER NOT NULL DEFAULT 0,
    n_users INTEGER NOT NULL DEFAULT 0,
    version INTEGER NOT NULL,      -- of its last change
    mark TEXT NOT NULL,            -- of its last change: tells apart equal versions in two copies of the file
    created REAL NOT NULL,
    published REAL
);
CREATE TABLE changes (
    version INTEGER PRIMARY KEY,
    generation INTEGER NOT NULL,
    mark TEXT NOT NULL,
    kind TEXT NOT NULL,
    ids TEXT
);
"""
MADE_FOR_EACH = """
CREATE TABLE items_{number} (
    place INTEGER PRIMARY KEY, id NOT NULL, factors BLOB NOT NULL,
    attributes TEXT, signals TEXT, payload TEXT, crc INTEGER NOT NULL
);
CREATE TABLE users_{number} (
    place INTEGER PRIMARY KEY, id NOT NULL, factors BLOB, seen BLOB, weights BLOB, crc INTEGER NOT NULL
);
"""
INDEXED = """
CREATE UNIQUE INDEX IF NOT EXISTS items_by_id_{number} ON items_{number} (id);
CREATE UNIQUE INDEX IF NOT EXISTS users_by_id_{number} ON users_{number} (id);
"""
_FIELDS = (
    "number, name, token, ready, n_factors, item_ids, user_ids, interests, columns, signals, options, n_items, "
    "n_users, version, mark, created, published"
)


@dataclass(frozen=True)
class Entry:
    """The row of a generation."""

    number: int
    name: str
    token: str
    ready: bool
    n_factors: int
    item_ids: str | None
    user_ids: str | None
    interests: int | None
    columns: bytes | None
    signals: dict[str, float | None] | None
    options: dict[str, Any]
    n_items: int
    n_users: int
    version: int
    mark: str
    created: float
    published: float | None


def create(path: Path) -> None:
    """Create an empty store atomically."""
    with _files.replacing(path, overwrite=path.exists()) as temporary:
        database = sqlite3.connect(temporary, isolation_level=None)
        try:
            database.execute(f"PRAGMA application_id = {APPLICATION}")
            database.execute(f"PRAGMA user_version = {FORMAT}")
            database.executescript(f"BEGIN;{MADE}COMMIT;")
            facts = {"store": uuid.uuid4().hex, "version": 0, "live": None, "history": "[]"}
            database.executemany("INSERT INTO facts VALUES (?, ?)", facts.items())
        finally:
            database.close()


def facts(database: sqlite3.Connection) -> dict[str, Any]:
    """Return the facts of the whole store: its id, version, live generation, and the generations live before."""
    found = dict(database.execute("SELECT name, value FROM facts"))
    return found | {"history": json.loads(found["history"])}


def set_facts(database: sqlite3.Connection, **values: Any) -> None:
    """Change some facts of the store."""
    written = {name: json.dumps(value) if isinstance(value, list) else value for name, value in values.items()}
    database.executemany(
        "UPDATE facts SET value = ? WHERE name = ?", [(value, name) for name, value in written.items()]
    )


def entries(database: sqlite3.Connection) -> dict[int, Entry]:
    """Return all generations by number."""
    rows = database.execute(f"SELECT {_FIELDS} FROM generations ORDER BY number")  # noqa: S608
    return {row[0]: _entry(row) for row in rows}


def entry(database: sqlite3.Connection, number: int) -> Entry:
    """Return one generation by number."""
    row = database.execute(f"SELECT {_FIELDS} FROM generations WHERE number = ?", (number,)).fetchone()  # noqa: S608
    if row is None:
        raise KeyError(f"generation number {number} no longer exists.")
    return _entry(row)


def _entry(row: tuple[Any, ...]) -> Entry:
    values = list(row)
    values[3] = bool(values[3])
    values[9] = None if values[9] is None else json.loads(values[9])
    values[10] = json.loads(values[10])
    return Entry(*values)


def insert_generation(database: sqlite3.Connection, name: str, **values: Any) -> int:
    """Insert a generation and create its tables; it is not ready yet, and its ids are not indexed."""
    row = {
        "name": name,
        "token": secrets.token_hex(6),
        "ready": 0,
        "version": 0,
        "mark": secrets.token_hex(8),
        "created": time.time(),
    } | values
    number = database.execute(
        f"INSERT INTO generations ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})",  # noqa: S608
        tuple(row.values()),
    ).lastrowid
    for statement in MADE_FOR_EACH.format(number=number).split(";")[:-1]:
        database.execute(statement)
    return int(number or 0)


def index_ids(database: sqlite3.Connection, number: int) -> None:
    """Create the indexes on ids; this is faster after a bulk load than before it."""
    for statement in INDEXED.format(number=number).split(";")[:-1]:
        database.execute(statement)


def update_generation(database: sqlite3.Connection, number: int, **values: Any) -> None:
    """Update the row of a generation."""
    names = ", ".join(f"{name} = ?" for name in values)
    database.execute(f"UPDATE generations SET {names} WHERE number = ?", (*values.values(), number))  # noqa: S608
