"""Spark's own ALS: the same shape, and the same items, as its recommendForAllUsers gives."""

import importlib

import numpy as np
import pytest
from spark_tables import found

pytest.importorskip("pyspark", reason="pyspark is not installed; make test-spark has it")
recommendation = importlib.import_module("pyspark.ml.recommendation")
tessella_spark = importlib.import_module("tessella.spark")
recommend_all, from_als = tessella_spark.recommend_all, tessella_spark.from_als


@pytest.fixture(scope="module")
def ratings(spark):
    rng = np.random.default_rng(0)
    rows = [(int(user), int(item), float(rng.integers(1, 6))) for user, item in rng.integers(0, (60, 90), (900, 2))]
    return spark.createDataFrame(rows, "who int, what int, stars float").cache()


@pytest.fixture(scope="module", params=[pytest.param("trained", marks=pytest.mark.short), "loaded"])
def model(ratings, request, tmp_path_factory):
    estimator = recommendation.ALS(
        rank=8, maxIter=1, numUserBlocks=2, numItemBlocks=2, seed=0, userCol="who", itemCol="what", ratingCol="stars"
    )
    trained = estimator.fit(ratings)
    if request.param == "trained":
        return trained
    path = str(tmp_path_factory.mktemp("als") / "model")
    trained.save(path)
    return recommendation.ALSModel.load(path)


def assert_alike(ours, theirs):
    """The same lists, but for items whose ratings differ in their last bits."""
    assert set(ours) == set(theirs)
    for user, list_of_theirs in theirs.items():
        assert len(ours[user]) == len(list_of_theirs)
        ours_by_item = dict(ours[user])
        last = list_of_theirs[-1][1]
        for (_, rating), (item, their_rating) in zip(ours[user], list_of_theirs, strict=True):
            assert rating == pytest.approx(their_rating, rel=1e-5, abs=1e-6)
            assert item in ours_by_item or their_rating == pytest.approx(last, rel=1e-5, abs=1e-6)


def test_answers_are_those_of_als(model):
    answers, theirs = recommend_all(*from_als(model), 5, exact=True), model.recommendForAllUsers(5)
    assert answers.schema == theirs.schema
    assert_alike(found(answers, "who", "what"), found(theirs, "who", "what"))
    in_blocks = recommend_all(*from_als(model), 5, exact=True, item_block_rows=20)
    assert in_blocks.schema.simpleString() == theirs.schema.simpleString()
    assert found(in_blocks, "who", "what") == found(answers, "who", "what")


def test_ratings_say_what_was_seen(model, ratings):
    seen = {(row.who, row.what) for row in ratings.collect()}
    answers = found(recommend_all(*from_als(model), 90, exact=True, exclude=ratings), "who", "what")
    everything = found(model.recommendForAllUsers(90), "who", "what")
    for user, items in everything.items():
        assert {item for item, _ in answers[user]} == {item for item, _ in items if (user, item) not in seen}


def test_only_models_have_factors():
    with pytest.raises(TypeError, match=r"^ALS has no userFactors; pass the ALSModel that ALS\.fit returns\.$"):
        from_als(recommendation.ALS())
