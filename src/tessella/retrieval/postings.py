"""Postings: the inverted index from slots to items, with impacts (P12)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tessella import _checks
from tessella._numbers import POSTING_BLOCK
from tessella._threads import cut

LARGEST_IMPACT = 127

Entries: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]  # starts, slots, values


@dataclass(frozen=True)
class Postings:
    """Posting lists, one per slot and block of 65,536 items, sorted by falling impact magnitude, then by position.

    An impact is an entry of the sparse map, quantised in steps of its list's scale.
    """

    positions: NDArray[np.uint16]  # (n_entries) within a block
    impacts: NDArray[np.int8]  # (n_entries)
    slots: NDArray[np.int64]  # (n_lists) ascending within a block
    starts: NDArray[np.int64]  # (n_lists + 1)
    scales: NDArray[np.float32]  # (n_lists)
    block_lists: NDArray[np.int64]  # (n_blocks + 1) the first list of each block

    @classmethod
    def build(cls, n: int, entries_of: Callable[[slice], Sequence[Entries]]) -> Self:
        """Build postings of n items; `entries_of` returns the sparse map of a block, in consecutive parts."""
        blocks = [_block_of(entries_of(block)) for block in cut(n, POSTING_BLOCK)]
        positions, impacts, slots, lengths, scales = (np.concatenate(part) for part in zip(*blocks, strict=True))
        starts = np.concatenate([[0], np.cumsum(lengths)])
        block_lists = np.concatenate([[0], np.cumsum([len(block[2]) for block in blocks])])
        return cls(positions, impacts, slots, starts, scales, block_lists)

    def check(self, n: int, longest: float) -> None:
        """Refuse arrays that are inconsistent, as only those of a forged file are."""
        n_lists, n_entries = len(self.slots), len(self.positions)
        n_blocks = -(-n // POSTING_BLOCK)
        _checks.expect(self.positions, "positions", np.uint16, (n_entries,))
        _checks.expect(self.impacts, "impacts", np.int8, (n_entries,))
        _checks.expect(self.slots, "slots", np.int64, (n_lists,))
        _checks.expect(self.starts, "starts", np.int64, (n_lists + 1,))
        _checks.expect(self.scales, "scales", np.float32, (n_lists,))
        _checks.expect(self.block_lists, "block_lists", np.int64, (n_blocks + 1,))
        for name, pointers, end in (("starts", self.starts, n_entries), ("block_lists", self.block_lists, n_lists)):
            if pointers[0] != 0 or pointers[-1] != end or (np.diff(pointers) < 0).any():
                raise ValueError(f"{name} do not ascend from 0 to {end}")
        if (np.diff(self.starts) < 1).any():
            raise ValueError("a list is empty")
        entries = self.starts[self.block_lists[-2:]]
        if (
            n_entries
            and int(self.positions[entries[0] : entries[1]].max(initial=0)) >= n - (n_blocks - 1) * POSTING_BLOCK
        ):
            raise ValueError("a position is beyond the last item")
        if (self.scales * LARGEST_IMPACT > longest * (1 + 1e-5)).any() and longest > 0:
            raise ValueError("an entry is longer than the longest item")
        if not np.isfinite(self.scales).all() or (self.slots < 0).any() or (self.impacts == -128).any():
            raise ValueError("a scale, slot or impact is out of range")

    def lists(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the slot and the position in the segment of every entry."""
        lengths = np.diff(self.starts)
        blocks = np.repeat(np.arange(len(self.block_lists) - 1), np.diff(self.block_lists))
        return np.repeat(self.slots, lengths), np.repeat(blocks * POSTING_BLOCK, lengths) + self.positions

    @property
    def nbytes(self) -> int:
        """The memory of the arrays in bytes."""
        arrays = (self.positions, self.impacts, self.slots, self.starts, self.scales, self.block_lists)
        return sum(array.nbytes for array in arrays)


def _block_of(
    stretches: Sequence[Entries],
) -> tuple[NDArray[np.uint16], NDArray[np.int8], NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """Sort a block's entries by slot, then by falling size: positions, impacts; slots, lengths and scales of lists."""
    counts = np.concatenate([np.diff(starts) for starts, _, _ in stretches])
    positions = np.repeat(np.arange(len(counts)), counts)
    slots, values = (np.concatenate(part) for part in zip(*(stretch[1:] for stretch in stretches), strict=True))
    sizes = np.abs(values)
    numbers = slots if slots.max(initial=0) < 2**32 else np.unique(slots, return_inverse=True)[1]
    # Non-negative floats sort like their bit patterns, so slot and falling size fit into one integer key.
    keys = numbers.astype(np.uint64) << np.uint64(32) | (np.uint32(0xFFFFFFFF) - sizes.view(np.uint32))
    order = np.argsort(keys, kind="stable")
    positions, slots, values, sizes = positions[order], slots[order], values[order], sizes[order]
    firsts = np.flatnonzero(np.diff(slots, prepend=-1))
    lengths = np.diff(firsts, append=len(slots))
    scales = sizes[firsts].astype(np.float64) / LARGEST_IMPACT
    scales[scales == 0] = 1
    impacts = np.rint(values / np.repeat(scales, lengths))
    return positions.astype(np.uint16), impacts.astype(np.int8), slots[firsts], lengths, scales.astype(np.float32)
