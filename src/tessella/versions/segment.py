"""Segment: an immutable part of the items."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tessella import _reference
from tessella._kernels import core
from tessella._norms import squared_norms
from tessella._numbers import NORM_SPARE
from tessella._threads import cut, give_way, run_blocks
from tessella.retrieval.codes import ITEMS_AT_ONCE, ExactCodes
from tessella.retrieval.fitted import Fitted
from tessella.retrieval.postings import Entries, Postings
from tessella.retrieval.tiles import TiledItems

NUMBERS_AT_ONCE = 2**16
CLOSE = 4  # ids whose range is at most 4 times their count get a table with an entry for each number in it


class NewItems(NamedTuple):
    """Items that are to become a segment, in any order."""

    factors: NDArray[np.float32]  # (n, n_factors)
    ids: NDArray[Any]  # (n)
    rows: NDArray[np.int32]  # (n) the order in which items were added, for ties and filters
    is_new: NDArray[np.bool_]  # (n) whether the item was added or updated after the index was fitted

    @classmethod
    def together(cls, parts: Sequence[Self]) -> Self:
        """Concatenate the items of several parts, at least one."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))


@dataclass(frozen=True)
class Segment:
    """An immutable part of the items, sorted by falling norm. An item's number in that order is its position."""

    factors: NDArray[np.float32]  # (n, n_factors)
    rows: NDArray[np.int32]  # (n) the order in which items were added, for ties and filters
    by_row: NDArray[np.int32]  # (n) the order that sorts the rows
    ids: NDArray[Any]  # (n)
    by_id: NDArray[np.int32]  # for strings, the order that sorts them; for integers, a table of positions or -1
    first_id: int | None  # the first id of a table with an entry for each number; None if by_id is a hash table
    is_new: NDArray[np.bool_]  # (n) whether the item was added or updated after the index was fitted
    codes: ExactCodes
    postings: Postings
    tiles: TiledItems | None  # None without learned tiles
    removed: NDArray[np.uint8] | None  # a bit for each position, set if its item was removed
    n_live: int

    @classmethod
    def build(cls, items: NewItems, fitted: Fitted, threads: int = 1) -> Self:
        """Build a segment of checked items. It keeps their arrays, and sorts them in place."""
        give_way()
        order = np.argsort(-squared_norms(items.factors), kind="stable")
        ordered, ids, rows, is_new = items
        core().kernels.reorder(ordered, order)
        for array in (ids, rows, is_new):  # in place: a copy would last as long as the caller holds the original
            array[:] = array[order]
        n = len(ordered)
        del order
        codes = ExactCodes.empty(n, fitted.axes)

        def entries_of(block: slice) -> list[Entries]:
            entries: dict[int, Entries] = {}  # by first position

            def enter(part: slice) -> None:
                factors = ordered[part]
                rotated = fitted.rotate(factors)
                codes.fill(part, factors, rotated, fitted.axes)
                entries[part.start] = fitted.item_entries(factors, rotated)

            run_blocks(enter, cut(block.stop, ITEMS_AT_ONCE, block.start), threads)
            give_way()
            return [entries[first] for first in sorted(entries)]

        postings = Postings.build(n, entries_of)
        give_way()
        tiles = None if fitted.tiling is None else TiledItems.build(ordered, fitted.tiling, threads)
        give_way()
        return cls.from_ordered(ordered, rows, ids, is_new, codes, postings, tiles)

    @classmethod
    def from_ordered(
        cls,
        factors: NDArray[np.float32],
        rows: NDArray[np.int32],
        ids: NDArray[Any],
        is_new: NDArray[np.bool_],
        codes: ExactCodes,
        postings: Postings,
        tiles: TiledItems | None,
    ) -> Self:
        """Make a segment of arrays that are already sorted by falling norm."""
        by_row = _order_of(rows)
        table = _table_of(ids, rows, by_row)
        return cls(factors, rows, by_row, ids, *table, is_new, codes, postings, tiles, None, len(ids))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def live(self) -> NDArray[np.int64]:
        """The positions of the items that have not been removed."""
        if self.removed is None:
            return np.arange(len(self))
        return np.flatnonzero(~np.unpackbits(self.removed, bitorder="little", count=len(self)).astype(np.bool_))

    @property
    def live_items(self) -> NewItems:
        """The items that have not been removed."""
        live = self.live
        return NewItems(self.factors[live], self.ids[live], self.rows[live], self.is_new[live])

    @property
    def longest(self) -> float:
        """An upper bound of the norm of the longest live item, tight but for rounding."""
        if self.removed is None:
            return self.codes.longest
        byte = int(np.argmax(self.removed != 0xFF))  # items are sorted by falling norm
        bits = ~int(self.removed[byte]) & 0xFF
        first = 8 * byte + (bits & -bits).bit_length() - 1
        return float(np.sqrt(squared_norms(self.factors[first : first + 1])).sum() * (1 + NORM_SPARE))

    def find(self, ids: NDArray[Any], base: int, positions: NDArray[np.int64]) -> None:
        """Fill in the positions, plus `base`, of the ids in this segment; ids of the other type are never found."""
        if ids.dtype.kind == self.ids.dtype.kind:
            find_ids = core().kernels.find_ids if ids.dtype == np.int64 else _reference.find_ids
            find_ids(self, base, ids, positions)

    def without(self, positions: NDArray[np.int64]) -> Self:
        """Return the segment with the items at some positions removed."""
        bits = np.zeros(-(-len(self) // 8) * 8, np.uint8)
        if self.removed is not None:
            bits = np.unpackbits(self.removed, bitorder="little")
        bits[positions] = 1
        return replace(self, removed=np.packbits(bits, bitorder="little"), n_live=self.n_live - len(positions))

    def memory(self) -> dict[str, int]:
        """Return the bytes of each part."""
        removed = 0 if self.removed is None else self.removed.nbytes
        orders = self.by_row.nbytes + (0 if self.by_id is self.by_row else self.by_id.nbytes)
        own = self.rows.nbytes + self.ids.nbytes + orders + self.is_new.nbytes + removed
        return {
            "factors": self.factors.nbytes,
            "ids and rows": own,
            "codes": self.codes.nbytes,
            "postings": self.postings.nbytes,
            "tiles": 0 if self.tiles is None else self.tiles.nbytes,
        }


def _table_of(
    ids: NDArray[Any], rows: NDArray[np.int32], by_row: NDArray[np.int32]
) -> tuple[NDArray[np.int32], int | None]:
    """Return the table for finding ids, and its first id if it has an entry for each number."""
    if ids.dtype.kind == "U":
        return np.argsort(ids, kind="stable").astype(np.int32), None
    n, first, last = len(ids), int(ids.min()), int(ids.max())
    span = last - first + 1
    if span == n and np.array_equal(ids, rows):  # ids that equal the rows
        return by_row, first
    if span <= CLOSE * n:
        return _inverse(ids, first, span), first
    table = np.empty(1 << (2 * n).bit_length(), np.int32)
    core().kernels.scatter_ids(ids, table)
    return table, None


def _order_of(rows: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the order that sorts the rows, which are unique; rows without gaps need no sorting."""
    first, n = int(rows.min()), len(rows)
    if int(rows.max()) - first + 1 > n:
        return np.argsort(rows).astype(np.int32)
    return _inverse(rows, first, n)


def _inverse(numbers: NDArray[np.integer[Any]], first: int, size: int) -> NDArray[np.int32]:
    """Return the index of each number from `first` on in an array of unique numbers, or -1; computed in blocks."""
    places = np.full(size, -1, np.int32)
    for part in cut(len(numbers), NUMBERS_AT_ONCE):
        places[numbers[part] - first] = np.arange(part.start, part.stop, dtype=np.int32)
    return places
