"""Two numbers in 64 bits, of which the upper decides; native/packing.hpp does the same."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

LOW_HALF = 0xFFFFFFFF


def ranks_of(rows: NDArray[Any], positions: NDArray[Any]) -> NDArray[np.int64]:
    """Ranks: of two answers with equal scores the one with the smaller rank, that of the earlier row, comes first."""
    packed: NDArray[np.int64] = rows.astype(np.int64) << 32 | positions.astype(np.int64)
    return packed


def positions_of(ranks: NDArray[np.int64]) -> NDArray[np.int64]:
    """The positions that ranks hold."""
    return ranks & LOW_HALF


def candidates_of(products: NDArray[np.int64], positions: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Candidates of slots search: the larger number is the better one, and of equals the earlier position."""
    return (products << 32 | (LOW_HALF - positions)).astype(np.uint64)


def candidate_positions(candidates: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The positions of candidates."""
    return LOW_HALF - (candidates & np.uint64(LOW_HALF)).astype(np.int64)
