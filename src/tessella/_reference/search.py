"""Twins of exact search and slots search."""

# ruff: noqa: ARG001

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella._reference.common import Doubles, Floats, nearest, offer, present, sums_of_squares


def _squares_in_stripes(values: Doubles) -> Doubles:
    """Sums of squares along the last axis in 4 fixed stripes folded in a fixed order."""
    stripes = np.zeros((*values.shape[:-1], 4))
    for first in range(0, values.shape[-1], 4):
        part = values[..., first : first + 4]
        stripes[..., : part.shape[-1]] += part * part
    sums: Doubles = (stripes[..., 0] + stripes[..., 2]) + (stripes[..., 1] + stripes[..., 3])
    return sums


def _add_tails(short: Doubles, factors: Floats, n_head: int, spare: float, lost: float) -> None:
    """Put the norm of what is not in the first places, or a little more, into the next one."""
    if n_head < factors.shape[1]:
        rest = sums_of_squares(factors) * (1.0 + spare) - _squares_in_stripes(short)
        short[:, n_head] = np.sqrt(np.maximum(rest, 0.0)) + lost


def _scales(norms: Doubles, largest_places: Doubles, largest: float, longest: float) -> Doubles:
    scales: Doubles = np.maximum(norms / longest, largest_places / largest)
    scales[scales <= 2.0**-1000] = 1  # so that its inverse is finite
    return scales


def code_queries(
    queries: Floats,
    head: Doubles,
    largest: float,
    longest: float,
    codes: NDArray[np.uint8],
    terms: Doubles,
    level: int,
) -> None:
    """Code queries by their coordinates along the head's axes and the norm of the rest; norms, errors and scales."""
    n_factors, n_head = head.shape
    short = np.zeros(codes.shape)
    for i in range(n_factors):
        short[:, :n_head] += queries[:, i, None].astype(np.float64) * head[i]
    _add_tails(short, queries, n_head, 1e-11, 0.0)
    norms = np.sqrt(_squares_in_stripes(short))
    scales = _scales(norms, np.abs(short).max(axis=1), largest, longest)
    whole = nearest(short * (1.0 / scales)[:, None])
    errors = np.sqrt(_squares_in_stripes(short - whole * scales[:, None]))
    codes[:] = whole + 64
    terms[:] = np.stack([norms * (1.0 + 1e-6), errors * (1.0 + 1e-6), scales], axis=1)


