"""NumPy twins of the native kernels: the readable specification, and what runs where no compiler worked.

Each kernel has the name, the arrays and the result of its native twin, bit for bit; only `exact_scan` leaves nothing
out, so it scores more. `level` changes no result, and here nothing at all.
"""

# ruff: noqa: ARG001

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]
Doubles: TypeAlias = NDArray[np.float64]
Tiles: TypeAlias = NDArray[np.int8]
Indices: TypeAlias = NDArray[np.int32] | NDArray[np.int64]

STRIPES = 16


def first_bad_row(factors: Floats, level: int) -> int:
    """The first row holding a NaN or an infinity, or the number of rows."""
    bad = np.flatnonzero(~np.isfinite(factors).all(axis=1))
    return int(bad[0]) if bad.size else len(factors)


def _sums_of_squares(rows: Floats) -> Doubles:
    """Row sums of squares in 16 fixed stripes folded in a fixed order."""
    stripes = np.zeros((len(rows), STRIPES))
    for first in range(0, rows.shape[1], STRIPES):
        part = rows[:, first : first + STRIPES].astype(np.float64)
        stripes[:, : part.shape[1]] += part * part
    for half in (8, 4, 2, 1):
        stripes[:, :half] += stripes[:, half : 2 * half]
    return stripes[:, 0]


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
        with np.errstate(over="ignore", invalid="ignore"):  # what comes of it is counted as a bad row
            for j, axis in enumerate(rotation):
                sums += factors[:, j, None].astype(np.float64) * axis
            rotated = sums.astype(np.float32)
    cuts = np.full(len(factors), threshold, dtype=np.float64)
    if relative:
        cuts *= np.sqrt(_sums_of_squares(rotated) / factors.shape[1])
    prepared[:] = np.where(np.abs(rotated) < cuts[:, None], np.float32(0), rotated)


def count_entries(prepared: Floats, counts: NDArray[np.int64], level: int) -> int:
    """Count the non-zeros of each row, up to the first bad row; that row, or the number of rows."""
    good = first_bad_row(prepared, level)
    counts[:good] = np.count_nonzero(prepared[:good], axis=1)
    return good


def _descending_magnitudes(factors: Floats) -> Floats:
    return -np.sort(-np.abs(factors), axis=1)


def _reach(factors: Floats, cuts: Floats) -> Tiles:
    """+-1 where a coordinate's magnitude reaches its row's cut."""
    return (factors >= cuts[:, None]).astype(np.int8) - (factors <= -cuts[:, None]).astype(np.int8)


def ternary_tiles(factors: Floats, max_nonzeros: int, tiles: Tiles, level: int) -> None:
    """Algorithm 2 with erratum 3: the signs of the i* largest coordinates, i* maximising (their sum)^2 / i."""
    magnitudes = _descending_magnitudes(factors)
    dots = np.cumsum(magnitudes, axis=1, dtype=np.float64)[:, :max_nonzeros]
    ratios = dots * dots / np.arange(1, dots.shape[1] + 1)
    sizes = np.argmax(ratios, axis=1)
    cuts = np.where(magnitudes[:, 0] > 0, np.take_along_axis(magnitudes, sizes[:, None], axis=1)[:, 0], np.inf)
    tiles[:] = _reach(factors, cuts.astype(np.float32))
    # Only the cap can split a run of equal magnitudes: then earlier coordinates stay.
    equal = np.abs(factors) == cuts[:, None]
    spare = max_nonzeros - np.count_nonzero(np.abs(factors) > cuts[:, None], axis=1)
    tiles[equal & (np.cumsum(equal, axis=1) > spare[:, None])] = 0


