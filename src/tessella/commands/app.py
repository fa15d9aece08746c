"""The command line: the list of commands with examples, and the handling of errors and signals."""

import contextlib
import errno
import io
import os
import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from tessella import __version__
from tessella.commands.edit import add, build, remove, update
from tessella.commands.inspect import explain, info, verify
from tessella.commands.recommend import recommend
from tessella.commands.reproduce import reproduce
from tessella.commands.search import search, search_all
from tessella.commands.serve import demo, serve

INTERRUPTED, PIPE_CLOSED, TERMINATED = 130, 141, 143  # the exit codes of shells for these signals
WRITTEN = {  # the parameter that names the output of a command
    "build": "output",
    "search": "output",
    "recommend": "output",
    "search-all": "out",
    "add": "index",
    "update": "index",
    "remove": "index",
    "reproduce": "out",
}
IN_THE_SHELL = {
    "overwrite=True": "--overwrite",
    "method=tessella.LearnedTiles()": "--method tiles",
    "attributes of the new items are missing; pass": "attributes of the new items are missing; pass --attributes with",
    "signals of the new items are missing; pass": "signals of the new items are missing; pass --signals with",
    "pass vectors, or the liked items as liked=": "pass the liked items with --liked",
    "build it with attributes": "build it with --attributes",
    "build it with signals": "build it with --signals",
}


class _UnprintedError(OSError):
    """Standard output cannot be written."""

    @property
    def reason(self) -> str:
        """The reason, in words."""
        return "standard output is closed" if self.errno == errno.EBADF else str(self.strerror).lower()


class _Stdout(io.FileIO):
    """Standard output, whose errors can be distinguished from those of files."""

    def write(self, data: Any, /) -> int:
        """Write bytes."""
        try:
            return super().write(data)
        except OSError as error:
            raise _UnprintedError(error.errno, error.strerror) from None


class _Commands(TyperGroup):
    """The group of commands; turns errors into one sentence and an exit code."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Parse the command line; this is where help is printed."""
        with _one_sentence():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        with _one_sentence():
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result


class _Command(TyperCommand):
    """A command that may write a file, and prints a report once the file is complete."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except _UnprintedError as error:
            written = ctx.params.get(WRITTEN.get(self.name or ""))
            if written is None:  # the output itself could not be printed
                raise
            # The requested file was written, so the exit code is 0. After any other, a script might delete the file, or
            # run `add` again, which would refuse the ids that it has already added.
            _drop_output()
            if error.errno != errno.EPIPE:
                _complain(f"{written} was written, but the report could not be printed: {error.reason}.")
            return None
        return result


@contextlib.contextmanager
def _one_sentence() -> Iterator[None]:
    """Turn errors into one sentence on stderr and an exit code."""
    try:
        yield
    except KeyboardInterrupt as error:
        code, sentence = INTERRUPTED, str(error) or "interrupted."
    except (ImportError, KeyError, MemoryError, OSError, TypeError, ValueError) as error:
        cut_off = isinstance(error, OSError) and error.errno == errno.EPIPE
        code, sentence = (PIPE_CLOSED, "") if cut_off else (1, _sentence(error))
    else:
        return
    _drop_output()
    if sentence:
        _complain(sentence)
    raise typer.Exit(code)


def _complain(sentence: str) -> None:
    with contextlib.suppress(OSError):  # if stderr cannot be written either, the exit code remains
        typer.echo(f"tessella: {sentence}", err=True)


def _sentence(error: Exception) -> str:
    """Return the message of an error, on one line."""
    if isinstance(error, _UnprintedError):
        text = f"the output could not be printed: {error.reason}."
    elif isinstance(error, OSError) and error.strerror:
        text = f"{error.filename or 'a file'} cannot be used: {error.strerror.lower()}."
    elif isinstance(error, KeyError):
        text = str(error.args[0])  # str(error) would quote it
    else:
        text = str(error) or "there is not enough memory."
    for python, shell in IN_THE_SHELL.items():
        text = text.replace(python, shell)
    return " ".join(text.split())


def _drop_output() -> None:
    """Discard output that cannot be written; otherwise Python would try again at exit and complain."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _examples(*lines: str) -> str:
    """Return the epilog of a help page; the backspace preserves its line breaks."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tessella {__version__}")
        raise typer.Exit


@app.callback(
    epilog=_examples(
        "tessella build items.npy -o items.tessella",
        "tessella search items.tessella users.npy -k 10 -o recs.csv",
        "tessella recommend model.tessella --users 17,4711",
        "tessella add items.tessella more.npy --ids more-ids.txt",
    )
)
def commands(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Top-k recommendations from matrix-factorisation factors.

    Build an index from item factors, search it with user factors, and change it as items come and go.
    """


