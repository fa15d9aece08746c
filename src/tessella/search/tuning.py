"""Tuning: choose, for every k, the fastest method that reaches the target recall."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella import _checks
from tessella.retrieval.plan import EXACT_PLAN, Exact, Method, Plan, Slots, Step, Tiles, Trial, between
from tessella.retrieval.tiles import LearnedTiles
from tessella.search.made_up import SAMPLE, made_up_queries
from tessella.search.measuring import Samples, seconds_of
from tessella.search.staleness import checked_recall
from tessella.versions.version import Version

FEWEST_ITEMS = 5_000  # with fewer, exact search takes microseconds
DEPTHS = (1, 10, 30, 100, 300, 1_000)  # every plan is measured at these k, in addition to the requested one
EXCLUDED = {1: (50, 5, 300), 10: (90, 5, 300), 100: (300,), 1_000: (300,)}  # by k: how many of the best to exclude
REACHES = (*np.arange(0.1, 0.6, 0.025).round(3).tolist(), 0.6, 0.65, 0.7, 0.8, 0.9, 1.0)
SLOT_STEPS = ((4, 16), (10, 16), (10, 24), (20, 24), (40, 24), (60, 40))  # budget per answer, number of slots
GLANCE = 64  # queries for a quick test of whether slots are worth measuring
MOST_TIMED, ANSWERS_TIMED, FEWEST_TIMED = 256, 6_000, 16  # queries, answers

_EXACT = Exact()


def may_gain(n_items: int, target_recall: float) -> bool:
    """Return whether anything other than exact search is worth trying."""
    return n_items >= FEWEST_ITEMS and target_recall < 1


def checked_queries(queries: ArrayLike | None, n_factors: int, longest: float) -> NDArray[np.float32] | None:
    """Check the queries to measure recall with, if there are any."""
    if queries is None:
        return None
    asked = _checks.all_factors(queries, "queries", n_factors)
    if not len(asked):
        raise ValueError("queries has 0 rows, but at least 1 is needed to measure recall.")
    asked = asked[asked.any(axis=1)]  # for a query of zeros, every method has a recall of 1
    if not len(asked):
        raise ValueError("queries holds only zeros, but measuring recall needs at least 1 non-zero query.")
    _checks.products_fit(asked, longest, "queries")
    return asked


def choose(version: Version, queries: NDArray[np.float32] | None, target_recall: float, k: int = 10) -> Version:
    """Return the version with the fastest methods that reach the recall; tiles are dropped if no method uses them."""
    if not may_gain(version.n_live, target_recall):
        few = f"there are only {version.n_live:,} items" if target_recall < 1 else "only it has a recall of 1"
        return replace(version, plan=replace(EXACT_PLAN, reason=few, target_recall=target_recall, k=k, automatic=True))
    plan = replace(tuned(version, queries, target_recall, k), automatic=True)
    if any(isinstance(method, Tiles) for method in plan.methods):
        return replace(version, plan=plan)
    segments = tuple(replace(segment, tiles=None) for segment in version.segments)
    return replace(version, plan=plan, segments=segments, fitted=replace(version.fitted, tiling=None))


def tiles_to_rebuild(version: Version) -> LearnedTiles | None:
    """Return the tiles to learn in a rebuild: those the index has, or those that "auto" would try."""
    plan, tiling = version.plan, version.fitted.tiling
    if plan.automatic and plan.target_recall is not None:
        return LearnedTiles() if may_gain(version.n_live, plan.target_recall) else None
    return None if tiling is None else tiling.parameters


def planned_again(version: Version, queries: NDArray[np.float32] | None) -> Version:
    """Return the version with its plan measured again, if it was measured."""
    plan = version.plan
    if plan.target_recall is None:
        return version
    if plan.automatic:
        return choose(version, queries, plan.target_recall, plan.k)
    return replace(version, plan=tuned(version, queries, plan.target_recall, plan.k))


def tuned(
    version: Version,
    queries: NDArray[np.float32] | list[NDArray[np.float32]] | None,
    target_recall: float,
    k: int,
    *,
    source: str = "given",
    pause: Callable[[], None] = lambda: None,
) -> Plan:
    """Choose, for every k, the fastest method that reaches the recall on every sample of queries.

    Each kind of query is a sample of its own. `pause` is called between measurements and may raise to stop them.
    """
    made_up = made_up_queries(version)
    given = queries if isinstance(queries, list) else [] if queries is None else [queries]
    asked = [_some(sample) for sample in given] or made_up
    samples = Samples(version, asked, k, target_recall, pause)
    chosen = _chosen(samples)
    trials = [trial for depth in sorted(chosen) for trial in chosen[depth]]
    methods = {depth: _fastest(tried) for depth, tried in chosen.items()}
    excluding = _excluding(samples, methods)
    trials += [
        _trial(samples, method, depth, None, n)
        for depth, method in sorted(excluding.items())
        for n in sorted(_excluded(samples, depth))
    ]
    found = samples.least(methods[k], k)
    return Plan(
        methods[k],
        f"the fastest method with a recall of at least {target_recall:g}, on {len(samples):,} queries "
        f"{'generated from the items' if queries is None else source}",
        recall=(found.mean, found.at_least),
        trials=tuple(trials),
        target_recall=target_recall,
        k=k,
        automatic=version.plan.automatic,
        steps=_steps(methods, excluding),
        n_items=version.n_live,
        check=None if isinstance(methods[k], Exact) else checked_recall(version, made_up, methods[k], k),
    )


def _chosen(samples: Samples) -> dict[int, list[Trial]]:
    """Return by k what was tried: exact search, and the cheapest settings of other methods that reach the recall."""
    version, trials = samples.version, dict[int, list[Trial]]()
    reaches: dict[int, int] = {}  # by k, the number in REACHES of the smallest that reaches the recall
    for k in _outwards(samples):
        methods: list[Method] = [_EXACT]
        if version.fitted.tiling is not None:
            reaches[k] = _least_reach(samples, k, _guess(reaches, k))
            methods.append(Tiles(REACHES[reaches[k]]))
        if k == samples.k or isinstance(_fastest(trials[samples.k]), Slots):
            methods += _least_slots(samples, k)
        timed = samples.at_most(min(MOST_TIMED, max(FEWEST_TIMED, ANSWERS_TIMED // k)))
        seconds = seconds_of(methods, version, timed, min(k, version.n_live))
        trials[k] = [_trial(samples, method, k, sum(map(len, timed)) / seconds[method]) for method in methods]
    return trials


def _excluding(samples: Samples, methods: dict[int, Method]) -> dict[int, Method]:
    """Return by k, where tiles were chosen, the method that reaches the recall for any number of excluded items."""
    excluding: dict[int, Method] = {}
    for k, method in methods.items():
        if isinstance(method, Tiles) and _excluded(samples, k):
            at = REACHES.index(method.reach)
            for n_excluded in _excluded(samples, k):
                at = max(at, _least_reach(samples, k, at, n_excluded, at))
            excluding[k] = Tiles(REACHES[at]) if REACHES[at] < 1 else _EXACT
    return excluding


def _steps(methods: dict[int, Method], excluding: dict[int, Method]) -> tuple[Step, ...]:
    """Return the steps of a plan. If a k was not measured with items excluded, its method is interpolated."""
    measured, steps = sorted(excluding.items()), []
    for k, method in sorted(methods.items()):
        behind: Method = _EXACT  # also if slots or exact search are the fastest
        if isinstance(method, Tiles) and measured and measured[0][0] <= k <= measured[-1][0]:
            behind = between(k, measured)
            if isinstance(behind, Tiles) and behind.reach < method.reach:
                behind = method
        steps.append(Step(k, method, behind))
    return tuple(steps)


def _outwards(samples: Samples) -> list[int]:
    """Return the k to measure: the requested one first, then the others, the nearest first."""
    depths = {samples.k, *(depth for depth in DEPTHS if depth < samples.version.n_live)}
    return sorted(depths, key=lambda depth: (_far(depth, samples.k), depth))


def _far(depth: int, other: int) -> float:
    return abs(float(np.log(depth / other)))


def _excluded(samples: Samples, k: int) -> list[int]:
    """Return how many items to exclude when measuring at k."""
    near = EXCLUDED.get(min(EXCLUDED, key=lambda measured: _far(measured, k))) if k == samples.k else EXCLUDED.get(k)
    return [n for n in near or () if k + n <= samples.deepest]


def _least_reach(samples: Samples, k: int, guess: int | None, n_excluded: int = 0, at_least: int = 0) -> int:
    """Return the number in REACHES of the smallest that reaches the recall."""
    return _first(len(REACHES), lambda at: samples.reaches(Tiles(REACHES[at]), k, n_excluded), guess, at_least)


def _guess(reaches: dict[int, int], k: int) -> int | None:
    """Guess the number in REACHES to try first: if k is ten times as large, the reach is lower by about 0.1."""
    if not reaches:
        return None
    near = min(reaches, key=lambda other: _far(other, k))
    guess = reaches[near] - round(4 * float(np.log10(k / near)))
    return min(max(guess, 0), len(REACHES) - 1)


def _least_slots(samples: Samples, k: int) -> Sequence[Method]:
    """Return the cheapest slots search that reaches the recall, unless even the cheapest is slower than exact."""
    version = samples.version
    budgets = [(per_answer * k, slots) for per_answer, slots in SLOT_STEPS if per_answer * k < version.n_live]
    steps = [Slots(budget, min(slots, version.fitted.n_factors)) for budget, slots in budgets]
    if not steps:
        return ()
    seconds = seconds_of([_EXACT, steps[0]], version, samples.at_most(GLANCE), min(k, version.n_live))
    if seconds[steps[0]] > seconds[_EXACT]:
        return ()
    first = _first(len(steps), lambda at: samples.reaches(steps[at], k))
    return steps[first : first + 1]


def _fastest(trials: list[Trial]) -> Method:
    return max(trials, key=lambda trial: trial.queries_per_second or 0).method


def _trial(samples: Samples, method: Method, k: int, speed: float | None, n_excluded: int = 0) -> Trial:
    found = samples.least(method, k, n_excluded)
    return Trial(method, found.mean, found.at_least, speed, k, n_excluded, found.share_below)


def _some(queries: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return a sample of the queries in random order, so that any prefix is a sample too."""
    return queries[np.random.default_rng(0).permutation(len(queries))[:SAMPLE]]


def _first(n: int, enough: Callable[[int], bool], guess: int | None = None, low: int = 0) -> int:
    """Return the first of n ascending steps that is enough, or n: by bisection, or in growing strides from a guess."""
    high, stride = n, n if guess is None else 1
    at = (low + high) // 2 if guess is None else guess
    while low < high:
        if enough(at):
            high, at = at, at - stride
        else:
            low, at = at + 1, at + stride
        stride *= 2
        if not low <= at < high:
            at = (low + high) // 2
    return low
