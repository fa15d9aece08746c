"""Every method, swept over its settings on the same draws (P16).

Each setting gives a `Point`: the share discarded and recovered for each user, and the cost of a query. Ours and the
baselines share one protocol: queries in, candidates out. `candidates` fits any of them.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from tessella.index import Index
from tessella.mapping.schema import Schema
from tessella.mapping.slots import CounterTree
from tessella.mapping.sparse_map import SparseMap
from tessella.mapping.tessellation import Ternary
from tessella.paper.baselines import ConcomitantRank, PCATree, SignRandomProjection, Superbit
from tessella.paper.baselines.hashing import Hashes
from tessella.paper.problems import KAPPA, Draw, Scale
from tessella.results import SearchResult
from tessella.retrieval.plan import Slots

BASELINES = ("srp", "superbit", "concomitant", "pca-tree")
RANDOM = BASELINES[:3]  # those with random vectors, for which draws of the same items differ
METHODS = {
    "ours": "ours, as in the paper",
    "weighted": "ours, weighted",
    "exact": "ours, exact",
    "srp": "sign random projections",
    "superbit": "super-bits",
    "concomitant": "concomitant ranks",
    "pca-tree": "PCA-tree",
}
WEIGHTED_THRESHOLD = 0.7
LEAST_DISCARDED = 0.4  # once a number of tables discards less, larger numbers are not tried

Settings = dict[str, Any]


@dataclass(frozen=True)
class Point:
    """The result of a setting, for the users of one draw or of all."""

    settings: Settings
    discarded: NDArray[np.float64]  # (n_users,)
    hits: NDArray[np.bool_]  # (n_users, KAPPA): which of the true best items are candidates
    lookups: float  # lists, tables or leaves that a query opens, on average
    projections: float  # products with a vector that a query needs, on average
    filed: float  # lists, tables or leaves that an item is in, on average

    @property
    def recovery(self) -> NDArray[np.float64]:
        """The share of the true best items that each user's candidates hold."""
        shares: NDArray[np.float64] = self.hits.mean(axis=1)
        return shares


def true_best(draw: Draw) -> NDArray[np.int64]:
    """Return the items with the largest products, in order, by brute force in double precision; ties to the earlier."""
    items = draw.items.T.astype(np.float64)
    best = np.empty((len(draw.users), KAPPA), np.int64)
    for row, user in enumerate(draw.users.astype(np.float64)):
        best[row] = np.argsort(-(user @ items), kind="stable")[:KAPPA]
    return best


def sweep(method: str, draws: tuple[Draw, ...], best: list[NDArray[np.int64]], scale: Scale) -> list[Point]:
    """Return the points of a method, for the settings that every draw has."""
    if method not in RANDOM and all(draw.items is draws[0].items for draw in draws):
        draws, best = (draws[0]._replace(users=np.concatenate([draw.users for draw in draws])),), [np.concatenate(best)]
    parts = [
        {str(point.settings): point for point in _POINTS[method](draw, truth, scale)}
        for draw, truth in zip(draws, best, strict=True)
    ]
    kept = [name for name in parts[0] if all(name in part for part in parts)]
    return [_joined([part[name] for part in parts]) for name in kept]


def _joined(points: list[Point]) -> Point:
    """Combine the users of several draws."""
    return Point(
        points[0].settings,
        np.concatenate([point.discarded for point in points]),
        np.concatenate([point.hits for point in points]),
        float(np.mean([point.lookups for point in points])),
        float(np.mean([point.projections for point in points])),
        float(np.mean([point.filed for point in points])),
    )


def candidates(method: str, settings: Settings, draw: Draw) -> Callable[[NDArray[np.float32]], csr_array]:
    """Fit a method to the items of a draw; return its function from queries to candidates."""
    if method == "ours":
        return paper_index(settings, draw).candidates
    if method == "pca-tree":
        tree = PCATree(settings["depth"], settings["spill"]).fit(_lengths(draw.items, settings["lengths"]))
        return lambda queries: tree.candidates(_lengths(queries, settings["lengths"]))
    return _hash(method, settings, draw).fit(draw.items).candidates


