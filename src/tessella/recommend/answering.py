"""Answering: the recommended lists for a request, under all its filters, boosts and rules."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella import _checks
from tessella.recommend.asking import Asked
from tessella.recommend.attributes import Attributes
from tessella.recommend.cursors import Cursor
from tessella.recommend.edition import Edition
from tessella.recommend.interests import INTERESTS, merged
from tessella.recommend.signals import Signals
from tessella.recommend.variety import AtMost, Diversify
from tessella.results import SearchResult
from tessella.retrieval.engine import Filter
from tessella.retrieval.plan import Method
from tessella.search.filters import Given, LazyFilter, PreparedFilter, all_allowed, all_excluded, filter_for
from tessella.search.route import LARGEST_K, search
from tessella.search.selections import selection

DEEPER = 4  # how many times as many items to search when a rule leaves too few

Variety = AtMost | Diversify
RowFilter = Filter | LazyFilter | None


@dataclass(frozen=True)
class Wish:
    """The options of a request: all of it except who asks."""

    k: int
    exclude_seen: bool = True
    where: Any = None
    boosts: Any = None
    now: Any = None
    exclude: Any = None
    allow: Any = None
    cursor: Cursor | None = None
    interests: str = "best"
    variety: Variety | None = None
    method: Method | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        _checks.true_or_false(self.exclude_seen, "exclude_seen")
        _checks.one_of(self.interests, "interests", INTERESTS)
        if self.variety is not None and not isinstance(self.variety, AtMost | Diversify):
            kind = type(self.variety).__name__
            raise TypeError(f"variety must be tessella.at_most(...) or tessella.diversify(...), not {kind}.")

    def of_queries(self, some: slice, n: int) -> "Wish":
        """Return the options for some of n queries; filters must have been read already."""
        exclude, allow = (None if given is None else given.of_queries(some) for given in (self.exclude, self.allow))
        boosts = self.boosts
        if boosts is not None:
            boosts = {name: weights[some] if np.shape(weights) == (n,) else weights for name, weights in boosts.items()}
        return replace(self, exclude=exclude, allow=allow, boosts=boosts)


def answered(edition: Edition, asked: Asked, wish: Wish) -> SearchResult:
    """Return the recommended lists for a request."""
    version = edition.version
    k = _checks.whole_number(wish.k, "k", 1, max(LARGEST_K, version.n_live))
    queries = queries_of(edition, asked, wish)
    row_filter = filtered(edition, asked, wish, shown=isinstance(wish.variety, Diversify))
    if isinstance(wish.variety, AtMost):
        found = _at_most(edition, queries, k, wish.variety, wish, row_filter)
    elif isinstance(wish.variety, Diversify):
        found = _diversified(edition, queries, k, wish.variety, wish, row_filter)
    else:
        found = searched(edition, queries, k, wish, row_filter, single=asked.single)
    if asked.single and found.ids.ndim == 2:
        found = SearchResult(found.ids[0], found.scores[0], found.n_scored[0], found.certified[0])
    if wish.boosts:
        offset = signals_of(edition).offset(wish.boosts, len(asked), wish.now)
        found.scores = (found.scores + (offset[0] if asked.single else offset[:, None])).astype(np.float32)
    return found


def signals_of(edition: Edition) -> Signals:
    """Return the signals, which boosts need."""
    if edition.signals is None:
        raise ValueError("boosts needs item signals, but the recommender has none; build it with signals.")
    return edition.signals


def queries_of(edition: Edition, asked: Asked, wish: Wish) -> NDArray[np.float32]:
    """Return the vectors to search with: one per query, or several of which the best score counts."""
    vectors = asked.vectors
    if vectors.ndim == 3 and (wish.interests == "sum" or vectors.shape[1] == 1):
        vectors = vectors.sum(axis=1, dtype=np.float64)
    if edition.signals is None:
        if wish.boosts is not None:
            signals_of(edition)
        flags = vectors.flags
        ready = vectors.dtype == np.float32 and flags.c_contiguous and flags.aligned
        return vectors if ready else np.require(vectors, np.float32, ["C", "A"])
    queries = np.empty((*vectors.shape[:-1], edition.version.n_factors), np.float32)
    queries[..., : edition.n_factors] = vectors
    if wish.boosts is None:
        queries[..., edition.n_factors :] = 0
    else:
        part = edition.signals.query_part(wish.boosts, len(asked), wish.now)
        queries[..., edition.n_factors :] = part if queries.ndim == 2 else part[:, None]
    return queries


def filtered(edition: Edition, asked: Asked, wish: Wish, *, shown: bool = False) -> RowFilter:
    """Return the filter of each query, or None if every item may answer; `shown` keeps items of previous pages."""
    version, n = edition.version, len(asked)
    excluded: list[Given] = []
    if wish.exclude_seen:
        seen = None if asked.rows is None else edition.known_users().seen
        if seen is not None and asked.rows is not None:
            excluded.append(seen.of_users(asked.rows, edition.seen_rows))
        excluded += asked.met
    if wish.cursor is not None and not shown:
        excluded.append(wish.cursor.excluded())
    if wish.exclude is not None:
        excluded.append(_read(edition, wish.exclude, "exclude", n))
    allowed: list[Given] = []
    if wish.where is not None:
        allowed.append(edition.filter_of(wish.where))
    if wish.allow is not None:
        allowed.append(_read(edition, wish.allow, "allow", n))
    if not excluded and not allowed:
        return None
    return filter_for(version, n, all_excluded(excluded, n), all_allowed(allowed))


def _read(edition: Edition, given: Any, name: str, n: int) -> Given:
    """Read a filter that the caller passed."""
    return given if isinstance(given, PreparedFilter) else selection(edition.version, given, name, n)


def searched(
    edition: Edition,
    queries: NDArray[np.float32],
    k: int,
    wish: Wish,
    row_filter: RowFilter,
    *,
    single: bool = False,
) -> SearchResult:
    """Return the top k of the items that pass the filter; with several vectors per query, by the best score."""
    version = edition.version
    if queries.ndim == 2:
        return _search(edition, queries[0] if single else queries, k, wish, row_filter)
    # A vector of zeros is ignored, unless there is no other.
    there: NDArray[np.bool_] = np.asarray(queries[..., : edition.n_factors].any(axis=2))
    there[~there.any(axis=1), 0] = True
    found = []
    for number in range(queries.shape[1]):
        own = np.ascontiguousarray(queries[:, number])
        each = _search(edition, own, k, wish, row_filter)
        each.scores[~there[:, number]] = -np.inf
        found.append(each)
    return merged(version, found, k)


def _search(edition: Edition, queries: NDArray[np.float32], k: int, wish: Wish, row_filter: RowFilter) -> SearchResult:
    """Return the top k for one vector or many; boosted queries have plans of their own."""
    if wish.boosts and edition.boosting is not None:
        return edition.boosting.search(edition.version, queries, k, wish.method, row_filter, wish.threads)
    return search(edition.version, queries, k, wish.method, None, row_filter, wish.threads)


def _at_most(
    edition: Edition, queries: NDArray[np.float32], k: int, rule: AtMost, wish: Wish, row_filter: RowFilter
) -> SearchResult:
    """Return the top k under a rule: search longer and longer lists until the rule keeps k items or none are left."""
    attributes = attributes_for(edition, rule)
    n, most = len(queries), max(1, edition.version.n_live)
    result = _empty(edition, n, k)
    left, depth = np.arange(n), min(k, most)
    before = shown_entries(edition, wish.cursor, n)
    while len(left):
        own_filter = None if row_filter is None else row_filter.of_numbers(left)
        found = searched(edition, queries[left], depth, wish, own_filter)
        entries = edition.entries_at(found.ids)
        own = before[left]
        kept = rule.kept(attributes, np.concatenate([own, entries], axis=1))[:, own.shape[1] :]
        kept &= np.cumsum(kept, axis=1) <= k
        full = kept.sum(axis=1) == k
        done = full | (found.scores[:, -1] == -np.inf) | (depth == most)
        _put(result, left[done], found, kept, done)
        result.n_scored[left] = found.n_scored
        left, depth = left[~done], min(DEEPER * depth, most)
    return result


def attributes_for(edition: Edition, rule: AtMost) -> Attributes:
    """Return the item attributes, which must include the column of the rule."""
    attributes = edition.known_attributes("at_most")
    attributes.column(rule.per, "at_most")
    return attributes


def _diversified(
    edition: Edition, queries: NDArray[np.float32], k: int, rule: Diversify, wish: Wish, row_filter: RowFilter
) -> SearchResult:
    """Return the items that a rule selects from the best candidates; pages are parts of one such list."""
    found = searched(edition, queries, max(rule.candidates, k), wish, row_filter)
    result = _empty(edition, len(queries), k)
    shown = [None] * len(queries) if wish.cursor is None else wish.cursor.lists()
    for number, before in enumerate(shown):
        ids, scores = found.ids[number], found.scores[number]
        there = scores > -np.inf
        named = ids[there].astype(np.str_) if ids.dtype == object else ids[there]
        chosen = rule.order(scores[there], edition.item_vectors(named), k if before is None else len(before) + k)
        chosen = chosen[:k] if before is None else chosen[~np.isin(named[chosen], before)][:k]
        result.ids[number, : len(chosen)] = ids[there][chosen]
        result.scores[number, : len(chosen)] = scores[there][chosen]
    result.n_scored[:], result.certified[:] = found.n_scored, found.certified
    return result


def _empty(edition: Edition, n: int, k: int) -> SearchResult:
    """Return n empty lists of length k."""
    ids = np.full((n, k), None, object) if edition.version.text_ids else np.full((n, k), -1)
    return SearchResult(ids, np.full((n, k), -np.inf, np.float32), np.zeros(n, np.int64), np.ones(n, np.bool_))


def _put(
    result: SearchResult,
    queries: NDArray[np.int64],
    found: SearchResult,
    kept: NDArray[np.bool_],
    done: NDArray[np.bool_],
) -> None:
    """Copy the kept items of finished lists into the result."""
    row, at = np.nonzero(kept & done[:, None] & (found.scores > -np.inf))
    number = np.cumsum(done) - 1  # the number of each list among the finished ones
    starts = np.searchsorted(row, np.arange(len(done)))
    place = np.arange(len(row)) - starts[row]
    result.ids[queries[number[row]], place] = found.ids[row, at]
    result.scores[queries[number[row]], place] = found.scores[row, at]
    result.certified[queries] = found.certified[done]


def shown_entries(edition: Edition, cursor: Cursor | None, n: int) -> NDArray[np.int64]:
    """Return the entries already shown to each query, in order, padded with -1."""
    if cursor is None:
        return np.zeros((n, 0), np.int64)
    lengths = np.diff(cursor.starts)
    width = int(lengths.max(initial=0))
    entries = np.full((n, width), -1)
    entries[np.arange(width) < lengths[:, None]] = edition.entries_of(cursor.shown)
    return entries
