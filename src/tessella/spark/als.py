"""ALS: takes the factors of Spark's own ALS model."""

from typing import Any, NamedTuple

from pyspark.sql import DataFrame


class Factors(NamedTuple):
    """User and item factors, the first two arguments of `recommend_all`."""

    user_factors: DataFrame
    item_factors: DataFrame


def from_als(model: Any) -> Factors:
    """Return the factors of a Spark ALS model, for `recommend_all` in place of `model.recommendForAllUsers`.

    Parameters
    ----------
    model : pyspark.ml.recommendation.ALSModel
        The model that ``ALS.fit`` or ``ALSModel.load`` returned.

    Returns
    -------
    factors : Factors
        Two DataFrames. Their id columns have the names of the model's ``userCol`` and ``itemCol``; the result of
        `recommend_all` has them, too.

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
