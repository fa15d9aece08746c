"""NumPy twins of the native kernels: the readable specification, and what runs where no compiler worked.

Each kernel has the name, the arrays and the result of its native twin, bit for bit; only `exact_scan` leaves nothing
out, so it scores more. `level` changes no result, and here nothing at all.
"""

from tessella._reference.common import scores_of
from tessella._reference.mapping import (
    count_entries,
    counter_slots,
    dary_tiles,
    fill_entries,
    first_bad_row,
    place_entries,
    prepare,
    ternary_tiles,
    window_slots,
)
from tessella._reference.search import (
    code_items,
    code_queries,
    exact_scan,
    find_ids,
    score_chosen,
    slot_scan,
    sort_found,
)
from tessella._reference.tiles import code_askers, code_rows, nearest_tiles, rank_tiles, tile_scan

__all__ = [
    "code_askers",
    "code_items",
    "code_queries",
    "code_rows",
    "count_entries",
    "counter_slots",
    "dary_tiles",
    "exact_scan",
    "fill_entries",
    "find_ids",
    "first_bad_row",
    "nearest_tiles",
    "place_entries",
    "prepare",
    "rank_tiles",
    "score_chosen",
    "scores_of",
    "slot_scan",
    "sort_found",
    "ternary_tiles",
    "tile_scan",
    "window_slots",
]
