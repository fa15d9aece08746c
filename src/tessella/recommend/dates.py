"""Dates: conversion between written dates and microseconds since 1970, in UTC."""

import re
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

DAY = 86_400_000_000  # microseconds
_WRITTEN = re.compile(r"\d{4}(-\d\d(-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)?)?)?)?", re.ASCII)
_FIRST_DAY = {4: "-01-01", 7: "-01"}  # completes a year or a month, by the length of the string
DAY_LENGTH = 10


class Span(NamedTuple):
    """The first and the last microsecond of a date, both inclusive."""

    first: int
    last: int


def written(value: object) -> str | None:
    """Return a date as a string: a year, a month, a day, or a time in UTC; None if the value is not a date."""
    if isinstance(value, np.datetime64):
        value = np.datetime_as_string(value, timezone="naive") if not np.isnat(value) else None
        value = value if value is None or len(value) <= DAY_LENGTH else value[:26]  # no finer than microseconds
    if isinstance(value, datetime):
        return _time(value) if value == value else None  # noqa: PLR0124 -- NaT is not equal to itself
    if isinstance(value, date):
        return value.isoformat()
    if not isinstance(value, str) or not _WRITTEN.fullmatch(value):
        return None
    try:
        if len(value) > DAY_LENGTH:
            return _time(datetime.fromisoformat(value))
        date.fromisoformat(value + _FIRST_DAY.get(len(value), ""))
    except (ValueError, OverflowError):
        return None
    return value


def _time(value: datetime) -> str:
    in_utc = value if value.tzinfo is None else value.astimezone(UTC)
    return in_utc.replace(tzinfo=None).isoformat(timespec="microseconds").removesuffix(".000000")


def span(text: str) -> Span:
    """Return the span of a string that `written` returned: a whole year, month or day, or one moment."""
    whole = np.datetime64(text)  # its unit is that of the string
    last = _microseconds(whole) if len(text) > DAY_LENGTH else _microseconds(whole + 1) - 1
    return Span(_microseconds(whole), last)


def _microseconds(value: Any) -> int:
    return int(value.astype("M8[us]").astype(np.int64))


def shown(numbers: NDArray[np.int64], unit: str) -> list[str]:
    """Format days or microseconds as strings."""
    return [text.removesuffix(".000000") for text in np.datetime_as_string(numbers.astype(f"M8[{unit}]")).tolist()]
