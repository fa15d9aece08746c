"""What twins share: scores, the best k, and who may be among them."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]
Doubles: TypeAlias = NDArray[np.float64]

STRIPES = 16


def sums_of_squares(rows: Floats) -> Doubles:
    """Row sums of squares in 16 fixed stripes folded in a fixed order."""
    stripes = np.zeros((len(rows), STRIPES))
    for first in range(0, rows.shape[1], STRIPES):
        part = rows[:, first : first + STRIPES].astype(np.float64)
        stripes[:, : part.shape[1]] += part * part
    for half in (8, 4, 2, 1):
        stripes[:, :half] += stripes[:, half : 2 * half]
    return stripes[:, 0]


def scores_of(queries: Floats, factors: Floats) -> Floats:
    """Inner products in float32, in 16 fixed stripes folded in a fixed order."""
    stripes = np.zeros((len(queries), len(factors), STRIPES), np.float32)
    for first in range(0, factors.shape[1], STRIPES):
        part = factors[:, first : first + STRIPES]
        stripes[:, :, : part.shape[1]] += queries[:, None, first : first + STRIPES] * part
    for half in (8, 4, 2, 1):
        stripes[:, :, :half] += stripes[:, :, half : 2 * half]
    return stripes[:, :, 0]


def present(
    rows: NDArray[np.int32], dead: NDArray[np.uint8] | None, allowed: NDArray[np.uint8] | None
) -> NDArray[np.bool_]:
    """Which places hold an item that is there and may be an answer."""
    live = np.ones(len(rows), np.bool_)
    if dead is not None:
        live &= ~np.unpackbits(dead, bitorder="little", count=len(rows)).astype(np.bool_)
    if allowed is not None:
        live &= np.unpackbits(allowed, bitorder="little")[rows].astype(np.bool_)
    return live


def offer(
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


def nearest(values: Doubles) -> Doubles:
    return np.trunc(np.where(values < 0, values - 0.5, values + 0.5))
