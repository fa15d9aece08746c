"""Engine: one version's arrays, and every way to search them in one call.

`_kernels` chooses whether it is the native one or its NumPy reference; both have this face.
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
    """Which rows may answer which query: the one form that every engine reads.

    `allowed` holds for all queries. `listed` are rows of each query, ascending, one query after another: either those
    excluded or the only ones that may answer.
    """

    allowed: NDArray[np.uint8] | None  # a bit for each row
    n_allowed: int  # rows with a bit
    listed: NDArray[np.int64]
    starts: NDArray[np.int64] | None  # (n_queries + 1) where each query's rows begin; None if nothing is listed
    only: bool  # whether what is listed is allowed, rather than excluded

    def of_queries(self, queries: slice) -> "Filter":
        """The part for some of the queries."""
        if self.starts is None:
            return self
        return self._replace(starts=self.starts[queries.start : queries.stop + 1])

    def of_numbers(self, queries: NDArray[np.int64]) -> "Filter":
        """The part for the queries of some numbers, in their order."""
        if self.starts is None:
            return self
        first = self.starts[queries]
        sizes = self.starts[queries + 1] - first
        starts = np.concatenate([[0], np.cumsum(sizes)])
        listed = self.listed[np.arange(starts[-1]) + np.repeat(first - starts[:-1], sizes)]
        return self._replace(listed=listed, starts=starts)


class Answers(NamedTuple):
    """Arrays for an engine to fill, one row of ids and scores for each query, or none for a single one."""

    ids: NDArray[np.int64]  # (n_queries, k), or positions where ids are texts; -1 where there is no item
    scores: NDArray[np.float32]  # (n_queries, k)
    n_scored: NDArray[np.int64]  # (n_queries)
    certified: NDArray[np.bool_]  # (n_queries)

    @classmethod
    def empty(cls, n: int, k: int) -> "Answers":
        """Room for the answers to n queries."""
        shape = (n, k)
        return cls(np.empty(shape, np.int64), np.empty(shape, np.float32), np.empty(n, np.int64), np.empty(n, np.bool_))

    def of_queries(self, queries: slice) -> "Answers":
        """A view of the part for some of the queries."""
        return Answers(self.ids[queries], self.scores[queries], self.n_scored[queries], self.certified[queries])


class Engine:
    """Searches one version of an index at one SIMD level. Any number of threads may."""

    __slots__ = ("_handle", "_level", "read_ids")

    def __init__(
        self, fitted: Fitted, segments: Sequence[Any], radii: NDArray[np.float32] | None, lengths: tuple[float, float]
    ) -> None:
        running = core()
        centres = None if fitted.tiling is None else fitted.tiling.coded
        self._handle = running.kernels.Engine(fitted.axes.head, *lengths, centres, radii, list(segments))
        self._level = running.level
        self.read_ids = running.kernels.read_ids  # for a single query, which has no time to ask which kernels run

    def search(
        self,
        queries: NDArray[np.float32],
        setting: Setting,
        entries: Entries | None,
        row_filter: Filter | None,
        answers: tuple[Any, ...],
    ) -> int:
        """Fill in the answers to all queries; -1, or the first query that is not finite or too long.

        Parameters
        ----------
        queries : ndarray of float32, shape (n_queries, n_factors) or (n_factors,)
            Contiguous; the engine checks the values.
        setting : Setting
            The method.
        entries : tuple of arrays, or None
            The sparse map of the queries, for slots.
        row_filter : Filter or None
            Which rows may answer.
        answers : Answers, or tuple of the same arrays
            What to fill.
        """
        refused: int = self._handle.search(queries, setting, entries, row_filter, answers, self._level)
        return refused

    def choose(
        self, query: NDArray[np.float32], setting: Setting, entries: Entries, candidates: NDArray[np.uint64]
    ) -> NDArray[np.uint64]:
        """The candidates of slots search for one query, at most as many as there is room for, in no order."""
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
        """Turn lists of ids, whole numbers, into ascending lists of rows, less those of `without`.

        Fills `rows`, which has room for every id, and `row_starts`; how many ids are unknown. -1 stands for nothing.
        Without `starts` there is one list.
        """
        unknown: int = self._handle.list_ids(ids, starts, without, rows, row_starts)
        return unknown
