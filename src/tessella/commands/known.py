"""Known: attributes, signals and interactions read from files, and matched to items and users by their ids."""

import array
import datetime
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from tessella import _checks, _files
from tessella.commands import tables
from tessella.commands.spool import is_whole_number
from tessella.recommend.attributes import Attributes
from tessella.recommend.columns import Category, Column, Several

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9:.]+)?")
_SEPARATOR = "|"
_TITLE = "title"
_COLUMNS = {
    "user": ("user", "user_id", "userid"),
    "item": ("item", "item_id", "itemid"),
    "weight": ("weight",),
}


class Interactions(NamedTuple):
    """Which users have seen which items.

    Attributes
    ----------
    matrix : csr_array of shape (n_users, n_items)
        The weight of each pair.
    user_ids : ndarray of shape (n_users,), or None
        The users of the rows, if the file names them.
    passed_over : str
        A remark on ignored rows, which name unknown users or items; empty if there are none.
    """

    matrix: Any
    user_ids: NDArray[Any] | None
    passed_over: str


def read_columns(
    path: Path, item_ids: NDArray[Any], what: str, like: Attributes | None = None, *, new: bool = False
) -> tuple[Any, str]:
    """Read columns of attributes or signals, with a value for each item; also return a remark on ignored rows.

    Without a column `id`, rows are in the order of the items. An item without a row gets missing values.

    Parameters
    ----------
    path : Path
        A .csv or .parquet file.
    item_ids : ndarray
        The ids of the items.
    what : str
        "attributes" or "signals".
    like : Attributes, default None
        The attributes of existing items, which determine the types of CSV columns. None infers them from the values.
    new : bool, default False
        Whether the items are new ones, so that most rows of the file may be about other items.
    """
    columns = _columns(path, what, like)
    n_rows = len(columns)
    if columns.ids is None:
        if n_rows != len(item_ids):
            raise ValueError(f"{path} has {n_rows:,} rows, but there are {len(item_ids):,} items; add a column `id`.")
        return columns.take(np.arange(n_rows)), ""
    row_of = {value: row for row, value in enumerate(columns.ids_like(item_ids))}
    rows = np.array([row_of.get(value, -1) for value in item_ids.tolist()], np.int64)
    n_found = int(np.count_nonzero(rows >= 0))
    if not new:
        _some_found(path, n_rows, n_found, "items")
    elif not n_found and len(item_ids):
        raise ValueError(f"{path} has 0 rows for the {len(item_ids):,} new items; check that the ids match.")
    return columns.take(rows), _passed_over(path, n_rows - n_found, n_rows, "items")


def read_changes(
    path: Path, item_ids: NDArray[Any], what: str, like: Attributes | None
) -> tuple[NDArray[Any], Any, str]:
    """Read the rows of a file that are about existing items: their ids and columns, and a remark on ignored rows."""
    columns = _columns(path, what, like)
    if columns.ids is None:
        raise ValueError(f"{path} has no column `id`; add one to say which item each row is for.")
    there = set(item_ids.tolist())
    rows = {row: value for row, value in enumerate(columns.ids_like(item_ids)) if value in there}
    _some_found(path, len(columns), len(rows), "items")
    passed_over = _passed_over(path, len(columns) - len(rows), len(columns), "items")
    named = np.array(list(rows.values()), item_ids.dtype)
    return named, columns.take(np.array(list(rows), np.int64)), passed_over


def read_interactions(
    path: Path, user_ids: NDArray[Any] | None, n_users: int | None, item_ids: NDArray[Any]
) -> Interactions:
    """Read the items that users have seen, by ids or as a matrix.

    Parameters
    ----------
    path : Path
        A .csv or .parquet file with columns `user` and `item`, and optionally `weight`; or an .npz file with a sparse
        matrix.
    user_ids : ndarray or None
        Ids of the users; None numbers them, or takes them from the file if `n_users` is None.
    n_users : int or None
        The number of users; None takes it from the file.
    item_ids : ndarray
        Ids of the items.
    """
    if path.suffix.lower() == ".npz":
        matrix = tables.read_seen(path, (n_users, len(item_ids)), "users x items")
        return Interactions(matrix, None, "")
    columns = _pairs(path)
    items = _places(columns.items, item_ids)
    if n_users is None:
        user_ids = tables.as_ids(columns.users.values)
        users, n_users, said_ids = np.arange(len(user_ids)), len(user_ids), user_ids
    else:
        users = _places(columns.users, np.arange(n_users) if user_ids is None else user_ids)
        said_ids = None
    rows, entries = users[columns.users.codes], items[columns.items.codes]
    there = (rows >= 0) & (entries >= 0)
    known = int(np.count_nonzero(there))
    _some_found(path, len(rows), int(np.count_nonzero(rows >= 0)), "users")
    _some_found(path, len(rows), int(np.count_nonzero(entries >= 0)), "items")
    weights = np.ones(known, np.float32) if columns.weights is None else columns.weights[there]
    entries_of = scipy.sparse.coo_array((weights, (rows[there], entries[there])), shape=(n_users, len(item_ids)))
    return Interactions(
        scipy.sparse.csr_array(entries_of),
        said_ids,
        _passed_over(path, len(rows) - known, len(rows), "users or items"),
    )


