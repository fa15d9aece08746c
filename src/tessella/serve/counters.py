"""Counters: the requests and latencies of all workers, in one memory-mapped file.

Each worker writes only its own part, so no locks are needed and no counts are lost. Reading adds up the parts. A
restarted worker continues with the part of its predecessor.
"""

import bisect
import mmap
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from tessella.serve.messages import Point

STATUSES = (200, 400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 429, 500, 503, 504, 0)  # 0 stands for all others
FIRST, RATIO, BUCKETS = 1e-5, 1.5, 36  # upper edge of the first bucket in seconds; growth factor
EDGES = [FIRST * RATIO**at for at in range(BUCKETS - 1)]
STEP, STEPS = 5, 360  # seconds per step; half an hour of steps
_HEAD = 4  # fields before a step's buckets: its number, requests, errors, rejected
_PLACES = {status: at for at, status in enumerate(STATUSES)}
_REJECTED, _ERROR = 429, 500


class Counters:
    """The counters of one worker, and the sums over all workers.

    Parameters
    ----------
    path : Path
        The file that the workers share. It is created if it does not exist.
    routes : sequence of str
        The names to count requests under.
    worker, workers : int
        The number of this worker, and how many there are.
    """

    def __init__(self, path: Path, routes: Sequence[str], worker: int = 0, workers: int = 1) -> None:
        self.routes, self.workers = list(routes), workers
        self._of_route = len(STATUSES) + BUCKETS + 1  # counts by status, latencies, and their sum in microseconds
        self._steps_at = len(self.routes) * self._of_route
        self._size = self._steps_at + STEPS * (_HEAD + BUCKETS)
        with path.open("a+b") as file:
            file.truncate(8 * self._size * workers)
            self._map = mmap.mmap(file.fileno(), 8 * self._size * workers)
        self._all = memoryview(self._map).cast("q")
        self._own = self._all[worker * self._size : (worker + 1) * self._size]

    def count(self, route: int, status: int, seconds: float) -> None:
        """Count one request."""
        own, at = self._own, route * self._of_route
        own[at + _PLACES.get(status, len(STATUSES) - 1)] += 1
        bucket = bisect.bisect_left(EDGES, seconds)
        own[at + len(STATUSES) + bucket] += 1
        own[at + len(STATUSES) + BUCKETS] += int(1e6 * seconds)
        step = int(time.time()) // STEP
        at = self._steps_at + step % STEPS * (_HEAD + BUCKETS)
        if own[at] != step:
            own[at : at + _HEAD + BUCKETS] = memoryview(bytes(8 * (_HEAD + BUCKETS))).cast("q")
            own[at] = step
        own[at + 1] += 1
        if status >= _ERROR:
            own[at + 2] += 1
        elif status == _REJECTED:
            own[at + 3] += 1
        own[at + _HEAD + bucket] += 1

    def _summed(self, start: int, length: int) -> list[int]:
        parts = [self._all[at : at + length] for at in range(start, len(self._all), self._size)]
        return [sum(values) for values in zip(*parts, strict=True)]

    def by_route(self) -> Iterator[tuple[str, dict[int, int], list[int], float]]:
        """Yield each route that was used: counts by status, latencies by bucket, and their sum in seconds."""
        for number, route in enumerate(self.routes):
            values = self._summed(number * self._of_route, self._of_route)
            counts = {status: count for status, count in zip(STATUSES, values, strict=False) if count}
            if counts:
                yield route, counts, values[len(STATUSES) : -1], values[-1] / 1e6

    def traffic(self, minutes: float) -> list[Point]:
        """Return the requests of the last minutes, one point per step."""
        now = int(time.time()) // STEP
        oldest = now - min(STEPS - 1, int(minutes * 60 / STEP))
        points = []
        for step in range(oldest, now + 1):
            start = self._steps_at + step % STEPS * (_HEAD + BUCKETS)
            parts = [self._all[at : at + _HEAD + BUCKETS].tolist() for at in range(start, len(self._all), self._size)]
            parts = [part for part in parts if part[0] == step]
            if parts:
                _, requests, errors, rejected, *latencies = (sum(values) for values in zip(*parts, strict=True))
                half, slow = (_quantile(latencies, share) for share in (0.5, 0.99))
                points.append(Point(step * STEP, requests, errors, rejected, half, slow))
        return points

    def close(self) -> None:
        """Close the file."""
        self._own.release()
        self._all.release()
        self._map.close()


def _quantile(latencies: list[int], share: float) -> float | None:
    """Estimate a quantile of the latencies in milliseconds, from their buckets."""
    total = sum(latencies)
    if not total:
        return None
    reached: list[int] = []
    for count in latencies:
        reached.append(count + (reached[-1] if reached else 0))
    bucket = bisect.bisect_left(reached, share * total)
    high = EDGES[min(bucket, BUCKETS - 2)]
    low = high / RATIO
    before = reached[bucket - 1] if bucket else 0
    within = (share * total - before) / latencies[bucket]
    return round(1000 * low * float(RATIO ** min(1.0, max(0.0, within))), 4)


class _Figures(Collector):
    """Collects the metrics for Prometheus."""

    def __init__(self, counters: Counters, gauges: dict[str, float]) -> None:
        self._counters, self._gauges = counters, gauges

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily]:
        """Yield all metrics."""
        requests = CounterMetricFamily("tessella_requests", "Requests by route and status.", labels=["route", "status"])
        latencies = HistogramMetricFamily("tessella_request_seconds", "Seconds to answer.", labels=["route"])
        for route, counts, buckets, total in self._counters.by_route():
            for status, count in counts.items():
                requests.add_metric([route, str(status) if status else "other"], count)
            reached, listed = 0, []
            for edge, count in zip([*map("{:.3g}".format, EDGES), "+Inf"], buckets, strict=True):
                reached += count
                listed.append((edge, float(reached)))
            latencies.add_metric([route], listed, total)
        yield requests
        yield latencies
        for name, value in self._gauges.items():
            yield GaugeMetricFamily(f"tessella_{name}", name.replace("_", " ").capitalize() + ".", value)


def prometheus(counters: Counters, gauges: dict[str, float]) -> bytes:
    """Return the metrics in the Prometheus text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Figures(counters, gauges))
    return generate_latest(registry)
