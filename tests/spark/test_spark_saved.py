"""A saved recommender answers all its users on a cluster as it does on one machine."""

import importlib
import re

import numpy as np
import pytest
from spark_tables import as_plain, found, pairs

import tessella as ts

pytest.importorskip("pyspark", reason="pyspark is not installed; make test-spark has it")
recommend_all = importlib.import_module("tessella.spark").recommend_all

pytestmark = pytest.mark.usefixtures("spark")

RNG = np.random.default_rng(0)
ITEMS, USERS = (RNG.standard_normal((n, 8)).astype(np.float32) for n in (300, 40))
KNOWN = {
    "seen": [RNG.choice(300, 12, replace=False).tolist() for _ in range(40)],
    "attributes": {"genre": RNG.choice(["comedy", "drama", "noir"], 300).tolist()},
    "signals": {"fresh": RNG.random(300)},
}


def saved(path, **options):
    ts.Recommender.build(ITEMS, USERS, **(KNOWN | options)).save(path, overwrite=True)
    return ts.Recommender.load(path)


def on_one_machine(model, k, **options):
    answers = model.recommend_all(k, **options)
    return {
        as_plain(user): [(as_plain(one), rating) for one, rating in zip(ids, scores, strict=True) if rating > -np.inf]
        for user, ids, scores in zip(model.user_ids, answers.ids, answers.scores.tolist(), strict=True)
    }


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, marks=pytest.mark.short),
        {"exact": True, "exclude_seen": False},
        {"where": {"genre": "noir"}, "boosts": {"fresh": 2.0}, "now": 0.0, "allow": list(range(200))},
        {"variety": ts.at_most(2, per="genre")},
    ],
    ids=["plain", "exact", "where and boosts", "variety"],
)
def test_answers_are_those_of_one_machine(tmp_path, options):
    path = tmp_path / "model.tessella"
    model = saved(path)
    answers = recommend_all(path, k=6, **options)
    assert answers.schema.simpleString() == "struct<id:bigint,recommendations:array<struct<id:bigint,rating:float>>>"
    assert found(answers) == on_one_machine(model, 6, **options)


def test_ids_may_be_strings_and_columns_have_names(spark, tmp_path):
    path = tmp_path / "model.tessella"
    names = {"user_ids": [f"user {n}" for n in range(40)], "item_ids": [f"item {n}" for n in range(300)], "seen": None}
    model = saved(path, **names)
    best = on_one_machine(model, 5)
    exclude = {user: [item for item, _ in items[:2]] for user, items in best.items() if user.endswith("7")}
    answers = recommend_all(
        str(path),
        k=3,
        exclude=pairs(spark, exclude, "who string, what string"),
        user_column="who",
        item_column="what",
        certified=True,
        shared_folder=tmp_path,
    )
    assert answers.columns == ["who", "recommendations", "certified"]
    assert found(answers, "who", "what") == {
        user: items[2:5] if user in exclude else items[:3] for user, items in best.items()
    }


def test_a_file_that_was_replaced_is_read_anew(tmp_path):
    path = tmp_path / "model.tessella"
    first = saved(path, seen=None)
    answers = recommend_all(path, k=2)
    before = on_one_machine(first, 2)
    second = saved(path)
    assert found(recommend_all(path, k=2)) == on_one_machine(second, 2) != before
    assert found(answers) == before


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"item_block_rows": 10}, "a saved Recommender already holds its items and its plan; pass its path without item_factors, target_recall, item_block_rows and build_on."),
        ({"target_recall": 0.9}, "a saved Recommender already holds its items and its plan; pass its path without item_factors, target_recall, item_block_rows and build_on."),
        ({"liked": [1]}, "liked is not an option of a saved Recommender; they are exclude_seen, where, boosts, now, allow, interests, variety and method."),
        ({"where": {"color": "red"}}, None),
        ({"boosts": {"stale": 1.0}}, None),
        ({"k": 0}, "k is 0, but must be from 1 to 1048576."),
    ],
)  # fmt: skip
def test_options_are_checked_at_the_call(tmp_path, options, sentence):
    path = tmp_path / "model.tessella"
    model = saved(path)
    if sentence is None:
        with pytest.raises(ValueError, match=r"\w") as raised:
            model.recommend([0], **options)
        sentence = str(raised.value)
    with pytest.raises((TypeError, ValueError), match=f"^{re.escape(sentence)}$"):
        recommend_all(path, **options)


def test_files_are_checked_at_the_call(tmp_path):
    with pytest.raises(FileNotFoundError):
        recommend_all(tmp_path / "nothing")
    index, nobody = tmp_path / "index", tmp_path / "nobody"
    ts.Index.build(ITEMS).save(index)
    with pytest.raises(ValueError, match="holds an index, not a recommender"):
        recommend_all(index)
    ts.Recommender.build(ITEMS).save(nobody)
    with pytest.raises(ValueError, match="holds 0 users, but recommend_all needs at least 1"):
        recommend_all(nobody)
