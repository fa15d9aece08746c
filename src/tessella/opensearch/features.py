"""Features: converts slots to the `rank_features` of OpenSearch.

A rank feature is a positive number with 9 significant bits, so the sign of an entry goes into the name of its feature:
slot 17 has the features "17+" and "17-". A query asks only for features of its own signs, because no others can raise
a score.
"""

import numpy as np
from numpy.typing import NDArray

from tessella._numbers import LEAST_NORMAL_FLOAT

_DROPPED_BITS = 15  # of a float32, which Lucene does not store


def rounded(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Round magnitudes to the nearest number that Lucene can store, where Lucene would round down; 0 if too small.

    Examples
    --------
    >>> rounded(np.array([1.0, -0.3, 1e-40], np.float32))
    array([1.       , 0.2998047, 0.       ], dtype=float32)
    """
    half, kept = np.uint32(1 << (_DROPPED_BITS - 1)), np.uint32(0xFFFFFFFF << _DROPPED_BITS & 0xFFFFFFFF)
    sizes = ((np.abs(values).view(np.uint32) + half) & kept).view(np.float32)
    sizes[sizes < LEAST_NORMAL_FLOAT] = 0
    return sizes


def names(slots: NDArray[np.int64], values: NDArray[np.float32]) -> list[str]:
    """Return the name of each entry's feature.

    Examples
    --------
    >>> names(np.array([3, 17]), np.array([0.5, -2.0], np.float32))
    ['3+', '17-']
    """
    return [f"{slot}{'-' if low else '+'}" for slot, low in zip(slots.tolist(), (values < 0).tolist(), strict=True)]


def of_item(slots: NDArray[np.int64], values: NDArray[np.float32]) -> dict[str, float]:
    """Return the features of an item, by name.

    Examples
    --------
    >>> of_item(np.array([3, 17]), np.array([0.5, -2.0], np.float32))
    {'3+': 0.5, '17-': 2.0}
    """
    sizes = rounded(values).tolist()
    return {name: size for name, size in zip(names(slots, values), sizes, strict=True) if size}


def of_query(slots: NDArray[np.int64], values: NDArray[np.float32], max_slots: int) -> dict[str, float]:
    """Return the heaviest features of a query, heaviest first, scaled so that the first weighs 1.

    Examples
    --------
    >>> of_query(np.array([3, 5, 17]), np.array([0.5, 0.1, -2.0], np.float32), 2)
    {'17-': 1.0, '3+': 0.25}
    """
    heaviest = np.argsort(-np.abs(values), kind="stable")[:max_slots]
    weights = np.abs(values[heaviest]).astype(np.float64)
    weights /= weights.max(initial=0) or 1
    return dict(zip(names(slots[heaviest], values[heaviest]), weights.tolist(), strict=True))
