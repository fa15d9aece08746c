"""Pending: writes the changes of one transaction as rows, and collects what the indexes must apply."""

import secrets
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tessella.store import inputs, rows, tables
from tessella.store.building import Delta
from tessella.store.inputs import Change
from tessella.store.models import EmptyError
from tessella.store.rows import Id, ItemRow, UserRow, as_json, item_values, kind_of, seen_bytes, user_values
from tessella.store.tables import Entry

KEPT_CHANGES = 10_000  # changes that readers can follow; a reader further behind reloads
MANY = 20_000  # ids in one change; for more, readers reload
TRIMMED_EVERY = 256  # versions between two trims of the list of changes


def stamp(database: sqlite3.Connection, number: int, kind: str, ids: str | None) -> tuple[int, str]:
    """Add a change to the list, and return its version and mark."""
    version, mark = int(tables.facts(database)["version"]) + 1, secrets.token_hex(8)
    database.execute("INSERT INTO changes VALUES (?, ?, ?, ?, ?)", (version, number, mark, kind, ids))
    if version % TRIMMED_EVERY == 0:
        database.execute("DELETE FROM changes WHERE version <= ?", (version - KEPT_CHANGES,))
    return version, mark


class Pending:
    """The changes of one transaction: the rows that were written, and what the indexes must apply."""

    def __init__(self, database: sqlite3.Connection, path: Path) -> None:
        self._database, self._path = database, path
        facts = tables.facts(database)
        self._live: int | None = facts["live"]
        self._version = int(facts["version"])
        self._entries = {entry.name: entry for entry in tables.entries(database).values() if entry.ready}
        self._touched: dict[int, dict[str, dict[Id, Any]]] = {}
        self._places: dict[str, int] = {}
        self.changed: dict[int, Entry] = {}

    def make(self, change: Change) -> int:
        """Write one change and return the version after it."""
        entry = self._entry(change.generation)
        before = self._entries[entry.name]
        items: list[ItemRow] = []
        users: list[UserRow] = []
        if change.remove_items:
            entry = self._remove("items", change.remove_items, entry)
        if change.remove_users:
            entry = self._remove("users", change.remove_users, entry)
        if change.items:
            items, entry = self._put_items(change, entry)
        if change.users:
            users, entry = self._put_users(change, entry)
        if not (items or users or change.remove_items or change.remove_users):
            return entry.version
        ids = {
            "items": [row.id for row in items],
            "removed_items": list(change.remove_items),
            "users": [row.id for row in users],
            "removed_users": list(change.remove_users),
        }
        many = sum(map(len, ids.values())) > MANY
        told = None if many else as_json({name: some for name, some in ids.items() if some})
        self._version += 1
        mark = secrets.token_hex(8)
        self._database.execute(
            "INSERT INTO changes VALUES (?, ?, ?, ?, ?)",
            (self._version, entry.number, mark, "many" if many else "rows", told),
        )
        entry = replace(entry, version=self._version, mark=mark)
        self._remember(entry, before, change, items, users)
        return self._version

    def _entry(self, generation: str | None) -> Entry:
        for entry in self._entries.values():
            if entry.name == generation or (generation is None and entry.number == self._live):
                return entry
        if generation is None:
            raise EmptyError(f"{self._path} holds no model yet; publish one.")
        raise KeyError(f"there is no generation {generation!r}.")

    def _remove(self, what: str, ids: Sequence[Id], entry: Entry) -> Entry:
        kind = entry.item_ids if what == "items" else entry.user_ids
        named = inputs.ids_of(ids, kind, "ids", whose=what).tolist()
        some = rows.some_items if what == "items" else rows.some_users
        there = some(self._database, self._path, entry, named)
        missing = next((one for one in named if one not in there), None)
        if missing is not None:
            raise KeyError(f"there is no {what[:-1]} with id {missing!r}.")
        rows.remove(self._database, f"{what}_{entry.number}", named)
        if what == "items":
            return replace(entry, n_items=entry.n_items - len(named))
        return replace(entry, n_users=entry.n_users - len(named))

    def _put_items(self, change: Change, entry: Entry) -> tuple[list[ItemRow], Entry]:
        ids = inputs.ids_of([one.id for one in change.items], entry.item_ids, "ids", whose="items")
        before = rows.some_items(self._database, self._path, entry, ids.tolist())
        entry = replace(entry, item_ids=entry.item_ids or kind_of(ids))
        complete = self._placed(inputs.complete_items(change, entry, before), f"items_{entry.number}")
        rows.put_items(
            self._database,
            entry.number,
            [
                item_values(
                    row.place or 0,
                    row.id,
                    row.factors,
                    as_json(row.attributes),
                    as_json(row.signals),
                    inputs.payload_text(row.payload, row.id),
                )
                for row in complete
            ],
        )
        return complete, replace(entry, n_items=entry.n_items + len(complete) - len(before))

    def _put_users(self, change: Change, entry: Entry) -> tuple[list[UserRow], Entry]:
        ids = inputs.ids_of([one.id for one in change.users], entry.user_ids, "ids", whose="users")
        before = rows.some_users(self._database, self._path, entry, ids.tolist())
        entry = replace(entry, user_ids=entry.user_ids or kind_of(ids))
        made, interests = inputs.complete_users(change, entry, before)
        complete = self._placed(made, f"users_{entry.number}")
        rows.put_users(
            self._database,
            entry.number,
            [
                user_values(
                    row.place or 0,
                    row.id,
                    row.factors,
                    seen_bytes(row.seen, entry.item_ids),
                    None if row.weights is None else np.array(row.weights, "<f4").tobytes(),
                )
                for row in complete
            ],
        )
        return complete, replace(entry, n_users=entry.n_users + len(complete) - len(before), interests=interests)

    def _placed(self, complete: list[Any], table: str) -> list[Any]:
        """Return the rows with their places; new rows come last."""
        place = rows.next_place(self._database, table)
        made = []
        for row in complete:
            made.append(row if row.place is not None else row._replace(place=place))
            place += row.place is None
        return made

    def _remember(
        self, entry: Entry, before: Entry, change: Change, items: list[ItemRow], users: list[UserRow]
    ) -> None:
        tables.update_generation(
            self._database,
            entry.number,
            **{
                name: getattr(entry, name)
                for name in ("item_ids", "user_ids", "interests", "n_items", "n_users", "version", "mark")
                if getattr(entry, name) != getattr(before, name)
            },
        )
        self._entries[entry.name] = self.changed[entry.number] = entry
        touched = self._touched.setdefault(
            entry.number, {name: {} for name in ("items", "removed_items", "users", "removed_users")}
        )
        for name, removed, put in (("items", change.remove_items, items), ("users", change.remove_users, users)):
            for one in removed:
                touched[name].pop(one, None)
                touched[f"removed_{name}"][one] = None
            touched[name].update({row.id: row for row in put})

    def delta(self, number: int) -> Delta:
        """Return the changes that the index of a generation must apply."""
        touched = self._touched[number]
        return Delta(
            list(touched["items"].values()),
            frozenset(touched["removed_items"]),
            list(touched["users"].values()),
            frozenset(touched["removed_users"]),
        )

    def close(self) -> int:
        """Write the version of the store, trim the list of changes, and return the version."""
        before = int(tables.facts(self._database)["version"])
        if self._version != before:
            tables.set_facts(self._database, version=self._version)
            if before // TRIMMED_EVERY != self._version // TRIMMED_EVERY:
                self._database.execute("DELETE FROM changes WHERE version <= ?", (self._version - KEPT_CHANGES,))
        return self._version
