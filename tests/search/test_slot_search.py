"""Slots search: what it returns is right, what it certifies is true, and its candidates are the paper's."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from conftest import at_level
from hypothesis import given, settings
from hypothesis import strategies as st

import tessella as ts
from tessella import _kernels
from tessella._reference.arithmetic import scores_of
from tessella.versions.segment import Segment
from tessella.versions.version import Version

SCHEMAS = [
    ts.Schema(ts.Ternary(), ts.OneHot(), threshold=2.5, rotation="principal"),
    ts.Schema(ts.Ternary(), ts.OneHot(), threshold=0.8),
    ts.Schema(ts.Ternary(), ts.CounterTree(), threshold=1.0, threshold_kind="relative"),
    ts.Schema(ts.DAry(3), ts.ParseTree(2), threshold=0.5, rotation="random"),
    ts.Schema(ts.Ternary(), ts.ParseTree(30)),
    ts.Schema(ts.RandomTessellation(9, seed=1), ts.OneHot(), threshold=0.3),
]


def awkward_factors(rng, n, k):
    """Factors of the kinds that proofs go wrong on: repeated, zero, equally long, all negative, hugely uneven."""
    kind = rng.integers(0, 7)
    factors = rng.standard_normal((n, k))
    if kind == 0:
        factors = np.repeat(factors[: n // 4 + 1], 4, axis=0)[:n]
    elif kind == 1:
        factors = rng.integers(-1, 2, (n, k)).astype(float)
    elif kind == 2:
        factors /= np.linalg.norm(factors, axis=1, keepdims=True)
    elif kind == 3:
        factors = -np.abs(factors)
    elif kind == 4:
        factors *= rng.lognormal(0, 4, (n, 1))
    elif kind == 5:
        factors[rng.random(n) < 0.5] = 0
    return factors.astype(np.float32)


def true_scores(items, users, k):
    """The scores of the true top k, best first."""
    scores = -np.sort(-scores_of(users, items), axis=1)[:, :k]
    return np.pad(scores, ((0, 0), (0, k - scores.shape[1])), constant_values=-np.inf)


@pytest.mark.parametrize("schema", SCHEMAS)
def test_certified_answers_are_true_and_all_scores_are(schema):
    """Thousands of small cases. An answer that is certified is the true top k; any answer's scores are products."""
    rng = np.random.default_rng(3)
    n_certified = n_open = 0
    for _ in range(400):
        n, k = int(rng.integers(1, 60)), int(rng.integers(1, 9))
        items, users = awkward_factors(rng, n, k), awkward_factors(rng, 4, k)
        index = ts.Index.build(items, method="exact", schema=schema)
        wanted, budget = int(rng.integers(1, 12)), int(rng.integers(1, n + 3))
        found = index.search(users, wanted, method=ts.Slots(budget, int(rng.integers(1, k + 2))))
        best = true_scores(items, users, wanted)
        there = found.ids >= 0
        assert (there.sum(axis=1) == min(wanted, n)).all()
        scores = scores_of(users, items)
        for query in range(len(users)):
            ids = found.ids[query][there[query]]
            assert len(set(ids.tolist())) == len(ids)
            np.testing.assert_array_equal(found.scores[query][there[query]], scores[query, ids])
        np.testing.assert_array_equal(found.scores[found.certified], best[found.certified])
        exact = index.search(users, wanted, exact=True)
        np.testing.assert_array_equal(found.ids[found.certified], exact.ids[found.certified])
        n_certified += int(found.certified.sum())
        n_open += int((~found.certified).sum())
    assert n_certified > 50
    assert n_open > 50


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_budget_of_all_items_is_exact(schema, rng):
    items, users = rng.standard_normal((200, 12)), rng.standard_normal((9, 12)).astype(np.float32)
    index = ts.Index.build(items, method="exact", schema=schema)
    exact = index.search(users, exact=True)
    for budget in (200, 10**9):
        for found, expected in zip(index.search(users, method=ts.Slots(budget)), exact, strict=True):
            np.testing.assert_array_equal(found, expected)
    assert exact.certified.all()


