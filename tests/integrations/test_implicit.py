"""Adapters for implicit, beside implicit's own answers."""

import pickle
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse
from conftest import DATA, NEEDS_DATA

from tessella.integrations.implicit import ImplicitRecommender, from_implicit

pytest.importorskip("implicit", reason="implicit is not installed; make test-integrations has it")

import threadpoolctl
from implicit.cpu.als import AlternatingLeastSquares
from implicit.cpu.bpr import BayesianPersonalizedRanking
from implicit.cpu.lmf import LogisticMatrixFactorization
from implicit.nearest_neighbours import BM25Recommender, CosineRecommender, ItemItemRecommender, TFIDFRecommender

N_USERS, N_ITEMS = 60, 40
ALL = list(range(N_USERS))
KINDS = {
    "ALS": (AlternatingLeastSquares, {}),
    "ALS, alpha": (AlternatingLeastSquares, {"alpha": 7.0, "regularization": 0.1}),
    "ALS, float64": (AlternatingLeastSquares, {"dtype": np.float64}),
    "BPR": (BayesianPersonalizedRanking, {}),
    "LMF": (LogisticMatrixFactorization, {}),
}


def interactions():
    rng = np.random.default_rng(0)
    matrix = scipy.sparse.random(N_USERS, N_ITEMS, 0.15, format="csr", random_state=rng, dtype=np.float32)
    matrix.data[:] = rng.integers(1, 5, len(matrix.data))
    return scipy.sparse.csr_matrix(matrix)


USER_ITEMS = interactions()
ITEM_USERS = scipy.sparse.csr_matrix(USER_ITEMS.T)


@pytest.fixture(scope="module", autouse=True)
def one_blas_thread():
    """As implicit advises; without it, it warns."""
    with threadpoolctl.threadpool_limits(1, "blas"):
        yield


@pytest.fixture(scope="module", params=KINDS)
def model(request):
    kind, options = KINDS[request.param]
    made = kind(factors=8, random_state=0, num_threads=1, iterations=5, **options)
    made.fit(USER_ITEMS, show_progress=False)
    return made


def assert_same(ours, theirs):
    """Types, shapes and scores are equal, and ids wherever no other score comes close."""
    for our, their in zip(ours, theirs, strict=True):
        assert our.shape == their.shape
        assert our.dtype == their.dtype
    scores = np.atleast_2d(theirs[1]).astype(np.float64)
    np.testing.assert_allclose(np.atleast_2d(ours[1]), scores, rtol=2e-5, atol=2e-5)
    with np.errstate(invalid="ignore"):
        near = np.abs(np.diff(scores, axis=1)) <= 1e-5
    near &= scores[:, 1:] != 0  # padding, whose order must be the same
    near &= scores[:, 1:] > np.finfo(np.float32).min / 1e3
    edge = np.zeros((len(scores), 1), bool)
    tied = np.hstack([edge, near]) | np.hstack([near, edge])
    assert np.count_nonzero(tied) <= 2 + 0.2 * tied.size
    np.testing.assert_array_equal(np.atleast_2d(ours[0])[~tied], np.atleast_2d(theirs[0])[~tied])


RECOMMENDED = {
    "one user": (3, {"N": 5}),
    "a NumPy number": (np.int32(3), {}),
    "some": ([3, 1, 1], {"N": 4}),
    "an array": (np.array([5, 0]), {"N": 7}),
    "everybody": (ALL, {}),
    "nobody": ([], {"N": 3}),
    "seen ones, too": ([3, 1], {"filter_already_liked_items": False}),
    "more than are left": (ALL, {"N": N_ITEMS - 3}),
    "as many as there are": (ALL, {"N": N_ITEMS}),
    "more than there are": ([3, 1], {"N": N_ITEMS + 6}),
    "more than there are, for one": (7, {"N": N_ITEMS + 6, "filter_already_liked_items": False}),
    "without some": (ALL, {"filter_items": [0, 5, 39]}),
    "without an array, seen ones, too": (4, {"filter_items": np.array([3, 2]), "filter_already_liked_items": False}),
    "without most": ([1, 2], {"filter_items": list(range(37)), "N": 9}),
    "without none": ([1, 2], {"filter_items": []}),
    "of some": (ALL, {"items": [7, 3, 30, 12, 11, 5]}),
    "of some, seen ones, too": (2, {"items": np.array([7, 3, 30], np.int16), "filter_already_liked_items": False}),
    "of one": ([1, 2], {"items": [4], "N": 3}),
}


@pytest.mark.parametrize("case", RECOMMENDED)
def test_recommend_is_implicits(model, case):
    userid, options = RECOMMENDED[case]
    liked = USER_ITEMS[[userid] if np.isscalar(userid) else list(userid)]
    assert_same(
        ImplicitRecommender(model).recommend(userid, liked, **options), model.recommend(userid, liked, **options)
    )


