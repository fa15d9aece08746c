"""
The native core of tessella. Private: every function fills arrays that Python allocated.
"""

from collections.abc import Sequence
from typing import Annotated, overload

import numpy
from numpy.typing import NDArray


def levels() -> list[str]:
    """Return the SIMD levels that this processor supports, simplest first."""

def numbers() -> dict[str, float]:
    """Return the constants of bounds and layouts by name."""

def first_nonfinite(factors: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], level: int) -> int:
    """
    Return the first vector with a NaN or an infinity, or the number of vectors.
    """

def prepare(factors: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], rotation: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, threshold: float, relative: bool, prepared: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], level: int) -> None:
    """Rotate vectors, then set coordinates below the threshold to zero."""

def count_entries(prepared: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], counts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], level: int) -> int:
    """
    Count the non-zeros of each vector; return the first vector that is not finite, or the number of vectors.
    """

def ternary_tiles(factors: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], max_nonzeros: int, tiles: Annotated[NDArray[numpy.int8], dict(shape=(None, None), order='C', device='cpu')], level: int) -> None:
    """
    Fill in the nearest ternary tiles with at most max_nonzeros non-zeros (Algorithm 2).
    """

def dary_tiles(factors: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], n_levels: int, exact: bool, tiles: Annotated[NDArray[numpy.int8], dict(shape=(None, None), order='C', device='cpu')], level: int) -> None:
    """Fill in the nearest D-ary tiles, or Algorithm 4's rounded tiles."""

@overload
def fill_entries(prepared: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], tiles: Annotated[NDArray[numpy.int8], dict(shape=(None, None), order='C', device='cpu', writable=False)], n_levels: int, depth: int, starts: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], slots: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')], values: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')], level: int) -> int:
    """
    Fill in each vector's entries by ascending slot; return the first vector that does not fit, or the number of vectors.
    """

@overload
def fill_entries(prepared: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], tiles: Annotated[NDArray[numpy.int8], dict(shape=(None, None), order='C', device='cpu', writable=False)], n_levels: int, depth: int, starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], slots: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], values: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')], level: int) -> int: ...

def inner_products(queries: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], items: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], products: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], level: int) -> None:
    """Fill in inner products in float32, summed in the same order as scores."""

def code_items(factors: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], rotated: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], n_head: int, codes: Annotated[NDArray[numpy.int8], dict(shape=(None,), order='C', device='cpu')], offsets: Annotated[NDArray[numpy.int16], dict(shape=(None,), order='C', device='cpu')], block_terms: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], level: int) -> None:
    """Code items for exact search in blocks, with the terms of their bounds."""

def sketch(factors: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], head: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], sketches: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], level: int) -> None:
    """
    Fill in the coordinates along the axes, and an upper bound of the norm of the rest.
    """

def code_tile_items(factors: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], codes: Annotated[NDArray[numpy.int8], dict(shape=(None,), order='C', device='cpu')], offsets: Annotated[NDArray[numpy.int16], dict(shape=(None,), order='C', device='cpu')], scales: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')], level: int) -> None:
    """
    Code items, or centres, for tile search, each in steps of its own scale.
    """

def nearest_tiles(centres: object, halves: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], factors: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], taken: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, tiles: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')], level: int) -> None:
    """Fill in the tile whose centre is nearest to each factor."""

def reorder(factors: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], order: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None:
    """Reorder rows in place."""

def group_neighbours(factors: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], members: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')], level: int) -> None:
    """Sort the members of each tile into groups of neighbours."""

def scatter_ids(ids: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], slots: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """Fill a hash table of the positions of ids."""

def read_ids(lists: object, ids: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> bool:
    """
    Fill in the ids of lists and tuples; return False if any is not a Python int of 64 bits.
    """

def find_ids(segment: object, base: int, wanted: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], positions: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """
    Fill in the positions, plus the base, of the ids that are in a segment.
    """

@overload
def list_columns(columns: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, row_of_column: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, without: tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]] | None, rows: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], row_starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> int:
    """
    Turn lists of columns into ascending lists of rows; return the first entry out of range, or -1.
    """

@overload
def list_columns(columns: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, row_of_column: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, without: tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]] | None, rows: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], row_starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> int: ...

class Engine:
    """
    Holds the arrays of one version of an index, and searches them by any method.
    """

    def __init__(self, head: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], longest: float, longest_held: float, centres: object | None, radii: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, segments: Sequence[object]) -> None: ...

    def search(self, queries: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)], setting: tuple[int, float, int, int, int], entries: tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)]] | None, row_filter: tuple[Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, int, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, bool] | None, answers: tuple[Annotated[NDArray[numpy.int64], dict(order='C', device='cpu')], Annotated[NDArray[numpy.float32], dict(order='C', device='cpu')], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], Annotated[NDArray[numpy.bool_], dict(shape=(None,), order='C', device='cpu')]], level: int) -> int:
        """
        Fill in the answers to all queries; return -1, or the first query that is not finite or too long.
        """

    def choose(self, query: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], setting: tuple[int, float, int, int, int], entries: tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)]], row_filter: tuple[Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, int, Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, bool] | None, keys: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu')], level: int) -> int:
        """
        Fill in the candidates of slots search for one query; return how many there are.
        """

    def list_ids(self, ids: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, without: tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]] | None, rows: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], row_starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> int:
        """
        Turn lists of ids into ascending lists of rows; return how many ids are unknown.
        """
