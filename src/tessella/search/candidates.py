"""The paper's candidate sets, for study (P12)."""

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from tessella.versions.version import Version


def overlaps(version: Version, queries: NDArray[np.float32]) -> scipy.sparse.csr_array:
    """Count the slots that each query, mapped like an item, shares with each item; columns are in order of rows."""
    mapped = version.fitted.sparse_map.transform(queries)
    used, numbers = np.unique(mapped.indices, return_inverse=True)
    pattern = scipy.sparse.csr_array(
        (np.ones(mapped.nnz, np.int32), numbers, mapped.indptr), shape=(mapped.shape[0], len(used))
    )
    entry_lists: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
    entry_columns: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
    for segment in version.segments:
        slots, positions = segment.postings.lists()
        lists = np.minimum(np.searchsorted(used, slots), max(len(used) - 1, 0))
        columns = np.full(len(segment), -1)
        live = segment.live
        columns[live] = np.searchsorted(version.live_rows, segment.rows[live])
        columns = columns[positions]
        kept = (used[lists] == slots) & (columns >= 0) if len(used) else np.zeros(len(slots), np.bool_)
        entry_lists.append(lists[kept])
        entry_columns.append(columns[kept])
    at, columns = np.concatenate(entry_lists), np.concatenate(entry_columns)
    posted = scipy.sparse.csr_array((np.ones(len(at), np.int32), (at, columns)), shape=(len(used), version.n_live))
    counts = pattern @ posted
    counts.sort_indices()
    return counts
