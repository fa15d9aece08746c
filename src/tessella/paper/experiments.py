"""Run every method on a problem, and return plain numbers for text, figures and files."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.paper.frontiers import BUDGETS, Matched, allowed, frontier, matched, mean_gain, place
from tessella.paper.measures import bootstrap_interval, discarded
from tessella.paper.methods import BASELINES, METHODS, Point, sweep, true_best, weighted_index
from tessella.paper.problems import Problem, Scale

LARGE = 20_000  # with more items, at most 32 tables are tried, to limit the time
_DISCARD_BINS = 50


def run(problem: Problem, scale: Scale, tell: Callable[[str], None] = lambda _doing: None) -> dict[str, Any]:
    """Run every method on a problem.

    Parameters
    ----------
    problem : Problem
        The factors to search.
    scale : Scale
        The settings to try.
    tell : callable
        Called with the name of each method before it is swept.
    """
    n_items, width = problem.draws[0].items.shape
    if n_items > LARGE:
        scale = replace(scale, tables=tuple(tables for tables in scale.tables if tables <= 32))
    best = [true_best(draw) for draw in problem.draws]
    swept: dict[str, list[Point]] = {}
    for method, name in METHODS.items():
        tell(name)
        swept[method] = sweep(method, problem.draws, best, scale)
    counts = None if problem.popularity is None else problem.popularity[np.concatenate(best)]
    ours = matched(swept["ours"], problem.target)
    methods: dict[str, Any] = {}
    for method, points in swept.items():
        names = BUDGETS if method in BASELINES else ("unlimited",)
        within = {name: allowed(points, name, ours.lookups if ours else 0.0, width) for name in names}
        methods[method] = {
            "points": [_plain(point) for point in points],
            "frontier": {name: [place(point) for point in frontier(kept)] for name, kept in within.items()},
            "matched": {name: _plain_match(matched(kept, problem.target), counts) for name, kept in within.items()},
            "mean_gain_of_ours": {name: mean_gain(swept["ours"], kept) for name, kept in within.items()},
        }
    return {
        "title": problem.title,
        "target": problem.target,
        "n_items": n_items,
        "n_users": sum(len(draw.users) for draw in problem.draws),
        "n_factors": width,
        "most_tables": max(scale.tables),
        **problem.facts,
        "lookups": ours and ours.lookups,
        "filed": ours and ours.filed,
        "share_a_slot": _sharing(problem),
        "methods": methods,
    }


def _sharing(problem: Problem) -> float:
    """Return the share of items that share a slot with a user in weighted search, and so are ranked."""
    parts = [1 - discarded(weighted_index(draw).candidates(draw.users)) for draw in problem.draws]
    return float(np.concatenate(parts).mean())


def _interval(values: NDArray[np.float64]) -> dict[str, float]:
    low, high = bootstrap_interval(values)
    return {"mean": float(values.mean()), "low": low, "high": high}


def _plain(point: Point) -> dict[str, Any]:
    """Return a point as plain numbers."""
    return {
        "settings": point.settings,
        "discarded": float(point.discarded.mean()),
        "discarded_sd": float(point.discarded.std()),
        "recovery": _interval(point.recovery),
        "lookups": point.lookups,
        "projections": point.projections,
        "filed": point.filed,
    }


def _plain_match(found: Matched | None, counts: NDArray[np.int64] | None) -> dict[str, Any] | None:
    """Return a method's numbers at the target; `counts` says how often the true best items were rated."""
    if found is None:
        return None
    plain = {
        "recovery": _interval(found.recovery),
        "lookups": found.lookups,
        "near": _plain(found.near),
        "histogram": np.histogram(found.near.discarded, np.linspace(0, 1, _DISCARD_BINS + 1))[0].tolist(),
    }
    if counts is not None:
        plain["by_popularity"] = _by_popularity(found.hits, counts)
    return plain


def _by_popularity(hits: NDArray[np.float64], counts: NDArray[np.int64]) -> list[dict[str, float]]:
    """Return the recovery of the true best items in fifths, from the least to the most rated."""
    order = np.argsort(counts.ravel(), kind="stable")
    flat, rated = hits.ravel(), counts.ravel()
    return [
        {"from": int(rated[part].min()), "to": int(rated[part].max()), "recovery": float(flat[part].mean())}
        for part in np.array_split(order, 5)
    ]
