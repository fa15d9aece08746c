"""Our own methods, swept in the same way as those of the peers."""

import copy
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import numpy as np
from methods import Built, Family, Ladder, Method, timed

import tessella as ts

BUDGETS = (50, 100, 200, 300, 400, 600)
MAX_SLOTS = (16, 24, 40)
STEPS = np.arange(0.25, 0.551, 0.0125).round(4).tolist()
REACHES = (0.05, 0.1, 0.15, 0.2, *STEPS, 0.6, 0.7, 0.85, 1.0)
OurMethod: TypeAlias = ts.Exact | ts.Tiles | ts.Slots | None  # None follows the index's plan


def build_exact(item_factors: np.ndarray, threads: int | None = None) -> ts.Index:
    """Build an index for exact and slots search, with the default schema."""
    return ts.Index.build(item_factors, method="exact", threads=threads)


def build_auto(item_factors: np.ndarray, threads: int | None = None, target_recall: float = 0.95) -> ts.Index:
    """Build an index that chooses its method by measurement, for a target recall."""
    return ts.Index.build(item_factors, target_recall=target_recall, threads=threads)


def build_tiles(item_factors: np.ndarray, threads: int | None = None) -> ts.Index:
    """Build an index of learned tiles."""
    return ts.Index.build(item_factors, method="tiles", threads=threads)


def slots_to_try() -> list[list[ts.Slots]]:
    """Return slots search over budgets, with a list for each number of slots."""
    return [[ts.Slots(budget, max_slots) for budget in BUDGETS] for max_slots in MAX_SLOTS]


def tiles_to_try() -> list[ts.Tiles]:
    """Return tile search over reaches."""
    return [ts.Tiles(reach) for reach in REACHES]


def _entry(family: str, index: ts.Index, seconds: float, method: OurMethod, setting: str) -> Method:
    """Return a search of an index by a method."""
    return Method(family, setting, Built(seconds, lambda: index.nbytes, "arrays"),
                  lambda queries, k, threads: index.search(queries, k, method=method, threads=threads).ids,
                  lambda query, k: index.search(query, k, method=method, threads=1))  # fmt: skip


def _setting(method: ts.Slots | ts.Tiles) -> str:
    """Return the settings of a method without its name."""
    return str(method).split(", ", maxsplit=1)[1]


def _exact(item_factors: np.ndarray, threads: int) -> Iterator[Ladder]:
    index, seconds = timed(lambda: build_exact(item_factors, threads))
    yield [_entry("tessella exact", index, seconds, ts.Exact(), "")]
    index, seconds = timed(lambda: build_tiles(item_factors, threads))
    yield [_entry("tessella exact", index, seconds, ts.Exact(), "of an index with tiles")]


def _slots(item_factors: np.ndarray, threads: int) -> Iterator[Ladder]:
    index, seconds = timed(lambda: build_exact(item_factors, threads))
    for ladder in slots_to_try():
        yield [_entry("tessella slots", index, seconds, slots, _setting(slots)) for slots in ladder]


def _tiles(item_factors: np.ndarray, threads: int) -> Iterator[Ladder]:
    index, seconds = timed(lambda: build_tiles(item_factors, threads))
    yield [_entry("tessella tiles", index, seconds, tiles, _setting(tiles)) for tiles in tiles_to_try()]


def _auto(item_factors: np.ndarray, threads: int, ks: tuple[int, ...] = (10,)) -> Iterator[Ladder]:
    index, seconds = timed(lambda: build_auto(item_factors, threads))
    for k in ks:
        planned = index if k == 10 else copy.copy(index)
        if planned is not index:
            planned.tune(k=k)
        method = _entry("tessella auto", planned, seconds, None, planned.plan.method.name)
        yield [method if len(ks) == 1 else replace(method, fits=k.__eq__)]


def auto_for(*ks: int) -> Family:
    """Build an automatic index for each k."""
    return Family("tessella auto", "tessella", partial(_auto, ks=ks))


EXACT = Family("tessella exact", "tessella", _exact)
SLOTS = Family("tessella slots", "tessella", _slots)
TILES = Family("tessella tiles", "tessella", _tiles)
AUTO = Family("tessella auto", "tessella", _auto)
FAMILIES = (EXACT, SLOTS, TILES, AUTO)
