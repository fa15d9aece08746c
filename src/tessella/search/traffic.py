"""Traffic: some of the queries that are served, kept to tune with, and threads that do it in the background."""

import atexit
import threading
import weakref
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

MOST_AT_ONCE = 0.25  # of all that are kept, from one search, so that one caller does not stand for all


class Traffic:
    """Keeps queries until it has as many as were asked for. Any number of threads may offer some."""

    def __init__(self, n: int, n_factors: int, target_recall: float, k: int) -> None:
        self.queries: NDArray[np.float32] = np.empty((n, n_factors), np.float32)
        self.target_recall, self.k = target_recall, k
        self._n_kept = 0
        self._lock = threading.Lock()

    def offer(self, queries: ArrayLike) -> bool:
        """Keep some of the queries of a search that was answered; whether there are now enough, true once."""
        asked = np.asarray(queries, np.float32).reshape(-1, self.queries.shape[1])
        asked = asked[asked.any(axis=1)]  # those of zeros tell nothing
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
        """In a forked child no other thread is left that could hold the lock."""
        self._lock = threading.Lock()


class Ending(Exception):  # noqa: N818
    """The interpreter is about to end, and what runs in the background should, too."""


def run_aside(work: Callable[[], None]) -> None:
    """Run something in a thread of its own that calls `go_on` from time to time."""
    thread = threading.Thread(target=work, name="tessella-tune", daemon=True)
    _threads.add(thread)
    thread.start()


def go_on() -> None:
    """Raise `Ending` if the interpreter is about to end."""
    if _ending.is_set():
        raise Ending


_ending = threading.Event()
_threads: "weakref.WeakSet[threading.Thread]" = weakref.WeakSet()


@atexit.register
def _end() -> None:
    """Wait for threads in the background; in native code they would not survive the end of the interpreter."""
    _ending.set()
    for thread in list(_threads):
        thread.join()
