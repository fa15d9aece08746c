"""The route of every query: checks, method, filter, engine, ids."""

from typing import Any, NamedTuple, NoReturn, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella import _checks
from tessella._norms import squared_norms
from tessella._numbers import FEW_ALLOWED_SHARE, LARGEST_NORM, SLOTS, few_allowed
from tessella._threads import cut, run_blocks, thread_count
from tessella.results import SearchResult
from tessella.retrieval.engine import Answers, Filter
from tessella.retrieval.plan import METHODS, Method, Setting, Slots, Tiles
from tessella.search.filters import LazyFilter, filter_for
from tessella.versions.version import Version

LARGEST_K = 2**20  # or as many as there are items
MOST_CODED_FOR = 2**14  # queries per call if few items are allowed, which the call codes once for all its queries
FEW_APART = 1 / 8  # of the queries of a call: up to this share, searching some twice beats sorting all
MOST_CANDIDATES = 2**20  # of all queries of a call, so that a large budget does not need much memory

How: TypeAlias = tuple[Method, Setting]
Part: TypeAlias = tuple[slice, Method, Setting]


class Apart(NamedTuple):
    """Filtered queries that need different methods."""

    how: list[How]
    own: NDArray[np.int64]  # the number in `how` of each query's method
    row_filter: Filter


_FLOAT32 = np.dtype(np.float32)


def search(
    version: Version,
    queries: ArrayLike,
    k: int,
    method: Method | None,
    exclude: Any = None,
    allow: Any = None,
    threads: int | None = None,
    queries_per_call: int | None = None,
) -> SearchResult:
    """Answer one query or several, over one version of the index.

    Parameters
    ----------
    version : Version
        The version to search.
    queries, k, exclude, allow, threads
        As for `Index.search`.
    method : Exact, Tiles, Slots or None
        How to search; None follows the plan.
    queries_per_call : int, default None
        How many queries to pass to the engine at once. Does not affect results.
    """
    n_threads = None if threads is None else thread_count(threads)  # do not count the CPUs for a single query
    given = queries if type(queries) is np.ndarray else _checks.numbers(queries, "queries")
    flags = given.flags
    ready = given.dtype is _FLOAT32 and flags.c_contiguous and flags.aligned
    array = given if ready else _as_floats(given)
    shape = array.shape
    single = len(shape) == 1
    if len(shape) not in (1, 2) or shape[-1] != version.n_factors:
        _checks.factors(array[None] if single else array, "queries", version.n_factors)  # raises the error
    if type(k) is not int or not 1 <= k <= LARGEST_K:
        k = _checks.whole_number(k, "k", 1, max(LARGEST_K, version.n_live))
    named = method
    method, setting = version.planned[k] if named is None else _named(version, named, k)
    row_filter = apart = None
    if exclude is not None or allow is not None:
        row_filter = filter_for(version, 1 if single else len(array), exclude, allow)
        if named is None:
            (method, setting), apart = planned(version, k, row_filter)
    if single:
        found, refused = _search_one(version, array, k, method, setting, row_filter)
    elif apart is None:
        together = queries_per_call or _together(version, method, len(array), row_filter, n_threads)
        parts = _cut(0, len(array), (method, setting), together)
        found, refused = _search_many(version, array, k, parts, row_filter, n_threads)
    else:
        found, refused = _search_apart(version, array, k, apart, n_threads, queries_per_call)
    if refused >= 0:
        _refuse(version, np.atleast_2d(given), np.atleast_2d(array), refused)
    return found


def _search_one(
    version: Version,
    query: NDArray[np.float32],
    k: int,
    method: Method,
    setting: Setting,
    row_filter: Filter | LazyFilter | None,
) -> tuple[SearchResult, int]:
    ids, scores = np.empty(k, np.int64), np.empty(k, np.float32)
    n_scored, certified = np.empty(1, np.int64), np.empty(1, np.bool_)
    entries = _entries(version, query[None], method) if setting.method == SLOTS else None
    own = row_filter.of_queries(slice(0, 1)) if isinstance(row_filter, LazyFilter) else row_filter
    refused = version.engine.search(query, setting, entries, own, (ids, scores, n_scored, certified))
    found = version.text_ids_at(ids) if version.text_ids and refused < 0 else ids
    return SearchResult(found, scores, n_scored[0], certified[0]), refused


def _search_many(
    version: Version,
    queries: NDArray[np.float32],
    k: int,
    parts: list[Part],
    row_filter: Filter | LazyFilter | None,
    threads: int | None,
    numbers: NDArray[np.int64] | None = None,
) -> tuple[SearchResult, int]:
    """Return the answers, and the first query that the engine refused, or -1; `numbers` renumbers the queries."""
    answers = Answers.empty(len(queries), k)
    engine = version.engine
    how = {part.start: (method, setting) for part, method, setting in parts}
    refused: list[int] = []

    def answer(part: slice) -> None:
        asked = queries[part]
        method, setting = how[part.start]
        entries = _entries(version, asked, method) if setting.method == SLOTS else None
        own = None if row_filter is None else row_filter.of_queries(part)
        bad = engine.search(asked, setting, entries, own, answers.of_queries(part))
        if bad >= 0:
            number = part.start + bad
            refused.append(number if numbers is None else int(numbers[number]))

    run_blocks(answer, [part for part, _, _ in parts], thread_count(threads))
    ids = version.text_ids_at(answers.ids) if version.text_ids and not refused else answers.ids
    return SearchResult(ids, answers.scores, answers.n_scored, answers.certified), min(refused, default=-1)


