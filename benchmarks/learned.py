"""Learn factors for benchmarks: of a million items, and wide ones; see benchmarks/README.md.

The published interactions of Gowalla are expanded to about a million items, and implicit's ALS and BPR are trained on
them. The wide sets are trained on Gowalla itself. Sets are written to the folder named in TESSELLA_BENCH_CACHE (or
~/.cache/tessella-bench); existing ones are kept.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import factor_statistics
import measure
import numpy as np
import scipy.sparse
import scipy.sparse.linalg
import sets

SEED = 12
USER_BLOCKS, ITEM_BLOCKS = 8, 25  # the outer factor of the expansion
TIMES = 28.4  # by how much the expansion multiplies the number of interactions
CONTRAST = 3.0  # a larger power makes blocks differ more in how many interactions they keep
SHUFFLED_USERS, SHUFFLED_ITEMS = 0.5, 0.25  # shares that are permuted within a block
HELD_OUT = 0.01  # share of the interactions that models do not see
KEPT_USERS = 20_000


class Model(NamedTuple):
    """What to train: a name, the data, and a function from interactions to factors of items and users."""

    name: str
    data: str
    train: Callable[[scipy.sparse.csr_matrix], sets.Factors]


def als(n_factors: int, iterations: int, alpha: float = 20.0) -> Callable[[scipy.sparse.csr_matrix], sets.Factors]:
    """Return a function that trains implicit's ALS."""

    def train(interactions: scipy.sparse.csr_matrix) -> sets.Factors:
        from implicit.cpu.als import AlternatingLeastSquares  # noqa: PLC0415

        model = AlternatingLeastSquares(factors=n_factors, alpha=alpha, iterations=iterations, random_state=SEED)
        model.fit(interactions)
        return sets.Factors(model.item_factors, model.user_factors)

    return train


def bpr(n_factors: int, iterations: int, rate: float = 0.05) -> Callable[[scipy.sparse.csr_matrix], sets.Factors]:
    """Return a function that trains implicit's BPR, on one thread, since with more the factors would vary."""

    def train(interactions: scipy.sparse.csr_matrix) -> sets.Factors:
        from implicit.cpu.bpr import BayesianPersonalizedRanking  # noqa: PLC0415

        model = BayesianPersonalizedRanking(
            factors=n_factors, learning_rate=rate, iterations=iterations, random_state=SEED, num_threads=1
        )
        model.fit(interactions)
        return sets.Factors(model.item_factors, model.user_factors)

    return train


MODELS = (
    Model("gowalla-x-als-1m", "expanded", als(64, 8)),
    Model("gowalla-x-bpr-1m", "expanded", bpr(64, 30, 0.15)),  # much like 100 rounds at 0.05, in less time
    Model("gowalla-als-k128", "gowalla", als(128, 8)),
    Model("gowalla-bpr-k128", "gowalla", bpr(128, 100)),
    Model("gowalla-als-k256", "gowalla", als(256, 8)),
    Model("gowalla-bpr-k256", "gowalla", bpr(256, 100)),
)


def gowalla() -> scipy.sparse.csr_matrix:
    """Return the check-ins as a matrix of users x places."""
    matrix = scipy.sparse.csr_matrix(scipy.sparse.load_npz(sets.DATA / "gowalla" / "train.npz"), dtype=np.float32)
    matrix.data[:] = 1
    return matrix


