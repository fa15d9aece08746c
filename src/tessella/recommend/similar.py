"""Similar items: by inner product in the index itself, or by cosine in an index of unit factors built on first use."""

import itertools
import os
import threading
import weakref
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tessella import _checks
from tessella.index import Index
from tessella.results import SearchResult
from tessella.retrieval.plan import Exact
from tessella.search.route import search
from tessella.search.selections import selection
from tessella.versions.version import Version

METRICS = ("cosine", "inner product")
MOST_CHANGED = 0.1  # if a larger share of the items has changed, the index of unit factors is rebuilt


class Unit(NamedTuple):
    """The index of unit factors for one version of the items."""

    items: Index
    made_for: "weakref.ref[Version]"


class Similar:
    """Finds the items most similar to given items. Any number of threads can search, in any version of an index.

    Parameters
    ----------
    n_factors : int
        How many coordinates to compare; later ones, such as signals, are ignored.

    Examples
    --------
    >>> import numpy as np
    >>> import tessella as ts
    >>> from tessella.recommend.similar import Similar
    >>> index = ts.Index.build([[1.0, 0.0], [9.0, 9.0], [2.0, 0.2]])
    >>> similar = Similar(index.n_factors)
    >>> similar.search(index._version, [0], k=2).ids
    array([[2, 1]])
    >>> similar.search(index._version, [0], k=2, metric="inner product").ids
    array([[1, 2]])
    """

    def __init__(self, n_factors: int) -> None:
        self._width = n_factors
        self._unit: Unit | None = None
        self._making = threading.Lock()
        _all.add(self)

    def search(
        self,
        version: Version,
        items: Any,
        k: int = 10,
        *,
        metric: str = "cosine",
        itself: bool = False,
        exact: bool = False,
        exclude: Any = None,
        allow: Any = None,
        threads: int | None = None,
    ) -> SearchResult:
        """Find the k items most similar to each given item.

        Parameters
        ----------
        version : Version
            The version to search.
        items : ids
            Ids of existing items. A single id, not in a list, gives arrays with one dimension less.
        k : int, default 10
            How many items to return for each.
        metric : "cosine" or "inner product", default "cosine"
            Cosine uses an index of unit factors, which is built on first use, updated after changes, and takes as much
            memory as the index. The cosine with a zero vector is 0. The inner product favours long factors, and so
            popular items.
        itself : bool, default False
            Whether an item may be listed as similar to itself.
        exact : bool, default False
            Whether to return the true top k, as in `Index.search`.
        exclude, allow
            As in `Index.search`, in any form except a prepared filter.
        threads : int, default None
            How many threads to use; None uses every CPU. Does not affect results.
        """
        _checks.one_of(metric, "metric", METRICS)
        _checks.true_or_false(itself, "itself")
        _checks.true_or_false(exact, "exact")
        wanted = _checks.whole_number(k, "k", 1)
        single = _checks.may_be_id(items)
        ids = _checks.ids([items] if single else items, None, unique=False, name="items")
        version.same_kind(ids)
        there = version if metric == "inner product" else self._unit_version(version, threads)
        queries = np.zeros((len(ids), there.n_factors), np.float32)
        if len(ids):
            queries[:, : self._width] = there.factors_at(there.positions_of(ids))[:, : self._width]
        more = 0 if itself else 1
        found = search(there, queries, wanted + more, Exact() if exact else None, exclude, allow, threads)
        if more:
            found = _without(found, ids)
        return SearchResult(*(array[0] for array in found.arrays().values())) if single else found

    @property
    def nbytes(self) -> int:
        """The size of the index of unit factors in bytes; 0 before its first use."""
        return 0 if self._unit is None else self._unit.items.nbytes

    def _unit_version(self, version: Version, threads: int | None) -> Version:
        """Return the index of unit factors for a version: the last one, updated if items have changed."""
        unit = self._unit
        if unit is None or unit.made_for() is not version:
            with self._making:
                unit = self._unit
                if unit is None or unit.made_for() is not version:
                    changed = None if unit is None else _followed(unit.items, version, self._width)
                    made = _built(version, self._width, threads) if changed is None else changed
                    self._unit = unit = Unit(made, weakref.ref(version))
        return unit.items._version

    def _renew_lock(self) -> None:
        self._making = threading.Lock()


def _built(version: Version, width: int, threads: int | None) -> Index:
    """Build an index of unit factors with the target recall of the items' own index."""
    factors = unit_factors(version, width)
    plan = version.plan
    if all(isinstance(method, Exact) for method in plan.methods) and not plan.automatic:
        return Index.build(factors, version.ids, method="exact", threads=threads)
    return Index.build(
        factors, version.ids, target_recall=plan.target_recall, queries=factors[factors.any(axis=1)], threads=threads
    )


def _followed(index: Index, version: Version, width: int) -> Index | None:
    """Return an updated copy of an index of unit factors; None if it is better to rebuild it."""
    before = index._version
    here, there = version.find(before.ids) >= 0, before.find(version.ids) >= 0
    if not here.any():
        return None
    factors = unit_factors(version, width)
    kept = version.ids[there]
    moved = (factors[there] != before.factors_at(before.positions_of(kept))).any(axis=1)
    n_changed = np.count_nonzero(~here) + np.count_nonzero(~there) + np.count_nonzero(moved)
    if n_changed > MOST_CHANGED * len(before.ids):
        return None
    after = Index(before)  # shares the arrays, but changes independently
    if not here.all():
        after.remove(before.ids[~here])
    if moved.any():
        after.update(factors[there][moved], kept[moved])
    if not there.all():
        after.add(factors[~there], version.ids[~there])
    return after if np.array_equal(after.ids, version.ids) else None  # an item was added again: ties would differ


def allowed_ids(version: Version, mask: NDArray[np.bool_], allow: Any, n: int) -> Any:
    """Combine a mask with the `allow` of n queries; the result can be passed as `allow`."""
    if allow is None:
        return mask, version.ids
    read = selection(version, allow, "allow", n)
    rows, starts = read.rows(version)
    entries = np.searchsorted(version.live_rows, rows)
    if read.n_queries is None:
        return version.ids[entries[mask[entries]]]
    parts = [entries[begin:end] for begin, end in itertools.pairwise(starts)]
    return [version.ids[part[mask[part]]] for part in parts]


def unit_factors(version: Version, width: int) -> NDArray[np.float32]:
    """Return the item factors scaled to length 1, in the order in which they were added; zero vectors stay zero."""
    if not version.n_live:
        raise ValueError("the index has 0 items, but similar items need at least 1; add some first.")
    factors = version.factors_at(version.live_positions)[:, :width].astype(np.float64)
    lengths = np.linalg.norm(factors, axis=1, keepdims=True)
    directions: NDArray[np.float64] = factors / np.where(lengths > 0, lengths, 1.0)
    return directions.astype(np.float32)


def _without(found: SearchResult, ids: NDArray[Any]) -> SearchResult:
    """Remove each item from its own answers; if it is not among them, remove the last answer."""
    own = found.ids == ids[:, None]
    own[~own.any(axis=1), -1] = True
    shape = (len(ids), found.ids.shape[1] - 1)
    return SearchResult(
        found.ids[~own].reshape(shape), found.scores[~own].reshape(shape), found.n_scored, found.certified
    )


_all: "weakref.WeakSet[Similar]" = weakref.WeakSet()


def _release_locks() -> None:
    """Replace the locks in a forked child, where no other thread is left that could hold them."""
    for similar in _all:
        similar._renew_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_release_locks)
