"""Asking: turns the users, vectors or likes that a caller passes into vectors to search with."""

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tessella import _checks
from tessella.recommend.edition import Edition
from tessella.search.selections import Ids, Selection
from tessella.versions.fingerprint import fingerprint


class Asked(NamedTuple):
    """Who asks: the query vectors, one or several for each query, and whose they are."""

    vectors: NDArray[Any]  # (n, n_factors), or (n, n_interests, n_factors)
    single: bool
    users: NDArray[Any] | None = None  # ids
    rows: NDArray[np.int64] | slice | int | None = None  # of the users, to look up what they have seen
    met: tuple[Selection, ...] = ()  # items named in the request, which must not be recommended
    named: tuple[Any, ...] = ()  # identifies the request; empty if the vectors do

    def __len__(self) -> int:
        return len(self.vectors)

    def digest(self) -> str:
        """Return a digest that identifies the request."""
        if self.named:
            text = repr([_plain(part) for part in self.named])  # arrays of equal strings may differ in width
            return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        return fingerprint(np.asarray(self.vectors, np.float32))[:16]


def _plain(value: Any) -> Any:
    """Convert arrays to lists."""
    return (
        value.tolist() if isinstance(value, np.ndarray) else list(map(_plain, value)) if type(value) is list else value
    )


def asked(
    edition: Edition, users: Any, liked: Any, like: Any, dislike: Any, regularization: float, alpha: float
) -> Asked:
    """Read who asks: users by id, vectors, likes to fold in, or items to resemble or to avoid."""
    if like is not None or dislike is not None:
        if users is not None or liked is not None:
            raise ValueError("like and dislike cannot be combined with users or liked; pass one or the other.")
        return _alike(edition, like, dislike)
    if liked is not None:
        return _folded_in(edition, users, liked, regularization, alpha)
    if users is None:
        raise ValueError("there is nobody to recommend to; pass users, liked or like.")
    if type(users) is int or type(users) is str:
        return _one(edition, users)
    ids = _user_ids(users)
    if ids is None:
        return _vectors(edition, users)
    return _known(edition, ids, single=np.ndim(users) == 0)


def _one(edition: Edition, user: int | str) -> Asked:
    """Look up one known user."""
    known = edition.known_users()
    row = known.row_of(user)
    some = slice(row, row + 1)
    return Asked(known.factors_of(some), True, known.ids[row], row, (), ([user],))


def _known(edition: Edition, ids: NDArray[Any], *, single: bool) -> Asked:
    """Look up known users."""
    known = edition.known_users()
    rows = known.rows_of(ids)
    return Asked(
        known.factors_of(rows), single, ids[0] if single else ids, int(rows[0]) if single else rows, (), (ids,)
    )


def block_of_users(edition: Edition, some: slice) -> Asked:
    """Look up a block of users by their rows."""
    known = edition.known_users()
    return Asked(known.factors_of(some), False, known.ids[some], some, (), (known.ids[some],))


def _user_ids(users: Any) -> NDArray[Any] | None:
    """Return the ids that were passed, or None for vectors."""
    if isinstance(users, bool | np.bool_):
        raise TypeError("users must be ids or vectors, not bool.")
    if isinstance(users, str | int | np.integer):
        return _checks.ids([users], 1, unique=False, name="users")
    if _checks.is_sparse(users):
        raise TypeError("users must be ids or vectors, not a SciPy sparse matrix; pass likes as liked=.")
    if not isinstance(users, list | tuple | range) and hasattr(users, "__array__"):
        users = np.asarray(users)
    if isinstance(users, np.ndarray) and users.dtype.kind != "O":
        if (users.dtype.kind == "f" and users.size) or users.ndim > 1:
            return None
    elif isinstance(users, list | tuple | range | np.ndarray):
        plain = isinstance(users, list) and {*map(type, users)} <= {int, str}
        if not plain and any(
            isinstance(value, float | np.floating | list | tuple) or np.ndim(value) for value in users
        ):
            return None
    else:
        raise TypeError(f"users must be ids or vectors, not {type(users).__name__}.")
    return _checks.ids(users, None, unique=False, name="users")


def _vectors(edition: Edition, given: Any) -> Asked:
    array = _checks.numbers(given, "users")
    if array.ndim not in (1, 2, 3):
        raise ValueError(
            f"users has {array.ndim} dimensions, but must have 1 to 3: at most (n_users, n_interests, n_factors)."
        )
    if array.shape[-1] != edition.n_factors:
        raise ValueError(
            f"users has vectors of length {array.shape[-1]}, but the model has {edition.n_factors} factors."
        )
    if array.ndim == 3 and not array.shape[1]:
        raise ValueError("users has 0 vectors for each user, but must have at least 1.")
    finite = np.isfinite(array)
    if not finite.all():
        raise ValueError(f"users holds {array[~finite][0]}, but vectors must be finite.")
    return Asked(array[None] if array.ndim == 1 else array, array.ndim == 1)


