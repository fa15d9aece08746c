"""Reading: turns lists, arrays, and pandas, polars and Arrow columns into columns of attributes.

None of these libraries is imported. A column is read through NumPy if that loses nothing, and as Python values
otherwise.
"""

import datetime
import itertools
import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tessella import _checks
from tessella.recommend import dates
from tessella.recommend.columns import Boolean, Category, Column, Date, Number, Several, whole_numbers
from tessella.recommend.pools import Texts, coded, narrow

_MISSING = ("NoneType", "NAType", "NaTType")  # names of types in Python and pandas
_LOWEST = -(2**63)
_NUMBERS = (int, float, Decimal, np.integer, np.floating)
_KINDS = "strings, lists of strings or integers, numbers, dates or bools"


def named_columns(data: Any, what: str) -> Iterator[tuple[str, Any]]:
    """Yield the names and columns of a dict or a table."""
    if isinstance(data, Mapping):
        names, column = list(data), data.__getitem__
    elif hasattr(type(data), "collect"):  # a LazyFrame of polars
        raise TypeError(f"{what} is a {type(data).__name__}, which is not computed yet; pass its collect().")
    elif hasattr(data, "column_names") and hasattr(data, "column"):  # Arrow
        names, column = list(data.column_names), data.column
    elif hasattr(data, "columns") and hasattr(data, "__getitem__"):  # pandas, polars
        names, column = list(data.columns), data.__getitem__
    else:
        raise TypeError(
            f"{what} must be a dict of columns, or a pandas, polars or Arrow table, not {type(data).__name__}."
        )
    for number, name in enumerate(names):
        if not isinstance(name, str) or not name:
            raise TypeError(f"{what} has a column named {name!r}, but column names must be non-empty strings.")
        if name in names[:number]:
            raise ValueError(f"{what} has two columns named {name!r}.")
        yield name, column(name)


def read(given: Any, count: int, name: str, like: Column | None = None) -> Column:
    """Read a column of `count` values; if `like` is given, it must be of that kind."""
    if not _checks.is_sequence(type(given)) or isinstance(given, set | frozenset):
        raise TypeError(f"{name} must be a list or array with a value for each item, not {type(given).__name__}.")
    array = _array(given)
    if array is not None and array.ndim != 1:
        raise ValueError(f"{name} has {array.ndim} dimensions, but must have 1; pass a list for each item instead.")
    if len(given) != count:
        raise ValueError(f"{name} has {len(given)} values, but there are {count} items.")
    column = None if array is None else _from_array(array, name)
    if column is None:
        column = _from_values(_values(given), name, like)
    return column if like is None else of_kind(column, like, name)


def _array(given: Any) -> NDArray[Any] | None:
    """Convert a column to an array; return None if that would lose information."""
    if isinstance(given, list | tuple | range):
        return None
    try:
        array = np.asarray(given)
    except (TypeError, ValueError):
        return None
    kind = str(getattr(given, "dtype", getattr(given, "type", ""))).lower()  # Arrow says `type`
    floats_of_whole_numbers = array.dtype.kind == "f" and kind.startswith(("int", "uint"))
    return None if floats_of_whole_numbers else array


def _from_array(array: NDArray[Any], name: str) -> Column | None:
    """Make a column of numbers, dates or bools; return None if the type of the array is too general."""
    if array.dtype.kind == "b":
        return Boolean(array.astype(np.int8))
    if array.dtype.kind in "iu":
        if array.size:
            _fit(int(array.min()), int(array.max()), name)
        return Number(narrow(array).copy())
    if array.dtype.kind == "f":
        return Number(array.astype(np.float32 if array.dtype.itemsize <= 4 else np.float64))
    if array.dtype.kind == "M":
        return _dates(array)
    if array.dtype.kind in "OU":
        return None
    raise TypeError(f"{name} holds {array.dtype}, but must hold {_KINDS}.")


def _fit(low: int, high: int, name: str) -> None:
    """Refuse integers that do not fit int64, or that stand for a missing value."""
    if low < _LOWEST or high >= -_LOWEST:
        raise ValueError(f"{name} holds {low if low < _LOWEST else high}, but must fit in int64.")
    if low == _LOWEST:
        raise ValueError(f"{name} holds {low}, which stands for a missing value; use a larger number.")


def _dates(array: NDArray[Any]) -> Date:
    unit = "D" if np.datetime_data(array.dtype)[0] in ("Y", "M", "W", "D") else "us"
    missing = np.isnat(array)
    return Date(whole_numbers(array.astype(f"M8[{unit}]").astype(np.int64), missing), unit)


def _values(given: Any) -> list[Any]:
    """Return the values of a column as Python objects."""
    if isinstance(given, list | tuple | range):
        return list(given)
    reader = next(name for name in ("to_pylist", "to_list", "tolist") if hasattr(given, name))  # Arrow, polars, others
    values: list[Any] = getattr(given, reader)()
    return values


def _from_values(given: list[Any], name: str, like: Column | None) -> Column:
    """Make a column of Python values; missing ones become None."""
    values, kinds = _known(given)
    if not kinds:
        return blank(len(values), like)
    if _all(kinds, datetime.date, np.datetime64) or (isinstance(like, Date) and _all(kinds, str)):
        return _written_dates(values, name)
    if _all(kinds, str):
        codes, texts = coded([None if value is None else str(value) for value in values], whole_numbers=False)
        return Category(narrow(codes), cast("Texts", texts))
    if _all(kinds, bool, np.bool_):
        return Boolean(np.array([-1 if value is None else int(value) for value in values], np.int8))
    if not kinds & {bool, np.bool_} and _all(kinds, *_NUMBERS):
        return _numbers(values, kinds, name)
    if not all(map(_checks.is_sequence, kinds)):
        held = " and ".join(sorted(kind.__name__ for kind in kinds))
        raise TypeError(f"{name} holds {held}, but must hold values of one kind: {_KINDS}.")
    return _several(values, name, like)


