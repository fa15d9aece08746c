"""The native core in NumPy: its readable specification, and the fallback if it was not compiled.

Each function has the name and the arguments of its native counterpart, and the same results, bit for bit. `level` has
no effect.
"""

from tessella._reference.arithmetic import inner_products, reorder
from tessella._reference.codes import code_items, code_tile_items, sketch
from tessella._reference.engine import Engine
from tessella._reference.ids import Lists, find_ids, list_columns, read_ids, scatter_ids
from tessella._reference.mapping import (
    count_entries,
    counter_slots,
    dary_tiles,
    fill_entries,
    first_nonfinite,
    place_entries,
    prepare,
    ternary_tiles,
    window_slots,
)
from tessella._reference.tiles import group_neighbours, nearest_tiles

__all__ = [
    "Engine",
    "Lists",
    "code_items",
    "code_tile_items",
    "count_entries",
    "counter_slots",
    "dary_tiles",
    "fill_entries",
    "find_ids",
    "first_nonfinite",
    "group_neighbours",
    "inner_products",
    "list_columns",
    "nearest_tiles",
    "place_entries",
    "prepare",
    "read_ids",
    "reorder",
    "scatter_ids",
    "sketch",
    "ternary_tiles",
    "window_slots",
]
