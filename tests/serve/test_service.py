"""The service answers as the library does, refuses in the library's sentences, and keeps to its limits."""

import asyncio
import json
import threading
import time

import httpx
import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvloop")

from running import ITEMS, USERS, fill, model, running

from tessella.serve import openapi
from tessella.serve.app import NAMES, Service
from tessella.serve.counters import Counters
from tessella.serve.settings import Settings, Tokens
from tessella.store import Store

ARROW = "application/vnd.apache.arrow.stream"


@pytest.fixture
def client(tmp_path):
    with running(fill(tmp_path / "c.db")) as client:
        yield client


def asked(client, route="recommend", **body):
    answered = client.post(f"/v1/{route}", json=body)
    assert answered.status_code == 200, answered.text
    return answered.json()


def problem(answered, status):
    assert answered.status_code == status, answered.text
    assert answered.headers["content-type"] == "application/problem+json"
    told = answered.json()
    assert told["status"] == status
    assert set(told) == {"type", "title", "status", "detail"}
    return told["detail"]


@pytest.mark.parametrize("user", range(9))
@pytest.mark.parametrize(("more", "same"), [
    ({}, {}),
    ({"k": 3}, {"k": 3}),
    ({"exact": True, "where": {"genres": "comedy", "year": {"from": 1995}}},) * 2,
    ({"boosts": {"popularity": 0.1, "fresh": 1.0}, "now": 1e6},) * 2,
    ({"boosts": {"fresh": 1.0}, "now": "1970-02-01"}, {"boosts": {"fresh": 1.0}, "now": np.datetime64("1970-02-01")}),
    ({"exclude_seen": False, "exclude": [5, 6]},) * 2,
    ({"allow": [1, 2, 3, 4, 5]},) * 2,
])  # fmt: skip
def test_users_get_what_the_library_recommends(tmp_path_factory, user, more, same):
    client = shared_client(tmp_path_factory)
    found = asked(client, user=user, **more)
    expected = model().recommend(user, **same)
    there = expected.scores > -np.inf
    (own,) = found["lists"]
    assert own["ids"] == expected.ids[there].tolist()
    np.testing.assert_allclose(own["scores"], expected.scores[there], rtol=1e-4, atol=1e-5)
    assert own["user"] == user
    assert own["certified"] == bool(expected.certified)
    assert own["scored"] <= found["n_items"] == 60
    assert found["generation"] == "first"


_SHARED = {}


def shared_client(factory):
    """One service for all tests that only ask."""
    if "client" not in _SHARED:
        _SHARED["context"] = running(fill(factory.mktemp("shared") / "c.db"), writable=False)
        _SHARED["client"] = _SHARED["context"].__enter__()
    return _SHARED["client"]


@pytest.fixture(scope="module", autouse=True)
def _closing():
    yield
    if _SHARED:
        _SHARED.pop("context").__exit__(None, None, None)
        _SHARED.clear()


@pytest.fixture
def reader(tmp_path_factory):
    return shared_client(tmp_path_factory)


def test_batches_vectors_and_likes(reader):
    lists = asked(reader, users=list(range(9)), k=4)["lists"]
    expected = model().recommend(list(range(9)), k=4)
    assert [own["ids"] for own in lists] == expected.ids.tolist()
    assert [own["user"] for own in lists] == list(range(9))
    (own,) = asked(reader, vector=USERS[2].tolist(), k=4)["lists"]
    assert own["ids"] == model().recommend(USERS[2], k=4).ids.tolist()
    assert "user" not in own
    lists = asked(reader, vectors=USERS.tolist(), k=4)["lists"]
    assert [own["ids"] for own in lists] == model().recommend(USERS, k=4).ids.tolist()
    (own,) = asked(reader, liked=[1, {"item": 2, "weight": 3}], k=4)["lists"]
    assert own["ids"] == model().recommend(liked={1: 1.0, 2: 3.0}, k=4).ids.tolist()
    (own,) = asked(reader, user=3, liked=[1], k=4)["lists"]
    assert own["ids"] == model().recommend(3, liked=[1], k=4).ids.tolist()
    (own,) = asked(reader, like=[1], dislike=[2], k=4)["lists"]
    assert own["ids"] == model().recommend(like=[1], dislike=[2], k=4).ids.tolist()
    assert asked(reader, users=[], k=4)["lists"] == []
    many = asked(reader, users=[n % 9 for n in range(200)], k=4)["lists"]
    assert [own["ids"] for own in many] == [expected.ids[n % 9].tolist() for n in range(200)]


