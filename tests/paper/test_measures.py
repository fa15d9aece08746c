"""Measures against their definitions, and the laws they keep."""

import itertools
import math

import numpy as np
import pytest
import scipy.sparse
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tessella as ts
from tessella.paper import (
    Curve,
    accuracy_at,
    area_between,
    bootstrap_interval,
    candidate_recovery,
    coverage,
    curve,
    discarded,
    ndcg,
    recovery,
    speed_up,
    tie_aware_recall,
)

SHARES = st.floats(0, 1).map(lambda share: round(share, 3))


@st.composite
def answers(draw):
    """Exact scores with ties, true lists, and lists found: right ones, wrong ones, short ones, repeated ones."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_users, n_items, k = draw(st.integers(0, 6)), draw(st.integers(1, 12)), draw(st.integers(1, 14))
    scores = rng.integers(-4, 5, (n_users, n_items)) * draw(st.sampled_from([1.0, 0.37, 1e-9]))
    true_ids = np.full((n_users, k), -1)
    true_ids[:, :n_items] = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    found_ids = rng.integers(-1, n_items, (n_users, k))
    kept = rng.random((n_users, k)) < draw(st.sampled_from([0.0, 0.5, 1.0]))
    return scores, true_ids, np.where(kept, true_ids, found_ids), rng


def scores_of(scores, ids):
    """The exact scores of items, -inf for missing ones."""
    return np.where(ids >= 0, np.take_along_axis(scores, np.maximum(ids, 0), axis=1), -np.inf)


@given(answers())
def test_recovery_by_definition(case):
    _, true_ids, found_ids, rng = case
    expected = []
    for found, wanted in zip(found_ids.tolist(), true_ids.tolist(), strict=True):
        there = set(wanted) - {-1}
        expected.append(len(there & set(found)) / len(there))
    np.testing.assert_array_equal(recovery(found_ids, true_ids), expected)
    shuffled = rng.permuted(found_ids, axis=1), rng.permuted(true_ids, axis=1)
    np.testing.assert_array_equal(recovery(*shuffled), expected)
    large = [np.where(ids >= 0, ids * 10**15, -1) for ids in (found_ids, true_ids)]
    np.testing.assert_array_equal(recovery(*large), expected)
    np.testing.assert_array_equal(recovery(true_ids, true_ids), np.ones(len(true_ids)))


@given(answers(), st.floats(0, 1))
def test_candidate_recovery_by_definition(case, share):
    scores, true_ids, _, rng = case
    chosen = rng.random(scores.shape) < share
    expected = [row[wanted[wanted >= 0]].mean() for row, wanted in zip(chosen, true_ids, strict=True)]
    candidates = scipy.sparse.csr_array(chosen * rng.integers(1, 5, chosen.shape))
    found = candidate_recovery(candidates, true_ids)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(candidate_recovery(candidates.tocoo(), rng.permuted(true_ids, axis=1)), expected)
    more = scipy.sparse.csr_array(chosen | (rng.random(scores.shape) < share))
    assert (candidate_recovery(more, true_ids) >= found).all()
    assert (discarded(more) <= discarded(candidates)).all()
    np.testing.assert_array_equal(discarded(candidates), [1 - row.mean() for row in chosen])


def test_what_is_stored_twice_or_as_zero_counts_once_or_not():
    candidates = scipy.sparse.csr_array((np.array([1, 1, 0]), np.array([2, 2, 0]), np.array([0, 3])), shape=(1, 4))
    assert discarded(candidates).tolist() == [0.75]
    assert candidate_recovery(candidates, [[2, 0]]).tolist() == [0.5]
    assert candidates.nnz == 3


def test_nothing_to_find_is_all_found():
    assert recovery([[1], [2]], [[-1], [-1]]).tolist() == [1, 1]
    assert recovery(np.zeros((2, 0), int), [[1], [-1]]).tolist() == [0, 1]
    assert candidate_recovery(scipy.sparse.csr_array((1, 3)), [[-1, -1]]).tolist() == [1]
    assert tie_aware_recall([[3]], [[1.0]], [[-np.inf]]).tolist() == [1]
    assert tie_aware_recall([[3, 4]], [[1.0, 1.0]], [[1.0, -np.inf]]).tolist() == [1]  # no more than all


@given(answers(), st.sampled_from([0.0, 1e-5, 0.1]))
def test_tie_aware_recall_by_definition(case, tolerance):
    scores, true_ids, found_ids, rng = case
    true_scores, found_scores = scores_of(scores, true_ids), scores_of(scores, found_ids)
    expected = []
    for row, found in enumerate(found_ids.tolist()):
        best = [score for score in true_scores[row].tolist() if score > -math.inf]
        lowest = min(best) - tolerance * abs(min(best))
        hits = [item for item in set(found) - {-1} if scores[row, item] >= lowest]
        expected.append(min(len(hits), len(best)) / len(best))
    recall = tie_aware_recall(found_ids, found_scores, true_scores, tolerance=tolerance)
    np.testing.assert_array_equal(recall, expected)
    assert (recall >= recovery(found_ids, true_ids)).all()
    order = rng.permuted(np.tile(np.arange(found_ids.shape[1]), (len(found_ids), 1)), axis=1)
    shuffled = [np.take_along_axis(part, order, axis=1) for part in (found_ids, found_scores)]
    np.testing.assert_array_equal(tie_aware_recall(*shuffled, true_scores, tolerance=tolerance), expected)
    # Items that tie with the last true one are as good as it.
    backwards = scores.shape[1] - 1 - np.argsort(-scores[:, ::-1], axis=1, kind="stable")[:, : true_ids.shape[1]]
    others = np.pad(backwards, ((0, 0), (0, true_ids.shape[1] - backwards.shape[1])), constant_values=-1)
    assert (tie_aware_recall(others, scores_of(scores, others), true_scores) == 1).all()


def test_tolerance_is_a_share_of_the_last_score():
    for last in (100.0, -100.0):
        scores = [[last - 0.0009, last - 0.0011]]
        assert tie_aware_recall([[1, 2]], scores, [[last + 1, last]]).tolist() == [0.5]


@given(answers())
def test_ndcg_by_definition(case):
    scores, true_ids, found_ids, rng = case
    expected = []
    for row, found in zip(scores, found_ids.tolist(), strict=True):
        gains = row - row.min()
        fresh = [item >= 0 and item not in found[:place] for place, item in enumerate(found)]
        taken = sum(gains[item] / math.log2(place + 2) for place, item in enumerate(found) if fresh[place])
        best = sum(gain / math.log2(place + 2) for place, gain in enumerate(sorted(gains, reverse=True)[: len(found)]))
        expected.append(taken / best if best else 1)
    gains = ndcg(found_ids, scores)
    np.testing.assert_allclose(gains, expected, rtol=1e-12)
    assert ((gains >= 0) & (gains <= 1)).all()
    np.testing.assert_allclose(ndcg(true_ids, scores), 1, rtol=1e-14)
    np.testing.assert_allclose(ndcg(found_ids, 8 * scores - 3), gains, atol=1e-6)
    renamed = rng.permutation(scores.shape[1])
    moved = np.empty_like(scores)
    moved[:, renamed] = scores
    np.testing.assert_allclose(ndcg(np.where(found_ids >= 0, renamed[found_ids], -1), moved), gains, rtol=1e-12)


def test_ndcg_falls_with_the_order():
    scores = [[4.0, 3.0, 2.0, 0.0]]
    orders = [[0, 1, 2], [1, 0, 2], [2, 1, 0], [3, 1, 0], [3, 3, 0], [3, -1, -1]]
    gains = [ndcg([order], scores)[0] for order in orders]
    assert gains == sorted(gains, reverse=True)
    assert (gains[0], gains[-1]) == (1, 0)


@given(hnp.arrays(np.int64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=8), elements=st.integers(-1, 9)))
def test_coverage_by_definition(found_ids):
    assert coverage(found_ids, 10) == len(set(found_ids.ravel().tolist()) - {-1}) / 10
    assert coverage(found_ids[::-1, ::-1], 10) == coverage(found_ids, 10)
    assert coverage(found_ids[:1], 10) <= coverage(found_ids, 10)


@given(hnp.arrays(np.float64, hnp.array_shapes(max_dims=2, max_side=5), elements=SHARES))
def test_speed_up_by_definition(shares):
    expected = [1 / (1 - share) if share < 1 else math.inf for share in shares.ravel().tolist()]
    np.testing.assert_array_equal(speed_up(shares), np.reshape(expected, shares.shape))
    assert speed_up(0.8).shape == ()


@given(hnp.arrays(np.float64, st.integers(1, 30), elements=st.floats(-100, 100)), st.integers(0, 9))
def test_intervals_lie_within_the_values_and_widen(values, seed):
    low, high = bootstrap_interval(values, n_resamples=200, seed=seed)
    spread = 1e-12 * np.abs(values).max()
    assert values.min() - spread <= low <= high <= values.max() + spread
    assert (low, high) == bootstrap_interval(values, n_resamples=200, seed=seed)
    narrow = bootstrap_interval(values, confidence=0.5, n_resamples=200, seed=seed)
    assert low <= narrow[0] <= narrow[1] <= high
    whole = bootstrap_interval(values, confidence=1, n_resamples=200, seed=seed)
    assert whole[0] <= low <= high <= whole[1]


def test_intervals_are_those_of_the_normal_law(rng):
    values = rng.standard_normal(400) + 5
    low, high = bootstrap_interval(values, n_resamples=20_000)
    half = 1.96 * values.std() / math.sqrt(400)
    assert low == pytest.approx(values.mean() - half, abs=0.05 * half)
    assert high == pytest.approx(values.mean() + half, abs=0.05 * half)
    assert bootstrap_interval(values, seed=1) != bootstrap_interval(values, seed=2)


def test_intervals_hold_the_mean_as_often_as_they_say():
    held = 0
    for seed in range(200):
        low, high = bootstrap_interval(np.random.default_rng(seed).random(60), confidence=0.9, n_resamples=300)
        held += low <= 0.5 <= high
    assert abs(held / 200 - 0.9) < 5 * math.sqrt(0.9 * 0.1 / 200)


def test_blocks_of_resamples_change_nothing(rng, monkeypatch):
    values = rng.random(50)
    expected = bootstrap_interval(values, n_resamples=101)
    monkeypatch.setattr("tessella.paper.measures._ELEMENTS_AT_ONCE", 50 * 7)
    assert bootstrap_interval(values, n_resamples=101) == expected


sweeps = st.lists(st.tuples(SHARES, SHARES), min_size=1, max_size=8)


def line(points):
    return curve([point[0] for point in points], [point[1] for point in points])


@given(sweeps, st.randoms())
def test_curves_by_definition(points, random):
    best = {}
    for across, up in points:
        best[across] = max(up, best.get(across, 0))
    expected = Curve(np.array(sorted(best)), np.array([best[across] for across in sorted(best)]))
    random.shuffle(points)
    for found, wanted in zip(line(points), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
    for across, up in best.items():
        assert accuracy_at(expected, across) == up
    for (left, low), (right, high) in itertools.pairwise(zip(*expected, strict=True)):
        assert accuracy_at(expected, (left + right) / 2) == pytest.approx((low + high) / 2)


@given(sweeps, sweeps)
def test_areas_by_definition(first, second):
    one, other = line(first), line(second)
    low, high = max(one.discarded[0], other.discarded[0]), min(one.discarded[-1], other.discarded[-1])
    assume(low <= high)
    places = np.linspace(low, high, 20_001)
    gaps = np.interp(places, *one) - np.interp(places, *other)
    expected = (high - low) * (gaps[1:] + gaps[:-1]).mean() / 2
    area = area_between(one, other)
    assert area == pytest.approx(expected, abs=1e-4)
    assert abs(area) <= high - low
    assert area_between(other, one) == pytest.approx(-area, abs=1e-12)
    assert area_between(one, one) == 0
    raised = Curve(one.discarded, one.accuracy + 0.25)
    assert area_between(raised, other) == pytest.approx(area + 0.25 * (high - low), abs=1e-12)


def test_measures_fit_what_an_index_gives(rng):
    items, users = rng.standard_normal((200, 8)).astype(np.float32), rng.standard_normal((9, 8)).astype(np.float32)
    index, scores = ts.Index.build(items, schema=ts.Schema(ts.Ternary(), ts.OneHot())), users @ items.T
    found = index.search(users, 10)
    candidates = index.candidates(users)
    np.testing.assert_array_equal(recovery(found.ids, found.ids), np.ones(9))
    np.testing.assert_array_equal(tie_aware_recall(found.ids, found.scores, found.scores), np.ones(9))
    np.testing.assert_allclose(ndcg(found.ids, scores), 1)
    shares = discarded(candidates)
    assert ((shares >= 0) & (shares < 1)).all()
    assert (candidate_recovery(candidates, found.ids) > 1 - shares).mean() > 0.5


CANDIDATES = scipy.sparse.csr_array(np.eye(2, 3))
IDS = [[0, 1], [1, 2]]
SCORES = [[3.0, 2.0], [3.0, 2.0]]
LINE = curve([0.2, 0.6], [1.0, 0.5])


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: candidate_recovery(np.eye(2), IDS), TypeError, "candidates is a ndarray, but must be a SciPy sparse matrix."),
        (lambda: candidate_recovery(CANDIDATES, IDS[:1]), ValueError, "candidates has 2 rows, but true_ids has 1."),
        (lambda: candidate_recovery(CANDIDATES, [[0], [3]]), ValueError, "true_ids holds 3, but the last item is 2."),
        (lambda: candidate_recovery(CANDIDATES, [[0], [-2]]), ValueError, "true_ids holds -2, but items are numbered from 0, and -1 means a missing item."),
        (lambda: candidate_recovery(CANDIDATES, [[0, 1], [2, 2]]), ValueError, "true_ids holds 2 more than once in row 1."),
        (lambda: discarded(scipy.sparse.csr_array((2, 0))), ValueError, "candidates has shape (2, 0), but must have shape (n_users, n_items) with at least 1 item."),
        (lambda: recovery(IDS, [1, 2]), ValueError, "true_ids has 1 dimensions, but must have 2: (n_users, k)."),
        (lambda: recovery(SCORES, IDS), TypeError, "found_ids holds float64, but must hold integers."),
        (lambda: recovery([["a"]], IDS), TypeError, "found_ids holds <U1, but must hold real numbers"),
        (lambda: recovery(np.full((2, 1), 2**63, np.uint64), IDS), ValueError, "found_ids holds 9223372036854775808, but the last item is 9223372036854775807."),
        (lambda: recovery(IDS, IDS[:1]), ValueError, "found_ids has 2 rows, but true_ids has 1."),
        (lambda: tie_aware_recall(IDS, SCORES[:1], SCORES), ValueError, "found_scores has shape (1, 2), but found_ids has (2, 2)."),
        (lambda: tie_aware_recall(IDS, SCORES, [[3.0], [2.0]]), ValueError, "true_scores has shape (2, 1), but found_ids has (2, 2)."),
        (lambda: tie_aware_recall(IDS, SCORES, [[np.nan, 1], [2, 1]]), ValueError, "true_scores holds nan in row 0, column 0; scores must be finite."),
        (lambda: tie_aware_recall(IDS, [[1, np.inf], [2, 1]], SCORES), ValueError, "found_scores holds inf in row 0, column 1; scores must be finite."),
        (lambda: tie_aware_recall(IDS, SCORES, SCORES, tolerance=-1), ValueError, "tolerance is -1.0, but must be finite and at least 0."),
        (lambda: ndcg(IDS, SCORES), ValueError, "found_ids holds 2, but the last item is 1."),
        (lambda: ndcg(IDS, [[1, 2, -np.inf]] * 2), ValueError, "scores holds -inf in row 0, column 2; scores must be finite."),
        (lambda: ndcg(IDS, [[1, 2, 3]]), ValueError, "found_ids has 2 rows, but scores has 1."),
        (lambda: ndcg(IDS, np.zeros((2, 0))), ValueError, "scores has shape (2, 0), but must have shape (n_users, n_items) with at least 1 item."),
        (lambda: ndcg(IDS, CANDIDATES), TypeError, "scores is a SciPy sparse matrix,"),
        (lambda: speed_up([0.5, 1.5]), ValueError, "discarded holds 1.5, but must hold shares from 0 to 1."),
        (lambda: speed_up(np.nan), ValueError, "discarded holds nan, but must hold shares from 0 to 1."),
        (lambda: coverage(IDS, 0), ValueError, "n_items is 0, but must be at least 1."),
        (lambda: coverage(IDS, 2), ValueError, "found_ids holds 2, but the last item is 1."),
        (lambda: bootstrap_interval([]), ValueError, "values has shape (0,), but must have shape (n_users,) with at least 1 user."),
        (lambda: bootstrap_interval([[1.0]]), ValueError, "values has shape (1, 1), but must have shape (n_users,) with at least 1 user."),
        (lambda: bootstrap_interval([1.0, np.inf]), ValueError, "values holds inf at position 1; values must be finite."),
        (lambda: bootstrap_interval([1.0], confidence=95), ValueError, "confidence is 95, but must be from 0 to 1."),
        (lambda: bootstrap_interval([1.0], n_resamples=0), ValueError, "n_resamples is 0, but must be at least 1."),
        (lambda: bootstrap_interval([1.0], seed=-1), ValueError, "seed is -1, but must be at least 0."),
        (lambda: curve([], []), ValueError, "discarded has shape (0,), but must have shape (n_settings,) with at least 1 setting."),
        (lambda: curve([0.1, 0.2], [0.5]), ValueError, "discarded has shape (2,), but accuracy has (1,)."),
        (lambda: curve([0.1], [50]), ValueError, "accuracy holds 50, but must hold shares from 0 to 1."),
        (lambda: accuracy_at(LINE, 0.7), ValueError, "discarded is 0.7, but the curve runs from 0.2 to 0.6."),
        (lambda: accuracy_at(([0.2], [1.0]), 0.2), TypeError, "line is a tuple, but must be a Curve; make one with curve(discarded, accuracy)."),
        (lambda: area_between(LINE, None), TypeError, "second is a NoneType, but must be a Curve;"),
        (lambda: accuracy_at(LINE, "0.3"), TypeError, "discarded must be a number, not str."),
        (lambda: area_between(LINE, curve([0.8, 0.9], [1, 1])), ValueError, "the curves have no range in common: one runs from 0.2 to 0.6, the other from 0.8 to 0.9."),
    ],
)  # fmt: skip
def test_bad_input(call, error, sentence):
    with pytest.raises(error) as raised:
        call()
    assert str(raised.value).startswith(sentence)
