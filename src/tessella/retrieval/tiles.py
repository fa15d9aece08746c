"""Tiles: items filed around learned centres, and searched tile by tile (the paper's non-uniform tessellation, P14).

Centres are learned from the factors as they are, so long items get tiles of their own; the very longest share tile 0,
which every query visits. Inside a tile, and among centres, integer codes bound scores; see native/tiles.hpp.
"""

import json
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from tessella import _checks
from tessella._cached import cached
from tessella._kernels import core
from tessella._threads import run_blocks
from tessella.retrieval.clustering import learn_centres, squared_norms
from tessella.retrieval.codes import rounding_room

GROUP = 16  # coded rows that lie together
ROWS_AT_ONCE = 2**12
LONG = 3.0  # times the root mean square of norms
MOST_LONG = 2.0  # times the root of the number of items, since every query goes through them
POINTS_PER_TILE = 64
MOST_TILES = 2**16
FEWEST_PER_TILE = 2  # in a segment; looking through fewer is faster than looking for tiles
LARGEST, SMALLEST = float(np.finfo(np.float32).max), float(np.finfo(np.float32).tiny)  # below, floats are coarse
BEYOND = 0.5  # of its way from the first centre, an item goes on to look for a second


@dataclass(frozen=True)
class LearnedTiles:
    """Tiles learned from the items, for `Index.build`: the fastest way where a few answers may be missed.

    Parameters
    ----------
    n_tiles : int or "auto", default "auto"
        How many centres to learn, at most; "auto" is 1.5 times the square root of the number of items.
    spill : {1, 2}, default 1
        Under how many tiles an item is filed. 2 doubles codes and build time; tiles then miss less at the same reach,
        and searches for more than 1,000 answers are exact.
    code_bits : {8}, default 8
        Bits of a coded coordinate.
    seed : int, default 0
        What is drawn at random depends on it alone.

    Examples
    --------
    >>> import tessella as ts
    >>> from tessella.datasets import generated_factors
    >>> item_factors, user_factors = generated_factors(5_000, 10)
    >>> index = ts.Index.build(item_factors, schema=ts.LearnedTiles(n_tiles=64))
    >>> found = index.search(user_factors, k=10, reach=0.5)
    >>> bool(found.scored.mean() < 200)
    True
    """

    n_tiles: int | Literal["auto"] = "auto"
    spill: int = 1
    code_bits: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.n_tiles, str):
            if self.n_tiles != "auto":
                raise ValueError(f"n_tiles is {self.n_tiles!r}, but must be a whole number or 'auto'.")
        else:
            object.__setattr__(self, "n_tiles", _checks.whole_number(self.n_tiles, "n_tiles", 1, MOST_TILES))
        object.__setattr__(self, "spill", _checks.whole_number(self.spill, "spill", 1, 2))
        if _checks.whole_number(self.code_bits, "code_bits", 1) != 8:
            raise ValueError(f"code_bits is {self.code_bits}, but must be 8.")
        object.__setattr__(self, "seed", _checks.whole_number(self.seed, "seed", 0))

    def count_for(self, n_items: int) -> int:
        """How many centres to learn from so many items."""
        if self.n_tiles != "auto":
            return min(int(self.n_tiles), n_items)
        return min(n_items, -(-int(1.5 * np.sqrt(n_items)) // GROUP) * GROUP)

    def to_json(self) -> str:
        """The parameters as JSON text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The tiles that `to_json` wrote."""
        given = json.loads(text)
        if not isinstance(given, dict) or set(given) != {field.name for field in fields(cls)}:
            raise ValueError("the text does not describe learned tiles")
        return cls(**given)


@dataclass(frozen=True)
class CodedRows:
    """Rows as small integers, each in steps of its own scale, in groups of 16 padded with nothing."""

    codes: NDArray[np.int8]  # (n_groups * code_size / 2 * GROUP * 2)
    offsets: NDArray[np.int16]  # (n_groups * GROUP)
    scales: NDArray[np.float32]  # (n_groups * GROUP)

    @classmethod
    def of(cls, factors: NDArray[np.float32], threads: int = 1) -> Self:
        """Code the rows of a matrix."""
        n, size = len(factors), code_size(factors.shape[1])
        padded = -(-n // GROUP) * GROUP
        coded = cls(np.empty(padded * size, np.int8), np.empty(padded, np.int16), np.empty(padded, np.float32))
        running = core()

        def code(rows: slice) -> None:
            stop = -(-rows.stop // GROUP) * GROUP
            running.kernels.code_rows(
                factors[rows], coded.codes[rows.start * size : stop * size],
                coded.offsets[rows.start : stop], coded.scales[rows.start : stop], running.level,
            )  # fmt: skip

        run_blocks(code, _blocks(n), threads)
        return coded

    def check(self, n: int, n_factors: int) -> None:
        """Refuse arrays that do not belong together, as only a forged file has."""
        padded = -(-n // GROUP) * GROUP
        _checks.expect(self.codes, "tile_codes", np.int8, (padded * code_size(n_factors),))
        _checks.expect(self.offsets, "tile_offsets", np.int16, (padded,))
        _checks.expect(self.scales, "tile_scales", np.float32, (padded,))
        if not np.isfinite(self.scales).all() or (self.scales < 0).any():
            raise ValueError("not all scales of tiles are finite")

    @property
    def nbytes(self) -> int:
        """Memory of the arrays."""
        return self.codes.nbytes + self.offsets.nbytes + self.scales.nbytes


@dataclass(frozen=True)
class Askers:
    """Queries, or items that look for their tile, as small integers."""

    codes: NDArray[np.uint8]  # (n, code_size)
    terms: NDArray[np.float32]  # (n, 2) scale, norm

    @classmethod
    def of(cls, factors: NDArray[np.float32]) -> Self:
        """Code the rows of a matrix."""
        running = core()
        asked = cls(
            np.empty((len(factors), code_size(factors.shape[1])), np.uint8), np.empty((len(factors), 2), np.float32)
        )
        running.kernels.code_askers(factors, asked.codes, asked.terms, running.level)
        return asked


@dataclass(frozen=True)
class Tiling:
    """Centres that were learned, and who goes where."""

    settings: LearnedTiles
    centres: NDArray[np.float32]  # (n_tiles, n_factors) by falling norm
    long_norm: float  # longer items go to tile 0

    @classmethod
    def learn(cls, factors: NDArray[np.float32], settings: LearnedTiles, threads: int) -> Self:
        """Learn centres from checked factors, or from some of them."""
        squares = squared_norms(factors)
        n_long = min(int(MOST_LONG * np.sqrt(len(factors))), len(factors) - 1)
        cut = float(np.partition(squares, -n_long - 1)[-n_long - 1])
        long_norm = float(np.sqrt(max(cut, LONG**2 * squares.mean())))
        ordinary = np.flatnonzero(np.sqrt(squares) <= long_norm)
        n_tiles = settings.count_for(len(ordinary))
        rng = np.random.default_rng(settings.seed)
        sample = np.sort(rng.permutation(ordinary)[: max(POINTS_PER_TILE * n_tiles, 1)])

        def assign(points: NDArray[np.float32], centres: NDArray[np.float32]) -> NDArray[np.int32]:
            return cls(settings, centres, np.inf).nearest(points, threads)

        centres = learn_centres(factors[sample], n_tiles, settings.seed, assign)
        return cls(
            settings, np.ascontiguousarray(centres[np.argsort(-squared_norms(centres), kind="stable")]), long_norm
        )

    @cached
    def coded(self) -> CodedRows:
        """The centres as small integers."""
        return CodedRows.of(self.centres)

    @cached
    def halves(self) -> NDArray[np.float32]:
        """Half the squared norms of the centres."""
        return np.minimum(0.5 * squared_norms(self.centres), LARGEST).astype(np.float32)

    def nearest(
        self, factors: NDArray[np.float32], threads: int, taken: NDArray[np.int32] | None = None
    ) -> NDArray[np.int32]:
        """The number of the centre nearest to each factor, other than those taken."""
        running = core()
        numbers = np.empty(len(factors), np.int32)
        coded = self.coded

        def look(rows: slice) -> None:
            askers = Askers.of(factors[rows])
            running.kernels.nearest_tiles(
                coded.codes, coded.offsets, coded.scales, self.halves, askers.codes, askers.terms,
                None if taken is None else taken[rows], numbers[rows], running.level,
            )  # fmt: skip

        run_blocks(look, _blocks(len(factors)), threads)
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
        if self.settings.spill > 1 and len(self.centres) > 1:
            beyond = factors + np.float32(BEYOND) * (factors - self.centres[first])
            columns.append(self.nearest(beyond, threads, taken=first) + 1)
        tiles = np.stack(columns, axis=1)
        tiles[self.is_long(factors)] = 0
        return tiles

    def rank(self, askers: Askers, reach: float, nears: NDArray[np.float32]) -> None:
        """What each query and each centre score at most, as far as `reach` believes, into (n, n_tiles in groups)."""
        running = core()
        coded = self.coded
        running.kernels.rank_tiles(
            coded.codes, coded.offsets, coded.scales, self.centres.shape[1],
            askers.codes, askers.terms, reach, nears, running.level,
        )  # fmt: skip

    @property
    def nbytes(self) -> int:
        """Memory of the arrays."""
        return self.centres.nbytes + self.coded.nbytes + self.halves.nbytes


@dataclass(frozen=True)
class Filed:
    """A segment's items by tile, in each by falling norm."""

    places: NDArray[np.int32]  # (n_filed)
    starts: NDArray[np.int32]  # (n_tiles + 2)
    coded: CodedRows
    radii: NDArray[np.float32]  # (n_tiles in whole groups) how far from its centre a tile's items lie, or a little more

    @classmethod
    def build(cls, factors: NDArray[np.float32], tiling: Tiling, threads: int) -> Self:
        """File factors that are by falling norm; few of them are all in tile 0."""
        if len(factors) < FEWEST_PER_TILE * len(tiling.centres):
            return cls._in_one_tile(factors, len(tiling.centres))
        tiles = tiling.tiles_of(factors, threads)
        numbers = np.repeat(np.arange(len(factors), dtype=np.int32), tiles.shape[1])
        flat = tiles.ravel()
        if tiles.shape[1] > 1:  # the longest are in one tile only
            once = (flat > 0) | (np.arange(len(flat)) % tiles.shape[1] == 0)
            numbers, flat = numbers[once], flat[once]
        order = np.argsort(flat, kind="stable")
        places, flat = numbers[order], flat[order]
        n_tiles = len(tiling.centres)
        starts = np.searchsorted(flat, np.arange(n_tiles + 2)).astype(np.int32)
        ordered = factors[places]
        farthest = np.zeros(n_tiles)
        for rows in _blocks(len(places)):
            apart = ordered[rows].astype(np.float64) - tiling.centres[np.maximum(flat[rows] - 1, 0)]
            around = flat[rows] > 0
            np.maximum.at(farthest, flat[rows][around] - 1, np.sqrt(squared_norms(apart))[around])
        room = rounding_room(factors.shape[1])
        farthest = farthest * (1 + 2e-6) + 2 * room * (np.sqrt(squared_norms(tiling.centres)) + farthest)
        radii = np.zeros(-(-n_tiles // GROUP) * GROUP, np.float32)
        radii[:n_tiles] = np.minimum(farthest + SMALLEST, LARGEST)
        return cls(places, starts, CodedRows.of(ordered, threads), radii)

    @classmethod
    def _in_one_tile(cls, factors: NDArray[np.float32], n_tiles: int) -> Self:
        starts = np.full(n_tiles + 2, len(factors), np.int32)
        starts[0] = 0
        nothing = np.zeros(-(-n_tiles // GROUP) * GROUP, np.float32)
        return cls(np.arange(len(factors), dtype=np.int32), starts, CodedRows.of(factors), nothing)

    def check(self, n: int, n_tiles: int, n_factors: int) -> None:
        """Refuse arrays that do not belong together, as only a forged file has."""
        n_filed = len(self.places)
        _checks.expect(self.places, "tile_places", np.int32, (n_filed,))
        _checks.expect(self.starts, "tile_starts", np.int32, (n_tiles + 2,))
        _checks.expect(self.radii, "tile_radii", np.float32, (-(-n_tiles // GROUP) * GROUP,))
        if not np.array_equal(np.unique(self.places), np.arange(n)) or n_filed > 2 * n:
            raise ValueError("tiles do not hold every item")
        rising = np.diff(self.places) > 0
        rising[self.starts[(self.starts > 0) & (self.starts < n_filed)] - 1] = True
        if not rising.all():
            raise ValueError("tiles do not hold their items by falling norm")
        if self.starts[0] != 0 or self.starts[-1] != n_filed or (np.diff(self.starts) < 0).any():
            raise ValueError("tiles leave the arrays")
        if not np.isfinite(self.radii).all() or (self.radii < 0).any():
            raise ValueError("not all radii of tiles are finite")
        self.coded.check(n_filed, n_factors)

    @property
    def nbytes(self) -> int:
        """Memory of the arrays."""
        return self.places.nbytes + self.starts.nbytes + self.coded.nbytes + self.radii.nbytes


def code_size(n_factors: int) -> int:
    """Places of a code: one for each coordinate, and one more if that is odd."""
    return n_factors + n_factors % 2


def _blocks(n: int) -> list[slice]:
    return [slice(at, min(at + ROWS_AT_ONCE, n)) for at in range(0, n, ROWS_AT_ONCE)]


def parts_of(filed: Filed) -> dict[str, NDArray[Any]]:
    """The arrays by the names they have in a file."""
    return {
        "tile_places": filed.places,
        "tile_starts": filed.starts,
        "tile_radii": filed.radii,
        "tile_codes": filed.coded.codes,
        "tile_offsets": filed.coded.offsets,
        "tile_scales": filed.coded.scales,
    }
