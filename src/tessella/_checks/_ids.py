"""Checks of ids and of lists of ids."""

import warnings
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from tessella._kernels import core, levels_to_the_caller

_SEQUENCES = (list, tuple, set, frozenset, range, np.ndarray)
_NONE = type(None)
_ENOUGH_TO_WARN = 10  # different ids


def ids(values: Any, count: int | None, *, unique: bool = True, name: str = "ids") -> NDArray[Any]:
    """Return `values` as an array of `count` ids, int64 or str."""
    if isinstance(values, list | tuple):
        _same_types(values, name)
    try:
        array = np.array(values)
    except (ValueError, OverflowError):
        raise ValueError(f"{name} is not a flat sequence of strings or of int64 numbers.") from None
    if array.ndim == 0:
        raise ValueError(f"{name} is {values!r}, but must be a sequence; pass [{values!r}].")
    if array.ndim != 1:
        raise ValueError(f"{name} has {array.ndim} dimensions, but must have 1.")
    if count is not None and len(array) != count:
        raise ValueError(f"{name} has {len(array)} entries, but there are {count} items.")
    given = array.tolist() if array.dtype.kind == "O" else values  # Arrow's arrays hold scalars of their own
    array = _numbers_or_texts(array, name)
    if array.dtype.kind == "U":
        cut = [text for text, kept in zip(given, array.tolist(), strict=True) if text != kept]
        if cut:
            raise ValueError(f"{name} holds {cut[0]!r}, but strings must not end in a NUL character.")
    if unique:
        found, counts = np.unique(array, return_counts=True)
        if len(found) < len(array):
            raise ValueError(f"{name} holds {found[counts > 1][0].item()!r} more than once.")
        _refuse_missing(array, name)
    return array


def may_be_id(value: object) -> bool:
    """Return whether `value` is a string or an integer that `ids` accepts."""
    if isinstance(value, str):
        return not value.endswith("\0")
    if not isinstance(value, int | np.integer) or isinstance(value, bool):
        return False
    return value != -1 and -(2**63) <= int(value) < 2**63


def _refuse_missing(array: NDArray[Any], name: str) -> None:
    if array.dtype.kind != "U" and (array == -1).any():
        raise ValueError(f"{name} holds -1, which is reserved for missing answers; use another number.")


def _same_types(values: Sequence[Any], name: str) -> None:
    if len({isinstance(value, str) for value in values}) > 1:
        raise TypeError(f"{name} holds both strings and other values, but must hold either integers or strings.")
    if any(isinstance(value, bool | np.bool_) for value in values):
        raise TypeError(f"{name} holds a bool, but must hold integers or strings.")


def _numbers_or_texts(array: NDArray[Any], name: str) -> NDArray[Any]:
    if array.dtype.kind == "O" and all(isinstance(value, str) for value in array):
        return array.astype(np.str_)
    if array.dtype.kind == "U" or not array.size:
        return array if array.dtype.kind == "U" else array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} holds {array.dtype}, but must hold integers or strings.")
    if int(array.max()) > np.iinfo(np.int64).max:
        raise ValueError(f"{name} holds {array.max()}, but ids must fit in int64.")
    return array.astype(np.int64)


def is_sequence(kind: type) -> bool:
    """Return whether a type is a sequence of ids or some library's array, rather than a single id."""
    return issubclass(kind, _SEQUENCES) or (hasattr(kind, "__array__") and not issubclass(kind, np.generic))


def plain_numbers(lists: list[Any], count: int) -> NDArray[np.int64] | None:
    """Return all ids of lists and tuples in one array if they hold only Python ints; otherwise None."""
    numbers = np.empty(count, np.int64)
    return numbers if core().kernels.read_ids(lists, numbers) else None


def flat_ids(values: Any, kinds: set[type], name: str) -> NDArray[Any]:
    """Return an array of the ids in a flat sequence, whose types are given; None, a missing answer, is left out."""
    if _NONE in kinds:
        values, kinds = [value for value in values if value is not None], kinds - {_NONE}
    if all(issubclass(kind, int | np.integer) and kind is not bool for kind in kinds):
        try:
            return np.fromiter(values, np.int64, len(values))
        except OverflowError:
            raise ValueError(f"{name} holds a number that does not fit in int64, but ids must.") from None
    if all(issubclass(kind, str) for kind in kinds):
        cut = next((text for text in values if text.endswith("\0")), None)
        if cut is not None:
            raise ValueError(f"{name} holds {cut!r}, but strings must not end in a NUL character.")
        return np.array(list(values), np.str_)
    if any(issubclass(kind, str) for kind in kinds):
        raise TypeError(f"{name} holds both strings and other values, but must hold either integers or strings.")
    if any(issubclass(kind, bool | np.bool_) for kind in kinds):
        raise TypeError(f"{name} holds a bool, but must hold integers or strings; a mask is a NumPy array of bool.")
    other = next(kind for kind in kinds if not issubclass(kind, int | np.integer))
    called = np.dtype(other).name if issubclass(other, float) else other.__name__
    raise TypeError(f"{name} holds {called}, but must hold integers or strings.")


