"""Spark's own ALS: the factors of its model, under the names of its columns."""

from typing import Any, NamedTuple

from pyspark.sql import DataFrame


class Factors(NamedTuple):
    """User and item factors, to be passed to `recommend_all`."""

    user_factors: DataFrame
    item_factors: DataFrame


def from_als(model: Any) -> Factors:
    """The factors of Spark's ALS, so that `recommend_all` answers as `model.recommendForAllUsers` does.

    Parameters
    ----------
    model : pyspark.ml.recommendation.ALSModel
        What ``ALS.fit`` returned, or ``ALSModel.load``.

    Returns
    -------
    factors : Factors
        Two DataFrames. Their id columns are named as the model's ``userCol`` and ``itemCol``, and so are the columns of
        what `recommend_all` gives for them.

    Examples
    --------
    >>> from pyspark.ml.recommendation import ALS
    >>> from pyspark.sql import SparkSession
    >>> from tessella.spark import from_als, recommend_all
    >>> spark = SparkSession.builder.master("local[1]").getOrCreate()
    >>> ratings = spark.createDataFrame([(0, 7, 5.0), (0, 8, 1.0), (1, 8, 4.0)], "user int, item int, rating float")
    >>> model = ALS(rank=2, seed=0).fit(ratings)
    >>> recommend_all(*from_als(model), k=1).columns == model.recommendForAllUsers(1).columns
    True
    """
    if not (hasattr(model, "userFactors") and hasattr(model, "itemFactors")):
        raise TypeError(f"{type(model).__name__} has no userFactors; pass the ALSModel that ALS.fit returns.")
    return Factors(
        model.userFactors.withColumnRenamed("id", model.getUserCol()),
        model.itemFactors.withColumnRenamed("id", model.getItemCol()),
    )
