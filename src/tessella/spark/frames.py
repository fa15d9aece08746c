"""Frames: finds the columns of ids and vectors in a DataFrame, and checks them before a job runs."""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession, functions, types

from tessella.spark.arrow import EXCLUDED, FEATURES, ID

_WHOLE = (types.ByteType, types.ShortType, types.IntegerType, types.LongType)
_REAL = (types.FloatType, types.DoubleType, *_WHOLE)
_VECTOR = "vector"  # the type name of vectors in both of Spark's ML libraries


@dataclass(frozen=True)
class Named:
    """The name and type of a column of ids, as the caller knows it."""

    column: str
    kind: types.DataType

    @property
    def texts(self) -> bool:
        """Whether the ids are strings."""
        return isinstance(self.kind, types.StringType)


@dataclass(frozen=True)
class Vectors:
    """A DataFrame of ids and vectors."""

    frame: DataFrame  # with columns ID and FEATURES
    ids: Named

    @classmethod
    def of(cls, frame: Any, name: str, column: str | None, features: str) -> "Vectors":
        """Select the columns of ids and vectors from a caller's frame."""
        refuse_other(frame, name)
        _expect(frame, name, features, "features")
        ids = _named(frame, name, column or _beside(frame, features), f"{name.partition('_')[0]}_column")
        return cls(frame.select(_id(ids), _vectors(frame, name, features).alias(FEATURES)), ids)

    def without(self, excluded: DataFrame | None) -> DataFrame:
        """Return the frame with a column EXCLUDED of ids to exclude, if there are any."""
        return self.frame if excluded is None else self.frame.join(excluded, ID, "left")


def refuse_other(frame: Any, name: str) -> None:
    """Refuse anything but a DataFrame of a classic Spark session."""
    if not isinstance(frame, DataFrame):
        raise TypeError(f"{name} must be a Spark DataFrame, not {type(frame).__name__}.")
    if type(frame).__module__.startswith("pyspark.sql.connect"):
        raise TypeError(f"{name} is a DataFrame of Spark Connect, which cannot ship files; use a classic session.")
    if frame.sparkSession.sparkContext._jsc is None:
        raise RuntimeError(f"{name} is a DataFrame of a Spark session that has been stopped.")
    if frame.isStreaming:
        raise TypeError(f"{name} is a streaming DataFrame, but must have all its rows; use foreachBatch.")


def excluded_lists(frame: Any, columns: tuple[str, str] | None, users: Named, items: Named) -> DataFrame:
    """Collect the items to exclude: one row per user, in columns ID and EXCLUDED.

    Parameters
    ----------
    frame : DataFrame
        Pairs of users and items.
    columns : pair of str, or None
        Their columns. None uses the names of the id columns, or "user" and "item" if both have the same name.
    users, items : Named
        The id columns of users and items.
    """
    refuse_other(frame, "exclude")
    same = users.column == items.column
    pair = columns or (("user", "item") if same else (users.column, items.column))
    if not isinstance(pair, tuple | list) or len(pair) != 2 or pair[0] == pair[1]:
        raise ValueError(
            f"exclude_columns is {pair!r}, but must be two different names: the columns of users and of items."
        )
    found = [_named(frame, "exclude", column, "exclude_columns") for column in pair]
    for given, own, whose in zip(found, (users, items), ("users", "items"), strict=True):
        if given.texts != own.texts:
            kinds = given.kind.simpleString(), own.kind.simpleString()
            raise TypeError(f"exclude has {kinds[0]} in column {given.column!r}, but ids of {whose} are {kinds[1]}.")
    pairs = frame.select(_id(found[0]), quoted(found[1].column).alias(EXCLUDED))
    return pairs.groupBy(ID).agg(functions.collect_set(EXCLUDED).alias(EXCLUDED))


@contextmanager
def described(spark: SparkSession, text: str) -> Iterator[None]:
    """Set the description that Spark's web UI shows for the jobs of the block."""
    context, key = spark.sparkContext, "spark.job.description"
    before = context.getLocalProperty(key)
    context.setLocalProperty(key, f"tessella: {text}")
    try:
        yield
    finally:
        context.setLocalProperty(key, before)


def quoted(column: str) -> Column:
    """Return a column by its name, with special characters quoted."""
    return functions.col("`" + column.replace("`", "``") + "`")


def _id(ids: Named) -> Column:
    """Return the ids as column ID; strings lose their collation, under which different ids could be equal."""
    column = quoted(ids.column)
    return (column.cast(types.StringType()) if ids.texts else column).alias(ID)


def _expect(frame: DataFrame, name: str, column: str, option: str) -> None:
    if column not in frame.columns:
        there = ", ".join(map(repr, frame.columns)) or "none"
        raise ValueError(f"{name} has no column {column!r}, only {there}; name the right one with {option}.")
    if frame.columns.count(column) > 1:
        raise ValueError(f"{name} has {frame.columns.count(column)} columns {column!r}, but must have one.")


def _beside(frame: DataFrame, features: str) -> str:
    """Return the default column of ids: the only one beside the vectors, else ID."""
    others = [column for column in frame.columns if column != features]
    return others[0] if len(others) == 1 else ID


def _named(frame: DataFrame, name: str, column: str, option: str) -> Named:
    _expect(frame, name, column, option)
    field = frame.schema[column]
    if not isinstance(field.dataType, (*_WHOLE, types.StringType)):
        kind = field.dataType.simpleString()
        raise TypeError(f"{name} has {kind} in column {column!r}, but ids must be integers or strings.")
    texts = isinstance(field.dataType, types.StringType)
    return Named(column, types.StringType() if texts else field.dataType)


def _vectors(frame: DataFrame, name: str, features: str) -> Column:
    """Return the column of vectors as arrays of numbers."""
    kind, column = frame.schema[features].dataType, quoted(features)
    if isinstance(kind, types.ArrayType) and isinstance(kind.elementType, _REAL):
        return column
    if isinstance(kind, types.UserDefinedType) and kind.simpleString() == _VECTOR:
        ml = importlib.import_module("pyspark.ml.functions")  # slow to import, and not needed by workers
        return ml.vector_to_array(column, "float32")
    raise TypeError(
        f"{name} has {kind.simpleString()} in column {features!r}, but vectors must be arrays of numbers or ML vectors."
    )
