"""The claims of a race: our best over the best peer at equal recall, and exact search over brute force."""

from typing import NamedTuple

import measure
import ours
import peers
import race
from race import Course, Sweep

PROMISED = 0.95  # the target recall of an index built with the default settings


class Goals(NamedTuple):
    """How many times as fast as the best peer we want to be: our best method by recall, and the automatic choice."""

    best: dict[float, float]
    auto: float | None = None


def finals(course: Course, points: Sweep, own: list[str], turns: int, goals: Goals) -> list[dict[str, object]]:
    """Print and return our best over the best peer at each recall, and auto over that peer, in turns."""
    found = []
    theirs = points.only(set(points.families()) - set(own))
    auto = next(point for point in points.points if point.method.family == ours.AUTO.name)
    for level, wanted in goals.best.items():
        final = race.final(course, points.only(own), theirs, level, turns, auto if level == PROMISED else None)
        if final is None:
            print(f"  at {level:.2f}: no comparison, since one side does not reach it")
            continue
        print(f"  at {level:.2f} in turns: best of ours over best peer {final.ratio:.2f}"
              f"{measure.goal(final.ratio, least=wanted)}")  # fmt: skip
        for point in (final.ours, final.peer):
            print(f"      {point.speed:>9,.0f} q/s, recall {point.recall:.4f}  {point.method.name}")
        figures = {"level": level, "ratio": final.ratio, "goal": wanted, "ours": final.ours.figures(),
                   "peer": final.peer.figures()}  # fmt: skip
        if final.auto_ratio is not None:
            short = "" if auto.recall >= level else f"; its recall is below {level:.2f}: MISSED"
            print(f"      auto over best peer {final.auto_ratio:.2f}"
                  f"{measure.goal(final.auto_ratio, least=goals.auto)}, recall {auto.recall:.4f}{short}")  # fmt: skip
            figures |= {"auto_ratio": final.auto_ratio, "auto_recall": auto.recall, "auto_goal": goals.auto}
        found.append(figures)
    return found


def over_flat(course: Course, points: Sweep, turns: int, wanted: float | None = None) -> dict[str, object]:
    """Print and return our exact search over faiss's brute force, in turns; nothing if one of them is missing."""
    pair = [next((p for p in points.points if p.method.family == family), None)
            for family in (ours.EXACT.name, peers.FLAT.name)]  # fmt: skip
    if None in pair:
        return {}
    seconds, n = race.in_turns(course, pair, turns)
    exact, flat = (point.method.name for point in pair)
    ratio = measure.median_ratio(seconds, flat, exact)
    print(f"  exact over faiss Flat {ratio:.2f}{measure.goal(ratio, least=wanted)}, {n:,} queries per call")
    return {"over_flat": ratio, "over_flat_goal": wanted, "recall_of_exact": pair[0].recall}
