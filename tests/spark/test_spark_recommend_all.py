"""The top k for all users of a cluster are those of one machine."""

import importlib
import os
from pathlib import Path

import numpy as np
import pytest
from spark_tables import COLUMNS, expected, found, pairs, vectors

import tessella as ts

pytest.importorskip("pyspark", reason="pyspark is not installed; make test-spark has it")
recommend_all = importlib.import_module("tessella.spark").recommend_all
results = importlib.import_module("tessella.spark.results")
frames = importlib.import_module("tessella.spark.frames")
pa = importlib.import_module("pyarrow")
types = importlib.import_module("pyspark.sql.types")

N_ITEMS, N_USERS, N_FACTORS, K = 1_000, 120, 16, 7
RNG = np.random.default_rng(20_160_509)
ITEMS = RNG.integers(-3, 4, (N_ITEMS, N_FACTORS)).astype(np.float32)  # whole numbers: many ties
USERS = RNG.integers(-3, 4, (N_USERS, N_FACTORS)).astype(np.float32)
ITEM_IDS = RNG.permutation(10 * N_ITEMS)[:N_ITEMS]
USER_IDS = RNG.permutation(10 * N_USERS)[:N_USERS] - 5 * N_USERS
EXCLUDE = {int(user): RNG.choice(ITEM_IDS, size, replace=False) for user, size in zip(USER_IDS[::2], [1, 3, 20, 900] * 15, strict=True)}  # fmt: skip


@pytest.fixture(scope="module")
def users(spark):
    return vectors(spark, USER_IDS, USERS).cache()


@pytest.fixture(scope="module")
def items(spark):
    return vectors(spark, ITEM_IDS, ITEMS).cache()


@pytest.mark.short
def test_answers_are_those_of_one_machine(users, items):
    answers = recommend_all(users, items, K, exact=True)
    assert answers.schema == types._parse_datatype_string(
        "id long not null, recommendations array<struct<id: long, rating: float>>"
    )
    assert found(answers) == expected(USER_IDS, USERS, ITEM_IDS, ITEMS, K)


@pytest.mark.parametrize("block_rows", [None, 300], ids=["one index", "blocks"])
@pytest.mark.short
def test_excluded_items_are_no_answers(spark, users, items, block_rows):
    unknown = {10**6: [1, 2], int(USER_IDS[1]): [10**7, 10**8]}  # somebody else, and no items
    seen = pairs(spark, EXCLUDE | unknown)
    answers = recommend_all(users, items, K, exact=True, exclude=seen, item_block_rows=block_rows)
    assert found(answers) == expected(USER_IDS, USERS, ITEM_IDS, ITEMS, K, EXCLUDE)


@pytest.mark.parametrize("build_on", ["driver", "executor"])
@pytest.mark.parametrize("block_rows", [1, 300, N_ITEMS])
def test_blocks_of_items_are_merged(users, items, block_rows, build_on):
    if block_rows == 1:  # fewer items, so that there are not too many blocks
        items, item_ids, factors = items.where(items.id < 300), ITEM_IDS[ITEM_IDS < 300], ITEMS[ITEM_IDS < 300]
        assert 5 < len(item_ids) < 60
    else:
        item_ids, factors = ITEM_IDS, ITEMS
    answers = recommend_all(
        users, items, K, exact=True, item_block_rows=block_rows, build_on=build_on, certified=True
    ).cache()
    assert answers.schema.simpleString() == (
        "struct<id:bigint,recommendations:array<struct<id:bigint,rating:float>>,certified:boolean>"
    )
    assert found(answers) == expected(USER_IDS, USERS, item_ids, factors, K)
    assert all(row.certified for row in answers.collect())


@pytest.mark.parametrize(
    ("build_on", "block_rows"),
    [("driver", None), ("driver", 400), ("executor", None)],
    ids=["driver", "blocks", "executor"],
)
def test_a_shared_folder_holds_indexes_that_later_jobs_find(users, items, tmp_path, block_rows, build_on):
    how = {"exact": True, "shared_folder": tmp_path, "item_block_rows": block_rows, "build_on": build_on}
    first = found(recommend_all(users, items, K, **how))
    files = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert len(files) == (1 if block_rows is None else 3)
    assert found(recommend_all(users, items, K, **how)) == first == expected(USER_IDS, USERS, ITEM_IDS, ITEMS, K)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == files


