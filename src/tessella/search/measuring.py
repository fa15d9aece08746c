"""Measuring: the recall of a method, at any k and with any number of a query's best items excluded."""

import functools
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tessella.results import SearchResult
from tessella.retrieval.plan import LOW_RECALL, Exact, Method, Tiles
from tessella.search.made_up import SAMPLE
from tessella.search.recall import recall
from tessella.search.route import search
from tessella.versions.version import Version

FEWEST_QUERIES, MOST_ANSWERS = 20, 200_000  # per sample, to limit the time of tuning for a large k
LEVELS = ((10, SAMPLE), (100, 600), (1_300, 160))  # depth of the true ranking, and for how many queries it is computed
MOST_TIMES = 3  # the largest factor by which a target recall above 0.95 increases the number of queries
CONFIDENCE = 1.645  # standard errors of a one-sided 95% bound
TURNS = 5

_EXACT = Exact()
_CERTAIN = (_EXACT, Tiles(1.0))


class Measured(NamedTuple):
    """The recall of a method over some queries."""

    mean: float
    at_least: float  # with 95% confidence
    share_below: float  # the share of queries with a recall below LOW_RECALL

    @classmethod
    def of(cls, shares: NDArray[np.float64], n_different: int, k: int) -> "Measured":
        """Summarise the recalls of queries, of which `n_different` are distinct; duplicates add no evidence.

        One more query stands for those too rare to be in the sample. Its recall is below the worst one measured: 0 for
        one answer, and closer to the worst the more answers there are.
        """
        mean, spread, unseen = shares.mean(), shares.std(), shares.min() * (1 - k**-0.5)
        n = n_different + 1
        lower, square = (mean * n_different + unseen) / n, ((spread**2 + mean**2) * n_different + unseen**2) / n
        bound = max(0.0, float(lower - CONFIDENCE * np.sqrt(max(0.0, square - lower**2) / n)))
        return cls(float(mean), bound, float(np.mean(shares < LOW_RECALL)))


CERTAIN = Measured(1.0, 1.0, 0.0)


class Samples:
    """Samples of queries with their true best items in a version, to test whether a method reaches a recall."""

    def __init__(
        self,
        version: Version,
        queries: list[NDArray[np.float32]],
        k: int,
        target: float,
        pause: Callable[[], None],
    ) -> None:
        self.version, self.queries, self.k, self.target = version, queries, k, target
        self._pause = pause  # called between measurements
        self._times = min(MOST_TIMES, 0.05 / max(1 - target, 1e-9)) if target > 0.95 else 1
        self._hardest = 0  # the sample that most recently failed to reach a recall
        self._known, self._found = functools.cache(self._search_known), functools.cache(self._measure)

    def __len__(self) -> int:
        return sum(map(len, self.queries))

    @property
    def deepest(self) -> int:
        """The largest depth of the true ranking."""
        return min(max(LEVELS[-1][0], self.k), self.version.n_live)

    def least(self, method: Method, k: int, n_excluded: int = 0) -> Measured:
        """Return the recall at k, with the `n_excluded` best items excluded, on the sample where it is lowest."""
        if method in _CERTAIN:
            return CERTAIN
        every = [self._found(method, k, n_excluded, sample) for sample in range(len(self.queries))]
        return min(every, key=lambda measured: measured.at_least)

    def reaches(self, method: Method, k: int, n_excluded: int = 0) -> bool:
        """Return whether that recall is at least the target on every sample."""
        if method in _CERTAIN:
            return True
        for sample in sorted(range(len(self.queries)), key=lambda number: number != self._hardest):
            if self._found(method, k, n_excluded, sample).at_least < self.target:
                self._hardest = sample
                return False
        return True

    def at_most(self, n_queries: int) -> list[NDArray[np.float32]]:
        """Return at most `n_queries` queries, the same number of each sample."""
        self._pause()
        return [sample[: max(1, n_queries // len(self.queries))] for sample in self.queries]

    def _measure(self, method: Method, k: int, n_excluded: int, sample: int) -> Measured:
        self._pause()
        depth = k + n_excluded
        queries, truth, n_different = self._known(sample, max(self._level(depth), LEVELS[1][0] if n_excluded else 0))
        without = list(truth.ids[:, :n_excluded]) if n_excluded else None
        found = search(self.version, queries, min(k, self.version.n_live), method, without)
        return Measured.of(recall(found.scores, truth.scores[:, n_excluded:depth]), n_different, k)

    def _level(self, depth: int) -> int:
        """Return the depth of the true ranking to use for a given depth."""
        return depth if depth == self.k else next((known for known, _ in LEVELS if known >= depth), depth)

    def _search_known(self, sample: int, level: int) -> tuple[NDArray[np.float32], SearchResult, int]:
        """Return queries of a sample (fewer at a greater depth), their true best items, and how many are distinct."""
        n = max(FEWEST_QUERIES, MOST_ANSWERS // level)
        if level != self.k:
            n = min(n, int(dict(LEVELS).get(level, n) * self._times) // len(self.queries))
        queries = self.queries[sample][:n]
        truth = search(self.version, queries, min(level, self.version.n_live), _EXACT)
        return queries, truth, len(np.unique(queries, axis=0))


def seconds_of(
    methods: Sequence[Method], version: Version, samples: list[NDArray[np.float32]], k: int
) -> dict[Method, float]:
    """Return the shortest time of each method on one thread; methods take turns."""
    seconds = dict.fromkeys(methods, np.inf)
    for _ in range(TURNS):
        for method in methods:
            start = time.perf_counter()
            for sample in samples:
                search(version, sample, k, method, threads=1)
            seconds[method] = min(seconds[method], time.perf_counter() - start)
    return seconds
