"""Tile search: find the tiles that may hold answers, and search the items in them (P14)."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella import _numbers as numbers
from tessella._packing import ranks_of
from tessella._reference.arithmetic import Doubles, Floats, inner_products
from tessella._reference.best import Best, QueryFilter
from tessella._reference.codes import code_tile_queries, half_steps, sketch, squares_in_stripes

LARGEST = np.float32(numbers.LARGEST_BOUND)
INFINITY = np.float32(np.inf)
SPLIT_ROUNDS = 4


@dataclass(frozen=True)
class TileQuery:
    """A query as small integers, with the numbers that its bounds need."""

    code: NDArray[np.uint8]
    scale: np.float32
    norm: np.float32
    tail: np.float32  # the last coordinate of its sketch; 0 if tiles use factors, not sketches
    reach: float
    n_factors: int
    width: int  # of the coded vectors

    @classmethod
    def of(cls, query: Floats, head: Doubles, reach: float) -> "TileQuery":
        """Code the sketch of a query."""
        (n_factors, n_head), tail, vectors = head.shape, np.float32(0), query[None]
        if numbers.tile_width(n_head, n_factors) < n_factors:
            vectors = np.empty((1, n_head + 1), np.float32)
            sketch(query[None], head, vectors, 0)
            tail = vectors[0, -1]
        codes, scales, norms = code_tile_queries(vectors)
        return cls(codes[0], scales[0], norms[0], tail, reach, n_factors, vectors.shape[1])

    @property
    def slack(self) -> np.float32:
        """The largest error of a product of codes, in steps: both codes are rounded, and so are scores."""
        half, length = half_steps(len(self.code)), float(self.norm) / float(self.scale)
        strayed = half + numbers.rounding_share(self.n_factors) * length
        missing = (length + half) * half + numbers.LONGEST_ITEM_CODE * strayed + 1.0
        return np.float32(self.reach * self.reach * missing)

    def lost(self, coded: Any) -> Floats:
        """Return how far the scores of coded items may lie below their bounds, in steps of both codes."""
        size, column = len(self.code), self.width - 1
        tails = coded.codes.reshape(-1, size // 2, numbers.GROUP_ITEMS, 2)[:, column // 2, :, column % 2].ravel()
        tail = np.minimum(np.float32(1 + self.reach) * self.tail / self.scale, LARGEST)
        lost: Floats = np.float32(2) * self.slack + tail * (tails.astype(np.float32) + np.float32(0.5))
        return lost

    def tile_bounds(self, centres: Any, radii: Floats) -> Floats:
        """Return the bound of each tile's best score, with `reach` times its radius; -inf for padding."""
        bounds = coded_bounds(centres, self.code, self.slack)
        with np.errstate(over="ignore"):
            at_centres = np.where(bounds < LARGEST, _finite(bounds * self.scale), LARGEST)
            at_most = _finite(self.norm * np.repeat(centres.norms, numbers.GROUP_ITEMS))
            at_centres = np.where(centres.scales > 0, np.minimum(at_centres, at_most), -INFINITY)
            at_tiles: Floats = np.minimum(at_centres + np.float32(self.reach * float(self.norm)) * radii, LARGEST)
        return at_tiles