def test_executors_build_blocks_in_a_shared_folder(users, items, tmp_path):
    answers = recommend_all(
        users, items, K, exact=True, item_block_rows=400, build_on="executor", shared_folder=tmp_path
    )
    sizes = [len(ts.Index.load(path)) for path in tmp_path.iterdir()]
    assert max(sizes) <= 400
    assert sum(sizes) == N_ITEMS
    assert found(answers) == expected(USER_IDS, USERS, ITEM_IDS, ITEMS, K)


def test_one_index_is_built_on_an_executor(users, items):
    answers = recommend_all(users, items, K, exact=True, build_on="executor")
    assert found(answers) == expected(USER_IDS, USERS, ITEM_IDS, ITEMS, K)


@pytest.mark.short
def test_partitions_may_be_skewed_and_empty(spark, items):
    rows = [(int(own), factor.tolist()) for own, factor in zip(USER_IDS, USERS, strict=True)]
    parts = [rows[:1], [], rows[6:], rows[1:6]]
    spread = spark.createDataFrame(spark.sparkContext.range(0, 4, 1, 4).flatMap(lambda part: parts[part]), COLUMNS)
    assert spread.rdd.glom().map(len).collect() == [1, 0, N_USERS - 6, 5]
    assert found(recommend_all(spread, items, K, exact=True)) == expected(USER_IDS, USERS, ITEM_IDS, ITEMS, K)


@pytest.mark.parametrize("block_rows", [None, 300], ids=["one index", "blocks"])
@pytest.mark.short
def test_ids_may_be_strings(spark, block_rows):
    user_ids, item_ids = [f"user {own}" for own in USER_IDS], [f"{own}é😀"[::-1] for own in ITEM_IDS]
    names = dict(zip(ITEM_IDS.tolist(), item_ids, strict=True))
    exclude = {f"user {user}": [names[int(item)] for item in own] for user, own in EXCLUDE.items()}
    columns = "id string, features array<float>"
    answers = recommend_all(
        vectors(spark, user_ids, USERS, columns),
        vectors(spark, item_ids, ITEMS, columns),
        K,
        exact=True,
        item_block_rows=block_rows,
        exclude=pairs(spark, exclude, "user string, item string"),
    )
    assert answers.schema.simpleString() == "struct<id:string,recommendations:array<struct<id:string,rating:float>>>"
    assert found(answers) == expected(user_ids, USERS, item_ids, ITEMS, K, exclude)


@pytest.mark.parametrize("kind", ["byte", "short", "int", "long"])
def test_types_and_names_of_ids_are_kept(spark, kind):
    columns = f"`a b` {kind}, `it``em.x` {kind}"
    users = vectors(spark, range(-3, 3), USERS[:6], f"`a b` {kind}, v array<double>")
    items = vectors(spark, range(100), ITEMS[:100], f"`it``em.x` {kind}, v array<double>")
    seen = pairs(spark, {-1: [3, 4]}, columns)
    for blocks in (None, 40):
        answers = recommend_all(users, items, 2, features="v", exclude=seen, item_block_rows=blocks)
        users_kind, lists = (field.dataType for field in answers.schema)
        assert answers.columns == ["a b", "recommendations"]
        assert users_kind == lists.elementType["it`em.x"].dataType == types._parse_datatype_string(kind)
        wanted = expected(range(-3, 3), USERS[:6], range(100), ITEMS[:100], 2, {-1: [3, 4]})
        assert found(answers, "a b", "it`em.x") == wanted


@pytest.mark.parametrize("partly_sparse", [False, True])
def test_vectors_may_be_those_of_spark_ml(spark, partly_sparse):
    linalg = importlib.import_module("pyspark.ml.linalg").Vectors

    def vector(factor):
        dense = linalg.dense(factor.tolist())
        places = {place: value for place, value in enumerate(factor.tolist()) if value}
        return linalg.sparse(len(factor), places) if partly_sparse and factor[0] > 0 else dense

    frames = [
        spark.createDataFrame([(own, vector(factor)) for own, factor in enumerate(factors)], ["id", "features"])
        for factors in (USERS, ITEMS)
    ]
    answers = recommend_all(*frames, K, exact=True)
    assert found(answers) == expected(range(N_USERS), USERS, range(N_ITEMS), ITEMS, K)


