"""The top 10 for all users in a Spark session, against Spark's own ALS; see benchmarks/README.md.

Both use the same generated factors in the same session, in turns, after a warm-up turn. Appends to
results/spark.jsonl.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import measure
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
from pyspark.ml.recommendation import ALSModel
from pyspark.sql import DataFrame, SparkSession

import tessella as ts
from tessella import _threads
from tessella.datasets import generated_factors
from tessella.spark import from_als, recommend_all

K, RECALL, BLOCKS = 10, 0.95, 4
GOALS = {"exact": 5.0, "recall": 8.0}
QUICK = Path(__file__).parents[1] / "build" / "bench-quick"


@contextmanager
def session(master: str) -> Iterator[SparkSession]:
    """Start a session on loopback, whose Python workers use the environment of this process."""
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    settings = {"spark.driver.memory": "2g", "spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false",
                "spark.ui.showConsoleProgress": "false"}  # fmt: skip
    spark = SparkSession.builder.master(master).config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


def blas(spark: SparkSession) -> str:
    """Return which BLAS Spark's ALS uses."""
    libraries = spark.sparkContext._jvm.dev.ludovic.netlib.blas
    try:
        return f"native ({libraries.NativeBLAS.getInstance().getClass().getSimpleName()})"
    except Exception:  # noqa: BLE001 (what Java throws where there is none)
        return f"not native ({libraries.JavaBLAS.getInstance().getClass().getSimpleName()})"


def als_model(folder: Path, users: np.ndarray, items: np.ndarray, partitions: int) -> ALSModel:
    """Make an ALSModel of given factors, by loading files like those that `ALSModel.save` writes."""
    for name, factors in (("userFactors", users), ("itemFactors", items)):
        (folder / name).mkdir(parents=True)
        for number, part in enumerate(np.array_split(np.arange(len(factors)), partitions)):
            vectors = pa.array(list(factors[part]), pa.list_(pa.float32()))
            table = pa.table({"id": pa.array(part, pa.int32()), "features": vectors})
            pq.write_table(table, folder / name / f"part-{number:05}.parquet")
    columns = {"userCol": "user", "itemCol": "item", "predictionCol": "prediction", "coldStartStrategy": "nan"}
    metadata = {"class": "org.apache.spark.ml.recommendation.ALSModel", "timestamp": 0, "uid": "ALS",
                "sparkVersion": pyspark.__version__, "paramMap": {}, "rank": users.shape[1],
                "defaultParamMap": columns | {"blockSize": 4096}}  # fmt: skip
    (folder / "metadata").mkdir()
    (folder / "metadata" / "part-00000").write_text(json.dumps(metadata) + "\n")
    return ALSModel.load(str(folder))


def run(frame: DataFrame) -> None:
    """Compute all rows without collecting them."""
    frame.write.format("noop").mode("overwrite").save()


def lists(frame: DataFrame) -> np.ndarray:
    """Return the items of each user."""
    table = frame.toArrow().sort_by("user")
    items = table["recommendations"].combine_chunks().flatten().field("item")
    return items.to_numpy().reshape(len(table), -1)


def own_seconds(items: np.ndarray, users: np.ndarray, threads: int, turns: int) -> dict[str, float]:
    """Return the times of searches and builds in this process, on as many threads as Spark has concurrent tasks."""
    parts: dict[str, Callable[[], object]] = {}
    for name, options in (("exact", {"method": "exact"}), ("recall", {"target_recall": RECALL, "k": K})):
        index = ts.Index.build(items, **options)
        parts[f"search, {name}"] = lambda index=index: index.search(users, K, threads=threads)
        parts[f"build, {name}"] = lambda options=options: ts.Index.build(items, **options)
    return {name: statistics.median(seconds) for name, seconds in measure.alternate(parts, turns).items()}


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--users", type=int, default=10_000)
    parser.add_argument("--kind", default="als", help="the kind of generated factors")
    parser.add_argument("--master", help="Spark's master (default: local[CPUs])")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="few users and items: shows only that it works")
    parser.add_argument("--out", type=Path, help="where results go: benchmarks/results, or build/bench-quick if quick")
    options = parser.parse_args()
    measure.settle_process()
    warnings.simplefilter("ignore")
    sys.stdout.reconfigure(line_buffering=True)
    n_items, n_users, turns = (6_000, 300, 1) if options.quick else (options.items, options.users, options.turns)
    folder = options.out or (QUICK if options.quick else measure.RESULTS)
    cpus = _threads.thread_count(None)
    items, users = generated_factors(n_items, n_users, kind=options.kind)
    start = time.perf_counter()
    print("  ".join(f"{name} {value}" for name, value in measure.machine().items()))
    with tempfile.TemporaryDirectory() as temporary, session(options.master or f"local[{cpus}]") as spark:
        figures = measured(spark, Path(temporary), items, users, turns)
    measure.record("spark", {"kind": options.kind, **figures}, folder)
    print(f"\n{time.perf_counter() - start:.0f} s in all")


