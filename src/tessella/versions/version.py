"""Segments: the items of an index as a few immutable parts, so that it can change while it is searched."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tessella import _reference
from tessella._cached import cached
from tessella._kernels import core
from tessella._threads import give_way, run_blocks
from tessella.mapping.axes import principal_axes
from tessella.mapping.schema import Schema
from tessella.mapping.sparse_map import BlockMapper, SparseMap
from tessella.results import EXACT, Plan
from tessella.retrieval.clustering import squared_norms
from tessella.retrieval.codes import Axes, Codes
from tessella.retrieval.postings import Entries, Postings
from tessella.retrieval.server import server_for
from tessella.retrieval.tiles import Filed, LearnedTiles, Tiling

ITEMS_AT_ONCE = 2**12  # whole blocks of codes, few enough for the cache
MAX_ROWS = 2**31 - 1


@dataclass(frozen=True)
class Fitted:
    """What was learned from the items an index was built from, and stays as items come and go."""

    sparse_map: SparseMap
    basis: NDArray[np.float64]  # (n_factors, n_factors) principal axes as columns
    spectrum: NDArray[np.float64]  # (n_factors) mean square of items along them
    tiling: Tiling | None = None

    @classmethod
    def to(
        cls, factors: NDArray[np.float32], schema: Schema, tiles: LearnedTiles | None = None, threads: int = 1
    ) -> Self:
        """Fit to checked factors."""
        sparse_map = SparseMap(schema)
        moments = sparse_map._fit(factors, moments_wanted=True)
        turned = sparse_map.rotation_
        basis = turned if schema.learns_axes and turned is not None else principal_axes(moments)
        spectrum = np.einsum("ij,ij->j", basis, moments @ basis) / len(factors)
        return cls(sparse_map, basis, spectrum, None if tiles is None else Tiling.learn(factors, tiles, threads))

    @cached
    def axes(self) -> Axes:
        """The axes that codes are made along."""
        return Axes.of(self.basis)

    @property
    def n_factors(self) -> int:
        """Coordinates of a factor."""
        return len(self.basis)

    @property
    def nbytes(self) -> int:
        """Memory of the arrays."""
        arrays = [self.basis, self.axes.head, self.spectrum]
        rotation = self.sparse_map.rotation_
        if rotation is not None and rotation is not self.basis:
            arrays.append(rotation)
        return sum(array.nbytes for array in arrays) + (0 if self.tiling is None else self.tiling.nbytes)

    @cached
    def item_mapper(self) -> BlockMapper:
        """Maps items by the schema."""
        return self.sparse_map._mapper(self.sparse_map.schema_, self.n_factors)

    def turn(self, factors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Factors along the principal axes."""
        turned = np.empty_like(factors)
        running = core()
        running.kernels.prepare(factors, self.basis, 0.0, False, turned, running.level)
        return turned

    def item_entries(self, factors: NDArray[np.float32], turned: NDArray[np.float32]) -> Entries:
        """The sparse map of items, whose factors along the principal axes are known."""
        if self.item_mapper.rotation is self.basis:
            return self.item_mapper.entries_of(self.item_mapper.cut(turned))
        return self.item_mapper.entries(factors)

    @cached
    def query_mapper(self) -> BlockMapper:
        """Maps queries by the schema without its threshold: an answer does not depend on a query's length."""
        return self.sparse_map._mapper(self.sparse_map.schema_, self.n_factors, thresholded=False)


