"""App: the ASGI application. The busiest routes go straight to their handlers; Starlette routes the rest."""

import asyncio
import base64
import contextlib
import hashlib
import json
import re
import sys
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from tessella.serve import openapi
from tessella.serve.answering import Answering, Threads
from tessella.serve.calls import JSON, Answer, Call, answer
from tessella.serve.counters import Counters, prometheus
from tessella.serve.logs import AccessLog
from tessella.serve.messages import Health
from tessella.serve.problems import PROBLEM, Problem, problem_of
from tessella.serve.reading import Reading
from tessella.serve.routes import ROUTES
from tessella.serve.settings import Settings, is_loopback
from tessella.serve.writing import Writing
from tessella.store import EmptyError, Store

CONSOLE = Path(__file__).parent / "console"
OPEN = {"/livez", "/readyz", "/healthz", "/docs", "/openapi.json"}  # need no token
TOO_LATE = 0.25  # seconds that the event loop may lag before requests are refused
FEW_ACTIVE = 128  # requests in flight that are answered even then: one batch
MOST_ACTIVE = 2_048  # requests in flight
_LOOK_EVERY = 0.05
_MOST_NAMES = 64  # accepted Host headers to remember
OTHERS = ("other", "console", "docs", "health", "metrics")
NAMES = [*OTHERS, *(f"{route.method} {route.path}" for route in ROUTES)]
_PAGES = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
_API = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))
Scope = Any
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Handler = Callable[[Call], Awaitable[Answer]]


class Forwarding(Protocol):
    """Sends changes to the writer process."""

    async def forward(self, name: str, call: Call) -> Answer:
        """Run the named handler in the writer process and return its answer."""

    async def close(self) -> None:
        """Close the connection."""


