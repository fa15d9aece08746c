"""The files of a run: the page, the figures, and all numbers as JSON and as tidy tables."""

import csv
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tessella.paper import plots
from tessella.paper.claims import headline_problems
from tessella.paper.document import OPENING_FIGURE, Text, document, goal_rows
from tessella.paper.render import as_html, as_markdown

TABLES = ("points", "matched", "lists", "times", "goals")
FILES = ("report.html", "results.json", "times.json", *(f"{name}.csv" for name in TABLES))
FIGURES = "figures"


def write(results: dict[str, Any], times: dict[str, Any], folder: Path) -> None:
    """Write figures, tables and the page.

    Parameters
    ----------
    results : dict
        The numbers of a run, which depend only on the seed.
    times : dict
        Its measured times, which vary.
    folder : Path
        An existing, empty folder to write to.
    """
    figures = folder / FIGURES
    figures.mkdir()
    drawn = plots.draw(results, times, figures)
    (folder / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    (folder / "times.json").write_text(json.dumps(times, indent=1) + "\n")
    _write_tables(results, times, folder)
    page = document(results, times, drawn, plots.draw_opening(results, figures))
    (folder / "report.html").write_text(as_html(page, figures))


def summary(results: dict[str, Any], times: dict[str, Any]) -> dict[str, Any]:
    """Return the numbers that text and tables need: a run with its times, without points, curves and histograms.

    Parameters
    ----------
    results : dict
        The numbers of a run.
    times : dict
        Its measured times.
    """
    problems, opening = {}, headline_problems(results)
    for name, problem in results["problems"].items():
        methods: dict[str, Any] = {}
        for method, parts in problem["methods"].items():
            short = {
                budget: found and {key: found[key] for key in ("recovery", "lookups", "near")}
                for budget, found in parts["matched"].items()
            }
            methods[method] = {"matched": short, "mean_gain_of_ours": parts["mean_gain_of_ours"]}
            if method in ("weighted", "exact"):
                methods[method]["points"] = parts["points"]
            if name in opening:
                methods[method]["frontier"] = parts["frontier"]
        problems[name] = {**problem, "methods": methods}
    rounded: dict[str, Any] = _rounded({**results, "problems": problems, "times": times})
    return rounded


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_rounded(part) for part in value]
    return round(value, 7) if isinstance(value, float) else value


def paper_page(results: dict[str, Any]) -> str:
    """Return the text of docs/paper/measured.md.

    Parameters
    ----------
    results : dict
        From `summary`.
    """
    blocks = document(results, results["times"], opening=OPENING_FIGURE)
    source = Text("Written by `docs/make_paper.py` from [paper-results.json](paper-results.json).")
    return as_markdown([*blocks, source], "../images")


def _write_tables(results: dict[str, Any], times: dict[str, Any], folder: Path) -> None:
    """Write all numbers to tidy tables."""
    problems = results["problems"]
    methods = [(name, method, parts) for name, found in problems.items() for method, parts in found["methods"].items()]
    points = [
        {"problem": name, "method": method, **_flat(point)}
        for name, method, parts in methods
        for point in parts["points"]
    ]
    matched = [
        {
            "problem": name,
            "method": method,
            "budget": budget,
            "discarded": problems[name]["target"],
            **_flat({"recovery": found["recovery"], "lookups": found["lookups"]}),
            "mean_gain_of_ours": parts["mean_gain_of_ours"][budget],
        }
        for name, method, parts in methods
        for budget, found in parts["matched"].items()
        if found
    ]
    lists = [{"problem": name, **_flat(row)} for name, found in problems.items() for row in found["lists"]]
    timed = [{"problem": name, **_flat(row)} for name, rows in times.items() for row in rows]
    goals = [dict(zip(("where", "goal", "seen", "verdict"), row, strict=True)) for row in goal_rows(results)]
    for name, rows in zip(TABLES, (points, matched, lists, timed, goals), strict=True):
        _write_csv(folder / f"{name}.csv", rows)


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """Flatten a row: settings become JSON, and a recovery with its interval becomes three numbers."""
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if name == "recovery":
            flat |= {"recovery": value["mean"], "low": value["low"], "high": value["high"]}
        else:
            flat[name] = json.dumps(value) if isinstance(value, dict) else value
    return flat


def _write_csv(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    listed = list(rows)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(listed[0]) if listed else [])
        writer.writeheader()
        writer.writerows(listed)