def test_what_was_liked_need_not_be_given_if_it_is_not_needed(model):
    options = {"filter_already_liked_items": False}
    assert_same(ImplicitRecommender(model).recommend(ALL, None, **options), model.recommend(ALL, None, **options))


def test_a_matrix_may_have_other_columns_and_store_zeros(model):
    ours = ImplicitRecommender(model)
    narrow = scipy.sparse.csr_matrix(USER_ITEMS[:, :10])
    wide = scipy.sparse.csr_matrix((USER_ITEMS.data, USER_ITEMS.indices, USER_ITEMS.indptr), (N_USERS, N_ITEMS + 9))
    zeros = USER_ITEMS.copy()
    zeros.data[::2] = 0
    for liked in (narrow, wide, zeros):
        assert_same(ours.recommend(ALL, liked), model.recommend(ALL, liked))
    some = {"items": list(range(20))}  # here, and only here, implicit passes stored zeros over
    assert_same(ours.recommend(ALL, zeros, **some), model.recommend(ALL, zeros, **some))
    assert zeros.nnz == USER_ITEMS.nnz
    assert_same(ours.recommend(ALL, scipy.sparse.csr_array(USER_ITEMS)), model.recommend(ALL, USER_ITEMS))


SIMILAR = {
    "one": (3, {"N": 5}),
    "some": ([3, 1, 1], {}),
    "none": ([], {}),
    "more than there are": ([3, 1], {"N": 70}),
    "without some": ([3, 1], {"filter_": [3, 4, 5]}),
    "without most": ([3, 1], {"filter_": list(range(35)), "N": 40}),
    "of some": ([3, 1], {"": [9, 3, 20, 4, 1], "N": 3}),
    "of too few": (3, {"": np.array([9, 3, 20], np.int32), "N": 5}),
}


@pytest.mark.parametrize("what", ["items", "users"])
@pytest.mark.parametrize("case", SIMILAR)
def test_similar_ones_are_implicits(model, what, case):
    numbers, given = SIMILAR[case]
    options = {name if name == "N" else name + what: value for name, value in given.items()}
    ours = getattr(ImplicitRecommender(model), f"similar_{what}")(numbers, **options)
    with np.errstate(over="ignore"):  # implicit divides its lowest number by norms below 1
        assert_same(ours, getattr(model, f"similar_{what}")(numbers, **options))


def test_factors_of_zeros_are_like_nothing():
    made = AlternatingLeastSquares(factors=4, num_threads=1)
    made.item_factors, made.user_factors = np.random.default_rng(0).standard_normal((2, 9, 4)).astype(np.float32)
    made.item_factors[3] = 0
    ours = ImplicitRecommender(made)
    np.testing.assert_array_equal(ours.similar_items(3, N=5)[1], made.similar_items(3, N=5)[1])
    assert_same(ours.similar_items([1, 2], N=9), made.similar_items([1, 2], N=9))


def test_users_and_items_are_computed_anew_where_implicit_can(model):
    ours = ImplicitRecommender(model)
    if isinstance(model, AlternatingLeastSquares):
        for userid in (3, ALL):
            liked = USER_ITEMS[userid]
            assert_same(
                ours.recommend(userid, liked, recalculate_user=True),
                model.recommend(userid, liked, recalculate_user=True),
            )
        empty = scipy.sparse.csr_matrix((1, N_ITEMS), dtype=np.float32)
        np.testing.assert_array_equal(ours.recommend(0, empty, recalculate_user=True)[1], np.zeros(10))
        for itemid in (3, [3, 1, 4]):
            users = ITEM_USERS[itemid]
            options = {"recalculate_item": True, "item_users": users}
            assert_same(ours.similar_items(itemid, **options), model.similar_items(itemid, **options))
    else:
        for one in (ours, model):
            with pytest.raises(NotImplementedError):
                one.recommend(3, USER_ITEMS[3], recalculate_user=True)
            with pytest.raises(NotImplementedError):
                one.similar_items(3, recalculate_item=True, item_users=ITEM_USERS[3])


@pytest.mark.parametrize(
    ("call", "refused"),
    [
        (lambda one: one.recommend(N_USERS, USER_ITEMS[0]), IndexError),
        (lambda one: one.recommend([0, N_USERS], USER_ITEMS[:2]), IndexError),
        (lambda one: one.recommend([0, 1], USER_ITEMS[:3]), ValueError),
        (lambda one: one.recommend(0, USER_ITEMS.tocoo()), ValueError),
        (lambda one: one.recommend(0, None), ValueError),
        (lambda one: one.recommend(0, USER_ITEMS[0], items=[N_ITEMS]), IndexError),
        (lambda one: one.recommend(0, USER_ITEMS[0], items=[1], filter_items=[2]), ValueError),
        (lambda one: one.recommend(0, USER_ITEMS[0], filter_items=[N_ITEMS]), IndexError),
        (lambda one: one.recommend(np.array([True, False]), USER_ITEMS[:2]), (IndexError, TypeError)),
        (lambda one: one.similar_items(N_ITEMS), IndexError),
        (lambda one: one.similar_users(N_USERS), IndexError),
        (lambda one: one.similar_users(0, users=[1], filter_users=[2]), ValueError),
    ],
)
def test_what_implicit_refuses_is_refused_alike(model, call, refused):
    for one in (model, ImplicitRecommender(model)):
        with pytest.raises(refused):
            call(one)


