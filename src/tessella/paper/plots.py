"""The paper's figures and two more, drawn from the numbers of a run. Needs matplotlib (the `plots` extra)."""

from pathlib import Path
from typing import Any

import numpy as np

from tessella.paper.claims import at_target, headline_problems
from tessella.paper.document import OPENING_FIGURE, Figure
from tessella.paper.final_lists import BRUTE_FORCE, NAMES
from tessella.paper.frontiers import BUDGETS
from tessella.paper.methods import BASELINES, METHODS

# Okabe and Ito's palette, which is safe for colour-blind readers; lines also differ in markers.
COLOURS = {
    "ours": "#D55E00",
    "weighted": "#CC79A7",
    "exact": "#000000",
    "srp": "#0072B2",
    "superbit": "#56B4E9",
    "concomitant": "#009E73",
    "pca-tree": "#E69F00",
    BRUTE_FORCE: "#777777",
}
MARKS = {
    "ours": "o",
    "weighted": "D",
    "exact": "*",
    "srp": "s",
    "superbit": "^",
    "concomitant": "v",
    "pca-tree": "P",
    BRUTE_FORCE: "X",
}
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
_MANY_TABLES = "best baseline, many tables"
_SHOWN_SHARES = (0.4, 1.0)  # by the opening figure
CAPTIONS = {
    "curve": "Recovery accuracy against the share of items discarded. Methods are compared at the dotted line.",
    "bars": "Recovery accuracy where every method discards the same share; error bars are 95% intervals over users.",
    "histogram": "Distribution over users of the share of items discarded, at the setting nearest to the target.",
    "mean": "The mean share discarded at that setting; error bars show one standard deviation over users.",
    "time": "Measured time of a query against the recall of its final list. Upper left is better.",
    "popularity": "Recovery of the true top 10, by how often the items were rated, in fifths.",
}


def pyplot() -> Any:
    """Return matplotlib's pyplot, configured to draw to files."""
    try:
        import matplotlib as mpl  # noqa: PLC0415 - an extra
        import matplotlib.pyplot as plt  # noqa: PLC0415
    except ImportError:
        raise ImportError("figures need matplotlib; install it with pip install 'tessella[plots]'.") from None
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


def draw(results: dict[str, Any], times: dict[str, Any], folder: Path) -> list[tuple[str, Figure]]:
    """Draw every figure as PNG and SVG into a folder; return each figure with the name of its problem.

    Parameters
    ----------
    results : dict
        The numbers of a run.
    times : dict
        Its measured times.
    folder : Path
        An existing folder to write to.
    """
    plt = pyplot()
    drawn = []
    for name, problem in results["problems"].items():
        figures = {kind: function(plt, problem) for kind, function in _FIGURES.items()}
        figures["time"] = _times(plt, times[name], problem["title"], one_thread=results["one_thread"])
        if _popularity(problem, "ours"):
            figures["popularity"] = _popularities(plt, problem)
        for kind, figure in figures.items():
            figure.savefig(folder / f"{name}-{kind}.png", dpi=130, metadata={"Software": None})
            figure.savefig(folder / f"{name}-{kind}.svg", metadata={"Date": None, "Creator": None})
            plt.close(figure)
            drawn.append((name, Figure(f"{name}-{kind}", f"{problem['title']}. {CAPTIONS[kind]}")))
    return drawn


def draw_opening(results: dict[str, Any], folder: Path) -> Figure:
    """Draw the figure that the report opens with, as PNG; its name and caption.

    Parameters
    ----------
    results : dict
        The numbers of a run, or their summary.
    folder : Path
        Where to; it exists.
    """
    plt = pyplot()
    shown = [results["problems"][name] for name in headline_problems(results)]
    figure, panels = plt.subplots(
        1, len(shown), figsize=(4.9 * len(shown), 4.8), sharey=True, squeeze=False, layout="constrained"
    )
    for axes, problem in zip(panels[0], shown, strict=True):
        _opening_panel(axes, problem)
    panels[0, 0].set_ylabel("recovery accuracy at 10")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles[::-1], labels[::-1], loc="outside lower center", ncols=3, frameon=False, fontsize="small")
    figure.savefig(folder / f"{OPENING_FIGURE.name}.png", dpi=160, facecolor="white", metadata={"Software": None})
    plt.close(figure)
    return OPENING_FIGURE


