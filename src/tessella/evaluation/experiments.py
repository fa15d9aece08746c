"""The paper's experiments (P18, P19), with the same sweep and the same reading of it for every method.

A problem is some draws of user and item factors. Each method is swept over its settings; a setting gives a `Point`:
what each user discards and recovers, and what a query costs. Points that no others beat make a frontier, straight
between them, and methods are compared where their frontiers discard the same.
"""

import importlib.metadata
import importlib.util
import math
import os
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tessella import __version__
from tessella.baselines import ConcomitantRank, PCATree, SignRandomProjection, Superbit
from tessella.baselines.hashing import Hashes
from tessella.datasets import DATA_VARIABLE, Ratings, movielens
from tessella.evaluation.factorise import Factors, factorise, factorise_implicit
from tessella.evaluation.metrics import bootstrap_interval
from tessella.index import Index
from tessella.mapping.slots import CounterTree
from tessella.mapping.sparse_map import SparseMap
from tessella.mapping.tessellation import Ternary
from tessella.schema import Schema

KAPPA = 10  # true best items of a user
BASELINES = ("srp", "superbit", "concomitant", "pca-tree")
METHODS = {
    "ours": "ours, as in the paper",
    "weighted": "ours, weighted",
    "exact": "ours, exact",
    "srp": "sign random projections",
    "superbit": "super-bits",
    "concomitant": "concomitant ranks",
    "pca-tree": "PCA-tree",
}
BUDGETS = {
    "single": "one table",
    "work": "look-ups and projections as few as ours",
    "tables": "look-ups as few as ours",
    "unlimited": "as many tables as tried",
}
WEIGHTED_THRESHOLD = 0.7
LEAST_DISCARDED = 0.4  # more tables than this leaves are not tried
LARGE = 20_000  # items beyond which no more than 32 tables are tried, to be done in time
_DISCARD_BINS = 50


class Draw(NamedTuple):
    """Factors to search, and the seed of the baselines' random vectors."""

    users: NDArray[np.float32]
    items: NDArray[np.float32]
    seed: int


@dataclass(frozen=True)
class Problem:
    """Draws of one kind, and the discarded share at which to compare."""

    name: str
    title: str
    draws: tuple[Draw, ...]
    target: float
    facts: dict[str, Any] = field(default_factory=dict)
    popularity: NDArray[np.int64] | None = None  # how often each item was rated


@dataclass(frozen=True)
class Point:
    """What a setting gives, for the users of all draws."""

    settings: dict[str, Any]
    discarded: NDArray[np.float64]  # (n_users,)
    hits: NDArray[np.bool_]  # (n_users, KAPPA): which of the true best items are candidates
    lookups: float  # lists, tables or leaves that a query opens, on average
    projections: float  # products with a vector that a query needs, on average

    @property
    def recovery(self) -> NDArray[np.float64]:
        """The share of the true best items that each user's candidates hold."""
        shares: NDArray[np.float64] = self.hits.mean(axis=1)
        return shares


@dataclass(frozen=True)
class Scale:
    """How much work to do."""

    n_items: int
    n_users: int
    n_seeds: int
    thresholds: NDArray[np.float64]
    bits: tuple[int, ...]
    ranks: tuple[int, ...]
    tables: tuple[int, ...]
    depths: tuple[int, ...]
    spills: tuple[float, ...]
    shares: tuple[float, ...]
    synthetic: tuple[int, ...] = (10, 20, 50)


FULL = Scale(
    n_items=10_000,
    n_users=150,
    n_seeds=3,
    thresholds=np.arange(0.4, 3.05, 0.1),
    bits=(1, 2, 3, 4, 5, 6, 8, 10, 12),
    ranks=(2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64),
    tables=(1, 2, 3, 4, 5, 6, 8, 16, 32, 64, 128, 256),
    depths=(1, 2, 3, 4, 5, 6, 8),
    spills=(0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4),
    shares=(0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3),
)
QUICK = Scale(
    n_items=2000,
    n_users=200,
    n_seeds=2,
    thresholds=np.arange(0.4, 3.05, 0.2),
    bits=(1, 2, 3, 4, 5, 6, 8),
    ranks=(2, 4, 8, 16, 32),
    tables=(1, 2, 3, 4, 5, 6, 8, 16, 64),
    depths=(1, 2, 3, 4, 6),
    spills=(0.0, 0.1, 0.2, 0.3),
    shares=(0.01, 0.02, 0.05, 0.1, 0.2),
)


