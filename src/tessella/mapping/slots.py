"""Slot maps: from a tile to the slot of each coordinate (P7-P10); the paper calls them permutation maps."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella import _checks, _reference


@runtime_checkable
class SlotMap(Protocol):
    """The protocol of custom slot maps: two vectorised methods.

    Pass an instance to `Schema`. The slots must be a function of the tile alone, and no two coordinates of a row may
    share a slot; `SparseMap` checks the second rule.

    Examples
    --------
    The paper's parse tree with a custom action: the counter advances by 1, 2 or 3.

    >>> import numpy as np
    >>> import tessella as ts
    >>> class Stairs:
    ...     def n_slots(self, n_factors, levels=1):
    ...         return 3 * n_factors
    ...     def slots(self, tiles, levels=1):
    ...         return np.cumsum(np.asarray(tiles, dtype=np.int64) + 2, axis=1) - 1
    >>> schema = ts.Schema(ts.Ternary(), Stairs())
    >>> ts.SparseMap(schema).transform([[0.5, -2.0, 0.1]]).indices
    array([1, 2, 4], dtype=int32)
    """

    def n_slots(self, n_factors: int, levels: int = 1) -> int:
        """Return the dimension p of the sparse map for factors of `n_factors` coordinates."""
        ...

    def slots(self, tiles: ArrayLike, levels: int = 1) -> NDArray[np.int64]:
        """Return slots in [0, n_slots), of shape (n, n_factors), for tiles with values in [-levels, levels]."""
        ...


@dataclass(frozen=True)
class OneHot:
    """Map coordinate j to the slot (j, value of the tile at j) (P7): p = 3k, or (2D + 1)k for D-ary tiles.

    Neighbouring tiles share all slots except those of the coordinates in which they differ. With a numbered
    tessellation (`RandomTessellation`, `ExplicitTessellation`), coordinate j goes to the slot (j, tile): p = n_tiles*k.

    Examples
    --------
    >>> import tessella as ts
    >>> ts.OneHot().slots([[1, 0, -1]])
    array([[0, 4, 8]])
    >>> ts.OneHot().n_slots(64), ts.OneHot().n_slots(64, levels=4)
    (192, 576)
    """

    def n_slots(self, n_factors: int, levels: int = 1) -> int:
        """Return p = (2 * levels + 1) * n_factors."""
        return ParseTree(1).n_slots(n_factors, levels)

    def slots(self, tiles: ArrayLike, levels: int = 1) -> NDArray[np.int64]:
        """Return slots of shape (n, n_factors) for tiles with values in [-levels, levels]."""
        return ParseTree(1).slots(tiles, levels)


@dataclass(frozen=True)
class ParseTree:
    """Map coordinate j to the slot (j, the last `depth` values of the tile up to j) (P8, P10).

    The first depth - 1 coordinates, which have no full window, are one-hot.

    Parameters
    ----------
    depth : int
        The window of tile values, from 1 to 32. Deeper trees distinguish more tiles: there are fewer but better
        candidates, and (2D + 1)^depth slots per coordinate. Depth 1 equals `OneHot`. Cannot change once items are
        mapped.

    Examples
    --------
    >>> import tessella as ts
    >>> ts.ParseTree(2).slots([[1, 0, -1], [1, 1, -1]])
    array([[ 0,  4, 17],
           [ 0,  3, 14]])
    """

    depth: int

    def __post_init__(self) -> None:
        """Check the depth."""
        object.__setattr__(self, "depth", _checks.whole_number(self.depth, "depth", 1, 32))

    def n_slots(self, n_factors: int, levels: int = 1) -> int:
        """Return p = (2 * levels + 1) * (depth - 1) + (2 * levels + 1)^depth * (n_factors - depth + 1)."""
        k, values = _checks.n_factors(n_factors), 2 * _checks.levels(levels) + 1
        head = min(self.depth - 1, k)
        return _checks.slot_count(head * values + (k - head) * values**self.depth)

    def slots(self, tiles: ArrayLike, levels: int = 1) -> NDArray[np.int64]:
        """Return slots of shape (n, n_factors) for tiles with values in [-levels, levels]."""
        n_levels = _checks.levels(levels)
        checked = _checks.tiles(tiles, n_levels)
        self.n_slots(checked.shape[1], n_levels)
        return _reference.window_slots(checked, n_levels, self.depth)


@dataclass(frozen=True)
class CounterTree:
    """The slot map of the paper's experiments (P9): p = 2k^2, or 2Dk^2 for D-ary tiles.

    A counter walks along the tile. At coordinate j (from 1), a 1 sets it to kj, a -1 sets it to k(k + j), and a zero
    adds 1. Slots count from 0. Two tiles share the slot of a coordinate if they agree from the last non-zero value up
    to that coordinate, so a run of zeros is distinguished by the value before it. D-ary values get a range of k^2 slots
    each, in the order 1, -1, 2, -2, ...

    Examples
    --------
    >>> import tessella as ts
    >>> ts.CounterTree().slots([[0, 1, 0, -1]])
    array([[ 0,  7,  8, 31]])
    >>> ts.CounterTree().n_slots(64)
    8192
    """

    def n_slots(self, n_factors: int, levels: int = 1) -> int:
        """Return p = 2 * levels * n_factors^2."""
        return 2 * _checks.levels(levels) * _checks.n_factors(n_factors) ** 2

    def slots(self, tiles: ArrayLike, levels: int = 1) -> NDArray[np.int64]:
        """Return slots of shape (n, n_factors) for tiles with values in [-levels, levels]."""
        return _reference.counter_slots(_checks.tiles(tiles, _checks.levels(levels)))