class Items(NamedTuple):
    """Some items in any order."""

    factors: NDArray[np.float32]  # (n, n_factors)
    ids: NDArray[Any]  # (n)
    rows: NDArray[np.int32]  # (n) the order in which items came, for ties and filters
    is_new: NDArray[np.bool_]  # (n) whether the item came, or changed, after the index was fitted

    @classmethod
    def together(cls, parts: Sequence[Self]) -> Self:
        """The items of several parts, at least one, as one."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))


@dataclass(frozen=True)
class Segment:
    """Some of the items by falling norm, never changed once made. An item's number in that order is its place."""

    factors: NDArray[np.float32]  # (n, n_factors)
    rows: NDArray[np.int32]  # (n) the order in which items came, for ties and filters
    ids: NDArray[Any]  # (n)
    by_id: NDArray[np.int32]  # (n) the order that sorts the ids
    is_new: NDArray[np.bool_]  # (n) whether the item came, or changed, after the index was fitted
    codes: Codes
    postings: Postings
    filed: Filed | None  # by tile, if tiles were learned
    dead: NDArray[np.uint8] | None  # a bit for each place whose item was removed
    n_live: int

    @classmethod
    def build(cls, items: Items, fitted: Fitted, threads: int = 1) -> Self:
        """A segment of checked items."""
        give_way()
        order = np.argsort(-squared_norms(items.factors), kind="stable")
        ordered = items.factors[order]
        n = len(ordered)
        codes = Codes.empty(n, fitted.axes)
        entries: dict[int, Entries] = {}

        def enter(places: slice) -> None:
            stretch = ordered[places]
            turned = fitted.turn(stretch)
            codes.fill(places, stretch, turned, fitted.axes)
            entries[places.start] = fitted.item_entries(stretch, turned)

        run_blocks(enter, [slice(at, min(at + ITEMS_AT_ONCE, n)) for at in range(0, n, ITEMS_AT_ONCE)], threads)
        give_way()
        postings = Postings.build(n, entries)
        give_way()
        filed = None if fitted.tiling is None else Filed.build(ordered, fitted.tiling, threads)
        give_way()
        return cls.over(ordered, items.rows[order], items.ids[order], items.is_new[order], codes, postings, filed)

    @classmethod
    def over(
        cls,
        factors: NDArray[np.float32],
        rows: NDArray[np.int32],
        ids: NDArray[Any],
        is_new: NDArray[np.bool_],
        codes: Codes,
        postings: Postings,
        filed: Filed | None,
    ) -> Self:
        """A segment of arrays that are by falling norm already."""
        by_id = np.argsort(ids, kind="stable").astype(np.int32)
        return cls(factors, rows, ids, by_id, is_new, codes, postings, filed, None, len(ids))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def live(self) -> NDArray[np.int64]:
        """Places of the items that are there."""
        if self.dead is None:
            return np.arange(len(self))
        return np.flatnonzero(~np.unpackbits(self.dead, bitorder="little", count=len(self)).astype(np.bool_))

    @property
    def live_items(self) -> Items:
        """The items that are there."""
        live = self.live
        return Items(self.factors[live], self.ids[live], self.rows[live], self.is_new[live])

    @property
    def longest(self) -> float:
        """The norm of the longest item that is there, or a little more."""
        if self.dead is None:
            return self.codes.longest
        byte = int(np.argmax(self.dead != 0xFF))  # items go by falling norm
        bits = ~int(self.dead[byte]) & 0xFF
        first = 8 * byte + (bits & -bits).bit_length() - 1
        return float(np.sqrt(squared_norms(self.factors[first : first + 1])).sum() * (1 + 1e-6))

    def find(self, ids: NDArray[Any], base: int, places: NDArray[np.int64]) -> None:
        """Fill in the places, with the base added, of those ids that are here; texts are no whole numbers' ids."""
        if ids.dtype.kind == self.ids.dtype.kind:
            running = core()
            kernels = running.kernels if ids.dtype == np.int64 else _reference
            kernels.find_ids(self.ids, self.by_id, self.dead, base, ids, places, running.level)

    def without(self, places: NDArray[np.int64]) -> Self:
        """The segment with some more items removed."""
        bits = np.zeros(-(-len(self) // 8) * 8, np.uint8)
        if self.dead is not None:
            bits = np.unpackbits(self.dead, bitorder="little")
        bits[places] = 1
        return replace(self, dead=np.packbits(bits, bitorder="little"), n_live=self.n_live - len(places))

    def parts(self) -> dict[str, int]:
        """Bytes of each part."""
        dead = 0 if self.dead is None else self.dead.nbytes
        own = self.rows.nbytes + self.ids.nbytes + self.by_id.nbytes + self.is_new.nbytes + dead
        return {
            "factors": self.factors.nbytes,
            "ids and rows": own,
            "codes": self.codes.nbytes,
            "postings": self.postings.nbytes,
            "tiles": 0 if self.filed is None else self.filed.nbytes,
        }


@dataclass(frozen=True)
class State:
    """One version of the index. A search takes it once, so it never sees half a change."""

    segments: tuple[Segment, ...]
    fitted: Fitted
    text_ids: bool  # whether ids are texts or whole numbers
    version: int
    next_row: int
    plan: Plan = EXACT

    @cached
    def n_live(self) -> int:
        """How many items there are."""
        return sum(segment.n_live for segment in self.segments)

    @cached
    def longest(self) -> float:
        """The norm of the longest item that is there, or a little more."""
        return max((segment.longest for segment in self.segments), default=0.0)

    @cached
    def longest_held(self) -> float:
        """The same of all items that segments hold, whether they were removed or not."""
        return max((segment.codes.longest for segment in self.segments), default=0.0)

    @cached
    def bases(self) -> list[int]:
        """What is added to the places of each segment, so that no two items share one."""
        return [0, *np.cumsum([len(segment) for segment in self.segments]).tolist()]

    @cached
    def radii(self) -> NDArray[np.float32]:
        """How far from its centre any item of a tile lies, in whichever segment.

        So a query visits a tile in all segments or in none, and finds new items as it finds old ones.
        """
        radii: NDArray[np.float32] = np.maximum.reduce(
            [segment.filed.radii for segment in self.segments if segment.filed is not None]
        )
        return radii

    @cached
    def server(self) -> Any:
        """Answers queries in one native call, or None where the twins run."""
        return server_for(self)

    @cached
    def live_places(self) -> NDArray[np.int64]:
        """Places, among those of all segments, of the items that are there, in the order in which they came."""
        places = [segment.live + base for segment, base in self.parts()]
        rows = [segment.rows[segment.live] for segment in self.segments]
        return np.concatenate([*places, np.zeros(0, np.int64)])[
            np.argsort(np.concatenate([*rows, np.zeros(0, np.int32)]))
        ]

    @cached
    def live_rows(self) -> NDArray[np.int64]:
        """Rows of the items that are there, ascending."""
        return self.at(self.live_places, "rows").astype(np.int64) if self.n_live else np.zeros(0, np.int64)

    def find(self, ids: NDArray[Any]) -> NDArray[np.int64]:
        """The place of each id among those of all segments, or -1 where it is not there."""
        places = np.full(len(ids), -1)
        for segment, base in self.parts():
            segment.find(ids, base, places)
        return places

    def places_of(self, ids: NDArray[Any]) -> NDArray[np.int64]:
        """The same; an id that is not there is refused."""
        places = self.find(ids)
        missing = np.flatnonzero(places < 0)
        if missing.size:
            raise KeyError(f"there is no item with id {ids[missing[0]].item()!r} in the index.")
        return places

    def parts(self) -> Iterator[tuple[Segment, int]]:
        """Every segment with its base."""
        return zip(self.segments, self.bases, strict=False)

    def memory(self) -> dict[str, int]:
        """Bytes of each part of all segments, and of what was fitted."""
        total = {"factors": 0, "ids and rows": 0, "codes": 0, "postings": 0, "tiles": 0}
        for segment in self.segments:
            total = {name: total[name] + part for name, part in segment.parts().items()}
        return total | {"fitted state": self.fitted.nbytes}

    def same_kind(self, ids: NDArray[Any]) -> None:
        """Refuse texts where ids are whole numbers, and the other way round."""
        kinds = {"U": "texts", "i": "whole numbers"}
        if len(ids) and (ids.dtype.kind == "U") != self.text_ids:
            theirs = kinds["U" if self.text_ids else "i"]
            raise TypeError(f"ids are {kinds[ids.dtype.kind]}, but those in the index are {theirs}.")

    def no_ids(self) -> NDArray[Any]:
        """No ids, of the index's kind."""
        return np.zeros(0, np.str_ if self.text_ids else np.int64)

    def at(self, places: NDArray[np.int64], name: str) -> NDArray[Any]:
        """What the array `name` of the segments holds at some places."""
        if len(self.segments) == 1:
            return np.asarray(getattr(self.segments[0], name)[places])
        parts = [getattr(segment, name) for segment in self.segments]
        kind = np.result_type(*(part.dtype for part in parts))
        taken = np.empty((*places.shape, *parts[0].shape[1:]), kind)
        for part, base in zip(parts, self.bases, strict=False):
            here = (places >= base) & (places < base + len(part))
            taken[here] = part[places[here] - base]
        return taken

    def ids_of(self, answers: NDArray[np.int64]) -> NDArray[Any]:
        """Ids of answers, each a row and a place in one number; -1 or None for answer -1."""
        there = answers >= 0
        if not self.text_ids and self.segments and there.all():
            return self.at(answers & 0xFFFFFFFF, "ids")
        ids: NDArray[Any] = np.full(answers.shape, None if self.text_ids else -1, object if self.text_ids else np.int64)
        if self.segments:
            ids[there] = self.at(answers[there] & 0xFFFFFFFF, "ids")
        return ids

    def without(self, places: NDArray[np.int64]) -> tuple[Segment, ...]:
        """The segments with the items at some places removed."""
        kept = []
        for segment, base in self.parts():
            here = places[(places >= base) & (places < base + len(segment))] - base
            kept.append(segment.without(here) if len(here) else segment)
        return tuple(kept)
