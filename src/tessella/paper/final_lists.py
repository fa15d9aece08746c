"""The final lists of every method: how good they are, and how long a query takes (P17).

Ours is timed as the index answers it, in one native call: as in the paper, weighted, or exact. The candidates of the
baselines are found with SciPy and scored with NumPy, so their times are those of this code, not the best possible.
"""

import functools
import math
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tessella.index import Index
from tessella.paper.measures import coverage, ndcg, speed_up, tie_aware_recall
from tessella.paper.methods import (
    BASELINES,
    METHODS,
    Settings,
    budget_of,
    candidates,
    not_scored,
    paper_index,
    weighted_index,
)
from tessella.paper.problems import KAPPA, Draw, Problem, Scale
from tessella.retrieval.plan import Method, Slots

BRUTE_FORCE = "brute-force"
NAMES = {**METHODS, BRUTE_FORCE: "NumPy brute force"}
_TRIES = 3
PAPER_RULE = Slots("all", "all", threshold_queries=True)  # score every item that shares a slot

Answer = tuple[NDArray[np.int64], NDArray[np.float64]]  # ids, and the share of items discarded for each query


class Timed(NamedTuple):
    """A method that answers all queries of a draw, to be timed."""

    method: str
    budget: str | None  # of a baseline
    settings: Settings
    answer: Callable[[], Answer]


def final_lists(
    problem: Problem, found: dict[str, Any], scale: Scale
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Measure the final lists, which depend only on the seed, and their times and speed-ups, which vary.

    Parameters
    ----------
    problem : Problem
        Its first draw is searched.
    found : dict
        The problem's numbers from `run`; each method uses the setting nearest to the target.
    scale : Scale
        The shares of items that weighted search scores.
    """
    draw = problem.draws[0]
    scores = draw.users.astype(np.float64) @ draw.items.T.astype(np.float64)
    best = -np.sort(-scores, axis=1)[:, :KAPPA]
    lists, times = [], []
    brute_force = math.nan
    for timed in _methods(draw, found, scale):
        (ids, shares), seconds = _timed(timed.answer)
        brute_force = seconds if timed.method == BRUTE_FORCE else brute_force
        found_scores = np.where(ids >= 0, np.take_along_axis(scores, np.maximum(ids, 0), axis=1), -np.inf)
        share = float(shares.mean())
        named = {"method": timed.method, "budget": timed.budget, "settings": timed.settings}
        recall = float(tie_aware_recall(ids, found_scores, best).mean())
        lists.append(
            {
                **named,
                "discarded": share,
                "implied_speed_up": float(speed_up(share)),
                "tie_aware_recall": recall,
                "ndcg": float(ndcg(ids, scores).mean()),
                "coverage": coverage(ids, len(draw.items)),
            }
        )
        per_query = {"seconds": seconds / len(draw.users), "measured_speed_up": brute_force / seconds}
        times.append({**named, "tie_aware_recall": recall, **per_query})
    return lists, times


def _methods(draw: Draw, found: dict[str, Any], scale: Scale) -> Iterator[Timed]:
    """Yield brute force first, for comparison, then every method."""
    n_items, width = draw.items.shape
    yield Timed(BRUTE_FORCE, None, {}, functools.partial(_brute_force, draw))
    exact = Index.build(draw.items, method="exact")
    yield Timed("exact", None, {}, functools.partial(_searched, exact, draw))
    weighted = weighted_index(draw)
    for share in scale.shares:
        answer = functools.partial(_searched, weighted, draw, Slots(budget_of(share, n_items), width))
        yield Timed("weighted", None, {"share": share}, answer)
    for method in ("ours", *BASELINES):
        for budget, match in found["methods"][method]["matched"].items():
            if match and budget in ("tables", "unlimited"):
                settings = match["near"]["settings"]
                if method == "ours":
                    answer = functools.partial(_searched, paper_index(settings, draw), draw, PAPER_RULE)
                    yield Timed(method, None, settings, answer)
                else:
                    answer = functools.partial(_scored, candidates(method, settings, draw), draw)
                    yield Timed(method, budget, settings, answer)


def _searched(index: Index, draw: Draw, method: Method | None = None) -> Answer:
    found = index.search(draw.users, KAPPA, method=method, threads=1)
    return found.ids, not_scored(found, len(draw.items))


def _scored(choose: Callable[[NDArray[np.float32]], Any], draw: Draw) -> Answer:
    """Return the best of each query's candidates."""
    chosen = choose(draw.users)
    ids = np.full((len(draw.users), KAPPA), -1)
    for row, user in enumerate(draw.users):
        items = chosen.indices[chosen.indptr[row] : chosen.indptr[row + 1]]
        top = items[_best(draw.items[items] @ user)]
        ids[row, : len(top)] = top
    return ids, 1 - np.diff(chosen.indptr) / len(draw.items)


def _brute_force(draw: Draw) -> Answer:
    scores = draw.users @ draw.items.T
    return np.stack([_best(row) for row in scores]), np.zeros(len(draw.users))


def _best(scores: NDArray[np.float32]) -> NDArray[np.int64]:
    """Return the positions of the highest scores, highest first."""
    top = np.argpartition(-scores, KAPPA)[:KAPPA] if len(scores) > KAPPA else np.arange(len(scores))
    return top[np.argsort(-scores[top], kind="stable")]


def _timed(answer: Callable[[], Answer]) -> tuple[Answer, float]:
    """Return an answer, and the seconds of the fastest of a few tries."""
    seconds = math.inf
    for _ in range(_TRIES):
        start = time.perf_counter()
        answered = answer()
        seconds = min(seconds, time.perf_counter() - start)
    return answered, seconds
