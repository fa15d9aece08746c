"""Conditions: translates a `where` into a filter of OpenSearch that selects the same items as in one process.

`Condition` checks the `where` and brings it into a canonical form, in which every "not" is pushed down to a single
test. This module translates that form. For a missing value, both a test and its negation are false, so a negated test
also requires that a value exists.
"""

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tessella._threads import cut
from tessella.opensearch.fields import DATES, EMPTY, OWN
from tessella.recommend import dates
from tessella.recommend.attributes import Attributes
from tessella.recommend.columns import Column, Date, Number, Several
from tessella.recommend.conditions import Condition

ALL: dict[str, Any] = {"match_all": {}}
NONE: dict[str, Any] = {"match_none": {}}
_MOST_TERMS = 65_536  # terms in one clause, OpenSearch's default limit
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1


def filter_of(where: Any, columns: Attributes) -> dict[str, Any]:
    """Translate a `where` into a query of OpenSearch.

    Examples
    --------
    >>> movies = Attributes.of({"genre": ["comedy"], "year": [1994]}, 1)
    >>> filter_of({"genre": "comedy"}, movies)
    {'terms': {'genre': ['comedy']}}
    >>> filter_of({"not": {"year": {"below": 1990}}}, movies)
    {'range': {'year': {'gte': 1990}}}
    """
    return _translated(json.loads(Condition.of(where, columns).text), columns)


def every(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the conjunction of queries."""
    return parts[0] if len(parts) == 1 else {"bool": {"filter": list(parts)}} if parts else ALL


def some(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the disjunction of queries."""
    if len(parts) <= 1:
        return parts[0] if parts else NONE
    return {"bool": {"should": list(parts), "minimum_should_match": 1}}


def _translated(condition: dict[str, Any], columns: Attributes) -> dict[str, Any]:
    if not condition:
        return ALL
    ((key, value),) = condition.items()
    if key in ("and", "or"):
        return (every if key == "and" else some)([_translated(part, columns) for part in value])
    if key == "not":  # only of an "all" test; the canonical form negates other tests itself
        ((name, test),) = value.items()
        return _without(name, columns.columns[name], _test(name, columns.columns[name], *_only(test)))
    return _test(key, columns.columns[key], *_only(value))


def _only(test: dict[str, Any]) -> tuple[str, Any]:
    (both,) = test.items()
    return both


def _test(name: str, column: Column, operator: str, value: Any) -> dict[str, Any]:
    if operator == "missing":
        there = _there(name, column)
        return {"bool": {"must_not": [there]}} if value else there
    if operator == "any":
        return _any(name, column, value)
    if operator == "none":
        return _without(name, column, _any(name, column, value))
    if operator == "all":
        return every([_any(name, column, [one]) for one in value]) if value else _there(name, column)
    return _compared(name, column, operator, value)


def _there(name: str, column: Column) -> dict[str, Any]:
    """Return a query for items that have a value, which may be an empty list."""
    there = {"exists": {"field": name}}
    return some([there, {"term": {f"{OWN}.{EMPTY}": name}}]) if isinstance(column, Several) else there


def _without(name: str, column: Column, test: dict[str, Any]) -> dict[str, Any]:
    """Return a query for items that have a value for which a test is false."""
    return {"bool": {"filter": [_there(name, column)], "must_not": [test]}}


def _any(name: str, column: Column, values: list[Any]) -> dict[str, Any]:
    """Return a query for items whose value is, or contains, one of these."""
    if isinstance(column, Date):
        return some([_within(name, dates.span(value)) for value in values])
    if isinstance(column, Number) and not column.whole:
        rounded = [_rounded(column, value) for value in values]
        values = [value for value in rounded if math.isfinite(value)]
    elif isinstance(column, Number) or (isinstance(column, Several) and column.whole):
        values = [int(value) for value in values if value == math.floor(value) and _LOWEST < value <= _HIGHEST]
    parts = [{"terms": {name: values[part]}} for part in cut(len(values), _MOST_TERMS)]
    return some(parts)


def _within(name: str, span: dates.Span) -> dict[str, Any]:
    return {"range": {f"{OWN}.{DATES}.{name}": {"gte": span.first, "lte": span.last}}}


def _compared(name: str, column: Column, operator: str, value: Any) -> dict[str, Any]:
    """Return a query for items whose value is "from", "to", "above" or "below" another."""
    there = _there(name, column)
    if isinstance(column, Date):
        span = dates.span(value)
        moment = span.first if operator in ("from", "below") else span.last
        return _whole_range(f"{OWN}.{DATES}.{name}", operator, moment, moment, there)
    if isinstance(column, Number) and column.whole:
        return _whole_range(name, operator, math.ceil(value), math.floor(value), there)
    limit = _rounded(column, value) if isinstance(column, Number) else value
    if not math.isfinite(limit):  # beyond the range of the type
        return there if (limit > 0) == (operator in ("to", "below")) else NONE
    bound = {"from": "gte", "to": "lte", "above": "gt", "below": "lt"}[operator]
    return {"range": {name: {bound: limit}}}


def _whole_range(field: str, operator: str, up: int, down: int, there: dict[str, Any]) -> dict[str, Any]:
    """Return a comparison of integers with a number whose ceiling is `up` and whose floor is `down`."""
    if operator in ("from", "above"):
        low = up if operator == "from" else down + 1
        return NONE if low > _HIGHEST else there if low <= _LOWEST else {"range": {field: {"gte": low}}}
    high = down if operator == "to" else up - 1
    return NONE if high <= _LOWEST else there if high > _HIGHEST else {"range": {field: {"lte": high}}}


def _rounded(column: Number, value: float) -> float:
    """Round a number to the type of the column; negative zero becomes zero."""
    with np.errstate(over="ignore"):
        return float(column.numbers.dtype.type(value)) + 0.0
