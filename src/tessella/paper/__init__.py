"""Measures of candidate sets and of answers (P17)."""

from tessella.paper.measures import (
    Curve,
    accuracy_at,
    area_between,
    bootstrap_interval,
    candidate_recovery,
    coverage,
    curve,
    discarded,
    ndcg,
    recovery,
    speed_up,
    tie_aware_recall,
)

__all__ = [
    "Curve",
    "accuracy_at",
    "area_between",
    "bootstrap_interval",
    "candidate_recovery",
    "coverage",
    "curve",
    "discarded",
    "ndcg",
    "recovery",
    "speed_up",
    "tie_aware_recall",
]
