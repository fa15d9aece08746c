"""Codes: items and queries as small integers, for exact search and for tile search."""

# ruff: noqa: ARG001

import numpy as np
from numpy.typing import NDArray

from tessella import _numbers as numbers
from tessella._reference.arithmetic import Doubles, Floats, nearest, sums_of_squares


def squares_in_stripes(values: Doubles) -> Doubles:
    """Return sums of squares along the last axis, in 4 fixed stripes folded in a fixed order."""
    stripes = np.zeros((*values.shape[:-1], 4))
    for first in range(0, values.shape[-1], 4):
        part = values[..., first : first + 4]
        stripes[..., : part.shape[-1]] += part * part
    sums: Doubles = (stripes[..., 0] + stripes[..., 2]) + (stripes[..., 1] + stripes[..., 3])
    return sums


def _add_tails(sketches: Doubles, factors: Floats, n_head: int, spare: float, lost: float) -> None:
    """Store an upper bound of the norm of the remaining coordinates after the first `n_head`."""
    if n_head < factors.shape[1]:
        rest = sums_of_squares(factors) * (1.0 + spare) - squares_in_stripes(sketches)
        sketches[:, n_head] = np.sqrt(np.maximum(rest, 0.0)) + lost


def _scales(norms: Doubles, largest: Doubles, largest_code: float, longest_code: float) -> Doubles:
    """Return the step size of codes such that no coordinate and no norm of a code is too large."""
    scales: Doubles = np.maximum(norms / longest_code, largest / largest_code)
    scales[scales <= numbers.LEAST_SCALE] = 1
    return scales


def code_items(
    factors: Floats,
    rotated: Floats,
    n_head: int,
    codes: NDArray[np.int8],
    offsets: NDArray[np.int16],
    block_terms: Doubles,
    level: int,
) -> None:
    """Code items in blocks of 64 with a common scale; fill in each block's norm, error, coded norm, scale and tail."""
    n, n_blocks = len(factors), len(block_terms)
    if not n:
        return
    size, block = len(codes) // len(offsets), numbers.BLOCK_ITEMS
    sketches, norms = np.zeros((n_blocks * block, size)), np.zeros(n_blocks * block)
    sketches[:n, :n_head] = rotated[:, :n_head]
    lost = np.sqrt(float(factors.shape[1])) * numbers.UNDERFLOW_LOSS
    _add_tails(sketches[:n], factors, n_head, numbers.ROUNDED_ROTATION_SPARE, lost)
    norms[:n] = np.sqrt(sums_of_squares(factors))
    blocks = sketches.reshape(n_blocks, block, size)
    sketch_norms = np.sqrt(squares_in_stripes(blocks).max(axis=1))
    largest = np.abs(blocks).max(axis=(1, 2))
    scales = _scales(sketch_norms, largest, numbers.LARGEST_ITEM_CODE, numbers.LONGEST_ITEM_CODE - half_steps(size))
    whole = nearest(blocks * (1.0 / scales)[:, None, None])
    coded = whole * scales[:, None, None]
    errors = np.sqrt(squares_in_stripes(blocks - coded).max(axis=1)) * (1.0 + numbers.NORM_SPARE)
    coded_norms = np.sqrt(squares_in_stripes(coded).max(axis=1)) * (1.0 + numbers.NORM_SPARE)
    longest = norms.reshape(n_blocks, block).max(axis=1)
    room = longest * numbers.rounding_share(factors.shape[1])
    tails = blocks[:, :, n_head].max(axis=1) if n_head < factors.shape[1] else np.zeros(n_blocks)
    tails = tails * (1.0 + numbers.NORM_SPARE)
    block_terms[:] = np.stack([longest + room, errors + room + lost, coded_norms, scales, tails], axis=1)
    _store(whole.reshape(-1, size), block, codes, offsets)


