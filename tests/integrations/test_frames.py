"""Frames and Parquet files become recommenders, whichever library holds them."""

import importlib
import json

import numpy as np
import pytest

from tessella.integrations.frames import from_frames, from_spark

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed; make test-integrations has it")
pq = importlib.import_module("pyarrow.parquet")

RNG = np.random.default_rng(0)
ITEMS, USERS = RNG.standard_normal((20, 4)).astype(np.float32), RNG.standard_normal((6, 4)).astype(np.float32)
ITEM_IDS, USER_IDS = 100 + np.arange(20), [f"user {n}" for n in range(6)]
PAIRS = {"user": ["user 1", "user 1", "user 5", "nobody"], "item": [100, 107, 119, 100]}


def columns(ids, factors, **more):
    return {"id": list(ids), "features": factors.tolist(), **more}


def arrow(data):
    return pa.table(data)


def arrow_fixed(data):
    table = pa.table(data)
    if "features" not in data:
        return table
    fixed = table["features"].cast(pa.list_(pa.float32(), 4))
    return table.set_column(table.column_names.index("features"), "features", fixed)


def arrow_chunked(data):
    table = pa.table(data)
    return pa.concat_tables([table.slice(0, 2), table.slice(2)])


def pandas(data):
    return pytest.importorskip("pandas", reason="pandas is not installed; make test-integrations has it").DataFrame(
        data
    )


def pandas_arrays(data):
    made = pandas(data)
    if "features" in data:
        made["features"] = [np.float32(row) for row in data["features"]]
    return made


def pandas_of_arrow(data):
    dtype = pytest.importorskip("pandas", reason="pandas is not installed; make test-integrations has it").ArrowDtype
    return pa.table(data).to_pandas(types_mapper=dtype)


def polars(data):
    return pytest.importorskip("polars", reason="polars is not installed; make test-integrations has it").DataFrame(
        data
    )


def polars_arrays(data):
    made = polars(data)
    if "features" not in data:
        return made
    pl = importlib.import_module("polars")
    return made.with_columns(pl.col("features").cast(pl.Array(pl.Float32, 4)))


KINDS = [arrow, arrow_fixed, arrow_chunked, pandas, pandas_arrays, pandas_of_arrow, polars, polars_arrays]


def best(scores, k=3):
    return ITEM_IDS[np.argsort(-scores, axis=1, kind="stable")[:, :k]]


@pytest.mark.parametrize("kind", KINDS)
def test_every_table_gives_the_same(kind):
    made = from_frames(kind(columns(ITEM_IDS, ITEMS)), kind(columns(USER_IDS, USERS)), seen=kind(PAIRS))
    scores = USERS @ ITEMS.T
    np.testing.assert_array_equal(made.recommend(USER_IDS, k=3, exclude_seen=False).ids, best(scores))
    scores[1, [0, 7]] = scores[5, 19] = -np.inf
    np.testing.assert_array_equal(made.recommend(USER_IDS, k=3).ids, best(scores))


@pytest.mark.parametrize("kind", [arrow, pandas, polars])
def test_vectors_may_be_columns_with_other_names(kind):
    numbers = {f"f{at}": ITEMS[:, at] for at in range(4)}
    people = {f"f{at}": USERS[:, at] for at in range(4)}
    made = from_frames(
        kind({"key": ITEM_IDS, **numbers}),
        kind({"key": USER_IDS, **people}),
        id_column="key",
        features=["f0", "f1", "f2", "f3"],
    )
    np.testing.assert_array_equal(made.recommend(USER_IDS, k=3).ids, best(USERS @ ITEMS.T))


def spark_model(folder):
    """What ALSModel.save writes: parts of Parquet, and a file that says it went well."""
    for name, ids, factors in (("itemFactors", ITEM_IDS, ITEMS), ("userFactors", range(6), USERS)):
        part = folder / name
        part.mkdir(parents=True)
        (part / "_SUCCESS").touch()
        schema = pa.schema([("id", pa.int32()), ("features", pa.list_(pa.float32()))])
        table = pa.table(columns(ids, factors), schema=schema)
        for number, first in enumerate(range(0, len(ids), 5)):
            pq.write_table(table.slice(first, 5), part / f"part-{number:05}-c000.snappy.parquet")
    (folder / "metadata").mkdir()
    (folder / "metadata" / "part-00000").write_text(json.dumps({"class": "ALSModel", "rank": 4}))
    return folder


