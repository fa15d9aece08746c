"""Plan: the three search methods, their settings, and which of them an index uses by default."""

import itertools
import json
import math
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias, get_args

from tessella import _checks
from tessella._numbers import EXACT, SLOTS, TILES

BUDGET_PER_ANSWER = 40
MAX_SLOTS = 24
LOW_RECALL = 0.8  # a query with a lower recall counts as badly answered
REACH_STEPS = 80  # interpolated reaches are rounded up to multiples of 1/80, so that few different ones occur


class Setting(NamedTuple):
    """A method in the form that the engine reads."""

    method: int  # EXACT, TILES or SLOTS
    reach: float = 0.0
    budget: int = 0  # 0 means all items that share enough slots
    max_slots: int = 1
    min_overlap: int = 1


@dataclass(frozen=True)
class Exact:
    """Search for the true top k, certified by bounds.

    Examples
    --------
    >>> import numpy as np
    >>> import tessella as ts
    >>> index = ts.Index.build(np.eye(3))
    >>> index.search([3.0, 2.0, 1.0], k=2, method=ts.Exact()).ids
    array([0, 1])
    """

    name: ClassVar[str] = "exact"
    queries_per_call: ClassVar[int] = 128
    depends_on_k: ClassVar[bool] = False

    def __str__(self) -> str:
        return self.name

    def setting(self, k: int, n_items: int, n_factors: int) -> Setting:  # noqa: ARG002
        """Return the setting for the engine."""
        return Setting(EXACT)