def synthetic_problems(scale: Scale, seed: int) -> list[Problem]:
    """Standard normal factors (P18), several draws for each width."""
    problems = []
    for k in scale.synthetic:
        draws = []
        for number in range(scale.n_seeds):
            rng = np.random.default_rng([seed, k, number])
            users = rng.standard_normal((scale.n_users, k), dtype=np.float32)
            draws.append(Draw(users, rng.standard_normal((scale.n_items, k), dtype=np.float32), seed + number))
        facts = {"seeds": [[seed, k, number] for number in range(scale.n_seeds)]}
        problems.append(Problem(f"synthetic-{k}", f"Standard normal factors, k = {k}", tuple(draws), 0.8, facts))
    return problems


def movielens_problems(
    data: Path | None, scale: Scale, seed: int, *, more: bool, target: float = 0.7
) -> tuple[list[Problem], list[str]]:
    """MovieLens factors (P19), and where there are more, further sets; and what had to be left out.

    Parameters
    ----------
    data : Path or None
        The folder of data; None is what `movielens` makes of it.
    scale : Scale
        How many users to ask for.
    seed : int
        Of the factorisation and of which users are asked.
    more : bool
        Whether to take the implicit factors, MovieLens 1M and factors found beside the data, too.
    target : float
        The discarded share at which to compare.
    """
    n_users = 2 * scale.n_users * scale.n_seeds

    def problem(name: str, title: str, ratings: Ratings, found: Factors) -> Problem:
        rows = _some(len(found.users), n_users, seed)
        facts: dict[str, Any] = {"seeds": [seed]}
        if found.rmse.size:
            facts["rmse"] = float(found.rmse[-1])
        counts = np.bincount(ratings.items, minlength=ratings.n_items)
        return Problem(name, title, (Draw(found.users[rows], found.items, seed),), target, facts, counts)

    ratings = movielens(data, "100k")
    explicit = factorise(ratings, seed=seed)
    problems = [problem("movielens-100k", "MovieLens 100k, explicit factors, k = 20", ratings, explicit)]
    if not more:
        return problems, []
    lopsided = _bias_on_items(explicit)
    problems.append(
        problem("movielens-100k-bias", "MovieLens 100k, the same with all of the bias on items", ratings, lopsided)
    )
    left_out = []
    if importlib.util.find_spec("implicit") is None:
        left_out.append("implicit factors: pip install 'tessella[experiments]' for the implicit library.")
    else:
        implicit = factorise_implicit(ratings, seed=seed)
        problems.append(
            problem("movielens-100k-implicit", "MovieLens 100k, implicit factors, k = 20", ratings, implicit)
        )
    try:
        ratings = movielens(data, "1m")
    except OSError as error:
        left_out.append(f"MovieLens 1M: {error}")
    else:
        found = factorise(ratings, regularisation=0.065, seed=seed)
        problems.append(problem("movielens-1m", "MovieLens 1M, explicit factors, k = 20", ratings, found))
    folder = data or (Path(os.environ[DATA_VARIABLE]) if os.environ.get(DATA_VARIABLE) else None)
    for users in sorted((folder / "factors").glob("*/users.npy")) if folder else []:
        asked, items = np.load(users), np.load(users.with_name("items.npy"))
        rows = _some(len(asked), 100, seed)
        name = users.parent.name
        problems.append(Problem(name, name, (Draw(asked[rows], items, seed),), target, {"seeds": [seed]}))
    return problems, left_out


def _bias_on_items(found: Factors) -> Factors:
    """The same products, with the bias coordinate of users no larger than their others."""
    users, items = found.users.copy(), found.items.copy()
    size = np.sqrt(np.mean(users[:, :-1] ** 2))
    items[:, -1] *= users[0, -1] / size
    users[:, -1] = size
    return found._replace(users=users, items=items)


def _some(n_rows: int, n_wanted: int, seed: int) -> NDArray[np.int64]:
    rows = np.random.default_rng(seed).permutation(n_rows)[:n_wanted]
    return np.sort(rows)


