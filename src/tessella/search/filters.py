"""Filters: from what a caller excludes or allows to rows that may answer, in the one form that engines read."""

from typing import Any, TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from tessella import _checks
from tessella._packing import LOW_HALF
from tessella.retrieval.engine import Filter
from tessella.versions.version import Version

_NO_ROWS = np.zeros(0, np.int64)

_Lists: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]  # rows of each query, and where each begins


def filter_for(version: Version, n_queries: int, exclude: Any, allow: Any, *, single: bool = False) -> Filter:
    """The rows that may answer each of some queries; a `single` one takes sequences of ids as they are."""
    excluded: _Lists | None = None
    if exclude is not None:
        if single and _checks.is_list_of_ids(exclude):
            exclude = [exclude]
        excluded = _excluded(version, n_queries, exclude)
    listed, starts = excluded or (_NO_ROWS, None)
    if allow is None:
        return Filter(None, 0, listed, starts, only=False)
    if not _checks.is_list_of_lists(allow):
        (ids,) = _checks.id_lists([allow], "allow", 1)
        rows, _ = _rows_of(version, [ids])
        return Filter(_bits(version, rows), len(rows), listed, starts, only=False)
    own = _rows_of(version, _checks.id_lists(allow, "allow", n_queries))
    return Filter(None, 0, *(own if excluded is None else _less(own, excluded)), only=True)


def _excluded(version: Version, n: int, exclude: Any) -> _Lists:
    """Rows left out for each query, and where each query's begin."""
    if not _checks.is_sparse(exclude):
        return _rows_of(version, _checks.id_lists(exclude, "exclude", n))
    _checks.excluding_shape(exclude.shape, n, version.n_live)
    matrix = scipy.sparse.csr_array(exclude, copy=True)
    _checks.columns(matrix, "exclude")
    matrix.eliminate_zeros()
    matrix.sum_duplicates()  # sorts them, too
    return version.live_rows[matrix.indices], matrix.indptr.astype(np.int64)


def _rows_of(version: Version, lists: list[NDArray[Any]]) -> _Lists:
    """The rows of lists of ids, ascending in each and each once, one list after another, and where each begins."""
    for ids in lists:
        version.same_kind(ids)
    positions = version.find(np.concatenate([*lists, version.no_ids()]))
    there = positions >= 0
    owners = np.repeat(np.arange(len(lists)), [len(ids) for ids in lists])[there]
    rows = version.rows_at(positions[there]) if len(owners) else owners
    return _unpacked(np.unique(_packed(owners, rows)), len(lists))


def _less(lists: _Lists, others: _Lists) -> _Lists:
    """Each list without what another holds."""
    mine, theirs = (
        _packed(np.repeat(np.arange(len(starts) - 1), np.diff(starts)), rows) for rows, starts in (lists, others)
    )
    return _unpacked(np.setdiff1d(mine, theirs, assume_unique=True), len(lists[1]) - 1)


def _packed(owners: NDArray[np.int64], rows: NDArray[Any]) -> NDArray[np.int64]:
    """Pairs of a query and a row as numbers that sort by query, then by row."""
    pairs: NDArray[np.int64] = owners << 32 | rows
    return pairs


def _unpacked(pairs: NDArray[np.int64], n: int) -> _Lists:
    return pairs & LOW_HALF, np.searchsorted(pairs, np.arange(n + 1) << 32)


def _bits(version: Version, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
    bits = np.zeros(-(-max(version.next_row, 1) // 8) * 8, np.uint8)
    bits[rows] = 1
    return np.packbits(bits, bitorder="little")
