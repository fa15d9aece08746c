"""Index: the main entry point. Build it from item factors, search it, change it while it serves."""

import contextlib
import functools
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
from tessella.results import Drift, Explanation, SearchResult
from tessella.retrieval.plan import EXACT_PLAN, TILES_PLAN, Exact, Method, Plan
from tessella.retrieval.tiles import LearnedTiles
from tessella.search.candidates import overlaps
from tessella.search.explain import explain
from tessella.search.filters import PreparedFilter
from tessella.search.route import LARGEST_K, search
from tessella.search.staleness import Judgement, judged
from tessella.search.traffic import Ending, Traffic, go_on, run_aside
from tessella.search.tuning import checked_queries, choose, may_gain, planned_again, tiles_to_rebuild, tuned
from tessella.versions import storage
from tessella.versions.changes import added, built, rebuilt, removed, updated
from tessella.versions.drift import drift
from tessella.versions.snapshot import restore, snapshot
from tessella.versions.version import Version

DEFAULT_SCHEMA = Schema(Ternary(), OneHot(), threshold=2.5, rotation="principal")
_EXACT = Exact()


class Index:
    """Top-k search by inner product over items that can be added, updated and removed at any time.

    Create one with `build`. Any number of threads may search while another changes the index. Each search sees one
    consistent version.

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

    def __init__(self, version: Version) -> None:
        if not isinstance(version, Version):
            raise TypeError("create an Index with Index.build(item_factors) or Index.load(path).")
        self._version = _ready(version)
        self._writing = threading.Lock()
        self._judgement: Judgement | None = None
        self._traffic: Traffic | None = None
        _indexes.add(self)

    @classmethod
    def build(
        cls,
        item_factors: ArrayLike,
        ids: ArrayLike | None = None,
        *,
        method: Literal["auto", "exact", "tiles"] | LearnedTiles = "auto",
        schema: Schema | None = None,
        target_recall: float | None = None,
        queries: ArrayLike | None = None,
        k: int = 10,
        threads: int | None = None,
    ) -> Self:
        """Build an index from item factors.

        Parameters
        ----------
        item_factors : array_like of shape (n_items, n_factors)
            Finite numbers, at least one row. Stored as float32.
        ids : array_like of shape (n_items,), default None
            Unique integers or strings. None numbers the items from 0. An item's id cannot change later.
        method : "auto", "exact", "tiles" or LearnedTiles, default "auto"
            The default method of searches. "auto" learns tiles, measures the methods, and keeps the fastest that
            reaches `target_recall`; with fewer than 5,000 items it is exact search. "exact" certifies every answer and
            learns no tiles. `LearnedTiles` learns tiles and searches them; "tiles" is short for `LearnedTiles()`.
        schema : Schema, default None
            How factors become sparse vectors, for `Slots`, `candidates` and `explain`. None means
            Schema(Ternary(), OneHot(), threshold=2.5, rotation="principal").
        target_recall : float, default None
            The share of the true top k to find, with 95% confidence, at every k, with or without excluded items. None
            means 0.95. With `LearnedTiles`, methods are measured only if `target_recall` or `queries` is given; the
            plan may then choose another method that is faster.
        queries : array_like of shape (n_queries, n_factors), default None
            User factors to measure with. None generates queries from the items, as described in `tune`.
        k : int, default 10
            The k you search with most often. The plan is measured at this k, and at 1, 10, 30, 100, 300 and 1,000.
        threads : int, default None
            How many threads to use; None uses every CPU. Does not affect results.
        """
        count = thread_count(threads)
        tiles = _tiles_of(method)
        if schema is not None and not isinstance(schema, Schema):
            hint = "; pass it as method" if isinstance(schema, LearnedTiles | str) else ""
            raise TypeError(f"schema is a {type(schema).__name__}, but must be a tessella.Schema{hint}.")
        target = _checks.number_between(0.95 if target_recall is None else target_recall, "target_recall", 0.0, 1.0)
        measured = target_recall is not None or queries is not None
        wanted = _checks.whole_number(k, "k", 1, LARGEST_K)
        if method == "exact" and (queries is not None or (target_recall is not None and target < 1)):
            raise ValueError(
                "target_recall and queries do not apply to method='exact', whose recall is always 1; leave them out."
            )
        factors = _checks.item_factors(item_factors)
        if not len(factors):
            raise ValueError("item_factors has 0 rows, but an index needs at least 1 item.")
        checked = np.arange(len(factors)) if ids is None else _checks.ids(ids, len(factors))
        asked = None
        if queries is not None:
            longest = float(_checks.norms_fit(factors, "item_factors").max())
            asked = checked_queries(queries, factors.shape[1], longest)
        if method == "auto" and not may_gain(len(factors), target):
            tiles = None
        version = built(factors, checked, schema or DEFAULT_SCHEMA, tiles, count)
        if method == "exact":
            return cls(replace(version, plan=EXACT_PLAN))
        if method == "auto":
            return cls(choose(version, asked, target, wanted))
        version = replace(version, plan=TILES_PLAN)
        return cls(replace(version, plan=tuned(version, asked, target, wanted)) if measured else version)

    def search(
        self,
        queries: ArrayLike,
        k: int = 10,
        *,
        method: Method | None = None,
        exact: bool = False,
        exclude: Any = None,
        allow: Any = None,
        threads: int | None = None,
    ) -> SearchResult:
        """Find each query's top k items by inner product.

        Parameters
        ----------
        queries : array_like of shape (n_queries, n_factors) or (n_factors,)
            User factors.
        k : int, default 10
            How many items to return, at least 1. Missing answers have id -1 (None for string ids) and score -inf.
        method : Exact, Tiles, Slots or None, default None
            How to search. None follows `plan`.
        exact : bool, default False
            Short for ``method=Exact()``: return the true top k.
        exclude : ids, list of n_queries sequences of ids, matrix, mask or PreparedFilter, default None
            Items to leave out, such as those a user has seen. A flat sequence of ids applies to all queries; it can be
            a list, a set, a NumPy array, or a Series or array from pandas, polars or Arrow. A list of sequences, or an
            array of two dimensions, has one sequence per query; -1 and None are skipped. Unknown ids are ignored, with
            a warning if most are unknown. A SciPy sparse matrix or a boolean mask has shape (n_queries, n_items) or
            (n_items,), and column j is item ``index.ids[j]``. Every stored entry of a sparse matrix counts, whatever
            its value. If items have been removed, or columns are in another order, pass ``(matrix, column_ids)``.
        allow : ids, list of n_queries sequences of ids, matrix, mask or PreparedFilter, default None
            The only items that may be returned, in any of the forms of `exclude`. If at most 256 items, or an eighth of
            all items, are allowed, answers are exact and `n_scored` is the number allowed. `filter` prepares a filter
            for many searches.
        threads : int, default None
            How many threads to use; None uses every CPU. Does not affect results.

        Returns
        -------
        found : SearchResult
            ids, scores, n_scored, certified; unpacks as ids, scores. Answers are in order of falling score; ties go to
            the item that was added first. For a query of zeros every score is 0, so the first items are returned.
        """
        how = method if exact is False else short_form(method, exact)
        found = search(self._version, queries, k, how, exclude, allow, threads)
        if self._traffic is not None:
            self._keep(queries)
        return found

    @overload
    def search_all(
        self,
        user_factors: ArrayLike | str | os.PathLike[str],
        k: int = 10,
        *,
        method: Method | None = None,
        exact: bool = False,
        exclude: Any = None,
        allow: Any = None,
        user_ids: ArrayLike | None = None,
        out: str | os.PathLike[str] | None = None,
        overwrite: bool = False,
        progress: bool | None = None,
        threads: int | None = None,
    ) -> SearchResult: ...

    @overload
    def search_all(
        self,
        user_factors: ArrayLike | str | os.PathLike[str],
        k: int = 10,
        *,
        method: Method | None = None,
        exact: bool = False,
        exclude: Any = None,
        allow: Any = None,
        user_ids: ArrayLike | None = None,
        out: Callable[[int, SearchResult], object],
        overwrite: bool = False,
        progress: bool | None = None,
        threads: int | None = None,
    ) -> None: ...

    def search_all(
        self,
        user_factors: ArrayLike | str | os.PathLike[str],
        k: int = 10,
        *,
        method: Method | None = None,
        exact: bool = False,
        exclude: Any = None,
        allow: Any = None,
        user_ids: ArrayLike | None = None,
        out: Output = None,
        overwrite: bool = False,
        progress: bool | None = None,
        threads: int | None = None,
    ) -> SearchResult | None:
        """Search for all users, block by block. The answers are bit for bit those of `search`.

        The whole job uses the version of the index at the time of the call. All users and filters are checked before
        the first search. Apart from the returned arrays, memory use does not grow with the number of users.

        Parameters
        ----------
        user_factors : array_like of shape (n_users, n_factors), or path
            A memory map, or a .npy file given by its path, is read as needed.
        k : int, default 10
            How many items to return for each user, as for `search`. A large k makes blocks smaller.
        method, exact
            As for `search`.
        exclude, allow
            As for `search`, for all users or for each of them. Sparse matrices in other formats are converted to CSR.
        user_ids : array_like of shape (n_users,), default None
            Integers or strings to store in the folder `out`.
        out : path or callable, default None
            Where the answers go. None returns them. A callable is called for each block in turn, with the number of its
            first user and its `SearchResult`; an exception that it raises ends the job. A path names a folder to
            create, with ids.npy, scores.npy, n_scored.npy and certified.npy for ``np.load(file, mmap_mode="r")``, and
            users.json, the list of `user_ids`. If item ids are strings, items.json lists them and ids.npy holds
            positions in that list. -1 means no item.

            Until the folder is complete, its name ends in ``.partial``. After an interruption, a crash or a full disk,
            repeat the call to resume. The job resumes only if everything that affects answers is unchanged: tessella's
            version, the index, n_users, k, the options (except threads), the factors and filters of the users already
            answered, and the stored answers. Otherwise it raises an error. The index is unchanged if it was loaded from
            the same file; or if it was built from the same factors, ids and schema, went through the same changes, and
            has the same plan. A rebuilt index may differ: "auto" may choose another plan, and on another processor
            LAPACK may round differently. So save the index if you may have to resume.
        overwrite : bool, default False
            Whether to replace a finished folder, once the new one is complete, or a partial one that cannot be resumed.
        progress : bool, default None
            Whether to show a progress bar on stderr; None shows one if stderr is a terminal.
        threads : int, default None
            How many threads to use; None uses every CPU. Does not affect results.

        Returns
        -------
        found : SearchResult, or None if `out` is a callable
            ids, scores, n_scored, certified. If `out` is a path, the arrays are memory-mapped and read-only, and string
            ids are looked up as they are read.

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
        return search_all(
            self._version,
            user_factors,
            k,
            method=method if exact is False else short_form(method, exact),
            exclude=exclude,
            allow=allow,
            user_ids=None if user_ids is None else _checks.ids(user_ids, None, unique=False, name="user_ids"),
            out=out,
            overwrite=overwrite,
            progress=progress,
            threads=threads,
        )

    @overload
    def kneighbors(
        self,
        X: ArrayLike | None = None,  # noqa: N803
        n_neighbors: int = 5,
        return_distance: Literal[True] = True,
        *,
        threads: int | None = None,
    ) -> tuple[NDArray[np.float32], NDArray[Any]]: ...

    @overload
    def kneighbors(
        self,
        X: ArrayLike | None = None,  # noqa: N803
        n_neighbors: int = 5,
        *,
        return_distance: Literal[False],
        threads: int | None = None,
    ) -> NDArray[Any]: ...

    def kneighbors(
        self,
        X: ArrayLike | None = None,  # noqa: N803
        n_neighbors: int = 5,
        return_distance: bool = True,
        *,
        threads: int | None = None,
    ) -> tuple[NDArray[np.float32], NDArray[Any]] | NDArray[Any]:
        """Find the nearest items, with the arguments and the order of results of scikit-learn's `NearestNeighbors`.

        An inner product is not a distance. Here the distance is its negative, so the item with the largest inner
        product comes first and distances ascend, but they may be below 0, and an item is not always nearest to itself.
        For rows of length 1, adding 1 gives scikit-learn's cosine distance. Answers are exact, as in scikit-learn.
        `search` has more options, and is faster if the plan is approximate.

        Parameters
        ----------
        X : array_like of shape (n_queries, n_factors) or (n_factors,), default None
            Queries, such as user factors. None finds the neighbours of every item in `ids`, without the item itself.
        n_neighbors : int, default 5
            How many items to return, at most the number of items.
        return_distance : bool, default True
            Whether to return distances as well.
        threads : int, default None
            How many threads to use; None uses every CPU. Does not affect results.

        Returns
        -------
        distances : ndarray of float32, shape (n_queries, n_neighbors)
            Negative inner products, ascending. Not returned if `return_distance` is false.
        indices : ndarray of shape (n_queries, n_neighbors)
            Item ids, which are row numbers unless `build` was given others. Of equally near items, the one that was
            added first comes first.

        Examples
        --------
        >>> import tessella as ts
        >>> index = ts.Index.build([[1.0, 0.0], [0.0, 2.0], [3.0, 1.0]])
        >>> distances, indices = index.kneighbors([[2.0, 1.0]], n_neighbors=2)
        >>> distances, indices
        (array([[-7., -2.]], dtype=float32), array([[2, 0]]))
        >>> index.kneighbors(n_neighbors=1, return_distance=False)
        array([[2],
               [2],
               [0]])
        """
        _checks.true_or_false(return_distance, "return_distance")
        version = self._version
        wanted = _checks.whole_number(n_neighbors, "n_neighbors", 1)
        if wanted > version.n_live - (X is None):
            why = ", and an item is not its own neighbour" if X is None else ""
            raise ValueError(f"n_neighbors is {wanted}, but the index holds {version.n_live} items{why}.")
        queries = version.factors_at(version.live_positions) if X is None else X
        itself = version.ids[:, None] if X is None else None
        found = search(version, queries, wanted, _EXACT, itself, None, threads)
        return (0 - found.scores, found.ids) if return_distance else found.ids  # no -0 where the product is 0

    def candidates(self, queries: ArrayLike, *, min_overlap: int = 1) -> scipy.sparse.csr_array:
        """Return the paper's candidate sets (P12): how many slots each query shares with each item.

        Queries are mapped in the same way as items, including the threshold. An absolute threshold is a multiple of the
        items' scale, so queries that are shorter than the items may keep no slots and get no candidates. If so, scale
        the queries, or build with ``threshold_kind="relative"``. This method is for study: `search` does not use it,
        and by default applies no threshold to queries.

        Parameters
        ----------
        queries : array_like of shape (n_queries, n_factors) or (n_factors,)
            User factors.
        min_overlap : int, default 1
            The least number of slots that a candidate shares with the query.

        Returns
        -------
        overlaps : scipy.sparse.csr_array of int32, shape (n_queries, n_items)
            Column j is item ``index.ids[j]``.

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
        version = self._version
        array = _checks.numbers(queries, "queries")
        asked = _checks.all_factors(array[None] if array.ndim == 1 else array, "queries", version.fitted.n_factors)
        _checks.norms_fit(asked, "queries")
        counts = overlaps(version, asked)
        counts.data[counts.data < least] = 0
        counts.eliminate_zeros()
        return counts

    def explain(
        self,
        query: ArrayLike,
        item_id: int | str,
        k: int = 10,
        *,
        method: Method | None = None,
        exact: bool = False,
        exclude: Any = None,
        allow: Any = None,
    ) -> Explanation:
        """Explain why a search returned an item, or why it did not.

        Runs the search, then says whether a filter removed the item, whether k other items score higher, or why the
        method missed it.

        Parameters
        ----------
        query : array_like of shape (n_factors,)
            A user factor.
        item_id : int or str
            The id of an item in the index.
        k, method, exact, exclude, allow
            As for `search`.

        Examples
        --------
        >>> import numpy as np
        >>> import tessella as ts
        >>> rng = np.random.default_rng(0)
        >>> index = ts.Index.build(rng.standard_normal((1000, 16)) * rng.lognormal(0, 1, (1000, 1)))
        >>> print(index.explain(rng.standard_normal(16), item_id=7))
        Item 7 scores 0.00201726 and ranks 518 of 1,000.
        A search for the top 10 (exact) does not reach it: that needs a k of at least 518.
        """
        version = self._version
        array = _checks.numbers(query, "query")
        if array.ndim != 1:
            raise ValueError(f"query has {array.ndim} dimensions, but must have 1.")
        factor = _checks.all_factors(array[None], "query", version.fitted.n_factors)
        _checks.products_fit(factor, version.longest, "query")
        item = _checks.ids([item_id], 1)
        how = method if exact is False else short_form(method, exact)
        position = int(version.positions_of(item)[0])
        return explain(version, factor[0], item[0].item(), position, k, how, exclude, allow)

    def filter(self, *, exclude: Any = None, allow: Any = None) -> PreparedFilter:
        """Prepare a filter once, to use in any number of searches.

        Ids are looked up here, and again by the first search that uses the filter after the index has changed. So a
        filter is never out of date, and a long list is not resolved again for every search. The filter copies its
        arguments.

        Parameters
        ----------
        exclude, allow
            As for `search`: for all queries, or one sequence per query. In the second case, later searches must have
            the same number of queries.

        Returns
        -------
        filter : PreparedFilter
            Pass it as ``allow``. A filter that only excludes may also be passed as ``exclude``.

        Examples
        --------
        >>> import numpy as np
        >>> import tessella as ts
        >>> index = ts.Index.build(np.eye(3))
        >>> in_stock = index.filter(allow=[1, 2, 3])
        >>> index.search([3.0, 2.0, 1.0], k=3, allow=in_stock).ids
        array([ 1,  2, -1])
        >>> index.add([[1.0, 1.0, 1.0]], ids=[3])
        >>> index.search([3.0, 2.0, 1.0], k=3, allow=in_stock).ids
        array([3, 1, 2])
        """
        if exclude is None and allow is None:
            raise ValueError("a filter needs exclude, allow or both, but neither was passed.")
        return PreparedFilter(self._version, exclude, allow)

    @property
    def plan(self) -> Plan:
        """The default search method, and why it was chosen.

        Recall is measured again, on queries generated from the items, once the items added, updated and removed since
        the last measurement exceed 10% of the items there were then. If recall has fallen below the target, `stale`
        says so, and what to do. The measurement takes some milliseconds, here and in `repr`; searches never wait for
        it.

        Examples
        --------
        >>> import numpy as np
        >>> import tessella as ts
        >>> ts.Index.build(np.eye(3)).plan.method
        Exact()
        """
        self._judgement = known = judged(self._version, self._judgement)
        return replace(known.plan, stale=known.verdict) if known is not None else self._version.plan

    def tune(self, queries: ArrayLike | None = None, target_recall: float = 0.95, k: int = 10) -> Plan:
        """Select the search method again without rebuilding.

        Measures the methods that the index was built for, and chooses the fastest that reaches the target recall with
        95% confidence: at every k, and also when a query's best items are excluded.

        Parameters
        ----------
        queries : array_like of shape (n_queries, n_factors), default None
            User factors; up to 2,000 of them are used. None generates two kinds of queries from the items: noisy
            mixtures of two items, and queries close to one item with the spread along the principal axes evened out.
            Longer items are drawn more often. The harder kind decides.
        target_recall : float, default 0.95
            The share of the true top k to find, 0 to 1.
        k : int, default 10
            The k you search with most often. Measured in addition to 1, 10, 30, 100, 300 and 1,000.

        Returns
        -------
        plan : Plan
            The chosen method, with its measured recall and the recall's lower bound.

        Examples
        --------
        >>> import tessella as ts
        >>> from tessella.datasets import generated_factors
        >>> item_factors, user_factors = generated_factors(5_000, 100)
        >>> index = ts.Index.build(item_factors, method=ts.LearnedTiles())
        >>> plan = index.tune(user_factors, target_recall=0.9)
        >>> recall, at_least = plan.recall
        >>> bool(recall >= at_least >= 0.9)
        True
        """
        target = _checks.number_between(target_recall, "target_recall", 0.0, 1.0)
        wanted = _checks.whole_number(k, "k", 1, LARGEST_K)
        with self._writing:
            version = self._version
            if not version.n_live:
                raise ValueError("the index holds no items, but at least 1 is needed to tune; add some first.")
            asked = checked_queries(queries, version.fitted.n_factors, version.longest)
            plan = tuned(version, asked, target, wanted)
            self._version = _ready(replace(version, plan=plan, n_changed=0))
        return plan

    def tune_from_traffic(self, n: int = 2_000, target_recall: float | None = None, k: int | None = None) -> None:
        """Collect queries from live searches, then tune on them.

        Copies the next n queries, at most a quarter of them from any one call of `search`. Queries of `search_all` are
        not collected. Once there are n, a background thread tunes as `tune` does and replaces the plan, whose reason
        then says "from traffic". While it tunes, searches continue and changes to the index wait. No queries are
        collected afterwards.

        Parameters
        ----------
        n : int, default 2000
            How many queries to collect. More than 2,000 bring no benefit. 0 stops collecting and discards the queries
            collected so far.
        target_recall : float, default None
            The share of the true top k to find. None uses the plan's target, or 0.95 if it has none.
        k : int, default None
            As for `tune`. None uses the plan's k.

        Examples
        --------
        >>> import time
        >>> import tessella as ts
        >>> from tessella.datasets import generated_factors
        >>> item_factors, user_factors = generated_factors(5_000, 400)
        >>> index = ts.Index.build(item_factors, method="tiles")
        >>> index.tune_from_traffic(n=100)
        >>> for user in user_factors[:100]:
        ...     found = index.search(user)
        >>> while "traffic" not in index.plan.reason:
        ...     time.sleep(0.01)
        >>> index.plan.reason
        'the fastest method with a recall of at least 0.95, on 100 queries from traffic'
        """
        count = _checks.whole_number(n, "n", 0, LARGEST_K)
        plan = self._version.plan
        asked = (plan.target_recall or 0.95) if target_recall is None else target_recall
        target = _checks.number_between(asked, "target_recall", 0.0, 1.0)
        wanted = plan.k if k is None else _checks.whole_number(k, "k", 1, LARGEST_K)
        self._traffic = Traffic(count, self.n_factors, target, wanted) if count else None

    def _keep(self, queries: ArrayLike) -> None:
        """Collect answered queries, and start to tune once there are enough."""
        traffic = self._traffic
        if traffic is not None and traffic.offer(queries):
            self._traffic = None
            run_aside(functools.partial(self._tune_on, traffic))

    def _tune_on(self, traffic: Traffic) -> None:
        """Tune on collected queries, unless no items are left or the interpreter is shutting down."""
        with self._writing, contextlib.suppress(Ending):
            version = self._version
            if version.n_live:
                plan = tuned(
                    version, traffic.queries, traffic.target_recall, traffic.k, source="from traffic", pause=go_on
                )
                self._version = _ready(replace(version, plan=plan, n_changed=0))

    def add(self, item_factors: ArrayLike, ids: ArrayLike) -> None:
        """Add items; the next search sees them.

        Parameters
        ----------
        item_factors : array_like of shape (n, n_factors)
            Finite numbers.
        ids : array_like of shape (n,)
            New ids of the same type as those in the index.
        """
        factors = _checks.item_factors(item_factors, self.n_factors)
        checked = _checks.ids(ids, len(factors))
        with self._writing:
            self._version = added(self._version, factors, checked)

    def update(self, item_factors: ArrayLike, ids: ArrayLike) -> None:
        """Replace the factors of items. Ties are still broken by when an item was first added.

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
            self._version = updated(self._version, factors, checked)

    def remove(self, ids: ArrayLike) -> None:
        """Remove items; the next search no longer sees them.

        Parameters
        ----------
        ids : array_like of shape (n,)
            Ids in the index.
        """
        checked = _checks.ids(ids, None)
        with self._writing:
            self._version = removed(self._version, checked)

    def drift(self) -> Drift:
        """Compare the items added or updated since the index was fitted with those it was fitted to.

        Reads the new items and, with tiles, a sample of the others. If `needs_rebuild` is true, `rebuild` makes
        searches fast again and restores the recall of tile search. Exact answers are correct either way.

        Examples
        --------
        >>> import numpy as np
        >>> import tessella as ts
        >>> rng = np.random.default_rng(0)
        >>> index = ts.Index.build(rng.standard_normal((1000, 8)))
        >>> index.add(100 * rng.standard_normal((500, 8)), 1000 + np.arange(500))
        >>> index.drift().needs_rebuild
        True
        """
        return drift(self._version)

    def rebuild(self, *, queries: ArrayLike | None = None, threads: int | None = None) -> None:
        """Fit the index again to the items it holds. Searches continue meanwhile; other changes wait.

        If the plan was measured, by `build` or `tune`, it is measured again for the same target recall.

        Parameters
        ----------
        queries : array_like of shape (n_queries, n_factors), default None
            User factors to measure with, as for `tune`.
        threads : int, default None
            How many threads to use; None uses every CPU. Does not affect results.

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
            if not self._version.n_live:
                raise ValueError("the index holds no items, but at least 1 is needed to fit; add some first.")
            version = self._version
            asked = checked_queries(queries, version.fitted.n_factors, version.longest)
            fresh = rebuilt(version, tiles_to_rebuild(version), count)
            self._version = _ready(planned_again(fresh, asked))

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the index to one file, atomically.

        Segments are merged in the file. Exact answers and `candidates` are the same after loading. If the index was
        changed since it was built, two approximate methods may return a few different items after loading: slots
        search, which rounds impacts per segment, and tile search with a reach below 1, because tiles of several
        segments are merged.

        Parameters
        ----------
        path : str or path
            The file to write. An existing file stays unchanged until the new one is complete.
        overwrite : bool, default False
            Whether to replace an existing file.

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
        storage.write(Path(path), *snapshot(self._version), overwrite=overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, mmap: bool = False) -> Self:
        """Load an index that `save` wrote. A damaged file, or one of another kind, raises ValueError.

        Parameters
        ----------
        path : str or path
            The file to read.
        mmap : bool, default False
            Whether to map the arrays into memory instead of reading them, so that processes share them. The file must
            not be modified while it is mapped.
        """
        return cls(restore(*storage.read(Path(path), mmap=mmap), name=str(path)))

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_bytes, (type(self), storage.to_bytes(*snapshot(self._version)))

    @property
    def ids(self) -> NDArray[Any]:
        """The item ids, in the order in which the items were added; read-only."""
        return self._version.ids

    @property
    def schema(self) -> Schema:
        """How factors become sparse vectors."""
        return self._version.fitted.sparse_map.schema_

    @property
    def tiles(self) -> LearnedTiles | None:
        """The parameters of the learned tiles, or None if there are none."""
        tiling = self._version.fitted.tiling
        return None if tiling is None else tiling.parameters

    @property
    def n_factors(self) -> int:
        """The number of coordinates of a factor."""
        return self._version.fitted.n_factors

    @property
    def version(self) -> int:
        """The number of changes made so far."""
        return self._version.number

    @property
    def nbytes(self) -> int:
        """The memory of all arrays in bytes, factors included."""
        return sum(self.memory.values())

    @property
    def memory(self) -> dict[str, int]:
        """Bytes per part. Exact search reads the codes, slots search the postings, tile search the tiles."""
        return self._version.memory()

    def __len__(self) -> int:
        return self._version.n_live

    def __contains__(self, item_id: object) -> bool:
        return _checks.may_be_id(item_id) and bool((self._version.find(_checks.ids([item_id], 1)) >= 0).any())

    def __getitem__(self, ids: ArrayLike) -> NDArray[np.float32]:
        """Return the factors of one id or of several."""
        single = np.ndim(ids) == 0
        version = self._version
        positions = version.positions_of(_checks.ids([ids] if single else ids, None, unique=False))
        if not len(positions):
            return np.zeros((0, version.fitted.n_factors), np.float32)
        factors = version.factors_at(positions)
        return factors[0] if single else factors

    def __repr__(self) -> str:
        plan, tiling, schema = self.plan, self._version.fitted.tiling, self.schema
        size = f"{len(self):,} items x {self.n_factors} factors"
        slots = f"{type(schema.tessellation).__name__} and {type(schema.slot_map).__name__} slots"
        learned = "" if tiling is None else f"{len(tiling.centres):,} learned tiles, "
        stale = " (stale: use tune(queries) or rebuild())" if plan.stale else ""
        return f"Index of {size}, search: {plan.method}{stale}; {learned}{slots}, {self.nbytes / 2**20:,.1f} MiB"


def exact_search(
    item_factors: ArrayLike, queries: ArrayLike, k: int = 10, *, threads: int | None = None
) -> SearchResult:
    """Find the true top k in a single call. To search the same items more than once, build an `Index`.

    Parameters
    ----------
    item_factors : array_like of shape (n_items, n_factors)
        Finite numbers, at least one row. Ids are the row numbers.
    queries, k, threads
        As for `Index.search`.

    Examples
    --------
    >>> import tessella as ts
    >>> ts.exact_search([[1, 0], [0, 1], [1, 1]], [2.0, 1.0], k=2).ids
    array([2, 0])
    """
    return Index.build(item_factors, method="exact", threads=threads).search(queries, k, threads=threads)


def _tiles_of(method: object) -> LearnedTiles | None:
    """Return the tiles that `build` learns for a method."""
    if isinstance(method, LearnedTiles):
        return method
    if isinstance(method, str):
        _checks.one_of(method, "method", ("auto", "exact", "tiles"))
        return None if method == "exact" else LearnedTiles()
    kind = type(method).__name__
    raise TypeError(f"method is a {kind}, but must be 'auto', 'exact', 'tiles' or a tessella.LearnedTiles.")


def short_form(method: Method | None, exact: bool) -> Method | None:
    """Return the method to use, given the arguments `method` and `exact`."""
    _checks.true_or_false(exact, "exact")
    if exact and method is not None and not isinstance(method, Exact):
        raise ValueError(f"exact=True and method={method!r} contradict each other; pass one of them.")
    return _EXACT if exact else method


def _ready(version: Version) -> Version:
    """Create the engine of a version now, so that the first search need not."""
    version.engine  # noqa: B018
    return version


def _from_bytes(kind: type[Index], data: bytes) -> Index:
    name = "the pickled index"
    return kind(restore(*storage.from_buffer(np.frombuffer(data, np.uint8), name), name=name))


_indexes: "weakref.WeakSet[Index]" = weakref.WeakSet()


def _release_locks() -> None:
    """Replace all locks in a forked child, where the threads that may have held them do not exist."""
    for index in _indexes:
        index._writing = threading.Lock()
        if index._traffic is not None:
            index._traffic.renew_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_release_locks)
