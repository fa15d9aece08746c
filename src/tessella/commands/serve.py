"""Serve: the commands that serve a store over HTTP."""

import enum
import importlib.util
import os
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

_EXTRA = ("msgspec", "starlette", "uvicorn", "uvloop", "httptools", "prometheus_client")
PORT = Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on; 0 takes a free one.")]


def serve(
    store: Annotated[
        Path,
        typer.Argument(
            metavar="STORE", help="The SQLite file of a store; with --writable, it is created if it does not exist."
        ),
    ],
    host: Annotated[
        str, typer.Option(help="The address to listen on; any but a loopback address needs --tokens.")
    ] = "127.0.0.1",
    port: PORT = 8000,
    writable: Annotated[bool, typer.Option("--writable", help="Accept changes.")] = False,
    workers: Annotated[int, typer.Option(min=1, help="The number of processes that answer requests.")] = 1,
    tokens: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A file with lines read = TOKEN and write = TOKEN, instead of the variables TESSELLA_READ_TOKEN and "
            "TESSELLA_WRITE_TOKEN.",
            show_default=False,
        ),
    ] = None,
    max_body: Annotated[int, typer.Option(min=1, help="The size limit of a request body, in bytes.")] = 8 * 2**20,
    max_batch: Annotated[int, typer.Option(min=1, help="The maximum number of users in one request.")] = 1_000,
    max_k: Annotated[int, typer.Option(min=1, help="The maximum k.")] = 1_000,
    max_filter: Annotated[
        int, typer.Option(min=1, help="The maximum number of ids and values in the filters of one request.")
    ] = 10_000,
    max_waiting: Annotated[int, typer.Option(min=1, help="The maximum number of batches waiting for a thread.")] = 64,
    timeout: Annotated[float, typer.Option(help="The time limit of a request, in seconds.")] = 10.0,
    access_log: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Append a line of JSON to this file for each request; - is standard output.",
            show_default=False,
        ),
    ] = None,
    keep: Annotated[int, typer.Option(min=1, help="How many published generations to keep.")] = 3,
    risk_power_loss: Annotated[
        bool,
        typer.Option(
            "--risk-power-loss", help="Do not wait for the disk: the last changes may be lost in a power failure."
        ),
    ] = False,
) -> None:
    """Serve a store over HTTP, with a console for the browser."""
    settings = _settings(
        tokens,
        host=host,
        port=port,
        writable=writable,
        workers=workers,
        max_body=max_body,
        max_batch=max_batch,
        max_k=max_k,
        max_filter=max_filter,
        max_waiting=max_waiting,
        timeout=timeout,
        access_log=access_log,
        keep=keep,
        risk_power_loss=risk_power_loss,
    )
    run(store, settings)


def _settings(tokens: Path | None, **options: Any) -> Any:
    """Return the settings of a service, if its dependencies are installed."""
    check_installed()
    from tessella.serve.settings import Settings, Tokens  # noqa: PLC0415 - an extra

    return Settings(tokens=Tokens.of(tokens), **options)


def run(store: Path, settings: Any) -> None:
    """Serve until a signal arrives."""
    from tessella.serve.server import run as run_server  # noqa: PLC0415 - an extra

    def told(address: str) -> None:
        typer.echo(f"{store} at {address}{'' if settings.writable else ', read-only'}; press Ctrl+C to stop")

    run_server(store, settings, told)


def check_installed() -> None:
    """Refuse to continue without the libraries that a service needs."""
    missing = [name for name in _EXTRA if importlib.util.find_spec(name) is None]
    if missing:
        raise ImportError(f"serving needs {', '.join(missing)}; install it with: pip install 'tessella[serve]'")


class Movies(enum.StrEnum):
    """The data sets of `tessella demo`."""

    MOVIELENS = "movielens"
    MADE_UP = "made-up"


def demo(
    what: Annotated[
        Movies, typer.Argument(metavar="[movielens|made-up]", help="Which movies to use.")
    ] = Movies.MADE_UP,
    data: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="For movielens: a folder that holds ml-100k.", show_default=False),
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The file of the store. By default, a temporary one, removed when the demo ends.",
            show_default=False,
        ),
    ] = None,
    port: PORT = 8000,
) -> None:
    """Train and serve a small model of movies, to try the console."""
    settings = _settings(None, port=port, writable=True)
    from tessella.serve import demo as movies  # noqa: PLC0415 - an extra

    named = data or os.environ.get("TESSELLA_DATA")
    if what is Movies.MOVIELENS and named is None:
        raise ValueError("--data is missing; pass a folder that holds ml-100k, or set TESSELLA_DATA.")
    shown = movies.movielens(Path(str(named))) if what is Movies.MOVIELENS else movies.made_up()
    with tempfile.TemporaryDirectory(prefix="tessella-demo-") as folder:
        path = Path(folder) / "movies.db" if store is None else store
        movies.fill(path, shown, typer.echo)
        run(path, settings)