class _Coded(NamedTuple):
    """A long column of few distinct values."""

    codes: NDArray[np.int64]
    values: Any  # the distinct values: a list of strings for a CSV file, or an array


class _Pairs(NamedTuple):
    users: _Coded
    items: _Coded
    weights: NDArray[np.float32] | None


def _pairs(path: Path) -> _Pairs:
    _files.check_readable(path)
    read: Callable[[Path], _Pairs] = tables.by_suffix(
        {".csv": _csv_pairs, ".parquet": _parquet_pairs, ".npz": None}, path, "seen items are read from"
    )
    return read(path)


def _named(path: Path, names: list[str]) -> dict[str, str]:
    """Find the columns of users, items and weights."""
    found = {}
    for role, may_be in _COLUMNS.items():
        name = next((name for name in names if name.lower() in may_be), None)
        if name is not None:
            found[role] = name
        elif role != "weight":
            raise ValueError(
                f"{path} has the columns {', '.join(names)}, but needs `user` and `item`, and optionally `weight`."
            )
    return found


def _csv_pairs(path: Path) -> _Pairs:
    lines = tables.csv_lines(path)
    _, names = next(lines, (0, []))
    roles = {role: names.index(name) for role, name in _named(path, names).items()}
    codes = {role: array.array("q") for role in ("user", "item")}
    values: dict[str, dict[str, int]] = {"user": {}, "item": {}}
    weights = array.array("f")
    for line, fields in lines:
        _same_width(path, line, fields, names)
        for role, known in values.items():
            text = fields[roles[role]]
            if not text:
                raise ValueError(f"{path} has no {role} in line {line}.")
            codes[role].append(known.setdefault(text, len(known)))
        if "weight" in roles:
            text = fields[roles["weight"]]
            if not _NUMBER.fullmatch(text):
                raise ValueError(f"{path} has the weight {text!r} in line {line}, but weights must be numbers.")
            weights.append(float(text))
    coded = {role: _Coded(np.array(codes[role], np.int64), list(values[role])) for role in values}
    return _Pairs(coded["user"], coded["item"], np.array(weights, np.float32) if "weight" in roles else None)


def _parquet_pairs(path: Path) -> _Pairs:
    arrow, _, _ = tables.arrow_parts()
    schema, _ = tables.open_parquet(path)
    roles = _named(path, schema.names)
    _, batches = tables.open_parquet(path, list(roles.values()))
    parts: dict[str, list[Any]] = {role: [] for role in roles}
    known: dict[str, dict[Any, int]] = {"user": {}, "item": {}}
    for batch in batches:
        tables.refuse_missing(path, batch.columns)
        for role, name in roles.items():
            column = batch.column(name)
            if role == "weight":
                parts[role].append(np.asarray(column, np.float32))
                continue
            short = column if arrow.types.is_dictionary(column.type) else column.dictionary_encode()
            places = [known[role].setdefault(value, len(known[role])) for value in short.dictionary.to_pylist()]
            parts[role].append(np.array(places, np.int64)[np.asarray(short.indices)])
    joined = {role: np.concatenate(some) if some else np.zeros(0, np.int64) for role, some in parts.items()}
    users, items = (
        _Coded(joined[role], _checks.ids(list(known[role]), None, name=f"{path}: {role}")) for role in known
    )
    return _Pairs(users, items, joined["weight"].astype(np.float32) if "weight" in joined else None)


def _places(column: _Coded, ids: NDArray[Any]) -> NDArray[np.int64]:
    """Return the place of each distinct value of a column among the ids, or -1."""
    place_of = {value: place for place, value in enumerate(ids.tolist())}
    values = column.values if isinstance(column.values, list) else column.values.tolist()
    if isinstance(column.values, list) and ids.dtype.kind == "i":
        values = [int(value) if is_whole_number(value) else value for value in values]
    return np.array([place_of.get(value, -1) for value in values], np.int64)


def _some_found(path: Path, n_rows: int, n_found: int, whose: str) -> None:
    """Refuse a file if most of its rows name unknown items or users."""
    if n_rows and 2 * n_found < n_rows:
        raise ValueError(
            f"{path} has {n_rows:,} rows, but only {n_found:,} of them name known {whose}; check that the ids match."
        )


def _passed_over(path: Path, n: int, of: int, whose: str) -> str:
    return f"{path}: ignored {n:,} of {of:,} rows, which name unknown {whose}" if n else ""


