"""PCA-tree: items halved again and again along the principal direction of each half."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from tessella import _check

MAX_DEPTH = 24
_ELEMENTS_AT_ONCE = 2**20


@dataclass(frozen=True)
class Tree:
    """A full binary tree: node i has the children 2i + 1 and 2i + 2, and leaves come after all splits."""

    directions: NDArray[np.float64]  # (n_splits, n_factors)
    low: NDArray[np.float64]  # a query goes right from here
    high: NDArray[np.float64]  # and left up to here
    leaves: csr_array  # (n_leaves, n_items)


@dataclass(frozen=True)
class PCATree:
    """A tree of median splits along principal directions (P16); a query's candidates share its leaf.

    Each node is halved at the median of its items' projections on the direction in which they vary most, so leaves
    differ by at most one item. Where items tie at a median, as equal items do, a query there goes both ways.

    Factors are taken as they are, so their length counts; pass unit vectors to compare directions alone.

    Parameters
    ----------
    depth : int
        Splits from the root to a leaf, from 1 to 24, with at most as many leaves as items: a query looks at about 1 in
        2^depth items. More leave fewer candidates and lose more of the true ones. Fixed.
    spill : float, default 0.0
        How far from the median, in quantiles from 0 to 0.5, a query still goes both ways. Larger values find more and
        leave more candidates. Items are filed once, whatever the spill (a virtual spill tree; Dasgupta and Sinha,
        COLT 2013), so candidate sets only grow with it. Fixed.

    Examples
    --------
    >>> from tessella.baselines import PCATree
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
        object.__setattr__(self, "depth", _check.whole_number(self.depth, "depth", 1, MAX_DEPTH))
        object.__setattr__(self, "spill", _check.number_between(self.spill, "spill", 0, 0.5))

    def fit(self, item_factors: ArrayLike) -> Self:
        """Grow the tree.

        Parameters
        ----------
        item_factors : array_like of shape (n_items, n_factors)
            At least 2^depth rows. Fitting again forgets earlier items.
        """
        _check.items_to_fit(item_factors)
        items = _check.all_factors(item_factors, "item_factors")
        _check.leaves_fit(self.depth, len(items))
        object.__setattr__(self, "_tree", _grown(items, self.depth, self.spill))
        return self

    def candidates(self, queries: ArrayLike) -> csr_array:
        """The items in the leaves that each query comes to.

        Parameters
        ----------
        queries : array_like of shape (n_queries, n_factors)
            User factors.

        Returns
        -------
        counts : scipy.sparse.csr_array of int32, shape (n_queries, n_items)
            1 for a candidate.
        """
        tree: Tree = _check.fitted(getattr(self, "_tree", None), self)
        asked = _check.all_factors(queries, "queries", tree.directions.shape[1])
        rows, nodes = np.arange(len(asked)), np.zeros(len(asked), np.int64)
        for _ in range(self.depth):
            places = _projections(asked, rows, tree.directions, nodes)
            left, right = places <= tree.high[nodes], places >= tree.low[nodes]
            rows = np.concatenate([rows[left], rows[right]])
            nodes = np.concatenate([2 * nodes[left] + 1, 2 * nodes[right] + 2])
        leaves = nodes - len(tree.directions)
        reached = csr_array((np.ones(len(rows), np.int32), (rows, leaves)), shape=(len(asked), tree.leaves.shape[0]))
        counts = csr_array(reached @ tree.leaves)
        counts.sort_indices()
        return counts


def _grown(items: NDArray[np.float32], depth: int, spill: float) -> Tree:
    n_splits = 2**depth - 1
    directions = np.empty((n_splits, items.shape[1]))
    low, high = np.empty(n_splits), np.empty(n_splits)
    nodes = [np.arange(len(items))]
    for node in range(n_splits):
        inside = nodes[node]
        directions[node] = _principal_direction(items[inside].astype(np.float64))
        places = _projections(items, inside, directions, np.full(len(inside), node))
        low[node], high[node] = np.quantile(places, [0.5 - spill, 0.5 + spill])
        inside = inside[np.argsort(places, kind="stable")]
        nodes += [inside[: len(inside) // 2], inside[len(inside) // 2 :]]
    starts = np.cumsum([0, *map(len, nodes[n_splits:])])
    filed = np.concatenate(nodes[n_splits:])
    leaves = csr_array((np.ones(len(filed), np.int32), filed, starts), shape=(n_splits + 1, len(items)))
    return Tree(directions, low, high, leaves)


def _principal_direction(points: NDArray[np.float64]) -> NDArray[np.float64]:
    centred = points - points.mean(axis=0)
    last = points.shape[1] - 1  # the largest variance comes last
    direction: NDArray[np.float64] = scipy.linalg.eigh(centred.T @ centred, subset_by_index=[last, last])[1][:, 0]
    return direction


def _projections(
    points: NDArray[np.float32], rows: NDArray[np.int64], directions: NDArray[np.float64], nodes: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Products of points with directions, pair by pair.

    Each is added up in the same order in any batch, so that a query equal to an item comes to its leaf.
    """
    products = np.empty(len(rows))
    step = max(1, _ELEMENTS_AT_ONCE // points.shape[1])
    for first in range(0, len(rows), step):
        part = slice(first, first + step)
        products[part] = (points[rows[part]] * directions[nodes[part]]).sum(axis=1)
    return products