def test_short_lists_instead_of_padding(reader):
    (own,) = asked(reader, user=1, allow=[7, 8], k=10)["lists"]
    assert sorted(own["ids"]) == [7, 8]
    assert len(own["scores"]) == 2


def test_pages_and_variety(reader):
    first = asked(reader, user=1, k=3, pages=True, exact=True)
    second = asked(reader, user=1, k=3, after=first["next"], exact=True)
    long = asked(reader, user=1, k=6, exact=True)
    assert long["next"] is None
    assert first["lists"][0]["ids"] + second["lists"][0]["ids"] == long["lists"][0]["ids"]
    assert "cursor for other users" in problem(
        reader.post("/v1/recommend", json={"user": 2, "after": first["next"]}), 422
    )
    assert "not a valid cursor" in problem(reader.post("/v1/recommend", json={"user": 2, "after": "x"}), 422)
    import tessella as ts  # noqa: PLC0415

    (own,) = asked(reader, user=1, k=4, at_most={"n": 1, "per": "year"})["lists"]
    assert own["ids"] == model().recommend(1, k=4, variety=ts.at_most(1, per="year")).ids.tolist()
    (own,) = asked(reader, user=1, k=4, diversify={"weight": 0.5})["lists"]
    assert own["ids"] == model().recommend(1, k=4, variety=ts.diversify(0.5)).ids.tolist()


def test_fields_of_attributes_and_payload(reader):
    (own,) = asked(reader, user=1, k=2, fields=["title", "poster", "none"])["lists"]
    assert own["fields"] == [{"title": f"Movie {n}", "poster": f"{n}.jpg", "none": None} for n in own["ids"]]
    (own,) = asked(reader, user=1, k=1, fields=["*"])["lists"]
    assert own["fields"][0].keys() == {"title", "genres", "year", "adult", "poster"}


def test_similar_and_explain(reader):
    found = asked(reader, "similar", item=5, k=3, fields=["title"])
    assert found["lists"][0]["ids"] == model().similar(5, k=3).ids.tolist()
    assert found["lists"][0]["item"] == 5
    assert (
        len(asked(reader, "similar", items=[5, 6], k=3, metric="inner product", where={"adult": False})["lists"]) == 2
    )
    best = asked(reader, user=3, k=1)["lists"][0]["ids"][0]
    told = asked(reader, "explain", user=3, item=best, boosts={"popularity": 0.01})
    reason = model().explain(3, item=best, boosts={"popularity": 0.01})
    assert told["score"] == pytest.approx(reason.score)
    assert told["parts"] == pytest.approx(reason.parts)
    assert told["sentences"] == list(reason.sentences)
    assert told["slots"]["partial_score"] == pytest.approx(reason.search.partial_score)
    assert [one["slot"] for one in told["slots"]["shared"]] == [one.slot for one in reason.search.shared]
    assert {one["item"] for one in told["near"]} <= {3, 4, 39}
    assert asked(reader, "explain", user=3, item=4)["left_out_by"] == ["seen"]


BAD = {
    "no JSON": (b"{", 400, "the body is not valid JSON"),
    "not UTF-8": (b'{"user": "\xff"}', 400, "not valid JSON"),
    "nobody": ({}, 422, "exactly one of user, users"),
    "two": ({"user": 1, "vector": [1.0]}, 422, "exactly one of"),
    "unknown field": ({"user": 1, "kk": 3}, 422, "unknown field `kk`"),
    "type": ({"user": 1, "k": "3"}, 422, "Expected `int | null`, got `str`"),
    "bool": ({"user": True}, 422, "got `bool`"),
    "k 0": ({"user": 1, "k": 0}, 422, ">= 1"),
    "no user": ({"user": 99}, 404, "there is no user with id 99."),
    "text user": ({"user": "ann"}, 422, "users holds strings, but the user ids are integers"),
    "k": (
        {"user": 1, "k": 1001},
        413,
        "k is 1,001, but the limit is 1,000; ask for less, or start the service with a larger --max-k.",
    ),
    "batch": ({"users": list(range(1001))}, 413, "--max-batch"),
    "filter": ({"user": 1, "exclude": list(range(10_001))}, 413, "--max-filter"),
    "values": ({"user": 1, "where": {"year": list(range(10_001))}}, 413, "--max-filter"),
    "column": ({"user": 1, "where": {"genre": "x"}}, 422, "did you mean 'genres'?"),
    "signal": ({"user": 1, "boosts": {"popular": 1}}, 422, "which is not a signal"),
    "width": ({"vector": [1.0]}, 422, "vector 0 has 1 numbers, but the model has 6 factors."),
    "large": ({"vector": [1e300] * 6}, 422, "too large for float32"),
    "liked twice": ({"liked": [1, 1]}, 422, "more than once"),
    "generation": ({"user": 1, "generation": "none"}, 404, "there is no generation 'none'."),
    "now": ({"user": 1, "boosts": {"fresh": 1}, "now": "soon"}, 422, "now is 'soon'"),
    "deep": (b'{"user": 1, "where": ' + b'{"not":' * 5000 + b"{}" + b"}" * 5000 + b"}", (400, 422), ""),
}


