"""Filters: turn what a caller excludes or allows into the rows that may answer, in the form that engines read."""

import functools
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, NoReturn, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tessella._packing import LOW_HALF
from tessella._reference import Lists
from tessella._threads import cut
from tessella.retrieval.engine import Filter
from tessella.search.selections import Selection, Union, rows_less, selection
from tessella.versions.version import Version

MOST_REPEATED = 1024  # rows excluded for all queries; up to this many are listed per query instead of using bits
ENTRIES_AT_ONCE = 2**18  # of lists that are resolved lazily
ENTRIES_TO_WARN = 2**12  # of such lists that are checked for unknown ids

_NO_ROWS = np.zeros(0, np.int64)


class LazyFilter(NamedTuple):
    """A filter whose lists are resolved for a few queries at a time, by the thread that needs them.

    It has the interface of a `Filter`, but its `starts` are only estimates of the lengths of the lists.
    """

    starts: NDArray[np.int64]  # (n_queries + 1)
    only: bool
    lists: Callable[[slice], Lists]  # returns the rows of some queries
    queries_at_once: int  # few enough for their lists to take little memory
    allowed: None = None
    n_allowed: int = 0

    def of_queries(self, queries: slice) -> Filter:
        """Return the part for a range of queries."""
        return Filter(None, 0, *self.lists(queries), self.only)

    def of_numbers(self, numbers: NDArray[np.int64]) -> Self:
        """Return the part for queries given by number, ascending."""

        def lists(queries: slice) -> Lists:
            own, rows, sizes = numbers[queries], [_NO_ROWS], [np.zeros(1, np.int64)]
            while len(own):  # resolve lists for runs of neighbouring queries that take little memory
                first = int(own[0])
                n_here = int(np.searchsorted(own, first + self.queries_at_once))
                here, own = own[:n_here], own[n_here:]
                listed, starts = self.lists(slice(first, int(here[-1]) + 1))
                rows.append(Filter(None, 0, listed, starts, self.only).of_numbers(here - first).listed)
                sizes.append(np.diff(starts)[here - first])
            return np.concatenate(rows), np.cumsum(np.concatenate(sizes))

        sizes = np.diff(self.starts)[numbers]
        return self._replace(starts=np.concatenate([[0], np.cumsum(sizes)]), lists=lists)


class PreparedFilter:
    """A filter that is resolved once and then used in any number of searches. Create one with `Index.filter`.

    Pass it to `search`, `search_all` or `explain` as ``allow``: only items that pass the filter are returned. A filter
    that only excludes may also be passed as ``exclude``. It stays up to date: after the index has changed, the first
    search that uses the filter looks the ids up again. Any number of threads may use it at once.

    Examples
    --------
    >>> import numpy as np
    >>> import tessella as ts
    >>> index = ts.Index.build(np.eye(3), ids=["a", "b", "c"])
    >>> in_stock = index.filter(allow=["b", "c"])
    >>> in_stock
    PreparedFilter(allow=one list of 2)
    >>> index.search([3.0, 2.0, 1.0], k=2, allow=in_stock, exclude=["c"]).ids
    array(['b', None], dtype=object)
    """

    __slots__ = ("_lineage", "_part", "_resolved", "_selections")

    def __init__(self, version: Version, exclude: Any, allow: Any) -> None:
        given = {"exclude": exclude, "allow": allow}
        self._lineage = version.lineage
        self._part: slice | None = None
        self._selections: dict[str, Selection] = {}
        n_queries = None
        for name, value in given.items():
            if isinstance(value, PreparedFilter):
                raise TypeError(f"{name} is already a prepared filter; pass both filters to search instead.")
            if value is not None:
                read = selection(version, value, name, n_queries)
                n_queries = n_queries if read.n_queries is None else read.n_queries
                read.check(version)
                self._selections[name] = read.kept(version)
        self._resolved = _Resolved()
        self.parts(version)  # warns of unknown ids
        for name, read in self._selections.items():
            self._selections[name] = replace(read, quiet=True)

    @property
    def n_queries(self) -> int | None:
        """The number of queries it has lists for; None if it applies to all queries."""
        counts = [read.n_queries for read in self._selections.values() if read.n_queries is not None]
        if not counts:
            return None
        return counts[0] if self._part is None else self._part.stop - self._part.start

    @property
    def allows(self) -> bool:
        """Whether it has a list of allowed items."""
        return "allow" in self._selections

    def __reduce__(self) -> NoReturn:
        raise TypeError("a prepared filter cannot be pickled without its index; pickle the ids it was made from.")

    def __repr__(self) -> str:
        sizes = []
        for name, read in self._selections.items():
            lists = "one list" if read.n_queries is None else f"{read.n_queries:,} lists"
            sizes.append(f"{name}={lists} of {read.n_entries:,}")
        return f"PreparedFilter({', '.join(sizes)})"

    @property
    def n_entries(self) -> int:
        """The number of ids in all lists."""
        return sum(read.n_entries for read in self._selections.values())

    def check(self, version: Version) -> None:
        """Refuse any index but the one that created the filter."""
        if version.lineage is not self._lineage:
            raise ValueError("the filter was created by another index; create it with this index's filter().")

    def of_queries(self, queries: slice) -> Self:
        """Return the part for a range of queries."""
        if self.n_queries is None:
            return self
        first = 0 if self._part is None else self._part.start
        part = type(self).__new__(type(self))
        part._lineage, part._selections, part._resolved = self._lineage, self._selections, self._resolved
        part._part = slice(first + queries.start, first + queries.stop)
        return part

    def parts(self, version: Version) -> "list[_Part]":
        """Return the filter's rows in a version."""
        parts, _ = self._rows_in(version)
        return parts if self._part is None else [part.of_queries(self._part) for part in parts]

    def shared(self, version: Version) -> Filter | None:
        """Return the filter for a version, if it applies to all queries and needs no lists; otherwise None."""
        return self._rows_in(version)[1]

    def _rows_in(self, version: Version) -> "tuple[list[_Part], Filter | None]":
        """Resolve the filter for a version; the result for the last version is kept."""
        self.check(version)
        made_for, rows = self._resolved.last
        if made_for() is not version:
            parts = [_Part.of(version, name, read) for name, read in self._selections.items()]
            made = _combined(version, 1, parts, None) if self.n_queries is None else None
            rows = parts, made if isinstance(made, Filter) else None
            self._resolved.last = weakref.ref(version), rows  # one assignment: another thread sees both or neither
        return rows


