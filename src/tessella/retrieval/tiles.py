"""Tiles: items grouped around learned centres and searched tile by tile (the paper's non-uniform tessellation, P14).

Centres are learned from factors that are not normalised, so long items get tiles of their own. The very longest share
tile 0, which every query visits. Integer codes bound scores, both of items in a tile and of centres; see
native/tiles.hpp.

If less than a third of the axes hold nearly all of the items' squared length, tiles use sketches (see `codes.py`)
instead of factors, and codes are shorter. A score is at most the inner product of the sketches, so bounds on that
product also bound the score.
"""

import json
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from tessella import _checks
from tessella._cached import cached
from tessella._kernels import core
from tessella._norms import squared_norms
from tessella._numbers import GROUP_ITEMS, LARGEST_BOUND, LEAST_NORMAL_FLOAT, NORM_SPARE, rounding_share
from tessella._threads import cut, run_blocks, thread_count
from tessella.retrieval.clustering import learn_centres
from tessella.retrieval.codes import Axes

ITEMS_AT_ONCE = 2**12
LONG = 3.0  # times the root-mean-square norm
LONG_SHARE = 2.0  # times the root of the number of items: at most this many are long, since every query reads them
MOST_LONG = 512
POINTS_PER_TILE = 64
MOST_TILES = 2**16
ORDINARY_AXES = 64  # if more axes matter, more rows are read, and smaller tiles save more than they cost
MOST_FOR_WIDTH = 2.5  # the largest factor by which this increases the number of tiles
TILES_AT_ONCE = 32
GROUPS_AT_ONCE = 2**8
TILE_CODES = ("codes", "offsets", "scales")
FEWEST_PER_TILE = 2  # in a segment; with fewer, scanning all items is faster than choosing tiles
BEYOND = 0.5  # for a second tile, an item is moved away from its first centre by this share of its distance


