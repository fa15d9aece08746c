"""Searches with filters: the cost of excluding items, and allow lists against faiss."""

import argparse
import itertools
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import measure
import memory_worker
import numpy as np
import ours
import peers
import scipy.sparse
import sets
from methods import augmented, widened
from race import K
from workloads import Figures, Size

import tessella as ts
from tessella.paper import tie_aware_recall

if TYPE_CHECKING:
    import faiss

N_EXCLUDED = 50
SHARES = (0.001, 0.01, 0.1, 0.5)
FLAT_GOALS = {0.001: 0.7, 0.01: 0.7, 0.1: 1.0, 0.5: 1.0}
PROBES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)
OWN_IDS = 20_000_000  # in the lists of all queries of a call together


def filters(size: Size, options: argparse.Namespace) -> Figures:
    """Measure every kind of filter on every set, k = 10, one thread; and long lists per query, all threads."""
    for name in size.learned((*sets.LEARNED, *sets.EXPANDED), options.only):
        factors = sets.learned(name).sample(size.n_users, size.learned_items)
        index = ours.build_auto(factors.items, options.threads)
        print(f"\nfilters on {name}: {len(factors.items):,} items, {len(factors.users):,} queries, k = {K}, one thread")
        print(f"  {index.plan.method}")
        excluded = left_out(name, factors, size)
        yield {"set": name, "kind": "exclude", **excluding(index, factors, excluded, size.turns)}
        yield {"set": name, "kind": "single", **one_query(index, factors, excluded)}
        for figures in sharing(index, factors, size.turns):
            yield {"set": name, "kind": "shared", **figures}
        for figures in owning(index, factors):
            yield {"set": name, "kind": "own", **figures}
        del index
    if not options.only:
        yield {"kind": "own memory", **own_lists_in_memory(size)}


def left_out(name: str, factors: sets.Factors, size: Size) -> list[list[int]]:
    """Return fifty items per query: some that the user has seen, the rest at random."""
    rng, n_items = np.random.default_rng(0), len(factors.items)
    had: list[np.ndarray] = [np.empty(0, np.int64)] * len(factors.users)
    seen = sets.seen(name)
    if seen is not None and size.learned_items is None:
        users = sets.sampled_users(seen.shape[0], size.n_users)
        had = [row.indices[:N_EXCLUDED] for row in seen[users]]
    return [np.concatenate([one, rng.choice(n_items, N_EXCLUDED - len(one), replace=False)]).tolist() for one in had]


def excluding(index: ts.Index, factors: sets.Factors, excluded: list[list[int]], turns: int) -> dict[str, object]:
    """Print and return the throughput with excluded ids, relative to that without."""
    users, n_items = factors.users, len(factors.items)
    matrix = as_matrix(excluded, n_items)
    forms: dict[str, Any] = {"nothing": None, "lists": excluded, "arrays": [np.array(one) for one in excluded],
                             "CSR": matrix}  # fmt: skip
    true = index.search(users, K, exact=True, exclude=matrix).scores
    calls = {form: lambda exclude=exclude: index.search(users, K, exclude=exclude, threads=1)
             for form, exclude in forms.items()}  # fmt: skip
    seconds = measure.alternate(calls, turns)
    figures: dict[str, object] = {"queries_per_second": len(users) / float(np.median(seconds["nothing"]))}
    for form in ("lists", "arrays", "CSR"):
        ratio, got = measure.median_ratio(seconds, "nothing", form), recall(calls[form](), true)
        print(f"  {N_EXCLUDED} ids excluded, {form:<6} over none {ratio:.2f}{measure.goal(ratio, least=0.65)}, "
              f"recall {got:.4f}")  # fmt: skip
        figures[form] = {"over_unfiltered": ratio, "recall": got}
    return figures


