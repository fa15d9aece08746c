"""Two numbers packed into 64 bits, sorted by the upper one; the counterpart of native/packing.hpp."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

LOW_HALF = 0xFFFFFFFF


def ranks_of(rows: NDArray[Any], positions: NDArray[Any]) -> NDArray[np.int64]:
    """Pack rows and positions into ranks. Of two equal scores, the smaller rank (the earlier row) comes first."""
    packed: NDArray[np.int64] = rows.astype(np.int64) << 32 | positions.astype(np.int64)
    return packed


def positions_of(ranks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the positions packed in ranks."""
    return ranks & LOW_HALF


def candidates_of(products: NDArray[np.int64], positions: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Pack candidates of slots search: a larger number is better, and of equal products the earlier position wins."""
    return (products << 32 | (LOW_HALF - positions)).astype(np.uint64)


def candidate_positions(candidates: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the positions packed in candidates."""
    return LOW_HALF - (candidates & np.uint64(LOW_HALF)).astype(np.int64)
