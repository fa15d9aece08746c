"""Races with more than ten answers, and over wide factors: our best and the best peer, exact search and faiss Flat."""

import argparse
import time

import claims
import ours
import peers
import race
import sets
from methods import Family
from race import Course, K
from workloads import Figures, Size

RIVALS = (peers.FLAT, peers.IVF_AUGMENTED, peers.IVF_PQ, peers.SCANN)  # no other peer comes close to them here
DEPTH_GOALS = claims.Goals({0.95: 1.5, 0.99: 2.0}, 1.3)
DEEP_FLAT_GOALS = {100: 2.0, 500: 1.3}
WIDE_GOALS = claims.Goals({0.95: 2.0, 0.99: 2.0})
WIDE_FLAT_GOALS = {"als": 6.0, "bpr": 3.0}


def depth(size: Size, options: argparse.Namespace) -> Figures:
    """Measure many answers per query, as for candidates that are re-ranked later, on one thread."""
    for name in size.learned((*sets.LEARNED, *sets.EXPANDED), options.only):
        factors = sets.learned(name).sample(size.n_users, size.learned_items)
        flat = {k: DEEP_FLAT_GOALS.get(k) for k in options.k}
        yield from run(name, factors, options.k, size, options, DEPTH_GOALS, flat)


def wide(size: Size, options: argparse.Namespace) -> Figures:
    """Measure factors of 128 and 256 coordinates, on one thread."""
    for name in size.learned(sets.WIDE, options.only):
        factors = sets.learned(name).sample(size.n_users, size.learned_items)
        flat = {K: next(goal for kind, goal in WIDE_FLAT_GOALS.items() if kind in name)}
        yield from run(name, factors, [K], size, options, WIDE_GOALS, flat)


def run(
    name: str,
    factors: sets.Factors,
    ks: list[int],
    size: Size,
    options: argparse.Namespace,
    goals: claims.Goals,
    flat_goals: dict[int, float | None],
) -> Figures:
    """Return the figures of one set, for every k."""
    start = time.perf_counter()
    deepest = Course.over(name, factors, max(ks))
    courses = [deepest.of(k) for k in ks]
    own: list[Family] = [ours.EXACT, ours.TILES, ours.auto_for(*ks)]
    rivals = [family for family in RIVALS if family.installed]
    names = [family.name for family in (*own, *rivals)]
    for course, points in zip(
        courses, race.sweep(courses, [*own, *rivals], size.repeats, options.threads), strict=True
    ):
        print(f"\n{course.title}, one thread")
        print("\n".join(race.table(points, names)))
        figures = {
            "set": name,
            "k": course.k,
            "claims": claims.finals(course, points, names[: len(own)], size.turns, goals),
        }
        figures |= claims.over_flat(course, points, size.turns, flat_goals[course.k])
        yield {**figures, "versions": peers.versions(), "points": [point.figures() for point in points.points]}
    print(f"  done in {time.perf_counter() - start:.0f} s")
