"""Server: runs the service in one process, or in several workers beside one writer process."""

import asyncio
import contextlib
import functools
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import uvicorn

from tessella.serve.answering import Threads
from tessella.serve.app import NAMES, Handler, Service, as_answer
from tessella.serve.calls import Answer, Call
from tessella.serve.counters import Counters
from tessella.serve.problems import Problem
from tessella.serve.routes import ROUTES
from tessella.serve.settings import Settings
from tessella.serve.writing import Writing
from tessella.store import Store

GRACE = 30  # seconds that a shutdown waits for requests in flight
_LOOK_EVERY = 0.5  # seconds between two checks of the workers
_LIMIT = 2**31  # bytes of a message between worker and writer
_Encode = msgspec.msgpack.Encoder()
Told = Callable[[str], None]


def run(path: Path, settings: Settings, told: Told = lambda _: None) -> None:
    """Serve a store until a signal stops the service; accepted requests are finished first.

    Parameters
    ----------
    path : Path
        The store.
    settings : Settings
        Address, limits, tokens, workers.
    told : callable
        Called with the address once the service listens there.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listening = socket.create_server((settings.host.strip("[]"), settings.port), family=family, backlog=2048)
    except OSError as error:
        reason = str(error.strerror or error).lower()
        raise OSError(f"cannot listen on {settings.host}:{settings.port}: {reason}; choose another --port.") from None
    port = listening.getsockname()[1]
    address = f"http://{f'[{settings.host}]' if family == socket.AF_INET6 else settings.host}:{port}"
    with tempfile.TemporaryDirectory(prefix="tessella-") as folder, listening:
        if settings.workers == 1:
            with _opened(path, settings) as store:
                told(address)
                counters = Counters(Path(folder) / "counters", NAMES)
                _serve(Service(store, settings, counters), listening)
        else:
            asyncio.run(_Supervisor(path, settings, listening, Path(folder)).run(functools.partial(told, address)))


def _opened(path: Path, settings: Settings) -> Store:
    """Open the store, for writing if the service is writable."""
    if settings.writable:
        return Store.open(path, risk_power_loss=settings.risk_power_loss, keep=settings.keep)
    store = Store.open(path, read_only=True, mmap=True)
    store.start_following()
    return store


def config(service: Any) -> uvicorn.Config:
    """Return the uvicorn configuration for an application."""
    return uvicorn.Config(
        service,
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="on",
        access_log=False,
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=GRACE,
        timeout_keep_alive=75,
        h11_max_incomplete_event_size=None,
    )


def _serve(service: Any, listening: socket.socket) -> None:
    with contextlib.suppress(
        KeyboardInterrupt, SystemExit
    ):  # uvicorn raises the signal again after a graceful shutdown
        uvicorn.Server(config(service)).run(sockets=[listening])


# Several workers


class _Supervisor:
    """Starts the workers, restarts those that die, and writes for all of them."""

    def __init__(self, path: Path, settings: Settings, listening: socket.socket, folder: Path) -> None:
        self._path, self._settings, self._listening, self._folder = path, settings, listening, folder
        self._processes: dict[int, Any] = {}
        self._spawn = multiprocessing.get_context("spawn")
        self._handlers: dict[str, Handler] = {}

    async def run(self, ready: Callable[[], None]) -> None:
        """Supervise the workers until a signal arrives."""
        ending = asyncio.Event()
        loop = asyncio.get_running_loop()
        for one in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(one, ending.set)
        async with contextlib.AsyncExitStack() as stack:
            if self._settings.writable:
                await stack.enter_async_context(self._writer())
            for number in range(self._settings.workers):
                self._start(number)
            ready()
            while not ending.is_set():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(ending.wait(), _LOOK_EVERY)
                self._start_again(ending)
            await self._end()

    @contextlib.asynccontextmanager
    async def _writer(self) -> AsyncIterator[None]:
        """Apply changes from the workers while the context is open."""
        with _opened(self._path, self._settings) as store:
            if store.live is not None:
                store.snapshot()  # the workers share its memory
            threads = Threads(self._settings.max_waiting)
            writing = Writing(store, self._settings, threads)
            self._handlers = {route.name: getattr(writing, route.name) for route in ROUTES if route.writes}
            server = await asyncio.start_unix_server(self._answer, self._folder / "writer", limit=_LIMIT)
            try:
                yield
            finally:
                server.close()
                await asyncio.to_thread(writing.close)
                threads.close()

    def _start_again(self, ending: asyncio.Event) -> None:
        for number, process in list(self._processes.items()):
            if not process.is_alive() and not ending.is_set():
                warnings.warn(f"worker {number} exited with code {process.exitcode} and is restarted.", stacklevel=1)
                self._start(number)

    async def _end(self) -> None:
        """Stop the workers after they finish accepted requests."""
        for process in self._processes.values():
            process.terminate()
        until = time.monotonic() + GRACE + 5
        for process in self._processes.values():
            await asyncio.to_thread(process.join, max(0.1, until - time.monotonic()))
            if process.is_alive():
                process.kill()

    def _start(self, number: int) -> None:
        arguments = (self._path, self._settings, self._listening, self._folder, number, os.getpid())
        process = self._spawn.Process(target=_work, args=arguments, daemon=True)
        process.start()
        self._processes[number] = process

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Apply the changes that one worker sends."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                name, *parts, left = msgspec.msgpack.decode(await _read(reader))
                call = Call(*parts)
                call.deadline = time.monotonic() + left
                try:
                    made = await self._handlers[name](call)
                except Exception as error:  # noqa: BLE001 - sent back to the worker
                    made = as_answer(error)
                _write(writer, (made.body, made.status, made.content_type, made.headers))
                await writer.drain()
        writer.close()


async def _read(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "little"))


def _write(writer: asyncio.StreamWriter, message: Any) -> None:
    data = _Encode.encode(message)
    writer.write(len(data).to_bytes(4, "little") + data)


class _Forwarding:
    """Sends changes from a worker to the writer process over a Unix socket."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def forward(self, name: str, call: Call) -> Answer:
        """Run the named handler in the writer process and return its answer."""
        try:
            reader, writer = (
                self._free.pop() if self._free else await asyncio.open_unix_connection(self._path, limit=_LIMIT)
            )
            left = call.deadline - time.monotonic()
            parts = (
                call.method,
                call.path,
                dict(call.params),
                dict(call.query),
                call.content_type,
                call.accept,
                call.body,
            )
            _write(writer, (name, *parts, left))
            body, status, kind, headers = msgspec.msgpack.decode(await _read(reader))
        except (OSError, asyncio.IncompleteReadError):
            raise Problem(
                503, "the writer process is not running; try again in a second.", {"Retry-After": "1"}
            ) from None
        self._free.append((reader, writer))
        return Answer(body, status, kind, tuple((name, value) for name, value in headers))

    async def close(self) -> None:
        """Close idle connections."""
        for _, writer in self._free:
            writer.close()


def _work(path: Path, settings: Settings, listening: socket.socket, folder: Path, number: int, parent: int) -> None:
    """Run one worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    store = Store.open(path, read_only=True, mmap=True)
    store.start_following()
    counters = Counters(folder / "counters", NAMES, number, settings.workers)
    writer = _Forwarding(folder / "writer") if settings.writable else None
    if settings.access_log not in (None, "-"):
        settings = replace(settings, access_log=f"{settings.access_log}.{number}")
    try:
        _serve(Service(store, settings, counters, writer), listening)
    finally:
        store.close()
    sys.exit(0)


def _end_with(parent: int) -> None:
    """Stop this process if the parent dies."""
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)
