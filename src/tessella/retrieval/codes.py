"""Codes: items and queries as vectors of small integers, whose products bound scores from above.

A factor v is rotated to the principal axes. Its sketch t(v) consists of the first coordinates and the norm of the rest.
So u . v <= t(u) . t(v), with equality if the rest is zero. Let c be the integer code of t(v) in steps of r, and q that
of t(u) in steps of s. Then

    u . v <= s r (q . c) + |t(u)| |t(v) - r c| + |t(u) - s q| |r c|

and a scan only has to compute the integer product q . c.
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

LARGEST_TAIL = 0.03  # share of the items' squared length; beyond it, far more items pass the scan and are scored
HEAD_STEP = 8  # the head and its tail together have a multiple of this many coordinates
WHOLE = 0.85  # share of the coordinates; a head longer than this might as well take them all
ITEMS_AT_ONCE = 2**12  # a multiple of the block size, small enough for the cache


@dataclass(frozen=True)
class Axes:
    """The first, most important axes of an orthonormal basis. Codes are made of the coordinates along them."""

    head: NDArray[np.float64]  # (n_factors, n_head), as columns

    @classmethod
    def of(cls, basis: NDArray[np.float64], spectrum: NDArray[np.float64]) -> Self:
        """Choose as many axes of a square basis as it takes to hold nearly all of the items' squared length."""
        n_factors = len(basis)
        shares = np.cumsum(spectrum) / spectrum.sum() if spectrum.sum() > 0 else np.ones(n_factors)
        wanted = int(np.searchsorted(shares, 1 - LARGEST_TAIL)) + 1
        head = -(-(wanted + 1) // HEAD_STEP) * HEAD_STEP - 1  # together with the tail, a multiple of the step
        return cls(np.ascontiguousarray(basis[:, : n_factors if head > WHOLE * n_factors else head]))

    @property
    def n_factors(self) -> int:
        """The number of coordinates of a factor."""
        return int(self.head.shape[0])

    @property
    def code_size(self) -> int:
        """The number of coordinates of a code: the head and the norm of the tail, rounded up to an even number."""
        n_factors, head = self.head.shape
        size = int(head) + int(head < n_factors)
        return size + size % 2

    @property
    def tile_width(self) -> int:
        """The number of coordinates that tiles use: a sketch's if sketches are short, else a factor's."""
        return tile_width(self.head.shape[1], self.n_factors)

    def sketch(self, factors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the vectors that tiles use: sketches if these are short, else the factors themselves."""
        if self.tile_width == self.n_factors:
            return factors
        running = core()
        sketches = np.empty((len(factors), self.tile_width), np.float32)
        running.kernels.sketch(np.ascontiguousarray(factors), self.head, sketches, running.level)
        return sketches


@dataclass(frozen=True)
class ExactCodes:
    """Codes of items in order of falling norm, in blocks of 64 that share a scale."""

    codes: NDArray[np.int8]  # (n_blocks * code_size / 2 * BLOCK_ITEMS * 2)
    offsets: NDArray[np.int16]  # (n_blocks * BLOCK_ITEMS)
    block_terms: NDArray[np.float64]  # (n_blocks, 5): norm, error, coded norm, scale, tail

    @classmethod
    def empty(cls, n: int, axes: Axes) -> Self:
        """Allocate the codes of n items."""
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
        """Code factors that are sorted by falling norm."""
        codes = cls.empty(len(factors), axes)
        for part in cut(len(factors), ITEMS_AT_ONCE):
            codes.fill(part, factors[part], rotate(factors[part]), axes)
        return codes

    def fill(self, items: slice, factors: NDArray[np.float32], rotated: NDArray[np.float32], axes: Axes) -> None:
        """Code some blocks of items, given their factors, sorted by falling norm, and the same rotated."""
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
        """Refuse codes that do not match the factors, since certificates rely on them. Only a forged file has such."""
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
            raise ValueError(f"{wrong[0]} do not match the factors")
        self.check_order()

    def check_order(self) -> None:
        """Refuse items that are not sorted by falling norm."""
        norms = self.block_terms[:, 0]
        if (norms[1:] > norms[:-1] * (1 + 1e-9)).any():  # on another machine, equal norms may round differently
            raise ValueError("items are not sorted by falling norm")

    @property
    def longest(self) -> float:
        """An upper bound of the norm of the longest item, tight but for rounding."""
        return float(self.block_terms[0, 0]) if len(self.block_terms) else 0.0

    @property
    def nbytes(self) -> int:
        """The memory of the arrays in bytes."""
        return self.codes.nbytes + self.offsets.nbytes + self.block_terms.nbytes
