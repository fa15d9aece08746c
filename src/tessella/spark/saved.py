"""Saved recommenders: recommends to all users of a file that `Recommender.save` wrote, in a Spark job."""

import os
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession, types

from tessella import Recommender
from tessella.spark.arrow import ID
from tessella.spark.files import Depot
from tessella.spark.frames import Named, excluded_lists
from tessella.spark.results import Answers
from tessella.spark.searching import Recommend, UserIds

OPTIONS = ("exclude_seen", "where", "boosts", "now", "allow", "interests", "variety", "method")
_USERS_PER_TASK = 100_000  # at most, so that repeating a task costs little


def recommended_by(
    path: str | os.PathLike[str],
    k: int,
    *,
    exact: bool,
    exclude: DataFrame | None,
    exclude_columns: tuple[str, str] | None,
    user_column: str,
    item_column: str,
    certified: bool,
    shared_folder: str | os.PathLike[str] | None,
    threads: int,
    options: dict[str, Any],
) -> DataFrame:
    """Recommend to all users of a saved recommender; see `recommend_all`."""
    spark = SparkSession.getActiveSession()
    if spark is None:
        raise RuntimeError("there is no active Spark session; create one with SparkSession.builder.getOrCreate().")
    other = [name for name in options if name not in OPTIONS]
    if other:
        raise TypeError(
            f"{other[0]} is not an option of a saved Recommender; they are {', '.join(OPTIONS[:-1])} and {OPTIONS[-1]}."
        )
    model = Recommender.load(path, mmap=True)
    n_users = len(model.user_ids)
    if not n_users:
        raise ValueError(f"{os.fspath(path)} holds 0 users, but recommend_all needs at least 1.")
    wish = {"now": time.time(), **options, "exact": exact}
    model.recommend(model.user_ids[:1], k, **wish)  # raises here what workers would raise
    users, items = _named(user_column, model.user_ids), _named(item_column, model.item_ids)
    answers = Answers.of(users, items, certified=certified)
    depot = Depot(spark, shared_folder)
    file = depot.ship(depot.copy(Path(path)))
    n_tasks = max(spark.sparkContext.defaultParallelism, -(-n_users // _USERS_PER_TASK))
    kind = types.StructType().add(ID, users.kind)
    asked = spark.range(0, n_users, 1, n_tasks).mapInArrow(UserIds(file), kind)
    if exclude is not None:
        asked = asked.join(excluded_lists(exclude, exclude_columns, users, items), ID, "left")
    return asked.mapInArrow(Recommend(file, k, answers.shape, threads, wish), answers.schema)


def _named(column: str, ids: Any) -> Named:
    return Named(column, types.StringType() if ids.dtype.kind == "U" else types.LongType())
