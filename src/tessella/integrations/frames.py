"""Frames: a `Recommender` from Parquet files, Arrow tables, and pandas or polars frames with a vector in each row."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from tessella import Recommender, _checks
from tessella.integrations._factors import needed


def from_frames(
    items: Any,
    users: Any = None,
    *,
    seen: Any = None,
    attributes: Any = None,
    id_column: str = "id",
    features: str | Sequence[str] = "features",
    user_column: str = "user",
    item_column: str = "item",
    **options: Any,
) -> Recommender:
    """Build a `Recommender` from tables with an id and a vector in each row.

    A table is a pandas or polars frame, an Arrow table, or the path of a Parquet file or of a folder of Parquet files,
    as Spark writes it.

    Parameters
    ----------
    items, users : tables, users default None
        Tables with a column of ids and a column of vectors. Other columns are ignored.
    seen : table, or any form that `Recommender.build` takes, default None
        A table has one row per pair of a user and an item they have seen. Rows with unknown users or items are ignored.
        The weight of a pair is the number of its rows.
    attributes : sequence of column names, or any form that `Recommender.build` takes, default None
        Columns of `items` to keep as attributes, such as ``["title", "genre"]``.
    id_column : str, default "id"
        The column of ids in `items` and `users`.
    features : str or sequence of str, default "features"
        The column of vectors, which are lists or arrays; or the columns of numbers, one for each coordinate.
    user_column, item_column : str, default "user" and "item"
        The columns of ids in `seen`.
    **options
        As in `Recommender.build`: signals, method, ...

    Examples
    --------
    >>> import pyarrow as pa
    >>> from tessella.integrations.frames import from_frames
    >>> items = pa.table({"id": [7, 8, 9], "features": [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]})
    >>> users = pa.table({"id": [1, 2], "features": [[2.0, 1.0], [0.0, 1.0]]})
    >>> recommender = from_frames(items, users, seen=pa.table({"user": [1], "item": [9]}))
    >>> recommender.recommend([1, 2], k=2).ids
    array([[7, 8],
           [8, 9]])
    """
    item_table = _table(items, "items")
    item_ids, item_factors = _ids_and_factors(item_table, "items", id_column, features)
    known: dict[str, Any] = {"item_ids": item_ids}
    user_factors = None
    if users is not None:
        known["user_ids"], user_factors = _ids_and_factors(_table(users, "users"), "users", id_column, features)
    if attributes is not None:
        known["attributes"] = _attributes(item_table, attributes)
    if seen is not None:
        known["seen"] = seen
        if _is_table(seen):
            pairs = _table(seen, "seen")
            columns = (_column(pairs, "seen", user_column), _column(pairs, "seen", item_column))
            if "user_ids" not in known:
                known["user_ids"] = np.unique(_checks.ids(columns[0], None, unique=False, name=user_column))
            known["seen"] = _met(*columns, known["user_ids"], item_ids)
    return Recommender.build(item_factors, user_factors, **(known | options))


def from_spark(path: str | os.PathLike[str], **options: Any) -> Recommender:
    """Build a `Recommender` from the itemFactors and userFactors in a folder that Spark's ``ALSModel.save`` wrote.

    For a model in a running session, use ``from_frames(model.itemFactors.toPandas(), model.userFactors.toPandas())``.

    Parameters
    ----------
    path : str or path
        The folder of the model.
    **options
        As in `from_frames`: seen, attributes, ...
    """
    folder = Path(path)
    parts = [folder / name for name in ("itemFactors", "userFactors")]
    for part in parts:
        if not part.is_dir():
            raise FileNotFoundError(f"there is no folder {part}; pass a folder that Spark's ALSModel.save wrote.")
    return from_frames(*parts, **options)


def _is_table(given: Any) -> bool:
    """Whether `given` has named columns, or is a path."""
    return isinstance(given, str | os.PathLike) or hasattr(given, "column_names") or hasattr(given, "columns")


def _table(given: Any, name: str) -> Any:
    """Return a frame or an Arrow table; read it first if it is a path."""
    if not _is_table(given):
        raise TypeError(
            f"{name} must be a frame, an Arrow table, or the path of a Parquet file, not {type(given).__name__}."
        )
    if not isinstance(given, str | os.PathLike):
        return given
    parquet = needed("pyarrow.parquet", "Parquet", "parquet")
    path = Path(given)
    if not path.exists():
        raise FileNotFoundError(f"there is no file or folder {path}.")
    try:
        return parquet.read_table(path)
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read as Parquet: {error}") from None


def _column(table: Any, name: str, column: str) -> Any:
    """Return a column of a table; refuse missing values."""
    names = list(getattr(table, "column_names", getattr(table, "columns", ())))
    if column not in names:
        raise ValueError(f"{name} has no column {column!r}; it has {', '.join(map(repr, names))}.")
    values = table[column]
    missing = getattr(values, "null_count", None)
    if callable(missing):
        missing = missing()
    if missing is None:
        missing = int(values.isna().sum())
    if missing:
        raise ValueError(f"{name} has {missing} missing values in column {column!r}, but must have none.")
    return values


def _ids_and_factors(
    table: Any, name: str, id_column: str, features: str | Sequence[str]
) -> tuple[NDArray[Any], NDArray[Any]]:
    ids = _checks.ids(_column(table, name, id_column), None, name=f"{id_column} of {name}")
    if isinstance(features, str):
        factors = _lists(_column(table, name, features), f"{features} of {name}")
    else:
        factors = np.column_stack([np.asarray(_column(table, name, column)) for column in features])
    return ids, _checks.factors(factors, f"{features} of {name}" if isinstance(features, str) else name)


def _lists(column: Any, name: str) -> NDArray[Any]:
    """Convert a column of lists to a matrix."""
    if hasattr(column, "combine_chunks"):  # Arrow
        whole = column.combine_chunks()
        if not hasattr(whole, "flatten"):
            raise TypeError(f"{name} holds {column.type}, but must hold lists of numbers.")
        lengths, flat = needed("pyarrow.compute", "Arrow", "parquet").list_value_length(whole), whole.flatten()
    elif (
        hasattr(column, "to_arrow") and hasattr(column.dtype, "inner") and not hasattr(column.dtype, "shape")
    ):  # polars
        lengths, flat = column.list.len(), column.explode()
    else:  # pandas with an array or a list in each row, or polars arrays of fixed length
        array = np.asarray(column)
        return _checks.numbers(list(column) if array.dtype == object else array, name)
    found = np.unique(np.asarray(lengths))
    if len(found) > 1:
        raise ValueError(
            f"{name} has vectors of lengths {found[0]} and {found[-1]}, but all must have the same length."
        )
    return np.asarray(flat).reshape(len(column), -1) if len(column) else np.zeros((0, 1))


def _attributes(table: Any, attributes: Any) -> Any:
    """Select columns of the items if names were passed; return anything else unchanged."""
    if isinstance(attributes, str) or not (
        isinstance(attributes, Sequence) and all(isinstance(a, str) for a in attributes)
    ):
        return attributes
    names = list(attributes)
    return table.select(names) if hasattr(table, "select") else table[names]


def _met(users: Any, items: Any, user_ids: NDArray[Any], item_ids: NDArray[Any]) -> scipy.sparse.csr_matrix:
    """Count how often each user has seen each item: one row per user, one column per item."""
    rows, columns = _places(users, user_ids, "users"), _places(items, item_ids, "items")
    known = (rows >= 0) & (columns >= 0)
    if len(known) and not known.any():
        raise ValueError(
            f"seen has {len(known)} rows, but 0 of them name a known user and a known item; check the ids."
        )
    ones = np.ones(int(np.count_nonzero(known)), np.float32)
    return scipy.sparse.csr_matrix((ones, (rows[known], columns[known])), (len(user_ids), len(item_ids)))


def _places(values: Any, ids: NDArray[Any], name: str) -> NDArray[np.int64]:
    """Return the place of each value among the ids, or -1."""
    given = _checks.ids(values, None, unique=False, name=f"{name} of seen")
    if len(given) and (given.dtype.kind == "U") != (ids.dtype.kind == "U"):
        kinds = {True: "strings", False: "integers"}
        raise TypeError(
            f"seen names {name} by {kinds[given.dtype.kind == 'U']}, but their ids are {kinds[ids.dtype.kind == 'U']}."
        )
    order = np.argsort(ids, kind="stable")
    place = order[np.minimum(np.searchsorted(ids, given, sorter=order), len(ids) - 1)]
    return np.where(ids[place] == given, place, -1)
