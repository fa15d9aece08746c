"""Staleness: whether a plan still keeps its recall after the items have changed."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tessella.retrieval.plan import Exact, Method, Plan
from tessella.search.made_up import made_up_queries
from tessella.search.measuring import FEWEST_QUERIES, MOST_ANSWERS
from tessella.search.recall import recall
from tessella.search.route import search
from tessella.versions.version import Version

MOST_CHANGED = 0.1  # of the items there were when the plan was measured; beyond, its recall is in doubt
CHECKED = 500  # queries, made from the items
CERTAINTY = 2.0  # standard errors by which a recall must have fallen

_EXACT = Exact()


class Judgement(NamedTuple):
    """What was found out about a plan."""

    plan: Plan
    n_changed: int  # items, until then
    verdict: str  # empty if the plan still holds


def checked_recall(
    version: Version, samples: list[NDArray[np.float32]], method: Method, k: int
) -> tuple[tuple[float, float], ...]:
    """The recall of a method, and its standard error, on every kind of queries that are made from the items."""
    n_answers = min(k, version.n_live)
    n = min(CHECKED, max(FEWEST_QUERIES, MOST_ANSWERS // k)) // len(samples)
    checked = []
    for sample in samples:
        truth = search(version, sample[:n], n_answers, _EXACT).scores
        shares = recall(search(version, sample[:n], n_answers, method).scores, truth)
        checked.append((float(shares.mean()), float(shares.std() / np.sqrt(len(shares)))))
    return tuple(checked)


def in_doubt(version: Version, before: int = 0) -> bool:
    """Whether more items have changed, since some had, than a plan is trusted with."""
    plan = version.plan
    if plan.check is None or not version.n_live or all(method == _EXACT for method in plan.methods):
        return False
    return version.n_changed - before > MOST_CHANGED * (plan.n_items or version.n_live)


def judged(version: Version, last: Judgement | None) -> Judgement | None:
    """What is known of a version's plan, measured if that is in doubt and too much has changed since the last time."""
    if not in_doubt(version):
        return None
    if last is not None and last.plan is version.plan and not in_doubt(version, last.n_changed):
        return last
    return Judgement(version.plan, version.n_changed, _verdict(version))


def _verdict(version: Version) -> str:
    """What has become of the recall, if it can no longer be what was asked for.

    Made-up queries may be harder or easier than those the plan was measured with. So what counts is by how much their
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
        f"changes since it was measured come to {share:.0%} of its items, and its recall has fallen to about "
        f"{max(plan.recall[0] - by, 0.0):.2f}; use tune(queries) or rebuild()"
    )
