"""One side of compare_commits.py: measures the tessella installed in its interpreter, on one thread, on command.

Reads one command per line and answers each with a line of JSON: figures by title. Imports nothing else from this
folder, which knows only one of the two APIs.
"""

import json
import sys
import threading
import time
from collections.abc import Callable

import numpy as np
import scipy.sparse

import tessella as ts

K = 10
N_EXCLUDED = 50
OWN_IDS = 10_000_000  # in the lists of all queries of a call together
LEVELS = {"0.95": 0.95, "0.99": 0.99}
REACHES = np.arange(0, 1.0001, 0.0125).round(4).tolist()
BATCH_SECONDS = 0.2  # for which calls are repeated
N_SINGLE = 500
N_NEW, NEW_BATCH = 100_000, 1_000
CHURN_SECONDS, CHURN_BATCH, READ_BATCH = 1.5, 50, 100
Options = dict[str, object]
Figures = dict[str, dict[str, object]]

BY_METHOD = hasattr(ts, "Tiles")  # the API since searches take a method
EXACT = {"exact": True}
SLOTS = {"method": ts.Slots(400, 24)} if BY_METHOD else {"budget": 400, "max_slots": 24}
TITLES = {"plan": "as planned", **{how: f"tiles at {how}" for how in LEVELS}}
BUILDS = {
    "exact": {"method": "exact"} if BY_METHOD else {"target_recall": 1.0},
    "tiles": {"method": "tiles"} if BY_METHOD else {"schema": ts.LearnedTiles()},
}


def tiles(reach: float) -> Options:
    """Return the options of a tile search."""
    return {"method": ts.Tiles(reach)} if BY_METHOD else {"reach": reach}


def copy_of(index: ts.Index) -> ts.Index:
    """Return a copy of an index, which can be changed without affecting it."""
    return ts.Index(index._version if BY_METHOD else index._state)


def figure(unit: str, rate: float, recall: float | None = None) -> dict[str, object]:
    """Return a rate per second, its unit ("s" and "us" for times), and the recall."""
    return {"unit": unit, "rate": rate, "recall": recall}


def recall(found: np.ndarray, true: np.ndarray) -> float:
    """Return the share of answers that score at least as much as the true k-th, within a tolerance."""
    last = true[:, -1:]
    return float(np.mean(found >= last - 1e-5 * np.abs(last)))