@pytest.mark.parametrize("case", list(BAD))
def test_bad_requests_are_refused_in_the_librarys_sentences(reader, case):
    body, status, sentence = BAD[case]
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answered = reader.post("/v1/recommend", content=content, headers={"content-type": "application/json"})
    if isinstance(status, tuple):
        assert answered.status_code in status
        status = answered.status_code
    assert sentence in problem(answered, status)
    assert asked(reader, user=1)["lists"]


def test_statuses_of_addresses_methods_and_types(reader):
    assert "nothing at this path" in problem(reader.get("/v1/none"), 404)
    assert "does not support the method" in problem(reader.get("/v1/recommend"), 405)
    assert "must be application/json" in problem(
        reader.post("/v1/recommend", content=b"{}", headers={"content-type": "text/plain"}), 415
    )
    assert problem(reader.post("/v1/explain", content=b"{}"), 415)
    assert "read-only; start it with --writable" in problem(reader.put("/v1/items/1", json={}), 403)
    assert "there is no item with id 99" in problem(reader.get("/v1/items/99"), 404)
    assert "limit is '0'" in problem(reader.get("/v1/items?limit=0"), 422)
    assert problem(reader.get("/nothing.js"), 404)


def test_a_time_limit_is_kept(reader):
    users = {
        "users": [n % 9 for n in range(1000)],
        "k": 60,
        "exact": True,
        "diversify": {"weight": 0.5, "candidates": 60},
    }
    answered = reader.post("/v1/recommend", json=users, headers={"tessella-timeout-ms": "1"})
    assert "the time limit passed" in problem(answered, 504)
    assert "must be a whole number above 0" in problem(
        reader.post("/v1/recommend", json={"user": 1}, headers={"tessella-timeout-ms": "soon"}), 422
    )


def test_hosts_and_origins_of_others_are_refused(reader):
    assert "only answers this machine, but the Host header is 'evil.example'" in problem(
        reader.get("/v1/stats", headers={"host": "evil.example"}), 400
    )
    assert "pages from other origins" in problem(
        reader.post("/v1/recommend", json={"user": 1}, headers={"origin": "http://evil.example"}), 403
    )
    own = {"origin": str(reader.base_url).rstrip("/")}
    assert reader.post("/v1/recommend", json={"user": 1}, headers=own).status_code == 200


def test_pages_are_safe_and_need_no_other_host(reader):
    for path in ("/", "/docs"):
        answered = reader.get(path)
        assert answered.status_code == 200
        assert "default-src 'self'" in answered.headers["content-security-policy"]
        assert answered.headers["x-content-type-options"] == "nosniff"
        assert "http://" not in answered.text.replace(str(reader.base_url), "")
        assert "https://" not in answered.text
    assert reader.get("/openapi.json").json() == json.loads(json.dumps(openapi.document()))


def test_health_metrics_and_traffic(client):
    assert client.get("/livez").json()["status"] == "ok"
    assert client.get("/readyz").json()["generation"] == "first"
    assert client.get("/healthz").json()["ready"]
    for _ in range(3):
        asked(client, user=1)
    client.post("/v1/recommend", json={"user": 99})
    text = client.get("/metrics").text
    assert 'tessella_requests_total{route="POST /v1/recommend",status="200"} 3.0' in text
    assert 'tessella_requests_total{route="POST /v1/recommend",status="404"} 1.0' in text
    assert 'tessella_request_seconds_count{route="POST /v1/recommend"} 4.0' in text
    assert "tessella_items 60.0" in text
    told = client.get("/v1/traffic").json()
    assert sum(point["requests"] for point in told["points"]) >= 8
    assert all(0 < point["p50_ms"] <= point["p99_ms"] for point in told["points"])


