"""Bad input gets one sentence: at the call, or in a job whose error still ends with it."""

import importlib
import re
import subprocess
import sys

import pytest
from spark_tables import COLUMNS, found

pytest.importorskip("pyspark", reason="pyspark is not installed; make test-spark has it")
recommend_all = importlib.import_module("tessella.spark").recommend_all
PythonException = importlib.import_module("pyspark.errors").PythonException

GOOD = [(1, [1.0, 2.0]), (2, [3.0, 4.0]), (3, [0.0, 1.0])]
NAN, INF = float("nan"), float("inf")


def table(spark, rows, columns=COLUMNS):
    return spark.createDataFrame(rows, columns)


@pytest.mark.parametrize(
    ("rows", "columns", "sentence"),
    [
        (GOOD, "user long, name string, features array<float>", "{} has no column 'id', only 'user', 'name', 'features'; name the right one with {side}_column."),
        (GOOD, "id long, vector array<float>", "{} has no column 'features', only 'id', 'vector'; name the right one with features."),
        ([(1.5, [1.0])], "id double, features array<float>", "{} has double in column 'id', but ids must be integers or strings."),
        ([(True, [1.0])], "id boolean, features array<float>", "{} has boolean in column 'id', but ids must be integers or strings."),
        ([(1, "1 2")], "id long, features string", "{} has string in column 'features', but vectors must be arrays of numbers or ML vectors."),
        ([(1, ["1", "2"])], "id long, features array<string>", "{} has array<string> in column 'features', but vectors must be arrays of numbers or ML vectors."),
    ],
)  # fmt: skip
@pytest.mark.parametrize("side", ["user", "item"])
def test_columns_are_checked_at_the_call(spark, side, rows, columns, sentence):
    rows = [(row[0], "x", row[1]) for row in rows] if "name" in columns else rows
    bad, good = table(spark, rows, columns), table(spark, GOOD)
    frames = (bad, good) if side == "user" else (good, bad)
    with pytest.raises((TypeError, ValueError), match=f"^{re.escape(sentence.format(f'{side}_factors', side=side))}$"):
        recommend_all(*frames)


BAD_VALUES = [
    ([*GOOD, (7, [1.0, NAN])], "{} holds nan in the vector of id 7; factors must be finite."),
    ([*GOOD, (7, [-INF, 0.0])], "{} holds -inf in the vector of id 7; factors must be finite."),
    ([*GOOD, (7, [1e300, 0.0])], "{} holds 1e+300 in the vector of id 7, too large for float32; scale the factors down."),
    ([*GOOD, (7, [3e38, 3e38])], "{} has norm 4.24e+38 in the vector of id 7, too large for float32; scale the factors down."),
    ([*GOOD, (7, None)], "{} has no vector for id 7, but every row needs one."),
    ([*GOOD, (7, [1.0, None])], "{} has a null in the vector of id 7, but factors are numbers."),
]  # fmt: skip
DOUBLES = "id long, features array<double>"


@pytest.mark.parametrize(("rows", "sentence"), BAD_VALUES)
@pytest.mark.parametrize("build_on", ["driver", "executor"])
def test_values_of_items_are_checked_at_the_call(spark, rows, sentence, build_on):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence.format('item_factors'))}$"):
        recommend_all(table(spark, GOOD), table(spark, rows, DOUBLES), build_on=build_on)


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        *BAD_VALUES,
        ([*GOOD, (7, [1.0])], "{} has 1 numbers in the vector of id 7, but items have 2."),
        (
            [*GOOD, (7, [1e38, 1e38])],
            "{} has norm 1.41e+38 in the vector of id 7 and an item 5: their product is too large for float32; scale the factors down.",
        ),
    ],
)
def test_values_of_users_are_named_in_the_error_of_the_job(spark, rows, sentence):
    answers = recommend_all(table(spark, rows, DOUBLES), table(spark, GOOD))
    with pytest.raises(PythonException) as raised:
        answers.collect()
    assert str(raised.value).strip().splitlines()[-1] == f"ValueError: {sentence.format('user_factors')}"


