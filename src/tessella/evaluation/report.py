"""What a run found, in words, tables and one page; all of it from the run's numbers."""

import base64
import csv
import html
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from tessella.evaluation import plots
from tessella.evaluation.experiments import BASELINES, BUDGETS, METHODS, WEIGHTED_THRESHOLD

BUDGET_NOTE = (
    "A query of ours opens one list of items for each of its slots; a query to united hash tables opens one bucket in "
    "each table, and a query to a tree comes to one or more leaves. These look-ups are the budget, because they are "
    "the part of the work that all methods share, and for tables also how often an item is filed, which is memory. "
    "Baselines get as many as ours makes on average where it discards the target share, rounded up. That leaves their "
    "projections free, while ours computes none; the narrower budget allows at most k of them a factor (k^2 "
    "multiplications), and the widest as many tables as were tried. Within a budget the best setting of a sweep "
    "counts, or the best mixture of two that serve a share of the users each, for every method alike."
)
RECOVERY_NOTE = (
    "Recovery accuracy is the share of a user's true top 10 that are candidates. Intervals are for the mean over "
    "users, with 95% confidence, by the bootstrap; users of one draw share items and random vectors, and intervals do "
    "not show that."
)
MAPPING_NOTE = (
    f"Weighted search uses ternary tiles, the counter tree, an absolute threshold of {WEIGHTED_THRESHOLD:g} and no "
    "rotation everywhere. Ours as in the paper is swept over thresholds of both kinds, relative and absolute; the best "
    "counts, as for baselines. The hashes compare directions; the PCA-tree takes factors as they are."
)
BIAS_NOTE = (
    "The item bias is a coordinate of the explicit factors. How it is shared between users and items keeps every "
    "product but changes what a threshold keeps. All of it on items was tried first, and ours fell behind; shared "
    "evenly, which has the smallest sum of squares, was chosen after that. Both are shown."
)
SIZE_NOTE = (
    "What is recovered at a discarded share depends on how many items there are: the same share of more items holds "
    "more of them beyond the true top 10. A quick run, with fewer items, recovers less."
)
EXACT_NOTE = (
    "The exact search scores few items but looks at a short code of many more, so its discarded share is not "
    "comparable with the others'; its time is."
)
_STYLE = """
:root { color-scheme: light dark; --text: #1b1b1b; --page: #ffffff; --line: #d0d0d0; --good: #00694c; --bad: #a33c00; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6e6e6; --page: #15181b; --line: #444a50; --good: #4fd1a5; --bad: #ff9d5c; }
}
body { color: var(--text); background: var(--page); font: 1rem/1.5 system-ui, sans-serif; max-width: 60rem;
  margin: 0 auto; padding: 1rem; }
h1, h2, h3 { line-height: 1.2; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.9rem; }
th, td { border-bottom: 1px solid var(--line); padding: 0.3rem 0.6rem; text-align: left; vertical-align: top; }
img { max-width: 100%; height: auto; background: #fff; border-radius: 6px; }
figure { margin: 1rem 0; }
figcaption, .small { font-size: 0.85rem; }
code { overflow-wrap: anywhere; }
.held { color: var(--good); font-weight: bold; }
.missed { color: var(--bad); font-weight: bold; }
"""


class Claim(NamedTuple):
    """Something the paper says, and what was measured."""

    claim: str
    where: str
    held: bool
    measured: str


def claims(results: dict[str, Any]) -> list[Claim]:
    """The paper's claims that a run can judge, claim by claim.

    Parameters
    ----------
    results : dict
        The numbers of a run, or their summary.
    """
    found = []
    for name, problem in results["problems"].items():
        synthetic = name.startswith("synthetic")
        if not synthetic and not name.startswith("movielens"):
            continue
        ours = problem["methods"]["ours"]["matched"]["unlimited"]
        speed = "nearly five-fold" if synthetic else "over three-fold"
        said = (
            f"{speed} speed-up with about {problem['target']:.0%} of the items discarded, and minimal loss of accuracy"
        )
        if ours is None:
            found.append(Claim(said, problem["title"], False, "no threshold discards that share."))
            continue
        part = ours["recovery"]
        text = (
            f"{1 / (1 - problem['target']):.1f} times fewer products, and {part['mean']:.3f} of the true top 10 "
            f"recovered (95% interval {part['low']:.3f} to {part['high']:.3f}). Held means at least 0.95."
        )
        found.append(Claim(said, problem["title"], part["mean"] >= 0.95, text))
        found += [_higher(problem, budget) for budget in BUDGETS]
        found.append(_variance(problem, ours))
    return found


