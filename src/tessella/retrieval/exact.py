"""Exact search: the true top k, proven by bounds.

Items lie in order of falling norm, with integer codes. Those whose bound is below the k-th best score so far are left
out, and the scan ends at the first block too short to matter: u . v <= |u| |v|.
"""

import numpy as np
from numpy.typing import NDArray

from tessella._kernels import core
from tessella._threads import run_blocks
from tessella.retrieval.filters import Filters
from tessella.retrieval.found import Found, batches
from tessella.retrieval.scoring import score_all
from tessella.versions.version import State


def search_exactly(state: State, queries: NDArray[np.float32], filters: Filters, found: Found, threads: int) -> None:
    """Fill in the true top k of every query."""
    running = core()

    def scan(batch: slice) -> None:
        asked, best, filtered = queries[batch], found.part(batch), filters.part(batch)
        best.certified[:] = True
        if filtered.places is not None:
            score_all(state, asked, filtered, filtered.places, best)
            return
        codes, terms = state.fitted.axes.code(asked)
        for segment, base in state.parts():
            running.kernels.exact_scan(
                segment.factors, segment.rows, segment.dead, base,
                segment.codes.codes, segment.codes.offsets, segment.codes.block_terms,
                asked, codes, terms, filtered.allowed, filtered.excluded, filtered.excluded_starts,
                best.scores, best.answers, best.counts, best.scored, running.level,
            )  # fmt: skip
        best.sort()

    run_blocks(scan, batches(len(queries)), threads)
