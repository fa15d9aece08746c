"""Traffic: a sample of the served queries, collected for tuning, and the background threads that tune."""

import atexit
import threading
import weakref
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

MOST_AT_ONCE = 0.25  # the largest share of the sample taken from one search, so that no single caller dominates


class Traffic:
    """Collects queries until it has n. Any number of threads may offer queries."""

    def __init__(self, n: int, n_factors: int, target_recall: float, k: int) -> None:
        self.queries: NDArray[np.float32] = np.empty((n, n_factors), np.float32)
        self.target_recall, self.k = target_recall, k
        self._n_kept = 0
        self._lock = threading.Lock()

    def offer(self, queries: ArrayLike) -> bool:
        """Collect some queries of an answered search. Return True once, when the sample becomes complete."""
        asked = np.asarray(queries, np.float32).reshape(-1, self.queries.shape[1])
        asked = asked[asked.any(axis=1)]  # queries of zeros say nothing about recall
        n = len(self.queries)
        with self._lock:
            left = n - self._n_kept
            count = min(len(asked), left, max(1, int(n * MOST_AT_ONCE)))
            if not count:
                return False
            evenly = np.arange(count) * len(asked) // count
            self.queries[self._n_kept : self._n_kept + count] = asked[evenly]
            self._n_kept += count
            return count == left

    def renew_lock(self) -> None:
        """Replace the lock in a forked child, where a thread that held it does not exist."""
        self._lock = threading.Lock()


class Ending(Exception):  # noqa: N818
    """Raised in background work when the interpreter is shutting down."""


def run_aside(work: Callable[[], None]) -> None:
    """Run work in a background thread. The work must call `go_on` from time to time."""
    thread = threading.Thread(target=work, name="tessella-tune", daemon=True)
    _threads.add(thread)
    thread.start()


def go_on() -> None:
    """Raise `Ending` if the interpreter is shutting down."""
    if _ending.is_set():
        raise Ending


_ending = threading.Event()
_threads: "weakref.WeakSet[threading.Thread]" = weakref.WeakSet()


@atexit.register
def _end() -> None:
    """Wait for background threads: one inside native code would crash when the interpreter goes away."""
    _ending.set()
    for thread in list(_threads):
        thread.join()
