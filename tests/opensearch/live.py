"""What holds in a real cluster of three nodes; run by `make test-opensearch`, see benchmarks/opensearch_cluster.py."""

import base64
import contextlib
import doctest
import itertools
import logging
import random
import re
import threading
import time
from datetime import date, datetime, timedelta
from pathlib import Path

import numpy as np
import opensearch_cluster
import pytest
import scipy.sparse
from conftest import DATA
from opensearchpy import OpenSearch

import tessella as ts
from tessella.opensearch import ClusterError, OpenSearchIndex, WriteError, reindexing
from tessella.recommend.attributes import Attributes
from tessella.recommend.conditions import Condition
from tessella.search.recall import recall

logging.getLogger("opensearch").setLevel(logging.CRITICAL)  # nodes are killed here, and it would tell at length

ROOT = Path(__file__).parents[2]
GOWALLA = DATA / "factors" / "gowalla-als-alpha20-k64"
SCHEMAS = {
    "default": ts.Schema(ts.Ternary(), ts.OneHot(), threshold=2.5, rotation="principal"),
    "the paper's slots": ts.Schema(ts.Ternary(), ts.CounterTree(), threshold=1.3),
}
PLAIN = ts.Schema(ts.Ternary(), ts.OneHot())
AT_ONCE = {"index.unassigned.node_left.delayed_timeout": "0s"}  # a lost copy is made anew without a minute's grace


@pytest.fixture(scope="module")
def running():
    with opensearch_cluster.any_cluster() as (urls, cluster):
        yield urls, cluster


@pytest.fixture(scope="module")
def client(running):
    urls, _ = running
    with contextlib.closing(OpenSearch(urls, timeout=30, max_retries=5, pool_maxsize=8)) as client:
        yield client


@pytest.fixture
def make(client, request):
    """Makes indexes that go with the test."""
    made, name = [], re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:60].strip("-")

    def make_one(item_factors, schema=None, *, shards=3, replicas=1, timeout=60.0, scoring="auto", **options):
        index = OpenSearchIndex(client, f"test-{name}-{len(made)}", schema, timeout=timeout, scoring=scoring)
        with contextlib.suppress(ValueError):
            index.drop()
        index.create(shards, replicas, item_factors=item_factors, **options)
        made.append(index)
        return index

    yield make_one
    for index in made:
        with contextlib.suppress(ValueError):
            OpenSearchIndex(client, index.name).drop()


@pytest.fixture
def movies(client):
    """The index that examples make, which must not be somebody's own."""
    if client.indices.exists(index="movies"):
        pytest.skip("there is an index 'movies' in the cluster, which is not ours to delete")
    yield
    with contextlib.suppress(ValueError):
        OpenSearchIndex(client, "movies").drop()


def seen_by(client, index, ids):
    """The factors of items by id, read past all that is under test; None where there is none."""
    found = client.mget(body={"ids": [str(item) for item in ids]}, index=index.name)["docs"]
    return [
        np.frombuffer(base64.b64decode(one["_source"]["tessella"]["factor"]), "<f4") if one["found"] else None
        for one in found
    ]


def brute_force(items, queries, k):
    return ts.exact_search(items, queries, k)


def assert_same(found, true):
    """Equal, but for the order of equal scores."""
    np.testing.assert_array_equal(found.scores, true.scores)
    for ours, theirs in zip(np.atleast_2d(found.ids), np.atleast_2d(true.ids), strict=True):
        assert set(ours.tolist()) == set(theirs.tolist())


# Answers


