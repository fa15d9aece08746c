"""Recommend from a generated catalogue: the true top k, its cost, and what happens as items are added and removed."""

import argparse
import functools
import itertools
import os
import time
from pathlib import Path
from typing import NamedTuple

# NumPy reads these when it is imported. With more threads it is slower if other processes use the machine too.
os.environ.update({f"{blas}_NUM_THREADS": "1" for blas in ("OPENBLAS", "MKL", "OMP")})

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

import tessella as ts

K = 10
BUDGETS = (50, 100, 200, 400, 800)
USERS_A_TURN = 250
PATIENCE = 12  # seconds, after which measuring stops, for slow machines and the NumPy reference
WORDS = """\
Amber Bright Broken Distant Electric Faded Gentle Golden Hidden Hollow Lonely Paper Quiet Slow Silver Velvet Wild Young
Anthem Ballad Blues Canon Chorale Dance Elegy Fugue Hymn Lullaby March Nocturne Polka Rondo Serenade Song Tango Waltz
Bakers Bears Birds Clocks Clowns Foxes Ghosts Giants Herons Lovers Moths Owls Pilots Rivers Snails Tigers Trains Wolves
Athens Bergen Bremen Cairo Cork Dakar Delft Genoa Havana Kyoto Lima Lisbon Nairobi Oslo Porto Quito Riga Turin
"""
console, progress = Console(highlight=False, markup=False), Console(stderr=True)


class Figures(NamedTuple):
    """The figures of a search method."""

    name: str
    scored: float  # share of all items
    recall: float
    certified: float  # share of all answers
    speed: float  # relative to brute force, by the fastest turn of each


def titles(n_items: int) -> np.ndarray:
    """Make unique titles."""
    words = map(str.split, WORDS.splitlines())
    made = [f"{a} {b} for {c} in {d}" for a, b, c, d in itertools.product(*words)]
    if n_items > len(made):
        raise SystemExit(f"--items is {n_items:,}, but there are only {len(made):,} titles.")
    return np.random.default_rng(0).permutation(made)[:n_items]


def recommend(index: ts.Index, users: np.ndarray) -> None:
    """Print the top 5 of a few users who have seen half of their top 20."""
    rng = np.random.default_rng(0)
    favourites = index.search(users, 20).ids
    seen = [rng.choice(own, 10, replace=False) for own in favourites]
    found = index.search(users, 5, exclude=seen)
    table = Table("user", "rank", "item", box=SIMPLE)
    table.add_column("score", justify="right")
    for user, (ids, scores) in enumerate(zip(found.ids, found.scores, strict=True)):
        for rank, (title, score) in enumerate(zip(ids, scores, strict=True), 1):
            table.add_row(str(user), str(rank), title, f"{score:.2f}")
        table.add_section()
    gone = sum(np.isin(own[:5], done).sum() for own, done in zip(favourites, seen, strict=True))
    console.print(f"The top 5 of {len(users)} users, without {gone} items that they have already seen:")
    console.print(table)


def brute_force(item_factors: np.ndarray, users: np.ndarray) -> ts.SearchResult:
    """Find the top k, unsorted, by scoring everything; in blocks of users, with which NumPy is faster."""
    ids, best = [], []
    for first in range(0, len(users), 50):
        scores = users[first : first + 50] @ item_factors.T
        ids.append(np.argpartition(scores, -K, axis=1)[:, -K:])
        best.append(np.take_along_axis(scores, ids[-1], axis=1))
    n_scored, certified = np.full(len(users), len(item_factors)), np.ones(len(users), np.bool_)
    return ts.SearchResult(np.concatenate(ids), np.concatenate(best), n_scored, certified)


def measure(index: ts.Index, item_factors: np.ndarray, users: np.ndarray) -> tuple[list[Figures], int]:
    """Measure every method on the same users, in turns; return the figures, and how many users there was time for."""
    search = functools.partial(index.search, k=K, threads=1)
    calls = {"brute force": functools.partial(brute_force, item_factors)}
    calls |= {f"slots, budget {budget}": functools.partial(search, method=ts.Slots(budget)) for budget in BUDGETS}
    calls |= {"as planned": search, "exact": functools.partial(search, method=ts.Exact())}
    sums = {name: np.zeros(3) for name in calls}
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    start, n_asked = time.perf_counter(), 0
    columns = TextColumn("Measuring"), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, console=progress, transient=True, disable=not progress.is_terminal) as bar:
        task = bar.add_task("", total=len(users))
        while n_asked < len(users) and time.perf_counter() - start < PATIENCE:
            asked = users[n_asked : n_asked + USERS_A_TURN]
            for name, call in calls.items():
                began = time.perf_counter()
                found = call(asked)
                seconds[name].append((time.perf_counter() - began) / len(asked))
                if name == "brute force":
                    least = found.scores.min(axis=1, keepdims=True)
                    least -= 1e-5 * abs(least)  # both sum in float32, but in different orders
                hits = (found.scores >= least).mean(axis=1)
                sums[name] += found.n_scored.sum() / len(index), hits.sum(), found.certified.sum()
            n_asked += len(asked)
            bar.update(task, completed=n_asked)
    speeds = {name: min(seconds["brute force"]) / min(seconds[name]) for name in calls}
    return [Figures(name, *(total / n_asked), speeds[name]) for name, total in sums.items()], n_asked