def test_stats_say_what_the_console_needs(reader):
    told = reader.get("/v1/stats").json()
    assert (told["n_items"], told["n_users"], told["n_factors"], told["n_seen"]) == (60, 9, 6, 7)
    columns = {one["name"]: one for one in told["attributes"]}
    assert columns["genres"]["top"] == [{"value": "comedy", "count": 40}, {"value": "drama", "count": 20}]
    assert (columns["year"]["min"], columns["year"]["max"], columns["year"]["n_missing"]) == (1990, 2009, 1)
    assert columns["adult"]["top"] == [{"value": True, "count": 9}, {"value": False, "count": 51}]
    assert len(columns["title"]["top"]) == 20
    assert columns["title"]["n_values"] == 60
    signals = {one["name"]: one for one in told["signals"]}
    assert (signals["popularity"]["min"], signals["popularity"]["max"]) == (0, 59)
    assert signals["fresh"]["half_life"] == pytest.approx(10 * 86400)
    assert told["generations"][0]["name"] == "first"
    scored = reader.get("/v1/scored?sample=5").json()
    assert scored["n_users"] == 5
    assert sum(scored["counts"]) == 5
    assert len(scored["edges"]) == len(scored["counts"]) + 1


# Changes


def test_items_come_change_and_go(client):
    known = {"title": "New", "genres": ["drama"]}
    body = {
        "factors": (50 * USERS[4]).tolist(),
        "attributes": known,
        "signals": {"popularity": 1, "fresh": "1970-02-01"},
        "payload": {"poster": "n.jpg"},
    }
    told = client.put("/v1/items/1000", json=body).json()
    assert (told["added"], told["updated"]) == (1, 0)
    found = asked(client, user=4, k=1, fields=["title", "poster"])
    assert found["lists"][0]["ids"] == [1000]
    assert found["lists"][0]["fields"] == [{"title": "New", "poster": "n.jpg"}]
    assert found["version"] == told["version"]
    told = client.put(
        "/v1/items", json={"items": [{"id": 1000, "attributes": {"year": 2001}}, {"id": 7, "factors": [0.0] * 6}]}
    ).json()
    assert (told["added"], told["updated"]) == (0, 2)
    item = client.get("/v1/items/1000").json()
    assert item["attributes"] == known | {"year": 2001}
    assert item["payload"] == {"poster": "n.jpg"}
    assert client.put("/v1/items/1001", json=body | {"factors": None, "like": [1, 2]}).json()["added"] == 1
    np.testing.assert_allclose(client.get("/v1/items/1001").json()["factors"], ITEMS[1:3].mean(axis=0), rtol=1e-5)
    assert client.put("/v1/items/1002", json=body | {"factors": None, "liked_by": [1, 2]}).json()["added"] == 1
    assert client.delete("/v1/items/1000").json()["removed"] == 1
    assert client.request("DELETE", "/v1/items", json={"ids": ["1001", 1002]}).json()["removed"] == 2
    assert asked(client, user=4, k=1)["lists"][0]["ids"] != [1000]
    problem(client.get("/v1/items/1000"), 404)
    listed = client.get("/v1/items?query=movie 5&limit=3").json()
    assert [one["id"] for one in listed["items"]] == [5, 50, 51]
    assert client.get(f"/v1/items?query=movie 5&after={listed['next']}").json()["items"][0]["id"] == 52
    assert [one["id"] for one in client.get("/v1/items?ids=3,1,99").json()["items"]] == [3, 1]


@pytest.mark.parametrize(("body", "status", "sentence"), [
    ({"factors": [1.0]}, 422, "factors of item 7 have shape (1,), but the model has 6 factors."),
    ({"attributes": {"yeer": 1}}, 422, "did you mean 'year'?"),
    ({"signals": {"popularity": "many"}}, 422, "must be a number"),
    ({"factors": [1e39] * 6}, 422, "factors"),
    ({"factors": [0.0] * 6, "like": [1]}, 422, "more than one of factors, like and liked_by"),
    ({"generation": "none"}, 404, "there is no generation"),
    ({"like": [12345]}, 404, "12345"),
    ({"what": 1}, 422, "unknown field"),
])  # fmt: skip
def test_bad_changes_change_nothing(client, body, status, sentence):
    before, version = client.get("/v1/items/7").json(), client.store.version
    assert sentence in problem(client.put("/v1/items/7", json=body), status)
    assert client.store.version == version
    assert client.get("/v1/items/7").json() == before
    assert "has no signal" in problem(client.put("/v1/items/77", json={"factors": [0.0] * 6}), 422)


