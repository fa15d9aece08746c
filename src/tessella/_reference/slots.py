"""Slots search: partial products over shared slots choose the items to score (P12, weighted)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella import _numbers as numbers
from tessella._packing import candidates_of
from tessella._reference.arithmetic import Floats, nearest, sums_of_squares
from tessella._reference.best import QueryFilter


def candidates(
    segment: Any,
    base: int,
    query: Floats,
    entries: tuple[NDArray[np.int64], Floats],
    rules: QueryFilter,
    how: tuple[int, int],
    longest: float,
) -> NDArray[np.uint64]:
    """Return all items of a segment with a positive partial product over the query's heaviest slots."""
    max_slots, min_overlap = how
    norm = float(np.sqrt(sums_of_squares(query[None]))[0])
    if norm == 0 or longest == 0:
        return np.zeros(0, np.uint64)
    unit = numbers.PARTIAL_PRODUCT_UNITS / (norm * longest)
    (slots, values), postings = heaviest(entries, max_slots), segment.postings
    sums, overlaps = np.zeros(len(segment.rows), np.int64), np.zeros(len(segment.rows), np.int64)
    for block in range(len(postings.block_lists) - 1):
        lists, used = _lists(postings, block, slots)
        steps = values[used].astype(np.float64) * postings.scales[lists].astype(np.float64)
        weights = nearest(steps * unit).astype(np.int64)
        starts, ends = postings.starts[lists], postings.starts[lists + 1]
        most = np.abs(weights * postings.impacts[starts]).max(initial=0)
        least = most // numbers.FAINT if min_overlap == 1 else 0  # strides of small contributions are skipped
        for a, b, weight in zip(starts, ends, weights, strict=True):
            strides = postings.impacts[a : b : numbers.STRIDE].astype(np.int64)
            faint = np.flatnonzero(np.abs(weight * strides) < least)
            end = min(b, a + numbers.STRIDE * faint[0]) if faint.size else b
            at = block * numbers.POSTING_BLOCK + postings.positions[a:end].astype(np.int64)
            sums[at] += weight * postings.impacts[a:end].astype(np.int64)
            overlaps[at] += 1
    may_answer = rules.allows(segment) & ~rules.excludes(segment)
    found = np.flatnonzero(may_answer & (sums > 0) & (overlaps >= min_overlap))
    return candidates_of(sums[found], base + found)


def heaviest(entries: tuple[NDArray[np.int64], Floats], max_slots: int) -> tuple[NDArray[np.int64], Floats]:
    """Return the slots of a query with the largest values, and the values, in the order of slots."""
    slots, values = entries
    kept = np.sort(np.argsort(-np.abs(values), kind="stable")[:max_slots])
    return slots[kept], values[kept]


def sharing(segment: Any, slots: NDArray[np.int64], min_overlap: int) -> NDArray[np.int64]:
    """Return the positions of the items that share at least `min_overlap` slots with a query: the paper's own rule."""
    postings = segment.postings
    overlaps = np.zeros(len(segment.rows), np.int64)
    for block in range(len(postings.block_lists) - 1):
        for one in _lists(postings, block, slots)[0]:
            here = postings.positions[postings.starts[one] : postings.starts[one + 1]].astype(np.int64)
            overlaps[block * numbers.POSTING_BLOCK + here] += 1
    return np.flatnonzero(overlaps >= min_overlap)


def _lists(postings: Any, block: int, slots: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return a block's posting lists for some slots, and which of these slots it has."""
    first, last = postings.block_lists[block], postings.block_lists[block + 1]
    lists = first + np.searchsorted(postings.slots[first:last], slots)
    there = np.flatnonzero(lists < last)
    there = there[postings.slots[lists[there]] == slots[there]]
    return lists[there], there


def unseen_bound(segment: Any, chosen: NDArray[np.int64], query: Floats, rules: QueryFilter) -> float:
    """Return a bound on the score of items that were not chosen, from the longest of them; -inf if all were chosen.

    Only the first positions are examined; items beyond them count as not chosen.
    """
    left = rules.allows(segment) & ~rules.excludes(segment)
    left[chosen] = False
    left[numbers.PROVABLE_POSITIONS :] = True
    if not left.any():
        return -np.inf
    norm = float(np.sqrt(sums_of_squares(query[None]))[0]) * (1.0 + numbers.NORM_SPARE)
    block = int(np.argmax(left)) // numbers.BLOCK_ITEMS
    bound: float = norm * float(segment.codes.block_terms[block, 0]) + segment.factors.shape[1] * numbers.UNDERFLOW_LOSS
    return bound