@dataclass(frozen=True)
class LearnedTiles:
    """Tiles that `Index.build` learns from the items: the fastest method if a few answers may be missed.

    Parameters
    ----------
    n_tiles : int or "auto", default "auto"
        The largest number of centres to learn. "auto" is 1.5 times the square root of the number of items, and up to
        2.5 times as many if more than 64 principal axes matter.
    spill : {1, 2}, default 1
        The number of tiles that each item belongs to. 2 doubles the codes and the build time. Tile search then finds
        more at the same reach, and searches for more than 1,000 answers are exact.
    seed : int, default 0
        The random seed.

    Examples
    --------
    >>> import tessella as ts
    >>> from tessella.datasets import generated_factors
    >>> item_factors, user_factors = generated_factors(5_000, 10)
    >>> index = ts.Index.build(item_factors, method=ts.LearnedTiles(n_tiles=64))
    >>> found = index.search(user_factors, k=10, method=ts.Tiles(reach=0.5))
    >>> bool(found.n_scored.mean() < 200)
    True
    """

    n_tiles: int | Literal["auto"] = "auto"
    spill: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.n_tiles, str):
            if self.n_tiles != "auto":
                raise ValueError(f"n_tiles is {self.n_tiles!r}, but must be an integer or 'auto'.")
        else:
            object.__setattr__(self, "n_tiles", _checks.whole_number(self.n_tiles, "n_tiles", 1, MOST_TILES))
        object.__setattr__(self, "spill", _checks.whole_number(self.spill, "spill", 1, 2))
        object.__setattr__(self, "seed", _checks.whole_number(self.seed, "seed", 0))

    def count_for(self, n_items: int, n_axes: int) -> int:
        """Return how many centres to learn from `n_items` items that `n_axes` principal axes describe."""
        if self.n_tiles != "auto":
            return min(int(self.n_tiles), n_items)
        wide = min(max(n_axes / ORDINARY_AXES, 1.0), MOST_FOR_WIDTH)
        return min(n_items, -(-int(1.5 * wide * np.sqrt(n_items)) // GROUP_ITEMS) * GROUP_ITEMS)

    def to_json(self) -> str:
        """Return the parameters as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read the parameters that `to_json` wrote."""
        given = json.loads(text)
        if isinstance(given, dict) and given.get("code_bits") == 8:
            del given["code_bits"]  # a key of files of format 2
        if not isinstance(given, dict) or set(given) != {field.name for field in fields(cls)}:
            raise ValueError("the JSON does not describe learned tiles")
        return cls(**given)


@dataclass(frozen=True)
class TileCodes:
    """Items, or centres, as small integers, each in steps of its own scale, in groups of 16 padded with zeros."""

    codes: NDArray[np.int8]  # (n_groups * code_size / 2 * GROUP_ITEMS * 2)
    offsets: NDArray[np.int16]  # (n_groups * GROUP_ITEMS)
    scales: NDArray[np.float32]  # (n_groups * GROUP_ITEMS)

    @classmethod
    def empty(cls, n: int, n_factors: int) -> Self:
        """Allocate the codes of n factors, in whole groups."""
        size, padded = code_size(n_factors), -(-n // GROUP_ITEMS) * GROUP_ITEMS
        return cls(np.empty(padded * size, np.int8), np.empty(padded, np.int16), np.empty(padded, np.float32))

    @classmethod
    def of(cls, factors: NDArray[np.float32]) -> Self:
        """Code factors."""
        coded = cls.empty(*factors.shape)
        coded.fill(0, factors)
        return coded

    def fill(self, first: int, factors: NDArray[np.float32]) -> None:
        """Code factors, storing them from number `first`, which must begin a group."""
        size, running = code_size(factors.shape[1]), core()
        part = slice(first, first + -(-len(factors) // GROUP_ITEMS) * GROUP_ITEMS)
        codes = self.codes[part.start * size : part.stop * size]
        running.kernels.code_tile_items(factors, codes, self.offsets[part], self.scales[part], running.level)

    @property
    def nbytes(self) -> int:
        """The memory of the arrays in bytes."""
        return self.codes.nbytes + self.offsets.nbytes + self.scales.nbytes


@dataclass(frozen=True)
class CodedCentres(TileCodes):
    """The codes of centres that are sorted by falling norm."""

    norms: NDArray[np.float32]  # (n_groups) a bound of the norms of the centres in this group and all later ones


@dataclass(frozen=True)
class Tiling:
    """The learned centres, and the assignment of items to tiles."""

    parameters: LearnedTiles
    axes: Axes  # of the sketches that tiles use
    centres: NDArray[np.float32]  # (n_tiles, axes.tile_width) by falling norm
    long_norm: float  # items with a larger norm go to tile 0
    n_items: int  # how many items the tiles were learned from

    @classmethod
    def learn(cls, factors: NDArray[np.float32], axes: Axes, parameters: LearnedTiles, threads: int) -> Self:
        """Learn centres from checked factors, or from a sample of them."""
        squares = squared_norms(factors)
        n_long = min(int(LONG_SHARE * np.sqrt(len(factors))), MOST_LONG, len(factors) - 1)
        limit = float(np.partition(squares, -n_long - 1)[-n_long - 1])
        long_norm = float(np.sqrt(max(limit, LONG**2 * squares.mean())))
        ordinary = np.flatnonzero(np.sqrt(squares) <= long_norm)
        n_tiles = parameters.count_for(len(ordinary), axes.head.shape[1])
        rng = np.random.default_rng(parameters.seed)
        sample = np.sort(rng.permutation(ordinary)[: max(POINTS_PER_TILE * n_tiles, 1)])

        def assign(points: NDArray[np.float32], centres: NDArray[np.float32]) -> NDArray[np.int32]:
            return cls(parameters, axes, centres, np.inf, 0).nearest(points, threads)

        centres = learn_centres(axes.sketch(factors[sample]), n_tiles, parameters.seed, assign)
        by_norm = np.ascontiguousarray(centres[np.argsort(-squared_norms(centres), kind="stable")])
        return cls(parameters, axes, by_norm, long_norm, len(factors))

    @cached
    def coded(self) -> CodedCentres:
        """The centres as small integers."""
        coded = TileCodes.of(self.centres)
        norms = np.zeros(len(coded.scales))
        norms[: len(self.centres)] = np.sqrt(squared_norms(self.centres)) * (1 + 2 * NORM_SPARE) + LEAST_NORMAL_FLOAT
        from_here_on = np.maximum.accumulate(norms[::-1])[::-1][::GROUP_ITEMS]
        return CodedCentres(coded.codes, coded.offsets, coded.scales, from_here_on.astype(np.float32))

    @cached
    def halves(self) -> NDArray[np.float32]:
        """Half the squared norms of the centres."""
        return np.minimum(0.5 * squared_norms(self.centres), LARGEST_BOUND).astype(np.float32)

    def nearest(
        self, sketches: NDArray[np.float32], threads: int, taken: NDArray[np.int32] | None = None
    ) -> NDArray[np.int32]:
        """Return the number of the centre nearest to each sketch, other than the one in `taken`."""
        running = core()
        numbers = np.empty(len(sketches), np.int32)
        coded = self.coded

        def look(part: slice) -> None:
            others = None if taken is None else taken[part]
            running.kernels.nearest_tiles(coded, self.halves, sketches[part], others, numbers[part], running.level)

        run_blocks(look, cut(len(sketches), ITEMS_AT_ONCE), threads)
        return numbers

    def is_long(self, factors: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Return which items belong to tile 0."""
        return np.asarray(np.sqrt(squared_norms(factors)) > self.long_norm)

    def tiles_of(self, factors: NDArray[np.float32], threads: int) -> NDArray[np.int32]:
        """Return the tiles of each item, (n, spill) or (n, 1): 0 for the longest items, else the centre's number + 1.

        The search for a second tile starts from a point beyond the item, as seen from the first centre. So the second
        centre tends to lie on the other side of the item.
        """
        spilled = self.parameters.spill > 1 and len(self.centres) > 1
        tiles = np.empty((len(factors), 1 + spilled), np.int32)

        def assign(part: slice) -> None:
            sketches = self.axes.sketch(factors[part])
            first = self.nearest(sketches, threads=1)
            tiles[part, 0] = first + 1
            if spilled:
                beyond = sketches + np.float32(BEYOND) * (sketches - self.centres[first])
                tiles[part, 1] = self.nearest(beyond, threads=1, taken=first) + 1
            tiles[part][self.is_long(factors[part])] = 0

        run_blocks(assign, cut(len(factors), ITEMS_AT_ONCE), threads)
        return tiles

    @property
    def nbytes(self) -> int:
        """The memory of the arrays in bytes."""
        return self.centres.nbytes + self.coded.nbytes + self.halves.nbytes


@dataclass(frozen=True)
class TiledItems:
    """A segment's items by tile, and within a tile in groups of neighbours with centres and radii of their own."""

    members: NDArray[np.int32]  # (n_groups * GROUP_ITEMS) positions, -1 for free places in a tile's last group
    starts: NDArray[np.int32]  # (n_tiles + 2) the first group of each tile
    radii: NDArray[np.float32]  # (n_tiles in whole groups) bounds of the distances of a tile's items from its centre
    coded: TileCodes  # of members
    groups: TileCodes  # of the groups' centres; those of a tile begin at a multiple of GROUP_ITEMS
    group_radii: NDArray[np.float32]  # one for each entry of `groups`

    @classmethod
    def build(cls, factors: NDArray[np.float32], tiling: Tiling, threads: int) -> Self:
        """Assign factors, sorted by falling norm, to tiles. If there are few, all go to tile 0."""
        grouped = _grouped(factors, *_members_by_tile(factors, tiling, threads), threads)
        return cls.in_groups(factors, tiling, *grouped, threads)

    @classmethod
    def of(
        cls,
        factors: NDArray[np.float32],
        tiling: Tiling,
        members: NDArray[np.int32],
        sizes: NDArray[np.integer[Any]],
        threads: int,
    ) -> Self:
        """Group the members of each tile, given tile after tile, together with the number of members per tile."""
        return cls.in_groups(factors, tiling, *_grouped(factors, members, sizes, threads), threads)

    @classmethod
    def in_groups(
        cls,
        factors: NDArray[np.float32],
        tiling: Tiling,
        members: NDArray[np.int32],
        starts: NDArray[np.int32],
        threads: int,
    ) -> Self:
        """Compute codes and radii, given the groups of each tile."""
        n_tiles, width = tiling.centres.shape
        centre_starts = _centre_starts(starts)
        n_centres = int(centre_starts[-1]) * GROUP_ITEMS
        tiled = cls(
            members,
            starts,
            np.zeros(-(-n_tiles // GROUP_ITEMS) * GROUP_ITEMS, np.float32),
            TileCodes.empty(len(members), width),
            TileCodes.empty(n_centres, width),
            np.zeros(n_centres, np.float32),
        )
        tile_of = np.repeat(np.arange(n_tiles + 1), np.diff(starts))  # of each group
        centre_of = np.arange(len(tile_of)) + (centre_starts[:-1] * GROUP_ITEMS - starts[:-1])[tile_of]
        distances = np.zeros(len(tile_of))

        def enter(part: slice) -> None:  # of the centres of groups
            first, end = np.searchsorted(centre_of, [part.start, part.stop])
            groups = slice(first, end)
            here = members[first * GROUP_ITEMS : end * GROUP_ITEMS]
            theirs = tiling.axes.sketch(factors[np.maximum(here, 0)])
            theirs[here < 0] = 0
            tiled.coded.fill(first * GROUP_ITEMS, theirs)
            there = (here >= 0).reshape(-1, GROUP_ITEMS)
            by_group = theirs.reshape(len(there), GROUP_ITEMS, width).astype(np.float64)
            means = (by_group.sum(axis=1) / there.sum(axis=1)[:, None]).astype(np.float32)
            radii = _with_room(_farthest(by_group, there, means), means, factors.shape[1])
            tiled.group_radii[centre_of[groups]] = radii
            distances[groups] = _farthest(by_group, there, tiling.centres[np.maximum(tile_of[groups] - 1, 0)])
            centres = np.zeros((part.stop - part.start, width), np.float32)
            centres[centre_of[groups] - part.start] = means
            tiled.groups.fill(part.start, centres)

        run_blocks(enter, cut(n_centres, GROUPS_AT_ONCE), threads)
        farthest = np.zeros(n_tiles)
        around = tile_of > 0
        np.maximum.at(farthest, tile_of[around] - 1, distances[around])
        tiled.radii[:n_tiles] = _with_room(farthest, tiling.centres, factors.shape[1])
        return tiled

    @cached
    def n_members(self) -> int:
        """The number of members; an item in two tiles counts twice."""
        return len(self.members) - int(self.rooms.sum())

    @cached
    def rooms(self) -> NDArray[np.uint8]:
        """(n_tiles + 1) the number of free places in the last group of each tile."""
        last = np.maximum(self.starts[1:] - 1, 0)  # group of each tile; only there is room
        rooms = (self.members.reshape(-1, GROUP_ITEMS)[last] < 0).sum(axis=1, dtype=np.uint8)
        return np.where(np.diff(self.starts) > 0, rooms, np.uint8(0))

    @cached
    def centre_starts(self) -> NDArray[np.int32]:
        """(n_tiles + 2) where the centres of each tile's groups begin, in multiples of GROUP_ITEMS."""
        return _centre_starts(self.starts)

    def check(self, factors: NDArray[np.float32], tiling: Tiling) -> None:
        """Refuse arrays that do not match the factors, since certificates rely on them. Only a forged file has such."""
        self.check_groups(self.members, self.starts, len(factors), len(tiling.centres))
        right = type(self).in_groups(factors, tiling, self.members, self.starts, thread_count(None))
        for name in ("radii", "group_radii"):  # which may be rounded differently on another machine
            mine, fresh = getattr(self, name), getattr(right, name)
            _checks.expect(mine, f"tile {name}", np.float32, fresh.shape)
            if not (np.abs(mine - fresh) <= NORM_SPARE * fresh).all():
                raise ValueError(f"{name} of tiles do not match the factors")
        for name, mine, fresh in (
            *((part, getattr(self.coded, part), getattr(right.coded, part)) for part in TILE_CODES),
            *((f"group_{part}", getattr(self.groups, part), getattr(right.groups, part)) for part in TILE_CODES),
        ):
            if not np.array_equal(mine, fresh):
                raise ValueError(f"{name} of tiles do not match the factors")

    @staticmethod
    def check_groups(members: NDArray[np.int32], starts: NDArray[np.int32], n: int, n_tiles: int) -> None:
        """Refuse groups that do not contain all n items, or that point outside the arrays."""
        n_groups = len(members) // GROUP_ITEMS
        _checks.expect(members, "tile_members", np.int32, (n_groups * GROUP_ITEMS,))
        _checks.expect(starts, "tile_starts", np.int32, (n_tiles + 2,))
        if starts[0] != 0 or starts[-1] != n_groups or (np.diff(starts) < 0).any():
            raise ValueError("tiles point outside the arrays")
        there = members[members >= 0]
        if not np.array_equal(np.unique(there), np.arange(n)) or len(there) > 2 * n or (members < -1).any():
            raise ValueError("tiles do not contain every item")
        rooms = (members < 0).reshape(-1, GROUP_ITEMS)
        last = np.zeros(n_groups, np.bool_)
        last[starts[1:][np.diff(starts) > 0] - 1] = True
        if rooms[~last].any() or rooms[:, 0].any() or (np.diff(rooms.astype(np.int8), axis=1) < 0).any():
            raise ValueError("groups of tiles are not filled in order")

    @property
    def nbytes(self) -> int:
        """The memory of the arrays in bytes."""
        own = self.members.nbytes + self.starts.nbytes + self.radii.nbytes + self.group_radii.nbytes
        return own + self.coded.nbytes + self.groups.nbytes


def code_size(width: int) -> int:
    """Return the number of coordinates of a code: the coded coordinates, rounded up to an even number."""
    return width + width % 2


def _members_by_tile(
    factors: NDArray[np.float32], tiling: Tiling, threads: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the members of all tiles, tile after tile, each in order, and how many each tile has."""
    if len(factors) < FEWEST_PER_TILE * len(tiling.centres):
        tiles = np.zeros((len(factors), 1), np.int32)
    else:
        tiles = tiling.tiles_of(factors, threads)
    numbers = np.repeat(np.arange(len(factors), dtype=np.int32), tiles.shape[1])
    flat = tiles.ravel()
    if tiles.shape[1] > 1:  # items whose two tiles are the same, such as the longest, are listed once
        once = tiles != tiles[:, :1]
        once[:, 0] = True
        numbers, flat = numbers[once.ravel()], flat[once.ravel()]
    return numbers[np.argsort(flat, kind="stable")], np.bincount(flat, minlength=len(tiling.centres) + 1)


def _grouped(
    factors: NDArray[np.float32], members: NDArray[np.int32], sizes: NDArray[np.integer[Any]], threads: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the members of all tiles in groups of neighbours, padded with -1, and the first group of each tile."""
    ends = np.concatenate([[0], np.cumsum(sizes)])
    grouped, running = members.copy(), core()

    def group(part: slice) -> None:
        here = ends[part.start : part.stop + 1]
        running.kernels.group_neighbours(factors, here - here[0], grouped[here[0] : here[-1]], running.level)

    run_blocks(group, cut(len(sizes), TILES_AT_ONCE), threads)
    starts = np.concatenate([[0], np.cumsum(-(-sizes // GROUP_ITEMS))])
    padded = np.full(starts[-1] * GROUP_ITEMS, -1, np.int32)
    places = np.repeat(starts[:-1] * GROUP_ITEMS - ends[:-1], sizes)
    places += np.arange(len(members))
    padded[places] = grouped
    return padded, starts.astype(np.int32)


def _centre_starts(starts: NDArray[np.int32]) -> NDArray[np.int32]:
    return np.concatenate([[0], np.cumsum(-(-np.diff(starts) // GROUP_ITEMS))]).astype(np.int32)


def _farthest(
    factors: NDArray[np.float64], there: NDArray[np.bool_], centres: NDArray[np.float32]
) -> NDArray[np.float64]:
    """Return the largest distance of each group's items from its centre."""
    apart = factors - centres[:, None]
    squares = squared_norms(apart.reshape(-1, apart.shape[2])).reshape(there.shape)
    farthest: NDArray[np.float64] = np.sqrt(np.where(there, squares, 0).max(axis=1, initial=0))
    return farthest


def _with_room(farthest: NDArray[np.float64], centres: NDArray[np.float32], n_factors: int) -> NDArray[np.float32]:
    """Return radii with a margin for rounding errors in scores, in distances and in the radii themselves."""
    room = rounding_share(n_factors)
    radii = farthest * (1 + 2 * NORM_SPARE) + 2 * room * (np.sqrt(squared_norms(centres)) + farthest)
    return np.minimum(radii + LEAST_NORMAL_FLOAT, LARGEST_BOUND).astype(np.float32)