@pytest.mark.parametrize("kind", [ItemItemRecommender, CosineRecommender, TFIDFRecommender, BM25Recommender])
def test_item_item_models_are_refused(kind):
    made = kind(num_threads=1)
    with warnings.catch_warnings(action="ignore"):
        made.fit(USER_ITEMS.astype(np.float64), show_progress=False)
    for adapter in (from_implicit, ImplicitRecommender):
        with pytest.raises(TypeError, match=rf"{kind.__name__} has no item_factors and user_factors: item-item"):
            adapter(made)


def test_a_model_must_be_trained():
    with pytest.raises(
        ValueError, match=r"the AlternatingLeastSquares has no factors yet; call its fit method first\."
    ):
        ImplicitRecommender(AlternatingLeastSquares())


def test_training_goes_on_without_mixing_two_models():
    made = AlternatingLeastSquares(factors=8, random_state=0, num_threads=1, iterations=2)
    made.fit(USER_ITEMS, show_progress=False)
    ours, whole = ImplicitRecommender(made), from_implicit(made, USER_ITEMS)
    before = made.recommend(ALL, USER_ITEMS)
    made.fit(USER_ITEMS, show_progress=False)
    assert_same(ours.recommend(ALL, USER_ITEMS), before)
    np.testing.assert_allclose(whole.recommend(ALL).scores, before[1], rtol=1e-5, atol=1e-6)


def test_matrices_of_a_gpu_are_taken_from_it(model):
    """As far as adapters see, those of implicit are objects with to_numpy."""
    gpu = SimpleNamespace(
        item_factors=SimpleNamespace(to_numpy=lambda: model.item_factors),
        user_factors=SimpleNamespace(to_numpy=lambda: model.user_factors),
    )
    assert_same(ImplicitRecommender(gpu).recommend(ALL, USER_ITEMS), model.recommend(ALL, USER_ITEMS))


def test_threads_and_copies_change_nothing(model):
    expected = ImplicitRecommender(model).recommend(ALL, USER_ITEMS)
    for other in (ImplicitRecommender(model, threads=3), pickle.loads(pickle.dumps(ImplicitRecommender(model)))):  # noqa: S301
        for mine, theirs in zip(other.recommend(ALL, USER_ITEMS), expected, strict=True):
            np.testing.assert_array_equal(mine, theirs)


def test_a_recommender_recommends_what_implicit_does(model):
    whole = from_implicit(model, USER_ITEMS)
    theirs = model.recommend(ALL, USER_ITEMS, N=6)
    found = whole.recommend(ALL, k=6)
    assert_same((found.ids.astype(np.int32), found.scores.astype(theirs[1].dtype)), theirs)
    assert whole.recommend(3, k=4).ids.shape == (4,)


def test_a_recommender_takes_ids_and_options(model):
    names = [f"item {number}" for number in range(N_ITEMS)]
    whole = from_implicit(
        model, USER_ITEMS, item_ids=names, user_ids=[f"user {number}" for number in ALL], method="exact"
    )
    found = whole.recommend("user 3", k=2)
    theirs, _ = model.recommend(3, USER_ITEMS[3], N=2)
    assert found.ids.tolist() == [names[number] for number in theirs]
    assert found.certified


def test_folding_in_is_recalculating(model):
    if not isinstance(model, AlternatingLeastSquares):
        pytest.skip("implicit recalculates for ALS only")
    whole = from_implicit(model)
    for user in (0, 17):
        liked = USER_ITEMS[user]
        folded = whole.fold_in(liked.indices, liked.data, regularization=model.regularization, alpha=model.alpha)
        np.testing.assert_allclose(folded, model.recalculate_user(user, liked), atol=1e-5)


@NEEDS_DATA
@pytest.mark.parametrize("kind", [AlternatingLeastSquares, BayesianPersonalizedRanking, LogisticMatrixFactorization])
def test_everybody_of_movielens_gets_what_implicit_recommends(kind):
    users, items, ratings = np.loadtxt(DATA / "ml-100k" / "u.data", dtype=np.int64, usecols=(0, 1, 2)).T
    rated = scipy.sparse.csr_matrix((ratings.astype(np.float32), (users - 1, items - 1)))
    made = kind(factors=32, random_state=0, num_threads=1, iterations=5)
    made.fit(rated, show_progress=False)
    everybody = np.arange(rated.shape[0])
    assert_same(ImplicitRecommender(made).recommend(everybody, rated), made.recommend(everybody, rated))
    found = from_implicit(made, rated, method="exact").recommend_all(k=10)
    assert_same((found.ids.astype(np.int32), found.scores), made.recommend(everybody, rated))
