"""`Recommender`, the entry point for users and items together, and `Live`, which swaps one model for the next."""

import os
import threading
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella import _checks
from tessella.index import Index, short_form
from tessella.jobs.all_users import Output, checked_path
from tessella.mapping.schema import Schema
from tessella.recommend.all_users import recommended_to_all
from tessella.recommend.answering import Variety, Wish, answered
from tessella.recommend.asking import Asked, asked, item_ids, item_lists
from tessella.recommend.attributes import Attributes
from tessella.recommend.cursors import Cursor, following
from tessella.recommend.edition import Edition, some_vectors
from tessella.recommend.explaining import Reason, explained
from tessella.recommend.fold_in import fold_in
from tessella.recommend.seen import Seen
from tessella.recommend.signals import Moment, Signals
from tessella.recommend.similar import Similar, allowed_ids
from tessella.recommend.storage import packed, unpacked
from tessella.recommend.tables import Recommendations
from tessella.recommend.users import Users, user_factors
from tessella.results import SearchResult
from tessella.retrieval.plan import Method, Plan
from tessella.retrieval.tiles import LearnedTiles
from tessella.versions import storage
from tessella.versions.fingerprint import fingerprint


class Recommender:
    """The users and items of one trained model, with their metadata: recommends items and explains its choices.

    Create one with `build`. Any number of threads can query it while another changes it; each answer sees one version.

    Examples
    --------
    >>> import numpy as np
    >>> import tessella as ts
    >>> rng = np.random.default_rng(0)
    >>> item_factors, user_factors = rng.standard_normal((1000, 16)), rng.standard_normal((3, 16))
    >>> model = ts.Recommender.build(item_factors, user_factors, seen=[[119], [], [906, 237]])
    >>> model.recommend([0, 1, 2], k=2).ids
    array([[325, 103],
           [591, 799],
           [525, 264]])
    >>> page = model.recommend(1, k=2)
    >>> model.recommend(1, k=2, after=page.next).ids
    array([356, 204])
    """

    def __init__(self, edition: Edition) -> None:
        if not isinstance(edition, Edition):
            raise TypeError("create a Recommender with Recommender.build(item_factors) or Recommender.load(path).")
        self._edition = edition.ready()
        self._similar = Similar(edition.n_factors)
        self._writing = threading.Lock()
        _recommenders.add(self)

    @classmethod
    def build(
        cls,
        item_factors: ArrayLike,
        user_factors: ArrayLike | None = None,
        *,
        item_ids: ArrayLike | None = None,
        user_ids: ArrayLike | None = None,
        seen: Any = None,
        attributes: Any = None,
        signals: Any = None,
        method: Literal["auto", "exact", "tiles"] | LearnedTiles = "auto",
        schema: Schema | None = None,
        target_recall: float | None = None,
        queries: ArrayLike | None = None,
        k: int = 10,
        threads: int | None = None,
    ) -> Self:
        """Build a recommender from the factors of one trained model.

        Parameters
        ----------
        item_factors : array_like of shape (n_items, n_factors)
            Finite numbers, at least one row; stored as float32.
        user_factors : array_like of shape (n_users, n_factors) or (n_users, n_interests, n_factors), default None
            Must come from the same training run. If each user has several vectors, `recommend` takes the best score
            or the sum over them; pad users who have fewer vectors with zeros. A float32 memory map stays on disk.
        item_ids, user_ids : array_like, default None
            Unique integers or strings; None numbers them from 0.
        seen : sparse matrix of shape (n_users, n_items), or list of n_users sequences of ids, default None
            Items each user has already seen, which are not recommended again. Takes any per-query form of ``exclude``
            in `Index.search`. The values of a matrix are weights for folding in.
        attributes : dict of columns, or pandas, polars or Arrow table, default None
            Item metadata for `where` and `at_most`: strings, lists of strings or integers, numbers, dates or booleans;
            None marks a missing value. A column named "title" is shown in tables.
        signals : dict of numeric columns, or table, default None
            Item values that `boosts` can add to scores, as numbers or as `Decaying` times. Each signal adds one
            coordinate to the items.
        method, schema, target_recall, k, threads
            As in `Index.build`.
        queries : array_like of shape (n_queries, n_factors), default None
            User factors to measure the plan with; None samples `user_factors`, if given.

        Examples
        --------
        >>> import tessella as ts
        >>> model = ts.Recommender.build([[1, 0], [0, 1]], [[2, 1]], item_ids=["tea", "mate"], user_ids=["ann"])
        >>> model
        Recommender of 2 items and 1 user x 2 factors, search: exact
        """
        factors = _checks.item_factors(item_factors)
        n, n_factors = factors.shape
        known = None if attributes is None else Attributes.of(attributes, n)
        fitted = None if signals is None else Signals.fit(signals, factors)
        if queries is None and user_factors is not None and (method == "auto" or target_recall is not None):
            queries = _some(user_factors, n_factors) if method != "exact" else None
        measured = None if queries is None else _checks.all_factors(queries, "queries", n_factors)
        if measured is not None and fitted is not None:
            queries = np.hstack([measured, fitted.query_part(None, len(measured))])
        index = Index.build(
            factors if fitted is None else fitted.extend(factors),
            item_ids,
            method=method,
            schema=schema,
            target_recall=target_recall,
            queries=queries,
            k=k,
            threads=threads,
        )
        version = index._version
        users = Users.of(version, user_factors, user_ids, seen, n_factors)
        generation = fingerprint(factors, version.ids, None if users is None else users.digest())[:12]
        return cls(Edition(version, users, known, fitted, generation, 0).with_boosting(measured))

    def recommend(
        self,
        users: Any = None,
        k: int = 10,
        *,
        liked: Any = None,
        like: Any = None,
        dislike: Any = None,
        exclude_seen: bool = True,
        where: Any = None,
        boosts: Mapping[str, Any] | None = None,
        now: Moment | None = None,
        exclude: Any = None,
        allow: Any = None,
        after: str | None = None,
        interests: Literal["best", "sum"] = "best",
        variety: Variety | None = None,
        method: Method | None = None,
        exact: bool = False,
        regularization: float = 0.01,
        alpha: float = 1.0,
        threads: int | None = None,
    ) -> Recommendations:
        """Recommend items to known users, to vectors, or to someone of whom only the likes are known.

        Parameters
        ----------
        users : id, sequence of ids, or array of vectors, default None
            Integers or strings are user ids. Vectors have shape (n_factors,), (n_users, n_factors), or
            (n_users, n_interests, n_factors).
        k : int, default 10
            How many items to return per user. If there are fewer, the rest have id -1 (None for string ids) and score
            -inf.
        liked : sequence of item ids, mapping of ids to weights, or a list of these for each user, default None
            Recommend to someone who was not in training, using `fold_in`. With `users`, these items are added to those
            the users have seen.
        like, dislike : sequence of item ids, or a list of these for each query, default None
            Recommend without a user: query with the mean vector of the items in `like` minus that of the items in
            `dislike`.
        exclude_seen : bool, default True
            Whether to leave out items the users have seen, and items named in `liked`, `like` and `dislike`.
        where : dict, default None
            A condition on item attributes, written alike in Python and JSON, such as
            ``{"genre": {"any": ["comedy", "drama"]}, "year": {"from": 1990}, "not": {"adult": True}}``.
        boosts : dict of weights by signal, default None
            Adds the sum of weight x signal to each score. A weight is one number, or one for each user.
        now : float, str, datetime or datetime64, default None
            The time at which decaying signals are evaluated; None is the current time. Pass a fixed time to make a
            request repeatable. A number is seconds since 1970; a string looks like "2030-12-31T12:00" and is UTC unless
            it names a time zone.
        exclude, allow
            As in `Index.search`, for all users or for each, in addition to the other filters.
        after : str, default None
            The `next` of the previous page; returns the page after it. With exact search, the pages add up to the long
            list. If items change between pages, no item appears twice: each page holds the best items not shown yet, as
            they are now. `after_version` of a page says which version the previous page saw.
        interests : "best" or "sum", default "best"
            How to combine the scores of a user's several vectors: take the best, or their sum. Vectors of zeros are
            ignored.
        variety : at_most(...), diversify(...) or None, default None
            A rule that makes lists more varied. `at_most` gives the true top k under its rule and searches deeper where
            necessary; if fewer than k items satisfy the rule, the list is short. A rule applies across all pages of a
            list.
        method : Exact, Tiles, Slots or None, default None
            How to search. None follows `plan`.
        exact : bool, default False
            Short for ``method=Exact()``: return the true top k.
        regularization, alpha : float
            As in `fold_in`; used with `liked`.
        threads : int, default None
            How many threads to use; None uses every CPU. Does not affect results.

        Returns
        -------
        found : Recommendations
            Ids, scores and more; unpacks as ``ids, scores`` and prints as a table.

        Examples
        --------
        >>> import numpy as np
        >>> import tessella as ts
        >>> model = ts.Recommender.build(np.eye(4), [[4.0, 3.0, 2.0, 1.0]], user_ids=["ann"], seen=[[0]])
        >>> model.recommend("ann", k=2).ids
        array([1, 2])
        >>> model.recommend("ann", k=2, exclude_seen=False, exclude=[1]).ids
        array([0, 2])
        >>> model.recommend(like=[3], k=1, exclude_seen=False).ids
        array([3])
        """
        edition = self._edition
        who = asked(edition, users, liked, like, dislike, regularization, alpha)
        wish = Wish(
            k=k,
            cursor=_cursor(edition, who, after),
            method=method if exact is False else short_form(method, exact),
            exclude_seen=exclude_seen,
            where=where,
            boosts=boosts,
            now=now,
            exclude=exclude,
            allow=allow,
            interests=interests,
            variety=variety,
            threads=threads,
        )
        return _shown(edition, who, wish.cursor, answered(edition, who, wish))

    def recommend_all(
        self,
        k: int = 10,
        *,
        exclude_seen: bool = True,
        where: Any = None,
        boosts: Mapping[str, Any] | None = None,
        now: Moment | None = None,
        exclude: Any = None,
        allow: Any = None,
        interests: Literal["best", "sum"] = "best",
        variety: Variety | None = None,
        method: Method | None = None,
        exact: bool = False,
        out: Output = None,
        overwrite: bool = False,
        progress: bool | None = None,
        threads: int | None = None,
    ) -> Recommendations | None:
        """Recommend items to all users, one block of users at a time.

        The lists are those that `recommend` returns. The whole job sees the version of the recommender at the time of
        the call. Apart from the returned result, memory does not grow with the number of users.

        Parameters
        ----------
        k, exclude_seen, where, boosts, interests, variety, method, exact
            As in `recommend`.
        now : float, str, datetime or datetime64, default None
            As in `recommend`, for the whole job. To resume a job with decaying signals, pass the same time again.
        exclude, allow
            As in `recommend`, for all users or for each, in the order of `user_ids`.
        out : path or callable, default None
            Where the lists go, as in `Index.search_all`. None returns them. A callable is called for each block with
            the number of its first user and its lists. A path names a folder to create; after an interruption, repeat
            the call to resume.
        overwrite, progress, threads
            As in `Index.search_all`.

        Returns
        -------
        found : Recommendations, or None if `out` is a callable
            One row per user, in the order of `user_ids`; memory-mapped if `out` is a path.

        Examples
        --------
        >>> import numpy as np
        >>> import tessella as ts
        >>> model = ts.Recommender.build(np.eye(3), [[3.0, 2.0, 1.0], [1.0, 2.0, 3.0]], seen=[[0], []])
        >>> model.recommend_all(k=2).ids
        array([[1, 2],
               [2, 1]])
        """
        edition = self._edition
        path = checked_path(out, overwrite, progress)
        now = time.time() if now is None else now
        wish = Wish(
            k=k,
            exclude_seen=exclude_seen,
            where=where,
            boosts=boosts,
            now=now,
            exclude=exclude,
            allow=allow,
            interests=interests,
            variety=variety,
            method=method if exact is False else short_form(method, exact),
            threads=threads,
        )
        users = edition.known_users()
        take = None
        if callable(out):
            each = out

            def take(first: int, found: SearchResult) -> object:
                ids = users.ids[first : first + len(found.ids)]
                return each(first, _shown(edition, Asked(found.scores, False, ids, named=(ids,)), None, found))

        found = recommended_to_all(edition, wish, path, take, overwrite=overwrite, progress=progress)
        everybody = Asked(np.zeros(0), False, users.ids, named=(users.ids,))
        return None if found is None else _shown(edition, everybody, None, found)

    def explain(
        self,
        users: Any = None,
        item: int | str | None = None,
        k: int = 10,
        *,
        liked: Any = None,
        like: Any = None,
        dislike: Any = None,
        exclude_seen: bool = True,
        where: Any = None,
        boosts: Mapping[str, Any] | None = None,
        now: Moment | None = None,
        exclude: Any = None,
        allow: Any = None,
        after: str | None = None,
        interests: Literal["best", "sum"] = "best",
        variety: Variety | None = None,
        method: Method | None = None,
        exact: bool = False,
        regularization: float = 0.01,
        alpha: float = 1.0,
    ) -> Reason:
        """Explain why an item is, or is not, recommended to a user.

        Parameters
        ----------
        users : id or vector, default None
            One user, as in `recommend`.
        item : int or str
            The id of the item.
        k, liked, like, dislike, exclude_seen, where, boosts, now, exclude, allow, after
            As in `recommend`.
        interests, variety, method, exact, regularization, alpha
            As in `recommend`.

        Examples
        --------
        >>> import tessella as ts
        >>> items = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
        >>> titles = {"title": ["Alien", "Brazil", "Cube"]}
        >>> model = ts.Recommender.build(items, [[2.0, 1.0]], seen=[[2]], attributes=titles)
        >>> print(model.explain(0, item=0))
        'Alien' (0) scores 2.
        A search for the top 10 (exact) returns it at rank 1.
        Most similar items the user has seen or named, by cosine: 'Cube' (2) (0.71).
        >>> print(model.explain(0, item=2))
        'Cube' (2) scores 3.
        It is filtered out: the user has seen or named it.
        >>> films = ts.Recommender.build([[3.0], [2.0], [1.0]], attributes={"genre": ["comedy", "comedy", "drama"]})
        >>> print(films.explain([1.0], item=1, k=2, variety=ts.at_most(1, per="genre")))
        Item 1 scores 2.
        at_most(1, per='genre') filters it out: 'comedy' is already taken by item 0.
        """
        edition = self._edition
        if item is None:
            raise ValueError("item is missing; pass the id of the item to explain.")
        who = asked(edition, users, liked, like, dislike, regularization, alpha)
        wish = Wish(
            k=k,
            cursor=_cursor(edition, who, after),
            method=method if exact is False else short_form(method, exact),
            exclude_seen=exclude_seen,
            where=where,
            boosts=boosts,
            now=now,
            exclude=exclude,
            allow=allow,
            interests=interests,
            variety=variety,
        )
        return explained(edition, who, wish, item)

    def similar(
        self,
        items: Any,
        k: int = 10,
        *,
        metric: Literal["cosine", "inner product"] = "cosine",
        where: Any = None,
        exclude: Any = None,
        allow: Any = None,
        exact: bool = False,
        threads: int | None = None,
    ) -> Recommendations:
        """Find the items most similar to each given item; an item is not listed as similar to itself.

        Parameters
        ----------
        items : id, or sequence of ids
            Ids of existing items.
        k : int, default 10
            How many items to return for each.
        metric : "cosine" or "inner product", default "cosine"
            Cosine uses an index of unit factors, which is built on first use and updated after changes; `memory` lists
            its size. The inner product favours long factors, and so popular items.
        where
            As in `recommend`.
        exclude, allow
            As in `Index.search`, in any form except a prepared filter.
        exact : bool, default False
            Whether to return the true top k.
        threads : int, default None
            How many threads to use; None uses every CPU. Does not affect results.

        Examples
        --------
        >>> import tessella as ts
        >>> model = ts.Recommender.build([[1.0, 0.0], [9.0, 9.0], [2.0, 0.2]], item_ids=["a", "b", "c"])
        >>> model.similar("a", k=2).ids
        array(['c', 'b'], dtype=object)
        >>> model.similar("a", k=2, metric="inner product").ids
        array(['b', 'c'], dtype=object)
        """
        edition = self._edition
        single = _checks.may_be_id(items)
        named = _checks.ids([items] if single else items, None, unique=False, name="items")
        if where is not None:
            allow = allowed_ids(edition.version, edition.mask_of(where), allow, len(named))
        found = self._similar.search(
            edition.version,
            items,
            k,
            metric=metric,
            exact=exact,
            exclude=exclude,
            allow=allow,
            threads=threads,
        )
        titles = edition.titles if edition.titled else None
        asked_for = named[0] if single else named
        return Recommendations(found, asked_for, edition.generation, edition.number, titles, None, who="like")

    def fold_in(
        self, items: Any, weights: ArrayLike | None = None, *, regularization: float = 0.01, alpha: float = 1.0
    ) -> NDArray[np.float32]:
        """Compute the vector of a user who was not in training, from the items they liked.

        Takes one least-squares step, like implicit's `recalculate_user`. For an ALS model trained with the same
        `regularization` and `alpha`, the result is the vector that training would compute next. For other models it is
        a ridge approximation: the direction is sensible, but the length differs from that of trained users.

        Parameters
        ----------
        items : sequence of ids, mapping of ids to weights, or a list of these for several users
            The liked items, each at most once per user.
        weights : array_like of shape (n,), default None
            How strongly each item was liked, for a single sequence of ids; None is 1. A negative weight is a dislike.
        regularization : float, default 0.01
            Added to the diagonal. Larger values give shorter vectors, closer to what everyone likes.
        alpha : float, default 1.0
            Multiplies the weights. Larger values follow the likes more closely.

        Returns
        -------
        vector : ndarray of float32, shape (n_factors,), or (n, n_factors) for several users

        Examples
        --------
        >>> import tessella as ts
        >>> model = ts.Recommender.build([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
        >>> model.fold_in([0], regularization=0.5, alpha=10)
        array([ 0.9009009 , -0.36036035], dtype=float32)
        """
        edition = self._edition
        lists, single = item_lists(items, "items")
        if weights is not None:
            if not single or lists[0][1] is not None:
                raise ValueError(
                    "weights needs a single sequence of ids; otherwise, pass mappings of ids to weights as items."
                )
            lists = [(lists[0][0], np.asarray(weights))]
        vectors = [edition.fold_in(ids, own, regularization, alpha) for ids, own in lists]
        return vectors[0] if single else np.stack(vectors)

    def fold_in_item(
        self, users: Any, weights: ArrayLike | None = None, *, regularization: float = 0.01, alpha: float = 1.0
    ) -> NDArray[np.float32]:
        """Compute the factor of a new item from the users who liked it.

        Parameters
        ----------
        users : sequence of ids
            The users who liked the item, each at most once.
        weights, regularization, alpha
            As in `fold_in`.

        Examples
        --------
        >>> import tessella as ts
        >>> model = ts.Recommender.build([[1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
        >>> model.add_items([model.fold_in_item([0], regularization=0.5, alpha=10)], ids=[1])
        """
        known = self._edition.known_users()
        ids = item_ids(users, "users")
        if not len(ids):
            raise ValueError("users is empty, but folding in an item needs at least 1 user who liked it.")
        return fold_in(
            known.factors_of(known.rows_of(ids)), weights, known.gram, regularization=regularization, alpha=alpha
        )

    def tune(self, queries: ArrayLike | None = None, target_recall: float = 0.95, k: int = 10) -> Plan:
        """Select the search method again without rebuilding, as `Index.tune` does.

        Parameters
        ----------
        queries : array_like of shape (n_queries, n_factors), default None
            Vectors to measure with; None samples the users or, if there are none, generates queries from the items.
        target_recall, k
            As in `Index.tune`.
        """
        with self._writing:
            self._swap(self._edition.tuned(queries, target_recall, k))
            return self._edition.version.plan

    def rebuild(self, *, queries: ArrayLike | None = None, threads: int | None = None) -> None:
        """Refit the index and the signals to the current items. Queries are served meanwhile; other changes wait.

        Parameters
        ----------
        queries : array_like of shape (n_queries, n_factors), default None
            As in `tune`.
        threads : int, default None
            How many threads to use; None uses every CPU. Does not affect results.
        """
        with self._writing:
            self._swap(self._edition.rebuilt(queries, threads))

    def add_items(
        self, item_factors: ArrayLike, ids: ArrayLike, *, attributes: Any = None, signals: Any = None
    ) -> None:
        """Add items. The next query sees them.

        Parameters
        ----------
        item_factors : array_like of shape (n, n_factors)
            Finite numbers from the same model; `fold_in_item` can compute them.
        ids : array_like of shape (n,)
            New ids, of the same type as those of the existing items.
        attributes, signals
            As in `build`, for the new items; required if the recommender has them.
        """
        with self._writing:
            self._swap(self._edition.with_items(item_factors, ids, attributes, signals))

    def update_items(
        self, item_factors: ArrayLike | None, ids: ArrayLike, *, attributes: Any = None, signals: Any = None
    ) -> None:
        """Give items new factors, attributes or signals.

        Parameters
        ----------
        item_factors : array_like of shape (n, n_factors), or None
            Finite numbers; None keeps the current factors.
        ids : array_like of shape (n,)
            Ids of existing items.
        attributes, signals
            As in `build`, for these items: all columns or some. Columns not given keep their values.

        Examples
        --------
        >>> import numpy as np
        >>> import tessella as ts
        >>> model = ts.Recommender.build(np.eye(2), attributes={"title": ["Alien", "Brazil"], "price": [9, 9]})
        >>> model.update_items(None, [1], attributes={"price": [5]})
        >>> model.recommend([2.0, 1.0], k=1, where={"price": {"below": 9}}).titles
        array(['Brazil'], dtype=object)
        """
        with self._writing:
            self._swap(self._edition.with_updates(item_factors, ids, attributes, signals))

    def remove_items(self, ids: ArrayLike) -> None:
        """Remove items. The next query no longer sees them. Who has seen them is kept, in case they come back.

        Parameters
        ----------
        ids : array_like of shape (n,)
            Ids of existing items.
        """
        with self._writing:
            self._swap(self._edition.without_items(ids))

    def add_users(self, user_factors: ArrayLike | None, ids: ArrayLike, *, seen: Any = None) -> None:
        """Add users. This copies the arrays of all users, so add many at once.

        Parameters
        ----------
        user_factors : array_like of shape (n, n_factors), or None
            Finite numbers from the same model; `fold_in` can compute them. None if users have no factors.
        ids : array_like of shape (n,)
            New ids, of the same type as those of the existing users.
        seen : as in `build`, default None
            The items they have seen.
        """
        with self._writing:
            edition = self._edition
            new = _checks.ids(ids, None)
            factors = _new_factors(user_factors, edition, len(new))
            users = edition.users
            if users is None:
                users = Users(new[:0], None if factors is None else factors[:0], None)
            lists = None if seen is None else Seen.of(edition.version, seen, len(new))
            self._swap(edition.with_users(users.added(edition.version, new, factors, lists)))

    def update_users(self, user_factors: ArrayLike | None, ids: ArrayLike, *, seen: Any = None) -> None:
        """Give users new factors, or replace the items they have seen. This copies the arrays of all users.

        Parameters
        ----------
        user_factors : array_like of shape (n, n_factors), or None
            Finite numbers; None keeps the current factors.
        ids : array_like of shape (n,)
            Ids of existing users.
        seen : as in `build`, default None
            All items they have seen; None keeps the current ones.
        """
        with self._writing:
            edition = self._edition
            named = _checks.ids(ids, None)
            users = edition.known_users()
            rows = users.rows_of(named)
            factors = _new_factors(user_factors, edition, len(named))
            lists = None if seen is None else Seen.of(edition.version, seen, len(named))
            self._swap(edition.with_users(users.updated(edition.version, rows, factors, lists)))

    def remove_users(self, ids: ArrayLike) -> None:
        """Remove users. This copies the arrays of all remaining users.

        Parameters
        ----------
        ids : array_like of shape (n,)
            Ids of existing users.
        """
        with self._writing:
            edition = self._edition
            users = edition.known_users()
            self._swap(edition.with_users(users.removed(users.rows_of(_checks.ids(ids, None)))))

    def _swap(self, after: Edition) -> None:
        """Answer from the next edition from now on."""
        self._edition = after.ready()

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the recommender to one file, atomically.

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
        >>> model = ts.Recommender.build(np.eye(3), [[3.0, 2.0, 1.0]])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "model.tessella"
        ...     model.save(path)
        ...     ts.Recommender.load(path).recommend(0, k=2).ids
        array([0, 1])
        """
        _checks.true_or_false(overwrite, "overwrite")
        storage.write(Path(path), *packed(self._edition), overwrite=overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, mmap: bool = False) -> Self:
        """Load a recommender that `save` wrote. A damaged file, or one of another kind, is refused.

        Parameters
        ----------
        path : str or path
            The file to read.
        mmap : bool, default False
            Whether to memory-map the arrays: they are read on demand and shared between processes. The file must then
            not be changed.
        """
        return cls(unpacked(*storage.read(Path(path), mmap=mmap), name=str(path)))

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_bytes, (type(self), storage.to_bytes(*packed(self._edition)))

    @property
    def index(self) -> Index:
        """An index of the current items, to search directly. Later changes to either do not affect the other."""
        return Index(self._edition.version)

    @property
    def plan(self) -> Plan:
        """How searches run by default, and why; see `Index.plan`."""
        return self.index.plan

    @property
    def generation(self) -> str:
        """An identifier of the model. Changes, `save` and `load` keep it; a model with other factors has another."""
        return self._edition.generation

    @property
    def version(self) -> int:
        """The number of changes made so far."""
        return self._edition.number

    @property
    def n_factors(self) -> int:
        """The number of coordinates of a factor."""
        return self._edition.n_factors

    @property
    def item_ids(self) -> NDArray[Any]:
        """The ids of the items, in the order in which they were added; read-only."""
        return self._edition.version.ids

    @property
    def user_ids(self) -> NDArray[Any]:
        """The ids of the users, in the order in which they were added; read-only."""
        users = self._edition.users
        return np.zeros(0, np.int64) if users is None else users.ids

    @property
    def memory(self) -> dict[str, int]:
        """The size of each part in bytes."""
        users = self._edition.users
        parts = {
            "users": users,
            "seen": None if users is None else users.seen,
            "attributes": self._edition.attributes,
            "signals": self._edition.signals,
            "unit factors": self._similar,
        }
        return self._edition.version.memory() | {name: part.nbytes for name, part in parts.items() if part is not None}

    @property
    def nbytes(self) -> int:
        """The size of all arrays in bytes."""
        return sum(self.memory.values())

    def _facts(self) -> dict[str, str]:
        """Return what the recommender holds, by name, for display."""
        edition = self._edition
        users = edition.users
        facts = {"items": f"{edition.version.n_live:,}", "factors": f"{edition.n_factors}"}
        if users is not None:
            facts["users"] = f"{len(users):,}"
            if users.n_interests > 1:
                facts["interests"] = f"{users.n_interests} per user"
            if users.seen is not None:
                facts["seen"] = f"{users.seen.n_entries:,} items"
        if edition.attributes is not None:
            facts["attributes"] = ", ".join(edition.attributes.names)
        if edition.signals is not None:
            facts["signals"] = ", ".join(edition.signals.names)
        plan = self.plan
        stale = " (stale: use tune(queries) or rebuild())" if plan.stale else ""
        facts["search"] = f"{plan.method}{stale}"
        return facts

    def __repr__(self) -> str:
        facts = self._facts()
        n_items, n_users, n_factors = facts.pop("items"), facts.pop("users", None), facts.pop("factors")
        whom = "" if n_users is None else f" and {n_users} user{'' if n_users == '1' else 's'}"
        size = f"{n_items} item{'' if n_items == '1' else 's'}{whom} x {n_factors} factors"
        return f"Recommender of {size}, " + ", ".join(f"{name}: {value}" for name, value in facts.items())

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><th>{name}</th><td>{value}</td></tr>" for name, value in self._facts().items())
        return f"<table><thead><tr><th colspan=2>Recommender</th></tr></thead><tbody>{rows}</tbody></table>"


class Live:
    """Holds the current recommender and swaps it atomically for the next one.

    Each answer comes from a single recommender, named by its `generation`. A query that is running during a swap
    finishes with the recommender it started with. A cursor belongs to one generation, so after a swap, paging starts
    over.

    Parameters
    ----------
    recommender : Recommender
        The first recommender.

    Examples
    --------
    >>> import numpy as np
    >>> import tessella as ts
    >>> live = ts.Live(ts.Recommender.build(np.eye(2), [[2.0, 1.0]]))
    >>> live.current.recommend(0, k=1).ids
    array([0])
    >>> before = live.swap(ts.Recommender.build(np.eye(2), [[1.0, 2.0]]))
    >>> live.current.recommend(0, k=1).ids
    array([1])
    """

    def __init__(self, recommender: Recommender) -> None:
        self._current = _recommender(recommender)
        self._swapping = threading.Lock()

    @property
    def current(self) -> Recommender:
        """The current recommender. Keep a reference for a series of calls, such as `fold_in` and then `recommend`."""
        return self._current

    def recommend(self, *args: Any, **options: Any) -> Recommendations:
        """Return the result of `current.recommend`, which takes these arguments."""
        return self._current.recommend(*args, **options)

    def swap(self, recommender: Recommender) -> Recommender:
        """Replace the current recommender and return the previous one.

        Parameters
        ----------
        recommender : Recommender
            The next recommender, already built or loaded.
        """
        new = _recommender(recommender)
        with self._swapping:
            before, self._current = self._current, new
        return before

    def __repr__(self) -> str:
        return f"Live({self._current!r})"


def _recommender(given: object) -> Recommender:
    if not isinstance(given, Recommender):
        raise TypeError(f"recommender must be a tessella.Recommender, not {type(given).__name__}.")
    return given


def _shown(edition: Edition, who: Asked, cursor: Cursor | None, found: SearchResult) -> Recommendations:
    """Return answers with the titles and the cursor needed to show them and to continue from them."""

    def next_page(page: SearchResult) -> str:
        asked = who.digest() if cursor is None else cursor.asked
        return following(cursor, edition.generation, edition.number, asked, page)

    titles = edition.titles if edition.titled else None
    before = None if cursor is None else cursor.version
    return Recommendations(
        found, who.users, edition.generation, edition.number, titles, next_page, after_version=before
    )


def _cursor(edition: Edition, who: Asked, after: str | None) -> Cursor | None:
    """Decode the cursor of the previous page; refuse one from another model or another request."""
    if after is None:
        return None
    cursor = Cursor.of(after)
    cursor.check(edition.generation, who.digest())
    return cursor


def _some(given: ArrayLike, n_factors: int) -> NDArray[Any] | None:
    """Sample vectors, evenly spaced over all users, to measure with."""
    array = _checks.numbers(given, "user_factors")
    if array.ndim not in (2, 3) or not array.size or array.shape[-1] != n_factors:
        return None  # refused later, with a message of its own
    return some_vectors(array)


def _new_factors(given: ArrayLike | None, edition: Edition, n: int) -> NDArray[Any] | None:
    if given is None:
        return None
    factors = user_factors(given, edition.n_factors)
    if len(factors) != n:
        raise ValueError(f"user_factors has {len(factors)} rows, but there are {n} ids.")
    return factors


def _from_bytes(kind: type[Recommender], data: bytes) -> Recommender:
    name = "the pickled recommender"
    return kind(unpacked(*storage.from_buffer(np.frombuffer(data, np.uint8), name), name=name))


_recommenders: "weakref.WeakSet[Recommender]" = weakref.WeakSet()


def _release_locks() -> None:
    """Replace the locks in a forked child, where no other thread is left that could hold them."""
    for recommender in _recommenders:
        recommender._writing = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_release_locks)
