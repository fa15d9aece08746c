"""Principal axes of factors, from their second moments."""

import numpy as np
from numpy.typing import NDArray


def principal_axes(moments: NDArray[np.float64]) -> NDArray[np.float64]:
    """The principal axes of factors F as columns, longest first, from F^T F.

    The sign of an axis is free, so its largest coordinate is made positive.
    """
    axes = np.linalg.eigh(moments).eigenvectors[:, ::-1]
    return np.ascontiguousarray(axes * np.sign(np.take_along_axis(axes, np.abs(axes).argmax(axis=0)[None], axis=0)))
