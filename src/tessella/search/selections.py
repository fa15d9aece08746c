"""Selections: the items that a caller excludes or allows, in any form, for all queries or per query; and their rows."""

import itertools
from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tessella import _checks
from tessella._kernels import core
from tessella._reference import Lists
from tessella.versions.version import Version


@dataclass(frozen=True)
class Ids:
    """Ids of items, one list after another."""

    values: NDArray[Any]
    starts: NDArray[np.int64] | None  # (n_queries + 1) where each begins; None if all queries share one
    name: str
    quiet: bool = False  # whether to ignore unknown ids without a warning

    @property
    def n_queries(self) -> int | None:
        """The number of lists, one per query; None if all queries share one."""
        return None if self.starts is None else len(self.starts) - 1

    @property
    def n_entries(self) -> int:
        """The number of ids in all lists."""
        return len(self.values) if self.starts is None else int(self.starts[-1] - self.starts[0])

    def of_queries(self, queries: slice) -> Self:
        """Return the part for a range of queries."""
        return self if self.starts is None else replace(self, starts=self.starts[queries.start : queries.stop + 1])

    def check(self, version: Version) -> None:
        """Refuse ids that cannot be in the index."""
        version.same_kind(self.values)

    def kept(self, version: Version) -> Self:  # noqa: ARG002
        """Return a copy that the caller cannot modify and that stays valid for later versions."""
        return replace(self, values=self.values.copy(), starts=None if self.starts is None else self.starts.copy())

    def rows(self, version: Version, without: Lists | None = None) -> Lists:
        """Return the rows of each list, ascending and unique, without those in the same list of `without`."""
        values = self.values
        starts = np.array((0, len(values))) if self.starts is None else self.starts
        rows, row_starts = np.empty(self.n_entries, np.int64), np.empty(len(starts), np.int64)
        if (values.dtype.kind == "U") != version.text_ids:
            version.same_kind(values)
            values = version.no_ids()
        if not version.text_ids:
            unknown = version.engine.list_ids(values, starts, without, rows, row_starts)
        else:
            found = _rows_of_texts(version, values[starts[0] : starts[-1]])
            unknown = int(np.count_nonzero(found < 0))
            rows, row_starts = rows_less(found, starts - starts[0], without)
        if 2 * unknown > len(rows) and not self.quiet:
            self._warn(version, values[starts[0] : starts[-1]])
        return rows[: row_starts[-1]], row_starts

    def _warn(self, version: Version, values: NDArray[Any]) -> None:
        distinct = np.unique(values)
        if not version.text_ids:
            distinct = distinct[distinct != -1]
        _checks.warn_of_unknown_ids(distinct, version.find(distinct) < 0, self.name)


