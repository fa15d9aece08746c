"""A race: sweeps of every library over one set, operating points, and the finalists measured in turns."""

import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import measure
import numpy as np
from methods import Family, Ladder, Method, timed
from sets import Factors

from tessella.paper import tie_aware_recall

K = 10
RECALLS = (0.90, 0.95, 0.99)
ENOUGH = 0.995  # a sweep stops at this recall
SLACK = 1.3  # how much faster a point may be than its first timing
PLATEAU = 0.001  # a sweep also stops if two steps in a row gain less than this
FINALISTS = 3
PATIENCE = 1.0  # seconds that one call may take; slower methods get fewer queries
BRUTE_FORCE = ("faiss Flat", "faiss Flat ip")
SLOW = 0.5  # seconds; slower calls are made only once in a first pass
WORTH_ASKING = 0.75  # with at least this recall on few queries, more queries are run
WORTH_TIMING = 0.85  # with at least this recall, a call is timed more than once
FEWEST_QUERIES = 100


@dataclass(frozen=True)
class Point:
    """What a method achieved."""

    method: Method
    recall: float
    speed: float  # queries per second
    threads: int

    def figures(self) -> dict[str, object]:
        """Return the point in plain values, to be recorded."""
        return {"family": self.method.family, "setting": self.method.setting, "recall": round(self.recall, 5),
                "queries_per_second": round(self.speed, 1), "threads": self.threads}  # fmt: skip


