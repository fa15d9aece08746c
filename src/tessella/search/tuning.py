"""Tuning: the fastest method that reaches a recall, measured on samples of queries by the route that serves them."""

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella import _checks
from tessella._norms import squared_norms
from tessella._numbers import LARGEST_PRODUCT
from tessella.retrieval.plan import EXACT_PLAN, Exact, Method, Plan, Slots, Tiles, Trial
from tessella.retrieval.tiles import LearnedTiles
from tessella.search.recall import recall
from tessella.search.route import search
from tessella.versions.version import Version

FEWEST_ITEMS = 5_000  # below, exact search takes microseconds
SAMPLE = 2_000
FEWEST_QUERIES, MOST_ANSWERS = 20, 200_000  # of each sample, so that tuning for a large k ends
KINDS = ((2, 0), (1, 1), (2, 1), (2, 2))  # made queries: items in each, power of the spread they are divided by
REACHES = (*np.arange(0.1, 0.6, 0.025).round(3).tolist(), 0.6, 0.65, 0.7, 0.8, 0.9, 1.0)
SLOT_STEPS = ((4, 16), (10, 16), (10, 24), (20, 24), (40, 24), (60, 40))  # budget for each answer, slots
MOST_LIKED = 0.01  # of the made queries' items, so that one that is far too long does not stand for all
CONFIDENCE = 1.645  # standard errors of a one-sided bound of 95%
TURNS = 3
GLANCE = 64  # queries that show whether slots are worth more

Step = TypeVar("Step")

_EXACT = Exact()


def may_gain(n_items: int, target_recall: float) -> bool:
    """Whether anything but exact search is worth trying."""
    return n_items >= FEWEST_ITEMS and target_recall < 1


def checked_queries(queries: ArrayLike | None, n_factors: int, longest: float) -> NDArray[np.float32] | None:
    """Queries to measure recall with, if there are any."""
    if queries is None:
        return None
    asked = _checks.all_factors(queries, "queries", n_factors)
    if not len(asked):
        raise ValueError("queries has 0 rows, but at least 1 is needed to measure recall.")
    _checks.products_fit(asked, longest, "queries")
    return asked


def choose(version: Version, queries: NDArray[np.float32] | None, target_recall: float, k: int = 10) -> Version:
    """The version that searches by the fastest method that reaches the recall, without what others would need."""
    if not may_gain(version.n_live, target_recall):
        few = f"there are only {version.n_live:,} items" if target_recall < 1 else "only it reaches a recall of 1"
        return replace(version, plan=replace(EXACT_PLAN, reason=few, target_recall=target_recall, k=k, automatic=True))
    plan = replace(tuned(version, queries, target_recall, k), automatic=True)
    if isinstance(plan.method, Tiles):
        return replace(version, plan=plan)
    segments = tuple(replace(segment, tiles=None) for segment in version.segments)
    return replace(version, plan=plan, segments=segments, fitted=replace(version.fitted, tiling=None))


def tiles_to_rebuild(version: Version) -> LearnedTiles | None:
    """The tiles that an index learns when it is rebuilt: those it has, or those that "auto" would try."""
    plan, tiling = version.plan, version.fitted.tiling
    if plan.automatic and plan.target_recall is not None:
        return LearnedTiles() if may_gain(version.n_live, plan.target_recall) else None
    return None if tiling is None else tiling.parameters


def planned_again(version: Version, queries: NDArray[np.float32] | None) -> Version:
    """The version with its plan measured anew, if it was measured."""
    plan = version.plan
    if plan.target_recall is None:
        return version
    if plan.automatic:
        return choose(version, queries, plan.target_recall, plan.k)
    return replace(version, plan=tuned(version, queries, plan.target_recall, plan.k))


