"""Interests: merges the lists of a user's several vectors into one, ranked by each item's best score."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella._packing import LOW_HALF
from tessella.recommend.edition import named_in
from tessella.results import SearchResult
from tessella.versions.version import Version

INTERESTS = ("best", "sum")


def merged(version: Version, found: list[SearchResult], k: int) -> SearchResult:
    """Merge several lists for the same queries into the top k by best score.

    Each list must hold at least k items, or all there are. An item in the overall top k is also in the top k of the
    list where it has its best score, because every item ahead of it there is ahead of it overall. So nothing is missed.
    Ties go to the item that was added first.
    """
    ids = np.concatenate([each.ids for each in found], axis=1)
    scores = np.concatenate([each.scores for each in found], axis=1)
    n, width = ids.shape
    rows = _rows_of(version, ids)
    query = np.repeat(np.arange(n), width)
    by_item = np.lexsort((-scores.ravel(), rows.ravel(), query))  # the best score of each item first
    pairs = query[by_item] << 32 | (rows.ravel()[by_item] & LOW_HALF)
    first = np.ones(len(pairs), np.bool_)
    first[1:] = pairs[1:] != pairs[:-1]
    kept = by_item[first & (scores.ravel()[by_item] > -np.inf)]
    kept = kept[np.lexsort((rows.ravel()[kept], -scores.ravel()[kept], query[kept]))]
    starts = np.searchsorted(query[kept], np.arange(n))
    place = np.arange(len(kept)) - starts[query[kept]]
    kept, place = kept[place < k], place[place < k]
    best_ids = np.full((n, k), None if ids.dtype == object else -1, ids.dtype)
    best_scores = np.full((n, k), -np.inf, np.float32)
    best_ids[query[kept], place] = ids.ravel()[kept]
    best_scores[query[kept], place] = scores.ravel()[kept]
    n_scored = np.add.reduce([each.n_scored for each in found])
    certified = np.logical_and.reduce([each.certified for each in found])
    return SearchResult(best_ids, best_scores, n_scored, certified)


def _rows_of(version: Version, ids: NDArray[Any]) -> NDArray[np.int64]:
    """Return the row of each item, or -1 where there is none."""
    rows = np.full(ids.shape, -1)
    there, named = named_in(ids)
    if len(named):
        rows[there] = version.rows_at(version.find(named))
    return rows