@dataclass(frozen=True)
class Sequences:
    """A sequence of ids for each query, as the caller passed them; read when needed."""

    parts: list[Any]
    name: str
    quiet: bool = False

    @property
    def n_queries(self) -> int:
        """The number of lists, one per query."""
        return len(self.parts)

    @property
    def n_entries(self) -> int:
        """The number of ids in all lists."""
        return sum(map(len, self.parts))

    def of_queries(self, queries: slice) -> Self:
        """Return the part for a range of queries."""
        return replace(self, parts=self.parts[queries])

    def check(self, version: Version) -> None:
        """Refuse ids that cannot be in the index."""
        self.ids().check(version)

    def kept(self, version: Version) -> Ids:
        """Return a copy that the caller cannot modify and that stays valid for later versions."""
        return self.ids().kept(version)

    def rows(self, version: Version, without: Lists | None = None) -> Lists:
        """Return the rows of each list, ascending and unique, without those in the same list of `without`."""
        return self.ids().rows(version, without)

    def ids(self) -> Ids:
        """Return all ids in one array."""
        kinds = set(map(type, self.parts))
        if kinds <= _PLAIN:
            values, lengths = self._values()
        elif kinds == {np.ndarray} and {(part.dtype, part.ndim) for part in self.parts} == {(_INT64, 1)}:
            values, lengths = np.concatenate(self.parts), np.fromiter(map(len, self.parts), np.int64, len(self.parts))
        else:
            arrays = [self._array(part) for part in self.parts]
            filled = [array for array in arrays if len(array)]
            if len({array.dtype.kind for array in filled}) > 1:
                raise TypeError(f"{self.name} holds both strings and other values, but must hold integers or strings.")
            values = np.concatenate(filled) if filled else np.zeros(0, np.int64)
            lengths = np.fromiter(map(len, arrays), np.int64, len(arrays))
        return Ids(values, _starts(lengths), self.name, self.quiet)

    def _values(self) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return the ids of Python lists, and how many each list has."""
        lengths = np.fromiter(map(len, self.parts), np.int64, len(self.parts))
        numbers = _checks.plain_numbers(self.parts, int(lengths.sum()))
        if numbers is not None:
            return numbers, lengths
        flat = list(itertools.chain.from_iterable(self.parts))
        kinds = set(map(type, flat))
        if _NONE in kinds:
            missing = np.fromiter((value is None for value in flat), np.int64, len(flat))
            ends = np.cumsum(lengths)
            before = np.concatenate([[0], np.cumsum(missing)])
            lengths -= before[ends] - before[ends - lengths]
        elif any(map(_checks.is_sequence, kinds)):
            raise ValueError(f"{self.name} has nested sequences for a query, but must have a flat sequence of ids.")
        return _checks.flat_ids(flat, kinds, self.name), lengths

    def _array(self, part: Any) -> NDArray[Any]:
        """Return the ids of one query."""
        found = _read(part, self.name)
        if not isinstance(found, Ids) or found.starts is not None:
            kind = type(part).__name__
            raise ValueError(f"{self.name} has a {kind} for a query, but must have a flat sequence of ids.")
        return found.values


@dataclass(frozen=True)
class Columns:
    """Columns of the stored entries of a sparse matrix, one list after another; values do not matter."""

    columns: NDArray[Any]  # int32 or int64
    starts: NDArray[np.int64] | None  # (n_queries + 1) where each begins; None if all queries share one
    n_columns: int
    name: str
    ids: NDArray[Any] | None = None  # (n_columns) the item of each column; None for the order of the index
    quiet: bool = False

    @classmethod
    def of(cls, matrix: Any, name: str) -> Self:
        """Read the entries of a sparse matrix or a sparse vector."""
        if matrix.ndim == 1:
            return cls(_indices(matrix.tocoo().coords[0]), None, matrix.shape[0], name)
        by_rows = matrix if matrix.format == "csr" else matrix.tocsr()
        starts = by_rows.indptr.astype(np.int64)
        _checks.starts_of_rows(starts, len(by_rows.indices), name)
        return cls(_indices(by_rows.indices), starts, matrix.shape[1], name)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the matrix."""
        return (self.n_columns,) if self.starts is None else (len(self.starts) - 1, self.n_columns)

    @property
    def n_queries(self) -> int | None:
        """The number of rows, one per query; None if all queries share one."""
        return None if self.starts is None else len(self.starts) - 1

    @property
    def n_entries(self) -> int:
        """The number of entries in all rows."""
        return len(self.columns) if self.starts is None else int(self.starts[-1] - self.starts[0])

    def placed(self, version: Version, ids: NDArray[Any] | None, n_queries: int | None) -> Self:
        """Check the shape, and return the selection with the ids of its columns."""
        _check_shape(version, self.shape, ids, self.name, n_queries)
        return replace(self, ids=ids)

    def of_queries(self, queries: slice) -> Self:
        """Return the part for a range of queries."""
        return self if self.starts is None else replace(self, starts=self.starts[queries.start : queries.stop + 1])

    def check(self, version: Version) -> None:
        """Refuse columns that are out of range."""
        self.rows(version)

    def kept(self, version: Version) -> Self:
        """Return a copy that the caller cannot modify and that stays valid for later versions."""
        starts = None if self.starts is None else self.starts.copy()
        ids = version.ids if self.ids is None else self.ids.copy()
        return replace(self, columns=self.columns.copy(), starts=starts, ids=ids)

    def rows(self, version: Version, without: Lists | None = None) -> Lists:
        """Return the rows of each list, ascending and unique, without those in the same list of `without`."""
        starts = np.array((0, len(self.columns))) if self.starts is None else self.starts
        if self.ids is not None and self.ids is not version.ids:
            begin, end = int(starts[0]), int(starts[-1])
            here = self.columns[begin:end]
            if len(here) and not 0 <= int(here.min()) <= int(here.max()) < self.n_columns:
                wrong = here[(here < 0) | (here >= self.n_columns)][0]
                _checks.refuse_column(int(wrong), self.n_columns, self.name)
            return Ids(self.ids[here], starts - begin, self.name, self.quiet).rows(version, without)
        rows, row_starts = np.empty(self.n_entries, np.int64), np.empty(len(starts), np.int64)
        wrong = core().kernels.list_columns(self.columns, starts, version.live_rows, without, rows, row_starts)
        if wrong >= 0:
            _checks.refuse_column(int(self.columns[wrong]), self.n_columns, self.name)
        return rows[: row_starts[-1]], row_starts


