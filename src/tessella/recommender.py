"""Recommender: the front door for users and items together, and Live, which exchanges a model for the next one."""

import os
import threading
import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella import _checks
from tessella.index import Index, short_form
from tessella.jobs.all_users import Output, checked_path
from tessella.mapping.schema import Schema
from tessella.recommend.all_users import recommended_to_all
from tessella.recommend.answering import Wish, answered
from tessella.recommend.asking import Asked, asked
from tessella.recommend.cursors import Cursor, following
from tessella.recommend.edition import Edition
from tessella.recommend.seen import Seen
from tessella.recommend.storage import packed, unpacked
from tessella.recommend.tables import Recommendations
from tessella.recommend.users import Users, user_factors, user_ids
from tessella.results import SearchResult
from tessella.retrieval.plan import Method, Plan
from tessella.retrieval.tiles import LearnedTiles
from tessella.versions import storage
from tessella.versions.fingerprint import fingerprint
from tessella.versions.version import Version

_MEASURED = 2_000  # users that the plan is measured with


class Recommender:
    """Users and items of one trained model, and what is known of them: recommends, and says why.

    Make one with `build`. Any number of threads may ask while one changes it; each answer sees one version.

    Examples
    --------
    >>> import numpy as np
    >>> import tessella as ts
    >>> rng = np.random.default_rng(0)
    >>> item_factors, user_factors = rng.standard_normal((1000, 16)), rng.standard_normal((3, 16))
    >>> model = ts.Recommender.build(item_factors, user_factors, seen=[[119], [], [906, 237]])
    >>> model.recommend([0, 1, 2], k=2).ids
    array([[325, 586],
           [591, 799],
           [622, 427]])
    >>> page = model.recommend(1, k=2)
    >>> model.recommend(1, k=2, after=page.next).ids
    array([690, 103])
    """

    def __init__(self, edition: Edition) -> None:
        if not isinstance(edition, Edition):
            raise TypeError("a Recommender is made by Recommender.build(item_factors) or Recommender.load(path).")
        self._edition = edition
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
        method: Literal["auto", "exact", "tiles"] | LearnedTiles = "auto",
        schema: Schema | None = None,
        target_recall: float | None = None,
        queries: ArrayLike | None = None,
        k: int = 10,
        threads: int | None = None,
    ) -> Self:
        """A recommender of one trained model.

        Parameters
        ----------
        item_factors : array_like of shape (n_items, n_factors)
            Finite numbers, at least one row; kept in float32.
        user_factors : array_like of shape (n_users, n_factors) or (n_users, n_interests, n_factors), default None
            Of the same training run. With several vectors a user, `recommend` takes the best or the sum over them;
            fill up with vectors of zeros where a user has fewer. A memory map of float32 stays in its file.
        item_ids, user_ids : array_like, default None
            Different whole numbers or texts; None numbers them from 0.
        seen : sparse matrix of shape (n_users, n_items), or list of n_users sequences of ids, default None
            What each user has met, which is not recommended again; in any form that `Index.search` takes as ``exclude``
            for each query. Values of a matrix are how much, for folding in.
        method, schema, target_recall, k, threads
            As for `Index.build`.
        queries : array_like of shape (n_queries, n_factors), default None
            User factors to measure the plan with; None takes some of `user_factors`, if there are.

        Examples
        --------
        >>> import tessella as ts
        >>> model = ts.Recommender.build([[1, 0], [0, 1]], [[2, 1]], item_ids=["tea", "mate"], user_ids=["ann"])
        >>> model
        Recommender of 2 items and 1 user x 2 factors, search: exact
        """
        factors = _checks.item_factors(item_factors)
        if queries is None and user_factors is not None and (method == "auto" or target_recall is not None):
            queries = _some(user_factors, factors.shape[1]) if method != "exact" else None
        index = Index.build(
            factors,
            item_ids,
            method=method,
            schema=schema,
            target_recall=target_recall,
            queries=queries,
            k=k,
            threads=threads,
        )
        version = index._version
        users = Users.of(version, user_factors, user_ids, seen, factors.shape[1])
        generation = fingerprint(factors, version.ids, None if users is None else users.digest())[:12]
        return cls(Edition(version, users, generation, 0))

    def recommend(
        self,
        users: Any = None,
        k: int = 10,
        *,
        liked: Any = None,
        like: Any = None,
        dislike: Any = None,
        exclude_seen: bool = True,
        exclude: Any = None,
        allow: Any = None,
        after: str | None = None,
        interests: Literal["best", "sum"] = "best",
        method: Method | None = None,
        exact: bool = False,
        regularization: float = 0.01,
        alpha: float = 1.0,
        threads: int | None = None,
    ) -> Recommendations:
        """Recommend items to users, to vectors, or to somebody of whom only likes are known.

        Parameters
        ----------
        users : id, sequence of ids, or array of vectors, default None
            Whole numbers or texts are ids of users. Vectors have shape (n_factors,), (n_users, n_factors), or
            (n_users, n_interests, n_factors).
        k : int, default 10
            How many items to return for each. Where there are fewer: id -1 (None for text ids) and score -inf.
        liked : sequence of item ids, mapping of ids to weights, or a list of these for each user, default None
            Recommend to somebody who was not in training, by `fold_in`. With `users`, what they like now is added to
            what they have seen.
        like, dislike : sequence of item ids, or a list of these for each query, default None
            Recommend by the mean vector of some items, less that of others, where there is no user.
        exclude_seen : bool, default True
            Whether to leave out what users have seen, and items named in `liked`, `like` and `dislike`.
        exclude, allow
            As for `Index.search`, beside the rest: for all users or for each.
        after : str, default None
            The `next` of the page before, to go on from there. Pages joined equal the long list in exact mode. If items
            change between pages, nothing is shown twice: a page has the best of what was not shown, as items are now.
        interests : "best" or "sum", default "best"
            What counts of a user's several vectors for an item: its best score with any, or the sum. A vector of zeros
            is none.
        method : Exact, Tiles, Slots or None, default None
            How to search. None follows `plan`.
        exact : bool, default False
            Short for ``method=Exact()``: the answer is the true list.
        regularization, alpha : float
            As for `fold_in`, for `liked`.
        threads : int, default None
            How many threads to use; None uses every CPU. Changes no result.

        Returns
        -------
        found : Recommendations
            ids, scores and more; unpacks as ids, scores, and prints as a table.

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
        cursor = None if after is None else Cursor.of(after)
        if cursor is not None:
            cursor.check(edition.generation, who.digest())
        wish = Wish(
            k=k,
            exclude_seen=exclude_seen,
            exclude=exclude,
            allow=allow,
            cursor=cursor,
            interests=interests,
            method=method if exact is False else short_form(method, exact),
            threads=threads,
        )
        return _shown(edition, who, cursor, answered(edition, who, wish))

    def recommend_all(
        self,
        k: int = 10,
        *,
        exclude_seen: bool = True,
        exclude: Any = None,
        allow: Any = None,
        interests: Literal["best", "sum"] = "best",
        method: Method | None = None,
        exact: bool = False,
        out: Output = None,
        overwrite: bool = False,
        progress: bool | None = None,
        threads: int | None = None,
    ) -> Recommendations | None:
        """Recommend to all users, a block at a time: what `recommend` gives, for as many as there are.

        The whole job sees the version of the recommender there is at the call. Beside what is returned, memory does not
        grow with the number of users.

        Parameters
        ----------
        k, exclude_seen, interests, method, exact
            As for `recommend`.
        exclude, allow
            As for `recommend`, for all users or for each of them, in the order of `user_ids`.
        out : path or callable, default None
            Where answers go, as for `Index.search_all`: None returns them, a callable gets them block by block, with the
            number of the first user, and a path is a folder to make. After an interruption, repeat the call to resume.
        overwrite, progress, threads
            As for `Index.search_all`.

        Returns
        -------
        found : Recommendations, or None if `out` is a callable
            A row for each user, in the order of `user_ids`; memory-mapped if `out` is a path.

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
        wish = Wish(
            k=k,
            exclude_seen=exclude_seen,
            exclude=exclude,
            allow=allow,
            interests=interests,
            method=method if exact is False else short_form(method, exact),
            threads=threads,
        )
        users = edition.known_users()
        take = None
        if callable(out):
            each = out

            def take(first: int, found: SearchResult) -> object:
                block = Asked(found.scores, single=False, users=users.ids[first : first + len(found.ids)])
                return each(first, _shown(edition, block, None, found))

        found = recommended_to_all(edition, wish, path, take, overwrite=overwrite, progress=progress)
        everybody = Asked(np.zeros(0), single=False, users=users.ids)
        return None if found is None else _shown(edition, everybody, None, found)

    def add_items(self, item_factors: ArrayLike, ids: ArrayLike) -> None:
        """Add items; the next answer sees them.

        Parameters
        ----------
        item_factors : array_like of shape (n, n_factors)
            Finite numbers.
        ids : array_like of shape (n,)
            New ids of the same kind as those of the items there are.
        """
        with self._writing:
            edition = self._edition
            self._next(version=_changed(edition, lambda index: index.add(item_factors, ids)))

    def update_items(self, item_factors: ArrayLike, ids: ArrayLike) -> None:
        """Give items new factors.

        Parameters
        ----------
        item_factors : array_like of shape (n, n_factors)
            Finite numbers.
        ids : array_like of shape (n,)
            Ids of items that are there.
        """
        with self._writing:
            edition = self._edition
            self._next(version=_changed(edition, lambda index: index.update(item_factors, ids)))

    def remove_items(self, ids: ArrayLike) -> None:
        """Remove items; the next answer no longer sees them. Who has seen them is kept, in case they come back.

        Parameters
        ----------
        ids : array_like of shape (n,)
            Ids of items that are there.
        """
        with self._writing:
            edition = self._edition
            self._next(version=_changed(edition, lambda index: index.remove(ids)))

    def add_users(self, user_factors: ArrayLike | None, ids: ArrayLike, *, seen: Any = None) -> None:
        """Add users. Costs a copy of the arrays of all users, so add many at once.

        Parameters
        ----------
        user_factors : array_like of shape (n, n_factors), or None
            Of the same model, by `fold_in` for instance; None if users have no factors.
        ids : array_like of shape (n,)
            New ids of the same kind as those of the users there are.
        seen : as for `build`, default None
            What they have seen.
        """
        with self._writing:
            edition = self._edition
            new = _checks.ids(ids, None)
            factors = _new_factors(user_factors, edition, len(new))
            users = edition.users
            if users is None:
                users = Users(new[:0], None if factors is None else factors[:0], None)
            lists = None if seen is None else Seen.of(edition.version, seen, len(new))
            self._next(users=users.added(edition.version, new, factors, lists))

    def update_users(self, user_factors: ArrayLike | None, ids: ArrayLike, *, seen: Any = None) -> None:
        """Give users new factors, or other items that they have seen. Costs a copy of the arrays of all users.

        Parameters
        ----------
        user_factors : array_like of shape (n, n_factors), or None
            None leaves them as they are.
        ids : array_like of shape (n,)
            Ids of users that are there.
        seen : as for `build`, default None
            All that they have seen; None leaves it as it is.
        """
        with self._writing:
            edition = self._edition
            named = _checks.ids(ids, None)
            users = edition.known_users()
            rows = users.rows_of(named)
            factors = _new_factors(user_factors, edition, len(named))
            lists = None if seen is None else Seen.of(edition.version, seen, len(named))
            self._next(users=users.updated(edition.version, rows, factors, lists))

    def remove_users(self, ids: ArrayLike) -> None:
        """Remove users. Costs a copy of the arrays of all users.

        Parameters
        ----------
        ids : array_like of shape (n,)
            Ids of users that are there.
        """
        with self._writing:
            users = self._edition.known_users()
            self._next(users=users.removed(users.rows_of(_checks.ids(ids, None))))

    def _next(self, **parts: Any) -> None:
        """Swap the next edition in."""
        self._edition = replace(self._edition, number=self._edition.number + 1, **parts)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write everything to one file, whole or not at all.

        Parameters
        ----------
        path : str or path
            Where to. A file already there stays unchanged until the new one is complete.
        overwrite : bool, default False
            Whether to replace a file that stands there.

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
        """The recommender that `save` wrote; a damaged or foreign file is refused.

        Parameters
        ----------
        path : str or path
            Where from.
        mmap : bool, default False
            Leave the arrays in the file, to be read as they are needed and shared between processes. The file must then
            stay as it is.
        """
        return cls(unpacked(*storage.read(Path(path), mmap=mmap), name=str(path)))

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_bytes, (type(self), storage.to_bytes(*packed(self._edition)))

    @property
    def index(self) -> Index:
        """The items as they are now, to search by hand. It does not follow the recommender, nor the other way round."""
        return Index(self._edition.version)

    @property
    def plan(self) -> Plan:
        """How searches answer unless they say otherwise, and why: as `Index.plan`."""
        return self.index.plan

    @property
    def generation(self) -> str:
        """Which model this is: the same text after changes, `save` and `load`, another for other factors."""
        return self._edition.generation

    @property
    def version(self) -> int:
        """How many changes there have been."""
        return self._edition.number

    @property
    def n_factors(self) -> int:
        """How many coordinates a factor has."""
        return self._edition.n_factors

    @property
    def item_ids(self) -> NDArray[Any]:
        """Ids of the items, in the order in which they came; for reading only."""
        return self._edition.version.ids

    @property
    def user_ids(self) -> NDArray[Any]:
        """Ids of the users, in the order in which they came; for reading only."""
        users = self._edition.users
        return np.zeros(0, np.int64) if users is None else users.ids

    @property
    def memory(self) -> dict[str, int]:
        """Bytes of each part."""
        users = self._edition.users
        own = {} if users is None else {"users": users.nbytes, "seen": 0 if users.seen is None else users.seen.nbytes}
        return self._edition.version.memory() | own

    @property
    def nbytes(self) -> int:
        """Memory of all arrays."""
        return sum(self.memory.values())

    def _facts(self) -> dict[str, str]:
        """What it holds, in words."""
        edition = self._edition
        users = edition.users
        facts = {"items": f"{edition.version.n_live:,}", "factors": f"{edition.n_factors}"}
        if users is not None:
            facts["users"] = f"{len(users):,}"
            if users.n_interests > 1:
                facts["interests"] = f"{users.n_interests} a user"
            if users.seen is not None:
                facts["seen"] = f"{users.seen.n_entries:,} items"
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
    """Holds the recommender that answers now, and exchanges it for the next one at once.

    Any answer comes from one of them, and says from which by its `generation`. Answers under way stay with the one they
    began with. A cursor belongs to its generation, so after a swap a list begins anew.

    Parameters
    ----------
    recommender : Recommender
        The first one.

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
        """The one that answers now. Take it once for what belongs together, such as `fold_in` and `recommend`."""
        return self._current

    def recommend(self, *args: Any, **options: Any) -> Recommendations:
        """What `current.recommend` gives."""
        return self._current.recommend(*args, **options)

    def swap(self, recommender: Recommender) -> Recommender:
        """Let another one answer from now on; the one before comes back.

        Parameters
        ----------
        recommender : Recommender
            The next one, ready: built or loaded before.
        """
        new = _recommender(recommender)
        with self._swapping:
            before, self._current = self._current, new
        return before

    def __repr__(self) -> str:
        return f"Live({self._current!r})"


def _recommender(given: object) -> Recommender:
    if not isinstance(given, Recommender):
        raise TypeError(f"recommender is a {type(given).__name__}, but must be a tessella.Recommender.")
    return given


def _shown(edition: Edition, who: Asked, cursor: Cursor | None, found: SearchResult) -> Recommendations:
    """Answers, with what is needed to show them and to go on from them."""

    def next_page(page: SearchResult) -> str:
        return following(cursor, edition.generation, edition.number, who.digest(), page)

    return Recommendations(found, who.users, edition.generation, edition.number, edition.titles, next_page)


def _changed(edition: Edition, change: Callable[[Index], None]) -> Version:
    """The version of the index after a change."""
    index = Index(edition.version)
    change(index)
    return index._version


def _some(given: ArrayLike, n_factors: int) -> NDArray[Any] | None:
    """Vectors of some users, spread over all of them, to measure with."""
    array = _checks.numbers(given, "user_factors")
    if array.ndim not in (2, 3) or not array.size or array.shape[-1] != n_factors:
        return None  # refused later, in a sentence of its own
    step = max(1, len(array) // _MEASURED)
    taken = np.asarray(array[::step]).reshape(-1, n_factors)[:_MEASURED]
    return taken if taken.any() and np.isfinite(taken).all() else None


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
    """In a forked child no other thread is left that could be writing."""
    for recommender in _recommenders:
        recommender._writing = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_release_locks)