def paper_index(settings: Settings, draw: Draw) -> Index:
    """Build the index for the paper's own rule."""
    return Index.build(draw.items, method="exact", schema=_schema(settings))


def weighted_index(draw: Draw) -> Index:
    """Build the index for weighted slots search."""
    return Index.build(draw.items, method="exact", schema=Schema(Ternary(), CounterTree(), WEIGHTED_THRESHOLD))


def budget_of(share: float, n_items: int) -> int:
    """Return how many items weighted search scores."""
    return max(KAPPA, int(share * n_items))


def _from_candidates(inside: NDArray[np.bool_], best: NDArray[np.int64], settings: Settings, *costs: float) -> Point:
    return Point(settings, 1 - inside.mean(axis=1), np.take_along_axis(inside, best, axis=1), *costs)


def _schema(settings: Settings) -> Schema:
    return Schema(Ternary(), CounterTree(), settings["threshold"], settings["threshold_kind"])


def _slots(schema: Schema, draw: Draw) -> tuple[float, float]:
    """Return the mean numbers of slots of a user and of an item."""
    mapped = SparseMap(schema).fit(draw.items)
    return mapped.transform(draw.users).nnz / len(draw.users), mapped.transform(draw.items).nnz / len(draw.items)


def _ours(draw: Draw, best: NDArray[np.int64], scale: Scale) -> Iterator[Point]:
    """Sweep the paper's rule: ternary tiles, counter tree, a threshold; an item is scored if it shares a slot."""
    for kind in ("absolute", "relative"):
        for threshold in scale.thresholds:
            settings = {"threshold": threshold, "threshold_kind": kind}
            inside = candidates("ours", settings, draw)(draw.users).toarray() > 0
            lookups, filed = _slots(_schema(settings), draw)
            yield _from_candidates(inside, best, settings, lookups, 0, filed)


def _weighted(draw: Draw, best: NDArray[np.int64], scale: Scale) -> Iterator[Point]:
    """Sweep weighted search: items are ranked by partial products over shared slots, and the best are scored."""
    index = weighted_index(draw)
    n_items, width = draw.items.shape
    lookups, filed = _slots(index.schema, draw)
    for share in scale.shares:
        found = index.search(draw.users, KAPPA, method=Slots(budget_of(share, n_items), width))
        settings = {"threshold": WEIGHTED_THRESHOLD, "share": share}
        yield Point(settings, not_scored(found, n_items), _found(best, found.ids), lookups, 0, filed)


def _exact(draw: Draw, best: NDArray[np.int64], _scale: Scale) -> Iterator[Point]:
    """Search exactly, by bounds."""
    found = Index.build(draw.items, method="exact").search(draw.users, KAPPA)
    yield Point({}, not_scored(found, len(draw.items)), _found(best, found.ids), 0, 0, 1)


def not_scored(found: SearchResult, n_items: int) -> NDArray[np.float64]:
    """Return the share of items not scored for each query; after slots search, an exact search may score some twice."""
    return 1 - np.minimum(found.n_scored, n_items) / n_items