def one_query(index: ts.Index, factors: sets.Factors, excluded: list[list[int]]) -> dict[str, object]:
    """Print and return the time of single queries with excluded ids, relative to that without."""
    lists = itertools.cycle(excluded)
    calls: dict[str, Callable[[np.ndarray], object]] = {
        "plain": lambda user: index.search(user, K, threads=1),
        "excluded": lambda user: index.search(user, K, exclude=next(lists), threads=1),
    }
    asked = np.resize(factors.users, (1000, factors.users.shape[1]))
    taken = {name: measure.middle_and_slow(seconds) for name, seconds in measure.latencies(calls, asked).items()}
    ratio = taken["excluded"][0] / taken["plain"][0]
    print(f"  single query, {N_EXCLUDED} ids excluded: {taken['excluded'][0]:.0f} us, without {taken['plain'][0]:.0f}: "
          f"{ratio:.2f}{measure.goal(ratio, most=2.0)}")  # fmt: skip
    return {"microseconds": taken, "ratio": ratio}


def sharing(index: ts.Index, factors: sets.Factors, turns: int) -> Iterator[dict[str, object]]:
    """Print and yield figures of one list for all queries: against faiss over just these items, and with a selector."""
    if not peers.FLAT.installed:
        return
    import faiss  # noqa: PLC0415
    from peers import faiss_threads  # noqa: PLC0415

    items, users = factors
    lists = inverted_file(items)
    faiss_threads.use(1)
    for share in SHARES:
        allowed = np.sort(np.random.default_rng(0).permutation(len(items))[: max(K, int(share * len(items)))])
        flat = faiss.IndexFlatIP(items.shape[1])
        flat.add(items[allowed])
        true = index.search(users, K, exact=True, allow=allowed).scores
        asked = users[: affordable(lambda some, flat=flat: flat.search(some, K), users)]
        calls: dict[str, Callable[[], Any]] = {
            "ours": lambda asked=asked, allowed=allowed: index.search(asked, K, allow=allowed, threads=1),
            "exact": lambda asked=asked, allowed=allowed: index.search(asked, K, allow=allowed, exact=True, threads=1),
            "flat": lambda asked=asked, flat=flat: flat.search(asked, K),
        }
        got = recall(calls["ours"](), true[: len(asked)])
        seconds = measure.alternate(calls, turns)
        ratios = {side: measure.median_ratio(seconds, "flat", side) for side in ("ours", "exact")}
        wanted = FLAT_GOALS[share]
        print(f"  {share:.1%} allowed, {len(allowed):,} items: over faiss Flat of just these, by default "
              f"{ratios['ours']:.2f}, recall {got:.4f}; exactly {ratios['exact']:.2f}"
              f"{measure.goal(ratios['exact'], least=wanted)}")  # fmt: skip
        figures = {"share": share, "recall": got, "over_flat": ratios["ours"], "exact_over_flat": ratios["exact"],
                   "goal": wanted, "queries_per_second": len(asked) / float(np.median(seconds["ours"]))}  # fmt: skip

        def answer(n: int, allowed: np.ndarray = allowed) -> object:
            return index.search(users[:n], K, allow=allowed, threads=1)

        yield figures | selecting(answer, factors, lists, allowed, true, turns)


def inverted_file(items: np.ndarray) -> "faiss.IndexIVFFlat":
    """Build faiss's inverted file over items that are made equally long."""
    from peers import inverted_files  # noqa: PLC0415

    wide = augmented(items)
    lists = inverted_files.new_ivf(wide.shape[1], inverted_files.list_counts(len(items))[0], euclidean=True)
    lists.cp.max_points_per_centroid = 64
    lists.train(wide)
    lists.add(wide)
    return lists