def test_no_more_than_the_budget_is_scored(rng):
    items, users = rng.standard_normal((5000, 16)), rng.standard_normal((50, 16))
    index = ts.Index.build(items, method="exact", schema=ts.Schema(ts.Ternary(), ts.OneHot(), threshold=0.5))
    recalls = []
    exact = index.search(users, exact=True)
    for budget in (10, 50, 250, 1250):
        found = index.search(users, method=ts.Slots(budget))
        assert (found.n_scored <= budget).all()
        recalls.append(np.mean([np.isin(a, b).mean() for a, b in zip(found.ids, exact.ids, strict=True)]))
    assert recalls == sorted(recalls)
    assert recalls[-1] > 0.9
    assert (index.search(users, 10, method=ts.Slots(3)).n_scored <= 10).all()  # at least k are


def test_filters_hold_inside_slots_search(rng):
    items, users = rng.standard_normal((3000, 16)), rng.standard_normal((20, 16))
    index = ts.Index.build(items, 7 * np.arange(3000), method="exact", schema=SCHEMAS[1])
    seen = rng.random((20, 3000)) < 0.5
    allow = 7 * np.flatnonzero(rng.random(3000) < 0.3)
    found = index.search(users, 10, method=ts.Slots(100), exclude=scipy.sparse.csr_array(seen), allow=allow)
    assert np.isin(found.ids, allow).all()
    assert not np.take_along_axis(seen, found.ids // 7, axis=1).any()
    few = index.search(users, 10, method=ts.Slots(100), allow=allow[:12], exclude=[allow[:4]] * 20)
    assert ((few.ids >= 0).sum(axis=1) == 8).all()
    assert few.certified.all()


def test_min_overlap_leaves_items_with_fewer_shared_slots_out(rng):
    items, users = rng.standard_normal((2000, 16)).astype(np.float32), rng.standard_normal((20, 16)).astype(np.float32)
    schema = ts.Schema(ts.Ternary(), ts.OneHot(), threshold=0.5)
    index = ts.Index.build(items, method="exact", schema=schema)
    item_slots = ts.SparseMap(schema).fit(items).transform(items)
    user_slots = ts.SparseMap(ts.Schema(ts.Ternary(), ts.OneHot())).transform(users)
    shared = ((user_slots != 0).astype(int) @ (item_slots != 0).astype(int).T).toarray()
    found = index.search(users, 5, method=ts.Slots(60, 16, 5))
    assert (np.take_along_axis(shared, found.ids, axis=1) >= 5).all()


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.sampled_from(SCHEMAS), st.booleans())
def test_candidates_are_the_papers_whatever_happened_before(seed, schema, changed):
    """P12: share a slot under one map; after changes, as in a fresh build with the same fitted state."""
    rng = np.random.default_rng(seed)
    items = awkward_factors(rng, int(rng.integers(1, 80)), 7)
    users = awkward_factors(rng, 5, 7)
    index = ts.Index.build(items, method="exact", schema=schema)
    mapping = ts.SparseMap(schema).fit(items)
    if changed:
        index.add(items[:5] * 2, 1000 + np.arange(len(items[:5])))
        index.remove(index.ids[1:9:2])
        index.update(-index[index.ids[:3]], index.ids[:3])
    now = index[index.ids]
    expected = (mapping.transform(users) != 0).astype(np.int32) @ (mapping.transform(now) != 0).astype(np.int32).T
    np.testing.assert_array_equal(index.candidates(users).toarray(), expected.toarray())
    least = index.candidates(users, min_overlap=2)
    np.testing.assert_array_equal(least.toarray(), np.where(expected.toarray() >= 2, expected.toarray(), 0))
    assert least.has_sorted_indices
    assert (least.data >= 2).all()


