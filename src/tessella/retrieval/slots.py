"""Slots search: partial inner products over shared slots choose the items to score (P12, weighed)."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from tessella._kernels import core
from tessella._threads import run_blocks
from tessella.retrieval.filters import Filters
from tessella.retrieval.found import Found, batches
from tessella.retrieval.scoring import score_chosen
from tessella.versions.version import State


@dataclass(frozen=True)
class Effort:
    """How much slots search does for a query."""

    budget: int  # items scored
    max_slots: int
    min_overlap: int


def choose(
    state: State, queries: NDArray[np.float32], filters: Filters, effort: Effort
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The items with the largest partial products over each query's heaviest slots, in no order, and how many they are.

    An item is held as a number that is larger for larger partial products: product << 32 | 2^32 - 1 - place.
    """
    running = core()
    starts, slots, values = state.fitted.query_mapper.entries(queries)
    keys = np.empty((len(queries), effort.budget), np.uint64)
    counts = np.zeros(len(queries), np.int64)
    for segment, base in state.parts():
        filed = segment.postings
        running.kernels.slot_scan(
            segment.factors, segment.rows, segment.dead, base,
            filed.places, filed.impacts, filed.slots, filed.starts, filed.scales, filed.block_lists,
            queries, starts, slots, values, filters.allowed, filters.excluded, filters.excluded_starts,
            effort.max_slots, effort.min_overlap, state.longest_held, keys, counts, running.level,
        )  # fmt: skip
    return keys, counts


def search_by_slots(
    state: State, queries: NDArray[np.float32], filters: Filters, effort: Effort, found: Found, threads: int
) -> NDArray[np.int64]:
    """Fill in the best of the chosen items; the queries that this left short of answers, by number.

    A query is certified where no item that was left out can be long enough to reach the k-th score.
    """
    short = np.zeros(len(queries), np.bool_)
    k = found.scores.shape[1]

    def scan(batch: slice) -> None:
        asked, best, filtered = queries[batch], found.part(batch), filters.part(batch)
        keys, counts = choose(state, asked, filtered, effort)
        unseen = score_chosen(state, asked, filtered, keys, counts, best)
        all_seen = unseen == -np.inf
        best.certified[:] = all_seen | ((best.counts == k) & (best.scores[:, -1] > unseen))
        short[batch] = (best.counts < k) & ~all_seen

    run_blocks(scan, batches(len(queries)), threads)
    return np.flatnonzero(short)


def overlaps(state: State, mapped: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    """How many slots each mapped query shares with each live item, which go by row."""
    used, numbers = np.unique(mapped.indices, return_inverse=True)
    pattern = scipy.sparse.csr_array(
        (np.ones(mapped.nnz, np.int32), numbers, mapped.indptr), shape=(mapped.shape[0], len(used))
    )
    entry_lists: list[NDArray[np.int64]] = []
    entry_columns: list[NDArray[np.int64]] = []
    for segment in state.segments:
        slots, places = segment.postings.lists()
        lists = np.minimum(np.searchsorted(used, slots), max(len(used) - 1, 0))
        columns = np.full(len(segment), -1)
        live = segment.live
        columns[live] = np.searchsorted(state.live_rows, segment.rows[live])
        columns = columns[places]
        kept = (used[lists] == slots) & (columns >= 0) if len(used) else np.zeros(len(slots), np.bool_)
        entry_lists.append(lists[kept])
        entry_columns.append(columns[kept])
    at = np.concatenate([*entry_lists, np.zeros(0, np.int64)])
    columns = np.concatenate([*entry_columns, np.zeros(0, np.int64)])
    filed = scipy.sparse.csr_array((np.ones(len(at), np.int32), (at, columns)), shape=(len(used), state.n_live))
    counts = pattern @ filed
    counts.sort_indices()
    return counts
