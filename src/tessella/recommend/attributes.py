"""Attributes: the metadata of items, in columns."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.recommend import columns, reading
from tessella.recommend.columns import Column, Labels
from tessella.recommend.names import refuse_name

RESERVED = ("and", "or", "not")  # keywords of `where`


@dataclass(frozen=True, eq=False, repr=False)
class Attributes:
    """Columns with one value, several values or no value for each of n items; immutable.

    A column has one kind: category (a string), several (a list of strings or of integers), number, date or boolean.

    Examples
    --------
    >>> movies = Attributes.of({"genre": [["comedy"], ["drama", "crime"], None], "year": [1994, 1972, 2001]}, 3)
    >>> movies
    Attributes of 3 items: genre (several), year (number)
    >>> movies.row(1)
    {'genre': ['drama', 'crime'], 'year': 1972}
    """

    columns: Mapping[str, Column]
    n: int

    @classmethod
    def of(cls, data: Any, n: int, what: str = "attributes", *, like: Self | None = None, some: bool = False) -> Self:
        """Read the columns of a dict of lists or arrays, or of a pandas, polars or Arrow table.

        Parameters
        ----------
        data : dict, or pandas, polars or Arrow table
            The columns. Strings become a category, lists of strings or integers become several values, and integers
            and floats become numbers. Dates need a date type, such as datetime64. None, NaN, NaT and NA are missing
            values.
        n : int
            The number of items, and so the length of every column.
        what : str, default "attributes"
            What error messages call the data.
        like : Attributes, optional
            Existing attributes whose columns and kinds the data must match. Dates may then also be strings.
        some : bool, default False
            Whether `data` may have only some of the columns of `like`.
        """
        found = {}
        given = dict(reading.named_columns(data, what))
        if like is not None:
            like._check_names(given, what, some=some)
        for name, column in given.items():
            if name in RESERVED:
                raise ValueError(f"{what} has a column named {name!r}, which is a keyword of where; rename the column.")
            other = None if like is None else like.columns[name]
            found[name] = reading.read(column, n, f"{what}[{name!r}]", other)
        return cls(found if like is None else {name: found[name] for name in like.columns if name in found}, n)

    def __len__(self) -> int:
        return self.n

    def __repr__(self) -> str:
        listed = ", ".join(f"{name} ({kind})" for name, kind in self.kinds.items())
        return f"Attributes of {self.n:,} items: {listed or 'none'}"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.columns)

    @property
    def kinds(self) -> dict[str, str]:
        """The kind of each column: category, several, number, date or boolean."""
        return {name: column.kind for name, column in self.columns.items()}

    @property
    def nbytes(self) -> int:
        """The size of all columns in bytes."""
        return sum(column.nbytes for column in self.columns.values())

    def column(self, name: str, what: str = "attributes") -> Column:
        """Return a column by name; the error for an unknown name suggests a similar one."""
        if name not in self.columns:
            refuse_name(name, self.names, f"{what} names the column", "there is no such column")
        return self.columns[name]

    def take(self, entries: ArrayLike) -> Self:
        """Return some entries, in the given order."""
        chosen = np.asarray(entries, np.int64)
        return type(self)({name: column.take(chosen) for name, column in self.columns.items()}, len(chosen))

    def blank(self, n: int) -> Self:
        """Return these columns for n items, with every value missing."""
        return type(self)({name: reading.blank(n, column) for name, column in self.columns.items()}, n)

    def joined(self, other: Self) -> Self:
        """Append the entries of other attributes, which must have columns of the same names and kinds."""
        self._check_names(other.columns, "attributes")
        joined = {}
        for name, column in self.columns.items():
            added = reading.of_kind(other.columns[name], column, f"attributes[{name!r}]")
            joined[name] = column.joined(added)
        return type(self)(joined, self.n + other.n)

    def replaced(self, entries: ArrayLike, other: Self) -> Self:
        """Replace some entries; columns that `other` does not have stay unchanged."""
        rows = np.arange(self.n)
        rows[np.asarray(entries, np.int64)] = self.n + np.arange(other.n)
        old = type(self)({name: self.columns[name] for name in other.columns}, self.n)
        return type(self)({**self.columns, **old.joined(other).take(rows).columns}, self.n)

    def _check_names(self, names: Mapping[str, Any], what: str, *, some: bool = False) -> None:
        for name in names:
            self.column(name, what)
        for name in self.columns:
            if name not in names and not some:
                raise ValueError(
                    f"{what} has no column {name!r}, but existing items have it; pass None for missing values."
                )

    def values(self, name: str, entries: ArrayLike | None = None) -> list[Any]:
        """Return the JSON values of a column for all or some entries; dates are strings, missing values None."""
        return self.column(name).values(np.arange(self.n) if entries is None else np.asarray(entries, np.int64))

    def row(self, entry: int) -> dict[str, Any]:
        """Return all attributes of one item as JSON values."""
        return {name: column.values(np.array([entry]))[0] for name, column in self.columns.items()}

    def labels(self, name: str, entries: ArrayLike, what: str = "attributes") -> Labels:
        """Number the values of entries, equal values alike; return where each entry starts, and the numbers."""
        return self.column(name, what).labels(np.asarray(entries, np.int64))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return all columns as flat arrays, to store in a file."""
        return {
            f"{number}.{name}": array
            for number, column in enumerate(self.columns.values())
            for name, array in column.arrays().items()
        }

    def facts(self) -> dict[str, Any]:
        """Return what is needed to read the arrays again, as JSON values."""
        named = [{"name": name, **column.facts()} for name, column in self.columns.items()]
        return {"n": self.n, "columns": named}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> Self:
        """Restore attributes from the results of `to_arrays` and `facts`."""
        found = {}
        try:
            for number, described in enumerate(facts["columns"]):
                start = f"{number}."
                own = {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}
                found[described["name"]] = column = columns.from_arrays(own, described)
                if len(column) != facts["n"]:
                    raise ValueError(f"column {described['name']!r} has {len(column)} entries")  # noqa: TRY301
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise ValueError(f"The attributes are damaged ({error}).") from None
        return cls(found, facts["n"])
