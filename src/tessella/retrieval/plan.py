"""Plan: the three methods, their settings, and what an index does unless a search says otherwise."""

import json
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias, get_args

from tessella import _checks
from tessella._numbers import EXACT, SLOTS, TILES

BUDGET_PER_ANSWER = 40
MAX_SLOTS = 24


class Setting(NamedTuple):
    """A method as the engine takes it."""

    method: int  # EXACT, TILES or SLOTS
    reach: float = 0.0
    budget: int = 0  # 0 for all items that share enough slots
    max_slots: int = 1
    min_overlap: int = 1


@dataclass(frozen=True)
class Exact:
    """The true top k, certified by bounds.

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
        """The method in numbers."""
        return Setting(EXACT)


@dataclass(frozen=True)
class Tiles:
    """Visit the learned tiles that may hold answers. For an index with tiles.

    Parameters
    ----------
    reach : float, default 0.5
        How far the bounds of tiles are trusted, 0 to 1. More finds more of the true top k and takes longer; 1 certifies
        the answers.

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
        """The method in numbers."""
        return Setting(TILES, reach=self.reach)


@dataclass(frozen=True)
class Slots:
    """Choose items by their partial products over the slots they share with the query, and score only those (P12).

    A query that gets fewer than k answers this way, although more items could answer, is answered exactly, unless the
    budget is "all".

    Parameters
    ----------
    budget : int, "all" or None, default None
        How many items are scored for a query; at least k are. More finds more of the true top k and takes longer; as
        many as there are items is exact search. None is 40 for each of the k. "all" scores every item that shares
        enough slots and no others, so a query may get fewer than k answers.
    max_slots : int, "all" or None, default None
        How many of a query's slots are used, those with the largest values. More rank items better and take longer.
        None is 24.
    min_overlap : int, default 1
        How many of these slots an item must share to be scored. Larger values score fewer items.
    threshold_queries : bool, default False
        Whether the schema's threshold applies to queries, too. An absolute threshold then cuts short queries harder
        than long ones. ``Slots("all", "all", threshold_queries=True)`` is the paper's own rule: score every item that
        shares a slot.

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
        """The method in numbers, for the top k of so many items."""
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
    """A method as it was measured.

    Attributes
    ----------
    method : Exact, Tiles or Slots
        What was measured, with its setting.
    recall : float
        Share of the true top k that it found.
    recall_low : float
        What that share is at least, with a confidence of 95%.
    queries_per_second : float
        Its speed on one thread.
    """

    method: Method
    recall: float
    recall_low: float
    queries_per_second: float


@dataclass(frozen=True)
class Plan:
    """How an index answers unless a search says otherwise.

    Attributes
    ----------
    method : Exact, Tiles or Slots
        The method, with its setting.
    reason : str
        Why this one.
    recall : tuple of two floats, or None
        The share of the true top k that it found, and what that is at least with a confidence of 95%; None where
        nothing was measured.
    trials : tuple of Trial
        What was measured to decide.
    target_recall : float or None
        The share of the true top k that was asked for; None where nothing was measured.
    k : int
        For how many answers.
    automatic : bool
        Whether the index was built with ``method="auto"``, so that `rebuild` chooses among all methods again.
    """

    method: Method
    reason: str
    recall: tuple[float, float] | None = None
    trials: tuple[Trial, ...] = ()
    target_recall: float | None = None
    k: int = 10
    automatic: bool = False

    def method_for(self, k: int) -> Method:
        """The method for the top k; a budget grows with it."""
        method = self.method
        if isinstance(method, Slots) and isinstance(method.budget, int) and k != self.k:
            return replace(method, budget=-(-method.budget * k // self.k))
        return method

    def __str__(self) -> str:
        lines = [f"{self.method}: {self.reason}"]
        lines += [
            f"  {trial.method!s:<36} recall {trial.recall:.4f} (at least {trial.recall_low:.4f}) "
            f"{trial.queries_per_second:>10,.0f} queries/s"
            for trial in self.trials
        ]
        return "\n".join(lines)


EXACT_PLAN = Plan(Exact(), "it certifies its answers")
TILES_PLAN = Plan(Tiles(), "the index was built with tiles; tune() chooses the reach for a recall")
_BY_NAME: dict[str, type[Method]] = {kind.name: kind for kind in METHODS}


def plan_to_json(plan: Plan) -> str:
    """A plan as JSON text."""
    plain = asdict(plan)
    plain["method"] = _method_to_plain(plan.method)
    plain["trials"] = [[_method_to_plain(trial.method), *trial[1:]] for trial in plan.trials]
    return json.dumps(plain)


def plan_from_json(text: str, *, tiled: bool) -> Plan:
    """The plan that `plan_to_json` wrote, of an index with or without tiles."""
    given = json.loads(text)
    if "way" in given:
        return _plan_of_format_2(given, tiled=tiled)
    trials = tuple(Trial(_method_from_plain(method), *map(float, rest)) for method, *rest in given["trials"])
    return _checked(Plan(**(given | {"method": _method_from_plain(given["method"]), "trials": trials})), tiled=tiled)


def _plan_of_format_2(given: dict[str, Any], *, tiled: bool) -> Plan:
    """Before format 3, a plan named its method and had the settings of all; what was measured is not kept."""
    k = _checks.whole_number(given.get("k", 10), "k", 1)
    budget = _checks.whole_number(given["budget_per_answer"], "budget_per_answer", 1) * k
    slots, tiles = Slots(budget, given["max_slots"]), Tiles(given["reach"])
    methods: dict[str, Method] = {"exact": Exact(), "tiles": tiles, "slots": slots}
    method = methods[_checks.one_of(given["way"], "way", tuple(methods))]
    kept = {name: given[name] for name in ("reason", "recall", "target_recall", "automatic") if name in given}
    return _checked(Plan(method, k=k, **kept), tiled=tiled)


def _checked(plan: Plan, *, tiled: bool) -> Plan:
    if isinstance(plan.method, Tiles) and not tiled:
        raise ValueError("the plan is for tiles, but there are none")
    if plan.target_recall is not None:
        _checks.number_between(plan.target_recall, "target_recall", 0.0, 1.0)
    _checks.whole_number(plan.k, "k", 1)
    _checks.true_or_false(plan.automatic, "automatic")
    recall = None if plan.recall is None else (float(plan.recall[0]), float(plan.recall[1]))
    return replace(plan, reason=str(plan.reason), recall=recall)


def _method_to_plain(method: Method) -> dict[str, object]:
    return {"method": method.name, **asdict(method)}


def _method_from_plain(plain: dict[str, Any]) -> Method:
    setting = dict(plain)
    return _BY_NAME[_checks.one_of(setting.pop("method", None), "method", tuple(_BY_NAME))](**setting)
