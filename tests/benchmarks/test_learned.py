"""Interactions are expanded at random but alike, and what is learned from them is found again."""

import itertools

import learned
import numpy as np
import pytest
import scipy.sparse
import sets


@pytest.fixture
def interactions(monkeypatch):
    """A small matrix in the place of the published one."""
    rng = np.random.default_rng(0)
    cells = rng.random((60, 90)) < np.outer(rng.uniform(0.05, 0.4, 60), rng.uniform(0.3, 1.0, 90))
    matrix = scipy.sparse.csr_matrix(cells, dtype=np.float32)
    monkeypatch.setattr(learned, "gowalla", lambda: matrix)
    return matrix


def test_an_expansion_has_as_many_interactions_as_wanted_and_no_empty_row(interactions):
    matrix = learned.expanded()
    assert matrix.nnz == pytest.approx(learned.TIMES * interactions.nnz, rel=0.05)
    assert 0.9 < matrix.shape[0] / (learned.USER_BLOCKS * 60) <= 1
    assert 0.9 < matrix.shape[1] / (learned.ITEM_BLOCKS * 90) <= 1
    assert np.diff(matrix.indptr).min() >= 1
    assert np.bincount(matrix.indices, minlength=matrix.shape[1]).min() >= 1
    assert set(matrix.data) == {1.0}
    again = learned.expanded()
    assert (matrix != again).nnz == 0


def test_the_outer_factor_is_shares(interactions):
    outer = learned.reduced(interactions, np.random.default_rng(0))
    assert outer.shape == (learned.USER_BLOCKS, learned.ITEM_BLOCKS)
    assert 0 <= outer.min() < outer.max() <= 1
    assert outer.sum() == pytest.approx(learned.TIMES)


def test_blocks_are_not_copies_of_each_other(interactions):
    found = list(learned.blocks(interactions))
    assert len(found) == learned.USER_BLOCKS * learned.ITEM_BLOCKS
    pairs = [set(zip(users % 60, items % 90, strict=True)) for users, items in found if len(users) > 100]
    true = set(zip(*interactions.nonzero(), strict=True))
    shared = [len(first & second) / len(first) for first, second in itertools.pairwise(pairs)]
    assert max(shared) < 0.9
    assert all(0.2 < len(block & true) / len(block) < 0.9 for block in pairs)  # some moved, some did not


def test_held_out_interactions_are_not_learned_from(interactions):
    kept, users, items = learned.split(interactions)
    assert kept.nnz + len(users) == interactions.nnz
    assert not np.asarray(kept[users, items]).any()
    assert np.asarray(interactions[users, items]).all()


def test_what_is_saved_is_found_with_what_its_users_have_had(tmp_path, monkeypatch, interactions):
    monkeypatch.setattr(sets, "CACHE", tmp_path)
    monkeypatch.setattr(learned, "KEPT_USERS", 20)
    rng = np.random.default_rng(0)
    users = np.arange(60, dtype=np.float32)[:, None] * np.ones(4, np.float32)
    factors = sets.Factors(rng.standard_normal((90, 4)).astype(np.float32), users)
    learned.save("small", factors, interactions)
    assert "small" in sets.learned_names()
    found = sets.learned("small")
    np.testing.assert_array_equal(found.items, factors.items)
    numbers = found.users[:, 0].astype(int)
    assert len(numbers) == 20
    assert (sets.seen("small") != interactions[numbers]).nnz == 0


def test_ranking_is_compared_with_chance():
    factors = sets.Factors(np.array([[1.0], [2.0], [3.0]]), np.array([[1.0], [-1.0]]))
    assert learned.ranked_right(factors, np.array([0, 1]), np.array([2, 2]), np.array([0, 0])) == 0.5