def test_users_come_change_and_go(client):
    told = client.put("/v1/users/77", json={"factors": USERS[4].tolist(), "seen": [1, 2]}).json()
    assert told["added"] == 1
    assert not {1, 2} & set(asked(client, user=77, k=58)["lists"][0]["ids"])
    user = client.get("/v1/users/77").json()
    assert user["seen"] == [1, 2]
    assert user["titles"] == ["Movie 1", "Movie 2"]
    assert (
        client.put("/v1/users", json={"users": [{"id": 77, "seen": []}, {"id": 78, "liked": [3, 4]}]}).json()["updated"]
        == 1
    )
    assert 1 in asked(client, user=77, k=60)["lists"][0]["ids"]
    assert client.get("/v1/users?query=7").json()["users"] == [
        {"id": 7, "n_seen": 0},
        {"id": 77, "n_seen": 0},
        {"id": 78, "n_seen": 0},
    ]
    assert client.delete("/v1/users/77").json()["removed"] == 1
    assert "there is no user with id 77" in problem(client.post("/v1/recommend", json={"user": 77}), 404)
    assert "there is no user with id 77" in problem(client.delete("/v1/users/77"), 404)
    assert client.put("/v1/users/5", json={"seen": [1]}).json()["updated"] == 1


def test_generations_are_made_filled_published_compared_and_gone_back_to(client):
    assert client.put("/v1/generations/next", json={"like": "first"}).status_code == 200
    assert "generation 'next' already exists" in problem(client.put("/v1/generations/next", json={"n_factors": 3}), 409)
    assert "holds no items yet" in problem(client.post("/v1/generations/next/publish"), 409)
    items = [
        {
            "id": n,
            "factors": (-ITEMS[n]).tolist(),
            "attributes": {"title": f"New {n}"},
            "signals": {"popularity": 0, "fresh": 0},
        }
        for n in range(60)
    ]
    assert client.put("/v1/items", json={"items": items, "generation": "next"}).json()["added"] == 60
    users = [{"id": n, "factors": USERS[n].tolist()} for n in range(9)]
    assert client.put("/v1/users", json={"users": users, "generation": "next"}).json()["added"] == 9
    old = asked(client, user=1)
    other = asked(client, user=1, generation="next", fields=["title"])
    assert (old["generation"], other["generation"]) == ("first", "next")
    assert other["lists"][0]["fields"][0]["title"].startswith("New")
    assert client.post("/v1/generations/next/publish").json()["live"] == "next"
    assert asked(client, user=1)["generation"] == "next"
    assert asked(client, user=1, generation="first")["lists"] == old["lists"]
    cursor = asked(client, user=1, generation="first", pages=True)["next"]
    assert "is a cursor of model" in problem(client.post("/v1/recommend", json={"user": 1, "after": cursor}), 422)
    told = client.get("/v1/generations").json()
    assert told["live"] == "next"
    assert {one["name"]: one["live"] for one in told["generations"]} == {"first": False, "next": True}
    assert client.post("/v1/rollback").json()["live"] == "first"
    assert "there is no earlier generation to roll back to" in problem(client.post("/v1/rollback"), 409)
    assert "is live" in problem(client.delete("/v1/generations/first"), 409)
    assert client.delete("/v1/generations/next").json()["live"] == "first"
    assert "there is no generation 'next'" in problem(client.post("/v1/generations/next/publish"), 404)


def test_an_empty_store_can_be_served_and_filled(tmp_path):
    with running(tmp_path / "empty.db") as client:
        assert client.get("/readyz").status_code == 503
        assert client.get("/v1/stats").json()["generation"] is None
        assert "holds no model yet" in problem(client.post("/v1/recommend", json={"user": 1}), 409)
        client.put("/v1/generations/a", json={"n_factors": 2, "attributes": {"title": "category"}})
        body = {"items": [{"id": "tea", "factors": [1, 0], "attributes": {"title": "Tea"}}], "generation": "a"}
        assert client.put("/v1/items", json=body).status_code == 200
        assert client.post("/v1/generations/a/publish").json()["live"] == "a"
        assert asked(client, vector=[1, 1])["lists"][0]["ids"] == ["tea"]
        assert client.get("/readyz").status_code == 200


