"""The protocol of baselines."""

from typing import Protocol, Self, runtime_checkable

from numpy.typing import ArrayLike
from scipy.sparse import csr_array


@runtime_checkable
class Baseline(Protocol):
    """A method that chooses candidates, fitted to items.

    Examples
    --------
    >>> import numpy as np
    >>> from tessella.paper.baselines import Baseline, PCATree, SignRandomProjection
    >>> items = np.random.default_rng(0).standard_normal((1000, 8))
    >>> for baseline in (SignRandomProjection(bits=4, tables=2), PCATree(depth=3)):
    ...     assert isinstance(baseline, Baseline)
    ...     print(baseline.fit(items).candidates(items[:2]).shape)
    (2, 1000)
    (2, 1000)
    """

    def fit(self, item_factors: ArrayLike) -> Self:
        """Put items into buckets."""
        ...

    def candidates(self, queries: ArrayLike) -> csr_array:
        """Return how many buckets each query shares with each item, int32, of shape (n_queries, n_items)."""
        ...