def test_threads_batches_and_levels_change_nothing(rng, monkeypatch):
    items = rng.standard_normal((3000, 24)) * rng.lognormal(0, 1, (3000, 1))
    users = rng.standard_normal((300, 24)).astype(np.float32)
    index = ts.Index.build(items, threads=1)
    again = ts.Index.build(items, threads=3)
    expected = index.search(users, method=ts.Slots(40), threads=1)
    for other in (index.search(users, method=ts.Slots(40), threads=3), again.search(users, method=ts.Slots(40))):
        for found, wanted in zip(other, expected, strict=True):
            np.testing.assert_array_equal(found, wanted)
    alone = [index.search(user, method=ts.Slots(40)) for user in users[:40]]
    for part, wanted in zip(zip(*alone, strict=True), expected, strict=True):
        np.testing.assert_array_equal(np.array(part), wanted[:40])
    for level in _kernels.simd_levels():
        for found, wanted in zip(
            at_level(index, level, monkeypatch).search(users[:40], method=ts.Slots(40)), expected, strict=True
        ):
            np.testing.assert_array_equal(found, wanted[:40])


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.integers(1, 60), st.floats(0.2, 5), st.booleans())
def test_the_same_items_are_chosen_from_many_segments_as_by_the_reference(seed, budget, growth, filtered):
    """Later segments may hold much better items than earlier ones, or much worse."""
    rng = np.random.default_rng(seed)
    n, k = 400, 8
    index = ts.Index.build(rng.standard_normal((n, k)), method="exact", schema=SCHEMAS[1])
    for turn in range(1, 4):
        index.add(growth**turn * rng.standard_normal((n, k)), n * turn + np.arange(n))
    index.remove(rng.permutation(4 * n)[:50])
    users = rng.standard_normal((6, k)).astype(np.float32)
    options = {"exclude": [rng.permutation(4 * n)[:300] for _ in users]} if filtered else {}
    with pytest.MonkeyPatch.context() as patch:
        found = [
            at_level(index, level, patch).search(users, 3, method=ts.Slots(budget), **options)
            for level in _kernels.simd_levels()
        ]
    for other in found[1:]:
        np.testing.assert_array_equal(found[0].ids, other.ids)
        np.testing.assert_array_equal(found[0].certified, other.certified)


def test_equally_long_items_in_many_blocks(rng, monkeypatch):
    items = rng.standard_normal((140_000, 4)).astype(np.float32)
    items /= np.linalg.norm(items, axis=1, keepdims=True)
    index = ts.Index.build(items, method="exact", schema=SCHEMAS[1])
    users = rng.standard_normal((4, 4)).astype(np.float32)
    found = [index.search(users, 5, method=ts.Slots(budget)) for budget in (8, 40)]
    reference = at_level(index, "numpy", monkeypatch)
    for one, budget in zip(found, (8, 40), strict=True):
        np.testing.assert_array_equal(one.ids, reference.search(users, 5, method=ts.Slots(budget)).ids)


def test_items_beyond_one_block_of_postings(rng, monkeypatch):
    """More than 65,536 items; the reference agrees."""
    items = (rng.standard_normal((70_000, 4)) * rng.lognormal(0, 1, (70_000, 1))).astype(np.float32)
    users = rng.standard_normal((5, 4)).astype(np.float32)
    index = ts.Index.build(items, method="exact", schema=SCHEMAS[1])
    index.add(items[:3] * 5, [70_000, 70_001, 70_002])
    assert len(index._version.segments[0].postings.block_lists) == 3
    found = index.search(users, method=ts.Slots(300, min_overlap=2))
    reference = at_level(index, "numpy", monkeypatch).search(users, method=ts.Slots(300, min_overlap=2))
    for one, other in zip(found, reference, strict=True):
        np.testing.assert_array_equal(one, other)
    best = true_scores(index[index.ids], users, 10)
    assert (found.scores >= best[:, -1:]).mean() > 0.8


def test_rows_are_numbered_anew_when_they_run_out(rng, monkeypatch):
    monkeypatch.setattr("tessella.versions.changes.MAX_ROWS", 130)
    index = ts.Index.build(rng.standard_normal((100, 5)))
    users = rng.standard_normal((4, 5))
    for turn in range(10):
        ids = index.ids[:20]
        factors = index[ids]
        index.remove(ids)
        index.add(factors, 1000 * (turn + 1) + np.arange(20))
        fresh = ts.Index.build(index[index.ids], index.ids)
        np.testing.assert_array_equal(index.search(users, 30).ids, fresh.search(users, 30).ids)
    assert index._version.next_row <= 130
    with pytest.raises(ValueError, match=r"the index would hold 1\d\d items, but can hold at most 130\."):
        index.add(rng.standard_normal((31, 5)), np.arange(20_000, 20_031))
    index.remove(index.ids)
    index.add(rng.standard_normal((130, 5)), np.arange(130))
    assert index.ids.tolist() == list(range(130))


