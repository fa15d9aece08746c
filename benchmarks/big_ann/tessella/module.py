"""tessella for the filter track of big-ann-benchmarks: copy this folder to neurips23/filter/tessella there."""

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from benchmark.datasets import DATASETS
from neurips23.filter.base import BaseFilterANN

import tessella as ts

ENTRIES_PER_CALL = 2**24  # allowed items of all queries of one call, to limit memory
SHARED_FROM = 8  # queries: if at least this many have the same tags, they are searched with one list of allowed items
MEASURED_WITH = 2_000  # rows used as queries when a plan is measured


class Tessella(BaseFilterANN):
    """Nearest neighbours among the rows that have all of a query's tags.

    For the Euclidean distance, rows get one more coordinate: the nearest v to q has the largest q.v - |v|^2 / 2, which
    is the inner product of (q, s) and (v, -|v|^2 / 2s) for any s > 0. Shifting all rows by the same vector, and all
    last coordinates by the same number, does not change the order, so both are centred.

    Parameters
    ----------
    metric : "euclidean" or "ip"
        The metric of the dataset.
    index_params : dict
        "method": "exact", "tiles" or "auto", and for "auto" the "target_recall".
    """

    def __init__(self, metric: str, index_params: dict[str, Any]) -> None:
        if metric not in ("euclidean", "ip"):
            raise ValueError(f"metric is {metric!r}, but must be euclidean or ip.")
        self.metric = metric
        self.method = index_params.get("method", "exact")
        if self.method not in ("exact", "tiles", "auto"):
            raise ValueError(f"method is {self.method!r}, but must be exact, tiles or auto.")
        self.target_recall = index_params.get("target_recall")
        self.asked: ts.Tiles | None = None  # None follows the index's plan
        self.n_scored = 0
        self.title = "_".join(str(part) for part in (self.method, self.target_recall) if part is not None)
        self.name = f"tessella({self.title})"

    def fit(self, dataset: str) -> None:
        """Build the index of a dataset, and save it."""
        rows = self._prepare(dataset)
        items = rows
        if self.metric == "euclidean":
            moved = rows - self.centre
            squares = np.sum(np.square(moved, dtype=np.float64), axis=1, keepdims=True)
            self.last = float(np.sqrt(squares.mean()) / 2) or 1.0
            items = np.hstack([moved, ((squares.mean() - squares) / (2 * self.last)).astype(np.float32)])
        queries = None
        if self.method == "auto":
            n_drawn = min(len(rows), MEASURED_WITH)
            queries = self._queries(rows[np.random.default_rng(0).choice(len(rows), n_drawn, replace=False)])
        self.index = ts.Index.build(items, method=self.method, target_recall=self.target_recall, queries=queries)
        path = self._path(dataset)
        path.parent.mkdir(parents=True, exist_ok=True)
        self.index.save(path, overwrite=True)
        np.save(path.with_suffix(".npy"), self.last)

    def load_index(self, dataset: str) -> bool:
        """Load the index that `fit` saved; return whether there was one."""
        path = self._path(dataset)
        if not (path.exists() and path.with_suffix(".npy").exists()):
            return False
        self._prepare(dataset)
        self.last = float(np.load(path.with_suffix(".npy")))
        self.index = ts.Index.load(path)
        return True

    def _path(self, dataset: str) -> Path:
        return Path("data", "indices", "filter", "tessella", f"{dataset}-{self.metric}-{self.title}.tessella")

    def _prepare(self, dataset: str) -> np.ndarray:
        """Return the rows of a dataset; store their centre and the rows of each tag."""
        source = DATASETS[dataset]()
        rows = np.asarray(source.get_dataset(), dtype=np.float32)
        self.centre = rows.mean(axis=0, dtype=np.float64).astype(np.float32)
        self.last = 1.0
        self.rows_of_tags = None
        if source.search_type() == "knn_filtered":
            self.rows_of_tags = scipy.sparse.csr_array(source.get_dataset_metadata().T)
            self.rows_of_tags.sort_indices()
        return rows

    def _queries(self, rows: np.ndarray) -> np.ndarray:
        queries = np.asarray(rows, dtype=np.float32)
        if self.metric == "euclidean":
            return np.hstack([queries - self.centre, np.full((len(queries), 1), self.last, np.float32)])
        return queries

    def set_query_arguments(self, query_args: dict[str, Any]) -> None:
        """Set the search effort of tiles: {"reach": share}."""
        if self.method != "tiles":
            raise ValueError(f"{self.method} takes no query arguments, but {query_args} were given.")
        self.asked = ts.Tiles(query_args["reach"])
        self.n_scored = 0
        self.name = f"tessella({self.title}, reach={query_args['reach']})"

    def query(self, X: np.ndarray, k: int) -> None:  # noqa: N803
        """Find the rows nearest to queries without tags; `get_results` returns them."""
        found = self.index.search(self._queries(X), k, method=self.asked)
        self.res = found.ids
        self.n_scored += int(found.n_scored.sum())

    def filtered_query(self, X: np.ndarray, filter: Any, k: int) -> None:  # noqa: A002, N803
        """Find the rows nearest to queries among those with all tags of the query; `get_results` returns them.

        Queries with the same tags are searched together. The others are searched in large calls, with a list of
        allowed rows for each.
        """
        queries = self._queries(X)
        self.res = np.full((len(queries), k), -1, np.int64)
        waiting: list[tuple[int, np.ndarray]] = []
        n_waiting = 0
        for tags, numbers in _by_tags(filter).items():
            allowed = self._rows_with(tags)
            if len(numbers) >= SHARED_FROM:
                self._search(queries, numbers, k, allowed)
                continue
            waiting += [(number, allowed) for number in numbers]
            n_waiting += len(numbers) * len(allowed)
            if n_waiting > ENTRIES_PER_CALL:
                self._search_each(queries, waiting, k)
                waiting, n_waiting = [], 0
        if waiting:
            self._search_each(queries, waiting, k)

    def _rows_with(self, tags: tuple[int, ...]) -> np.ndarray:
        """Return the rows that have all tags, ascending."""
        starts, rows = self.rows_of_tags.indptr, self.rows_of_tags.indices
        lists = sorted((rows[starts[tag] : starts[tag + 1]] for tag in tags), key=len)
        found = lists[0] if lists else np.arange(self.rows_of_tags.shape[1])
        for other in lists[1:]:
            at = np.searchsorted(other, found)
            at[at == len(other)] = 0
            found = found[other[at] == found] if len(other) else found[:0]
        return found

    def _search_each(self, queries: np.ndarray, waiting: list[tuple[int, np.ndarray]], k: int) -> None:
        """Search for queries that each have their own allowed rows."""
        numbers, lists = zip(*waiting, strict=True)
        starts = np.concatenate([[0], np.cumsum([len(rows) for rows in lists])])
        columns = np.concatenate(lists)
        shape = (len(lists), len(self.index))
        allow = scipy.sparse.csr_array((np.ones(len(columns), np.int8), columns, starts), shape=shape)
        self._search(queries, list(numbers), k, allow)

    def _search(self, queries: np.ndarray, numbers: list[int], k: int, allow: Any) -> None:
        found = self.index.search(queries[numbers], k, method=self.asked, allow=allow)
        self.res[numbers] = found.ids
        self.n_scored += int(found.n_scored.sum())

    def get_results(self) -> np.ndarray:
        """Return the result of the last call, (n_queries, k); -1 if fewer than k rows have the tags."""
        return self.res

    def get_additional(self) -> dict[str, int]:
        """Return how many rows were scored in all runs since the query arguments were set."""
        return {"dist_comps": self.n_scored}

    def __str__(self) -> str:
        return self.name


def _by_tags(filter: Any) -> dict[tuple[int, ...], list[int]]:  # noqa: A002
    """Return the numbers of the queries for each set of tags."""
    tags = scipy.sparse.csr_array(filter)
    queries: dict[tuple[int, ...], list[int]] = {}
    for number, (start, stop) in enumerate(zip(tags.indptr[:-1], tags.indptr[1:], strict=True)):
        queries.setdefault(tuple(sorted(tags.indices[start:stop].tolist())), []).append(number)
    return queries
