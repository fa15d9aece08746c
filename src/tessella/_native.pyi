"""
The native core of tessella. Private: every function fills arrays that Python allocated.
"""

from collections.abc import Sequence
from typing import Annotated, overload

import numpy
from numpy.typing import NDArray


def levels() -> list[str]:
    """The SIMD levels this processor runs, plainest first."""

def numbers() -> dict[str, float]:
    """The constants that proofs and layouts rest on, by name."""

def first_nonfinite(factors: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], level: int) -> int:
    """The first vector with a NaN or an infinity, or how many there are."""

def prepare(factors: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], rotation: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, threshold: float, relative: bool, prepared: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], level: int) -> None:
    """Rotates, then zeroes coordinates below the threshold."""

def count_entries(prepared: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], counts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], level: int) -> int:
    """
    Counts the non-zeros of each vector, up to the first that is not finite; returns that, or how many there are.
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
    Each vector's entries, ascending by slot; the first vector that does not fit, or how many there are.
    """

@overload
def fill_entries(prepared: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], tiles: Annotated[NDArray[numpy.int8], dict(shape=(None, None), order='C', device='cpu', writable=False)], n_levels: int, depth: int, starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], slots: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], values: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')], level: int) -> int: ...

def inner_products(queries: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], items: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], products: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], level: int) -> None:
    """Inner products in float32, in the order of sums that scores have."""

def code_items(factors: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], rotated: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], n_head: int, codes: Annotated[NDArray[numpy.int8], dict(shape=(None,), order='C', device='cpu')], offsets: Annotated[NDArray[numpy.int16], dict(shape=(None,), order='C', device='cpu')], block_terms: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], level: int) -> None:
    """
    Codes items for exact search in blocks, with the terms of their bounds.
    """

def sketch(factors: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], head: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], sketches: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], level: int) -> None:
    """
    Coordinates along the axes, and the norm of the rest, or a little more.
    """

def code_tile_items(factors: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], codes: Annotated[NDArray[numpy.int8], dict(shape=(None,), order='C', device='cpu')], offsets: Annotated[NDArray[numpy.int16], dict(shape=(None,), order='C', device='cpu')], scales: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')], level: int) -> None:
    """
    Codes items, or centres, for tile search, each in steps of its own scale.
    """

def nearest_tiles(centres: object, halves: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], factors: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], taken: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, tiles: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')], level: int) -> None:
    """The tile whose centre is nearest to each factor."""

def reorder(factors: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], order: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None:
    """Puts rows in the order given, in place."""

def group_neighbours(factors: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], members: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')], level: int) -> None:
    """Puts the members of each tile in groups of neighbours."""

def scatter_ids(ids: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], slots: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """Fills a table of positions in which ids that lie far apart are found."""

def read_ids(lists: object, ids: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> bool:
    """
    Fills in the whole numbers of lists and tuples, one after another; whether they hold nothing else.
    """

def find_ids(segment: object, base: int, wanted: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], positions: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """
    Fills in the positions, with the base added, of those ids that are there.
    """

@overload
def list_columns(columns: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, row_of_column: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, without: tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]] | None, rows: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], row_starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> int:
    """
    Turns lists of columns into ascending lists of rows; the first entry that is no column, or -1.
    """

@overload
def list_columns(columns: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, row_of_column: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, without: tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]] | None, rows: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], row_starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> int: ...

class Engine:
    """The arrays of one version of an index, and every way to search them."""

    def __init__(self, head: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], longest: float, longest_held: float, centres: object | None, radii: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, segments: Sequence[object]) -> None: ...

    def search(self, queries: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)], setting: tuple[int, float, int, int, int], entries: tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)]] | None, row_filter: tuple[Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, int, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, bool] | None, answers: tuple[Annotated[NDArray[numpy.int64], dict(order='C', device='cpu')], Annotated[NDArray[numpy.float32], dict(order='C', device='cpu')], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], Annotated[NDArray[numpy.bool_], dict(shape=(None,), order='C', device='cpu')]], level: int) -> int:
        """
        Fills in answers to all queries; returns -1, or the first query that is not finite or too long.
        """

    def choose(self, query: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], setting: tuple[int, float, int, int, int], entries: tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)]], row_filter: tuple[Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, int, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, bool] | None, keys: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu')], level: int) -> int:
        """
        Fills in the candidates of slots search for one query; how many there are.
        """

    def list_ids(self, ids: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, without: tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]] | None, rows: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], row_starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> int:
        """
        Turns lists of ids into ascending lists of rows; how many ids are unknown.
        """