class Side:
    """One version of the library on one set."""

    def __init__(self, items: str, users: str) -> None:
        self.items, self.users = np.load(items), np.load(users)

    def answer(self, line: str) -> dict[str, object]:
        """Run a command, which is the name of a method below and its argument."""
        command, *arguments = line.split()
        return getattr(self, command)(*arguments)

    def build(self, kind: str) -> Figures:
        """Build an index; the last one built is searched."""
        self.index = None  # frees its memory
        start = time.perf_counter()
        self.index = ts.Index.build(self.items, threads=1, **BUILDS[kind])
        return {f"build for {kind}": figure("s", 1 / (time.perf_counter() - start))}

    def sweep(self) -> dict[str, object]:
        """Choose the smallest reach for each recall; return the reaches, and the true k-th scores."""
        self.true = self.search(self.index, EXACT)
        self.reaches = dict.fromkeys(LEVELS, 1.0)
        for reach in REACHES:
            got = recall(self.search(self.index, tiles(reach)), self.true)
            self.reaches |= {how: min(reach, self.reaches[how]) for how, level in LEVELS.items() if got >= level}
            if got >= max(LEVELS.values()):
                break
        return {"reaches": self.reaches, "scores": self.true[:, -1].tolist(), "numpy": np.__version__}

    def options(self, how: str) -> Options:
        """Return the options of exact search, slots search, the plan (tiles of reach 0.5), or tiles at a recall."""
        return {"exact": EXACT, "slots": SLOTS, "plan": {}}[how] if how not in LEVELS else tiles(self.reaches[how])

    def search(self, index: ts.Index, options: Options) -> np.ndarray:
        """Return the scores of the answers to all users."""
        return index.search(self.users, K, threads=1, **options).scores

    def recall_in(self, index: ts.Index) -> float:
        """Return the recall of tiles, at the reach for 0.95, in an index that was changed."""
        return recall(self.search(index, self.options("0.95")), self.search(index, EXACT))

    def batch(self, how: str) -> Figures:
        """Measure all users in one call, the fastest of a few."""
        scores, rate = self.fastest(lambda: self.search(self.index, self.options(how)))
        title = f"batch, {TITLES.get(how, how)}"
        return {title: figure("q/s", rate * len(self.users), recall(scores, self.true))}

    def deep(self, how: str, k: str) -> Figures:
        """Measure all users in one call, for another number of answers."""
        n = int(k)
        options = self.options(how)
        true = self.index.search(self.users, n, threads=1, **EXACT).scores
        scores, rate = self.fastest(lambda: self.index.search(self.users, n, threads=1, **options).scores)
        return {f"k = {n}, {TITLES.get(how, how)}": figure("q/s", rate * len(self.users), recall(scores, true))}

    def exclude(self, form: str) -> Figures:
        """Measure searches that exclude fifty ids per query, as lists or as a sparse matrix."""
        rng, n_items = np.random.default_rng(0), len(self.items)
        columns = np.stack([rng.choice(n_items, N_EXCLUDED, replace=False) for _ in self.users])
        excluded = columns.tolist()
        if form == "csr":
            rows = np.repeat(np.arange(len(columns)), N_EXCLUDED)
            cells = np.ones(columns.size, np.float32), (rows, columns.ravel())
            excluded = scipy.sparse.csr_matrix(cells, (len(columns), n_items))
        return {f"{N_EXCLUDED} excluded, {form}": self.filtered(len(self.users), exclude=excluded)}

    def own(self, share: str) -> Figures:
        """Measure searches that allow a share of the items for each query, as arrays."""
        rng, n_items = np.random.default_rng(0), len(self.items)
        n_ids = max(K, int(float(share) * n_items))
        n = min(len(self.users), max(20, OWN_IDS // n_ids))
        allowed = [rng.choice(n_items, n_ids, replace=False) for _ in range(n)]
        return {f"own lists of {float(share):.1%}": self.filtered(n, allow=allowed)}

    def filtered(self, n: int, **filters: object) -> dict[str, object]:
        """Measure the first users in one call with filters, by the plan."""
        users = self.users[:n]
        true = self.index.search(users, K, threads=1, **EXACT, **filters).scores
        scores, rate = self.fastest(lambda: self.index.search(users, K, threads=1, **filters).scores)
        return figure("q/s", rate * n, recall(scores, true))

    def fastest(self, search: Callable[[], np.ndarray]) -> tuple[np.ndarray, float]:
        """Return the result of a call, and how many calls per second are possible, by the fastest of a few."""
        seconds: list[float] = []
        while sum(seconds) < BATCH_SECONDS:
            start = time.perf_counter()
            scores = search()
            seconds.append(time.perf_counter() - start)
        return scores, 1 / min(seconds)

    def single(self, how: str) -> Figures:
        """Measure the median time of single queries."""
        seconds, scores, options = [], [], self.options(how)
        for user in self.users[:N_SINGLE]:
            start = time.perf_counter()
            found = self.index.search(user, K, threads=1, **options)
            seconds.append(time.perf_counter() - start)
            scores.append(found.scores)
        got = recall(np.array(scores), self.true[: len(scores)])
        return {f"single, {TITLES.get(how, how)}": figure("us", 1 / float(np.median(seconds)), got)}

    def changes(self) -> Figures:
        """Add and remove many items in batches, with a search after each that sees the change."""
        index, rng = copy_of(self.index), np.random.default_rng(0)
        ids = len(self.items) + np.arange(N_NEW)
        new = self.like(rng.integers(0, len(self.items), N_NEW), rng)
        added = self.in_batches(index, lambda part: index.add(new[part], ids[part]))
        recall_with_new = self.recall_in(index)
        removed = self.in_batches(index, lambda part: index.remove(ids[part]))
        return {"add": figure("items/s", added, recall_with_new),
                "remove": figure("items/s", removed, self.recall_in(index))}  # fmt: skip

    def in_batches(self, index: ts.Index, change: Callable[[slice], None]) -> float:
        """Return items per second."""
        start = time.perf_counter()
        for first in range(0, N_NEW, NEW_BATCH):
            change(slice(first, first + NEW_BATCH))
            index.search(self.users[first // NEW_BATCH], K, threads=1)
        return N_NEW / (time.perf_counter() - start)

    def like(self, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return factors similar to those of some items."""
        return self.items[rows] * rng.uniform(0.9, 1.1, (len(rows), 1)).astype(np.float32)

    def churn(self) -> Figures:
        """Measure searches while another thread updates items without a pause."""
        index, rng, stop, n_updated = copy_of(self.index), np.random.default_rng(0), threading.Event(), 0

        def write() -> None:
            nonlocal n_updated
            while not stop.is_set():
                rows = np.unique(rng.integers(0, len(self.items), CHURN_BATCH))
                index.update(self.like(rows, rng), rows)
                n_updated += len(rows)

        writer, n_answered = threading.Thread(target=write), 0
        start = time.perf_counter()
        writer.start()
        while (seconds := time.perf_counter() - start) < CHURN_SECONDS:
            first = n_answered % (len(self.users) - READ_BATCH + 1)
            index.search(self.users[first : first + READ_BATCH], K, threads=1, **self.options("0.95"))
            n_answered += READ_BATCH
        rates = n_answered / seconds, n_updated / seconds
        stop.set()
        writer.join()
        got = self.recall_in(index)
        return {"churn, searches": figure("q/s", rates[0], got), "churn, updates": figure("items/s", rates[1], got)}


if __name__ == "__main__":
    side = Side(*sys.argv[1:])
    for line in sys.stdin:
        print(json.dumps(side.answer(line)), flush=True)