@dataclass(frozen=True)
class Mask:
    """A bool for each item, for all queries or per query; read when needed."""

    mask: NDArray[np.bool_]
    name: str
    ids: NDArray[Any] | None = None  # the item of each column; None for the order of the index
    quiet: bool = False

    @property
    def n_queries(self) -> int | None:
        """The number of rows, one per query; None if all queries share one."""
        return None if self.mask.ndim == 1 else len(self.mask)

    @property
    def n_entries(self) -> int:
        """An upper bound of the number of selected items in all rows."""
        return self.mask.size

    def placed(self, version: Version, ids: NDArray[Any] | None, n_queries: int | None) -> Self:
        """Check the shape, and return the selection with the ids of its columns."""
        _check_shape(version, self.mask.shape, ids, self.name, n_queries)
        return replace(self, ids=ids)

    def of_queries(self, queries: slice) -> Self:
        """Return the part for a range of queries."""
        return self if self.mask.ndim == 1 else replace(self, mask=self.mask[queries])

    def check(self, version: Version) -> None:
        """Do nothing: every mask is valid."""

    def kept(self, version: Version) -> Columns:
        """Return a copy that the caller cannot modify and that stays valid for later versions."""
        return self.columns_named().kept(version)

    def rows(self, version: Version, without: Lists | None = None) -> Lists:
        """Return the rows of each list, ascending and unique, without those in the same list of `without`."""
        return self.columns_named().rows(version, without)

    def columns_named(self) -> Columns:
        """Return the columns where the mask is true."""
        starts = None if self.mask.ndim == 1 else _starts(np.count_nonzero(self.mask, axis=1))
        return Columns(
            _indices(np.nonzero(self.mask)[-1]), starts, self.mask.shape[-1], self.name, self.ids, self.quiet
        )


@dataclass(frozen=True)
class Known:
    """Columns whose rows in one version are known, so that no id has to be looked up."""

    columns: NDArray[Any]  # int32 or int64
    starts: NDArray[np.int64]  # (n_queries + 1) where each begins
    row_of_column: NDArray[np.int64]  # -1 if the item is not in the index
    quiet: bool = True  # removed items are ignored without a warning

    @property
    def n_queries(self) -> int:
        """The number of lists, one per query."""
        return len(self.starts) - 1

    @property
    def n_entries(self) -> int:
        """The number of columns in all lists."""
        return int(self.starts[-1] - self.starts[0])

    def of_queries(self, queries: slice) -> Self:
        """Return the part for a range of queries."""
        return replace(self, starts=self.starts[queries.start : queries.stop + 1])

    def check(self, version: Version) -> None:
        """Do nothing: known columns are valid."""

    def kept(self, version: Version) -> Self:  # noqa: ARG002
        """Return the selection itself: nobody else writes to its arrays."""
        return self

    def rows(self, version: Version, without: Lists | None = None) -> Lists:  # noqa: ARG002
        """Return the rows of each list, ascending and unique, without those in the same list of `without`."""
        rows, row_starts = np.empty(self.n_entries, np.int64), np.empty(len(self.starts), np.int64)
        core().kernels.list_columns(self.columns, self.starts, self.row_of_column, without, rows, row_starts)
        return rows[: row_starts[-1]], row_starts


