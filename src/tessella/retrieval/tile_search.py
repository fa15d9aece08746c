"""Tile search: queries go to the tiles that may hold answers, and score the items whose codes promise enough (P14)."""

import threading

import numpy as np
from numpy.typing import NDArray

from tessella._kernels import core
from tessella._threads import run_blocks
from tessella.retrieval.filters import Filters
from tessella.retrieval.found import Found, batches
from tessella.retrieval.scoring import score_all
from tessella.retrieval.tiles import Askers, Tiling
from tessella.versions.version import State

QUERIES_PER_BATCH = 512  # so many share the tiles they visit


def search_by_tiles(
    state: State,
    tiling: Tiling,
    queries: NDArray[np.float32],
    filters: Filters,
    reach: float,
    found: Found,
    threads: int,
) -> None:
    """Fill in the best items of the tiles that each query visits; with a reach of 1 that is the true top k."""
    running = core()
    widest = (min(len(queries), QUERIES_PER_BATCH), len(tiling.coded.scales))
    room: dict[int, NDArray[np.float32]] = {}  # of each thread, since fresh memory is slow
    parts = [(segment, base, segment.filed) for segment, base in state.parts() if segment.filed is not None]

    def scan(batch: slice) -> None:
        asked, best, filtered = queries[batch], found.part(batch), filters.part(batch)
        best.certified[:] = reach >= 1 or filtered.places is not None
        if filtered.places is not None:
            score_all(state, asked, filtered, filtered.places, best)
            return
        askers = Askers.of(asked)
        if threading.get_ident() not in room:
            room[threading.get_ident()] = np.empty(widest, np.float32)
        nears = room[threading.get_ident()][: len(asked)]
        tiling.rank(askers, reach, nears)
        for segment, base, filed in parts:
            running.kernels.tile_scan(
                segment.factors, segment.rows, segment.dead, base,
                filed.places, filed.starts, filed.coded.codes, filed.coded.offsets, filed.coded.scales, state.radii,
                asked, askers.codes, askers.terms, nears, reach,
                filtered.allowed, filtered.excluded, filtered.excluded_starts,
                best.scores, best.answers, best.counts, best.scored, running.level,
            )  # fmt: skip
        best.sort()

    run_blocks(scan, batches(len(queries), QUERIES_PER_BATCH), threads)
