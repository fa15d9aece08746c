"""Index: the true top k under filters and changes, held to brute force."""

import os
import pickle
import re
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse
from conftest import NATIVE
from hypothesis import given, settings
from hypothesis import strategies as st
from stress import LEAST, stress

import tessella as ts
from tessella._reference.arithmetic import scores_of


class Certifying(NamedTuple):
    """A method that certifies its answers."""

    name: str
    built: dict
    asked: dict

    def build(self, items, ids=None):
        return ts.Index.build(items, ids, **self.built)


METHODS = [
    Certifying("exact", {"method": "exact"}, {}),
    Certifying("tiles", {"method": ts.LearnedTiles(n_tiles=24)}, {"method": ts.Tiles(1.0)}),
    Certifying("spilled tiles", {"method": ts.LearnedTiles(n_tiles=24, spill=2)}, {"method": ts.Tiles(1.0)}),
]
by_every_method = pytest.mark.parametrize("how", METHODS, ids=[how.name for how in METHODS])


def brute_force(factors, ids, queries, k, exclude=None, allow=None):
    """Ids and scores by scoring everything, in the library's own arithmetic; ties go to the earlier item."""
    scores = scores_of(queries, factors)
    found_ids, found_scores = [], []
    for query, row in enumerate(scores):
        kept = np.ones(len(ids), bool)
        if exclude is not None:
            kept &= ~np.isin(ids, exclude[query])
        if allow is not None:
            kept &= np.isin(ids, allow[query])
        order = [i for i in np.lexsort((np.arange(len(ids)), -row)) if kept[i]][:k]
        missing = k - len(order)
        found_ids.append([ids[i] for i in order] + [-1] * missing)
        found_scores.append([row[i] for i in order] + [-np.inf] * missing)
    return np.array(found_ids), np.array(found_scores, np.float32)


def assert_same(found, ids, scores):
    np.testing.assert_array_equal(found.ids, ids)
    assert found.scores.tobytes() == np.asarray(scores, np.float32).tobytes()
    assert found.certified.all()


def unit(factors):
    return factors / np.linalg.norm(factors, axis=1, keepdims=True)