def measured(
    spark: SparkSession, temporary: Path, items: np.ndarray, users: np.ndarray, turns: int
) -> dict[str, object]:
    """Measure the speed and recall of both sides, and Spark's share of our time."""
    tasks = spark.sparkContext.defaultParallelism
    model = als_model(temporary / "als", users, items, tasks)
    which = blas(spark)
    print(f"PySpark {pyspark.__version__}, {spark.sparkContext.master}; BLAS of ALS: {which}")
    print(f"{len(users):,} users x {len(items):,} items, rank {users.shape[1]}, k = {K}, {turns} turns\n")

    def ours(**how: object) -> DataFrame:
        return recommend_all(*from_als(model), K, **how)

    def fresh(**how: object) -> None:
        with tempfile.TemporaryDirectory() as empty:  # so that there is no index of an earlier run
            run(ours(shared_folder=empty, **how))

    frames: dict[str, Callable[[], DataFrame]] = {
        "als": lambda: model.recommendForAllUsers(K),
        "exact": lambda: ours(exact=True),
        "recall": lambda: ours(target_recall=RECALL),
    }
    calls: dict[str, Callable[[], object]] = {name: lambda make=make: run(make()) for name, make in frames.items()}
    calls["exact, in blocks"] = lambda: run(ours(exact=True, item_block_rows=-(-len(items) // BLOCKS)))
    calls |= {"exact, built anew": lambda: fresh(exact=True), "recall, built anew": lambda: fresh(target_recall=RECALL)}
    seconds = measure.alternate(calls, turns)
    alone = own_seconds(items, users, tasks, turns)
    found = {name: lists(make()) for name, make in frames.items()}
    recalls = {name: measure.recall(own, found["exact"], items, users) for name, own in found.items()}
    same = float(np.mean(np.sort(found["als"], axis=1) == np.sort(found["exact"], axis=1)))
    took = {name: statistics.median(own) for name, own in seconds.items()}
    ratios = {name: measure.median_ratio(seconds, "als", name) for name in calls if name != "als"}
    print(f"  ALSModel.recommendForAllUsers  {took['als']:.2f} s, recall {recalls['als']:.4f}, "
          f"{same:.2%} of its items are ours")  # fmt: skip
    shares = {}
    for name, wanted in GOALS.items():
        search, build = alone[f"search, {name}"], alone[f"build, {name}"]
        shares[name] = 1 - search / took[name]
        anew = f"{name}, built anew"
        print(f"  recommend_all, {name:<6}  {took[name]:.2f} s, recall {recalls[name]:.4f}: "
              f"{ratios[name]:.1f} times as fast{measure.goal(ratios[name], least=wanted)}")  # fmt: skip
        print(f"      search itself takes {search:.3f} s on {tasks} threads: {shares[name]:.0%} of the time is Spark")
        print(f"      with the index built again, which takes {build:.2f} s: {took[anew]:.2f} s, "
              f"{ratios[anew]:.1f} times as fast")  # fmt: skip
    blocks = "exact, in blocks"
    print(f"  exact, in {BLOCKS} blocks of items  {took[blocks]:.2f} s: {ratios[blocks]:.1f} times as fast")
    return {"part": "all users", "n_items": len(items), "n_users": len(users), "rank": users.shape[1], "k": K,
            "pyspark": pyspark.__version__, "master": spark.sparkContext.master, "blas": which, "seconds": took,
            "over_als": ratios, "goals": GOALS, "recall": recalls, "same_items": same, "alone": alone,
            "share_of_spark": shares}  # fmt: skip


if __name__ == "__main__":
    main()