def reduced(interactions: scipy.sparse.csr_matrix, rng: np.random.Generator) -> np.ndarray:
    """Return a small copy of the interactions; each number is the share that a block of the expansion keeps.

    Users and items are sorted by a singular vector, that is, by taste, and divided into groups of equal size. The
    interactions between groups are summed, balanced over users and items, varied, and scaled.
    """
    left, _, right = scipy.sparse.linalg.svds(interactions, k=2, v0=rng.standard_normal(min(interactions.shape)))
    groups = [np.empty(n, np.int64) for n in interactions.shape]
    for group, taste, n_groups in zip(groups, (left[:, 0], right[0]), (USER_BLOCKS, ITEM_BLOCKS), strict=True):
        group[np.argsort(taste, kind="stable")] = np.arange(len(group)) * n_groups // len(group)
    users, items = interactions.nonzero()
    outer = np.zeros((USER_BLOCKS, ITEM_BLOCKS))
    np.add.at(outer, (groups[0][users], groups[1][items]), 1.0)
    outer **= CONTRAST
    for _ in range(50):
        outer /= outer.sum(axis=0)
        outer /= outer.sum(axis=1, keepdims=True)
    outer *= rng.lognormal(0, 0.5, outer.shape)
    low, high = 0.0, TIMES / outer.max() * 1e6
    for _ in range(200):  # find the scale at which the clipped numbers have the required sum
        middle = (low + high) / 2
        low, high = (middle, high) if np.minimum(middle * outer, 1).sum() < TIMES else (low, middle)
    return np.minimum(low * outer, 1.0)


