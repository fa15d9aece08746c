"""Workloads other than batches: growth, answers for everyone, changes during searches, and builds."""

import argparse
import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import measure
import numpy as np
import ours
import peers
import race
import scipy.sparse
import sets
from methods import timed
from race import Course, K

import tessella as ts

CHURN_SHARE, CHURN_BATCH, READ_BATCH = 0.1, 50, 100
IDLE_SECONDS = 0.5
Figures = Iterator[dict[str, object]]


class Size(Protocol):
    """Sizes and repetitions."""

    n_users: int
    many: int
    repeats: int
    turns: int
    rounds: int
    growth: tuple[int, int, int]
    learned_items: int | None
    everyone: int | None
    quick: bool

    def learned(self, names: Iterable[str], only: str) -> list[str]:
        """Return the sets of learned factors that are available; print which are not."""
        ...


def growth(size: Size, options: argparse.Namespace) -> Figures:
    """Measure how our cost grows with items and factors, at a recall of 0.95, on one thread."""
    small, middle, large = size.growth
    print("\ngrowth: our microseconds per query at recall >= 0.95, one thread, 2,000 queries per call")
    taken: dict[tuple[str, int, int], float] = {}
    shapes = [(small, 64), (middle, 64), (large, 64), (middle, 32), (middle, 128)]
    made = [("generated", *shape) for shape in shapes] + [("gaussian", small, 50), ("gaussian", middle, 50)]
    for kind, n_items, n_factors in made:
        factors = getattr(sets, kind)(n_items, n_factors, size.n_users)
        course = Course.over(kind, factors)
        best = race.sweep([course], ours.FAMILIES, size.repeats, options.threads)[0].best(0.95)
        if best is None:  # cannot happen: exact search reaches every recall
            continue
        taken[kind, n_items, n_factors] = 1e6 / best.speed
        cost = f"{kind:<10} {n_items:>9,} x {n_factors:<4} {1e6 / best.speed:>8.1f}"
        print(f"  {cost}  {best.method.name}, recall {best.recall:.4f}")
        yield {"kind": kind, "n_items": n_items, "n_factors": n_factors, **best.figures()}
    ratio = taken["generated", large, 64] / taken["generated", middle, 64]
    print(f"  {large:,} items over {middle:,}: {ratio:.2f} times the time per query{measure.goal(ratio, most=4.0)}")
    yield {"large_over_middle": ratio}


def everyone(size: Size, options: argparse.Namespace) -> Figures:
    """Compare ten items for every user, without seen ones, with implicit's recommend."""
    if not peers.IMPLICIT.installed:
        print("\neveryone is skipped: implicit is not installed")
        return
    for name in size.learned(sets.LEARNED, options.only):
        seen = sets.seen(name)
        if seen is None:
            continue
        factors = sets.learned(name)
        users = np.ascontiguousarray(factors.users[: size.everyone])
        seen = seen[: len(users)]
        print(
            f"\neveryone of {name}: {len(users):,} users x {len(factors.items):,} items, k = {K}, seen items excluded"
        )
        checked = np.random.default_rng(0).permutation(len(users))[:2000]
        true = unseen_best(factors.items, users[checked], seen[checked])
        for threads in dict.fromkeys((1, options.threads)):
            figures = race_for_everyone(factors.items, users, seen, (checked, true), threads, 1 if size.quick else 3)
            yield {"set": name, "threads": threads, **figures}


def race_for_everyone(
    items: np.ndarray,
    users: np.ndarray,
    seen: scipy.sparse.csr_matrix,
    truth: tuple[np.ndarray, np.ndarray],
    threads: int,
    turns: int,
) -> dict[str, object]:
    """Print and return how many times as fast as implicit we answer all users, exactly and at a recall of 0.99."""
    checked, true = truth

    def recall(found: np.ndarray) -> float:
        return measure.recall(found, true, items, users[checked])

    calls: dict[str, Callable[[], np.ndarray]] = {"implicit": implicit_recommend(items, users, seen, threads)}
    recalls = {"implicit": recall(calls["implicit"]()[checked])}
    index = ours.build_exact(items)
    calls["exact"] = lambda: answer_all(index, users, seen, threads, ts.Exact())
    recalls["exact"] = recall(calls["exact"]()[checked])
    settings = {"exact": "exact", "implicit": "recommend"}
    if (approximate := cheapest_at(items, users[checked], seen[checked], recall)) is not None:
        settings["0.99"], other, chosen = approximate
        calls["0.99"] = lambda: answer_all(other, users, seen, threads, chosen)
        recalls["0.99"] = recall(calls["0.99"]()[checked])
    seconds = measure.alternate(calls, turns)
    figures: dict[str, object] = {}
    print(f"  {threads} thread{'s' if threads > 1 else ''}")
    for name, taken in seconds.items():
        shown, wanted = 1.0, {"exact": 3.0, "0.99": 5.0}.get(name)
        if name != "implicit":
            shown = measure.median_ratio(seconds, "implicit", name)
        print(f"    {settings[name]:<28} recall {recalls[name]:.4f}  {np.median(taken):>7.2f} s"
              f"  {shown:>6.2f} times implicit{measure.goal(shown, least=wanted)}")  # fmt: skip
        figures[name] = {"setting": settings[name], "recall": recalls[name], "seconds": float(np.median(taken)),
                         "over_implicit": shown}  # fmt: skip
    return figures


