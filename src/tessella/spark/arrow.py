"""Arrow: converts batches of ids and vectors to NumPy arrays.

A DataFrame has no row numbers, so error messages name the id in the bad row.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tessella import _checks
from tessella._norms import squared_norms
from tessella._numbers import LARGEST_NORM, LARGEST_PRODUCT
from tessella.search.selections import Ids

ID, FEATURES, EXCLUDED = "id", "features", "excluded"  # column names while a job runs
MISSING = -1  # stands for a missing answer, so it is no id

Items = tuple[NDArray[Any], NDArray[np.float32]]  # ids and factors


def id_array(column: Any, name: str) -> NDArray[Any]:
    """Convert a column of ids to int64 or to strings."""
    refuse_nulls(column, name)
    if pa.types.is_integer(column.type):
        return np.asarray(column.to_numpy(zero_copy_only=False), np.int64)
    return _checks.ids(column.to_pylist(), None, unique=False, name=name) if len(column) else np.zeros(0, np.str_)


def refuse_nulls(column: Any, name: str) -> None:
    """Refuse a column of ids that contains a null."""
    if column.null_count:
        raise ValueError(f"{name} has a null id, but every row needs an id.")


def factor_matrix(column: Any, ids: Any, name: str, n_factors: int | None = None) -> NDArray[np.float32]:
    """Convert a column of lists of numbers to a matrix; float32 is not copied.

    Parameters
    ----------
    column : Arrow array of lists
        The vectors.
    ids : Arrow array
        The ids beside them.
    name : str
        The name of the frame in error messages.
    n_factors : int, default None
        How many numbers each vector must have; None takes the length of the first.
    """
    lengths = pc.fill_null(pc.list_value_length(column), -1).to_numpy(zero_copy_only=False)
    wanted = n_factors if n_factors is not None else int(lengths[0]) if len(lengths) else 0
    _same_lengths(lengths, wanted, ids, name, "items have" if n_factors is not None else "others have")
    numbers = column.flatten()
    if numbers.null_count:
        row = int(pc.index(pc.is_null(numbers), value=True).as_py()) // wanted
        raise ValueError(f"{name} has a null in the vector of id {ids[row].as_py()!r}, but factors are numbers.")
    given = np.asarray(numbers.to_numpy(zero_copy_only=False)).reshape(len(lengths), wanted)
    with np.errstate(over="ignore"):
        factors = given.astype(np.float32, copy=False)
    _refuse_infinite(factors, given, ids, name)
    refuse_long(factors, ids, name)
    return factors


def _same_lengths(lengths: NDArray[Any], wanted: int, ids: Any, name: str, theirs: str) -> None:
    """Refuse vectors that are missing or of another length."""
    for row in (np.flatnonzero(lengths < 0), np.flatnonzero(lengths != wanted)):
        if len(row):
            who, found = ids[int(row[0])].as_py(), int(lengths[row[0]])
            if found < 0:
                raise ValueError(f"{name} has no vector for id {who!r}, but every row needs one.")
            raise ValueError(f"{name} has {found} numbers in the vector of id {who!r}, but {theirs} {wanted}.")


def _refuse_infinite(factors: NDArray[np.float32], given: NDArray[Any], ids: Any, name: str) -> None:
    finite = np.isfinite(factors)
    if finite.all():
        return
    row, column = (int(place) for place in np.argwhere(~finite)[0])
    value, whose = given[row, column], f"the vector of id {ids[row].as_py()!r}"
    if np.isfinite(value):
        raise ValueError(f"{name} holds {value:g} in {whose}, too large for float32; scale the factors down.")
    raise ValueError(f"{name} holds {value} in {whose}; factors must be finite.")


def refuse_long(factors: NDArray[np.float32], ids: Any, name: str, longest: float | None = None) -> None:
    """Refuse vectors that are too long for float32, or whose products with an item as long as the longest are."""
    norms = np.sqrt(squared_norms(factors))
    if not len(norms):
        return
    row = int(np.argmax(norms))
    found = f"{name} has norm {norms[row]:.3g} in the vector of id {ids[row].as_py()!r}"
    if norms[row] > LARGEST_NORM:
        raise ValueError(f"{found}, too large for float32; scale the factors down.")
    if longest is not None and norms[row] * longest > LARGEST_PRODUCT:
        raise ValueError(
            f"{found} and an item {longest:.3g}: their product is too large for float32; scale the factors down."
        )


def in_id_order(batches: Iterable[Any], name: str) -> Items:
    """Return the ids and vectors of all batches, sorted by id."""
    parts: list[Items] = []
    for batch in batches:
        width = parts[0][1].shape[1] if parts else None
        ids = id_array(batch.column(ID), name)
        parts.append((ids, factor_matrix(batch.column(FEATURES), batch.column(ID), name, width)))
    parts = [part for part in parts if len(part[0])]
    if not parts:
        raise ValueError(f"{name} has 0 rows, but at least 1 item is needed.")
    ids = np.concatenate([own for own, _ in parts])
    order = np.argsort(ids, kind="stable")
    place = np.empty(len(ids), np.int64)
    place[order] = np.arange(len(ids))
    factors = np.empty((len(ids), parts[0][1].shape[1]), np.float32)
    first = 0
    for own, vectors in parts:
        factors[place[first : first + len(own)]] = vectors
        first += len(own)
    ids = ids[order]
    if ids.dtype.kind == "i" and (ids == MISSING).any():
        raise ValueError(f"{name} holds id {MISSING}, which stands for a missing answer; use another number.")
    again = np.flatnonzero(ids[1:] == ids[:-1])
    if len(again):
        raise ValueError(f"{name} holds id {ids[again[0]].item()!r} more than once.")
    return ids, factors


def excluded_ids(batch: Any, *, quiet: bool) -> Ids | None:
    """Return the ids to exclude for each user of a batch; None if the batch has no such column."""
    if EXCLUDED not in batch.schema.names:
        return None
    lists = batch.column(EXCLUDED)
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    return Ids(id_array(lists.flatten(), "exclude"), starts, "exclude", quiet)