def true_best(users: NDArray[np.float32], items: NDArray[np.float32]) -> NDArray[np.int64]:
    """The items with the largest products, by the library's exact search."""
    ids: NDArray[np.int64] = Index.build(items).search(users, min(KAPPA, len(items))).ids
    return ids


def sweep(problem: Problem, method: str, scale: Scale) -> list[Point]:
    """The points of a method over its settings."""
    parts: list[dict[str, Point]] = []
    for draw in problem.draws:
        best = true_best(draw.users, draw.items)
        parts.append({str(point.settings): point for point in _POINTS[method](draw, best, scale)})
    kept = [name for name in parts[0] if all(name in part for part in parts)]
    return [_joined([part[name] for part in parts]) for name in kept]


def _joined(points: list[Point]) -> Point:
    """The users of several draws together."""
    return Point(
        points[0].settings,
        np.concatenate([point.discarded for point in points]),
        np.concatenate([point.hits for point in points]),
        float(np.mean([point.lookups for point in points])),
        float(np.mean([point.projections for point in points])),
    )


def _from_candidates(
    inside: NDArray[np.bool_],
    best: NDArray[np.int64],
    settings: dict[str, Any],
    lookups: float,
    projections: float,
) -> Point:
    discarded = 1 - inside.mean(axis=1)
    return Point(settings, discarded, np.take_along_axis(inside, best, axis=1), lookups, projections)


def _ours(draw: Draw, best: NDArray[np.int64], scale: Scale) -> Iterator[Point]:
    """The paper's way: ternary tiles, counter tree, a threshold, and an item is scored if it shares a slot."""
    for kind in ("absolute", "relative"):
        for threshold in scale.thresholds:
            schema = Schema(Ternary(), CounterTree(), float(threshold.round(3)), kind)
            index = Index.build(draw.items, schema=schema)
            lookups = SparseMap(schema).fit(draw.items).transform(draw.users).nnz / len(draw.users)
            settings = {"threshold": schema.threshold, "threshold_kind": kind}
            yield _from_candidates(index.candidates(draw.users).toarray() > 0, best, settings, lookups, 0)


def weighted_index(items: NDArray[np.float32]) -> Index:
    """The index of weighted slots search."""
    return Index.build(items, schema=Schema(Ternary(), CounterTree(), WEIGHTED_THRESHOLD))


def _weighted(draw: Draw, best: NDArray[np.int64], scale: Scale) -> Iterator[Point]:
    """Items ranked by partial products over shared slots; the best `budget` are scored."""
    index = weighted_index(draw.items)
    width = draw.items.shape[1]
    lookups = SparseMap(index.schema).fit(draw.items).transform(draw.users).nnz / len(draw.users)
    for share in scale.shares:
        budget = max(KAPPA, int(share * len(draw.items)))
        found = index.search(draw.users, KAPPA, budget=budget, max_slots=width)
        hits = (best[:, :, None] == found.ids[:, None, :]).any(axis=2)
        settings = {"threshold": WEIGHTED_THRESHOLD, "share": share}
        yield Point(settings, 1 - found.scored / len(draw.items), hits, lookups, 0)


def _exact(draw: Draw, best: NDArray[np.int64], _scale: Scale) -> Iterator[Point]:
    """The proven top, by bounds."""
    found = Index.build(draw.items).search(draw.users, KAPPA)
    hits = (best[:, :, None] == found.ids[:, None, :]).any(axis=2)
    yield Point({}, 1 - found.scored / len(draw.items), hits, 0, 0)


def _hashes(
    draw: Draw, best: NDArray[np.int64], scale: Scale, tries: list[tuple[dict[str, Any], Callable[[int], Hashes], int]]
) -> Iterator[Point]:
    """More and more tables of each kind, until they leave too many candidates.

    More tables begin with those of fewer, so candidate sets grow table by table.
    """
    for settings, made, projections in tries:
        inside = np.zeros((len(draw.users), len(draw.items)), np.bool_)
        done = 0
        for tables in scale.tables:
            hashes = made(tables)
            asked, filed = hashes.codes(draw.users).T[:, :, None], np.ascontiguousarray(hashes.codes(draw.items).T)
            for table in range(done, tables):
                inside |= (asked[table] == filed[table]) & (asked[table] >= 0)
            done = tables
            point = _from_candidates(inside, best, {**settings, "tables": tables}, tables, tables * projections)
            if tables > 1 and point.discarded.mean() < LEAST_DISCARDED:
                break
            yield point


