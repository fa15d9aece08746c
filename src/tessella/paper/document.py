"""The results of a run in words and tables, for both the report and docs/paper/measured.md."""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tessella.paper.claims import at_target, best_baseline, claims, goals, interval_words
from tessella.paper.final_lists import NAMES
from tessella.paper.frontiers import BUDGETS
from tessella.paper.methods import BASELINES, METHODS, WEIGHTED_THRESHOLD

RECOVERY_NOTE = (
    "Recovery accuracy is the share of a user's true top 10 that are candidates. Intervals are 95% bootstrap intervals "
    "of the mean over users. Users of one draw share items and random vectors, which the intervals do not reflect. "
    "Several draws are averaged, because on learned factors hashes recover much more with some random vectors than "
    "with others."
)
BUDGET_NOTE = (
    "A query of ours opens one list of items for each of its slots. A query to several hash tables opens one bucket in "
    "each table, and a query to a tree visits one or more leaves. These look-ups are the budget, because they are the "
    "part of the work that all methods have in common. Baselines may make as many look-ups as ours makes on average "
    "when it discards the target share, rounded up. Their projections are then free, although ours computes none. A "
    "narrower budget allows at most k projections per query (k times k multiplications), and the widest one allows as "
    "many tables as were tried. Within a budget, the best setting of a sweep counts, or the best mixture of two "
    "settings that each serve a share of the users. Settings are chosen on the same users on which they are judged. "
    "Both rules apply to every method. A method that discards more than the target even at its best recovery is "
    "compared there."
)
MAPPING_NOTE = (
    f"Weighted search always uses ternary tiles, the counter tree, an absolute threshold of {WEIGHTED_THRESHOLD:g} and "
    "no rotation. Ours, as in the paper, is swept over relative and absolute thresholds, and the PCA-tree over factors "
    "with and without normalisation; the best setting counts. Hashes compare directions only."
)
DISCARDED_NOTE = (
    "Weighted search sums partial products for every item that shares a slot, and exact search reads a short code of "
    "many items. For both, only items whose full product is computed count as not discarded, so compare the times too."
)
TIMES_NOTE = (
    "Times are from one machine and vary from run to run: one thread, all users of the first draw in one call, the "
    "fastest of three runs. Ours is timed as the index answers it, in compiled code. The candidates of the baselines "
    "are found with SciPy and scored with NumPy, so compiled code could be faster."
)
BIAS_NOTE = (
    "The item bias is a coordinate of the explicit factors. Its scale can be split between users and items in any way "
    "without changing a product, but the split changes which coordinates pass a threshold. We first put all of it on "
    "the items, and ours fell behind. After that we chose the even split, which has the smallest sum of squares. Both "
    "are shown."
)
SIZE_NOTE = (
    "Recovery at a given discarded share depends on the number of items: among fewer items, the true top 10 are a "
    "larger part of those that are left."
)


class Heading(NamedTuple):
    """A title; level 1 is the page's."""

    level: int
    text: str


class Text(NamedTuple):
    """A paragraph."""

    text: str


class Code(NamedTuple):
    """A command."""

    text: str


class Items(NamedTuple):
    """A list."""

    lines: list[str]


class Table(NamedTuple):
    """A table; on narrow screens, cells of prose are stacked."""

    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    prose: bool = False


class Figure(NamedTuple):
    """A picture."""

    name: str
    caption: str


Block = Heading | Text | Code | Items | Table | Figure


