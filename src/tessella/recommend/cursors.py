"""Cursors: short strings that a client keeps between two pages to say where a list continues.

A cursor names the items shown so far, so the next page holds the best of the rest. While nothing changes, pages add up
to the long list; if items do change, none appears twice.

Its bytes are a checksum, a header of fixed length, the number of ids shown to each query, and the ids: integers in the
narrowest type that holds them, or strings as JSON.
"""

import binascii
import json
import struct
import zlib
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tessella.results import SearchResult
from tessella.search.selections import Ids

_DAMAGED = "after is not a valid cursor; pass the `next` of the previous page."
_HEAD = struct.Struct("<I12s16sQBI")  # checksum of the rest, generation, digest, version, encoding of ids, queries
_KINDS = ("<i2", "<i4", "<i8")  # and then strings
_TEXTS = len(_KINDS)
_FOR_ADDRESSES, _FROM_ADDRESSES = bytes.maketrans(b"+/", b"-_"), bytes.maketrans(b"-_", b"+/")


@dataclass(frozen=True)
class Cursor:
    """The items shown so far, with the model they came from and a digest of the request."""

    generation: str
    version: int  # of the recommender, when the last page was made
    asked: str  # digest of who asked
    shown: NDArray[Any]  # ids, one query after another
    starts: NDArray[np.int64]  # (n_queries + 1) where the ids of each query start

    def encoded(self) -> str:
        """Encode the cursor as a string of letters, digits, - and _."""
        kind = _kind_of(self.shown)
        ids = json.dumps(self.shown.tolist()).encode() if kind == _TEXTS else self.shown.astype(_KINDS[kind]).tobytes()
        n = len(self.starts) - 1
        lengths = len(self.shown).to_bytes(4, "little") if n == 1 else np.diff(self.starts).astype("<u4").tobytes()
        head = (self.generation.encode(), self.asked.encode(), self.version, kind, n)
        data = _HEAD.pack(0, *head)[4:] + lengths + ids
        raw = zlib.crc32(data).to_bytes(4, "little") + data
        return binascii.b2a_base64(raw, newline=False).translate(_FOR_ADDRESSES).rstrip(b"=").decode()

    @classmethod
    def of(cls, text: object) -> Self:
        """Decode a cursor that `encoded` returned."""
        if not isinstance(text, str):
            raise TypeError(f"after must be a str, the `next` of the previous page, not {type(text).__name__}.")
        try:
            return cls._decoded(text)
        except (binascii.Error, struct.error, RecursionError, TypeError, ValueError):
            raise ValueError(_DAMAGED) from None

    @classmethod
    def _decoded(cls, text: str) -> Self:
        padded = text.encode("ascii").translate(_FROM_ADDRESSES) + b"=" * (-len(text) % 4)
        raw = binascii.a2b_base64(padded, strict_mode=True)
        checksum, generation, asked, version, kind, n = _HEAD.unpack_from(raw)
        ids_at = _HEAD.size + 4 * n
        if n == 1:
            starts = np.array((0, int.from_bytes(raw[_HEAD.size : ids_at], "little")))
        else:
            lengths = np.frombuffer(raw[_HEAD.size : ids_at], "<u4")
            starts = np.zeros(len(lengths) + 1, np.int64)
            lengths.cumsum(out=starts[1:])
        shown: NDArray[Any]
        if kind == _TEXTS:
            shown = np.array(_texts(json.loads(raw[ids_at:])), np.str_)
        else:
            shown = np.frombuffer(raw[ids_at:], _KINDS[kind] if kind < _TEXTS else "").astype(np.int64)
        if zlib.crc32(raw[4:]) != checksum or len(starts) != n + 1 or len(shown) != starts[-1]:
            raise ValueError(_DAMAGED)
        return cls(generation.decode(), version, asked.decode(), shown, starts)

    def check(self, generation: str, asked: str) -> None:
        """Refuse a cursor from another model or another request."""
        if self.generation != generation:
            raise ValueError(
                f"after is a cursor of model {self.generation}, but this is model {generation}; start again with the "
                "first page."
            )
        if self.asked != asked:
            raise ValueError("after is a cursor for other users; pass the `next` of the previous page.")

    def excluded(self) -> Ids:
        """Return what was shown to each query, as a filter that excludes it from the next page."""
        return Ids(self.shown, self.starts, "after", quiet=True)

    def lists(self) -> list[NDArray[Any]]:
        """Return what was shown to each query."""
        return [self.shown] if len(self.starts) == 2 else np.split(self.shown, self.starts[1:-1])


def following(cursor: Cursor | None, generation: str, version: int, asked: str, found: SearchResult) -> str:
    """Return the cursor for the page after `found`, which itself came after `cursor`."""
    there = found.scores > -np.inf
    named = found.ids[there]
    new = named.astype(np.str_) if named.dtype.kind == "O" else named
    if there.ndim == 1:
        starts = np.array((0, len(new)))
    else:
        starts = np.concatenate([[0], np.cumsum(np.count_nonzero(there, axis=1))])
    if cursor is not None and there.ndim == 1:
        new = np.concatenate((cursor.shown, new))
        starts[1] = len(new)
    elif cursor is not None:
        own = np.split(new, starts[1:-1])
        new = np.concatenate([part for pair in zip(cursor.lists(), own, strict=True) for part in pair])
        starts = starts + cursor.starts
    return Cursor(generation, version, asked, new, starts).encoded()


def _texts(given: object) -> list[str]:
    if not (isinstance(given, list) and all(type(text) is str for text in given)):
        raise ValueError(_DAMAGED)
    return given


def _kind_of(ids: NDArray[Any]) -> int:
    """Return how to encode ids: in the narrowest integer type that holds all of them, or as strings."""
    if ids.dtype.kind == "U":
        return _TEXTS
    reach = max(int(ids.max()), -1 - int(ids.min())) if len(ids) else 0
    return 0 if reach < 2**15 else 1 if reach < 2**31 else 2