def id_array(array: NDArray[Any], name: str) -> NDArray[Any]:
    """Return an array of integers or strings, of any shape, as ids; an array of objects is converted value by value."""
    if array.dtype.kind == "O":
        values = array.ravel().tolist()
        return flat_ids(values, set(map(type, values)), name)
    return np.ascontiguousarray(_numbers_or_texts(array, name))


def from_library(values: Any, name: str) -> NDArray[Any]:
    """Convert a sequence of pandas, polars, Arrow or another library to an array; missing values are left out."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} is a {type(values).__name__} that NumPy cannot read ({error}).") from None
    if array.ndim != 1 or array.dtype.kind not in "fO" or any(map(is_sequence, set(map(type, array.tolist())))):
        return array
    droppers = ("drop_nulls", "drop_null", "dropna")  # of polars, Arrow and pandas
    drop = next((getattr(values, drop) for drop in droppers if hasattr(values, drop)), None)
    return array if drop is None else np.asarray(drop())


def number_of_lists(count: int, name: str, n_queries: int) -> None:
    """Refuse sequences of ids unless there is one per query."""
    if count != n_queries:
        there = "there is 1 query" if n_queries == 1 else f"there are {n_queries} queries"
        raise ValueError(f"{name} has {count} sequence{'' if count == 1 else 's'} of ids, but {there}.")


def refuse_filter(values: object, name: str) -> NoReturn:
    """Refuse a value that is not a filter."""
    kind = type(values).__name__
    raise TypeError(
        f"{name} is a {kind}, but must be a sequence of ids, a list with a sequence for each query, a sparse matrix, a "
        "mask, or a filter from index.filter()."
    )


def columns_fit(shape: tuple[int, ...], name: str, n_queries: int | None, n_columns: int, *, whose: str) -> None:
    """Refuse a matrix or mask unless it has one row per query, and one column per item or column id."""
    rows = shape[0] if n_queries is None else n_queries
    wanted = (n_columns,) if len(shape) == 1 else (rows, n_columns)
    if shape == wanted:
        return
    reason = "each row belongs to one query"
    if shape[-1] != n_columns and whose == "item":
        reason = f"column j is item index.ids[j]; pass {name}=(matrix, column_ids) to say which item each column is"
    elif shape[-1] != n_columns:
        reason = "column j is item column_ids[j]"
    raise ValueError(f"{name} has shape {shape}, but must have shape {wanted}: {reason}.")


def refuse_moved_columns(name: str) -> NoReturn:
    """Refuse a matrix without column ids after items have been removed."""
    raise ValueError(
        f"{name} is a matrix without column ids, but items were removed from the index, so its columns may have moved; "
        f"pass {name}=(matrix, column_ids), with column_ids=index.ids if column j is item index.ids[j]."
    )


def starts_of_rows(starts: NDArray[np.int64], n_entries: int, name: str) -> None:
    """Refuse a CSR matrix with invalid row pointers, which SciPy does not check."""
    if starts[0] < 0 or starts[-1] > n_entries or (starts[1:] < starts[:-1]).any():
        raise ValueError(f"{name} is damaged: its indptr does not ascend from 0 to {n_entries}, its number of entries.")


def refuse_column(column: int, n_columns: int, name: str) -> NoReturn:
    """Refuse a matrix with a column out of range, which SciPy does not check."""
    raise ValueError(f"{name} has an entry in column {column}, but its columns are 0 to {n_columns - 1}.")


def warn_of_unknown_ids(distinct: NDArray[Any], unknown: NDArray[np.bool_], name: str) -> None:
    """Warn if most ids are not in the index: they may be positions, for instance."""
    if len(distinct) >= _ENOUGH_TO_WARN and 2 * np.count_nonzero(unknown) > len(distinct):
        warnings.warn(
            f"most ids in {name} are not in the index, such as {distinct[unknown][0].item()!r}, and are ignored; if "
            "they are positions, pass index.ids[positions].",
            UserWarning,
            stacklevel=levels_to_the_caller(),
        )