class _Resolved:
    """The last result of resolving a filter, and for which version; shared by the filter's parts."""

    def __init__(self) -> None:
        self.last: tuple[Callable[[], Version | None], tuple[list[_Part], Filter | None]] = (lambda: None, ([], None))


class _Part(NamedTuple):
    """The rows of one selection."""

    name: str  # exclude or allow
    listed: NDArray[np.int64]
    starts: NDArray[np.int64] | None  # where each query's rows begin; None if all queries share them

    @classmethod
    def of(cls, version: Version, name: str, read: Selection) -> Self:
        listed, starts = read.rows(version)
        return cls(name, listed, None if read.n_queries is None else starts)

    def of_queries(self, queries: slice) -> Self:
        return self if self.starts is None else self._replace(starts=self.starts[queries.start : queries.stop + 1])


class Several(NamedTuple):
    """Several selections and prepared filters in one: what any of them excludes, or what all of them allow."""

    values: "tuple[Given, ...]"


Given: TypeAlias = Selection | PreparedFilter


def all_allowed(values: "list[Given]") -> "Given | Several | None":
    """Combine several values into one `allow` that needs all of them to allow an item; None for an empty list."""
    return None if not values else values[0] if len(values) == 1 else Several(tuple(values))


def all_excluded(values: "list[Given]", n_queries: int) -> "Given | Several | None":
    """Combine several values into one `exclude`, merging those that have a list per query; None for an empty list."""
    lists: list[Selection] = []
    others: list[Given] = []
    for value in values:
        if isinstance(value, PreparedFilter) or not (n_queries == 1 or value.n_queries is not None):
            others.append(value)
        else:
            lists.append(value)
    if lists:
        others.append(lists[0] if len(lists) == 1 else Union(tuple(lists), n_queries))
    return None if not others else others[0] if len(others) == 1 else Several(tuple(others))