def _srp(draw: Draw, best: NDArray[np.int64], scale: Scale) -> Iterator[Point]:
    def made(bits: int) -> Callable[[int], Hashes]:
        return lambda tables: SignRandomProjection(bits, tables, draw.seed)

    return _hashes(draw, best, scale, [({"bits": bits}, made(bits), bits) for bits in scale.bits])


def _superbit(draw: Draw, best: NDArray[np.int64], scale: Scale) -> Iterator[Point]:
    width = draw.items.shape[1]

    def made(bits: int) -> Callable[[int], Hashes]:
        return lambda tables: Superbit(bits, tables, min(bits, width), draw.seed)

    return _hashes(draw, best, scale, [({"bits": bits}, made(bits), bits) for bits in scale.bits])


def _concomitant(draw: Draw, best: NDArray[np.int64], scale: Scale) -> Iterator[Point]:
    def made(rank: int, length: int) -> Callable[[int], Hashes]:
        return lambda tables: ConcomitantRank(rank, tables, draw.seed, length)

    tries: list[tuple[dict[str, Any], Callable[[int], Hashes], int]] = [
        ({"l": rank, "length": length}, made(rank, length), rank * length)
        for length in (1, 2)
        for rank in scale.ranks
        if rank**length <= 256
    ]
    return _hashes(draw, best, scale, tries)


def _pca_tree(draw: Draw, best: NDArray[np.int64], scale: Scale) -> Iterator[Point]:
    for depth in scale.depths:
        if 2**depth > len(draw.items):
            continue
        for spill in scale.spills:
            candidates = PCATree(depth, spill).fit(draw.items).candidates(draw.users)
            leaves = candidates.nnz / len(draw.users) / (len(draw.items) / 2**depth)
            yield _from_candidates(
                candidates.toarray() > 0, best, {"depth": depth, "spill": spill}, leaves, leaves * depth
            )


_POINTS: dict[str, Callable[[Draw, NDArray[np.int64], Scale], Iterator[Point]]] = {
    "ours": _ours,
    "weighted": _weighted,
    "exact": _exact,
    "srp": _srp,
    "superbit": _superbit,
    "concomitant": _concomitant,
    "pca-tree": _pca_tree,
}


def frontier(points: list[Point]) -> list[Point]:
    """The points that no other and no mixture of two others beats, by what they discard.

    A mixture serves some users with one setting and the rest with the other, so that what it discards and recovers lies
    on the straight line between the two. Without it, coarse sweeps would count against a method.
    """
    places = {id(point): _short(point) for point in points}
    ordered = sorted(points, key=lambda point: [-place for place in places[id(point)]])
    kept: list[Point] = []
    for point in ordered:
        across, up = places[id(point)]
        if kept and up <= places[id(kept[-1])][1]:
            continue
        while len(kept) > 1:
            (first, top), (middle, between) = places[id(kept[-2])], places[id(kept[-1])]
            if (between - top) * (first - across) > (up - top) * (first - middle):
                break
            kept.pop()
        kept.append(point)
    return kept[::-1]


def allowed(points: list[Point], budget: str, lookups: float, n_factors: int) -> list[Point]:
    """The points of a baseline within a budget; `lookups` is what ours needs."""
    whole = math.ceil(lookups - 1e-9)  # a table is looked up or not: in the baselines' favour
    limits = {"single": (1, math.inf), "work": (whole, n_factors), "tables": (whole, math.inf)}
    most_lookups, most_projections = limits.get(budget, (math.inf, math.inf))
    return [
        point
        for point in points
        if point.lookups <= most_lookups + 0.05 and point.projections <= most_projections + 0.05
    ]


class Matched(NamedTuple):
    """A frontier where it discards a given share: between two of its points."""

    recovery: NDArray[np.float64]  # of each user
    lookups: float
    near: Point  # the nearer of the two