def test_whole_numbers_beyond_2_to_the_53_are_texts(tmp_path):
    big = [2**53 + 1, 2**62, 5]
    path = fill(tmp_path / "big.db", seen=None, attributes=None, signals=None, payload=None)
    with Store.open(path) as store:
        store.publish(np.eye(3), [[3.0, 2.0, 1.0]], item_ids=big, user_ids=[2**60], name="big", seen=[[]])
    with running(path) as client:
        text = client.post("/v1/recommend", json={"user": str(2**60), "k": 3}).text
        assert f'"ids":["{2**53 + 1}","{2**62}",5]' in text
        assert f'"user":"{2**60}"' in text
        for asked_for in (str(2**53 + 1), 2**53 + 1):
            (own,) = asked(client, user=2**60, exclude=[asked_for])["lists"]
            assert own["ids"] == [str(2**62), 5]
        assert client.get(f"/v1/items/{2**62}").json()["id"] == str(2**62)
        assert client.delete(f"/v1/items/{2**62}").json()["removed"] == 1


def test_text_ids_with_any_character(tmp_path):
    ids = ["a/b", "ü ", "17", "x?y#z"]
    with Store.open(tmp_path / "t.db") as store:
        store.publish(np.eye(4), [[4.0, 3.0, 2.0, 1.0]], item_ids=ids, user_ids=["ann"], name="t")
    with running(tmp_path / "t.db") as client:
        assert asked(client, user="ann", k=4)["lists"][0]["ids"] == ids
        from urllib.parse import quote  # noqa: PLC0415

        for item in ids:
            assert client.get(f"/v1/items/{quote(item, safe='')}").json()["id"] == item
        (own,) = asked(client, user="ann", k=4, exclude=["17"], allow=[])["lists"]
        assert own["ids"] == []


def test_arrow_both_ways(client):
    arrow = pytest.importorskip("pyarrow")

    def stream(columns, **metadata):
        table = arrow.table(columns).replace_schema_metadata(metadata)
        sink = arrow.BufferOutputStream()
        with arrow.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return sink.getvalue().to_pybytes()

    def post(content):
        answered = client.post("/v1/recommend", content=content, headers={"content-type": ARROW, "accept": ARROW})
        assert answered.status_code == 200, answered.text
        assert answered.headers["content-type"] == ARROW
        return arrow.ipc.open_stream(answered.content).read_all()

    table = post(stream({"user": list(range(9))}, request=json.dumps({"k": 3})))
    assert table.column("ids").to_pylist() == model().recommend(list(range(9)), k=3).ids.tolist()
    assert table.column("user").to_pylist() == list(range(9))
    assert table.schema.metadata[b"generation"] == b"first"
    table = post(stream({"vector": USERS.tolist()}, request=json.dumps({"k": 3})))
    assert table.column("ids").to_pylist() == model().recommend(USERS, k=3).ids.tolist()
    assert "not an Arrow stream" in problem(
        client.post("/v1/recommend", content=b"x", headers={"content-type": ARROW}), 400
    )
    columns = {"id": [1, 2], "factors": ITEMS[:2].tolist(), "payload": ['{"a": 1}', None]}
    put = client.put("/v1/items", content=stream(columns), headers={"content-type": ARROW})
    assert put.json()["updated"] == 2, put.text
    assert client.get("/v1/items/1").json()["payload"] == {"a": 1}
    assert client.get("/v1/items/2").json()["payload"] == {"poster": "2.jpg"}
    wrong = client.put("/v1/items", content=stream({"item": [1]}), headers={"content-type": ARROW})
    assert "has a column 'item'" in problem(wrong, 422)


# Limits, tokens, load


def test_limits_hold_where_fields_are_left_out(tmp_path):
    path = fill(tmp_path / "c.db")
    with running(path, max_k=4, max_batch=2, max_filter=3, max_body=2_000) as client:
        assert len(asked(client, user=1)["lists"][0]["ids"]) == 4
        assert "--max-k" in problem(client.post("/v1/recommend", json={"user": 1, "k": 5}), 413)
        assert "--max-batch" in problem(client.post("/v1/recommend", json={"users": [1, 2, 3]}), 413)
        assert "--max-filter" in problem(
            client.post("/v1/recommend", json={"user": 1, "exclude": [1, 2], "allow": [3, 4]}), 413
        )
        assert "--max-body" in problem(
            client.post("/v1/recommend", content=b" " * 3_000, headers={"content-type": "application/json"}), 413
        )

        def chunks():
            for _ in range(30):
                yield b" " * 100

        assert "--max-body" in problem(
            client.post("/v1/recommend", content=chunks(), headers={"content-type": "application/json"}), 413
        )
        assert "--max-body" in problem(
            client.put("/v1/items", content=chunks(), headers={"content-type": "application/json"}), 413
        )
        assert asked(client, user=1)["lists"]


READ, WRITE = "r" * 20, "w" * 20


