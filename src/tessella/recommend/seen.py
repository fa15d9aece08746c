"""Seen: which items each user has seen, as lists of column numbers, where each column is an item id."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from tessella import _checks
from tessella.search.filters import PreparedFilter
from tessella.search.filters import given as read_filter
from tessella.search.selections import Columns, Ids, Known, Mask, Sequences
from tessella.versions.version import Version


@dataclass(frozen=True)
class Seen:
    """The columns of each user, one list after another. A column is an item id, whether or not the item exists."""

    columns: NDArray[Any]  # int32 or int64
    starts: NDArray[np.int64]  # (n_users + 1) where the columns of each user start
    item_ids: NDArray[Any]  # (n_columns) which item each column is
    weights: NDArray[np.float32] | None = None  # the values of the caller's matrix; None is 1 for each

    @classmethod
    def of(cls, version: Version, given: Any, n_users: int, name: str = "seen") -> Self:
        """Read what a caller passed: any per-query form of `exclude`."""
        matrix = given[0] if type(given) is tuple and len(given) == 2 else given
        read = read_filter(version, given, name, n_users)  # warns if most ids are unknown
        if isinstance(read, PreparedFilter):
            raise TypeError(f"{name} is a prepared filter, but must be a list of id sequences or a sparse matrix.")
        if read.n_queries is None:
            raise ValueError(
                f"{name} is one sequence of ids, but must be a list of sequences, one for each of the {n_users} users, "
                "or a sparse matrix with a row for each."
            )
        read.check(version)
        if isinstance(read, Mask):
            read = read.columns_named()
        if isinstance(read, Columns):
            starts = np.zeros(1, np.int64) if read.starts is None else read.starts
            ids = version.ids if read.ids is None else read.ids.copy()
            part, weights = slice(int(starts[0]), int(starts[-1])), _weights(matrix, name)
            columns = _narrow(read.columns[part].copy(), len(ids))
            return cls(columns, starts - starts[0], ids, None if weights is None else weights[part])
        return cls._from_ids(read.ids() if isinstance(read, Sequences) else read, version)

    @classmethod
    def _from_ids(cls, read: Any, version: Version) -> Self:
        if not isinstance(read, Ids) or read.starts is None:
            raise TypeError("seen is not a list of sequences of ids.")
        begin = int(read.starts[0])
        ids, columns = np.unique(read.values[begin : read.starts[-1]], return_inverse=True)
        columns = columns.reshape(-1)
        starts = read.starts - begin
        if not len(ids):
            return cls(np.zeros(0, np.int32), starts, version.no_ids())
        if not version.text_ids and ids[0] <= -1 <= ids[-1]:  # -1 is not an item
            nothing = np.searchsorted(ids, -1)
            if ids[nothing] == -1:
                kept = columns != nothing
                starts = np.concatenate([[0], np.cumsum(kept)])[starts]
                columns = columns[kept]
        return cls(_narrow(columns, len(ids)), starts, ids)

    @classmethod
    def nothing(cls, version: Version, n_users: int) -> Self:
        """Return empty lists for n users."""
        return cls(np.zeros(0, np.int32), np.zeros(n_users + 1, np.int64), version.no_ids())

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def n_entries(self) -> int:
        """The number of pairs of a user and a seen item."""
        return int(self.starts[-1] - self.starts[0])

    @property
    def nbytes(self) -> int:
        """The size of all arrays in bytes."""
        ids = self.item_ids.nbytes
        return self.columns.nbytes + self.starts.nbytes + ids + (0 if self.weights is None else self.weights.nbytes)

    def row_of_column(self, version: Version) -> NDArray[np.int64]:
        """Return the row of each column's item in a version; -1 if the item does not exist there."""
        if self.item_ids is version.ids:
            return version.live_rows
        rows = np.full(len(self.item_ids), -1)
        positions = version.find(self.item_ids)
        there = positions >= 0
        if there.any():
            rows[there] = version.rows_at(positions[there])
        return rows

    def of_users(self, rows: "NDArray[np.int64] | slice | int", row_of_column: NDArray[np.int64]) -> Known:
        """Return what some users have seen, as a filter for a search."""
        if isinstance(rows, int | np.integer):
            return Known(self.columns, self.starts[rows : rows + 2], row_of_column)
        if isinstance(rows, slice):
            return Known(self.columns, self.starts[rows.start : rows.stop + 1], row_of_column)
        entries, starts = self._entries(rows)
        return Known(self.columns[entries], starts, row_of_column)

    def of_user(self, row: int) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """Return the ids of the items a user has seen, and their weights."""
        some = slice(int(self.starts[row]), int(self.starts[row + 1]))
        ids = self.item_ids[self.columns[some]]
        return ids, np.ones(len(ids), np.float32) if self.weights is None else self.weights[some]

    def take(self, rows: NDArray[np.int64]) -> Self:
        """Return the lists of some users, in the given order."""
        entries, starts = self._entries(rows)
        weights = None if self.weights is None else self.weights[entries]
        return replace(self, columns=self.columns[entries], starts=starts, weights=weights)

    def joined(self, other: "Seen") -> "Seen":
        """Append the lists of other users."""
        ids, columns = self.item_ids, other.columns
        if other.item_ids is not ids:
            together = np.concatenate([ids, other.item_ids]) if len(ids) else other.item_ids
            _, first, inverse = np.unique(together, return_index=True, return_inverse=True)
            new = np.sort(first[first >= len(ids)])  # existing columns keep their numbers
            place = np.empty(len(together), np.int64)
            place[: len(ids)] = np.arange(len(ids))
            place[new] = len(ids) + np.arange(len(new))
            columns = place[first[inverse.reshape(-1)]][len(ids) + other.columns]
            ids = together[np.concatenate([np.arange(len(ids)), new])]
        size = int(self.starts[-1])
        weights = None
        if self.weights is not None or other.weights is not None:
            weights = np.concatenate([seen.weights_or_ones() for seen in (self, other)])
        return Seen(
            _narrow(np.concatenate([self.columns[:size], columns[other.starts[0] : other.starts[-1]]]), len(ids)),
            np.concatenate([self.starts, size + other.starts[1:] - other.starts[0]]),
            ids,
            weights,
        )

    def weights_or_ones(self) -> NDArray[np.float32]:
        """Return a weight for each entry."""
        return np.ones(self.n_entries, np.float32) if self.weights is None else self.weights

    def _entries(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the entries of some users, one user after another, and where each user's start."""
        first = self.starts[rows]
        sizes = self.starts[rows + 1] - first
        starts = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(sizes, out=starts[1:])
        return np.arange(starts[-1]) + np.repeat(first - starts[:-1], sizes), starts


def _narrow(columns: NDArray[Any], n_columns: int) -> NDArray[Any]:
    """Convert columns to the narrowest type that the kernels read."""
    return np.ascontiguousarray(columns, np.int32 if n_columns < 2**31 else np.int64)


def _weights(matrix: Any, name: str) -> NDArray[np.float32] | None:
    """Return the values of a sparse matrix; None if they are not numbers, or are all 1."""
    if not _checks.is_sparse(matrix):
        return None
    values = scipy.sparse.csr_array(matrix).data
    if values.dtype.kind not in "iuf" or not len(values) or (values == 1).all():
        return None
    weights = np.asarray(values, np.float32)
    if not np.isfinite(weights).all():
        raise ValueError(f"{name} holds {values[~np.isfinite(weights)][0]}, but its values must be finite.")
    return weights.copy()