def test_lists_are_short_where_there_are_few_items(spark, users):
    few = vectors(spark, [4, 2], ITEMS[:2])
    everything = {int(user): [2, 4] for user in USER_IDS[:3]}
    for blocks in (None, 1):
        answers = found(recommend_all(users, few, 50, exclude=pairs(spark, everything), item_block_rows=blocks))
        assert answers == expected(USER_IDS, USERS, [4, 2], ITEMS[:2], 50, everything)
        assert [len(answers[int(user)]) for user in USER_IDS[:4]] == [0, 0, 0, 2]


def test_the_recall_asked_for_is_had(spark):
    rng = np.random.default_rng(0)
    items = (rng.standard_normal((8_000, 24)) * rng.lognormal(0, 0.4, (8_000, 1))).astype(np.float32)
    users = rng.standard_normal((300, 24)).astype(np.float32)
    frames = vectors(spark, range(300), users), vectors(spark, range(8_000), items)
    true = expected(range(300), users, range(8_000), items, 10)
    for blocks in (None, 5_500):
        answers = recommend_all(*frames, 10, target_recall=0.8, certified=True, item_block_rows=blocks).cache()
        lists = found(answers)
        recall = np.mean([len(set(lists[user]) & set(true[user])) / 10 for user in lists])
        assert 0.75 < recall <= 1
        assert all(lists[row.id] == true[row.id] for row in answers.collect() if row.certified)


@pytest.mark.short
def test_merged_answers_are_ranked_by_rating_then_id_and_certified_if_all_are(spark):
    ids = frames.Named("id", types.LongType())
    answers = results.Answers.of(ids, ids, certified=True)
    blocks = [
        [(1, [(5, 2.0), (1, 0.0), (4, -1.0)], True), (2, [], True), (3, [(9, -0.5)], False)],
        [(1, [(8, 2.0), (3, 2.0), (2, 0.5)], True), (2, [(7, 1.0)], False), (3, [(8, -0.5)], False)],
    ]
    merged = results.merged([spark.createDataFrame(rows, answers.schema) for rows in blocks], 4, answers)
    assert found(merged) == {1: [(3, 2.0), (5, 2.0), (8, 2.0), (2, 0.5)], 2: [(7, 1.0)], 3: [(8, -0.5), (9, -0.5)]}
    assert {row.id: row.certified for row in merged.collect()} == {1: True, 2: False, 3: False}


@pytest.mark.short
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="maps of processes are in /proc")
def test_a_worker_opens_an_index_once_and_leaves_it_in_its_file(spark, users, items, tmp_path):
    def workers():
        """How often each worker process has opened an index, and whether it has ours mapped."""
        name = str(next(tmp_path.iterdir()))

        def look(batches):
            from tessella.spark.searching import opened  # noqa: PLC0415

            list(batches)
            with open("/proc/self/maps") as maps:  # noqa: PTH123
                mapped = name in maps.read()
            yield pa.RecordBatch.from_pylist([{"pid": os.getpid(), "n": opened.cache_info().misses, "mapped": mapped}])

        rows = spark.range(0, 8, 1, 8).mapInArrow(look, "pid long, n long, mapped boolean").collect()
        return {row.pid: row for row in rows}

    def job():
        return found(recommend_all(users, items, 3, exact=True, shared_folder=tmp_path))

    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "5")  # many batches
    try:
        wanted = expected(USER_IDS, USERS, ITEM_IDS, ITEMS, 3)
        assert job() == wanted
        before = workers()
        assert any(worker.mapped for worker in before.values())
        for _ in range(3):
            assert job() == wanted
        after = workers()
        for pid in set(before) & set(after):
            opened_again = after[pid].n - before[pid].n
            assert opened_again == (0 if before[pid].mapped or not after[pid].mapped else 1)
        assert any(before[pid].mapped for pid in set(before) & set(after))
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")


def test_jobs_say_what_they_do_and_leave_the_callers_description(spark, users, items):
    context = spark.sparkContext
    context.setJobDescription("mine")
    told = []
    tracked = context.setLocalProperty
    context.setLocalProperty = lambda key, value: (told.append(value), tracked(key, value))
    try:
        recommend_all(users, items, K, exact=True)
        assert context.getLocalProperty("spark.job.description") == "mine"
    finally:
        del context.setLocalProperty
        context.setJobDescription(None)
    assert told == ["tessella: checks the ids of users", "mine", "tessella: collects the items", "mine"]