@pytest.mark.skipif(not GOWALLA.exists(), reason=f"there are no factors in {GOWALLA}")
@pytest.mark.parametrize("schema", SCHEMAS)
def test_recovery_is_that_of_slots_in_one_process_and_scores_are_brute_forces(make, schema):
    items, users = (np.load(GOWALLA / f"{part}.npy").astype(np.float32) for part in ("items", "users"))
    queries = users[np.random.default_rng(0).permutation(len(users))[:1000]]
    index = make(items, SCHEMAS[schema])
    assert index.add(items, np.arange(len(items)), refresh=True).n_written == len(items)
    here = ts.Index.build(items, method="exact", schema=SCHEMAS[schema])
    true = here.search(queries, 10, exact=True)
    for budget in (100, 400):
        found, slots = (
            index.search(queries, 10, budget=budget),
            here.search(queries, 10, method=ts.Slots(budget)),
        )
        recovered = [recall(one.scores, true.scores).mean() for one in (found, slots)]
        assert abs(recovered[0] - recovered[1]) < 0.01
        assert recovered[0] > 0.95
        products = np.einsum("qd,qkd->qk", queries.astype(np.float64), items[found.ids].astype(np.float64))
        np.testing.assert_allclose(found.scores, products, rtol=1e-5, atol=1e-5)
        same = found.ids == true.ids
        assert same.mean() > 0.8
        np.testing.assert_array_equal(found.scores[same], true.scores[same])  # to the bit
        assert (found.n_scored <= budget + 3).all()
    assert_same(index.search(queries[:20], 10, exact=True), brute_force(items, queries[:20], 10))


@pytest.mark.parametrize("scoring", ["shards", "client"])
def test_short_answers_are_scored_exactly(make, rng, scoring):
    items = rng.standard_normal((40, 8)).astype(np.float32)
    index = make(items, ts.Schema(ts.Ternary(), ts.OneHot(), threshold=5.0), scoring=scoring)  # nearly no slots
    index.add(items, np.arange(40), refresh=True)
    queries = rng.standard_normal((5, 8)).astype(np.float32)
    found = index.search(queries, 30)
    assert_same(found, brute_force(items, queries, 30))
    assert (found.n_scored == 40).all()
    assert not found.certified.any()
    beyond = index.search(queries, 50)
    assert (beyond.ids[:, 40:] == -1).all()
    assert (beyond.scores[:, 40:] == -np.inf).all()
    assert_same(index.search(queries[0], 7), brute_force(items, queries[0], 7))


@pytest.mark.parametrize("scoring", ["shards", "client"])
def test_scores_are_right_for_items_and_queries_of_any_length(make, rng, scoring):
    lengths = np.float32(10.0) ** rng.integers(-12, 12, (60, 1)).astype(np.float32)
    items = rng.standard_normal((60, 4)).astype(np.float32) * lengths
    index = make(items, PLAIN, scoring=scoring)
    index.add(items, np.arange(60), refresh=True)
    for length in (1e-20, 1e-3, 1.0, 1e15):
        query = (rng.standard_normal(4) * length).astype(np.float32)
        assert_same(index.search(query, 60, exact=True), brute_force(items, query, 60))
        products = items.astype(np.float64) @ query.astype(np.float64)
        found = index.search(query, 5)
        assert found.scores[0] == pytest.approx(products.max(), rel=1e-5)


def test_a_query_of_zeros_gets_any_items(make):
    index = make(np.eye(3), PLAIN)
    index.add(np.eye(3), [5, 6, 7], refresh=True)
    found = index.search([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]], 2)
    assert set(found.ids[0].tolist()) < {5, 6, 7}
    assert found.scores[0].tolist() == [0.0, 0.0]
    assert found.ids[1, 0] == 5
    assert index.search(np.zeros((0, 3)), 2).ids.shape == (0, 2)


def test_scoring_by_clients_finds_what_scoring_on_shards_finds(make, rng, client):
    items, queries = (rng.standard_normal((n, 16)).astype(np.float32) for n in (3000, 20))
    index = make(items)
    index.add(items, np.arange(3000), refresh=True)
    other = OpenSearchIndex(client, index.name, scoring="client")
    for options in ({}, {"budget": 900, "max_slots": 16}, {"exclude": list(range(0, 3000, 2))}, {"exact": True}):
        ours, theirs = index.search(queries, 5, **options), other.search(queries, 5, **options)
        recalls = [recall(one.scores, index.search(queries, 5, exact=True).scores).mean() for one in (ours, theirs)]
        assert abs(recalls[0] - recalls[1]) < 0.1 or "exclude" in options
        if "exact" in options:
            assert_same(ours, theirs)


# Changes


