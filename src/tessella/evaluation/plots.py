"""The paper's figures and two more, drawn from the numbers of a run. Needs matplotlib: the `plots` extra."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tessella.evaluation.experiments import BASELINES, BUDGETS, METHODS

# Okabe and Ito's colours, which colour-blind people tell apart; lines differ in marks, too.
COLOURS = {
    "ours": "#D55E00",
    "weighted": "#CC79A7",
    "exact": "#000000",
    "srp": "#0072B2",
    "superbit": "#56B4E9",
    "concomitant": "#009E73",
    "pca-tree": "#E69F00",
}
MARKS = {"ours": "o", "weighted": "D", "exact": "*", "srp": "s", "superbit": "^", "concomitant": "v", "pca-tree": "P"}
SHORT = {
    "ours": "ours",
    "weighted": "weighted",
    "exact": "exact",
    "srp": "sign rand.\nprojections",
    "superbit": "super-\nbits",
    "concomitant": "concomitant\nranks",
    "pca-tree": "PCA-\ntree",
}
COMPARED = ("ours", *BASELINES)


def pyplot() -> Any:
    """The drawing library, set to draw to files."""
    try:
        import matplotlib as mpl  # noqa: PLC0415 - an extra
        import matplotlib.pyplot as plt  # noqa: PLC0415
    except ImportError:
        raise ImportError("figures need matplotlib; pip install 'tessella[plots]'.") from None
    mpl.use("Agg")
    mpl.rcParams.update(
        {
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.titlesize": "medium",
            "font.size": 10,
            "svg.hashsalt": "tessella",
        }
    )
    return plt


def draw(results: dict[str, Any], times: dict[str, Any], folder: Path) -> list[dict[str, str]]:
    """Draw every figure as PNG and SVG into a folder; what each is called and shows.

    Parameters
    ----------
    results : dict
        The numbers of a run.
    times : dict
        Its measured times.
    folder : Path
        Where to; it exists.
    """
    plt = pyplot()
    drawn = []

    def keep(name: str, caption: str, figure: Any) -> None:
        figure.savefig(folder / f"{name}.png", dpi=130, metadata={"Software": None})
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None, "Creator": None})
        plt.close(figure)
        drawn.append({"name": name, "caption": caption})

    kinds: tuple[tuple[str, Callable[..., Any], str], ...] = (
        ("curve", _curves, "Recovery accuracy against the share of items discarded. Upper right is better."),
        ("bars", _bars, "Recovery accuracy where every method discards the same share, with 95% intervals over users."),
        ("histogram", _histograms, "The share of items discarded, over users, at the setting nearest to the target."),
        ("mean", _means, "The mean share discarded at that setting; bars show one standard deviation over users."),
    )
    for name, problem in results["problems"].items():
        for kind, function, caption in kinds:
            keep(f"{name}-{kind}", f"{problem['title']}. {caption}", function(plt, problem))
        if problem["methods"]["ours"]["matched"]["unlimited"] and _popularity(problem, "ours"):
            text = "Recovery of the true top 10 by how often their items were rated, in fifths."
            keep(f"{name}-popularity", f"{problem['title']}. {text}", _popularities(plt, problem))
        if name in times:
            text = "Measured time of a query, one thread, against recall. Upper left is better."
            keep(f"{name}-time", f"{problem['title']}. {text}", _times(plt, times[name], problem["title"]))
    return drawn


def _legend_below(figure: Any, columns: int) -> None:
    figure.legend(loc="outside lower center", ncols=columns, frameon=False, fontsize="small")


def _curves(plt: Any, problem: dict[str, Any]) -> Any:
    """Frontiers: of baselines, with as many look-ups as ours and with many tables."""
    figure, panels = plt.subplots(1, 2, figsize=(9.5, 4.6), sharey=True, layout="constrained")
    for axes, budget in zip(panels, ("tables", "unlimited"), strict=True):
        for method, parts in problem["methods"].items():
            line = np.array(parts["frontier"].get(budget) or parts["frontier"]["unlimited"])
            if len(line):
                label = METHODS[method] if budget == "tables" else None
                style = {"markersize": 4, "linewidth": 1.4, "color": COLOURS[method], "marker": MARKS[method]}
                axes.plot(100 * line[:, 0], line[:, 1], label=label, **style)
        axes.axvline(100 * problem["target"], color="#888888", linewidth=1, linestyle=":")
        axes.set_title(f"baselines: {BUDGETS[budget]}")
        axes.set_xlabel("items discarded, mean over users (%)")
        axes.set_xlim(right=101)
        axes.set_ylim(0, 1.03)
        axes.grid(alpha=0.25)
    panels[0].set_ylabel("recovery accuracy at 10")
    figure.suptitle(problem["title"])
    _legend_below(figure, 4)
    return figure


def _bars(plt: Any, problem: dict[str, Any]) -> Any:
    figure, axes = plt.subplots(figsize=(8, 4.6), layout="constrained")
    hatches = {"single": "", "work": "//", "tables": "..", "unlimited": "xx"}
    for place, method in enumerate(COMPARED):
        budgets = [name for name in BUDGETS if name in problem["methods"][method]["matched"]]
        for number, budget in enumerate(budgets):
            found = problem["methods"][method]["matched"][budget]
            if not found:
                continue
            part = found["recovery"]
            across = place + (number - (len(budgets) - 1) / 2) * 0.2
            error = [[part["mean"] - part["low"]], [part["high"] - part["mean"]]]
            style = {
                "color": COLOURS[method],
                "edgecolor": "white",
                "hatch": hatches[budget] if len(budgets) > 1 else "",
            }
            axes.bar(across, part["mean"], 0.19 if len(budgets) > 1 else 0.4, yerr=error, capsize=2, **style)
    for budget, hatch in hatches.items():
        axes.bar(np.nan, np.nan, color="#777777", edgecolor="white", hatch=hatch, label=BUDGETS[budget])
    axes.set_xticks(range(len(COMPARED)), [SHORT[method] for method in COMPARED])
    axes.set_ylim(0, 1.03)
    axes.set_ylabel("recovery accuracy at 10")
    axes.set_title(f"{problem['title']}: {problem['target']:.0%} of the items discarded")
    axes.grid(axis="y", alpha=0.25)
    axes.set_axisbelow(True)
    _legend_below(figure, 2)
    return figure


def _near(problem: dict[str, Any], method: str) -> dict[str, Any] | None:
    """A method at the target: ours as it is, baselines with look-ups as few as ours."""
    parts = problem["methods"][method]["matched"]
    found: dict[str, Any] | None = parts.get("tables") or parts["unlimited"]
    return found


def _histograms(plt: Any, problem: dict[str, Any]) -> Any:
    figure, panels = plt.subplots(1, len(COMPARED), figsize=(11, 3), sharey=True, layout="constrained")
    for axes, method in zip(panels, COMPARED, strict=True):
        found = _near(problem, method)
        axes.set_title(SHORT[method].replace("-\n", "-").replace("\n", " "), fontsize=9)
        axes.set_xlim(0, 100)
        if found is None:
            axes.text(50, 0.5, "does not\nreach it", ha="center", transform=axes.get_xaxis_transform())
            continue
        shares = 100 * np.array(found["histogram"]) / max(1, sum(found["histogram"]))
        edges = np.linspace(0, 100, len(shares) + 1)
        axes.bar(edges[:-1], shares, np.diff(edges), align="edge", color=COLOURS[method])
        axes.axvline(100 * found["near"]["discarded"], color="#444444", linewidth=1, linestyle=":")
    panels[0].set_ylabel("users (%)")
    figure.supxlabel("items discarded (%); dotted: mean", fontsize=10)
    figure.suptitle(problem["title"], fontsize=11)
    return figure


def _means(plt: Any, problem: dict[str, Any]) -> Any:
    figure, axes = plt.subplots(figsize=(7, 3.8), layout="constrained")
    for place, method in enumerate(COMPARED):
        found = _near(problem, method)
        if found:
            near = found["near"]
            style = {"color": COLOURS[method], "capsize": 4, "ecolor": "#444444"}
            axes.bar(place, 100 * near["discarded"], 0.6, yerr=100 * near["discarded_sd"], **style)
            text = f"recovers\n{near['recovery']['mean']:.2f}"
            axes.text(place, 3, text, ha="center", fontsize="small", color="white", fontweight="bold")
    axes.set_xticks(range(len(COMPARED)), [SHORT[method] for method in COMPARED])
    axes.set_ylim(0, 105)
    axes.set_ylabel("items discarded, mean and s.d. (%)")
    axes.set_title(problem["title"])
    axes.grid(axis="y", alpha=0.25)
    axes.set_axisbelow(True)
    return figure


def _popularity(problem: dict[str, Any], method: str) -> list[dict[str, float]]:
    found = _near(problem, method)
    return [] if found is None else found.get("by_popularity", [])


def _popularities(plt: Any, problem: dict[str, Any]) -> Any:
    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    labels: list[str] = []
    for method in COMPARED:
        parts = _popularity(problem, method)
        if parts:
            labels = [f"{part['from']}-{part['to']}" for part in parts]
            style = {"color": COLOURS[method], "marker": MARKS[method], "label": METHODS[method]}
            axes.plot([part["recovery"] for part in parts], **style)
    axes.set_xticks(range(len(labels)), labels)
    axes.set_xlabel("ratings of the item (fifths of all true top-10 places)")
    axes.set_ylabel("recovery accuracy at 10")
    axes.set_ylim(0, 1.03)
    axes.set_title(f"{problem['title']}, about {problem['target']:.0%} discarded")
    axes.grid(alpha=0.25)
    _legend_below(figure, 3)
    return figure


def _times(plt: Any, rows: list[dict[str, Any]], title: str) -> Any:
    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    styles = {
        METHODS["weighted"]: (COLOURS["weighted"], "D", "-"),
        METHODS["exact"]: (COLOURS["exact"], "*", ""),
        "NumPy brute force": (COLOURS["srp"], "s", ""),
    }
    for name, (colour, mark, line) in styles.items():
        points = [(1e6 * row["seconds"], row["recall"]) for row in rows if row["method"] == name]
        axes.plot(*np.array(points).T, color=colour, marker=mark, linestyle=line or "none", label=name, markersize=7)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("{x:g}")
    axes.tick_params(axis="x", which="minor", labelsize="x-small")
    axes.set_xlabel("time of a query, one thread, in a batch (microseconds)")
    axes.set_ylabel("recall at 10")
    axes.set_title(title)
    axes.grid(alpha=0.25, which="both")
    _legend_below(figure, 3)
    return figure
