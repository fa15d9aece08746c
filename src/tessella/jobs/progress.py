"""Progress bars for long work. By default they are shown only on a terminal."""

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def bar(
    total: int, doing: str = "Searching", *, begun: int = 0, shown: bool | None = None
) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on stderr; yield the function that advances it.

    Parameters
    ----------
    total : int
        The amount of work.
    doing : str, default "Searching"
        The label of the bar.
    begun : int, default 0
        The amount already done.
    shown : bool, default None
        Whether to show the bar; None shows it if stderr is a terminal.
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
    """Show a progress bar with named steps, on a terminal only; yield the function that updates name, done, total."""
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
    return sys.stderr is not None and sys.stderr.isatty()  # it is None in a process without a console
