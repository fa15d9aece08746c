"""Our own ways to answer, as sweeps of the same kind as those of the peers."""

from collections.abc import Iterator

import numpy as np
from ways import Built, Family, Ladder, Way, timed

import tessella as ts

BUDGETS = (50, 100, 200, 300, 400, 600)
MAX_SLOTS = (16, 24, 40)
REACHES = (0.05, 0.1, 0.15, 0.2, 0.25, 0.275, 0.3, 0.325, 0.35, 0.375, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7, 0.85, 1.0)


SLOTS_SCHEMA = ts.Schema(ts.Ternary(), ts.OneHot(), threshold=2.5, rotation="principal")


def build_slots(item_factors: np.ndarray, threads: int | None = None) -> ts.Index:
    """An index for exact and slots search, with the schema that is best for slots."""
    return ts.Index.build(item_factors, schema=SLOTS_SCHEMA, threads=threads)


def build_auto(item_factors: np.ndarray, threads: int | None = None, target_recall: float = 0.95) -> ts.Index:
    """An index that is told nothing but the recall that is wanted."""
    return ts.Index.build(item_factors, target_recall=target_recall, threads=threads)


def build_tiles(item_factors: np.ndarray, threads: int | None = None) -> ts.Index:
    """An index of learned tiles."""
    return ts.Index.build(item_factors, schema=ts.LearnedTiles(), threads=threads)


def way(family: str, setting: str, index: ts.Index, seconds: float, **options: object) -> Way:
    """A search with options."""
    return Way(family, setting, Built(seconds, lambda: index.nbytes, "arrays"),
               lambda queries, k, threads: index.search(queries, k, threads=threads, **options).ids,
               lambda query, k: index.search(query, k, threads=1, **options))  # fmt: skip


def _exact(item_factors: np.ndarray, threads: int) -> Iterator[Ladder]:
    index, seconds = timed(lambda: build_slots(item_factors, threads))
    yield [way("tessella exact", "", index, seconds, exact=True)]


def _slots(item_factors: np.ndarray, threads: int) -> Iterator[Ladder]:
    index, seconds = timed(lambda: build_slots(item_factors, threads))
    for max_slots in MAX_SLOTS:
        yield [way("tessella slots", f"budget {budget}, {max_slots} slots", index, seconds, budget=budget,
                   max_slots=max_slots) for budget in BUDGETS]  # fmt: skip


def _tiles(item_factors: np.ndarray, threads: int) -> Iterator[Ladder]:
    index, seconds = timed(lambda: build_tiles(item_factors, threads))
    yield [way("tessella tiles", f"reach {reach:g}", index, seconds, reach=reach) for reach in REACHES]


def _auto(item_factors: np.ndarray, threads: int) -> Iterator[Ladder]:
    index, seconds = timed(lambda: build_auto(item_factors, threads))
    yield [way("tessella auto", index.plan.way, index, seconds)]


EXACT = Family("tessella exact", "tessella", _exact)
SLOTS = Family("tessella slots", "tessella", _slots)
TILES = Family("tessella tiles", "tessella", _tiles)
AUTO = Family("tessella auto", "tessella", _auto)
FAMILIES = (EXACT, SLOTS, TILES, AUTO)
