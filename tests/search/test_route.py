"""The route of a query: every method, filter, level, batch split and number of threads against brute force."""

from unittest import mock

import numpy as np
import pytest
import scipy.sparse
from conftest import NATIVE, at_level

import tessella as ts
from tessella import _kernels
from tessella._reference.arithmetic import scores_of
from tessella.datasets import generated_factors
from tessella.search.route import search
from tessella.versions import changes

ITEMS, USERS = generated_factors(900, 12, 21, seed=2)
METHODS = [
    ts.Exact(),
    ts.Tiles(0.0),
    ts.Tiles(0.3),
    ts.Tiles(1.0),
    ts.Slots(30),
    ts.Slots(40, 6, min_overlap=2),
    ts.Slots("all", "all", min_overlap=2),
    ts.Slots("all", "all", threshold_queries=True),
]
CERTIFYING = METHODS[0], METHODS[3]
LEVELS = _kernels.simd_levels()
every_method = pytest.mark.parametrize("method", METHODS, ids=str)


def build(*, text=False, spill=1, changed=True):
    """An index of one segment, or of several with removed and changed items."""
    make = (lambda numbers: [f"item {i}" for i in numbers]) if text else np.asarray
    n = 600 if changed else 900
    index = ts.Index.build(ITEMS[:n], make(range(n)), method=ts.LearnedTiles(n_tiles=24, spill=spill))
    if changed:
        with mock.patch.object(changes, "STEP", 0), mock.patch.object(changes, "SMALL", 0):  # nothing is merged
            index.add(ITEMS[600:], make(range(600, 900)))
            index.update(ITEMS[:40] * 3, make(range(40)))
            index.remove(make(range(20, 200, 3)))
            index.add(USERS[:3], make(range(2000, 2003)))
        assert len(index._version.segments) > 2
    return index


def filters(index, rng):
    """Every kind of filter, with few and with many rows, and what is left of the items for each query."""
    ids, n = index.ids, len(USERS)
    lists = [rng.permutation(ids)[: rng.integers(0, len(ids))] for _ in range(n)]
    seen = scipy.sparse.random_array((n, len(ids)), density=0.3, rng=rng, format="csr")
    some, few = rng.permutation(ids)[:500], rng.permutation(ids)[:40]
    own = [rng.permutation(ids)[: rng.integers(0, 700)] for _ in range(n)]
    everyone = [ids] * n
    dense = seen.toarray() != 0
    return {
        "none": ({}, everyone),
        "exclude lists": ({"exclude": lists}, [np.setdiff1d(ids, own) for own in lists]),
        "exclude matrix": ({"exclude": (seen, ids)}, [ids[~dense[query]] for query in range(n)]),
        "allow many": ({"allow": some}, [some] * n),
        "allow few": ({"allow": few}, [few] * n),
        "allow own": ({"allow": own}, own),
        "allow few, exclude": ({"allow": few, "exclude": lists}, [np.setdiff1d(few, out) for out in lists]),
        "allow many, exclude": ({"allow": some, "exclude": lists}, [np.setdiff1d(some, out) for out in lists]),
        "allow own, exclude": (
            {"allow": own, "exclude": (seen, ids)},
            [np.intersect1d(own[q], ids[~dense[q]]) for q in range(n)],
        ),
        "nothing left": ({"exclude": everyone}, [ids[:0]] * n),
    }


def brute_force(index, k, left):
    """The true top k of what is left for each user, in the library's own arithmetic."""
    ids, factors = index.ids, index[index.ids]
    scores = scores_of(USERS, factors)
    missing = None if ids.dtype.kind == "U" else -1
    found_ids = np.full((len(USERS), k), missing, object if missing is None else np.int64)
    found_scores = np.full((len(USERS), k), -np.inf, np.float32)
    for query, row in enumerate(scores):
        kept = np.flatnonzero(np.isin(ids, left[query]))
        best = kept[np.lexsort((kept, -row[kept]))][:k]
        found_ids[query, : len(best)], found_scores[query, : len(best)] = ids[best], row[best]
    return found_ids, found_scores


def assert_same(found, wanted, *, n_scored):
    np.testing.assert_array_equal(found.ids, wanted.ids)
    assert found.ids.dtype == wanted.ids.dtype
    assert found.scores.tobytes() == wanted.scores.tobytes()
    np.testing.assert_array_equal(found.certified, wanted.certified)
    if n_scored:
        np.testing.assert_array_equal(found.n_scored, wanted.n_scored)