def exact_bounds(
    queries: Floats, head: Doubles, codes: NDArray[np.int8], offsets: NDArray[np.int16], block_terms: Doubles
) -> Doubles:
    """Return an upper bound of each query's score with each coded item, summed in the order that a scan uses.

    With integer codes c of an item's sketch t(v) in steps of r, and q of a query's sketch t(u) in steps of s,
    u . v <= s r (q . c) + |t(u)| |t(v) - r c| + |t(u) - s q| |r c|.
    """
    (n, n_factors), size = queries.shape, len(codes) // len(offsets)
    sketches = np.zeros((n, size))
    for j in range(n_factors):
        sketches[:, : head.shape[1]] += queries[:, j, None].astype(np.float64) * head[j]
    _add_tails(sketches, queries, head.shape[1], numbers.ROTATION_SPARE, 0.0)
    norms = np.sqrt(squares_in_stripes(sketches))
    largest = np.abs(sketches).max(axis=1)
    scales = _scales(norms, largest, numbers.LARGEST_QUERY_CODE, numbers.LONGEST_QUERY_CODE - half_steps(size))
    whole = nearest(sketches * (1.0 / scales)[:, None])
    errors = np.sqrt(squares_in_stripes(sketches - whole * scales[:, None])) * (1.0 + numbers.NORM_SPARE)
    items = codes.reshape(-1, size // 2, numbers.BLOCK_ITEMS, 2).transpose(0, 2, 1, 3).reshape(-1, size)
    shifted = (whole + numbers.QUERY_OFFSET).astype(np.int64)  # as queries are stored; offsets undo the shift
    products = (shifted @ items.T.astype(np.int64) + offsets).astype(np.uint16).view(np.int16)
    _, error, coded_norm, scale, _ = np.repeat(block_terms, numbers.BLOCK_ITEMS, axis=0).T
    slack = (norms * (1.0 + numbers.NORM_SPARE))[:, None] * error + errors[:, None] * coded_norm
    bounds: Doubles = scales[:, None] * scale * products + slack + n_factors * numbers.UNDERFLOW_LOSS
    return bounds


def sketch(factors: Floats, head: Doubles, sketches: Floats, level: int) -> None:
    """Fill in the coordinates along the first axes, and an upper bound of the norm of the rest.

    A score is at most the inner product of the two sketches.
    """
    n, n_head = head.shape
    wide = np.zeros((len(factors), n_head + 1))
    for j in range(n):
        wide[:, :n_head] += factors[:, j, None].astype(np.float64) * head[j]
    sketches[:, :n_head] = wide[:, :n_head]
    wide[:, :n_head] = sketches[:, :n_head]
    _add_tails(wide, factors, n_head, numbers.ROUNDED_ROTATION_SPARE, float(np.sqrt(float(n)) * numbers.UNDERFLOW_LOSS))
    sketches[:, n_head] = wide[:, n_head] * (1.0 + numbers.NORM_SPARE) + numbers.LEAST_NORMAL_FLOAT


def code_tile_items(
    factors: Floats, codes: NDArray[np.int8], offsets: NDArray[np.int16], scales: Floats, level: int
) -> None:
    """Code items, or centres, in groups of 16, each in steps of its own scale."""
    n, padded = len(factors), len(offsets)
    if not padded:
        return
    size = len(codes) // padded
    whole = np.zeros((padded, size))
    scales[:] = 0
    scales[:n] = _steps(factors, numbers.LARGEST_ITEM_CODE, numbers.LONGEST_ITEM_CODE - half_steps(size))
    inverse = 1.0 / scales[:n].astype(np.float64)
    whole[:n, : factors.shape[1]] = nearest(factors.astype(np.float64) * inverse[:, None])
    _store(whole, numbers.GROUP_ITEMS, codes, offsets)


def _store(whole: Doubles, together: int, codes: NDArray[np.int8], offsets: NDArray[np.int16]) -> None:
    """Store codes in pairs of coordinates, interleaved over the items; offsets are -64 times the sums of codes."""
    n, size = whole.shape
    codes[:] = whole.astype(np.int8).reshape(n // together, together, size // 2, 2).transpose(0, 2, 1, 3).ravel()
    sums = (-numbers.QUERY_OFFSET * whole.sum(axis=1)).astype(np.int64)
    offsets[:] = sums.astype(np.uint16).view(np.int16)


def half_steps(code_size: int) -> float:
    """Return the largest distance between a code and the vector it represents, in steps."""
    return float(0.5 * np.sqrt(code_size))


def _steps(factors: Floats, largest_code: float, longest_code: float) -> Floats:
    """Return the step size of each factor's tile code."""
    norms, largest = np.sqrt(sums_of_squares(factors)), np.abs(factors).max(axis=1, initial=0).astype(np.float64)
    steps = np.maximum(norms / longest_code, largest / largest_code) * (1.0 + numbers.NORM_SPARE)
    floored: Floats = np.maximum(steps.astype(np.float32), np.float32(numbers.LEAST_CODE_STEP))
    return floored


def code_tile_queries(queries: Floats) -> tuple[NDArray[np.uint8], Floats, Floats]:
    """Return codes, scales and norms of queries, or of items that are assigned to tiles, or of their sketches."""
    n, n_factors = queries.shape
    size = n_factors + n_factors % 2
    scales = _steps(queries, numbers.LARGEST_QUERY_CODE, numbers.LONGEST_QUERY_CODE - half_steps(size))
    codes = np.full((n, size), numbers.QUERY_OFFSET, np.uint8)
    inverse = 1.0 / scales.astype(np.float64)
    whole = nearest(queries.astype(np.float64) * inverse[:, None]).astype(np.int64)
    codes[:, :n_factors] = numbers.QUERY_OFFSET + whole
    norms = np.sqrt(sums_of_squares(queries)) * (1.0 + numbers.NORM_SPARE) + numbers.LEAST_NORMAL_FLOAT
    return codes, scales, norms.astype(np.float32)
