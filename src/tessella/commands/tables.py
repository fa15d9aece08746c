"""Tables in files, for the command line: factors, ids and seen items in, answers out."""

import array
import contextlib
import csv
import importlib
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from tessella import _checks, _files
from tessella.results import SearchResult

COLUMNS = ("user", "rank", "item", "score")
_NO_NPY = "it is no .npy file, is damaged, or holds Python objects"
_WHOLE_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,18}")


class Table(NamedTuple):
    """What a file says of items or users, row by row.

    Attributes
    ----------
    factors : ndarray of float32, shape (n, n_factors)
        Checked factors.
    ids : ndarray of shape (n,), list of str, or None
        Their ids, if the file has any: an array where the file tells numbers from texts, and a list where it does not.
    """

    factors: NDArray[np.float32]
    ids: NDArray[Any] | list[str] | None


class UserAnswers(NamedTuple):
    """The answers to some users.

    Attributes
    ----------
    users : ndarray of shape (n,)
        Row numbers or ids of the users.
    found : SearchResult
        A row for each of them.
    """

    users: NDArray[Any]
    found: SearchResult


def read_factors(path: Path, n_factors: int | None = None) -> Table:
    """The factors in a file, and their ids if it has any.

    Parameters
    ----------
    path : Path
        A .npy, .npz, .csv or .parquet file.
    n_factors : int, default None
        How many columns of factors there must be; None takes any number.
    """
    reader = _by_suffix(_READERS, path, "factors are read from")
    _files.check_readable(path)
    if not path.stat().st_size:
        raise ValueError(f"{path} is empty.")
    factors, ids = reader(path)
    if factors.ndim != 2:
        raise ValueError(
            f"{path} holds an array of shape {factors.shape}, but factors have two dimensions: a row for each item or "
            "user."
        )
    if isinstance(ids, np.ndarray):
        ids = _checks.ids(ids, None, unique=False)
    if ids is not None and len(ids) != len(factors):
        raise ValueError(f"{path} has {len(ids)} ids, but {len(factors)} rows of factors.")
    return Table(_checks.all_factors(factors, str(path), n_factors), ids)


def open_factors(path: Path, n_factors: int) -> NDArray[Any]:
    """The factors in a file without their ids; those in a .npy file stay there, of any type and yet to be checked."""
    if path.suffix.lower() != ".npy" or not path.stat().st_size:
        return read_factors(path, n_factors).factors
    _files.check_readable(path)
    with _opened(path, _NO_NPY):
        factors = np.lib.format.open_memmap(path, mode="r")
    return _checks.factors(factors, str(path), n_factors)