@dataclass(frozen=True)
class Union:
    """The union of several selections, which have a list per query; with a single query, shared lists count too."""

    parts: "tuple[Selection, ...]"
    n_queries: int
    quiet: bool = True

    @property
    def n_entries(self) -> int:
        """The number of entries in all lists."""
        return sum(part.n_entries for part in self.parts)

    def of_queries(self, queries: slice) -> Self:
        """Return the part for a range of queries."""
        parts = tuple(part.of_queries(queries) for part in self.parts)
        return replace(self, parts=parts, n_queries=queries.stop - queries.start)

    def check(self, version: Version) -> None:
        """Refuse selections that are not valid for the index."""
        for part in self.parts:
            part.check(version)

    def kept(self, version: Version) -> Self:
        """Return a copy that the caller cannot modify and that stays valid for later versions."""
        return replace(self, parts=tuple(part.kept(version) for part in self.parts))

    def rows(self, version: Version, without: Lists | None = None) -> Lists:
        """Return the rows of each list, ascending and unique, without those in the same list of `without`."""
        lists = [part.rows(version) for part in self.parts]
        if self.n_queries == 1:
            rows = np.concatenate([own for own, _ in lists])
            return rows_less(rows, np.array((0, len(rows))), without)
        starts = np.add.reduce([starts for _, starts in lists])
        rows = np.empty(int(starts[-1]), np.int64)
        at = starts[:-1].copy()  # where the next row of each list goes
        for own, own_starts in lists:
            sizes = np.diff(own_starts)
            rows[np.arange(len(own)) + np.repeat(at - own_starts[:-1], sizes)] = own
            at += sizes
        return rows_less(rows, starts, without)


Selection: TypeAlias = Ids | Sequences | Columns | Mask | Known | Union


def selection(version: Version, given: Any, name: str, n_queries: int | None) -> Selection:
    """Read what a caller passed as `exclude` or `allow`; None for `n_queries` accepts any number.

    A flat sequence of ids applies to all queries. A sequence of sequences, or an array of two dimensions, has one
    sequence per query. The columns of a matrix or a mask are the items of the index, or those of the column ids that
    are passed in a pair with it.
    """
    if isinstance(given, Ids | Sequences | Columns | Mask | Known | Union):
        return given
    columns = None
    if type(given) is tuple and len(given) == 2 and _has_columns(given[0]):
        given, columns = given
        columns = column_ids(version, columns, name)
    found = _read(given, name)
    _check_zeros_and_ones(given, name, version.n_live)
    if isinstance(found, Columns | Mask):
        found = found.placed(version, columns, n_queries)
    elif n_queries is not None and found.n_queries is not None:
        _checks.number_of_lists(found.n_queries, name, n_queries)
    return found


def _check_zeros_and_ones(given: Any, name: str, n_items: int) -> None:
    """Refuse a mask of integers, which would be read as ids."""
    if type(given) is not np.ndarray or given.dtype.kind not in "iu" or given.shape[1:] != (n_items,) or n_items < 3:
        return
    if not ((given != 0) & (given != 1)).any():
        raise ValueError(
            f"{name} has a 0 or 1 for each item, but integers are read as ids; for a mask, pass {name}.astype(bool)."
        )


def column_ids(version: Version, given: Any, name: str) -> NDArray[Any]:
    """Read the column ids that a caller passed."""
    found = _read(given, f"column_ids of {name}")
    if not isinstance(found, Ids) or found.starts is not None:
        raise TypeError(f"column_ids of {name} is a {type(given).__name__}, but must be a flat sequence of ids.")
    version.same_kind(found.values)
    if len(np.unique(found.values)) < len(found.values):
        _checks.ids(found.values, None, name=f"column_ids of {name}")  # raises the error
    return found.values


