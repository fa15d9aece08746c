"""The cost of what a recommender adds to a search, in one run on one thread; see benchmarks/README.md.

Learned factors and seen items are read from the folder named in TESSELLA_DATA (or ../shared/data); missing sets are
skipped. Attributes and signals are generated. Appends to results/recommend.jsonl.
"""

import argparse
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import filters
import measure
import numpy as np
import peers
import scipy.sparse
import sets
from race import K

import tessella as ts
from tessella import _threads
from tessella.paper import tie_aware_recall

SHELVES = {"half": 0.5, "tenth": 0.1, "hundredth": 0.01, "thousandth": 0.001}  # the other shelves have skewed sizes
FLAT_GOALS = {"half": 1.0, "tenth": 1.0, "hundredth": 0.7, "thousandth": 0.7}
SEEN_GOAL, BOOST_GOAL, PAGE_GOAL = 0.8, 0.7, 2.0
BOOSTS = (0.05, 0.1, 0.2)  # what the newest item gains, relative to the score of the median user's tenth item
HALF_LIFE, OLDEST, NOW = 30 * 86_400, 365 * 86_400, 1.7e9
N_LIKES, FOLD_IN_GOAL = 50, 0.3
N_PAGES, N_READERS = 10, 200
QUICK = Path(__file__).parents[1] / "build" / "bench-quick"

Figures = Iterator[dict[str, object]]


@dataclass(frozen=True)
class Case:
    """A set with all its users, the users to query, and what they have seen."""

    name: str
    factors: sets.Factors
    seen: scipy.sparse.csr_matrix
    asked: np.ndarray  # numbers of users
    turns: int

    @classmethod
    def of(cls, name: str, n_users: int, n_items: int | None, turns: int) -> "Case":
        """Load a learned set, with all or some of its items."""
        items, users = sets.learned(name)
        seen = sets.seen(name)
        kept = sets.sampled_items(len(items), n_items)
        asked = np.sort(sets.sampled_users(len(users), n_users))
        return cls(name, sets.Factors(np.ascontiguousarray(items[kept]), users), seen[:, kept].tocsr(), asked, turns)

    @property
    def queries(self) -> np.ndarray:
        """The factors of the users to query."""
        return np.ascontiguousarray(self.factors.users[self.asked])

    def attributes(self) -> dict[str, np.ndarray]:
        """Return the shelf of each item."""
        rng, n = np.random.default_rng(0), len(self.factors.items)
        rest = (1 + np.arange(50)) ** -1.0
        shares = np.concatenate([list(SHELVES.values()), (1 - sum(SHELVES.values())) * rest / rest.sum()])
        names = np.array([*SHELVES, *(f"shelf {number}" for number in range(len(rest)))])
        bounds = np.round(n * np.cumsum(shares)).astype(np.int64)
        return {"shelf": names[np.searchsorted(bounds, rng.permutation(n), side="right").clip(max=len(names) - 1)]}

    def ages(self) -> np.ndarray:
        """Return the age of each item in seconds; most are old."""
        return OLDEST * np.sqrt(np.random.default_rng(1).random(len(self.factors.items)))

    def truth(self, *, n: int = K, added: np.ndarray | None = None, unseen: bool = True, allowed: Any = slice(None)
              ) -> np.ndarray:  # fmt: skip
        """Return the true scores of the queried users, highest first, by brute force."""
        items, best = self.factors.items.astype(np.float64), []
        for first in range(0, len(self.asked), 200):
            some = self.asked[first : first + 200]
            scores = self.factors.users[some].astype(np.float64) @ items.T
            if added is not None:
                scores += added
            if unseen:
                scores[self.seen[some].nonzero()] = -np.inf
            scores = scores[:, allowed]
            best.append(-np.sort(-np.partition(scores, -n, axis=1)[:, -n:], axis=1))
        return np.concatenate(best)

    def recall(self, ids: np.ndarray, true: np.ndarray, added: np.ndarray | None = None) -> float:
        """Return the tie-aware recall of lists for the first queried users, by scores in float64."""
        scores = measure.exact_scores(ids, self.factors.items, self.queries[: len(ids)])
        if added is not None:
            scores += np.where(ids >= 0, added[ids], 0)
        return float(np.mean(tie_aware_recall(ids, scores, true[: len(ids)])))


