"""Checks of user input, each with its error message.

A check belongs elsewhere only if it concerns a single class, such as the parts of a `Schema`, the bytes of a file, or
the command line. Measures and baselines have theirs in `paper/_checks.py`.
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
    columns_fit,
    flat_ids,
    from_library,
    id_array,
    ids,
    is_sequence,
    may_be_id,
    number_of_lists,
    plain_numbers,
    refuse_column,
    refuse_filter,
    refuse_moved_columns,
    starts_of_rows,
    warn_of_unknown_ids,
)
from tessella._checks._mapping import levels, n_factors, rotation, slot_count, tiles
from tessella._checks._values import number_at_least, number_between, one_of, true_or_false, whole_number

__all__ = [
    "all_factors",
    "block",
    "columns_fit",
    "expect",
    "factors",
    "flat_ids",
    "from_library",
    "id_array",
    "ids",
    "is_sequence",
    "is_sparse",
    "item_factors",
    "levels",
    "may_be_id",
    "n_factors",
    "norms_fit",
    "number_at_least",
    "number_between",
    "number_of_lists",
    "numbers",
    "one_of",
    "plain_numbers",
    "products_fit",
    "refuse_column",
    "refuse_filter",
    "refuse_moved_columns",
    "refuse_row",
    "rotation",
    "row_blocks",
    "slot_count",
    "starts_of_rows",
    "tiles",
    "true_or_false",
    "unchecked_block",
    "warn_of_unknown_ids",
    "whole_number",
]