def test_changes_are_seen_after_a_refresh(make, client):
    index = make(np.eye(4), PLAIN, settings={"index.refresh_interval": "-1"})
    index.add(np.eye(4), [10, 11, 12, 13])
    assert index.search([1.0, 0, 0, 0], 1).ids.tolist() == [-1]
    index.refresh()
    assert index.search([1.0, 0, 0, 0], 1).ids.tolist() == [10]
    index.add([[9.0, 0, 0, 0], [0, 5.0, 0, 0]], [11, 20], refresh=True)  # 11 is replaced, 20 is new
    assert index.search([1.0, 0, 0, 0], 2).ids.tolist() == [11, 10]
    assert index.search([0, 1.0, 0, 0], 1).ids.tolist() == [20]
    assert index.update([[0, 0, 7.0, 0]], [11], refresh=True).n_written == 1
    assert index.search([0, 0, 1.0, 0], 1).ids.tolist() == [11]
    assert index.search([1.0, 0, 0, 0], 1).ids.tolist() == [10]
    report = index.remove([11, 99], refresh=True)
    assert (report.n_written, report.missing) == (1, (99,))
    assert index.search([0, 0, 1.0, 0], 1).ids.tolist() == [12]
    with pytest.raises(
        WriteError,
        match=re.escape(
            "1 of 2 items were not written, among them 99: it is not in the index; it is safe to repeat the call."
        ),
    ) as raised:
        index.update(np.eye(4)[:2], [10, 99])
    assert raised.value.report.n_written == 1
    assert raised.value.failed == {99: "it is not in the index"}
    assert index.stats().n_items == 4
    assert index.add(np.zeros((0, 4)), []).n_written == 0
    assert seen_by(client, index, [11]) == [None]


def test_factors_and_attributes_change_apart(make):
    movies = {"genre": [["a"], [], None], "year": [1990, None, 2000], "seen": [date(2000, 1, 1), None, None]}
    index = make(np.eye(3), PLAIN, attributes=movies, text_ids=True)
    index.add(np.eye(3), ["x", "y", "z"], attributes=movies, refresh=True)
    every = [1.0, 2.0, 3.0]
    assert index.search(every, 3).ids.tolist() == ["z", "y", "x"]
    assert index.search(every, 3, where={"genre": {"missing": False}}).ids.tolist() == ["y", "x", None]
    index.update([[9.0, 9, 9]], ["x"], refresh=True)  # attributes stay
    assert index.search(every, 3, where={"genre": "a"}).ids.tolist() == ["x", None, None]
    assert index.search(every, 1, where={"seen": "2000"}).ids.tolist() == ["x"]
    index.update(
        None, ["x"], attributes={"genre": [None], "year": [1991], "seen": [None]}, refresh=True
    )  # the factor stays
    assert index.search(every, 1, where={"year": 1991}).scores.tolist() == [54.0]
    assert index.search(every, 3, where={"genre": {"missing": True}}).ids.tolist() == ["x", "z", None]
    assert index.search(every, 1, where={"seen": "2000"}).ids.tolist() == [None]
    with pytest.raises(ValueError, match="attributes are missing, but items in the index have genre, year, seen"):
        index.add(np.eye(3), ["x", "y", "z"])


def test_two_who_change_an_item_at_once_lose_neither_change(make, client):
    index = make(np.eye(3), PLAIN, attributes={"year": [0]}, text_ids=True)
    index.add(np.eye(3), ["a", "b", "c"], attributes={"year": [0, 0, 0]})
    other = OpenSearchIndex(client, index.name)

    def years():
        for year in range(1, 31):
            other.update(None, ["a"], attributes={"year": [year]})

    thread = threading.Thread(target=years)
    thread.start()
    for size in range(1, 31):
        index.update([[size, 0.0, 0.0]], ["a"])
    thread.join()
    index.refresh()
    found = index.search([1.0, 0, 0], 1, where={"year": 30})
    assert (found.ids.tolist(), found.scores.tolist()) == (["a"], [30.0])


def test_writes_wait_while_they_are_blocked_and_then_say_so(make, client):
    index = make(np.eye(3), PLAIN)
    place = index.stats().index
    client.indices.put_settings(index=place, body={"index.blocks.write": True})
    patient, hasty = OpenSearchIndex(client, index.name), OpenSearchIndex(client, index.name, timeout=0.2)
    with pytest.raises(WriteError, match=r"3 of 3 items were not written, among them 1: index \[.*\] blocked by"):
        hasty.add(np.eye(3), [1, 2, 3])
    unblock = threading.Timer(0.5, lambda: client.indices.put_settings(index=place, body={"index.blocks.write": None}))
    unblock.start()
    report = patient.add(np.eye(3), [1, 2, 3], refresh=True)
    unblock.join()
    assert report.n_written == 3
    assert report.n_repeated >= 3
    assert index.stats().n_items == 3