@pytest.mark.parametrize("build_on", ["driver", "executor"])
@pytest.mark.parametrize("block_rows", [None, 2])
@pytest.mark.parametrize(
    ("rows", "sentences"),
    [
        ([], [r"has 0 rows, but at least 1 item is needed\."]),
        ([*GOOD, (2, [5.0, 6.0])], [r"holds id 2 more than once\."]),
        ([*GOOD, (3, [5.0, 6.0])], [r"holds id 3 more than once\."]),
        ([*GOOD, (-1, [5.0, 6.0])], [r"holds id -1, which stands for a missing answer; use another number\."]),
        ([*GOOD, (None, [5.0, 6.0])], [r"has a null id, but every row needs an id\."]),
        ([*GOOD, (4, [5.0])], [r"has 1 numbers in the vector of id 4, but (others|items) have 2\.", r"has 2 numbers in the vector of id \d, but (others|items) have 1\.", r"has vectors of 1 and 2 numbers, but all must have the same length\."]),
    ],
    ids=["empty", "twice", "last twice", "missing", "null", "lengths"],
)  # fmt: skip
@pytest.mark.short
def test_items_must_be_there_once_and_alike(spark, rows, sentences, build_on, block_rows):
    wanted = "|".join(sentences)
    with pytest.raises(ValueError, match=f"^item_factors ({wanted})$"):
        recommend_all(table(spark, GOOD), table(spark, rows), build_on=build_on, item_block_rows=block_rows)


@pytest.mark.short
def test_users_must_be_there_once(spark):
    items = table(spark, GOOD)
    with pytest.raises(ValueError, match=r"^user_factors holds id 2 2 times, but ids must be unique\.$"):
        recommend_all(table(spark, [*GOOD, (2, [0.0, 0.0])]), items)
    with pytest.raises(ValueError, match=r"^user_factors has a null id, but every row needs an id\.$"):
        recommend_all(table(spark, [*GOOD, (None, [0.0, 0.0])]), items)


@pytest.mark.short
def test_no_users_get_no_answers_and_a_warning(spark):
    with pytest.warns(UserWarning, match=r"^user_factors has 0 rows, so there are no users to recommend to\.$") as told:
        answers = recommend_all(table(spark, []), table(spark, GOOD))
    assert told[0].filename == __file__
    assert answers.collect() == []


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"k": 0}, "k is 0, but must be from 1 to 1048576."),
        ({"k": 2.0}, "k must be an integer, not float."),
        ({"exact": 1}, "exact must be True or False, not int."),
        ({"certified": None}, "certified must be True or False, not NoneType."),
        ({"target_recall": 1.1}, "target_recall is 1.1, but must be from 0 to 1."),
        ({"item_block_rows": 0}, "item_block_rows is 0, but must be at least 1."),
        ({"threads": None}, "threads must be an integer, not NoneType."),
        ({"build_on": "worker"}, "build_on is 'worker', but must be one of 'driver', 'executor'."),
        ({"where": {}}, "where works only with a saved Recommender; pass its path instead of DataFrames."),
        ({"colour": 1}, "recommend_all has no option 'colour'."),
        ({"item_column": "name"}, "item_factors has no column 'name', only 'id', 'features'; name the right one with item_column."),
        ({"shared_folder": "/nowhere/at/all"}, "there is no folder /nowhere/at/all here; the driver and all executors must see the same shared_folder, and its files must stay while jobs use them."),
    ],
)  # fmt: skip
def test_options_are_checked_at_the_call(spark, options, sentence):
    frame = table(spark, GOOD)
    with pytest.raises((TypeError, ValueError, FileNotFoundError), match=f"^{re.escape(sentence)}$"):
        recommend_all(frame, frame, **options)


@pytest.mark.parametrize(
    ("rows", "columns", "options", "sentence"),
    [
        ([(1, 2)], "user long, movie long", {}, "exclude has no column 'item', only 'user', 'movie'; name the right one with exclude_columns."),
        ([("1", 2)], "user string, item long", {}, "exclude has string in column 'user', but ids of users are bigint."),
        ([(1, "2")], "user long, item string", {}, "exclude has string in column 'item', but ids of items are bigint."),
        ([(1, 2.0)], "user long, item double", {}, "exclude has double in column 'item', but ids must be integers or strings."),
        ([(1, 2)], "user long, item long", {"exclude_columns": "user"}, "exclude_columns is 'user', but must be two different names: the columns of users and of items."),
        ([(1, 2)], "user long, item long", {"exclude_columns": 2}, "exclude_columns is 2, but must be two different names: the columns of users and of items."),
        ([(1, 2)], "user long, item long", {"exclude_columns": ("item", "item")}, "exclude_columns is ('item', 'item'), but must be two different names: the columns of users and of items."),
    ],
)  # fmt: skip
def test_exclude_is_checked_at_the_call(spark, rows, columns, options, sentence):
    frame, exclude = table(spark, GOOD), table(spark, rows, columns)
    with pytest.raises((TypeError, ValueError), match=f"^{re.escape(sentence)}$"):
        recommend_all(frame, frame, exclude=exclude, **options)


