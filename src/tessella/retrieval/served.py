"""Served queries: one native call that checks, codes, scans and looks ids up, where the general search takes many.

A single query then does not wait for Python, and a reader seldom waits for a writer's hold on the interpreter. Answers
are those of the general search, which takes over whatever is unusual.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella._threads import run_blocks, thread_count
from tessella.results import SearchResult
from tessella.retrieval.filters import Filters
from tessella.retrieval.found import QUERIES_PER_BATCH, batches
from tessella.retrieval.slots import Effort
from tessella.retrieval.tile_search import QUERIES_PER_BATCH as TILE_QUERIES_PER_BATCH
from tessella.retrieval.ways import Reach, Way
from tessella.versions.version import State

NO_TILES = -1.0  # in place of a reach
YES, NO = np.bool_(True), np.bool_(False)


def serves(state: State, k: int, way: Way, filters: Filters | None = None) -> bool:
    """Whether queries are for the native server."""
    few = filters is not None and filters.places is not None
    return state.server is not None and k <= state.n_live and not isinstance(way, Effort) and not few


def serve_one(state: State, query: NDArray[np.float32], k: int, way: Way) -> SearchResult | None:
    """The answers to one query, float32 in one piece, or None if that is for the general search."""
    reach = way.reach if isinstance(way, Reach) else NO_TILES
    ids, scores = np.empty(k, np.int64), np.empty(k, np.float32)
    scored = state.server.search_one(query, reach, ids, scores)
    if scored < 0:
        return None
    found = state.ids_of(ids) if state.text_ids else ids
    count: Any = np.int64(scored)
    certified: Any = NO if 0 <= reach < 1 else YES
    return SearchResult(found, scores, count, certified)


def serve(
    state: State, queries: NDArray[np.float32], k: int, way: Way, filters: Filters, threads: int | None
) -> SearchResult | None:
    """The same of several queries, which may have filters."""
    reach = way.reach if isinstance(way, Reach) else NO_TILES
    server, n = state.server, len(queries)
    ids, scores, scored = np.empty((n, k), np.int64), np.empty((n, k), np.float32), np.empty(n, np.int64)
    refused = []

    def scan(batch: slice) -> None:
        own = filters.part(batch)
        options = (reach, own.allowed, own.excluded, own.excluded_starts)
        if not server.search(queries[batch], *options, ids[batch], scores[batch], scored[batch]):
            refused.append(batch)

    run_blocks(scan, batches(n, QUERIES_PER_BATCH if reach < 0 else TILE_QUERIES_PER_BATCH), thread_count(threads))
    if refused:
        return None
    found = state.ids_of(ids) if state.text_ids else ids
    return SearchResult(found, scores, scored, np.full(n, not 0 <= reach < 1))
