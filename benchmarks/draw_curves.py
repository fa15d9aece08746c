"""Draw recall against throughput from the latest run of every set in results/peers.jsonl, as PNG and SVG."""

import argparse
import json
import re
from collections.abc import Iterable
from pathlib import Path

import matplotlib as mpl
import measure

mpl.use("Agg")
import matplotlib.pyplot as plt

# Okabe and Ito's palette, which is safe for colour-blind readers, and a marker for each, for printing in grey.
LOOKS = {
    "tessella exact": ("#D55E00", "*"),
    "tessella slots": ("#D55E00", "v"),
    "tessella tiles": ("#D55E00", "o"),
    "tessella auto": ("#D55E00", "X"),
    "faiss Flat": ("#000000", "s"),
    "implicit topk": ("#666666", "P"),
    "faiss IVF ip": ("#56B4E9", "<"),
    "faiss IVF augmented": ("#0072B2", "o"),
    "faiss IVF-PQ refined": ("#0072B2", "d"),
    "ScaNN": ("#009E73", "^"),
    "hnswlib ip": ("#CC79A7", "h"),
    "hnswlib augmented": ("#CC79A7", "D"),
    "usearch ip": ("#E69F00", ">"),
    "voyager ip": ("#B5A000", "p"),
}
LOWEST = 0.8  # lower recalls are not shown


def draw(folder: Path = measure.RESULTS) -> list[Path]:
    """Draw the latest race of every set and thread count in a folder of results; return the files."""
    races: dict[tuple[str, int], dict] = {}
    for line in (folder / "peers.jsonl").read_text().splitlines():
        figures = json.loads(line)
        if figures["part"] == "race":
            races[figures["set"], figures["threads"]] = figures
    drawn = []
    for (name, threads), figures in races.items():
        title = f"{name}, {'one thread' if threads == 1 else f'{threads} threads'}, {figures['machine']['cpu']}"
        stem = re.sub(r"[^a-z0-9]+", "-", f"{name} {threads} threads".lower()).strip("-")
        drawn += draw_one(title, figures["points"], folder / "curves" / stem)
    return drawn


def frontier(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the pairs of recall and speed that no other beats in both, from low recall to high."""
    kept: list[tuple[float, float]] = []
    for recall, speed in sorted(points, reverse=True):
        if not kept or speed > kept[-1][1]:
            kept.append((recall, speed))
    return kept[::-1]


def draw_one(title: str, points: list[dict], stem: Path) -> list[Path]:
    """Draw one picture with every family's frontier."""
    figure, axes = plt.subplots(figsize=(9, 5.5), layout="constrained")
    for family in dict.fromkeys(point["family"] for point in points):
        own = [(p["recall"], p["queries_per_second"]) for p in points if p["family"] == family]
        line = [pair for pair in frontier(own) if pair[0] >= LOWEST]
        colour, marker = LOOKS.get(family, ("#999999", "."))
        ours = family.startswith("tessella")
        label = family if line else f"{family} (recall below {LOWEST:g})"
        recalls, speeds = [recall for recall, _ in line], [speed for _, speed in line]
        axes.plot(recalls, speeds, color=colour, marker=marker, label=label, zorder=3 if ours else 2,
                  linewidth=2.4 if ours else 1.2, markersize=10 if ours else 6, markeredgecolor="white",
                  markeredgewidth=0.6)  # fmt: skip
    for level in (0.90, 0.95, 0.99):
        axes.axvline(level, color="#BBBBBB", linewidth=0.8, linestyle=":", zorder=1)
    axes.set(xlim=(LOWEST, 1.003), xlabel="recall@10, tie-aware (to the right is better)",
             ylabel="queries a second, batches (higher is better)", yscale="log")  # fmt: skip
    axes.set_title(title, loc="left", fontsize=11)
    axes.grid(axis="y", which="major", color="#EEEEEE")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside right center", frameon=False, fontsize=9)
    stem.parent.mkdir(parents=True, exist_ok=True)
    files = [stem.with_suffix(kind) for kind in (".png", ".svg")]
    for file in files:
        figure.savefig(file, dpi=150)
    plt.close(figure)
    return files


def main() -> None:
    """Draw, and print where the files are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=measure.RESULTS, help="the folder of peers.jsonl")
    for path in draw(parser.parse_args().folder):
        print(path)


if __name__ == "__main__":
    main()
