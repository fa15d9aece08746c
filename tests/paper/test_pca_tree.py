"""PCA-tree: balanced leaves, the route of queries, and spill."""

import itertools

import numpy as np
import pytest
from conftest import factor_matrices
from hypothesis import given
from hypothesis import strategies as st

from tessella.paper.baselines import PCATree


def leaf_sizes(tree):
    return np.diff(tree._tree.leaves.indptr)


@st.composite
def trees(draw):
    """Items, ties among them, with a depth they can fill."""
    items = draw(factor_matrices(max_rows=40, max_factors=6).filter(lambda matrix: len(matrix) >= 2))
    return items, draw(st.integers(1, len(items).bit_length() - 1))


@given(trees())
def test_leaves_are_balanced(case):
    items, depth = case
    tree = PCATree(depth).fit(items)
    sizes = leaf_sizes(tree)
    assert len(sizes) == 2**depth
    np.testing.assert_array_equal(np.sort(tree._tree.leaves.indices), np.arange(len(items)))
    while len(sizes) > 1:
        assert (np.abs(sizes[::2] - sizes[1::2]) <= 1).all()
        sizes = sizes[::2] + sizes[1::2]


@given(trees())
def test_items_find_themselves(case):
    items, depth = case
    tree = PCATree(depth).fit(items)
    found = tree.candidates(items).toarray()
    assert np.diag(found).all()
    np.testing.assert_array_equal(np.concatenate([tree.candidates(item[None]).toarray() for item in items]), found)


@given(trees(), st.lists(st.floats(0, 0.5), min_size=2, max_size=4), st.integers(0, 2**32))
def test_candidates_grow_with_spill(case, spills, seed):
    items, depth = case
    queries = np.random.default_rng(seed).choice(items.ravel(), (5, items.shape[1]))
    found = [PCATree(depth, spill).fit(items).candidates(queries).toarray() for spill in sorted(spills)]
    assert found[0].any(axis=1).all()
    assert found[-1].max() == 1
    for fewer, more in itertools.pairwise(found):
        assert (fewer <= more).all()


def walk(items, query, depth, spill):
    """The candidates of a query, by the definition: halve the items it is among, follow it, begin again."""
    if not depth:
        return set(items)
    points = np.array(list(items.values()))
    direction = np.linalg.svd(points - points.mean(axis=0))[2][0]
    places = {number: point @ direction for number, point in items.items()}
    order = sorted(places, key=places.get)
    middle = len(order) // 2
    low, high = np.quantile(list(places.values()), [0.5 - spill, 0.5 + spill])
    found = set()
    if query @ direction <= high:
        found |= walk({number: items[number] for number in order[:middle]}, query, depth - 1, spill)
    if query @ direction >= low:
        found |= walk({number: items[number] for number in order[middle:]}, query, depth - 1, spill)
    return found


@pytest.mark.parametrize("spill", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("depth", [1, 2, 4])
def test_candidates_by_definition(depth, spill, rng):
    # An even number in every node: the side of a middle item would hang on the sign of its direction.
    items = rng.standard_normal((64, 5)).astype(np.float32)
    queries = rng.standard_normal((20, 5)).astype(np.float32)
    found = PCATree(depth, spill).fit(items).candidates(queries)
    numbered = dict(enumerate(items.astype(np.float64)))
    for row, query in enumerate(queries.astype(np.float64)):
        assert set(found.indices[found.indptr[row] : found.indptr[row + 1]].tolist()) == walk(
            numbered, query, depth, spill
        )


@given(trees(), st.floats(0, 0.5), st.integers(0, 2**32))
def test_visits_count_the_leaves_and_splits_of_shallower_trees(case, spill, seed):
    items, depth = case
    queries = np.random.default_rng(seed).choice(items.ravel(), (5, items.shape[1]))
    trees = [PCATree(each, spill).fit(items) for each in range(1, depth + 1)]
    leaves = [tree.visits(queries).leaves for tree in trees]
    # The nodes of a level are the leaves of the tree that ends there; every query passes the root.
    np.testing.assert_array_equal(trees[-1].visits(queries).splits, 1 + sum(leaves[:-1]))
    assert (leaves[-1] <= (trees[-1].candidates(queries).toarray() > 0).sum(axis=1)).all()
    assert (PCATree(depth).fit(items).visits(queries).leaves >= 1).all()


def test_another_spill_fits_nothing_again(rng):
    items, queries = rng.standard_normal((100, 7)), rng.standard_normal((30, 7))
    tree = PCATree(4).fit(items)
    other = tree.with_spill(0.3)
    assert (tree.spill, other.spill) == (0, 0.3)
    assert other._tree is tree._tree
    expected = PCATree(4, 0.3).fit(items).candidates(queries).toarray()
    np.testing.assert_array_equal(other.candidates(queries).toarray(), expected)
    with pytest.raises(ValueError, match=r"spill is 0.6, but must be from 0 to 0.5"):
        tree.with_spill(0.6)
    with pytest.raises(ValueError, match="is not fitted"):
        PCATree(4).with_spill(0.1)


def test_blocks_change_nothing(rng, monkeypatch):
    items, queries = rng.standard_normal((100, 7)), rng.standard_normal((30, 7))
    expected = PCATree(4, spill=0.3).fit(items).candidates(queries).toarray()
    monkeypatch.setattr("tessella.paper.baselines.pca_tree._ELEMENTS_AT_ONCE", 7 * 11)
    np.testing.assert_array_equal(PCATree(4, spill=0.3).fit(items).candidates(queries).toarray(), expected)


def test_a_split_follows_the_widest_direction(rng):
    items = rng.standard_normal((200, 3)) * [1, 9, 1]
    tree = PCATree(1).fit(items)
    right = np.flatnonzero(items[:, 1] > np.median(items[:, 1]))
    found = tree.candidates([[0.0, 30.0, 0.0]])
    assert len(np.intersect1d(found.indices, right)) >= 90


def test_equal_items_and_no_queries():
    tree = PCATree(2).fit(np.ones((9, 3)))
    assert leaf_sizes(tree).tolist() == [2, 2, 2, 3]
    assert tree.candidates(np.ones((1, 3))).nnz == 9
    assert tree.candidates(np.zeros((0, 3))).shape == (0, 9)
