"""Applications for bench_serve.py: the service, and two that read and write the same bytes and do nothing else.

TESSELLA_BENCH_APP is service, bare or starlette; TESSELLA_BENCH_STORE is the path of the store. Granian imports `app`
from here.
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tessella.serve.app import NAMES, Service
from tessella.serve.counters import Counters
from tessella.serve.messages import RECOMMEND
from tessella.serve.server import config
from tessella.serve.settings import Settings
from tessella.store import Store

ANSWER = {
    "generation": "a",
    "version": 1,
    "n_items": 100_000,
    "lists": [
        {
            "ids": list(range(10_000, 10_010)),
            "scores": [2.373918056488037 - at / 7 for at in range(10)],
            "scored": 112,
            "certified": True,
            "user": 4711,
        }
    ],
    "next": None,
}
HEADERS = {  # beside those that tell the length and the type of the body
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
    "tessella-generation": "a",
    "tessella-version": "1",
}
RAW_HEADERS = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
ENCODER = msgspec.json.Encoder()


async def bare(scope: Any, receive: Any, send: Any) -> None:
    """Do the least that an ASGI application can do."""
    if scope["type"] != "http":
        await lifespan(receive, send)
        return
    RECOMMEND.decode((await receive())["body"])
    body = ENCODER.encode(ANSWER)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), *RAW_HEADERS]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def lifespan(receive: Any, send: Any) -> None:
    """Beginning and end."""
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


async def nothing(request: Request) -> Response:
    """Return a minimal Starlette application with the same answer."""
    RECOMMEND.decode(await request.body())
    return Response(ENCODER.encode(ANSWER), headers=HEADERS, media_type="application/json")


def service() -> Service:
    """Return the service on a store, with writing enabled."""
    store = Store.open(os.environ["TESSELLA_BENCH_STORE"], risk_power_loss=False)
    counters = Counters(Path(tempfile.mkdtemp()) / "counters", NAMES)
    return Service(store, Settings(writable=True), counters)


def chosen() -> Any:
    """Return the application named in the environment."""
    name = os.environ.get("TESSELLA_BENCH_APP", "bare")
    if name == "starlette":
        return Starlette(routes=[Route("/v1/recommend", nothing, methods=["POST"])])
    return service() if name == "service" else bare


if "TESSELLA_BENCH_APP" in os.environ:
    app = chosen()

if __name__ == "__main__":
    made = config(app)
    made.port = int(sys.argv[1])
    made.backlog = 16_384
    uvicorn.Server(made).run()
