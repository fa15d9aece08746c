"""Tables in files, for the command line: factors, ids and seen items."""

import array
import contextlib
import csv
import importlib
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from tessella import _checks, _files
from tessella.commands.spool import Lines, LineSpool, Spool, is_whole_number

ROWS_AT_ONCE = 8192
_LINES_AT_ONCE = 1024
_NO_PARQUET = "it is damaged, or not a Parquet file"
_NO_NPY = "it is damaged, not an .npy file, or holds Python objects"


class Table(NamedTuple):
    """The factors and ids of items or users in a file, row by row.

    Attributes
    ----------
    factors : ndarray of float32, shape (n, n_factors)
        Checked factors.
    ids : ndarray of shape (n,), list of str, or None
        Their ids, if the file has any: an array if the file format distinguishes numbers from strings, else a list.
    """

    factors: NDArray[np.float32]
    ids: NDArray[Any] | list[str] | None


class Users(NamedTuple):
    """The factors and ids of many users, left in their file or copied to an unnamed temporary one.

    Attributes
    ----------
    factors : ndarray of shape (n, n_factors)
        Of any type, and not checked yet; memory-mapped unless the file is an .npz.
    ids : ndarray of shape (n,), Lines, or None
        Their ids, if the file has any.
    """

    factors: NDArray[Any]
    ids: NDArray[Any] | Lines | None


class _Block(NamedTuple):
    """Some rows of a file: their factors, and their ids if it has any."""

    factors: NDArray[Any]
    ids: NDArray[Any] | list[str] | None


def read_factors(path: Path, n_factors: int | None = None) -> Table:
    """Read the factors in a file, and their ids if it has any.

    Parameters
    ----------
    path : Path
        A .npy, .npz, .csv or .parquet file.
    n_factors : int, default None
        The required number of factor columns; None accepts any number.
    """
    blocks = list(_opened_blocks(path))
    factors = blocks[0].factors if len(blocks) == 1 else np.concatenate([block.factors for block in blocks])
    ids = _joined([block.ids for block in blocks])
    if factors.ndim != 2:
        raise ValueError(
            f"{path} holds an array of shape {factors.shape}, but factors must have 2 dimensions, with a row for each "
            "item or user."
        )
    if isinstance(ids, np.ndarray):
        ids = _checks.ids(ids, None, unique=False)
    if ids is not None and len(ids) != len(factors):
        raise ValueError(f"{path} has {len(ids)} ids, but {len(factors)} rows of factors.")
    return Table(_checks.all_factors(factors, str(path), n_factors), ids)


def open_users(path: Path, n_factors: int | None, folder: Path | None = None) -> Users:
    """Open the factors in a file, with their ids if it has any; only an .npz file is read into memory as a whole.

    Parameters
    ----------
    path : Path
        A .npy file, which is memory-mapped; a .csv or .parquet file, whose rows are copied to an unnamed temporary
        file; or an .npz file, which is read into memory.
    n_factors : int or None
        The required number of factor columns; None accepts any number.
    folder : Path, default None
        A folder with room for the temporary file; None uses the system's folder for temporary files.
    """
    if path.suffix.lower() in (".npy", ".npz"):
        (block,) = _opened_blocks(path, mapped=True)
        factors, ids = block.factors, block.ids
        checked = None if ids is None else _checks.ids(ids, len(factors), unique=False)
        return Users(_checks.factors(factors, str(path), n_factors), checked)
    rows, numbers, lines = Spool(folder), Spool(folder), LineSpool(folder, texts=path.suffix.lower() == ".parquet")
    n, width, kind, ids_of = 0, 0, np.dtype(np.float64), ""
    for part, given in _opened_blocks(path):
        kind, width = (part.dtype, part.shape[1]) if not n else (kind, width)
        rows.add(part.astype(kind, copy=False))
        n += len(part)
        ids = _checks.ids(given, None, unique=False) if isinstance(given, np.ndarray) else given
        if ids is not None and len(ids):
            if isinstance(ids, np.ndarray) and ids.dtype.kind == "i":
                ids_of = "numbers"
                numbers.add(ids)
            else:
                ids_of = "texts"
                lines.add(map(str, ids))
    factors = _checks.factors(rows.mapped(kind, (n, width)), str(path), n_factors)
    if not ids_of:
        return Users(factors, None)
    return Users(factors, numbers.mapped(np.int64, (n,)) if ids_of == "numbers" else lines.lines())


def read_ids(path: Path) -> list[str]:
    """Read the ids in a text file, one per line."""
    return list(_id_lines(path))


def open_ids(path: Path, folder: Path | None = None) -> Lines:
    """Open the ids in a text file, one per line, in memory that does not grow with their number."""
    spool, ids = LineSpool(folder, texts=False), _id_lines(path)
    while some := list(itertools.islice(ids, ROWS_AT_ONCE)):
        spool.add(some)
    return spool.lines()


