"""What a run found, in words and tables: the report and docs/paper/measured.md say the same."""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tessella.paper.claims import at_target, best_baseline, claims, goals, interval_words
from tessella.paper.final_lists import NAMES
from tessella.paper.frontiers import BUDGETS
from tessella.paper.methods import BASELINES, METHODS, WEIGHTED_THRESHOLD

RECOVERY_NOTE = (
    "Recovery accuracy is the share of a user's true top 10 that are candidates. Intervals are for the mean over "
    "users, with 95% confidence, by the bootstrap; users of one draw share items and random vectors, and intervals "
    "do not show that. Several draws are averaged: on learned factors, hashes recover much more with some random "
    "vectors than with others."
)
BUDGET_NOTE = (
    "A query of ours opens one list of items for each of its slots; a query to united hash tables opens one bucket "
    "in each table, and a query to a tree comes to one or more leaves. These look-ups are the budget, because they "
    "are the part of the work that all methods share. Baselines get as many as ours makes on average where it "
    "discards the target share, rounded up. That leaves their projections free, while ours computes none; the "
    "narrower budget allows at most k of them a query (k times k multiplications), and the widest as many tables as "
    "were tried. Within a budget the best setting of a sweep counts, or the best mixture of two that serve a share "
    "of the users each, for every method alike. Settings are chosen on the users they are judged on, ours and the "
    "baselines' alike. A method that discards more than asked even where it recovers most is compared there."
)
MAPPING_NOTE = (
    f"Weighted search uses ternary tiles, the counter tree, an absolute threshold of {WEIGHTED_THRESHOLD:g} and no "
    "rotation everywhere. Ours as in the paper is swept over thresholds of both kinds, relative and absolute, and "
    "the PCA-tree over factors as they are and of length 1; the best counts. The hashes compare directions."
)
DISCARDED_NOTE = (
    "Weighted search adds up partial products for every item that shares a slot, and exact search looks at a short "
    "code of many items. Both count only items whose whole product is computed as not discarded, so compare times, "
    "too."
)
TIMES_NOTE = (
    "Times are of one machine and differ from run to run: one thread, all users of the first draw in one call, the "
    "fastest of three. Ours is timed as the index answers it, in compiled code. The candidates of the baselines are "
    "found with SciPy and scored with NumPy, so their times say what they cost here, not what compiled code would take."
)
BIAS_NOTE = (
    "The item bias is a coordinate of the explicit factors. How it is shared between users and items keeps every "
    "product but changes what a threshold keeps. All of it on items was tried first, and ours fell behind; shared "
    "evenly, which has the smallest sum of squares, was chosen after that. Both are shown."
)
SIZE_NOTE = (
    "What is recovered at a discarded share depends on how many items there are: the true top 10 are a larger part "
    "of what is left of fewer items."
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
    """A table; cells of prose go below each other where there is no room beside each other."""

    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    prose: bool = False


class Figure(NamedTuple):
    """A picture."""

    name: str
    caption: str


Block = Heading | Text | Code | Items | Table | Figure


def document(results: dict[str, Any], times: dict[str, Any], figures: Iterable[tuple[str, Figure]] = ()) -> list[Block]:
    """The whole report.

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
        Heading(2, "What was asked for"),
        Table(("where", "goal", "seen", ""), goal_rows(results), prose=True),
        Heading(2, "How baselines are bounded"),
        Text(BUDGET_NOTE),
        Heading(2, "What the paper says, claim by claim"),
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
        "This was a quick run, with fewer items, users, settings and sets; a full run decides. Among few items goals "
        "that are shares are harder to meet: 2% of 2,000 items are 40, for a true top 10, where 2% of 10,000 are 200. "
        "A weighted goal missed here need not be missed there."
    )
    return [Text(text)]


def _problem(problem: dict[str, Any], times: list[dict[str, Any]], figures: list[Figure]) -> list[Block]:
    return [
        Heading(2, problem["title"]),
        Text(sizes(problem)),
        Heading(3, f"Recovery where {problem['target']:.0%} are discarded"),
        Table(("method", *BUDGETS.values()), matched_rows(problem)),
        Text(f"Beyond the paper: {'; '.join(beyond(problem))}."),
        Heading(3, "Final lists, at the setting nearest to that"),
        Table(_LISTS_HEAD, list_rows(problem, times)),
        *figures,
    ]


def in_short(problem: dict[str, Any], times: list[dict[str, Any]]) -> str:
    """A problem in a few sentences.

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
    text = f"{problem['title']}: where {problem['target']:.0%} are discarded, ours as in the paper recovers {mean:.3f}."
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
        f" Measured against NumPy's brute force, ours as in the paper has {speeds['ours']:.1f} times its speed, where "
        f"{1 / (1 - problem['target']):.1f} times fewer items are scored, and exact search {speeds['exact']:.1f} times."
    )


def goal_rows(results: dict[str, Any]) -> list[tuple[str, ...]]:
    """What was asked for and seen: where, goal, seen, and whether it is met.

    Parameters
    ----------
    results : dict
        The numbers of a run, or their summary.
    """
    return [(goal.where, goal.goal, goal.seen, "met" if goal.met else "MISSED") for goal in goals(results)]


def matched_rows(problem: dict[str, Any]) -> list[tuple[str, ...]]:
    """A line for each method: recovery where the target share is discarded, for each budget.

    Parameters
    ----------
    problem : dict
        One problem's numbers.
    """
    rows: list[tuple[str, ...]] = []
    for method in ("ours", *BASELINES):
        cells = [_cell(at_target(problem, method, budget)) for budget in BUDGETS]
        if method == "ours":  # it has no tables, and its look-ups are the measure
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
    """A line for each way to answer: what its final lists are worth, and how fast they come.

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
    """What weighing overlaps and proving answers give, in sentences.

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
    """How large a problem is, in words.

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
            f"; where ours discards {problem['target']:.0%}, it makes {problem['lookups']:.2f} look-ups a query and "
            f"files an item {problem['filed']:.2f} times"
        )
    return text + "."


def notes(results: dict[str, Any]) -> list[str]:
    """What a reader should know about the numbers.

    Parameters
    ----------
    results : dict
        The numbers of a run, or their summary.
    """
    gain = (
        "Our mean gain is the area between the curves of ours as in the paper and the baseline, over the shares that "
        "both reach, divided by the length of that range."
    )
    lines = [DISCARDED_NOTE, MAPPING_NOTE, SIZE_NOTE, TIMES_NOTE, gain]
    if "movielens-100k-bias" in results["problems"]:
        lines.append(BIAS_NOTE)
    lines += [f"Left out: {reason}" for reason in results["left_out"]]
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    return [*lines, f"Seed {results['seed']}; {versions}."]
