"""Generated factors: seeded, and shaped like learned ones."""

import numpy as np
import pytest

from tessella.datasets import generated_factors


@pytest.fixture(scope="module")
def factors():
    return generated_factors(20_000, 2_000)


def test_shapes_and_types():
    items, users = generated_factors(30, 7, 5)
    assert items.shape == (30, 5)
    assert users.shape == (7, 5)
    assert items.dtype == users.dtype == np.float32
    assert [part.shape for part in generated_factors(0, 1, 1)] == [(0, 1), (1, 1)]


def test_factors_go_by_the_seed():
    items, users = generated_factors(30, 7, seed=3)
    again = generated_factors(30, 7, seed=3)
    np.testing.assert_array_equal(items, again[0])
    np.testing.assert_array_equal(users, again[1])
    other = generated_factors(30, 7, seed=4)
    assert not np.isin(other[0], items).any()
    assert not np.isin(other[1], users).any()


def test_the_number_of_items_changes_no_user_and_the_other_way_round():
    items, users = generated_factors(30, 7)
    np.testing.assert_array_equal(generated_factors(300, 7)[1], users)
    np.testing.assert_array_equal(generated_factors(30, 70)[0], items)


def test_lengths_are_skewed(factors):
    for part in factors:
        lengths = np.linalg.norm(part, axis=1)
        median, high = np.percentile(lengths, [50, 99])
        assert 4 < high / median < 8


def test_the_spectrum_decays_slowly(factors):
    squares = np.linalg.svd(factors[0], compute_uv=False) ** 2
    shares = np.cumsum(squares) / squares.sum()
    assert 0.15 < shares[0] < 0.25
    assert 0.40 < shares[15] < 0.60


def test_directions_are_clustered(factors):
    unit = factors[0] / np.linalg.norm(factors[0], axis=1, keepdims=True)
    cosines = unit[:500] @ unit[500:].T
    assert 0.1 < np.median(cosines) < 0.25
    assert np.median(cosines.max(axis=1)) > 0.9


def test_best_scores_stand_out(factors):
    items, users = factors
    scores = users[:500] @ items.T
    tenth = np.partition(scores, -10, axis=1)[:, -10]
    assert np.median(tenth / scores.std(axis=1)) > 6
