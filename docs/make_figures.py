"""Make the table and the pictures of the pages on the paper and on scale anew: `make docs`."""

import re
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

import tessella as ts

DOCS = Path(__file__).parent
PAGE = DOCS / "how-it-works" / "paper-in-pictures.md"
BETWEEN = re.compile(r"(<!-- cosines -->\n).*?(<!-- end -->)", re.DOTALL)
SHOWN = {
    "Ternary(max_nonzeros=1)": ts.Ternary(1),
    "Ternary()": ts.Ternary(),
    "DAry(2)": ts.DAry(2),
    "DAry(3)": ts.DAry(3),
}
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")


def cosine_table(n: int = 2000, k: int = 64) -> str:
    """Mean cosine between random unit factors and their tiles, as Markdown."""
    factors = np.random.default_rng(0).standard_normal((n, k))
    factors /= np.linalg.norm(factors, axis=1, keepdims=True)
    tessellations = {
        "DAry(1), which is Ternary()": (ts.DAry(1), ts.DAry(1, algorithm="rounded")),
        "DAry(2)": (ts.DAry(2), ts.DAry(2, algorithm="rounded")),
        "DAry(4)": (ts.DAry(4), ts.DAry(4, algorithm="rounded")),
    }
    lines = ["| tiles | exact | rounded (Algorithm 4) |", "|---|---|---|"]
    for name, methods in tessellations.items():
        means = []
        for tessellation in methods:
            tiles = tessellation.tiles(factors).astype(np.float64)
            means.append(np.mean(np.sum(factors * tiles, axis=1) / np.linalg.norm(tiles, axis=1)))
        lines.append(f"| {name} | {means[0]:.3f} | {means[1]:.3f} |")
    return "\n".join(lines) + "\n"


def page_with_table(page: str) -> str:
    """The page with its table made anew."""
    return BETWEEN.sub(lambda found: found[1] + cosine_table() + found[2], page)


