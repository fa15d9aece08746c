"""The command line: the commands there are, with examples, and what becomes of errors and signals."""

import os
import signal
import sys
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from tessella import __version__
from tessella.commands.edit import add, build, remove, update
from tessella.commands.inspect import explain, info, verify
from tessella.commands.reproduce import reproduce
from tessella.commands.search import search, search_all

INTERRUPTED, PIPE_CLOSED, TERMINATED = 130, 141, 143  # as shells number what a signal ended
IN_THE_SHELL = {"overwrite=True": "--overwrite", "method=tessella.LearnedTiles()": "--method tiles"}


class _Commands(TyperGroup):
    """The commands, which turn errors into one sentence and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except KeyboardInterrupt as error:
            code, sentence = INTERRUPTED, str(error) or "interrupted."
        except BrokenPipeError:
            code, sentence = PIPE_CLOSED, ""
        except (ImportError, KeyError, MemoryError, OSError, TypeError, ValueError) as error:
            code, sentence = 1, _sentence(error)
        else:
            return result
        _drop_output()
        if sentence:
            typer.echo(f"tessella: {sentence}", err=True)
        raise typer.Exit(code)


def _sentence(error: Exception) -> str:
    """What an error says, on one line."""
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.filename or 'the output'} cannot be used: {error.strerror.lower()}."
    elif isinstance(error, KeyError):
        text = str(error.args[0])  # on its own it would be quoted
    else:
        text = str(error) or "there is not enough memory."
    for python, shell in IN_THE_SHELL.items():
        text = text.replace(python, shell)
    return " ".join(text.split())


def _drop_output() -> None:
    """If output cannot be written, let it go, or Python would try again at exit and complain."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _examples(*lines: str) -> str:
    """The foot of a help page; the backspace keeps its lines as they are."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


app = typer.Typer(
    cls=_Commands,
    add_completion=False,
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
        "tessella add items.tessella more.npy --ids more-ids.txt",
    )
)
def commands(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Top-k recommendations from matrix-factorisation factors.

    Build an index from the factors of items, search it with those of users, and change it as items come and go.
    """


for command, *lines in (
    (
        build,
        "tessella build items.npy -o items.tessella",
        "tessella build items.csv -o items.tessella --ids ids.txt --overwrite",
        "tessella build items.npy -o items.tessella --queries users.npy",
        "tessella build items.npy -o items.tessella --method exact",
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
    ),
    (add, "tessella add items.tessella more.npy --ids more-ids.txt"),
    (update, "tessella update items.tessella changed.npy --ids changed-ids.txt"),
    (remove, "tessella remove items.tessella 17 23", "tessella remove items.tessella --ids old-ids.txt"),
    (info, "tessella info items.tessella"),
    (explain, "tessella explain items.tessella users.npy --user 3 --item 17"),
    (verify, "tessella verify items.tessella && echo sound"),
    (
        reproduce,
        "tessella reproduce synthetic --out report --quick",
        "tessella reproduce all --out report --data folder-with-ml-100k",
    ),
):
    app.command(epilog=_examples(*lines))(command)


def main() -> None:
    """Run the command line."""
    signal.signal(signal.SIGTERM, _terminated)
    app(prog_name="tessella")


def _terminated(_signal: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(TERMINATED)  # not at once, so that no temporary file is left
