"""Served queries: one native call that checks, codes, scans and looks ids up, where the general search takes many.

A single query then does not wait for Python, and a reader seldom waits for a writer's hold on the interpreter. Answers
are those of the general search, which takes over whatever is unusual.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella._core import run_blocks, thread_count
from tessella.results import SearchResult
from tessella.retrieval.found import QUERIES_PER_BATCH, batches
from tessella.retrieval.segments import State
from tessella.retrieval.slots import Effort
from tessella.retrieval.tile_search import QUERIES_PER_BATCH as TILE_QUERIES_PER_BATCH
from tessella.retrieval.ways import Reach, Way


def search_served(
    state: State, queries: NDArray[np.float32], k: int, way: Way, threads: int | None
) -> SearchResult | None:
    """The answers to one query or several, float32 in one piece, or None if that is for the general search."""
    server = state.server
    if server is None or k > state.n_live or isinstance(way, Effort):
        return None
    reach = way.reach if isinstance(way, Reach) else -1.0
    proven = not 0 <= reach < 1
    if queries.ndim == 1:
        return _search_one(state, queries, k, reach, proven)
    n = len(queries)
    ids, scores, scored = np.empty((n, k), np.int64), np.empty((n, k), np.float32), np.empty(n, np.int64)
    refused = []

    def scan(batch: slice) -> None:
        if not server.search(queries[batch], reach, ids[batch], scores[batch], scored[batch]):
            refused.append(batch)

    run_blocks(scan, batches(n, QUERIES_PER_BATCH if reach < 0 else TILE_QUERIES_PER_BATCH), thread_count(threads))
    if refused:
        return None
    return SearchResult(state.ids_of(ids) if state.text_ids else ids, scores, scored, np.full(n, proven))


def _search_one(state: State, query: NDArray[np.float32], k: int, reach: float, proven: bool) -> SearchResult | None:
    ids, scores, scored = np.empty((1, k), np.int64), np.empty((1, k), np.float32), np.empty(1, np.int64)
    if not state.server.search(query[None], reach, ids, scores, scored):
        return None
    found: NDArray[Any] = state.ids_of(ids) if state.text_ids else ids
    certified: Any = np.bool_(proven)
    return SearchResult(found[0], scores[0], scored[0], certified)
