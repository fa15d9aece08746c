"""Attributes: what is known of items, in columns."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.recommend import columns, reading
from tessella.recommend.columns import Column, Labels
from tessella.recommend.names import refuse_name

RESERVED = ("and", "or", "not")  # words of `where`


@dataclass(frozen=True, eq=False, repr=False)
class Attributes:
    """Columns with a value, several values, or none for each of n items; never changed once made.

    A column is of one kind: category (a text), several (a list of texts or of whole numbers), number, date, boolean.

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
        """The columns of a dict of lists or arrays, or of a table of pandas, polars or Arrow.

        Parameters
        ----------
        data : dict, or table of pandas, polars or Arrow
            The columns. Texts are a category, lists of texts or whole numbers several values, whole numbers and floats
            numbers; dates are of a type for dates, such as datetime64. None, NaN, NaT and NA are missing values.
        n : int
            How many items there are: the length of every column.
        what : str, default "attributes"
            What errors call it.
        like : Attributes, optional
            Others, whose columns these must have, of the same kinds. Dates may then also be texts.
        some : bool, default False
            Whether some of these columns are enough.
        """
        found = {}
        given = dict(reading.named_columns(data, what))
        if like is not None:
            like._check_names(given, what, some=some)
        for name, column in given.items():
            if name in RESERVED:
                raise ValueError(f"{what} has a column named {name!r}, which is a word of where; give it another name.")
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
        """The memory of all columns."""
        return sum(column.nbytes for column in self.columns.values())

    def column(self, name: str, what: str = "attributes") -> Column:
        """A column by its name; a sentence with near names if there is none."""
        if name not in self.columns:
            refuse_name(name, self.names, f"{what} names the column", "there is no such column")
        return self.columns[name]

    def take(self, entries: ArrayLike) -> Self:
        """Some entries, in the order given."""
        chosen = np.asarray(entries, np.int64)
        return type(self)({name: column.take(chosen) for name, column in self.columns.items()}, len(chosen))

    def blank(self, n: int) -> Self:
        """The same columns for n items of which nothing is known."""
        return type(self)({name: reading.blank(n, column) for name, column in self.columns.items()}, n)

    def joined(self, other: Self) -> Self:
        """The entries of others after these; they must have the same columns, of the same kinds."""
        self._check_names(other.columns, "attributes")
        joined = {}
        for name, column in self.columns.items():
            added = reading.of_kind(other.columns[name], column, f"attributes[{name!r}]")
            joined[name] = column.joined(added)
        return type(self)(joined, self.n + other.n)

    def replaced(self, entries: ArrayLike, other: Self) -> Self:
        """The same with others in the place of some entries; columns that the others have not stay as they are."""
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
                    f"{what} has no column {name!r}, but the items there have one; pass None where values are missing."
                )

    def values(self, name: str, entries: ArrayLike | None = None) -> list[Any]:
        """The values of a column as JSON has them, of all entries or of some; dates are texts, missing values None."""
        return self.column(name).values(np.arange(self.n) if entries is None else np.asarray(entries, np.int64))

    def row(self, entry: int) -> dict[str, Any]:
        """All that is known of one item, as JSON has it."""
        return {name: column.values(np.array([entry]))[0] for name, column in self.columns.items()}

    def labels(self, name: str, entries: ArrayLike, what: str = "attributes") -> Labels:
        """A number for each value of each entry, equal where values are: where those of each begin, and the numbers."""
        return self.column(name, what).labels(np.asarray(entries, np.int64))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """All columns as flat arrays, for a file."""
        return {
            f"{number}.{name}": array
            for number, column in enumerate(self.columns.values())
            for name, array in column.arrays().items()
        }

    def facts(self) -> dict[str, Any]:
        """What it takes to read the arrays, as JSON has it."""
        named = [{"name": name, **column.facts()} for name, column in self.columns.items()]
        return {"n": self.n, "columns": named}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> Self:
        """What `to_arrays` and `facts` gave."""
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
