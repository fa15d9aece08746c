"""Explain: what exact search and slots search make of one item for one query."""

import numpy as np
from numpy.typing import NDArray

from tessella import _reference
from tessella.results import Explanation, Plan, SharedSlot
from tessella.retrieval.filters import Filters
from tessella.retrieval.slots import Effort, choose
from tessella.versions.version import State

_SCORED_AT_ONCE = 2**14
_K = 10


def explain(state: State, query: NDArray[np.float32], item_id: int | str, place: int, plan: Plan) -> Explanation:
    """Set the query beside the item at a place among those of all segments."""
    factor = state.at(np.array([place]), "factors")
    row = int(state.at(np.array([place]), "rows")[0])
    score = float(_reference.scores_of(query[None], factor)[0, 0])
    _, query_slots, query_values = state.fitted.query_mapper.entries(query[None])
    _, item_slots, item_values = state.fitted.item_mapper.entries(factor)
    heaviest = np.sort(np.argsort(-np.abs(query_values), kind="stable")[: plan.max_slots])
    slots, ours, theirs = np.intersect1d(query_slots[heaviest], item_slots, return_indices=True)
    products = query_values[heaviest][ours] * item_values[theirs]
    shared = tuple(
        SharedSlot(int(slot), float(a), float(b), float(product))
        for slot, a, b, product in zip(slots, query_values[heaviest][ours], item_values[theirs], products, strict=True)
    )
    return Explanation(
        item_id=item_id,
        n_items=state.n_live,
        score=score,
        rank=_rank(state, query, score, row),
        query_slots=tuple(query_slots.tolist()),
        used_slots=len(heaviest),
        item_slots=tuple(item_slots.tolist()),
        shared=shared,
        partial_score=float(products.sum(dtype=np.float64)),
        candidate_rank=_candidate_rank(state, query, place, plan.max_slots),
        budget=plan.budget_per_answer * _K,
    )


def _rank(state: State, query: NDArray[np.float32], score: float, row: int) -> int:
    """The number of the item among all, from 1, by score and then by row."""
    ahead = 0
    for segment in state.segments:
        live = segment.live
        for first in range(0, len(live), _SCORED_AT_ONCE):
            places = live[first : first + _SCORED_AT_ONCE]
            scores = _reference.scores_of(query[None], segment.factors[places])[0]
            ahead += int(np.count_nonzero((scores > score) | ((scores == score) & (segment.rows[places] < row))))
    return ahead + 1


def _candidate_rank(state: State, query: NDArray[np.float32], place: int, max_slots: int) -> int | None:
    """The number of the item among those that slots search could choose, from 1, or None if it is not one."""
    anything = Filters(None, None, np.zeros(0, np.int64), np.zeros(2, np.int64))
    keys, counts = choose(state, query[None], anything, Effort(state.n_live, max_slots, 1))
    kept = np.sort(keys[0, : counts[0]])[::-1]
    at = np.flatnonzero((kept & np.uint64(0xFFFFFFFF)) == np.uint64(0xFFFFFFFF - place))
    return int(at[0]) + 1 if at.size else None
