"""Tessellations: from a factor to its tile (P2-P6, P14, P15).

`Ternary` and `DAry` tiles are integer vectors, computed from the factor alone. `RandomTessellation` and
`ExplicitTessellation` tiles are numbers, found by comparing the factor with every tile.

A factor of zeros has no direction and so no tile: its tile is all zeros, or the number -1, and its sparse map is empty.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella import _checks
from tessella._kernels import core
from tessella._threads import run_blocks, thread_count

MAX_TILES = 2**24


@runtime_checkable
class CoordinateTessellation(Protocol):
    """The protocol of custom tessellations whose tiles are integer vectors with values in [-levels, levels].

    Examples
    --------
    >>> import numpy as np
    >>> import tessella as ts
    >>> class Signs:
    ...     levels = 1
    ...     def tiles(self, factors, *, threads=None):
    ...         return np.sign(factors).astype(np.int8)
    >>> ts.SparseMap(ts.Schema(Signs(), ts.OneHot())).transform([[0.5, -2.0]]).indices
    array([0, 5], dtype=int32)
    """

    @property
    def levels(self) -> int:
        """The largest tile value."""
        ...

    def tiles(self, factors: ArrayLike, *, threads: int | None = None) -> NDArray[np.int8]:
        """Return tiles of the same shape as `factors`."""
        ...


@runtime_checkable
class NumberedTessellation(Protocol):
    """The protocol of custom tessellations whose tiles are numbered from 0. Use them with `OneHot`.

    Examples
    --------
    >>> import numpy as np
    >>> import tessella as ts
    >>> class Halves:
    ...     n_tiles = 2
    ...     def tiles(self, factors, n_nearest=1):
    ...         return (np.asarray(factors)[:, :1] < 0).astype(np.int64)
    >>> ts.SparseMap(ts.Schema(Halves(), ts.OneHot())).transform([[0.5, 1.0], [-0.5, 1.0]]).toarray()
    array([[ 0.5,  0. ,  1. ,  0. ],
           [ 0. , -0.5,  0. ,  1. ]], dtype=float32)
    """

    @property
    def n_tiles(self) -> int:
        """The number of tiles."""
        ...

    def tiles(self, factors: ArrayLike, n_nearest: int = 1) -> NDArray[np.int64]:
        """Return the numbers of the nearest tiles, of shape (n, n_nearest)."""
        ...


class _BlockTiles:
    """The method `tiles` for tessellations that compute tiles block by block."""

    def tiles(self, factors: ArrayLike, *, threads: int | None = None) -> NDArray[np.int8]:
        """Return the nearest tile of each factor.

        Parameters
        ----------
        factors : array_like of shape (n, n_factors) or (n_factors,)
            Finite numbers of any scale; only the direction matters. Computed in float32.
        threads : int, default None
            How many threads to use; None uses every CPU. Does not affect results.

        Returns
        -------
        tiles : ndarray of int8, of the shape of `factors`
            Integers in [-levels, levels]; all zeros for a factor of zeros.
        """
        count = thread_count(threads)
        array = _checks.numbers(factors, "factors")
        matrix = _checks.factors(array[None] if array.ndim == 1 else array, "factors")
        tiles = np.empty(matrix.shape, np.int8)

        def fill(rows: slice) -> None:
            self._fill_tiles(_checks.block(matrix, rows, "factors"), tiles[rows])

        run_blocks(fill, _checks.row_blocks(matrix), count)
        return tiles.reshape(array.shape)

    def _fill_tiles(self, block: NDArray[np.float32], tiles: NDArray[np.int8]) -> None:
        """Fill `tiles` for checked, C-ordered factors."""
        raise NotImplementedError


@dataclass(frozen=True)
class Ternary(_BlockTiles):
    """All directions with coordinates in {-1, 0, 1} (P3); the nearest one is found exactly (P4, Lemma 1).

    Parameters
    ----------
    max_nonzeros : int, default None
        Use only vectors with at most this many non-zeros (P14), at least 1. The nearest one is still found exactly. A
        smaller number means coarser tiles, more factors per tile and slightly less time; 1 leaves the 2k signed axes,
        the cross-polytope. None keeps all 3^k - 1 vectors. Cannot change once items are mapped.

    Examples
    --------
    >>> import tessella as ts
    >>> ts.Ternary().tiles([[0.1, -2.0, 1.5]])
    array([[ 0, -1,  1]], dtype=int8)
    >>> ts.Ternary(max_nonzeros=1).tiles([[0.1, -2.0, 1.5]])
    array([[ 0, -1,  0]], dtype=int8)
    """

    max_nonzeros: int | None = None

    def __post_init__(self) -> None:
        """Check the parameters."""
        if self.max_nonzeros is not None:
            object.__setattr__(self, "max_nonzeros", _checks.whole_number(self.max_nonzeros, "max_nonzeros", 1))

    @property
    def levels(self) -> int:
        """The largest tile value, 1."""
        return 1

    def _fill_tiles(self, block: NDArray[np.float32], tiles: NDArray[np.int8]) -> None:
        """Fill `tiles` for checked, C-ordered factors."""
        most = min(self.max_nonzeros or block.shape[1], block.shape[1])
        running = core()
        running.kernels.ternary_tiles(block, most, tiles, running.level)


@dataclass(frozen=True)
class DAry(_BlockTiles):
    """All directions whose coordinates are multiples of 1 / levels in [-1, 1] (P5).

    Parameters
    ----------
    levels : int
        D, from 1 to 127. With more levels, tiles lie closer to the factor (docs/how-it-works/paper-in-pictures.md has a
        table) and cost more time and slots. ``DAry(1)`` equals `Ternary`. Cannot change once items are mapped.
    algorithm : {"exact", "rounded"}, default "exact"
        "exact" finds the nearest tile. "rounded" is the paper's Algorithm 4 (P6): it rounds the coordinates of the unit
        factor one by one; if all would be zero, the largest becomes +-1. It is faster, and its tiles lie much further
        from the factor. Cannot change once items are mapped.

    Examples
    --------
    >>> import tessella as ts
    >>> ts.DAry(3).tiles([[0.1, -2.0, 1.5]])
    array([[ 0, -3,  2]], dtype=int8)
    >>> ts.DAry(3, algorithm="rounded").tiles([[0.1, -2.0, 1.5]])
    array([[ 0, -2,  2]], dtype=int8)
    """

    levels: int
    algorithm: str = "exact"

    def __post_init__(self) -> None:
        """Check the parameters."""
        object.__setattr__(self, "levels", _checks.levels(self.levels))
        _checks.one_of(self.algorithm, "algorithm", ("exact", "rounded"))

    def _fill_tiles(self, block: NDArray[np.float32], tiles: NDArray[np.int8]) -> None:
        """Fill `tiles` for checked, C-ordered factors."""
        running = core()
        running.kernels.dary_tiles(block, self.levels, self.algorithm == "exact", tiles, running.level)


@dataclass(frozen=True, eq=False)
class ExplicitTessellation:
    """A list of directions (P2). A factor's tile is found by comparing it with all of them.

    Parameters
    ----------
    vectors : array_like of shape (n_tiles, n_factors)
        One direction per tile. They are copied and normalised; none may be zero.

    Examples
    --------
    >>> import tessella as ts
    >>> corners = ts.ExplicitTessellation([[1, 0], [0, 1], [-1, -1]])
    >>> corners.tiles([[3.0, 1.0], [-2.0, 0.1]], n_nearest=2)
    array([[0, 1],
           [2, 1]])
    """

    vectors: NDArray[np.float64]

    def __post_init__(self) -> None:
        """Check and normalise the vectors."""
        array = _checks.factors(self.vectors, "vectors").astype(np.float64) + 0.0
        if not len(array):
            raise ValueError("vectors has 0 rows, but a tessellation needs at least 1 tile.")
        if not np.isfinite(array).all():
            row = int(np.flatnonzero(~np.isfinite(array).all(axis=1))[0])
            raise ValueError(f"vectors holds NaN or infinity in row {row}; directions must be finite.")
        largest = np.abs(array).max(axis=1, keepdims=True)
        if not largest.all():
            raise ValueError(f"row {int(np.argmin(largest))} of vectors is zero, but every tile needs a direction.")
        array /= np.where((largest < 1e-100) | (largest > 1e100), largest, 1)
        norms = np.sqrt(np.sum(array * array, axis=1, keepdims=True))
        array /= np.where(np.abs(norms - 1) < 1e-12, 1, norms)  # unit vectors stay bit-for-bit the same
        array.flags.writeable = False
        object.__setattr__(self, "vectors", array)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExplicitTessellation) and np.array_equal(self.vectors, other.vectors)

    def __hash__(self) -> int:
        return hash((self.vectors.shape, self.vectors.tobytes()))

    @property
    def n_tiles(self) -> int:
        """The number of tiles."""
        return len(self.vectors)

    def tiles(self, factors: ArrayLike, n_nearest: int = 1) -> NDArray[np.int64]:
        """Return the nearest tiles of each factor, nearest first; of equally near ones, the lower number first.

        Parameters
        ----------
        factors : array_like of shape (n, n_factors)
            Finite numbers of any scale; only the direction matters.
        n_nearest : int, default 1
            How many tiles to return for each factor, up to 2^24.

        Returns
        -------
        numbers : ndarray of int64, shape (n, n_nearest)
            -1 for a factor of zeros, and where there are fewer than `n_nearest` tiles.
        """
        wanted = _checks.whole_number(n_nearest, "n_nearest", 1, MAX_TILES)
        matrix = _checks.factors(factors, "factors", self.vectors.shape[1])
        numbers = np.full((len(matrix), wanted), -1)
        count = min(wanted, self.n_tiles)
        step = max(1, 2**22 // self.n_tiles)
        for rows in _checks.row_blocks(matrix):
            block = _checks.block(matrix, rows, "factors")
            out = numbers[rows, :count]
            for first in range(0, len(block), step):
                part = block[first : first + step].astype(np.float64)
                out[first : first + step] = _nearest(part, self.vectors, count)
            out[~block.any(axis=1)] = -1
        return numbers


def _nearest(factors: NDArray[np.float64], vectors: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Return the `count` vectors with the largest products; of equal products, the lower number first.

    How a matrix product rounds may depend on the batch size. If the order depends on rounding, the products are summed
    again in a fixed order.
    """
    products = factors @ vectors.T
    order = np.argsort(-products, axis=1, kind="stable")[:, : count + 1]
    best = np.take_along_axis(products, order, axis=1)
    margins = 1e-12 * np.sqrt(np.sum(factors * factors, axis=1))
    close = np.flatnonzero((best[:, :-1] - best[:, 1:] <= margins[:, None]).any(axis=1))
    sums = np.zeros((len(close), len(vectors)))
    for j in range(vectors.shape[1]):
        sums += factors[close, j, None] * vectors[:, j]
    order[close] = np.argsort(-sums, axis=1, kind="stable")[:, : count + 1]
    return order[:, :count]