def implicit_recommend(
    items: np.ndarray, users: np.ndarray, seen: scipy.sparse.csr_matrix, threads: int
) -> Callable[[], np.ndarray]:
    """Return a call of implicit's recommend for all users, on a model with these factors."""
    from implicit.cpu.als import AlternatingLeastSquares  # noqa: PLC0415

    model = AlternatingLeastSquares(factors=items.shape[1], num_threads=threads)
    model.user_factors, model.item_factors = users, items
    numbers = np.arange(len(users))
    return lambda: model.recommend(numbers, seen, N=K, filter_already_liked_items=True)[0].astype(np.int64)


def answer_all(
    index: ts.Index, users: np.ndarray, seen: Any, threads: int, method: ours.OurMethod = None
) -> np.ndarray:
    """Return ids for all users."""
    return index.search_all(users, K, method=method, exclude=seen, threads=threads).ids


def cheapest_at(
    items: np.ndarray, users: np.ndarray, seen: Any, recall: Callable[[np.ndarray], float]
) -> tuple[str, ts.Index, ours.OurMethod] | None:
    """Return our fastest approximate method that reaches 0.99 with seen items excluded: name, index and method."""
    tiled = ours.build_tiles(items)
    methods = [*ours.tiles_to_try(), *itertools.chain.from_iterable(ours.slots_to_try())]
    trials: list[tuple[str, ts.Index, ours.OurMethod]] = [(str(method), tiled, method) for method in methods]
    trials.append(("auto", ours.build_auto(items, target_recall=0.99), None))
    reached = []
    for trial in trials:
        _, index, method = trial
        found, seconds = timed(lambda index=index, method=method: answer_all(index, users, seen, 1, method))
        if recall(found) >= 0.99:
            reached.append((seconds, trial))
    return min(reached, key=lambda pair: pair[0])[1] if reached else None


def unseen_best(items: np.ndarray, users: np.ndarray, seen: scipy.sparse.csr_matrix) -> np.ndarray:
    """Return the best items that users have not seen, by brute force."""
    found = []
    for first in range(0, len(users), 500):
        scores = users[first : first + 500] @ items.T
        rows, columns = seen[first : first + 500].nonzero()
        scores[rows, columns] = -np.inf
        found.append(np.argpartition(scores, -K, axis=1)[:, -K:])
    return np.concatenate(found)


def churn(size: Size, options: argparse.Namespace) -> Figures:
    """Measure searches while another thread replaces a tenth of the items."""
    name = "gowalla-als-alpha20-k64"
    if name in sets.learned_names():
        factors = sets.learned(name).sample(size.n_users, size.learned_items)
    else:
        name, factors = "generated", sets.generated(40_000, 64, size.n_users)
    if options.only not in name:
        return
    print(f"\nchurn of {name}: {CHURN_SHARE:.0%} of {len(factors.items):,} items replaced, {CHURN_BATCH} at a time")
    print(f"  without a pause, while another thread runs {READ_BATCH} queries per call; {size.rounds} rounds")
    kinds: dict[str, tuple[Callable[[np.ndarray], ts.Index], ours.OurMethod]] = {
        "auto": (ours.build_auto, None),
        "tiles, reach 0.5": (ours.build_tiles, ts.Tiles(0.5)),
        "slots, budget 400": (ours.build_exact, ts.Slots(400)),
    }
    for title, (build, method) in kinds.items():
        rounds = [churn_round(factors, build, method, seed) for seed in range(size.rounds)]
        kept, rate = (float(np.median([one[part] for one in rounds])) for part in ("kept", "replaced_per_second"))
        lost = max(one["fresh_recall"] - one["recall"] for one in rounds)
        print(f"  {title:<18} throughput during churn over idle {kept:.2f}{measure.goal(kept, least=0.6)}; "
              f"{rate:,.0f} items replaced a second")  # fmt: skip
        print(f"  {'':<18} recall {rounds[0]['recall']:.4f}, of a fresh build {rounds[0]['fresh_recall']:.4f}; "
              f"lost at most {lost:.4f}{measure.goal(lost, most=0.01)}")  # fmt: skip
        yield {"set": name, "method": title, "rounds": rounds, "kept": kept, "lost": lost}