def test_tokens(tmp_path):
    path = fill(tmp_path / "c.db")
    with running(path, tokens=Tokens(READ, WRITE), access_log=str(tmp_path / "log")) as client:
        bearer = {"authorization": f"Bearer {READ}"}
        writes = {"authorization": f"Bearer {WRITE}"}
        assert "the bearer token is missing or wrong" in problem(client.post("/v1/recommend", json={"user": 1}), 401)
        refused = client.post("/v1/recommend", json={"user": 1}, headers={"authorization": "Bearer wrong"})
        assert refused.headers["www-authenticate"] == "Bearer"
        assert problem(refused, 401)
        assert problem(client.get("/metrics"), 401)
        for open_path in ("/", "/docs", "/openapi.json", "/livez", "/readyz"):
            assert client.get(open_path).status_code == 200
        assert client.post("/v1/recommend", json={"user": 1}, headers=bearer).status_code == 200
        assert client.post("/v1/recommend", json={"user": 1}, headers=writes).status_code == 200
        assert "read-only; changes need the write token" in problem(client.delete("/v1/items/1", headers=bearer), 403)
        assert "read-only; changes need the write token" in problem(client.post("/v1/rollback", headers=bearer), 403)
        assert client.delete("/v1/items/1", headers=writes).status_code == 200
    log = (tmp_path / "log").read_text()
    lines = [json.loads(line) for line in log.splitlines()]
    assert {"time", "method", "path", "status", "ms", "bytes", "client"} == set(lines[0])
    assert [line["status"] for line in lines[:2]] == [401, 401]
    assert READ not in log
    assert WRITE not in log
    assert READ not in repr(Settings(tokens=Tokens(READ, WRITE)))


def test_settings_that_are_not_safe_are_refused(tmp_path, monkeypatch):
    with pytest.raises(
        ValueError, match=r"other machines can reach 0\.0\.0\.0, so the service needs a read token and a write token"
    ):
        Settings(host="0.0.0.0")  # noqa: S104
    with pytest.raises(ValueError, match="other machines can reach"):
        Settings(host="example.org", tokens=Tokens(READ))
    assert Settings(host="0.0.0.0", tokens=Tokens(READ, WRITE))  # noqa: S104
    file = tmp_path / "tokens"
    file.write_text(f"# tokens\nread = {READ}\nwrite={WRITE}\n")
    file.chmod(0o600)
    assert Tokens.of(file) == Tokens(READ, WRITE)
    file.write_text("read = short\n")
    with pytest.raises(ValueError, match="the read token has 5 characters, but must have at least 16"):
        Tokens.of(file)
    file.write_text("oops\n")
    with pytest.raises(ValueError, match="has no token in line 1"):
        Tokens.of(file)
    monkeypatch.setenv("TESSELLA_READ_TOKEN", READ)
    assert Tokens.of(None).read == READ
    file.write_text(f"write={WRITE}\n")
    file.chmod(0o644)
    with pytest.warns(UserWarning, match="is readable by users other than its owner"):
        Tokens.of(file)


