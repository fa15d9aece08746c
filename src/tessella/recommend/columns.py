"""Columns: one attribute of all items, stored in a few flat arrays, with a class for each kind.

Each kind marks missing values in its own way: with the code -1, with NaN, or with the smallest number of its type.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tessella._cached import cached
from tessella.recommend import dates
from tessella.recommend.pools import Pool, Texts, Whole, WholeNumbers, narrow, type_for

Bools: TypeAlias = NDArray[np.bool_]
Labels: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]  # where the labels of each entry start; all labels

_SPARE = 2  # a pool may hold up to this many times as many values as there are codes
_FEW, _MANY = 8, 64  # up to this many values are compared one by one, not by a table or by binary search


class Column(ABC):
    """One attribute of n items; immutable."""

    kind: ClassVar[str]

    @abstractmethod
    def __len__(self) -> int: ...

    @cached
    def present(self) -> Bools | None:
        """A mask of the entries that have a value; None if all do."""
        there = self._present()
        return None if there.all() else there

    @abstractmethod
    def _present(self) -> Bools: ...

    @abstractmethod
    def any_of(self, values: Sequence[Any]) -> Bools:
        """Return a mask of the entries whose value is one of `values`."""

    @abstractmethod
    def take(self, entries: NDArray[Any]) -> Self:
        """Return some entries, in the given order."""

    @abstractmethod
    def joined(self, other: Self) -> Self:
        """Append the entries of another column."""

    @abstractmethod
    def values(self, entries: NDArray[Any]) -> list[Any]:
        """Return the JSON values of some entries; missing values are None."""

    @abstractmethod
    def labels(self, entries: NDArray[Any]) -> Labels:
        """Number the values of each entry, equal values alike; a missing value has no number."""

    @abstractmethod
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all data as arrays of types that a file can hold."""

    def facts(self) -> dict[str, Any]:
        """Return what is needed to read the arrays again."""
        return {"kind": self.kind}

    @property
    def nbytes(self) -> int:
        """The size of the arrays in bytes."""
        return sum(array.nbytes for array in self.arrays().values())

    def _one_each(self, labels: NDArray[Any], there: Bools) -> Labels:
        return np.concatenate([[0], np.cumsum(there)]), labels[there].astype(np.int64)


class Ordered(Column):
    """A column whose values are ordered."""

    @abstractmethod
    def compare(self, operator: str, value: Any) -> Bools:
        """Return a mask of the entries whose value is "from" (>=), "to" (<=), "above" (>) or "below" (<) a value."""


@dataclass(frozen=True, eq=False)
class Category(Column):
    """One string per item."""

    codes: Whole
    pool: Texts

    kind: ClassVar[str] = "category"

    def __len__(self) -> int:
        return len(self.codes)

    def _present(self) -> Bools:
        return self.codes >= 0

    def any_of(self, values: Sequence[str]) -> Bools:
        """Return a mask of the entries whose string is one of `values`."""
        return _is_any(self.codes, [code for code in map(self.pool.find, values) if code >= 0], len(self.pool))

    def take(self, entries: NDArray[Any]) -> Self:
        """Return some entries, in the given order."""
        codes, pool = _in_use(self.codes[entries], self.pool)
        return type(self)(codes, pool)

    def joined(self, other: Self) -> Self:
        """Append the entries of another column."""
        codes, pool = _joined(self.codes, self.pool, other.codes, other.pool)
        return type(self)(codes, pool)

    def values(self, entries: NDArray[Any]) -> list[Any]:
        """Return the strings of some entries."""
        return _looked_up(self.codes[entries], self.pool)

    def labels(self, entries: NDArray[Any]) -> Labels:
        """Return the codes."""
        codes = self.codes[entries]
        return self._one_each(codes, codes >= 0)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the codes and the strings."""
        return {"codes": self.codes, **self.pool.arrays()}


@dataclass(frozen=True, eq=False)
class Boolean(Column):
    """True or false per item."""

    codes: NDArray[np.int8]  # 1, 0, or -1 for a missing value

    kind: ClassVar[str] = "boolean"

    def __len__(self) -> int:
        return len(self.codes)

    def _present(self) -> Bools:
        return self.codes >= 0

    def any_of(self, values: Sequence[bool]) -> Bools:
        """Return a mask of the entries whose value is one of `values`."""
        return _is_any(self.codes, list(map(int, values)), 2)

    def take(self, entries: NDArray[Any]) -> Self:
        """Return some entries, in the given order."""
        return type(self)(self.codes[entries])

    def joined(self, other: Self) -> Self:
        """Append the entries of another column."""
        return type(self)(np.concatenate([self.codes, other.codes]))

    def values(self, entries: NDArray[Any]) -> list[Any]:
        """Return True, False or None for some entries."""
        return [(False, True, None)[code] for code in self.codes[entries].tolist()]

    def labels(self, entries: NDArray[Any]) -> Labels:
        """Return the codes."""
        codes = self.codes[entries]
        return self._one_each(codes, codes >= 0)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the codes."""
        return {"codes": self.codes}


