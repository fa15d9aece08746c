"""Checks of ids and of lists of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SEQUENCES = (list, tuple, set, frozenset, range, np.ndarray)


def ids(values: Any, count: int | None, *, unique: bool = True, name: str = "ids") -> NDArray[Any]:
    """`values` as an array of `count` ids: int64 or text."""
    if isinstance(values, list | tuple):
        _same_types(values, name)
    try:
        array = np.array(values)
    except (ValueError, OverflowError):
        raise ValueError(f"{name} is not a flat sequence of texts or int64 numbers.") from None
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
            raise ValueError(f"{name} holds {cut[0]!r}, but texts may not end in a NUL character.")
    if unique:
        found, counts = np.unique(array, return_counts=True)
        if len(found) < len(array):
            raise ValueError(f"{name} holds {found[counts > 1][0].item()!r} more than once.")
        _refuse_missing(array, name)
    return array


def may_be_id(value: object) -> bool:
    """Whether `value` is a text or a number that `ids` takes."""
    if isinstance(value, str):
        return not value.endswith("\0")
    if not isinstance(value, int | np.integer) or isinstance(value, bool):
        return False
    return value != -1 and -(2**63) <= int(value) < 2**63


def _refuse_missing(array: NDArray[Any], name: str) -> None:
    if array.dtype.kind != "U" and (array == -1).any():
        raise ValueError(f"{name} holds -1, which stands for a missing answer; use another number.")


def _same_types(values: Sequence[Any], name: str) -> None:
    if len({isinstance(value, str) for value in values}) > 1:
        raise TypeError(f"{name} holds both texts and other values, but must hold whole numbers or texts.")
    if any(isinstance(value, bool | np.bool_) for value in values):
        raise TypeError(f"{name} holds a bool, but must hold whole numbers or texts.")


def _numbers_or_texts(array: NDArray[Any], name: str) -> NDArray[Any]:
    if array.dtype.kind == "O" and all(isinstance(value, str) for value in array):
        return array.astype(np.str_)
    if array.dtype.kind == "U" or not len(array):
        return array if array.dtype.kind == "U" else array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} holds {array.dtype}, but must hold whole numbers or texts.")
    if int(array.max()) > np.iinfo(np.int64).max:
        raise ValueError(f"{name} holds {array.max()}, but ids must fit int64.")
    return array.astype(np.int64)


def excluding_shape(shape: tuple[int, ...], n_queries: int, n_items: int) -> None:
    """Refuse a sparse `exclude` that has not a row for each query and a column for each item."""
    if shape != (n_queries, n_items):
        raise ValueError(
            f"exclude has shape {shape}, but must have shape {(n_queries, n_items)}: column j is item index.ids[j]; "
            "widen it if items have come, or pass lists of ids."
        )


def is_list_of_lists(values: object) -> bool:
    """Whether `values` holds sequences of ids rather than ids."""
    if isinstance(values, np.ndarray):
        return values.ndim == 2
    return isinstance(values, list | tuple) and bool(values) and all(isinstance(part, _SEQUENCES) for part in values)


def is_list_of_ids(values: object) -> bool:
    """Whether `values` holds ids rather than sequences of ids."""
    return isinstance(values, _SEQUENCES) and not is_list_of_lists(values)


def id_lists(values: Any, name: str, n: int) -> list[NDArray[Any]]:
    """`values` as `n` arrays of ids; what stands for a missing answer is left out."""
    lists = list(values) if isinstance(values, list | tuple | np.ndarray) else None
    if lists is None or not all(isinstance(part, _SEQUENCES) for part in lists):
        other = "a sequence of ids" if name == "allow" else "a sparse matrix"
        raise TypeError(f"{name} is neither {other} nor a list with a sequence for each query, such as [[1, 2], [3]].")
    if len(lists) != n:
        raise ValueError(f"{name} has {len(lists)} sequences of ids, but there are {n} queries.")
    return [_listed(part, name) for part in lists]


def _listed(part: Any, name: str) -> NDArray[Any]:
    known = [value for value in part if value is not None] if not isinstance(part, np.ndarray | range) else part
    if isinstance(known, np.ndarray) and known.dtype.kind == "O":
        known = known[known != None]  # noqa: E711
    array = ids(known, None, unique=False, name=name)
    return array if array.dtype.kind == "U" else array[array != -1]


def columns(matrix: Any, name: str) -> None:
    """Refuse a CSR matrix with a column that is not there, which SciPy does not look for."""
    indices, n = matrix.indices, matrix.shape[1]
    if len(indices) and (int(indices.min()) < 0 or int(indices.max()) >= n):
        wrong = indices[(indices < 0) | (indices >= n)][0]
        raise ValueError(f"{name} holds the column {wrong}, but its columns are 0 to {n - 1}.")
