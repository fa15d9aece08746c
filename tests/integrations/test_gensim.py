"""The adapter for gensim, beside gensim's own neighbours."""

import numpy as np
import pytest

from tessella.integrations.gensim import from_gensim

pytest.importorskip("gensim", reason="gensim is not installed; make test-integrations has it")

from gensim.models import Doc2Vec, KeyedVectors, Word2Vec
from gensim.models.doc2vec import TaggedDocument

BASKETS = [[f"item {n}" for n in np.random.default_rng(seed).integers(0, 30, 6)] for seed in range(60)]


def test_keyed_vectors_and_models_of_them():
    model = Word2Vec(BASKETS, vector_size=8, min_count=1, seed=0, workers=1, epochs=2)
    for given in (model, model.wv):
        recommender = from_gensim(given)
        query = model.wv["item 3"]
        scores = model.wv.vectors @ query
        found = recommender.recommend(query, k=5, exact=True)
        assert found.ids.tolist() == [model.wv.index_to_key[at] for at in np.argsort(-scores)[:5]]


def test_similar_items_are_the_most_similar():
    model = Word2Vec(BASKETS, vector_size=8, min_count=1, seed=0, workers=1, epochs=2)
    theirs = model.wv.most_similar("item 3", topn=5)
    found = from_gensim(model).similar("item 3", k=5, metric="cosine")
    assert found.ids.tolist() == [name for name, _ in theirs]
    np.testing.assert_allclose(found.scores, [score for _, score in theirs], rtol=1e-5)


def test_users_are_documents():
    documents = [TaggedDocument(basket, [f"user {n}"]) for n, basket in enumerate(BASKETS)]
    model = Doc2Vec(documents, vector_size=8, min_count=1, seed=0, workers=1, epochs=2)
    found = from_gensim(model, model).recommend("user 7", k=1, exact=True)
    assert found.ids[0] == model.wv.index_to_key[int(np.argmax(model.wv.vectors @ model.dv["user 7"]))]


def test_numbers_may_be_keys():
    vectors = KeyedVectors(3)
    vectors.add_vectors([10, 20], np.eye(3, dtype=np.float32)[:2])
    assert from_gensim(vectors).recommend(np.array([0.0, 1.0, 0.0]), k=1).ids[0] == 20