for command, *lines in (
    (
        build,
        "tessella build items.npy -o items.tessella",
        "tessella build items.csv -o items.tessella --ids ids.txt --overwrite",
        "tessella build items.npy -o items.tessella --queries users.npy",
        "tessella build items.npy -o items.tessella --method exact",
        "tessella build items.npy -o model.tessella --users users.npy --seen seen.csv",
        "tessella build items.npy -o model.tessella --attributes movies.parquet",
    ),
    (
        recommend,
        "tessella recommend model.tessella --users 17,4711",
        'tessella recommend model.tessella --users 17 --where \'{"genre": "comedy"}\'',
        "tessella recommend model.tessella --liked 50,181 -k 5",
        "tessella recommend model.tessella --all-users -o recs.parquet",
    ),
    (
        search,
        "tessella search items.tessella users.npy -k 10 -o recs.parquet",
        "tessella search items.tessella users.npy --exclude seen.npz -o recs.csv",
        "tessella search items.tessella users.npy | head",
    ),
    (
        search_all,
        "tessella search-all items.tessella users.npy --out recs",
        "tessella search-all items.tessella users.npy --out recs --exclude seen.npz",
        "tessella search-all items.tessella users.parquet --out recs.parquet",
    ),
    (
        add,
        "tessella add items.tessella more.npy --ids more-ids.txt",
        "tessella add model.tessella more.npy --ids ids.txt --attributes more.csv",
    ),
    (
        update,
        "tessella update items.tessella changed.npy --ids changed-ids.txt",
        "tessella update model.tessella --attributes prices.csv",
    ),
    (remove, "tessella remove items.tessella 17 23", "tessella remove items.tessella --ids old-ids.txt"),
    (info, "tessella info items.tessella"),
    (
        explain,
        "tessella explain items.tessella users.npy --user 3 --item 17",
        "tessella explain model.tessella --user 4711 --item 17",
    ),
    (verify, "tessella verify items.tessella && echo intact"),
    (
        serve,
        "tessella serve catalogue.db",
        "tessella serve catalogue.db --writable --workers 4",
        "tessella serve catalogue.db --host 0.0.0.0 --tokens tokens.txt",
    ),
    (demo, "tessella demo", "tessella demo movielens --data folder-with-ml-100k"),
    (
        reproduce,
        "tessella reproduce synthetic --out report --quick",
        "tessella reproduce all --out report --data folder-with-ml-100k",
    ),
):
    app.command(cls=_Command, epilog=_examples(*lines))(command)


def main() -> None:
    """Run the command line."""
    signal.signal(signal.SIGTERM, _terminated)
    _open_streams()
    app(prog_name="tessella")


def _open_streams() -> None:
    """Give the process streams that report their errors, even if the shell closed some (`>&-`)."""
    while (number := os.open(os.devnull, os.O_RDONLY)) <= 2:  # so that no file gets the descriptor of a closed stream
        pass
    os.close(number)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - until the process ends
    like = sys.stdout or sys.stderr
    raw = _Stdout(1, "w", closefd=False)
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(raw), encoding=like.encoding, errors=like.errors, line_buffering=raw.isatty()
    )


def _terminated(_signal: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(TERMINATED)  # by an exception, so that temporary files are removed