def selecting(
    answer: Callable[[int], object],
    factors: sets.Factors,
    lists: "faiss.IndexIVFFlat",
    allowed: np.ndarray,
    true: np.ndarray,
    turns: int,
) -> dict[str, object]:
    """Print and return the throughput of `answer(n)` for the first n queries, relative to IVF with a selector."""
    import faiss  # noqa: PLC0415

    items, users = factors
    wide = widened(users, lists.d)
    bits = np.zeros(len(items) // 8 + 1, np.uint8)
    np.bitwise_or.at(bits, allowed // 8, np.left_shift(np.uint8(1), (allowed % 8).astype(np.uint8)))
    selector = faiss.IDSelectorBitmap(bits)
    for probes in PROBES:
        given = faiss.SearchParametersIVF(sel=selector, nprobe=min(probes, lists.nlist))
        some = affordable(lambda queries, given=given: lists.search(queries, K, params=given), wide)
        ids = lists.search(wide[:some], K, params=given)[1]
        scores = measure.exact_scores(ids, items, users[:some])
        got = float(np.mean(tie_aware_recall(ids, scores, true[:some].astype(np.float64))))
        if got >= 0.95 or probes >= lists.nlist:
            break
    calls = {"ours": lambda: answer(some), "faiss": lambda: lists.search(wide[:some], K, params=given)}
    seconds = measure.alternate(calls, turns)
    ratio = measure.median_ratio(seconds, "faiss", "ours")
    print(f"      over faiss IVF with a selector, {given.nprobe} probed, recall {got:.4f}: {ratio:.2f}"
          f"{measure.goal(ratio, least=5.0)}")  # fmt: skip
    return {"over_selector": ratio, "selector_recall": got, "selector_probes": given.nprobe}


def owning(index: ts.Index, factors: sets.Factors) -> Iterator[dict[str, object]]:
    """Print and return the throughput if every query has its own list; `make compare` compares it between commits."""
    rng, n_items = np.random.default_rng(0), len(factors.items)
    for share in SHARES:
        n_ids = max(K, int(share * n_items))
        users = factors.users[: max(20, OWN_IDS // n_ids)]
        own = [rng.choice(n_items, n_ids, replace=False) for _ in users]
        true = index.search(users, K, exact=True, allow=own).scores
        seconds = []
        for _ in range(3):
            start = time.perf_counter()
            found = index.search(users, K, allow=own, threads=1)
            seconds.append(time.perf_counter() - start)
        rate, got = len(users) / min(seconds), recall(found, true)
        print(f"  own lists of {share:.1%}, {n_ids:,} items: {rate:,.0f} q/s, recall {got:.4f}, {len(users):,} queries")
        yield {"share": share, "queries_per_second": rate, "recall": got, "n_queries": len(users)}


def own_lists_in_memory(size: Size) -> dict[str, object]:
    """Print and return seconds and memory of many queries with long lists each, on all threads."""
    n_items, n_queries, n_ids = (20_000, 50, 2000) if size.quick else (1_000_000, 2000, 100_000)
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / "items.npy", Path(folder) / "users.npy"]
        for path, array in zip(paths, sets.generated(n_items, 64, n_queries), strict=True):
            np.save(path, array)
        found = memory_worker.ask("own_lists", *paths, n_ids)
    print(f"\n{n_queries:,} queries with own lists of {n_ids:,} of {n_items:,} items, all threads: "
          f"{found['seconds']:.1f} s, {found['cpu_seconds'] / found['seconds']:.2f} CPUs, "
          f"peak {found['grown'] / 2**20:,.0f} MB more than the {found['given'] / 2**20:,.0f} MB of ids")  # fmt: skip
    return {"n_items": n_items, "n_queries": n_queries, "n_ids": n_ids, **found}


def as_matrix(lists: list[list[int]], n_items: int) -> scipy.sparse.csr_matrix:
    """Return lists of item numbers as a matrix of users x items."""
    columns = np.concatenate([np.asarray(one, np.int64) for one in lists])
    rows = np.repeat(np.arange(len(lists)), [len(one) for one in lists])
    return scipy.sparse.csr_matrix((np.ones(len(rows), np.float32), (rows, columns)), (len(lists), n_items))


def recall(found: ts.SearchResult, true: np.ndarray) -> float:
    """Return the tie-aware recall of our answer, given the scores of the exact one."""
    return float(np.mean(tie_aware_recall(found.ids, found.scores, true)))


def affordable(search: Callable[[np.ndarray], object], queries: np.ndarray) -> int:
    """Return how many queries make a call of half a second, at least a hundred."""
    start = time.perf_counter()
    search(queries[:100])
    return int(np.clip(0.5 * 100 / (time.perf_counter() - start), 100, len(queries)))
