"""Ways: the three ways to answer, exactly, by slots or by tiles, behind one call."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tessella.retrieval.exact import search_exactly
from tessella.retrieval.filters import Filters
from tessella.retrieval.found import Found
from tessella.retrieval.segments import State
from tessella.retrieval.slots import Effort, search_by_slots
from tessella.retrieval.tile_search import search_by_tiles


@dataclass(frozen=True)
class Exactly:
    """The true top k."""


@dataclass(frozen=True)
class Reach:
    """By tiles, believing this share of every bound."""

    reach: float


EXACTLY = Exactly()
Way: TypeAlias = Exactly | Reach | Effort


def search_by(
    way: Way, state: State, queries: NDArray[np.float32], filters: Filters, found: Found, threads: int
) -> None:
    """Fill in the answers to all queries."""
    if isinstance(way, Reach) and state.fitted.tiling is not None:
        search_by_tiles(state, state.fitted.tiling, queries, filters, way.reach, found, threads)
        return
    if not isinstance(way, Effort):
        search_exactly(state, queries, filters, found, threads)
        return
    short = search_by_slots(state, queries, filters, way, found, threads)
    if len(short):
        again = Found.empty(len(short), found.scores.shape[1])
        search_exactly(state, queries[short], filters.only(short), again, threads)
        found.put(short, again)
