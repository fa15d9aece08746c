"""Factors for benchmarks: learned ones, if they are available, and generated ones.

Learned factors are items.npy and users.npy in factors/NAME of the folder named in TESSELLA_DATA (or ../shared/data), or
in NAME of the folder named in TESSELLA_BENCH_CACHE (or ~/.cache/tessella-bench), where learned.py writes them.
"""

import os
from pathlib import Path
from typing import NamedTuple, get_args

import numpy as np
import scipy.sparse

from tessella.datasets import Kind, generated_factors

DATA = Path(os.environ.get("TESSELLA_DATA", Path(__file__).parents[2] / "shared" / "data"))
CACHE = Path(os.environ.get("TESSELLA_BENCH_CACHE", Path.home() / ".cache" / "tessella-bench"))
LEARNED = ("gowalla-als-alpha20-k64", "gowalla-als-k64", "gowalla-bpr-k64")
EXPANDED = ("gowalla-x-als-1m", "gowalla-x-bpr-1m")
WIDE = ("gowalla-als-k128", "gowalla-als-k256", "gowalla-bpr-k128", "gowalla-bpr-k256")


class Factors(NamedTuple):
    """Item and user factors."""

    items: np.ndarray
    users: np.ndarray

    def sample(self, n_users: int, n_items: int | None = None) -> "Factors":
        """Return a sample of the users, and all or some of the items."""
        return Factors(
            np.ascontiguousarray(self.items[sampled_items(len(self.items), n_items)]),
            np.ascontiguousarray(self.users[sampled_users(len(self.users), n_users)]),
        )


def sampled_users(n_all: int, n_users: int) -> np.ndarray:
    """Return which users a sample has."""
    return np.random.default_rng(0).permutation(n_all)[:n_users]


def sampled_items(n_all: int, n_items: int | None) -> np.ndarray:
    """Return which items a sample has; None for all."""
    return np.sort(np.random.default_rng(1).permutation(n_all)[:n_items])


def learned_names() -> list[str]:
    """Return the names of the available sets of learned factors."""
    return sorted(path.parent.name for home in (DATA / "factors", CACHE) for path in home.glob("*/items.npy"))


def learned(name: str) -> Factors:
    """Load a set of learned factors."""
    return Factors(*(np.load(folder(name) / f"{part}.npy") for part in Factors._fields))


def seen(name: str) -> scipy.sparse.csr_matrix | None:
    """Return what the users of a set of learned factors have seen, users x items; None if it is not known."""
    path = folder(name) / "seen.npz"
    if not path.exists():
        path = DATA / name.split("-", maxsplit=1)[0] / "train.npz"
    return scipy.sparse.csr_matrix(scipy.sparse.load_npz(path)) if path.exists() else None


def folder(name: str) -> Path:
    """Return the folder of a set of learned factors."""
    kept = CACHE / name
    return kept if (kept / "items.npy").exists() else DATA / "factors" / name


def generated(n_items: int, n_factors: int = 64, n_users: int = 2000, kind: Kind = "als") -> Factors:
    """Generate factors that resemble learned ones."""
    return Factors(*generated_factors(n_items, n_users, n_factors, kind=kind))


def gaussian(n_items: int, n_factors: int, n_users: int = 2000) -> Factors:
    """Generate independent normal numbers, for which nothing beats a good scan."""
    rng = np.random.default_rng(0)
    return Factors(*(rng.standard_normal((n, n_factors), dtype=np.float32) for n in (n_items, n_users)))


MADE = {  # the number of items of each kind
    **{f"generated {kind}": 100_000 for kind in get_args(Kind)},
    "gaussian": 20_000,
    "clustered": 100_000,
    "cosine": 100_000,
}


def made(kind: str, n_items: int, n_factors: int, n_users: int) -> Factors:
    """Generate factors of a kind in MADE: "clustered" has skewed lengths, "cosine" equal lengths and few directions."""
    if kind == "gaussian":
        return gaussian(n_items, n_factors, n_users)
    if kind.startswith("generated"):
        return generated(n_items, n_factors, n_users, kind.split()[1])
    both = skewed(n_items + n_users, n_factors)
    if kind == "cosine":
        both /= np.linalg.norm(both, axis=1, keepdims=True)
    return Factors(both[:n_items], both[n_items:])


def skewed(n: int, k: int, seed: int = 0) -> np.ndarray:
    """Generate factors with skewed norms, clustered directions and a decaying spectrum."""
    rng = np.random.default_rng(seed)
    spectrum = (1 + np.arange(k)) ** -0.5
    centres = rng.standard_normal((200, k), dtype=np.float32)
    factors = centres[rng.integers(0, 200, n)] + 0.8 * rng.standard_normal((n, k), dtype=np.float32)
    return (factors * spectrum * rng.lognormal(0, 0.8, (n, 1))).astype(np.float32)