def _higher(problem: dict[str, Any], budget: str) -> Claim:
    """Whether ours is more accurate than all baselines."""
    part = problem["methods"]["ours"]["matched"]["unlimited"]["recovery"]
    gains, behind = [], []
    for method in BASELINES:
        theirs = problem["methods"][method]["matched"][budget]
        if theirs is None:
            gains.append(f"not reached by {METHODS[method]}")
            continue
        gain = part["mean"] - theirs["recovery"]["mean"]
        gains.append(f"{gain:+.3f} against {METHODS[method]} ({theirs['recovery']['mean']:.3f})")
        if part["low"] <= theirs["recovery"]["high"]:
            behind.append(METHODS[method])
    text = "; ".join(gains) + "."
    if behind:
        text += f" Not ahead outside the intervals of {', '.join(behind)}."
    said = f"higher accuracy than every baseline at the same discard; baselines with {BUDGETS[budget]}"
    return Claim(said, problem["title"], not behind, text)


def _variance(problem: dict[str, Any], ours: dict[str, Any]) -> Claim:
    spreads = {
        method: found["near"]["discarded_sd"]
        for method in BASELINES
        if (found := problem["methods"][method]["matched"]["tables"])
    }
    mine = ours["near"]["discarded_sd"]
    wider = [METHODS[method] for method, spread in spreads.items() if spread > mine]
    listed = ", ".join(f"{METHODS[method]} {spread:.3f}" for method, spread in spreads.items())
    said = "the discarded share varies much over users for some of the baselines"
    text = f"Standard deviation over users: ours {mine:.3f}, {listed}. Held means that one varies more than ours."
    return Claim(said, problem["title"], bool(wider), text)


def summary(results: dict[str, Any]) -> dict[str, Any]:
    """The numbers that words and tables need: a run without its points, curves and histograms.

    Parameters
    ----------
    results : dict
        The numbers of a run.
    """
    problems = {}
    for name, problem in results["problems"].items():
        methods: dict[str, Any] = {}
        for method, parts in problem["methods"].items():
            short = {
                budget: found and {key: found[key] for key in ("recovery", "lookups", "near")}
                for budget, found in parts["matched"].items()
            }
            methods[method] = {"matched": short}
            if method in ("weighted", "exact"):
                methods[method]["points"] = parts["points"]
        problems[name] = {**problem, "methods": methods}
    rounded: dict[str, Any] = _rounded({**results, "problems": problems})
    return rounded


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_rounded(part) for part in value]
    return round(value, 6) if isinstance(value, float) else value


