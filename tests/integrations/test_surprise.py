"""The adapter for Surprise, beside Surprise's own estimates."""

import numpy as np
import pytest

from tessella.integrations.surprise import from_surprise

surprise = pytest.importorskip("surprise", reason="scikit-surprise is not installed; make test-integrations has it")
pd = pytest.importorskip("pandas", reason="pandas is not installed; make test-integrations has it")


def trainset():
    rng = np.random.default_rng(0)
    pairs = np.unique(rng.integers(0, [20, 25], (200, 2)), axis=0)
    frame = pd.DataFrame({"user": [f"u{n}" for n in pairs[:, 0]], "item": 100 + pairs[:, 1]})
    frame["rating"] = rng.integers(1, 6, len(frame)).astype(float)
    return surprise.Dataset.load_from_df(frame, surprise.Reader(rating_scale=(1, 5))).build_full_trainset()


@pytest.mark.parametrize(
    "algorithm",
    [
        surprise.SVD(n_factors=5, random_state=0),
        surprise.SVD(n_factors=5, random_state=0, biased=False),
        surprise.SVDpp(n_factors=5, random_state=0, n_epochs=5),
        surprise.NMF(n_factors=5, random_state=0, n_epochs=5),
        surprise.NMF(n_factors=5, random_state=0, n_epochs=5, biased=True),
    ],
)
def test_recommends_what_it_estimates(algorithm):
    data = trainset()
    algorithm.fit(data)
    estimates = np.array([[algorithm.estimate(u, i) for i in data.all_items()] for u in data.all_users()])
    rated = {(u, i) for u, i, _ in data.all_ratings()}
    for user, item in rated:
        estimates[user, item] = -np.inf
    if getattr(algorithm, "biased", True):
        estimates -= data.global_mean + np.asarray(algorithm.bu)[:, None]
    users = [data.to_raw_uid(user) for user in data.all_users()]
    found = from_surprise(algorithm).recommend(users, k=3)
    best = np.argsort(-estimates, axis=1)[:, :3]
    np.testing.assert_allclose(found.scores, np.take_along_axis(estimates, best, 1), rtol=1e-4, atol=1e-5)
    assert found.ids.tolist() == [[data.to_raw_iid(item) for item in row] for row in best]


def test_an_algorithm_without_factors_is_refused():
    algorithm = surprise.KNNBasic(verbose=False).fit(trainset())
    with pytest.raises(TypeError, match=r"KNNBasic has no pu and qi; pass a fitted SVD, SVDpp or NMF"):
        from_surprise(algorithm)