def unseen(case: Case, model: ts.Recommender) -> Figures:
    """Compare `recommend` for users, without seen items, with a search by their vectors."""
    index, queries, asked = model.index, case.queries, case.asked
    calls: dict[str, Callable[[], ts.SearchResult]] = {
        "search": lambda: index.search(queries, K, threads=1),
        "recommend": lambda: model.recommend(asked, K, threads=1),
        "all": lambda: model.recommend(asked, K, exclude_seen=False, threads=1),
    }
    true, true_unseen = case.truth(unseen=False), case.truth()
    recalls = {
        name: case.recall(call().ids, true_unseen if name == "recommend" else true) for name, call in calls.items()
    }
    seconds = measure.alternate(calls, case.turns)
    ratios = {name: measure.median_ratio(seconds, "search", name) for name in ("recommend", "all")}
    rate = len(asked) / float(np.median(seconds["search"]))
    print(f"  search: {rate:,.0f} q/s, recall {recalls['search']:.4f}, {index.plan.method}")
    print(f"  recommend, seen left out, over search {ratios['recommend']:.2f}"
          f"{measure.goal(ratios['recommend'], least=SEEN_GOAL)}, recall {recalls['recommend']:.4f}; "
          f"nothing left out {ratios['all']:.2f}, recall {recalls['all']:.4f}")  # fmt: skip
    yield {"part": "seen", "over_search": ratios["recommend"], "goal": SEEN_GOAL, "nothing_left_out": ratios["all"],
           "recall": recalls, "queries_per_second": rate}  # fmt: skip


def boosted(case: Case, plain: ts.Recommender) -> Figures:
    """Compare `recommend` with one boost with a search in an index without the signal."""
    ages = case.ages()
    signal = ts.Decaying(NOW - ages, half_life=HALF_LIFE)
    model = ts.Recommender.build(*case.factors, seen=case.seen, signals={"fresh": signal})
    index, queries, asked = plain.index, case.queries, case.asked
    tenth = float(np.median(case.truth(unseen=False)[:, -1]))

    def call(weight: float) -> Callable[[], ts.SearchResult]:
        boosts = {"fresh": weight} if weight else None
        return lambda: model.recommend(asked, K, boosts=boosts, now=NOW, exclude_seen=False, threads=1)

    weights = {"none": 0.0} | {f"{share:.0%}": share * tenth for share in BOOSTS}
    calls = {"search": lambda: index.search(queries, K, threads=1)}
    calls |= {name: call(weight) for name, weight in weights.items()}
    seconds = measure.alternate(calls, case.turns)
    for name, weight in weights.items():
        added = weight * 0.5 ** (ages / HALF_LIFE)
        got = case.recall(calls[name]().ids, case.truth(unseen=False, added=added), added)
        ratio = measure.median_ratio(seconds, "search", name)
        wanted = None if name == "none" else BOOST_GOAL
        print(f"  one signal, boost of {name:<4} over search without it {ratio:.2f}"
              f"{measure.goal(ratio, least=wanted)}, recall {got:.4f}")  # fmt: skip
        yield {"part": "boost", "boost": name, "weight": weight, "over_search": ratio, "goal": wanted, "recall": got}