class Service:
    """An ASGI application that serves a store over HTTP.

    Parameters
    ----------
    store : Store
        The store to serve. It is open for writing if the service is writable and this process is the writer.
    settings : Settings
        Limits, tokens and other settings.
    counters : Counters
        Request counters, shared with the other workers.
    writer : Forwarding, default None
        Forwards changes to the writer, if this process is not the writer itself.
    """

    def __init__(self, store: Store, settings: Settings, counters: Counters, writer: Forwarding | None = None) -> None:
        self._store, self._settings, self._counters, self._writer = store, settings, counters, writer
        self._threads = Threads(settings.max_waiting)
        answering = Answering(store, settings, self._threads)
        reading = Reading(store, settings, self._threads, counters)
        self._writing = Writing(store, settings, self._threads) if settings.writable and not store.read_only else None
        self._log = None if settings.access_log is None else AccessLog(settings.access_log)
        self._handlers: dict[str, Handler] = {}
        for route in ROUTES:
            if route.writes:
                self._handlers[route.name] = self._writes(route.name)
            else:
                own = answering if hasattr(answering, route.name) else reading
                self._handlers[route.name] = getattr(own, route.name)
        self._numbers = {name: number for number, name in enumerate(NAMES)}
        self._direct = {
            route.path: (self._handlers[route.name], self._numbers[f"{route.method} {route.path}"])
            for route in ROUTES
            if route.path in ("/v1/recommend", "/v1/similar", "/v1/explain")
        }
        self._closed_host = is_loopback(settings.host) and not settings.tokens.any
        self._own_names: set[bytes | None] = set()  # Host headers that passed the check
        self._lag = 0.0
        self._active = 0
        self._ready = False
        self._ending = False
        self._pages = {"/docs": openapi.page(), "/openapi.json": json.dumps(openapi.document())}
        self._policy = _policy(self._pages["/docs"])
        self._router = self._routed()
        files = [Mount("/", StaticFiles(directory=CONSOLE, html=True))]
        self._files = Starlette(routes=files, exception_handlers={HTTPException: _refused})

    @property
    def changes(self) -> dict[str, Handler]:
        """The handlers that change the store, by name."""
        if self._writing is None:
            return {}
        return {route.name: getattr(self._writing, route.name) for route in ROUTES if route.writes}

    def _writes(self, name: str) -> Handler:
        async def refused(_: Call) -> Answer:
            raise Problem(403, "the service is read-only; start it with --writable.")

        async def forwarded(call: Call) -> Answer:
            if self._writer is None:
                raise Problem(503, "the writer process is not running; try again in a second.", {"Retry-After": "1"})
            made = await self._writer.forward(name, call)
            await self._caught_up(made, call)
            return made

        if not self._settings.writable:
            return refused
        if self._writing is None:
            return forwarded
        handler: Handler = getattr(self._writing, name)
        return handler

    async def _caught_up(self, made: Answer, call: Call) -> None:
        """Wait until this process also sees a forwarded change, so that a client reads its own writes."""
        version = int(json.loads(made.body).get("version", 0)) if made.status == 200 else 0
        while self._store.version < version and time.monotonic() < call.deadline:
            await asyncio.sleep(0.002)

    # Starlette

    def _routed(self) -> Starlette:
        paths: dict[str, dict[str, str]] = {}
        for route in ROUTES:
            paths.setdefault(route.path, {})[route.method] = route.name
        routes: list[Any] = [
            Route(path.replace("{id}", "{id:path}"), self._endpoint(path, methods), methods=list(methods))
            for path, methods in paths.items()
        ]
        routes += [
            Route("/livez", self._livez),
            Route("/readyz", self._readyz),
            Route("/healthz", self._readyz),
            Route("/metrics", self._metrics),
            Route("/docs", self._docs),
            Route("/openapi.json", self._openapi),
        ]
        return Starlette(routes=routes, exception_handlers={HTTPException: _refused}, lifespan=self._lifespan)

    def _endpoint(self, path: str, methods: dict[str, str]) -> Callable[[Request], Awaitable[Response]]:
        numbers = {method: self._numbers[f"{method} {path}"] for method in methods}
        numbers["HEAD"] = numbers.get("GET", 0)

        async def endpoint(request: Request) -> Response:
            method = "GET" if request.method == "HEAD" else request.method
            request.scope["tessella_route"] = numbers[method]
            try:
                made = await self._made(request, method, methods[method])
            except Exception as error:  # noqa: BLE001 - every error becomes an answer
                made = as_answer(error)
            response = Response(made.body, made.status, media_type=made.content_type.decode())
            response.raw_headers += list(made.headers)
            return response

        return endpoint

    async def _made(self, request: Request, method: str, name: str) -> Answer:
        headers = dict(request.scope["headers"])
        call = Call(
            method,
            request.scope["path"],
            request.path_params,
            dict(request.query_params),
            _type_of(headers),
            headers.get(b"accept", b"*/*").decode("latin-1"),
            await self._body(request.scope, request.receive, headers),
            self._deadline(headers),
        )
        return await self._handlers[name](call)

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        watching = asyncio.create_task(self._watch())
        self._ready = True
        try:
            yield
        finally:
            self._ready, self._ending = False, True
            watching.cancel()
            if self._writing is not None:
                await asyncio.to_thread(self._writing.close)
            if self._writer is not None:
                await self._writer.close()
            self._threads.close()
            if self._log is not None:
                await asyncio.to_thread(self._log.close)

    async def _watch(self) -> None:
        """Measure how far the event loop lags; requests are refused while it lags too far."""
        loop = asyncio.get_running_loop()
        while True:
            begun = loop.time()
            await asyncio.sleep(_LOOK_EVERY)
            self._lag = loop.time() - begun - _LOOK_EVERY

    async def _livez(self, _: Request) -> Response:
        return Response(json.dumps({"status": "ok", "live": True, "ready": self._ready}), media_type=JSON)

    async def _readyz(self, _: Request) -> Response:
        try:
            model = self._store.model()
        except (EmptyError, KeyError):
            model = None
        ready = self._ready and model is not None and not self._ending
        health = Health("ok" if ready else "starting", True, ready)
        if model is not None:
            health.generation, health.version = model.name, self._store.version
        return Response(answer(health).body, 200 if ready else 503, media_type=JSON)

    async def _metrics(self, _: Request) -> Response:
        gauges = {"store_version": float(self._store.version), "event_loop_lag_seconds": max(0.0, self._lag)}
        with contextlib.suppress(EmptyError, KeyError):
            held = self._store.model().recommender
            gauges |= {"items": float(held._edition.version.n_live), "memory_bytes": float(held.nbytes)}
            gauges["plan_stale"] = float(bool(held.plan.stale))
        return Response(prometheus(self._counters, gauges), media_type="text/plain; version=0.0.4")

    async def _docs(self, _: Request) -> Response:
        return Response(self._pages["/docs"], media_type="text/html")

    async def _openapi(self, _: Request) -> Response:
        return Response(self._pages["/openapi.json"], media_type=JSON)

    # All requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request, or handle startup and shutdown."""
        if scope["type"] != "http":
            await self._router(scope, receive, send)
            return
        begun = time.perf_counter()
        path, method = scope["path"], scope["method"]
        status, size, number = 500, 0, 0
        self._active += 1
        try:
            headers = dict(scope["headers"])
            self._admit(path, method, headers)
            direct = self._direct.get(path) if method == "POST" else None
            if direct is None:
                number = _number_of(path)
                status = await self._starlette(scope, receive, send)
                number = scope.get("tessella_route", number)
                return
            handler, number = direct
            body = await self._body(scope, receive, headers)
            made = await handler(
                Call(
                    method,
                    path,
                    content_type=_type_of(headers),
                    accept=headers.get(b"accept", b"*/*").decode("latin-1"),
                    body=body,
                    deadline=self._deadline(headers),
                )
            )
            status, size = made.status, len(made.body)
            await _reply(send, made)
        except Exception as error:  # noqa: BLE001 - every error becomes an answer
            made = as_answer(error)
            status, size = made.status, len(made.body)
            await _reply(send, made)
        finally:
            self._active -= 1
            taken = time.perf_counter() - begun
            self._counters.count(number, status, taken)
            if self._log is not None:
                client = scope.get("client")
                self._log.add(time.time(), method, path, status, 1000 * taken, size, client[0] if client else None)

    async def _starlette(self, scope: Scope, receive: Receive, send: Send) -> int:
        """Answer through Starlette, add the security headers, and return the status."""
        status, begun = 500, False
        path = scope["path"]

        async def noting(message: Any) -> None:
            nonlocal status, begun
            if message["type"] == "http.response.start":
                status, begun = message["status"], True
                more = _API if path.startswith("/v1/") else (*_PAGES, (b"content-security-policy", self._policy))
                message["headers"] = [*message["headers"], *more]
            await send(message)

        try:
            known = path.startswith("/v1/") or path in OPEN or path == "/metrics"
            await (self._router if known else self._files)(scope, receive, noting)
        except Exception as error:
            if begun:
                raise
            made = as_answer(error)
            status = made.status
            await _reply(send, made)
        return status

    def _admit(self, path: str, method: str, headers: dict[bytes, bytes]) -> None:
        """Refuse a request that is not allowed, or that the service is too busy to answer."""
        if self._closed_host and headers.get(b"host") not in self._own_names:
            self._check_host(headers.get(b"host", b""))
        origin = headers.get(b"origin")
        if origin is not None and origin.split(b"//")[-1] != headers.get(b"host") and method != "GET":
            raise Problem(403, "pages from other origins may not call this service.")
        if path in OPEN or not (path.startswith("/v1/") or path == "/metrics"):
            return
        if self._settings.tokens.any:
            scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
            given = token.strip() if scheme.lower() == b"bearer" else None
            tokens = self._settings.tokens
            if not tokens.may(given, write=False):
                raise Problem(401, "the bearer token is missing or wrong.", {"WWW-Authenticate": "Bearer"})
            writes = method in ("PUT", "DELETE") or path.endswith(("/publish", "/rollback"))
            if writes and not tokens.may(given, write=True):
                raise Problem(403, "this token is read-only; changes need the write token.")
        if self._ending:
            raise Problem(503, "the service is shutting down.", {"Retry-After": "5"})
        if self._active > (FEW_ACTIVE if self._lag > TOO_LATE else MOST_ACTIVE):
            raise Problem(429, "the service is overloaded; try again in a second.", {"Retry-After": "1"})

    def _check_host(self, host: bytes) -> None:
        """Refuse a Host header that does not name this machine, which stops DNS rebinding."""
        name = host.decode("latin-1")
        if not is_loopback(re.sub(r":\d+$", "", name)):
            raise Problem(400, f"the service only answers this machine, but the Host header is {name!r}.")
        if len(self._own_names) < _MOST_NAMES:
            self._own_names.add(host)

    def _deadline(self, headers: dict[bytes, bytes]) -> float:
        own = headers.get(b"tessella-timeout-ms")
        limit = self._settings.timeout
        if own is not None:
            if not own.isdigit() or not own.strip(b"0"):
                said = own.decode("latin-1")
                raise Problem(422, f"Tessella-Timeout-Ms is {said!r}, but must be a whole number above 0.")
            limit = min(limit, int(own[-12:]) / 1000 if len(own.lstrip(b"0")) <= 12 else limit)
        return time.monotonic() + limit

    async def _body(self, _: Scope, receive: Receive, headers: dict[bytes, bytes]) -> bytes:
        """Read the whole body; refuse one that is too large, even if Content-Length says otherwise."""
        most = self._settings.max_body
        said = headers.get(b"content-length", b"0")
        if said.isdigit() and int(said) > most:
            raise _too_long(most)
        message = await receive()
        body: bytes = message.get("body", b"")
        if message.get("more_body"):
            parts, size = [body], len(body)
            async with asyncio.timeout(self._settings.timeout):
                while message.get("more_body"):
                    message = await receive()
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > most:
                        raise _too_long(most)
            body = b"".join(parts)
        if len(body) > most:
            raise _too_long(most)
        return body


