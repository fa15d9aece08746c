"""Find items by id, and make the lists of rows that filters consist of."""

import itertools
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Lists: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]  # one list after another, and where each begins

_MIXERS = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)


def read_ids(lists: list[Any], ids: NDArray[np.int64]) -> bool:
    """Fill in the ids of lists and tuples, one after another; return False if any is not a Python int of 64 bits."""
    if any(type(part) is not list and type(part) is not tuple for part in lists):
        return False
    flat = list(itertools.chain.from_iterable(lists))
    if any(type(number) is not int or not -(2**63) <= number < 2**63 for number in flat):
        return False
    ids[:] = flat
    return True


def scatter_ids(ids: NDArray[np.int64], slots: NDArray[np.int32]) -> None:
    """Fill a hash table of positions by linear probing. The number of slots is a power of two.

    If ids collide, the native core may give them their slots in another order. Every id is found either way.
    """
    slots[:] = -1
    left, at = np.arange(len(ids), dtype=np.int32), _homes(ids, len(slots))
    while len(left):
        free = slots[at] < 0
        slots[at[free]] = left[free]
        waiting = slots[at] != left
        left, at = left[waiting], (at[waiting] + 1) & (len(slots) - 1)


def find_ids(segment: Any, base: int, wanted: NDArray[Any], positions: NDArray[np.int64]) -> None:
    """Fill in the positions, plus `base`, of the ids that are in a segment. Here ids may also be strings."""
    found = _found(segment, wanted)
    there = found >= 0
    if segment.removed is not None:
        there &= segment.removed[found >> 3] >> (found & 7) & 1 == 0
    positions[there] = base + found[there]


def _found(segment: Any, wanted: NDArray[Any]) -> NDArray[Any]:
    """Return the positions of ids, removed or not; -1 for unknown ids."""
    ids, by_id, first = segment.ids, segment.by_id, segment.first_id
    if ids.dtype.kind == "U":
        found = by_id[np.minimum(np.searchsorted(ids, wanted, sorter=by_id), len(ids) - 1)]
        return np.where(ids[found] == wanted, found, -1)
    if first is not None:
        offsets = wanted.astype(np.uint64) - np.array(first).astype(np.uint64)
        near = offsets < len(by_id)
        return np.where(near, by_id[np.where(near, offsets, 0).astype(np.int64)], -1)
    at = _homes(wanted, len(by_id))
    while True:
        found = np.asarray(by_id[at])
        passed = (found >= 0) & (ids[found] != wanted)
        if not passed.any():
            return found
        at = np.where(passed, (at + 1) & (len(by_id) - 1), at)


def _homes(ids: NDArray[np.int64], n_slots: int) -> NDArray[np.int64]:
    """Hash ids to slots, a power of two in number; every bit counts, so ids in steps of any size spread out."""
    mixed, half = ids.astype(np.uint64), np.uint64(33)
    for mixer in _MIXERS:
        mixed = (mixed ^ mixed >> half) * mixer
    return ((mixed ^ mixed >> half) & np.uint64(n_slots - 1)).astype(np.int64)


def list_columns(
    columns: NDArray[Any],
    starts: NDArray[np.int64] | None,
    row_of_column: NDArray[np.int64] | None,
    without: Lists | None,
    rows: NDArray[np.int64],
    row_starts: NDArray[np.int64],
) -> int:
    """Turn lists of columns, or of rows, into ascending lists of rows; return the first invalid entry, or -1.

    Without `starts` there is one list.
    """
    starts = np.array([0, len(columns)]) if starts is None else starts
    given = columns[starts[0] : starts[-1]].astype(np.int64)
    if row_of_column is None:
        fill_lists(given, starts, without, rows, row_starts)
        return -1
    there = (given >= 0) & (given < len(row_of_column))
    found = np.full(len(given), -1)
    found[there] = row_of_column[given[there]]
    fill_lists(found, starts, without, rows, row_starts)
    return -1 if there.all() else int(starts[0] + np.argmin(there))


def fill_lists(
    found: NDArray[np.int64],
    starts: NDArray[np.int64],
    without: Lists | None,
    rows: NDArray[np.int64],
    row_starts: NDArray[np.int64],
) -> None:
    """Fill in lists of rows, ascending and unique, without negative ones and without those in `without`."""
    row_starts[0] = 0
    for number, (begin, end) in enumerate(zip(starts[:-1] - starts[0], starts[1:] - starts[0], strict=True)):
        own = np.unique(found[begin:end])
        own = own[own >= 0]
        if without is not None:
            values, others = without
            own = np.setdiff1d(own, values[others[number] : others[number + 1]], assume_unique=True)
        row_starts[number + 1] = row_starts[number] + len(own)
        rows[row_starts[number] : row_starts[number + 1]] = own
