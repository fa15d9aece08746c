"""Staleness: whether a plan still reaches its target recall after the items have changed."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tessella.retrieval.plan import Exact, Method, Plan
from tessella.search.made_up import made_up_queries
from tessella.search.measuring import FEWEST_QUERIES, MOST_ANSWERS
from tessella.search.recall import recall
from tessella.search.route import search
from tessella.versions.version import Version

MOST_CHANGED = 0.1  # of the items at the time the plan was measured; with more changes, its recall is in doubt
CHECKED = 500  # queries, generated from the items
CERTAINTY = 2.0  # standard errors by which recall must have fallen

_EXACT = Exact()


class Judgement(NamedTuple):
    """The result of checking a plan."""

    plan: Plan
    n_changed: int  # the number of changed items at the time of the check
    verdict: str  # empty if the plan is still good


def checked_recall(
    version: Version, samples: list[NDArray[np.float32]], method: Method, k: int
) -> tuple[tuple[float, float], ...]:
    """Return the recall of a method, and its standard error, on each kind of query generated from the items."""
    n_answers = min(k, version.n_live)
    n = min(CHECKED, max(FEWEST_QUERIES, MOST_ANSWERS // k)) // len(samples)
    checked = []
    for sample in samples:
        truth = search(version, sample[:n], n_answers, _EXACT).scores
        shares = recall(search(version, sample[:n], n_answers, method).scores, truth)
        checked.append((float(shares.mean()), float(shares.std() / np.sqrt(len(shares)))))
    return tuple(checked)


def in_doubt(version: Version, before: int = 0) -> bool:
    """Return whether so many items have changed, beyond the first `before`, that the plan's recall is in doubt."""
    plan = version.plan
    if plan.check is None or not version.n_live or all(method == _EXACT for method in plan.methods):
        return False
    return version.n_changed - before > MOST_CHANGED * (plan.n_items or version.n_live)


def judged(version: Version, last: Judgement | None) -> Judgement | None:
    """Return the judgement of a version's plan; measure again only if many items have changed since the last one."""
    if not in_doubt(version):
        return None
    if last is not None and last.plan is version.plan and not in_doubt(version, last.n_changed):
        return last
    return Judgement(version.plan, version.n_changed, _verdict(version))


def _verdict(version: Version) -> str:
    """Say how far recall has fallen, if it is probably below the target; otherwise return an empty string.

    Generated queries may be harder or easier than those the plan was measured with. So what counts is how far their own
    recall has fallen since.
    """
    plan = version.plan
    if plan.recall is None or plan.target_recall is None or plan.check is None:
        return ""
    now = checked_recall(version, made_up_queries(version), plan.method_for(plan.k), plan.k)
    fallen = [
        (then - mean, then - mean - CERTAINTY * float(np.hypot(error, error_then)))
        for (then, error_then), (mean, error) in zip(plan.check, now, strict=False)
    ]
    by, at_least = max(fallen, key=lambda pair: pair[1])
    if plan.recall[0] - max(at_least, 0.0) >= plan.target_recall:
        return ""
    share = version.n_changed / (plan.n_items or version.n_live)
    return (
        f"changes since it was measured amount to {share:.0%} of its items, and its recall has fallen to about "
        f"{max(plan.recall[0] - by, 0.0):.2f}; use tune(queries) or rebuild()"
    )
