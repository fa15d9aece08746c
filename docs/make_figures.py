"""Make the table and the pictures of how-it-works.md anew: `make docs`."""

import re
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

import tessella as ts

DOCS = Path(__file__).parent
PAGE = DOCS / "how-it-works.md"
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


def main() -> None:
    """Write the page and the pictures."""
    mpl.use("Agg")
    PAGE.write_text(page_with_table(PAGE.read_text()))
    images = DOCS / "images"
    images.mkdir(exist_ok=True)
    draw_circles(images / "circle.png")
    draw_spheres(images / "sphere.png")
    print(cosine_table(), end="")
    print(f"wrote {PAGE.name}, circle.png, sphere.png")


if __name__ == "__main__":
    main()
