"""Norms of factors."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def squared_norms(vectors: NDArray[Any]) -> NDArray[np.float64]:
    """Return the squared norm of each vector, summed in double precision."""
    squares: NDArray[np.float64] = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
    return squares
