"""Filters: which items may answer which query."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from tessella import _checks
from tessella.versions.version import State

FEW_ALLOWED = 256


@dataclass(frozen=True)
class Filters:
    """Which rows may answer: `allowed` holds a bit for each row, or is None for all; excluded rows ascend by query.

    `places` are those of the allowed items, ascending, if they are so few that all of them are best scored.
    """

    allowed: NDArray[np.uint8] | None
    places: NDArray[np.int64] | None
    excluded: NDArray[np.int64]
    excluded_starts: NDArray[np.int64]

    def part(self, queries: slice) -> Self:
        """Those of some of the queries."""
        if queries.stop - queries.start == len(self.excluded_starts) - 1:
            return self
        starts = self.excluded_starts[queries.start : queries.stop + 1]
        return replace(self, excluded_starts=starts)

    def only(self, queries: NDArray[np.int64]) -> Self:
        """Those of queries picked by number."""
        pairs = zip(self.excluded_starts[queries], self.excluded_starts[queries + 1], strict=True)
        rows = [self.excluded[start:stop] for start, stop in pairs]
        starts = np.cumsum([0, *map(len, rows)])
        return replace(self, excluded=np.concatenate([*rows, self.excluded[:0]]), excluded_starts=starts)


def filters_for(state: State, n: int, exclude: Any, allow: Any) -> list[tuple[slice, Filters]]:
    """Filters of stretches of queries that share what is allowed, from what a search was given."""
    excluded, starts = _excluded_rows(state, n, exclude)
    if allow is None:
        return [(slice(0, n), Filters(None, None, excluded, starts))]
    if _checks.is_list_of_lists(allow):
        lists = _checks.id_lists(allow, "allow", n)
        return [
            (slice(query, query + 1), Filters(*_allowed(state, ids), excluded, starts[query : query + 2]))
            for query, ids in enumerate(lists)
        ]
    (ids,) = _checks.id_lists([allow], "allow", 1)
    return [(slice(0, n), Filters(*_allowed(state, ids), excluded, starts))]


def _excluded_rows(state: State, n: int, exclude: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows left out for each query, ascending, one query after another, and where each begins."""
    if exclude is None:
        return np.zeros(0, np.int64), np.zeros(n + 1, np.int64)
    if _checks.is_sparse(exclude):
        _checks.excluding_shape(exclude.shape, n, state.n_live)
        matrix = scipy.sparse.csr_array(exclude, copy=True)
        matrix.eliminate_zeros()
        matrix.sum_duplicates()  # sorts them, too
        return state.live_rows[matrix.indices], matrix.indptr.astype(np.int64)
    lists = _checks.id_lists(exclude, "exclude", n)
    for ids in lists:
        state.same_kind(ids)
    places = state.find(np.concatenate([*lists, state.no_ids()]))
    there = places >= 0
    owners = np.repeat(np.arange(n), [len(ids) for ids in lists])[there]
    rows = state.at(places[there], "rows") if len(owners) else owners
    pairs = np.unique(owners << 32 | rows)
    return pairs & 0xFFFFFFFF, np.searchsorted(pairs, np.arange(n + 1) << 32)


def _allowed(state: State, ids: NDArray[Any]) -> tuple[NDArray[np.uint8], NDArray[np.int64] | None]:
    """A bit for each row that is allowed, and the places of these rows if they are few."""
    state.same_kind(ids)
    places = state.find(ids)
    places = np.unique(places[places >= 0])
    bits = np.zeros(-(-max(state.next_row, 1) // 8) * 8, np.uint8)
    if len(places):
        bits[state.at(places, "rows")] = 1
    few = len(places) <= max(FEW_ALLOWED, state.n_live // 100)
    return np.packbits(bits, bitorder="little"), places if few else None
