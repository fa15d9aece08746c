"""Principal axes of factors, and the second moments they come from."""

import numpy as np
from numpy.typing import NDArray


def principal_axes(moments: NDArray[np.float64]) -> NDArray[np.float64]:
    """The principal axes of factors F as columns, longest first, from F^T F.

    The sign of an axis is free, so its largest coordinate is made positive.
    """
    axes = np.linalg.eigh(moments).eigenvectors[:, ::-1]
    return np.ascontiguousarray(axes * np.sign(np.take_along_axis(axes, np.abs(axes).argmax(axis=0)[None], axis=0)))


def second_moments(factors: NDArray[np.float64]) -> NDArray[np.float64]:
    """F^T F as a sum of small products.

    BLAS computes each of them on the calling thread: the sum does not depend on how many threads it has, and none is
    woken for what is done sooner alone.
    """
    n, n_factors = factors.shape
    rows = max(1, 2**18 // n_factors**2)
    whole = n - n % rows
    pieces = factors[:whole].reshape(-1, rows, n_factors)
    turned = np.ascontiguousarray(pieces.transpose(0, 2, 1))
    rest = factors[whole:]
    moments: NDArray[np.float64] = np.matmul(turned, pieces).sum(axis=0) + rest.T.copy() @ rest
    return moments