def code_items(
    factors: Floats,
    turned: Floats,
    n_head: int,
    largest: float,
    longest: float,
    room: float,
    codes: NDArray[np.int8],
    offsets: NDArray[np.int16],
    block_terms: Doubles,
    level: int,
) -> None:
    """Code items in blocks of 64 with a common scale; norms, errors, coded norms and scales of the blocks."""
    n, n_blocks = len(factors), len(block_terms)
    if not n:
        return
    size = len(codes) // len(offsets)
    short, norms = np.zeros((n_blocks * 64, size)), np.zeros(n_blocks * 64)
    short[:n, :n_head] = turned[:, :n_head]
    lost = np.sqrt(float(factors.shape[1])) * 2.0**-148  # near zero, where floats are even
    _add_tails(short[:n], factors, n_head, 3e-7, lost)
    norms[:n] = np.sqrt(sums_of_squares(factors))
    blocks = short.reshape(n_blocks, 64, size)
    short_norms = np.sqrt(_squares_in_stripes(blocks).max(axis=1))
    scales = _scales(short_norms, np.abs(blocks).max(axis=(1, 2)), largest, longest)
    whole = nearest(blocks * (1.0 / scales)[:, None, None])
    coded = whole * scales[:, None, None]
    errors = np.sqrt(_squares_in_stripes(blocks - coded).max(axis=1))
    coded_norms = np.sqrt(_squares_in_stripes(coded).max(axis=1))
    longest_norms = norms.reshape(n_blocks, 64).max(axis=1)
    spare = longest_norms * room
    block_terms[:] = np.stack(
        [longest_norms + spare, errors * (1.0 + 1e-6) + spare + lost, coded_norms * (1.0 + 1e-6), scales], axis=1
    )
    offsets[:] = (-64 * whole.sum(axis=2)).astype(np.int64).astype(np.uint16).view(np.int16).ravel()
    codes[:] = whole.astype(np.int8).reshape(n_blocks, 64, size // 2, 2).transpose(0, 2, 1, 3).ravel()


def find_ids(
    ids: NDArray[Any],
    by_id: NDArray[np.int32],
    dead: NDArray[np.uint8] | None,
    base: int,
    wanted: NDArray[Any],
    places: NDArray[np.int64],
    level: int,
) -> None:
    """Fill in the places, with the base added, of those ids that are there; here ids may be texts, too."""
    found = by_id[np.minimum(np.searchsorted(ids, wanted, sorter=by_id), len(ids) - 1)]
    there = ids[found] == wanted
    if dead is not None:
        there &= dead[found >> 3] >> (found & 7) & 1 == 0
    places[there] = base + found[there]


def sort_found(scores: Floats, answers: NDArray[np.int64], counts: NDArray[np.int64], level: int) -> None:
    """Put each query's answers in order, best first, the earlier row first among equals."""
    for query, count in enumerate(counts):
        order = np.lexsort((answers[query, :count], -scores[query, :count]))
        scores[query, :count] = scores[query, order]
        answers[query, :count] = answers[query, order]


def exact_scan(
    factors: Floats,
    rows: NDArray[np.int32],
    dead: NDArray[np.uint8] | None,
    base: int,
    codes: NDArray[np.int8],
    offsets: NDArray[np.int16],
    block_terms: Doubles,
    queries: Floats,
    query_codes: NDArray[np.uint8],
    query_terms: Doubles,
    allowed: NDArray[np.uint8] | None,
    excluded: NDArray[np.int64],
    excluded_starts: NDArray[np.int64],
    scores: Floats,
    answers: NDArray[np.int64],
    counts: NDArray[np.int64],
    scored: NDArray[np.int64],
    level: int,
) -> None:
    """Offer every live item to every query's best; without codes and bounds, by scoring all of them."""
    live = present(rows, dead, allowed)
    for query, factor in enumerate(queries):
        seen = excluded[excluded_starts[query] : excluded_starts[query + 1]]
        places = np.flatnonzero(live & ~np.isin(rows, seen))
        counts[query] = offer(factor, factors, rows, base, places, scores[query], answers[query], counts[query])
        scored[query] += len(places)


def slot_scan(
    factors: Floats,
    rows: NDArray[np.int32],
    dead: NDArray[np.uint8] | None,
    base: int,
    places: NDArray[np.uint16],
    impacts: NDArray[np.int8],
    slots: NDArray[np.int64],
    starts: NDArray[np.int64],
    scales: Floats,
    block_lists: NDArray[np.int64],
    queries: Floats,
    entry_starts: NDArray[np.int64],
    entry_slots: NDArray[np.int64],
    entry_values: Floats,
    allowed: NDArray[np.uint8] | None,
    excluded: NDArray[np.int64],
    excluded_starts: NDArray[np.int64],
    max_slots: int,
    min_overlap: int,
    longest: float,
    keys: NDArray[np.uint64],
    counts: NDArray[np.int64],
    level: int,
) -> None:
    """Add each query's items with the largest partial products over its heaviest slots to those chosen before."""
    live = present(rows, dead, allowed)
    norms = np.sqrt(sums_of_squares(queries))
    for query, norm in enumerate(norms):
        if norm == 0 or longest == 0:
            continue
        entries = np.arange(entry_starts[query], entry_starts[query + 1])
        heaviest = np.sort(entries[np.argsort(-np.abs(entry_values[entries]), kind="stable")[:max_slots]])
        sums, overlaps = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
        for block in range(len(block_lists) - 1):
            first, last = block_lists[block], block_lists[block + 1]
            if first == last:
                continue
            lists = first + np.searchsorted(slots[first:last], entry_slots[heaviest])
            there = (lists < last) & (slots[np.minimum(lists, len(slots) - 1)] == entry_slots[heaviest])
            lists = lists[there]
            steps = entry_values[heaviest[there]].astype(np.float64) * scales[lists].astype(np.float64)
            weights = nearest(steps * (2.0**29 / (norm * longest))).astype(np.int64)
            most = np.abs(weights * impacts[starts[lists]]).max(initial=0)
            least = most // 32 if min_overlap == 1 else 0  # what adds little is left out, in strides of 64
            for a, b, weight in zip(starts[lists], starts[lists + 1], weights, strict=True):
                faint = np.flatnonzero(np.abs(weight * impacts[a:b:64].astype(np.int64)) < least)
                end = min(b, a + 64 * faint[0]) if faint.size else b
                at = block * 2**16 + places[a:end].astype(np.int64)
                sums[at] += weight * impacts[a:end].astype(np.int64)
                overlaps[at] += 1
        seen = excluded[excluded_starts[query] : excluded_starts[query + 1]]
        found = np.flatnonzero(live & (sums > 0) & (overlaps >= min_overlap) & ~np.isin(rows, seen))
        offered = (sums[found] << 32 | (2**32 - 1 - (base + found))).astype(np.uint64)
        best = np.sort(np.concatenate([keys[query, : counts[query]], offered]))[-keys.shape[1] :]
        counts[query] = len(best)
        keys[query, : len(best)] = best


def score_chosen(
    factors: Floats,
    rows: NDArray[np.int32],
    dead: NDArray[np.uint8] | None,
    base: int,
    block_terms: Doubles,
    queries: Floats,
    allowed: NDArray[np.uint8] | None,
    excluded: NDArray[np.int64],
    excluded_starts: NDArray[np.int64],
    keys: NDArray[np.uint64],
    chosen_counts: NDArray[np.int64],
    scores: Floats,
    answers: NDArray[np.int64],
    counts: NDArray[np.int64],
    scored: NDArray[np.int64],
    unseen: Doubles,
    level: int,
) -> None:
    """Score the chosen items, and bound the scores of all others by the longest among the first 2,048 places."""
    live = present(rows, dead, allowed)
    norms = np.sqrt(sums_of_squares(queries)) * (1.0 + 1e-6)
    for query, factor in enumerate(queries):
        chosen = 2**32 - 1 - (keys[query, : chosen_counts[query]].astype(np.int64) & (2**32 - 1)) - base
        chosen = chosen[(chosen >= 0) & (chosen < len(rows))]
        left = live & ~np.isin(rows, excluded[excluded_starts[query] : excluded_starts[query + 1]])
        chosen = chosen[left[chosen]]
        counts[query] = offer(factor, factors, rows, base, chosen, scores[query], answers[query], counts[query])
        scored[query] += len(chosen)
        left[chosen] = False
        left[2048:] = True
        if left.any():
            bound = norms[query] * block_terms[np.argmax(left) // 64, 0] + factors.shape[1] * 2.0**-148
            unseen[query] = max(unseen[query], bound)