def _found(best: NDArray[np.int64], ids: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which of the true best items are answers."""
    hits: NDArray[np.bool_] = (best[:, :, None] == ids[:, None, :]).any(axis=2)
    return hits


def _hash(method: str, settings: Settings, draw: Draw) -> Hashes:
    tables = settings["tables"]
    if method == "concomitant":
        return ConcomitantRank(settings["l"], tables, draw.seed, settings["length"])
    if method == "superbit":
        return Superbit(settings["bits"], tables, min(settings["bits"], draw.items.shape[1]), draw.seed)
    return SignRandomProjection(settings["bits"], tables, draw.seed)


def _codes_to_try(method: str, scale: Scale) -> list[tuple[Settings, int]]:
    """Return the settings of a table to try, and how many projections each needs."""
    if method != "concomitant":
        return [({"bits": bits}, bits) for bits in scale.bits]
    return [
        ({"l": rank, "length": length}, rank * length)
        for length in (1, 2, 3)
        for rank in scale.ranks
        if rank**length <= scale.most_codes
    ]


def _hashes(method: str, draw: Draw, best: NDArray[np.int64], scale: Scale) -> Iterator[Point]:
    """Sweep over increasing numbers of tables of each kind, until there are too many candidates.

    With more tables the first stay the same, so candidate sets grow table by table.
    """
    for code, projections in _codes_to_try(method, scale):
        inside = np.zeros((len(draw.users), len(draw.items)), np.bool_)
        pairs = _pairs(method, code, draw, max(scale.tables))
        done = 0
        for tables in scale.tables:
            settings = {**code, "tables": tables}
            for asked, filed in itertools.islice(pairs, tables - done):
                _unite(inside, asked, filed)
            done = tables
            point = _from_candidates(inside, best, settings, tables, tables * projections, tables)
            if tables > 1 and point.discarded.mean() < LEAST_DISCARDED:
                break
            yield point


def _unite(inside: NDArray[np.bool_], asked: NDArray[Any], filed: NDArray[Any]) -> None:
    """Add the candidates of one table, bucket by bucket, or pair by pair if buckets are large."""
    order = np.argsort(filed, kind="stable")
    first, last = (np.searchsorted(filed, asked, side, sorter=order) for side in ("left", "right"))
    sizes = last - first
    if sizes.sum() > inside.size // 32:
        inside |= asked[:, None] == filed
        return
    rows = np.repeat(np.arange(len(asked)), sizes)
    places = np.arange(len(rows)) + np.repeat(last - np.cumsum(sizes), sizes)
    inside[rows, order[places]] = True


def _pairs(method: str, code: Settings, draw: Draw, most: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield the codes of users and of items, table by table; compute only as many as are likely to be needed."""
    done = 0
    for tables in (min(8, most), most):
        hashes = _hash(method, {**code, "tables": tables}, draw)
        asked, filed = hashes.codes(draw.users).T, hashes.codes(draw.items).T
        asked[asked < 0] = -2  # a query of zeros has no bucket, not even that of items of zeros
        small = np.int16 if max(asked.max(), filed.max()) < 2**15 else np.int64  # narrow integers compare faster
        yield from zip(asked[done:].astype(small), filed[done:].astype(small), strict=True)
        done = tables


def _srp(draw: Draw, best: NDArray[np.int64], scale: Scale) -> Iterator[Point]:
    return _hashes("srp", draw, best, scale)


def _superbit(draw: Draw, best: NDArray[np.int64], scale: Scale) -> Iterator[Point]:
    return _hashes("superbit", draw, best, scale)


def _concomitant(draw: Draw, best: NDArray[np.int64], scale: Scale) -> Iterator[Point]:
    return _hashes("concomitant", draw, best, scale)


def _lengths(factors: NDArray[np.float32], lengths: str) -> NDArray[np.float32]:
    """Return factors unchanged or, to compare directions only, normalised."""
    if lengths == "kept":
        return factors
    norms = np.linalg.norm(factors, axis=1, keepdims=True)
    scaled = factors / np.where(norms > 0, norms, 1)
    return scaled.astype(np.float32)


def _pca_tree(draw: Draw, best: NDArray[np.int64], scale: Scale) -> Iterator[Point]:
    """Sweep trees of the factors and of their directions: either may do better."""
    for lengths in ("kept", "one"):
        for depth in scale.depths:
            if 2**depth > len(draw.items):
                continue
            fitted = PCATree(depth).fit(_lengths(draw.items, lengths))
            queries = _lengths(draw.users, lengths)
            for spill in scale.spills:
                settings = {"depth": depth, "spill": spill, "lengths": lengths}
                tree = fitted.with_spill(spill)
                leaves, splits = (float(part.mean()) for part in tree.visits(queries))
                inside = tree.candidates(queries).toarray() > 0
                yield _from_candidates(inside, best, settings, leaves, splits, 1)


_POINTS: dict[str, Callable[[Draw, NDArray[np.int64], Scale], Iterator[Point]]] = {
    "ours": _ours,
    "weighted": _weighted,
    "exact": _exact,
    "srp": _srp,
    "superbit": _superbit,
    "concomitant": _concomitant,
    "pca-tree": _pca_tree,
}