def _known(values: list[Any]) -> tuple[list[Any], set[type]]:
    """Return the values, with None for missing ones, and the types of the others."""
    kinds = set(map(type, values))
    if any(issubclass(kind, float) for kind in kinds) and not _all(kinds, *_NUMBERS):
        values = [None if _is_missing(value) else value for value in values]
    elif not kinds.isdisjoint(gone := {kind for kind in kinds if kind.__name__ in _MISSING}):
        values = [None if type(value) in gone else value for value in values]
    return values, set(map(type, values)) - {type(None)}


def blank(count: int, like: Column | None) -> Column:
    """Make a column whose values are all missing, of the kind of `like`; a category if that is None."""
    if like is None:
        like = Category(np.zeros(0, np.int8), Texts.of([]))
    if isinstance(like, Several):
        nothing, none = np.zeros(count + 1, np.int64), np.zeros(count, np.bool_)
        return Several(nothing, like.codes[:0], none, like.pool.take(np.zeros(0, np.int64)))
    if isinstance(like, Category):
        return Category(np.full(count, -1, np.int8), Texts.of([]))
    if isinstance(like, Boolean):
        return Boolean(np.full(count, -1, np.int8))
    if isinstance(like, Date):
        return Date(np.full(count, -128, np.int8), like.unit)
    return Number(np.full(count, -128, np.int8))


def of_kind(column: Column, like: Column, name: str) -> Column:
    """Return a column that is of the same kind as `like`; refuse others."""
    if column.kind != like.kind:
        raise TypeError(f"{name} has kind {column.kind!r}, but for existing items it has kind {like.kind!r}.")
    if isinstance(column, Several) and isinstance(like, Several) and column.whole != like.whole:
        if len(column.codes):
            raise TypeError(
                f"{name} holds lists of {_called(column)}, but for existing items it holds lists of {_called(like)}."
            )
        return Several(column.starts, column.codes, column.there, like.pool.take(np.zeros(0, np.int64)))
    return column


def _called(column: Several) -> str:
    return "integers" if column.whole else "strings"


def _all(kinds: set[type], *allowed: type) -> bool:
    return all(issubclass(kind, allowed) for kind in kinds)


def _numbers(values: list[Any], kinds: set[type], name: str) -> Number:
    if not _all(kinds, int, np.integer):
        kind = np.float32 if _all(kinds, np.float32, np.float16) else np.float64
        return Number(np.array([np.nan if value is None else float(value) for value in values], kind))
    missing = np.fromiter((value is None for value in values), np.bool_, len(values))
    numbers = [0 if value is None else int(value) for value in values]
    _fit(min(numbers), max(numbers), name)
    return Number(whole_numbers(np.array(numbers, np.int64), missing))


def _written_dates(values: list[Any], name: str) -> Date:
    values = [None if isinstance(value, np.datetime64) and np.isnat(value) else value for value in values]
    texts = [None if value is None else dates.written(value) for value in values]
    for entry, (value, text) in enumerate(zip(values, texts, strict=True)):
        if value is not None and (text is None or len(text) < dates.DAY_LENGTH):
            raise ValueError(
                f"{name} holds {value!r} in row {entry}, but must hold dates such as 2020-12-31 or 2020-12-31T12:00:00."
            )
    unit = "us" if any(text is not None and len(text) > dates.DAY_LENGTH for text in texts) else "D"
    return _dates(np.array(["NaT" if text is None else text for text in texts], f"M8[{unit}]"))


def _several(values: list[Any], name: str, like: Column | None) -> Several:
    there = np.fromiter((value is not None for value in values), np.bool_, len(values))
    lists = [[] if value is None else _of_one_item(value) for value in values]
    kinds = set(map(type, itertools.chain.from_iterable(lists)))
    whole = _all(kinds, int, np.integer) and not kinds & {bool}
    if not kinds:
        whole = isinstance(like, Several) and like.whole
    elif not whole and not _all(kinds, str):
        held = " and ".join(sorted(kind.__name__ for kind in kinds))
        raise TypeError(f"{name} holds lists of {held}, but must hold lists of strings or of integers.")
    lists = [list(dict.fromkeys(own)) for own in lists]  # without duplicates
    starts = np.cumsum([0, *map(len, lists)])
    flat = list(itertools.chain.from_iterable(lists))
    if whole and flat:
        _fit(int(min(flat)), int(max(flat)), name)
    codes, pool = coded(list(map(int if whole else str, flat)), whole_numbers=whole)
    return Several(starts, narrow(codes), there, pool)


def _of_one_item(values: Any) -> list[Any]:
    """Return the values of one item without missing ones; those of a set are sorted."""
    own = sorted(values, key=str) if isinstance(values, set | frozenset) else _values(values)
    return [value for value in own if not _is_missing(value)]


def _is_missing(value: Any) -> bool:
    return type(value).__name__ in _MISSING or (isinstance(value, float) and math.isnan(value))
