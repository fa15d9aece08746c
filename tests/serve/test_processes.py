"""Services as processes: several workers, an end that finishes what was accepted, and kill -9 in a loop.

`make test-serve` kills 100 times; elsewhere TESSELLA_KILL_ROUNDS, or 3.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import httpx
import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvloop")

from running import ITEMS, USERS, fill, model

from tessella.store import Store

ROUNDS = int(os.environ.get("TESSELLA_KILL_ROUNDS", "3"))


@contextlib.contextmanager
def serving(path, *options):
    """The process of a service, and its address."""
    command = [sys.executable, "-m", "tessella", "serve", str(path), "--port", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # noqa: S603
    try:
        line = process.stdout.readline()
        found = re.search(r"http://\S+?(?=[,;])", line)
        assert found, line + process.stderr.read()
        address = found.group()
        until = time.monotonic() + 60
        while time.monotonic() < until:
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{address}/livez").status_code == 200:
                    break
            time.sleep(0.02)
        yield process, address
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.communicate()


def test_sigterm_ends_a_service_gracefully(tmp_path):
    path = fill(tmp_path / "c.db")
    with serving(path, "--writable") as (process, address):
        assert httpx.put(f"{address}/v1/items/7", json={"factors": [1.0] * 6}).status_code == 200
        second = subprocess.run(  # noqa: S603
            [sys.executable, "-m", "tessella", "serve", str(path), "--port", "0", "--writable"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert second.returncode == 1
        assert re.fullmatch(
            rf"tessella: .*c.db is already open for writing in process {process.pid}, and a store has one writer; .*\n",
            second.stderr,
        )
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert process.stderr.read() == ""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with Store.open(path) as store:
            assert store.items([7])[0].vector.tolist() == [1.0] * 6


def test_workers_answer_alike_follow_changes_and_add_up_their_figures(tmp_path):
    path = fill(tmp_path / "c.db")
    with serving(path, "--writable", "--workers", "2") as (process, address):
        body = {"factors": (50 * USERS[1]).tolist()}
        put = httpx.put(f"{address}/v1/items/7", json=body, timeout=60)
        assert put.status_code == 200, put.text
        version = put.json()["version"]
        asked = 0
        until = time.monotonic() + 60
        agreed = 0
        while agreed < 20 and time.monotonic() < until:  # each request has a connection of its own, so any worker
            found = httpx.post(f"{address}/v1/recommend", json={"user": 1, "k": 1}).json()
            asked += 1
            agreed = agreed + 1 if found["lists"][0]["ids"] == [7] and found["version"] == version else 0
        assert agreed == 20
        text = httpx.get(f"{address}/metrics").text
        assert f'tessella_requests_total{{route="POST /v1/recommend",status="200"}} {asked}.0' in text
        assert httpx.get(f"{address}/v1/stats").json()["workers"] == 2
        bad = httpx.put(f"{address}/v1/items/7", json={"factors": [1.0]})
        assert bad.status_code == 422
        assert bad.json()["detail"] == "factors of item 7 have shape (1,), but the model has 6 factors."
        assert httpx.post(f"{address}/v1/rollback").status_code == 409
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    with Store.open(path) as store:
        assert store.version == version


def test_a_worker_that_dies_is_started_again(tmp_path):
    path = fill(tmp_path / "c.db")
    with serving(path, "--workers", "2") as (process, address):
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        if not children.exists():
            pytest.skip("this system does not list the children of a process")

        def workers():
            listed = []
            for child in map(int, children.read_text().split()):
                with contextlib.suppress(OSError):
                    if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                        listed.append(child)
            return listed

        before = workers()
        assert len(before) == 2
        os.kill(before[0], signal.SIGKILL)
        until = time.monotonic() + 60
        after = workers()
        while (len(after) < 2 or set(after) == set(before)) and time.monotonic() < until:
            time.sleep(0.05)
            after = workers()  # once: the list may lack a child while others come and go
        assert len(after) == 2
        answered = None
        while answered is None and time.monotonic() < until:
            with contextlib.suppress(httpx.TransportError):
                answered = httpx.post(f"{address}/v1/recommend", json={"user": 1, "k": 3})
        assert answered.json()["lists"][0]["ids"] == model().recommend(1, k=3).ids.tolist()


def test_what_cannot_be_served_is_one_sentence(tmp_path):
    def said(*arguments):
        ran = subprocess.run(  # noqa: S603
            [sys.executable, "-m", "tessella", "serve", *arguments], capture_output=True, text=True, check=False
        )
        assert ran.returncode == 1, ran.stdout
        return ran.stderr

    assert said(str(tmp_path / "none.db"), "--port", "0").endswith("none.db cannot be read: there is no such file.\n")
    foreign = tmp_path / "foreign.db"
    foreign.write_text("hello")
    assert "is not a tessella store" in said(str(foreign), "--port", "0")
    assert "the service needs a read token and a write token" in said(str(foreign), "--host", "0.0.0.0")  # noqa: S104
    with serving(fill(tmp_path / "c.db")) as (_, address):
        port = address.rsplit(":", 1)[1]
        assert f"cannot listen on 127.0.0.1:{port}: address already in use" in said(
            str(tmp_path / "c.db"), "--port", port
        )


def test_acknowledged_changes_survive_kill_9_again_and_again(tmp_path):  # noqa: C901, PLR0915
    """Every acknowledged item is there, none is torn, and no index answers with what was not written."""
    path = tmp_path / "c.db"
    with Store.open(path) as store:
        store.publish(ITEMS, USERS, name="a", method="exact")
    rng = np.random.default_rng(0)
    known = {}  # the last acknowledged number of each item
    sent = {}  # and the last that was sent
    for turn in range(ROUNDS):
        with serving(path, "--writable", *(["--workers", "2"] if turn % 3 == 2 else [])) as (process, address):
            stop = threading.Event()

            def write(first, address=address, stop=stop, turn=turn):
                with httpx.Client(base_url=address, timeout=60) as client:
                    number = 0
                    while not stop.is_set():
                        number += 1
                        item, value = first + number % 20, turn * 100_000 + number
                        sent[item] = max(value, sent.get(item, 0))
                        body = {"factors": [float(value)] * 6, "payload": {"value": value}}
                        try:
                            answered = client.put(f"/v1/items/{item}", json=body)
                        except httpx.TransportError:
                            return
                        if answered.status_code == 200:
                            known[item] = value

            writers = [threading.Thread(target=write, args=(1000 * own,)) for own in (1, 2, 3)]
            for writer in writers:
                writer.start()
            until = time.monotonic() + 60
            while not known and time.monotonic() < until:
                time.sleep(0.01)
            time.sleep(0.05 + 0.3 * rng.random())
            process.kill()
            process.wait()
            stop.set()
            for writer in writers:
                writer.join()
        until = time.monotonic() + 60
        while time.monotonic() < until:  # workers end soon after their parent
            with contextlib.suppress(BlockingIOError):
                store = Store.open(path)
                break
            time.sleep(0.05)
        with store:
            found = {row.id: row for row in store.items(sorted(sent))}
            for item, value in known.items():
                row = found[item]
                assert value <= row.payload["value"] <= sent[item]
            for row in found.values():
                assert row.vector.tolist() == [float(row.payload["value"])] * 6
            ids = store.recommender.item_ids.tolist()
            assert sorted(ids) == sorted([*range(60), *found])
            if found:
                scores = store.recommender.recommend(
                    np.full(6, 1 / 6, np.float32), k=len(ids), exact=True, exclude_seen=False
                )
                for item, score in zip(scores.ids.tolist(), scores.scores.tolist(), strict=True):
                    if item in found:
                        assert score == pytest.approx(found[item].payload["value"], rel=1e-5)
    assert known
    assert json.dumps(sorted(known))
