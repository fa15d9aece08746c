"""Found: the best answers so far of some queries, as kernels fill them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tessella._kernels import core
from tessella.results import SearchResult

QUERIES_PER_BATCH = 128


@dataclass(frozen=True)
class Found:
    """The best k of each query: a heap while items are offered, best first once sorted."""

    scores: NDArray[np.float32]  # (n_queries, k), -inf where there is no answer
    answers: NDArray[np.int64]  # (n_queries, k) row << 32 | place, or -1
    counts: NDArray[np.int64]  # (n_queries)
    scored: NDArray[np.int64]  # (n_queries) items scored
    certified: NDArray[np.bool_]  # (n_queries)

    @classmethod
    def empty(cls, n: int, k: int) -> Self:
        """Nothing found yet."""
        return cls(
            np.full((n, k), -np.inf, np.float32),
            np.full((n, k), -1, np.int64),
            np.zeros(n, np.int64),
            np.zeros(n, np.int64),
            np.zeros(n, np.bool_),
        )

    def part(self, queries: slice) -> Self:
        """A view of some of the queries."""
        if queries.stop - queries.start == len(self.counts):
            return self
        return type(self)(
            self.scores[queries],
            self.answers[queries],
            self.counts[queries],
            self.scored[queries],
            self.certified[queries],
        )

    def put(self, queries: NDArray[np.int64], others: "Found") -> None:
        """Replace what was found for some queries, adding up what was scored."""
        others.scored[:] += self.scored[queries]
        for mine, theirs in zip(vars(self).values(), vars(others).values(), strict=True):
            mine[queries] = theirs

    def sort(self) -> None:
        """Put answers in order: higher scores first, then earlier rows."""
        running = core()
        running.kernels.sort_found(self.scores, self.answers, self.counts, running.level)

    def padded(self, k: int) -> Self:
        """With room for at least k answers to each query, empty where there are fewer."""
        missing = ((0, 0), (0, k - self.scores.shape[1]))
        if missing[1][1] <= 0:
            return self
        scores = np.pad(self.scores, missing, constant_values=-np.inf)
        return replace(self, scores=scores, answers=np.pad(self.answers, missing, constant_values=-1))

    def result(self, ids_of: Callable[[NDArray[np.int64]], NDArray[Any]]) -> SearchResult:
        """What a search returns, given what tells the ids of answers."""
        return SearchResult(ids_of(self.answers), self.scores, self.scored, self.certified)


def batches(n: int, size: int = QUERIES_PER_BATCH) -> list[slice]:
    """Queries that go through the items together."""
    return [slice(at, min(at + size, n)) for at in range(0, n, size)]