@dataclass(frozen=True)
class Tiles:
    """Search only the learned tiles that may hold answers. The index must have tiles.

    Parameters
    ----------
    reach : float, default 0.5
        The share of each tile's radius that its bound includes, 0 to 1. A larger reach finds more of the true top k and
        takes longer; 1 certifies the answers.

    Examples
    --------
    >>> import tessella as ts
    >>> from tessella.datasets import generated_factors
    >>> item_factors, user_factors = generated_factors(5_000, 10)
    >>> index = ts.Index.build(item_factors, method=ts.LearnedTiles())
    >>> index.search(user_factors, method=ts.Tiles(reach=1.0)).certified.all()
    np.True_
    """

    reach: float = 0.5

    name: ClassVar[str] = "tiles"
    queries_per_call: ClassVar[int] = 512
    depends_on_k: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Check the reach."""
        object.__setattr__(self, "reach", _checks.number_between(self.reach, "reach", 0.0, 1.0))

    def __str__(self) -> str:
        return f"tiles, reach {self.reach:g}"

    def setting(self, k: int, n_items: int, n_factors: int) -> Setting:  # noqa: ARG002
        """Return the setting for the engine."""
        return Setting(TILES, reach=self.reach)


@dataclass(frozen=True)
class Slots:
    """Rank items by partial products over the slots they share with the query, and score only the best (P12).

    If this finds fewer than k answers although more items could answer, the query is answered exactly, unless the
    budget is "all".

    Parameters
    ----------
    budget : int, "all" or None, default None
        How many items to score per query; never fewer than k. A larger budget finds more of the true top k and takes
        longer; a budget of all items is exact search. None means 40 k. "all" scores every item that shares enough
        slots, and no others, so a query may get fewer than k answers.
    max_slots : int, "all" or None, default None
        How many of a query's slots to use; those with the largest values are used. More slots rank items better and
        take longer. None means 24.
    min_overlap : int, default 1
        How many of these slots an item must share to be scored. A larger value scores fewer items.
    threshold_queries : bool, default False
        Whether to apply the schema's threshold to queries too. An absolute threshold then removes more coordinates of
        short queries than of long ones. ``Slots("all", "all", threshold_queries=True)`` is the paper's own rule: score
        every item that shares a slot.

    Examples
    --------
    >>> import tessella as ts
    >>> from tessella.datasets import generated_factors
    >>> item_factors, user_factors = generated_factors(5_000, 10)
    >>> index = ts.Index.build(item_factors, method="exact")
    >>> index.search(user_factors, k=10, method=ts.Slots(budget=200)).n_scored.max() <= 200
    np.True_
    """

    budget: int | Literal["all"] | None = None
    max_slots: int | Literal["all"] | None = None
    min_overlap: int = 1
    threshold_queries: bool = False

    name: ClassVar[str] = "slots"
    queries_per_call: ClassVar[int] = 128
    depends_on_k: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in ("budget", "max_slots"):
            value = getattr(self, name)
            if isinstance(value, str):
                _checks.one_of(value, name, ("all",))
            elif value is not None:
                object.__setattr__(self, name, _checks.whole_number(value, name, 1))
        object.__setattr__(self, "min_overlap", _checks.whole_number(self.min_overlap, "min_overlap", 1))
        _checks.true_or_false(self.threshold_queries, "threshold_queries")

    def __str__(self) -> str:
        budget = f"{BUDGET_PER_ANSWER} x k" if self.budget is None else self.budget
        overlap = f", overlap {self.min_overlap}" if self.min_overlap > 1 else ""
        cut = ", queries thresholded" if self.threshold_queries else ""
        slots = MAX_SLOTS if self.max_slots is None else self.max_slots
        return f"slots, budget {budget}, {slots} slots{overlap}{cut}"

    def setting(self, k: int, n_items: int, n_factors: int) -> Setting:
        """Return the setting for the engine, for the top k of `n_items` items."""
        max_slots = n_factors if self.max_slots == "all" else min(self.max_slots or MAX_SLOTS, n_factors)
        overlap = min(self.min_overlap, n_factors + 1)
        if self.budget == "all":
            return Setting(SLOTS, budget=0, max_slots=max_slots, min_overlap=overlap)
        budget = max(k, BUDGET_PER_ANSWER * k if self.budget is None else self.budget)
        if budget >= n_items:
            return Setting(EXACT)
        return Setting(SLOTS, budget=budget, max_slots=max_slots, min_overlap=overlap)


Method: TypeAlias = Exact | Tiles | Slots
METHODS: tuple[type[Method], ...] = get_args(Method)


class Trial(NamedTuple):
    """The measurement of a method.

    Attributes
    ----------
    method : Exact, Tiles or Slots
        The method and its setting.
    recall : float
        The share of the true top k that it found.
    recall_low : float
        A lower bound of the recall, with 95% confidence.
    queries_per_second : float or None
        Its speed on one thread; None if it was not timed.
    k : int
        The number of answers.
    n_excluded : int
        How many of each query's best items were excluded.
    share_below : float
        The share of queries whose recall was below 0.8.
    """

    method: Method
    recall: float
    recall_low: float
    queries_per_second: float | None
    k: int = 10
    n_excluded: int = 0
    share_below: float = 0.0


class Step(NamedTuple):
    """The methods of a plan at one k that was measured.

    Attributes
    ----------
    k : int
        The number of answers.
    method : Exact, Tiles or Slots
        The method for queries that exclude nothing.
    excluding : Exact, Tiles or Slots
        The method for queries that exclude items.
    """

    k: int
    method: Method
    excluding: Method


@dataclass(frozen=True)
class Plan:
    """The default search methods of an index.

    Attributes
    ----------
    method : Exact, Tiles or Slots
        The method for the top `k`, with its setting.
    reason : str
        Why it was chosen.
    recall : tuple of two floats, or None
        The measured share of the true top k, and its lower bound with 95% confidence; None if nothing was measured.
    trials : tuple of Trial
        The measurements behind the choice.
    target_recall : float or None
        The requested share of the true top k; None if nothing was measured.
    k : int
        The number of answers to which `method` and `recall` refer.
    automatic : bool
        Whether the index was built with ``method="auto"``, so that `rebuild` chooses among all methods again.
    steps : tuple of Step
        The methods at each k that was measured, ascending; empty if nothing was measured, and in files of format 3 or
        earlier.
    n_items : int or None
        The number of items at the time of measurement; None if nothing was measured.
    check : tuple of pairs of floats, or None
        Recall at k on each kind of query generated from the items, and its standard error. Later measurements are
        compared with it, to see whether changed items have made the plan stale.
    stale : str
        If recall has fallen below the target since, by how much and what to do; otherwise empty.
    """

    method: Method
    reason: str
    recall: tuple[float, float] | None = None
    trials: tuple[Trial, ...] = ()
    target_recall: float | None = None
    k: int = 10
    automatic: bool = False
    steps: tuple[Step, ...] = ()
    n_items: int | None = None
    check: tuple[tuple[float, float], ...] | None = None
    stale: str = ""

    @property
    def methods(self) -> tuple[Method, ...]:
        """All methods of the plan."""
        return (self.method, *(method for step in self.steps for method in step[1:]))

    @property
    def deepest(self) -> int:
        """The largest k + n_excluded among the measurements with excluded items."""
        return max((trial.k + trial.n_excluded for trial in self.trials if trial.n_excluded), default=0)

    @property
    def most_excluded(self) -> int:
        """The largest number of a query's best items that were excluded in a measurement."""
        return max((trial.n_excluded for trial in self.trials), default=0)

    def method_for(self, k: int, n_excluded: int = 0) -> Method:
        """Return the method for the top k of a query that excludes `n_excluded` items.

        Parameters
        ----------
        k : int
            The number of answers. Between two measured values of k, the reach is interpolated, but is never below that
            of the larger k. Beyond the largest measured k, search is exact.
        n_excluded : int, default 0
            How many items the query excludes. They may be its best items, so answers may rank `n_excluded` places
            lower. Beyond the largest measured number, search is exact.

        Examples
        --------
        >>> import numpy as np
        >>> import tessella as ts
        >>> ts.Index.build(np.eye(3)).plan.method_for(k=2, n_excluded=1)
        Exact()
        """
        if not self.steps:
            return self._unmeasured(k)
        if k > self.steps[-1].k or n_excluded > self.most_excluded:
            return _EXACT
        return between(k, [(step.k, step.excluding if n_excluded else step.method) for step in self.steps])

    def _unmeasured(self, k: int) -> Method:
        """Return the method of a plan that was not measured; a budget is scaled to k."""
        method = self.method
        if isinstance(method, Slots) and isinstance(method.budget, int) and k != self.k:
            return replace(method, budget=-(-method.budget * k // self.k))
        return method

    def __str__(self) -> str:
        lines = [f"{self.method}: {self.reason}"]
        if self.stale:
            lines.append(f"  stale: {self.stale}")
        if self.target_recall is not None and self.trials and not self.steps:
            lines.append(f"  measured at k = {self.k} only; tune() measures other k too")
        if self.trials:
            k_width, out_width = (max(len(title), 5) for title in ("k", "excluded"))
            lines.append(
                f"  {'k':>{k_width}} {'excluded':>{out_width}}  {'method':<36} {'recall':>6} {'at least':>8} "
                f"{'below 0.8':>9} {'queries/s':>10}"
            )
            lines += [
                f"  {trial.k:>{k_width},} {trial.n_excluded:>{out_width},}  {trial.method!s:<36} {trial.recall:>6.4f} "
                f"{trial.recall_low:>8.4f} {trial.share_below:>9.1%} "
                + ("-" if trial.queries_per_second is None else f"{trial.queries_per_second:,.0f}").rjust(10)
                for trial in self.trials
            ]
        return "\n".join(lines)


def between(k: int, steps: list[tuple[int, Method]]) -> Method:
    """Return the method for the top k, given the methods at the k that were measured."""
    above = next(number for number, (measured, _) in enumerate(steps) if measured >= k)
    large, method = steps[above]
    if large == k or not above:
        return method
    small, other = steps[above - 1]
    if isinstance(method, Tiles) and isinstance(other, Tiles):
        share = math.log(k / small) / math.log(large / small)
        reach = max(method.reach, other.reach + share * (method.reach - other.reach))
        return Tiles(min(1.0, math.ceil(reach * REACH_STEPS - 1e-6) / REACH_STEPS))
    if isinstance(method, Slots) and isinstance(other, Slots):
        return _slots_between(k, (small, other), (large, method))
    return method if method == other else _EXACT


def _slots_between(k: int, *steps: tuple[int, Slots]) -> Method:
    """Return slots search with the larger budget per answer of two steps, and the larger number of slots."""
    budgets = [slots.budget * k / measured for measured, slots in steps if isinstance(slots.budget, int)]
    most = [slots.max_slots for _, slots in steps if isinstance(slots.max_slots, int)]
    if len(budgets) < len(steps) or len(most) < len(steps):
        return _EXACT
    return replace(steps[0][1], budget=math.ceil(max(budgets)), max_slots=max(most))


_EXACT = Exact()
EXACT_PLAN = Plan(_EXACT, "its answers are certified")
TILES_PLAN = Plan(Tiles(), "the index was built with tiles; tune() chooses the reach for a target recall")
_BY_NAME: dict[str, type[Method]] = {kind.name: kind for kind in METHODS}


def plan_to_json(plan: Plan) -> str:
    """Return a plan as JSON, without `stale`, which `Index.plan` works out."""
    plain = asdict(replace(plan, steps=(), trials=()))
    del plain["stale"]
    plain["method"] = _method_to_plain(plan.method)
    plain["trials"] = [[_method_to_plain(trial.method), *trial[1:]] for trial in plan.trials]
    plain["steps"] = [[step.k, *map(_method_to_plain, step[1:])] for step in plan.steps]
    return json.dumps(plain)


def plan_from_json(text: str, *, tiled: bool) -> Plan:
    """Read a plan that `plan_to_json` wrote, of an index with or without tiles."""
    given = json.loads(text)
    if "way" in given:
        return _plan_of_format_2(given, tiled=tiled)
    if "stale" in given:
        raise ValueError("a plan in a file must not have the key stale")
    trials = tuple(_trial_from_plain(given["k"], *trial) for trial in given["trials"])
    steps = tuple(_step_from_plain(*step) for step in given.get("steps", ()))
    if not all(step.k < after.k for step, after in itertools.pairwise(steps)):
        raise ValueError("the plan's steps do not ascend")
    read = {"method": _method_from_plain(given["method"]), "trials": trials, "steps": steps}
    return _checked(Plan(**(given | read)), tiled=tiled)


def _trial_from_plain(plan_k: int, method: dict[str, Any], recall: float, low: float, *rest: Any) -> Trial:
    """Read a trial. Before format 4 it had no k, since that was the plan's, nor the fields after it."""
    speed, k, n_excluded, below = (*rest, plan_k, 0, 0.0) if len(rest) == 1 else rest
    return Trial(
        _method_from_plain(method),
        float(recall),
        float(low),
        None if speed is None else float(speed),
        _checks.whole_number(k, "k", 1),
        _checks.whole_number(n_excluded, "n_excluded", 0),
        float(below),
    )


def _step_from_plain(k: int, method: dict[str, Any], excluding: dict[str, Any]) -> Step:
    return Step(_checks.whole_number(k, "k", 1), _method_from_plain(method), _method_from_plain(excluding))


def _plan_of_format_2(given: dict[str, Any], *, tiled: bool) -> Plan:
    """Read a plan from before format 3, which had the settings of all methods. Its measurements are dropped."""
    k = _checks.whole_number(given.get("k", 10), "k", 1)
    budget = _checks.whole_number(given["budget_per_answer"], "budget_per_answer", 1) * k
    slots, tiles = Slots(budget, given["max_slots"]), Tiles(given["reach"])
    methods: dict[str, Method] = {"exact": Exact(), "tiles": tiles, "slots": slots}
    method = methods[_checks.one_of(given["way"], "way", tuple(methods))]
    kept = {name: given[name] for name in ("reason", "recall", "target_recall", "automatic") if name in given}
    return _checked(Plan(method, k=k, **kept), tiled=tiled)


def _checked(plan: Plan, *, tiled: bool) -> Plan:
    if not tiled and any(isinstance(method, Tiles) for method in plan.methods):
        raise ValueError("the plan uses tiles, but the index has none")
    if plan.target_recall is not None:
        _checks.number_between(plan.target_recall, "target_recall", 0.0, 1.0)
    _checks.whole_number(plan.k, "k", 1)
    _checks.true_or_false(plan.automatic, "automatic")
    if plan.n_items is not None:
        _checks.whole_number(plan.n_items, "n_items", 0)
    recall = None if plan.recall is None else _pair(plan.recall)
    check = None if plan.check is None else tuple(map(_pair, plan.check))
    return replace(plan, reason=str(plan.reason), recall=recall, check=check)


def _pair(numbers: Any) -> tuple[float, float]:
    first, second = numbers
    return float(first), float(second)


def _method_to_plain(method: Method) -> dict[str, object]:
    return {"method": method.name, **asdict(method)}


def _method_from_plain(plain: dict[str, Any]) -> Method:
    setting = dict(plain)
    return _BY_NAME[_checks.one_of(setting.pop("method", None), "method", tuple(_BY_NAME))](**setting)