KINDS = {
    "gaussian": lambda rng, n, k: rng.standard_normal((n, k)),
    "whole": lambda rng, n, k: rng.integers(-2, 3, (n, k)),
    "skewed": lambda rng, n, k: rng.standard_normal((n, k)) * rng.lognormal(0, 2, (n, 1)),
    "negative": lambda rng, n, k: -np.abs(rng.standard_normal((n, k))),
    "repeated": lambda rng, n, k: np.repeat(rng.standard_normal((n // 9 + 1, k)), 9, axis=0)[:n],
    "unit": lambda rng, n, k: unit(rng.standard_normal((n, k))),
    "zero": lambda rng, n, k: np.zeros((n, k)),  # noqa: ARG005
    "subnormal": lambda rng, n, k: rng.standard_normal((n, k)) * 3e-45,
    "tiny": lambda rng, n, k: rng.standard_normal((n, k)) * 1e-30,
    "decaying": lambda rng, n, k: rng.standard_normal((n, k)) * 0.7 ** np.arange(k),
}


@st.composite
def cases(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, k, queries = draw(st.integers(1, 400)), draw(st.integers(1, 70)), draw(st.integers(0, 5))
    kinds = st.sampled_from(sorted(KINDS))
    items = KINDS[draw(kinds)](rng, n, k).astype(np.float32)
    users = KINDS[draw(kinds)](rng, queries, k).astype(np.float32)
    return items, users, draw(st.integers(1, 40)), rng


@by_every_method
@settings(max_examples=300)
@given(cases())
def test_search_is_brute_force(how, case):
    items, users, k, _ = case
    found = how.build(items).search(users, k, **how.asked)
    assert_same(found, *[part.reshape(len(users), k) for part in brute_force(items, np.arange(len(items)), users, k)])
    assert (found.n_scored <= len(items) * (2 if how.name == "spilled tiles" else 1)).all()


@by_every_method
@settings(max_examples=100)
@given(cases(), st.floats(0, 1), st.floats(0, 1), st.booleans())
def test_filters_are_brute_force(how, case, excluded, allowed, each):
    items, users, k, rng = case
    n, q = len(items), len(users)
    ids = rng.permutation(10 * n)[:n]
    index = how.build(items, ids)
    seen = rng.random((q, n)) < excluded
    exclude = [ids[row] for row in seen]
    allow = [ids[rng.random(n) < allowed] for _ in range(q)]
    if not each:
        allow = allow[:1] * q
    expected = [part.reshape(q, k) for part in brute_force(items, ids, users, k, exclude, allow)]
    given_allow = allow if each or not q else allow[0]
    if each and not q:
        given_allow = None
    for given_exclude in (exclude if q else None, scipy.sparse.csr_array(seen)):
        assert_same(index.search(users, k, exclude=given_exclude, allow=given_allow, **how.asked), *expected)


@by_every_method
@pytest.mark.parametrize("name", sorted(KINDS))
def test_large_sets_are_brute_force(how, name, rng):
    items = KINDS[name](rng, 9000, 64).astype(np.float32)
    users = rng.standard_normal((20, 64)).astype(np.float32)
    index = how.build(items)
    for k in (1, 10, 100):
        assert_same(index.search(users, k, **how.asked), *brute_force(items, np.arange(9000), users, k))


@NATIVE
def test_bounds_discard_most_of_skewed_items(rng):
    items = KINDS["skewed"](rng, 20_000, 32).astype(np.float32)
    assert ts.Index.build(items, method="exact").search(rng.standard_normal((50, 32)), 10).n_scored.mean() < 1000


operations = st.lists(
    st.tuples(st.sampled_from(["add", "update", "remove"]), st.integers(0, 2**32), st.integers(1, 40)), max_size=12
)


@by_every_method
@settings(max_examples=70)
@given(operations, st.booleans())
def test_any_sequence_of_changes_equals_a_fresh_build(how, changes, text):
    rng = np.random.default_rng(5)
    make = (lambda numbers: np.array([f"item {i}" for i in numbers])) if text else np.asarray
    items = {int(i): rng.integers(-3, 4, 6).astype(np.float32) for i in range(30)}
    index = how.build(list(items.values()), make(list(items)))
    for kind, seed, size in changes:
        rng = np.random.default_rng(seed)
        before = index.version
        if kind == "add":
            numbers = [i for i in rng.permutation(500)[:size].tolist() if i not in items]
        else:
            numbers = rng.permutation(list(items))[:size].tolist()
        factors = rng.integers(-3, 4, (len(numbers), 6)).astype(np.float32)
        if kind == "remove":
            index.remove(make(numbers))
            for number in numbers:
                del items[number]
        else:
            getattr(index, kind)(factors, make(numbers))
            items.update(zip(numbers, factors, strict=True))
        assert index.version == before + 1
    assert len(index) == len(items)
    np.testing.assert_array_equal(index.ids, make(list(items)))
    users = np.random.default_rng(0).integers(-3, 4, (4, 6)).astype(np.float32)
    if items:
        np.testing.assert_array_equal(index[index.ids], list(items.values()))
        fresh = ts.Index.build(list(items.values()), make(list(items))).search(users, 7)
        for same in (index, pickle.loads(pickle.dumps(index))):  # noqa: S301
            for found, wanted in zip(same.search(users, 7, **how.asked), fresh, strict=True):
                np.testing.assert_array_equal(found, wanted)
    else:
        assert (index.search(users, 7, **how.asked).scores == -np.inf).all()


EXTREMES = {
    "subnormal items": (3e-45, 1e36),
    "subnormal users": (1e36, 3e-45),
    "subnormal scores": (1e-22, 1e-22),
    "scores that vanish": (1e-30, 1e-30),
    "squares beyond float32": (1e20, 1e-3),
    "the longest items": (8e36, 0.03),
    "the longest users": (0.03, 8e36),
}


@by_every_method
@pytest.mark.parametrize("k", [3, 8, 60])
@pytest.mark.parametrize("extreme", EXTREMES)
def test_the_limits_of_floats_are_proven_rightly(how, k, extreme, rng):
    of_items, of_users = EXTREMES[extreme]
    shape = rng.standard_normal((2000, k))
    users = (rng.standard_normal((30, k)) * of_users).astype(np.float32)
    for items in (shape, shape * rng.lognormal(-3, 2, (2000, 1)).clip(0, 1), np.abs(shape)):
        scaled = (items * of_items).astype(np.float32)
        assert_same(how.build(scaled).search(users, 5, **how.asked), *brute_force(scaled, np.arange(2000), users, 5))
        against = -np.abs(users)
        expected = brute_force(scaled, np.arange(2000), against, 5)
        assert_same(how.build(scaled).search(against, 5, **how.asked), *expected)


def test_centres_of_items_that_are_gone_may_be_far_longer_than_those_there(rng):
    index = ts.Index.build(rng.standard_normal((400, 6)) * 1e37, method=ts.LearnedTiles(n_tiles=20))
    items = rng.standard_normal((300, 6)).astype(np.float32)
    index.add(items, 400 + np.arange(300))
    index.remove(np.arange(400))
    users = (rng.standard_normal((20, 6)) * 1e36).astype(np.float32)
    assert_same(index.search(users, 5, method=ts.Tiles(1.0)), *brute_force(items, 400 + np.arange(300), users, 5))
    for reach in (0.0, 0.5):
        assert (index.search(users, 5, method=ts.Tiles(reach)).ids >= 400).all()


def test_an_index_with_tiles_is_emptied_and_refilled(rng):
    index = ts.Index.build(rng.standard_normal((50, 6)), method=ts.LearnedTiles())
    index.remove(index.ids)
    user = rng.standard_normal(6).astype(np.float32)
    assert index.search(user, 3, method=ts.Tiles(0.5)).ids.tolist() == [-1, -1, -1]
    assert pickle.loads(pickle.dumps(index)).tiles == index.tiles  # noqa: S301
    items = rng.standard_normal((90, 6)).astype(np.float32)
    index.add(items, np.arange(90))
    assert_same(index.search(user[None], 3, method=ts.Tiles(1.0)), *brute_force(items, np.arange(90), user[None], 3))


def test_an_emptied_index_keeps_its_kind_of_ids():
    index = ts.Index.build(np.eye(2), ["a", "b"])
    index.remove(["a", "b"])
    for emptied in (index, pickle.loads(pickle.dumps(index))):  # noqa: S301
        assert emptied.ids.dtype.kind == "U"
        assert emptied.search([1.0, 0.0], 1).ids.tolist() == [None]
        assert emptied.version == 1
        with pytest.raises(TypeError, match="ids are integers, but those in the index are strings"):
            emptied.add(np.eye(2), [1, 2])


def test_missing_answers_may_stand_in_filters():
    index = ts.Index.build(np.eye(3))
    assert index.search([[3.0, 2.0, 1.0]], 1, exclude=[[0, -1]]).ids.tolist() == [[1]]
    assert index.search([[3.0, 2.0, 1.0]], 3, allow=[frozenset([1])]).ids.tolist() == [[1, -1, -1]]
    assert index.search(np.eye(3)[:2], 1, allow=[range(1, 3), range(1)]).ids.tolist() == [[1], [0]]
    assert index.search([3.0, 2.0, 1.0], 1, exclude=[0]).ids.tolist() == [1]
    assert index.search([3.0, 2.0, 1.0], 1, exclude=np.array([0, 1])).ids.tolist() == [2]
    texts = ts.Index.build(np.eye(3), ["a", "b", "c"])
    assert texts.search([[3.0, 2.0, 1.0]], 1, exclude=[["a", None]]).ids.tolist() == [["b"]]


def test_the_smallest_id_and_texts_with_nul():
    assert -(2**63) in ts.Index.build(np.eye(2), [-(2**63), 5])
    assert "a\0" not in ts.Index.build(np.eye(2), ["a", "b"])


FORK = """
import os, sys, threading, time
import numpy as np
import tessella as ts
index = ts.Index.build(np.ones((20_000, 2)), method={method})
other = ts.Index.build(np.eye(2), method={method})
stop = threading.Event()
def change():
    while not stop.is_set():
        index.update(np.ones((1, 2)), [0])
        index.ids
changing = threading.Thread(target=change)
changing.start()
problem = None
for _ in range(20):
    child = os.fork()
    if child == 0:
        other.add(np.ones((1, 2)), [7])
        index.update(np.full((1, 2), 3.0), [0])
        best = index.search(np.ones(2, np.float32), 1).ids[0]
        os._exit(0 if len(other.ids) == 3 and len(index.ids) == 20_000 and best == 0 else 1)
    until = time.monotonic() + 60
    done, status = 0, 0
    while not done and time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        time.sleep(0.001)
    if not done or status:
        os.kill(child, 9)
        problem = "a child hangs or ended with " + str(status)
        break
stop.set()
changing.join()
sys.exit(problem)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("method", ["'auto'", "ts.LearnedTiles(n_tiles=8)"])
def test_children_forked_while_items_change_work(method):
    command = [sys.executable, "-W", "ignore", "-c", FORK.format(method=method)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)  # noqa: S603
    assert ran.returncode == 0, ran.stderr


def test_segments_stay_few(rng):
    index = ts.Index.build(rng.standard_normal((1000, 8)))
    for batch in range(100):
        index.add(rng.standard_normal((10, 8)), 1000 + 10 * batch + np.arange(10))
    assert len(index._version.segments) <= 16
    index.remove(np.arange(1500))
    assert sum(len(segment) for segment in index._version.segments) <= 2 * len(index)


@by_every_method
def test_searches_see_one_version_while_items_change(how):
    problems, n_searches, n_changes = stress(2, how.built, how.asked)
    assert not problems
    assert n_searches > LEAST
    assert n_changes > LEAST


def test_exact_search_is_an_index_searched_once(rng):
    items, users = rng.standard_normal((300, 9)).astype(np.float32), rng.standard_normal((4, 9)).astype(np.float32)
    assert_same(ts.exact_search(items, users, 6), *brute_force(items, np.arange(300), users, 6))
    with pytest.raises(ValueError, match="item_factors has 0 rows"):
        ts.exact_search(items[:0], users)


def test_single_query_and_text_ids():
    index = ts.Index.build(np.eye(3), ["a", "b", "c"])
    found = index.search([3.0, 2.0, 1.0], 4)
    assert found.ids.tolist() == ["a", "b", "c", None]
    np.testing.assert_array_equal(found.scores, [3, 2, 1, -np.inf])
    assert found.n_scored.shape == ()
    assert "a" in index
    assert "z" not in index
    assert 3 not in index
    assert -1 not in ts.Index.build(np.eye(3))
    assert 10**30 not in ts.Index.build(np.eye(3))
    np.testing.assert_array_equal(index["b"], [0, 1, 0])
    np.testing.assert_array_equal(index[["c", "a"]], [[0, 0, 1], [1, 0, 0]])
    index.add(np.ones((1, 3)), ["a longer id than before"])
    assert index.search([3.0, 2.0, 1.0], 1).ids.tolist() == ["a longer id than before"]
    assert index.search(np.zeros((0, 3)), 2).ids.shape == (0, 2)


def test_zeros_stored_in_a_matrix_are_entries():
    index = ts.Index.build(np.eye(3))
    exclude = scipy.sparse.csr_array((np.array([1.0, 0.0]), np.array([0, 1]), np.array([0, 2])), shape=(1, 3))
    assert index.search([[3.0, 2.0, 1.0]], 2, exclude=exclude).ids.tolist() == [[2, -1]]


def test_repr_and_memory(rng):
    index = ts.Index.build(rng.standard_normal((2000, 64)))
    assert repr(index).startswith("Index of 2,000 items x 64 factors")
    assert index.nbytes - 2000 * 64 * 4 < 100 * 2000 + 60_000  # and the fitted state


GOOD = np.arange(12.0).reshape(4, 3)


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda i: i.search([1.0, 2.0]), ValueError, "queries has 2 columns, but 3 are expected"),
        (lambda i: i.search(GOOD, 0), ValueError, "k is 0, but must be from 1 to 1048576"),
        (lambda i: i.search(GOOD, 2.5), TypeError, "k must be an integer, not float"),
        (lambda i: i.search([[1e38, 0, 0]]), ValueError, "queries has norm 1e.38 in row 0 and an item has norm .*: their product is too large"),
        (lambda i: i.search([[np.nan, 0, 0]]), ValueError, "queries holds nan in row 0, column 0"),
        (lambda i: i.search(GOOD, exclude=scipy.sparse.csr_array((4, 9))), ValueError, r"exclude has shape \(4, 9\), but must"),
        (lambda i: i.search(GOOD, exclude=[[1]]), ValueError, "exclude has 1 sequence of ids, but there are 4 queries"),
        (lambda i: i.search(GOOD, exclude=7), TypeError, "exclude is a int, but must be a sequence of ids, a list with a sequence for each query"),
        (lambda i: i.search(GOOD, allow=iter([1])), TypeError, "allow is a list_iterator, but must be a sequence of ids, a list with"),
        (lambda i: i.search(GOOD, 2**63), ValueError, "k is 9223372036854775808, but must be from 1 to 1048576"),
        (lambda i: i.save("x", overwrite="no"), TypeError, "overwrite must be True or False, not str"),
        (lambda i: i.add(GOOD[:2], [7, True]), TypeError, "ids holds a bool"),
        (lambda i: i.add(GOOD[:2], np.array(["a\0", "b"], object)), ValueError, "must not end in a NUL character"),
        (lambda i: i.search(GOOD, allow=[[1], [2]]), ValueError, "allow has 2 sequences of ids, but there are 4 queries"),
        (lambda i: i.search(GOOD, allow=[1.5]), TypeError, "allow holds float64, but must hold integers or strings"),
        (lambda i: i.search(GOOD, method=ts.Slots(0)), ValueError, "budget is 0, but must be at least 1"),
        (lambda i: i.search(GOOD, method=ts.Slots(1.5)), TypeError, "budget must be an integer, not float"),
        (lambda i: i.search(GOOD, exact="yes"), TypeError, "exact must be True or False, not str"),
        (lambda i: i.search(GOOD, threads=0), ValueError, "threads is 0, but at least 1 is needed"),
        (lambda i: i.search(np.zeros((2, 2, 3))), ValueError, "queries has 3 dimensions, but must have 2"),
        (lambda i: i.search("user"), TypeError, "queries holds <U4, but must hold real numbers"),
        (lambda i: i.search([[3e38, 3e38, 0]]), ValueError, "queries has norm 4.24e.38 in row 0, too large for float32"),
        (lambda i: i.candidates(GOOD[:, :2]), ValueError, "queries has 2 columns, but 3 are expected"),
        (lambda i: i.candidates(np.zeros((1, 1, 3))), ValueError, "queries has 3 dimensions, but must have 2"),
        (lambda i: i.remove(1), ValueError, r"ids is 1, but must be a sequence; pass \[1\]"),
        (lambda i: i.search(GOOD, exclude=[1, [2]]), TypeError, "exclude holds both ids and sequences of ids"),
        (lambda i: i.candidates([[np.inf, 0, 0]]), ValueError, "queries holds inf in row 0, column 0"),
        (lambda i: i.candidates(GOOD, min_overlap=0), ValueError, "min_overlap is 0, but must be at least 1"),
        (lambda i: i.explain(GOOD, 1), ValueError, "query has 2 dimensions, but must have 1"),
        (lambda i: i.explain([1.0, 2.0], 1), ValueError, "query has 2 columns, but 3 are expected"),
        (lambda i: i.explain([1.0, np.nan, 2.0], 1), ValueError, "query holds nan in row 0, column 1"),
        (lambda i: i.explain([1.0, 0, 0], 99), KeyError, "there is no item with id 99 in the index"),
        (lambda i: i.explain([1.0, 0, 0], "a"), KeyError, "there is no item with id 'a' in the index"),
        (lambda i: i.explain([1.0, 0, 0], 1.5), TypeError, "ids holds float64, but must hold integers or strings"),
        (lambda i: i.rebuild(threads=0), ValueError, "threads is 0, but at least 1 is needed"),
        (lambda i: ts.Index.build(GOOD, threads=0), ValueError, "threads is 0, but at least 1 is needed"),  # noqa: ARG005
        (lambda i: ts.Index.build(np.full((2, 3), 3e38)), ValueError, "item_factors has norm 5.2e.38 in row 0, too large for float32"),  # noqa: ARG005
        (lambda i: i.add(np.full((1, 3), 3e38), [7]), ValueError, "item_factors has norm 5.2e.38 in row 0, too large for float32"),
        (lambda i: i.add(GOOD[:, :2], [7, 8, 9, 10]), ValueError, "item_factors has 2 columns, but 3 are expected"),
        (lambda i: i.add(GOOD, [7, 8, 9]), ValueError, "ids has 3 entries, but there are 4 items"),
        (lambda i: i.add(GOOD, [7, 8, 9, 7]), ValueError, "ids holds 7 more than once"),
        (lambda i: i.add(GOOD, [7, 8, 9, 2]), ValueError, "id 2 is already in the index; use update"),
        (lambda i: i.add(GOOD, [7, 8, 9, -1]), ValueError, "ids holds -1, which is reserved for missing answers"),
        (lambda i: i.add(GOOD, list("abcd")), TypeError, "ids are strings, but those in the index are integers"),
        (lambda i: i.add(np.full((4, 3), np.inf), [7, 8, 9, 10]), ValueError, "item_factors holds"),
        (lambda i: i.add(GOOD[:2], [7, "a"]), TypeError, "ids holds both strings and other values"),
        (lambda i: i.search(GOOD, exclude=[["a"]] * 4), TypeError, "ids are strings, but those in the index are integers"),
        (lambda i: i.search(GOOD, allow=["a"]), TypeError, "ids are strings, but those in the index are integers"),
        (lambda i: ts.Index.build(GOOD, ["a", "b", "c", "d\0"]), ValueError, "must not end in a NUL character"),  # noqa: ARG005
        (lambda i: i.update(GOOD[:1], [99]), KeyError, "there is no item with id 99 in the index"),
        (lambda i: i.remove([1, 99]), KeyError, "there is no item with id 99 in the index"),
        (lambda i: i.remove([[1]]), ValueError, "ids has 2 dimensions, but must have 1"),
        (lambda i: i.remove(["x"]), KeyError, "there is no item with id 'x' in the index"),
        (lambda i: i[99], KeyError, "there is no item with id 99 in the index"),
        (lambda i: ts.Index.build(GOOD[:0]), ValueError, "item_factors has 0 rows, but an index needs at least 1"),  # noqa: ARG005
        (lambda i: ts.Index.build(GOOD, [1, 2]), ValueError, "ids has 2 entries, but there are 4 items"),  # noqa: ARG005
        (lambda i: ts.Index.build(GOOD, [1.0, 2, 3, 4]), TypeError, "ids holds float64"),  # noqa: ARG005
    ],
)  # fmt: skip
@by_every_method
def test_bad_input_changes_nothing(how, call, error, sentence):
    index = how.build(GOOD)
    state = index._version
    with pytest.raises(error, match=sentence):
        call(index)
    assert index._version is state


@pytest.mark.parametrize(
    ("method", "error", "sentence"),
    [
        (lambda: ts.Tiles(-0.1), ValueError, "reach is -0.1, but must be from 0 to 1."),
        (lambda: ts.Tiles(1.5), ValueError, "reach is 1.5, but must be from 0 to 1."),
        (lambda: ts.Tiles(np.nan), ValueError, "reach is nan, but must be from 0 to 1."),
        (lambda: ts.Tiles(True), TypeError, "reach must be a number, not bool."),
        (lambda: ts.Tiles("far"), TypeError, "reach must be a number, not str."),
        (lambda: ts.Slots(0), ValueError, "budget is 0, but must be at least 1."),
        (lambda: ts.Slots("some"), ValueError, "budget is 'some', but must be one of 'all'."),
        (lambda: ts.Slots(2.5), TypeError, "budget must be an integer, not float."),
        (lambda: ts.Slots(5, 0), ValueError, "max_slots is 0, but must be at least 1."),
        (lambda: ts.Slots(5, 5, 0), ValueError, "min_overlap is 0, but must be at least 1."),
        (lambda: ts.Slots(threshold_queries=1), TypeError, "threshold_queries must be True or False, not int."),
    ],
)
def test_bad_settings(method, error, sentence):
    with pytest.raises(error, match=re.escape(sentence)):
        method()


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"method": "slots"}, ValueError, "method is 'slots', but must be one of 'auto', 'exact', 'tiles'."),
        (
            {"method": ts.Exact()},
            TypeError,
            "method is a Exact, but must be 'auto', 'exact', 'tiles' or a tessella.LearnedTiles.",
        ),
        ({"method": ts.Schema()}, TypeError, "method is a Schema, but must be 'auto', 'exact', 'tiles' or"),
        (
            {"schema": ts.LearnedTiles()},
            TypeError,
            "schema is a LearnedTiles, but must be a tessella.Schema; pass it as method.",
        ),
        ({"schema": "auto"}, TypeError, "schema is a str, but must be a tessella.Schema; pass it as method."),
        (
            {"method": "exact", "target_recall": 0.9},
            ValueError,
            "target_recall and queries do not apply to method='exact', whose recall is always 1; leave them out.",
        ),
        (
            {"method": "exact", "queries": GOOD},
            ValueError,
            "target_recall and queries do not apply to method='exact', whose recall is always 1; leave them out.",
        ),
        ({"queries": GOOD[:, :2]}, ValueError, "queries has 2 columns, but 3 are expected."),
        ({"queries": GOOD[:0]}, ValueError, "queries has 0 rows, but at least 1 is needed to measure recall."),
        ({"queries": GOOD * np.nan}, ValueError, "queries holds nan in row 0, column 0; factors must be finite."),
        ({"target_recall": 1.5}, ValueError, "target_recall is 1.5, but must be from 0 to 1."),
    ],
)
def test_bad_builds_are_refused_before_the_work(options, error, sentence, monkeypatch):
    monkeypatch.setattr("tessella.index.built", None)
    with pytest.raises(error, match=re.escape(sentence)):
        ts.Index.build(GOOD, **options)


def test_an_index_is_made_by_build():
    with pytest.raises(TypeError, match=r"create an Index with Index\.build\(item_factors\) or Index\.load\(path\)"):
        ts.Index(64)


def test_methods_of_build():
    items = np.random.default_rng(0).standard_normal((300, 4))
    assert ts.Index.build(items).plan.method == ts.Exact()
    assert ts.Index.build(items, method="exact", target_recall=1.0).plan.reason == "its answers are certified"
    assert ts.Index.build(items, method="tiles").plan.method == ts.Tiles()
    assert ts.Index.build(items, method="tiles").tiles == ts.LearnedTiles()
    schema = ts.Schema(ts.DAry(2), ts.OneHot())
    for method in ("auto", "exact", "tiles", ts.LearnedTiles(8)):
        assert ts.Index.build(items, method=method, schema=schema).schema == schema


def test_the_engine_is_made_by_the_change_and_not_by_the_search(tmp_path):
    index = ts.Index.build(np.eye(3))
    assert "engine" in vars(index._version)
    for change in (index.tune, index.rebuild, lambda: index.remove([0]), lambda: index.add([[1, 2, 3]], [7])):
        change()
        assert "engine" in vars(index._version)
    index.save(tmp_path / "items")
    assert "engine" in vars(ts.Index.load(tmp_path / "items")._version)


def test_ids_are_made_once_a_version():
    index = ts.Index.build(np.eye(3), ["a", "b", "c"])
    assert index.ids is index.ids
    with pytest.raises(ValueError, match="read-only"):
        index.ids[0] = "z"
    index.remove(["b"])
    assert index.ids.tolist() == ["a", "c"]


def test_ids_may_be_arrows_or_of_pandas():
    pa = pytest.importorskip("pyarrow", reason="pyarrow, an extra, is not installed")
    for ids in (pa.array(["a", "b", "c"]), pa.chunked_array([["a", "b"], ["c"]]), np.array(["a", "b", "c"], object)):
        index = ts.Index.build(np.eye(3), ids)
        assert index.ids.tolist() == ["a", "b", "c"]
        index.remove(pa.array(["b"]))
        assert index.search([3.0, 2.0, 1.0], 2).ids.tolist() == ["a", "c"]
    assert ts.Index.build(np.eye(3), pa.array([5, 6, 7])).ids.tolist() == [5, 6, 7]
    with pytest.raises(ValueError, match="must not end in a NUL character"):
        ts.Index.build(np.eye(2), pa.array(["a", "b\0"]))
