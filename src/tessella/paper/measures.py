"""Measures of how much is found and how much is discarded, with confidence intervals (P17).

Items are numbered from 0, as by `Index.build` without ids, and -1 means a missing answer. Measures of users return one
number per user, for `bootstrap_interval` and histograms; report their mean.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella import _checks
from tessella._threads import cut
from tessella.paper import _checks as _paper_checks
from tessella.search.recall import TOLERANCE, reaches

_ELEMENTS_AT_ONCE = 2**22


def candidate_recovery(candidates: Any, true_ids: ArrayLike) -> NDArray[np.float64]:
    """Return the share of each user's true best items that are candidates: the recovery accuracy (P17).

    Parameters
    ----------
    candidates : sparse matrix of shape (n_users, n_items)
        Non-zero for candidates, as `Index.candidates` and the baselines return it.
    true_ids : array_like of int, shape (n_users, kappa)
        The items with the highest scores, in any order; -1 if there are fewer than kappa.

    Returns
    -------
    shares : ndarray of float64, shape (n_users,)
        From 0 to 1; 1 for a user with no true item.

    Examples
    --------
    >>> import scipy.sparse
    >>> from tessella.paper import candidate_recovery
    >>> candidates = scipy.sparse.csr_array([[1, 0, 2, 0], [0, 0, 0, 1]])
    >>> candidate_recovery(candidates, [[2, 1], [3, -1]])
    array([0.5, 1. ])
    """
    matrix = _paper_checks.candidates(candidates)
    wanted = _paper_checks.item_numbers(true_ids, "true_ids", matrix.shape[1], unique=True)
    _paper_checks.same_rows(matrix, "candidates", wanted, "true_ids")
    rows, items = matrix.nonzero()
    return _shares_found(rows, items, wanted, matrix.shape[1])


def recovery(found_ids: ArrayLike, true_ids: ArrayLike) -> NDArray[np.float64]:
    """Return the share of each user's true best items that are in the list of answers.

    Parameters
    ----------
    found_ids : array_like of int, shape (n_users, k)
        The answers, in any order; -1 for a missing one. A repeated item counts once.
    true_ids : array_like of int, shape (n_users, kappa)
        The items with the highest scores, in any order; -1 if there are fewer than kappa.

    Returns
    -------
    shares : ndarray of float64, shape (n_users,)
        From 0 to 1; 1 for a user with no true item.

    Examples
    --------
    >>> from tessella.paper import recovery
    >>> recovery([[5, 9, 7], [1, 2, -1]], [[9, 5], [3, 4]])
    array([1., 0.])
    """
    found = _paper_checks.item_numbers(found_ids, "found_ids")
    wanted = _paper_checks.item_numbers(true_ids, "true_ids", unique=True)
    _paper_checks.same_rows(found, "found_ids", wanted, "true_ids")
    known, numbers = np.unique(np.concatenate([found.ravel(), wanted.ravel()]), return_inverse=True)
    rows, places = np.nonzero(found >= 0)
    items = numbers[: found.size].reshape(found.shape)[rows, places]
    numbered = np.where(wanted >= 0, numbers[found.size :].reshape(wanted.shape), -1)
    return _shares_found(rows, items, numbered, len(known))


def _shares_found(
    rows: NDArray[Any], items: NDArray[Any], wanted: NDArray[np.int64], n_items: int
) -> NDArray[np.float64]:
    """Return the share of each row's wanted items that are among the pairs of row and item."""
    there = wanted >= 0
    keys = np.arange(len(wanted))[:, None] * n_items + wanted
    hits = there & np.isin(keys, rows.astype(np.int64) * n_items + items)
    return _ratio(hits.sum(axis=1), there.sum(axis=1))


def _ratio(parts: NDArray[Any], wholes: NDArray[Any]) -> NDArray[np.float64]:
    """Return parts / wholes, and 1 where the whole is 0."""
    shares = np.ones(len(wholes))
    np.divide(parts, wholes, out=shares, where=wholes > 0)
    return shares


def tie_aware_recall(
    found_ids: ArrayLike, found_scores: ArrayLike, true_scores: ArrayLike, *, tolerance: float = TOLERANCE
) -> NDArray[np.float64]:
    """Return the share of k answers that score at least as high as the true k-th, so that ties do not matter.

    Parameters
    ----------
    found_ids : array_like of int, shape (n_users, k)
        The answers; -1 for a missing one. A repeated item counts once.
    found_scores : array_like of shape (n_users, k)
        Their exact scores.
    true_scores : array_like of shape (n_users, k)
        The k highest exact scores, in any order; -inf if there are fewer than k items.
    tolerance : float, default 1e-5
        How far an answer may fall short of the true k-th score, relative to it; at least 0. It covers rounding.

    Returns
    -------
    shares : ndarray of float64, shape (n_users,)
        From 0 to 1; 1 for a user with no true score.

    Examples
    --------
    >>> from tessella.paper import tie_aware_recall
    >>> tie_aware_recall([[4, 8], [4, 4]], [[3.0, 2.0], [3.0, 3.0]], [[3.0, 2.0], [3.0, 2.0]])
    array([1. , 0.5])
    """
    share = _checks.number_at_least(tolerance, "tolerance", 0)
    found = _paper_checks.item_numbers(found_ids, "found_ids")
    scores = _paper_checks.scores(found_scores, "found_scores", found.shape, missing=True)
    best = _paper_checks.scores(true_scores, "true_scores", found.shape, missing=True)
    hits = _first_time(found) & reaches(scores, best, share)
    wanted = (best > -np.inf).sum(axis=1)
    return _ratio(np.minimum(hits.sum(axis=1), wanted), wanted)