@pytest.mark.parametrize("block", ["write", "read_only"])
def test_a_blocked_index_is_not_reindexed_and_stays_as_it_was(make, client, block):
    index = make(np.eye(3), PLAIN)
    index.add(np.eye(3), [1, 2, 3], refresh=True)
    before = index.stats()
    client.indices.put_settings(index=before.index, body={f"index.blocks.{block}": True})
    try:
        with pytest.raises(ValueError, match=rf"^the index '.*' has the setting index\.blocks\.{block}; take it back"):
            index.reindex()
        assert client.indices.get_settings(index=before.index)[before.index]["settings"]["index"]["blocks"][block]
        assert (index.stats().index, index.stats().n_items, index.stats().reindexing) == (before.index, 3, False)
    finally:
        client.indices.put_settings(index=before.index, body={f"index.blocks.{block}": None})
    index.reindex()
    assert index.search([1.0, 0, 0], 1).ids.tolist() == [1]


def test_a_closed_index_is_named_in_one_sentence_and_loses_nothing(make, client):
    index = OpenSearchIndex(client, make(np.eye(3), PLAIN).name, timeout=0.2)
    index.add(np.eye(3), [1, 2, 3], refresh=True)
    place = index.stats().index
    client.indices.close(index=place)
    for call in (lambda: index.search([1.0, 0, 0]), index.stats, index.refresh, index.reindex):
        with pytest.raises(
            ClusterError, match=r"^the index '.*' is closed; open it in OpenSearch, and repeat the call\.$"
        ):
            call()
    for call in (
        lambda: index.add(np.eye(3), [1, 2, 3]),
        lambda: index.remove([1]),
        lambda: index.update(np.eye(1, 3), [2]),
    ):
        with pytest.raises(WriteError, match=r"among them \d: the index is closed; it is safe to repeat"):
            call()
    client.indices.open(index=place)
    patient = OpenSearchIndex(client, index.name)
    assert sorted(patient.search(np.ones(3), 5).ids.tolist()) == [-1, -1, 1, 2, 3]


def test_what_opensearch_refuses_is_said_in_one_sentence(make, client):
    index = OpenSearchIndex(client, make(np.eye(3), PLAIN).name, timeout=0.2)
    other = OpenSearchIndex(client, f"{index.name}-other")
    with pytest.raises(
        ClusterError, match=r"^OpenSearch refused a request for the index '.*': unknown setting \[index\.x\]"
    ):
        other.create(item_factors=np.eye(3), settings={"index.x": 1})
    place = index.stats().index
    client.indices.put_settings(index=place, body={"index.blocks.read": True})
    with pytest.raises(
        ClusterError, match=r"^OpenSearch refused a request for the index '.*': index \[.*\] blocked by"
    ):
        index.search([1.0, 0, 0])
    client.indices.put_settings(index=place, body={"index.blocks.read": None})
    client.indices.create(index="test-second", body={"aliases": {index.name: {}}})
    try:
        with pytest.raises(ValueError, match=r"^'.*' is an alias of 2 indexes, but must lead to one\.$"):
            OpenSearchIndex(client, index.name).search([1.0, 0, 0])
    finally:
        client.indices.delete(index="test-second")


# Filters


