"""Changes: from one version of an index to the next.

Each is a function of the version before, which stays as it is. Between its steps a change gives way to searches.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella._threads import give_way, thread_count
from tessella.mapping.schema import Schema
from tessella.retrieval.tiles import LearnedTiles
from tessella.retrieval.tuning import choose, may_gain, tuned
from tessella.versions.version import MAX_ROWS, Fitted, Items, Segment, State

PILE = 8
SMALL = 256  # items that are as soon coded as looked through in two segments
MOST_DEAD = 1 / 3  # of a segment


def built(
    factors: NDArray[np.float32], ids: NDArray[Any], schema: Schema, tiles: LearnedTiles | None, threads: int
) -> State:
    """The first version: fitted to checked factors, with all items in one segment."""
    fitted = Fitted.to(factors, schema, tiles, threads)
    rows = np.arange(len(factors), dtype=np.int32)
    segment = Segment.build(Items(factors, ids, rows, np.zeros(len(rows), np.bool_)), fitted, threads)
    return State((segment,), fitted, ids.dtype.kind == "U", 0, len(rows))


def rebuilt(state: State, queries: NDArray[np.float32] | None, threads: int) -> State:
    """The same items, at least one, with everything fitted to them anew, and the way chosen anew if it was chosen."""
    places = state.live_places  # what is fitted does not depend on how items are spread over segments
    plan, tiling = state.plan, state.fitted.tiling
    tiles = None if tiling is None else tiling.settings
    if plan.automatic and plan.target_recall is not None:
        tiles = LearnedTiles() if may_gain(len(places), plan.target_recall) else None
    schema = state.fitted.sparse_map.schema_
    fresh = built(state.at(places, "factors"), state.at(places, "ids"), schema, tiles, threads)
    fresh = replace(fresh, version=state.version + 1, plan=plan)
    if plan.target_recall is None:
        return fresh
    if plan.automatic:
        return choose(fresh, queries, plan.target_recall, plan.k)
    return replace(fresh, plan=tuned(fresh, queries, plan.target_recall, plan.k))


def added(state: State, factors: NDArray[np.float32], ids: NDArray[Any]) -> State:
    """With new items; an id that is there already is refused."""
    state.same_kind(ids)
    clash = ids[state.find(ids) >= 0]
    give_way()
    if clash.size:
        raise ValueError(f"id {clash[0].item()!r} is in the index already; use update to change its factor.")
    if state.n_live + len(factors) > MAX_ROWS:
        raise ValueError(f"an index holds at most {MAX_ROWS:,} items, but it would hold more.")
    if state.next_row + len(factors) > MAX_ROWS:
        state = _renumbered(state)
    rows = np.arange(state.next_row, state.next_row + len(factors), dtype=np.int32)
    return _next(state, state.segments, _new(factors, ids, rows))


def updated(state: State, factors: NDArray[np.float32], ids: NDArray[Any]) -> State:
    """With other factors for some items, which keep their rows."""
    places = state.places_of(ids)
    give_way()
    rows = state.at(places, "rows") if len(places) else np.zeros(0, np.int32)
    return _next(state, state.without(places), _new(factors, ids, rows))


def removed(state: State, ids: NDArray[Any]) -> State:
    """Without some items."""
    places = state.places_of(ids)
    give_way()
    return _next(state, state.without(places))


def merged(segments: tuple[Segment, ...], fitted: Fitted) -> Segment:
    """One segment with the live items of several."""
    if len(segments) == 1 and segments[0].dead is None:
        return segments[0]
    return Segment.build(Items.together([segment.live_items for segment in segments]), fitted, thread_count(None))


def _new(factors: NDArray[np.float32], ids: NDArray[Any], rows: NDArray[np.int32]) -> Items:
    return Items(factors, ids, rows, np.ones(len(rows), np.bool_))


def _next(state: State, segments: tuple[Segment, ...], new: Items | None = None) -> State:
    """The version after this one: some segments, and perhaps new items."""
    give_way()
    next_row = state.next_row
    if new is not None and len(new.rows):
        next_row = max(next_row, int(new.rows.max()) + 1)
        segments = _grown(segments, new, state.fitted)
    after = replace(state, segments=_tidy(segments, state.fitted), version=state.version + 1, next_row=next_row)
    give_way()
    after.server  # noqa: B018 - made here, so that no search has to
    return after


def _grown(segments: tuple[Segment, ...], new: Items, fitted: Fitted) -> tuple[Segment, ...]:
    """Segments with new items: in the last one, made anew, as long as that is small, else in one of their own."""
    if segments and segments[-1].n_live + len(new.rows) <= SMALL:
        *kept, last = segments
        segments, new = tuple(kept), Items.together([last.live_items, new])
    return (*segments, Segment.build(new, fitted))


def _tidy(segments: tuple[Segment, ...], fitted: Fitted) -> tuple[Segment, ...]:
    """Merge what has piled up: eight segments of about one size become one; one with many dead items is made anew.

    So an item is merged about log8(n) times in its life, and there are never more than a few segments of each size.
    """
    kept = [segment for segment in segments if segment.n_live]
    for at, segment in enumerate(kept):
        if len(segment) - segment.n_live > MOST_DEAD * len(segment):
            kept[at] = merged((segment,), fitted)
    while len(kept) >= PILE and kept[-PILE].n_live < PILE * kept[-1].n_live:
        kept[-PILE:] = [merged(tuple(kept[-PILE:]), fitted)]
    return tuple(kept)


def _renumbered(state: State) -> State:
    """The same items with rows from 0, for an index that has seen more items than rows can be numbered."""
    if not state.n_live:
        return replace(state, segments=(), next_row=0)
    items = Items.together([segment.live_items for segment in state.segments])
    rows = np.argsort(np.argsort(items.rows)).astype(np.int32)
    segment = Segment.build(items._replace(rows=rows), state.fitted, thread_count(None))
    return replace(state, segments=(segment,), next_row=len(segment))
