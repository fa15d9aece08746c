"""A bar for long work: on a terminal, and nowhere else unless asked for."""

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def bar(
    total: int, doing: str = "Searching", *, begun: int = 0, shown: bool | None = None
) -> Iterator[Callable[[int], None]]:
    """A bar on stderr, and what moves it.

    Parameters
    ----------
    total : int
        How much there is to do.
    doing : str, default "Searching"
        What is written before it.
    begun : int, default 0
        How much was done before.
    shown : bool, default None
        Whether to show it; None shows it where stderr is a terminal.
    """
    if not (_on_terminal() if shown is None else shown):
        yield lambda _: None
        return
    from rich.console import Console  # noqa: PLC0415 - most searches show no bar
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = TextColumn(doing), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=_on_terminal()) as running:
        yield functools.partial(running.advance, running.add_task("", total=total, completed=begun))


@contextlib.contextmanager
def steps() -> Iterator[Callable[[str, int, int | None], None]]:
    """A bar of steps, each with its name, if there is a terminal to show it, and what moves it: name, done, total."""
    if not _on_terminal():
        yield lambda _doing, _done, _total: None
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}")
    with Progress(*columns, console=Console(stderr=True), transient=True) as running:
        task = running.add_task("Starting", total=None)
        yield lambda doing, done, total: running.update(task, description=doing, completed=done, total=total)


def _on_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()  # there is none in a process without a console