def test_filters_are_those_of_an_index_in_one_process(make, rng):
    items, queries = (rng.standard_normal((n, 8)).astype(np.float32) for n in (900, 6))
    index = make(items, PLAIN)
    index.add(items, np.arange(900), refresh=True)
    here = ts.Index.build(items, method="exact", schema=PLAIN)
    seen = scipy.sparse.random(6, 900, 0.3, "csr", rng=np.random.default_rng(1))
    mask = rng.random(900) < 0.5
    columns = np.arange(900)
    for given in (
        [3, 5, 8],
        list(range(700)),
        rng.integers(0, 900, (6, 40)),
        [[1], [], [2, 3], [4], [5], [6]],
        {7, 8},
        (seen, columns),
        (mask, columns),
        [],
    ):
        for name in ("exclude", "allow"):
            found = index.search(queries, 10, exact=True, **{name: given})
            assert_same(found, here.search(queries, 10, exact=True, **{name: given}))
            by_slots = index.search(queries, 10, budget=400, **{name: given})
            found_by_slots = recall(by_slots.scores, found.scores).mean()
            assert found_by_slots > 0.9
    few = index.search(queries, 10, allow=[1, 2, 3], exclude=[2])
    assert [set(row) for row in few.ids.tolist()] == [{1, 3, -1}] * 6
    assert (few.n_scored == 2).all()
    np.testing.assert_array_equal(
        index.search(queries, 5, exclude=index.search(queries, 5, exact=True).ids, exact=True).ids,
        here.search(queries, 10, exact=True).ids[:, 5:],
    )


MOVIES = {
    "title": ["The Mask", "The Godfather", "Metropolis", "Untitled", "Fargo"],
    "genre": [["comedy", "fantasy"], ["crime", "drama"], ["drama"], [], ["comedy", "crime"]],
    "language": ["en", "en", "de", None, "en"],
    "year": [1994, 1972, 1927, None, 1996],
    "rating": [6.9, 9.2, 8.3, None, 8.1],
    "released": [date(1994, 7, 29), date(1972, 3, 24), date(1927, 1, 10), None, date(1996, 4, 5)],
    "adult": [False, False, False, None, True],
}


def random_attributes(rng, n):
    """Columns of every kind, with what is odd about each, and missing values."""
    texts = ["", "a", "A", "ä", "a b", "\N{SNOWMAN}", "x" * 300]
    numbers = [0, 1, -1, 2**53 + 1, 2**63 - 1, -(2**63) + 1, 7]
    floats = [0.0, -0.0, 0.1, -2.5, 1e300, 5e-324]
    start = datetime(2020, 2, 28, 23, 59, 59, 999_999)  # times without a zone are UTC
    moments = [start + timedelta(microseconds=rng.choice([0, 1, 999, 86_400_000_000])) for _ in range(9)]
    moments.append(datetime(1, 1, 1))
    kinds = {
        "text": lambda: rng.choice(texts),
        "flag": lambda: rng.random() < 0.5,
        "whole": lambda: rng.choice(numbers),
        "float": lambda: rng.choice(floats),
        "moment": lambda: rng.choice(moments),
        "day": lambda: rng.choice(moments).date(),
        "tags": lambda: rng.sample(texts, rng.randrange(4)),
        "codes": lambda: rng.sample(numbers, rng.randrange(4)),
    }
    made = {name: [None if rng.random() < 0.2 else draw() for _ in range(n)] for name, draw in kinds.items()}
    made["short"] = np.array(
        [np.nan if rng.random() < 0.2 else rng.choice([0.1, -0.0, 3e38]) for _ in range(n)], np.float32
    )
    return made


def random_where(rng, columns, depth=0):
    """A condition on some of the columns."""
    if depth < 3 and rng.random() < 0.4:
        parts = [random_where(rng, columns, depth + 1) for _ in range(rng.randrange(3))]
        return rng.choice([{"and": parts}, {"or": parts}, {"not": {"and": parts}}, {"not": {"or": parts}}])
    name = rng.choice(list(columns))
    values = [value for value in columns[name] if value is not None]
    if name == "short":
        values = [0.1, 0.0, 3e38, 1e39, -1e39]
    if name in ("tags", "codes"):
        values = [value for own in values for value in own] or [0 if name == "codes" else ""]
        operators = ["any", "all", "none", "missing"]
    else:
        operators = ["any", "none", "missing"]
        if name not in ("text", "flag"):
            operators += ["from", "to", "above", "below"]
    if name == "whole":
        values += [0.5, 1e30, -1e30, 2**63]
    if name in ("moment", "day"):
        values += ["2020", "2020-02", "2020-02-29T00:00:00", "0001"]
    operator = rng.choice(operators)
    if operator == "missing":
        return {name: {"missing": rng.random() < 0.5}}
    if operator in ("any", "all", "none"):
        return {name: {operator: [rng.choice(values) for _ in range(rng.randrange(3))]}}
    return {name: {operator: rng.choice(values)}}


