"""Codes: items and queries as short vectors of small integers, whose products bound scores from above.

A factor v is turned to principal axes, and its short vector t(v) holds the first coordinates and the norm of the rest.
So u . v <= t(u) . t(v), with equality where nothing is left in the rest. With integer codes c of t(v) and q of t(u) in
steps of s and r,

    u . v <= s r (q . c) + |t(u)| |t(v) - r c| + |t(u) - s q| |r c|

and the integer product is all a scan computes.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tessella import _checks
from tessella._kernels import core

BLOCK = 64
LARGEST_CODE = 127.0
LONGEST_CODE = 210.0
LARGEST_QUERY_CODE = 63.0
LONGEST_QUERY_CODE = 146.0
CODE_SIZE = 48  # memory against items scored
WHOLE_CODE_SIZE = 52  # up to here all coordinates are coded, and no tail is left


def rounding_room(n_factors: int) -> float:
    """The share of |u| |v| that a score in float32 may stray, and a turned factor, with some to spare."""
    return n_factors * 2.0**-23 + 3e-7


@dataclass(frozen=True)
class Axes:
    """The first axes of an orthonormal basis, those that matter most; their coordinates are coded."""

    head: NDArray[np.float64]  # (n_factors, code_size - 1), as columns

    @classmethod
    def of(cls, basis: NDArray[np.float64]) -> Self:
        """The axes to code of a square basis."""
        n_factors = len(basis)
        head = n_factors if n_factors < WHOLE_CODE_SIZE else CODE_SIZE - 1
        return cls(np.ascontiguousarray(basis[:, :head]))

    @property
    def code_size(self) -> int:
        """Places of a code: the head, the norm of the tail, and one more if that is odd."""
        head = int(self.head.shape[1])
        return head + 1 + (head + 1) % 2

    def code(self, queries: NDArray[np.float32]) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
        """Codes of queries, and the terms of their bounds: norm, error, scale."""
        running = core()
        codes = np.empty((len(queries), self.code_size), np.uint8)
        terms = np.empty((len(queries), 3))
        limits = (LARGEST_QUERY_CODE, LONGEST_QUERY_CODE)
        running.kernels.code_queries(queries, self.head, *limits, codes, terms, running.level)
        return codes, terms


@dataclass(frozen=True)
class Codes:
    """Codes of items in order of falling norm, in blocks of 64 with a common scale."""

    codes: NDArray[np.int8]  # (n_blocks * code_size / 2 * BLOCK * 2)
    offsets: NDArray[np.int16]  # (n_blocks * BLOCK)
    block_terms: NDArray[np.float64]  # (n_blocks, 4): norm, error, coded norm, scale

    @classmethod
    def empty(cls, n: int, axes: Axes) -> Self:
        """Room for the codes of n items."""
        n_blocks = -(-n // BLOCK)
        return cls(
            np.empty(n_blocks * BLOCK * axes.code_size, np.int8),
            np.empty(n_blocks * BLOCK, np.int16),
            np.empty((n_blocks, 4)),
        )

    def fill(self, items: slice, factors: NDArray[np.float32], turned: NDArray[np.float32], axes: Axes) -> None:
        """Code some blocks of items by falling norm, given their factors as they are and along the principal axes."""
        blocks = slice(items.start // BLOCK, -(-items.stop // BLOCK))
        places = slice(blocks.start * BLOCK, blocks.stop * BLOCK)
        codes = self.codes[places.start * axes.code_size : places.stop * axes.code_size]
        limits = (LARGEST_CODE, LONGEST_CODE, rounding_room(factors.shape[1]))
        running = core()
        running.kernels.code_items(
            factors, turned, axes.head.shape[1], *limits,
            codes, self.offsets[places], self.block_terms[blocks], running.level,
        )  # fmt: skip

    def check(self, n: int, axes: Axes) -> None:
        """Refuse arrays that do not belong together, as only a forged file has."""
        n_blocks = -(-n // BLOCK)
        _checks.expect(self.codes, "codes", np.int8, (n_blocks * axes.code_size * BLOCK,))
        _checks.expect(self.offsets, "offsets", np.int16, (n_blocks * BLOCK,))
        _checks.expect(self.block_terms, "block_terms", np.float64, (n_blocks, 4))
        if not np.isfinite(self.block_terms).all():
            raise ValueError("not all terms are finite")

    @property
    def longest(self) -> float:
        """The norm of the longest item, or a little more."""
        return float(self.block_terms[0, 0]) if len(self.block_terms) else 0.0

    @property
    def nbytes(self) -> int:
        """Memory of the arrays."""
        return self.codes.nbytes + self.offsets.nbytes + self.block_terms.nbytes
