"""Tiles: items around learned centres, and searched tile by tile (the paper's non-uniform tessellation, P14).

Centres are learned from the factors as they are, so long items get tiles of their own; the very longest share tile 0,
which every query visits. Inside a tile, and among centres, integer codes bound scores; see native/tiles.hpp.
"""

import json
from dataclasses import asdict, dataclass, fields
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from tessella import _checks
from tessella._cached import cached
from tessella._kernels import core
from tessella._norms import squared_norms
from tessella._numbers import GROUP_ITEMS, LARGEST_BOUND, LEAST_NORMAL_FLOAT, NORM_SPARE, rounding_share
from tessella._threads import cut, run_blocks, thread_count
from tessella.retrieval.clustering import learn_centres

ITEMS_AT_ONCE = 2**12
LONG = 3.0  # times the root mean square of norms
MOST_LONG = 2.0  # times the root of the number of items, since every query goes through them
POINTS_PER_TILE = 64
MOST_TILES = 2**16
FEWEST_PER_TILE = 2  # in a segment; looking through fewer is faster than looking for tiles
BEYOND = 0.5  # of its way from the first centre, an item goes on to look for a second


@dataclass(frozen=True)
class LearnedTiles:
    """Tiles learned from the items, for `Index.build`: the fastest method where a few answers may be missed.

    Parameters
    ----------
    n_tiles : int or "auto", default "auto"
        How many centres to learn, at most; "auto" is 1.5 times the square root of the number of items.
    spill : {1, 2}, default 1
        Of how many tiles an item is a member. 2 doubles codes and build time; tiles then miss less at the same reach,
        and searches for more than 1,000 answers are exact.
    seed : int, default 0
        What is drawn at random depends on it alone.

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
                raise ValueError(f"n_tiles is {self.n_tiles!r}, but must be a whole number or 'auto'.")
        else:
            object.__setattr__(self, "n_tiles", _checks.whole_number(self.n_tiles, "n_tiles", 1, MOST_TILES))
        object.__setattr__(self, "spill", _checks.whole_number(self.spill, "spill", 1, 2))
        object.__setattr__(self, "seed", _checks.whole_number(self.seed, "seed", 0))

    def count_for(self, n_items: int) -> int:
        """How many centres to learn from so many items."""
        if self.n_tiles != "auto":
            return min(int(self.n_tiles), n_items)
        return min(n_items, -(-int(1.5 * np.sqrt(n_items)) // GROUP_ITEMS) * GROUP_ITEMS)

    def to_json(self) -> str:
        """The parameters as JSON text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The tiles that `to_json` wrote."""
        given = json.loads(text)
        if isinstance(given, dict) and given.get("code_bits") == 8:
            del given["code_bits"]  # which files of format 2 name
        if not isinstance(given, dict) or set(given) != {field.name for field in fields(cls)}:
            raise ValueError("the text does not describe learned tiles")
        return cls(**given)


@dataclass(frozen=True)
class TileCodes:
    """Items, or centres, as small integers, each in steps of its own scale, in groups of 16 padded with nothing."""

    codes: NDArray[np.int8]  # (n_groups * code_size / 2 * GROUP_ITEMS * 2)
    offsets: NDArray[np.int16]  # (n_groups * GROUP_ITEMS)
    scales: NDArray[np.float32]  # (n_groups * GROUP_ITEMS)

    @classmethod
    def of(cls, factors: NDArray[np.float32], threads: int = 1) -> Self:
        """Code factors."""
        n, size = len(factors), code_size(factors.shape[1])
        padded = -(-n // GROUP_ITEMS) * GROUP_ITEMS
        coded = cls(np.empty(padded * size, np.int8), np.empty(padded, np.int16), np.empty(padded, np.float32))
        running = core()

        def code(part: slice) -> None:
            padded = slice(part.start, -(-part.stop // GROUP_ITEMS) * GROUP_ITEMS)
            codes = coded.codes[padded.start * size : padded.stop * size]
            running.kernels.code_tile_items(
                factors[part], codes, coded.offsets[padded], coded.scales[padded], running.level
            )

        run_blocks(code, cut(n, ITEMS_AT_ONCE), threads)
        return coded

    def check(self, factors: NDArray[np.float32]) -> None:
        """Refuse codes that are not those of the factors, as only a forged file has."""
        right = type(self).of(factors, thread_count(None))
        for name in ("codes", "offsets", "scales"):
            if not np.array_equal(getattr(self, name), getattr(right, name)):
                raise ValueError(f"{name} of tiles are not those of the factors")

    @property
    def nbytes(self) -> int:
        """Memory of the arrays."""
        return self.codes.nbytes + self.offsets.nbytes + self.scales.nbytes


@dataclass(frozen=True)
class Tiling:
    """Centres that were learned, and who goes where."""

    parameters: LearnedTiles
    centres: NDArray[np.float32]  # (n_tiles, n_factors) by falling norm
    long_norm: float  # longer items go to tile 0

    @classmethod
    def learn(cls, factors: NDArray[np.float32], parameters: LearnedTiles, threads: int) -> Self:
        """Learn centres from checked factors, or from some of them."""
        squares = squared_norms(factors)
        n_long = min(int(MOST_LONG * np.sqrt(len(factors))), len(factors) - 1)
        limit = float(np.partition(squares, -n_long - 1)[-n_long - 1])
        long_norm = float(np.sqrt(max(limit, LONG**2 * squares.mean())))
        ordinary = np.flatnonzero(np.sqrt(squares) <= long_norm)
        n_tiles = parameters.count_for(len(ordinary))
        rng = np.random.default_rng(parameters.seed)
        sample = np.sort(rng.permutation(ordinary)[: max(POINTS_PER_TILE * n_tiles, 1)])

        def assign(points: NDArray[np.float32], centres: NDArray[np.float32]) -> NDArray[np.int32]:
            return cls(parameters, centres, np.inf).nearest(points, threads)

        centres = learn_centres(factors[sample], n_tiles, parameters.seed, assign)
        return cls(
            parameters, np.ascontiguousarray(centres[np.argsort(-squared_norms(centres), kind="stable")]), long_norm
        )

    @cached
    def coded(self) -> TileCodes:
        """The centres as small integers."""
        return TileCodes.of(self.centres)

    @cached
    def halves(self) -> NDArray[np.float32]:
        """Half the squared norms of the centres."""
        return np.minimum(0.5 * squared_norms(self.centres), LARGEST_BOUND).astype(np.float32)

    def nearest(
        self, factors: NDArray[np.float32], threads: int, taken: NDArray[np.int32] | None = None
    ) -> NDArray[np.int32]:
        """The number of the centre nearest to each factor, other than those taken."""
        running = core()
        numbers = np.empty(len(factors), np.int32)
        coded = self.coded

        def look(part: slice) -> None:
            others = None if taken is None else taken[part]
            running.kernels.nearest_tiles(coded, self.halves, factors[part], others, numbers[part], running.level)

        run_blocks(look, cut(len(factors), ITEMS_AT_ONCE), threads)
        return numbers

    def is_long(self, factors: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Which items are for tile 0."""
        return np.asarray(np.sqrt(squared_norms(factors)) > self.long_norm)

    def tiles_of(self, factors: NDArray[np.float32], threads: int) -> NDArray[np.int32]:
        """The tiles each item belongs to, (n, spill) or (n, 1): 0 for the longest items, else one more than a centre's.

        A second tile is looked for from beyond the item, seen from the first: where the first is misleading, it is not.
        """
        first = self.nearest(factors, threads)
        columns = [first + 1]
        if self.parameters.spill > 1 and len(self.centres) > 1:
            beyond = factors + np.float32(BEYOND) * (factors - self.centres[first])
            columns.append(self.nearest(beyond, threads, taken=first) + 1)
        tiles = np.stack(columns, axis=1)
        tiles[self.is_long(factors)] = 0
        return tiles

    @property
    def nbytes(self) -> int:
        """Memory of the arrays."""
        return self.centres.nbytes + self.coded.nbytes + self.halves.nbytes