def matched(points: list[Point], target: float) -> Matched | None:
    """A method at a discarded share; where its frontier begins beyond, there. None if all settings discard less."""
    line = frontier(points)
    places = np.array([point.discarded.mean() for point in line])
    if not len(line) or target > places[-1]:
        return None
    right = int(np.searchsorted(places, target))
    left = max(0, right - 1)
    low, high = line[left], line[right]
    gap = places[right] - places[left]
    weight = (target - places[left]) / gap if gap else 1.0
    mixed = (1 - weight) * low.recovery + weight * high.recovery
    lookups = (1 - weight) * low.lookups + weight * high.lookups
    return Matched(mixed, lookups, high if weight >= 0.5 else low)


def _interval(values: NDArray[np.float64]) -> dict[str, float]:
    low, high = bootstrap_interval(values)
    return {"mean": float(values.mean()), "low": low, "high": high}


def _plain(point: Point) -> dict[str, Any]:
    """A point as numbers for people and files."""
    return {
        "settings": point.settings,
        "discarded": float(point.discarded.mean()),
        "discarded_sd": float(point.discarded.std()),
        "recovery": _interval(point.recovery),
        "lookups": point.lookups,
        "projections": point.projections,
    }


def _plain_match(found: Matched | None, problem: Problem, best: NDArray[np.int64]) -> dict[str, Any] | None:
    if found is None:
        return None
    plain = {
        "recovery": _interval(found.recovery),
        "lookups": found.lookups,
        "near": _plain(found.near),
        "histogram": np.histogram(found.near.discarded, np.linspace(0, 1, _DISCARD_BINS + 1))[0].tolist(),
    }
    if problem.popularity is not None:
        plain["by_popularity"] = _by_popularity(found.near.hits, problem.popularity[best])
    return plain


def _by_popularity(hits: NDArray[np.bool_], counts: NDArray[np.int64]) -> list[dict[str, float]]:
    """Recovery of the true best items in fifths, from the least to the most rated."""
    order = np.argsort(counts.ravel(), kind="stable")
    fifths = np.array_split(order, 5)
    flat, rated = hits.ravel(), counts.ravel()
    return [
        {"from": int(rated[part].min()), "to": int(rated[part].max()), "recovery": float(flat[part].mean())}
        for part in fifths
    ]


def run(problem: Problem, scale: Scale, advance: Callable[[], None]) -> dict[str, Any]:
    """Every method on a problem, as plain numbers."""
    best = np.concatenate([true_best(draw.users, draw.items) for draw in problem.draws])
    n_items, width = problem.draws[0].items.shape
    if n_items > LARGE:
        scale = replace(scale, tables=tuple(tables for tables in scale.tables if tables <= 32))
    swept: dict[str, list[Point]] = {}
    for method in METHODS:
        swept[method] = sweep(problem, method, scale)
        advance()
    ours = matched(swept["ours"], problem.target)
    methods: dict[str, Any] = {}
    for method, points in swept.items():
        names = BUDGETS if method in BASELINES else ("unlimited",)
        lookups = ours.lookups if ours else 0.0
        within = {name: allowed(points, name, lookups, width) for name in names}
        methods[method] = {
            "points": [_plain(point) for point in points],
            "frontier": {name: [_short(point) for point in frontier(kept)] for name, kept in within.items()},
            "matched": {
                name: _plain_match(matched(kept, problem.target), problem, best) for name, kept in within.items()
            },
        }
    return {
        "title": problem.title,
        "target": problem.target,
        "n_items": n_items,
        "n_users": sum(len(draw.users) for draw in problem.draws),
        "n_factors": width,
        "most_tables": max(scale.tables),
        **problem.facts,
        "lookups": None if ours is None else ours.lookups,
        "methods": methods,
    }


def _short(point: Point) -> list[float]:
    return [float(point.discarded.mean()), float(point.recovery.mean())]


