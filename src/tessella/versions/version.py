"""Version: what one search sees, that is, a few segments and what was fitted. Every change makes a new version."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella._cached import cached
from tessella.retrieval.engine import Engine
from tessella.retrieval.fitted import Fitted
from tessella.retrieval.plan import EXACT_PLAN, Exact, Method, Plan, Setting
from tessella.versions.segment import Segment

MAX_ROWS = 2**31 - 1
MOST_PLANNED = 2**12


class Planned(dict[int | tuple[int, int, int], tuple[Method, Setting]]):
    """The planned methods and their settings. The key is k; with a filter, it is (k, n_excluded, n_allowed).

    Every search without an explicit method looks here, so each entry is computed only once. Unlike the version, this
    holds no references to arrays.
    """

    def __init__(self, plan: Plan, n_items: int, n_factors: int) -> None:
        super().__init__()
        self.plan, self.n_items, self.n_factors = plan, n_items, n_factors
        self.deepest = plan.deepest

    def __missing__(self, key: int | tuple[int, int, int]) -> tuple[Method, Setting]:
        k, n_excluded, n_allowed = (key, 0, self.n_items) if isinstance(key, int) else key
        method = self._method(k, n_excluded, n_allowed)
        if len(self) >= MOST_PLANNED:
            self.clear()
        self[key] = found = method, method.setting(k, self.n_items, self.n_factors)
        return found

    def _method(self, k: int, n_excluded: int, n_allowed: int) -> Method:
        """Return the method for the top k of a query.

        If one in ten items is allowed, the top 10 are among the best 100 or so of all items, and those in between count
        as excluded. If all items but a few are allowed, these few may be every query's best.
        """
        n_left_out = self.n_items - n_allowed
        if not self.plan.steps or n_left_out <= self.deepest:
            return self.plan.method_for(k, n_excluded + n_left_out)
        times = self.n_items / max(1, n_allowed)
        depth, out = math.ceil(k * times), math.ceil(n_excluded * times)
        if depth > self.plan.steps[-1].k or depth + out > self.deepest:
            return Exact()
        shallow = math.ceil(depth / (1 + k**-0.5))  # by chance they may rank this high, where larger reaches are needed
        return self.plan.method_for(max(k, shallow), out + 1)


@dataclass(frozen=True)
class Version:
    """One immutable version of an index. A search uses a single version, so it never sees half a change."""

    segments: tuple[Segment, ...]
    fitted: Fitted
    text_ids: bool  # whether ids are strings rather than integers
    number: int  # how many changes were made before it
    next_row: int
    plan: Plan = EXACT_PLAN
    n_changed: int = 0  # items added, updated and removed since the plan was measured
    moved: bool = False  # whether items were ever removed, so that column j may be another item than before
    lineage: object = field(default_factory=object)  # shared by all versions of one index, and by no others

    @cached
    def n_factors(self) -> int:
        """The number of coordinates of a factor."""
        return self.fitted.n_factors

    @cached
    def planned(self) -> "Planned":
        """The methods of searches that do not choose one."""
        return Planned(self.plan, self.n_live, self.n_factors)

    @cached
    def n_live(self) -> int:
        """The number of items."""
        return sum(segment.n_live for segment in self.segments)

    @cached
    def longest(self) -> float:
        """An upper bound of the norm of the longest live item, tight but for rounding."""
        return max((segment.longest for segment in self.segments), default=0.0)

    @cached
    def longest_held(self) -> float:
        """An upper bound of the norm of the longest item in any segment, removed ones included."""
        return max((segment.codes.longest for segment in self.segments), default=0.0)

    @cached
    def bases(self) -> list[int]:
        """The offset of each segment's positions, so that no two items share a position."""
        return [0, *np.cumsum([len(segment) for segment in self.segments]).tolist()]

    @cached
    def radii(self) -> NDArray[np.float32] | None:
        """The radius of each tile over all segments; None without tiles.

        So a query visits a tile in all segments or in none, and finds new items as well as old ones.
        """
        if self.fitted.tiling is None:
            return None
        nothing = np.zeros(len(self.fitted.tiling.coded.scales), np.float32)
        radii: NDArray[np.float32] = np.maximum.reduce(
            [nothing, *(segment.tiles.radii for segment in self.segments if segment.tiles is not None)]
        )
        return radii

    @cached
    def engine(self) -> Engine:
        """The engine that searches this version."""
        return Engine(self.fitted, self.segments, self.radii, (self.longest, self.longest_held))

    @cached
    def live_positions(self) -> NDArray[np.int64]:
        """The positions of live items in all segments, in the order in which the items were added."""
        positions = [segment.live + base for segment, base in self.parts()]
        rows = [segment.rows[segment.live] for segment in self.segments]
        return np.concatenate([*positions, np.zeros(0, np.int64)])[
            np.argsort(np.concatenate([*rows, np.zeros(0, np.int32)]))
        ]

    @cached
    def live_rows(self) -> NDArray[np.int64]:
        """The rows of live items, ascending."""
        return self.rows_at(self.live_positions).astype(np.int64) if self.n_live else np.zeros(0, np.int64)

    @cached
    def ids(self) -> NDArray[Any]:
        """The ids of live items, in the order in which the items were added; read-only."""
        held = self.ids_at(self.live_positions) if self.n_live else self.no_ids()
        held.flags.writeable = False
        return held

    def parts(self) -> Iterator[tuple[Segment, int]]:
        """Iterate over the segments with their offsets."""
        return zip(self.segments, self.bases, strict=False)

    def find(self, ids: NDArray[Any]) -> NDArray[np.int64]:
        """Return the position of each id, or -1 if it is not in the index."""
        positions = np.full(len(ids), -1)
        for segment, base in self.parts():
            segment.find(ids, base, positions)
        return positions

    def positions_of(self, ids: NDArray[Any]) -> NDArray[np.int64]:
        """Return the position of each id; raise KeyError if one is not in the index."""
        positions = self.find(ids)
        missing = np.flatnonzero(positions < 0)
        if missing.size:
            raise KeyError(f"there is no item with id {ids[missing[0]].item()!r} in the index.")
        return positions

    def factors_at(self, positions: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the factors of the items at some positions."""
        return self._at(positions, [segment.factors for segment in self.segments])

    def rows_at(self, positions: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the rows of the items at some positions."""
        return self._at(positions, [segment.rows for segment in self.segments])

    def ids_at(self, positions: NDArray[np.int64]) -> NDArray[Any]:
        """Return the ids of the items at some positions."""
        return self._at(positions, [segment.ids for segment in self.segments])

    def is_new_at(self, positions: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether the items at some positions were added or updated after the index was fitted."""
        return self._at(positions, [segment.is_new for segment in self.segments])

    def _at(self, positions: NDArray[np.int64], arrays: list[NDArray[Any]]) -> NDArray[Any]:
        """Return the values of the segments' arrays at some positions."""
        if len(arrays) == 1:
            return np.asarray(arrays[0][positions])
        taken = np.empty((*positions.shape, *arrays[0].shape[1:]), np.result_type(*(part.dtype for part in arrays)))
        for part, base in zip(arrays, self.bases, strict=False):
            here = (positions >= base) & (positions < base + len(part))
            taken[here] = part[positions[here] - base]
        return taken

    def text_ids_at(self, positions: NDArray[np.int64]) -> NDArray[Any]:
        """Return string ids as objects; None for position -1."""
        there = positions >= 0
        ids = np.full(positions.shape, None, object)
        if self.segments:
            ids[there] = self.ids_at(positions[there])
        return ids

    def segments_without(self, positions: NDArray[np.int64]) -> tuple[Segment, ...]:
        """Return the segments with the items at some positions removed."""
        kept = []
        for segment, base in self.parts():
            here = positions[(positions >= base) & (positions < base + len(segment))] - base
            kept.append(segment.without(here) if len(here) else segment)
        return tuple(kept)

    def same_kind(self, ids: NDArray[Any]) -> None:
        """Refuse strings if the index has integer ids, and the other way round."""
        kinds = {"U": "strings", "i": "integers"}
        if len(ids) and (ids.dtype.kind == "U") != self.text_ids:
            theirs = kinds["U" if self.text_ids else "i"]
            raise TypeError(f"ids are {kinds[ids.dtype.kind]}, but those in the index are {theirs}.")

    def no_ids(self) -> NDArray[Any]:
        """Return an empty array of the index's id type."""
        return np.zeros(0, np.str_ if self.text_ids else np.int64)

    def memory(self) -> dict[str, int]:
        """Return the bytes of each part of all segments, and of what was fitted."""
        total = {"factors": 0, "ids and rows": 0, "codes": 0, "postings": 0, "tiles": 0}
        for segment in self.segments:
            total = {name: total[name] + part for name, part in segment.memory().items()}
        return total | {"fitted": self.fitted.nbytes}
