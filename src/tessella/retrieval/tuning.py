"""Tuning: the fastest way that reaches a recall, measured on a sample of queries."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tessella._core import thread_count
from tessella.results import EXACT, Plan, Trial
from tessella.retrieval.filters import filters_for
from tessella.retrieval.found import Found
from tessella.retrieval.segments import State
from tessella.retrieval.slots import Effort
from tessella.retrieval.ways import EXACTLY, Exactly, Reach, Way, search_by

FEWEST_ITEMS = 5_000  # below, exact search takes microseconds
SAMPLE = 1_000
REACHES = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7, 0.8, 0.9, 1.0)
EFFORTS = ((4, 16), (10, 16), (10, 24), (20, 24), (40, 24), (60, 40))  # budget for each answer, slots
CONFIDENCE = 1.645  # standard errors of a one-sided bound of 95%
TURNS = 3
TASTES = 4


def may_gain(n_items: int, target_recall: float) -> bool:
    """Whether anything but exact search is worth trying."""
    return n_items >= FEWEST_ITEMS and target_recall < 1


def plausible_queries(state: State, n: int, seed: int = 0) -> NDArray[np.float32]:
    """Queries like users' factors, made from items: a user is a mean of a few items, longer ones the likelier."""
    rng = np.random.default_rng(seed)
    factors = np.concatenate([segment.factors[segment.live] for segment in state.segments])
    lengths = np.sqrt(np.einsum("ij,ij->i", factors, factors, dtype=np.float64))
    weights = lengths / lengths.sum() if lengths.sum() > 0 else None
    liked = rng.choice(len(factors), (n, TASTES), p=weights)
    unit = factors / np.maximum(lengths, np.finfo(np.float32).tiny)[:, None].astype(np.float32)
    return np.ascontiguousarray(unit[liked].mean(axis=1, dtype=np.float32))


def choose(state: State, queries: NDArray[np.float32] | None, target_recall: float) -> State:
    """The version that searches by the fastest way that reaches the recall, without what other ways would need."""
    if not may_gain(state.n_live, target_recall):
        few = f"there are only {state.n_live:,} items" if target_recall < 1 else "only it reaches a recall of 1"
        return replace(state, plan=replace(EXACT, reason=few))
    chosen = tuned(state, queries, target_recall, k=10)
    if chosen.plan.way != "tiles":
        segments = tuple(replace(segment, filed=None) for segment in chosen.segments)
        chosen = replace(chosen, segments=segments, fitted=replace(chosen.fitted, tiling=None))
    return chosen


def tuned(state: State, queries: NDArray[np.float32] | None, target_recall: float, k: int) -> State:
    """The version whose plan is the fastest of those that reach the recall on a sample of queries."""
    if queries is None:
        queries = plausible_queries(state, SAMPLE)
        source = "queries made from the items"
    else:
        rng = np.random.default_rng(0)
        queries = queries[np.sort(rng.permutation(len(queries))[:SAMPLE])]
        source = "queries given"
    truth = _found(EXACTLY, state, queries, k)
    least = truth.scores[:, -1] - 1e-5 * np.abs(truth.scores[:, -1])

    def recall_of(way: Way) -> tuple[float, float]:
        hits = np.mean(_found(way, state, queries, k).scores >= least[:, None], axis=1)
        return float(hits.mean()), float(hits.mean() - CONFIDENCE * hits.std() / np.sqrt(len(hits)))

    ways: dict[Way, tuple[str, tuple[float, float]]] = {EXACTLY: ("", (1.0, 1.0))}
    if state.fitted.tiling is not None:
        reach = _first(REACHES, lambda reach: recall_of(Reach(reach))[1] >= target_recall)
        if reach is not None:
            ways[Reach(reach)] = (f"reach {reach:g}", recall_of(Reach(reach)))
    most = state.fitted.n_factors
    for per_answer, slots in EFFORTS:
        effort = Effort(per_answer * k, min(slots, most), 1)
        recall = recall_of(effort) if effort.budget < state.n_live else (0.0, 0.0)
        if recall[1] >= target_recall:
            ways[effort] = (f"budget {per_answer} x k, {effort.max_slots} slots", recall)
            break
    seconds = _seconds(list(ways), state, queries, k)
    trials = tuple(
        Trial(_NAMES[type(way)], setting, *recall, len(queries) / seconds[way])
        for way, (setting, recall) in ways.items()
    )
    fastest = min(ways, key=seconds.__getitem__)
    setting, recall = ways[fastest]
    reason = f"the fastest on {len(queries):,} {source} of those with a recall of at least {target_recall:g}"
    plan = Plan(_NAMES[type(fastest)], reason, recall=recall, trials=trials)
    if isinstance(fastest, Reach):
        plan = replace(plan, reach=fastest.reach)
    elif isinstance(fastest, Effort):
        plan = replace(plan, budget_per_answer=fastest.budget // k, max_slots=fastest.max_slots)
    return replace(state, plan=plan)


_NAMES: dict[type, Literal["exact", "tiles", "slots"]] = {Exactly: "exact", Reach: "tiles", Effort: "slots"}


def _first(steps: Sequence[float], enough: Callable[[float], bool]) -> float | None:
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


def _seconds(ways: Sequence[Way], state: State, queries: NDArray[np.float32], k: int) -> dict[Way, float]:
    """The least time each way took on one thread, in turns."""
    seconds = dict.fromkeys(ways, np.inf)
    for _ in range(TURNS):
        for way in ways:
            start = time.perf_counter()
            _found(way, state, queries, k, threads=1)
            seconds[way] = min(seconds[way], time.perf_counter() - start)
    return seconds