def narrowed(case: Case, model: ts.Recommender) -> Figures:
    """Compare `recommend` under a condition with faiss Flat over just these items, and with IVF with a selector."""
    if not peers.FLAT.installed:
        print("  where is skipped: faiss is not installed")
        return
    import faiss  # noqa: PLC0415
    from peers import faiss_threads  # noqa: PLC0415

    items, queries, asked = case.factors.items, case.queries, case.asked
    shelf, lists = case.attributes()["shelf"], filters.inverted_file(items)
    faiss_threads.use(1)
    for name, wanted in FLAT_GOALS.items():
        allowed = np.flatnonzero(shelf == name)
        flat = faiss.IndexFlatIP(items.shape[1])
        flat.add(items[allowed])
        some = filters.affordable(lambda part, flat=flat: flat.search(part, K), queries)

        def recommend(n: int, name: str = name, *, exact: bool = False) -> ts.SearchResult:
            return model.recommend(asked[:n], K, where={"shelf": name}, exclude_seen=False, exact=exact, threads=1)

        calls: dict[str, Callable[[], Any]] = {
            "planned": lambda recommend=recommend, some=some: recommend(some),
            "exact": lambda recommend=recommend, some=some: recommend(some, exact=True),
            "flat": lambda flat=flat, some=some: flat.search(queries[:some], K),
        }
        true = case.truth(unseen=False, allowed=allowed)
        recalls = {side: case.recall(calls[side]().ids, true) for side in ("planned", "exact")}
        seconds = measure.alternate(calls, case.turns)
        ratios = {side: measure.median_ratio(seconds, "flat", side) for side in recalls}
        print(
            f"  where {len(allowed) / len(items):.1%} are left, {len(allowed):,} items: over faiss Flat of just these"
        )
        for side, ratio in ratios.items():
            print(f"      {side:<8} {ratio:.2f}{measure.goal(ratio, least=wanted)}, recall {recalls[side]:.4f}")
        asking = sets.Factors(items, queries)
        yield {"part": "where", "share": SHELVES[name], "over_flat": ratios, "recall": recalls, "goal": wanted,
               **filters.selecting(recommend, asking, lists, allowed, true, case.turns)}  # fmt: skip


def folded_in(case: Case, model: ts.Recommender) -> Figures:
    """Fold in a user who likes fifty items."""
    items, rng = case.factors.items, np.random.default_rng(0)
    likes = [rng.choice(len(items), N_LIKES, replace=False) for _ in range(10 * case.turns + 20)]
    seconds, found = [], []
    for liked in likes:
        start = time.perf_counter()
        found.append(model.fold_in(liked, regularization=0.01, alpha=20.0))
        seconds.append(time.perf_counter() - start)
    true = [least_squares(items, liked, 0.01, 20.0) for liked in likes]
    off = [float(np.abs(ours - theirs).max() / np.abs(theirs).max()) for ours, theirs in zip(found, true, strict=True)]
    took = 1e3 * float(np.median(seconds[10:]))
    print(f"  fold in {N_LIKES} likes: {took:.3f} ms{measure.goal(took, most=FOLD_IN_GOAL)}, "
          f"at most {max(off):.1e} of the largest coordinate from least squares in float64")  # fmt: skip
    yield {"part": "fold-in", "milliseconds": took, "goal": FOLD_IN_GOAL, "off": max(off)}


def least_squares(items: np.ndarray, liked: np.ndarray, regularization: float, alpha: float) -> np.ndarray:
    """Compute one step of implicit's ALS, with a confidence of `alpha` for each liked item."""
    wide, own = items.astype(np.float64), items[liked].astype(np.float64)
    matrix = wide.T @ wide + (alpha - 1) * own.T @ own + regularization * np.eye(items.shape[1])
    return np.linalg.solve(matrix, alpha * own.sum(axis=0))