def coded_bounds(coded: Any, code: NDArray[np.uint8], slack: np.float32) -> Floats:
    """Return (product + slack) * an item's scale: an upper bound of the score, in steps of the query's scale."""
    size = len(code)
    whole = coded.codes.reshape(-1, size // 2, numbers.GROUP_ITEMS, 2).transpose(0, 2, 1, 3).reshape(-1, size)
    products = (whole.astype(np.int64) @ code.astype(np.int64) + coded.offsets).astype(np.uint16).view(np.int16)
    with np.errstate(over="ignore"):
        return _finite((products.astype(np.float32) + slack) * coded.scales)


def _finite(bounds: Floats) -> Floats:
    """Replace infinities, which mark missing items, by the largest finite bound."""
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
    """Fill in the first tile with the largest (product - half its centre's squared norm), except the one taken."""
    codes, scales, _ = code_tile_queries(factors)
    for number, (code, scale) in enumerate(zip(codes, scales, strict=True)):
        with np.errstate(over="ignore"):
            values = coded_bounds(centres, code, np.float32(0))[: len(halves)] * scale - halves
        if taken is not None:
            values[taken[number]] = -np.inf
        tiles[number] = np.argmax(values)


def group_neighbours(
    factors: Floats,
    starts: NDArray[np.int64],
    members: NDArray[np.int32],
    level: int,  # noqa: ARG001
) -> None:
    """Sort the members of each tile into groups of neighbours."""
    for start, stop in itertools.pairwise(starts.tolist()):
        members[start:stop] = _split(factors, members[start:stop])


def _split(factors: Floats, members: NDArray[np.int32]) -> NDArray[np.int32]:
    """Halve members recursively until single groups are left, along the line between the means of the halves."""
    n_groups = -(-len(members) // numbers.GROUP_ITEMS)
    if n_groups < 2:
        return members
    n_first = n_groups // 2 * numbers.GROUP_ITEMS
    shares = np.full((len(members), 1), -1.0 / (len(members) - n_first))
    shares[:n_first] = 1.0 / n_first
    for _ in range(SPLIT_ROUNDS):
        between = np.cumsum(factors[members].astype(np.float64) * shares, axis=0)[-1]  # summed in sequence
        norm = np.sqrt(squares_in_stripes(between))
        if not norm > 0:
            break
        along = np.empty((1, len(members)), np.float32)
        inner_products((between / norm).astype(np.float32)[None], factors[members], along, 0)
        order = np.argsort(-along[0], kind="stable")
        members = members[np.concatenate([np.sort(order[:n_first]), np.sort(order[n_first:])])]
    return np.concatenate([_split(factors, members[:n_first]), _split(factors, members[n_first:])])


def group_bounds(tiled: Any, coded: TileQuery) -> Floats:
    """Return a bound of each group's scores, in steps; the largest float for small tiles and for the long items."""
    at_centres = coded_bounds(tiled.groups, coded.code, coded.slack)
    per_radius = np.float32(coded.reach * float(coded.norm)) / coded.scale
    with np.errstate(over="ignore"):
        bounds = _finite(at_centres + per_radius * tiled.group_radii)
    sizes = np.diff(tiled.starts)
    tile_of = np.repeat(np.arange(len(sizes)), sizes)
    within = np.arange(len(tile_of)) - tiled.starts[tile_of]
    bounded = ((tile_of > 0) | (sizes[0] == sizes.sum())) & (sizes[tile_of] > numbers.FEW_GROUPS)
    numbered = np.where(bounded, tiled.centre_starts[tile_of] * numbers.GROUP_ITEMS + within, 0)
    groups: Floats = np.where(bounded, bounds[numbered], LARGEST) if len(bounds) else np.zeros(0, np.float32)
    return groups


@dataclass
class Visitor:
    """Takes one query through the tiles of a segment."""

    segment: Any
    base: int
    coded: TileQuery
    best: Best
    rules: QueryFilter

    def __post_init__(self) -> None:
        tiled = self.segment.tiles
        self.bounds = coded_bounds(tiled.coded, self.coded.code, self.coded.slack)
        self.groups = group_bounds(tiled, self.coded)
        self.allowed = self.rules.allows(self.segment)
        self.excluded = self.rules.excludes(self.segment)
        largest = -(-int(np.diff(tiled.starts).max()) // numbers.GROUP_ITEMS) * numbers.GROUP_ITEMS + 1
        self.n_classes = -(-2 * min(self.best.k, largest * numbers.GROUP_ITEMS) // 32) * 32

    @property
    def worst(self) -> np.float32:
        """The least bound of a tile that is worth visiting."""
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
        """Score the items of a tile that may be among the best, starting with the groups of the largest bounds."""
        groups = np.arange(*self.segment.tiles.starts[tile : tile + 2])
        bounds = self.groups[groups]
        wanted = -(-4 * (self.best.k - len(self.best.scores)) // numbers.GROUP_ITEMS)
        floor = np.float32(-LARGEST)
        if (bounds < LARGEST).any() and len(groups) > numbers.FEW_GROUPS and 0 < wanted < len(groups):
            floor = -np.sort(-bounds)[wanted - 1]
            self._score_read(groups[bounds >= floor])
            groups, bounds = groups[bounds < floor], bounds[bounds < floor]
        self._score_read(groups[bounds >= self.limit])

    def _score_read(self, groups: NDArray[np.int64]) -> None:
        """Score the items of some groups that may be among the best."""
        read = (groups[:, None] * numbers.GROUP_ITEMS + np.arange(numbers.GROUP_ITEMS)).ravel()
        there = self.segment.tiles.members[read] >= 0
        done = INFINITY if self.best.is_full else self._score_best_bounded(read, there)
        self._score_between(read[there], np.float32(-LARGEST), done)

    def _score_between(self, read: NDArray[np.int64], limit: np.float32, done: np.float32) -> None:
        """Score items one by one whose bounds lie between a rising limit and `done`; those above are done already."""
        for position, bound in zip(self.segment.tiles.members[read], self.bounds[read], strict=True):
            if not max(limit, self.limit) <= bound < done or not self.allowed[position]:
                continue
            rank = ranks_of(self.segment.rows[position], self.base + position)
            if self.excluded[position] or rank in self.best.ranks:
                self.best.n_scored += 1
            else:
                self.best.score(self.segment, self.base, np.array([position]))

    def _score_best_bounded(self, read: NDArray[np.int64], there: NDArray[np.bool_]) -> np.float32:
        """Score items from the largest bounds down until there are k; return the bound above which all are done."""
        classes = np.full(self.n_classes, -LARGEST, np.float32)
        np.maximum.at(classes, np.flatnonzero(there) % self.n_classes, self.bounds[read[there]])
        reached = -np.sort(-classes[classes > -LARGEST])
        done, wanted = INFINITY, self.best.k - len(self.best.scores)
        while not self.best.is_full and wanted <= len(reached) and done > -LARGEST:
            least = reached[wanted - 1]
            self._score_between(read[there], least, done)
            done, wanted = least, 2 * wanted
        return done


def scan_tiles(visitor: Visitor, tile_bounds: Floats) -> None:
    """After tile 0, visit tiles by falling bound until there are k answers, then all that may hold better ones."""
    bounds = tile_bounds[: len(visitor.segment.tiles.starts) - 2]
    floor, opening = INFINITY, True
    while (opening or not visitor.best.is_full) and (bounds < floor).any():
        opening, most = False, bounds[bounds < floor].max()
        if most < visitor.worst:
            break
        for tile in np.flatnonzero(bounds == most).tolist():
            visitor.visit(1 + tile)
        floor = most
    for tile in np.flatnonzero(bounds < floor).tolist():
        if bounds[tile] >= visitor.worst:
            visitor.visit(1 + tile)


def gather_tiles(
    parts: Sequence[tuple[Any, int]], coded: TileQuery, tile_bounds: Floats, best: Best, rules: QueryFilter
) -> None:
    """Gather bounds of all items first, then score those whose upper bound reaches the k-th largest lower bound.

    An item's upper bound is at most its group's, and a group's is at most its tile's.
    """
    uppers, lowers, places = [], [], []
    for number, (segment, _) in enumerate(parts):
        tiled = segment.tiles
        sizes = np.diff(tiled.starts)
        with np.errstate(over="ignore"):
            in_steps = _finite(tile_bounds[: len(sizes) - 1] / coded.scale)
        of_tiles = np.repeat(np.concatenate([[LARGEST], in_steps]), sizes)
        caps = np.repeat(np.minimum(group_bounds(tiled, coded), of_tiles), numbers.GROUP_ITEMS)
        upper = np.minimum(coded_bounds(tiled.coded, coded.code, coded.slack), caps)
        with np.errstate(over="ignore"):
            lower = upper - coded.lost(tiled.coded) * tiled.coded.scales
        there = np.flatnonzero(tiled.members >= 0)
        there = there[(rules.allows(segment) & ~rules.excludes(segment))[tiled.members[there]]]
        uppers.append(upper[there])
        lowers.append(lower[there])
        places.append(np.stack([np.full(len(there), number), tiled.members[there]], axis=1))
    upper, lower, place = np.concatenate(uppers), np.concatenate(lowers), np.concatenate(places)
    if len(lower) >= best.k:
        lost = np.float32(len(best.query)) * np.float32(numbers.UNDERFLOW_LOSS)
        cut = -np.sort(-lower)[best.k - 1] - np.float32(2) * lost / coded.scale
        place = place[upper >= cut]
    for number, (segment, base) in enumerate(parts):
        best.score(segment, base, place[place[:, 0] == number, 1])
