"""Changes: functions that make the next version of an index from the current one, which they do not modify.

Between its steps, a change lets searches in other threads run.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella._cached import carry_over
from tessella._threads import give_way, thread_count
from tessella.mapping.schema import Schema
from tessella.retrieval.fitted import Fitted
from tessella.retrieval.tiles import LearnedTiles, Tiling
from tessella.versions.segment import NewItems, Segment
from tessella.versions.version import MAX_ROWS, Version

STEP = 8  # a segment is kept while it is at least 8 times as large as all later ones together
SMALL = 512  # items: merging two such small segments costs no more than searching both
MOST_REMOVED = 1 / 3  # of a segment; with more, it is rewritten
MOST_GROWN = 4  # times as many items as the tiles were learned from; with more, tiles are learned again


def built(
    factors: NDArray[np.float32], ids: NDArray[Any], schema: Schema, tiles: LearnedTiles | None, threads: int
) -> Version:
    """Return the first version, fitted to checked factors, with all items in one segment, which owns both arrays."""
    fitted = Fitted.to(factors, schema, tiles, threads)
    rows = np.arange(len(factors), dtype=np.int32)
    segment = Segment.build(NewItems(factors, ids, rows, np.zeros(len(rows), np.bool_)), fitted, threads)
    return Version((segment,), fitted, ids.dtype.kind == "U", 0, len(rows))


def rebuilt(version: Version, tiles: LearnedTiles | None, threads: int) -> Version:
    """Return the version with everything fitted again to its items, at least one; the plan stays the same."""
    positions = version.live_positions  # the fit does not depend on how items are spread over segments
    schema = version.fitted.sparse_map.schema_
    fresh = built(version.factors_at(positions), version.ids_at(positions), schema, tiles, threads)
    return replace(fresh, number=version.number + 1, plan=version.plan, moved=version.moved, lineage=version.lineage)


def added(version: Version, factors: NDArray[np.float32], ids: NDArray[Any]) -> Version:
    """Return the version with new items; refuse ids that are already in the index."""
    version.same_kind(ids)
    clash = ids[version.find(ids) >= 0]
    if clash.size:
        raise ValueError(f"id {clash[0].item()!r} is already in the index; use update to change its factor.")
    if version.n_live + len(factors) > MAX_ROWS:
        raise ValueError(
            f"the index would hold {version.n_live + len(factors):,} items, but can hold at most {MAX_ROWS:,}."
        )
    if version.next_row + len(factors) > MAX_ROWS:
        version = _renumbered(version)
    rows = np.arange(version.next_row, version.next_row + len(factors), dtype=np.int32)
    return _next(version, version.segments, len(ids), _new(factors, ids, rows))


def updated(version: Version, factors: NDArray[np.float32], ids: NDArray[Any]) -> Version:
    """Return the version with new factors for some items, which keep their rows."""
    positions = version.positions_of(ids)
    rows = version.rows_at(positions) if len(positions) else np.zeros(0, np.int32)
    after = _next(version, version.segments_without(positions), len(ids), _new(factors, ids, rows))
    carry_over(("live_rows", "ids"), version, after)
    return after


def removed(version: Version, ids: NDArray[Any]) -> Version:
    """Return the version without some items."""
    positions = version.positions_of(ids)
    moved = version.moved or len(positions) > 0
    return _next(replace(version, moved=moved), version.segments_without(positions), len(ids))


def merged(segments: tuple[Segment, ...], fitted: Fitted) -> Segment:
    """Merge the live items of several segments into one."""
    if len(segments) == 1 and segments[0].removed is None:
        return segments[0]
    return Segment.build(NewItems.together([segment.live_items for segment in segments]), fitted, thread_count(None))


def _new(factors: NDArray[np.float32], ids: NDArray[Any], rows: NDArray[np.int32]) -> NewItems:
    return NewItems(factors, ids.copy(), rows, np.ones(len(rows), np.bool_))  # the caller goes on to use the ids


def _next(version: Version, segments: tuple[Segment, ...], n_changed: int, new: NewItems | None = None) -> Version:
    """Return the version after this one, with the given segments and perhaps new items, after some changed."""
    give_way()
    next_row = version.next_row
    if new is not None and len(new.rows):
        next_row = max(next_row, int(new.rows.max()) + 1)
        segments = _grown(segments, new, version.fitted)
    fitted, tidied = version.fitted, _tidy(segments, version.fitted)
    outgrown = _outgrown(fitted, tidied) if len(tidied) < len(segments) else None
    if outgrown is not None:
        fitted, tidied = _with_new_tiles(fitted, outgrown, tidied)
    after = replace(
        version,
        segments=tidied,
        fitted=fitted,
        number=version.number + 1,
        next_row=next_row,
        n_changed=version.n_changed + n_changed,
    )
    give_way()
    after.engine  # noqa: B018 - created here, so that the first search need not
    return after


def _outgrown(fitted: Fitted, segments: tuple[Segment, ...]) -> LearnedTiles | None:
    """Return the tiles to learn again if the index has grown so much that new ones would be far better, else None."""
    tiling, n = fitted.tiling, sum(segment.n_live for segment in segments)
    if tiling is None or tiling.parameters.n_tiles != "auto" or n <= MOST_GROWN * tiling.n_items:
        return None
    return tiling.parameters


def _with_new_tiles(
    fitted: Fitted, tiles: LearnedTiles, segments: tuple[Segment, ...]
) -> tuple[Fitted, tuple[Segment, ...]]:
    """Learn tiles from the current items, and put these in one segment."""
    items = NewItems.together([segment.live_items for segment in segments])
    fresh = replace(fitted, tiling=Tiling.learn(items.factors, fitted.axes, tiles, thread_count(None)))
    return fresh, (Segment.build(items, fresh, thread_count(None)),)


def _grown(segments: tuple[Segment, ...], new: NewItems, fitted: Fitted) -> tuple[Segment, ...]:
    """Add new items: to the last segment, which is rebuilt, if it stays small; else in a segment of their own."""
    if segments and segments[-1].n_live + len(new.rows) <= SMALL:
        *kept, last = segments
        segments, new = tuple(kept), NewItems.together([last.live_items, new])
    return (*segments, Segment.build(new, fitted))


def _tidy(segments: tuple[Segment, ...], fitted: Fitted) -> tuple[Segment, ...]:
    """Rewrite segments with many removed items, and merge those that are not much larger than all later ones.

    So an index has at most about log8(n) segments, and an item is merged about 4 log8(n) times in its life.
    """
    kept = [segment for segment in segments if segment.n_live]
    for at, segment in enumerate(kept):
        if len(segment) - segment.n_live > MOST_REMOVED * len(segment):
            kept[at] = merged((segment,), fitted)
    first, n_after = len(kept) - 1, kept[-1].n_live if kept else 0
    while first > 0 and kept[first - 1].n_live < STEP * n_after:
        first -= 1
        n_after += kept[first].n_live
    if first < len(kept) - 1:
        kept[first:] = [merged(tuple(kept[first:]), fitted)]
    return tuple(kept)


def _renumbered(version: Version) -> Version:
    """Renumber rows from 0, for an index to which more items were added than rows can be numbered."""
    if not version.n_live:
        return replace(version, segments=(), next_row=0)
    items = NewItems.together([segment.live_items for segment in version.segments])
    rows = np.argsort(np.argsort(items.rows)).astype(np.int32)
    segment = Segment.build(items._replace(rows=rows), version.fitted, thread_count(None))
    return replace(version, segments=(segment,), next_row=len(segment))
