"""tessella for ann-benchmarks: copy this folder to ann_benchmarks/algorithms/tessella there."""

import numpy as np

import tessella as ts

from ..base.module import BaseANN  # noqa: TID252 - as every algorithm there has it

SLOTS = ts.Schema(ts.Ternary(), ts.OneHot(), threshold=2.5, rotation="principal")


class Tessella(BaseANN):
    """Nearest neighbours through inner products.

    Cosines are inner products of rows of length 1. The nearest row v to q is the one with the largest q.v - |v|^2 / 2,
    which is the inner product of (q, 1) with (v, -|v|^2 / 2). Forks that rank by inner product pass "ip" or "dot".
    """

    def __init__(self, metric: str, way: str, target_recall: float = 0.95) -> None:
        if metric not in ("angular", "euclidean", "ip", "dot"):
            raise ValueError(f"metric is {metric!r}, but must be angular, euclidean, ip or dot.")
        if way not in ("exact", "slots", "tiles", "auto"):
            raise ValueError(f"way is {way!r}, but must be exact, slots, tiles or auto.")
        self.metric, self.way, self.target_recall = metric, way, target_recall
        self.options: dict[str, object] = {"exact": True} if way == "exact" else {}
        self.title = f"auto, target_recall={target_recall:g}" if way == "auto" else way
        self.name = f"tessella({self.title})"

    def fit(self, X: np.ndarray) -> None:  # noqa: N803
        """Build the index."""
        rows = np.asarray(X, dtype=np.float32)
        if self.metric == "angular":
            lengths = np.linalg.norm(rows, axis=1, keepdims=True)
            rows = rows / np.where(lengths > 0, lengths, 1)
        elif self.metric == "euclidean":
            rows = np.hstack([rows, -0.5 * np.sum(rows.astype(np.float64) ** 2, axis=1, keepdims=True)])
        chosen: dict[str, dict[str, object]] = {
            "exact": {"target_recall": 1.0},
            "slots": {"schema": SLOTS},
            "tiles": {"schema": ts.LearnedTiles()},
            "auto": {"target_recall": self.target_recall},
        }
        self.index = ts.Index.build(rows.astype(np.float32), **chosen[self.way])

    def set_query_arguments(self, *arguments: float) -> None:
        """How hard to search: a budget and a number of slots for slots, a reach for tiles, nothing for the others."""
        wanted = {"slots": ("budget", "max_slots"), "tiles": ("reach",)}.get(self.way, ())
        if len(arguments) != len(wanted):
            raise ValueError(f"{self.way} takes {len(wanted)} query arguments, but {len(arguments)} were given.")
        if wanted:
            self.options = dict(zip(wanted, arguments, strict=True))
        shown = ", ".join(f"{name}={value}" for name, value in zip(wanted, arguments, strict=True))
        self.name = f"tessella({self.title}{', ' if shown else ''}{shown})"

    def _asked(self, queries: np.ndarray) -> np.ndarray:
        asked = np.atleast_2d(np.asarray(queries, dtype=np.float32))
        if self.metric == "euclidean":
            asked = np.hstack([asked, np.ones((len(asked), 1), np.float32)])
        return asked

    def query(self, q: np.ndarray, n: int) -> np.ndarray:
        """Rows nearest to one query, on one thread."""
        return self.index.search(self._asked(q)[0], n, threads=1, **self.options).ids

    def batch_query(self, X: np.ndarray, n: int) -> None:  # noqa: N803
        """Rows nearest to many queries, on all cores; `get_batch_results` gives them."""
        self.res = self.index.search(self._asked(X), n, **self.options).ids

    def get_batch_results(self) -> np.ndarray:
        """What the last `batch_query` found."""
        return self.res

    def __str__(self) -> str:
        return self.name