def _alike(edition: Edition, like: Any, dislike: Any) -> Asked:
    """Return the mean vector of the items in `like` minus that of the items in `dislike`."""
    sides = [
        None if given is None else item_lists(given, name) for name, given in (("like", like), ("dislike", dislike))
    ]
    counts = {len(side[0]) for side in sides if side is not None}
    singles = {side[1] for side in sides if side is not None}
    if len(counts) > 1 or len(singles) > 1:
        raise ValueError("like and dislike must both be one sequence of ids, or lists of equally many sequences.")
    (n,), (single,) = counts, singles
    vectors = np.zeros((n, edition.n_factors))
    met, named = [], []
    for side, sign in zip(sides, (1, -1), strict=True):
        for at, (ids, _) in enumerate(() if side is None else side[0]):
            vectors[at] += sign * edition.item_vectors(ids).mean(axis=0, dtype=np.float64) if len(ids) else 0
        lists = [ids for ids, _ in side[0]] if side is not None else []
        named.append(lists)
        if lists:
            met.append(as_selection(edition, lists))
    if not any(len(ids) for lists in named for ids in lists):
        raise ValueError("like and dislike are empty, but must name at least 1 item.")
    return Asked(vectors.astype(np.float32), single, None, None, tuple(met), ("like", *named))


def _folded_in(edition: Edition, users: Any, liked: Any, regularization: float, alpha: float) -> Asked:
    """Compute vectors by one least-squares step over the liked items and, for known users, those they have seen."""
    lists, single = item_lists(liked, "liked")
    ids = rows = None
    if users is not None:
        ids = _user_ids(users)
        if ids is None:
            raise TypeError("users holds vectors, but together with liked it must hold user ids.")
        if single != (np.ndim(users) == 0) or len(ids) != len(lists):
            raise ValueError(f"liked has {len(lists)} lists of items, but there are {len(ids)} users.")
        rows = edition.known_users().rows_of(ids)
        lists = [_with_seen(edition, int(row), *own) for row, own in zip(rows, lists, strict=True)]
    vectors = np.empty((len(lists), edition.n_factors), np.float32)
    for at, (items, weights) in enumerate(lists):
        vectors[at] = edition.fold_in(items, weights, regularization, alpha)
    named = ("liked", [items for items, _ in lists] if ids is None else ids)
    own_rows = None if rows is None else int(rows[0]) if single else rows
    shown = None if ids is None else ids[0] if single else ids
    return Asked(vectors, single, shown, own_rows, (as_selection(edition, [items for items, _ in lists]),), named)


def _with_seen(
    edition: Edition, row: int, items: NDArray[Any], weights: NDArray[np.float64] | None
) -> tuple[NDArray[Any], NDArray[np.float64] | None]:
    """Return the items a user likes now, together with those seen before that still exist."""
    seen = edition.known_users().seen
    if seen is None:
        raise ValueError(
            "with users, liked is added to the items they have seen, but the recommender has no seen items; pass liked "
            "without users."
        )
    before, their_weights = seen.of_user(row)
    old = (edition.version.find(before) >= 0) & ~np.isin(before, items)
    own = np.ones(len(items)) if weights is None else weights
    together = np.concatenate([before[old], items]) if old.any() else items
    return together, np.concatenate([their_weights[old].astype(np.float64), own])


Likes: TypeAlias = tuple[NDArray[Any], NDArray[np.float64] | None]  # ids and, if given, weights


def item_lists(given: Any, name: str) -> tuple[list[Likes], bool]:
    """Read items, with weights if given, for one user or several; also return whether it was one."""
    if isinstance(given, Mapping):
        return [_weighted(given, name)], True
    if isinstance(given, str | int | np.integer):
        raise TypeError(f"{name} is {given!r}, but must be a sequence of ids; pass [{given!r}].")
    if not (isinstance(given, list | tuple | set | frozenset | range | np.ndarray) or hasattr(given, "__array__")):
        raise TypeError(f"{name} must be a sequence of ids, not {type(given).__name__}.")
    values = list(given)
    if values and all(isinstance(value, Mapping) or _checks.is_sequence(type(value)) for value in values):
        return [
            _weighted(own, name) if isinstance(own, Mapping) else (item_ids(own, name), None) for own in values
        ], False
    return [(item_ids(values, name), None)], True


def item_ids(values: Any, name: str) -> NDArray[Any]:
    """Read ids and refuse duplicates."""
    checked = _checks.ids(list(values), None, unique=False, name=name)
    if len(np.unique(checked)) < len(checked):
        _checks.ids(checked, None, name=name)  # raises the error
    return checked


def _weighted(given: Mapping[Any, Any], name: str) -> Likes:
    """Read a mapping of items to weights."""
    weights = _checks.numbers(list(given.values()) or np.zeros(0), f"weights of {name}").astype(np.float64)
    return item_ids(list(given), name), weights


def as_selection(edition: Edition, lists: list[NDArray[Any]]) -> Ids:
    """Turn lists of ids into a filter that excludes them."""
    filled = [ids for ids in lists if len(ids)]
    values = np.concatenate(filled) if filled else edition.version.no_ids()
    starts = np.concatenate([[0], np.cumsum([len(ids) for ids in lists], dtype=np.int64)])
    return Ids(values, starts, "liked", quiet=True)
