"""Write performance.md from the latest results of `make bench-peers` and `make profile`."""

import json
import re
import statistics
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "benchmarks" / "results"
README = DOCS.parent / "README.md"
LIBRARIES = ("tessella", "faiss", "ScaNN", "hnswlib", "usearch", "voyager", "implicit")  # the columns of README's table
README_SETS = {"ALS": "gowalla-als-alpha20-k64", "BPR": "gowalla-bpr-k64"}
Line = dict[str, Any]

INTRODUCTION = """# Performance

`docs/make_performance.py` writes this page from the latest results of `make bench-peers` and `make profile`, which
anyone can rerun. Only ratios within one run are claims, because machines differ and this one is shared. Some figures
have a goal beside them, with the word "missed" if it is not met. [benchmarks/README.md](../benchmarks/README.md) says
what is measured and how peers are tuned."""

RACE = """The tables show how many times as fast as the best peer tessella is, with up to 2,000 queries per call and
k = 10. At each recall, our three fastest settings and those of the peers take turns. At 0.95, "auto" also takes part:
an index built with the default settings. A ratio is the median over turns. On this machine two threads share caches,
and the host is noisy. Our best setting and the best peer are chosen for each number of threads, but "auto" is one
index that chose its method on one thread. So the two ratios may change differently from one thread to two."""

CURVES = """Every setting that was tried. Up and to the right is better (`make curves` draws all sets):

![Recall and throughput, implicit ALS with alpha 20](images/race-als-alpha20.png)

![Recall and throughput, implicit BPR](images/race-bpr.png)"""

LATENCY = """The time of a single call from Python in microseconds (us), with one thread, k = 10, and 1,000 float32
queries without filters. Every library runs at its fastest setting that reaches the recall."""

STRETCHES = """Each library in turn answers 100 queries, one per call, as in a service. A few calls before each turn are
not counted."""

FLAT = """How many times as fast as faiss's brute force our exact search is, measured in turns on one thread with
k = 10:"""

SCALE = """How much longer a query takes on a million learned items, with our fastest method that has a recall of at
least 0.95, on one thread with k = 10."""

DEPTH = """How many times as fast as the best peer tessella is for larger k, on one thread with up to 2,000 queries per
call. Every peer is tuned at that k, and "auto" is an index that planned for that k without being given users. The
gowalla-x sets have a million items, with factors learned from expanded check-ins (`make learned`)."""

WIDE = """Factors of 128 and 256 coordinates, learned from Gowalla's check-ins, on one thread with k = 10."""

FILTERS = """Searches with filters on one thread with k = 10, in an index that planned for a recall of 0.95."""

PROMISE = """An index is built with `method="auto"` for a target recall, with or without users to measure on. Then other
users search it by its plan. Cells show their mean recall; a figure in bold is more than 0.005 below the target. "Seen
left out" excludes the items each user has actually seen. "Best 100 left out" excludes each user's 100 best items."""

GROW = """A tile index starts with a tenth of the items and receives the others through `add`, 500 at a time. It is
compared with a fresh build. Both use the reach that the fresh build needs for a recall of 0.95, on one thread with
k = 10."""

BUILD_MEMORY = (
    """Peak memory of `Index.build` in a separate process, without the factors passed in, relative to their size:"""
)

GROWTH = """The time of a query as the number of items and coordinates grows, with our fastest method that has a recall
of at least 0.95, on one thread with up to 2,000 queries per call."""

EVERYONE = """The top 10 for every user of a set, without the items the user has seen: with implicit's `recommend`, with
our exact search, and with our fastest method that has a recall of at least 0.99. Times and ratios are separate medians
over turns, so a ratio may differ from the quotient of two times."""

CHURN = """One thread replaces a tenth of the items, 50 at a time without a pause, while another thread searches.
"Throughput kept" is the search throughput during the changes over that before them. Figures are medians over rounds,
except "recall lost": the largest loss of any round, compared with a fresh build."""

BUILD = """Seconds to build an index with the default settings, including its tiles and the measurement for a recall of
0.95, and to build an inverted file of faiss, on all cores."""

MEMORY = """Bytes per item, including factors, and seconds to build. Our sizes are those of the arrays in memory; those
of most peers are the size of the serialised index."""

PROFILE = """Microseconds (us) per query of each part, in batches on one thread, at the reach tuned for a recall of
0.95."""

