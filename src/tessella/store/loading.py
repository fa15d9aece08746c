"""Loading: writes a whole model as rows, in transactions of bounded size."""

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella import _checks
from tessella._threads import cut
from tessella.index import Index
from tessella.recommend.attributes import Attributes
from tessella.recommend.seen import Seen
from tessella.recommend.users import user_factors as checked_user_factors
from tessella.recommend.users import user_ids as checked_user_ids
from tessella.store import rows
from tessella.store.building import columns_bytes
from tessella.store.inputs import by_row, payload_text, signal_columns
from tessella.store.rows import as_json, item_values, kind_of, seen_bytes, user_values

ROWS = 20_000  # rows per transaction


@dataclass(frozen=True)
class Bulk:
    """A model to load, already checked."""

    factors: NDArray[np.float32]
    ids: NDArray[Any]
    attributes: Attributes | None
    signals: NDArray[np.float64] | None
    lifetimes: dict[str, float | None] | None
    payload: Sequence[Any] | None
    user_factors: NDArray[Any] | None
    user_ids: NDArray[Any] | None
    seen: Seen | None

    @classmethod
    def of(
        cls,
        item_factors: ArrayLike,
        user_factors: ArrayLike | None,
        item_ids: ArrayLike | None,
        user_ids: ArrayLike | None,
        seen: Any,
        attributes: Any,
        signals: Any,
        payload: Sequence[Any] | None,
    ) -> "Bulk":
        """Check what a caller passed, before anything is written."""
        factors = _checks.item_factors(item_factors)
        n, width = factors.shape
        if not n:
            raise ValueError("item_factors has 0 rows, but a model needs at least 1 item.")
        ids = np.arange(n) if item_ids is None else _checks.ids(item_ids, n, name="item_ids")
        known = None if attributes is None else Attributes.of(attributes, n)
        numbers, lifetimes = (None, None) if signals is None else signal_columns(signals, None, factors)
        if payload is not None and len(payload) != n:
            raise ValueError(f"payload has {len(payload)} entries, but there are {n} items.")
        held = None if user_factors is None else checked_user_factors(user_factors, width)
        n_users = len(held) if held is not None else len(np.asarray(user_ids)) if user_ids is not None else None
        met = None
        if seen is not None:
            met = _seen(ids, seen, n_users)
            n_users = len(met) if n_users is None else n_users
        users = None
        if n_users is not None:
            users = np.arange(n_users) if user_ids is None else checked_user_ids(user_ids, n_users)
        return cls(factors, ids, known, numbers, lifetimes, payload, held, users, met)

    @property
    def facts(self) -> dict[str, Any]:
        """The values for the row of its generation."""
        interests = None
        if self.user_ids is not None and len(self.user_ids):
            interests = (
                0 if self.user_factors is None else 1 if self.user_factors.ndim == 2 else self.user_factors.shape[1]
            )
        return {
            "n_factors": self.factors.shape[1],
            "item_ids": kind_of(self.ids),
            "user_ids": kind_of(self.user_ids) if self.user_ids is not None and len(self.user_ids) else None,
            "interests": interests,
            "columns": columns_bytes(self.attributes),
            "signals": as_json(self.lifetimes),
            "n_items": len(self.ids),
            "n_users": 0 if self.user_ids is None else len(self.user_ids),
        }

    def parts(self) -> Iterator[tuple[str, slice]]:
        """Yield what each transaction writes: "items" or "users", and their range."""
        for some in cut(len(self.ids), ROWS):
            yield "items", some
        for some in cut(0 if self.user_ids is None else len(self.user_ids), ROWS):
            yield "users", some

    def write(self, database: sqlite3.Connection, number: int, what: str, some: slice) -> int:
        """Write a range of rows and return how many there were."""
        if what == "items":
            rows.put_items(database, number, self._items(some))
        else:
            rows.put_users(database, number, self._users(some))
        return int(some.stop - some.start)

    def _items(self, some: slice) -> Iterator[tuple[Any, ...]]:
        width = 4 * self.factors.shape[1]
        raw = self.factors[some].astype("<f4", copy=False).tobytes()
        ids = self.ids[some].tolist()
        n = len(ids)
        nothing: list[Any] = [None] * n
        attributes = signals = payload = nothing
        if self.attributes is not None:
            attributes = [as_json(own) for own in by_row(self.attributes.take(np.arange(some.start, some.stop)))]
        if self.signals is not None and self.lifetimes is not None:
            names = list(self.lifetimes)
            signals = [as_json(dict(zip(names, row, strict=True))) for row in self.signals[some].tolist()]
        if self.payload is not None:
            payload = [payload_text(own, item) for own, item in zip(self.payload[some], ids, strict=True)]
        blobs = [raw[at : at + width] for at in range(0, n * width, width)]
        return map(item_values, range(some.start, some.stop), ids, blobs, attributes, signals, payload)

    def _users(self, some: slice) -> Iterator[tuple[Any, ...]]:
        ids = [] if self.user_ids is None else self.user_ids[some].tolist()
        factors = None if self.user_factors is None else np.asarray(self.user_factors[some], "<f4")
        kind = kind_of(self.ids)
        for at, user in enumerate(ids):
            seen = weights = None
            if self.seen is not None:
                met, how = self.seen.of_user(some.start + at)
                seen = seen_bytes(met, kind)
                weights = None if self.seen.weights is None else how.astype("<f4").tobytes()
            blob = None if factors is None else factors[at].tobytes()
            yield user_values(some.start + at, user, blob, seen, weights)


def _seen(ids: NDArray[Any], seen: Any, n_users: int | None) -> Seen:
    """Return what users have seen, from any form that a recommender takes."""
    version = Index.build(np.ones((len(ids), 1), np.float32), ids, method="exact")._version
    if n_users is None:
        matrix = seen[0] if type(seen) is tuple and len(seen) == 2 else seen
        shape = getattr(matrix, "shape", None)
        n_users = int(shape[0]) if shape else len(matrix)
    return Seen.of(version, seen, n_users)
