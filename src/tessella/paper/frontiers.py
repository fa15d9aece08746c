"""Compare methods at the same discarded share: frontiers of settings, budgets of work, and mixtures."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tessella.paper.measures import area_between, curve
from tessella.paper.methods import Point

BUDGETS = {
    "single": "one table",
    "work": "no more look-ups or projections than ours",
    "tables": "no more look-ups than ours",
    "unlimited": "as many tables as we tried",
}


def place(point: Point) -> tuple[float, float]:
    """Return the mean share discarded and the mean recovery of a point."""
    return float(point.discarded.mean()), float(point.recovery.mean())


def frontier(points: list[Point]) -> list[Point]:
    """Return the points that no other point and no mixture of two others beats, sorted by discarded share.

    A mixture serves some users with one setting and the rest with the other, so its discarded share and recovery lie on
    the straight line between the two. Without mixtures, a coarse sweep would count against a method.
    """
    ordered = sorted(((*place(point), point) for point in points), key=lambda placed: (-placed[0], -placed[1]))
    kept: list[tuple[float, float, Point]] = []
    for across, up, point in ordered:
        if kept and up <= kept[-1][1]:
            continue
        while len(kept) > 1:
            (first, top, _), (middle, between, _) = kept[-2:]
            if (between - top) * (first - across) > (up - top) * (first - middle):
                break
            kept.pop()
        kept.append((across, up, point))
    return [point for _, _, point in reversed(kept)]


def allowed(points: list[Point], budget: str, lookups: float, n_factors: int) -> list[Point]:
    """Return the points of a baseline within a budget; `lookups` is what ours needs."""
    whole = math.ceil(lookups - 1e-9)  # look-ups are integers; rounded in the baselines' favour
    limits = {"single": (1, math.inf), "work": (whole, n_factors), "tables": (whole, math.inf)}
    most_lookups, most_projections = limits.get(budget, (math.inf, math.inf))
    return [
        point
        for point in points
        if point.lookups <= most_lookups + 0.05 and point.projections <= most_projections + 0.05
    ]


class Matched(NamedTuple):
    """The point of a frontier at a given discarded share: a mixture of two neighbours on it."""

    low: Point
    high: Point
    weight: float  # of the second

    def _mixed(self, low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.float64]:
        return (1 - self.weight) * low + self.weight * high

    @property
    def recovery(self) -> NDArray[np.float64]:
        """The expected recovery of each user."""
        return self._mixed(self.low.recovery, self.high.recovery)

    @property
    def hits(self) -> NDArray[np.float64]:
        """The probability of each true best item to be a candidate."""
        return self._mixed(self.low.hits.astype(np.float64), self.high.hits.astype(np.float64))

    @property
    def lookups(self) -> float:
        """The mean number of look-ups of a query."""
        return (1 - self.weight) * self.low.lookups + self.weight * self.high.lookups

    @property
    def filed(self) -> float:
        """The mean number of lists that an item is in."""
        return (1 - self.weight) * self.low.filed + self.weight * self.high.filed

    @property
    def near(self) -> Point:
        """The nearer of the two points."""
        return self.high if self.weight >= 0.5 else self.low


def matched(points: list[Point], target: float) -> Matched | None:
    """Return a method at a discarded share, or at the start of its frontier; None if all settings discard less."""
    line = frontier(points)
    places = np.array([place(point)[0] for point in line])
    if not len(line) or target > places[-1]:
        return None
    right = int(np.searchsorted(places, target))
    left = max(0, right - 1)
    gap = places[right] - places[left]
    return Matched(line[left], line[right], float((target - places[left]) / gap) if gap else 1.0)


def mean_gain(ours: list[Point], theirs: list[Point]) -> float | None:
    """Return how much higher our frontier is than theirs, averaged over the shares that both reach; None if none."""
    lines = [np.array([place(point) for point in frontier(points)]).reshape(-1, 2) for points in (ours, theirs)]
    low = max(float(line[:, 0].min(initial=1)) for line in lines)
    high = min(float(line[:, 0].max(initial=0)) for line in lines)
    if high <= low:
        return None
    first, second = (curve(line[:, 0], line[:, 1]) for line in lines)
    return area_between(first, second) / (high - low)
