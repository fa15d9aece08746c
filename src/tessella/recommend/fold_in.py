"""Fold-in: the factor of a user or item that was not in training, by one least-squares step."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella import _checks

MOST_WORN = 1e-10  # largest rounding error allowed in a Gram matrix, relative to its trace
_ROUNDING = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Gram:
    """The sum of the outer products of factors; a change of some factors updates it without recomputing it.

    Attributes
    ----------
    matrix : ndarray of float64, shape (n_factors, n_factors)
        The Gram matrix; read-only.
    passed : float
        The sum of the squared norms of all factors ever added or removed. Rounding errors grow with it.

    Examples
    --------
    >>> import numpy as np
    >>> from tessella.recommend.fold_in import Gram
    >>> gram = Gram.of(np.eye(2, dtype=np.float32)).plus(np.float32([[1, 1]])).minus(np.float32([[0, 1]]))
    >>> gram.matrix
    array([[2., 1.],
           [1., 1.]])
    """

    matrix: NDArray[np.float64]
    passed: float

    @classmethod
    def of(cls, factors: NDArray[np.floating]) -> Self:
        """Compute the Gram matrix of factors, reading one block at a time."""
        return cls(np.zeros((factors.shape[1], factors.shape[1])), 0.0).plus(factors)

    def plus(self, factors: NDArray[np.floating]) -> Self:
        """Return the Gram matrix with more factors."""
        return self._changed(factors, 1.0)

    def minus(self, factors: NDArray[np.floating]) -> Self:
        """Return the Gram matrix without some of its factors; once it is `worn`, recompute it."""
        return self._changed(factors, -1.0)

    @property
    def worn(self) -> bool:
        """Whether so many factors came and went that rounding errors may matter."""
        return self.passed * _ROUNDING > MOST_WORN * float(np.trace(self.matrix))

    @property
    def nbytes(self) -> int:
        """The size of the matrix in bytes."""
        return self.matrix.nbytes

    def _changed(self, factors: NDArray[np.floating], sign: float) -> Self:
        matrix, passed = self.matrix.copy(), self.passed
        for rows in _checks.row_blocks(factors):
            taken = factors[rows].astype(np.float64)
            part = taken.T @ taken
            matrix += sign * part
            passed += float(np.trace(part))
        matrix.flags.writeable = False
        return type(self)(matrix, passed)


def fold_in(
    liked: NDArray[np.floating],
    weights: ArrayLike | None,
    gram: Gram,
    *,
    regularization: float = 0.01,
    alpha: float = 1.0,
) -> NDArray[np.float32]:
    """Compute the factor of a user from the items they liked, or of an item from the users who liked it.

    Takes one step of implicit alternating least squares, like implicit's `recalculate_user` and `recalculate_item`: the
    items in `liked` count as liked with a confidence of alpha x weight, and all others as not liked with a confidence
    of 1. For an ALS model trained with the same `regularization` and `alpha`, the result is the factor that training
    would compute next. For other models (BPR, two towers, singular vectors) it is a ridge approximation: the direction
    is sensible, but the length differs from that of trained users.

    Parameters
    ----------
    liked : ndarray of shape (n, n_factors)
        Factors of the liked items or users: each included in `gram`, and at most once here.
    weights : array_like of shape (n,), default None
        How strongly each was liked; None is 1. A negative weight is a dislike with that confidence; with 0, the item
        counts neither as liked nor as not liked.
    gram : Gram
        The Gram matrix of all items, or of all users.
    regularization : float, default 0.01
        Added to the diagonal. Larger values give shorter factors, closer to what everyone likes.
    alpha : float, default 1.0
        Multiplies the weights. Larger values follow the likes more closely.

    Returns
    -------
    factor : ndarray of float32, shape (n_factors,)
        Zeros if `liked` is empty.

    Examples
    --------
    >>> import numpy as np
    >>> from tessella.recommend.fold_in import Gram, fold_in
    >>> items = np.float32([[1, 0], [0, 1], [1, 1]])
    >>> fold_in(items[[0]], None, Gram.of(items), regularization=0.5, alpha=10)
    array([ 0.9009009 , -0.36036035], dtype=float32)
    """
    from scipy.linalg import lapack  # noqa: PLC0415 - 20 ms of every import of tessella

    ridge = _checks.number_at_least(regularization, "regularization", 0.0)
    times = _checks.number_at_least(alpha, "alpha", 0.0)
    confidences = times * _checked_weights(weights, len(liked))
    if not len(liked):
        return np.zeros(len(gram.matrix), np.float32)
    factors = liked.astype(np.float64)
    normal = gram.matrix + (factors.T * (np.abs(confidences) - 1)) @ factors
    normal.flat[:: len(normal) + 1] += ridge
    _, solved, failed = lapack.dposv(normal, np.maximum(confidences, 0) @ factors, overwrite_a=True)
    if failed:
        raise ValueError(
            f"regularization is {ridge:g}, which is too small: the least-squares system has no unique solution; use a "
            "larger value."
        )
    with np.errstate(over="ignore"):
        found: NDArray[np.float32] = solved.astype(np.float32)
    if not np.isfinite(found).all():
        raise ValueError("the folded-in factor is too large for float32; use a larger regularization.")
    return found


def _checked_weights(weights: ArrayLike | None, n: int) -> NDArray[np.float64]:
    """Read the weights of n likes."""
    if weights is None:
        return np.ones(n)
    given = _checks.numbers(weights, "weights") if np.size(weights) else np.zeros(0)
    if given.shape != (n,):
        raise ValueError(f"weights has shape {given.shape}, but must have shape ({n},), one weight for each like.")
    taken: NDArray[np.float64] = given.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(taken))
    if bad.size:
        raise ValueError(f"weights holds {taken[bad[0]]} in row {bad[0]}, but must be finite.")
    return taken
