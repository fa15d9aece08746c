"""The mapping from factors to tiles to slots."""

# ruff: noqa: ARG001

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tessella._reference.arithmetic import Doubles, Floats, sums_of_squares

Tiles: TypeAlias = NDArray[np.int8]
Indices: TypeAlias = NDArray[np.int32] | NDArray[np.int64]


def first_nonfinite(factors: Floats, level: int) -> int:
    """Return the first vector with a NaN or an infinity, or the number of vectors."""
    bad = np.flatnonzero(~np.isfinite(factors).all(axis=1))
    return int(bad[0]) if bad.size else len(factors)


def prepare(
    factors: Floats,
    rotation: Doubles | None,
    threshold: float,
    relative: bool,
    prepared: Floats,
    level: int,
) -> None:
    """Rotate, then zero the coordinates below the threshold (P13)."""
    rotated = factors
    if rotation is not None:
        sums = np.zeros(factors.shape)
        with np.errstate(over="ignore", invalid="ignore"):  # count_entries reports such rows
            for j, axis in enumerate(rotation):
                sums += factors[:, j, None].astype(np.float64) * axis
            rotated = sums.astype(np.float32)
    cuts = np.full(len(factors), threshold, dtype=np.float64)
    if relative:
        cuts *= np.sqrt(sums_of_squares(rotated) / factors.shape[1])
    prepared[:] = np.where(np.abs(rotated) < cuts[:, None], np.float32(0), rotated)


def count_entries(prepared: Floats, counts: NDArray[np.int64], level: int) -> int:
    """Count the non-zeros of each vector; return the first vector that is not finite, or the number of vectors."""
    good = first_nonfinite(prepared, level)
    counts[:good] = np.count_nonzero(prepared[:good], axis=1)
    return good


def _descending_magnitudes(factors: Floats) -> Floats:
    return -np.sort(-np.abs(factors), axis=1)


def _reach(factors: Floats, cuts: Floats) -> Tiles:
    """Return +-1 where a coordinate's magnitude reaches its row's cut, else 0."""
    return (factors >= cuts[:, None]).astype(np.int8) - (factors <= -cuts[:, None]).astype(np.int8)


def ternary_tiles(factors: Floats, max_nonzeros: int, tiles: Tiles, level: int) -> None:
    """Algorithm 2 with erratum 3: the signs of the i* largest coordinates, i* maximising (their sum)^2 / i."""
    magnitudes = _descending_magnitudes(factors)
    dots = np.cumsum(magnitudes, axis=1, dtype=np.float64)[:, :max_nonzeros]
    ratios = dots * dots / np.arange(1, dots.shape[1] + 1)
    sizes = np.argmax(ratios, axis=1)
    cuts = np.where(magnitudes[:, 0] > 0, np.take_along_axis(magnitudes, sizes[:, None], axis=1)[:, 0], np.inf)
    tiles[:] = _reach(factors, cuts.astype(np.float32))
    # Only max_nonzeros can split a run of equal magnitudes; then the earlier coordinates are kept.
    equal = np.abs(factors) == cuts[:, None]
    spare = max_nonzeros - np.count_nonzero(np.abs(factors) > cuts[:, None], axis=1)
    tiles[equal & (np.cumsum(equal, axis=1) > spare[:, None])] = 0


