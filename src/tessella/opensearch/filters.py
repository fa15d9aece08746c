"""Filters: reads `exclude` and `allow`, in the forms that `Index.search` takes, into ids for OpenSearch.

Items in a cluster have no order, so a matrix or a mask needs the ids of its columns.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella import _checks
from tessella.opensearch.documents import texts_of
from tessella.opensearch.layout import Layout
from tessella.search import selections
from tessella.search.filters import PreparedFilter
from tessella.search.selections import Columns, Ids, Mask, Sequences


class Lists:
    """Lists of ids: one for all queries, or one per query."""

    def __init__(self, lists: list[list[str]], *, shared: bool) -> None:
        self._lists, self.shared = lists, shared

    def of_query(self, number: int) -> list[str]:
        """Return the ids for one query."""
        return self._lists[0 if self.shared else number]


def lists_of(given: Any, name: str, n_queries: int, layout: Layout) -> Lists:
    """Read what a caller passed into lists of ids."""
    if isinstance(given, PreparedFilter):
        raise TypeError(f"{name} is a filter prepared by an Index; pass the ids themselves.")
    columns = None
    if type(given) is tuple and len(given) == 2 and selections._has_columns(given[0]):
        given, columns = given
        columns = _checks.ids(columns, None, name=f"column_ids of {name}")
    found = selections._read(given, name)
    if isinstance(found, Sequences):
        found = found.ids()
    elif isinstance(found, Columns | Mask):
        found = _named(found, columns, name, n_queries)
    if not isinstance(found, Ids):
        _checks.refuse_filter(given, name)
    if found.starts is None:
        return Lists([_texts(found.values, layout, name)], shared=True)
    _checks.number_of_lists(len(found.starts) - 1, name, n_queries)
    parts = zip(found.starts.tolist(), found.starts[1:].tolist(), strict=False)
    return Lists([_texts(found.values[start:end], layout, name) for start, end in parts], shared=False)


def _named(found: Columns | Mask, ids: NDArray[Any] | None, name: str, n_queries: int) -> Ids:
    """Return the ids of the columns that a matrix or a mask selects."""
    if ids is None:
        raise ValueError(
            f"{name} is a matrix or a mask without column ids, but items in OpenSearch have no order; pass "
            f"{name}=(matrix, column_ids)."
        )
    shape = found.shape if isinstance(found, Columns) else found.mask.shape
    _checks.columns_fit(shape, name, n_queries, len(ids), whose="column id")
    columns = found if isinstance(found, Columns) else found.columns_named()
    here = columns.columns
    if len(here) and not 0 <= int(here.min()) <= int(here.max()) < len(ids):
        _checks.refuse_column(int(here[(here < 0) | (here >= len(ids))][0]), len(ids), name)
    return Ids(ids[here], columns.starts, name)


def _texts(ids: NDArray[Any], layout: Layout, name: str) -> list[str]:
    """Return unique ids as strings for OpenSearch, without -1, which names no item."""
    return texts_of(np.unique(ids if ids.dtype.kind == "U" else ids[ids != -1]), layout, name)