def read_ids(path: Path) -> list[str]:
    """The ids in a text file, one a line."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            ids = [line.removesuffix("\n") for line in file]
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not text in UTF-8: {error}.") from None
    if "" in ids:
        raise ValueError(f"{path} has an empty line {ids.index('') + 1}, but every line is an id.")
    return ids


def as_ids(ids: NDArray[Any] | list[str], *, texts: bool = False) -> NDArray[Any]:
    """Ids of one kind. A list becomes int64 if all of it can, and `texts` does not forbid it; an array has its kind."""
    if isinstance(ids, np.ndarray):
        return ids
    if not texts and all(_WHOLE_NUMBER.fullmatch(text) and -(2**63) <= int(text) < 2**63 for text in ids):
        return np.array([int(text) for text in ids], np.int64)
    return _checks.ids(ids, None, unique=False)


def read_seen(path: Path, shape: tuple[int, int], what: str) -> Any:
    """The sparse matrix of users x items that `scipy.sparse.save_npz` wrote, by rows."""
    _files.check_readable(path)
    with _opened(path, "it is no sparse matrix of scipy.sparse.save_npz, or is damaged") as file:
        matrix = scipy.sparse.load_npz(file)
        if hasattr(matrix, "check_format"):
            matrix.check_format()  # a damaged one could crash the conversion
        by_rows = scipy.sparse.csr_array(matrix)
    if by_rows.shape != shape:
        raise ValueError(f"{path} has shape {by_rows.shape}, but must have shape {shape}: {what}.")
    return by_rows


def writer(path: Path) -> Callable[[Path, Iterator[UserAnswers]], None]:
    """The function that writes answers, at least one part of them, to a file with the suffix of `path`."""
    write: Callable[[Path, Iterator[UserAnswers]], None] = _by_suffix(_WRITERS, path, "answers are written to")
    if write is _write_parquet:
        _arrow()
    return write


def write_rows(file: IO[str], answers: Iterable[UserAnswers], delimiter: str) -> None:
    """Write answers as lines of text, under a line of column names."""
    lines = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    for number, part in enumerate(answers):
        lines.writerows([] if number else [COLUMNS])  # not before the first search, which may refuse its input
        lines.writerows(rows(part))


def rows(answers: UserAnswers) -> Iterator[tuple[Any, int, Any, str]]:
    """User, rank, item and score of every answer there is.

    As text a score has the fewest digits that tell it from other float32 numbers.
    """
    columns = _columns(answers)
    return zip(*(values.tolist() for values in (*columns[:3], columns[3].astype(np.str_))), strict=True)


def _by_suffix(choices: dict[str, Any], path: Path, what: str) -> Any:
    choice = choices.get(path.suffix.lower())
    if choice is None:
        *most, last = choices
        raise ValueError(f"{path} ends in {path.suffix!r}, but {what} {', '.join(most)} or {last}.")
    return choice


@contextlib.contextmanager
def _opened(path: Path, reason: str) -> Iterator[IO[bytes]]:
    """An open file, and one sentence for whatever a reader raises if it is not what it should be."""
    with path.open("rb") as file:
        try:
            yield file
        except MemoryError:
            raise
        except Exception as error:
            raise ValueError(f"{path} cannot be read: {reason}.") from error


def _read_npy(path: Path) -> tuple[NDArray[Any], None]:
    with _opened(path, _NO_NPY) as file:
        return np.lib.format.read_array(file, allow_pickle=False), None


def _read_npz(path: Path) -> tuple[NDArray[Any], NDArray[Any] | None]:
    with (
        _opened(path, "it is no .npz file, is damaged, or holds Python objects") as file,
        np.load(file, allow_pickle=False) as arrays,
    ):
        names = [name for name in arrays.files if name != "ids"]
        name = "factors" if "factors" in names else names[0] if len(names) == 1 else None
        ids = arrays["ids"] if "ids" in arrays.files else None
        factors = None if name is None else np.asarray(arrays[name])
    if factors is None:
        raise ValueError(f"{path} holds the arrays {', '.join(names)}; name the one with factors `factors`.")
    return factors, ids


def _read_csv(path: Path) -> tuple[NDArray[Any], list[str] | None]:
    values, ids = array.array("d"), list[str]()
    n_rows, width, n_ids, first = 0, 0, 0, 0
    for line, fields in _csv_lines(path):
        if not first:
            first, width = line, len(fields)
            if _is_header(path, fields):
                n_ids = int(_id_column(path, fields[:1], fields) is not None)
                continue
        if len(fields) != width:
            raise ValueError(f"{path} has {len(fields)} columns in line {line}, but {width} in line {first}.")
        try:
            values.extend(map(_number, fields[n_ids:]))
        except ValueError as error:
            raise ValueError(f"{path} cannot be read in line {line}: {error}.") from None
        if n_ids:
            if not fields[0]:
                raise ValueError(f"{path} has no id in line {line}.")
            ids.append(fields[0])
        n_rows += 1
    return np.array(values).reshape(n_rows, width - n_ids), ids if n_ids else None


def _csv_lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = csv.reader(file, strict=True)
        try:
            yield from ((lines.line_num, fields) for fields in lines if fields)
        except (UnicodeDecodeError, csv.Error) as error:
            raise ValueError(f"{path} is not CSV in UTF-8: {error}.") from None


def _is_header(path: Path, fields: list[str]) -> bool:
    """Whether the first line names the columns."""
    if len(fields) > 1 and fields == [str(column) for column in range(len(fields))]:
        raise ValueError(
            f"{path} begins with {','.join(fields[:3])}..., which may name columns or be factors; "
            "begin it with a line of other names."
        )
    return fields[0].lower() == "id" or not any(map(_is_number, fields))


def _number(text: str) -> float:
    if "_" in text:
        raise ValueError(f"could not convert string to float: {text!r}")
    return float(text)


def _is_number(text: str) -> bool:
    try:
        _number(text)
    except ValueError:
        return False
    return True


def _id_column(path: Path, may_be: list[str], names: list[str]) -> str | None:
    """The column `id`, if it is among those that may be. No other may look like ids: it would be taken for factors."""
    found = next((name for name in may_be if name.lower() == "id"), None)
    strange = [name for name in names if name != found and re.search(r"(?i)id$|^__index_", name)]
    if strange:
        raise ValueError(
            f"{path} has a column {strange[0]!r}; if it holds ids, name it id and put it first, or drop it."
        )
    return found


def _arrow() -> tuple[Any, Any, Any]:
    """The parts of pyarrow in use; it is imported by those only who need it."""
    try:
        arrow, compute, parquet = map(importlib.import_module, ("pyarrow", "pyarrow.compute", "pyarrow.parquet"))
    except ImportError:
        raise ImportError("Parquet files need pyarrow; get it with: pip install 'tessella[parquet]'") from None
    return arrow, compute, parquet


def _read_parquet(path: Path) -> tuple[NDArray[Any], NDArray[Any] | None]:
    arrow, compute, parquet = _arrow()
    with _opened(path, "it is no Parquet file, or is damaged") as file:
        table = parquet.read_table(file)
    id_column = _id_column(path, table.column_names, table.column_names)
    _refuse_missing(path, table.columns)
    ids = None if id_column is None else np.array(table[id_column].to_pylist())
    columns = [table[name].combine_chunks() for name in table.column_names if name != id_column]
    lists = arrow.ListArray, arrow.LargeListArray, arrow.FixedSizeListArray
    width = len(columns)
    if width == 1 and isinstance(columns[0], lists):
        lengths = np.unique(compute.list_value_length(columns[0]))
        if len(lengths) > 1:
            raise ValueError(f"{path} has lists of {lengths[0]} and of {lengths[-1]} factors, but all must be as long.")
        columns, width = [columns[0].flatten()], int(lengths[0]) if len(lengths) else 0
        _refuse_missing(path, columns)
    numbers = arrow.types.is_integer, arrow.types.is_floating
    other = [column.type for column in columns if not any(holds(column.type) for holds in numbers)]
    if other or not columns:
        raise ValueError(
            f"{path} has {f'a column of {other[0]}' if other else 'no factors'}, but needs, beside `id`, "
            "one column of lists of numbers or some columns of numbers."
        )
    return np.stack([np.asarray(column) for column in columns], axis=1).reshape(len(table), width), ids


def _refuse_missing(path: Path, columns: list[Any]) -> None:
    if any(column.null_count for column in columns):
        raise ValueError(f"{path} has missing values, but every id and every factor must be there.")


def _columns(answers: UserAnswers) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[Any], NDArray[np.float32]]:
    """User, rank, item and score of every answer there is."""
    ids, scores = answers.found.ids, answers.found.scores
    there = scores > -np.inf
    users, ranks = np.nonzero(there)
    return answers.users[users], ranks + 1, ids[there], scores[there]


def _write_csv(path: Path, answers: Iterator[UserAnswers]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        write_rows(file, answers, ",")


def _write_jsonl(path: Path, answers: Iterator[UserAnswers]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for part in answers:
            for *values, score in rows(part):
                file.write(json.dumps(dict(zip(COLUMNS, (*values, float(score)), strict=True))) + "\n")


def _write_npz(path: Path, answers: Iterator[UserAnswers]) -> None:
    parts = [part.found.arrays() for part in answers]
    found = {name: np.concatenate([part[name] for part in parts]) for name in SearchResult.FIELDS}
    if found["ids"].dtype == object:  # texts, and None where there is no item: files hold no objects
        found["ids"] = np.where(found["scores"] > -np.inf, found["ids"], "").astype(np.str_)
    with path.open("wb") as file:
        np.savez(file, **found)  # type: ignore[arg-type]


def _write_parquet(path: Path, answers: Iterator[UserAnswers]) -> None:
    arrow, _, parquet = _arrow()
    first = next(answers)
    kinds = [arrow.int64() if array.dtype.kind == "i" else arrow.string() for array in (first.users, first.found.ids)]
    types = (kinds[0], arrow.int32(), kinds[1], arrow.float32())
    schema = arrow.schema(list(zip(COLUMNS, types, strict=True)))
    with path.open("wb") as file, parquet.ParquetWriter(file, schema) as table:
        for part in itertools.chain([first], answers):
            columns = [values.tolist() for values in _columns(part)]
            table.write_table(arrow.table(dict(zip(COLUMNS, columns, strict=True)), schema=schema))


_READERS = {".npy": _read_npy, ".npz": _read_npz, ".csv": _read_csv, ".parquet": _read_parquet}
_WRITERS = {".parquet": _write_parquet, ".csv": _write_csv, ".jsonl": _write_jsonl, ".npz": _write_npz}
