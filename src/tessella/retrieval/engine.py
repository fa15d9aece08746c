"""Engine: holds the arrays of one version and searches them, by any method, in one call.

`_kernels` chooses between the native engine and its NumPy reference. Both have the same interface.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tessella._kernels import core
from tessella._reference import Lists
from tessella.retrieval.fitted import Fitted
from tessella.retrieval.plan import Setting
from tessella.retrieval.postings import Entries


class Filter(NamedTuple):
    """Which rows may answer which query, in the one form that engines read.

    `allowed` applies to all queries. `listed` has an ascending list of rows for each query, one list after another:
    either the excluded rows, or the only rows that may answer.
    """

    allowed: NDArray[np.uint8] | None  # a bit for each row
    n_allowed: int  # rows whose bit is set
    listed: NDArray[np.int64]
    starts: NDArray[np.int64] | None  # (n_queries + 1) where each query's rows begin; None if nothing is listed
    only: bool  # whether the listed rows are the only ones allowed, rather than excluded

    def of_queries(self, queries: slice) -> "Filter":
        """Return the part for a range of queries."""
        if self.starts is None:
            return self
        return self._replace(starts=self.starts[queries.start : queries.stop + 1])

    def of_numbers(self, queries: NDArray[np.int64]) -> "Filter":
        """Return the part for queries given by number, in that order."""
        if self.starts is None:
            return self
        first = self.starts[queries]
        sizes = self.starts[queries + 1] - first
        starts = np.concatenate([[0], np.cumsum(sizes)])
        listed = self.listed[np.arange(starts[-1]) + np.repeat(first - starts[:-1], sizes)]
        return self._replace(listed=listed, starts=starts)


class Answers(NamedTuple):
    """Arrays for an engine to fill, with one row of ids and scores per query; one-dimensional for a single query."""

    ids: NDArray[np.int64]  # (n_queries, k); positions if ids are strings; -1 for missing answers
    scores: NDArray[np.float32]  # (n_queries, k)
    n_scored: NDArray[np.int64]  # (n_queries)
    certified: NDArray[np.bool_]  # (n_queries)

    @classmethod
    def empty(cls, n: int, k: int) -> "Answers":
        """Allocate the arrays for n queries."""
        shape = (n, k)
        return cls(np.empty(shape, np.int64), np.empty(shape, np.float32), np.empty(n, np.int64), np.empty(n, np.bool_))

    def of_queries(self, queries: slice) -> "Answers":
        """Return a view of the part for a range of queries."""
        return Answers(self.ids[queries], self.scores[queries], self.n_scored[queries], self.certified[queries])


class Engine:
    """Searches one version of an index at one SIMD level. Any number of threads may use it at once."""

    __slots__ = ("_handle", "_level", "read_ids")

    def __init__(
        self, fitted: Fitted, segments: Sequence[Any], radii: NDArray[np.float32] | None, lengths: tuple[float, float]
    ) -> None:
        running = core()
        centres = None if fitted.tiling is None else fitted.tiling.coded
        self._handle = running.kernels.Engine(fitted.axes.head, *lengths, centres, radii, list(segments))
        self._level = running.level
        self.read_ids = running.kernels.read_ids  # kept here, since looking up the kernels would slow a single query

    def search(
        self,
        queries: NDArray[np.float32],
        setting: Setting,
        entries: Entries | None,
        row_filter: Filter | None,
        answers: tuple[Any, ...],
    ) -> int:
        """Fill in the answers to all queries; return -1, or the first query that is not finite or too long.

        Parameters
        ----------
        queries : ndarray of float32, shape (n_queries, n_factors) or (n_factors,)
            Contiguous; the engine checks the values.
        setting : Setting
            The method and its parameters.
        entries : tuple of arrays, or None
            The sparse map of the queries, for slots search.
        row_filter : Filter or None
            Which rows may answer.
        answers : Answers, or tuple of the same arrays
            The arrays to fill.
        """
        refused: int = self._handle.search(queries, setting, entries, row_filter, answers, self._level)
        return refused

    def choose(
        self, query: NDArray[np.float32], setting: Setting, entries: Entries, candidates: NDArray[np.uint64]
    ) -> NDArray[np.uint64]:
        """Return the candidates of slots search for one query, unsorted, as many as fit into `candidates`."""
        count = self._handle.choose(query, setting, entries, None, candidates, self._level)
        return candidates[:count]

    def list_ids(
        self,
        ids: NDArray[np.int64],
        starts: NDArray[np.int64] | None,
        without: Lists | None,
        rows: NDArray[np.int64],
        row_starts: NDArray[np.int64],
    ) -> int:
        """Turn lists of integer ids into ascending lists of rows, without the rows in `without`.

        Fills `rows`, which has room for every id, and `row_starts`; returns how many ids are unknown. -1 is skipped.
        Without `starts` there is one list.
        """
        unknown: int = self._handle.list_ids(ids, starts, without, rows, row_starts)
        return unknown
