"""Write performance.md from the latest lines that `make bench-peers` and `make profile` appended to their results."""

import json
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "benchmarks" / "results"
Line = dict[str, Any]

INTRODUCTION = """# Performance

Written by `docs/make_performance.py` from the latest results of `make bench-peers` and `make profile`, which anyone can
run again. Only ratios of one run are claims: machines differ, and this one is shared. What is measured, and how
peers are tuned: [benchmarks/README.md](../benchmarks/README.md)."""

CURVES = """Every setting that was tried, up and to the right is better (`make curves` draws all sets):

![Recall and throughput, implicit ALS with alpha 20](images/race-als-alpha20.png)

![Recall and throughput, implicit BPR](images/race-bpr.png)"""

FLOOR = """## The floor

A query cannot do less than code itself, compare its code with every centre and with the items of the tiles it visits,
and score the few items that remain. An AVX2 core takes in 32 coded coordinates an instruction, so a coded row of 64
needs two multiplications, two additions and their loads: two cycles, 0.7 ns at 3 GHz. A score reads 256 bytes, four
cache lines, from wherever they are. The table says what both took: a coded row about two and a half times its floor, of
which the bounds in float32 and the memory are the rest, and a score as long as its lines are on their way. Sharing
tiles among more queries, and factors in the order of tiles, are what could bring both nearer."""


def lines(name: str) -> list[Line]:
    """The results of one benchmark, oldest first."""
    path = RESULTS / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def latest(found: list[Line], *keys: str) -> list[Line]:
    """The last line for each combination of some keys."""
    kept = {tuple(line.get(key) for key in keys): line for line in found}
    return list(kept.values())


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    cells = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in cells)


def described(point: Line) -> str:
    """A way at a setting, with its recall and speed."""
    named = " ".join(filter(None, (point["family"], point["setting"])))
    return f"{named}: {point['recall']:.4f}, {point['queries_per_second']:,.0f}"


def race(found: list[Line]) -> str:
    """Best of ours over the best peer, at equal recall."""
    rows = []
    for line in found:
        for claim in line["claims"]:
            ours, peer = claim["ours"], claim["peer"]
            rows.append(
                [
                    line["set"],
                    str(line["threads"]),
                    f"{claim['level']:.2f}",
                    f"**{claim['ratio']:.2f}**",
                    f"{claim['auto_ratio']:.2f}" if "auto_ratio" in claim else "",
                    described(ours).removeprefix("tessella "),
                    described(peer),
                ]
            )
    head = ["set", "threads", "recall@10 at least", "ours over best peer", "auto over best peer"]
    return table([*head, "ours: way, recall, queries/s", "best peer: setting, recall, queries/s"], rows)


def latency(found: list[Line]) -> str:
    """Single queries from Python."""
    rows = []
    for line in found:
        ours, peer = (line["microseconds"][line[side]] for side in ("ours", "peer"))
        rows.append(
            [
                line["set"],
                f"{ours[0]:.0f}",
                f"{ours[1]:.0f}",
                f"{line['peer']}: {peer[0]:.0f}",
                f"**{line['over_best_peer']:.2f}**",
                f"{line['slow_over_median']:.1f}",
            ]
        )
    head = ["set", "ours, median us", "ours, 99% us", "best peer, median us", "ours over peer", "our 99% over median"]
    return table(head, rows)


def profile(found: list[Line]) -> str:
    """Microseconds of every part of a tile search."""
    parts = list(found[0]["parts"])
    rows = [
        [
            line["set"],
            f"{line['recall']:.4f}",
            f"**{1e6 * line['seconds']:.2f}**",
            *(f"{1e6 * line['parts'][part]:.2f}" for part in parts),
            f"{1e9 * line['coded_row']:.1f}",
            f"{1e9 * line['score']:.0f}",
        ]
        for line in found
    ]
    return table(["set", "recall", "all, us", *parts, "a coded row, ns", "a score, ns"], rows)


def figures(line: Line) -> str:
    """The plain figures of a line, in words."""
    kept = {key: value for key, value in line.items() if isinstance(value, int | float | str) and key != "part"}
    return ", ".join(f"{key.replace('_', ' ')} {_short(value)}" for key, value in kept.items())


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def page() -> str:
    """The whole page."""
    peers, profiles = lines("peers"), lines("profile")
    if not peers or not profiles:
        sys.exit("There are no results yet: run make bench-peers and make profile first.")
    by_part: dict[str, list[Line]] = {}
    for line in peers:
        by_part.setdefault(line["part"], []).append(line)
    machine = profiles[-1]["machine"]
    seen = f"Seen on {machine['cpu']}, {machine['cpus']} CPUs, {machine['simd']}, tessella {machine['tessella']}."
    sections = [INTRODUCTION, seen]
    if "race" in by_part:
        sections += [
            "## The race, in turns with the best peer",
            race(latest(by_part["race"], "set", "threads")),
            CURVES,
        ]
    if "latency" in by_part:
        sections += ["## Single queries from Python", latency(latest(by_part["latency"], "set"))]
    for part in ("growth", "everyone", "churn", "build", "memory"):
        rows = latest(by_part.get(part, []), "set", "way", "threads", "kind", "n_items", "n_factors", "family")
        if rows:
            sections += [f"## {part.capitalize()}", "\n".join(f"- {figures(row)}" for row in rows)]
    sections += ["## Where the time of a tile search goes, at a recall of 0.95, one thread"]
    sections += [profile(latest(profiles, "set")), FLOOR]
    return "\n\n".join(sections) + "\n"


if __name__ == "__main__":
    (DOCS / "performance.md").write_text(page())