def goal_rows(results: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """What was asked for and seen: where, goal, seen, and whether it is met; what was not asked for is only noted.

    Parameters
    ----------
    results : dict
        The numbers of a run, or their summary.
    """
    rows = []
    for goal in results["goals"]:
        verdict = ("met" if goal["met"] else "MISSED") if goal["asked"] else ("ahead" if goal["met"] else "not ahead")
        rows.append((results["problems"][goal["problem"]]["title"], goal["goal"], goal["seen"], verdict))
    return rows


def matched_rows(problem: dict[str, Any]) -> list[tuple[str, ...]]:
    """A line for each method: recovery where the target share is discarded, for each budget.

    Parameters
    ----------
    problem : dict
        One problem's numbers.
    """
    rows: list[tuple[str, ...]] = []
    for method in ("ours", *BASELINES):
        parts = problem["methods"][method]["matched"]
        cells = [_cell(parts.get(budget)) if method in BASELINES else "" for budget in BUDGETS]
        if method == "ours":
            cells[list(BUDGETS).index("tables")] = _cell(parts["unlimited"])
        rows.append((METHODS[method], *cells))
    return rows


def _cell(found: dict[str, Any] | None) -> str:
    if found is None:
        return "not reached"
    part = found["recovery"]
    return f"{part['mean']:.3f} [{part['low']:.3f}, {part['high']:.3f}]"


def beyond(problem: dict[str, Any]) -> list[str]:
    """What weighing overlaps and proving answers give, in sentences.

    Parameters
    ----------
    problem : dict
        One problem's numbers.
    """
    lines = []
    for point in problem["methods"]["weighted"]["points"]:
        if point["settings"]["share"] in (0.01, 0.02, 0.05, 0.1):
            part = point["recovery"]
            interval = f"[{part['low']:.3f}, {part['high']:.3f}]"
            lines.append(f"weighted, {point['discarded']:.1%} discarded: {part['mean']:.3f} {interval}")
    exact = problem["methods"]["exact"]["points"][0]
    lines.append(f"exact, {exact['discarded']:.1%} not scored: {exact['recovery']['mean']:.3f}")
    return lines


def sizes(problem: dict[str, Any]) -> str:
    """How large a problem is, in words.

    Parameters
    ----------
    problem : dict
        One problem's numbers.
    """
    seeds = len(problem["seeds"])
    text = f"{problem['n_items']:,} items, {problem['n_users']:,} users"
    text += f" in {seeds} draws" if seeds > 1 else ""
    text += f", {problem['n_factors']} factors"
    text += f"; up to {problem['most_tables']} tables tried"
    if "rmse" in problem:
        text += f"; held-out RMSE {problem['rmse']:.3f}"
    if problem["lookups"] is not None:
        text += f"; ours makes {problem['lookups']:.2f} look-ups a query at {problem['target']:.0%} discarded"
    return text + "."


def paper_page(results: dict[str, Any]) -> str:
    """docs/paper.md: claim by claim, from the summary of a run.

    Parameters
    ----------
    results : dict
        From `summary`.
    """
    lines = [
        "# The paper's claims, measured",
        "",
        "Written by `docs/make_paper.py` from [paper-results.json](paper-results.json), which comes from",
        "",
        "```",
        results["command"],
        "```",
        "",
        RECOVERY_NOTE,
        "",
        "## What we asked for",
        "",
        *_markdown(("where", "goal", "seen", ""), goal_rows(results)),
        "",
        "Rows without `met` or `MISSED` were not asked for; they tell where a boosted baseline wins.",
        "",
        "## How baselines are bounded",
        "",
        BUDGET_NOTE,
        "",
        "## What the paper says",
        "",
    ]
    rows = [
        (item.where, item.claim, "held" if item.held else "did not hold", item.measured) for item in claims(results)
    ]
    lines += [*_markdown(("where", "the paper", "", "measured"), rows), ""]
    for problem in results["problems"].values():
        lines += [f"## {problem['title']}", "", sizes(problem), ""]
        lines += [f"Recovery where {problem['target']:.0%} are discarded:", ""]
        lines += [*_markdown(("method", *BUDGETS.values()), matched_rows(problem)), ""]
        lines += [f"Beyond the paper: {'; '.join(beyond(problem))}.", ""]
    lines += ["## Notes", "", *[f"- {note}" for note in notes(results)], ""]
    return "\n".join(lines)


def _markdown(names: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    head = list(names)
    return [
        f"| {' | '.join(head)} |",
        f"|{'---|' * len(head)}",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]


def notes(results: dict[str, Any]) -> list[str]:
    """What a reader should know about the numbers.

    Parameters
    ----------
    results : dict
        The numbers of a run, or their summary.
    """
    lines = [EXACT_NOTE, MAPPING_NOTE, SIZE_NOTE]
    if "movielens-100k-bias" in results["problems"]:
        lines.append(BIAS_NOTE)
    lines += [f"Left out: {reason}" for reason in results["left_out"]]
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    return [*lines, f"Seed {results['seed']}; {versions}."]


def write(results: dict[str, Any], times: dict[str, Any], folder: Path) -> None:
    """Write figures, tables and the page.

    Parameters
    ----------
    results : dict
        The numbers of a run; the same for the same seed.
    times : dict
        Its measured times, which are not.
    folder : Path
        Where to; it exists and is empty.
    """
    figures = folder / "figures"
    figures.mkdir()
    drawn = plots.draw(results, times, figures)
    (folder / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    (folder / "times.json").write_text(json.dumps(times, indent=1) + "\n")
    _write_tables(results, times, folder)
    (folder / "report.html").write_text(_page(results, figures, drawn))


def _write_tables(results: dict[str, Any], times: dict[str, Any], folder: Path) -> None:
    """Every number in tidy tables."""
    measured = ("discarded", "discarded_sd", "recovery", "low", "high", "lookups", "projections", "settings")

    def cells(point: dict[str, Any]) -> tuple[Any, ...]:
        part = point["recovery"]
        settings = json.dumps(point["settings"])
        return (
            point["discarded"], point["discarded_sd"], part["mean"], part["low"], part["high"],
            point["lookups"], point["projections"], settings,
        )  # fmt: skip

    methods = [
        (name, method, parts)
        for name, problem in results["problems"].items()
        for method, parts in problem["methods"].items()
    ]
    points = [(name, method, *cells(point)) for name, method, parts in methods for point in parts["points"]]
    _write_csv(folder / "points.csv", ("problem", "method", *measured), points)
    rows = [
        (name, method, budget, results["problems"][name]["target"], *found["recovery"].values(), found["lookups"])
        for name, method, parts in methods
        for budget, found in parts["matched"].items()
        if found
    ]
    head = ("problem", "method", "budget", "discarded", "recovery", "low", "high", "lookups")
    _write_csv(folder / "matched.csv", head, rows)
    timed = [(name, *row.values()) for name, part in times.items() for row in part]
    _write_csv(folder / "times.csv", ("problem", "method", "share", "recall", "seconds"), timed)
    _write_csv(folder / "goals.csv", ("where", "goal", "seen", "verdict"), goal_rows(results))


def _write_csv(path: Path, head: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(head)
        writer.writerows(rows)


def _page(results: dict[str, Any], figures: Path, drawn: list[dict[str, str]]) -> str:
    """The report, in one file."""
    paper = "<em>Geometry Aware Mappings for High Dimensional Sparse Factors</em>, AISTATS 2016"
    quick = "A quick run: small sizes, coarse sweeps. " if results["quick"] else ""
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>The paper's experiments, again</title><style>{_STYLE}</style></head><body>",
        "<h1>The paper's experiments, again</h1>",
        f"<p>Bhowmik, Liu, Zhong, Bhaskar and Rajan, {paper}: <code>{html.escape(results['command'])}</code>.</p>",
        f"<p class='small'>{quick}{html.escape(RECOVERY_NOTE)}</p>",
        "<h2>What was asked for</h2>",
        _table(("where", "goal", "seen", ""), goal_rows(results)),
        "<h2>How baselines are bounded</h2>",
        f"<p>{html.escape(BUDGET_NOTE)}</p>",
        "<h2>Which of the paper's claims held</h2>",
    ]
    rows = [
        (item.where, item.claim, "held" if item.held else "did not hold", item.measured) for item in claims(results)
    ]
    parts.append(_table(("where", "the paper says", "", "measured"), rows))
    for name, problem in results["problems"].items():
        parts += [f"<h2>{html.escape(problem['title'])}</h2>", f"<p>{html.escape(sizes(problem))}</p>"]
        parts.append(f"<h3>Recovery where {problem['target']:.0%} are discarded</h3>")
        parts.append(_table(("method", *BUDGETS.values()), matched_rows(problem)))
        parts.append(f"<p>Beyond the paper: {html.escape('; '.join(beyond(problem)))}.</p>")
        for figure in drawn:
            if figure["name"].rpartition("-")[0] == name:
                image = base64.b64encode((figures / f"{figure['name']}.png").read_bytes()).decode()
                caption = html.escape(figure["caption"])
                parts.append(
                    f"<figure><img alt='{caption}' src='data:image/png;base64,{image}'>"
                    f"<figcaption>{caption}</figcaption></figure>"
                )
    parts += [
        "<h2>Notes</h2><ul class='small'>",
        *[f"<li>{html.escape(note)}</li>" for note in notes(results)],
        "</ul>",
    ]
    return "\n".join([*parts, "</body></html>\n"])


def _table(names: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(map(_table_cell, row))}</tr>" for row in rows)
    return f"<div class='wide'><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _table_cell(text: str) -> str:
    kinds = {"met": "held", "held": "held", "MISSED": "missed", "did not hold": "missed"}
    mark = f" class='{kinds[text]}'" if text in kinds else ""
    return f"<td{mark}>{html.escape(text)}</td>"
