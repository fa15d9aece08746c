"""Ways: the three ways to answer, exactly, by slots or by tiles; which one is asked for, and one call for all."""

import functools
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tessella import _checks
from tessella.retrieval.exact import search_exactly
from tessella.retrieval.filters import Filters
from tessella.retrieval.found import Found
from tessella.retrieval.slots import Effort, search_by_slots
from tessella.retrieval.tile_search import search_by_tiles
from tessella.versions.version import State


@dataclass(frozen=True)
class Exactly:
    """The true top k."""


@dataclass(frozen=True)
class Reach:
    """By tiles, believing this share of every bound."""

    reach: float


EXACTLY = Exactly()
Way: TypeAlias = Exactly | Reach | Effort


_planned = functools.lru_cache(maxsize=64)(Reach)


class Options(NamedTuple):
    """What a search is told about how to answer, not yet checked."""

    reach: float | None
    budget: int | None
    max_slots: int | None
    min_overlap: int
    exact: bool


MOST_REPEATED = 1_000  # answers, among which an item that is in two tiles is looked for
AS_PLANNED = Options(None, None, None, 1, False)


def way_for(state: State, k: int, options: Options) -> Way:
    """How to answer: as asked for, or as planned."""
    plan = state.plan
    untold = options == AS_PLANNED and options.exact is False and type(options.min_overlap) is int
    if untold and plan.way != "slots" and k <= MOST_REPEATED:
        return EXACTLY if plan.way == "exact" else _planned(plan.reach)
    _checks.true_or_false(options.exact, "exact")
    reach = None if options.reach is None else _checks.number_between(options.reach, "reach", 0.0, 1.0)
    budget = None if options.budget is None else _checks.whole_number(options.budget, "budget", 1)
    max_slots = None if options.max_slots is None else _checks.whole_number(options.max_slots, "max_slots", 1)
    overlap = _checks.whole_number(options.min_overlap, "min_overlap", 1)
    by_slots = budget is not None or max_slots is not None or overlap > 1
    if reach is not None and state.fitted.tiling is None:
        raise ValueError("reach is for tiles, but the index has none; build it with schema=tessella.LearnedTiles().")
    if reach is not None and by_slots:
        raise ValueError("reach is for tiles, but budget, max_slots and min_overlap are for slots; pass one of both.")
    if options.exact or (plan.way == "exact" and reach is None and not by_slots):
        return EXACTLY
    if reach is not None or (plan.way == "tiles" and not by_slots):
        tiling = state.fitted.tiling
        crowded = tiling is not None and tiling.settings.spill > 1 and k > MOST_REPEATED
        return EXACTLY if crowded else Reach(plan.reach if reach is None else reach)
    scored = max(k, plan.budget_per_answer * k if budget is None else budget)
    if scored >= state.n_live:
        return EXACTLY
    most = state.fitted.n_factors  # slots of a query
    return Effort(scored, min(max_slots or plan.max_slots, most), min(overlap, most + 1))


def search_by(
    way: Way, state: State, queries: NDArray[np.float32], filters: Filters, found: Found, threads: int
) -> None:
    """Fill in the answers to all queries."""
    if isinstance(way, Reach) and state.fitted.tiling is not None:
        search_by_tiles(state, state.fitted.tiling, queries, filters, way.reach, found, threads)
        return
    if not isinstance(way, Effort):
        search_exactly(state, queries, filters, found, threads)
        return
    short = search_by_slots(state, queries, filters, way, found, threads)
    if len(short):
        again = Found.empty(len(short), found.scores.shape[1])
        search_exactly(state, queries[short], filters.only(short), again, threads)
        found.put(short, again)