def test_where_allows_what_it_allows_in_one_process(make):
    draws = random.Random(7)  # noqa: S311
    n = 60
    columns = random_attributes(draws, n)
    index = make(np.ones((n, 2)), PLAIN, attributes=columns)
    items = np.column_stack([np.ones(n), np.arange(n)])
    index.add(items, np.arange(n), attributes=columns, refresh=True)
    here = Attributes.of(columns, n)
    n_some = 0
    for _ in range(400):
        where = random_where(draws, columns)
        found = index.search([1.0, 0.5], n, where=where)
        wanted = np.flatnonzero(Condition.of(where, here).mask(here))
        assert sorted(found.ids[found.ids >= 0].tolist()) == wanted.tolist(), where
        n_some += 0 < len(wanted) < n
    assert n_some > 100


def test_where_of_the_page_on_attributes(make):
    index = make(np.eye(5), PLAIN, attributes=MOVIES)
    index.add(np.ones((5, 5)), np.arange(5), attributes=MOVIES, refresh=True)
    page = (ROOT / "docs" / "guides" / "attributes.md").read_text()
    rows = re.findall(r"^\| `(\{.*\})` \| ([A-Z].*) \|$", page, re.MULTILINE)
    assert len(rows) > 10
    for where, allowed in rows:
        asked = eval(where, {"true": True, "false": False})  # noqa: S307
        found = index.search(np.ones(5), 5, where=asked).ids
        assert [MOVIES["title"][item] for item in sorted(found[found >= 0])] == allowed.split(", ")


def test_a_filter_of_many_items_still_finds_the_best(make, rng):
    items, queries = (rng.standard_normal((n, 8)).astype(np.float32) for n in (4000, 20))
    parity = {"even": [bool(number % 2 == 0) for number in range(4000)]}
    index = make(items, PLAIN, attributes=parity)
    index.add(items, np.arange(4000), attributes=parity, refresh=True)
    found = index.search(queries, 10, where={"even": True}, budget=500)
    assert (found.ids % 2 == 0).all()
    true = ts.Index.build(items, method="exact").search(queries, 10, allow=list(range(0, 4000, 2)), exact=True)
    assert recall(found.scores, true.scores).mean() > 0.95
    assert (found.n_scored <= 503).all()
    assert (index.search(queries, 10, where={"even": True}, budget=2000).n_scored == 2000).all()


# Reindexing


class Load:
    """Threads that search and write without a pause, and remember what was acknowledged."""

    def __init__(self, client, name, width, n_writers=2):
        self.client, self.name, self.width = client, name, width
        self.held = {}  # the factor that each id must have; None if it must not be there
        self.unsure = set()
        self.n_searched = self.n_written = 0
        self.errors = []
        self.end = threading.Event()
        searching = [threading.Thread(target=self.guarded, args=(self.search,)) for _ in range(2)]
        writing = [threading.Thread(target=self.guarded, args=(self.write, number)) for number in range(n_writers)]
        self.threads = searching + writing

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.end.set()
        for thread in self.threads:
            thread.join()

    def guarded(self, work, *args):
        try:
            work(*args)
        except BaseException as error:  # noqa: BLE001 - of a thread, to be shown by the test
            self.errors.append(error)

    def search(self):
        index, rng = OpenSearchIndex(self.client, self.name), np.random.default_rng(0)
        while not self.end.is_set():
            found = index.search(rng.standard_normal((3, self.width)), 5)
            assert (found.ids[:, 0] >= 0).all()
            self.n_searched += 1

    def write(self, number):
        index, rng = OpenSearchIndex(self.client, self.name), np.random.default_rng(number)
        for turn in itertools.count():
            if self.end.is_set():
                return
            ids = 1_000_000 * (number + 1) + 20 * turn + np.arange(20)
            factors = rng.standard_normal((20, self.width)).astype(np.float32)
            self.change(index.add, factors, ids)
            self.change(index.update, -factors[:8], ids[:8])
            self.change(index.remove, None, ids[5:12])

    def change(self, call, factors, ids):
        listed = ids.tolist()
        wanted = dict(zip(listed, [None] * len(ids) if factors is None else factors, strict=True))
        try:
            if factors is None:
                call(listed)
            else:
                call(factors, listed)
        except WriteError:
            self.unsure.update(listed)
            raise
        self.held |= wanted
        self.n_written += len(ids)

    def lost(self, index):
        """Ids whose last acknowledged change is not there."""
        ids = [item for item in self.held if item not in self.unsure]
        lost = []
        for first in range(0, len(ids), 500):
            part = ids[first : first + 500]
            for item, found in zip(part, seen_by(self.client, index, part), strict=True):
                wanted = self.held[item]
                same = found is None if wanted is None else found is not None and np.array_equal(found, wanted)
                if not same:
                    lost.append(item)
        return lost