@pytest.mark.parametrize("text", [False, True], ids=["numbers", "texts"])
@pytest.mark.parametrize("changed", [False, True], ids=["one segment", "several"])
@every_method
def test_every_filter_at_every_level_is_the_reference_and_brute_force(method, changed, text, rng, monkeypatch):
    index = build(text=text, changed=changed, spill=2)
    versions = {level: at_level(index, level, monkeypatch)._version for level in LEVELS}
    for given, left in filters(index, rng).values():
        for k in (1, 10, 60):
            expected = None
            for level, version in versions.items():
                monkeypatch.setenv("TESSELLA_SIMD", level)
                found = search(version, USERS, k, method, **given)
                if method in CERTIFYING:
                    ids, scores = brute_force(index, k, left)
                    np.testing.assert_array_equal(found.ids, ids)
                    assert found.scores.tobytes() == scores.tobytes()
                    assert found.certified.all()
                if expected is not None:
                    # Between native levels nothing differs; the reference of exact and slots search leaves nothing out.
                    counted = level != LEVELS[1] or isinstance(method, ts.Tiles)
                    assert_same(found, expected, n_scored=counted and len(expected.ids) > 0)
                assert all(set(row) - {-1, None} <= set(own) for row, own in zip(found.ids.tolist(), left, strict=True))
                expected = found


@NATIVE
@pytest.mark.parametrize("kind", ["none", "exclude lists", "allow many", "allow own, exclude"])
@every_method
def test_batches_and_threads_change_nothing(method, kind, rng, monkeypatch):
    index = build()
    given, _ = filters(index, rng)[kind]
    for level in LEVELS[1:]:
        version = at_level(index, level, monkeypatch)._version
        wanted = search(version, USERS, 10, method, **given, threads=1)
        for queries_per_call in (1, 2, 5, 11, 12, 100):
            for threads in (1, 2, 3, 7):
                found = search(version, USERS, 10, method, **given, threads=threads, queries_per_call=queries_per_call)
                assert_same(found, wanted, n_scored=True)
        alone = {name: given[name] if kind == "allow many" else None for name in given}
        for query, user in enumerate(USERS):
            for name, lists in given.items():
                if alone[name] is None:
                    own = (lists[0][[query]].tocsr(), lists[1]) if isinstance(lists, tuple) else lists[query]
                    alone[name] = own
            one = search(
                version,
                user,
                10,
                method,
                **{n: [a] if n == "allow" and kind != "allow many" else a for n, a in alone.items()},
            )
            assert (one.ids.shape, one.n_scored.shape, one.certified.shape) == ((10,), (), ())
            np.testing.assert_array_equal(one.ids, wanted.ids[query])
            assert one.scores.tobytes() == wanted.scores[query].tobytes()
            assert (one.n_scored, one.certified) == (wanted.n_scored[query], wanted.certified[query])
            alone = {name: given[name] if kind == "allow many" else None for name in given}


@every_method
def test_any_k(method):
    index = build()
    n = len(index)
    longest = index.search(USERS, n + 5, method=method)
    for k in (1, n - 1, n, n + 5, n + 300):
        found = index.search(USERS, k, method=method)
        assert found.ids.shape == found.scores.shape == (len(USERS), k)
        assert ((found.ids == -1) == (found.scores == -np.inf)).all()
        if method in CERTIFYING:
            np.testing.assert_array_equal(found.ids[:, : min(k, n + 5)], longest.ids[:, :k])
    with pytest.raises(ValueError, match="k is 2147483648, but must be from 1 to 1048576"):
        index.search(USERS, 2**31)


@every_method
def test_queries_of_any_kind_are_answered_alike(method):
    index = build()
    wanted = index.search(USERS[:1], method=method)
    wide = np.repeat(USERS[:1], 2, axis=1)
    read_only = USERS[0].copy()
    read_only.flags.writeable = False
    raw = np.zeros(4 * 21 + 1, np.uint8)
    unaligned = raw[1:].view(np.float32)
    unaligned[:] = USERS[0]
    alike = [USERS[0].astype(np.float64), wide[0, ::2], USERS[0].tolist(), read_only, unaligned, USERS[0].astype(">f4")]
    for query in alike:
        for threads in (None, 1):
            found = index.search(query, k=np.int64(10), method=method, threads=threads)
            np.testing.assert_array_equal(found.ids, wanted.ids[0])
            assert found.scores.tobytes() == wanted.scores[0].tobytes()
    assert index.search(np.zeros((0, 21)), method=method).ids.shape == (0, 10)
    assert index.search(np.zeros(21), 3, method=ts.Exact()).scores.tolist() == [0, 0, 0]