def _id_lines(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, line in enumerate(file, 1):
                text = line.removesuffix("\n")
                if not text:
                    raise ValueError(f"{path} has an empty line {number}, but every line must be an id.")
                if text.endswith("\0"):
                    raise ValueError(f"{path} holds {text!r}, but ids must not end in a NUL character.")
                yield text
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text: {error}.") from None


def as_ids(ids: NDArray[Any] | list[str], *, texts: bool = False) -> NDArray[Any]:
    """Return ids of one type. A list becomes int64 if all of it can, unless `texts` is true; an array stays."""
    if isinstance(ids, np.ndarray):
        return ids
    if not texts and all(map(is_whole_number, ids)):
        return np.array([int(text) for text in ids], np.int64)
    return _checks.ids(ids, None, unique=False)


def read_seen(path: Path, shape: tuple[int | None, int], what: str) -> Any:
    """Read a sparse matrix of users x items that `scipy.sparse.save_npz` wrote, and convert it to CSR."""
    _files.check_readable(path)
    with opened(path, "it is damaged, or not a sparse matrix from scipy.sparse.save_npz") as file:
        matrix = scipy.sparse.load_npz(file)
        if hasattr(matrix, "check_format"):
            matrix.check_format()  # a damaged matrix could crash the conversion
        by_rows = scipy.sparse.csr_array(matrix)
    wanted = (by_rows.shape[0] if shape[0] is None else shape[0], shape[1])
    if by_rows.shape != wanted:
        raise ValueError(f"{path} has shape {by_rows.shape}, but must have shape {wanted}: {what}.")
    return by_rows


def by_suffix(choices: dict[str, Any], path: Path, what: str) -> Any:
    """Return the choice for the suffix of a path; the error for an unknown suffix lists the known ones."""
    choice = choices.get(path.suffix.lower())
    if choice is None:
        *most, last = choices
        raise ValueError(f"{path} ends in {path.suffix!r}, but {what} {', '.join(most)} or {last}.")
    return choice


def _opened_blocks(path: Path, *, mapped: bool = False) -> Iterator[_Block]:
    """Yield the rows of a file in blocks; a .npy file can be memory-mapped instead."""
    reader = by_suffix(_READERS, path, "factors are read from")
    _files.check_readable(path)
    if not path.stat().st_size:
        raise ValueError(f"{path} is empty.")
    if reader is _read_npy and mapped:
        with opened(path, _NO_NPY):
            return iter([_Block(np.lib.format.open_memmap(path, mode="r"), None)])
    blocks: Iterator[_Block] = reader(path)
    return blocks


def _joined(parts: list[NDArray[Any] | list[str] | None]) -> NDArray[Any] | list[str] | None:
    """Concatenate the ids of all blocks."""
    if parts[0] is None:
        return None
    if isinstance(parts[0], list):
        return [text for part in parts if part is not None for text in part]
    return np.concatenate([part for part in parts if part is not None])


@contextlib.contextmanager
def opened(path: Path, reason: str) -> Iterator[IO[bytes]]:
    """Open a file; turn any error that a reader raises into one sentence with the reason."""
    with path.open("rb") as file, _reading(path, reason):
        yield file


@contextlib.contextmanager
def _reading(path: Path, reason: str) -> Iterator[None]:
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        raise ValueError(f"{path} cannot be read: {reason}.") from error


def _read_npy(path: Path) -> Iterator[_Block]:
    with opened(path, _NO_NPY) as file:
        factors = np.lib.format.read_array(file, allow_pickle=False)
    yield _Block(factors, None)


def _read_npz(path: Path) -> Iterator[_Block]:
    with (
        opened(path, "it is damaged, not an .npz file, or holds Python objects") as file,
        np.load(file, allow_pickle=False) as arrays,
    ):
        names = [name for name in arrays.files if name != "ids"]
        name = "factors" if "factors" in names else names[0] if len(names) == 1 else None
        ids = arrays["ids"] if "ids" in arrays.files else None
        factors = None if name is None else np.asarray(arrays[name])
    if factors is None:
        raise ValueError(f"{path} holds the arrays {', '.join(names)}; name the array of factors `factors`.")
    yield _Block(factors, ids)


def _read_csv(path: Path) -> Iterator[_Block]:
    lines = csv_lines(path)
    first, names = next(lines, (0, []))
    n_ids = 0
    if names and _is_header(path, names):
        n_ids = int(_id_column(path, names[:1], names) is not None)
    elif names:
        lines = itertools.chain([(first, names)], lines)
    some = list(itertools.islice(lines, _LINES_AT_ONCE))
    yield _csv_block(path, some, first, len(names), n_ids)  # a file without rows also has one block
    while some := list(itertools.islice(lines, _LINES_AT_ONCE)):
        yield _csv_block(path, some, first, len(names), n_ids)


def _csv_block(path: Path, lines: list[tuple[int, list[str]]], first: int, width: int, n_ids: int) -> _Block:
    values = array.array("d")
    for line, fields in lines:
        if len(fields) != width:
            raise ValueError(f"{path} has {len(fields)} columns in line {line}, but {width} in line {first}.")
        if n_ids and not fields[0]:
            raise ValueError(f"{path} has no id in line {line}.")
        try:
            values.extend(map(_number, fields[n_ids:]))
        except ValueError as error:
            raise ValueError(f"{path} cannot be read in line {line}: {error}.") from None
    ids = [fields[0] for _, fields in lines] if n_ids else None
    return _Block(np.array(values).reshape(len(lines), width - n_ids), ids)


def csv_lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the lines of a CSV file that are not empty, with their numbers."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = csv.reader(file, strict=True)
        try:
            yield from ((lines.line_num, fields) for fields in lines if fields)
        except (UnicodeDecodeError, csv.Error) as error:
            raise ValueError(f"{path} is not a CSV file in UTF-8: {error}.") from None


def _is_header(path: Path, fields: list[str]) -> bool:
    """Return whether the first line names the columns."""
    if len(fields) > 1 and fields == [str(column) for column in range(len(fields))]:
        raise ValueError(
            f"{path} starts with {','.join(fields[:3])}..., which may be column names or factors; "
            "start it with a line of other column names."
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
    """Return the column `id`, if there is one. Refuse others that look like ids: they would be mistaken for factors."""
    found = next((name for name in may_be if name.lower() == "id"), None)
    strange = [name for name in names if name != found and re.search(r"(?i)id$|^__index_", name)]
    if strange:
        raise ValueError(
            f"{path} has a column {strange[0]!r}, which looks like ids; rename it to id and put it first, or remove it."
        )
    return found


def arrow_parts() -> tuple[Any, Any, Any]:
    """Import the parts of pyarrow that are used, on demand."""
    try:
        arrow, compute, parquet = map(importlib.import_module, ("pyarrow", "pyarrow.compute", "pyarrow.parquet"))
    except ImportError:
        raise ImportError("Parquet files need pyarrow; install it with: pip install 'tessella[parquet]'") from None
    return arrow, compute, parquet


def open_parquet(path: Path, names: list[str] | None = None) -> tuple[Any, Iterator[Any]]:
    """Return the schema of a Parquet file and an iterator over its rows: all columns, or those named."""
    parquet = arrow_parts()[2]
    with _reading(path, _NO_PARQUET):
        table = parquet.ParquetFile(path, buffer_size=2**20, pre_buffer=False)

    def batches() -> Iterator[Any]:
        rows = table.iter_batches(ROWS_AT_ONCE, columns=names)
        with table:
            while True:
                with _reading(path, _NO_PARQUET):
                    batch = next(rows, None)
                if batch is None:
                    return
                yield batch

    return table.schema_arrow, batches()


def _read_parquet(path: Path) -> Iterator[_Block]:
    arrow, compute, _ = arrow_parts()
    schema, batches = open_parquet(path)
    id_column = _id_column(path, schema.names, schema.names)
    listed, widths = _kind_of_factors(path, schema, id_column)
    batch = next(batches, arrow.RecordBatch.from_pylist([], schema))  # a file without rows also has one block
    while batch is not None:
        refuse_missing(path, batch.columns)
        ids = None if id_column is None else np.array(batch.column(id_column).to_pylist())
        parts = [batch.column(name) for name in schema.names if name != id_column]
        width = len(parts)
        if listed:
            widths |= set(np.unique(compute.list_value_length(parts[0])).tolist())
            if len(widths) > 1:
                raise ValueError(
                    f"{path} has lists of lengths {min(widths)} and {max(widths)}, but all must have the same length."
                )
            parts, width = [parts[0].flatten()], max(widths, default=0)
            refuse_missing(path, parts)
        stacked = np.stack([np.asarray(part) for part in parts], axis=1)
        yield _Block(stacked.reshape(len(batch), width), ids)
        batch = next(batches, None)


def _kind_of_factors(path: Path, schema: Any, id_column: str | None) -> tuple[bool, set[int]]:
    """Return whether factors are lists, and their length if the schema fixes it."""
    types = arrow_parts()[0].types
    columns = [schema.field(name).type for name in schema.names if name != id_column]
    are_lists = types.is_list, types.is_large_list, types.is_fixed_size_list
    listed = len(columns) == 1 and any(is_list(columns[0]) for is_list in are_lists)
    held = [columns[0].value_type] if listed else columns
    other = [kind for kind in held if not (types.is_integer(kind) or types.is_floating(kind))]
    if other or not columns:
        raise ValueError(
            f"{path} has {f'a column of {other[0]}' if other else 'no factors'}, but besides `id` it needs "
            "one column of lists of numbers, or columns of numbers only."
        )
    return listed, {columns[0].list_size} if listed and types.is_fixed_size_list(columns[0]) else set()


def refuse_missing(path: Path, columns: list[Any]) -> None:
    """Refuse columns with missing values."""
    if any(column.null_count for column in columns):
        raise ValueError(f"{path} has missing values; fill them in, or remove those rows.")


_READERS = {".npy": _read_npy, ".npz": _read_npz, ".csv": _read_csv, ".parquet": _read_parquet}
