"""Conditions: which items a `where` allows.

A `where` is parsed into a tree of tests in negation normal form: "not" is pushed down to the tests, so a tree is
evaluated with masks of what is true, and unknown results need no mask of their own. A test of a missing value is not
true, and neither is its negation.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tessella import _checks
from tessella.recommend import dates
from tessella.recommend.attributes import Attributes
from tessella.recommend.columns import Column, Number, Ordered, Several
from tessella.recommend.names import refuse_name

Bools: TypeAlias = NDArray[np.bool_]

_LISTS = ("any", "all", "none")
_OPPOSITE = {"from": "below", "to": "above", "above": "to", "below": "from"}
_OPERATORS = (*_LISTS, *_OPPOSITE, "missing")
_MAX_DEPTH = 100


@dataclass(frozen=True)
class _Test:
    """A comparison of one column with values, or its negation."""

    column: str
    operator: str  # any, all, from, to, above, below or missing
    value: Any  # a tuple for any and all
    negated: bool

    def plain(self) -> dict[str, Any]:
        """Return the test as a `where`."""
        if self.operator == "missing":
            return {self.column: {"missing": not self.negated}}
        if self.operator == "any":
            return {self.column: {"none" if self.negated else "any": list(self.value)}}
        test = {self.column: {self.operator: list(self.value) if self.operator == "all" else self.value}}
        return {"not": test} if self.negated else test

    def mask(self, attributes: Attributes) -> Bools:
        """Return a mask of the entries for which the test is true."""
        column = attributes.columns[self.column]
        if self.operator == "missing":
            return _where_missing(column) ^ self.negated
        if self.operator == "any":
            found = column.any_of(self.value)
        elif self.operator == "all" and isinstance(column, Several):
            found = column.all_of(self.value)
        elif isinstance(column, Ordered):
            found = column.compare(self.operator, self.value)
        else:
            raise ValueError(f"the column {self.column!r} has changed its kind since the condition was parsed.")
        if self.negated:
            np.logical_not(found, out=found)
            if column.present is not None:
                found &= column.present
        return found


@dataclass(frozen=True)
class _Joined:
    """Several conditions, all or any of which must be true."""

    operator: str  # and, or
    parts: tuple["_Test | _Joined", ...]

    @classmethod
    def of(cls, operator: str, parts: list["_Test | _Joined"]) -> "_Test | _Joined":
        """Join conditions in a canonical form: sorted, without duplicates, nested joins of the same kind merged."""
        flat: dict[str, _Test | _Joined] = {}
        for part in parts:
            inner = part.parts if isinstance(part, _Joined) and part.operator == operator else (part,)
            flat.update((_text(one), one) for one in inner)
        if len(flat) == 1:
            return next(iter(flat.values()))
        return cls(operator, tuple(flat[text] for text in sorted(flat)))

    def plain(self) -> dict[str, Any]:
        """Return the condition as a `where`."""
        if not self.parts and self.operator == "and":
            return {}
        return {self.operator: [part.plain() for part in self.parts]}

    def mask(self, attributes: Attributes) -> Bools:
        """Return a mask of the entries for which the condition is true."""
        if not self.parts:
            return np.full(len(attributes), self.operator == "and")
        found = self.parts[0].mask(attributes)
        for part in self.parts[1:]:
            if self.operator == "and":
                found &= part.mask(attributes)
            else:
                found |= part.mask(attributes)
        return found


@dataclass(frozen=True)
class Condition:
    """A `where`, checked against the columns it names.

    Examples
    --------
    >>> from tessella.recommend.attributes import Attributes
    >>> movies = Attributes.of({"genre": [["comedy"], ["drama", "crime"], None], "year": [1994, 1972, 2001]}, 3)
    >>> Condition.of({"year": {"from": 1990}, "not": {"genre": "drama"}}, movies).mask(movies)
    array([ True, False, False])
    >>> Condition.of({"not": {"year": {"below": 1990.0}, "and": []}}, movies).text
    '{"year":{"from":1990}}'
    """

    tree: _Test | _Joined

    @classmethod
    def of(cls, where: Any, attributes: Attributes, what: str = "where") -> Self:
        """Parse and check a `where`."""
        return cls(_Reader(attributes, what).condition(where, negated=False, depth=0))

    @property
    def text(self) -> str:
        """Canonical JSON: a valid `where` itself, and the same string for equal conditions."""
        return _text(self.tree)

    def mask(self, attributes: Attributes) -> Bools:
        """Return, for each item, whether the condition is true."""
        return self.tree.mask(attributes)


@dataclass(frozen=True)
class _Reader:
    attributes: Attributes
    what: str

    def condition(self, where: Any, *, negated: bool, depth: int) -> _Test | _Joined:
        """Parse a dict of conditions: all must be true or, if negated, at least one must be false."""
        if not isinstance(where, Mapping):
            raise TypeError(f"{self.what} has {_a(where)} where a dict of conditions is expected.")
        if depth > _MAX_DEPTH:
            raise ValueError(f"{self.what} is nested more than {_MAX_DEPTH} levels deep; simplify it.")
        parts: list[_Test | _Joined] = []
        for key, value in where.items():
            if key == "not":
                parts.append(self.condition(value, negated=not negated, depth=depth + 1))
            elif key in ("and", "or"):
                if not isinstance(value, list | tuple):
                    raise TypeError(f"{self.what} has {key!r} with {_a(value)}, but it takes a list of dicts.")
                inner = [self.condition(one, negated=negated, depth=depth + 1) for one in value]
                parts.append(_Joined.of(_swapped(key, negated), inner))
            else:
                parts += self.tests(key, value, negated)
        return _Joined.of(_swapped("and", negated), parts)

    def tests(self, name: Any, asked: Any, negated: bool) -> list[_Test | _Joined]:
        """Parse the tests of one column."""
        if not isinstance(name, str):
            raise TypeError(f"{self.what} has the key {name!r}, but keys must be column names, 'and', 'or' or 'not'.")
        column = self.attributes.column(name, self.what)
        if not isinstance(asked, Mapping):
            asked = {"any": asked if _is_list(asked) else [asked]}
        if not asked:
            raise ValueError(f"{self.what}[{name!r}] is an empty dict, but must have at least one operator.")
        return [self.test(name, column, operator, value, negated) for operator, value in asked.items()]

    def test(self, name: str, column: Column, operator: Any, value: Any, negated: bool) -> _Test:
        """Parse one test."""
        where = f"{self.what}[{name!r}]"
        if operator not in _OPERATORS:
            refuse_name(operator, _OPERATORS, f"{where} has the operator", "there is no such operator")
        if operator == "missing":
            _checks.true_or_false(value, f"{where}['missing']")
            return _Test(name, "missing", None, negated == bool(value))
        if operator in _OPPOSITE:
            if not isinstance(column, Ordered):
                raise TypeError(
                    f"{where} has {operator!r}, which needs numbers or dates, but the column has kind {column.kind!r}."
                )
            return _Test(name, _OPPOSITE[operator] if negated else operator, _value(value, column, where), False)
        if operator == "all" and not isinstance(column, Several):
            raise TypeError(
                f"{where} has 'all', which needs a column of lists, but the column has kind {column.kind!r}."
            )
        if not _is_list(value):
            raise TypeError(f"{where} has {operator!r} with {_a(value)}, but it takes a list.")
        values = tuple(sorted({_value(one, column, where) for one in value}))
        if operator == "all" and len(values) == 1:
            operator = "any"
        return _Test(name, "any" if operator == "none" else operator, values, negated != (operator == "none"))


def _text(part: _Test | _Joined) -> str:
    return json.dumps(part.plain(), separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def _swapped(operator: str, negated: bool) -> str:
    return operator if not negated else "or" if operator == "and" else "and"


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple | set | frozenset | np.ndarray)


def _where_missing(column: Column) -> Bools:
    return np.zeros(len(column), np.bool_) if column.present is None else ~column.present


def _value(value: Any, column: Column, where: str) -> Any:
    """Return a value as a JSON value; refuse one that the column cannot hold."""
    if value is None:
        raise TypeError(f"{where} compares with None; pass {{'missing': True}} for items without a value.")
    if column.kind == "boolean":
        if isinstance(value, bool | np.bool_):
            return bool(value)
        wanted = "true or false"
    elif column.kind == "date":
        text = dates.written(value)
        if text is not None:
            return text
        wanted = "dates, such as '2020', '2020-12', '2020-12-31' or '2020-12-31T12:00:00'"
    elif isinstance(column, Number) or (isinstance(column, Several) and column.whole):
        number = _number(value)
        if number is not None:
            return number
        wanted = "finite numbers"
    else:
        if isinstance(value, str):
            return str(value)
        wanted = "strings"
    raise TypeError(f"{where} compares with {value!r}, but the column holds {wanted}.")


def _number(value: Any) -> int | float | None:
    """Return a finite number, as an int if it is integral; None if it is not a finite number."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        return None
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, float):
        if not math.isfinite(plain):
            return None
        return int(plain) if plain.is_integer() else plain
    return plain if abs(plain) < 2**1023 else None


def _a(value: object) -> str:
    name = type(value).__name__
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"