FLOOR = """## The floor

A query must at least code itself, compare its code with every centre and with the items of the tiles it visits, and
score the few items that remain. An AVX2 core processes 32 coded coordinates per instruction, so a coded row of 64 needs
two multiplications, two additions and their loads: two cycles, or 0.7 ns at 3 GHz. A score reads 256 bytes, which is
four cache lines that may be anywhere in memory. The table shows the measured times. A coded row takes about two and a
half times its floor; float32 bounds and memory access account for the rest. A score takes as long as its cache lines
take to arrive. Sharing tiles among more queries, and storing factors in the order of tiles, could reduce both."""

AUTO_GOAL = 1.2
EVERYONE_GOALS = {"exact": 3.0, "0.99": 5.0}
QUERY_BY_QUERY = ("90fe3d0", "22ddc38")  # commits at which single queries were not yet timed in stretches


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


def measured(found: list[Line], *keys: str) -> str:
    """The commits at which lines were measured; if there are several, with the lines of each, named by some keys."""
    names: dict[str, list[str]] = {}
    for line in found:
        name = " ".join(_label(key, line[key]) for key in keys if key in line)
        names.setdefault(line["machine"]["commit"], []).append(name or "the ratio")
    if len(names) == 1:
        return f"Measured at commit {next(iter(names))}."
    each = (f"{commit} ({', '.join(dict.fromkeys(those))})" for commit, those in names.items())
    return f"Measured at commits {'; '.join(each)}."


def _label(key: str, value: Any) -> str:
    if key == "told":
        return "users given" if value else "no users"
    number = f"{value:,}" if isinstance(value, int) else str(value)
    return {"k": "k = ", "n_factors": "x "}.get(key, "") + number


def beside(value: float, *, least: float = -float("inf"), most: float = float("inf"), digits: int = 2) -> str:
    """A figure with its goal, and whether it is missed."""
    goal = f"at most {most:g}" if most < float("inf") else f"at least {least:g}"
    return f"**{value:.{digits}f}** (goal {goal}{'' if least <= value <= most else ', missed'})"


def named(point: Line) -> str:
    """A method at a setting."""
    return " ".join(filter(None, (point["family"], point["setting"])))


def described(point: Line) -> str:
    """A method at a setting, with its recall and speed."""
    return f"{named(point)}: {point['recall']:.4f}, {point['queries_per_second']:,.0f}"


def race(found: list[Line]) -> str:
    """Best of ours over the best peer, at equal recall."""
    rows = [
        [
            line["set"],
            str(line["threads"]),
            f"{claim['level']:.2f}",
            beside(claim["ratio"], least=claim["goal"]),
            auto(claim, AUTO_GOAL),
            described(claim["ours"]).removeprefix("tessella "),
            described(claim["peer"]),
        ]
        for line in found
        for claim in line["claims"]
    ]
    head = ["set", "threads", "recall@10 at least", "ours over best peer", "auto over best peer, its recall"]
    shown = table([*head, "ours: method, recall, queries/s", "best peer: setting, recall, queries/s"], rows)
    flat = [line for line in found if "over_flat" in line and line["threads"] == 1]
    if not flat:
        return shown
    ratios = table(["set", "exact over faiss Flat"], [[line["set"], over_flat(line)] for line in flat])
    return f"{shown}\n\n{FLAT}\n\n{ratios}"


def over_flat(line: Line) -> str:
    """Exact search over faiss's brute force, with its goal where it has one."""
    goal = line["over_flat_goal"]
    return f"**{line['over_flat']:.2f}**" if goal is None else beside(line["over_flat"], least=goal)


def depth(found: list[Line]) -> str:
    """Best of ours over the best peer for each k."""
    rows = [
        [
            line["set"],
            str(line["k"]),
            f"{claim['level']:.2f}",
            beside(claim["ratio"], least=claim["goal"]),
            auto(claim, claim.get("auto_goal")),
            over_flat(line) if claim is line["claims"][0] and "over_flat" in line else "",
            described(claim["ours"]).removeprefix("tessella "),
            described(claim["peer"]),
        ]
        for line in found
        for claim in line["claims"]
    ]
    head = ["set", "k", "recall at least", "ours over best peer", "auto over best peer, its recall"]
    more = ["exact over faiss Flat", "ours: method, recall, queries/s", "best peer: setting, recall, queries/s"]
    return table([*head, *more], rows)


