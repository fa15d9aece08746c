"""Certified exact search: the true top k, proven by bounds.

Items lie by falling norm, in blocks of 64, each with a code: its first principal coordinates and the norm of the rest,
as small integers. For a query u and an item v, with heads over those coordinates and tails of norms |u'| and |v'|,

    u . v  <=  head(u) . head(v) + |u'| |v'|

which is an inner product of two short vectors x and y. Coded as s q and t c with integers q and c,

    x . y  <=  s t (q . c) + |x| |y - t c| + |x - s q| |t c|

and the integer product is all a scan computes. Items whose bound is below the k-th best score so far are left out, and
the scan ends at the first block too short to matter: u . v <= |u| |v|.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tessella import _check
from tessella._core import core, run_blocks
from tessella.mapping.axes import principal_axes

BLOCK = 64
LARGEST_CODE = 127
LONGEST_CODE = 210.0
LARGEST_QUERY_CODE = 63.0
LONGEST_QUERY_CODE = 146.0
QUERY_OFFSET = 64
QUERIES_PER_BATCH = 128
CODE_SIZE = 48  # memory against items scored
WHOLE_CODE_SIZE = 52  # up to here all coordinates are coded, and no tail is left


@dataclass(frozen=True)
class Axes:
    """An orthonormal basis whose first axes matter most, and how many of them are coded."""

    head: NDArray[np.float64]  # (n_factors, code_size - 1), as columns

    @classmethod
    def fit(cls, factors: NDArray[np.float32]) -> Self:
        """Principal axes of the factors."""
        n_factors = factors.shape[1]
        moments = np.zeros((n_factors, n_factors))
        for rows in _check.row_blocks(factors):
            block = factors[rows].astype(np.float64)
            moments += block.T @ block
        # A code holds the head and the norm of the tail, in an even number of places.
        head = n_factors if n_factors < WHOLE_CODE_SIZE else CODE_SIZE - 1
        return cls(np.ascontiguousarray(principal_axes(moments)[:, :head]))

    @property
    def code_size(self) -> int:
        """Places of a code: the head, the norm of the tail, and one more if that is odd."""
        head = int(self.head.shape[1])
        return head + 1 + (head + 1) % 2

    def shorten(self, factors: NDArray[np.float32], norms: NDArray[np.float64]) -> NDArray[np.float64]:
        """Short vectors whose inner products bound those of factors with these norms from above."""
        short = np.zeros((len(factors), self.code_size))
        head = self.head.shape[1]
        np.matmul(factors.astype(np.float64), self.head, out=short[:, :head])
        if head < factors.shape[1]:
            # The subtraction may lose 1e-15 of the square; a little more is added.
            rest = norms * norms * (1 + 1e-11) - np.einsum("ij,ij->i", short, short)
            short[:, head] = np.sqrt(np.maximum(rest, 0))
        return short


@dataclass(frozen=True)
class ExactItems:
    """Items ready to be scanned, in order of falling norm."""

    axes: Axes
    factors: NDArray[np.float32]  # (n, n_factors)
    rows: NDArray[np.int64]  # (n) the number of each item, for ties, filters and answers
    codes: NDArray[np.int8]  # (n_blocks * code_size / 2 * BLOCK * 2)
    offsets: NDArray[np.int16]  # (n_blocks * BLOCK)
    block_terms: NDArray[np.float64]  # (n_blocks, 4): norm, error, coded norm, scale

    @classmethod
    def build(cls, factors: NDArray[np.float32], rows: NDArray[np.int64], axes: Axes) -> Self:
        """Order and code checked factors."""
        n, n_factors = factors.shape
        norms = np.sqrt(np.einsum("ij,ij->i", factors, factors, dtype=np.float64))
        order = np.argsort(-norms, kind="stable")
        factors, norms = np.ascontiguousarray(factors[order]), norms[order]
        n_blocks = -(-n // BLOCK)
        codes = np.zeros((n_blocks, BLOCK, axes.code_size), np.int8)
        terms = np.empty((n_blocks, 4))
        step = BLOCK * max(1, 2**14 // BLOCK)
        for first in range(0, n, step):
            length = norms[first : first + step]
            short = axes.shorten(factors[first : first + step], length)
            blocks = slice(first // BLOCK, -(-(first + len(short)) // BLOCK))
            padded = np.zeros(((blocks.stop - blocks.start) * BLOCK, axes.code_size))
            padded[: len(short)] = short
            lengths = np.zeros(len(padded))
            lengths[: len(short)] = length
            grouped = padded.reshape(-1, BLOCK, axes.code_size)
            codes[blocks], terms[blocks] = _code(grouped, lengths.reshape(-1, BLOCK), n_factors)
        sums = codes.sum(axis=2, dtype=np.int64)
        offsets = (-QUERY_OFFSET * sums).astype(np.uint16).view(np.int16)
        pairs = codes.reshape(n_blocks, BLOCK, axes.code_size // 2, 2).transpose(0, 2, 1, 3)
        return cls(axes, factors, rows[order], np.ascontiguousarray(pairs).ravel(), offsets.ravel(), terms)

    @classmethod
    def stored(cls) -> tuple[str, ...]:
        """The arrays of a snapshot, in the order of the fields."""
        return ("factors", "rows", "codes", "offsets", "block_terms")

    def check(self, n: int, n_factors: int) -> None:
        """Refuse arrays that do not belong together, as only a forged file has."""
        n_blocks = -(-n // BLOCK)
        size = self.axes.code_size
        expected = {
            "factors": (np.float32, (n, n_factors)),
            "rows": (np.int64, (n,)),
            "codes": (np.int8, (n_blocks * size * BLOCK,)),
            "offsets": (np.int16, (n_blocks * BLOCK,)),
            "block_terms": (np.float64, (n_blocks, 4)),
        }
        for name, (kind, shape) in expected.items():
            array = getattr(self, name)
            if array.dtype != kind or array.shape != shape:
                raise ValueError(f"{name} is {array.dtype} of shape {array.shape}")
        if self.axes.head.dtype != np.float64 or self.axes.head.shape[0] != n_factors:
            raise ValueError("the axes are not of the factors' width")
        if not np.array_equal(np.sort(self.rows), np.arange(n)):
            raise ValueError("rows are not numbered from 0")
        if not (np.isfinite(self.factors).all() and np.isfinite(self.block_terms).all()):
            raise ValueError("not all numbers are finite")

    @property
    def longest(self) -> float:
        """The norm of the longest item, or a little more."""
        return float(self.block_terms[0, 0]) if len(self.block_terms) else 0.0

    @property
    def nbytes(self) -> int:
        """Memory beyond the factors."""
        return self.rows.nbytes + self.codes.nbytes + self.offsets.nbytes + self.block_terms.nbytes


def _rounding_room(n_factors: int) -> float:
    """How much of |u| |v| a score in float32 may stray from the inner product, with room to spare."""
    return n_factors * 2.0**-23 + 1e-7


def _code(
    short: NDArray[np.float64], lengths: NDArray[np.float64], n_factors: int
) -> tuple[NDArray[np.int8], NDArray[np.float64]]:
    """Codes of blocks of short vectors, and the terms of their bounds, widened for rounding."""
    largest = np.abs(short).max(axis=(1, 2))
    longest = np.sqrt(np.einsum("bij,bij->bi", short, short).max(axis=1))
    scales = np.maximum(longest / LONGEST_CODE, largest / LARGEST_CODE)
    scales[scales == 0] = 1
    codes = np.rint(short / scales[:, None, None])
    coded = codes * scales[:, None, None]
    off = short - coded
    errors = np.sqrt(np.einsum("bij,bij->bi", off, off).max(axis=1))
    coded_norms = np.sqrt(np.einsum("bij,bij->bi", coded, coded).max(axis=1))
    norms = lengths.max(axis=1)
    room = norms * _rounding_room(n_factors)
    terms = np.stack([norms + room, errors * (1 + 1e-6) + room, coded_norms * (1 + 1e-6), scales], axis=1)
    return codes.astype(np.int8), terms


@dataclass(frozen=True)
class Filters:
    """Which rows may answer: `allowed` holds a bit for each row, or is None for all; excluded rows ascend by query."""

    allowed: NDArray[np.uint8] | None
    excluded: NDArray[np.int64]
    excluded_starts: NDArray[np.int64]


def search(
    segments: list[tuple[ExactItems, NDArray[np.uint8] | None]],
    queries: NDArray[np.float32],
    k: int,
    filters: Filters,
    threads: int,
) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]:
    """The true top k of every query over all segments, with their tombstones: rows, scores and items scored.

    Best first, the earlier row first among equal scores; row -1 and score -inf where there are fewer than k.
    """
    n = len(queries)
    scores = np.full((n, k), -np.inf, np.float32)
    rows = np.full((n, k), -1, np.int64)
    scored = np.zeros(n, np.int64)
    running = core()

    def scan(batch: slice) -> None:
        asked = queries[batch]
        counts = np.zeros(len(asked), np.int64)
        starts = filters.excluded_starts[batch.start : batch.stop + 1]
        coded: Axes | None = None
        codes, terms = np.empty((0, 0), np.uint8), np.empty((len(asked), 3))
        for items, dead in segments:
            if coded is not items.axes:
                coded = items.axes
                codes = np.empty((len(asked), coded.code_size), np.uint8)
                limits = (LARGEST_QUERY_CODE, LONGEST_QUERY_CODE)
                running.kernels.code_queries(asked, coded.head, *limits, codes, terms, running.level)
            running.kernels.exact_scan(
                items.factors, items.rows, dead, items.codes, items.offsets, items.block_terms,
                asked, codes, terms, filters.allowed, filters.excluded, starts,
                scores[batch], rows[batch], counts, scored[batch], running.level,
            )  # fmt: skip
        running.kernels.sort_found(scores[batch], rows[batch], counts, running.level)

    run_blocks(scan, [slice(at, min(at + QUERIES_PER_BATCH, n)) for at in range(0, n, QUERIES_PER_BATCH)], threads)
    return rows, scores, scored