@dataclass(frozen=True)
class RandomTessellation:
    """Uniformly random directions (P15): the slow scheme that the paper argues against, kept for comparison.

    Parameters
    ----------
    n_tiles : int
        How many directions to draw, up to 2^24. With more, tiles lie closer to factors, and time grows in proportion.
        Cannot change once items are mapped.
    seed : int, default 0
        At least 0. Equal seeds give equal directions.

    Examples
    --------
    >>> import tessella as ts
    >>> ts.RandomTessellation(100, seed=1).tiles([[3.0, 1.0], [3.3, 1.1]]).shape
    (2, 1)
    """

    n_tiles: int
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the parameters."""
        object.__setattr__(self, "n_tiles", _checks.whole_number(self.n_tiles, "n_tiles", 1, MAX_TILES))
        object.__setattr__(self, "seed", _checks.whole_number(self.seed, "seed", 0))

    def explicit(self, n_factors: int) -> ExplicitTessellation:
        """Return the directions drawn for factors of `n_factors` coordinates."""
        shape = (self.n_tiles, _checks.n_factors(n_factors))
        return ExplicitTessellation(np.random.default_rng(self.seed).standard_normal(shape))

    def tiles(self, factors: ArrayLike, n_nearest: int = 1) -> NDArray[np.int64]:
        """Return the nearest tiles of each factor, in the form of `ExplicitTessellation.tiles`."""
        matrix = _checks.factors(factors, "factors")
        return self.explicit(matrix.shape[1]).tiles(matrix, n_nearest)
