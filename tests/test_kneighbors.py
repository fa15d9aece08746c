"""Index.kneighbors beside scikit-learn's NearestNeighbors."""

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import normalize

import tessella as ts
from tessella.datasets import generated_factors


def negative_product(one, other):
    return -float(one @ other)


@pytest.fixture
def items(rng):
    return rng.standard_normal((60, 5)).astype(np.float32)


@pytest.fixture
def users(rng):
    return rng.standard_normal((8, 5)).astype(np.float32)


def test_equals_scikit_learn_where_its_distance_is_the_negative_inner_product(items, users):
    known = NearestNeighbors(n_neighbors=7, metric=negative_product, algorithm="brute").fit(items)
    index = ts.Index.build(items)
    for theirs, ours in (
        (known.kneighbors(users), index.kneighbors(users, 7)),
        (known.kneighbors(users, 3), index.kneighbors(X=users, n_neighbors=3, return_distance=True)),
    ):
        np.testing.assert_allclose(ours[0], theirs[0], atol=1e-5)
        np.testing.assert_array_equal(ours[1], theirs[1])
    np.testing.assert_array_equal(
        index.kneighbors(users, 7, return_distance=False), known.kneighbors(users, return_distance=False)
    )


def test_on_rows_of_length_1_a_distance_is_the_cosine_distance_less_1(items, users):
    known = NearestNeighbors(metric="cosine").fit(items)  # 5 neighbours by default, as here
    index = ts.Index.build(normalize(items))
    for theirs, ours in (
        (known.kneighbors(users), index.kneighbors(normalize(users))),
        (known.kneighbors(), index.kneighbors()),  # of every item, itself left out
    ):
        np.testing.assert_allclose(1 + ours[0], theirs[0], atol=1e-5)
        np.testing.assert_array_equal(ours[1], theirs[1])


def test_an_item_is_left_out_though_others_are_nearer_to_it(items):
    products = items @ items.T
    assert (products.argmax(axis=1) != np.arange(60)).any()  # there scikit-learn leaves out the nearest instead
    np.fill_diagonal(products, -np.inf)
    distances, indices = ts.Index.build(items).kneighbors()
    np.testing.assert_array_equal(indices, np.argsort(-products, axis=1)[:, :5])
    np.testing.assert_allclose(distances, -np.take_along_axis(products, indices, axis=1), atol=1e-5)


def test_answers_are_exact_whatever_the_plan():
    items, users = generated_factors(6000, 40)
    index = ts.Index.build(items, method=ts.LearnedTiles(), target_recall=0.5)
    assert isinstance(index.plan.method, ts.Tiles)
    found = index.search(users, 10, exact=True)
    distances, indices = index.kneighbors(users, 10)
    np.testing.assert_array_equal(indices, found.ids)
    np.testing.assert_array_equal(distances, -found.scores)
    assert distances.dtype == np.float32
    assert (np.diff(distances, axis=1) >= 0).all()


def test_ids_name_items_while_they_come_and_go():
    index = ts.Index.build(np.eye(3), ["a", "b", "c"])
    index.add([[2.0, 1.0, 0.0]], ["d"])
    index.remove(["a"])
    distances, indices = index.kneighbors([1.0, 0.0, 0.0], 3)
    assert indices.tolist() == ["d", "b", "c"]
    assert distances.tolist() == [-2, 0, 0]
    assert not np.signbit(distances[1:]).any()
    assert index.ids.tolist() == ["b", "c", "d"]
    assert index.kneighbors(n_neighbors=2, return_distance=False).tolist() == [["d", "c"], ["b", "d"], ["b", "c"]]


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        ({"X": np.eye(3), "n_neighbors": 4}, ValueError, r"^n_neighbors is 4, but the index holds 3 items\.$"),
        ({"n_neighbors": 3}, ValueError, r"^n_neighbors is 3, but the index holds 3 items, and an item is not its own neighbour\.$"),
        ({"X": np.eye(3), "n_neighbors": 0}, ValueError, r"^n_neighbors is 0, but must be at least 1\.$"),
        ({"X": np.eye(3), "n_neighbors": 1.5}, TypeError, r"^n_neighbors must be an integer, not float\.$"),
        ({"X": np.eye(2), "n_neighbors": 1}, ValueError, r"^queries has 2 columns, but 3 are expected\.$"),
        ({"X": np.eye(3), "n_neighbors": 1, "return_distance": 1}, TypeError, r"^return_distance must be True or False, not int\.$"),
        ({"X": np.eye(3), "n_neighbors": 1, "threads": 0}, ValueError, r"^threads is 0, but at least 1 is needed"),
    ],
)  # fmt: skip
def test_bad_arguments_get_a_sentence(arguments, error, sentence):
    with pytest.raises(error, match=sentence):
        ts.Index.build(np.eye(3)).kneighbors(**arguments)