def dary_tiles(factors: Floats, n_levels: int, exact: bool, tiles: Tiles, level: int) -> None:
    """Fill in the nearest D-ary tiles by a full sweep, or Algorithm 4's rounded tiles."""
    one = _exact_tiles if exact else _rounded_tiles
    block = max(1, 2**22 // (factors.shape[1] * n_levels * n_levels))
    for first in range(0, len(factors), block):
        tiles[first : first + block] = one(factors[first : first + block], n_levels)


def _exact_tiles(factors: Floats, n_levels: int) -> Tiles:
    """Sweep over the scale: coordinate z reaches level m when 1 / (2 scale) falls to z / (2m - 1).

    Each such event adds z to the dot product and 2m - 1 to the squared norm. The largest dot^2 / norm^2 wins.
    """
    n, k = factors.shape
    widths = 2 * np.arange(n_levels) + 1
    magnitudes = _descending_magnitudes(factors)
    prefix = np.zeros((n, k + 1))
    np.cumsum(magnitudes, axis=1, dtype=np.float64, out=prefix[:, 1:])
    slopes = magnitudes[:, None, :].astype(np.float64) / widths[:, None]
    order = np.argsort(-slopes.reshape(n, -1), axis=1, kind="stable")
    reached = np.cumsum(order[:, :, None] // k == np.arange(n_levels), axis=1)
    dots = np.zeros(order.shape)
    for m in range(n_levels):
        dots += np.take_along_axis(prefix, reached[:, :, m], axis=1)
    ratios = dots * dots / (reached @ widths)
    best = np.take_along_axis(reached, np.argmax(ratios, axis=1)[:, None, None], axis=1)[:, 0]
    tiles = np.zeros((n, k), np.int8)
    for m in range(n_levels):
        lowest = np.take_along_axis(magnitudes, np.maximum(best[:, m, None] - 1, 0), axis=1)[:, 0]
        cuts = np.where((best[:, m] > 0) & (magnitudes[:, 0] > 0), lowest, np.inf)
        tiles += _reach(factors, cuts.astype(np.float32))
    return tiles


def _rounded_tiles(factors: Floats, n_levels: int) -> Tiles:
    """Apply Algorithm 4 to the unit factor; if every coordinate rounds to zero, the first largest becomes +-1."""
    norms = np.sqrt(sums_of_squares(factors))
    norms[norms == 0] = 1
    scaled = float(n_levels) * factors.astype(np.float64) / norms[:, None]
    below, above = np.floor(scaled), np.ceil(scaled)
    tiles = np.where(above - scaled <= scaled - below, above, below).astype(np.int8)
    empty = np.flatnonzero(~tiles.any(axis=1))
    largest = np.argmax(np.abs(factors[empty]), axis=1)
    tiles[empty, largest] = np.sign(factors[empty, largest]).astype(np.int8)
    return tiles


def window_slots(tiles: Tiles, n_levels: int, depth: int) -> NDArray[np.int64]:
    """Return the slots of the sliding window (P8, P10): one-hot for the first depth - 1 coordinates, then windows."""
    codes = n_levels - tiles.astype(np.int64)
    k = codes.shape[1]
    values = 2 * n_levels + 1
    head = min(depth - 1, k)
    slots = np.empty_like(codes)
    slots[:, :head] = np.arange(head) * values + codes[:, :head]
    if head == k:
        return slots
    windows = np.zeros_like(codes[:, head:])
    for back in range(depth):
        windows += codes[:, head - back : k - back] * values**back
    slots[:, head:] = head * values + np.arange(k - head) * values**depth + windows
    return slots


def counter_slots(tiles: Tiles) -> NDArray[np.int64]:
    """Return the slots of the counter tree (P9), from 0, with k^2 slots for each of the values 1, -1, 2, -2, ..."""
    n, k = tiles.shape
    slots = np.empty((n, k), np.int64)
    counter = np.full(n, -1)
    for j in range(k):
        value = tiles[:, j].astype(np.int64)
        region = np.where(value > 0, 2 * value - 2, -2 * value - 1)
        counter = np.where(value == 0, counter + 1, k * (k * region + j + 1) - 1)
        slots[:, j] = counter
    return slots


def place_entries(
    prepared: Floats, slots: NDArray[np.int64], starts: Indices, out_slots: Indices, out_values: Floats
) -> int:
    """Store each row's non-zeros by ascending slot; return the first row that does not fit, or the number of rows."""
    kept = prepared != 0
    misfits = np.flatnonzero(np.diff(starts) != np.count_nonzero(kept, axis=1))
    if misfits.size:
        return int(misfits[0])
    order = np.argsort(np.where(kept, slots, np.iinfo(np.int64).max), axis=1, kind="stable")
    kept = np.take_along_axis(kept, order, axis=1)
    out_slots[starts[0] : starts[-1]] = np.take_along_axis(slots, order, axis=1)[kept]
    out_values[starts[0] : starts[-1]] = np.take_along_axis(prepared, order, axis=1)[kept]
    return len(prepared)


def fill_entries(
    prepared: Floats,
    tiles: Tiles,
    n_levels: int,
    depth: int,
    starts: Indices,
    slots: Indices,
    values: Floats,
    level: int,
) -> int:
    """Fill in each row's entries for a parse tree of some depth, or for the counter tree if `depth` is 0."""
    row_slots = window_slots(tiles, n_levels, depth) if depth else counter_slots(tiles)
    return place_entries(prepared, row_slots, starts, slots, values)