class _Columns(NamedTuple):
    """The columns of a file, by name, and its ids if it has any."""

    path: Path
    columns: dict[str, Any]  # lists of strings, or Arrow columns
    ids: Any
    some: Callable[[Any, NDArray[np.int64], str], Any]  # returns some rows of one column; -1 is a missing value

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def ids_like(self, others: NDArray[Any]) -> list[Any]:
        """Return the ids of the rows, converted to the type of `others`; refuse duplicates."""
        texts = isinstance(self.ids, list)
        values = self.ids if texts else self.ids.to_pylist()
        if texts and others.dtype.kind == "i":
            values = [int(value) if is_whole_number(value) else value for value in values]
        if len(set(values)) < len(values):
            twice = next(value for value, n in Counter(values).items() if n > 1)
            raise ValueError(f"{self.path} has two rows with id {twice!r}.")
        return list(values)

    def take(self, rows: NDArray[np.int64]) -> dict[str, Any]:
        """Return some rows of all columns; a row of -1 gets missing values."""
        return {name: self.some(column, rows, name) for name, column in self.columns.items()}


def _columns(path: Path, what: str, like: Attributes | None) -> _Columns:
    """Read the columns of attributes or signals in a file."""
    _files.check_readable(path)
    read: Any = tables.by_suffix({".csv": _csv_columns, ".parquet": _parquet_columns}, path, f"{what} are read from")
    columns, some = read(path, like)
    if not columns:
        raise ValueError(f"{path} has no columns.")
    id_column = next((name for name in columns if name.lower() == "id"), None)
    ids = None if id_column is None else columns.pop(id_column)
    if not columns:
        raise ValueError(f"{path} has no {what}; besides `id`, it needs at least 1 column.")
    return _Columns(path, columns, ids, some)


def _csv_columns(path: Path, like: Attributes | None) -> Any:
    lines = tables.csv_lines(path)
    _, names = next(lines, (0, []))
    if len(set(names)) < len(names) or not all(names):
        raise ValueError(
            f"{path} starts with {','.join(names[:3])}..., but must start with a different name for each column."
        )
    columns: dict[str, list[str]] = {name: [] for name in names}
    for line, fields in lines:
        _same_width(path, line, fields, names)
        for name, text in zip(names, fields, strict=True):
            columns[name].append(text)

    def some(column: list[str], rows: NDArray[np.int64], name: str) -> Any:
        texts = ["" if row < 0 else column[row] for row in rows.tolist()]
        return _typed(texts, name, None if like is None else like.columns.get(name))

    return columns, some


def _parquet_columns(path: Path, _like: Attributes | None) -> Any:
    arrow, _, _ = tables.arrow_parts()
    schema, batches = tables.open_parquet(path)
    table = arrow.Table.from_batches(batches, schema)

    def some(column: Any, rows: NDArray[np.int64], _name: str) -> Any:
        return column.take(arrow.array(rows, mask=rows < 0))

    return {name: table.column(name) for name in schema.names}, some


def _same_width(path: Path, line: int, fields: list[str], names: list[str]) -> None:
    if len(fields) != len(names):
        raise ValueError(f"{path} has {len(fields)} columns in line {line}, but {len(names)} in line 1.")


def _typed(texts: list[str], name: str, like: Column | None = None) -> Any:
    """Convert a CSV column to the kind of `like`, or to numbers, dates, booleans or lists if all values fit."""
    there = [text for text in texts if text]
    if isinstance(like, Several):
        lists = [text.split(_SEPARATOR) if text else None for text in texts]
        if like.whole and all(is_whole_number(value) for own in lists if own for value in own):
            return [None if own is None else [int(value) for value in own] for own in lists]
        return lists
    if name != _TITLE and not isinstance(like, Category) and there:
        for holds, read in _KINDS:
            if all(map(holds, there)):
                return list(read(texts))
        if any(_SEPARATOR in text for text in there):
            return [text.split(_SEPARATOR) if text else None for text in texts]
    return [text or None for text in texts]


def _is_day(text: str) -> bool:
    if not _DAY.fullmatch(text):
        return False
    try:
        datetime.datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _each(read: Callable[[str], Any]) -> Callable[[list[str]], Iterator[Any]]:
    return lambda texts: (read(text) if text else None for text in texts)


def _days(texts: list[str]) -> Iterator[Any]:
    timed = any(len(text) > len("2000-01-01") for text in texts)
    for text in texts:
        moment = datetime.datetime.fromisoformat(text) if text else None
        yield moment if timed or moment is None else moment.date()


_KINDS: tuple[tuple[Callable[[str], bool], Callable[[list[str]], Iterator[Any]]], ...] = (
    (is_whole_number, _each(int)),
    (lambda text: _NUMBER.fullmatch(text) is not None, _each(float)),
    (lambda text: text.lower() in ("true", "false"), _each(lambda text: text.lower() == "true")),
    (_is_day, _days),
)
