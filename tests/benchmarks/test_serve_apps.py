"""The applications that the service is measured against read and write what it does."""

import asyncio
import json

import numpy as np
import pytest

pytest.importorskip("starlette", reason="the service's libraries, an extra, are not installed")

import serve_apps

from tessella.serve.app import NAMES, Service
from tessella.serve.counters import Counters
from tessella.serve.settings import Settings
from tessella.store import Store

HEADERS = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]


async def asked(app):
    """The start of the answer to one request, and its body."""
    sent = []

    async def receive():
        return {"type": "http.request", "body": b'{"user": 1}', "more_body": False}

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "http_version": "1.1", "method": "POST", "path": "/v1/recommend", "raw_path": b"",
             "query_string": b"", "root_path": "", "scheme": "http", "headers": HEADERS, "client": ("127.0.0.1", 1),
             "server": ("127.0.0.1", 80)}  # fmt: skip
    await app(scope, receive, send)
    return sent[0], b"".join(message.get("body", b"") for message in sent[1:])


def shape(value):
    """What a value is made of."""
    if isinstance(value, dict):
        return {name: shape(own) for name, own in value.items()}
    return [shape(own) for own in value] if isinstance(value, list) else type(value)


@pytest.mark.parametrize("name", ["bare", "starlette"])
def test_they_write_the_same_headers_and_shape_of_body(name, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    with Store.open(tmp_path / "some.db") as store:
        items = rng.standard_normal((100, 8), dtype=np.float32)
        store.publish(items, items[:5], name="a", seen=[[0]] * 5, progress=False)
        service = Service(store, Settings(), Counters(tmp_path / "counters", NAMES))
        ours, body = asyncio.run(asked(service))
    monkeypatch.setenv("TESSELLA_BENCH_APP", name)
    theirs, their_body = asyncio.run(asked(serve_apps.chosen()))
    assert (ours["status"], theirs["status"]) == (200, 200)
    assert sorted(name for name, _ in ours["headers"]) == sorted(name for name, _ in theirs["headers"])
    assert shape(json.loads(body)) == shape(json.loads(their_body))
