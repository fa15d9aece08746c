"""Index: the front door. Build it from item factors, search it, change it while it serves."""

import os
import threading
import weakref
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from tessella import _check, storage
from tessella._core import thread_count
from tessella.results import SearchResult
from tessella.retrieval.exact import Axes, ExactItems, Filters, search
from tessella.retrieval.segments import Segment, State, merged, tidy


class Index:
    """Serves the items with the largest inner products, exactly, while items come and go.

    Make one with `build`. Any number of threads may search while one changes the index; each search sees one version.

    Examples
    --------
    >>> import numpy as np
    >>> import tessella as ts
    >>> rng = np.random.default_rng(0)
    >>> item_factors, user_factors = rng.standard_normal((1000, 16)), rng.standard_normal((3, 16))
    >>> index = ts.Index.build(item_factors)
    >>> found = index.search(user_factors, k=2)
    >>> found.ids
    array([[119, 325],
           [591, 799],
           [906, 237]])
    >>> bool(found.certified.all())
    True
    >>> index.remove([119])
    >>> index.add([10 * user_factors[0]], ids=[5000])
    >>> index.search(user_factors[0], k=2).ids
    array([5000,  325])
    """

    def __init__(self, state: State, axes: Axes, n_factors: int) -> None:
        self._state = state
        self._axes = axes
        self._n_factors = n_factors
        self._writing = threading.Lock()
        _indexes.add(self)

    @classmethod
    def build(cls, item_factors: ArrayLike, ids: ArrayLike | None = None) -> Self:
        """An index of item factors.

        Parameters
        ----------
        item_factors : array_like of shape (n_items, n_factors)
            Finite numbers, at least one row; kept in float32.
        ids : array_like of shape (n_items,), default None
            Different whole numbers or texts; None numbers items from 0. Fixed for an item's life.
        """
        factors = _check.all_factors(item_factors, "item_factors")
        if not len(factors):
            raise ValueError("item_factors has 0 rows, but an index is built from at least 1 item.")
        checked = np.arange(len(factors)) if ids is None else _check.ids(ids, len(factors))
        axes = Axes.fit(factors)
        rows = np.arange(len(factors))
        return cls(State((Segment.build(factors, checked, rows, axes),), 0, len(rows)), axes, factors.shape[1])

    def search(
        self,
        queries: ArrayLike,
        k: int = 10,
        *,
        exclude: Any = None,
        allow: Any = None,
        threads: int | None = None,
    ) -> SearchResult:
        """The true top k of each query.

        Parameters
        ----------
        queries : array_like of shape (n_queries, n_factors) or (n_factors,)
            User factors.
        k : int, default 10
            How many items to return, at least 1. Where fewer can be: id -1 (None for text ids) and score -inf.
        exclude : sparse matrix of shape (n_queries, n_items), or list of n_queries sequences of ids, default None
            Items that are no answer to a query, such as those a user has seen. Columns go by `ids`. Unknown ids are
            passed over.
        allow : sequence of ids, or list of n_queries sequences of ids, default None
            The only items that may be answers, to all queries or to each. Unknown ids are passed over.
        threads : int, default None
            How many threads to use; None uses every CPU. Changes no result.

        Returns
        -------
        found : SearchResult
            ids, scores, scored, certified. Higher scores first; among equal ones, the item that came first.
        """
        count = thread_count(threads)
        array = _check.numbers(queries, "queries")
        asked = _check.all_factors(array[None] if array.ndim == 1 else array, "queries", self._n_factors)
        wanted = _check.whole_number(k, "k", 1)
        state = self._state
        kept = min(wanted, max(1, state.n_live))
        segments = [(segment.items, segment.dead) for segment in state.segments]
        _check.products_fit(asked, max((items.longest for items, _ in segments), default=0.0))
        excluded, starts = self._excluded_rows(state, exclude, len(asked))
        rows = np.full((len(asked), wanted), -1)
        scores = np.full((len(asked), wanted), -np.inf, np.float32)
        scored = np.zeros(len(asked), np.int64)
        for part, bits in self._allowed_rows(state, allow, len(asked)):
            filters = Filters(bits, excluded, starts[part.start : part.stop + 1])
            answers = search(segments, asked[part], kept, filters, count)
            rows[part, :kept], scores[part, :kept], scored[part] = answers
        result = SearchResult(self._ids_of(state, rows), scores, scored, np.ones(len(asked), np.bool_))
        return result if array.ndim == 2 else SearchResult(*(part[0] for part in result))

    def _excluded_rows(self, state: State, exclude: Any, n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows left out for each query, ascending, one query after another, and where each begins."""
        if exclude is None:
            return np.zeros(0, np.int64), np.zeros(n + 1, np.int64)
        if _check.is_sparse(exclude):
            matrix = scipy.sparse.csr_array(exclude, copy=True)
            if matrix.shape != (n, state.n_live):
                raise ValueError(f"exclude has shape {matrix.shape}, but must have shape {(n, state.n_live)}.")
            matrix.eliminate_zeros()
            matrix.sum_duplicates()  # sorts them, too
            live = np.concatenate([segment.rows[segment.live] for segment in state.segments] or [np.zeros(0, np.int64)])
            return np.sort(live)[matrix.indices], matrix.indptr.astype(np.int64)
        lists = _check.id_lists(exclude, "exclude", n)
        for ids in lists:
            self._same_kind(state, ids)
        found = [self._rows_of(state, ids) for ids in lists]
        return np.concatenate([*found, np.zeros(0, np.int64)]), np.cumsum([0, *map(len, found)])

    def _allowed_rows(self, state: State, allow: Any, n: int) -> list[tuple[slice, NDArray[np.uint8] | None]]:
        """Bits of the rows that may be answers, for stretches of queries that share them."""
        if allow is None:
            return [(slice(0, n), None)]
        if _check.is_list_of_lists(allow):
            lists = _check.id_lists(allow, "allow", n)
            return [(slice(query, query + 1), self._bits(state, ids)) for query, ids in enumerate(lists)]
        return [(slice(0, n), self._bits(state, _check.id_lists([allow], "allow", 1)[0]))]

    def _bits(self, state: State, ids: NDArray[Any]) -> NDArray[np.uint8]:
        self._same_kind(state, ids)
        bits = np.zeros(-(-max(state.next_row, 1) // 8) * 8, np.uint8)
        bits[self._rows_of(state, ids)] = 1
        return np.packbits(bits, bitorder="little")

    def _rows_of(self, state: State, ids: NDArray[Any]) -> NDArray[np.int64]:
        """Rows of those ids that are there, ascending."""
        rows = [np.zeros(0, np.int64)]
        for segment in state.segments:
            found = segment.find(ids)
            rows.append(segment.rows[found[found >= 0]])
        return np.unique(np.concatenate(rows))

    def _ids_of(self, state: State, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Ids of rows; -1 or None for row -1."""
        text = any(segment.ids.dtype.kind == "U" for segment in state.segments)
        ids: NDArray[Any] = np.full(rows.shape, None if text else -1, object if text else np.int64)
        for segment in state.segments:
            at = np.minimum(np.searchsorted(segment.rows, rows), len(segment.rows) - 1)
            here = segment.rows[at] == rows
            ids[here] = segment.ids[at[here]]
        return ids

    def _locate(self, state: State, ids: NDArray[Any]) -> list[NDArray[np.int64]]:
        """For each segment, the position of each id or -1; an id that is nowhere is refused."""
        found = [segment.find(ids) for segment in state.segments]
        missing = np.flatnonzero(np.all([at < 0 for at in found], axis=0)) if found else np.arange(len(ids))
        if missing.size:
            raise KeyError(f"there is no item with id {ids[missing[0]].item()!r} in the index.")
        return found

    def add(self, item_factors: ArrayLike, ids: ArrayLike) -> None:
        """Add items; the next search sees them.

        Parameters
        ----------
        item_factors : array_like of shape (n, n_factors)
            Finite numbers.
        ids : array_like of shape (n,)
            New ids of the same kind as those in the index.
        """
        factors = _check.all_factors(item_factors, "item_factors", self._n_factors)
        checked = _check.ids(ids, len(factors))
        with self._writing:
            state = self._state
            self._same_kind(state, checked)
            known = [checked[segment.find(checked) >= 0] for segment in state.segments]
            clash = np.concatenate([*known, checked[:0]])
            if clash.size:
                raise ValueError(f"id {clash[0].item()!r} is in the index already; use update to change its factor.")
            rows = state.next_row + np.arange(len(factors))
            fresh = Segment.build(factors, checked, rows, self._axes)
            self._publish((*state.segments, fresh), state.next_row + len(rows))

    def update(self, item_factors: ArrayLike, ids: ArrayLike) -> None:
        """Give items new factors; they keep their place among equals.

        Parameters
        ----------
        item_factors : array_like of shape (n, n_factors)
            Finite numbers.
        ids : array_like of shape (n,)
            Ids in the index.
        """
        factors = _check.all_factors(item_factors, "item_factors", self._n_factors)
        checked = _check.ids(ids, len(factors))
        with self._writing:
            state = self._state
            found = self._locate(state, checked)
            rows = np.full(len(checked), -1)
            for segment, at in zip(state.segments, found, strict=True):
                rows[at >= 0] = segment.rows[at[at >= 0]]
            order = np.argsort(rows)
            fresh = Segment.build(factors[order], checked[order], rows[order], self._axes)
            self._publish((*self._without(state, found), fresh), state.next_row)

    def remove(self, ids: ArrayLike) -> None:
        """Remove items; the next search no longer sees them.

        Parameters
        ----------
        ids : array_like of shape (n,)
            Ids in the index.
        """
        checked = _check.ids(ids, None)
        with self._writing:
            state = self._state
            self._publish(self._without(state, self._locate(state, checked)), state.next_row)

    @staticmethod
    def _without(state: State, found: list[NDArray[np.int64]]) -> tuple[Segment, ...]:
        parts = zip(state.segments, found, strict=True)
        return tuple(segment.without(at[at >= 0]) if (at >= 0).any() else segment for segment, at in parts)

    @staticmethod
    def _same_kind(state: State, ids: NDArray[Any]) -> None:
        kinds = {"U": "texts", "i": "whole numbers"}
        for segment in state.segments:
            if len(ids) and segment.ids.dtype.kind != ids.dtype.kind:
                raise TypeError(
                    f"ids are {kinds[ids.dtype.kind]}, but those in the index are {kinds[segment.ids.dtype.kind]}."
                )

    def _publish(self, segments: tuple[Segment, ...], next_row: int) -> None:
        self._state = State(tidy(segments, self._axes), self._state.version + 1, next_row)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the index to one file, whole or not at all.

        Parameters
        ----------
        path : str or path
            Where to. While it is written, what stands there stays as it is.
        overwrite : bool, default False
            Whether to replace a file that stands there.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> import numpy as np
        >>> import tessella as ts
        >>> index = ts.Index.build(np.eye(3))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "items.tessella"
        ...     index.save(path)
        ...     ts.Index.load(path)
        Index of 3 items x 3 factors, 0.0 MiB
        """
        storage.write(Path(path), *self._snapshot(), overwrite=overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, mmap: bool = False) -> Self:
        """The index that `save` wrote; a damaged or foreign file is refused.

        Parameters
        ----------
        path : str or path
            Where from.
        mmap : bool, default False
            Leave the arrays in the file, to be read as they are needed and shared between processes. The file must then
            stay as it is.
        """
        return cls._restore(*storage.read(Path(path), mmap=mmap), name=str(path))

    def _snapshot(self) -> tuple[dict[str, NDArray[Any]], dict[str, object]]:
        """All live items as one segment, numbered anew."""
        state = self._state
        segment = merged(state.segments, self._axes) if state.segments else None
        arrays: dict[str, NDArray[Any]] = {"head": self._axes.head}
        text = segment is not None and segment.ids.dtype.kind == "U"
        if segment is not None:
            items = segment.items
            arrays |= {name: getattr(items, name) for name in ExactItems.stored()}
            arrays["rows"] = np.searchsorted(segment.rows, items.rows)
            if text:
                arrays["id_bytes"], arrays["id_ends"] = storage.texts_to_arrays(segment.ids)
            else:
                arrays["ids"] = segment.ids
        return arrays, {"n_items": len(segment.rows) if segment else 0, "n_factors": self._n_factors, "text_ids": text}

    @classmethod
    def _restore(cls, arrays: dict[str, NDArray[Any]], facts: dict[str, Any], name: str) -> Self:
        try:
            n, n_factors = int(facts["n_items"]), _check.n_factors(facts["n_factors"])
            axes = Axes(arrays["head"])
            segments: tuple[Segment, ...] = ()
            if n:
                items = ExactItems(axes, *(arrays[part] for part in ExactItems.stored()))
                items.check(n, n_factors)
                text = facts["text_ids"]
                ids = storage.texts_from_arrays(arrays["id_bytes"], arrays["id_ends"]) if text else arrays["ids"]
                segments = (Segment.over(items, _check.ids(ids, n)),)
        except (LookupError, TypeError, ValueError) as error:
            raise ValueError(f"{name} cannot be used: its arrays do not belong together ({error}).") from None
        return cls(State(segments, 0, n), axes, n_factors)

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_bytes, (type(self), storage.to_bytes(*self._snapshot()))

    @property
    def ids(self) -> NDArray[Any]:
        """Ids of the items, in the order in which they came."""
        segments = self._state.segments
        rows = [segment.rows[segment.live] for segment in segments]
        if not segments:
            return np.zeros(0, np.int64)
        ids = np.concatenate([segment.ids[segment.live] for segment in segments])
        return ids[np.argsort(np.concatenate(rows))]

    @property
    def n_factors(self) -> int:
        """How many coordinates a factor has."""
        return self._n_factors

    @property
    def version(self) -> int:
        """How many changes there have been."""
        return self._state.version

    @property
    def nbytes(self) -> int:
        """Memory of all arrays, factors included."""
        own = 0
        for segment in self._state.segments:
            arrays = (segment.ids, segment.rows, segment.places, segment.by_id, segment.dead)
            own += segment.items.nbytes + segment.items.factors.nbytes
            own += sum(array.nbytes for array in arrays if array is not None)
        return own + self._axes.head.nbytes

    def __len__(self) -> int:
        return self._state.n_live

    def __contains__(self, item_id: object) -> bool:
        if not isinstance(item_id, str | int | np.integer) or isinstance(item_id, bool):
            return False
        if not isinstance(item_id, str) and (item_id == -1 or abs(int(item_id)) >= 2**63):
            return False
        return bool(self._rows_of(self._state, _check.ids([item_id], 1)).size)

    def __getitem__(self, ids: ArrayLike) -> NDArray[np.float32]:
        """Factors of items, by id or ids."""
        single = np.ndim(ids) == 0
        checked = _check.ids([ids] if single else ids, None, unique=False)
        state = self._state
        factors = np.empty((len(checked), self._n_factors), np.float32)
        for segment, at in zip(state.segments, self._locate(state, checked), strict=True):
            factors[at >= 0] = segment.factors_at(at[at >= 0])
        return factors[0] if single else factors

    def __repr__(self) -> str:
        return f"Index of {len(self):,} items x {self._n_factors} factors, {self.nbytes / 2**20:,.1f} MiB"


def exact_search(
    item_factors: ArrayLike, queries: ArrayLike, k: int = 10, *, threads: int | None = None
) -> SearchResult:
    """The true top k of queries over items that are searched once; for more than once, build an `Index`.

    Parameters
    ----------
    item_factors : array_like of shape (n_items, n_factors)
        Finite numbers, at least one row. Ids are row numbers.
    queries, k, threads
        As for `Index.search`.

    Examples
    --------
    >>> import tessella as ts
    >>> ts.exact_search([[1, 0], [0, 1], [1, 1]], [2.0, 1.0], k=2).ids
    array([2, 0])
    """
    return Index.build(item_factors).search(queries, k, threads=threads)


def _from_bytes(kind: type[Index], data: bytes) -> Index:
    return kind._restore(
        *storage.from_buffer(np.frombuffer(data, np.uint8), "the pickled index"), name="the pickled index"
    )


_indexes: "weakref.WeakSet[Index]" = weakref.WeakSet()


def _release_locks() -> None:
    """In a forked child no other thread is left that could be writing."""
    for index in _indexes:
        index._writing = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_release_locks)
