"""Searching threads under a writer: every search sees one version. `python tests/stress.py 60` goes on for a minute."""

import sys
import threading
import time

import numpy as np

import tessella as ts

N_PAIRS = 400
PATIENCE = 60  # seconds more, on a machine so busy that there was next to no search or change


class Stress:
    """Items come and go in pairs, and all change their factors at once.

    So a search that sees one of a pair without the other, or two generations of factors, has seen half a change.
    """

    def __init__(self, built, asked, n_readers):
        self.index = ts.Index.build(np.full((2 * N_PAIRS, 4), 1.0), **built)
        self.asked = asked
        self.there = np.ones(N_PAIRS, bool)
        self.generation = 1.0
        self.stop = threading.Event()
        self.problems = []
        self.n_searches = [0] * n_readers

    def read(self, reader):
        rng = np.random.default_rng(reader)
        version = 0
        while not self.stop.is_set():
            pair = 2 * int(rng.integers(N_PAIRS))
            options = {"method": ts.Slots(50)} if rng.random() < 0.3 else self.asked
            seen = self.index.search(np.ones(4), 2, allow=[pair, pair + 1], threads=1, **options)
            if np.count_nonzero(seen.ids >= 0) == 1:
                self.problems.append(f"half of pair {pair}: {seen}")
            scores = self.index.search(np.ones(4, np.float32), 300, threads=1, **options).scores
            if len(set(scores[scores > -np.inf].tolist())) > 1:
                self.problems.append(f"two generations: {sorted(set(scores.tolist()))}")
            if self.index.version < version:
                self.problems.append("versions go back")
            version = self.index.version
            self.n_searches[reader] += 2

    def change(self, rng):
        kind = rng.integers(0, 10)
        if kind == 0:
            self.generation = float(rng.integers(1, 1000))
            self.index.update(np.full((len(self.index), 4), self.generation), self.index.ids)
        elif kind == 1:
            self.index.rebuild(threads=1)
        else:
            chosen = np.flatnonzero(rng.random(N_PAIRS) < 0.05)
            going, coming = chosen[self.there[chosen]], chosen[~self.there[chosen]]
            if self.there.sum() - len(going) > N_PAIRS // 2:
                self.index.remove(np.concatenate([2 * going, 2 * going + 1]))
                self.there[going] = False
            factors = np.full((2 * len(coming), 4), self.generation)
            self.index.add(factors, np.concatenate([2 * coming, 2 * coming + 1]))
            self.there[coming] = True


def stress(seconds, built, asked, n_readers=3, least=0):
    """What searches saw that no version holds, how many searches there were, and how many changes.

    Goes on beyond `seconds`, for a while, until there were `least` searches and changes.
    """
    run, rng, n_changes = Stress(built, asked, n_readers), np.random.default_rng(0), 0
    readers = [threading.Thread(target=run.read, args=(reader,)) for reader in range(n_readers)]
    for reader in readers:
        reader.start()
    until = time.monotonic() + seconds
    while not run.problems:
        late = time.monotonic() - until
        if late > (0 if min(n_changes, sum(run.n_searches)) >= least else PATIENCE):
            break
        run.change(rng)
        n_changes += 1
    run.stop.set()
    for reader in readers:
        reader.join()
    if len(run.index) != 2 * run.there.sum():
        run.problems.append(f"{len(run.index)} items, but {2 * run.there.sum()} are expected")
    return run.problems, sum(run.n_searches), n_changes


if __name__ == "__main__":
    tiles = {"method": ts.LearnedTiles(n_tiles=24)}, {"method": ts.Tiles(1.0)}
    for name, (built, asked) in {"exact": ({}, {}), "tiles": tiles}.items():
        found, searched, changed = stress(float(sys.argv[1]) / 2, built, asked)
        seen = f"{searched:,} searches under {changed:,} changes, {len(found)} of them saw half a change"
        print(f"{name}: {seen}")  # noqa: T201
        if found:
            sys.exit("\n".join(found[:5]))
