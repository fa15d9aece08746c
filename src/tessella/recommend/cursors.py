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

from tessella import _checks
from tessella.results import SearchResult
from tessella.search.selections import Ids

_MOST_BYTES = 2**26
_DAMAGED = "after is no cursor, or a damaged one; pass the `next` of the page before."


@dataclass(frozen=True)
class Cursor:
    """What was shown so far, of which model, to whom."""

    generation: str
    version: int  # of the recommender, when the last page was made
    asked: str  # digest of who asked
    shown: tuple[tuple[int | str, ...], ...]  # ids, for each query

    def encoded(self) -> str:
        """As a text of letters, digits, - and _."""
        content = json.dumps([self.generation, self.version, self.asked, self.shown], separators=(",", ":"))
        return base64.urlsafe_b64encode(zlib.compress(content.encode("utf-8", "surrogatepass"))).decode().rstrip("=")

    @classmethod
    def of(cls, text: object) -> Self:
        """What `encoded` gave."""
        if not isinstance(text, str):
            raise TypeError(f"after is a {type(text).__name__}, but must be the text that `next` of a page is.")
        try:
            data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            content = zlib.decompressobj().decompress(data, _MOST_BYTES).decode("utf-8", "surrogatepass")
            generation, version, asked, shown = json.loads(content)
        except (binascii.Error, zlib.error, RecursionError, TypeError, ValueError):
            raise ValueError(_DAMAGED) from None
        lists = tuple(tuple(ids) for ids in shown if isinstance(ids, list)) if isinstance(shown, list) else ()
        plain = all(_checks.may_be_id(value) for ids in lists for value in ids)
        kinds = {type(value) for ids in lists for value in ids}
        if not (isinstance(generation, str) and type(version) is int and isinstance(asked, str)) or not (
            isinstance(shown, list) and len(lists) == len(shown) and plain and len(kinds) <= 1
        ):
            raise ValueError(_DAMAGED)
        return cls(generation, version, asked, lists)

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
        lengths = [len(ids) for ids in self.shown]
        flat = [value for ids in self.shown for value in ids]
        if flat and isinstance(flat[0], str) != texts:
            raise ValueError(_DAMAGED)
        values: NDArray[Any] = np.array(flat, np.str_ if texts else np.int64)
        return Ids(values, np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]), "after", quiet=True)


def following(cursor: Cursor | None, generation: str, version: int, asked: str, found: SearchResult) -> str:
    """The cursor for the page after some answers, which came after a cursor."""
    ids, scores = np.atleast_2d(found.ids), np.atleast_2d(found.scores)
    before: tuple[tuple[int | str, ...], ...] = ((),) * len(ids) if cursor is None else cursor.shown
    shown = tuple(
        (*earlier, *own[there].tolist()) for earlier, own, there in zip(before, ids, scores > -np.inf, strict=True)
    )
    return Cursor(generation, version, asked, shown).encoded()