def paged(case: Case, model: ts.Recommender) -> Figures:
    """Compare the tenth page with the first, with cursors: for users one by one, and for many in one call."""
    readers = case.asked[:N_READERS].tolist()
    true = case.truth(n=N_PAGES * K)[: len(readers)]

    def page(users: Any, after: str | None) -> ts.Recommendations:
        found = model.recommend(users, K, after=after, threads=1)
        assert found.next  # noqa: S101 (a service passes it on)
        return found

    def last_cursor(users: Any) -> tuple[list[ts.Recommendations], str]:
        pages = [page(users, None)]
        for _ in range(N_PAGES - 2):
            pages.append(page(users, pages[-1].next))
        return pages, pages[-1].next

    cursors = {reader: last_cursor(reader)[1] for reader in readers}
    pages, cursor = last_cursor(readers)
    pages.append(page(readers, cursor))
    got = case.recall(np.concatenate([one.ids for one in pages], axis=1), true)
    calls: dict[str, Callable[[], object]] = {
        "first, one by one": lambda: [page(reader, None) for reader in readers],
        "tenth, one by one": lambda: [page(reader, cursors[reader]) for reader in readers],
        "first, together": lambda: page(readers, None),
        "tenth, together": lambda: page(readers, cursor),
    }
    seconds = measure.alternate(calls, case.turns)
    for how in ("one by one", "together"):
        ratio = measure.median_ratio(seconds, f"tenth, {how}", f"first, {how}")
        took = 1e6 * float(np.median(seconds[f"first, {how}"])) / len(readers)
        wanted = PAGE_GOAL if how == "one by one" else None  # with many users per call, a larger k is the better way
        print(f"  page {N_PAGES} over page 1, {len(readers)} users {how}: {ratio:.2f}"
              f"{measure.goal(ratio, most=wanted)}, page 1 takes {took:.0f} us per user; "
              f"recall of all pages joined {got:.4f}")  # fmt: skip
        yield {"part": "pages", "how": how, "ratio": ratio, "goal": wanted, "first_microseconds": took, "recall": got}


PARTS = {"seen": unseen, "boost": boosted, "where": narrowed, "fold-in": folded_in, "pages": paged}
EVERYONE = "everyone"


def measured(case: Case, parts: list[str]) -> Figures:
    """Return the figures of some parts on a set."""
    model = ts.Recommender.build(*case.factors, seen=case.seen, attributes=case.attributes())
    print(f"\n{case.name}: {len(case.factors.items):,} items, {len(case.asked):,} users asked of "
          f"{len(case.factors.users):,}, k = {K}, one thread")  # fmt: skip
    for figures in itertools.chain.from_iterable(PARTS[part](case, model) for part in parts if part in PARTS):
        yield {"set": case.name, **figures}


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = [*PARTS, EVERYONE]
    parser.add_argument("--only", default="", metavar="SET", help="measure only sets whose names contain this")
    parser.add_argument("--parts", default=",".join(every), help=f"what to measure, of {','.join(every)}")
    parser.add_argument("--quick", action="store_true", help="small sets, few turns: shows only that it works")
    parser.add_argument("--out", type=Path, help="where results go: benchmarks/results, or build/bench-quick if quick")
    options = parser.parse_args()
    parts = options.parts.split(",")
    if unknown := set(parts) - set(every):
        sys.exit(f"There is no part {min(unknown)!r}; parts are {', '.join(every)}.")
    measure.settle_process()
    sys.stdout.reconfigure(line_buffering=True)
    n_users, n_items, turns = (300, 20_000, 3) if options.quick else (2000, None, 11)
    folder = options.out or (QUICK if options.quick else measure.RESULTS)
    start = time.perf_counter()
    print("  ".join(f"{name} {value}" for name, value in measure.machine().items()))
    if options.quick:
        print("A quick run: small sets and few turns. Its figures mean nothing.")
    for name in sets.LEARNED:
        if options.only not in name or not set(parts) & set(PARTS):
            continue
        if name not in sets.learned_names() or sets.seen(name) is None:
            print(f"{name} is skipped: it is not in {sets.DATA}")
            continue
        for figures in measured(Case.of(name, n_users, n_items, turns), parts):
            measure.record("recommend", figures, folder)
    if EVERYONE in parts and not peers.IMPLICIT.installed:
        print("\neveryone is skipped: implicit is not installed")
    elif EVERYONE in parts:
        from all_users_implicit import everyone  # noqa: PLC0415

        for figures in everyone(options.only, turns // 2, _threads.thread_count(None), quick=options.quick):
            measure.record("recommend", {"part": EVERYONE, **figures}, folder)
    print(f"\n{time.perf_counter() - start:.0f} s in all")


if __name__ == "__main__":
    main()