def times(problem: Problem, scale: Scale) -> list[dict[str, Any]]:
    """Seconds a query of ours and of brute force, one thread, the best of three; not the same from run to run."""
    draw = problem.draws[0]
    best = true_best(draw.users, draw.items)
    width = draw.items.shape[1]
    exact, weighted = Index.build(draw.items), weighted_index(draw.items)
    budgets = [max(KAPPA, int(share * len(draw.items))) for share in scale.shares]
    tries: list[tuple[str, float, Callable[[], NDArray[np.int64]]]] = [
        ("NumPy brute force", 1.0, lambda: _brute_force(draw)),
        (METHODS["exact"], 1.0, lambda: exact.search(draw.users, KAPPA, threads=1).ids),
    ]
    for share, budget in zip(scale.shares, budgets, strict=True):

        def slots(budget: int = budget) -> NDArray[np.int64]:
            ids: NDArray[np.int64] = weighted.search(draw.users, KAPPA, budget=budget, max_slots=width, threads=1).ids
            return ids

        tries.append((METHODS["weighted"], share, slots))
    rows = []
    for name, share, call in tries:
        seconds = math.inf
        for _ in range(3):
            start = time.perf_counter()
            ids = call()
            seconds = min(seconds, time.perf_counter() - start)
        recall = float((best[:, :, None] == ids[:, None, :]).any(axis=2).mean())
        rows.append({"method": name, "share": share, "recall": recall, "seconds": seconds / len(draw.users)})
    return rows


def _brute_force(draw: Draw) -> NDArray[np.int64]:
    scores = draw.users @ draw.items.T
    top = np.argpartition(-scores, KAPPA - 1, axis=1)[:, :KAPPA]
    order = np.argsort(-np.take_along_axis(scores, top, axis=1), axis=1)
    return np.take_along_axis(top, order, axis=1)


def versions() -> dict[str, str]:
    """What ran."""
    libraries = ("numpy", "scipy", "matplotlib", "implicit")
    found = {"tessella": __version__, "python": platform.python_version(), "machine": platform.machine()}
    for name in libraries:
        if importlib.util.find_spec(name) is not None:
            found[name] = importlib.metadata.version(name)
    return found


def goals(problems: dict[str, Any]) -> list[dict[str, Any]]:
    """What was hoped for, what was seen, and whether that is it."""
    rows: list[dict[str, Any]] = []
    for name, problem in problems.items():
        if name in ("synthetic-20", "synthetic-50", "synthetic-10", "movielens-100k"):
            rows += [_ahead(name, problem, budget) for budget in BUDGETS]
    for name, least, discarded in (("synthetic-20", 0.95, 0.98), ("movielens-100k", 0.95, 0.9)):
        if name in problems:
            rows.append(_weighted_goal(name, problems[name], least, discarded))
    return rows


def _ahead(name: str, problem: dict[str, Any], budget: str) -> dict[str, Any]:
    """Whether ours is ahead of every baseline, interval above interval."""
    ours = problem["methods"]["ours"]["matched"]["unlimited"]
    theirs = {method: problem["methods"][method]["matched"][budget] for method in BASELINES}
    reached = {method: found["recovery"] for method, found in theirs.items() if found}
    row = {
        "problem": name,
        "goal": f"ours as in the paper ahead of all four at {problem['target']:.0%} discarded, {BUDGETS[budget]}",
        "budget": budget,
        "asked": budget == "tables" and name != "synthetic-10",
    }
    if ours is None or not reached:
        return {**row, "seen": "not reached", "met": False}
    best = max(reached, key=lambda method: reached[method]["mean"])
    seen = f"{_words(ours['recovery'])} against {_words(reached[best])} ({METHODS[best]})"
    return {**row, "seen": seen, "met": ours["recovery"]["low"] > max(part["high"] for part in reached.values())}


def _weighted_goal(name: str, problem: dict[str, Any], least: float, discarded: float) -> dict[str, Any]:
    points = problem["methods"]["weighted"]["points"]
    enough = [point for point in points if point["discarded"] >= discarded - 5e-4]  # a budget is a whole number
    best = max(enough, key=lambda point: point["recovery"]["mean"]) if enough else None
    seen = "not reached" if best is None else f"{_words(best['recovery'])} at {best['discarded']:.1%} discarded"
    return {
        "problem": name,
        "goal": f"ours weighted recovers at least {least:.2f} with at least {discarded:.0%} discarded",
        "budget": None,
        "asked": True,
        "seen": seen,
        "met": best is not None and best["recovery"]["mean"] >= least,
    }


def _words(interval: dict[str, float]) -> str:
    return f"{interval['mean']:.3f} [{interval['low']:.3f}, {interval['high']:.3f}]"
