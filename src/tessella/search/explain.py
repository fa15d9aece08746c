"""Explain why a search returned an item, or why it did not."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tessella._kernels import core
from tessella._norms import squared_norms
from tessella._numbers import SLOTS, few_allowed
from tessella._packing import candidate_positions
from tessella._threads import cut
from tessella.results import Explanation, SharedSlot, TileBound
from tessella.retrieval.plan import Exact, Method, Setting, Slots, Tiles
from tessella.retrieval.postings import Entries
from tessella.search.filters import filter_for, given
from tessella.search.route import planned, search
from tessella.versions.version import Version

_SCORED_AT_ONCE = 2**14
_MANY = 2**31  # items: more than any budget, so that the setting is never exact search


def explain(
    version: Version,
    query: NDArray[np.float32],
    item_id: int | str,
    position: int,
    k: int,
    method: Method | None,
    exclude: Any,
    allow: Any,
) -> Explanation:
    """Search, and compare the answers with the item at a position."""
    exclude, allow = given(version, exclude, "exclude", 1), given(version, allow, "allow", 1)
    found = search(version, query, k, method, exclude, allow)
    k = len(found.ids)
    at = np.array([position])
    factor, row = version.factors_at(at), int(version.rows_at(at)[0])
    score = float(_scores(query, factor)[0])
    allowed = {"exclude": rows_allowed(version, exclude, None), "allow": rows_allowed(version, None, allow)}
    may_answer = allowed["exclude"] & allowed["allow"]
    used = _used(version, k, exclude, allow) if method is None else method
    if allow is not None and np.count_nonzero(allowed["allow"][version.live_rows]) <= few_allowed(version.n_live):
        used = Exact()
    rank, rank_left = _ranks(version, query, score, row, may_answer)
    places = np.flatnonzero(found.ids == item_id)
    return Explanation(
        item_id=item_id,
        n_items=version.n_live,
        score=score,
        rank=rank,
        k=k,
        method=str(used),
        place=int(places[0]) + 1 if places.size else None,
        left_out_by=next((name for name, rows in allowed.items() if not rows[row]), None),
        n_left=int(np.count_nonzero(may_answer[version.live_rows])),
        rank_left=rank_left if may_answer[row] else None,
        last_score=float(found.scores[-1]),
        tile=_tile(version, query, factor, used) if isinstance(used, Tiles) else None,
        **_slots(version, query, position, k, used, may_answer)._asdict(),
    )


def _used(version: Version, k: int, exclude: Any, allow: Any) -> Method:
    """Return the method planned for a query with this filter."""
    if exclude is None and allow is None:
        return version.planned[k][0]
    return planned(version, k, filter_for(version, 1, exclude, allow))[0][0]


def rows_allowed(version: Version, exclude: Any, allow: Any) -> NDArray[np.bool_]:
    """Return which rows pass a filter."""
    rows = np.ones(max(version.next_row, 1), np.bool_)
    if exclude is None and allow is None:
        return rows
    bits, _, listed, starts, only = filter_for(version, 1, exclude, allow).of_queries(slice(0, 1))
    if bits is not None:
        rows &= np.unpackbits(bits, bitorder="little", count=len(rows)).astype(np.bool_)
    if starts is not None:
        named = np.zeros(len(rows), np.bool_)
        named[listed[starts[0] : starts[1]]] = True
        rows &= named if only else ~named
    return rows


def _tile(version: Version, query: NDArray[np.float32], factor: NDArray[np.float32], method: Tiles) -> TileBound | None:
    """Return the bound of the item's tile; None for the tile of the longest items, which is always visited."""
    tiling, radii = version.fitted.tiling, version.radii
    if tiling is None or radii is None:
        return None
    tiles = tiling.tiles_of(factor, 1)[0]
    if (tiles == 0).any():
        return None
    length = float(np.sqrt(squared_norms(query[None]))[0])
    scores = _scores(tiling.axes.sketch(query[None])[0], tiling.centres[tiles - 1])
    spreads = radii[tiles - 1] * length
    bounds = [TileBound(float(a), float(b), method.reach) for a, b in zip(scores, spreads, strict=True)]
    return max(bounds, key=lambda bound: bound.believed)


class _SlotFacts(NamedTuple):
    """What slots search knows about an item."""

    query_slots: tuple[int, ...]
    used_slots: int
    item_slots: tuple[int, ...]
    shared: tuple[SharedSlot, ...]
    partial_score: float
    candidate_rank: int | None
    budget: int


def _slots(
    version: Version,
    query: NDArray[np.float32],
    position: int,
    k: int,
    used: Method,
    may_answer: NDArray[np.bool_],
) -> _SlotFacts:
    """Return the slots of query and item, under the method used if it is slots search, else under its defaults."""
    method = used if isinstance(used, Slots) else Slots()
    setting = Setting(SLOTS, *method.setting(k, _MANY, version.n_factors)[1:])
    mapper = version.fitted.item_mapper if method.threshold_queries else version.fitted.query_mapper
    entries = mapper.entries(query[None])
    _, query_slots, query_values = entries
    _, item_slots, item_values = version.fitted.item_mapper.entries(version.factors_at(np.array([position])))
    heaviest = np.sort(np.argsort(-np.abs(query_values), kind="stable")[: setting.max_slots])
    slots, ours, theirs = np.intersect1d(query_slots[heaviest], item_slots, return_indices=True)
    products = query_values[heaviest][ours] * item_values[theirs]
    shared = tuple(
        SharedSlot(int(slot), float(a), float(b), float(product))
        for slot, a, b, product in zip(slots, query_values[heaviest][ours], item_values[theirs], products, strict=True)
    )
    return _SlotFacts(
        query_slots=tuple(query_slots.tolist()),
        used_slots=len(heaviest),
        item_slots=tuple(item_slots.tolist()),
        shared=shared,
        partial_score=float(products.sum(dtype=np.float64)),
        candidate_rank=_candidate_rank(version, query, position, setting, entries, may_answer),
        budget=setting.budget or version.n_live,
    )


def _scores(query: NDArray[np.float32], factors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Compute scores exactly as searches do."""
    running = core()
    scores: NDArray[np.float32] = np.empty((1, len(factors)), np.float32)
    running.kernels.inner_products(query[None], np.ascontiguousarray(factors), scores, running.level)
    return scores.ravel()


def _ranks(
    version: Version, query: NDArray[np.float32], score: float, row: int, may_answer: NDArray[np.bool_]
) -> tuple[int, int]:
    """Return the rank of the item among all items, and among those that may answer, from 1, by score, then by row."""
    ahead = ahead_left = 1
    for segment in version.segments:
        live = segment.live
        for part in cut(len(live), _SCORED_AT_ONCE):
            scores, rows = _scores(query, segment.factors[live[part]]), segment.rows[live[part]]
            better = rows[(scores > score) | ((scores == score) & (rows < row))]
            ahead += len(better)
            ahead_left += int(np.count_nonzero(may_answer[better]))
    return ahead, ahead_left


def _candidate_rank(
    version: Version,
    query: NDArray[np.float32],
    position: int,
    setting: Setting,
    entries: Entries,
    may_answer: NDArray[np.bool_],
) -> int | None:
    """Return the rank of the item among the candidates of slots search, from 1, or None if it is not one."""
    room = np.empty(version.n_live, np.uint64)
    ranked = candidate_positions(np.sort(version.engine.choose(query, setting, entries, room))[::-1])
    ranked = ranked[may_answer[version.rows_at(ranked)]] if len(ranked) else ranked
    at = np.flatnonzero(ranked == position)
    return int(at[0]) + 1 if at.size else None