def test_reindex_under_load_loses_nothing_and_stops_no_one(make, client, rng):
    items = rng.standard_normal((6000, 16)).astype(np.float32)
    index = make(items)
    index.add(items, np.arange(6000), refresh=True)
    with Load(client, index.name, 16) as load:
        for number, schema in enumerate([SCHEMAS["the paper's slots"], None, PLAIN]):
            before = load.n_searched, load.n_written
            index.reindex(schema=schema, shards=2 + number)
            assert load.n_searched > before[0]
            assert load.n_written > before[1]
            assert not load.errors
        time.sleep(1)
    assert not load.errors
    assert load.n_written > 1000
    assert load.lost(index) == []
    index.refresh()
    held = [item for item, factor in load.held.items() if factor is not None]
    assert index.stats().n_items == 6000 + len(held)
    assert index.stats().n_shards == 4
    assert index.schema == PLAIN
    assert reindexing.own_indexes(index._cluster) == [index.stats().index]
    everything = np.concatenate([items, [load.held[item] for item in held]])
    queries = rng.standard_normal((20, 16)).astype(np.float32)
    true = ts.Index.build(everything, ids=np.concatenate([np.arange(6000), held]), method="exact").search(queries, 10)
    assert_same(index.search(queries, 10, exact=True), true)  # what the copies were mapped to is what they hold
    assert recall(index.search(queries, 10, budget=2000).scores, true.scores).mean() > 0.95


def test_a_reindex_that_fails_leaves_all_as_it_was(make, rng, monkeypatch):
    items = rng.standard_normal((300, 8)).astype(np.float32)
    index = make(items)
    index.add(items, np.arange(300), refresh=True)
    before = index.stats()

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    for step in ("_copy", "_catch_up", "_swap"):
        with monkeypatch.context() as patch:
            patch.setattr(reindexing, step, interrupt)
            with pytest.raises(KeyboardInterrupt):
                index.reindex()
        assert index.stats().index == before.index
        assert not index.stats().reindexing
        assert reindexing.own_indexes(index._cluster) == [before.index]
        index.add(items[:1], [1000], refresh=True)
        assert index.stats().n_items == 301
    index.reindex()
    assert index.stats().index != before.index
    assert index.stats().n_items == 301


def test_one_reindex_at_a_time_and_a_killed_one_is_begun_anew(make, client, rng, monkeypatch):
    items = rng.standard_normal((300, 8)).astype(np.float32)
    index = make(items)
    index.add(items, np.arange(300), refresh=True)
    other = OpenSearchIndex(client, index.name)

    class Killed(BaseException):
        pass

    with monkeypatch.context() as patch:

        def die(*_, **__):  # as if the process was killed while writes were blocked
            patch.setattr(reindexing, "abandon", lambda _: None)
            patch.setattr(reindexing, "_unblock", lambda *_: None)
            raise Killed

        patch.setattr(reindexing, "_swap", die)
        with pytest.raises(Killed):
            index.reindex()
    assert other.stats().reindexing
    with pytest.raises(
        ValueError, match="is running, or was killed; if no process is running it any more, pass restart=True"
    ):
        other.reindex()
    hasty = OpenSearchIndex(client, index.name, timeout=0.2)
    with pytest.raises(WriteError):
        hasty.add(items[:1], [1000])
    assert (other.search(items[:5], 1).ids >= 0).all()
    other.reindex(restart=True)
    assert index.add(items[:1], [1000], refresh=True).n_written == 1
    assert other.stats().n_items == 301
    assert not other.stats().reindexing
    assert reindexing.own_indexes(index._cluster) == [other.stats().index]


