"""Cursors: where a list goes on from, as a short text that a client keeps between two pages.

A cursor names what was shown, so the next page is the best of what is left: pages joined equal the long list as long as
nothing changes, and nothing comes twice if items do.

Its bytes are a checksum, a head of fixed length, how many ids were shown to each query, and the ids: whole numbers in
as few bytes as they take, or texts as JSON.
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

_DAMAGED = "after is no cursor, or a damaged one; pass the `next` of the page before."
_HEAD = struct.Struct("<I12s16sQBI")  # checksum of the rest, generation, digest, version, how ids are written, queries
_KINDS = ("<i2", "<i4", "<i8")  # and then texts
_TEXTS = len(_KINDS)
_FOR_ADDRESSES, _FROM_ADDRESSES = bytes.maketrans(b"+/", b"-_"), bytes.maketrans(b"-_", b"+/")


@dataclass(frozen=True)
class Cursor:
    """What was shown so far, of which model, to whom."""

    generation: str
    version: int  # of the recommender, when the last page was made
    asked: str  # digest of who asked
    shown: NDArray[Any]  # ids, of one query after another
    starts: NDArray[np.int64]  # (n_queries + 1) where each query's begin

    def encoded(self) -> str:
        """As a text of letters, digits, - and _."""
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
        """What `encoded` gave."""
        if not isinstance(text, str):
            raise TypeError(f"after is a {type(text).__name__}, but must be the text that `next` of a page is.")
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
        """Refuse a cursor of another model or of another question."""
        if self.generation != generation:
            raise ValueError(
                f"after is a cursor of model {self.generation}, but this is model {generation}; begin with the first "
                "page."
            )
        if self.asked != asked:
            raise ValueError("after is a cursor of a list for other users; pass the `next` of the page before.")

    def excluded(self) -> Ids:
        """What was shown to each query, as it is excluded from the next page."""
        return Ids(self.shown, self.starts, "after", quiet=True)

    def lists(self) -> list[NDArray[Any]]:
        """What was shown to each query."""
        return [self.shown] if len(self.starts) == 2 else np.split(self.shown, self.starts[1:-1])


def following(cursor: Cursor | None, generation: str, version: int, asked: str, found: SearchResult) -> str:
    """The cursor for the page after some answers, which came after a cursor."""
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
    """How ids are written: in the narrowest type that holds all of them, or as texts."""
    if ids.dtype.kind == "U":
        return _TEXTS
    reach = max(int(ids.max()), -1 - int(ids.min())) if len(ids) else 0
    return 0 if reach < 2**15 else 1 if reach < 2**31 else 2
