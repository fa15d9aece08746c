"""Recall with ties: an answer counts if its score reaches the k-th true score."""

import numpy as np
from numpy.typing import NDArray

TOLERANCE = 1e-5  # relative


def reaches(
    found_scores: NDArray[np.floating], true_scores: NDArray[np.floating], tolerance: float = TOLERANCE
) -> NDArray[np.bool_]:
    """Return which answers score at least as much as the last true answer, within a tolerance.

    Parameters
    ----------
    found_scores : ndarray of shape (n, k)
        Scores of the answers; -inf for a missing answer, which never counts.
    true_scores : ndarray of shape (n, k)
        The true top scores, in any order; -inf if there are fewer than k items.
    tolerance : float, default 1e-5
        How far an answer may fall short, relative to the last true score.
    """
    last = np.min(true_scores, axis=1, keepdims=True, initial=np.inf, where=true_scores > -np.inf)
    least = last - tolerance * np.abs(last, out=np.zeros_like(last), where=last < np.inf)
    counts: NDArray[np.bool_] = (found_scores >= least) & (found_scores > -np.inf)
    return counts


def recall(found_scores: NDArray[np.floating], true_scores: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the share of the true top k that each list of distinct items contains; 1 if there are no items."""
    n_true = np.count_nonzero(true_scores > -np.inf, axis=1)
    n_found = np.minimum(np.count_nonzero(reaches(found_scores, true_scores), axis=1), n_true)
    shares: NDArray[np.float64] = np.divide(n_found, n_true, out=np.ones(len(n_true)), where=n_true > 0)
    return shares
