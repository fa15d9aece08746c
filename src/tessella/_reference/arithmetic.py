"""Sums in a fixed order, which does not depend on the batch."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]
Doubles: TypeAlias = NDArray[np.float64]

STRIPES = 16
_ITEMS_AT_ONCE = 2**14


def sums_of_squares(vectors: Floats) -> Doubles:
    """Return sums of squares, in 16 fixed stripes folded in a fixed order."""
    stripes = np.zeros((len(vectors), STRIPES))
    for first in range(0, vectors.shape[1], STRIPES):
        part = vectors[:, first : first + STRIPES].astype(np.float64)
        stripes[:, : part.shape[1]] += part * part
    for half in (8, 4, 2, 1):
        stripes[:, :half] += stripes[:, half : 2 * half]
    return stripes[:, 0]


def inner_products(queries: Floats, items: Floats, products: Floats, level: int) -> None:  # noqa: ARG001
    """Fill in inner products in float32, summed in the same order as scores."""
    for first in range(0, len(items), _ITEMS_AT_ONCE):
        here = slice(first, first + _ITEMS_AT_ONCE)
        products[:, here] = scores_of(queries, items[here])


def scores_of(queries: Floats, items: Floats) -> Floats:
    """Return inner products, in 16 fixed stripes folded in a fixed order."""
    stripes = np.zeros((len(queries), len(items), STRIPES), np.float32)
    for first in range(0, items.shape[1], STRIPES):
        part = items[:, first : first + STRIPES]
        stripes[:, :, : part.shape[1]] += queries[:, None, first : first + STRIPES] * part
    for half in (8, 4, 2, 1):
        stripes[:, :, :half] += stripes[:, :, half : 2 * half]
    return stripes[:, :, 0]


def nearest(values: Doubles) -> Doubles:
    """Round to the nearest integers, halves away from zero."""
    return np.trunc(np.where(values < 0, values - 0.5, values + 0.5))


def reorder(factors: Floats, order: NDArray[np.int64]) -> None:
    """Reorder rows in place."""
    factors[:] = factors[order]