def _search_apart(
    version: Version,
    queries: NDArray[np.float32],
    k: int,
    apart: Apart,
    threads: int | None,
    queries_per_call: int | None,
) -> tuple[SearchResult, int]:
    """Answer queries that need different settings. The engine takes one setting per call, so queries are grouped by it.

    If nearly all queries share a setting, all are searched with it, in place, and the few others are searched again.
    """
    how, own, row_filter = apart
    counts = np.bincount(own, minlength=len(how))
    usual = int(counts.argmax())
    others = np.flatnonzero(own != usual)
    if len(others) <= FEW_APART * len(own):
        parts = _cut(0, len(queries), how[usual], queries_per_call)
        found, refused = _search_many(version, queries, k, parts, row_filter, threads)
        if len(others) and refused < 0:
            left = Apart(how, own[others], row_filter.of_numbers(others))
            again, refused = _search_apart(version, queries[others], k, left, threads, queries_per_call)
            for name, theirs in again.arrays().items():
                getattr(found, name)[others] = theirs
        return found, refused
    order = np.argsort(own, kind="stable")
    own, queries, row_filter = own[order], queries[order], row_filter.of_numbers(order)
    ends = [*(np.flatnonzero(np.diff(own)) + 1).tolist(), len(own)]
    parts = [
        part
        for first, end in zip([0, *ends], ends, strict=False)
        for part in _cut(first, end, how[own[first]], queries_per_call)
    ]
    found, refused = _search_many(version, queries, k, parts, row_filter, threads, order)
    places = np.argsort(order)
    return SearchResult(*(array[places] for array in found.arrays().values())), refused


def planned(version: Version, k: int, row_filter: Filter | LazyFilter) -> tuple[How, Apart | None]:
    """Return the method planned for filtered queries and, if they need several, the method of each.

    If queries have lists of allowed items, the engine answers those with few items exactly. So the plan is made for
    the smallest list that is not answered exactly.
    """
    if row_filter.only:
        return version.planned[(k, 0, version.n_live // FEW_ALLOWED_SHARE)], None
    starts = row_filter.starts
    n_allowed = version.n_live if row_filter.allowed is None else row_filter.n_allowed
    if row_filter.allowed is not None and n_allowed <= few_allowed(version.n_live):
        return version.planned[(k, 0, n_allowed)], None  # answers are exact, whatever the method
    if starts is None or len(starts) == 2:
        return version.planned[(k, 0 if starts is None else int(starts[1] - starts[0]), n_allowed)], None
    sizes = starts[1:] - starts[:-1]
    different = np.unique(sizes)
    plans = [version.planned[(k, size, n_allowed)] for size in different.tolist() or [0]]
    how = list(dict.fromkeys(plans))
    if len(how) == 1 or isinstance(row_filter, LazyFilter):
        return how[0], None
    own = np.array([how.index(plan) for plan in plans])[np.searchsorted(different, sizes)]
    return how[0], Apart(how, own, row_filter)


def _together(
    version: Version, method: Method, n_queries: int, row_filter: Filter | LazyFilter | None, threads: int | None
) -> int | None:
    """Return how many queries to pass to the engine in one call, if that depends on the filter."""
    if isinstance(row_filter, LazyFilter):
        return min(method.queries_per_call, row_filter.queries_at_once)
    if row_filter is None or row_filter.allowed is None:
        return None
    few = row_filter.n_allowed <= few_allowed(version.n_live)  # then each call codes them once for all its queries
    return min(-(-n_queries // thread_count(threads)), MOST_CODED_FOR) if few else None


def _cut(first: int, end: int, how: How, queries_per_call: int | None) -> list[Part]:
    """Cut a range of queries into parts for one call each."""
    method, setting = how
    together = min(method.queries_per_call, max(1, MOST_CANDIDATES // max(1, setting.budget)))
    return [(part, method, setting) for part in cut(end, queries_per_call or together, first)]


def _as_floats(queries: NDArray[Any]) -> NDArray[np.float32]:
    """Convert queries to contiguous float32; numbers that are too large become infinite, which the engine refuses."""
    with np.errstate(over="ignore"):
        return np.require(_checks.numbers(queries, "queries"), np.float32, ["C", "A"])


def _named(version: Version, method: Method, k: int) -> How:
    """Return the method that the caller chose, with its setting."""
    if not isinstance(method, METHODS):
        kind = f"the class {method.__name__}" if isinstance(method, type) else f"a {type(method).__name__}"
        raise TypeError(
            f"method is {kind}, but must be tessella.Exact(), tessella.Tiles(reach) or tessella.Slots(budget)."
        )
    if isinstance(method, Tiles) and version.fitted.tiling is None:
        raise ValueError("method is Tiles, but the index has no tiles; build it with method=tessella.LearnedTiles().")
    return method, method.setting(k, version.n_live, version.n_factors)


def _entries(version: Version, queries: NDArray[np.float32], method: Method) -> Any:
    """Return the sparse map of queries; it is empty for queries that the engine will refuse."""
    fitted = version.fitted
    thresholded = isinstance(method, Slots) and method.threshold_queries
    mapper = fitted.item_mapper if thresholded else fitted.query_mapper
    with np.errstate(invalid="ignore", over="ignore"):
        sound = np.sqrt(squared_norms(queries)) <= LARGEST_NORM
    return mapper.entries(queries if sound.all() else np.where(sound[:, None], queries, np.float32(0)))


def _refuse(version: Version, given: NDArray[Any], queries: NDArray[np.float32], number: int) -> NoReturn:
    """Raise the error for a query that the engine refused."""
    if not np.isfinite(queries[number]).all():
        _checks.refuse_row(given, "queries", number)
    _checks.products_fit(queries[number : number + 1], version.longest, "queries", number)
    raise ValueError(
        f"row {number} of queries has a norm too close to the limit of float32, or was modified during the search."
    )
