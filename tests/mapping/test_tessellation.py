"""Tessellations against full enumeration and the paper's claims."""

import itertools

import numpy as np
import pytest
from conftest import factor_matrices, plain_floats, whole_floats
from hypothesis import given
from hypothesis import strategies as st

import tessella as ts


def all_tiles(k, levels, max_nonzeros=None):
    """Every non-zero vector with integer coordinates in [-levels, levels]."""
    grid = np.array(list(itertools.product(range(-levels, levels + 1), repeat=k)))
    nonzeros = np.count_nonzero(grid, axis=1)
    return grid[(nonzeros > 0) & (nonzeros <= (max_nonzeros or k))].astype(np.float64)


def cosines(factors, tiles):
    """Cosine between each factor and its tile, in float64."""
    factors = factors.astype(np.float64)
    factors = factors / np.abs(factors).max(axis=1, keepdims=True)
    tiles = tiles.astype(np.float64)
    norms = np.linalg.norm(factors, axis=1) * np.linalg.norm(tiles, axis=1)
    return np.sum(factors * tiles, axis=1) / norms


def best_cosines(factors, vectors):
    factors = factors.astype(np.float64)
    factors = factors / np.linalg.norm(factors / np.abs(factors).max(axis=1, keepdims=True), axis=1, keepdims=True)
    factors = factors / np.abs(factors).max(axis=1, keepdims=True)
    factors /= np.linalg.norm(factors, axis=1, keepdims=True)
    return (factors @ (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).T).max(axis=1)


def assert_nearest(tessellation, factors, vectors):
    """The tile is one of the vectors and none is nearer."""
    factors = factors[factors.any(axis=1)]
    if not len(factors):
        return
    tiles = tessellation.tiles(factors)
    np.testing.assert_allclose(cosines(factors, tiles), best_cosines(factors, vectors), rtol=1e-12)
    assert {tuple(tile) for tile in tiles.tolist()} <= {tuple(vector) for vector in vectors.astype(int).tolist()}


@pytest.mark.parametrize("k", range(1, 9))
def test_ternary_is_exact(k, rng):
    vectors = all_tiles(k, 1)
    assert len(vectors) == 3**k - 1  # erratum 1: 8 vectors for k = 2
    assert_nearest(ts.Ternary(), rng.standard_normal((60, k)), vectors)
    assert_nearest(ts.Ternary(), rng.integers(-3, 4, (60, k)), vectors)


@given(factors=factor_matrices(max_factors=6))
def test_ternary_is_exact_for_any_factor(factors):
    assert_nearest(ts.Ternary(), factors, all_tiles(factors.shape[1], 1))


@pytest.mark.parametrize(("k", "cap"), [(k, cap) for k in range(1, 9) for cap in range(1, k + 2)])
def test_ternary_with_dropped_vectors_is_exact(k, cap, rng):
    vectors = all_tiles(k, 1, max_nonzeros=cap)
    assert_nearest(ts.Ternary(max_nonzeros=cap), rng.standard_normal((30, k)), vectors)
    assert_nearest(ts.Ternary(max_nonzeros=cap), rng.integers(-2, 3, (30, k)), vectors)


def test_one_nonzero_is_the_cross_polytope(rng):
    factors = rng.standard_normal((200, 17))
    tiles = ts.Ternary(max_nonzeros=1).tiles(factors)
    largest = np.abs(factors).argmax(axis=1)
    expected = np.zeros(factors.shape)
    expected[np.arange(200), largest] = np.sign(factors[np.arange(200), largest])
    np.testing.assert_array_equal(tiles, expected)


@pytest.mark.parametrize(
    ("k", "levels"), [(k, d) for k in range(1, 10) for d in range(1, 13) if (2 * d + 1) ** k <= 20_000]
)
def test_dary_is_exact(k, levels, rng):
    vectors = all_tiles(k, levels)
    assert_nearest(ts.DAry(levels), rng.standard_normal((25, k)), vectors)
    assert_nearest(ts.DAry(levels), rng.integers(-5, 6, (25, k)), vectors)
    assert_nearest(ts.DAry(levels), rng.standard_cauchy((25, k)) ** 3, vectors)


@given(factors=factor_matrices(max_factors=4), levels=st.integers(1, 5))
def test_dary_is_exact_for_any_factor(factors, levels):
    assert_nearest(ts.DAry(levels), factors, all_tiles(factors.shape[1], levels))


