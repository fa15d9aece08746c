"""Cursors: where a list went on from, as a short text that a client keeps between two pages.

A cursor names what was shown, so the next page is the best of what is left: pages joined equal the long list as long as
nothing changes, and nothing comes twice if items do.
"""

import base64
import binascii
import json
import zlib
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tessella.results import SearchResult
from tessella.search.selections import Ids

_MOST_BYTES = 2**26
_WIDTHS = (1, 2, 4, 8)  # bytes of a number
_TEXTS = 0  # stands where numbers have their width
_DAMAGED = "after is no cursor, or a damaged one; pass the `next` of the page before."


@dataclass(frozen=True, eq=False)
class Cursor:
    """What was shown so far, of which model, to whom."""

    generation: str
    version: int  # of the recommender, when the last page was made
    asked: str  # digest of who asked
    shown: NDArray[Any]  # ids, one list after another: int64 or text
    starts: NDArray[np.int64]  # (n_queries + 1) where each list begins

    def encoded(self) -> str:
        """As a text of letters, digits, - and _: a checksum, a line of JSON, and the ids."""
        sizes = np.diff(self.starts).tolist()
        width, shown = _squeezed(self.shown) if self.shown.dtype.kind == "U" else _packed(self.shown)
        facts = [self.generation, self.version, self.asked, sizes, width]
        content = json.dumps(facts, separators=(",", ":")).encode() + b"\n" + shown
        return base64.urlsafe_b64encode(zlib.crc32(content).to_bytes(4, "little") + content).decode().rstrip("=")

    @classmethod
    def of(cls, text: object) -> Self:
        """What `encoded` gave."""
        if not isinstance(text, str):
            raise TypeError(f"after is a {type(text).__name__}, but must be the text that `next` of a page is.")
        try:
            data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            facts, body = _undamaged(data[:4], data[4:]).split(b"\n", 1)
            generation, version, asked, sizes, width = json.loads(facts)
            shown = _unsqueezed(body) if width == _TEXTS else _unpacked(body, width)
        except (binascii.Error, zlib.error, RecursionError, TypeError, ValueError):
            raise ValueError(_DAMAGED) from None
        named = isinstance(generation, str) and type(version) is int and isinstance(asked, str)
        counted = isinstance(sizes, list) and all(type(size) is int and size >= 0 for size in sizes)
        if not (named and counted and sum(sizes) == len(shown)):
            raise ValueError(_DAMAGED)
        return cls(generation, version, asked, shown, np.cumsum([0, *sizes], dtype=np.int64))

    def shown_to(self, query: int) -> NDArray[Any]:
        """What was shown to one query."""
        return self.shown[self.starts[query] : self.starts[query + 1]]

    def check(self, generation: str, asked: str) -> None:
        """Refuse a cursor of another model or of another question."""
        if self.generation != generation:
            raise ValueError(
                f"after is a cursor of model {self.generation}, but this is model {generation}; begin with the first "
                "page."
            )
        if self.asked != asked:
            raise ValueError("after is a cursor of a list for other users; pass the `next` of the page before.")

    def excluded(self, *, texts: bool) -> Ids:
        """What was shown to each query, as it is excluded from the next page."""
        shown = self.shown
        if (shown.dtype.kind == "U") != texts:
            if len(shown):
                raise ValueError(_DAMAGED)
            shown = np.zeros(0, np.str_ if texts else np.int64)
        return Ids(shown, self.starts, "after", quiet=True)


def following(cursor: Cursor | None, generation: str, version: int, asked: str, found: SearchResult) -> str:
    """The cursor for the page after some answers, which came after a cursor."""
    there = found.scores > -np.inf
    own = found.ids[there].astype(np.str_) if found.ids.dtype == object else found.ids[there]
    shown = own if cursor is None or not len(cursor.shown) else np.concatenate([cursor.shown, own])
    if there.ndim == 1:
        return Cursor(generation, version, asked, shown, np.array([0, len(shown)])).encoded()
    n = len(there)
    of_query = np.nonzero(there)[0]
    if len(shown) > len(own) and cursor is not None:
        of_query = np.concatenate([np.repeat(np.arange(n), np.diff(cursor.starts)), of_query])
        shown = shown[np.argsort(of_query, kind="stable")]
    starts = np.concatenate([[0], np.cumsum(np.bincount(of_query, minlength=n))])
    return Cursor(generation, version, asked, shown, starts).encoded()


def _undamaged(checksum: bytes, content: bytes) -> bytes:
    if zlib.crc32(content).to_bytes(4, "little") != checksum:
        raise ValueError(_DAMAGED)
    return content


def _packed(numbers: NDArray[np.int64]) -> tuple[int, bytes]:
    """How many bytes a number takes, as few as hold them all; and the numbers in so many."""
    low, high = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, 0)
    width = next(width for width in _WIDTHS if -(1 << 8 * width - 1) <= low and high < 1 << 8 * width - 1)
    return width, numbers.astype(f"<i{width}").tobytes()


def _unpacked(data: bytes, width: int) -> NDArray[np.int64]:
    if width not in _WIDTHS:
        raise ValueError(_DAMAGED)
    return np.frombuffer(data, f"<i{width}").astype(np.int64)


def _squeezed(texts: NDArray[Any]) -> tuple[int, bytes]:
    """Texts in few bytes."""
    return _TEXTS, zlib.compress(json.dumps(texts.tolist(), separators=(",", ":")).encode(), 1)


def _unsqueezed(data: bytes) -> NDArray[np.str_]:
    unpacking = zlib.decompressobj()
    content = unpacking.decompress(data, _MOST_BYTES)
    texts = json.loads(content if unpacking.eof else "")
    if not (isinstance(texts, list) and all(type(text) is str for text in texts)):
        raise ValueError(_DAMAGED)
    return np.array(texts, np.str_)
