"""Checks of the arguments of measures and baselines, each with its error message."""

from typing import Any, SupportsIndex, TypeVar

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from tessella._checks import factors, is_sparse, number_between, numbers, whole_number

_Fitted = TypeVar("_Fitted")


def items_to_fit(values: ArrayLike) -> NDArray[Any]:
    """Return `values` as a matrix of at least one item. `block` checks the numbers in it."""
    matrix = factors(values, "item_factors")
    if not len(matrix):
        raise ValueError("item_factors has 0 rows, but at least 1 is needed to fit.")
    return matrix


def fitted(state: _Fitted | None, what: object) -> _Fitted:
    """Return `state` unless it is None."""
    if state is None:
        raise ValueError(f"this {type(what).__name__} is not fitted; call fit(item_factors) first.")
    return state


def depth_fits(depth: int, n_factors: int) -> None:
    """Refuse a batch of more vectors than coordinates: they could not be orthogonal."""
    if depth > n_factors:
        raise ValueError(f"depth is {depth}, but factors have {n_factors} coordinates; use at most that depth.")


def leaves_fit(depth: int, n_items: int) -> None:
    """Refuse a tree with more leaves than items."""
    if 2**depth > n_items:
        raise ValueError(
            f"depth is {depth}, which makes {2**depth} leaves, but there are {n_items} items; use a smaller depth."
        )


def code_length(value: SupportsIndex, base: int) -> int:
    """Return `value` as a number of digits whose codes stay within 2^62."""
    length = whole_number(value, "length", 1, 62)
    if base**length > 2**62:
        raise ValueError(f"length is {length}, but {base} to that power exceeds 2^62; use a smaller length.")
    return length


def candidates(values: Any) -> scipy.sparse.csr_array:
    """Return `values` as a sparse matrix with a row for each user and at least one item."""
    if not is_sparse(values):
        raise TypeError(f"candidates is a {type(values).__name__}, but must be a SciPy sparse matrix.")
    if values.ndim != 2 or not values.shape[1]:
        raise ValueError(
            f"candidates has shape {values.shape}, but must have shape (n_users, n_items) with at least 1 item."
        )
    matrix = scipy.sparse.csr_array(values)
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix


def item_numbers(
    values: ArrayLike, name: str, n_items: int | None = None, *, unique: bool = False
) -> NDArray[np.int64]:
    """Return `values` as a matrix of item numbers, -1 for none."""
    array = numbers(values, name)
    if array.ndim != 2:
        raise ValueError(f"{name} has {array.ndim} dimensions, but must have 2: (n_users, k).")
    if array.dtype.kind not in "iu" and array.size:
        raise TypeError(f"{name} holds {array.dtype}, but must hold integers.")
    lowest, highest = int(array.min(initial=0)), int(array.max(initial=0))
    if lowest < -1:
        raise ValueError(f"{name} holds {lowest}, but items are numbered from 0, and -1 means a missing item.")
    most = np.iinfo(np.int64).max if n_items is None else n_items - 1
    if highest > most:
        raise ValueError(f"{name} holds {highest}, but the last item is {most}.")
    taken = array.astype(np.int64)
    if unique:
        ordered = np.sort(taken, axis=1)
        twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
        if twice.any():
            row, place = np.argwhere(twice)[0]
            raise ValueError(f"{name} holds {ordered[row, place]} more than once in row {row}.")
    return taken


def same_rows(first: Any, first_name: str, second: Any, second_name: str) -> None:
    """Refuse matrices with different numbers of users."""
    if first.shape[0] != second.shape[0]:
        raise ValueError(f"{first_name} has {first.shape[0]} rows, but {second_name} has {second.shape[0]}.")


def scores(
    values: ArrayLike, name: str, shape: tuple[int, ...] | None = None, *, missing: bool = False
) -> NDArray[np.float64]:
    """Return `values` as a matrix of scores, of `shape` if given; -inf is allowed only if `missing`."""
    array = numbers(values, name).astype(np.float64)
    if array.ndim != 2 or not (array.shape[1] or shape):
        raise ValueError(
            f"{name} has shape {array.shape}, but must have shape (n_users, n_items) with at least 1 item."
        )
    if shape is not None and array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}, but found_ids has {shape}.")
    bad = ~np.isfinite(array)
    if missing:
        bad &= array != -np.inf
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise ValueError(f"{name} holds {array[row, column]} in row {row}, column {column}; scores must be finite.")
    return array


def finite_values(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """Return `values` as an array of finite numbers, one per user."""
    array = numbers(values, name).astype(np.float64)
    if array.ndim != 1 or not array.size:
        raise ValueError(f"{name} has shape {array.shape}, but must have shape (n_users,) with at least 1 user.")
    if not np.isfinite(array).all():
        place = int(np.flatnonzero(~np.isfinite(array))[0])
        raise ValueError(f"{name} holds {array[place]} at position {place}; values must be finite.")
    return array


def shares(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """Return `values` as an array of numbers from 0 to 1."""
    array = numbers(values, name).astype(np.float64)
    bad = ~((array >= 0) & (array <= 1))
    if bad.any():
        raise ValueError(f"{name} holds {array[bad][0]:g}, but must hold shares from 0 to 1.")
    return array


def sweep(discarded: ArrayLike, accuracy: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return two arrays of shares, with one of each per setting."""
    across, up = shares(discarded, "discarded"), shares(accuracy, "accuracy")
    if across.ndim != 1 or not across.size:
        raise ValueError(
            f"discarded has shape {across.shape}, but must have shape (n_settings,) with at least 1 setting."
        )
    if across.shape != up.shape:
        raise ValueError(f"discarded has shape {across.shape}, but accuracy has {up.shape}.")
    return across, up


def is_curve(value: object, name: str, kind: type) -> None:
    """Refuse anything but a curve."""
    if not isinstance(value, kind):
        given = type(value).__name__
        raise TypeError(f"{name} is a {given}, but must be a Curve; make one with curve(discarded, accuracy).")


def on_curve(value: float, reached: NDArray[np.float64]) -> float:
    """Return `value` if it lies between the ends of a curve."""
    number = number_between(value, "discarded", 0, 1)
    low, high = reached[0], reached[-1]
    if not low <= number <= high:
        raise ValueError(f"discarded is {number:g}, but the curve runs from {low:g} to {high:g}.")
    return number


def common_range(first: NDArray[np.float64], second: NDArray[np.float64]) -> tuple[float, float]:
    """Return the ends of the range that two curves have in common."""
    low, high = max(first[0], second[0]), min(first[-1], second[-1])
    if low > high:
        ends = [f"from {reached[0]:g} to {reached[-1]:g}" for reached in (first, second)]
        raise ValueError(f"the curves have no range in common: one runs {ends[0]}, the other {ends[1]}.")
    return float(low), float(high)