@given(factors=factor_matrices(max_factors=40))
def test_one_level_is_ternary(factors):
    np.testing.assert_array_equal(ts.DAry(1).tiles(factors), ts.Ternary().tiles(factors))


@given(factors=factor_matrices(elements=plain_floats()), levels=st.integers(1, 20))
def test_rounding_keeps_lemma_2(factors, levels):
    """Lemma 2 with its constant.

    Rounding moves the unit factor by e <= sqrt(k) / 2D, or sqrt(k + 3) / 2D where the hole is mended; the paper's chain
    of inequalities gives |a - a*| <= 4e for the tiles, and d = |a - a*|^2 / 2.
    """
    factors = factors[factors.any(axis=1)]
    if not len(factors):
        return
    k = factors.shape[1]
    nearest, rounded = ts.DAry(levels).tiles(factors), ts.DAry(levels, algorithm="rounded").tiles(factors)
    assert rounded.any(axis=1).all()  # erratum 6: never the zero vector
    assert (1 - cosines(nearest, rounded) <= 2 * (k + 3) / levels**2 + 1e-9).all()
    assert (cosines(factors, rounded) <= cosines(factors, nearest) + 1e-12).all()


def test_rounding_is_algorithm_4(rng):
    factors = rng.standard_normal((300, 12)).astype(np.float32)
    unit = factors / np.linalg.norm(factors.astype(np.float64), axis=1, keepdims=True)
    for levels in (1, 2, 5, 100):
        expected = np.round(levels * unit)
        tiles = ts.DAry(levels, algorithm="rounded").tiles(factors)
        whole = expected.any(axis=1)
        np.testing.assert_array_equal(tiles[whole], expected[whole])
        np.testing.assert_array_equal(tiles[~whole], ts.Ternary(max_nonzeros=1).tiles(factors[~whole]))
    assert not np.round(unit).any(axis=1).all()  # the hole is there to be mended


def test_ties_of_rounding_go_up():
    np.testing.assert_array_equal(ts.DAry(5, algorithm="rounded").tiles([[0.3, 0.4], [-0.3, 0.4]]), [[3, 4], [-3, 4]])
    np.testing.assert_array_equal(
        ts.DAry(1, algorithm="rounded").tiles([[1, 1, 1, 1], [-1, 1, -1, 1]]), [[1] * 4, [0, 1, 0, 1]]
    )


@pytest.mark.parametrize(
    "tessellation",
    [ts.Ternary(), ts.Ternary(3), ts.DAry(3), ts.DAry(3, algorithm="rounded"), ts.RandomTessellation(30)],
)
@given(factors=factor_matrices(elements=plain_floats()), power=st.integers(-40, 40))
def test_only_the_direction_counts(tessellation, factors, power):
    np.testing.assert_array_equal(tessellation.tiles(factors * 2.0**power), tessellation.tiles(factors))


@pytest.mark.parametrize("t", range(1, 8))
def test_neighbours_of_ternary_tiles_differ_in_one_coordinate(t):
    vectors = all_tiles(7, 1)
    tile = np.array([1.0] * t + [0.0] * (7 - t))
    distances = 1 - vectors @ tile / np.linalg.norm(vectors, axis=1) / np.sqrt(t)
    away = np.abs(vectors - tile).sum(axis=1) > 0
    nearest = distances[away].min()
    neighbours = vectors[away & (distances < nearest + 1e-9)]
    assert (np.abs(neighbours - tile).sum(axis=1) == 1).all()
    t_smaller = t if t < 7 else t - 1  # a full tile has smaller neighbours only
    assert nearest == pytest.approx(1 - np.sqrt(t_smaller / (t_smaller + 1)))


@pytest.mark.parametrize("tessellation", [ts.Ternary(), ts.DAry(2), ts.DAry(2, algorithm="rounded")])
def test_zero_rows_have_no_tile(tessellation):
    np.testing.assert_array_equal(tessellation.tiles(np.zeros((3, 4))), np.zeros((3, 4)))
    np.testing.assert_array_equal(tessellation.tiles([-0.0, 0.0]), [0, 0])


