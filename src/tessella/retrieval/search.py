"""Search: from what a caller gives to answers, by the shortest way that takes it."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella import _checks
from tessella._threads import thread_count
from tessella.results import SearchResult
from tessella.retrieval.filters import filters_for
from tessella.retrieval.found import Found
from tessella.retrieval.served import serve, serve_one, serves
from tessella.retrieval.ways import Options, search_by, way_for
from tessella.versions.version import MAX_ROWS, State

FLOAT32 = np.dtype(np.float32)


def search(
    state: State, queries: ArrayLike, k: int, options: Options, exclude: Any, allow: Any, threads: int | None
) -> SearchResult:
    """The answers to one query or several, over one version of the index."""
    count = None if threads is None else thread_count(threads)
    ready = _as_they_are(queries, k)
    if ready is not None and ready.ndim == 1 and exclude is None and allow is None:
        way = way_for(state, k, options)
        found = serve_one(state, ready, k, way) if serves(state, k, way) else None
        if found is not None:
            return found
    array = _checks.numbers(queries, "queries") if ready is None else ready
    single = array.ndim == 1
    asked = array[None] if single else array
    if single and _checks.is_list_of_ids(exclude):
        exclude = [exclude]
    found = _search_many(state, asked, k, options, exclude, allow, count, ready=ready is not None)
    return SearchResult(*(part[0] for part in found)) if single else found


def _search_many(
    state: State,
    queries: NDArray[Any],
    k: int,
    options: Options,
    exclude: Any,
    allow: Any,
    threads: int | None,
    *,
    ready: bool,
) -> SearchResult:
    """The answers to queries with filters. Those that are `ready` are looked at only if the server refuses them."""
    asked = queries if ready else _checks.all_factors(queries, "queries", state.fitted.n_factors)
    wanted = _checks.whole_number(k, "k", 1, MAX_ROWS)
    way = way_for(state, wanted, options)
    shares = filters_for(state, len(asked), exclude, allow)
    if len(shares) == 1 and serves(state, wanted, way, shares[0][1]):
        found = serve(state, asked, wanted, way, shares[0][1], threads)
        if found is not None:
            return found
    asked = _checks.all_factors(asked, "queries", state.fitted.n_factors) if ready else asked
    _checks.products_fit(asked, state.longest, "queries")
    best = Found.empty(len(asked), min(wanted, max(1, state.n_live)))
    for part, filters in shares:
        search_by(way, state, asked[part], filters, best.part(part), thread_count(threads))
    return best.padded(wanted).result(state.ids_of)


def _as_they_are(queries: ArrayLike, k: int) -> NDArray[np.float32] | None:
    """The queries, if they are in one piece and with this k need no conversion."""
    if type(queries) is not np.ndarray or queries.dtype != FLOAT32 or type(k) is not int or k < 1:
        return None
    flags = queries.flags
    in_one_piece = flags.c_contiguous and flags.aligned
    return queries if in_one_piece and (queries.ndim == 1 or (queries.ndim == 2 and len(queries))) else None
