"""Explain: what exact search and slots search make of one item for one query."""

import numpy as np
from numpy.typing import NDArray

from tessella._kernels import core
from tessella._numbers import SLOTS
from tessella._packing import candidate_positions
from tessella._threads import cut
from tessella.results import Explanation, SharedSlot
from tessella.retrieval.plan import Setting, Slots
from tessella.retrieval.postings import Entries
from tessella.versions.version import Version

_SCORED_AT_ONCE = 2**14
_K = 10
_MANY = 2**31  # items, so that a budget is not taken for exact search


def explain(version: Version, query: NDArray[np.float32], item_id: int | str, position: int) -> Explanation:
    """Set the query beside the item at a position."""
    planned = version.plan.method_for(_K)
    method = planned if isinstance(planned, Slots) else Slots()
    setting = Setting(SLOTS, *method.setting(_K, _MANY, version.n_factors)[1:])
    mapper = version.fitted.item_mapper if method.threshold_queries else version.fitted.query_mapper
    entries = mapper.entries(query[None])
    at = np.array([position])
    factor, row = version.factors_at(at), int(version.rows_at(at)[0])
    score = float(_scores(query, factor)[0])
    _, query_slots, query_values = entries
    _, item_slots, item_values = version.fitted.item_mapper.entries(factor)
    heaviest = np.sort(np.argsort(-np.abs(query_values), kind="stable")[: setting.max_slots])
    slots, ours, theirs = np.intersect1d(query_slots[heaviest], item_slots, return_indices=True)
    products = query_values[heaviest][ours] * item_values[theirs]
    shared = tuple(
        SharedSlot(int(slot), float(a), float(b), float(product))
        for slot, a, b, product in zip(slots, query_values[heaviest][ours], item_values[theirs], products, strict=True)
    )
    return Explanation(
        item_id=item_id,
        n_items=version.n_live,
        score=score,
        rank=_rank(version, query, score, row),
        query_slots=tuple(query_slots.tolist()),
        used_slots=len(heaviest),
        item_slots=tuple(item_slots.tolist()),
        shared=shared,
        partial_score=float(products.sum(dtype=np.float64)),
        candidate_rank=_candidate_rank(version, query, position, setting, entries),
        budget=setting.budget or version.n_live,
    )


def _scores(query: NDArray[np.float32], factors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scores as searches compute them."""
    running = core()
    scores: NDArray[np.float32] = np.empty((1, len(factors)), np.float32)
    running.kernels.inner_products(query[None], np.ascontiguousarray(factors), scores, running.level)
    return scores.ravel()


def _rank(version: Version, query: NDArray[np.float32], score: float, row: int) -> int:
    """The number of the item among all, from 1, by score and then by row."""
    ahead = 0
    for segment in version.segments:
        live = segment.live
        for part in cut(len(live), _SCORED_AT_ONCE):
            scores, rows = _scores(query, segment.factors[live[part]]), segment.rows[live[part]]
            ahead += int(np.count_nonzero((scores > score) | ((scores == score) & (rows < row))))
    return ahead + 1


def _candidate_rank(
    version: Version, query: NDArray[np.float32], position: int, setting: Setting, entries: Entries
) -> int | None:
    """The number of the item among those that slots search could choose, from 1, or None if it is not one."""
    room = np.empty(version.n_live, np.uint64)
    ranked = np.sort(version.engine.choose(query, setting, entries, room))[::-1]
    at = np.flatnonzero(candidate_positions(ranked) == position)
    return int(at[0]) + 1 if at.size else None
