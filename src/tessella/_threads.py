"""Threads: how many, and blocks of work for them."""

import operator
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence


def cut(n: int, size: int, first: int = 0) -> list[slice]:
    """The range from `first` to n in slices of `size`; the last may be shorter."""
    return [slice(at, min(at + size, n)) for at in range(first, n, size)]


def thread_count(threads: int | None) -> int:
    """How many threads to use: `threads`, or every CPU this process may use."""
    if threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        count = operator.index(threads)
    except TypeError:
        raise TypeError(f"threads is a whole number or None, not {type(threads).__name__}.") from None
    if isinstance(threads, bool):
        raise TypeError("threads is a whole number or None, not bool.")
    if count < 1:
        raise ValueError(f"threads is {threads}, but at least 1 is needed; None uses every CPU.")
    return count


def give_way() -> None:
    """Let other threads go on, from within a change that searches should not wait for.

    Python takes the interpreter from a busy thread only every 5 ms, the time of a thousand answers.
    """
    time.sleep(1e-6)


def run_blocks(work: Callable[[slice], None], blocks: Sequence[slice], threads: int) -> None:
    """Call `work` for every block, on `threads` threads counting the caller's; raise the error of the first bad block.

    Kernels release the GIL, so blocks run side by side. The helping threads end with the call, so a process may fork at
    any other time, and an interrupt waits only for the blocks under way.
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
    except BaseException:  # an interrupt, or a thread that cannot be had, leaves no other running
        todo.clear()
        _join(helpers)
        raise
    if errors:
        raise errors[min(errors)]


def _join(helpers: Sequence[threading.Thread]) -> None:
    for helper in helpers:
        if helper.ident is not None:  # it was started
            helper.join()
