"""Writing: answers in files and on screen, with one row per answer and no rows for padding."""

import csv
import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from tessella import _files
from tessella.commands.tables import arrow_parts, by_suffix
from tessella.jobs.progress import bar
from tessella.results import SearchResult

Titles = Callable[[NDArray[Any]], NDArray[Any]]


class UserAnswers(NamedTuple):
    """The answers for some users.

    Attributes
    ----------
    users : ndarray of shape (n,), or None
        Row numbers or ids of the users; None for someone without an id.
    found : SearchResult
        One row per user.
    titles : callable, default None
        A function that returns the titles of items by their ids; None if there are none.
    """

    users: NDArray[Any] | None
    found: SearchResult
    titles: Titles | None = None

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the user, rank, item and score of every answer, and the title if there are titles."""
        ids, scores = self.found.ids, self.found.scores
        there = scores > -np.inf
        queries, ranks = np.nonzero(there)
        items = ids[there]
        columns = {} if self.users is None else {"user": self.users[queries]}
        columns |= {"rank": ranks + 1, "item": items, "score": scores[there]}
        return columns if self.titles is None else columns | {"title": self.titles(items)}

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Return the columns row by row. A score is a string with the fewest digits that identify the float32."""
        columns = self.columns()
        columns["score"] = columns["score"].astype(np.str_)
        return zip(*(values.tolist() for values in columns.values()), strict=True)


Writer = Callable[[Path, Iterator[UserAnswers]], None]


def is_file(path: Path) -> bool:
    """Return whether a path has the suffix of a file of answers."""
    return path.suffix.lower() in _WRITERS


def writer(path: Path) -> Writer:
    """Return the function that writes answers to a file with the suffix of `path`; it needs at least one part."""
    write: Writer = by_suffix(_WRITERS, path, "answers are written to")
    if write is _write_parquet:
        arrow_parts()
    return write


def write(path: Path, answers: Iterator[UserAnswers], n_users: int, *, overwrite: bool, shown: bool = True) -> int:
    """Write answers atomically, and return how many are certified."""
    n_certified = 0

    def watched() -> Iterator[UserAnswers]:
        nonlocal n_certified
        for part in answers:
            yield part
            n_certified += int(part.found.certified.sum())
            advance(len(part.found.certified))

    with (
        bar(n_users, shown=None if shown else False) as advance,
        _files.replacing(path, overwrite=overwrite) as temporary,
    ):
        writer(path)(temporary, watched())
    return n_certified


def write_rows(file: IO[str], answers: Iterable[UserAnswers], delimiter: str) -> None:
    """Write answers as lines of text, under a line of column names; a missing title is empty."""
    lines = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    for number, part in enumerate(answers):
        lines.writerows([] if number else [tuple(part.columns())])  # only after a search, which may refuse its input
        lines.writerows(part.rows())


def show(answers: UserAnswers, n_users: int) -> None:
    """Print a table of a few answers."""
    names = list(answers.columns())
    shown = Table(*names, box=SIMPLE)
    by_user = (lambda row: row[0]) if answers.users is not None else (lambda _: None)
    for _, rows in itertools.groupby(answers.rows(), key=by_user):
        for row in rows:
            shown.add_row(*("" if value is None else str(value) for value in row))
        shown.add_section()
    console = Console(markup=False, emoji=False, highlight=False)
    console.print(shown)
    n_shown = len(answers.found.ids)
    if n_shown < n_users:
        console.print(f"The first {n_shown:,} of {n_users:,} users; use -o to write the answers for all.")


def _write_csv(path: Path, answers: Iterator[UserAnswers]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        write_rows(file, answers, ",")


def _write_jsonl(path: Path, answers: Iterator[UserAnswers]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for part in answers:
            names = tuple(part.columns())
            for row in part.rows():
                named = dict(zip(names, row, strict=True))
                file.write(json.dumps(named | {"score": float(named["score"])}) + "\n")


def _write_npz(path: Path, answers: Iterator[UserAnswers]) -> None:
    """Write arrays with one row per user; string ids are stored once, and ids then hold positions in that list."""
    users, parts = [], []
    for part in answers:
        parts.append(part.found.arrays())
        users += [] if part.users is None else [part.users]
    found = {name: np.concatenate([part[name] for part in parts]) for name in SearchResult.FIELDS}
    if users:
        found["users"] = np.concatenate(users)
    if found["ids"].dtype == object:
        places: dict[str | None, int] = {None: -1}
        flat = found["ids"].ravel().tolist()
        numbers = [places.setdefault(text, len(places) - 1) for text in flat]
        found["ids"] = np.array(numbers, np.int64).reshape(found["ids"].shape)
        found["items"] = np.array(list(places)[1:], np.str_)
    with path.open("wb") as file:
        np.savez(file, **found)  # type: ignore[arg-type]


def _write_parquet(path: Path, answers: Iterator[UserAnswers]) -> None:
    arrow, _, parquet = arrow_parts()
    first = next(answers)
    types = {"rank": arrow.int32(), "score": arrow.float32(), "title": arrow.string()}
    for name, values in (("user", first.users), ("item", first.found.ids)):
        types[name] = arrow.string() if values is None or values.dtype.kind != "i" else arrow.int64()
    schema = arrow.schema([(name, types[name]) for name in first.columns()])
    with path.open("wb") as file, parquet.ParquetWriter(file, schema) as table:
        for part in itertools.chain([first], answers):
            columns = {
                name: values if values.dtype.kind in "if" else values.tolist()
                for name, values in part.columns().items()
            }
            table.write_table(arrow.table(columns, schema=schema))


_WRITERS = {".parquet": _write_parquet, ".csv": _write_csv, ".jsonl": _write_jsonl, ".npz": _write_npz}