def test_other_indexes_of_such_a_name_are_left_alone(make, client):
    index = make(np.eye(3), PLAIN)
    index.add(np.eye(3), [1, 2, 3], refresh=True)
    foreign = f"{index.name}-1234567890123"
    client.indices.create(index=foreign)
    try:
        index.reindex()
        index.drop()
        assert client.indices.exists(index=foreign)
    finally:
        client.indices.delete(index=foreign)
    with pytest.raises(ValueError, match="there is no index"):
        index.search([1.0, 0, 0])


def test_a_name_that_is_taken_or_not_ours_is_refused(make, client):
    index = make(np.eye(3), PLAIN)
    with pytest.raises(ValueError, match=r"the index 'test-.*' already exists"):
        index.create(item_factors=np.eye(3))
    with pytest.raises(ValueError, match=r"has the schema Schema\(.*\), but Schema\(.*\) was passed"):
        OpenSearchIndex(client, index.name, SCHEMAS["default"]).search(np.ones(3))
    assert OpenSearchIndex(client, index.name, PLAIN).n_factors == 3
    client.indices.create(index="test-foreign")
    try:
        with pytest.raises(ValueError, match="the index 'test-foreign' was not made by tessella, or is damaged"):
            OpenSearchIndex(client, "test-foreign").search(np.ones(3))
    finally:
        client.indices.delete(index="test-foreign")


def test_an_index_made_anew_while_one_writes_to_it_is_noticed(make, client):
    index = make(np.eye(3), PLAIN)
    other = OpenSearchIndex(client, index.name)
    other.add(np.eye(3), [1, 2, 3])
    index.drop()
    index.create(item_factors=np.eye(4))
    with pytest.raises(ValueError, match="was replaced by a different one while items were written to it"):
        other.add(np.eye(3), [1, 2, 3])


# Nodes that are lost


def test_no_acknowledged_write_is_lost_and_searches_go_on_when_nodes_are_killed(make, client, running, rng):
    _, cluster = running
    if cluster is None:
        pytest.skip("the nodes of the cluster that OPENSEARCH_URL names are not ours to kill")
    items = rng.standard_normal((3000, 16)).astype(np.float32)
    index = make(items, settings=AT_ONCE)
    index.add(items, np.arange(3000), refresh=True)
    cluster.wait(3)
    with Load(client, index.name, 16) as load:
        for which in ("a node", "the manager"):
            manager = cluster.manager()
            victim = manager if which == "the manager" else next(node for node in cluster.nodes if node is not manager)
            time.sleep(2)
            before = load.n_searched, load.n_written
            cluster.kill(victim)
            cluster.wait(2)
            time.sleep(2)
            assert load.n_searched > before[0] + 10, which
            assert load.n_written > before[1] + 100, which
            assert not load.errors, which
            cluster.start(victim)
            cluster.wait(3)
    assert not load.errors
    assert load.lost(index) == []
    index.refresh()
    left = sum(factor is not None for factor in load.held.values())
    assert index.stats().n_items == 3000 + left


# What the documentation says


@pytest.mark.usefixtures("movies")
def test_the_example_of_the_class_runs(running):
    urls, _ = running
    (test,) = [
        test for test in doctest.DocTestFinder(recurse=False).find(OpenSearchIndex, "OpenSearchIndex") if test.examples
    ]
    for example in test.examples:
        example.options.clear()
        example.source = re.sub(r"OpenSearch\(\[.*\]\)", f"OpenSearch({urls!r})", example.source)
    ran = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test)
    assert (ran.failed, ran.attempted > 5) == (0, True)


@pytest.mark.usefixtures("movies")
def test_the_page_runs_and_prints_what_it_says(running, capsys):
    urls, _ = running
    page = ROOT / "docs" / "guides" / "opensearch.md"
    text = re.sub(r"OpenSearch\(\[.*\]\)", f"OpenSearch({urls!r})", page.read_text())
    names = {}
    for block, said in re.findall(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", text, re.DOTALL):
        exec(compile(block, str(page), "exec"), names)  # noqa: S102
        out = capsys.readouterr().out
        assert not said or out == said
