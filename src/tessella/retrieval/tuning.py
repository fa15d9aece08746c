"""Tuning: the fastest way that reaches a recall, measured on samples of queries."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella import _checks
from tessella._threads import thread_count
from tessella.results import EXACT, Plan, Trial
from tessella.retrieval.clustering import squared_norms
from tessella.retrieval.filters import filters_for
from tessella.retrieval.found import Found
from tessella.retrieval.slots import Effort
from tessella.retrieval.ways import EXACTLY, Exactly, Reach, Way, search_by
from tessella.versions.version import State

FEWEST_ITEMS = 5_000  # below, exact search takes microseconds
SAMPLE = 2_000
FEWEST_QUERIES, MOST_ANSWERS = 20, 200_000  # of each sample, so that tuning for a large k ends
KINDS = ((2, 0), (1, 1), (2, 1), (2, 2))  # made queries: items in each, power of the spread they are divided by
REACHES = (*np.arange(0.1, 0.6, 0.025).round(3).tolist(), 0.6, 0.65, 0.7, 0.8, 0.9, 1.0)
EFFORTS = ((4, 16), (10, 16), (10, 24), (20, 24), (40, 24), (60, 40))  # budget for each answer, slots
MOST_LIKED = 0.01  # of the made queries' items, so that one that is far too long does not stand for all
CONFIDENCE = 1.645  # standard errors of a one-sided bound of 95%
TURNS = 3
GLANCE = 64  # queries that show whether a way is worth more

Step = TypeVar("Step")

_NAMES: dict[type, Literal["exact", "tiles", "slots"]] = {Exactly: "exact", Reach: "tiles", Effort: "slots"}


def may_gain(n_items: int, target_recall: float) -> bool:
    """Whether anything but exact search is worth trying."""
    return n_items >= FEWEST_ITEMS and target_recall < 1


def sample_for(state: State, queries: ArrayLike | None) -> NDArray[np.float32] | None:
    """Queries to measure recall with, checked, if there are any."""
    if queries is None:
        return None
    asked = _checks.all_factors(queries, "queries", state.fitted.n_factors)
    if not len(asked):
        raise ValueError("queries has 0 rows, but at least 1 is needed to measure recall.")
    _checks.products_fit(asked, state.longest, "queries")
    return asked


def choose(state: State, queries: NDArray[np.float32] | None, target_recall: float, k: int = 10) -> State:
    """The version that searches by the fastest way that reaches the recall, without what other ways would need."""
    if not may_gain(state.n_live, target_recall):
        few = f"there are only {state.n_live:,} items" if target_recall < 1 else "only it reaches a recall of 1"
        plan = replace(EXACT, reason=few, target_recall=target_recall, k=k, automatic=True)
        return replace(state, plan=plan)
    plan = replace(tuned(state, queries, target_recall, k), automatic=True)
    if plan.way == "tiles":
        return replace(state, plan=plan)
    segments = tuple(replace(segment, filed=None) for segment in state.segments)
    return replace(state, plan=plan, segments=segments, fitted=replace(state.fitted, tiling=None))


def tuned(state: State, queries: NDArray[np.float32] | None, target_recall: float, k: int) -> Plan:
    """The fastest way of those that reach the recall on every sample of queries."""
    samples = plausible_samples(state) if queries is None else [_some(queries)]
    samples = [sample[: max(FEWEST_QUERIES, MOST_ANSWERS // min(k, state.n_live))] for sample in samples]
    truths = [_found(EXACTLY, state, sample, k).scores[:, -1:] for sample in samples]

    def recall_of(way: Way) -> tuple[float, float]:
        """The recall on the sample where it is least, and its bound."""
        if way == Reach(1.0):
            return 1.0, 1.0
        recalls = []
        for sample, truth in zip(samples, truths, strict=True):
            hits = np.mean(_found(way, state, sample, k).scores >= truth - 1e-5 * np.abs(truth), axis=1)
            recalls.append((float(hits.mean()), _bound(hits, len(np.unique(sample, axis=0)))))
        return min(recalls, key=lambda pair: pair[1])

    found: dict[Way, tuple[float, float]] = {EXACTLY: (1.0, 1.0)}
    reach = _first(_reaches(state), lambda reach: recall_of(Reach(reach))[1] >= target_recall)
    effort = _first(_efforts(state, samples, k), lambda effort: recall_of(effort)[1] >= target_recall)
    for way in (Reach(reach) if reach is not None else None, effort):
        if way is not None:
            found[way] = recall_of(way)
    seconds = _seconds(list(found), state, samples, k)
    n = sum(map(len, samples))
    trials = tuple(
        Trial(_NAMES[type(way)], _setting(way, k), *recall, n / seconds[way]) for way, recall in found.items()
    )
    fastest = min(found, key=seconds.__getitem__)
    source = "made from the items" if queries is None else "given"
    reason = f"the fastest on {n:,} queries {source} of the ways that reach a recall of {target_recall:g}"
    plan = Plan(
        _NAMES[type(fastest)],
        reason,
        recall=found[fastest],
        trials=trials,
        target_recall=target_recall,
        k=k,
        automatic=state.plan.automatic,
    )
    if isinstance(fastest, Reach):
        return replace(plan, reach=fastest.reach)
    if isinstance(fastest, Effort):
        return replace(plan, budget_per_answer=fastest.budget // k, max_slots=fastest.max_slots)
    return plan


def plausible_samples(state: State, seed: int = 0) -> list[NDArray[np.float32]]:
    """Samples of queries like users' factors, made from items: several kinds, since nobody knows which fits.

    A user is the mean direction of one or two items, the longer the likelier, but none likelier than 1 in 100. Gradient
    steps leave it about so; least squares divide every principal axis by the items' spread along it, or by its square,
    as KINDS say.
    """
    rng = np.random.default_rng(seed)
    factors = np.concatenate([segment.factors[segment.live] for segment in state.segments])
    lengths = np.sqrt(squared_norms(factors))
    for _ in range(8):
        lengths = np.minimum(lengths, lengths.sum() * MOST_LIKED)
    weights = lengths / lengths.sum() if lengths.sum() > 0 else None
    basis, squares = state.fitted.basis, state.fitted.spectrum
    spread = np.sqrt(np.maximum(squares / squares.max(), 1e-9) if squares.max() > 0 else np.ones_like(squares))
    samples = []
    for n_items, power in KINDS:
        liked = factors[rng.choice(len(factors), (SAMPLE // len(KINDS), n_items), p=weights)].astype(np.float64)
        mean = np.mean(liked / np.maximum(np.linalg.norm(liked, axis=2, keepdims=True), 1e-30), axis=1)
        evened = mean @ (basis * spread**-power) @ basis.T
        evened /= np.maximum(np.linalg.norm(evened, axis=1, keepdims=True), 1e-30)  # only directions matter
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


def _reaches(state: State) -> Sequence[float]:
    return () if state.fitted.tiling is None else REACHES


def _efforts(state: State, samples: list[NDArray[np.float32]], k: int) -> Sequence[Effort]:
    """Efforts to try; none where even the least takes longer than exact search."""
    efforts = [Effort(per_answer * k, min(slots, state.fitted.n_factors), 1) for per_answer, slots in EFFORTS]
    efforts = [effort for effort in efforts if effort.budget < state.n_live]
    if efforts:
        few = [sample[:GLANCE] for sample in samples]
        seconds = _seconds([EXACTLY, efforts[0]], state, few, k)
        if seconds[efforts[0]] > seconds[EXACTLY]:
            return ()
    return efforts


def _setting(way: Way, k: int) -> str:
    if isinstance(way, Reach):
        return f"reach {way.reach:g}"
    return f"budget {way.budget // k} x k, {way.max_slots} slots" if isinstance(way, Effort) else ""


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


def _found(way: Way, state: State, queries: NDArray[np.float32], k: int, threads: int | None = None) -> Found:
    found = Found.empty(len(queries), min(k, state.n_live))
    ((_, filters),) = filters_for(state, len(queries), None, None)
    search_by(way, state, queries, filters, found, thread_count(threads))
    return found


def _seconds(ways: Sequence[Way], state: State, samples: list[NDArray[np.float32]], k: int) -> dict[Way, float]:
    """The least time each way took on one thread, in turns."""
    seconds = dict.fromkeys(ways, np.inf)
    for _ in range(TURNS):
        for way in ways:
            start = time.perf_counter()
            for sample in samples:
                _found(way, state, sample, k, threads=1)
            seconds[way] = min(seconds[way], time.perf_counter() - start)
    return seconds