def test_versions_and_segments_are_never_changed(rng):
    index = ts.Index.build(rng.standard_normal((50, 5)))
    version = index._version
    before = [array.copy() for array in vars(version.segments[0]).values() if isinstance(array, np.ndarray)]
    index.remove([3])
    index.update(rng.standard_normal((1, 5)), [4])
    assert isinstance(version, Version)
    assert isinstance(version.segments[0], Segment)
    after = [array for array in vars(version.segments[0]).values() if isinstance(array, np.ndarray)]
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)


PAPER = ts.Slots("all", "all", threshold_queries=True)


@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("min_overlap", [1, 2, 3])
def test_the_papers_own_rule_scores_its_candidates_and_no_others(schema, min_overlap, rng):
    """Every item that shares enough slots, both sides thresholded, is scored (P12, P13)."""
    items, users = rng.standard_normal((500, 9)).astype(np.float32), 3 * rng.standard_normal((12, 9)).astype(np.float32)
    index = ts.Index.build(items, method="exact", schema=schema)
    index.add(items[:40] * 2, 500 + np.arange(40))
    index.remove(np.arange(0, 300, 7))
    candidates = index.candidates(users, min_overlap=min_overlap)
    found = index.search(users, 20, method=replace(PAPER, min_overlap=min_overlap))
    np.testing.assert_array_equal(found.n_scored, np.diff(candidates.indptr))
    scores = scores_of(users, index[index.ids])
    for query in range(len(users)):
        own = candidates.indices[candidates.indptr[query] : candidates.indptr[query + 1]]
        best = own[np.lexsort((own, -scores[query, own]))][:20]
        np.testing.assert_array_equal(found.ids[query, : len(best)], index.ids[best])
        assert (found.ids[query, len(best) :] == -1).all()
    assert not found.certified.any()


def test_the_papers_rule_uses_the_heaviest_slots(rng):
    """`max_slots` holds whatever the budget."""
    items, users = rng.standard_normal((400, 12)).astype(np.float32), rng.standard_normal((9, 12)).astype(np.float32)
    index = ts.Index.build(items, method="exact", schema=SCHEMAS[1])
    counts = [index.search(users, 5, method=ts.Slots("all", slots)).n_scored for slots in (1, 3, 6, 12, "all")]
    assert all((fewer <= more).all() for fewer, more in itertools.pairwise(counts))
    assert counts[0].sum() < counts[1].sum() < counts[2].sum()
    np.testing.assert_array_equal(counts[3], counts[4])


def test_items_that_share_every_slot_of_the_widest_factors(monkeypatch):
    """Slots do not depend on principal axes, and those of 4,096 coordinates take 15 seconds: any axes will do."""
    monkeypatch.setattr("tessella.retrieval.fitted.principal_axes", lambda moments: np.eye(len(moments)))
    items = np.ones((3, 4096), np.float32)
    index = ts.Index.build(items, method="exact", schema=ts.Schema(ts.Ternary(), ts.OneHot()))
    assert index.search(items[0], 3, method=ts.Slots("all", "all", 4096)).n_scored == 3


@pytest.mark.parametrize("method", [ts.Slots(20), ts.Slots("all"), PAPER])
def test_a_query_that_overflows_once_rotated_gets_the_sentence_of_every_method(method, rng):
    index = ts.Index.build(rng.standard_normal((200, 16)), method="exact")
    queries = rng.standard_normal((5, 16)).astype(np.float32)
    queries[3] = 3e38
    for asked, row in ((queries, 3), (queries[3], 0)):
        with pytest.raises(ValueError, match=f"queries has norm 1.2e.39 in row {row}, too large for float32"):
            index.search(asked, method=method)
