"""Index: the front door. Build it from item factors, search it, change it while it serves."""

import os
import threading
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self, overload

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from tessella import _checks
from tessella._threads import thread_count
from tessella.jobs.all_users import Output, search_all
from tessella.mapping.schema import Schema
from tessella.mapping.slots import OneHot
from tessella.mapping.tessellation import Ternary
from tessella.results import TILES, Drift, Explanation, Plan, SearchResult
from tessella.retrieval.explain import explain
from tessella.retrieval.search import search
from tessella.retrieval.slots import overlaps
from tessella.retrieval.tiles import LearnedTiles
from tessella.retrieval.tuning import choose, may_gain, sample_for, tuned
from tessella.retrieval.ways import Options
from tessella.versions import storage
from tessella.versions.changes import added, built, rebuilt, removed, updated
from tessella.versions.drift import drift
from tessella.versions.snapshot import restore, snapshot
from tessella.versions.version import MAX_ROWS, State

DEFAULT_SCHEMA = Schema(Ternary(), OneHot(), threshold=2.5, rotation="principal")


class Index:
    """Serves the items with the largest inner products while items come and go.

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

    def __init__(self, state: State) -> None:
        self._state = state
        self._writing = threading.Lock()
        _indexes.add(self)

    @classmethod
    def build(
        cls,
        item_factors: ArrayLike,
        ids: ArrayLike | None = None,
        *,
        schema: Schema | LearnedTiles | Literal["auto"] = "auto",
        target_recall: float | None = None,
        queries: ArrayLike | None = None,
        threads: int | None = None,
    ) -> Self:
        """An index of item factors.

        Parameters
        ----------
        item_factors : array_like of shape (n_items, n_factors)
            Finite numbers, at least one row; kept in float32.
        ids : array_like of shape (n_items,), default None
            Different whole numbers or texts; None numbers items from 0. Fixed for an item's life.
        schema : "auto", LearnedTiles or Schema, default "auto"
            How searches answer when they are told nothing else. "auto" learns tiles, measures the ways to answer, and
            keeps the fastest that reaches `target_recall`; below 5,000 items it is exact search. `LearnedTiles` are
            searched by tiles. A `Schema` says how factors become sparse vectors for slots search, `candidates` and
            `explain`, and is searched exactly unless a budget is given; it is otherwise
            Schema(Ternary(), OneHot(), threshold=2.5, rotation="principal").
        target_recall : float, default None
            The share of the true top 10 to find, with a confidence of 95%; None is 0.95. With "auto", 1 is exact
            search. `LearnedTiles` are tuned to it if it or `queries` is given.
        queries : array_like of shape (n_queries, n_factors), default None
            User factors to measure with; None makes some from the items, as `tune` says.
        threads : int, default None
            How many threads to use; None uses every CPU. Changes no result.
        """
        count = thread_count(threads)
        _checks.auto_or_one_of(schema, (Schema, LearnedTiles))
        target = _checks.number_between(0.95 if target_recall is None else target_recall, "target_recall", 0.0, 1.0)
        measured = target_recall is not None or queries is not None
        factors = _checks.item_factors(item_factors)
        if not len(factors):
            raise ValueError("item_factors has 0 rows, but an index is built from at least 1 item.")
        checked = np.arange(len(factors)) if ids is None else _checks.ids(ids, len(factors))
        if isinstance(schema, Schema):
            if measured:
                raise ValueError("target_recall and queries are not for a Schema, which is searched exactly; use tune.")
            return cls(built(factors, checked, schema, None, count))
        if isinstance(schema, LearnedTiles):
            state = replace(built(factors, checked, DEFAULT_SCHEMA, schema, count), plan=TILES)
            plan = tuned(state, sample_for(state, queries), target, 10) if measured else TILES
            return cls(replace(state, plan=plan))
        tiles = LearnedTiles() if may_gain(len(factors), target) else None
        state = built(factors, checked, DEFAULT_SCHEMA, tiles, count)
        return cls(choose(state, sample_for(state, queries), target))

    def search(
        self,
        queries: ArrayLike,
        k: int = 10,
        *,
        reach: float | None = None,
        budget: int | None = None,
        max_slots: int | None = None,
        min_overlap: int = 1,
        exclude: Any = None,
        allow: Any = None,
        exact: bool = False,
        threads: int | None = None,
    ) -> SearchResult:
        """The items with the largest inner products with each query.

        Told nothing else, it answers as `plan` says. With `exact` the answer is the true top k. With `reach`, queries
        visit the tiles that may hold answers. With a budget, max_slots or min_overlap, items are chosen by their
        partial products over the slots they share with the query, and only those are scored.

        Parameters
        ----------
        queries : array_like of shape (n_queries, n_factors) or (n_factors,)
            User factors.
        k : int, default 10
            How many items to return, at least 1. Where fewer can be: id -1 (None for text ids) and score -inf.
        reach : float, default None
            How much of the bounds of tiles to believe, 0 to 1: more finds more of the true top k and takes longer; 1
            proves the answers. For an index with tiles.
        budget : int, default None
            How many of the items that share slots with a query are scored; at least k are. A larger one finds more of
            the true top k and takes longer; one of at least all items is an exact search. None is 40 for each of the k
            if slots are used.
        max_slots : int, default None
            How many of a query's slots are used, those with the largest values; at least 1. More rank items better and
            take longer. None is 24 if slots are used.
        min_overlap : int, default 1
            How many of these slots an item must share to be scored. Larger values score fewer items.
        exclude : sparse matrix of shape (n_queries, n_items), or list of n_queries sequences of ids, default None
            Items that are no answer to a query, such as those a user has seen. Column j is item ``index.ids[j]``. A
            single query also takes a sequence of ids. Unknown ids are passed over.
        allow : sequence of ids, or list of n_queries sequences of ids, default None
            The only items that may be answers, to all queries or to each. Unknown ids are passed over.
        exact : bool, default False
            Whether to answer exactly whatever else is given.
        threads : int, default None
            How many threads to use; None uses every CPU. Changes no result.

        Returns
        -------
        found : SearchResult
            ids, scores, scored, certified. Higher scores first; among equal ones, the item that came first. A query for
            which slots give fewer than k answers although there are more is answered exactly.
        """
        options = Options(reach, budget, max_slots, min_overlap, exact)
        return search(self._state, queries, k, options, exclude, allow, threads)

    @overload
    def search_all(
        self,
        user_factors: ArrayLike | str | os.PathLike[str],
        k: int = 10,
        *,
        exclude: Any = None,
        allow: Any = None,
        out: str | os.PathLike[str] | None = None,
        overwrite: bool = False,
        progress: bool | None = None,
        **options: Any,
    ) -> SearchResult: ...

    @overload
    def search_all(
        self,
        user_factors: ArrayLike | str | os.PathLike[str],
        k: int = 10,
        *,
        exclude: Any = None,
        allow: Any = None,
        out: Callable[[int, SearchResult], object],
        overwrite: bool = False,
        progress: bool | None = None,
        **options: Any,
    ) -> None: ...

    def search_all(
        self,
        user_factors: ArrayLike | str | os.PathLike[str],
        k: int = 10,
        *,
        exclude: Any = None,
        allow: Any = None,
        out: Output = None,
        overwrite: bool = False,
        progress: bool | None = None,
        **options: Any,
    ) -> SearchResult | None:
        """The answers to all users, a block at a time: what `search` gives, bit for bit, for as many as there are.

        All of it sees the version of the index there is at the call. All users and filters are checked before the
        first is answered. Beside what is returned, memory does not grow with the number of users.

        Parameters
        ----------
        user_factors : array_like of shape (n_users, n_factors), or path
            A memory map, or a path of a .npy file, is read as it is needed.
        k : int, default 10
            How many items to return for each user, as for `search`. Blocks have fewer users where k is large.
        exclude : sparse matrix of shape (n_users, n_items), or list of n_users sequences of ids, default None
            Items that are no answer to a user. A CSR matrix is sliced; another is turned into one first.
        allow : sequence of ids, or list of n_users sequences of ids, default None
            The only items that may be answers, to all users or to each.
        out : path or callable, default None
            Where answers go. None returns them. A callable is called with the number of the first user of a block and
            their `SearchResult`, block after block; what it raises ends the job. A path is a folder to make, with
            ids.npy, scores.npy, scored.npy and certified.npy for ``np.load(file, mmap_mode="r")``; text ids
            are texts of one width there, empty where there is no item.

            Until the folder is whole its name ends in ``.partial``. After an interruption, a crash or a full disk, the
            same call goes on where it stopped. It does so if tessella's version, the index, n_users, k, the options
            (threads aside), and the factors and filters of the users that are done are all the same, and the answers
            so far are as they were written. Otherwise it is refused. The index is the same if it was loaded from the
            same file, or built from the same factors, ids and schema, and then changed alike, with the same plan:
            "auto" may plan otherwise the next time, and on other processors LAPACK may give other last bits, so save an
            index to go on with.
        overwrite : bool, default False
            Whether to replace a finished folder, once the new one is whole, and a partial one that cannot be gone on
            with.
        progress : bool, default None
            Whether to show a bar on stderr; None shows one if it is a terminal.
        **options
            Any other option of `search`: exact, reach, budget, max_slots, min_overlap, threads.

        Returns
        -------
        found : SearchResult, or None if `out` is a callable
            Ids, scores, scored, certified; memory-mapped, for reading only, if `out` is a path.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> import numpy as np
        >>> import tessella as ts
        >>> rng = np.random.default_rng(0)
        >>> item_factors, user_factors = rng.standard_normal((1000, 16)), rng.standard_normal((3, 16))
        >>> index = ts.Index.build(item_factors)
        >>> index.search_all(user_factors, k=2).ids
        array([[119, 325],
               [591, 799],
               [906, 237]])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     out = pathlib.Path(folder) / "recs"
        ...     _ = index.search_all(user_factors, k=2, out=out)
        ...     np.load(out / "ids.npy")[1]
        array([591, 799])
        >>> index.search_all(user_factors, out=lambda first, found: print(first, found.ids.shape))
        0 (3, 10)
        """
        frozen = type(self)(self._state)  # what changes meanwhile does not show
        return search_all(
            frozen.search,
            frozen._state,
            user_factors,
            k,
            exclude=exclude,
            allow=allow,
            out=out,
            overwrite=overwrite,
            progress=progress,
            options=options,
        )

    def candidates(self, queries: ArrayLike, *, min_overlap: int = 1) -> scipy.sparse.csr_array:
        """The paper's candidate sets (P12): how many slots each query shares with each item.

        Queries are mapped as items are, threshold included. An absolute threshold is a multiple of the items' scale, so
        queries that are shorter than items may have no slots left, and no candidates: scale them, or build with
        ``threshold_kind="relative"``. For study; a search needs no candidates, and does not cut its queries.

        Parameters
        ----------
        queries : array_like of shape (n_queries, n_factors) or (n_factors,)
            User factors.
        min_overlap : int, default 1
            How many slots a candidate shares with the query at least.

        Returns
        -------
        overlaps : scipy.sparse.csr_array of int32, shape (n_queries, n_items)
            Columns go by `ids`.

        Examples
        --------
        >>> import numpy as np
        >>> import tessella as ts
        >>> schema = ts.Schema(ts.Ternary(), ts.OneHot())
        >>> index = ts.Index.build([[1.0, 0.0], [1.0, 1.0], [-1.0, 1.0]], schema=schema)
        >>> index.candidates([[2.0, 2.0]]).toarray()
        array([[1, 2, 1]], dtype=int32)
        """
        least = _checks.whole_number(min_overlap, "min_overlap", 1)
        state = self._state
        array = _checks.numbers(queries, "queries")
        asked = _checks.all_factors(array[None] if array.ndim == 1 else array, "queries", state.fitted.n_factors)
        _checks.norms_fit(asked, "queries")
        counts = overlaps(state, state.fitted.sparse_map.transform(asked))
        counts.data[counts.data < least] = 0
        counts.eliminate_zeros()
        return counts

    def explain(self, query: ArrayLike, item_id: int | str) -> Explanation:
        """Why an item is, or is not, an answer to a query.

        Parameters
        ----------
        query : array_like of shape (n_factors,)
            A user factor.
        item_id : int or str
            An id in the index.

        Examples
        --------
        >>> import numpy as np
        >>> import tessella as ts
        >>> rng = np.random.default_rng(0)
        >>> index = ts.Index.build(rng.standard_normal((1000, 16)) * rng.lognormal(0, 1, (1000, 1)))
        >>> index.explain(rng.standard_normal(16), item_id=7).rank
        518
        """
        state = self._state
        array = _checks.numbers(query, "query")
        if array.ndim != 1:
            raise ValueError(f"query has {array.ndim} dimensions, but must have 1.")
        factor = _checks.all_factors(array[None], "query", state.fitted.n_factors)
        _checks.products_fit(factor, state.longest, "query")
        item = _checks.ids([item_id], 1)
        return explain(state, factor[0], item[0].item(), int(state.places_of(item)[0]), state.plan)

    @property
    def plan(self) -> Plan:
        """How a search answers when it is told nothing else, and why.

        Examples
        --------
        >>> import numpy as np
        >>> import tessella as ts
        >>> ts.Index.build(np.eye(3)).plan.way
        'exact'
        """
        return self._state.plan

    def tune(self, queries: ArrayLike | None = None, target_recall: float = 0.95, k: int = 10) -> Plan:
        """Choose anew how searches answer when they are told nothing else. Nothing is rebuilt.

        Measures the ways that the index is built for, and takes the fastest that reaches the recall with a confidence
        of 95%.

        Parameters
        ----------
        queries : array_like of shape (n_queries, n_factors), default None
            User factors; up to 2,000 of them are used. None makes queries from the items: mean directions of one or two
            items, the longer the likelier, more or less evened out along the principal axes; the hardest kind decides.
        target_recall : float, default 0.95
            The share of the true top k to find, 0 to 1.
        k : int, default 10
            For how many answers.

        Returns
        -------
        plan : Plan
            What was chosen, with the recall achieved and its bound.

        Examples
        --------
        >>> import tessella as ts
        >>> from tessella.datasets import generated_factors
        >>> item_factors, user_factors = generated_factors(5_000, 100)
        >>> index = ts.Index.build(item_factors, schema=ts.LearnedTiles())
        >>> plan = index.tune(user_factors, target_recall=0.9)
        >>> recall, at_least = plan.recall
        >>> bool(recall >= at_least >= 0.9)
        True
        """
        target = _checks.number_between(target_recall, "target_recall", 0.0, 1.0)
        wanted = _checks.whole_number(k, "k", 1, MAX_ROWS)
        with self._writing:
            state = self._state
            if not state.n_live:
                raise ValueError("the index holds no items, but at least 1 is needed to tune; add some first.")
            plan = tuned(state, sample_for(state, queries), target, wanted)
            self._state = replace(state, plan=plan)
        return plan

    def add(self, item_factors: ArrayLike, ids: ArrayLike) -> None:
        """Add items; the next search sees them.

        Parameters
        ----------
        item_factors : array_like of shape (n, n_factors)
            Finite numbers.
        ids : array_like of shape (n,)
            New ids of the same kind as those in the index.
        """
        factors = _checks.item_factors(item_factors, self.n_factors)
        checked = _checks.ids(ids, len(factors))
        with self._writing:
            self._state = added(self._state, factors, checked)

    def update(self, item_factors: ArrayLike, ids: ArrayLike) -> None:
        """Give items new factors; they keep their place among equals.

        Parameters
        ----------
        item_factors : array_like of shape (n, n_factors)
            Finite numbers.
        ids : array_like of shape (n,)
            Ids in the index.
        """
        factors = _checks.item_factors(item_factors, self.n_factors)
        checked = _checks.ids(ids, len(factors))
        with self._writing:
            self._state = updated(self._state, factors, checked)

    def remove(self, ids: ArrayLike) -> None:
        """Remove items; the next search no longer sees them.

        Parameters
        ----------
        ids : array_like of shape (n,)
            Ids in the index.
        """
        checked = _checks.ids(ids, None)
        with self._writing:
            self._state = removed(self._state, checked)

    def drift(self) -> Drift:
        """How much the items that came or changed since the index was fitted look like those it was fitted to.

        Costs a look at these items and, with tiles, at some others. Where `refit` is true, `rebuild` makes searches
        fast again, and tile search find as much as it did; exact answers are right either way.

        Examples
        --------
        >>> import numpy as np
        >>> import tessella as ts
        >>> rng = np.random.default_rng(0)
        >>> index = ts.Index.build(rng.standard_normal((1000, 8)))
        >>> index.add(100 * rng.standard_normal((500, 8)), 1000 + np.arange(500))
        >>> index.drift().refit
        True
        """
        return drift(self._state)

    def rebuild(self, *, queries: ArrayLike | None = None, threads: int | None = None) -> None:
        """Fit the index anew to the items it holds. Searches go on meanwhile; other changes wait.

        Where `build` or `tune` measured how to answer, that is measured again, for the same recall.

        Parameters
        ----------
        queries : array_like of shape (n_queries, n_factors), default None
            User factors to measure with, as for `tune`.
        threads : int, default None
            How many threads to use; None uses every CPU. Changes no result.

        Examples
        --------
        >>> import numpy as np
        >>> import tessella as ts
        >>> index = ts.Index.build(np.eye(3))
        >>> index.update([[0.0, 0.0, 5.0]], ids=[2])
        >>> index.rebuild()
        >>> index.drift().n_new
        0
        """
        count = thread_count(threads)
        with self._writing:
            if not self._state.n_live:
                raise ValueError("the index holds no items, but at least 1 is needed to fit; add some first.")
            self._state = rebuilt(self._state, sample_for(self._state, queries), count)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the index to one file, whole or not at all.

        Segments are merged in the file. Exact answers and `candidates` stay as they are. Where the index had been
        changed, slots search, which rounds impacts segment by segment, may then choose a few other items, and tile
        search with a reach below 1, as tiles of several segments become one.

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
        ...     len(ts.Index.load(path))
        3
        """
        _checks.true_or_false(overwrite, "overwrite")
        storage.write(Path(path), *snapshot(self._state), overwrite=overwrite)

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
        return cls(restore(*storage.read(Path(path), mmap=mmap), name=str(path)))

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_bytes, (type(self), storage.to_bytes(*snapshot(self._state)))

    @property
    def ids(self) -> NDArray[Any]:
        """Ids of the items, in the order in which they came."""
        state = self._state
        return state.at(state.live_places, "ids") if state.n_live else state.no_ids()

    @property
    def schema(self) -> Schema:
        """How factors become sparse vectors."""
        return self._state.fitted.sparse_map.schema_

    @property
    def tiles(self) -> LearnedTiles | None:
        """The tiles items are filed under, or None if there are none."""
        tiling = self._state.fitted.tiling
        return None if tiling is None else tiling.settings

    @property
    def n_factors(self) -> int:
        """How many coordinates a factor has."""
        return self._state.fitted.n_factors

    @property
    def version(self) -> int:
        """How many changes there have been."""
        return self._state.version

    @property
    def nbytes(self) -> int:
        """Memory of all arrays, factors included."""
        return sum(self.memory.values())

    @property
    def memory(self) -> dict[str, int]:
        """Bytes of each part; exact search reads the codes, slots search the postings, tile search the tiles."""
        return self._state.memory()

    def __len__(self) -> int:
        return self._state.n_live

    def __contains__(self, item_id: object) -> bool:
        return _checks.may_be_id(item_id) and bool((self._state.find(_checks.ids([item_id], 1)) >= 0).any())

    def __getitem__(self, ids: ArrayLike) -> NDArray[np.float32]:
        """Factors of items, by id or ids."""
        single = np.ndim(ids) == 0
        state = self._state
        places = state.places_of(_checks.ids([ids] if single else ids, None, unique=False))
        if not len(places):
            return np.zeros((0, state.fitted.n_factors), np.float32)
        factors = state.at(places, "factors")
        return factors[0] if single else factors

    def __repr__(self) -> str:
        plan, tiling, schema = self.plan, self._state.fitted.tiling, self.schema
        size = f"{len(self):,} items x {self.n_factors} factors"
        way = {"exact": "exactly", "tiles": f"by tiles with a reach of {plan.reach:g}", "slots": "by slots"}[plan.way]
        slots = f"{type(schema.tessellation).__name__} and {type(schema.slot_map).__name__} slots"
        learned = "" if tiling is None else f"{len(tiling.centres):,} learned tiles, "
        return f"Index of {size}, searched {way}; {learned}{slots}, {self.nbytes / 2**20:,.1f} MiB"


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
    return Index.build(item_factors, schema=DEFAULT_SCHEMA, threads=threads).search(queries, k, threads=threads)


def _from_bytes(kind: type[Index], data: bytes) -> Index:
    name = "the pickled index"
    return kind(restore(*storage.from_buffer(np.frombuffer(data, np.uint8), name), name=name))


_indexes: "weakref.WeakSet[Index]" = weakref.WeakSet()


def _release_locks() -> None:
    """In a forked child no other thread is left that could be writing."""
    for index in _indexes:
        index._writing = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_release_locks)
