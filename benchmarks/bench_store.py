"""The cost of a store compared with its parts, in one run; see benchmarks/README.md. Appends to results/store.jsonl.

Loading is compared with writing the same rows to SQLite by hand, in one transaction. Opening from a snapshot is
compared with `Index.load`. Readers are timed from a commit in one process to the first answer in another that reflects
it.
"""

import argparse
import bisect
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import measure
import numpy as np

import tessella as ts
from tessella.store import Change, ItemInput, Store

LOAD_GOAL, OPEN_GOAL, LAG_GOAL = 3.0, 2.0, 200.0
PER_SECOND = 1000
AT_ONCE = 10  # changes per sync to disk
QUICK = Path(__file__).parents[1] / "build" / "bench-quick"


def by_hand(path: Path, factors: np.ndarray) -> None:
    """Write rows as one would without a store: one table, one transaction, SQLite's defaults."""
    database = sqlite3.connect(path)
    database.execute(
        "CREATE TABLE items (place INTEGER PRIMARY KEY, id NOT NULL UNIQUE, factors BLOB, attributes TEXT, "
        "payload TEXT)"
    )
    rows = ((place, place, row.tobytes(), None, None) for place, row in enumerate(factors))
    with database:
        database.executemany("INSERT INTO items VALUES (?, ?, ?, ?, ?)", rows)
    database.close()


def loading(folder: Path, factors: np.ndarray, turns: int) -> dict[str, object]:
    """Time a bulk load, and writing the same rows by hand, in turns."""
    seconds: dict[str, list[float]] = {"store": [], "hand": []}
    for turn in range(turns):
        start = time.perf_counter()
        by_hand(folder / f"hand-{turn}.db", factors)
        seconds["hand"].append(time.perf_counter() - start)
        with Store.open(folder / f"load-{turn}.db") as store:
            start = time.perf_counter()
            store.load("a", factors, method="exact", progress=False)
            seconds["store"].append(time.perf_counter() - start)
        for file in folder.glob(f"*-{turn}.db*"):
            if file.name != "load-0.db":
                file.unlink()
    ratio = measure.median_ratio(seconds, "store", "hand")
    print(
        f"load {len(factors):,} x {factors.shape[1]}: {min(seconds['store']):.1f} s, "
        f"by hand {min(seconds['hand']):.1f} s: "
        f"{ratio:.2f} times{measure.goal(ratio, most=LOAD_GOAL)}"
    )
    return {"part": "load", "n_items": len(factors), "seconds": seconds, "ratio": ratio}


def opening(folder: Path, factors: np.ndarray, turns: int) -> dict[str, object]:
    """Time opening a store from its snapshot, and loading the same index from its file, in turns."""
    path, file = folder / "load-0.db", folder / "index.tessella"
    start = time.perf_counter()
    with Store.open(path) as store:
        store.publish(name="a")
        built = time.perf_counter() - start
        store.recommender.index.save(file)
        users = factors[:: len(factors) // 100][:100]
        before = store.recommender.recommend(users, k=10).ids
    seconds: dict[str, list[float]] = {"store": [], "index": []}
    for _ in range(turns):
        start = time.perf_counter()
        index = ts.Index.load(file)
        seconds["index"].append(time.perf_counter() - start)
        start = time.perf_counter()
        store = Store.open(path)
        seconds["store"].append(time.perf_counter() - start)
        same = (store.recommender.recommend(users, k=10).ids == before).all() and (
            index.search(users, 10).ids == before
        ).all()
        store.close()
        del index, store
    if not same:
        sys.exit("The store and the index answer differently.")
    ratio = measure.median_ratio(seconds, "store", "index")
    print(
        f"open by snapshot: {min(seconds['store']):.2f} s, Index.load {min(seconds['index']):.2f} s: "
        f"{ratio:.2f} times{measure.goal(ratio, most=OPEN_GOAL)}; built from rows in {built:.1f} s"
    )
    return {"part": "open", "n_items": len(factors), "seconds": seconds, "ratio": ratio, "built": built}


def write(path: Path, seconds: float) -> None:
    """Replace items at a steady pace, and print when each version was acknowledged."""
    rng = np.random.default_rng(1)
    with Store.open(path) as store:
        n, width = len(store.recommender.item_ids), store.recommender.n_factors
        begin = time.time()
        made = 0
        while (now := time.time() - begin) < seconds:
            if made > now * PER_SECOND:
                time.sleep(0.001)
                continue
            ids = rng.choice(n, AT_ONCE, replace=False).tolist()
            vectors = rng.normal(size=(AT_ONCE, width)).astype(np.float32)
            outcomes = store.apply([Change(items=[ItemInput(*one)]) for one in zip(ids, vectors, strict=True)])
            done = time.time()
            print(*(f"{version} {done}" for version in outcomes), sep="\n", flush=True)
            made += AT_ONCE
        print(f"end {time.time() - begin}", flush=True)


def lagging(folder: Path, n_items: int, width: int, seconds: float) -> dict[str, object]:
    """Measure the milliseconds from a commit in one process until a reader in another answers with it."""
    path = folder / "lag.db"
    items, users = ts.datasets.generated_factors(n_items, 1000, width)[:2]
    with Store.open(path) as store:
        store.publish(items, users, name="a")
    reader = Store.open(path, read_only=True)
    reader.start_following()
    moments: list[tuple[int, float]] = []
    stop = threading.Event()

    def watch() -> None:
        last = reader.version
        while not stop.is_set():
            version = reader.recommender.version
            if version != last:
                moments.append((version, time.time()))
                last = version
            time.sleep(0.0005)

    watcher = threading.Thread(target=watch)
    watcher.start()
    command = [sys.executable, __file__, "--write", str(path), "--seconds", str(seconds)]
    writer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    time.sleep(1)
    stop.set()
    watcher.join()
    reader.close()
    *lines, end = writer.stdout.splitlines()
    versions = [version for version, _ in moments]
    lags = []
    for line in lines:
        version, committed = line.split()
        at = bisect.bisect_left(versions, int(version))
        if at == len(versions):
            sys.exit(f"The reader never saw version {version}.")
        lags.append(1000 * (moments[at][1] - float(committed)))
    rate = len(lines) / float(end.split()[1])
    slow = float(np.percentile(lags, 99))
    print(
        f"readers of {n_items:,} x {width} behind {rate:,.0f} changes/s: median {statistics.median(lags):.0f} ms, "
        f"p99 {slow:.0f} ms{measure.goal(slow, most=LAG_GOAL)}"
    )
    return {"part": "lag", "n_items": n_items, "rate": rate, "median_ms": statistics.median(lags), "p99_ms": slow}


def main() -> None:
    """Measure all three."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--reader-items", type=int, default=100_000, help="items of the store that readers follow")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0, help="how long readers are watched")
    parser.add_argument("--quick", action="store_true", help="small sizes: shows only that it works")
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write is not None:
        write(options.write, options.seconds)
        return
    measure.settle_process()
    if options.quick:
        options.items, options.reader_items, options.turns, options.seconds = 20_000, 5_000, 1, 3.0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        factors = ts.datasets.generated_factors(options.items, 1, options.width)[0]
        figures = [loading(folder, factors, options.turns), opening(folder, factors, options.turns)]
        del factors
        figures.append(lagging(folder, options.reader_items, options.width, options.seconds))
    for one in figures:
        measure.record("store", one, QUICK if options.quick else measure.RESULTS)


if __name__ == "__main__":
    main()
