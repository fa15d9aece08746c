"""All users: finds the top k for every user in a Spark job."""

import os
import warnings
from typing import Any, Literal

from pyspark.sql import DataFrame, functions

from tessella import _checks
from tessella.search.route import LARGEST_K
from tessella.spark.arrow import ID
from tessella.spark.building import Recipe, built_on_driver, built_on_executors
from tessella.spark.files import Depot
from tessella.spark.frames import Vectors, described, excluded_lists
from tessella.spark.results import Answers, merged
from tessella.spark.saved import OPTIONS, recommended_by
from tessella.spark.searching import TopK

_RECALL = 0.95


def recommend_all(
    user_factors: DataFrame | str | os.PathLike[str],
    item_factors: DataFrame | None = None,
    k: int = 10,
    *,
    exclude: DataFrame | None = None,
    exact: bool = False,
    target_recall: float = _RECALL,
    item_block_rows: int | None = None,
    certified: bool = False,
    user_column: str | None = None,
    item_column: str | None = None,
    features: str = "features",
    exclude_columns: tuple[str, str] | None = None,
    build_on: Literal["driver", "executor"] = "driver",
    shared_folder: str | os.PathLike[str] | None = None,
    threads: int = 1,
    **options: Any,
) -> DataFrame:
    """Recommend to all users on a cluster; the result has the format of `ALSModel.recommendForAllUsers`.

    The call builds the index once and ships it to the executors. The returned DataFrame is lazy: users are searched
    for when it is used.

    Parameters
    ----------
    user_factors : DataFrame, or path
        One row per user: an id, which is an integer or a string, and a vector, which is an array of numbers or an ML
        vector. Or the path of a saved `Recommender`, to recommend to all its users.
    item_factors : DataFrame, default None
        One row per item, in the same form. None with a saved `Recommender`.
    k : int, default 10
        How many items to return for each user, at least 1. Lists are shorter if there are fewer items.
    exclude : DataFrame of pairs of users and items, default None
        Items that must not be recommended to a user, such as those already seen. Unknown ids are ignored.
    exact : bool, default False
        Whether to return the exact top k.
    target_recall : float, default 0.95
        The share of the true top k to find, if `exact` is False. With more than 5,000 items, the index is tuned for it.
    item_block_rows : int, default None
        The largest number of items in one index. More items are split into blocks, and each user's results are merged.
        Smaller blocks need less memory per worker and take longer. None puts all items in one index.
    certified : bool, default False
        Whether to add a column "certified", which says whether a list is proven to be the true top k.
    user_column, item_column : str, default None
        The columns of ids; the result uses the same names. None is "id", or the only column beside the vectors.
    features : str, default "features"
        The column of vectors, in both frames.
    exclude_columns : pair of str, default None
        The columns of users and items in `exclude`. None uses the names of the id columns, or ("user", "item") if both
        id columns have the same name.
    build_on : "driver" or "executor", default "driver"
        Where to build the index. Building on an executor takes longer to start, but the driver then holds no factors
        and needs less memory.
    shared_folder : path, default None
        A folder that the driver and all executors reach under the same path. The index is written there, and later
        jobs reuse it. None ships a copy to every executor with `SparkContext.addFile`.
    threads : int, default 1
        Threads per search in a worker. Raise it together with ``spark.task.cpus``.
    **options
        For a saved `Recommender` only: exclude_seen, where, boosts, now, allow, interests, variety and method, as for
        `Recommender.recommend`.

    Returns
    -------
    recommendations : DataFrame
        One row per user: the id, and "recommendations", an array of structs with the id of an item and its "rating",
        which is the inner product. Ratings descend; among equal ratings, the smaller id comes first. The order of rows
        is up to Spark.

    Examples
    --------
    >>> from pyspark.sql import SparkSession
    >>> from tessella.spark import recommend_all
    >>> spark = SparkSession.builder.master("local[1]").getOrCreate()
    >>> columns = "id long, features array<float>"
    >>> items = spark.createDataFrame([(7, [1.0, 0.0]), (8, [0.0, 1.0]), (9, [1.0, 1.0])], columns)
    >>> users = spark.createDataFrame([(1, [2.0, 1.0]), (2, [0.0, 1.0])], columns)
    >>> seen = spark.createDataFrame([(1, 9)], "user long, item long")
    >>> for row in recommend_all(users, items, k=2, exclude=seen).sort("id").collect():
    ...     print(row.id, [(found.id, found.rating) for found in row.recommendations])
    1 [(7, 2.0), (8, 1.0)]
    2 [(8, 1.0), (9, 1.0)]
    """
    k = _checks.whole_number(k, "k", 1, LARGEST_K)
    _checks.true_or_false(exact, "exact")
    _checks.true_or_false(certified, "certified")
    _checks.one_of(build_on, "build_on", ("driver", "executor"))
    threads = _checks.whole_number(threads, "threads", 1)
    recall = _checks.number_between(target_recall, "target_recall", 0.0, 1.0)
    if item_block_rows is not None:
        item_block_rows = _checks.whole_number(item_block_rows, "item_block_rows", 1)
    if isinstance(user_factors, str | os.PathLike):
        if item_factors is not None or item_block_rows is not None or recall != _RECALL or build_on != "driver":
            raise ValueError(
                "a saved Recommender already holds its items and its plan; pass its path without item_factors, "
                "target_recall, item_block_rows and build_on."
            )
        return recommended_by(
            user_factors,
            k,
            exact=exact,
            exclude=exclude,
            exclude_columns=exclude_columns,
            user_column=user_column or ID,
            item_column=item_column or ID,
            certified=certified,
            shared_folder=shared_folder,
            threads=threads,
            options=options,
        )
    for name in options:
        known = f"{name} works only with a saved Recommender; pass its path instead of DataFrames."
        raise TypeError(known if name in OPTIONS else f"recommend_all has no option {name!r}.")
    users = Vectors.of(user_factors, "user_factors", user_column, features)
    items = Vectors.of(item_factors, "item_factors", item_column, features)
    excluded = None if exclude is None else excluded_lists(exclude, exclude_columns, users.ids, items.ids)
    answers = Answers.of(users.ids, items.ids, certified=certified)
    depot = Depot(users.frame.sparkSession, shared_folder)
    _look_at(users)
    if build_on == "driver":
        files = built_on_driver(items, Recipe(k, None if exact else recall, None), item_block_rows, depot)
    else:
        files = built_on_executors(items, Recipe(k, None if exact else recall, threads), item_block_rows, depot)
    asked, in_blocks = users.without(excluded), len(files) > 1
    found = [asked.mapInArrow(TopK(file, k, answers.shape, threads, quiet=in_blocks), answers.schema) for file in files]
    return merged(found, k, answers) if in_blocks else found[0]


def _look_at(users: Vectors) -> None:
    """Refuse duplicate or missing user ids, and warn if there are no users."""
    with described(users.frame.sparkSession, "checks the ids of users"):
        each = users.frame.groupBy(ID).count()
        n, most, whose, missing = each.agg(
            functions.sum("count"),
            functions.max("count"),
            functions.max_by(ID, "count"),
            functions.max(functions.isnull(ID)),
        ).first()
    if not n:
        warnings.warn("user_factors has 0 rows, so there are no users to recommend to.", UserWarning, stacklevel=3)
        return
    if missing:
        raise ValueError("user_factors has a null id, but every row needs an id.")
    if most > 1:
        raise ValueError(f"user_factors holds id {whose!r} {most:,} times, but ids must be unique.")