def test_too_many_batches_are_sent_away_and_service_goes_on(tmp_path):
    path = fill(tmp_path / "c.db")
    with running(path, max_waiting=1) as client:
        body = {"users": [n % 9 for n in range(1000)], "k": 50, "diversify": {"weight": 0.5, "candidates": 60}}
        statuses = []

        def ask():
            answered = httpx.post(f"{client.base_url}/v1/recommend", json=body, timeout=60)
            statuses.append((answered.status_code, answered.headers.get("retry-after")))

        threads = [threading.Thread(target=ask) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {status for status, _ in statuses} == {200, 429}
        assert all(retry == "1" for status, retry in statuses if status == 429)
        assert asked(client, user=1)["lists"]


def test_what_was_accepted_is_finished_before_the_end(tmp_path):
    path = fill(tmp_path / "c.db")
    answers = []
    with running(path) as client:
        body = {"users": [n % 9 for n in range(1000)], "k": 50, "diversify": {"weight": 0.5, "candidates": 60}}
        thread = threading.Thread(
            target=lambda: answers.append(httpx.post(f"{client.base_url}/v1/recommend", json=body, timeout=60))
        )
        thread.start()
        while not client.service._threads._busy:
            time.sleep(0.001)
    thread.join()
    assert answers[0].status_code == 200
    assert len(answers[0].json()["lists"]) == 1000


def test_many_writers_at_once_each_get_their_own_answer(client):
    outcomes = {}

    def put(number):
        body = {"factors": [float(number)] * (6 if number % 4 else 5)}
        answered = httpx.put(f"{client.base_url}/v1/items/{number}", json=body, timeout=60)
        while answered.status_code in (429, 503):  # a busy machine: the answer says to come back
            time.sleep(float(answered.headers["retry-after"]))
            answered = httpx.put(f"{client.base_url}/v1/items/{number}", json=body, timeout=60)
        outcomes[number] = answered

    threads = [threading.Thread(target=put, args=(number,)) for number in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, answered in outcomes.items():
        assert answered.status_code == (200 if number % 4 else 422), answered.text
        factors = client.get(f"/v1/items/{number}").json()["factors"]
        np.testing.assert_allclose(factors, [number] * 6 if number % 4 else ITEMS[number], rtol=1e-6)
    versions = [answered.json()["version"] for number, answered in outcomes.items() if number % 4]
    assert len(set(versions)) == 30


def test_a_reading_service_follows_another_writer(tmp_path):
    path = fill(tmp_path / "c.db")
    with running(path, writable=False) as client, Store.open(path) as store:
        store.update_items([100 * USERS[1]], [7])
        until = time.monotonic() + 30
        while asked(client, user=1, k=1)["lists"][0]["ids"] != [7] and time.monotonic() < until:
            time.sleep(0.01)
        assert asked(client, user=1, k=1)["version"] == store.version


def test_answers_never_mix_generations_under_load(tmp_path):  # noqa: C901
    """Scores of a model and of the same one rotated are equal; a mixture's are not."""
    expected = ITEMS @ USERS.T
    path = tmp_path / "c.db"

    def rotated(seed):
        turn = np.linalg.qr(np.random.default_rng(seed).normal(size=(6, 6)))[0]
        return ITEMS @ turn, USERS @ turn

    with Store.open(path) as store:
        store.publish(ITEMS, USERS, name="g0")
        for number in range(1, 4):
            store.load(f"g{number}", *rotated(number))
    with running(path, keep=9) as client:
        stop, wrong, names = threading.Event(), [], set()

        def ask():
            with httpx.Client(base_url=client.base_url, timeout=60) as own:
                while not stop.is_set():
                    for body in ({"user": 2, "k": 5, "exact": True}, {"users": [2, 2, 2], "k": 5, "exact": True}):
                        found = own.post("/v1/recommend", json=body).json()
                        names.add(found["generation"])
                        for one in found["lists"]:
                            if not np.allclose(one["scores"], expected[one["ids"], 2], atol=1e-4):
                                wrong.append(one)  # noqa: PERF401

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        for turn in range(20):
            assert client.post(f"/v1/generations/g{turn % 4}/publish").status_code == 200
            if turn % 5 == 4:
                assert client.post("/v1/rollback").status_code == 200
            time.sleep(0.02)
        stop.set()
        for thread in threads:
            thread.join()
        assert not wrong
        assert len(names) > 1


def test_questions_that_arrive_together_are_answered_each_for_itself(reader):
    """Some of them are for users who are not there, or are of another kind."""
    expected = {user: asked(reader, user=user, k=4, exact=True)["lists"][0]["ids"] for user in range(9)}
    wrong = []

    def ask(number):
        with httpx.Client(base_url=reader.base_url, timeout=60) as own:
            for turn in range(30):
                user = (number + turn) % 12
                answered = own.post("/v1/recommend", json={"user": "ann" if user == 11 else user, "k": 4})
                if user == 11:
                    good = answered.status_code == 422 and "the user ids are integers" in answered.text
                elif user >= 9:
                    good = answered.status_code == 404 and f"no user with id {user}." in answered.text
                else:
                    (one,) = answered.json()["lists"]
                    good = one["user"] == user and one["ids"] == expected[user]
                if not good:
                    wrong.append((user, answered.text))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize(
    ("lag", "in_flight", "status"), [(1.0, 3, 200), (1.0, 200, 429), (0.0, 200, 200), (0.0, 5_000, 429)]
)
def test_requests_are_refused_only_if_they_pile_up(tmp_path, lag, in_flight, status):
    fill(tmp_path / "c.db")
    with Store.open(tmp_path / "c.db", read_only=True) as store:
        service = Service(store, Settings(), Counters(tmp_path / "counters", NAMES))
        service._lag, service._active = lag, in_flight
        transport = httpx.ASGITransport(app=service)

        async def ask():
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
                return await client.post("/v1/recommend", json={"user": 1})

        assert asyncio.run(ask()).status_code == status