def filter_for(version: Version, n_queries: int, exclude: Any, allow: Any) -> Filter | LazyFilter:
    """Return the rows that may answer each query. A resolved filter is passed as `allow`, without `exclude`."""
    if isinstance(allow, Filter | LazyFilter):
        return allow
    alone = allow if exclude is None else exclude if allow is None else None
    shared: Filter | None = None  # a prepared filter that is already resolved
    if isinstance(alone, PreparedFilter):
        _check_use(alone, "allow" if exclude is None else "exclude", n_queries)
        shared = alone.shared(version)
        if shared is not None:
            return shared
    elif isinstance(allow, PreparedFilter):
        shared = allow.shared(version)
    if not (exclude is None or isinstance(exclude, PreparedFilter | Several)) and (allow is None or shared is not None):
        listed = _listed(version, n_queries, exclude)
        if listed is not None:
            return listed if shared is None else listed._replace(allowed=shared.allowed, n_allowed=shared.n_allowed)
    parts: list[_Part] = []
    own: Selection | None = None  # a list per query may be long, so it is not resolved for all queries at once
    for name, value in [*_each("exclude", exclude), *_each("allow", allow)]:
        if isinstance(value, PreparedFilter):
            _check_use(value, name, n_queries)
            parts += value.parts(version)
        else:
            read = selection(version, value, name, n_queries)
            if name == "allow" and read.n_queries is not None:
                own = _warned(version, read) if n_queries > 1 else read
            else:
                parts.append(_Part.of(version, name, read))
    return _combined(version, n_queries, parts, own)


def _each(name: str, value: Any) -> list[tuple[str, Any]]:
    """Return the parts of one argument."""
    values = () if value is None else value.values if isinstance(value, Several) else (value,)
    return [(name, part) for part in values]


def _listed(version: Version, n_queries: int, exclude: Any) -> Filter | None:
    """Return the filter that excludes a list per query, or a short list for a single query; None in other cases."""
    if n_queries == 1:
        one = _listed_for_one(version, exclude)
        if one is not None:
            return one
    read = selection(version, exclude, "exclude", n_queries)
    return None if read.n_queries is None else Filter(None, 0, *read.rows(version), only=False)


def _listed_for_one(version: Version, exclude: Any) -> Filter | None:
    """Return the filter of one query that excludes a list of integers, on a fast path; None in other cases."""
    kind, engine = type(exclude), version.engine
    if version.text_ids:
        return None
    if kind is list:
        ids = np.empty(len(exclude), np.int64)
        if not engine.read_ids([exclude], ids):
            return None
    elif kind is np.ndarray and exclude.dtype == np.int64 and exclude.ndim == 1 and exclude.flags.c_contiguous:
        ids = exclude
    else:
        return None
    if len(ids) > MOST_REPEATED:
        return None
    rows, starts = np.empty(len(ids), np.int64), np.empty(2, np.int64)
    unknown = engine.list_ids(ids, None, None, rows, starts)
    return None if 2 * unknown > len(ids) else Filter(None, 0, rows, starts, only=False)


def given(version: Version, value: Any, name: str, n_queries: int) -> Any:
    """Read `exclude` or `allow` so that it can be cut into parts; warn of unknown ids once for all parts."""
    if isinstance(value, PreparedFilter):
        _check_use(value, name, n_queries)
    if value is None or isinstance(value, PreparedFilter | Filter | LazyFilter):
        return value
    return _warned(version, selection(version, value, name, n_queries))


def same_filter(version: Version, n_queries: int, exclude: Any, allow: Any) -> list[NDArray[Any]]:
    """Return arrays that are equal for any two filters with the same effect: the columns, one list per query."""
    if exclude is None and allow is None:
        return []
    made = filter_for(version, n_queries, exclude, allow)
    arrays: list[NDArray[Any]] = [np.array(made.only)]
    if made.allowed is not None:
        rows = np.flatnonzero(np.unpackbits(made.allowed, bitorder="little"))
        arrays.append(np.searchsorted(version.live_rows, rows))
    for queries in cut(n_queries, made.queries_at_once if isinstance(made, LazyFilter) else n_queries):
        _, _, rows, starts, _ = made.of_queries(queries)
        if starts is not None:
            columns = np.searchsorted(version.live_rows, rows[starts[0] : starts[-1]])
            arrays += [np.diff(starts), columns]
    return arrays


