"""Codes: items and queries as vectors of small integers, whose products bound scores from above.

A factor v is rotated to principal axes, and its sketch t(v) holds the first coordinates and the norm of the rest. So
u . v <= t(u) . t(v), with equality where nothing is left in the rest. With integer codes c of t(v) and q of t(u) in
steps of s and r,

    u . v <= s r (q . c) + |t(u)| |t(v) - r c| + |t(u) - s q| |r c|

and the integer product is all a scan computes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tessella import _checks
from tessella._kernels import core
from tessella._numbers import BLOCK_ITEMS, tile_width
from tessella._threads import cut, run_blocks, thread_count

LARGEST_TAIL = 0.03  # of the items' squared length; with more, far more items pass the scan and are scored
HEAD_STEP = 8  # coordinates of a head and its tail, by which code sizes grow
WHOLE = 0.85  # of the coordinates; a longer head is as well the whole
ITEMS_AT_ONCE = 2**12  # whole blocks, few enough for the cache


@dataclass(frozen=True)
class Axes:
    """The first axes of an orthonormal basis, those that matter most; their coordinates are coded."""

    head: NDArray[np.float64]  # (n_factors, n_head), as columns

    @classmethod
    def of(cls, basis: NDArray[np.float64], spectrum: NDArray[np.float64]) -> Self:
        """The axes to code of a square basis: as many as it takes to hold nearly all of the items' squared length."""
        n_factors = len(basis)
        shares = np.cumsum(spectrum) / spectrum.sum() if spectrum.sum() > 0 else np.ones(n_factors)
        wanted = int(np.searchsorted(shares, 1 - LARGEST_TAIL)) + 1
        head = -(-(wanted + 1) // HEAD_STEP) * HEAD_STEP - 1  # with the tail, a whole number of steps
        return cls(np.ascontiguousarray(basis[:, : n_factors if head > WHOLE * n_factors else head]))

    @property
    def n_factors(self) -> int:
        """Coordinates of a factor."""
        return int(self.head.shape[0])

    @property
    def code_size(self) -> int:
        """Coordinates of a code: the head, the norm of the tail, and one more if that is odd."""
        n_factors, head = self.head.shape
        size = int(head) + int(head < n_factors)
        return size + size % 2

    @property
    def tile_width(self) -> int:
        """Coordinates of what tiles are made of: sketches where these are short, else factors."""
        return tile_width(self.head.shape[1], self.n_factors)

    def sketch(self, factors: NDArray[np.float32]) -> NDArray[np.float32]:
        """What tiles are made of: sketches where these are short, else the factors as they are."""
        if self.tile_width == self.n_factors:
            return factors
        running = core()
        sketches = np.empty((len(factors), self.tile_width), np.float32)
        running.kernels.sketch(np.ascontiguousarray(factors), self.head, sketches, running.level)
        return sketches


@dataclass(frozen=True)
class ExactCodes:
    """Codes of items in order of falling norm, in blocks of 64 with a common scale."""

    codes: NDArray[np.int8]  # (n_blocks * code_size / 2 * BLOCK_ITEMS * 2)
    offsets: NDArray[np.int16]  # (n_blocks * BLOCK_ITEMS)
    block_terms: NDArray[np.float64]  # (n_blocks, 5): norm, error, coded norm, scale, tail

    @classmethod
    def empty(cls, n: int, axes: Axes) -> Self:
        """Room for the codes of n items."""
        n_blocks = -(-n // BLOCK_ITEMS)
        return cls(
            np.empty(n_blocks * BLOCK_ITEMS * axes.code_size, np.int8),
            np.empty(n_blocks * BLOCK_ITEMS, np.int16),
            np.empty((n_blocks, 5)),
        )

    @classmethod
    def of(
        cls, factors: NDArray[np.float32], rotate: Callable[[NDArray[np.float32]], NDArray[np.float32]], axes: Axes
    ) -> Self:
        """The codes of factors by falling norm."""
        codes = cls.empty(len(factors), axes)
        for part in cut(len(factors), ITEMS_AT_ONCE):
            codes.fill(part, factors[part], rotate(factors[part]), axes)
        return codes

    def fill(self, items: slice, factors: NDArray[np.float32], rotated: NDArray[np.float32], axes: Axes) -> None:
        """Code some blocks of items by falling norm, given their factors as they are and along the principal axes."""
        blocks = slice(items.start // BLOCK_ITEMS, -(-items.stop // BLOCK_ITEMS))
        padded = slice(blocks.start * BLOCK_ITEMS, blocks.stop * BLOCK_ITEMS)
        codes = self.codes[padded.start * axes.code_size : padded.stop * axes.code_size]
        running = core()
        running.kernels.code_items(
            factors, rotated, axes.head.shape[1], codes, self.offsets[padded], self.block_terms[blocks], running.level
        )

    def check(
        self, factors: NDArray[np.float32], rotate: Callable[[NDArray[np.float32]], NDArray[np.float32]], axes: Axes
    ) -> None:
        """Refuse codes that are not those of the factors, as only a forged file has: certificates rest on them."""
        n_blocks = -(-len(factors) // BLOCK_ITEMS)
        _checks.expect(self.codes, "codes", np.int8, (n_blocks * axes.code_size * BLOCK_ITEMS,))
        _checks.expect(self.offsets, "offsets", np.int16, (n_blocks * BLOCK_ITEMS,))
        _checks.expect(self.block_terms, "block_terms", np.float64, (n_blocks, 5))
        wrong: list[str] = []

        def look(part: slice) -> None:
            theirs = factors[part]
            fresh = type(self).of(theirs, rotate, axes)
            for name in ("codes", "offsets", "block_terms"):
                array, right = getattr(self, name), getattr(fresh, name)
                first = part.start // BLOCK_ITEMS * (len(array) // n_blocks)
                if not np.array_equal(array[first : first + len(right)], right):
                    wrong.append(name)

        run_blocks(look, cut(len(factors), ITEMS_AT_ONCE), thread_count(None))
        if wrong:
            raise ValueError(f"{wrong[0]} are not those of the factors")
        self.check_order()

    def check_order(self) -> None:
        """Refuse items that are not by falling norm."""
        norms = self.block_terms[:, 0]
        if (norms[1:] > norms[:-1] * (1 + 1e-9)).any():  # equal norms may be summed otherwise elsewhere
            raise ValueError("items are not by falling norm")

    @property
    def longest(self) -> float:
        """The norm of the longest item, or a little more."""
        return float(self.block_terms[0, 0]) if len(self.block_terms) else 0.0

    @property
    def nbytes(self) -> int:
        """Memory of the arrays."""
        return self.codes.nbytes + self.offsets.nbytes + self.block_terms.nbytes
