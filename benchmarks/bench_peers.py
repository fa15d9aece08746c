"""tessella against every installed peer, in one run; see benchmarks/README.md.

Learned factors are read from factors/ in the folder named in TESSELLA_DATA (or ../shared/data); missing sets are
skipped. Appends to results/peers.jsonl and draws the curves.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import claims
import depth
import draw_curves
import filters
import grow
import measure
import numpy as np
import ours
import peers
import promise
import race
import sets
import workloads
from methods import Family
from race import Course, Point, Sweep

from tessella import _threads

PER_SET = ("race", "latency", "memory")
WORKLOADS = {
    "depth": depth.depth,
    "wide": depth.wide,
    "filters": filters.filters,
    "promise": promise.promise,
    "grow": grow.grow,
    "growth": workloads.growth,
    "everyone": workloads.everyone,
    "churn": workloads.churn,
    "build": workloads.build,
}
PARTS = (*PER_SET, *WORKLOADS)
GAUSSIAN = "gaussian"
AUTO_GOAL = 1.2
USUAL_GOALS = {0.95: 1.5, 0.99: 1.5}
GOALS = {
    "gaussian 10,000 x 50": {0.95: 1.0, 0.99: 1.0},
    "gowalla-x-als-1m": {0.95: 4.0, 0.99: 8.0},
    "gowalla-x-bpr-1m": {0.95: 2.5, 0.99: 2.0},
}
FLAT_GOALS = {"gowalla-x-als-1m": 50.0}  # exact over faiss Flat
SCALE = (
    "gowalla-bpr-k64",
    "gowalla-x-bpr-1m",
    4.0,
)  # a set, a large set of the same kind, and how much longer a query may take
LATENCY_GOALS = {"gowalla-bpr-k64": 1.0, "gowalla-x-bpr-1m": 1.0}  # elsewhere 0.7
QUICK = Path(__file__).parents[1] / "build" / "bench-quick"


class Size:
    """Sizes and repetitions: a full run, or a quick one that only shows that everything works."""

    def __init__(self, *, quick: bool, out: Path | None = None) -> None:
        self.quick = quick
        self.n_users = 300 if quick else 2000
        self.learned_items = 5000 if quick else None
        self.many = 20_000 if quick else 1_000_000
        self.repeats = 1 if quick else 2
        self.turns = 3 if quick else 11
        self.growth = (1_000, 5_000, 20_000) if quick else (10_000, 100_000, 1_000_000)
        self.everyone = 2000 if quick else None
        self.rounds = 2 if quick else 5
        self.folder = out or (QUICK if quick else measure.RESULTS)

    def sets(self, only: str) -> dict[str, Callable[[], sets.Factors]]:
        """Sets by name, read or generated when they are needed."""
        found: dict[str, Callable[[], sets.Factors]] = {}
        for name in self.learned((*sets.LEARNED, *sets.EXPANDED), only):
            found[name] = lambda name=name: sets.learned(name).sample(self.n_users, self.learned_items)
        found[f"generated {self.many:,} x 64"] = lambda: sets.generated(self.many, 64, self.n_users)
        found[f"{GAUSSIAN} 10,000 x 50"] = lambda: sets.gaussian(10_000, 50, self.n_users)
        return {name: factors for name, factors in found.items() if only in name}

    def learned(self, names: Iterable[str], only: str) -> list[str]:
        """Return the sets of learned factors that are available; print which are not."""
        wanted = [name for name in names if only in name]
        there = sets.learned_names()
        for name in wanted:
            if name not in there:
                hint = f"it is not in {sets.DATA / 'factors'}" if name in sets.LEARNED else "make learned makes it"
                print(f"{name} is skipped: {hint}")
        found = [name for name in wanted if name in there]
        return found[:: max(1, len(found) - 1)] if self.quick else found  # the first and the last show that it works


def entrants(n_items: int, *, slow_peers: bool) -> list[Family]:
    """Return the peers that take part on a set of this size; print which do not, and why."""
    taking_part = []
    for family in peers.FAMILIES:
        if not family.installed:
            print(f"  {family.name} is skipped: {family.package} is not installed")
        elif family.slow_to_build and n_items > 200_000 and not slow_peers:
            print(f"  {family.name} is skipped: it would take many minutes to build; --slow-peers includes it")
        else:
            taking_part.append(family)
    return taking_part


def run_set(name: str, factors: sets.Factors, size: Size, options: argparse.Namespace) -> float | None:
    """Measure the race over one set, single queries and memory; return our seconds per query at 0.95, one thread."""
    start = time.perf_counter()
    course = Course.over(name, factors)
    print(f"\n{course.title}")
    rivals = entrants(len(factors.items), slow_peers=options.slow_peers)
    theirs = [family.name for family in rivals]
    own = [family.name for family in ours.FAMILIES]
    (one,) = race.sweep([course], [*ours.FAMILIES, *rivals], size.repeats, options.threads)
    swept = time.perf_counter() - start
    for threads in dict.fromkeys((1, options.threads)):
        points = one if threads == 1 else race.again(course, one, threads, size.repeats)
        if "race" in options.parts:
            print(f" {'one thread' if threads == 1 else f'{threads} threads'}")
            print("\n".join(race.table(points, [*own, *theirs])))
            goals = claims.Goals(GOALS.get(name, USUAL_GOALS), AUTO_GOAL)
            figures = {
                "claims": claims.finals(course, points, own, size.turns, goals),
                "versions": peers.versions(),
                "points": [point.figures() for point in points.points],
                **claims.over_flat(course, points, size.turns, FLAT_GOALS.get(name)),
            }
            measure.record("peers", {"part": "race", "set": name, "threads": threads, **figures}, size.folder)
    if "latency" in options.parts:
        measure.record(
            "peers", {"part": "latency", "set": name, **single_queries(course, one, own, theirs)}, size.folder
        )
    if "memory" in options.parts:
        measure.record("peers", {"part": "memory", "set": name, **memory(course, one)}, size.folder)
    print(f"  swept in {swept:.0f} s, done in {time.perf_counter() - start:.0f} s")
    best = one.only(own).best(0.95)
    return None if best is None else 1 / best.speed


def single_queries(course: Course, points: Sweep, own: list[str], theirs: list[str]) -> dict[str, object]:
    """Print and return latencies of separate calls, every family at its fastest setting with a recall of 0.95."""
    users = course.factors.users
    chosen: dict[str, Point] = {}
    for family in points.families():
        trials = {point.method.name: point for point in points.fastest(0.95, family)[: race.FINALISTS]}
        if trials:
            taken = measure.latencies({name: lambda user, method=point.method: method.single(user, race.K)
                                       for name, point in trials.items()}, users[:20])  # fmt: skip
            chosen[family] = trials[min(trials, key=lambda name: np.median(taken[name]))]
    quick = {family: point for family, point in chosen.items() if point.speed > 100}  # the others would take too long
    asked = np.resize(users, (1000, users.shape[1]))
    calls = {family: lambda user, method=point.method: method.single(user, race.K) for family, point in quick.items()}
    measure.latencies(calls, asked[:50])
    taken = {family: measure.middle_and_slow(seconds) for family, seconds in measure.latencies(calls, asked).items()}
    print("  single queries from Python, one thread, recall >= 0.95, microseconds: median, 99%")
    for family, (middle, slow) in taken.items():
        print(f"    {family:<22} {middle:>8,.0f} {slow:>8,.0f}  {chosen[family].method.setting}")
    figures: dict[str, object] = {"microseconds": taken}
    best = {side: min((f for f in names if f in taken), key=lambda f: taken[f][0], default=None)
            for side, names in (("ours", own), ("peer", theirs))}  # fmt: skip
    if best["ours"] and best["peer"]:
        wanted = LATENCY_GOALS.get(course.name, 0.7)
        (middle, slow), (peer, _) = taken[best["ours"]], taken[best["peer"]]
        print(f"    median of {best['ours']} over {best['peer']}: {middle / peer:.2f}"
              f"{measure.goal(middle / peer, most=wanted)}")  # fmt: skip
        print(f"    its 99% over its median: {slow / middle:.1f}{measure.goal(slow / middle, most=3.0)}")
        figures |= {"over_best_peer": middle / peer, "goal": wanted, "slow_over_median": slow / middle, **best}
    return figures


def memory(course: Course, points: Sweep) -> dict[str, object]:
    """Print and return the bytes per item of every library's index, factors included."""
    found: dict[str, object] = {}
    print(f"  bytes per item, factors ({course.factors.items.itemsize * course.factors.items.shape[1]}) included")
    for family in points.families():
        built = next(point.method.built for point in points.points if point.method.family == family)
        each = built.n_bytes() / len(course.factors.items)
        print(f"    {family:<22} {each:>8,.0f}  {built.bytes_are}, built in {built.seconds:.1f} s")
        found[family] = {"bytes_an_item": each, "are": built.bytes_are, "build_seconds": built.seconds}
    return found