def rows_less(rows: NDArray[np.int64], starts: NDArray[np.int64], without: Lists | None) -> Lists:
    """Return lists of rows, ascending and unique, without -1 and without the rows in the same list of `without`."""
    left, left_starts = np.empty(int(starts[-1] - starts[0]), np.int64), np.empty(len(starts), np.int64)
    core().kernels.list_columns(rows, starts, None, without, left, left_starts)
    return left[: left_starts[-1]], left_starts


_PLAIN = {list, tuple, set, frozenset, range}
_NONE = type(None)
_INT64 = np.dtype(np.int64)


def _read(given: Any, name: str) -> Selection:
    """Read what a caller passed, depending on its type; columns are not matched with items yet."""
    kind = type(given)
    if kind is np.ndarray:
        return _read_array(given, name)
    if kind is range:
        return Ids(np.arange(given.start, given.stop, given.step), None, name)
    if isinstance(given, list | tuple | set | frozenset):
        return _read_values(list(given), name, ordered=isinstance(given, list | tuple))
    if _checks.is_sparse(given):
        return Columns.of(given, name)
    if not _checks.is_sequence(kind):
        _checks.refuse_filter(given, name)
    return _read_array(_checks.from_library(given, name), name)


def _read_values(values: list[Any], name: str, *, ordered: bool = True) -> Selection:
    """Read ids, or sequences of ids."""
    numbers = _checks.plain_numbers([values], len(values))
    if numbers is not None:
        return Ids(numbers, None, name)
    kinds = set(map(type, values))
    nested = set(map(_checks.is_sequence, kinds))
    if len(nested) > 1:
        raise TypeError(f"{name} holds both ids and sequences of ids, but must hold only one of the two.")
    if True in nested and not ordered:
        raise TypeError(f"{name} is a set of sequences, but must be a list of them, in the order of the queries.")
    return Sequences(values, name) if True in nested else Ids(_checks.flat_ids(values, kinds, name), None, name)


def _read_array(array: NDArray[Any], name: str) -> Selection:
    if array.ndim not in (1, 2):
        raise ValueError(f"{name} is an array of {array.ndim} dimensions, but must have 1, or 2 with a row per query.")
    if array.dtype.kind == "b":
        return Mask(array, name)
    if array.dtype.kind == "O" and array.ndim == 1:
        return _read_values(array.tolist(), name)
    if array.ndim == 1:
        return Ids(_checks.id_array(array, name), None, name)
    if array.dtype.kind == "O":
        return Sequences(array.tolist(), name)
    n, width = array.shape
    return Ids(_checks.id_array(array, name).ravel(), np.arange(n + 1) * width, name)


def _has_columns(given: Any) -> bool:
    """Return whether `given` is a matrix or a mask, which may come with column ids."""
    if _checks.is_sparse(given):
        return True
    kind = getattr(given, "dtype", getattr(given, "type", ""))  # Arrow calls it type
    return _checks.is_sequence(type(given)) and str(kind).lower() in ("bool", "boolean")


def _check_shape(
    version: Version, shape: tuple[int, ...], ids: NDArray[Any] | None, name: str, n_queries: int | None
) -> None:
    """Refuse a matrix of the wrong shape, or one whose columns may no longer match the items."""
    if ids is not None:
        _checks.columns_fit(shape, name, n_queries, len(ids), whose="column id")
        return
    _checks.columns_fit(shape, name, n_queries, version.n_live, whose="item")
    if version.moved:
        _checks.refuse_moved_columns(name)


def _indices(indices: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(indices if indices.dtype in (np.int32, np.int64) else indices.astype(np.int64))


def _starts(lengths: NDArray[Any]) -> NDArray[np.int64]:
    starts = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts


def _rows_of_texts(version: Version, texts: NDArray[Any]) -> NDArray[np.int64]:
    """Return the row of each string id, or -1."""
    rows = np.full(len(texts), -1)
    if len(texts):
        positions = version.find(texts)
        there = positions >= 0
        rows[there] = version.rows_at(positions[there]) if there.any() else 0
    return rows