def dary_tiles(factors: Floats, n_levels: int, exact: bool, tiles: Tiles, level: int) -> None:
    """The nearest D-ary tile by a full sweep, or Algorithm 4's rounding."""
    one = _exact_tiles if exact else _rounded_tiles
    block = max(1, 2**22 // (factors.shape[1] * n_levels * n_levels))
    for first in range(0, len(factors), block):
        tiles[first : first + block] = one(factors[first : first + block], n_levels)


def _exact_tiles(factors: Floats, n_levels: int) -> Tiles:
    """Sweep the scale: coordinate z reaches level m when 1 / (2 scale) falls to z / (2m - 1).

    That event adds z to the dot product and 2m - 1 to the squared norm; the best dot^2 / norm^2 on the way wins.
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
    """Algorithm 4 on the unit factor; where all rounds to zero, the first largest coordinate becomes +-1."""
    norms = np.sqrt(_sums_of_squares(factors))
    norms[norms == 0] = 1
    scaled = float(n_levels) * factors.astype(np.float64) / norms[:, None]
    below, above = np.floor(scaled), np.ceil(scaled)
    tiles = np.where(above - scaled <= scaled - below, above, below).astype(np.int8)
    empty = np.flatnonzero(~tiles.any(axis=1))
    largest = np.argmax(np.abs(factors[empty]), axis=1)
    tiles[empty, largest] = np.sign(factors[empty, largest]).astype(np.int8)
    return tiles


def window_slots(tiles: Tiles, n_levels: int, depth: int) -> NDArray[np.int64]:
    """The sliding window of P8 and P10: one-hot for the first depth - 1 coordinates, then a slot for each window."""
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
    """The counter tree of P9, counted from 0, with a range of k^2 slots for each of the values 1, -1, 2, -2, ..."""
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
    """Store each row's non-zeros by ascending slot; the first row that does not fit, or the number of rows."""
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
    """Each row's entries under a parse tree, or the counter tree where depth is 0."""
    row_slots = window_slots(tiles, n_levels, depth) if depth else counter_slots(tiles)
    return place_entries(prepared, row_slots, starts, slots, values)


def scores_of(queries: Floats, factors: Floats) -> Floats:
    """Inner products in float32, in 16 fixed stripes folded in a fixed order."""
    stripes = np.zeros((len(queries), len(factors), STRIPES), np.float32)
    for first in range(0, factors.shape[1], STRIPES):
        part = factors[:, first : first + STRIPES]
        stripes[:, :, : part.shape[1]] += queries[:, None, first : first + STRIPES] * part
    for half in (8, 4, 2, 1):
        stripes[:, :, :half] += stripes[:, :, half : 2 * half]
    return stripes[:, :, 0]


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
        rest = _sums_of_squares(factors) * (1.0 + spare) - _squares_in_stripes(short)
        short[:, n_head] = np.sqrt(np.maximum(rest, 0.0)) + lost


def _scales(norms: Doubles, largest_places: Doubles, largest: float, longest: float) -> Doubles:
    scales: Doubles = np.maximum(norms / longest, largest_places / largest)
    scales[scales <= 2.0**-1000] = 1  # so that its inverse is finite
    return scales


def _nearest(values: Doubles) -> Doubles:
    return np.trunc(np.where(values < 0, values - 0.5, values + 0.5))


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
    whole = _nearest(short * (1.0 / scales)[:, None])
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
    norms[:n] = np.sqrt(_sums_of_squares(factors))
    blocks = short.reshape(n_blocks, 64, size)
    short_norms = np.sqrt(_squares_in_stripes(blocks).max(axis=1))
    scales = _scales(short_norms, np.abs(blocks).max(axis=(1, 2)), largest, longest)
    whole = _nearest(blocks * (1.0 / scales)[:, None, None])
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


def sort_found(scores: Floats, answers: NDArray[np.int64], counts: NDArray[np.int64], level: int) -> None:
    """Put each query's answers in order, best first, the earlier row first among equals."""
    for query, count in enumerate(counts):
        order = np.lexsort((answers[query, :count], -scores[query, :count]))
        scores[query, :count] = scores[query, order]
        answers[query, :count] = answers[query, order]


def _present(
    rows: NDArray[np.int32], dead: NDArray[np.uint8] | None, allowed: NDArray[np.uint8] | None
) -> NDArray[np.bool_]:
    """Which places hold an item that is there and may be an answer."""
    live = np.ones(len(rows), np.bool_)
    if dead is not None:
        live &= ~np.unpackbits(dead, bitorder="little", count=len(rows)).astype(np.bool_)
    if allowed is not None:
        live &= np.unpackbits(allowed, bitorder="little")[rows].astype(np.bool_)
    return live


def _offer(
    query: Floats,
    factors: Floats,
    rows: NDArray[np.int32],
    base: int,
    places: NDArray[np.int64],
    scores: Floats,
    answers: NDArray[np.int64],
    count: int,
) -> int:
    """Add the items at some places to a query's best; how many those then are."""
    parts = [
        scores_of(query[None], factors[places[first : first + 2**14]])[0] for first in range(0, len(places), 2**14)
    ]
    all_scores = np.concatenate([scores[:count], *parts])
    all_answers = np.concatenate([answers[:count], rows[places].astype(np.int64) << 32 | (base + places)])
    best = np.lexsort((all_answers, -all_scores))[: len(scores)]
    scores[: len(best)], answers[: len(best)] = all_scores[best], all_answers[best]
    return len(best)


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
    live = _present(rows, dead, allowed)
    for query, factor in enumerate(queries):
        seen = excluded[excluded_starts[query] : excluded_starts[query + 1]]
        places = np.flatnonzero(live & ~np.isin(rows, seen))
        counts[query] = _offer(factor, factors, rows, base, places, scores[query], answers[query], counts[query])
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
    live = _present(rows, dead, allowed)
    norms = np.sqrt(_sums_of_squares(queries))
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
            weights = _nearest(steps * (2.0**29 / (norm * longest))).astype(np.int64)
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
    live = _present(rows, dead, allowed)
    norms = np.sqrt(_sums_of_squares(queries)) * (1.0 + 1e-6)
    for query, factor in enumerate(queries):
        chosen = 2**32 - 1 - (keys[query, : chosen_counts[query]].astype(np.int64) & (2**32 - 1)) - base
        chosen = chosen[(chosen >= 0) & (chosen < len(rows))]
        left = live & ~np.isin(rows, excluded[excluded_starts[query] : excluded_starts[query + 1]])
        chosen = chosen[left[chosen]]
        counts[query] = _offer(factor, factors, rows, base, chosen, scores[query], answers[query], counts[query])
        scored[query] += len(chosen)
        left[chosen] = False
        left[2048:] = True
        if left.any():
            bound = norms[query] * block_terms[np.argmax(left) // 64, 0] + factors.shape[1] * 2.0**-148
            unseen[query] = max(unseen[query], bound)
