"""PCA-tree: items are split in half recursively, along the principal direction of each part."""

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from tessella import _checks
from tessella._threads import cut
from tessella.paper import _checks as _paper_checks

MAX_DEPTH = 24
_ELEMENTS_AT_ONCE = 2**20


@dataclass(frozen=True)
class Tree:
    """A full binary tree: node i has the children 2i + 1 and 2i + 2, and leaves are numbered after all splits."""

    directions: NDArray[np.float64]  # (n_splits, n_factors)
    places: tuple[NDArray[np.float64], ...]  # of each split: the projections of its items, sorted
    leaves: csr_array  # (n_leaves, n_items)


class Visits(NamedTuple):
    """The cost of queries.

    Attributes
    ----------
    leaves : ndarray of int64, shape (n_queries,)
        How many leaves a query visits.
    splits : ndarray of int64, shape (n_queries,)
        How many splits it passes, with one projection each.
    """

    leaves: NDArray[np.int64]
    splits: NDArray[np.int64]


@dataclass(frozen=True)
class PCATree:
    """A tree of median splits along principal directions (P16); a query's candidates share its leaf.

    Each node is split at the median of its items' projections on the direction in which they vary most, so the sizes of
    leaves differ by at most one item. If items tie at a median, a query at that value goes both ways.

    Factors are not normalised, so their length matters; pass unit vectors to compare directions only.

    Parameters
    ----------
    depth : int
        The number of splits from the root to a leaf, 1 to 24, with at most as many leaves as items. A query visits
        about 1 in 2^depth items. A larger depth leaves fewer candidates and loses more of the true ones. Cannot change
        later.
    spill : float, default 0.0
        How far from the median, in quantiles from 0 to 0.5, a query still goes both ways. A larger spill finds more and
        leaves more candidates. Items are stored once, whatever the spill (a virtual spill tree; Dasgupta and Sinha,
        COLT 2013), so candidate sets only grow with it, and `with_spill` can change it later.

    Examples
    --------
    >>> from tessella.paper.baselines import PCATree
    >>> items = [[0.0], [1.0], [2.0], [3.0]]
    >>> PCATree(depth=2).fit(items).candidates([[0.1]]).toarray()
    array([[1, 0, 0, 0]], dtype=int32)
    >>> PCATree(depth=2, spill=0.5).fit(items).candidates([[0.1]]).toarray()
    array([[1, 1, 1, 0]], dtype=int32)
    """

    depth: int
    spill: float = 0.0

    def __post_init__(self) -> None:
        """Check the parameters."""
        object.__setattr__(self, "depth", _checks.whole_number(self.depth, "depth", 1, MAX_DEPTH))
        object.__setattr__(self, "spill", _checks.number_between(self.spill, "spill", 0, 0.5))

    def fit(self, item_factors: ArrayLike) -> Self:
        """Build the tree.

        Parameters
        ----------
        item_factors : array_like of shape (n_items, n_factors)
            At least 2^depth rows. Fitting again forgets earlier items.
        """
        _paper_checks.items_to_fit(item_factors)
        items = _checks.all_factors(item_factors, "item_factors")
        _paper_checks.leaves_fit(self.depth, len(items))
        object.__setattr__(self, "_tree", _grown(items, self.depth))
        return self

    def candidates(self, queries: ArrayLike) -> csr_array:
        """Return the items in the leaves that each query visits.

        Parameters
        ----------
        queries : array_like of shape (n_queries, n_factors)
            User factors.

        Returns
        -------
        counts : scipy.sparse.csr_array of int32, shape (n_queries, n_items)
            1 for a candidate.
        """
        tree, asked = self._asked(queries)
        rows, nodes = self._routes(tree, asked)[-1]
        leaves = nodes - len(tree.directions)
        reached = csr_array((np.ones(len(rows), np.int32), (rows, leaves)), shape=(len(asked), tree.leaves.shape[0]))
        counts = csr_array(reached @ tree.leaves)
        counts.sort_indices()
        return counts

    def with_spill(self, spill: float) -> Self:
        """Return a copy of the fitted tree with another spill, without fitting again.

        Parameters
        ----------
        spill : float
            From 0 to 0.5.
        """
        other = replace(self, spill=spill)
        object.__setattr__(other, "_tree", _paper_checks.fitted(getattr(self, "_tree", None), self))
        return other

    def visits(self, queries: ArrayLike) -> Visits:
        """Return the cost of finding the candidates of each query.

        Parameters
        ----------
        queries : array_like of shape (n_queries, n_factors)
            User factors.
        """
        tree, asked = self._asked(queries)
        *inner, (rows, _) = self._routes(tree, asked)
        passed = np.concatenate([each for each, _ in inner])
        return Visits(np.bincount(rows, minlength=len(asked)), np.bincount(passed, minlength=len(asked)))

    def _asked(self, queries: ArrayLike) -> tuple[Tree, NDArray[np.float32]]:
        tree: Tree = _paper_checks.fitted(getattr(self, "_tree", None), self)
        return tree, _checks.all_factors(queries, "queries", tree.directions.shape[1])

    def _routes(self, tree: Tree, asked: NDArray[np.float32]) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Return pairs of query and node, for each level from the root to the leaves."""
        # A query goes left up to the high quantile of a split's items, and right from the low one.
        ends = [0.5 - self.spill, 0.5 + self.spill]
        low, high = np.array([np.quantile(places, ends) for places in tree.places]).T
        rows, nodes = np.arange(len(asked)), np.zeros(len(asked), np.int64)
        levels = [(rows, nodes)]
        for _ in range(self.depth):
            places = _projections(asked, rows, tree.directions, nodes)
            left, right = places <= high[nodes], places >= low[nodes]
            rows = np.concatenate([rows[left], rows[right]])
            nodes = np.concatenate([2 * nodes[left] + 1, 2 * nodes[right] + 2])
            levels.append((rows, nodes))
        return levels


def _grown(items: NDArray[np.float32], depth: int) -> Tree:
    n_splits = 2**depth - 1
    directions = np.empty((n_splits, items.shape[1]))
    sorted_places = []
    nodes = [np.arange(len(items))]
    for node in range(n_splits):
        inside = nodes[node]
        directions[node] = _principal_direction(items[inside].astype(np.float64))
        places = _projections(items, inside, directions, np.full(len(inside), node))
        order = np.argsort(places, kind="stable")
        sorted_places.append(places[order])
        inside = inside[order]
        nodes += [inside[: len(inside) // 2], inside[len(inside) // 2 :]]
    starts = np.cumsum([0, *map(len, nodes[n_splits:])])
    filed = np.concatenate(nodes[n_splits:])
    leaves = csr_array((np.ones(len(filed), np.int32), filed, starts), shape=(n_splits + 1, len(items)))
    return Tree(directions, tuple(sorted_places), leaves)


def _principal_direction(points: NDArray[np.float64]) -> NDArray[np.float64]:
    centred = points - points.mean(axis=0)
    last = points.shape[1] - 1  # the largest variance comes last
    direction: NDArray[np.float64] = scipy.linalg.eigh(centred.T @ centred, subset_by_index=[last, last])[1][:, 0]
    return direction


def _projections(
    points: NDArray[np.float32], rows: NDArray[np.int64], directions: NDArray[np.float64], nodes: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return products of points with directions, pair by pair.

    Each is summed in the same order in any batch, so that a query equal to an item reaches the item's leaf.
    """
    products = np.empty(len(rows))
    for part in cut(len(rows), max(1, _ELEMENTS_AT_ONCE // points.shape[1])):
        products[part] = (points[rows[part]] * directions[nodes[part]]).sum(axis=1)
    return products