def _warned(version: Version, read: Selection) -> Selection:
    """Warn if the first lists hold mostly unknown ids, then return a selection that does not warn again."""
    if not read.quiet:
        n = read.n_queries or 0
        read.of_queries(slice(0, min(n, ENTRIES_TO_WARN * n // max(1, read.n_entries) + 1))).rows(version)
    return replace(read, quiet=True)


def _check_use(prepared: PreparedFilter, name: str, n_queries: int) -> None:
    if name == "exclude" and prepared.allows:
        raise ValueError("exclude is a filter with allowed items; pass it as allow.")
    if prepared.n_queries not in (None, n_queries):
        raise ValueError(f"{name} is a filter for {prepared.n_queries} queries, but there are {n_queries}.")


def _combined(version: Version, n: int, parts: list[_Part], own: Selection | None) -> Filter | LazyFilter:
    """Combine all parts and, if given, a list of allowed items per query into one filter."""
    shared: dict[str, NDArray[np.int64] | None] = {"exclude": None, "allow": None}
    lists: dict[str, Lists | None] = {"exclude": None, "allow": None}
    for name, named, starts in parts:
        join = np.intersect1d if name == "allow" else np.union1d
        if starts is None:
            rows = shared[name]
            shared[name] = named if rows is None else join(rows, named)
        else:
            others = lists[name]
            lists[name] = (named, starts) if others is None else _joined(join, others, (named, starts))
    excluded, only = lists["exclude"], lists["allow"]
    few = shared["exclude"]
    bits, n_allowed = None, 0
    listed = excluded is not None or only is not None or own is not None
    if shared["allow"] is not None or (few is not None and (listed or len(few) > MOST_REPEATED)):
        bits, n_allowed = _bits(version, shared["allow"], few)
        few = None
    if own is not None or only is not None:
        lists_of = functools.partial(_only, version, own, only, excluded, bits)
        starts = _most(own, n) if only is None else only[1]
        return _lazy(starts, lists_of, only=True)
    if few is not None:
        return _lazy(np.arange(n + 1) * len(few), functools.partial(_repeated, few), only=False)
    rows, own_starts = (_NO_ROWS, None) if excluded is None else excluded
    return Filter(bits, n_allowed, rows, own_starts, only=False)


def _lazy(starts: NDArray[np.int64], lists: Callable[[slice], Lists], *, only: bool) -> LazyFilter:
    a_query = int(starts[-1] - starts[0]) // max(1, len(starts) - 1)
    return LazyFilter(starts, only, lists, max(1, ENTRIES_AT_ONCE // max(1, a_query)))


def _only(
    version: Version,
    own: Selection | None,
    only: Lists | None,
    excluded: Lists | None,
    bits: NDArray[np.uint8] | None,
    queries: slice,
) -> Lists:
    """Return the only rows that may answer some queries: on every list of allowed rows, and not excluded."""
    without = None if excluded is None else _of_queries(excluded, queries)
    found = [] if only is None else [rows_less(*_of_queries(only, queries), without)]
    if own is not None:
        found.append(own.of_queries(queries).rows(version, without))
    rows, starts = functools.reduce(functools.partial(_joined, np.intersect1d), found)
    if bits is None:
        return rows, starts
    kept = np.unpackbits(bits, bitorder="little")[rows].astype(np.bool_)
    return rows[kept], np.concatenate([[0], np.cumsum(kept)])[starts]


def _repeated(rows: NDArray[np.int64], queries: slice) -> Lists:
    """Repeat the rows for each query."""
    n = queries.stop - queries.start
    return np.tile(rows, n), np.arange(n + 1) * len(rows)


def _of_queries(lists: Lists, queries: slice) -> Lists:
    rows, starts = lists
    return rows, starts[queries.start : queries.stop + 1]


def _joined(join: Callable[..., NDArray[np.int64]], lists: Lists, others: Lists) -> Lists:
    """Join two lists per query, by union or intersection."""
    n = len(lists[1]) - 1
    pairs = join(*(_pairs(rows, starts) for rows, starts in (lists, others)))
    return pairs & LOW_HALF, np.searchsorted(pairs, np.arange(n + 1) << 32)


def _pairs(rows: NDArray[np.int64], starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return pairs of query and row as integers that sort by query, then by row."""
    owners = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    pairs: NDArray[np.int64] = owners << 32 | rows[starts[0] : starts[-1]]
    return pairs


def _most(own: Selection | None, n: int) -> NDArray[np.int64]:
    """Return starts as if all lists had the average length, rounded up."""
    entries = 0 if own is None else own.n_entries
    return np.arange(n + 1) * -(-entries // max(1, n))


def _bits(
    version: Version, allowed: NDArray[np.int64] | None, excluded: NDArray[np.int64] | None
) -> tuple[NDArray[np.uint8], int]:
    """Set a bit for each row that is allowed (or live, without `allowed`) and not excluded; also return how many."""
    marks = np.zeros(-(-max(version.next_row, 1) // 8) * 8, np.bool_)
    marks[version.live_rows if allowed is None else allowed] = True
    if excluded is not None:
        marks[excluded] = False
    return np.packbits(marks, bitorder="little"), int(np.count_nonzero(marks))
