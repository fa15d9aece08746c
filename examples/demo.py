"""Map generated factors and see what the sparse map does: how sparse it is, and whom it brings together."""

import argparse
import time
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

import tessella as ts

ANGLES = np.arange(0, 181, 15)
SLOT_MAPS = {"OneHot": ts.OneHot(), "ParseTree(2)": ts.ParseTree(2), "CounterTree": ts.CounterTree()}


def pairs_at(angle: float, n: int, k: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Random unit factors, and others at an angle to them."""
    one = rng.standard_normal((n, k))
    one /= np.linalg.norm(one, axis=1, keepdims=True)
    other = rng.standard_normal((n, k))
    other -= np.sum(one * other, axis=1, keepdims=True) * one
    other /= np.linalg.norm(other, axis=1, keepdims=True)
    return one, np.cos(np.radians(angle)) * one + np.sin(np.radians(angle)) * other


def shared_slots(one: np.ndarray, two: np.ndarray, mapper: ts.SparseMap) -> np.ndarray:
    """How many slots the two factors of each pair share."""
    patterns = (mapper.transform(factors) != 0 for factors in (one, two))
    return np.asarray(next(patterns).multiply(next(patterns)).sum(axis=1)).ravel()


def show_sparsity(k: int, threshold: float, rng: np.random.Generator) -> None:
    """Print how sparse the maps of 100,000 factors are."""
    factors = rng.standard_normal((100_000, k), dtype=np.float32)
    print(f"100,000 Gaussian factors of {k} coordinates, Ternary tiles, threshold {threshold} x root mean square\n")
    print(f"{'slot map':<14}{'slots':>8}{'entries/factor':>15}{'zeros':>10}{'seconds':>10}")
    ts.SparseMap().transform(factors)  # the first call pays for loading
    for name, slot_map in SLOT_MAPS.items():
        start = time.perf_counter()
        phi = ts.SparseMap(ts.Schema(ts.Ternary(), slot_map, threshold=threshold)).fit_transform(factors)
        seconds = time.perf_counter() - start
        zeros = 1 - phi.nnz / np.prod(phi.shape)
        print(f"{name:<14}{phi.shape[1]:>8,}{phi.nnz / len(factors):>15.2f}{zeros:>10.3%}{seconds:>10.3f}")


def show_overlap(k: int, threshold: float, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Print shared slots against the angle between two factors; the share of pairs with any, by slot map."""
    print("\nSlots that two factors at an angle share: mean number, and how many pairs share any")
    print(f"(threshold {threshold} x the factor's own root mean square)\n")
    print(f"{'angle':>7}" + "".join(f"{name:>22}" for name in SLOT_MAPS))
    shares = {name: np.empty(len(ANGLES)) for name in SLOT_MAPS}
    for row, angle in enumerate(ANGLES):
        one, two = pairs_at(angle, 4000, k, rng)
        line = f"{angle:>6}°"
        for name, slot_map in SLOT_MAPS.items():
            schema = ts.Schema(ts.Ternary(), slot_map, threshold=threshold, threshold_kind="relative")
            shared = shared_slots(one, two, ts.SparseMap(schema))
            shares[name][row] = np.mean(shared > 0)
            line += f"{shared.mean():>13.2f}{np.mean(shared > 0):>9.1%}"
        print(line)
    print("\nFrom a threshold of about 0.8 on, every stored coordinate has a tile value of +-1;")
    print("OneHot and CounterTree then agree on what is shared.")
    return shares


def draw(shares: dict[str, np.ndarray], k: int, threshold: float, path: Path) -> None:
    """Save the shares as a picture."""
    mpl.use("Agg")
    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    styles = zip(("#0072B2", "#D55E00", "#009E73"), ("o", "s", "."), (9, 6, 7), strict=True)
    for (name, share), (colour, marker, size) in zip(shares.items(), styles, strict=True):
        axes.plot(ANGLES, 100 * share, color=colour, marker=marker, markersize=size, markerfacecolor="none", label=name)
    axes.set_xlabel("angle between two factors (degrees)")
    axes.set_ylabel("pairs that share a slot (%)")
    axes.set_title(
        f"Close factors meet in the sparse map, opposite ones do not\n{k} coordinates, threshold {threshold}"
    )
    axes.set_xticks(ANGLES[::2])
    axes.set_ylim(-3, 103)
    axes.grid(alpha=0.3)
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def main() -> None:
    """Run the demonstration."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--factors", type=int, default=32, help="coordinates of a factor (default: 32)")
    parser.add_argument("--threshold", type=float, default=1.3, help="multiple of the root mean square (default: 1.3)")
    parser.add_argument("--out", type=Path, default=Path("demo/overlap.png"), help="where to save the picture")
    options = parser.parse_args()
    ts.show_config()
    print()
    rng = np.random.default_rng(0)
    show_sparsity(options.factors, options.threshold, rng)
    shares = show_overlap(options.factors, options.threshold, rng)
    draw(shares, options.factors, options.threshold, options.out)
    print(f"\nPicture saved to {options.out}")


if __name__ == "__main__":
    main()
