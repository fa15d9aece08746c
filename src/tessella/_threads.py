"""Threads: how many to use, and how to share out blocks of work."""

import operator
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence


def cut(n: int, size: int, first: int = 0) -> list[slice]:
    """Cut the range from `first` to n into slices of `size`; the last may be shorter."""
    return [slice(at, min(at + size, n)) for at in range(first, n, size)]


def thread_count(threads: int | None) -> int:
    """Return how many threads to use: `threads`, or one for every CPU this process may use."""
    if threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        count = operator.index(threads)
    except TypeError:
        raise TypeError(f"threads must be an integer or None, not {type(threads).__name__}.") from None
    if isinstance(threads, bool):
        raise TypeError("threads must be an integer or None, not bool.")
    if count < 1:
        raise ValueError(f"threads is {threads}, but at least 1 is needed; None uses every CPU.")
    return count


def give_way() -> None:
    """Let other threads run, from within a long change that searches should not wait for.

    By default Python switches away from a busy thread only every 5 ms, in which a thousand searches could be answered.
    """
    time.sleep(1e-6)


def run_blocks(work: Callable[[slice], None], blocks: Sequence[slice], threads: int) -> None:
    """Call `work` for every block, on `threads` threads including the caller's; raise the error of the first bad block.

    Kernels release the GIL, so blocks run in parallel. The helper threads end with the call, so a process may fork at
    any other time, and an interrupt waits only for the blocks already running.
    """
    if len(blocks) == 1:
        work(blocks[0])
        return
    todo = deque(enumerate(blocks))
    errors: dict[int, BaseException] = {}

    def drain() -> None:
        while True:
            try:
                number, block = todo.popleft()
            except IndexError:
                return
            try:
                work(block)
            except BaseException as error:  # noqa: BLE001
                todo.clear()
                errors[number] = error
                return

    helpers = [threading.Thread(target=drain) for _ in range(min(threads, len(blocks)) - 1)]
    try:
        for helper in helpers:
            helper.start()
        drain()
        _join(helpers)
    except BaseException:  # an interrupt, or a thread that cannot be started, must leave no other running
        todo.clear()
        _join(helpers)
        raise
    if errors:
        raise errors[min(errors)]


def _join(helpers: Sequence[threading.Thread]) -> None:
    for helper in helpers:
        if helper.ident is not None:  # it was started
            helper.join()