def numbered(tiles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct tiles, and which of them each row has."""
    vectors, numbers = np.unique(tiles, axis=0, return_inverse=True)
    return vectors, numbers.ravel()


def circle_colours(vectors: np.ndarray) -> list[str]:
    """Colours that alternate around the circle."""
    order = np.argsort(np.arctan2(vectors[:, 1], vectors[:, 0]))
    colours = [""] * len(vectors)
    for rank, number in enumerate(order):
        colours[number] = COLOURS[rank % 4]
    return colours


def draw_circles(path: Path) -> None:
    """The tiles of the circle (k = 2)."""
    angles = np.linspace(0, 2 * np.pi, 7201)
    points = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    figure, panels = plt.subplots(1, 4, figsize=(12, 3.5), layout="constrained")
    for axes, (name, tessellation) in zip(panels, SHOWN.items(), strict=True):
        vectors, numbers = numbered(tessellation.tiles(points))
        for number, (vector, colour) in enumerate(zip(vectors, circle_colours(vectors), strict=True)):
            inside = np.flatnonzero(numbers == number)
            gap = np.flatnonzero(np.diff(inside) > 1)
            inside = np.roll(inside, -gap[0] - 1) if gap.size else inside  # the tile across angle 0
            axes.plot(*points[inside].T, color=colour, linewidth=7, solid_capstyle="butt")
            axes.plot(*np.stack([np.zeros(2), vector / np.linalg.norm(vector)]).T, color=colour, linewidth=1)
        axes.set_title(f"{name}: {len(vectors)} tiles", fontsize=11)
        axes.set_aspect("equal")
        axes.set_axis_off()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def sphere_colours(vectors: np.ndarray) -> np.ndarray:
    """Colours such that tiles next to each other rarely look alike."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    near = np.argsort(-(unit @ unit.T), axis=1)[:, 1:7]
    chosen = np.full(len(vectors), -1)
    for number in np.lexsort(vectors.T):
        taken = set(chosen[near[number]]) | set(chosen[(near == number).any(axis=1)])
        free = [colour for colour in range(len(COLOURS)) if colour not in taken]
        chosen[number] = free[0] if free else number % len(COLOURS)
    return np.array([mpl.colors.to_rgb(colour) for colour in COLOURS])[chosen]


def draw_spheres(path: Path) -> None:
    """The tiles of the sphere (k = 3), seen from afar: each pixel is the point of the sphere in front of it."""
    across, up = np.meshgrid(np.linspace(-1, 1, 500), np.linspace(1, -1, 500))
    inside = across**2 + up**2 < 1
    seen = np.stack([across, up, np.sqrt(np.clip(1 - across**2 - up**2, 0, 1))], axis=-1)
    toward = np.array([0.75, 0.5, 0.43])  # the viewer's direction; the z axis points up
    toward /= np.linalg.norm(toward)
    right = np.cross([0, 0, 1], toward)
    right /= np.linalg.norm(right)
    points = seen @ np.stack([right, np.cross(toward, right), toward])
    shade = 0.6 + 0.4 * np.clip(seen @ np.array([-0.35, 0.5, 0.79]), 0, 1)
    figure, panels = plt.subplots(1, 4, figsize=(12, 3.5), layout="constrained")
    for axes, (name, tessellation) in zip(panels, SHOWN.items(), strict=True):
        everywhere = np.random.default_rng(0).standard_normal((200_000, 3))
        vectors, numbers = numbered(
            np.concatenate([tessellation.tiles(points.reshape(-1, 3)), tessellation.tiles(everywhere)])
        )
        colours = sphere_colours(vectors)[numbers[: inside.size]].reshape(points.shape) * shade[..., None]
        axes.imshow(np.where(inside[..., None], colours, 1), interpolation="antialiased")
        axes.set_title(f"{name}: {len(vectors)} tiles", fontsize=11)
        axes.set_axis_off()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_engines(path: Path) -> None:
    """What happens where on the two clusters; one above the other, so that phones show it in a readable size."""
    figure, (spark, opensearch) = plt.subplots(
        2, 1, figsize=(6.5, 8.9), height_ratios=(1, 1.12), gridspec_kw={"hspace": 0.04}
    )
    figure.subplots_adjust(left=0.02, right=0.98, top=0.99, bottom=0.01)
    titled = (spark, "Spark: all users, in a batch", 60), (opensearch, "OpenSearch: live serving", 67)
    for axes, title, height in titled:
        axes.set(xlim=(0, 100), ylim=(height, 0))
        axes.set_axis_off()
        axes.text(0, 3.2, title, fontsize=15, fontweight="bold", va="center", color=_INK)
    _draw_spark(spark)
    _draw_opensearch(opensearch)
    figure.savefig(path, dpi=200, facecolor="white")
    plt.close(figure)


_INK, _GREY, _BLUE, _GREEN, _ORANGE = "#1b2733", "#6b7785", "#0072B2", "#00805c", "#b86e00"
_EXECUTORS = ("executor 1", "executor 2", "executor 3")


def _draw_spark(axes: mpl.axes.Axes) -> None:
    _box(axes, (0, 8, 24, 12), "item factors", "a DataFrame", _GREY)
    _box(axes, (32.5, 8, 67.5, 12), "driver", "builds the index once, saves one file", _BLUE)
    _arrow(axes, (24, 14), (32.5, 14))
    _box(axes, (0, 29, 24, 27), "user factors", "a DataFrame;\nits rows stream\n(mapInArrow)", _GREY)
    _box(axes, (83, 29, 17, 27), "top k\nof each\nuser", "", _GREY)
    for row, name in enumerate(_EXECUTORS):
        top = 29 + 9.3 * row
        _box(axes, (32.5, top, 35, 8.4), name, "maps the file, searches", _GREEN)
        _arrow(axes, (24, top + 4.2), (32.5, top + 4.2))
        _arrow(axes, (67.5, top + 4.2), (73, top + 4.2))
    _box(axes, (73, 29, 6, 27), "", "", _ORANGE)
    axes.text(76, 42.5, "merge by user", rotation=90, ha="center", va="center", fontsize=11.5, color=_INK)
    _arrow(axes, (79, 42.5), (83, 42.5))
    _arrow(axes, (50, 20), (50, 29), "the file, shipped or on a shared path", (52.5, 24.5), "left")


def _draw_opensearch(axes: mpl.axes.Axes) -> None:
    _box(axes, (0, 8, 100, 10), "client", "maps queries to slots, sends them as one _msearch", _BLUE)
    for column in range(3):
        left = 34.5 * column
        _arrow(axes, (left + 15.5, 18), (left + 15.5, 24))
        frame = mpl.patches.FancyBboxPatch(
            (left, 24), 31, 30, boxstyle="round,pad=0,rounding_size=1.5", facecolor="#f5f7f9", edgecolor="#aab4be"
        )
        axes.add_patch(frame).set_clip_on(False)
        axes.text(left + 15.5, 27.2, f"node {column + 1}", ha="center", va="center", fontsize=11.5, color=_GREY)
        _box(axes, (left + 2, 30, 27, 14), f"shard {column + 1}", "inverted index,\nexact rescore", _GREEN)
        _box(axes, (left + 2, 46, 27, 6), "", f"replica of shard {(column - 1) % 3 + 1}", _GREEN, faint=True)
        _arrow(axes, (left + 15.5, 54), (left + 15.5, 57.5))
    _box(axes, (0, 57.5, 100, 9), "client", "merges the best k of all shards, in exact scores", _BLUE)


def _box(
    axes: mpl.axes.Axes,
    place: tuple[float, float, float, float],
    name: str,
    text: str,
    colour: str,
    *,
    faint: bool = False,
) -> None:
    """A box, by its left, top, width and height, with a name and what happens there."""
    left, top, width, height = place
    box = mpl.patches.FancyBboxPatch(
        (left, top), width, height, boxstyle="round,pad=0,rounding_size=1.2", linewidth=1.3, edgecolor=colour,
        facecolor=mpl.colors.to_rgba(colour, 0.04 if faint else 0.13), linestyle="--" if faint else "-",
    )  # fmt: skip
    axes.add_patch(box).set_clip_on(False)
    middle, line = left + width / 2, 3.7
    n_name, n_text = (len(part.splitlines()) for part in (name, text))
    at = top + height / 2 - line * (n_name + n_text) / 2
    for said, n, weight in ((name, n_name, "bold"), (text, n_text, "normal")):
        place_of = at + line * n / 2
        axes.text(middle, place_of, said, ha="center", va="center", fontsize=12, fontweight=weight, color=_INK)
        at += line * n


def _arrow(
    axes: mpl.axes.Axes,
    start: tuple[float, float],
    end: tuple[float, float],
    text: str = "",
    place: tuple[float, float] = (0.0, 0.0),
    align: str = "center",
) -> None:
    style = {"arrowstyle": "-|>", "color": _INK, "shrinkA": 0, "shrinkB": 0, "linewidth": 1.3, "mutation_scale": 13}
    axes.annotate("", end, start, arrowprops=style)
    if text:
        axes.text(*place, text, ha=align, va="center", fontsize=11.5, color=_INK)


def main() -> None:
    """Write the page and the pictures."""
    mpl.use("Agg")
    PAGE.write_text(page_with_table(PAGE.read_text()))
    images = DOCS / "images"
    images.mkdir(exist_ok=True)
    draw_circles(images / "circle.png")
    draw_spheres(images / "sphere.png")
    draw_engines(images / "engines.png")
    print(cosine_table(), end="")
    print(f"wrote {PAGE.name}, circle.png, sphere.png, engines.png")


if __name__ == "__main__":
    main()
