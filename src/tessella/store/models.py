"""Models: generations in memory, loaded from a snapshot or from rows, and how they follow changes."""

import contextlib
import json
import sqlite3
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

from tessella import _files
from tessella.recommend.edition import Edition
from tessella.recommend.storage import packed, unpacked
from tessella.store import building, rows
from tessella.store.building import Delta, StoredRecommender
from tessella.store.rows import Id
from tessella.store.tables import Entry
from tessella.versions import storage

_MARK = "catalogue"  # where a snapshot says which rows it was made from


class EmptyError(ValueError):
    """The store or generation is empty, so nothing can answer."""


@dataclass(frozen=True)
class Model:
    """A generation in memory, at one version of its rows.

    Attributes
    ----------
    name : str
        The name of the generation.
    version : int
        The version of the store at its last change.
    """

    name: str
    version: int
    number: int
    token: str
    mark: str
    held: StoredRecommender | None

    @property
    def recommender(self) -> StoredRecommender:
        """The recommender of the generation; a generation without items has none."""
        if self.held is None:
            raise EmptyError(f"generation {self.name!r} holds no items yet; add some.")
        return self.held

    def after(self, entry: Entry, edition: Edition | None) -> "Model":
        """Return the model at the next version. It keeps its recommender object, which gets the next edition."""
        if edition is None or not edition.version.n_live:
            held = None
        elif self.held is None:
            held = StoredRecommender(edition)
        else:
            held = self.held
            held._swap(edition)
        return replace(self, version=entry.version, mark=entry.mark, held=held)


def of(entry: Entry, held: StoredRecommender | None) -> Model:
    """Return the model for the row of a generation."""
    return Model(entry.name, entry.version, entry.number, entry.token, entry.mark, held)


def snapshot_path(path: Path, entry: Entry | Model) -> Path:
    """Return the path of a generation's snapshot."""
    return _files.beside(path, "", f".{entry.token}.snapshot")


def write_snapshot(path: Path, model: Model) -> None:
    """Write the index of a model beside the store, so that opening the store need not build it."""
    if model.held is None:
        return
    arrays, facts = packed(building.numbered(model.held._edition, model.version))
    told = {"token": model.token, "version": model.version, "mark": model.mark}
    storage.write(snapshot_path(path, model), arrays, facts | {_MARK: told}, overwrite=True)


def opened(database: sqlite3.Connection, path: Path, entry: Entry, *, mmap: bool) -> tuple[Model, bool]:
    """Load a generation from its snapshot, or from its rows if the snapshot is unusable.

    The second result is whether the snapshot is current.
    """
    kept = snapshot_path(path, entry)
    if kept.exists():
        try:
            return _from_snapshot(database, path, entry, kept, mmap=mmap)
        except (ValueError, OSError, KeyError, TypeError) as error:
            if isinstance(error, rows.DamagedRowError):
                raise
            reason = str(error).removesuffix(".")
            warnings.warn(f"{reason}; the index is rebuilt from the rows of {path.name}.", UserWarning, stacklevel=4)
    return of(entry, building.build(database, path, entry)), False


def _from_snapshot(
    database: sqlite3.Connection, path: Path, entry: Entry, kept: Path, *, mmap: bool
) -> tuple[Model, bool]:
    """Load the model of a snapshot and apply the changes since; refuse one that may not match the rows."""
    arrays, facts = storage.read(kept, mmap=mmap)
    told = facts.get(_MARK)
    if not isinstance(told, dict) or told.get("token") != entry.token:
        raise ValueError(f"{kept.name} is not a snapshot of generation {entry.name!r}")
    delta = changes_since(database, path, entry, told["version"], told["mark"])
    if delta is None:
        raise ValueError(
            f"{kept.name} is stale: it has version {told['version']}, but generation {entry.name!r} has version "
            f"{entry.version}"
        )
    edition = unpacked(arrays, facts, str(kept))
    if (told["version"], told["mark"]) == (entry.version, entry.mark):
        if edition.version.n_live != entry.n_items:
            raise ValueError(f"{kept.name} holds {edition.version.n_live} items, but the store holds {entry.n_items}")
        return of(entry, StoredRecommender(edition)), True
    after = building.changed(edition, entry, delta)
    return of(entry, StoredRecommender(after) if after.version.n_live else None), False


def changes_since(database: sqlite3.Connection, path: Path, entry: Entry, version: int, mark: str) -> Delta | None:
    """Return the changes of a generation since a version; None if the list of changes does not go back that far."""
    if (version, mark) == (entry.version, entry.mark):
        return Delta()
    listed = database.execute(
        "SELECT version, mark, kind, ids FROM changes WHERE generation = ? AND version >= ? ORDER BY version",
        (entry.number, version),
    ).fetchall()
    if not listed or tuple(listed[0][:2]) != (version, mark):
        return None
    touched: dict[str, dict[Id, None]] = {name: {} for name in ("items", "removed_items", "users", "removed_users")}
    for _, _, kind, ids in listed[1:]:
        if kind == "many":
            return None
        for name, some in json.loads(ids or "{}").items():
            touched[name].update(dict.fromkeys(some))
    items = rows.some_items(database, path, entry, [*(touched["items"] | touched["removed_items"])])
    users = rows.some_users(database, path, entry, [*(touched["users"] | touched["removed_users"])])
    return Delta(
        list(items.values()),
        frozenset(touched["removed_items"]),
        list(users.values()),
        frozenset(touched["removed_users"]),
    )


def next_edition(database: sqlite3.Connection, path: Path, model: Model, entry: Entry, delta: Delta) -> Edition | None:
    """Return the edition of a model after a change; None if no item is left."""
    if not entry.n_items:
        return None
    if model.held is None:
        built = building.build(database, path, entry)
        return None if built is None else built._edition
    return building.changed(model.held._edition, entry, delta)


def remove_snapshots(path: Path, tokens: set[str]) -> None:
    """Delete the snapshots of dropped generations, and temporary files of processes that were killed."""
    start, end = f"{path.name}.", ".snapshot"
    with contextlib.suppress(OSError):
        for file in path.parent.iterdir():
            token = file.name.removeprefix(start).removesuffix(end)
            if file.name == f"{start}{token}{end}" and len(token) == 12 and token not in tokens:
                file.unlink(missing_ok=True)
    for token in tokens:
        for left in _files.leftovers(_files.beside(path, "", f".{token}{end}")):
            with contextlib.suppress(OSError):
                left.unlink()
