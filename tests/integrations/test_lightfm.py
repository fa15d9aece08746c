"""The adapter for LightFM, beside LightFM's own predictions."""

import numpy as np
import pytest
import scipy.sparse

from tessella.integrations.lightfm import from_lightfm

lightfm = pytest.importorskip("lightfm", reason="lightfm is not installed; make test-integrations has it")

N_USERS, N_ITEMS = 30, 25
RATED = scipy.sparse.random(N_USERS, N_ITEMS, 0.2, format="coo", random_state=0, dtype=np.float32)
SEEN = RATED.tocsr()
USERS = np.arange(N_USERS)


def features(n, n_features, seed):
    own = scipy.sparse.random(n, n_features, 0.3, format="csr", random_state=seed, dtype=np.float32)
    return scipy.sparse.hstack([scipy.sparse.identity(n, dtype=np.float32), own], format="csr")


def trained(**options):
    model = lightfm.LightFM(no_components=6, loss="warp", random_state=0)
    return model.fit(RATED, epochs=5, **options)


def predicted(model, **options):
    users, items = np.divmod(np.arange(N_USERS * N_ITEMS, dtype=np.int32), N_ITEMS)
    return model.predict(users, items, **options).reshape(N_USERS, N_ITEMS)


def assert_predicted(recommender, scores, biases):
    scores = scores - biases[:, None]
    unseen = np.where(SEEN.toarray() != 0, -np.inf, scores)
    found = recommender.recommend(USERS, k=5)
    np.testing.assert_array_equal(found.ids, np.argsort(-unseen, axis=1)[:, :5])
    np.testing.assert_allclose(found.scores, -np.sort(-unseen, axis=1)[:, :5], rtol=1e-4, atol=1e-5)


def test_recommends_what_it_predicts():
    model = trained()
    assert_predicted(from_lightfm(model, seen=SEEN), predicted(model), model.user_biases)


def test_features_make_users_and_items():
    given = {"user_features": features(N_USERS, 4, 1), "item_features": features(N_ITEMS, 3, 2)}
    model = trained(**given)
    biases, _ = model.get_user_representations(given["user_features"])
    assert_predicted(from_lightfm(model, **given, seen=SEEN), predicted(model, **given), biases)


def test_ids_and_options_are_passed_on():
    model = trained()
    names = [f"item {number}" for number in range(N_ITEMS)]
    found = from_lightfm(model, item_ids=names, method="exact").recommend(0, k=1)
    assert found.ids[0] == names[np.argmax(predicted(model)[0])]


def test_a_model_must_be_trained():
    with pytest.raises(ValueError, match=r"the LightFM has no embeddings yet; call its fit method first\."):
        from_lightfm(lightfm.LightFM())
