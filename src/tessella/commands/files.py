"""Files: what commands read, and where they can write."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

from tessella import _checks, _files
from tessella.commands import tables
from tessella.commands.spool import Lines, Numbered
from tessella.commands.writing import Titles
from tessella.index import Index
from tessella.recommend import storage as recommenders
from tessella.recommender import Recommender
from tessella.versions import storage
from tessella.versions.snapshot import restore


class Items(NamedTuple):
    """The items to search, and a function that returns their titles, if they have any."""

    searched: Index
    titles: Titles | None


class Users(NamedTuple):
    """User factors, in their own file or an unnamed temporary one, and the ids of the users."""

    factors: NDArray[Any]
    ids: NDArray[Any] | Lines | None
    name: str  # of the file

    def __len__(self) -> int:
        return len(self.factors)

    @property
    def names(self) -> NDArray[Any] | Lines | Numbered:
        """The ids of the users, or their row numbers."""
        return Numbered(len(self)) if self.ids is None else self.ids

    def block(self, some: slice) -> NDArray[np.float32]:
        """Return checked factors of some users."""
        return _checks.block(self.factors, some, self.name)

    def check(self) -> None:
        """Refuse bad factors before the first search."""
        for some in _checks.row_blocks(self.factors):
            self.block(some)


def load(path: Path, *, mmap: bool = False) -> Index | Recommender:
    """Load the index or the recommender in a file."""
    arrays, facts = storage.read(path, mmap=mmap)
    if facts.get("kind") == recommenders.KIND:
        return Recommender(recommenders.unpacked(arrays, facts, str(path)))
    return Index(restore(arrays, facts, str(path)))


def titles_of(recommender: Recommender) -> Titles | None:
    """Return a function that gives titles by ids, or None if items have no titles."""
    edition = recommender._edition
    return edition.titles if edition.titled else None


def load_items(path: Path) -> Items:
    """Load the items of an index or a recommender, to search with vectors from another file."""
    loaded = load(path)
    if isinstance(loaded, Index):
        return Items(loaded, None)
    if loaded._edition.signals is not None:
        raise ValueError(
            f"{path} has signals, which a plain search would mistake for factors; use tessella recommend instead."
        )
    return Items(loaded.index, titles_of(loaded))


def check_place(path: Path, overwrite: bool) -> None:
    """Refuse an output that cannot be written, before the work starts."""
    _files.check_file(path, overwrite=overwrite)
    folder = _files.followed(path).parent
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"{path} cannot be written: the folder {folder} is read-only.")


def read_items(
    path: Path, ids: Path | None, model: Index | Recommender | None = None
) -> tuple[NDArray[np.float32], NDArray[Any] | None]:
    """Read item factors and ids from two files or from one; for a model, with its width and its type of ids."""
    table = tables.read_factors(path, None if model is None else model.n_factors)
    listed = table.ids if ids is None else tables.read_ids(ids)
    texts = model is not None and has_texts(model)
    return table.factors, None if listed is None else tables.as_ids(listed, texts=texts)


def read_items_for(
    model: Index | Recommender, path: Path, ids: Path | None
) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """Read item factors and ids for a model; refuse a file without ids."""
    factors, listed = read_items(path, ids, model)
    if listed is None:
        raise ValueError(f"{path} holds no ids; pass them with --ids.")
    return factors, listed


def read_excluded(index: Index, path: Path | None, columns: Path | None, n_users: int) -> tuple[Any, Any] | None:
    """Read the matrix of users x items in CSR format, and the ids of its columns; None if there is none."""
    if path is None:
        if columns is not None:
            raise ValueError("--columns needs --exclude, which is not given.")
        return None
    ids = index.ids if columns is None else tables.as_ids(tables.read_ids(columns), texts=has_texts(index))
    if columns is None and index._version.moved:
        raise ValueError(
            f"{path} has no column ids, but items were removed from the index, so its columns may have moved; pass the "
            "ids with --columns."
        )
    what = "users x items of the index" if columns is None else f"users x ids in {columns}"
    return tables.read_seen(path, (n_users, len(ids)), what), ids


def has_texts(model: Index | Recommender) -> bool:
    """Return whether item ids are strings."""
    return item_ids(model).dtype.kind == "U"


def item_ids(model: Index | Recommender) -> NDArray[Any]:
    """Return the ids of the items."""
    return model.ids if isinstance(model, Index) else model.item_ids


def open_users(path: Path, ids: Path | None, n_factors: int | None, folder: Path | None) -> Users:
    """Open user factors, with ids from a separate file or from the same one; `folder` is for temporary copies."""
    table = tables.open_users(path, n_factors, folder)
    listed = table.ids if ids is None else tables.open_ids(ids, folder)
    if listed is not None and len(listed) != len(table.factors):
        raise ValueError(f"{ids or path} has {len(listed):,} ids, but {path} has {len(table.factors):,} users.")
    return Users(table.factors, listed, str(path))


def read_allowed(index: Index, path: Path | None) -> NDArray[Any] | None:
    """Read the ids of the items that may be recommended; None if all may."""
    if path is None:
        return None
    ids = tables.as_ids(tables.read_ids(path), texts=has_texts(index))
    if not any(item in index for item in ids.tolist()):
        raise ValueError(f"{path} names no item of the index, so nothing could be recommended; check the ids.")
    return ids


def replace(path: Path, model: Index | Recommender, said: Sequence[str] = ()) -> None:
    """Write a changed model over the file it came from."""
    model.save(path, overwrite=True)
    report(path, model, said)


def report(path: Path, model: Index | Recommender, said: Sequence[str] = ()) -> None:
    """Print the remarks that are not empty, and then what a file holds."""
    for sentence in filter(None, said):
        typer.echo(sentence)
    typer.echo(f"{path}: {model}")
