"""Users: their ids, factors, and what they have seen; a row is a user's number in the order in which users came."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella import _checks
from tessella._cached import cached
from tessella.recommend.fold_in import Gram
from tessella.recommend.seen import Seen
from tessella.versions.fingerprint import fingerprint
from tessella.versions.version import Version

_SAMPLED = 1024  # users whose factors tell two models apart


@dataclass(frozen=True)
class Users:
    """Everybody who is known. Never changed once made; each change makes the next."""

    ids: NDArray[Any]  # (n_users) whole numbers or texts
    factors: NDArray[Any] | None  # (n_users, n_factors), or (n_users, n_interests, n_factors)
    seen: Seen | None

    @classmethod
    def of(cls, version: Version, factors: Any, ids: Any, seen: Any, n_factors: int) -> Self | None:
        """Users as a caller gave them; None if there are none."""
        if factors is None and ids is None and seen is None:
            return None
        held = None if factors is None else user_factors(factors, n_factors)
        n = len(held) if held is not None else len(ids) if ids is not None else _count(seen)
        checked = np.arange(n) if ids is None else user_ids(ids, n)
        return cls(checked, held, None if seen is None else Seen.of(version, seen, n))

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def n_interests(self) -> int:
        """How many vectors a user has."""
        return self.factors.shape[1] if self.factors is not None and self.factors.ndim == 3 else 1

    @cached
    def _numbered(self) -> bool:
        """Whether ids are row numbers."""
        return self.ids.dtype.kind == "i" and bool((self.ids == np.arange(len(self.ids))).all())

    @cached
    def _order(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """The rows that sort the ids, and the ids sorted."""
        order = np.argsort(self.ids, kind="stable")
        return order, self.ids[order]

    def find(self, ids: NDArray[Any]) -> NDArray[np.int64]:
        """The row of each id, or -1."""
        if len(ids) and (ids.dtype.kind == "U") != (self.ids.dtype.kind == "U"):
            kinds = {"U": "texts", "i": "whole numbers"}
            raise TypeError(
                f"users holds {kinds[ids.dtype.kind]}, but the ids of users are {kinds[self.ids.dtype.kind]}."
            )
        if not len(self.ids):
            return np.full(len(ids), -1)
        if self._numbered:
            return np.where((ids >= 0) & (ids < len(self.ids)), ids, -1)
        order, ordered = self._order
        rows = order[np.minimum(np.searchsorted(ordered, ids), len(order) - 1)]
        return np.where(self.ids[rows] == ids, rows, -1)

    def row_of(self, user: int | str) -> int:
        """The row of one id; one that is not there is refused."""
        if type(user) is int and self._numbered and 0 <= user < len(self.ids):
            return user
        return int(self.rows_of(_checks.ids([user], 1, unique=False, name="users"))[0])

    def rows_of(self, ids: NDArray[Any]) -> NDArray[np.int64]:
        """The row of each id; one that is not there is refused."""
        rows = self.find(ids)
        if len(rows) and rows.min() < 0:
            raise KeyError(f"there is no user with id {ids[rows < 0][0].item()!r}.")
        return rows

    def factors_of(self, rows: NDArray[np.int64] | slice) -> NDArray[Any]:
        """Factors of some users."""
        if self.factors is None:
            raise ValueError("the recommender holds no user factors; pass vectors, or what a user liked as liked=.")
        return np.asarray(self.factors[rows])

    def added(
        self, version: Version, ids: NDArray[Any], factors: NDArray[np.float32] | None, seen: Seen | None
    ) -> "Users":
        """These users and others."""
        if len(self.ids) and len(ids) and (ids.dtype.kind == "U") != (self.ids.dtype.kind == "U"):
            raise TypeError("ids of users must all be whole numbers, or all texts.")
        clash = ids[self.find(ids) >= 0] if len(self.ids) else ids[:0]
        if clash.size:
            raise ValueError(f"user {clash[0].item()!r} is there already; use update_users to change the factors.")
        if (self.factors is None) != (factors is None):
            there = "no user has" if self.factors is None else "all users have"
            raise ValueError(f"new users are given {'no ' if factors is None else ''}factors, but {there} factors.")
        joined = None
        if self.factors is not None and factors is not None:
            _same_interests(self.factors, factors)
            joined = np.concatenate([self.factors, factors])
        lists = None
        if self.seen is not None or seen is not None:
            lists = self._lists(version).joined(Seen.nothing(version, len(ids)) if seen is None else seen)
        return Users(np.concatenate([self.ids, ids]) if len(self.ids) else ids, joined, lists)

    def updated(
        self, version: Version, rows: NDArray[np.int64], factors: NDArray[np.float32] | None, seen: Seen | None
    ) -> "Users":
        """The same users, some of them with other factors or with other items seen."""
        changed = self
        if factors is not None:
            if self.factors is None:
                raise ValueError("factors are given, but no user has factors.")
            _same_interests(self.factors, factors)
            held = np.array(self.factors)
            held[rows] = factors
            changed = replace(changed, factors=held)
        if seen is not None:
            n = len(self)
            place = np.arange(n)
            place[rows] = n + np.arange(len(rows))
            changed = replace(changed, seen=self._lists(version).joined(seen).take(place))
        return changed

    def _lists(self, version: Version) -> Seen:
        """What users have seen, if only that it is nothing."""
        return Seen.nothing(version, len(self)) if self.seen is None else self.seen

    def removed(self, rows: NDArray[np.int64]) -> "Users":
        """These users without some."""
        kept = np.delete(np.arange(len(self)), rows)
        factors = None if self.factors is None else self.factors[kept]
        return Users(self.ids[kept], factors, None if self.seen is None else self.seen.take(kept))

    @cached
    def gram(self) -> Gram:
        """The Gram matrix of the users."""
        if self.factors is None or self.factors.ndim == 3:
            raise ValueError("a new item is folded in from users with one vector each, but there are none.")
        return Gram.of(self.factors)

    def digest(self) -> str:
        """What tells these users from others, after a look at some of them."""
        rows = np.arange(len(self))[:: max(1, len(self) // _SAMPLED)]
        return fingerprint(len(self), self.ids[rows], None if self.factors is None else np.array(self.factors[rows]))

    @property
    def nbytes(self) -> int:
        """Memory of ids and factors."""
        return self.ids.nbytes + (0 if self.factors is None else self.factors.nbytes)


def user_factors(values: ArrayLike, n_factors: int) -> NDArray[Any]:
    """Factors of users, a matrix or with several vectors for each; a memory map is left where it is."""
    array = _checks.numbers(values, "user_factors")
    flat = array.reshape(-1, array.shape[-1]) if array.ndim == 3 else array
    if array.ndim == 3 and not array.shape[1]:
        raise ValueError("user_factors has 0 vectors for each user, but must have at least 1.")
    flat = _checks.factors(flat, "user_factors", n_factors)
    if isinstance(values, np.memmap) and array.dtype == np.float32:
        return array
    return _checks.all_factors(flat, "user_factors", n_factors).reshape(array.shape)


def user_ids(values: Any, n: int) -> NDArray[Any]:
    """Ids of n users."""
    checked = _checks.ids(values, None, name="user_ids")
    if len(checked) != n:
        raise ValueError(f"user_ids has {len(checked)} entries, but there are {n} users.")
    return checked


def _same_interests(held: NDArray[Any], new: NDArray[Any]) -> None:
    if held.shape[1:] != new.shape[1:]:
        raise ValueError(f"user_factors has shape {new.shape}, but users have factors of shape {held.shape[1:]}.")


def _count(seen: Any) -> int:
    """For how many users there is a list."""
    matrix = seen[0] if type(seen) is tuple and len(seen) == 2 else seen
    shape = getattr(matrix, "shape", None)
    return int(shape[0]) if shape else len(matrix)
