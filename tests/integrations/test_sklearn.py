"""The adapter for scikit-learn, beside the matrices that its decompositions believe in."""

import numpy as np
import pytest
import scipy.sparse

pytest.importorskip("sklearn", reason="scikit-learn is not installed; make test-integrations has it")

from sklearn.decomposition import NMF, PCA, LatentDirichletAllocation, TruncatedSVD
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.feature_selection import SelectKBest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from tessella.integrations.sklearn import from_sklearn

RATED = scipy.sparse.random(30, 25, 0.3, format="csr", random_state=0)
USERS = np.arange(30)


def assert_best(recommender, scores, k=4):
    unseen = np.where(RATED.toarray() != 0, -np.inf, scores)
    found = recommender.recommend(USERS, k=k)
    np.testing.assert_allclose(found.scores, -np.sort(-unseen, axis=1)[:, :k], rtol=1e-4, atol=1e-5)
    picked = np.take_along_axis(unseen, found.ids, axis=1)
    np.testing.assert_allclose(picked, found.scores, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", [TruncatedSVD, NMF])
def test_scores_are_the_matrix_made_again(kind):
    options = {"max_iter": 2000} if kind is NMF else {}
    model = kind(6, random_state=0, **options).fit(RATED)
    expected = model.inverse_transform(model.transform(RATED))
    for given in (RATED, RATED.tocsc(), RATED.toarray()):
        assert_best(from_sklearn(model, given), expected)


def test_a_pipeline_prepares_the_matrix():
    model = make_pipeline(TfidfTransformer(), TruncatedSVD(6, random_state=0)).fit(RATED)
    assert_best(from_sklearn(model, RATED), model[-1].inverse_transform(model.transform(RATED)))


def test_a_normalizer_may_follow():
    model = make_pipeline(TruncatedSVD(6, random_state=0), Normalizer(), "passthrough").fit(RATED)
    assert_best(from_sklearn(model, RATED), model[0].inverse_transform(model.transform(RATED)))


def test_who_comes_later_is_a_vector():
    model = TruncatedSVD(6, random_state=0).fit(RATED)
    recommender = from_sklearn(model, RATED[:20], seen=None)
    later = recommender.recommend(model.transform(RATED[20:]), k=3, exact=True)
    expected = model.inverse_transform(model.transform(RATED[20:]))
    np.testing.assert_array_equal(later.ids, np.argsort(-expected, axis=1)[:, :3])


def test_zeros_that_are_stored_were_not_seen():
    stored = RATED.copy()
    stored.data[0] = 0
    model = TruncatedSVD(2, random_state=0).fit(stored)
    ids = from_sklearn(model, stored).recommend(0, k=25).ids
    assert stored.indices[0] in ids
    assert stored.nnz == RATED.nnz


@pytest.mark.parametrize(
    ("model", "refused", "sentence"),
    [
        (Normalizer(), TypeError, r"Normalizer has no components_; pass a fitted TruncatedSVD or NMF"),
        (TruncatedSVD(2), TypeError, r"TruncatedSVD has no components_; pass a fitted"),
        (PCA(2).fit(RATED.toarray()), TypeError, r"PCA is not a plain product of two matrices; use TruncatedSVD"),
        (LatentDirichletAllocation(2).fit(RATED), TypeError, r"LatentDirichletAllocation is not a plain product"),
        (
            make_pipeline(TruncatedSVD(2), StandardScaler()).fit(RATED),
            ValueError,
            r"step 'standardscaler' comes after the decomposition and may change the order of items; remove it\.",
        ),
        (
            make_pipeline(SelectKBest(lambda x, _: np.arange(x.shape[1]), k=9), TruncatedSVD(2)).fit(RATED, USERS),
            ValueError,
            r"user_items has 25 columns, but the decomposition has 9 items; remove pipeline steps that change the columns\.",
        ),
    ],
)
def test_what_is_no_product_gets_a_sentence(model, refused, sentence):
    with pytest.raises(refused, match=sentence):
        from_sklearn(model, RATED)
