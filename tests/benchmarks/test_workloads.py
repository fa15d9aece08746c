"""The loads of a service: answers for everyone without what they have seen, and recall after churn."""

import numpy as np
import ours
import pytest
import race
import scipy.sparse
import sets
import workloads

import tessella as ts


@pytest.fixture(scope="module")
def factors():
    return sets.generated(1500, 8, 120)


@pytest.fixture(scope="module")
def seen(factors):
    rng = np.random.default_rng(0)
    return scipy.sparse.csr_matrix(rng.random((len(factors.users), len(factors.items))) < 0.05)


def test_what_users_have_seen_is_no_answer(factors, seen):
    true = workloads.unseen_best(*factors, seen)
    assert not seen[np.arange(len(true))[:, None], true].toarray().any()
    index = ours.build_exact(factors.items)
    found = workloads.answer_all(index, factors.users, seen, 1, ts.Exact())
    np.testing.assert_array_equal(np.sort(found), np.sort(true))


def test_the_cheapest_setting_reaches_its_recall(factors, seen):
    true = workloads.unseen_best(*factors, seen)

    def recall(found):
        return race.measure.recall(found, true, *factors)

    _, index, method = workloads.cheapest_at(*factors, seen, recall)
    assert recall(workloads.answer_all(index, factors.users, seen, 1, method)) >= 0.99


def test_a_round_of_churn_ends_with_the_items_of_a_fresh_build(factors, monkeypatch):
    monkeypatch.setattr(workloads, "IDLE_SECONDS", 0.01)
    found = workloads.churn_round(factors, ours.build_exact, ts.Exact(), seed=0)
    assert found["recall"] == found["fresh_recall"] == 1.0
    assert min(found.values()) > 0


def test_samples_are_the_same_every_time(factors):
    first, again = factors.sample(10, 50), factors.sample(10, 50)
    np.testing.assert_array_equal(first.items, again.items)
    np.testing.assert_array_equal(first.users, again.users)
    assert first.items.shape == (50, 8)
    assert first.users.shape == (10, 8)