def filters(found: list[Line]) -> str:
    """What filters cost, and allow lists against faiss."""
    kinds = {kind: [line for line in found if line["kind"] == kind] for kind in ("exclude", "single", "shared", "own")}
    forms = ("lists", "arrays", "CSR")
    single = {line["set"]: line["ratio"] for line in kinds["single"]}
    excluded = [
        [
            line["set"],
            *(f"{beside(line[form]['over_unfiltered'], least=0.65)}, {line[form]['recall']:.4f}" for form in forms),
            beside(single[line["set"]], most=2.0) if line["set"] in single else "",
        ]
        for line in kinds["exclude"]
    ]
    head = [f"{form}: throughput over that without a filter, recall" for form in forms]
    shared = [
        [
            line["set"],
            f"{line['share']:.1%}",
            f"{line['over_flat']:.2f}, {line['recall']:.4f}",
            beside(line["exact_over_flat"], least=line["goal"]),
            f"{beside(line['over_selector'], least=5.0, digits=1)}, {line['selector_recall']:.4f}",
        ]
        for line in kinds["shared"]
    ]
    shares = sorted({line["share"] for line in kinds["own"]})
    rates = {(line["set"], line["share"]): line for line in kinds["own"]}
    names = dict.fromkeys(line["set"] for line in kinds["own"])
    own = [[name, *(_rate(rates.get((name, share))) for share in shares)] for name in names]
    flat_head = ["throughput over faiss Flat, recall", "exact search over faiss Flat"]
    parts = [
        "Fifty ids excluded for each query, passed as lists, as arrays or as a CSR matrix:",
        table(["set", *head, "single query: time over that without a filter"], excluded),
        "One list of allowed items for all queries. faiss Flat is an index built beforehand of only these items:",
        table(["set", "allowed", *flat_head, "over faiss IVF with a selector, its recall"], shared),
        "A list of allowed items for each query, by the share of items allowed: queries per second and recall.",
        table(["set", *(f"{share:.1%}" for share in shares)], own),
    ]
    return "\n\n".join(parts + [_own_memory(line) for line in found if line["kind"] == "own memory"])


def _rate(line: Line | None) -> str:
    return "" if line is None else f"{line['queries_per_second']:,.0f}, {line['recall']:.4f}"


def _own_memory(line: Line) -> str:
    return (
        f"{line['n_queries']:,} queries, each with its own list of {line['n_ids']:,} of {line['n_items']:,} items, on "
        f"all threads: {line['seconds']:.1f} s, {line['cpu_seconds'] / line['seconds']:.1f} CPUs busy, at most "
        f"{line['grown'] / 2**20:,.0f} MB in addition to the {line['given'] / 2**20:,.0f} MB of the ids."
    )


def promise(found: list[Line]) -> str:
    """Recall had, by filter and k, for every promise."""
    rows = []
    for line in found:
        for title, cells in line["cells"].items():
            shown = (_had(cell["recall"], line["target"]) for cell in cells.values())
            first = [line["set"], f"{line['target']:.2f}", "given" if line["told"] else "none", title]
            rows.append([*first, *shown, f"{max(cell['few'] for cell in cells.values()):.3f}"])
    ks = [f"k = {k}" for k in next(iter(found[0]["cells"].values()))]
    return table(["set", "target", "users", "filter", *ks, "share of users below 0.8, worst k"], rows)


def _had(recall: float, target: float) -> str:
    return f"{recall:.4f}" if recall >= target - 0.005 else f"**{recall:.4f}**"


def grow(found: list[Line]) -> str:
    """Grown indexes, and memory of builds."""
    rows = [
        [
            line["set"],
            f"{line['n_items']:,}",
            line["method"],
            beside(line["kept"], least=0.8),
            f"{line['recall']['grown']:.4f}, {line['recall']['fresh']:.4f}",
        ]
        for line in found
        if "kept" in line and "set" in line
    ]
    built = [
        [f"{line['n_items']:,} x 64", line["method"], beside(line["peak_over_factors"], most=2.5)]
        for line in found
        if "peak_over_factors" in line
    ]
    shown = table(["set", "items", "method", "throughput over a fresh build's", "recall, a fresh build's recall"], rows)
    return "\n\n".join([shown, BUILD_MEMORY, table(["factors", "method", "peak over the factors"], built)])


def auto(claim: Line, goal: float | None) -> str:
    """The automatic choice over the best peer, where it was measured."""
    if "auto_ratio" not in claim:
        return ""
    recall = claim["auto_recall"]
    short = "" if recall >= claim["level"] else ", missed"
    ratio = f"{claim['auto_ratio']:.2f}" if goal is None else beside(claim["auto_ratio"], least=goal)
    return f"{ratio}, {recall:.4f}{short}"


