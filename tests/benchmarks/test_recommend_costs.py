"""What a recommender costs is measured as it is described."""

import bench_recommend
import numpy as np
import peers
import pytest
import scipy.sparse
import sets

import tessella as ts


@pytest.fixture(scope="module")
def case():
    factors = sets.generated(12_000, 8, 60)
    seen = scipy.sparse.random(60, 12_000, 0.002, format="csr", random_state=0)
    return bench_recommend.Case("a set", factors, seen, np.arange(0, 60, 2), 1)


@pytest.fixture(scope="module")
def model(case):
    return ts.Recommender.build(*case.factors, seen=case.seen, attributes=case.attributes())


def test_shelves_have_the_shares_that_they_say(case):
    shelf = case.attributes()["shelf"]
    for name, share in bench_recommend.SHELVES.items():
        assert np.count_nonzero(shelf == name) == round(share * len(shelf))
    _, counts = np.unique(shelf, return_counts=True)
    assert len(counts) > 40


def test_the_truth_is_that_of_an_exact_recommender(case, model):
    allowed = np.flatnonzero(case.attributes()["shelf"] == "tenth")
    found = model.recommend(case.asked, exact=True, where={"shelf": "tenth"})
    true = case.truth(allowed=allowed)
    np.testing.assert_allclose(found.scores, true, rtol=1e-5, atol=1e-6)
    assert case.recall(found.ids, true) == 1.0
    assert case.recall(found.ids, case.truth(allowed=allowed, unseen=False) + 1e-3) < 1.0


def test_every_part_has_figures_with_recall(case, model):
    for part in ("seen", "boost", "pages"):
        figures = list(bench_recommend.PARTS[part](case, model))
        assert {one["part"] for one in figures} == {part}
        for one in figures:
            recalls = one["recall"].values() if isinstance(one["recall"], dict) else [one["recall"]]
            assert min(recalls) > 0.8
    (folded,) = bench_recommend.folded_in(case, model)
    assert folded["off"] < 1e-5


@pytest.mark.skipif(not peers.FLAT.installed, reason="faiss is not installed")
def test_conditions_are_measured_against_faiss(case, model):
    figures = list(bench_recommend.narrowed(case, model))
    assert [one["share"] for one in figures] == list(bench_recommend.SHELVES.values())
    assert min(one["recall"]["exact"] for one in figures) == 1.0


def test_least_squares_is_implicits(case, model):
    liked = np.array([3, 5, 8])
    np.testing.assert_allclose(
        bench_recommend.least_squares(case.factors.items, liked, 0.1, 7.0),
        model.fold_in(liked, regularization=0.1, alpha=7.0),
        rtol=1e-4,
        atol=1e-6,
    )