SPOILED = {
    "NaN": (
        lambda query: np.where(np.arange(21) == 7, np.nan, query),
        "queries holds nan in row {}, column 7; factors must be finite.",
    ),
    "infinity": (
        lambda query: np.where(np.arange(21) == 20, np.inf, query),
        "queries holds inf in row {}, column 20; factors must be finite.",
    ),
    "minus infinity": (
        lambda query: np.where(np.arange(21) == 0, -np.inf, query),
        "queries holds -inf in row {}, column 0; factors must be finite.",
    ),
    "beyond float32": (
        lambda query: query.astype(np.float64) * 1e300,
        "too large for float32; scale the factors down.",
    ),
    "too long": (
        lambda query: query / np.linalg.norm(query) * 1.8e38,
        "queries has norm 1.8e+38 in row {}, too large for float32; scale it down.",
    ),
    "too long for an item": (
        lambda query: query / np.linalg.norm(query) * 9e37,
        "queries has norm 9e+37 in row {} and an item has norm ",
    ),
}


@every_method
@pytest.mark.parametrize("kind", SPOILED)
def test_a_bad_query_gets_one_sentence(method, kind):
    spoil, sentence = SPOILED[kind]
    index = build()
    queries = USERS.astype(np.float64)
    queries[5] = spoil(USERS[5])
    kind = np.float64 if "beyond" in kind else np.float32
    for asked, row in ((queries.astype(kind), 5), (queries[5].astype(kind), 0)):
        with pytest.raises(ValueError, match="queries") as refused:
            index.search(asked, method=method, threads=1)
        assert sentence.format(row) in str(refused.value)


@pytest.mark.parametrize(
    "query", [USERS[0, :20], USERS[0, :0], np.append(USERS[0], USERS[0]), USERS[None], np.float32(3)]
)
def test_queries_of_a_wrong_shape_are_refused(query):
    with pytest.raises(ValueError, match=r"^queries has \d+ (columns|dimensions), but "):
        build().search(query)


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"method": "exact"}, TypeError, r"method is a str, but must be tessella\.Exact\(\), tessella\.Tiles\(reach\)"),
        ({"method": ts.Tiles}, TypeError, "method is the class Tiles, but must be"),
        ({"method": ts.LearnedTiles()}, TypeError, "method is a LearnedTiles, but must be"),
        ({"exact": 1}, TypeError, "exact must be True or False, not int"),
        ({"exact": True, "method": ts.Slots(5)}, ValueError, "exact=True and method=Slots.* contradict each other"),
        ({"k": 0}, ValueError, "k is 0, but must be from 1"),
        ({"k": 2.0}, TypeError, "k must be an integer, not float"),
        ({"k": True}, TypeError, "k must be an integer, not bool"),
        ({"threads": 0}, ValueError, "threads is 0, but at least 1 is needed"),
        ({"threads": True}, TypeError, "threads must be an integer or None, not bool"),
    ],
)
def test_bad_options(options, error, sentence):
    index = build()
    for queries in (USERS, USERS[0]):
        with pytest.raises(error, match=sentence):
            index.search(queries, **options)


def test_tiles_need_an_index_with_tiles():
    plain = ts.Index.build(ITEMS, method="exact")
    for queries in (USERS, USERS[0], USERS[0].astype(np.float64)):
        with pytest.raises(
            ValueError, match=r"method is Tiles, but the index has no tiles; build it with method=tessella\.Learned"
        ):
            plain.search(queries, method=ts.Tiles())


@pytest.mark.parametrize("column", [-1, 900, 2**31 - 1])
def test_columns_that_are_not_there_are_refused(column):
    index = build(changed=False)
    seen = scipy.sparse.csr_array((np.ones(1), np.array([3]), np.array([0, 1] + [1] * 11)), shape=(12, 900))
    seen.indices[0] = column
    with pytest.raises(ValueError, match=f"exclude has an entry in column {column}, but its columns are 0 to 899"):
        index.search(USERS, exclude=seen)


def test_a_result_unpacks_as_ids_and_scores():
    found = build().search(USERS, 4)
    ids, scores = found
    assert ids is found.ids
    assert scores is found.scores
    assert len(found) == 2
    assert found[0] is found.ids
    assert list(found.arrays()) == ["ids", "scores", "n_scored", "certified"]
    assert repr(found) == "SearchResult(top 4 of 12 queries, 0 certified)"
    assert repr(build().search(USERS[0], 4, exact=True)) == "SearchResult(top 4 of 1 query, 1 certified)"
