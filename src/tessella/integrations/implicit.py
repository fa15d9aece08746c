"""implicit: a `Recommender` from a trained model, and a faster drop-in replacement for the model."""

from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from tessella import Index, Recommender, _checks
from tessella.integrations._factors import dense
from tessella.recommend.fold_in import Gram, fold_in


def from_implicit(model: Any, user_items: Any = None, **options: Any) -> Recommender:
    """Build a `Recommender` from an implicit matrix factorisation model: ALS, BPR or LMF, trained on CPU or GPU.

    Factors are copied, so further training of the model does not affect the recommender. The biases of BPR and LMF are
    already part of the factors. `fold_in` gives the same vectors as implicit's `recalculate_user` if you pass the
    model's `regularization` and `alpha`.

    Parameters
    ----------
    model : implicit.cpu or implicit.gpu model
        A trained model. Models without factors, such as implicit's item-item models, are refused.
    user_items : sparse matrix of shape (n_users, n_items), default None
        The items each user has seen: the matrix the model was trained on.
    **options
        As in `Recommender.build`: item_ids, user_ids, attributes, signals, method, ...

    Returns
    -------
    recommender : Recommender
        Users and items have implicit's row numbers as ids, unless `user_ids` and `item_ids` are given.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> import numpy as np
    >>> import scipy.sparse
    >>> from tessella.integrations.implicit import from_implicit
    >>> model = SimpleNamespace(item_factors=np.eye(3), user_factors=np.array([[3.0, 2.0, 1.0]]))  # yours is trained
    >>> recommender = from_implicit(model, scipy.sparse.csr_matrix([[1, 0, 0]]))
    >>> recommender.recommend(0, k=2).ids
    array([1, 2])
    """
    items, users = _factors_of(model)
    return Recommender.build(items, users, **({"seen": user_items} | options))


