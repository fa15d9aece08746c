"""Files: what commands read, and where they may write."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import typer
from numpy.typing import NDArray

from tessella import _files
from tessella.commands import tables
from tessella.index import Index


def check_place(path: Path, overwrite: bool) -> None:
    """Refuse, before the work, an output that could not be written after it."""
    _files.check_file(path, overwrite=overwrite)
    folder = _files.followed(path).parent
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"{path} cannot be written: the folder {folder} is read-only.")


def read_items(
    path: Path, ids: Path | None, index: Index | None = None
) -> tuple[NDArray[np.float32], NDArray[Any] | None]:
    """Factors and ids of items, from two files or from one; for an index, of its width and kind of ids."""
    table = tables.read_factors(path, None if index is None else index.n_factors)
    listed = table.ids if ids is None else tables.read_ids(ids)
    texts = index is not None and has_texts(index)
    return table.factors, None if listed is None else tables.as_ids(listed, texts=texts)


def read_items_for(index: Index, path: Path, ids: Path | None) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """Factors and ids of items for an index; a file without ids is refused."""
    factors, listed = read_items(path, ids, index)
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


def has_texts(index: Index) -> bool:
    """Whether ids are texts."""
    return index.ids.dtype.kind == "U"


def names_of(table: tables.Table) -> NDArray[Any]:
    """What users are called: their ids, or their rows."""
    return np.arange(len(table.factors)) if table.ids is None else tables.as_ids(table.ids)


def replace(path: Path, index: Index) -> None:
    """Write a changed index in the place of the file it came from."""
    index.save(path, overwrite=True)
    typer.echo(f"{path}: {index}")