def tuned(version: Version, queries: NDArray[np.float32] | None, target_recall: float, k: int) -> Plan:
    """The fastest method of those that reach the recall on every sample of queries."""
    samples = plausible_samples(version) if queries is None else [_some(queries)]
    n_answers = min(k, version.n_live)
    samples = [sample[: max(FEWEST_QUERIES, MOST_ANSWERS // n_answers)] for sample in samples]
    truths = [search(version, sample, n_answers, _EXACT).scores for sample in samples]

    @functools.cache
    def recall_of(method: Method) -> tuple[float, float]:
        """The recall on the sample where it is least, and its bound."""
        if method == Tiles(1.0):
            return 1.0, 1.0
        recalls = []
        for sample, truth in zip(samples, truths, strict=True):
            shares = recall(search(version, sample, n_answers, method).scores, truth)
            recalls.append((float(shares.mean()), _bound(shares, len(np.unique(sample, axis=0)))))
        return min(recalls, key=lambda pair: pair[1])

    def reaches(method: Method) -> bool:
        return recall_of(method)[1] >= target_recall

    measured: dict[Method, tuple[float, float]] = {_EXACT: (1.0, 1.0)}
    for steps in (_tiles_to_try(version), _slots_to_try(version, samples, n_answers)):
        method = _first(steps, reaches)
        if method is not None:
            measured[method] = recall_of(method)
    seconds = _seconds(list(measured), version, samples, n_answers)
    n = sum(map(len, samples))
    fastest = min(measured, key=seconds.__getitem__)
    source = "made from the items" if queries is None else "given"
    return Plan(
        fastest,
        f"the fastest method with a recall of at least {target_recall:g}, on {n:,} queries {source}",
        recall=measured[fastest],
        trials=tuple(Trial(method, *shares, n / seconds[method]) for method, shares in measured.items()),
        target_recall=target_recall,
        k=k,
        automatic=version.plan.automatic,
    )


def plausible_samples(version: Version, seed: int = 0) -> list[NDArray[np.float32]]:
    """Samples of queries like users' factors, made from items: several kinds, since nobody knows which fits.

    A user is the mean direction of one or two items, the longer the likelier, but none likelier than 1 in 100. Gradient
    steps leave it about so; least squares divide every principal axis by the items' spread along it, or by its square,
    as KINDS say.
    """
    rng = np.random.default_rng(seed)
    positions = np.concatenate([segment.live + base for segment, base in version.parts()])
    lengths = np.concatenate([np.sqrt(squared_norms(segment.factors))[segment.live] for segment in version.segments])
    for _ in range(8):
        lengths = np.minimum(lengths, lengths.sum() * MOST_LIKED)
    weights = lengths / lengths.sum() if lengths.sum() > 0 else None
    basis, squares = version.fitted.basis, version.fitted.spectrum
    spread = np.sqrt(np.maximum(squares / squares.max(), 1e-9) if squares.max() > 0 else np.ones_like(squares))
    length = min(1.0, 0.1 * LARGEST_PRODUCT / max(version.longest, 1.0))  # so that products with the longest items fit
    samples = []
    for n_items, power in KINDS:
        drawn = positions[rng.choice(len(positions), (SAMPLE // len(KINDS), n_items), p=weights)]
        liked = version.factors_at(drawn).astype(np.float64)
        mean = np.mean(liked / np.maximum(np.linalg.norm(liked, axis=2, keepdims=True), 1e-30), axis=1)
        evened = mean @ (basis * spread**-power) @ basis.T
        evened *= length / np.maximum(np.linalg.norm(evened, axis=1, keepdims=True), 1e-30)  # only directions matter
        samples.append(np.ascontiguousarray(evened, np.float32))
    return samples


def _bound(shares: NDArray[np.float64], n_different: int) -> float:
    """What the mean of shares is at least, with confidence; only queries that differ say something new.

    One more share of 0 stands for the misses too rare to be seen.
    """
    mean, spread = shares.mean(), shares.std()
    n = n_different + 1
    mean, square = mean * n_different / n, (spread**2 + mean**2) * n_different / n
    return max(0.0, float(mean - CONFIDENCE * np.sqrt(max(0.0, square - mean**2) / n)))


def _some(queries: NDArray[np.float32]) -> NDArray[np.float32]:
    return queries[np.sort(np.random.default_rng(0).permutation(len(queries))[:SAMPLE])]


def _tiles_to_try(version: Version) -> Sequence[Method]:
    return () if version.fitted.tiling is None else [Tiles(reach) for reach in REACHES]


def _slots_to_try(version: Version, samples: list[NDArray[np.float32]], k: int) -> Sequence[Method]:
    """Slots to try."""
    budgets = [(per_answer * k, slots) for per_answer, slots in SLOT_STEPS if per_answer * k < version.n_live]
    steps: list[Method] = [Slots(budget, min(slots, version.fitted.n_factors)) for budget, slots in budgets]
    return _if_faster(steps, version, samples, k)


def _if_faster(
    steps: Sequence[Method], version: Version, samples: list[NDArray[np.float32]], k: int
) -> Sequence[Method]:
    """Rising steps of a method; none where even the first takes longer than exact search."""
    if steps:
        seconds = _seconds([_EXACT, steps[0]], version, [sample[:GLANCE] for sample in samples], k)
        if seconds[steps[0]] > seconds[_EXACT]:
            return ()
    return steps


def _first(steps: Sequence[Step], enough: Callable[[Step], bool]) -> Step | None:
    """The first of rising steps that is enough, by halving."""
    low, high = 0, len(steps)
    while low < high:
        middle = (low + high) // 2
        if enough(steps[middle]):
            high = middle
        else:
            low = middle + 1
    return steps[low] if low < len(steps) else None


def _seconds(
    methods: Sequence[Method], version: Version, samples: list[NDArray[np.float32]], k: int
) -> dict[Method, float]:
    """The least time each method took on one thread, in turns."""
    seconds = dict.fromkeys(methods, np.inf)
    for _ in range(TURNS):
        for method in methods:
            start = time.perf_counter()
            for sample in samples:
                search(version, sample, k, method, threads=1)
            seconds[method] = min(seconds[method], time.perf_counter() - start)
    return seconds
