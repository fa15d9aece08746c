"""Spool: rows and ids copied to an unnamed temporary file, so that memory does not grow with their number."""

import math
import re
import tempfile
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.versions import storage

_WHOLE_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,18}")


def is_whole_number(text: str) -> bool:
    """Return whether a string is an int64, written as Python would."""
    return _WHOLE_NUMBER.fullmatch(text) is not None and -(2**63) <= int(text) < 2**63


class Spool:
    """Arrays, one after another, in an unnamed file, which disappears with the process, however that ends."""

    def __init__(self, folder: Path | None) -> None:
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed with the spool
        weakref.finalize(self, self._file.close)

    def add(self, values: NDArray[Any]) -> None:
        """Append an array."""
        self._file.write(values.tobytes())

    def mapped(self, kind: Any, shape: tuple[int, ...]) -> NDArray[Any]:
        """Return all arrays as one, memory-mapped."""
        self._file.flush()
        return np.memmap(self._file, kind, "r", shape=shape) if math.prod(shape) else np.zeros(shape, kind)


class Numbered:
    """Ids for rows that have none: their numbers."""

    def __init__(self, n: int) -> None:
        self._rows = range(n)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, some: slice) -> NDArray[np.int64]:
        return np.array(self._rows[some], np.int64)


class Lines:
    """Ids read from text: integers if every one of them is, and strings otherwise."""

    def __init__(self, data: NDArray[np.uint8], ends: NDArray[np.int64], *, whole: bool) -> None:
        self._data, self._ends, self._whole = data, ends, whole

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, some: slice) -> NDArray[Any]:
        ends = np.array(self._ends[some])
        if not len(ends):
            return np.zeros(0, np.int64 if self._whole else np.str_)
        first, _, _ = some.indices(len(self))
        start = int(self._ends[first - 1]) if first else 0
        texts = storage.texts_from_arrays(self._data[start : ends[-1]], ends - start)
        return np.array([int(text) for text in texts.tolist()], np.int64) if self._whole else texts


class LineSpool:
    """Collects ids and turns them into `Lines`."""

    def __init__(self, folder: Path | None, *, texts: bool) -> None:
        self._bytes, self._ends = Spool(folder), Spool(folder)
        self._n, self._end, self._whole = 0, 0, not texts

    def add(self, texts: Iterable[str]) -> None:
        """Append ids."""
        some = list(texts)
        self._whole = self._whole and all(map(is_whole_number, some))
        encoded = [text.encode("utf-8", "surrogatepass") for text in some]
        ends = self._end + np.cumsum([len(text) for text in encoded], dtype=np.int64)
        self._bytes.add(np.frombuffer(b"".join(encoded), np.uint8))
        self._ends.add(ends)
        self._n += len(some)
        self._end = int(ends[-1]) if some else self._end

    def lines(self) -> Lines:
        """Return all ids."""
        ends = self._ends.mapped(np.int64, (self._n,))
        return Lines(self._bytes.mapped(np.uint8, (self._end,)), ends, whole=self._whole)
