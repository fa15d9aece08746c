"""A service that runs for tests: uvicorn on a free port of this machine, in a thread."""

import contextlib
import socket
import threading
import time

import httpx
import numpy as np
import uvicorn

import tessella as ts
from tessella.serve.app import NAMES, Service
from tessella.serve.counters import Counters
from tessella.serve.server import config
from tessella.serve.settings import Settings
from tessella.store import Store

RNG = np.random.default_rng(3)
ITEMS, USERS = RNG.standard_normal((60, 6)).astype(np.float32), RNG.standard_normal((9, 6)).astype(np.float32)
MOVIES = {
    "title": [f"Movie {n}" for n in range(60)],
    "genres": [["comedy", "drama"][: n % 3] for n in range(60)],
    "year": [None if n == 3 else 1990 + n % 20 for n in range(60)],
    "adult": [n % 7 == 0 for n in range(60)],
}
SIGNALS = {"popularity": np.arange(60.0), "fresh": ts.Decaying(np.arange(60) * 86400.0, half_life=10 * 86400.0)}
SEEN = [[0, 1], [], [2], [3, 4, 39], [], [5], [], [], []]


def fill(path, **others):
    parts = {
        "seen": SEEN,
        "attributes": MOVIES,
        "signals": SIGNALS,
        "payload": [{"poster": f"{n}.jpg"} for n in range(60)],
    }
    with Store.open(path) as store:
        store.publish(ITEMS, USERS, name="first", **parts | others)
    return path


def model(**others):
    return ts.Recommender.build(ITEMS, USERS, **{"seen": SEEN, "attributes": MOVIES, "signals": SIGNALS} | others)


@contextlib.contextmanager
def running(path, **settings):
    """A client of a service on a store."""
    made = Settings(**{"writable": True} | settings)
    store = Store.open(path, read_only=not made.writable, risk_power_loss=True, keep=made.keep)
    if store.read_only:
        store.start_following(every=0.002)
    counters = Counters(path.with_suffix(".counters"), NAMES)
    service = Service(store, made, counters)
    server = uvicorn.Server(config(service))
    listening = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        while not server.started:
            time.sleep(0.005)
            assert thread.is_alive()
        with httpx.Client(base_url=f"http://127.0.0.1:{listening.getsockname()[1]}", timeout=60) as client:
            client.store, client.service = store, service
            yield client
    finally:
        server.should_exit = True
        thread.join()
        listening.close()
        store.close()
