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


def draw_clusters(path: Path) -> None:
    """Which part does what on the two engines for several machines."""
    figure, panels = plt.subplots(1, 2, figsize=(13, 5.6), layout="constrained")
    for axes, title in zip(panels, ("Spark: top k for all users", "OpenSearch: live serving"), strict=True):
        axes.set(xlim=(0, 10), ylim=(0, 9))
        axes.set_title(title, fontsize=13)
        axes.set_axis_off()
    _draw_spark(panels[0])
    _draw_opensearch(panels[1])
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _draw_spark(axes: mpl.axes.Axes) -> None:
    _box(axes, 0.3, 6.9, 2.8, 1.5, "item factors\na DataFrame", COLOURS[7])
    _box(axes, 4.1, 6.9, 2.6, 1.5, "index, built once\nand saved", COLOURS[0])
    _box(axes, 7.3, 6.9, 2.5, 1.5, "one file, shipped\nor on a shared path", COLOURS[7])
    _box(axes, 0.3, 2.6, 2.2, 2.6, "user factors\na DataFrame\nof partitions", COLOURS[7])
    for row, name in enumerate(("executor 1", "executor 2", "executor n")):
        low = 4.5 - 1.6 * row
        _box(axes, 4.1, low, 3.0, 1.3, f"{name}\nthe file, memory-mapped", COLOURS[2])
        _arrow(axes, (2.5, 3.9), (4.1, low + 0.65), "mapInArrow" if row == 0 else "", aside=(0.0, 0.95))
        _arrow(axes, (7.1, low + 0.65), (7.9, 3.4))
    _box(axes, 7.9, 2.4, 1.9, 2.0, "answers\nid, array of\n(id, rating)", COLOURS[7])
    _arrow(axes, (3.1, 7.65), (4.1, 7.65))
    _arrow(axes, (6.7, 7.65), (7.3, 7.65))
    _arrow(axes, (8.5, 6.9), (6.3, 5.8), "once a worker", aside=(1.5, -0.15))
    axes.text(
        5, 0.35, "many users at once; blocks of items where they are too many for one file", ha="center", fontsize=10
    )


def _draw_opensearch(axes: mpl.axes.Axes) -> None:
    _box(axes, 0.2, 6.9, 2.7, 1.5, "clients that write\nadd, update, remove", COLOURS[7])
    _box(axes, 7.1, 6.9, 2.7, 1.5, "clients that search\nmap, ask, score again", COLOURS[7])
    _box(axes, 3.9, 6.9, 2.2, 1.5, "alias\nreindex moves it", COLOURS[1])
    for column, (name, first, second) in enumerate((("node 1", "1", "3"), ("node 2", "2", "1"), ("node 3", "3", "2"))):
        left = 0.2 + 3.3 * column
        axes.add_patch(plt.Rectangle((left, 1.0), 3.0, 4.4, fill=False, edgecolor="#555555", linewidth=1.2))
        axes.text(left + 1.5, 5.05, name, ha="center", va="center", fontsize=11)
        _box(
            axes,
            left + 0.2,
            3.0,
            2.6,
            1.7,
            f"shard {first}, primary\nslots: rank_features\nk-NN script scores",
            COLOURS[0],
        )
        _box(axes, left + 0.2, 1.3, 2.6, 1.4, f"shard {second}, replica\nthe same again", COLOURS[4])
        _arrow(axes, (5.0, 6.9), (left + 1.5, 5.4))
    _arrow(axes, (2.9, 7.65), (3.9, 7.65), "bulk")
    _arrow(axes, (7.1, 7.65), (6.1, 7.65), "search")
    axes.text(5, 0.35, "a query goes to one copy of each shard; a change to all copies", ha="center", fontsize=10)


def _box(axes: mpl.axes.Axes, left: float, low: float, width: float, height: float, text: str, colour: str) -> None:
    rounded = "round,pad=0.02,rounding_size=0.15"
    box = mpl.patches.FancyBboxPatch(
        (left, low), width, height, boxstyle=rounded, facecolor=mpl.colors.to_rgba(colour, 0.25), edgecolor=colour
    )
    axes.add_patch(box)
    axes.text(left + width / 2, low + height / 2, text, ha="center", va="center", fontsize=9.5)


def _arrow(
    axes: mpl.axes.Axes,
    start: tuple[float, float],
    end: tuple[float, float],
    text: str = "",
    aside: tuple[float, float] = (0.0, 0.15),
) -> None:
    axes.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": "#333333", "shrinkA": 0, "shrinkB": 1})
    if text:
        axes.text(
            (start[0] + end[0]) / 2 + aside[0], (start[1] + end[1]) / 2 + aside[1], text, ha="center", fontsize=8.5
        )


def main() -> None:
    """Write the page and the pictures."""
    mpl.use("Agg")
    PAGE.write_text(page_with_table(PAGE.read_text()))
    images = DOCS / "images"
    images.mkdir(exist_ok=True)
    draw_circles(images / "circle.png")
    draw_spheres(images / "sphere.png")
    draw_clusters(images / "scale.png")
    print(cosine_table(), end="")
    print(f"wrote {PAGE.name}, circle.png, sphere.png, scale.png")


if __name__ == "__main__":
    main()