@dataclass(frozen=True, eq=False)
class Number(Ordered):
    """One number per item: exact integers, or floats, which are compared in their own type."""

    numbers: NDArray[Any]  # missing: NaN, or the smallest number of an integer type

    kind: ClassVar[str] = "number"

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def whole(self) -> bool:
        """Whether the column holds integers."""
        return self.numbers.dtype.kind == "i"

    def _present(self) -> Bools:
        return _there(self.numbers) if self.whole else ~np.isnan(self.numbers)

    def any_of(self, values: Sequence[float]) -> Bools:
        """Return a mask of the entries whose number is one of `values`."""
        if not self.whole:
            return _equal_any(self.numbers, [self._rounded(value) for value in values])
        limits = np.iinfo(self.numbers.dtype)
        whole = [int(value) for value in values if value == math.floor(value)]
        return _equal_any(self.numbers, [value for value in whole if limits.min < value <= limits.max])

    def compare(self, operator: str, value: float) -> Bools:
        """Return a mask of the entries whose number is "from", "to", "above" or "below" a value."""
        if self.whole:
            return _whole_compared(self.numbers, self.present, operator, math.ceil(value), math.floor(value))
        other = self._rounded(value)
        if operator == "from":
            return np.asarray(self.numbers >= other)
        if operator == "above":
            return np.asarray(self.numbers > other)
        return np.asarray(self.numbers <= other if operator == "to" else self.numbers < other)

    def _rounded(self, value: float) -> Any:
        with np.errstate(over="ignore"):
            return self.numbers.dtype.type(value)

    def take(self, entries: NDArray[Any]) -> Self:
        """Return some entries, in the given order."""
        return type(self)(self.numbers[entries])

    def joined(self, other: Self) -> Self:
        """Append the entries of another column; floats keep their type, integers are widened as necessary."""
        if self.whole and other.whole:
            return type(self)(_joined_whole(self.numbers, other.numbers))
        if self.whole:
            fractions = np.nan_to_num(other.numbers)
            if (np.abs(fractions) < 2.0**53).all() and (fractions == np.trunc(fractions)).all():
                numbers = whole_numbers(fractions.astype(np.int64), np.isnan(other.numbers))
                return type(self)(_joined_whole(self.numbers, numbers))
            return type(self)(np.concatenate([self._floats(np.dtype(np.float64)), other.numbers.astype(np.float64)]))
        return type(self)(np.concatenate([self.numbers, other._floats(self.numbers.dtype)]))

    def _floats(self, dtype: np.dtype[Any]) -> NDArray[Any]:
        floats = self.numbers.astype(dtype)
        if self.whole and self.present is not None:
            floats[~self.present] = np.nan
        return floats

    def values(self, entries: NDArray[Any]) -> list[Any]:
        """Return the numbers of some entries."""
        numbers = self.numbers[entries]
        there = _there(numbers) if self.whole else ~np.isnan(numbers)
        return [number if here else None for number, here in zip(numbers.tolist(), there.tolist(), strict=True)]

    def labels(self, entries: NDArray[Any]) -> Labels:
        """Return integers as their own labels; number floats among these entries."""
        numbers = self.numbers[entries]
        if self.whole:
            return self._one_each(numbers, _there(numbers))
        return self._one_each(np.unique(numbers, return_inverse=True)[1], ~np.isnan(numbers))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the numbers."""
        return {"numbers": self.numbers}


@dataclass(frozen=True, eq=False)
class Date(Ordered):
    """One day or time per item."""

    numbers: Whole  # days, or microseconds, since 1970; missing: the smallest number of the type
    unit: str  # "D" or "us"

    kind: ClassVar[str] = "date"

    def __len__(self) -> int:
        return len(self.numbers)

    def _present(self) -> Bools:
        return _there(self.numbers)

    def any_of(self, values: Sequence[str]) -> Bools:
        """Return a mask of the entries within one of these years, months or days, or at one of these times."""
        found = np.zeros(len(self), np.bool_)
        for value in values:
            found |= self.compare("from", value) & self.compare("to", value)
        return found

    def compare(self, operator: str, value: str) -> Bools:
        """Return a mask of the entries "from", "to", "above" or "below" a year, month, day or time."""
        span = dates.span(value)
        moment = span.first if operator in ("from", "below") else span.last
        length = dates.DAY if self.unit == "D" else 1
        return _whole_compared(self.numbers, self.present, operator, -(-moment // length), moment // length)

    def take(self, entries: NDArray[Any]) -> Self:
        """Return some entries, in the given order."""
        return replace(self, numbers=self.numbers[entries])

    def joined(self, other: Self) -> Self:
        """Append the entries of another column; days become times if either column has times."""
        if self.unit == other.unit:
            return replace(self, numbers=_joined_whole(self.numbers, other.numbers))
        return type(self)(_joined_whole(self._microseconds(), other._microseconds()), "us")

    def _microseconds(self) -> Whole:
        if self.unit == "us":
            return self.numbers
        there = _there(self.numbers)
        return whole_numbers(np.where(there, self.numbers.astype(np.int64), 0) * dates.DAY, ~there)

    def values(self, entries: NDArray[Any]) -> list[Any]:
        """Return the dates of some entries as strings."""
        numbers = self.numbers[entries]
        there = _there(numbers)
        shown = dates.shown(np.where(there, numbers, 0).astype(np.int64), self.unit)
        return [text if here else None for text, here in zip(shown, there.tolist(), strict=True)]

    def labels(self, entries: NDArray[Any]) -> Labels:
        """Return the numbers as their own labels."""
        numbers = self.numbers[entries]
        return self._one_each(numbers, _there(numbers))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the numbers."""
        return {"numbers": self.numbers}

    def facts(self) -> dict[str, Any]:
        """Return the kind and the unit."""
        return {"kind": self.kind, "unit": self.unit}