def document(results: dict[str, Any], times: dict[str, Any], figures: Iterable[tuple[str, Figure]] = ()) -> list[Block]:
    """Return the whole report.

    Parameters
    ----------
    results : dict
        The numbers of a run, or their summary.
    times : dict
        Its measured times, for each problem.
    figures : iterable of (problem, Figure)
        What was drawn.
    """
    drawn = list(figures)
    blocks: list[Block] = [
        Heading(1, "The paper's claims, measured"),
        Text(
            "Bhowmik, Liu, Zhong, Bhaskar and Rajan, Geometry Aware Mappings for High Dimensional Sparse Factors, "
            "AISTATS 2016. The numbers come from"
        ),
        Code(results["command"]),
        Heading(2, "In short"),
        *_quick_warning(results),
        Items([in_short(problem, times[name]) for name, problem in results["problems"].items()]),
        Text(RECOVERY_NOTE),
        Heading(2, "Goals"),
        Table(("where", "goal", "measured", ""), goal_rows(results), prose=True),
        Heading(2, "The budgets of the baselines"),
        Text(BUDGET_NOTE),
        Heading(2, "The paper's claims, one by one"),
    ]
    for said, group in itertools.groupby(claims(results), key=lambda claim: claim.claim):
        rows = [(claim.where, "held" if claim.held else "did not hold", claim.measured) for claim in group]
        blocks += [Heading(3, said[0].upper() + said[1:]), Table(("where", "", "measured"), rows, prose=True)]
    for name, problem in results["problems"].items():
        pictures = [figure for of, figure in drawn if of == name]
        blocks += _problem(problem, times[name], pictures)
    return [*blocks, Heading(2, "Notes"), Items(notes(results))]


def _quick_warning(results: dict[str, Any]) -> list[Block]:
    if not results["quick"]:
        return []
    text = (
        "This was a quick run, with fewer items, users, settings and datasets; only a full run is conclusive. With few "
        "items, goals that are shares are harder to meet: 2% of 2,000 items are 40 candidates for a true top 10, but "
        "2% of 10,000 are 200. So a full run may meet a weighted goal that is missed here."
    )
    return [Text(text)]


def _problem(problem: dict[str, Any], times: list[dict[str, Any]], figures: list[Figure]) -> list[Block]:
    return [
        Heading(2, problem["title"]),
        Text(sizes(problem)),
        Heading(3, f"Recovery with {problem['target']:.0%} discarded"),
        Table(("method", *BUDGETS.values()), matched_rows(problem)),
        Text(f"Beyond the paper: {'; '.join(beyond(problem))}."),
        Heading(3, "Final lists, at the nearest setting"),
        Table(_LISTS_HEAD, list_rows(problem, times)),
        *figures,
    ]


def in_short(problem: dict[str, Any], times: list[dict[str, Any]]) -> str:
    """Summarise a problem in a few sentences.

    Parameters
    ----------
    problem : dict
        One problem's numbers.
    times : list of dict
        Its measured times.
    """
    ours = at_target(problem, "ours")
    if ours is None:
        return f"{problem['title']}: no threshold discards {problem['target']:.0%} of the items."
    mean = ours["recovery"]["mean"]
    text = f"{problem['title']}: with {problem['target']:.0%} discarded, ours, as in the paper, recovers {mean:.3f}."
    for budget, how in (("tables", BUDGETS["tables"]), ("unlimited", f"up to {problem['most_tables']} tables")):
        best = best_baseline(problem, budget)
        if best:
            name, theirs = best
            ahead, behind = ours["recovery"]["low"] > theirs["high"], ours["recovery"]["high"] < theirs["low"]
            verdict = "ours is ahead" if ahead else "the baseline wins" if behind else "neither is clearly ahead"
            text += f" With {how}, the best baseline recovers {theirs['mean']:.3f} ({name}): {verdict}."
    good = [point for point in problem["methods"]["weighted"]["points"] if point["recovery"]["mean"] >= 0.95]
    if good:
        point = max(good, key=lambda point: point["discarded"])
        mean = point["recovery"]["mean"]
        text += f" Weighted, ours recovers {mean:.3f} with {point['discarded']:.1%} not scored."
    speeds = {row["method"]: row["measured_speed_up"] for row in times}
    return text + (
        f" Ours, as in the paper, is {speeds['ours']:.1f} times as fast as NumPy's brute force, while it scores "
        f"{1 / (1 - problem['target']):.1f} times fewer items; exact search is {speeds['exact']:.1f} times as fast."
    )


