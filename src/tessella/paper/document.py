"""The results of a run in words and tables, for the HTML report and docs/paper/measured.md alike."""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tessella.paper.claims import (
    MINIMAL_LOSS,
    Claim,
    at_target,
    best_baseline,
    claims,
    goals,
    headlines,
    interval_words,
)
from tessella.paper.final_lists import NAMES
from tessella.paper.frontiers import BUDGETS
from tessella.paper.methods import BASELINES, METHODS, WEIGHTED_THRESHOLD

PAPER = (
    "Bhowmik, Liu, Zhong, Bhaskar and Rajan, Geometry Aware Mappings for High Dimensional Sparse Factors, AISTATS 2016"
)
HEADLINE_NOTE = (
    "Ours as in the paper is the paper's own method: ternary tiles, the counter tree, and as candidates all items that "
    "share a slot with the query. Recovery is the share of a user's true top 10 that are candidates. Ours counts as "
    "more accurate than a baseline if their 95% intervals do not overlap. The paper does not say how many tables its "
    "baselines use, so the table shows three limits. Nor does it say how small a minimal loss of accuracy is; we "
    f"require a recovery of {MINIMAL_LOSS}."
)
RECOVERY_NOTE = (
    "Intervals are 95% bootstrap intervals for the mean over users. Users of the same draw share items and random "
    "vectors; the intervals do not reflect that. Results are averaged over several draws, because on learned factors "
    "some random vectors recover much more than others."
)
BUDGET_NOTE = (
    "A query of ours opens one list of items for each of its slots. A query to hash tables opens one bucket in each "
    "table, and a query to a tree visits one or more leaves. We count these look-ups, because every method makes "
    "them. With no more look-ups than ours, a baseline may make as many as ours makes on average where it discards the "
    "target share, rounded up. That does not charge the baselines for their projections, while ours computes none. A "
    "stricter budget therefore also allows a query at most k projections (k times k multiplications). The widest "
    "budget allows every number of tables that we tried. Within a budget, the best setting of a sweep counts, or the "
    "best mixture of two settings that each serve a share of the users; this holds for all methods. Settings are "
    "chosen on the users they are judged on, for ours as for the baselines. A method that always discards more than "
    "the target is judged where it recovers most."
)
MAPPING_NOTE = (
    f"Weighted search always uses ternary tiles, the counter tree, an absolute threshold of {WEIGHTED_THRESHOLD:g} and "
    "no rotation. For ours as in the paper we sweep relative and absolute thresholds, and for the PCA-tree factors as "
    "they are and normalised to length 1; the best setting counts. The hashes compare directions only."
)
DISCARDED_NOTE = (
    "Weighted search adds up partial inner products for every item that shares a slot with the query, and exact "
    "search reads a short code of many items. For both, an item counts as discarded unless its full inner product is "
    "computed. So compare times as well."
)
TIMES_NOTE = (
    "Times come from one machine and vary from run to run: one thread, all users of the first draw in one call, the "
    "fastest of three. Ours is timed as the index answers, in compiled code. The baselines' candidates are found with "
    "SciPy and scored with NumPy, so their times do not show what compiled code would take."
)
BIAS_NOTE = (
    "The item bias is one coordinate of the explicit factors. Dividing it differently between users and items keeps "
    "every inner product but changes which coordinates pass a threshold. We first put all of it on the items, and ours"
    " fell behind the baselines. We then divided it evenly, which minimises the sum of squares. Both are shown."
)
SIZE_NOTE = (
    "Recovery at a given discarded share depends on the number of items: among fewer items, the true top 10 are a "
    "larger part of those that remain."
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
    """A table; if it is prose, its cells are stacked on narrow screens."""

    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    prose: bool = False


class Figure(NamedTuple):
    """A picture."""

    name: str
    caption: str


OPENING_FIGURE = Figure(
    "accuracy-against-discard",
    "Recovery accuracy against the share of items discarded; higher is better. Solid lines: ours as in the paper, and "
    f"the baselines with {BUDGETS['tables']}. Dashed line: the best of the baselines with {BUDGETS['unlimited']}. "
    "Dotted line: the share at which the methods are compared.",
)

Block = Heading | Text | Code | Items | Table | Figure


def document(
    results: dict[str, Any],
    times: dict[str, Any],
    figures: Iterable[tuple[str, Figure]] = (),
    opening: Figure | None = None,
) -> list[Block]:
    """The whole report.

    Parameters
    ----------
    results : dict
        The numbers of a run, or their summary.
    times : dict
        The measured times of each problem.
    figures : iterable of (problem, Figure)
        The figures of each problem.
    opening : Figure, default None
        The figure to open with.
    """
    drawn = list(figures)
    blocks: list[Block] = [
        Heading(1, "The paper's claims, measured"),
        Text(f"We repeated the experiments of {PAPER}. The figure and the table show which claims held."),
        *_quick_warning(results),
        *([opening] if opening else []),
        Table(("the paper's claim", "where", "needed", "measured", ""), headline_rows(results), prose=True),
        Text(HEADLINE_NOTE),
        Text("All numbers come from"),
        Code(results["command"]),
        Heading(2, "Problem by problem"),
        Items([in_short(problem, times[name]) for name, problem in results["problems"].items()]),
        Text(RECOVERY_NOTE),
        Heading(2, "Our own goals"),
        Table(("where", "goal", "measured", ""), goal_rows(results), prose=True),
        Heading(2, "How the baselines are limited"),
        Text(BUDGET_NOTE),
        Heading(2, "Every claim on every problem"),
    ]
    for said, group in itertools.groupby(claims(results), key=lambda claim: claim.claim):
        rows = [(claim.where, _verdict(claim), claim.measured) for claim in group]
        blocks += [Heading(3, _sentence(said)), Table(("where", "", "measured"), rows, prose=True)]
    for name, problem in results["problems"].items():
        pictures = [figure for of, figure in drawn if of == name]
        blocks += _problem(problem, times[name], pictures)
    return [*blocks, Heading(2, "Notes"), Items(notes(results))]


def _verdict(claim: Claim) -> str:
    return "held" if claim.held else "did not hold"


def _sentence(words: str) -> str:
    return words[0].upper() + words[1:]


def headline_rows(results: dict[str, Any]) -> list[tuple[str, ...]]:
    """The table that a report opens with: claim, where, number needed, number measured, and verdict.

    A claim that was judged on several problems is named in its first row only.

    Parameters
    ----------
    results : dict
        The numbers of a run, or their summary.
    """
    rows: list[tuple[str, ...]] = []
    for said, group in itertools.groupby(headlines(results), key=lambda claim: claim.claim):
        for number, claim in enumerate(group):
            named = "" if number else _sentence(said)
            rows.append((named, claim.where, claim.needed, claim.seen, _verdict(claim)))
    return rows


def _quick_warning(results: dict[str, Any]) -> list[Block]:
    if not results["quick"]:
        return []
    text = (
        "This was a quick run, with fewer items, users, settings and data sets; only a full run is conclusive. Goals "
        "stated as shares are harder to meet with few items: 2% of 2,000 items leave 40 for a true top 10, and 2% of "
        "10,000 leave 200. So a full run may meet a goal for weighted search that this run missed."
    )
    return [Text(text)]


def _problem(problem: dict[str, Any], times: list[dict[str, Any]], figures: list[Figure]) -> list[Block]:
    return [
        Heading(2, problem["title"]),
        Text(sizes(problem)),
        Heading(3, f"Recovery with {problem['target']:.0%} discarded"),
        Table(("method", *BUDGETS.values()), matched_rows(problem)),
        Text(f"Beyond the paper: {'; '.join(beyond(problem))}."),
        Heading(3, "Final lists at the nearest setting"),
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
    text = f"{problem['title']}: with {problem['target']:.0%} discarded, ours as in the paper recovers {mean:.3f}."
    for budget, how in (("tables", BUDGETS["tables"]), ("unlimited", f"up to {problem['most_tables']} tables")):
        best = best_baseline(problem, budget)
        if best:
            name, theirs = best
            ahead, behind = ours["recovery"]["low"] > theirs["high"], ours["recovery"]["high"] < theirs["low"]
            verdict = "ours is ahead" if ahead else "the baseline is ahead" if behind else "neither is clearly ahead"
            text += f" With {how}, the best baseline recovers {theirs['mean']:.3f} ({name}): {verdict}."
    good = [point for point in problem["methods"]["weighted"]["points"] if point["recovery"]["mean"] >= 0.95]
    if good:
        point = max(good, key=lambda point: point["discarded"])
        mean = point["recovery"]["mean"]
        text += f" Weighted search recovers {mean:.3f} with {point['discarded']:.1%} of the items not scored."
    speeds = {row["method"]: row["measured_speed_up"] for row in times}
    return text + (
        f" Timed against brute force in NumPy, ours as in the paper is {speeds['ours']:.1f} times as fast, where "
        f"{1 / (1 - problem['target']):.1f} times fewer items are scored; exact search is {speeds['exact']:.1f} times "
        "as fast."
    )


def goal_rows(results: dict[str, Any]) -> list[tuple[str, ...]]:
    """Our goals: where, goal, what was measured, and whether it is met.

    Parameters
    ----------
    results : dict
        The numbers of a run, or their summary.
    """
    return [(goal.where, goal.goal, goal.seen, "met" if goal.met else "missed") for goal in goals(results)]


def matched_rows(problem: dict[str, Any]) -> list[tuple[str, ...]]:
    """A row for each method: recovery at the target share, for each budget.

    Parameters
    ----------
    problem : dict
        One problem's numbers.
    """
    rows: list[tuple[str, ...]] = []
    for method in ("ours", *BASELINES):
        cells = [_cell(at_target(problem, method, budget)) for budget in BUDGETS]
        if method == "ours":  # it has no tables, and its look-ups set the budget
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
    """A row for each way to answer: the quality of its final lists, and their speed.

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
    """What weighted and exact search give, in phrases.

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
    lines.append(
        f"weighted search ranks the {problem['share_a_slot']:.0%} of the items that share a slot with the query"
    )
    exact = problem["methods"]["exact"]["points"][0]
    return [*lines, f"exact, {exact['discarded']:.1%} not scored: {exact['recovery']['mean']:.3f}"]


def sizes(problem: dict[str, Any]) -> str:
    """The size of a problem, in words.

    Parameters
    ----------
    problem : dict
        One problem's numbers.
    """
    draws = len(problem["seeds"])
    text = f"{problem['n_items']:,} items, {problem['n_users']:,} users"
    text += f" in {draws} draws" if draws > 1 else ""
    text += f", {problem['n_factors']} factors; up to {problem['most_tables']} tables"
    if "rmse" in problem:
        text += f"; held-out RMSE {problem['rmse']:.3f}"
    if problem["lookups"] is not None:
        text += (
            f"; with {problem['target']:.0%} discarded, ours makes {problem['lookups']:.2f} look-ups a query and lists "
            f"an item {problem['filed']:.2f} times"
        )
    return text + "."


def notes(results: dict[str, Any]) -> list[str]:
    """Remarks on the numbers.

    Parameters
    ----------
    results : dict
        The numbers of a run, or their summary.
    """
    gain = (
        "Our mean gain is the mean height of the curve of ours as in the paper above that of the baseline, over the "
        "discarded shares that both reach."
    )
    lines = [DISCARDED_NOTE, MAPPING_NOTE, SIZE_NOTE, TIMES_NOTE, gain]
    if "movielens-100k-bias" in results["problems"]:
        lines.append(BIAS_NOTE)
    lines += [f"Left out: {reason}" for reason in results["left_out"]]
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    return [*lines, f"Seed {results['seed']}; {versions}."]
