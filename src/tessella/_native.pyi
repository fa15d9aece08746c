"""
Native kernels of tessella. Private: every function fills arrays that Python allocated.
"""

from typing import Annotated, overload

import numpy
from numpy.typing import NDArray


def levels() -> list[str]:
    """The SIMD levels this processor runs, plainest first."""

def first_bad_row(factors: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], level: int) -> int:
    """The first row holding a NaN or an infinity, or the number of rows."""

def prepare(factors: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], rotation: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, threshold: float, relative: bool, prepared: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], level: int) -> None:
    """Rotates, then zeroes coordinates below the threshold."""

def count_entries(prepared: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], counts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], level: int) -> int:
    """
    Counts the non-zeros of each row, up to the first bad row; returns it, or the number of rows.
    """

def ternary_tiles(factors: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], max_nonzeros: int, tiles: Annotated[NDArray[numpy.int8], dict(shape=(None, None), order='C', device='cpu')], level: int) -> None:
    """
    Algorithm 2: the nearest ternary tile with at most max_nonzeros non-zeros.
    """

def dary_tiles(factors: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], n_levels: int, exact: bool, tiles: Annotated[NDArray[numpy.int8], dict(shape=(None, None), order='C', device='cpu')], level: int) -> None:
    """The nearest D-ary tile, or Algorithm 4's rounding."""

@overload
def fill_entries(prepared: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], tiles: Annotated[NDArray[numpy.int8], dict(shape=(None, None), order='C', device='cpu', writable=False)], n_levels: int, depth: int, starts: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], slots: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')], values: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')], level: int) -> int:
    """
    Each row's entries, ascending by slot; the first row that does not fit, or the number of rows.
    """

@overload
def fill_entries(prepared: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], tiles: Annotated[NDArray[numpy.int8], dict(shape=(None, None), order='C', device='cpu', writable=False)], n_levels: int, depth: int, starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], slots: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], values: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')], level: int) -> int: ...

def code_queries(queries: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], head: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], largest: float, longest: float, codes: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu')], terms: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], level: int) -> None:
    """
    Codes queries by their coordinates along the head's axes and the norm of the rest.
    """

def find_ids(ids: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], by_id: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], dead: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, base: int, wanted: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], places: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], level: int) -> None:
    """Fills in the places, with the base added, of those ids that are there."""

def sort_found(scores: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], answers: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu')], counts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], level: int) -> None:
    """Puts each query's answers in order, best first."""

def code_items(factors: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], turned: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], n_head: int, largest: float, longest: float, room: float, codes: Annotated[NDArray[numpy.int8], dict(shape=(None,), order='C', device='cpu')], offsets: Annotated[NDArray[numpy.int16], dict(shape=(None,), order='C', device='cpu')], block_terms: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], level: int) -> None:
    """Codes items in blocks, with the terms of their bounds."""

def exact_scan(factors: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], rows: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], dead: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, base: int, codes: Annotated[NDArray[numpy.int8], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.int16], dict(shape=(None,), order='C', device='cpu', writable=False)], block_terms: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], queries: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], query_codes: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu', writable=False)], query_terms: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], allowed: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, excluded: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], excluded_starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], scores: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], answers: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu')], counts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], scored: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], level: int) -> None:
    """
    Offers every live item to every query's best, leaving out those that cannot be among them.
    """

def slot_scan(factors: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], rows: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], dead: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, base: int, places: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order='C', device='cpu', writable=False)], impacts: Annotated[NDArray[numpy.int8], dict(shape=(None,), order='C', device='cpu', writable=False)], slots: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], scales: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], block_lists: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], queries: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], entry_starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], entry_slots: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], entry_values: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], allowed: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, excluded: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], excluded_starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], max_slots: int, min_overlap: int, longest: float, keys: Annotated[NDArray[numpy.uint64], dict(shape=(None, None), order='C', device='cpu')], counts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], level: int) -> None:
    """
    Offers every live item that shares slots with a query to its chosen ones.
    """

def score_chosen(factors: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], rows: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], dead: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, base: int, block_terms: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], queries: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], allowed: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, excluded: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], excluded_starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], keys: Annotated[NDArray[numpy.uint64], dict(shape=(None, None), order='C', device='cpu')], chosen_counts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], scores: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], answers: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu')], counts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], scored: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], unseen: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], level: int) -> None:
    """
    Scores the chosen items; `unseen` rises to what an item that was not scored might reach.
    """

def code_rows(factors: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], codes: Annotated[NDArray[numpy.int8], dict(shape=(None,), order='C', device='cpu')], offsets: Annotated[NDArray[numpy.int16], dict(shape=(None,), order='C', device='cpu')], scales: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')], level: int) -> None:
    """Codes rows, each in steps of its own scale."""

def code_askers(queries: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], codes: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu')], terms: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], level: int) -> None:
    """Codes queries, or items that look for their tile; scales and norms."""

def nearest_tiles(codes: Annotated[NDArray[numpy.int8], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.int16], dict(shape=(None,), order='C', device='cpu', writable=False)], scales: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], halves: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], asker_codes: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu', writable=False)], asker_terms: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], taken: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, tiles: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')], level: int) -> None:
    """The tile whose centre is nearest to each asker."""

def rank_tiles(codes: Annotated[NDArray[numpy.int8], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.int16], dict(shape=(None,), order='C', device='cpu', writable=False)], scales: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], n_factors: int, asker_codes: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu', writable=False)], asker_terms: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], reach: float, nears: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], level: int) -> None:
    """
    What each query and each centre score at most, as far as `reach` believes.
    """

def tile_scan(factors: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], rows: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], dead: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, base: int, places: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], starts: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], codes: Annotated[NDArray[numpy.int8], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.int16], dict(shape=(None,), order='C', device='cpu', writable=False)], scales: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], radii: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], queries: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], asker_codes: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu', writable=False)], asker_terms: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], nears: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], reach: float, allowed: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, excluded: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], excluded_starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], scores: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], answers: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu')], counts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], scored: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], level: int) -> None:
    """
    Offers the items of the tiles that may hold answers to each query's best.
    """

class Server:
    """Answers queries over arrays that are checked once and kept."""

    def __init__(self, n_factors: int, longest: float, head: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], largest_code: float, longest_code: float, level: int) -> None: ...

    def learn(self, codes: Annotated[NDArray[numpy.int8], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.int16], dict(shape=(None,), order='C', device='cpu', writable=False)], scales: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None:
        """The centres of tiles."""

    def add(self, factors: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], rows: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], dead: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, base: int, ids: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], codes: Annotated[NDArray[numpy.int8], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.int16], dict(shape=(None,), order='C', device='cpu', writable=False)], block_terms: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> None:
        """One more segment."""

    def file(self, places: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], starts: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], codes: Annotated[NDArray[numpy.int8], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.int16], dict(shape=(None,), order='C', device='cpu', writable=False)], scales: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], radii: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None:
        """The tiles of the segment that was added last."""

    def search(self, queries: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], reach: float, allowed: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, excluded: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], excluded_starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], ids: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu')], scores: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], scored: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> bool:
        """
        Fills in the best items, exactly if reach is negative; whether all queries could be answered.
        """

    def search_one(self, query: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], reach: float, ids: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], scores: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')]) -> int:
        """The same of one query over all items; how many were scored, or -1."""