@dataclass(frozen=True)
class TiledItems:
    """A segment's items by tile, in each by falling norm."""

    members: NDArray[np.int32]  # (n_members)
    starts: NDArray[np.int32]  # (n_tiles + 2)
    coded: TileCodes
    radii: NDArray[np.float32]  # (n_tiles in whole groups) how far from its centre a tile's items lie, or a little more

    @classmethod
    def build(cls, factors: NDArray[np.float32], tiling: Tiling, threads: int) -> Self:
        """Assign factors that are by falling norm; few of them are all in tile 0."""
        if len(factors) < FEWEST_PER_TILE * len(tiling.centres):
            return cls._in_one_tile(factors, len(tiling.centres))
        tiles = tiling.tiles_of(factors, threads)
        numbers = np.repeat(np.arange(len(factors), dtype=np.int32), tiles.shape[1])
        flat = tiles.ravel()
        if tiles.shape[1] > 1:  # the longest, and items too large to look beyond, are in one tile only
            once = tiles != tiles[:, :1]
            once[:, 0] = True
            numbers, flat = numbers[once.ravel()], flat[once.ravel()]
        order = np.argsort(flat, kind="stable")
        members, flat = numbers[order], flat[order]
        n_tiles = len(tiling.centres)
        starts = np.searchsorted(flat, np.arange(n_tiles + 2)).astype(np.int32)
        ordered = factors[members]
        radii = _radii(ordered, flat, tiling)
        return cls(members, starts, TileCodes.of(ordered, threads), radii)

    @classmethod
    def _in_one_tile(cls, factors: NDArray[np.float32], n_tiles: int) -> Self:
        starts = np.full(n_tiles + 2, len(factors), np.int32)
        starts[0] = 0
        nothing = np.zeros(-(-n_tiles // GROUP_ITEMS) * GROUP_ITEMS, np.float32)
        return cls(np.arange(len(factors), dtype=np.int32), starts, TileCodes.of(factors), nothing)

    def check(self, factors: NDArray[np.float32], tiling: Tiling) -> None:
        """Refuse arrays that are not those of the factors, as only a forged file has: certificates rest on them."""
        n, n_tiles = len(factors), len(tiling.centres)
        n_members = len(self.members)
        _checks.expect(self.members, "tile_members", np.int32, (n_members,))
        _checks.expect(self.starts, "tile_starts", np.int32, (n_tiles + 2,))
        _checks.expect(self.radii, "tile_radii", np.float32, (-(-n_tiles // GROUP_ITEMS) * GROUP_ITEMS,))
        if not np.array_equal(np.unique(self.members), np.arange(n)) or n_members > 2 * n:
            raise ValueError("tiles do not hold every item")
        rising = np.diff(self.members) > 0
        rising[self.starts[(self.starts > 0) & (self.starts < n_members)] - 1] = True
        if not rising.all():
            raise ValueError("tiles do not hold their items by falling norm")
        if self.starts[0] != 0 or self.starts[-1] != n_members or (np.diff(self.starts) < 0).any():
            raise ValueError("tiles leave the arrays")
        if not np.isfinite(self.radii).all() or (self.radii < 0).any():
            raise ValueError("not all radii of tiles are finite")
        ordered = factors[self.members]
        self.coded.check(ordered)
        sizes = np.diff(self.starts)
        needed = _radii(ordered, np.repeat(np.arange(n_tiles + 1, dtype=np.int32), sizes), tiling)[:n_tiles]
        if (self.radii[:n_tiles] < needed * (1 - NORM_SPARE))[sizes[1:] > 0].any():
            raise ValueError("tiles reach farther than their radii")

    @property
    def nbytes(self) -> int:
        """Memory of the arrays."""
        return self.members.nbytes + self.starts.nbytes + self.coded.nbytes + self.radii.nbytes


def code_size(n_factors: int) -> int:
    """Coordinates of a code: one for each coordinate, and one more if that is odd."""
    return n_factors + n_factors % 2


def _radii(ordered: NDArray[np.float32], tiles: NDArray[np.int32], tiling: Tiling) -> NDArray[np.float32]:
    """How far from its centre the members of each tile lie at most, or a little more, in whole groups of tiles."""
    n_tiles = len(tiling.centres)
    farthest = np.zeros(n_tiles)
    for part in cut(len(ordered), ITEMS_AT_ONCE):
        apart = ordered[part].astype(np.float64) - tiling.centres[np.maximum(tiles[part] - 1, 0)]
        around = tiles[part] > 0
        np.maximum.at(farthest, tiles[part][around] - 1, np.sqrt(squared_norms(apart))[around])
    room = rounding_share(ordered.shape[1])
    farthest = farthest * (1 + 2 * NORM_SPARE) + 2 * room * (np.sqrt(squared_norms(tiling.centres)) + farthest)
    radii = np.zeros(-(-n_tiles // GROUP_ITEMS) * GROUP_ITEMS, np.float32)
    radii[:n_tiles] = np.minimum(farthest + LEAST_NORMAL_FLOAT, LARGEST_BOUND)
    return radii
