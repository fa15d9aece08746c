"""Fields: stores attributes of items as ordinary fields of documents, so that the engine's own filters apply.

Two things that an OpenSearch field cannot express are kept among tessella's own fields: that a list is empty rather
than missing, and dates in microseconds, because date fields have milliseconds.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tessella.recommend import dates
from tessella.recommend.attributes import Attributes
from tessella.recommend.columns import Category, Column, Date, Number, Several

OWN = "tessella"  # the object that holds tessella's own fields
EMPTY, DATES = "empty", "dates"  # two of these fields
LONGEST_TEXT = 32_766  # bytes of a term in Lucene
_YEAR = re.compile(r"(?!0000)\d{4}-")
_TYPES = {"category": "keyword", "boolean": "boolean", "date": "date"}
_SAMPLES: dict[tuple[str, str], Any] = {
    ("category", "keyword"): [""],
    ("boolean", "boolean"): [True],
    ("date", "date"): np.zeros(1, "M8[us]"),
    ("number", "long"): [0],
    ("number", "float"): np.zeros(1, np.float32),
    ("number", "double"): np.zeros(1),
    ("several", "keyword"): [[""]],
    ("several", "long"): [[0]],
}


class Values(NamedTuple):
    """The attributes of an item, as stored in its document."""

    fields: dict[str, Any]  # by column name; missing values are left out
    own: dict[str, Any]  # tessella's own fields


def type_of(column: Column) -> str:
    """Return the OpenSearch type of a column's field."""
    if isinstance(column, Number):
        return "long" if column.whole else {4: "float", 8: "double"}[column.numbers.dtype.itemsize]
    if isinstance(column, Several):
        return "long" if column.whole else "keyword"
    return _TYPES[column.kind]


def described(attributes: Attributes) -> list[dict[str, str]]:
    """Describe columns by name, kind and type, as JSON values.

    Examples
    --------
    >>> movies = Attributes.of({"genre": [["comedy"]], "year": [1994]}, 1)
    >>> described(movies)
    [{'name': 'genre', 'kind': 'several', 'type': 'keyword'}, {'name': 'year', 'kind': 'number', 'type': 'long'}]
    """
    return [{"name": name, "kind": column.kind, "type": type_of(column)} for name, column in attributes.columns.items()]


def of_description(columns: list[dict[str, str]]) -> Attributes:
    """Return attributes of one made-up item, with the columns that `described` listed, as a template for others."""
    return Attributes.of({column["name"]: _SAMPLES[column["kind"], column["type"]] for column in columns}, 1)


def check_names(names: Mapping[str, Any]) -> None:
    """Refuse column names that have another meaning in OpenSearch."""
    for name in names:
        if name == OWN or name.startswith("_") or "." in name or name != name.strip():
            raise ValueError(
                f"attributes has a column named {name!r}, but field names in OpenSearch must not contain a dot, start "
                f"with an underscore, have spaces around them or be {OWN!r}; rename it."
            )


def properties(columns: Attributes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the mappings of the columns and of tessella's own fields."""
    own: dict[str, Any] = {}
    with_dates = [name for name, column in columns.columns.items() if isinstance(column, Date)]
    if with_dates:
        own[DATES] = {"properties": {name: {"type": "long", "doc_values": False} for name in with_dates}}
    if any(isinstance(column, Several) for column in columns.columns.values()):
        own[EMPTY] = {"type": "keyword", "doc_values": False}
    return {column["name"]: {"type": column["type"]} for column in described(columns)}, own


def read(data: Any, n: int, columns: Attributes) -> list[Values]:
    """Return the attributes of n items, one by one; their columns must match those of the index."""
    given = Attributes.of(data, n, like=columns)
    items = [Values({}, {}) for _ in range(n)]
    for name, column in given.columns.items():
        what = f"attributes[{name!r}]"
        for item, value in zip(items, _values(column, columns.columns[name], what), strict=True):
            if value is not None:
                item.fields[name] = value
        if isinstance(column, Several):
            for item in items:
                if item.fields.get(name) == []:
                    item.own.setdefault(EMPTY, []).append(name)
        if isinstance(column, Date):
            for item, moment in zip(items, _moments(column), strict=True):
                if moment is not None:
                    item.own.setdefault(DATES, {})[name] = moment
    return items


def _values(column: Column, like: Column, what: str) -> list[Any]:
    """Return the values of a column as JSON values; refuse those that its field cannot hold."""
    if isinstance(column, Number) and isinstance(like, Number):
        return _numbers(column, like, what)
    values = column.values(np.arange(len(column)))
    if isinstance(column, Date):
        for at, text in enumerate(values):
            if text is not None and not _YEAR.match(text):
                raise ValueError(f"{what} holds {text} at {at}, but date fields take the years 0001 to 9999.")
    elif isinstance(column, Category) or (isinstance(column, Several) and not column.whole):
        _check_texts(values, what)
    return values


def _check_texts(values: list[Any], what: str) -> None:
    for at, value in enumerate(values):
        for text in value if isinstance(value, list) else [value or ""]:
            length = len(text.encode())
            if length > LONGEST_TEXT:
                raise ValueError(
                    f"{what} holds a string of {length:,} bytes at {at}, but a field takes at most {LONGEST_TEXT:,}."
                )


def _numbers(column: Number, like: Number, what: str) -> list[Any]:
    """Return numbers as the field stores them: integers, or floats of its type without negative zero."""
    if column.whole and like.whole:
        return column.values(np.arange(len(column)))
    kind = np.dtype(np.float64) if like.whole else like.numbers.dtype
    with np.errstate(over="ignore"):
        floats = column.numbers.astype(kind)
    if column.whole and column.present is not None:
        floats[~column.present] = np.nan
    misfits = np.isinf(floats) | ((np.trunc(floats) != floats) & ~np.isnan(floats) if like.whole else False)
    if misfits.any():
        at = int(np.argmax(misfits))
        wanted = "integers, as when the index was made" if like.whole else f"finite {kind}"
        raise ValueError(f"{what} holds {column.numbers[at]} at {at}, but the field takes {wanted}.")
    made = (floats + 0.0).tolist()
    return [None if np.isnan(number) else int(number) if like.whole else number for number in made]


def _moments(column: Date) -> Iterator[int | None]:
    """Yield dates in microseconds since 1970."""
    length = dates.DAY if column.unit == "D" else 1
    there = np.ones(len(column), np.bool_) if column.present is None else column.present
    numbers: NDArray[np.int64] = column.numbers.astype(np.int64)
    for number, here in zip(numbers.tolist(), there.tolist(), strict=True):
        yield number * length if here else None
