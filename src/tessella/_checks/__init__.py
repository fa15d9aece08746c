"""Every check of what users pass in, and its sentence.

A check may stand elsewhere only where it belongs to one class alone, such as the parts of a `Schema`, where it is about
the bytes of a file, or where it is the command line's; measures and baselines have theirs in `paper/_checks.py`.
"""

from tessella._checks._factors import (
    all_factors,
    block,
    expect,
    factors,
    is_sparse,
    item_factors,
    norms_fit,
    numbers,
    products_fit,
    refuse_row,
    row_blocks,
    unchecked_block,
)
from tessella._checks._ids import (
    columns,
    excluding_shape,
    id_lists,
    ids,
    is_list_of_ids,
    is_list_of_lists,
    may_be_id,
)
from tessella._checks._mapping import levels, n_factors, rotation, slot_count, tiles
from tessella._checks._values import number_at_least, number_between, one_of, true_or_false, whole_number

__all__ = [
    "all_factors",
    "block",
    "columns",
    "excluding_shape",
    "expect",
    "factors",
    "id_lists",
    "ids",
    "is_list_of_ids",
    "is_list_of_lists",
    "is_sparse",
    "item_factors",
    "levels",
    "may_be_id",
    "n_factors",
    "norms_fit",
    "number_at_least",
    "number_between",
    "numbers",
    "one_of",
    "products_fit",
    "refuse_row",
    "rotation",
    "row_blocks",
    "slot_count",
    "tiles",
    "true_or_false",
    "unchecked_block",
    "whole_number",
]