def test_what_spark_writes_is_read(tmp_path):
    folder = spark_model(tmp_path / "model")
    expected = best(USERS @ ITEMS.T)
    np.testing.assert_array_equal(from_spark(folder).recommend(np.arange(6), k=3).ids, expected)
    made = from_frames(str(folder / "itemFactors"), folder / "userFactors", method="exact")
    np.testing.assert_array_equal(made.recommend(np.arange(6), k=3).ids, expected)
    pq.write_table(pa.table({"user": [2], "item": [expected[2, 0]]}), tmp_path / "seen.parquet")
    made = from_spark(folder, seen=tmp_path / "seen.parquet")
    assert made.recommend(2, k=1).ids[0] == expected[2, 1]


def test_a_pair_that_comes_often_weighs_more():
    pairs = pa.table({"user": [0, 0, 0], "item": [101, 101, 102]})
    made = from_frames(arrow(columns(ITEM_IDS, ITEMS)), arrow(columns(range(6), USERS)), seen=pairs)
    seen = made._edition.users.seen
    assert dict(zip(*(part.tolist() for part in seen.of_user(0)), strict=True)) == {101: 2.0, 102: 1.0}


def test_users_may_be_known_by_what_they_met_alone():
    made = from_frames(arrow(columns(ITEM_IDS, ITEMS)), seen=arrow(PAIRS))
    assert made.user_ids.tolist() == ["nobody", "user 1", "user 5"]


@pytest.mark.parametrize("kind", [arrow, pandas, polars])
def test_answers_become_frames_of_the_same_library(kind):
    made = from_frames(kind(columns(ITEM_IDS, ITEMS)), kind(columns(USER_IDS, USERS)))
    table = getattr(made.recommend(USER_IDS, k=3), f"to_{kind.__name__}")()
    names = getattr(table, "column_names", None) or list(table.columns)
    assert names[:4] == ["user", "rank", "item", "score"]
    np.testing.assert_array_equal(np.asarray(table["item"]).reshape(6, 3), best(USERS @ ITEMS.T))


GOOD = columns(ITEM_IDS, ITEMS)


@pytest.mark.parametrize(
    ("items", "options", "refused", "sentence"),
    [
        (5, {}, TypeError, r"items must be a frame, an Arrow table, or the path of a Parquet file, not int\."),
        ("nowhere.parquet", {}, FileNotFoundError, r"there is no file or folder nowhere\.parquet\."),
        (arrow({"key": [1]}), {}, ValueError, r"items has no column 'id'; it has 'key'\."),
        (arrow({"id": [1]}), {}, ValueError, r"items has no column 'features'; it has 'id'\."),
        (arrow({"id": [1], "features": [2.0]}), {}, TypeError, r"features of items holds double, but must hold lists"),
        (
            arrow({"id": [1, None], "features": [[1.0], [2.0]]}),
            {},
            ValueError,
            r"items has 1 missing values in column 'id'",
        ),
        (arrow({"id": [1, 2], "features": [[1.0], None]}), {}, ValueError, r"1 missing values in column 'features'"),
        (
            arrow({"id": [1, 2], "features": [[1.0], [2.0, 3.0]]}),
            {},
            ValueError,
            r"features of items has vectors of lengths 1 and 2, but all must have the same length\.",
        ),
        (arrow({"id": [1, 1], "features": [[1.0], [2.0]]}), {}, ValueError, r"id of items holds 1 more than once"),
        (
            arrow(GOOD),
            {"seen": arrow({"user": [1], "place": [2]})},
            ValueError,
            r"seen has no column 'item'; it has 'user', 'place'\.",
        ),
        (
            arrow(GOOD),
            {"seen": arrow({"user": [1], "item": ["x"]})},
            TypeError,
            r"seen names items by strings, but their ids are integers\.",
        ),
        (
            arrow(GOOD),
            {"seen": arrow({"user": [1], "item": [5]})},
            ValueError,
            r"seen has 1 rows, but 0 of them name a known user and a known item; check the ids\.",
        ),
    ],
)
def test_what_does_not_fit_gets_a_sentence(items, options, refused, sentence):
    with pytest.raises(refused, match=sentence):
        from_frames(items, **options)


def test_a_damaged_file_and_a_folder_of_something_else_are_refused(tmp_path):
    (tmp_path / "items.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(ValueError, match=r"items\.parquet cannot be read as Parquet: "):
        from_frames(tmp_path / "items.parquet")
    with pytest.raises(
        FileNotFoundError, match=r"there is no folder .*itemFactors; pass a folder that Spark's ALSModel\.save wrote\."
    ):
        from_spark(tmp_path)