def latency(found: list[Line]) -> str:
    """Single queries from Python."""
    rows = []
    for line in found:
        if "over_best_peer" not in line:
            continue
        ours, peer = (line["microseconds"][line[side]] for side in ("ours", "peer"))
        rows.append(
            [
                line["set"],
                "0.95",
                line["ours"].removeprefix("tessella "),
                f"{ours[0]:.0f}",
                f"{ours[1]:.0f}",
                f"{line['peer']}: {peer[0]:.0f}, {peer[1]:.0f}",
                beside(line["over_best_peer"], most=line.get("goal", 0.7)),
                beside(line["slow_over_median"], most=3.0, digits=1),
            ]
        )
    head = ["set", "recall at least", "our method", "median us", "p99 us", "best peer: median us, p99 us"]
    shown = table([*head, "our median over the peer's", "our p99 over our median"], rows)
    older = dict.fromkeys(line["machine"]["commit"] for line in found if line["machine"]["commit"] in QUERY_BY_QUERY)
    how = f"At {' and '.join(older)}, libraries took turns after every query; at later commits, after 100 queries."
    return f"{how if older else STRETCHES}\n\n{shown}"


def growth(found: list[Line]) -> str:
    """Our time a query by items and factors, and how it grows."""
    sizes = latest([line for line in found if "n_items" in line], "kind", "n_items", "n_factors")
    rows = [
        [
            line["kind"],
            f"{line['n_items']:,}",
            str(line["n_factors"]),
            named(line).removeprefix("tessella "),
            f"{line['recall']:.4f}",
            f"{line['queries_per_second']:,.0f}",
            f"{1e6 / line['queries_per_second']:.1f}",
        ]
        for line in sizes
    ]
    shown = table(["factors", "items", "coordinates", "method", "recall", "queries/s", "us per query"], rows)
    ratios = [line["large_over_middle"] for line in found if "large_over_middle" in line]
    if not ratios:
        return shown
    return f"{shown}\n\nTime per query, 1,000,000 generated items over 100,000: {beside(ratios[-1], most=4.0)}."


def everyone(found: list[Line]) -> str:
    """All users against implicit."""
    rows = []
    for line in found:
        for method in ("implicit", "exact", "0.99"):
            if method in line:
                figures = line[method]
                goal = EVERYONE_GOALS.get(method)
                rows.append(
                    [
                        line["set"],
                        str(line["threads"]),
                        "implicit's recommend" if method == "implicit" else figures["setting"],
                        f"{figures['recall']:.4f}",
                        f"{figures['seconds']:.2f}",
                        "1" if goal is None else beside(figures["over_implicit"], least=goal, digits=1),
                    ]
                )
    return table(["set", "threads", "method", "recall", "seconds", "times as fast as implicit"], rows)


def churn(found: list[Line]) -> str:
    """Searches while items change."""
    rows = []
    for line in found:
        names = ("idle", "busy", "replaced_per_second", "recall", "fresh_recall")
        middle = {name: statistics.median(one[name] for one in line["rounds"]) for name in names}
        rows.append(
            [
                line["set"],
                line["method"],
                f"{middle['idle']:,.0f}",
                f"{middle['busy']:,.0f}",
                beside(line["kept"], least=0.6),
                f"{middle['replaced_per_second']:,.0f}",
                f"{middle['recall']:.4f}, {middle['fresh_recall']:.4f}",
                beside(line["lost"], most=0.01, digits=4),
            ]
        )
    head = ["set", "method", "queries/s before", "queries/s during changes", "throughput kept", "items replaced/s"]
    return table([*head, "recall, a fresh build's recall", "recall lost"], rows)


def build(found: list[Line]) -> str:
    """Build times."""
    rows = [
        [
            f"{line['n_items']:,} x 64",
            f"{line['seconds']['tessella auto']:.1f}",
            f"{line['seconds']['faiss IVF']:.1f} ({line['n_lists']:,} lists)",
            beside(line["ratio"], most=2.0),
        ]
        for line in found
    ]
    return table(["generated items", "ours, s", "faiss IVF, s", "ours over faiss"], rows)


