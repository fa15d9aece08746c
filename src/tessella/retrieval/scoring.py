"""Scoring: items that were chosen by whatever means are scored as they are."""

import numpy as np
from numpy.typing import NDArray

from tessella._kernels import core
from tessella.retrieval.filters import Filters
from tessella.retrieval.found import Found
from tessella.versions.version import State


def score_chosen(
    state: State,
    queries: NDArray[np.float32],
    filters: Filters,
    keys: NDArray[np.uint64],
    counts: NDArray[np.int64],
    best: Found,
) -> NDArray[np.float64]:
    """Put the best of the chosen items in order; what an item that was not chosen might score, or -inf if none is left.

    The last 32 bits of a key are 2^32 - 1 - place, and keys go by place.
    """
    running = core()
    unseen = np.full(len(queries), -np.inf)
    for segment, base in state.parts():
        running.kernels.score_chosen(
            segment.factors, segment.rows, segment.dead, base, segment.codes.block_terms,
            queries, filters.allowed, filters.excluded, filters.excluded_starts, keys, counts,
            best.scores, best.answers, best.counts, best.scored, unseen, running.level,
        )  # fmt: skip
    best.sort()
    return unseen


def score_all(
    state: State, queries: NDArray[np.float32], filters: Filters, places: NDArray[np.int64], best: Found
) -> None:
    """Put the best of the items at some places, which ascend, in order."""
    keys = np.tile((0xFFFFFFFF - places).astype(np.uint64), (len(queries), 1))
    score_chosen(state, queries, filters, keys, np.full(len(queries), len(places)), best)