@dataclass(frozen=True, eq=False)
class Several(Column):
    """A list of values per item, possibly empty: strings, or integers."""

    starts: NDArray[np.int64]  # (n + 1) where the codes of each item start
    codes: Whole  # each at most once per item
    there: Bools  # whether the item has a list, even an empty one
    pool: Texts | WholeNumbers

    kind: ClassVar[str] = "several"

    def __len__(self) -> int:
        return len(self.there)

    @property
    def whole(self) -> bool:
        """Whether the column holds integers."""
        return isinstance(self.pool, WholeNumbers)

    def _present(self) -> Bools:
        return self.there

    @cached
    def by_code(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Where the items of each code start, and the items."""
        items = np.repeat(np.arange(len(self), dtype=np.int32), np.diff(self.starts))
        counts = np.bincount(self.codes, minlength=len(self.pool))
        return np.concatenate([[0], np.cumsum(counts)]), items[np.argsort(self.codes, kind="stable")]

    def any_of(self, values: Sequence[Any]) -> Bools:
        """Return a mask of the entries that have at least one of `values`."""
        starts, items = self.by_code
        found = np.zeros(len(self), np.bool_)
        for code in map(self.pool.find, values):
            if code >= 0:
                found[items[starts[code] : starts[code + 1]]] = True
        return found

    def all_of(self, values: Sequence[Any]) -> Bools:
        """Return a mask of the entries that have all of `values`."""
        found = self.there.copy()
        for value in values:
            found &= self.any_of([value])
        return found

    def take(self, entries: NDArray[Any]) -> Self:
        """Return some entries, in the given order."""
        starts, codes = self.labels(entries)
        used, pool = _in_use(codes, self.pool)
        return type(self)(starts, used.astype(type_for(0, len(pool)), copy=False), self.there[entries], pool)

    def joined(self, other: Self) -> Self:
        """Append the entries of another column."""
        codes, pool = _joined(self.codes, self.pool, other.codes, other.pool)
        starts = np.concatenate([self.starts, self.starts[-1] + other.starts[1:]])
        return type(self)(starts, codes, np.concatenate([self.there, other.there]), pool)

    def values(self, entries: NDArray[Any]) -> list[Any]:
        """Return the lists of some entries."""
        starts, codes = self.labels(entries)
        values = _looked_up(codes, self.pool)
        lists = [values[start:end] for start, end in zip(starts.tolist(), starts[1:].tolist(), strict=False)]
        return [own if here else None for own, here in zip(lists, self.there[entries].tolist(), strict=True)]

    def labels(self, entries: NDArray[Any]) -> Labels:
        """Return the codes of each entry."""
        first = self.starts[entries]
        lengths = self.starts[np.asarray(entries) + 1] - first
        starts = np.concatenate([[0], np.cumsum(lengths)])
        places = np.repeat(first - starts[:-1], lengths) + np.arange(starts[-1])
        return starts, self.codes[places].astype(np.int64)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return starts, codes, and the distinct values."""
        return {"starts": self.starts, "codes": self.codes, "there": self.there.view(np.uint8), **self.pool.arrays()}

    def facts(self) -> dict[str, Any]:
        """Return the kind, and whether the values are numbers or strings."""
        return {"kind": self.kind, "of": "number" if self.whole else "text"}

    @property
    def nbytes(self) -> int:
        """The size of the arrays in bytes, including the items by code once these have been computed."""
        held: tuple[NDArray[Any], ...] = vars(self).get("by_code", ())
        return super().nbytes + sum(array.nbytes for array in held)


def whole_numbers(numbers: NDArray[Any], missing: Bools | None = None) -> Whole:
    """Convert integers to a small type, with its smallest number for missing values."""
    if missing is None or not missing.any():
        return narrow(numbers)
    there = narrow(np.where(missing, numbers[~missing][0] if not missing.all() else 0, numbers)).copy()
    there[missing] = np.iinfo(there.dtype).min
    return there


def from_arrays(arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> Column:
    """Restore a column from its `arrays` and `facts`; ValueError or KeyError if they do not fit together."""
    kind = facts["kind"]
    _check(kind in ("category", "boolean", "number", "date", "several"), "its kind is unknown")
    if kind in ("number", "date"):
        numbers = arrays["numbers"]
        _check(
            numbers.ndim == 1 and numbers.dtype.kind in ("if" if kind == "number" else "i"),
            "its numbers have the wrong type",
        )
        _check(kind == "number" or facts["unit"] in ("D", "us"), "its unit is unknown")
        return Number(numbers) if kind == "number" else Date(numbers, facts["unit"])
    codes = arrays["codes"]
    _check(codes.ndim == 1 and codes.dtype.kind == "i", "its codes are not integers")
    if kind == "boolean":
        _check_codes(codes, -1, 2)
        return Boolean(codes.astype(np.int8, copy=False))
    if kind == "category":
        texts = _texts(arrays)
        _check_codes(codes, -1, len(texts))
        return Category(codes, texts)
    pool = _whole_numbers(arrays) if facts["of"] == "number" else _texts(arrays)
    _check_codes(codes, 0, len(pool))
    starts, there = arrays["starts"], arrays["there"]
    _check(len(starts) == len(there) + 1 and starts[0] == 0, "its lists have the wrong offsets")
    _check_ascending(starts, len(codes))
    _check(there.dtype == np.uint8, "its mask of missing values is not uint8")
    return Several(starts, codes, there.view(np.bool_), pool)


def _texts(arrays: Mapping[str, NDArray[Any]]) -> Texts:
    _check(arrays["text_bytes"].dtype == np.uint8, "its strings are not uint8")
    _check_ascending(arrays["text_ends"], len(arrays["text_bytes"]))
    return Texts(arrays["text_bytes"], arrays["text_ends"])


def _whole_numbers(arrays: Mapping[str, NDArray[Any]]) -> WholeNumbers:
    numbers = arrays["numbers"]
    _check(numbers.dtype == np.int64 and bool((numbers[1:] > numbers[:-1]).all()), "its numbers are not sorted")
    return WholeNumbers(numbers)


def _check(fits: bool, what: str) -> None:
    if not fits:
        raise ValueError(what)


def _check_codes(codes: Whole, low: int, end: int) -> None:
    _check(not len(codes) or low <= int(codes.min()) <= int(codes.max()) < end, "its codes are out of range")


def _check_ascending(ends: NDArray[Any], last: int) -> None:
    _check(
        ends.dtype == np.int64 and ends.ndim == 1 and bool((np.diff(ends, prepend=0) >= 0).all()), "its offsets descend"
    )
    _check((int(ends[-1]) if len(ends) else 0) == last, "its offsets end in the wrong place")


def _there(numbers: Whole) -> Bools:
    return np.asarray(numbers != np.iinfo(numbers.dtype).min)


def _is_any(codes: Whole, wanted: list[int], n_codes: int) -> Bools:
    if len(wanted) <= _FEW:
        return _equal_any(codes, wanted)
    table = np.zeros(n_codes + 1, np.bool_)  # the last entry is for the code -1
    table[wanted] = True
    return table[codes]


def _equal_any(numbers: NDArray[Any], wanted: Sequence[Any]) -> Bools:
    if len(wanted) > _FEW and numbers.dtype.kind == "i" and numbers.dtype.itemsize <= 2:
        table = np.zeros(2 ** (8 * numbers.dtype.itemsize), np.bool_)
        table[list(wanted)] = True  # negative numbers count from the end, here and in the lookup below
        return np.asarray(table[numbers])
    if len(wanted) > _MANY:
        ascending = np.sort(np.array(wanted, numbers.dtype))
        places = np.searchsorted(ascending, numbers)
        return np.asarray(ascending[np.minimum(places, len(ascending) - 1)] == numbers)
    found = np.zeros(len(numbers), np.bool_)
    for value in wanted:
        found |= numbers == value
    return found


def _whole_compared(numbers: Whole, present: Bools | None, operator: str, up: int, down: int) -> Bools:
    """Compare integers with a number, given rounded `up` and `down`; the two are equal for an integer."""
    limits = np.iinfo(numbers.dtype)
    if operator in ("from", "above"):
        low = up if operator == "from" else down + 1
        if low > limits.max:
            return np.zeros(len(numbers), np.bool_)
        return np.asarray(numbers >= max(low, limits.min + 1))
    high = down if operator == "to" else up - 1
    if high <= limits.min:
        return np.zeros(len(numbers), np.bool_)
    found = np.asarray(numbers <= min(high, limits.max))
    if present is not None:
        found &= present
    return found


def _joined_whole(one: Whole, two: Whole) -> Whole:
    if one.dtype == two.dtype:
        return np.concatenate([one, two])
    kind = max(one.dtype, two.dtype, key=lambda dtype: dtype.itemsize)
    lowest = np.iinfo(kind).min
    widened = [
        np.where(_there(part), part, np.array(lowest, kind)) if part.dtype != kind else part for part in (one, two)
    ]
    return np.concatenate(widened)


def _joined(codes: Whole, pool: Any, others: Whole, other_pool: Any) -> tuple[Whole, Any]:
    """Merge the pools of two columns; return the joined codes and the merged pool."""
    whole, new, new_others = pool.merged(other_pool)
    kind = type_for(0, len(whole))
    mine = codes if whole is pool else np.append(new, -1).astype(kind)[codes]
    return np.concatenate([mine.astype(kind, copy=False), np.append(new_others, -1).astype(kind)[others]]), whole


def _in_use(codes: Whole, pool: Any) -> tuple[Whole, Any]:
    """Return codes and their pool; drop unused values from the pool once it is much larger than the codes."""
    if len(pool) <= _SPARE * len(codes):
        return codes, pool
    used = np.unique(codes[codes >= 0])
    new = np.full(len(pool) + 1, -1)
    new[used] = np.arange(len(used))
    return new[codes].astype(type_for(0, len(used))), pool.take(used)


def _looked_up(codes: Whole, pool: Pool) -> list[Any]:
    values = {code: pool[code] for code in set(codes.tolist()) if code >= 0}
    return [values.get(code) for code in codes.tolist()]
