"""Statistics that make factors easy or hard to search, for learned and generated sets, as a Markdown table."""

import argparse
from collections.abc import Callable, Iterator

import measure
import numpy as np
import sets

import tessella as ts

N_USERS = 2000
LIKE = {"als": sets.LEARNED[0], "als-heavy": sets.LEARNED[1], "bpr": sets.LEARNED[2], "flat": sets.EXPANDED[1]}


def effective_rank(factors: np.ndarray) -> float:
    """Return the effective rank: e to the power of the entropy of the second moment's spectrum."""
    wide = factors.astype(np.float64)
    shares = np.linalg.eigvalsh(wide.T @ wide)
    shares = shares[shares > 0] / shares.sum()
    return float(np.exp(-np.sum(shares * np.log(shares))))


def lengths_over_median(factors: np.ndarray, *percentages: float) -> list[float]:
    """Return percentiles of lengths divided by their median."""
    lengths = np.linalg.norm(factors, axis=1)
    return (np.percentile(lengths, percentages) / np.median(lengths)).tolist()


def of(factors: sets.Factors) -> dict[str, list[float]]:
    """Return figures by title."""
    items, users = factors
    users = np.ascontiguousarray(users[sets.sampled_users(len(users), N_USERS)])
    lengths, user_lengths = np.linalg.norm(items, axis=1), np.linalg.norm(users, axis=1)
    mean = items.mean(axis=0)
    with_mean = users @ mean / user_lengths / np.linalg.norm(mean)
    index = ts.Index.build(items, method="exact")
    ten, deep = (index.search(users, min(k, len(items))) for k in (10, 500))
    some = users[:200] @ items.T
    above = (ten.scores[:200, -1] - some.mean(axis=1)) / some.std(axis=1)
    slots = np.sort(np.bincount(ten.ids.ravel()))[::-1]
    cosines = ten.scores / user_lengths[:, None] / lengths[ten.ids]
    return {
        "effective rank of items, of users": [effective_rank(items), effective_rank(users)],
        "lengths of items over their median: 10%, 90%, 99%": lengths_over_median(items, 10, 90, 99),
        "coefficient of variation of these lengths": [float(lengths.std() / lengths.mean())],
        "lengths of users over their median: 10%, 90%, 99%": lengths_over_median(users, 10, 90, 99),
        "cosine of users with the mean item: 10%, 50%, 90%": np.percentile(with_mean, (10, 50, 90)).tolist(),
        "cosine of users with their ten best, median": [float(np.median(cosines))],
        "length of the ten best over the median item's": [float(np.median(lengths[ten.ids]) / np.median(lengths))],
        "share of top-10 slots that 100 items win": [float(slots[:100].sum() / slots.sum())],
        "tenth score above the mean, in standard deviations": [float(np.median(above))],
        "first and 500th score over the tenth": [float(np.median(ten.scores[:, 0] / ten.scores[:, -1])),
                                                 float(np.median(deep.scores[:, -1] / ten.scores[:, -1]))],
        "items scored by exact search, k = 10, k = 500": [float(ten.n_scored.mean()), float(deep.n_scored.mean())],
    }  # fmt: skip


def columns(only: str) -> Iterator[tuple[str, Callable[[], sets.Factors]]]:
    """Yield the available learned sets, each followed by generated factors of the same kind and size."""
    for kind, name in LIKE.items():
        if name in sets.learned_names() and only in name:
            yield name, lambda name=name: sets.learned(name)
            n_items = len(np.load(sets.folder(name) / "items.npy", mmap_mode="r"))
            title = f'"{kind}", {n_items:,}'
            yield title, lambda kind=kind, n_items=n_items: sets.generated(n_items, 64, N_USERS, kind)


def table(found: dict[str, dict[str, list[float]]]) -> str:
    """Format columns of figures in Markdown."""
    titles = next(iter(found.values()))
    rows = [[title, *(" ".join(map(shown, column[title])) for column in found.values())] for title in titles]
    return "\n".join("| " + " | ".join(row) + " |" for row in (["", *found], ["---"] * (len(found) + 1), *rows))


def shown(value: float) -> str:
    """Format a number with about three digits."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", metavar="SET", help="only learned sets whose names contain this")
    options = parser.parse_args()
    measure.settle_process()
    found = {name: of(factors()) for name, factors in columns(options.only)}
    print(table(found) if found else "There are no learned sets to compare with.")


if __name__ == "__main__":
    main()
