"""Checks of the parts of a sparse map."""

from typing import SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella._checks._factors import numbers
from tessella._checks._values import whole_number
from tessella._numbers import MAX_FACTORS

MAX_LEVELS = 127


def slot_count(count: int) -> int:
    """Return `count` if it is a possible number of slots."""
    whole_number(count, "the number of slots", 1)
    if count > np.iinfo(np.int64).max:
        raise ValueError(f"the slot map needs {count:.3g} slots, but can have at most 9.22e+18; use a smaller depth.")
    return count


def rotation(values: ArrayLike, name: str = "rotation") -> NDArray[np.float64]:
    """Return `values` as a read-only orthogonal matrix."""
    array = np.array(numbers(values, name), dtype=np.float64, order="C")
    if array.ndim != 2 or array.shape[0] != array.shape[1] or not 1 <= len(array) <= MAX_FACTORS:
        raise ValueError(f"{name} has shape {array.shape}, but must be square, with 1 to {MAX_FACTORS} rows.")
    if not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array).all(axis=1))[0])
        raise ValueError(f"{name} holds NaN or infinity in row {row}; it must be finite.")
    array += 0.0  # no negative zeros, so that equal matrices have equal bytes
    error = float(np.abs(array.T @ array - np.eye(len(array))).max())
    if error > 1e-5:
        raise ValueError(
            f"{name} is not orthogonal: products of its columns are off by {error:.2g}, but at most 1e-05 is allowed."
        )
    array.flags.writeable = False
    return array


def n_factors(value: SupportsIndex) -> int:
    """Return `value` as a number of coordinates."""
    return whole_number(value, "n_factors", 1, MAX_FACTORS)


def levels(value: SupportsIndex) -> int:
    """Return `value` as a number of tile levels."""
    return whole_number(value, "levels", 1, MAX_LEVELS)


def tiles(values: ArrayLike, levels: int) -> NDArray[np.int8]:
    """Return `values` as a matrix of tile coordinates in [-levels, levels]."""
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise TypeError(f"tiles holds {array.dtype}, but must hold integers such as int8.")
    if array.ndim != 2 or not 1 <= array.shape[1] <= MAX_FACTORS:
        raise ValueError(f"tiles has shape {array.shape}, but must have shape (n, n_factors), 1 to {MAX_FACTORS} wide.")
    largest = max(-int(array.min()), int(array.max())) if array.size else 0
    if largest > levels:
        raise ValueError(
            f"tiles holds a value of magnitude {largest}, but there are {levels} levels; pass levels={largest}."
        )
    return np.ascontiguousarray(array, dtype=np.int8)