def _opening_panel(axes: Any, problem: dict[str, Any]) -> None:
    """Ours, the baselines with no more look-ups than ours, and the best of the baselines with many tables."""
    shares = np.linspace(*_SHOWN_SHARES, 301)
    lines = [np.array(problem["methods"][method]["frontier"]["unlimited"]) for method in BASELINES]
    tops = [np.interp(shares, line[:, 0], line[:, 1], right=np.nan) for line in lines if len(line)]
    if tops:
        best = np.fmax.reduce(tops)
        axes.plot(100 * shares, best, color="#444444", linewidth=1.4, linestyle="--", label=_MANY_TABLES)
    for method in reversed(COMPARED):  # ours on top
        parts = problem["methods"][method]["frontier"]
        line = np.array(parts["unlimited" if method == "ours" else "tables"])
        if len(line):
            wide = {"linewidth": 2.8, "markersize": 6} if method == "ours" else {"linewidth": 1.4, "markersize": 5}
            edge = COLOURS[method] if MARKS[method] == "P" else "white"  # which would hide a plus
            style = {"color": COLOURS[method], "marker": MARKS[method], "markeredgecolor": edge, **wide}
            axes.plot(100 * line[:, 0], line[:, 1], label=METHODS[method], **style)
    axes.axvline(100 * problem["target"], color="#555555", linewidth=1, linestyle=":")
    axes.set_title(problem["title"])
    axes.set_xlabel("items discarded, mean over users (%)")
    axes.set_xlim(*(100 * share for share in _SHOWN_SHARES))
    axes.set_ylim(0, 1.03)
    axes.grid(alpha=0.25)


def _legend_below(figure: Any, columns: int) -> None:
    figure.legend(loc="outside lower center", ncols=columns, frameon=False, fontsize="small")


def _curves(plt: Any, problem: dict[str, Any]) -> Any:
    """Draw frontiers; those of baselines once with as few look-ups as ours, and once with many tables."""
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


def _histograms(plt: Any, problem: dict[str, Any]) -> Any:
    figure, panels = plt.subplots(1, len(COMPARED), figsize=(11, 3), sharey=True, layout="constrained")
    for axes, method in zip(panels, COMPARED, strict=True):
        found = at_target(problem, method, "tables")
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
        found = at_target(problem, method, "tables")
        if found:
            near = found["near"]
            style = {"color": COLOURS[method], "capsize": 4, "ecolor": "#444444"}
            axes.bar(place, 100 * near["discarded"], 0.6, yerr=100 * near["discarded_sd"], **style)
            text = f"recovers\n{near['recovery']['mean']:.2f}"
            axes.text(place, 3, text, ha="center", fontsize="small", color="black", fontweight="bold")
    axes.set_xticks(range(len(COMPARED)), [SHORT[method] for method in COMPARED])
    axes.set_ylim(0, 105)
    axes.set_ylabel("items discarded, mean and s.d. (%)")
    axes.set_title(problem["title"])
    axes.grid(axis="y", alpha=0.25)
    axes.set_axisbelow(True)
    return figure


def _popularity(problem: dict[str, Any], method: str) -> list[dict[str, float]]:
    found = at_target(problem, method, "tables")
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


def _times(plt: Any, rows: list[dict[str, Any]], title: str, *, one_thread: bool) -> Any:
    from matplotlib.ticker import LogLocator, NullFormatter  # noqa: PLC0415 - an extra

    figure, axes = plt.subplots(figsize=(7, 4.6), layout="constrained")
    for method, name in NAMES.items():
        kinds = ("tables", "unlimited") if method in BASELINES else (None,)
        for budget in kinds:
            points = [
                (1e6 * row["seconds"], row["tie_aware_recall"])
                for row in rows
                if row["method"] == method and row["budget"] == budget
            ]
            if points:
                label = name if budget is None else f"{name}, {'few' if budget == 'tables' else 'many'} look-ups"
                style = {"color": COLOURS[method], "marker": MARKS[method], "label": label, "markersize": 7}
                filled = "none" if budget == "unlimited" else "full"
                line = "-" if len(points) > 1 else "none"
                axes.plot(*np.array(points).T, linestyle=line, fillstyle=filled, **style)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(f"time of a query in a batch, {'one thread' if one_thread else 'all threads'} (microseconds)")
    axes.set_ylabel("tie-aware recall at 10")
    axes.set_ylim(0, 1.03)
    axes.set_title(title)
    axes.grid(alpha=0.25, which="both")
    _legend_below(figure, 2)
    return figure


_FIGURES = {"curve": _curves, "bars": _bars, "histogram": _histograms, "mean": _means}