@dataclass(frozen=True)
class Course:
    """A set to race on, with the best items of each user and their scores, highest first."""

    name: str
    factors: Factors
    true_ids: np.ndarray
    true_scores: np.ndarray

    @classmethod
    def over(cls, name: str, factors: Factors, k: int = K) -> "Course":
        """Make a course with answers by brute force, in blocks."""
        items, users = factors
        block = max(1, 20_000_000 // len(items))

        def best(first: int) -> np.ndarray:
            return np.argpartition(users[first : first + block] @ items.T, -k, axis=1)[:, -k:]

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            ids = np.concatenate(list(pool.map(best, range(0, len(users), block))))
        scores = measure.exact_scores(ids, items, users)
        order = np.argsort(-scores, axis=1)
        return cls(name, factors, *(np.take_along_axis(part, order, axis=1) for part in (ids, scores)))

    def of(self, k: int) -> "Course":
        """Return the course with fewer answers."""
        return Course(self.name, self.factors, self.true_ids[:, :k], self.true_scores[:, :k])

    @property
    def k(self) -> int:
        """The number of answers."""
        return self.true_scores.shape[1]

    @property
    def title(self) -> str:
        """The name and sizes of the set."""
        items, users = self.factors
        return f"{self.name}: {len(items):,} x {items.shape[1]}, {len(users):,} queries, k = {self.k}"

    def recall(self, found: np.ndarray) -> float:
        """Return the tie-aware recall of answers to the first queries; only answers that are not true are scored."""
        items, users = self.factors
        scores = np.full(found.shape, -np.inf)
        is_true = np.zeros(len(items) + 1, bool)  # the last stands for a missing answer
        for row, answers in enumerate(found):
            is_true[self.true_ids[row]] = True
            hits = is_true[answers]
            is_true[self.true_ids[row]] = False
            others = ~hits & (answers >= 0)
            scores[row, hits] = self.true_scores[row, -1]
            scores[row, others] = items[answers[others]].astype(np.float64) @ users[row].astype(np.float64)
        return float(np.mean(tie_aware_recall(found, scores, self.true_scores[: len(found)])))


@dataclass
class Sweep:
    """The points of one thread count."""

    points: list[Point] = field(default_factory=list)

    def families(self) -> list[str]:
        """The families, in the order in which they ran."""
        return list(dict.fromkeys(point.method.family for point in self.points))

    def best(self, level: float, family: str | None = None) -> Point | None:
        """Return the fastest point that reaches a recall."""
        return next(iter(self.fastest(level, family)), None)

    def fastest(self, level: float, family: str | None = None) -> list[Point]:
        """Return the points that reach a recall, the fastest first."""
        reached = [p for p in self.points if p.recall >= level and family in (None, p.method.family)]
        return sorted(reached, key=lambda point: -point.speed)

    def only(self, families: Iterable[str]) -> "Sweep":
        """Return the points of some families."""
        wanted = set(families)
        return Sweep([point for point in self.points if point.method.family in wanted])


def climb(course: Course, ladder: Ladder, threads: int, repeats: int, bar: float = 0.0) -> list[Point]:
    """Return the points of a ladder from the bottom, until recall is enough or stops growing, or speed is too low."""
    points: list[Point] = []
    for method in ladder:
        points.append(measured(course, method, threads, repeats))
        gains = np.diff([point.recall for point in points[-3:]])
        if points[-1].recall >= ENOUGH or points[-1].speed < bar or (len(gains) == 2 and max(gains) < PLATEAU):
            break
    return points


def measured(course: Course, method: Method, threads: int, repeats: int) -> Point:
    """Measure a method; only roughly, with few queries, if its recall is far too low."""
    few = tried(course, method, threads)
    if few.recall < WORTH_ASKING:
        return few
    n = affordable(course, few)
    found, seconds = timed(lambda: method.search(course.factors.users[:n], course.k, threads))
    recall = course.recall(found)
    if seconds < SLOW and recall >= WORTH_TIMING:
        seconds = min(seconds, fastest_call(course, method, n, threads, repeats))
    return Point(method, recall, n / seconds, threads)


def tried(course: Course, method: Method, threads: int) -> Point:
    """Measure a method with few queries."""
    few = course.factors.users[:FEWEST_QUERIES]
    found, seconds = timed(lambda: method.search(few, course.k, threads))
    return Point(method, course.recall(found), len(few) / seconds, threads)


def affordable(course: Course, few: Point) -> int:
    """Return how many queries a call may have without taking too long, estimated from a few.

    Brute force gets them all, because with fewer it takes several times as long per query.
    """
    n_users = len(course.factors.users)
    if few.method.family in BRUTE_FORCE:
        return n_users
    return int(np.clip(PATIENCE * few.speed, min(FEWEST_QUERIES, n_users), n_users))


def fastest_call(course: Course, method: Method, n: int, threads: int, repeats: int) -> float:
    """Return the seconds of the fastest of a few calls with the first queries."""
    users = course.factors.users[:n]
    return min(timed(lambda: method.search(users, course.k, threads))[1] for _ in range(repeats))


def sweep(courses: Sequence[Course], families: Iterable[Family], repeats: int, build_threads: int) -> list[Sweep]:
    """Measure every setting of every family on one thread, on courses over the same items; build indexes once."""
    found = [Sweep() for _ in courses]
    for family in families:
        for ladder in family.ladders(courses[0].factors.items, build_threads):
            for course, points in zip(courses, found, strict=True):
                enough = points.best(RECALLS[-1], family.name)  # a slower setting cannot win
                fitting = [method for method in ladder if method.fits(course.k)]
                points.points += climb(course, fitting, 1, repeats, enough.speed / SLACK if enough else 0.0)
    return found


def again(course: Course, one_thread: Sweep, threads: int, repeats: int) -> Sweep:
    """Measure the settings of each family that were fastest on one thread on more; recall stays the same."""
    chosen: dict[int, Point] = {}
    for family in one_thread.families():
        highest = max(one_thread.only([family]).points, key=lambda point: point.recall)
        fastest = [point for level in RECALLS for point in one_thread.fastest(level, family)[:FINALISTS]]
        chosen |= {id(point): point for point in fastest or [highest]}
    found = Sweep()
    for point in chosen.values():
        n = affordable(course, tried(course, point.method, threads))
        seconds = fastest_call(course, point.method, n, threads, repeats)
        found.points.append(Point(point.method, point.recall, n / seconds, threads))
    return found


def table(points: Sweep, families: Iterable[str]) -> list[str]:
    """Return lines with the throughput of each family at each recall, and its setting at 0.95."""
    names = list(families)
    width = max((len(name) for name in names), default=0)
    lines = [f"  {'q/s at recall':<{width}}  " + "  ".join(f"{f'>= {level:.2f}':>9}" for level in RECALLS)]
    for family in names:
        best = [points.best(level, family) for level in RECALLS]
        cells = [f"{'-' if point is None else f'{point.speed:,.0f}':>9}" for point in best]
        shown = _highest(points, family)
        for level, point in ((0.90, best[0]), (0.95, best[1])):
            if point is not None:
                setting = f"{point.method.setting}, " if point.method.setting else ""
                shown = f"at {level:.2f}: {setting}recall {point.recall:.4f}"
        lines.append(f"  {family:<{width}}  {'  '.join(cells)}  {shown}")
    return lines


def _highest(points: Sweep, family: str) -> str:
    recalls = [point.recall for point in points.points if point.method.family == family]
    return f"recall at most {max(recalls):.4f}" if recalls else "not measured"


@dataclass(frozen=True)
class Final:
    """The fastest of ours and of the peers at a recall, measured in turns."""

    level: float
    ours: Point
    peer: Point
    ratio: float  # how many times as fast as the peer, the median over turns
    auto: Point | None = None
    auto_ratio: float | None = None


def final(
    course: Course, ours: Sweep, theirs: Sweep, level: float, repeats: int, auto: Point | None = None
) -> Final | None:
    """Measure the finalists of both sides in turns, and compare the best of each side."""
    sides = [side.fastest(level)[:FINALISTS] for side in (ours, theirs)]
    if not all(sides):
        return None
    entered = {point.method.name: point for side in sides for point in side}
    if auto is not None:
        entered[auto.method.name] = auto
    seconds, n = in_turns(course, entered.values(), repeats)
    best = [min(side, key=lambda point: np.median(seconds[point.method.name])) for side in sides]
    ratio = measure.median_ratio(seconds, best[1].method.name, best[0].method.name)
    own = None if auto is None else measure.median_ratio(seconds, best[1].method.name, auto.method.name)
    return Final(level, _measured(best[0], seconds, n), _measured(best[1], seconds, n), ratio, auto, own)


def in_turns(course: Course, points: Iterable[Point], repeats: int) -> tuple[dict[str, list[float]], int]:
    """Return the seconds of every method, turn by turn, and the number of queries per call."""
    entered = {point.method.name: point for point in points}
    threads = next(iter(entered.values())).threads
    n = min(affordable(course, tried(course, point.method, threads)) for point in entered.values())
    users = course.factors.users[:n]
    calls = {name: lambda point=point: point.method.search(users, course.k, threads) for name, point in entered.items()}
    return measure.alternate(calls, repeats), n


def _measured(point: Point, seconds: Mapping[str, list[float]], n: int) -> Point:
    return Point(point.method, point.recall, n / float(np.median(seconds[point.method.name])), point.threads)
