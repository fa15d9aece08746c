"""Principal axes of factors, and the second moments they are computed from."""

import numpy as np
from numpy.typing import NDArray

STRIP = 128  # coordinates


def principal_axes(moments: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the principal axes of factors F as columns, the largest variance first, computed from F^T F.

    The sign of an axis is arbitrary, so its largest coordinate is made positive.
    """
    axes = np.linalg.eigh(moments).eigenvectors[:, ::-1]
    return np.ascontiguousarray(axes * np.sign(np.take_along_axis(axes, np.abs(axes).argmax(axis=0)[None], axis=0)))


def second_moments(factors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return F^T F as a sum of small products; needs about as much memory as F and the result together.

    BLAS computes such small products on the calling thread. So the sum does not depend on BLAS's number of threads, and
    no time is lost waking them.
    """
    n_factors = factors.shape[1]
    moments = np.empty((n_factors, n_factors))
    strips = [slice(first, first + STRIP) for first in range(0, n_factors, STRIP)]
    for number, left in enumerate(strips):
        moments[left, left] = _products(factors[:, left], factors[:, left])
        for right in strips[number + 1 :]:
            moments[left, right] = _products(factors[:, left], factors[:, right])
            moments[right, left] = moments[left, right].T
    return moments


def _products(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    n, width = left.shape
    rows = 2**18 // (width * right.shape[1])
    whole = n - n % rows
    transposed = np.ascontiguousarray(left[:whole].reshape(-1, rows, width).transpose(0, 2, 1))
    pieces = np.ascontiguousarray(right[:whole]).reshape(-1, rows, right.shape[1])
    products: NDArray[np.float64] = np.matmul(transposed, pieces).sum(axis=0) + left[whole:].T.copy() @ right[whole:]
    return products
