"""Edition: one immutable state of a recommender, with its items, users and metadata. Each change makes a new one."""

import contextlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella import _checks
from tessella._cached import cached, carry_over
from tessella.index import Index
from tessella.recommend.attributes import Attributes
from tessella.recommend.boosting import Boosting
from tessella.recommend.conditions import Condition
from tessella.recommend.fold_in import Gram, fold_in
from tessella.recommend.signals import Signals
from tessella.recommend.users import Users
from tessella.search.filters import PreparedFilter
from tessella.versions.version import Version

MOST_CONDITIONS = 256  # how many conditions each edition caches as bits
MEASURED = 2_000  # how many user vectors plans are measured with
TITLE = "title"


@dataclass(frozen=True)
class Edition:
    """One version of a recommender. Entry j of attributes and signals belongs to item ``version.ids[j]``."""

    version: Version
    users: Users | None
    attributes: Attributes | None
    signals: Signals | None
    generation: str  # identifies the model, whatever has changed since
    number: int  # how many changes led here
    boosting: Boosting | None = None  # plans for searches with boosts

    @cached
    def n_factors(self) -> int:
        """The number of coordinates of a user's vector; an item has one more for each signal."""
        return self.version.n_factors - (0 if self.signals is None else len(self.signals.names))

    @cached
    def seen_rows(self) -> NDArray[np.int64]:
        """The row of each item that users may have seen; -1 if it was removed."""
        seen = self.known_users().seen
        return np.zeros(0, np.int64) if seen is None else seen.row_of_column(self.version)

    @cached
    def gram(self) -> Gram:
        """The Gram matrix of the items."""
        return Gram.of(self.factors())

    @cached
    def _kept(self) -> "OrderedDict[str, PreparedFilter]":
        """The filters of the most recent conditions, by their canonical text; they do not refer to this edition."""
        return OrderedDict()

    def mask_of(self, where: Any) -> NDArray[np.bool_]:
        """Return a mask of the entries for which a condition is true."""
        attributes = self.known_attributes("where")
        return Condition.of(where, attributes).mask(attributes)

    def filter_of(self, where: Any) -> PreparedFilter:
        """Return the filter of a condition; its bits are cached."""
        attributes = self.known_attributes("where")
        condition, kept = Condition.of(where, attributes), self._kept
        text = condition.text
        found = kept.get(text)
        if found is None:
            mask = condition.mask(attributes)
            found = kept[text] = PreparedFilter(self.version, None, (mask, self.version.ids))
        with contextlib.suppress(KeyError):  # another thread may have removed it
            kept.move_to_end(text)
            if len(kept) > MOST_CONDITIONS:
                kept.popitem(last=False)
        return found

    def ready(self) -> "Edition":
        """Compute in advance what every query needs, and return this edition."""
        if self.users is not None:
            self.seen_rows  # noqa: B018
        return self

    def known_attributes(self, what: str) -> Attributes:
        """Return the attributes, which `what` needs; refuse if there are none."""
        if self.attributes is None:
            raise ValueError(f"{what} needs item attributes, but the recommender has none; build it with attributes.")
        return self.attributes

    def known_users(self) -> Users:
        """Return the users; refuse if there are none."""
        if self.users is None:
            raise ValueError("the recommender has no users; pass vectors, or the liked items as liked=.")
        return self.users

    def factors(self) -> NDArray[np.float32]:
        """Return the factors of all items, without their signals."""
        if not self.version.n_live:
            return np.zeros((0, self.n_factors), np.float32)
        return np.ascontiguousarray(self.version.factors_at(self.version.live_positions)[:, : self.n_factors])

    def item_vectors(self, ids: NDArray[Any]) -> NDArray[np.float32]:
        """Return the factors of existing items."""
        self.version.same_kind(ids)
        if not len(ids):
            return np.zeros((0, self.n_factors), np.float32)
        return np.ascontiguousarray(self.version.factors_at(self.version.positions_of(ids))[:, : self.n_factors])

    def fold_in(
        self, ids: NDArray[Any], weights: ArrayLike | None, regularization: float, alpha: float
    ) -> NDArray[np.float32]:
        """Compute the vector of a user who liked these items."""
        if not len(ids):
            raise ValueError("there are no liked items, but folding in needs at least 1.")
        return fold_in(self.item_vectors(ids), weights, self.gram, regularization=regularization, alpha=alpha)

    def entries_of(self, ids: NDArray[Any]) -> NDArray[np.int64]:
        """Return the entry of each item, or -1 if it does not exist."""
        entries = np.full(len(ids), -1)
        positions = self.version.find(ids)
        there = positions >= 0
        if there.any():
            entries[there] = np.searchsorted(self.version.live_rows, self.version.rows_at(positions[there]))
        return entries

    @property
    def titled(self) -> bool:
        """Whether items have titles."""
        return self.attributes is not None and TITLE in self.attributes.names

    def titles(self, ids: NDArray[Any]) -> NDArray[Any]:
        """Return the titles of items in answers; None for a missing item or title."""
        found = np.full(ids.shape, None, object)
        entries = self.entries_at(ids)
        there = entries >= 0
        if self.attributes is not None and self.titled:
            found[there] = self.attributes.values(TITLE, entries[there])
        return found

    def entries_at(self, ids: NDArray[Any]) -> NDArray[np.int64]:
        """Return the entry of each item in answers; -1 for a missing item."""
        there, named = named_in(ids)
        entries = np.full(ids.shape, -1)
        entries[there] = self.entries_of(named)
        return entries

    def with_users(self, users: Users) -> "Edition":
        """Return the edition with other users."""
        after = replace(self, users=users, number=self.number + 1)
        carry_over(("gram", "_kept"), self, after)  # depend on the items only
        return after

    def tuned(self, queries: ArrayLike | None, target_recall: float, k: int) -> "Edition":
        """Return the edition with a new search plan."""
        asked = self._measured_with(queries)
        version = changed(self.version, lambda index: index.tune(asked, target_recall, k))
        return self._planned(replace(self, version=version, number=self.number + 1), asked)

    def rebuilt(self, queries: ArrayLike | None, threads: int | None) -> "Edition":
        """Return the edition with everything refitted to the current items."""
        asked = self._measured_with(queries)
        before = self
        if self.signals is not None and self.version.n_live:
            signals = self.signals.refitted(self.factors())
            extended = signals.extend(self.factors())
            version = changed(self.version, lambda index: index.update(extended, self.version.ids))
            before = replace(self, signals=signals, version=version)
        version = changed(before.version, lambda index: index.rebuild(queries=asked, threads=threads))
        return self._planned(replace(before, version=version, number=self.number + 1), asked)

    def _measured_with(self, queries: ArrayLike | None) -> NDArray[np.float32] | None:
        """Return queries to measure plans with: those passed, or a sample of the users; None if there are neither.

        Their signal coordinates are zeros.
        """
        if queries is None:
            factors = None if self.users is None else self.users.factors
            queries = None if factors is None else some_vectors(factors)
        if queries is None:
            return None
        asked = _checks.all_factors(queries, "queries", self.n_factors)
        return asked if self.signals is None else np.hstack([asked, self.signals.query_part(None, len(asked))])

    def _planned(self, after: "Edition", asked: NDArray[np.float32] | None) -> "Edition":
        """Add the plans for boosts to an edition, measured with queries whose signal coordinates are zeros."""
        return after.with_boosting(None if asked is None else asked[:, : self.n_factors])

    def with_boosting(self, queries: NDArray[np.float32] | None) -> "Edition":
        """Return the edition with plans for searches with boosts."""
        if self.signals is None or not self.signals.names:
            return self
        return replace(self, boosting=Boosting.measured(self.version, len(self.signals.names), queries))

    def with_items(self, item_factors: ArrayLike, ids: ArrayLike, attributes: Any, signals: Any) -> "Edition":
        """Return the edition with more items."""
        factors = _checks.item_factors(item_factors, self.n_factors)
        n = len(factors)
        new_attributes = self.attributes
        if self.attributes is not None:
            given = _given(attributes, self.attributes.names, "attributes")
            new_attributes = self.attributes.joined(Attributes.of(given, n, like=self.attributes))
        elif attributes is not None:
            raise ValueError("attributes are given, but the recommender was built without attributes.")
        extended, new_signals = factors, self.signals
        if self.signals is not None:
            new_signals = self.signals.joined(_given(signals, self.signals.names, "signals"), n)
            extended = new_signals.extend(factors, slice(len(self.signals), None))
        elif signals is not None:
            raise ValueError("signals are given, but the recommender was built without signals.")
        version = changed(self.version, lambda index: index.add(extended, ids))
        return self._after(version, new_attributes, new_signals, None, factors)

    def with_updates(self, item_factors: ArrayLike | None, ids: ArrayLike, attributes: Any, signals: Any) -> "Edition":
        """Return the edition with new factors, attributes or signals for some items."""
        named = _checks.ids(ids, None)
        before = self.item_vectors(named)
        entries = self.entries_of(named)
        factors = before if item_factors is None else _checks.item_factors(item_factors, self.n_factors)
        if len(factors) != len(named):
            raise ValueError(f"ids has {len(named)} entries, but there are {len(factors)} items.")
        new_attributes, new_signals = self.attributes, self.signals
        if attributes is not None:
            if self.attributes is None:
                raise ValueError("attributes are given, but the recommender was built without attributes.")
            given = Attributes.of(attributes, len(named), like=self.attributes, some=True)
            new_attributes = self.attributes.replaced(entries, given)
        if signals is not None:
            if self.signals is None:
                raise ValueError("signals are given, but the recommender was built without signals.")
            new_signals = self.signals.replaced(entries, signals)
        if item_factors is None and signals is None:
            after = self._after(self.version, new_attributes, new_signals, None, None)
        else:
            extended = factors if new_signals is None else new_signals.extend(factors, entries)
            version = changed(self.version, lambda index: index.update(extended, named))
            after = self._after(version, new_attributes, new_signals, before, factors)
        carry_over(("seen_rows",), self, after)  # updated items keep their rows
        return after

    def without_items(self, ids: ArrayLike) -> "Edition":
        """Return the edition without some items."""
        named = _checks.ids(ids, None)
        before = self.item_vectors(named)
        kept = np.delete(np.arange(self.version.n_live), self.entries_of(named))
        version = changed(self.version, lambda index: index.remove(named))
        attributes = None if self.attributes is None else self.attributes.take(kept)
        signals = None if self.signals is None else self.signals.take(kept)
        return self._after(version, attributes, signals, before, None)

    def _after(
        self,
        version: Version,
        attributes: Attributes | None,
        signals: Signals | None,
        left: NDArray[np.float32] | None,
        came: NDArray[np.float32] | None,
    ) -> "Edition":
        """Return the next edition; update the Gram matrix, if there is one, by the factors that left and came."""
        after = replace(self, version=version, attributes=attributes, signals=signals, number=self.number + 1)
        gram = vars(self).get("gram")
        if gram is not None:
            gram = gram if left is None else gram.minus(left)
            gram = gram if came is None else gram.plus(came)
            if not gram.worn:
                vars(after)["gram"] = gram
        return after


def changed(version: Version, change: Callable[[Index], Any]) -> Version:
    """Apply a change to an index and return the new version."""
    index = Index(version)
    change(index)
    return index._version


def named_in(ids: NDArray[Any]) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """Return where answers have an item, and the ids of those; a missing item is -1, or None if ids are strings."""
    nothing = None if ids.dtype.kind == "O" else -1
    there: NDArray[np.bool_] = np.asarray(ids != nothing)
    named = ids[there]
    return there, named.astype(np.str_) if ids.dtype.kind == "O" else named


def some_vectors(factors: NDArray[Any]) -> NDArray[Any] | None:
    """Sample vectors, evenly spaced over all users, to measure with; None if all are zero or some are not finite."""
    step = max(1, len(factors) // MEASURED)
    taken = np.asarray(factors[::step]).reshape(-1, factors.shape[-1])[:MEASURED]
    return taken if taken.any() and np.isfinite(taken).all() else None


def _given(data: Any, names: Any, what: str) -> Any:
    """Return the attributes or signals of new items; refuse if they are missing."""
    if data is None:
        raise ValueError(f"{what} of the new items are missing; pass {', '.join(map(repr, names))}.")
    return data