def goal_rows(results: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return a row for each goal: where, goal, measured, and whether it is met.

    Parameters
    ----------
    results : dict
        The numbers of a run, or their summary.
    """
    return [(goal.where, goal.goal, goal.seen, "met" if goal.met else "MISSED") for goal in goals(results)]


def matched_rows(problem: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return a row for each method: its recovery where the target share is discarded, for each budget.

    Parameters
    ----------
    problem : dict
        One problem's numbers.
    """
    rows: list[tuple[str, ...]] = []
    for method in ("ours", *BASELINES):
        cells = [_cell(at_target(problem, method, budget)) for budget in BUDGETS]
        if method == "ours":  # it has no tables, and its look-ups define the budget
            cells = [cell if budget == "tables" else "" for budget, cell in zip(BUDGETS, cells, strict=True)]
        rows.append((METHODS[method], *cells))
    return rows


def _cell(found: dict[str, Any] | None) -> str:
    return "not reached" if found is None else interval_words(found["recovery"])


_LISTS_HEAD = (
    "method", "budget", "discarded", "1 / (1 - discarded)", "measured speed-up", "tie-aware recall", "NDCG",
    "items ever listed", "our mean gain",
)  # fmt: skip


def list_rows(problem: dict[str, Any], times: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Return a row for each method: the quality of its final lists, and its speed.

    Parameters
    ----------
    problem : dict
        One problem's numbers.
    times : list of dict
        Its measured times, in the same order.
    """
    rows: list[tuple[str, ...]] = []
    for row, timed in zip(problem["lists"], times, strict=True):
        gains = problem["methods"].get(row["method"], {}).get("mean_gain_of_ours", {})
        gain = gains.get(row["budget"])
        name = NAMES[row["method"]] + (
            f", {row['settings']['share']:.1%} scored" if row["method"] == "weighted" else ""
        )
        rows.append(
            (
                name,
                BUDGETS.get(row["budget"], ""),
                f"{row['discarded']:.1%}",
                f"{row['implied_speed_up']:.1f}",
                f"{timed['measured_speed_up']:.1f}",
                f"{row['tie_aware_recall']:.3f}",
                f"{row['ndcg']:.3f}",
                f"{row['coverage']:.1%}",
                "" if gain is None else f"{gain:+.3f}",
            )
        )
    return rows


def beyond(problem: dict[str, Any]) -> list[str]:
    """Return phrases about weighted and exact search, which go beyond the paper.

    Parameters
    ----------
    problem : dict
        One problem's numbers.
    """
    lines = [
        f"weighted, {point['discarded']:.1%} discarded: {interval_words(point['recovery'])}"
        for point in problem["methods"]["weighted"]["points"]
        if point["settings"]["share"] in (0.01, 0.02, 0.05, 0.1)
    ]
    lines.append(f"{problem['share_a_slot']:.0%} of the items share a slot there and are ranked")
    exact = problem["methods"]["exact"]["points"][0]
    return [*lines, f"exact, {exact['discarded']:.1%} not scored: {exact['recovery']['mean']:.3f}"]


def sizes(problem: dict[str, Any]) -> str:
    """Describe the size of a problem in words.

    Parameters
    ----------
    problem : dict
        One problem's numbers.
    """
    draws = len(problem["seeds"])
    text = f"{problem['n_items']:,} items, {problem['n_users']:,} users"
    text += f" in {draws} draws" if draws > 1 else ""
    text += f", {problem['n_factors']} factors; up to {problem['most_tables']} tables tried"
    if "rmse" in problem:
        text += f"; held-out RMSE {problem['rmse']:.3f}"
    if problem["lookups"] is not None:
        text += (
            f"; where ours discards {problem['target']:.0%}, it makes {problem['lookups']:.2f} look-ups per query and "
            f"stores an item in {problem['filed']:.2f} lists on average"
        )
    return text + "."


def notes(results: dict[str, Any]) -> list[str]:
    """Return notes on how to read the numbers.

    Parameters
    ----------
    results : dict
        The numbers of a run, or their summary.
    """
    gain = (
        "Our mean gain is the area between the curves of the baseline and of ours, as in the paper, over the shares "
        "that both reach, divided by the length of that range."
    )
    lines = [DISCARDED_NOTE, MAPPING_NOTE, SIZE_NOTE, TIMES_NOTE, gain]
    if "movielens-100k-bias" in results["problems"]:
        lines.append(BIAS_NOTE)
    lines += [f"Left out: {reason}" for reason in results["left_out"]]
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    return [*lines, f"Seed {results['seed']}; {versions}."]
