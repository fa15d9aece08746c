"""Answering: the lists for those who ask, under everything they wish for."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella import _checks
from tessella.recommend.asking import Asked
from tessella.recommend.cursors import Cursor
from tessella.recommend.edition import Edition
from tessella.recommend.interests import INTERESTS, merged
from tessella.results import SearchResult
from tessella.retrieval.engine import Filter
from tessella.retrieval.plan import Method
from tessella.search.filters import Given, LazyFilter, PreparedFilter, all_allowed, all_excluded, filter_for
from tessella.search.route import LARGEST_K, search
from tessella.search.selections import selection


@dataclass(frozen=True)
class Wish:
    """What is asked for, whoever asks."""

    k: int
    exclude_seen: bool = True
    where: Any = None
    exclude: Any = None
    allow: Any = None
    cursor: Cursor | None = None
    interests: str = "best"
    method: Method | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        _checks.true_or_false(self.exclude_seen, "exclude_seen")
        _checks.one_of(self.interests, "interests", INTERESTS)

    def of_queries(self, some: slice) -> "Wish":
        """What is asked for some of those who ask, where filters were read before."""
        exclude, allow = (None if given is None else given.of_queries(some) for given in (self.exclude, self.allow))
        return replace(self, exclude=exclude, allow=allow)


def answered(edition: Edition, asked: Asked, wish: Wish) -> SearchResult:
    """The lists."""
    k = _checks.whole_number(wish.k, "k", 1, max(LARGEST_K, edition.version.n_live))
    queries = queries_of(edition, asked, wish)
    row_filter = filtered(edition, asked, wish)
    if queries.ndim == 3:
        found = _best_of(edition, queries, k, wish, row_filter)
        return _first(found) if asked.single else found
    return search(edition.version, queries[0] if asked.single else queries, k, wish.method, None, row_filter, wish.threads)


def queries_of(edition: Edition, asked: Asked, wish: Wish) -> NDArray[np.float32]:
    """The vectors to search with: one for each who asks, or several whose best score counts."""
    vectors = asked.vectors
    if vectors.ndim == 3 and (wish.interests == "sum" or vectors.shape[1] == 1):
        vectors = vectors.sum(axis=1, dtype=np.float64)
    return np.require(vectors, np.float32, ["C", "A"])


def filtered(edition: Edition, asked: Asked, wish: Wish) -> Filter | LazyFilter | None:
    """Which items may answer each of those who ask; None if all may."""
    version, n = edition.version, len(asked)
    excluded: list[Given] = []
    if wish.exclude_seen:
        seen = None if asked.rows is None else edition.known_users().seen
        if seen is not None and asked.rows is not None:
            excluded.append(seen.of_users(asked.rows, edition.seen_rows))
        excluded += asked.met
    if wish.cursor is not None:
        excluded.append(wish.cursor.excluded(texts=version.text_ids))
    if wish.exclude is not None:
        excluded.append(_read(edition, wish.exclude, "exclude", n))
    allowed: list[Given] = []
    if wish.allow is not None:
        allowed.append(_read(edition, wish.allow, "allow", n))
    if not excluded and not allowed:
        return None
    return filter_for(version, n, all_excluded(excluded, n), all_allowed(allowed))


def _read(edition: Edition, given: Any, name: str, n: int) -> Given:
    """What a caller passed as a filter."""
    return given if isinstance(given, PreparedFilter) else selection(edition.version, given, name, n)


def _best_of(
    edition: Edition, queries: NDArray[np.float32], k: int, wish: Wish, row_filter: Filter | LazyFilter | None
) -> SearchResult:
    """Lists by the best score over several vectors; a vector of zeros is none, unless there is no other."""
    found = []
    there = queries.any(axis=2)
    there[~there.any(axis=1), 0] = True
    for number in range(queries.shape[1]):
        own = np.ascontiguousarray(queries[:, number])
        each = search(edition.version, own, k, wish.method, None, row_filter, wish.threads)
        each.scores[~there[:, number]] = -np.inf
        found.append(each)
    return merged(edition.version, found, k)


def _first(found: SearchResult) -> SearchResult:
    return SearchResult(found.ids[0], found.scores[0], found.n_scored[0], found.certified[0])
