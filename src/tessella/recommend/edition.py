"""Edition: what one question sees, items, users and what is known of them. A change makes the next one."""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella._cached import cached
from tessella.recommend.users import Users
from tessella.search.filters import PreparedFilter
from tessella.versions.version import Version

MOST_CONDITIONS = 256  # that are kept as bits, for each edition


@dataclass(frozen=True)
class Edition:
    """One version of a recommender. Entry j of what is known of items is item ``version.ids[j]``."""

    version: Version
    users: Users | None
    generation: str  # which model this is, whatever has changed since
    number: int  # how many changes led here

    @property
    def n_factors(self) -> int:
        """Coordinates of a user's vector."""
        return self.version.n_factors

    @cached
    def seen_rows(self) -> NDArray[np.int64]:
        """The row of each item that users may have seen; -1 where it is gone."""
        seen = self.known_users().seen
        return np.zeros(0, np.int64) if seen is None else seen.row_of_column(self.version)

    def known_users(self) -> Users:
        """The users, who must be there."""
        if self.users is None:
            raise ValueError("the recommender holds no users; pass vectors, or what a user liked as liked=.")
        return self.users

    def item_vectors(self, ids: NDArray[Any]) -> NDArray[np.float32]:
        """Factors of items, which must be there."""
        self.version.same_kind(ids)
        return self.version.factors_at(self.version.positions_of(ids))[:, : self.n_factors]

    def titles(self, ids: NDArray[Any]) -> NDArray[Any]:
        """Titles of items."""
        return np.full(ids.shape, None, object)

    def fold_in(self, ids: NDArray[Any], weights: Any, regularization: float, alpha: float) -> NDArray[np.float32]:
        """soon"""
        raise NotImplementedError

    def entries_of(self, ids: NDArray[Any]) -> NDArray[np.int64]:
        """The entry of each item, or -1."""
        entries = np.full(len(ids), -1)
        positions = self.version.find(ids)
        there = positions >= 0
        if there.any():
            entries[there] = np.searchsorted(self.version.live_rows, self.version.rows_at(positions[there]))
        return entries
