"""Filters: from what a caller excludes or allows to rows that may answer, in the one form that engines read."""

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

MOST_REPEATED = 1024  # rows excluded for all queries that are listed for each, rather than left without a bit
ENTRIES_AT_ONCE = 2**18  # of lists that are resolved where they are needed
ENTRIES_TO_WARN = 2**12  # of such lists, which are looked at for unknown ids

_NO_ROWS = np.zeros(0, np.int64)


class LazyFilter(NamedTuple):
    """A filter whose lists are made for some queries at a time, by the thread that needs them.

    It has the face of a `Filter`. Its `starts` only say about how many rows the lists have.
    """

    starts: NDArray[np.int64]  # (n_queries + 1)
    only: bool
    lists: Callable[[slice], Lists]  # the rows of some queries
    queries_at_once: int  # so that their lists take little memory
    allowed: None = None
    n_allowed: int = 0

    def of_queries(self, queries: slice) -> Filter:
        """The part for some of the queries."""
        return Filter(None, 0, *self.lists(queries), self.only)

    def of_numbers(self, numbers: NDArray[np.int64]) -> Self:
        """The part for the queries of some numbers, ascending."""

        def lists(queries: slice) -> Lists:
            own, rows, sizes = numbers[queries], [_NO_ROWS], [np.zeros(1, np.int64)]
            while len(own):  # lists are made for neighbours, as many as take little memory
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
    """A filter that is resolved once and then used in any number of searches. Make one with `Index.filter`.

    Pass it to `search`, `search_all` or `explain` as ``allow``: the items that pass the filter may answer. One that
    only excludes can also be passed as ``exclude``. It follows its index: after a change, the next search that uses it
    looks the ids up again. Any number of threads may use it.

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
                raise TypeError(f"{name} is a prepared filter already; pass both to search.")
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
        """For how many queries it has lists; None if it is the same for all."""
        counts = [read.n_queries for read in self._selections.values() if read.n_queries is not None]
        if not counts:
            return None
        return counts[0] if self._part is None else self._part.stop - self._part.start

    @property
    def allows(self) -> bool:
        """Whether it has items that alone may answer."""
        return "allow" in self._selections

    def __reduce__(self) -> NoReturn:
        raise TypeError("a prepared filter belongs to its index and cannot be pickled; pickle what it was made of.")

    def __repr__(self) -> str:
        sizes = []
        for name, read in self._selections.items():
            lists = "one list" if read.n_queries is None else f"{read.n_queries:,} lists"
            sizes.append(f"{name}={lists} of {read.n_entries:,}")
        return f"PreparedFilter({', '.join(sizes)})"

    @property
    def n_entries(self) -> int:
        """How many ids were given, in all lists."""
        return sum(read.n_entries for read in self._selections.values())

    def check(self, version: Version) -> None:
        """Refuse another index than the one it was made by."""
        if version.lineage is not self._lineage:
            raise ValueError("the filter was made by another index; make it with the filter() of this one.")

    def of_queries(self, queries: slice) -> Self:
        """The part for some of the queries."""
        if self.n_queries is None:
            return self
        first = 0 if self._part is None else self._part.start
        part = type(self).__new__(type(self))
        part._lineage, part._selections, part._resolved = self._lineage, self._selections, self._resolved
        part._part = slice(first + queries.start, first + queries.stop)
        return part

    def parts(self, version: Version) -> "list[_Part]":
        """Its rows in a version."""
        parts, _ = self._rows_in(version)
        return parts if self._part is None else [part.of_queries(self._part) for part in parts]

    def shared(self, version: Version) -> Filter | None:
        """The whole of it, if it is a bit for each row of a version; None if there are lists."""
        return self._rows_in(version)[1]

    def _rows_in(self, version: Version) -> "tuple[list[_Part], Filter | None]":
        """What it comes to in a version, looked up if that is another than the last time."""
        self.check(version)
        made_for, rows = self._resolved.last
        if made_for() is not version:
            parts = [_Part.of(version, name, read) for name, read in self._selections.items()]
            made = _combined(version, 1, parts, None) if self.n_queries is None else None
            rows = parts, made if isinstance(made, Filter) else None
            self._resolved.last = weakref.ref(version), rows  # in one step: another thread sees both or neither
        return rows


class _Resolved:
    """What a filter was last resolved to, and for which version: shared by its parts."""

    def __init__(self) -> None:
        self.last: tuple[Callable[[], Version | None], tuple[list[_Part], Filter | None]] = (lambda: None, ([], None))


class _Part(NamedTuple):
    """The rows of one selection."""

    name: str  # exclude or allow
    listed: NDArray[np.int64]
    starts: NDArray[np.int64] | None  # where each query's begin; None if all share them

    @classmethod
    def of(cls, version: Version, name: str, read: Selection) -> Self:
        listed, starts = read.rows(version)
        return cls(name, listed, None if read.n_queries is None else starts)

    def of_queries(self, queries: slice) -> Self:
        return self if self.starts is None else self._replace(starts=self.starts[queries.start : queries.stop + 1])


class Several(NamedTuple):
    """Selections and prepared filters that hold at once: all that is excluded, or what all of them allow."""

    values: "tuple[Given, ...]"


Given: TypeAlias = Selection | PreparedFilter


def all_allowed(values: "list[Given]") -> "Given | Several | None":
    """One value to pass as `allow` for several, all of which must allow an item; None for none."""
    return None if not values else values[0] if len(values) == 1 else Several(tuple(values))


def all_excluded(values: "list[Given]", n_queries: int) -> "Given | Several | None":
    """One value to pass as `exclude` for several, of which lists for each query become one; None for none."""
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
    """The rows that may answer each of some queries; a filter that was made before is passed as `allow` alone."""
    if isinstance(allow, Filter | LazyFilter):
        return allow
    alone = allow if exclude is None else exclude if allow is None else None
    shared: Filter | None = None  # looked up before
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
    own: Selection | None = None  # a long list for each query is best not resolved for all of them at once
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
    """The parts of what was passed by one name."""
    values = () if value is None else value.values if isinstance(value, Several) else (value,)
    return [(name, part) for part in values]


def _listed(version: Version, n_queries: int, exclude: Any) -> Filter | None:
    """The filter that excludes a list for each query, or a short one for the only query; None for all others."""
    if n_queries == 1:
        one = _listed_for_one(version, exclude)
        if one is not None:
            return one
    read = selection(version, exclude, "exclude", n_queries)
    return None if read.n_queries is None else Filter(None, 0, *read.rows(version), only=False)


def _listed_for_one(version: Version, exclude: Any) -> Filter | None:
    """The filter of one query that excludes a list of whole numbers, by the shortest way; None for all others."""
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
    """What a caller passed as `exclude` or `allow`, to be cut into parts; warns of unknown ids, once for all parts."""
    if isinstance(value, PreparedFilter):
        _check_use(value, name, n_queries)
    if value is None or isinstance(value, PreparedFilter | Filter | LazyFilter):
        return value
    return _warned(version, selection(version, value, name, n_queries))


def same_filter(version: Version, n_queries: int, exclude: Any, allow: Any) -> list[NDArray[Any]]:
    """Arrays that are equal for two filters, in any form, that let the same items answer: columns, a list a query."""
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
    """A selection that passes over unknown ids without a word, after one if its first lists deserve it."""
    if not read.quiet:
        n = read.n_queries or 0
        read.of_queries(slice(0, min(n, ENTRIES_TO_WARN * n // max(1, read.n_entries) + 1))).rows(version)
    return replace(read, quiet=True)


def _check_use(prepared: PreparedFilter, name: str, n_queries: int) -> None:
    if name == "exclude" and prepared.allows:
        raise ValueError("exclude is a filter that has items to allow; pass it as allow.")
    if prepared.n_queries not in (None, n_queries):
        raise ValueError(f"{name} is a filter for {prepared.n_queries} queries, but there are {n_queries}.")


def _combined(version: Version, n: int, parts: list[_Part], own: Selection | None) -> Filter | LazyFilter:
    """What all parts, and an own list for each query, let through."""
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
    """The only rows that may answer some queries: an own list of each, of what else is allowed and not excluded."""
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
    """The same rows for each query."""
    n = queries.stop - queries.start
    return np.tile(rows, n), np.arange(n + 1) * len(rows)


def _of_queries(lists: Lists, queries: slice) -> Lists:
    rows, starts = lists
    return rows, starts[queries.start : queries.stop + 1]


def _joined(join: Callable[..., NDArray[np.int64]], lists: Lists, others: Lists) -> Lists:
    """The union of two lists for each query, or what is in both."""
    n = len(lists[1]) - 1
    pairs = join(*(_pairs(rows, starts) for rows, starts in (lists, others)))
    return pairs & LOW_HALF, np.searchsorted(pairs, np.arange(n + 1) << 32)


def _pairs(rows: NDArray[np.int64], starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Pairs of a query and a row as numbers that sort by query, then by row."""
    owners = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    pairs: NDArray[np.int64] = owners << 32 | rows[starts[0] : starts[-1]]
    return pairs


def _most(own: Selection | None, n: int) -> NDArray[np.int64]:
    """Starts as if every query had as many rows as one has on average, and a little more."""
    entries = 0 if own is None else own.n_entries
    return np.arange(n + 1) * -(-entries // max(1, n))


def _bits(
    version: Version, allowed: NDArray[np.int64] | None, excluded: NDArray[np.int64] | None
) -> tuple[NDArray[np.uint8], int]:
    """A bit for each row that is allowed, or there, and not excluded; and how many there are."""
    marks = np.zeros(-(-max(version.next_row, 1) // 8) * 8, np.bool_)
    marks[version.live_rows if allowed is None else allowed] = True
    if excluded is not None:
        marks[excluded] = False
    return np.packbits(marks, bitorder="little"), int(np.count_nonzero(marks))