def churn_round(
    factors: sets.Factors, build: Callable[[np.ndarray], ts.Index], method: ours.OurMethod, seed: int
) -> dict[str, float]:
    """Return the throughput of a reader before and during changes, and recall after them and of a fresh build."""
    items, users = factors
    rng = np.random.default_rng(seed)
    n = int(CHURN_SHARE * len(items))
    leaving = rng.permutation(len(items))[:n]
    scales = rng.uniform(0.9, 1.1, (n, 1)).astype(np.float32)
    coming = items[rng.integers(0, len(items), n)] * scales
    index = build(items)
    numbers = len(items) + np.arange(n)

    def write() -> None:
        for first in range(0, n, CHURN_BATCH):
            part = slice(first, first + CHURN_BATCH)
            index.remove(leaving[part])
            index.add(coming[part], numbers[part])

    def read(go_on: Callable[[], bool]) -> float:
        answered, start = 0, time.perf_counter()
        while go_on() or not answered:
            first = answered % max(1, len(users) - READ_BATCH + 1)
            index.search(users[first : first + READ_BATCH], K, method=method, threads=1)
            answered += READ_BATCH
        return answered / (time.perf_counter() - start)

    end = time.perf_counter() + IDLE_SECONDS
    read(lambda: time.perf_counter() < end)  # warms up
    end = time.perf_counter() + IDLE_SECONDS
    idle = read(lambda: time.perf_counter() < end)
    writer = threading.Thread(target=write)
    start = time.perf_counter()
    writer.start()
    busy = read(writer.is_alive)
    writer.join()
    seconds = time.perf_counter() - start

    stay = np.setdiff1d(np.arange(len(items)), leaving)
    final_items = np.concatenate([items[stay], coming])
    final_ids = np.concatenate([stay, numbers])
    course = Course.over("churned", sets.Factors(final_items, users))
    rows = np.full(len(items) + n, -1)
    rows[final_ids] = np.arange(len(final_ids))

    def recall(searched: ts.Index, by_id: bool) -> float:
        ids = searched.search(users, K, method=method).ids
        return course.recall(np.where(ids >= 0, rows[ids], -1) if by_id else ids)

    return {"kept": busy / idle, "idle": idle, "busy": busy, "replaced_per_second": n / seconds,
            "recall": recall(index, by_id=True), "fresh_recall": recall(build(final_items), by_id=False)}  # fmt: skip


def build(size: Size, options: argparse.Namespace) -> Figures:
    """Compare the build time of our automatic choice with faiss's inverted file with default settings, on all cores."""
    items = sets.generated(size.many, 64, 1).items
    if not peers.IVF.installed:
        print("\nbuild is skipped: faiss is not installed")
        return
    from peers import faiss_threads, inverted_files  # noqa: PLC0415

    n_lists = inverted_files.list_counts(len(items))[0]

    def build_ivf() -> object:
        faiss_threads.use(options.threads)
        index = inverted_files.new_ivf(items.shape[1], n_lists, euclidean=False)
        index.train(items)
        index.add(items)
        return index

    print(f"\nbuild of generated {len(items):,} x 64, {options.threads} threads")
    calls = {"tessella auto": lambda: ours.build_auto(items, options.threads), "faiss IVF": build_ivf}
    seconds = {name: timed(call)[1] for name, call in calls.items()}
    ratio = seconds["tessella auto"] / seconds["faiss IVF"]
    print(f"  tessella auto {seconds['tessella auto']:.1f} s")
    print(f"  faiss IVF, {n_lists:,} lists, {seconds['faiss IVF']:.1f} s")
    print(f"  ratio {ratio:.2f}{measure.goal(ratio, most=2.0)}")
    yield {"n_items": len(items), "seconds": seconds, "ratio": ratio, "n_lists": n_lists}