def memory(found: list[Line]) -> str:
    """Sizes of every library's index, a column for each set."""
    sizes = [
        {name: part for name, part in line.items() if isinstance(part, dict) and "bytes_an_item" in part}
        for line in found
    ]
    families = dict.fromkeys(family for each in sizes for family in each)
    rows = [[family, *(_size(each.get(family)) for each in sizes)] for family in families]
    return table(["library", *(line["set"] for line in found)], rows)


def _size(part: Line | None) -> str:
    return "" if part is None else f"{part['bytes_an_item']:,.0f} B, {part['build_seconds']:.1f} s"


def profile(found: list[Line]) -> str:
    """Microseconds of every part of a tile search."""
    parts = list(dict.fromkeys(part for line in found for part in line["parts"]))
    rows = [
        [
            line["set"],
            f"{line['recall']:.4f}",
            f"**{1e6 * line['seconds']:.2f}**",
            *(f"{1e6 * line['parts'][part]:.2f}" if part in line["parts"] else "" for part in parts),
            f"{1e9 * line['coded_row']:.1f}",
            f"{1e9 * line['score']:.0f}",
        ]
        for line in found
    ]
    return table(["set", "recall", "total, us", *parts, "ns per coded row", "ns per score"], rows)


def scale(found: list[Line]) -> str:
    """Our time a query at scale over that on a smaller set of its kind."""
    rows = [[*line["sets"], beside(line["ratio"], most=line["goal"])] for line in found]
    return table(["large set", "small set", "time per query, large over small"], rows)


SECTIONS = (
    ("race", "The race, in turns with the best peer", RACE, race, ("set", "threads")),
    ("scale", "From 41,000 items to a million", SCALE, scale, ("part",)),
    ("latency", "Single queries from Python", LATENCY, latency, ("set",)),
    ("depth", "Many answers", DEPTH, depth, ("set", "k")),
    ("wide", "Wide factors", WIDE, depth, ("set", "k")),
    ("filters", "Filters", FILTERS, filters, ("set", "kind", "share")),
    ("promise", "Recall promised and reached", PROMISE, promise, ("set", "target", "told")),
    ("grow", "Growth by small adds, and memory of builds", GROW, grow, ("set", "method")),
    ("growth", "Growth", GROWTH, growth, ("kind", "n_items", "n_factors")),
    ("everyone", "Everyone", EVERYONE, everyone, ("set", "threads")),
    ("churn", "Churn", CHURN, churn, ("set", "method")),
    ("build", "Build", BUILD, build, ("n_items",)),
    ("memory", "Memory", MEMORY, memory, ("set",)),
    ("profile", "Where the time of a tile search goes", PROFILE, profile, ("set",)),
)


def page() -> str:
    """The whole page, with a section for each part that there are results of."""
    results = lines("peers") + [{"part": "profile", **line} for line in lines("profile")]
    if not results:
        sys.exit("There are no results yet: run make bench-peers and make profile first.")
    machine = results[-1]["machine"]
    seen = f"Measured on {machine['cpu']}, {machine['cpus']} CPUs, {machine['simd']}, tessella {machine['tessella']}."
    written = [INTRODUCTION, seen]
    for part, title, words, shown, keys in SECTIONS:
        found = latest([line for line in results if line["part"] == part], *keys)
        if found:
            named_by = [key for key in keys if key != "threads"]
            written += [f"## {title}", f"{words} {measured(found, *named_by)}", shown(found)]
            written += {"race": [CURVES], "profile": [FLOOR]}.get(part, [])
    return "\n\n".join(written) + "\n"


def throughput_row(name: str, found: Line) -> str:
    """README's row of one race: the fastest setting of each library with a recall of at least 0.95."""
    cells = []
    for library in LIBRARIES:
        own = [point for point in found["points"] if point["family"].split()[0] == library]
        speeds = [point["queries_per_second"] for point in own if point["recall"] >= 0.95]
        cells.append(f"{max(speeds):,.0f}" if speeds else "-")
    return f"| queries a second, {name} | {' | '.join(cells)} |"


def readme(text: str) -> str:
    """README with its throughput rows brought up to date."""
    races = {(line["set"], line["threads"]): line for line in lines("peers") if line["part"] == "race"}
    for name, chosen in README_SETS.items():
        row = throughput_row(name, races[chosen, 1])
        text = re.sub(rf"^\| queries a second, {name} \|.*$", lambda _, row=row: row, text, flags=re.MULTILINE)
    return text


if __name__ == "__main__":
    (DOCS / "performance.md").write_text(page())
    README.write_text(readme(README.read_text()))
