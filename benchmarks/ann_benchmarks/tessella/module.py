"""tessella for ann-benchmarks: copy this folder to ann_benchmarks/algorithms/tessella there."""

import numpy as np

import tessella as ts

from ..base.module import BaseANN  # noqa: TID252 - as every algorithm there has it

BUILT_AS = {"exact": "exact", "slots": "exact", "tiles": "tiles", "auto": "auto"}
QUERY_ARGUMENTS = {"slots": ("budget", "max_slots"), "tiles": ("reach",)}
MEASURED_WITH = 2_000  # rows used as queries, since ann-benchmarks passes none to `fit`


class Tessella(BaseANN):
    """Nearest neighbours by inner products.

    The cosine of two rows is their inner product once both have length 1. For the Euclidean distance, rows get one more
    coordinate: the nearest v to q has the largest q.v - |v|^2 / 2, which is the inner product of (q, s) and
    (v, -|v|^2 / 2s) for any s > 0. Shifting all rows by the same vector, and all last coordinates by the same number,
    does not change the order, so both are centred. s makes the last coordinate about as large as the others together.

    Parameters
    ----------
    metric : "angular", "euclidean", "ip" or "dot"
        The last two are not in ann-benchmarks; forks of it that rank by inner product use them.
    method : "exact", "slots", "tiles" or "auto"
        How to search.
    setting : float, default None
        For "auto", the target recall, 0.95 by default. For "slots", the threshold of the schema, 2.5 by default; rows
        of equal length need a lower one. Other methods have no setting.
    """

    def __init__(self, metric: str, method: str, setting: float | None = None) -> None:
        if metric not in ("angular", "euclidean", "ip", "dot"):
            raise ValueError(f"metric is {metric!r}, but must be angular, euclidean, ip or dot.")
        if method not in BUILT_AS:
            raise ValueError(f"method is {method!r}, but must be exact, slots, tiles or auto.")
        if setting is not None and method not in ("auto", "slots"):
            raise ValueError(f"setting is {setting}, but {method} has none.")
        self.metric, self.method = metric, method
        self.target_recall = (0.95 if setting is None else setting) if method == "auto" else None
        self.threshold = (2.5 if setting is None else setting) if method == "slots" else None
        self.asked: ts.Exact | ts.Slots | ts.Tiles | None = None  # None follows the index's plan
        shown = {"auto": f", target_recall={self.target_recall}", "slots": f", threshold={self.threshold}"}
        self.title = method + shown.get(method, "")
        self.name = f"tessella({self.title})"

    def fit(self, X: np.ndarray) -> None:  # noqa: N803
        """Build the index."""
        rows = np.asarray(X, dtype=np.float32)
        if self.metric == "angular":
            lengths = np.linalg.norm(rows, axis=1, keepdims=True)
            items = rows / np.where(lengths > 0, lengths, 1)
        elif self.metric == "euclidean":
            self.centre = rows.mean(axis=0)
            moved = rows - self.centre
            squares = np.sum(moved.astype(np.float64) ** 2, axis=1, keepdims=True)
            self.last = float(np.sqrt(squares.mean()) / 2) or 1.0
            items = np.hstack([moved, (squares.mean() - squares) / (2 * self.last)])
        else:
            items = rows
        queries = None
        if self.method == "auto" and self.metric in ("angular", "euclidean"):  # there, queries are like rows
            n_drawn = min(len(rows), MEASURED_WITH)
            queries = self._queries(rows[np.random.default_rng(0).choice(len(rows), n_drawn, replace=False)])
        schema = None
        if self.threshold is not None:
            schema = ts.Schema(ts.Ternary(), ts.OneHot(), threshold=self.threshold, rotation="principal")
        self.index = ts.Index.build(
            items.astype(np.float32),
            method=BUILT_AS[self.method],
            schema=schema,
            target_recall=self.target_recall,
            queries=queries,
        )

    def set_query_arguments(self, *arguments: float) -> None:
        """Set the search effort: a budget and a number of slots for slots, a reach for tiles, nothing for others."""
        wanted = QUERY_ARGUMENTS.get(self.method, ())
        if len(arguments) != len(wanted):
            raise ValueError(f"{self.method} takes {len(wanted)} query arguments, but {len(arguments)} were given.")
        if wanted:
            self.asked = {"slots": ts.Slots, "tiles": ts.Tiles}[self.method](*arguments)
        shown = "".join(f", {name}={value}" for name, value in zip(wanted, arguments, strict=True))
        self.name = f"tessella({self.title}{shown})"

    def _queries(self, rows: np.ndarray) -> np.ndarray:
        queries = np.atleast_2d(np.asarray(rows, dtype=np.float32))
        if self.metric == "euclidean":
            return np.hstack([queries - self.centre, np.full((len(queries), 1), self.last, np.float32)])
        return queries

    def query(self, q: np.ndarray, n: int) -> np.ndarray:
        """Return the rows nearest to one query, on one thread."""
        ids = self.index.search(self._queries(q)[0], n, method=self.asked, threads=1).ids
        return ids if ids[-1] >= 0 else ids[ids >= 0]

    def batch_query(self, X: np.ndarray, n: int) -> None:  # noqa: N803
        """Find the rows nearest to many queries, on all cores; `get_batch_results` returns them."""
        self.res = self.index.search(self._queries(X), n, method=self.asked).ids

    def get_batch_results(self) -> list[np.ndarray]:
        """Return the result of the last `batch_query`."""
        return [ids[ids >= 0] for ids in self.res]

    def __str__(self) -> str:
        return self.name