def show(figures: list[Figures], n_asked: int, index: ts.Index) -> None:
    """Print the figures."""
    table = Table("search", box=SIMPLE)
    for title in ("items scored", "discarded", "recall", "certified", "speed"):
        table.add_column(title, justify="right")
    for one in figures:
        shares = f"{1 - one.scored:.2%}", f"{one.recall:.4f}", f"{one.certified:.1%}"
        table.add_row(one.name, f"{one.scored * len(index):,.0f}", *shares, f"{one.speed:.1f} x")
    console.print(f"The top {K} of {n_asked:,} users, by every method; speed is relative to brute force:")
    console.print(table)
    console.print(
        "Brute force is NumPy: users @ items.T, then argpartition. Everything runs on one thread. Slots search scores "
        "at most as many items as its budget. A certified answer is proven to be the true top k. By default, search "
        f"follows index.plan, here {index.plan.method}: {index.plan.reason}.\n"
    )


def change(index: ts.Index, user: np.ndarray) -> None:
    """Add an item that a user loves, search, remove it, and search again."""
    before = index.search(user, K, exact=True)
    title = "Brand New Song for User 0"
    index.add([user * (1.1 * before.scores[0] / (user @ user))], ids=[title])
    added = index.search(user, K, exact=True)
    index.remove([title])
    removed = index.search(user, K, exact=True)
    console.print("User 0's best item, before and after changes to the index:\n")
    for when, found in {"now": before, "after index.add": added, "after index.remove": removed}.items():
        console.print(f"  {when:<20}{found.ids[0]:<40}{found.scores[0]:.2f}")
    console.print()


def draw(figures: list[Figures], title: str, path: Path) -> None:
    """Save a picture of recall against the share of items scored, and against speed."""
    mpl.use("Agg")
    figure, panels = plt.subplots(1, 2, figsize=(10, 4.4), sharey=True, layout="constrained")
    recalls = [one.recall for one in figures]
    draw_panel(panels[0], [100 * one.scored for one in figures], recalls, "{:.2f} %", (7, -12))
    draw_panel(panels[1], [one.speed for one in figures], recalls, "{:.3g} x", (-29, -12))
    panels[0].set_xlabel("items scored (% of all, log scale)")
    panels[1].set_xlabel("speed relative to brute force (log scale)")
    panels[0].set_ylabel(f"recall of the true top {K}")
    panels[0].legend(loc="lower right")
    figure.suptitle(title)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def draw_panel(axes: plt.Axes, costs: list[float], recalls: list[float], unit: str, aside: tuple[int, int]) -> None:
    """Draw brute force, slots search labelled with its budgets, search as planned, and exact search."""
    axes.plot(costs[1:-2], recalls[1:-2], "o-", color="#0072B2", label="slots search, by budget")
    axes.plot(costs[-2], recalls[-2], "D", color="#009E73", markersize=9, label="search as planned")
    axes.plot(costs[-1], recalls[-1], "*", color="#D55E00", markersize=17, label="exact search")
    axes.plot(costs[0], recalls[0], "s", color="#555555", markersize=8, label="brute force (NumPy)")
    for budget, cost, recall in zip(BUDGETS, costs[1:-2], recalls[1:-2], strict=True):
        axes.annotate(str(budget), (cost, recall), aside, textcoords="offset points", color="#0072B2")
    for end, above in ((0, 10), (-2, -19), (-1, 10)):
        axes.annotate(
            unit.format(costs[end]), (costs[end], recalls[end]), (0, above), textcoords="offset points", ha="center"
        )
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.grid(alpha=0.3)
    axes.margins(x=0.12, y=0.15)


def main() -> None:
    """Run the demo."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=100_000, help="number of items (default: 100,000)")
    parser.add_argument("--users", type=int, default=3_000, help="number of users (default: 3,000)")
    parser.add_argument("--out", type=Path, default=Path("demo/search.png"), help="where to save the picture")
    options = parser.parse_args()
    ts.show_config()
    with progress.status("Generating factors"):
        item_factors, users = ts.datasets.generated_factors(options.items, options.users)
        ids = titles(options.items)
    with progress.status("Building the index"):
        start = time.perf_counter()
        index = ts.Index.build(item_factors, ids)
        seconds = time.perf_counter() - start
    console.print(f"\n{index}, built in {seconds:.2f} s\n", soft_wrap=True)
    recommend(index, users[:3])
    figures, n_asked = measure(index, item_factors, users)
    show(figures, n_asked, index)
    change(index, users[0])
    console.print("What index.explain says about it:")
    console.print(str(index.explain(users[0], index.search(users[0], exact=True).ids[0])))
    draw(figures, f"Recall and its cost: {len(index):,} generated items, {n_asked:,} users", options.out)
    console.print(f"\nPicture saved to {options.out}", soft_wrap=True)


if __name__ == "__main__":
    main()