def main() -> None:
    """Measure, print, record and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="SET", help="measure only sets whose names contain this")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"what to measure, of {','.join(PARTS)}")
    parser.add_argument("--k", default="100,500", help="the values of k for the part depth (default: 100,500)")
    parser.add_argument("--threads", type=int, default=_threads.thread_count(None), help="threads of 'all cores'")
    parser.add_argument("--quick", action="store_true", help="small sets, few turns: shows only that it works")
    parser.add_argument("--slow-peers", action="store_true", help="include graphs over a million items")
    parser.add_argument("--out", type=Path, help="where results go: benchmarks/results, or build/bench-quick if quick")
    options = parser.parse_args()
    options.parts = options.parts.split(",")
    options.k = sorted(int(k) for k in options.k.split(","))
    if unknown := set(options.parts) - set(PARTS):
        sys.exit(f"There is no part {min(unknown)!r}; parts are {', '.join(PARTS)}.")
    measure.settle_process()
    sys.stdout.reconfigure(line_buffering=True)  # so that a log shows the progress
    size = Size(quick=options.quick, out=options.out)
    start = time.perf_counter()
    print("  ".join(f"{name} {value}" for name, value in measure.machine().items()))
    print("  ".join(f"{name} {value}" for name, value in peers.versions().items()))
    if options.quick:
        print("A quick run: small sets and few turns. Its figures mean nothing.")
    if set(PER_SET) & set(options.parts):
        taken = {name: run_set(name, factors(), size, options) for name, factors in size.sets(options.only).items()}
        small, large, most = SCALE
        if taken.get(small) and taken.get(large):
            ratio = taken[large] / taken[small]
            print(f"\n{large} over {small}: {ratio:.2f} times the time per query{measure.goal(ratio, most=most)}")
            measure.record(
                "peers", {"part": "scale", "sets": [large, small], "ratio": ratio, "goal": most}, size.folder
            )
    for part in options.parts:
        if part not in PER_SET:
            for figures in WORKLOADS[part](size, options):
                measure.record("peers", {"part": part, **figures}, size.folder)
    if "race" in options.parts:
        for path in draw_curves.draw(size.folder):
            print(f"drew {path}")
    print(f"\n{time.perf_counter() - start:.0f} s in all")


if __name__ == "__main__":
    main()