def blocks(interactions: scipy.sparse.csr_matrix) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield users and items of the expanded interactions, block by block."""
    rng = np.random.default_rng(SEED)
    n_users, n_items = interactions.shape
    users, items = interactions.nonzero()
    outer = reduced(interactions, rng)
    for i, j in np.ndindex(outer.shape):
        kept = rng.random(len(users)) < outer[i, j]
        yield (
            i * n_users + _partly_shuffled(n_users, SHUFFLED_USERS, rng)[users[kept]],
            j * n_items + _partly_shuffled(n_items, SHUFFLED_ITEMS, rng)[items[kept]],
        )


def _partly_shuffled(n: int, share: float, rng: np.random.Generator) -> np.ndarray:
    places = np.arange(n)
    moving = np.flatnonzero(rng.random(n) < share)
    places[moving] = rng.permutation(moving)
    return places


def expanded() -> scipy.sparse.csr_matrix:
    """Return a randomised Kronecker product of a reduced copy of Gowalla and Gowalla, without empty rows and columns.

    This follows Belletti et al., Scalable realistic recommendation datasets through fractal expansions (2019), like the
    data of MLPerf's recommendation benchmark. Every block is a copy in which some interactions are dropped, and some
    users and items are permuted.
    """
    once = gowalla()
    users, items = (np.concatenate(parts) for parts in zip(*blocks(once), strict=True))
    shape = (USER_BLOCKS * once.shape[0], ITEM_BLOCKS * once.shape[1])
    matrix = scipy.sparse.coo_matrix((np.ones(len(users), np.float32), (users, items)), shape).tocsr()
    matrix.data[:] = 1
    matrix = matrix[np.diff(matrix.indptr) > 0]
    present = np.bincount(matrix.indices, minlength=matrix.shape[1]) > 0
    return matrix[:, np.flatnonzero(present)]


def split(interactions: scipy.sparse.csr_matrix) -> tuple[scipy.sparse.csr_matrix, np.ndarray, np.ndarray]:
    """Split interactions into those to learn from, and users and items of those held out."""
    rng = np.random.default_rng(SEED)
    users, items = interactions.nonzero()
    out = rng.random(len(users)) < HELD_OUT
    shape = interactions.shape
    kept = scipy.sparse.csr_matrix((np.ones(int((~out).sum()), np.float32), (users[~out], items[~out])), shape)
    return kept, users[out], items[out]


def ranked_right(factors: sets.Factors, users: np.ndarray, items: np.ndarray, others: np.ndarray) -> float:
    """Return how often a held-out item scores more than another item; 0.5 is chance."""
    asked = factors.users[users]
    gain = np.einsum("ij,ij->i", asked, factors.items[items]) - np.einsum("ij,ij->i", asked, factors.items[others])
    return float(np.mean(gain > 0))


def save(name: str, factors: sets.Factors, interactions: scipy.sparse.csr_matrix) -> None:
    """Store all items and some users, with what these users have seen."""
    rng = np.random.default_rng(SEED)
    users = np.sort(rng.permutation(len(factors.users))[:KEPT_USERS])
    folder = sets.CACHE / name
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "users.npy", np.ascontiguousarray(factors.users[users], np.float32))
    scipy.sparse.save_npz(folder / "seen.npz", interactions[users])
    unfinished = folder / "unfinished.npy"
    np.save(unfinished, np.ascontiguousarray(factors.items, np.float32))
    unfinished.rename(folder / "items.npy")  # a set is complete once its items exist


def statistics(factors: sets.Factors) -> str:
    """Describe the lengths of items, and the effective rank of their second moment."""
    low, high, highest = factor_statistics.lengths_over_median(factors.items, 10, 90, 99)
    rank = factor_statistics.effective_rank(factors.items)
    return (f"{len(factors.items):,} x {factors.items.shape[1]}, 10%, 90%, 99% of lengths over their median {low:.2f} "
            f"{high:.2f} {highest:.2f}, effective rank {rank:.1f}")  # fmt: skip


def learn(names: list[str]) -> None:
    """Train the sets that do not exist yet."""
    data: dict[str, tuple[scipy.sparse.csr_matrix, np.ndarray, np.ndarray]] = {}
    for model in MODELS:
        if model.name not in names:
            continue
        if (sets.CACHE / model.name / "items.npy").exists():
            print(f"{model.name} exists: {statistics(sets.learned(model.name))}")
            continue
        if model.data not in data:
            start = time.perf_counter()
            data[model.data] = split(expanded() if model.data == "expanded" else gowalla())
            matrix = data[model.data][0]
            degrees = np.bincount(matrix.indices, minlength=matrix.shape[1])
            print(f"{model.data}: {matrix.shape[0]:,} users x {matrix.shape[1]:,} items, {matrix.nnz:,} interactions; "
                  f"per item, median, 99% and most are {np.median(degrees):.0f} {np.percentile(degrees, 99):.0f} "
                  f"{degrees.max():,}, in {time.perf_counter() - start:.0f} s", flush=True)  # fmt: skip
        matrix, users, items = data[model.data]
        print(f"{model.name}: learning", flush=True)
        start = time.perf_counter()
        factors = model.train(matrix)
        save(model.name, factors, matrix)
        others = np.random.default_rng(SEED).integers(matrix.shape[1], size=len(items))
        print(f"{model.name}: {statistics(factors)}; of held-out items "
              f"{ranked_right(factors, users, items, others):.3f} score more than another, "
              f"{ranked_right(factors, *_seen_pairs(matrix, len(items)), others):.3f} of those learned from; "
              f"{time.perf_counter() - start:.0f} s", flush=True)  # fmt: skip


def _seen_pairs(matrix: scipy.sparse.csr_matrix, n: int) -> tuple[np.ndarray, np.ndarray]:
    places = np.sort(np.random.default_rng(SEED).integers(matrix.nnz, size=n))
    return np.searchsorted(matrix.indptr, places, side="right") - 1, matrix.indices[places]


def main() -> None:
    """Learn all sets, or the given ones."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [model.name for model in MODELS]
    parser.add_argument("names", nargs="*", metavar="SET", help=f"which sets, of {', '.join(names)}; all by default")
    options = parser.parse_args()
    if unknown := set(options.names) - set(names):
        sys.exit(f"There is no set {min(unknown)!r}; sets are {', '.join(names)}.")
    if not Path(sets.DATA / "gowalla" / "train.npz").exists():
        sys.exit(f"{sets.DATA} does not contain gowalla/train.npz, so nothing can be learned.")
    measure.settle_process()
    print(f"sets are written to {sets.CACHE}")
    learn(options.names or names)


if __name__ == "__main__":
    main()