class ImplicitRecommender:
    """A faster drop-in replacement for `recommend`, `similar_items` and `similar_users` of an implicit model.

    Arguments, shapes, types and padding are those of implicit, so only one line of your code changes:
    ``model = ImplicitRecommender(model)``. Answers are equal unless scores tie: implicit then prefers the item with the
    larger number, tessella the one with the smaller. Scores are computed in float32 and summed in a different order, so
    items whose scores differ only in the last bits may also swap places.

    Padding follows implicit. If fewer than N items are left, `recommend` continues with items that were filtered out,
    whose score is the lowest float; after all items, it repeats item 0 with a score of 0. Users and items that are not
    in the model raise an `IndexError`, and so do negative numbers, which implicit would count from the end.

    Parameters
    ----------
    model : implicit.cpu or implicit.gpu model
        A trained ALS, BPR or LMF model. Factors are copied: after more training, create a new one.
    method, **options
        As in `Index.build`. By default, search is exact; ``method="auto"`` with a `target_recall` is faster.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> import numpy as np
    >>> import scipy.sparse
    >>> from tessella.integrations.implicit import ImplicitRecommender
    >>> factors = np.eye(3, dtype=np.float32)
    >>> model = SimpleNamespace(item_factors=factors, user_factors=factors + 1)  # yours is trained
    >>> user_items = scipy.sparse.csr_matrix(np.eye(3))
    >>> model = ImplicitRecommender(model)
    >>> ids, scores = model.recommend(1, user_items[1], N=2)
    >>> ids, scores
    (array([0, 2], dtype=int32), array([1., 1.], dtype=float32))
    """

    def __init__(self, model: Any, *, method: Any = "exact", **options: Any) -> None:
        items, users = _factors_of(model)
        self._score_type = np.float64 if items.dtype == np.float64 else np.float32
        self._options = {"method": method, **options}
        self._threads = options.get("threads") or getattr(model, "num_threads", None) or None
        self._user_factors = _checks.all_factors(users, "user_factors", items.shape[1])
        self._index = Index.build(items, **self._options)
        recalculates = hasattr(model, "alpha") and hasattr(model, "regularization")
        self._least_squares = (
            {"alpha": float(model.alpha), "regularization": float(model.regularization)} if recalculates else None
        )

    def recommend(
        self,
        userid: Any,
        user_items: Any,
        N: int = 10,  # noqa: N803
        filter_already_liked_items: bool = True,
        filter_items: ArrayLike | None = None,
        recalculate_user: bool = False,
        items: ArrayLike | None = None,
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Recommend the best N items to one user or to each of several.

        Parameters
        ----------
        userid : int or array_like of int
            The user, or users.
        user_items : CSR matrix of shape (n_users, n_items)
            The liked items, one row per requested user. May be None if no option below needs it.
        N : int, default 10
            How many items to return.
        filter_already_liked_items : bool, default True
            Whether to leave out the entries of `user_items`.
        filter_items : array_like of int, default None
            Other items to leave out.
        recalculate_user : bool, default False
            Whether to compute user factors from `user_items` instead of using those of the model; for ALS.
        items : array_like of int, default None
            The only items to rank, each at most once.

        Returns
        -------
        ids, scores : ndarray of shape (N,) or (n_users, N)
            Ids are int32, or of the type of `items`.
        """
        single, users = _numbers(userid, len(self._user_factors), "userid", "users")
        n, n_items = _checks.whole_number(N, "N", 1), len(self._index)
        seen = None
        if filter_already_liked_items or recalculate_user:
            seen = _one_row_each(user_items, len(users), n_items, "user_items")
        queries = (
            self._recalculated(seen, self._index, self._item_gram) if recalculate_user else self._user_factors[users]
        )
        allow, exclude = _chosen(items, filter_items, "items", n_items)
        named = None if allow is None else np.sort(allow)
        if named is not None:
            n = min(n, len(named))
            seen = None if seen is None else _without_zeros(seen)  # as implicit does here, and only here
        if filter_already_liked_items and exclude is not None:
            allow = np.ones(n_items, np.bool_)
            allow[exclude] = False
        if filter_already_liked_items:
            exclude = seen
        return self._found(self._index, queries, n, single, named, allow, exclude)

    def similar_items(
        self,
        itemid: Any,
        N: int = 10,  # noqa: N803
        recalculate_item: bool = False,
        item_users: Any = None,
        filter_items: ArrayLike | None = None,
        items: ArrayLike | None = None,
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Find the N items with the largest cosine to one item or to each of several, including the item itself.

        Parameters
        ----------
        itemid : int or array_like of int
            The item, or items.
        N : int, default 10
            How many items to return.
        recalculate_item : bool, default False
            Whether to compute item factors from `item_users` instead of using those of the model; for ALS.
        item_users : CSR matrix of shape (n, n_users), default None
            The users who liked the items, one row per requested item; needed for `recalculate_item`.
        filter_items : array_like of int, default None
            Items to leave out.
        items : array_like of int, default None
            The only items to rank, each at most once.

        Returns
        -------
        ids, scores : ndarray of shape (N,) or (n, N)
            Ids are int32, or of the type of `items`.
        """
        single, numbers = _numbers(itemid, len(self._index), "itemid", "items")
        if recalculate_item:
            liked = _one_row_each(item_users, len(numbers), len(self._user_factors), "item_users")
            queries = self._recalculated(liked, self._user_factors, self._user_gram)
        else:
            queries = self._index[numbers]
        return self._similar(self._item_directions, queries, N, single, items, filter_items, "items")

    def similar_users(
        self,
        userid: Any,
        N: int = 10,  # noqa: N803
        filter_users: ArrayLike | None = None,
        users: ArrayLike | None = None,
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Find the N users with the largest cosine to one user or to each of several, including the user.

        Parameters
        ----------
        userid : int or array_like of int
            The user, or users.
        N : int, default 10
            How many users to return.
        filter_users : array_like of int, default None
            Users to leave out.
        users : array_like of int, default None
            The only users to rank, each at most once.

        Returns
        -------
        ids, scores : ndarray of shape (N,) or (n, N)
            Ids are int32, or of the type of `users`.
        """
        single, numbers = _numbers(userid, len(self._user_factors), "userid", "users")
        return self._similar(
            self._user_directions, self._user_factors[numbers], N, single, users, filter_users, "users"
        )

    def _similar(
        self,
        directions: Index,
        queries: NDArray[np.float32],
        n: int,
        single: bool,
        only: ArrayLike | None,
        left_out: ArrayLike | None,
        what: str,
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the nearest directions; all scores, even those of padding, are divided by norms, as in implicit."""
        named, exclude = _chosen(only, left_out, what, len(directions))
        wanted = _checks.whole_number(n, "N", 1)
        ids, scores = self._found(directions, queries, wanted, single, named, named, exclude)
        norms = np.linalg.norm(queries, axis=1, keepdims=True)
        norms[norms == 0] = _NO_NORM
        with np.errstate(over="ignore"):
            scores /= norms[0] if single else norms
        return ids, scores

    def _found(
        self,
        index: Index,
        queries: NDArray[np.float32],
        n: int,
        single: bool,
        named: NDArray[Any] | None,
        allow: NDArray[Any] | None,
        exclude: Any,
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Search, and return the result in implicit's shapes and types, with its padding."""
        asked = queries[0] if single else queries
        found = index.search(asked, n, exclude=exclude, allow=allow, threads=self._threads)
        ids, scores = found.ids, found.scores.astype(self._score_type)
        _pad(np.atleast_2d(ids), np.atleast_2d(scores), np.arange(min(n, len(index))) if named is None else named)
        return ids.astype(np.int32 if named is None else named.dtype), scores

    def _recalculated(self, liked: Any, factors: Index | NDArray[np.float32], gram: Gram) -> NDArray[np.float32]:
        """Compute users from items, or items from users, as ALS does, one for each row."""
        if self._least_squares is None:
            raise NotImplementedError("only ALS models can recalculate users and items, but this is not an ALS model.")
        made = np.empty((liked.shape[0], self._user_factors.shape[1]), np.float32)
        for row, (start, end) in enumerate(pairwise(liked.indptr)):
            made[row] = fold_in(factors[liked.indices[start:end]], liked.data[start:end], gram, **self._least_squares)
        return made

    @cached_property
    def _item_gram(self) -> Gram:
        return Gram.of(self._item_factors())

    @cached_property
    def _user_gram(self) -> Gram:
        return Gram.of(self._user_factors)

    @cached_property
    def _item_directions(self) -> Index:
        return Index.build(_directions(self._item_factors()), **self._options)

    @cached_property
    def _user_directions(self) -> Index:
        return Index.build(_directions(self._user_factors), **self._options)

    def _item_factors(self) -> NDArray[np.float32]:
        return self._index[self._index.ids]

    def __repr__(self) -> str:
        return f"ImplicitRecommender of {len(self._user_factors):,} users; {self._index!r}"


_NO_NORM = 1e-10  # implicit's norm for a factor of zeros


def _factors_of(model: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the item and user factors of a model; the error says why it has none."""
    kind = type(model).__name__
    if not (hasattr(model, "item_factors") and hasattr(model, "user_factors")):
        raise TypeError(
            f"{kind} has no item_factors and user_factors: item-item models learn none; train ALS, BPR or LMF, or use "
            "the model's own recommend."
        )
    if model.item_factors is None or model.user_factors is None:
        raise ValueError(f"the {kind} has no factors yet; call its fit method first.")
    items, users = dense(model.item_factors, "item_factors"), dense(model.user_factors, "user_factors")
    return items, users


def _numbers(given: Any, n: int, name: str, what: str) -> tuple[bool, NDArray[np.int64]]:
    """Return whether a single number was passed, and all numbers in an array."""
    single = bool(np.isscalar(given))
    return single, _several([given] if single else given, n, name, what)


def _several(given: ArrayLike, n: int, name: str, what: str) -> NDArray[np.int64]:
    """Read the numbers of users or items; refuse those that are not in the model."""
    array = np.asarray(given)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise TypeError(f"{name} holds {array.dtype} of shape {array.shape}, but must be a flat sequence of integers.")
    outside = (array < 0) | (array >= n)
    if outside.any():
        raise IndexError(f"{name} holds {array[outside][0]}, but the model has {what} 0 to {n - 1}.")
    return array.astype(np.int64)


def _one_row_each(matrix: Any, n: int, n_columns: int, name: str) -> Any:
    """Return a CSR matrix with a row for each requested user or item, and a column for each in the model."""
    if not (_checks.is_sparse(matrix) and matrix.format == "csr"):
        raise ValueError(f"{name} must be a SciPy CSR matrix, not {type(matrix).__name__}.")
    if matrix.shape[0] != n:
        raise ValueError(f"{name} has {matrix.shape[0]} rows, but must have {n}: one for each user or item requested.")
    if matrix.shape[1] == n_columns:
        return matrix
    if matrix.nnz and int(matrix.indices.max()) >= n_columns:
        raise IndexError(f"{name} has entries in column {matrix.indices.max()}, but the model has {n_columns} columns.")
    return scipy.sparse.csr_matrix((matrix.data, matrix.indices, matrix.indptr), (n, n_columns))


def _without_zeros(matrix: Any) -> Any:
    """Return a matrix without explicit zeros."""
    if matrix.data.all():
        return matrix
    kept = matrix.copy()
    kept.eliminate_zeros()
    return kept


def _chosen(
    named: ArrayLike | None, left_out: ArrayLike | None, what: str, n: int
) -> tuple[NDArray[Any] | None, NDArray[np.int64] | None]:
    """Return the numbers of the only users or items to rank, and of those to leave out; None if not given."""
    filtered = None if left_out is None else _several(left_out, n, f"filter_{what}", what)
    if filtered is not None and not len(filtered):
        filtered = None
    if named is None:
        return None, filtered
    if filtered is not None:
        raise ValueError(f"{what} and filter_{what} cannot be combined; remove the filtered ones from {what} instead.")
    chosen = _several(named, n, what, what)
    if not len(chosen):
        raise ValueError(f"{what} is empty, but must name at least 1; None ranks all.")
    _checks.ids(chosen, None, name=what)  # refuses duplicates
    return np.asarray(named), None


def _pad(ids: NDArray[np.int64], scores: NDArray[Any], pool: NDArray[Any]) -> None:
    """Pad short rows as implicit does: with filtered items, then with the first item."""
    first = pool[: ids.shape[1]]
    for row in np.flatnonzero(ids[:, -1] < 0):
        n_found = int(np.count_nonzero(ids[row] >= 0))
        # implicit fills its heap with the first items, filtered or not; better ones then displace the first worst one.
        rest = first[~np.isin(first, ids[row, :n_found])][::-1][: len(first) - n_found]
        ids[row, n_found : len(first)], ids[row, len(first) :] = rest, pool[0]
        scores[row, n_found : len(first)], scores[row, len(first) :] = np.finfo(scores.dtype).min, 0


def _directions(factors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale factors to length 1; zero vectors stay zero."""
    norms = np.linalg.norm(factors, axis=1, keepdims=True)
    norms[norms == 0] = 1
    made: NDArray[np.float32] = factors / norms
    return made
