"""Tile search: the tiles that may hold answers, and the items in them (P14)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella import _numbers as numbers
from tessella._packing import ranks_of
from tessella._reference.arithmetic import Floats
from tessella._reference.best import Best, QueryFilter
from tessella._reference.codes import code_tile_queries, half_steps

LARGEST = np.float32(numbers.LARGEST_BOUND)
INFINITY = np.float32(np.inf)


@dataclass(frozen=True)
class TileQuery:
    """A query in small integers, and what its bounds are made of."""

    code: NDArray[np.uint8]
    scale: np.float32
    norm: np.float32
    reach: float
    n_factors: int

    @classmethod
    def of(cls, query: Floats, reach: float) -> "TileQuery":
        """Code a query."""
        codes, scales, norms = code_tile_queries(query[None])
        return cls(codes[0], scales[0], norms[0], reach, len(query))

    @property
    def slack(self) -> np.float32:
        """What may be missing from a product of codes, in their steps: both codes lie off, and scores are rounded."""
        half, length = half_steps(len(self.code)), float(self.norm) / float(self.scale)
        strayed = half + numbers.rounding_share(self.n_factors) * length
        missing = (length + half) * half + numbers.LONGEST_ITEM_CODE * strayed + 1.0
        return np.float32(self.reach * self.reach * missing)

    @property
    def length(self) -> np.float32:
        """What an item scores at most, in steps of its scale: its code is as long as a code may be, or shorter."""
        longest = numbers.LONGEST_ITEM_CODE - half_steps(len(self.code))
        length = float(self.norm) * longest * (1.0 + numbers.rounding_share(self.n_factors))
        return np.float32(length) if length < LARGEST else INFINITY

    def tile_bounds(self, centres: Any, radii: Floats) -> Floats:
        """What the best item of each tile scores at most, as far as `reach` trusts bounds; -inf beyond the last."""
        bounds = coded_bounds(centres, self.code, self.slack)
        with np.errstate(over="ignore"):
            at_centres = np.where(bounds < LARGEST, _finite(bounds * self.scale), LARGEST)
            at_centres = np.where(centres.scales > 0, at_centres, -INFINITY)
            at_tiles: Floats = np.minimum(at_centres + np.float32(self.reach * float(self.norm)) * radii, LARGEST)
        return at_tiles


def coded_bounds(coded: Any, code: NDArray[np.uint8], slack: np.float32) -> Floats:
    """(Product + slack) * an item's scale: in steps of the query's scale, at least the score."""
    size = len(code)
    whole = coded.codes.reshape(-1, size // 2, numbers.GROUP_ITEMS, 2).transpose(0, 2, 1, 3).reshape(-1, size)
    products = (whole.astype(np.int64) @ code.astype(np.int64) + coded.offsets).astype(np.uint16).view(np.int16)
    with np.errstate(over="ignore"):
        return _finite((products.astype(np.float32) + slack) * coded.scales)


def _finite(bounds: Floats) -> Floats:
    """Bounds without infinities, which mark what is not there."""
    clipped: Floats = np.clip(bounds, -LARGEST, LARGEST)
    return clipped


def nearest_tiles(
    centres: Any,
    halves: Floats,
    factors: Floats,
    taken: NDArray[np.int32] | None,
    tiles: NDArray[np.int32],
    level: int,  # noqa: ARG001
) -> None:
    """The first tile with the greatest product less half the squared norm of its centre; not the one taken."""
    codes, scales, _ = code_tile_queries(factors)
    for number, (code, scale) in enumerate(zip(codes, scales, strict=True)):
        with np.errstate(over="ignore"):
            values = coded_bounds(centres, code, np.float32(0))[: len(halves)] * scale - halves
        if taken is not None:
            values[taken[number]] = -np.inf
        tiles[number] = np.argmax(values)


@dataclass
class Visitor:
    """A query on its way through the tiles of a segment."""

    segment: Any
    base: int
    coded: TileQuery
    best: Best
    rules: QueryFilter

    def __post_init__(self) -> None:
        tiled = self.segment.tiles
        self.bounds = coded_bounds(tiled.coded, self.coded.code, self.coded.slack)
        self.allowed = self.rules.allows(self.segment)
        self.excluded = self.rules.excludes(self.segment)
        largest = int(np.diff(tiled.starts).max())
        self.n_classes = -(-2 * min(self.best.k, largest) // 32) * 32

    @property
    def worst(self) -> np.float32:
        """What a bound must reach to be worth a look."""
        lost = np.float32(self.segment.factors.shape[1] * numbers.UNDERFLOW_LOSS)
        return np.float32(self.best.scores[-1] - lost) if self.best.is_full else np.float32(-LARGEST)

    @property
    def limit(self) -> np.float32:
        """The least bound worth scoring, in steps of the query's scale."""
        if not self.best.is_full:
            return np.float32(-LARGEST)
        with np.errstate(over="ignore"):
            return np.float32(np.clip(self.worst / self.coded.scale, -LARGEST, LARGEST))

    def visit(self, tile: int) -> None:
        """Score the items of a tile that may be among the best."""
        start = int(self.segment.tiles.starts[tile])
        stop = self._first_too_short(start, int(self.segment.tiles.starts[tile + 1]))
        if start == stop:
            return
        members = slice(start, stop)
        done = INFINITY if self.best.is_full else self._score_best_bounded(members)
        self._score_between(members, np.float32(-LARGEST), done)

    def _first_too_short(self, start: int, stop: int) -> int:
        """Where a tile's items, which are by falling norm, become too short; looks once a group."""
        member, scales, group = start, self.segment.tiles.coded.scales, numbers.GROUP_ITEMS
        with np.errstate(over="ignore"):
            while member < stop and self.coded.length * scales[member] >= self.worst:
                member = member // group * group + group
        return min(member, stop)

    def _score_between(self, members: slice, limit: np.float32, done: np.float32) -> None:
        """Score, one after another, items with bounds from a limit, which rises, up to those dealt with."""
        for position, bound in zip(self.segment.tiles.members[members], self.bounds[members], strict=True):
            if not max(limit, self.limit) <= bound < done or not self.allowed[position]:
                continue
            rank = ranks_of(self.segment.rows[position], self.base + position)
            if self.excluded[position] or rank in self.best.ranks:
                self.best.n_scored += 1
            else:
                self.best.score(self.segment, self.base, np.array([position]))

    def _score_best_bounded(self, members: slice) -> np.float32:
        """Score what the best classes of items may reach until there are k; from where on all are dealt with."""
        bounds = self.bounds[members]
        classes = np.full(self.n_classes, -LARGEST, np.float32)
        np.maximum.at(classes, np.arange(len(bounds)) % self.n_classes, bounds)
        reached = -np.sort(-classes[classes > -LARGEST])
        done, wanted = INFINITY, self.best.k - len(self.best.scores)
        while not self.best.is_full and wanted <= len(reached) and done > -LARGEST:
            least = reached[wanted - 1]
            self._score_between(members, least, done)
            done, wanted = least, 2 * wanted
        return done


def scan_tiles(visitor: Visitor, tile_bounds: Floats) -> None:
    """Take a query to tile 0, to its best-bounded tiles until it has k answers, then to all that may hold better."""
    bounds = tile_bounds[: len(visitor.segment.tiles.starts) - 2]
    visitor.visit(0)
    floor, opening = INFINITY, True
    while (opening or not visitor.best.is_full) and (bounds < floor).any():
        opening, most = False, bounds[bounds < floor].max()
        for tile in np.flatnonzero(bounds == most).tolist():
            visitor.visit(1 + tile)
        floor = most
    for tile in np.flatnonzero(bounds < floor).tolist():
        if bounds[tile] >= visitor.worst:
            visitor.visit(1 + tile)