def test_only_frames_are_frames(spark):
    frame = table(spark, GOOD)
    for call, name, kind in (
        (lambda: recommend_all(GOOD, frame), "user_factors", "list"),
        (lambda: recommend_all(frame, GOOD), "item_factors", "list"),
        (lambda: recommend_all(frame), "item_factors", "NoneType"),
        (lambda: recommend_all(frame, frame, exclude=GOOD), "exclude", "list"),
    ):
        with pytest.raises(TypeError, match=f"^{name} must be a Spark DataFrame, not {kind}\\.$"):
            call()


def test_streams_are_no_frames(spark):
    frame = table(spark, GOOD)
    stream = spark.readStream.format("rate").load().selectExpr("value AS id", "array(1.0) AS features")
    for frames, name in (((stream, frame), "user_factors"), ((frame, stream), "item_factors")):
        with pytest.raises(TypeError, match=f"^{name} is a streaming DataFrame, but must have all its rows; use fo"):
            recommend_all(*frames)


@pytest.mark.parametrize(
    ("column", "options"), [("recommendations", {}), ("certified", {"certified": True}), ("rating", {})]
)
def test_ids_are_not_called_as_columns_of_the_result(spark, column, options):
    frame = table(spark, GOOD)
    named = frame.withColumnRenamed("id", column)
    frames = (frame, named) if column == "rating" else (named, frame)
    with pytest.raises(
        ValueError,
        match=f"^the column of ids is named '{column}', but the result has its own column of that name; rename it\\.$",
    ):
        recommend_all(*frames, **options)


def test_a_file_that_is_gone_is_named_in_the_error_of_the_job(spark, tmp_path):
    frame = table(spark, GOOD)
    answers = recommend_all(frame, frame, shared_folder=tmp_path)
    (path,) = tmp_path.iterdir()
    path.unlink()
    with pytest.raises(
        PythonException, match=f"there is no {path} here; the driver and all executors must see the same shared_folder"
    ):
        answers.collect()


def test_mostly_unknown_ids_are_passed_over(spark):
    frame, exclude = table(spark, GOOD), table(spark, [(1, n) for n in range(100, 200)], "user long, item long")
    answers = recommend_all(frame, frame, 1, exclude=exclude)
    assert found(answers) == found(recommend_all(frame, frame, 1))


TOO_LARGE = """
from pyspark.sql import SparkSession, functions
from tessella.spark import recommend_all

session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", False)
session = session.config("spark.driver.host", "127.0.0.1").config("spark.driver.maxResultSize", "1m").getOrCreate()
vector = functions.array(*[functions.rand(seed).cast("float") for seed in range(16)])
items = session.range(40_000).select("id", vector.alias("features"))
users = items.limit(3)
for where in ("driver", "executor"):
    try:
        recommend_all(users, items, exact=True, build_on=where)
    except ValueError as error:
        print(error)
print(recommend_all(users, items, exact=True, build_on="executor", item_block_rows=5_000).count())
session.stop()
try:
    recommend_all(users, items)
except RuntimeError as error:
    print(error)
"""


@pytest.mark.usefixtures("spark")  # for its environment
def test_what_does_not_fit_the_driver_gets_a_way_out():
    command = [sys.executable, "-W", "ignore", "-c", TOO_LARGE]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    assert ran.stdout.splitlines() == [
        "item_factors is larger than spark.driver.maxResultSize; raise that limit, or pass build_on='executor'.",
        "an index of item_factors is larger than spark.driver.maxResultSize; raise that limit, or pass a shared_folder or a smaller item_block_rows.",
        "3",
        "user_factors is a DataFrame of a Spark session that has been stopped.",
    ], ran.stderr  # fmt: skip
