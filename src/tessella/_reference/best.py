"""The best answers of one query, and the filter of that query."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella._packing import ranks_of
from tessella._reference.arithmetic import Floats, inner_products


@dataclass
class Best:
    """The best k answers so far, sorted by falling score, then by row."""

    query: Floats  # (n_factors)
    k: int
    scores: Floats = field(default_factory=lambda: np.zeros(0, np.float32))
    ranks: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    n_scored: int = 0

    @property
    def is_full(self) -> bool:
        """Whether there are k answers."""
        return len(self.scores) == self.k

    def score(self, segment: Any, base: int, positions: NDArray[Any]) -> None:
        """Score the items at some positions of a segment, and keep the best."""
        scores = np.empty((1, len(positions)), np.float32)
        inner_products(self.query[None], segment.factors[positions], scores, 0)
        self.n_scored += len(positions)
        all_scores = np.concatenate([self.scores, scores[0]])
        all_ranks = np.concatenate([self.ranks, ranks_of(segment.rows[positions], base + positions)])
        best = np.lexsort((all_ranks, -all_scores))[: self.k]
        self.scores, self.ranks = all_scores[best], all_ranks[best]


@dataclass(frozen=True)
class QueryFilter:
    """Which rows may answer one query."""

    allowed: NDArray[np.uint8] | None  # a bit for each row
    excluded: NDArray[np.int64]
    only: NDArray[np.int64] | None

    @classmethod
    def of(cls, query: int, row_filter: Any) -> "QueryFilter":
        """Return the part of a filter for one query."""
        nothing = np.zeros(0, np.int64)
        if row_filter is None:
            return cls(None, nothing, None)
        allowed, _, listed, starts, only = row_filter
        own = nothing if starts is None else listed[starts[query] : starts[query + 1]]
        return cls(allowed, nothing, own) if only and starts is not None else cls(allowed, own, None)

    def allows(self, segment: Any) -> NDArray[np.bool_]:
        """Return which positions hold a live, allowed item, whether it is excluded or not."""
        live = np.ones(len(segment.rows), np.bool_)
        if segment.removed is not None:
            live &= ~np.unpackbits(segment.removed, bitorder="little", count=len(live)).astype(np.bool_)
        if self.allowed is not None:
            live &= np.unpackbits(self.allowed, bitorder="little")[segment.rows].astype(np.bool_)
        if self.only is not None:
            live &= np.isin(segment.rows, self.only)
        return live

    def excludes(self, segment: Any) -> NDArray[np.bool_]:
        """Return which positions hold an excluded item."""
        return np.isin(segment.rows, self.excluded)
