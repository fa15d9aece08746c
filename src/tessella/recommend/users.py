"""Users: their ids, factors and seen items. A user's row is its number in the order in which users were added."""

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

_SAMPLED = 1024  # how many users the digest of a model samples


@dataclass(frozen=True)
class Users:
    """All known users. Immutable: each change makes a new object."""

    ids: NDArray[Any]  # (n_users) integers or strings
    factors: NDArray[Any] | None  # (n_users, n_factors), or (n_users, n_interests, n_factors)
    seen: Seen | None

    @classmethod
    def of(cls, version: Version, factors: Any, ids: Any, seen: Any, n_factors: int) -> Self | None:
        """Read users as a caller passed them; None if there are none."""
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
        """The number of vectors per user."""
        return self.factors.shape[1] if self.factors is not None and self.factors.ndim == 3 else 1

    @cached
    def _numbered(self) -> bool:
        """Whether ids are row numbers."""
        return self.ids.dtype.kind == "i" and bool((self.ids == np.arange(len(self.ids))).all())

    @cached
    def _order(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """The rows that sort the ids, and the sorted ids."""
        order = np.argsort(self.ids, kind="stable")
        return order, self.ids[order]

    def find(self, ids: NDArray[Any]) -> NDArray[np.int64]:
        """Return the row of each id, or -1."""
        if len(ids) and (ids.dtype.kind == "U") != (self.ids.dtype.kind == "U"):
            kinds = {"U": "strings", "i": "integers"}
            raise TypeError(f"users holds {kinds[ids.dtype.kind]}, but the user ids are {kinds[self.ids.dtype.kind]}.")
        if not len(self.ids):
            return np.full(len(ids), -1)
        if self._numbered:
            return np.where((ids >= 0) & (ids < len(self.ids)), ids, -1)
        order, ordered = self._order
        rows = order[np.minimum(np.searchsorted(ordered, ids), len(order) - 1)]
        return np.where(self.ids[rows] == ids, rows, -1)

    def row_of(self, user: int | str) -> int:
        """Return the row of one id; refuse an unknown one."""
        if type(user) is int and self._numbered and 0 <= user < len(self.ids):
            return user
        return int(self.rows_of(_checks.ids([user], 1, unique=False, name="users"))[0])

    def rows_of(self, ids: NDArray[Any]) -> NDArray[np.int64]:
        """Return the row of each id; refuse unknown ones."""
        rows = self.find(ids)
        if len(rows) and rows.min() < 0:
            raise KeyError(f"there is no user with id {ids[rows < 0][0].item()!r}.")
        return rows

    def factors_of(self, rows: NDArray[np.int64] | slice) -> NDArray[Any]:
        """Return the factors of some users."""
        if self.factors is None:
            raise ValueError("the recommender has no user factors; pass vectors, or the liked items as liked=.")
        return np.asarray(self.factors[rows])

    def added(
        self, version: Version, ids: NDArray[Any], factors: NDArray[np.float32] | None, seen: Seen | None
    ) -> "Users":
        """Add users."""
        if len(self.ids) and len(ids) and (ids.dtype.kind == "U") != (self.ids.dtype.kind == "U"):
            raise TypeError("user ids must be all integers or all strings.")
        clash = ids[self.find(ids) >= 0] if len(self.ids) else ids[:0]
        if clash.size:
            raise ValueError(f"user {clash[0].item()!r} already exists; use update_users to change the factors.")
        if (self.factors is None) != (factors is None):
            there = "no existing user has" if self.factors is None else "all existing users have"
            raise ValueError(f"the new users have {'no ' if factors is None else ''}factors, but {there} them.")
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
        """Replace the factors or the seen items of some users."""
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
        """Return what users have seen: empty lists if nothing was recorded."""
        return Seen.nothing(version, len(self)) if self.seen is None else self.seen

    def removed(self, rows: NDArray[np.int64]) -> "Users":
        """Remove some users."""
        kept = np.delete(np.arange(len(self)), rows)
        factors = None if self.factors is None else self.factors[kept]
        return Users(self.ids[kept], factors, None if self.seen is None else self.seen.take(kept))

    @cached
    def gram(self) -> Gram:
        """The Gram matrix of the users."""
        if self.factors is None or self.factors.ndim == 3:
            raise ValueError("folding in an item needs users with one vector each, but the recommender has none.")
        return Gram.of(self.factors)

    def digest(self) -> str:
        """Return a digest that identifies these users, from a sample of them."""
        rows = np.arange(len(self))[:: max(1, len(self) // _SAMPLED)]
        return fingerprint(len(self), self.ids[rows], None if self.factors is None else np.array(self.factors[rows]))

    @property
    def nbytes(self) -> int:
        """The size of ids and factors in bytes."""
        return self.ids.nbytes + (0 if self.factors is None else self.factors.nbytes)


def user_factors(values: ArrayLike, n_factors: int) -> NDArray[Any]:
    """Read user factors, with one vector or several per user; a float32 memory map stays on disk."""
    array = _checks.numbers(values, "user_factors")
    flat = array.reshape(-1, array.shape[-1]) if array.ndim == 3 else array
    if array.ndim == 3 and not array.shape[1]:
        raise ValueError("user_factors has 0 vectors per user, but must have at least 1.")
    flat = _checks.factors(flat, "user_factors", n_factors)
    if isinstance(values, np.memmap) and array.dtype == np.float32:
        return array
    return _checks.all_factors(flat, "user_factors", n_factors).reshape(array.shape)


def user_ids(values: Any, n: int) -> NDArray[Any]:
    """Read the ids of n users."""
    checked = _checks.ids(values, None, name="user_ids")
    if len(checked) != n:
        raise ValueError(f"user_ids has {len(checked)} entries, but there are {n} users.")
    return checked


def _same_interests(held: NDArray[Any], new: NDArray[Any]) -> None:
    if held.shape[1:] != new.shape[1:]:
        raise ValueError(
            f"user_factors has shape {new.shape}, but must have shape {(len(new), *held.shape[1:])} as for others."
        )


def _count(seen: Any) -> int:
    """Return the number of users that have a list."""
    matrix = seen[0] if type(seen) is tuple and len(seen) == 2 else seen
    shape = getattr(matrix, "shape", None)
    return int(shape[0]) if shape else len(matrix)
