"""Hash tables: items with equal codes share a bucket, so a query's code need not be compared with every item's."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from tessella import _checks
from tessella.paper import _checks as _paper_checks

MAX_BITS = 62
MAX_TABLES = 1024


@dataclass(frozen=True)
class Buckets:
    """The items of each bucket, one table after another."""

    codes: tuple[NDArray[np.int64], ...]  # of each table: the codes in use, sorted
    items: csr_array  # (n_buckets, n_items), with a 1 where an item is in a bucket
    n_factors: int

    @classmethod
    def of(cls, codes: NDArray[np.int64], n_factors: int) -> Self:
        """Make the buckets for codes of shape (n_items, n_tables); -1 means no code."""
        used = tuple(np.unique(column[column >= 0]) for column in codes.T)
        return cls(used, csr_array(_buckets(used, codes).T), n_factors)

    def shared(self, codes: NDArray[np.int64]) -> csr_array:
        """Return how many buckets each row of codes shares with each item."""
        counts = csr_array(_buckets(self.codes, codes) @ self.items)
        counts.sort_indices()
        return counts


def _buckets(used: tuple[NDArray[np.int64], ...], codes: NDArray[np.int64]) -> csr_array:
    """Return a matrix with a 1 for each bucket that a row of codes is in; unused codes are in no bucket."""
    starts = np.cumsum([0, *map(len, used)])
    found = [np.searchsorted(known, column) for known, column in zip(used, codes.T, strict=True)]
    places = np.stack(found, axis=1) + starts[:-1]
    known = np.concatenate([*used, [-1]])
    # A place past the end of its table belongs to the next table, where an equal code is a coincidence.
    rows, tables = np.nonzero((places < starts[1:]) & (known[places] == codes))
    columns = places[rows, tables]
    return csr_array((np.ones(len(rows), np.int32), (rows, columns)), shape=(len(codes), starts[-1]))


class Hashes:
    """`fit`, `candidates` and `codes` for a hash of random projections."""

    tables: int
    _buckets: Buckets | None = None

    def directions(self, n_factors: int) -> NDArray[np.float64]:
        """Return the vectors to project on, of shape (tables, n_projections, n_factors).

        Parameters
        ----------
        n_factors : int
            The number of coordinates of a factor.
        """
        raise NotImplementedError

    def _code(self, projections: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return one code for each row of projections."""
        raise NotImplementedError

    def fit(self, item_factors: ArrayLike) -> Self:
        """Sort items into buckets by their codes.

        Parameters
        ----------
        item_factors : array_like of shape (n_items, n_factors)
            At least one row. Fitting again forgets earlier items.
        """
        matrix = _paper_checks.items_to_fit(item_factors)
        buckets = Buckets.of(self._codes(matrix, "item_factors"), matrix.shape[1])
        object.__setattr__(self, "_buckets", buckets)  # the parameters are frozen, but the fitted state is not
        return self

    def candidates(self, queries: ArrayLike) -> csr_array:
        """Count the tables in which each query and each item have equal codes.

        Parameters
        ----------
        queries : array_like of shape (n_queries, n_factors)
            User factors.

        Returns
        -------
        counts : scipy.sparse.csr_array of int32, shape (n_queries, n_items)
            Non-zero for candidates.
        """
        buckets = _paper_checks.fitted(self._buckets, self)
        return buckets.shared(self._codes(_checks.factors(queries, "queries", buckets.n_factors), "queries"))

    def codes(self, factors: ArrayLike) -> NDArray[np.int64]:
        """Return the codes of factors. Does not need `fit`.

        Parameters
        ----------
        factors : array_like of shape (n, n_factors)
            Finite numbers of any scale; only the direction matters.

        Returns
        -------
        codes : ndarray of int64, shape (n, tables)
            -1 for a factor of zeros, which has no direction.
        """
        return self._codes(_checks.factors(factors, "factors"), "factors")

    def _codes(self, matrix: NDArray[np.generic], name: str) -> NDArray[np.int64]:
        directions = self.directions(matrix.shape[1])
        codes = np.empty((len(matrix), self.tables), np.int64)
        for rows in _checks.row_blocks(matrix):
            block = _checks.block(matrix, rows, name).astype(np.float64)
            for table, vectors in enumerate(directions):
                codes[rows, table] = self._code(block @ vectors.T)
            codes[rows][~block.any(axis=1)] = -1
        return codes


def random_directions(tables: int, n_projections: int, n_factors: int, seed: int) -> NDArray[np.float64]:
    """Draw Gaussian vectors of shape (tables, n_projections, n_factors); with more tables, the first stay the same."""
    shape = (tables, n_projections, _checks.n_factors(n_factors))
    return np.random.default_rng(seed).standard_normal(shape)


def sign_codes(projections: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the signs of each row of projections as the bits of an integer."""
    weights = np.left_shift(1, np.arange(projections.shape[1], dtype=np.int64))
    codes: NDArray[np.int64] = (projections >= 0).astype(np.int64) @ weights
    return codes
