"""Boosting: plans for searches with boosts, so that they also reach the target recall."""

import weakref
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tessella.results import SearchResult
from tessella.retrieval.engine import Filter
from tessella.retrieval.plan import Exact, Method, Plan, plan_from_json, plan_to_json
from tessella.search.filters import LazyFilter
from tessella.search.made_up import SAMPLE, made_up_queries
from tessella.search.route import search
from tessella.search.tuning import tuned
from tessella.versions.version import Version

RANGES = ((0.02, 0.1), (0.1, 0.4), (0.4, 2.0))  # of boost strength; each has a plan of its own
ENDS = np.array([0.0, *(high for _, high in RANGES)])

_EXACT = Exact()


class _Last:
    """Caches, for the last version searched with boosts, its variants with each of the boost plans."""

    def __init__(self) -> None:
        self.pair: tuple[weakref.ref[Version], list[Version]] | None = None

    def with_plans(self, version: Version, plans: tuple[Plan, ...]) -> list[Version]:
        pair = self.pair
        if pair is None or pair[0]() is not version:
            others = [replace(version, plan=plan) for plan in plans]
            for other in others:
                vars(other)["engine"] = version.engine
            self.pair = pair = weakref.ref(version), others  # in one step: another thread sees both or neither
        return pair[1]


@dataclass(frozen=True)
class Boosting:
    """Plans for boosted queries, whose top items differ from those of the queries an index is tuned with.

    The strength of a query's boosts is the norm of its signal coordinates divided by the norm of the others. Queries
    without boosts follow the plan of the index. Each range of strengths has its own plan. Beyond the last range, search
    is exact, which is then about as fast as tiles.
    """

    n_signals: int  # the last coordinates
    plans: tuple[Plan, ...]
    _last: _Last = field(default_factory=_Last, repr=False, compare=False)

    @classmethod
    def measured(cls, version: Version, n_signals: int, queries: NDArray[np.float32] | None = None) -> Self | None:
        """Measure plans for the recall and k of the index's own plan; return None if that plan was not measured.

        Parameters
        ----------
        version : Version
            Items with their signals, and the plan for queries without boosts.
        n_signals : int
            How many of the last coordinates are signals.
        queries : ndarray of shape (n, n_factors), default None
            User factors, without signals; None generates queries from the items.
        """
        plan = version.plan
        if plan.target_recall is None or all(method == _EXACT for method in plan.methods):
            return None
        asked = plain_queries(version, n_signals) if queries is None else queries[queries.any(axis=1)]
        samples = (boosted_samples(asked, n_signals, *ends) for ends in RANGES)
        return cls(
            n_signals,
            tuple(tuned(version, own, plan.target_recall, plan.k, source="with boosts") for own in samples),
        )

    def search(
        self,
        version: Version,
        queries: NDArray[np.float32],
        k: int,
        method: Method | None = None,
        row_filter: Filter | LazyFilter | None = None,
        threads: int | None = None,
    ) -> SearchResult:
        """Search for one or many queries with signal coordinates, using the plan for their boost strength."""
        if method is not None:
            return search(version, queries, k, method, None, row_filter, threads)
        kinds = self._kinds(np.atleast_2d(queries))
        different = np.unique(kinds)
        if len(different) <= 1:
            kind = int(different[0]) if len(different) else 0
            return self._alike(kind, version, queries, k, row_filter, threads)
        answers: dict[str, NDArray[Any]] = {}
        for kind in different.tolist():
            numbers = np.flatnonzero(kinds == kind)
            own = None if row_filter is None else row_filter.of_numbers(numbers)
            found = self._alike(kind, version, queries[numbers], k, own, threads)
            for name, part in found.arrays().items():
                if name not in answers:
                    answers[name] = np.empty((len(queries), *part.shape[1:]), part.dtype)
                answers[name][numbers] = part
        return SearchResult(**answers)

    def to_json(self) -> list[str]:
        """Return each plan as a JSON string."""
        return [plan_to_json(plan) for plan in self.plans]

    @classmethod
    def from_json(cls, texts: list[str], n_signals: int, *, tiled: bool) -> Self:
        """Restore the plans that `to_json` wrote, for an index with or without tiles."""
        if len(texts) != len(RANGES):
            raise ValueError(f"there are {len(texts)} plans for boosts, but there must be {len(RANGES)}")
        return cls(n_signals, tuple(plan_from_json(text, tiled=tiled) for text in texts))

    def _kinds(self, queries: NDArray[np.float32]) -> NDArray[np.int64]:
        """Classify each query: 0 without boosts, then the number of its range from 1, and one more beyond the last."""
        squares = np.square(queries, dtype=np.float64)
        rest, boosts = squares[:, : -self.n_signals].sum(axis=1), squares[:, -self.n_signals :].sum(axis=1)
        kinds: NDArray[np.int64] = (boosts[:, None] > np.square(ENDS) * rest[:, None]).sum(axis=1)
        return kinds

    def _alike(
        self,
        kind: int,
        version: Version,
        queries: NDArray[np.float32],
        k: int,
        row_filter: Filter | LazyFilter | None,
        threads: int | None,
    ) -> SearchResult:
        """Search for queries of one kind."""
        planned, method = self._planned(version, kind)
        return search(planned, queries, k, method, None, row_filter, threads)

    def planned(self, version: Version, query: NDArray[np.float32]) -> tuple[Version, Method | None]:
        """Return the version with the plan for a query, and the method if only one is possible."""
        return self._planned(version, int(self._kinds(query[None])[0]))

    def _planned(self, version: Version, kind: int) -> tuple[Version, Method | None]:
        if kind > len(self.plans):
            return version, _EXACT
        return (self._last.with_plans(version, self.plans)[kind - 1] if kind else version), None


def boosted_samples(
    queries: NDArray[np.float32], n_signals: int, low: float, high: float, seed: int = 0
) -> list[NDArray[np.float32]]:
    """Sample queries with boosts in a range of strengths: weak, strong and negative by each signal, and by several.

    What a query needs differs between signals and between strengths, so each sample is measured on its own: a mean over
    all would hide those that miss the target recall.
    """
    middle = float(np.sqrt(low * high))
    kinds: list[tuple[NDArray[np.float64] | None, float, float]] = []
    for own in np.eye(n_signals):
        kinds += [(own, low, middle), (own, middle, high), (-own, low, high)]
    if n_signals > 1:
        kinds.append((None, low, high))
    rng = np.random.default_rng(seed)
    samples = []
    for direction, weakest, strongest in kinds:
        taken = queries[rng.permutation(len(queries))[:SAMPLE]]
        n = len(taken)
        towards = rng.dirichlet(np.ones(n_signals), n) if direction is None else np.tile(direction, (n, 1))
        towards /= np.linalg.norm(towards, axis=1, keepdims=True)
        lengths = np.exp(rng.uniform(np.log(weakest), np.log(strongest), n)) * np.linalg.norm(taken, axis=1)
        samples.append(np.hstack([taken, (towards * lengths[:, None]).astype(np.float32)]))
    return samples


def plain_queries(version: Version, n_signals: int) -> NDArray[np.float32]:
    """Generate user-like queries from the items, without their signals."""
    made_up = np.concatenate(made_up_queries(version))[:, : version.n_factors - n_signals]
    return made_up[made_up.any(axis=1)]