@pytest.mark.parametrize("tessellation", [ts.Ternary(), ts.DAry(4), ts.DAry(4, algorithm="rounded")])
@pytest.mark.parametrize("k", [1, 4096])
def test_narrow_and_wide_factors(tessellation, k, rng):
    factors = rng.standard_normal((20, k))
    tiles = tessellation.tiles(factors)
    assert tiles.shape == factors.shape
    assert tiles.dtype == np.int8
    assert ((np.sign(tiles) == np.sign(factors)) | (tiles == 0)).all()


@pytest.mark.parametrize("tessellation", [ts.Ternary(), ts.DAry(2)])
def test_shape_follows_the_input(tessellation):
    assert tessellation.tiles([3.0, 1.0, 0.5]).shape == (3,)
    assert tessellation.tiles(np.zeros((0, 3))).shape == (0, 3)


@pytest.mark.parametrize("tessellation", [ts.Ternary(), ts.Ternary(5), ts.DAry(3), ts.DAry(3, algorithm="rounded")])
def test_threads_and_batches_change_nothing(tessellation, rng, monkeypatch):
    factors = rng.standard_normal((500, 30)).astype(np.float32)
    expected = tessellation.tiles(factors, threads=1)
    monkeypatch.setattr("tessella._checks._factors._ELEMENTS_PER_BLOCK", 30 * 41)
    for threads in (1, 2, 7):
        np.testing.assert_array_equal(tessellation.tiles(factors, threads=threads), expected)
    np.testing.assert_array_equal(np.concatenate([tessellation.tiles(row[None]) for row in factors]), expected)


class TestNumbered:
    def test_nearest_by_definition(self, rng):
        vectors = rng.standard_normal((50, 6))
        factors = rng.standard_normal((300, 6))
        expected = np.argsort(-(factors @ (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).T), axis=1)
        numbers = ts.ExplicitTessellation(vectors).tiles(factors, n_nearest=4)
        np.testing.assert_array_equal(numbers, expected[:, :4])
        np.testing.assert_array_equal(ts.ExplicitTessellation(vectors).tiles(factors), expected[:, :1])

    @given(factors=factor_matrices(max_factors=5, elements=whole_floats(-2, 2)))
    def test_ties_go_to_the_lower_number(self, factors):
        k = factors.shape[1]
        vectors = np.repeat(np.concatenate([np.eye(k), -np.eye(k)]), 2, axis=0)
        numbers = ts.ExplicitTessellation(vectors).tiles(factors, n_nearest=3)
        for factor, found in zip(factors, numbers, strict=True):
            expected = np.argsort(-(vectors @ factor), kind="stable")[:3] if factor.any() else [-1, -1, -1]
            padded = np.pad(expected, (0, 3 - len(expected)), constant_values=-1)
            np.testing.assert_array_equal(found, padded)

    def test_batches_change_nothing(self, rng):
        vectors = np.round(rng.standard_normal((200, 3)))
        vectors = vectors[vectors.any(axis=1)]
        factors = np.round(rng.standard_normal((400, 3)))
        tessellation = ts.ExplicitTessellation(vectors)
        alone = np.concatenate([tessellation.tiles(row[None], 5) for row in factors])
        np.testing.assert_array_equal(tessellation.tiles(factors, 5), alone)

    def test_more_wanted_than_there_are(self):
        numbers = ts.ExplicitTessellation(np.eye(2)).tiles([[2.0, 1.0], [0.0, 0.0]], n_nearest=4)
        np.testing.assert_array_equal(numbers, [[0, 1, -1, -1], [-1] * 4])

    def test_random_directions_are_seeded_and_unit(self):
        drawn = ts.RandomTessellation(1000, seed=3).explicit(8)
        assert drawn == ts.RandomTessellation(1000, seed=3).explicit(8)
        assert drawn != ts.RandomTessellation(1000, seed=4).explicit(8)
        np.testing.assert_allclose(np.linalg.norm(drawn.vectors, axis=1), 1)
        assert np.abs(drawn.vectors.mean(axis=0)).max() < 5 / np.sqrt(8 * 1000)

    def test_vectors_are_a_copy(self):
        vectors = np.eye(3)
        tessellation = ts.ExplicitTessellation(vectors)
        vectors[:] = 5
        np.testing.assert_array_equal(tessellation.vectors, np.eye(3))
        with pytest.raises(ValueError, match="read-only"):
            tessellation.vectors[0, 0] = 2
