"""Results: formats answers like `ALSModel.recommendForAllUsers`, and merges the answers of several blocks."""

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, types
from pyspark.sql import functions as sql

from tessella.results import SearchResult
from tessella.spark.frames import Named, quoted

RECOMMENDATIONS, RATING, CERTIFIED = "recommendations", "rating", "certified"
_ARROW = {"tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64(), "string": pa.string()}


@dataclass(frozen=True)
class Shape:
    """The format of the answers that workers write."""

    user_column: str
    item_column: str
    item_type: Any  # Arrow's
    certified: bool

    def batch(self, user_ids: Any, found: SearchResult) -> Any:
        """Return the answers for some users as a batch of rows; lists with missing answers are shorter."""
        there = found.scores > -np.inf
        starts = np.zeros(len(there) + 1, np.int32)
        np.cumsum(there.sum(axis=1), out=starts[1:])
        items = pa.array(found.ids[there], pa.string() if found.ids.dtype.kind in "OU" else pa.int64())
        pairs = [items.cast(self.item_type), pa.array(found.scores[there], pa.float32())]
        rated = pa.StructArray.from_arrays(pairs, [self.item_column, RATING])
        columns = {self.user_column: user_ids, RECOMMENDATIONS: pa.ListArray.from_arrays(starts, rated)}
        if self.certified:
            columns[CERTIFIED] = pa.array(found.certified)
        return pa.RecordBatch.from_pydict(columns)


class Answers(NamedTuple):
    """The format of answers, for workers and for Spark."""

    shape: Shape
    schema: types.StructType

    @classmethod
    def of(cls, users: Named, items: Named, *, certified: bool) -> "Answers":
        """Return the format for given columns of ids, whose names and types it keeps."""
        taken = (RECOMMENDATIONS, CERTIFIED) if certified else (RECOMMENDATIONS,)
        for column, others in ((users.column, taken), (items.column, (RATING,))):
            if column in others:
                raise ValueError(
                    f"the column of ids is named {column!r}, but the result has its own column of that name; rename it."
                )
        rated = types.StructType().add(items.column, items.kind).add(RATING, types.FloatType())
        schema = types.StructType().add(users.column, users.kind, nullable=False)
        schema.add(RECOMMENDATIONS, types.ArrayType(rated))
        if certified:
            schema.add(CERTIFIED, types.BooleanType())
        kind = _ARROW[items.kind.simpleString()]
        return cls(Shape(users.column, items.column, kind, certified), schema)


def merged(blocks: list[DataFrame], k: int, answers: Answers) -> DataFrame:
    """Merge the answers of several blocks into the best k per user; certified if all of them are.

    Parameters
    ----------
    blocks : list of DataFrame
        The answers of each block, one row per user.
    k : int
        How many items to keep per user.
    answers : Answers
        The format of the answers.
    """
    item, user = answers.shape.item_column, answers.shape.user_column

    def ranked(one: Column) -> Column:  # sorts by descending rating, then by id
        return sql.struct((-one.getField(RATING)).alias(RATING), one.getField(item).alias(item))

    def back(one: Column) -> Column:
        return sql.struct(one.getField(item).alias(item), (-one.getField(RATING)).alias(RATING))

    together = functools.reduce(DataFrame.union, blocks)
    best = sql.slice(sql.sort_array(sql.transform(sql.flatten(sql.collect_list(RECOMMENDATIONS)), ranked)), 1, k)
    columns = [sql.transform(best, back).cast(answers.schema[RECOMMENDATIONS].dataType).alias(RECOMMENDATIONS)]
    if answers.shape.certified:
        columns.append(sql.bool_and(CERTIFIED).alias(CERTIFIED))
    return together.groupBy(quoted(user)).agg(*columns)
