"""Files: what commands read, and where they may write."""

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
    """The items to search, and what gives their titles if they have any."""

    searched: Index
    titles: Titles | None


class Users(NamedTuple):
    """The factors of users, in their file or a nameless one, and what users are called."""

    factors: NDArray[Any]
    ids: NDArray[Any] | Lines | None
    name: str  # of the file

    def __len__(self) -> int:
        return len(self.factors)

    @property
    def names(self) -> NDArray[Any] | Lines | Numbered:
        """Their ids, or their rows."""
        return Numbered(len(self)) if self.ids is None else self.ids

    def block(self, some: slice) -> NDArray[np.float32]:
        """Checked factors of some users."""
        return _checks.block(self.factors, some, self.name)

    def check(self) -> None:
        """Refuse bad factors, before the first search."""
        for some in _checks.row_blocks(self.factors):
            self.block(some)


def load(path: Path, *, mmap: bool = False) -> Index | Recommender:
    """The index or the recommender in a file."""
    arrays, facts = storage.read(path, mmap=mmap)
    if facts.get("kind") == recommenders.KIND:
        return Recommender(recommenders.unpacked(arrays, facts, str(path)))
    return Index(restore(arrays, facts, str(path)))


def titles_of(recommender: Recommender) -> Titles | None:
    """What gives titles by ids, if items have any."""
    edition = recommender._edition
    return edition.titles if edition.titled else None


def load_items(path: Path) -> Items:
    """The items in the file of an index or a recommender, to search with vectors of one's own."""
    loaded = load(path)
    if isinstance(loaded, Index):
        return Items(loaded, None)
    if loaded._edition.signals is not None:
        raise ValueError(f"{path} has signals, which a plain search would take for factors; use tessella recommend.")
    return Items(loaded.index, titles_of(loaded))


def check_place(path: Path, overwrite: bool) -> None:
    """Refuse, before the work, an output that could not be written after it."""
    _files.check_file(path, overwrite=overwrite)
    folder = _files.followed(path).parent
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"{path} cannot be written: the folder {folder} is read-only.")


def read_items(
    path: Path, ids: Path | None, model: Index | Recommender | None = None
) -> tuple[NDArray[np.float32], NDArray[Any] | None]:
    """Factors and ids of items, from two files or from one; for a model, of its width and kind of ids."""
    table = tables.read_factors(path, None if model is None else model.n_factors)
    listed = table.ids if ids is None else tables.read_ids(ids)
    texts = model is not None and has_texts(model)
    return table.factors, None if listed is None else tables.as_ids(listed, texts=texts)


def read_items_for(
    model: Index | Recommender, path: Path, ids: Path | None
) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """Factors and ids of items for a model; a file without ids is refused."""
    factors, listed = read_items(path, ids, model)
    if listed is None:
        raise ValueError(f"{path} holds no ids; pass them with --ids.")
    return factors, listed


def read_excluded(index: Index, path: Path | None, columns: Path | None, n_users: int) -> tuple[Any, Any] | None:
    """The matrix of users x items, by rows, and the ids of its columns; None without one."""
    if path is None:
        if columns is not None:
            raise ValueError("--columns are those of a matrix, but there is no --exclude.")
        return None
    ids = index.ids if columns is None else tables.as_ids(tables.read_ids(columns), texts=has_texts(index))
    if columns is None and index._version.moved:
        raise ValueError(
            f"{path} has no ids of its columns, but items were removed from the index, so they may have moved; pass "
            "--columns."
        )
    what = "users x items of the index" if columns is None else f"users x ids in {columns}"
    return tables.read_seen(path, (n_users, len(ids)), what), ids


def has_texts(model: Index | Recommender) -> bool:
    """Whether ids of items are texts."""
    return item_ids(model).dtype.kind == "U"


def item_ids(model: Index | Recommender) -> NDArray[Any]:
    """Ids of the items there are."""
    return model.ids if isinstance(model, Index) else model.item_ids


def open_users(path: Path, ids: Path | None, n_factors: int | None, folder: Path | None) -> Users:
    """Factors of users, and ids from a file of their own or beside the factors; `folder` has room for copies."""
    table = tables.open_users(path, n_factors, folder)
    listed = table.ids if ids is None else tables.open_ids(ids, folder)
    if listed is not None and len(listed) != len(table.factors):
        raise ValueError(f"{ids or path} has {len(listed):,} ids, but {path} has {len(table.factors):,} users.")
    return Users(table.factors, listed, str(path))


def read_allowed(index: Index, path: Path | None) -> NDArray[Any] | None:
    """Ids of the items that may be recommended; None if all may."""
    if path is None:
        return None
    ids = tables.as_ids(tables.read_ids(path), texts=has_texts(index))
    if not any(item in index for item in ids.tolist()):
        raise ValueError(f"{path} names no item of the index, so nothing could be recommended.")
    return ids


def replace(path: Path, model: Index | Recommender, said: Sequence[str] = ()) -> None:
    """Write what was changed in the place of the file it came from."""
    model.save(path, overwrite=True)
    report(path, model, said)


def report(path: Path, model: Index | Recommender, said: Sequence[str] = ()) -> None:
    """Say what a file holds, after sentences on what went in, of which some may be empty."""
    for sentence in filter(None, said):
        typer.echo(sentence)
    typer.echo(f"{path}: {model}")