def _too_long(most: int) -> Problem:
    return Problem(
        413,
        f"the body is longer than {most:,} bytes, the limit; send less, or start the service with a larger --max-body.",
    )


def _type_of(headers: dict[bytes, bytes]) -> str:
    """Return the media type of the body, without its parameters."""
    given = headers.get(b"content-type")
    return (
        ""
        if given is None
        else JSON
        if given == b"application/json"
        else given.split(b";")[0].strip().lower().decode("latin-1")
    )


async def _reply(send: Send, made: Answer) -> None:
    headers = [
        (b"content-type", made.content_type),
        (b"content-length", b"%d" % len(made.body)),
        *_API,
        *made.headers,
    ]
    await send({"type": "http.response.start", "status": made.status, "headers": headers})
    await send({"type": "http.response.body", "body": made.body})


def as_answer(error: BaseException) -> Answer:
    """Turn an error into an answer; an unexpected one is also printed to standard error."""
    problem = problem_of(error)
    if problem is None:
        traceback.print_exception(error, file=sys.stderr)
        problem = Problem(500, "the service failed; see its log for details.")
    headers = tuple((name.encode(), value.encode()) for name, value in problem.headers.items())
    return Answer(problem.body(), problem.status, PROBLEM.encode(), headers)


async def _refused(_: Request, error: Exception) -> Response:
    """Answer an unknown path or a method that a path does not have."""
    status = getattr(error, "status_code", 500)
    sentence = {404: "there is nothing at this path.", 405: "this path does not support the method."}
    problem = Problem(status, sentence.get(status, str(getattr(error, "detail", ""))))
    return Response(problem.body(), status, getattr(error, "headers", None), media_type=PROBLEM)


def _number_of(path: str) -> int:
    """Return the number of the counter for a request that no API route has claimed."""
    if path in ("/livez", "/readyz", "/healthz"):
        return OTHERS.index("health")
    if path in ("/docs", "/openapi.json"):
        return OTHERS.index("docs")
    if path == "/metrics":
        return OTHERS.index("metrics")
    return OTHERS.index("other") if path.startswith("/v1") else OTHERS.index("console")


def _policy(page: str) -> bytes:
    """Return the content security policy: the service's own files, and the inline style of the API page."""
    style = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return (
        f"default-src 'self'; style-src 'self' 'sha256-{digest}'; img-src 'self' data:; frame-ancestors 'none'; "
        "base-uri 'none'; form-action 'self'"
    ).encode()
