"""Segments: the items of an index as a few immutable parts, so that it can change while it is searched."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tessella.retrieval.exact import Axes, ExactItems

PILE = 3


@dataclass(frozen=True)
class Segment:
    """Some of the items, never changed once made. `ids` and `places` go by ascending row."""

    items: ExactItems
    ids: NDArray[Any]
    rows: NDArray[np.int64]
    places: NDArray[np.int64]  # where `items` has each row
    by_id: NDArray[np.int64] | None  # order that sorts the ids, or None where they ascend
    dead: NDArray[np.uint8] | None  # a bit for each place whose item was removed
    n_live: int

    @classmethod
    def build(cls, factors: NDArray[np.float32], ids: NDArray[Any], rows: NDArray[np.int64], axes: Axes) -> Self:
        """A segment of checked factors, by ascending row."""
        return cls.over(ExactItems.build(factors, rows, axes), ids)

    @classmethod
    def over(cls, items: ExactItems, ids: NDArray[Any]) -> Self:
        """A segment of items that are ordered and coded, with their ids by ascending row."""
        places = np.argsort(items.rows)
        by_id = None if (ids[:-1] < ids[1:]).all() else np.argsort(ids, kind="stable")
        return cls(items, ids, items.rows[places], places, by_id, None, len(ids))

    @property
    def live(self) -> NDArray[np.bool_]:
        """Which items are there, by ascending row."""
        if self.dead is None:
            return np.ones(len(self.rows), np.bool_)
        return ~np.unpackbits(self.dead, bitorder="little", count=len(self.rows)).astype(np.bool_)[self.places]

    def find(self, ids: NDArray[Any]) -> NDArray[np.int64]:
        """The position of each id by ascending row, or -1 where it is not there; texts are no whole numbers' ids."""
        if not len(self.ids) or ids.dtype.kind != self.ids.dtype.kind:
            return np.full(len(ids), -1)
        sorter = self.by_id
        at = np.minimum(np.searchsorted(self.ids, ids, sorter=sorter), len(self.ids) - 1)
        found = at if sorter is None else sorter[at]
        return np.where((self.ids[found] == ids) & self.live[found], found, -1)

    def without(self, positions: NDArray[np.int64]) -> Self:
        """The segment with some more items removed."""
        bits = np.zeros(-(-len(self.rows) // 8) * 8, np.uint8)
        if self.dead is not None:
            bits |= np.unpackbits(self.dead, bitorder="little")
        bits[self.places[positions]] = 1
        dead = np.packbits(bits, bitorder="little")
        return replace(self, dead=dead, n_live=self.n_live - len(positions))

    def factors_at(self, positions: NDArray[np.int64]) -> NDArray[np.float32]:
        """Factors of items, by their positions."""
        return self.items.factors[self.places[positions]]


@dataclass(frozen=True)
class State:
    """One version of the index. A search takes it once, so it never sees half a change."""

    segments: tuple[Segment, ...]
    version: int
    next_row: int

    @property
    def n_live(self) -> int:
        """How many items there are."""
        return sum(segment.n_live for segment in self.segments)


def merged(segments: tuple[Segment, ...], axes: Axes) -> Segment:
    """One segment with the live items of several."""
    if len(segments) == 1 and segments[0].dead is None:
        return segments[0]
    live = [segment.live for segment in segments]
    rows = np.concatenate([segment.rows[kept] for segment, kept in zip(segments, live, strict=True)])
    order = np.argsort(rows)
    positions = [np.flatnonzero(kept) for kept in live]
    parts = list(zip(segments, positions, strict=True))
    factors = np.concatenate([segment.factors_at(kept) for segment, kept in parts])
    ids = np.concatenate([segment.ids[kept] for segment, kept in parts])
    return Segment.build(factors[order], ids[order], rows[order], axes)


def tidy(segments: tuple[Segment, ...], axes: Axes) -> tuple[Segment, ...]:
    """Merge what has piled up: three segments of about one size become one; one that is mostly dead is made anew.

    So an item is merged about log3(n) times in its life, and there are never more than a few segments of each size.
    """
    kept = [segment for segment in segments if segment.n_live]
    for at, segment in enumerate(kept):
        if 2 * segment.n_live < len(segment.rows):
            kept[at] = merged((segment,), axes)
    while len(kept) >= PILE and kept[-PILE].n_live < PILE * kept[-1].n_live:
        kept[-PILE:] = [merged(tuple(kept[-PILE:]), axes)]
    return tuple(kept)