def _first_time(ids: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which entries are the first occurrence of an item in their row."""
    order = np.argsort(ids, axis=1, kind="stable")
    ordered = np.take_along_axis(ids, order, axis=1)
    fresh = ordered >= 0
    fresh[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    first = np.empty_like(fresh)
    np.put_along_axis(first, order, fresh, axis=1)
    return first


def ndcg(found_ids: ArrayLike, scores: ArrayLike) -> NDArray[np.float64]:
    """Return the normalised discounted cumulative gain of each list, given the exact scores.

    An item's gain is its score minus the user's lowest score. So gains are never negative, and adding a constant to a
    user's scores changes nothing. The gain at rank i, from 1, is divided by log2(i + 1).

    Parameters
    ----------
    found_ids : array_like of int, shape (n_users, k)
        The answers, best first; -1 for a missing one. Missing and repeated answers have no gain.
    scores : array_like of shape (n_users, n_items)
        All exact scores.

    Returns
    -------
    gains : ndarray of float64, shape (n_users,)
        From 0 to 1; 1 for the true top k in order, and for a user whose scores are all equal.

    Examples
    --------
    >>> from tessella.paper import ndcg
    >>> ndcg([[2, 1], [1, 2]], [[0.0, 1.0, 3.0], [0.0, 1.0, 3.0]]).round(3)
    array([1.   , 0.797])
    """
    exact = _paper_checks.scores(scores, "scores")
    found = _paper_checks.item_numbers(found_ids, "found_ids", exact.shape[1])
    _paper_checks.same_rows(found, "found_ids", exact, "scores")
    gains = exact - exact.min(axis=1, keepdims=True, initial=np.inf)
    kept = min(found.shape[1], exact.shape[1])
    best = -np.sort(-gains, axis=1)[:, :kept]
    taken = np.where(_first_time(found), np.take_along_axis(gains, np.maximum(found, 0), axis=1), 0)
    discounts = 1 / np.log2(np.arange(found.shape[1]) + 2)
    ratio = _ratio((taken * discounts).sum(axis=1), (best * discounts[:kept]).sum(axis=1))
    return np.minimum(ratio, 1)  # rounding


def discarded(candidates: Any) -> NDArray[np.float64]:
    """Return the share of items that are not candidates of each user (P17).

    Parameters
    ----------
    candidates : sparse matrix of shape (n_users, n_items)
        Non-zero for candidates.

    Returns
    -------
    shares : ndarray of float64, shape (n_users,)
        From 0 to 1.

    Examples
    --------
    >>> import scipy.sparse
    >>> from tessella.paper import discarded
    >>> discarded(scipy.sparse.csr_array([[1, 0, 2, 0], [0, 0, 0, 1]]))
    array([0.5 , 0.75])
    """
    matrix = _paper_checks.candidates(candidates)
    counts = np.bincount(matrix.nonzero()[0], minlength=matrix.shape[0])
    return 1 - counts / matrix.shape[1]


def speed_up(discarded: ArrayLike) -> NDArray[np.float64]:
    """Return how many times faster scoring is if a share of the items is discarded: 1 / (1 - share) (P17).

    Parameters
    ----------
    discarded : array_like
        Shares from 0 to 1. The speed-up of the mean share is that of all users together, which is not the mean of their
        speed-ups.

    Returns
    -------
    times : ndarray of float64, of the shape of `discarded`
        Infinity where everything is discarded.

    Examples
    --------
    >>> from tessella.paper import speed_up
    >>> speed_up([0.0, 0.5, 0.8])
    array([1., 2., 5.])
    """
    kept = 1 - _paper_checks.shares(discarded, "discarded")
    times = np.full(kept.shape, np.inf)
    np.divide(1, kept, out=times, where=kept > 0)
    return times


def coverage(found_ids: ArrayLike, n_items: int) -> float:
    """Return the share of all items that are in any user's answers.

    Parameters
    ----------
    found_ids : array_like of int, shape (n_users, k)
        The answers; -1 for a missing one.
    n_items : int
        The number of items, at least 1.

    Examples
    --------
    >>> from tessella.paper import coverage
    >>> coverage([[0, 1], [1, -1]], n_items=4)
    0.5
    """
    total = _checks.whole_number(n_items, "n_items", 1)
    found = _paper_checks.item_numbers(found_ids, "found_ids", total)
    return len(np.unique(found[found >= 0])) / total


def bootstrap_interval(
    values: ArrayLike, *, confidence: float = 0.95, n_resamples: int = 2000, seed: int = 0
) -> tuple[float, float]:
    """Return a bootstrap interval for the mean over users.

    Its ends are quantiles of the means of resamples of n_users users each. To compare two methods on the same users,
    pass the differences.

    Parameters
    ----------
    values : array_like of shape (n_users,)
        One finite number per user, at least one.
    confidence : float, default 0.95
        From 0 to 1. A larger value gives a wider interval.
    n_resamples : int, default 2000
        How many resamples to draw, at least 1. More make the ends more stable and cost time in proportion.
    seed : int, default 0
        At least 0. Equal seeds give equal intervals.

    Returns
    -------
    low, high : float

    Examples
    --------
    >>> from tessella.paper import bootstrap_interval
    >>> low, high = bootstrap_interval([0.0, 1.0] * 50)
    >>> round(low, 2), round(high, 2)
    (0.4, 0.6)
    """
    numbers = _paper_checks.finite_values(values, "values")
    inside = _checks.number_between(confidence, "confidence", 0, 1)
    count = _checks.whole_number(n_resamples, "n_resamples", 1)
    rng = np.random.default_rng(_checks.whole_number(seed, "seed", 0))
    means = np.empty(count)
    for rows in cut(count, max(1, _ELEMENTS_AT_ONCE // len(numbers))):
        part = means[rows]
        part[:] = numbers[rng.integers(len(numbers), size=(len(part), len(numbers)))].mean(axis=1)
    low, high = np.quantile(means, [(1 - inside) / 2, (1 + inside) / 2])
    return float(low), float(high)


class Curve(NamedTuple):
    """Accuracy against the share of discarded items over a sweep of a parameter, with straight lines between points.

    Attributes
    ----------
    discarded : ndarray of float64, shape (n_points,)
        Shares, ascending.
    accuracy : ndarray of float64, shape (n_points,)
        The accuracy at each share.
    """

    discarded: NDArray[np.float64]
    accuracy: NDArray[np.float64]


def curve(discarded: ArrayLike, accuracy: ArrayLike) -> Curve:
    """Make the curve through the settings of a sweep, given in any order.

    Parameters
    ----------
    discarded : array_like of shape (n_settings,)
        The mean share discarded with each setting, from 0 to 1.
    accuracy : array_like of shape (n_settings,)
        The mean accuracy with each setting, from 0 to 1. Of settings that discard the same share, the best counts.

    Examples
    --------
    >>> from tessella.paper import curve
    >>> curve([0.5, 0.2, 0.5], [0.7, 0.9, 0.8])
    Curve(discarded=array([0.2, 0.5]), accuracy=array([0.9, 0.8]))
    """
    across, up = _paper_checks.sweep(discarded, accuracy)
    order = np.lexsort((-up, across))
    places, first = np.unique(across[order], return_index=True)
    return Curve(places, up[order][first])


def accuracy_at(line: Curve, discarded: float) -> float:
    """Return the accuracy of a curve where a given share is discarded.

    Parameters
    ----------
    line : Curve
        From `curve`.
    discarded : float
        A share within the range of the curve; there is no extrapolation.

    Examples
    --------
    >>> from tessella.paper import accuracy_at, curve
    >>> accuracy_at(curve([0.2, 0.6], [1.0, 0.5]), 0.4)
    0.75
    """
    _paper_checks.is_curve(line, "line", Curve)
    share = _paper_checks.on_curve(discarded, line.discarded)
    return float(np.interp(share, line.discarded, line.accuracy))


def area_between(first: Curve, second: Curve) -> float:
    """Return the area between two curves over the shares that both reach, positive where the first is higher.

    Divided by the length of that range, it is the mean gain in accuracy.

    Parameters
    ----------
    first, second : Curve
        From `curve`.

    Examples
    --------
    >>> from tessella.paper import area_between, curve
    >>> round(area_between(curve([0.0, 1.0], [1.0, 0.5]), curve([0.2, 0.8], [0.5, 0.5])), 3)
    0.15
    """
    _paper_checks.is_curve(first, "first", Curve)
    _paper_checks.is_curve(second, "second", Curve)
    low, high = _paper_checks.common_range(first.discarded, second.discarded)
    places = np.unique(np.clip(np.concatenate([first.discarded, second.discarded]), low, high))
    gaps = np.interp(places, *first) - np.interp(places, *second)
    return float(np.sum(np.diff(places) * (gaps[1:] + gaps[:-1])) / 2)
