"""tessella for ann-benchmarks: copy this folder to ann_benchmarks/algorithms/tessella there."""

import numpy as np

import tessella as ts

from ..base.module import BaseANN  # noqa: TID252 - as every algorithm there has it

BUILT_AS = {"exact": "exact", "slots": "exact", "tiles": "tiles", "auto": "auto"}
QUERY_ARGUMENTS = {"slots": ("budget", "max_slots"), "tiles": ("reach",)}


class Tessella(BaseANN):
    """Nearest neighbours through inner products.

    Cosines are inner products of rows of length 1. The nearest row v to q is the one with the largest q.v - |v|^2 / 2,
    which is the inner product of (q, 1) with (v, -|v|^2 / 2). Forks that rank by inner product pass "ip" or "dot".
    """

    def __init__(self, metric: str, method: str, target_recall: float = 0.95) -> None:
        if metric not in ("angular", "euclidean", "ip", "dot"):
            raise ValueError(f"metric is {metric!r}, but must be angular, euclidean, ip or dot.")
        if method not in BUILT_AS:
            raise ValueError(f"method is {method!r}, but must be exact, slots, tiles or auto.")
        self.metric, self.method, self.target_recall = metric, method, target_recall
        self.asked: ts.Exact | ts.Slots | ts.Tiles | None = None  # None follows the index's plan
        self.title = f"auto, target_recall={target_recall:g}" if method == "auto" else method
        self.name = f"tessella({self.title})"

    def fit(self, X: np.ndarray) -> None:  # noqa: N803
        """Build the index."""
        rows = np.asarray(X, dtype=np.float32)
        if self.metric == "angular":
            lengths = np.linalg.norm(rows, axis=1, keepdims=True)
            rows = rows / np.where(lengths > 0, lengths, 1)
        elif self.metric == "euclidean":
            rows = np.hstack([rows, -0.5 * np.sum(rows.astype(np.float64) ** 2, axis=1, keepdims=True)])
        recall = self.target_recall if self.method == "auto" else None
        self.index = ts.Index.build(rows.astype(np.float32), method=BUILT_AS[self.method], target_recall=recall)

    def set_query_arguments(self, *arguments: float) -> None:
        """Set the search effort: a budget and a number of slots for slots, a reach for tiles, nothing for others."""
        wanted = QUERY_ARGUMENTS.get(self.method, ())
        if len(arguments) != len(wanted):
            raise ValueError(f"{self.method} takes {len(wanted)} query arguments, but {len(arguments)} were given.")
        if wanted:
            self.asked = {"slots": ts.Slots, "tiles": ts.Tiles}[self.method](*arguments)
        shown = ", ".join(f"{name}={value}" for name, value in zip(wanted, arguments, strict=True))
        self.name = f"tessella({self.title}{', ' if shown else ''}{shown})"

    def _asked(self, queries: np.ndarray) -> np.ndarray:
        asked = np.atleast_2d(np.asarray(queries, dtype=np.float32))
        if self.metric == "euclidean":
            asked = np.hstack([asked, np.ones((len(asked), 1), np.float32)])
        return asked

    def query(self, q: np.ndarray, n: int) -> np.ndarray:
        """Return the rows nearest to one query, on one thread."""
        return self.index.search(self._asked(q)[0], n, method=self.asked, threads=1).ids

    def batch_query(self, X: np.ndarray, n: int) -> None:  # noqa: N803
        """Find the rows nearest to many queries, on all cores; `get_batch_results` returns them."""
        self.res = self.index.search(self._asked(X), n, method=self.asked).ids

    def get_batch_results(self) -> np.ndarray:
        """Return the result of the last `batch_query`."""
        return self.res

    def __str__(self) -> str:
        return self.name
