"""The methods that a race compares: libraries, their indexes, and the settings of each."""

import importlib.util
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

T = TypeVar("T")


@dataclass(frozen=True)
class Built:
    """An index: how long it took to build, and how large it is."""

    seconds: float
    n_bytes: Callable[[], int]
    bytes_are: str  # "arrays" in memory, or "serialised"


@dataclass(frozen=True)
class Method:
    """One library at one setting.

    `search(queries, k, threads)` returns ids, -1 for missing answers. `single(query, k)` runs one query of shape
    (n_factors,) on one thread, in the form that is fastest from Python.
    """

    family: str
    setting: str
    built: Built
    search: Callable[[np.ndarray, int, int], np.ndarray]
    single: Callable[[np.ndarray, int], object]
    fits: Callable[[int], bool] = lambda _k: True  # the k for which it makes sense

    @property
    def name(self) -> str:
        """Library and setting."""
        return f"{self.family}, {self.setting}" if self.setting else self.family


Ladder = list[Method]  # methods over one index; each finds more than the one before, and takes longer


@dataclass(frozen=True)
class Family:
    """A library with one kind of index; `ladders(item_factors, threads)` builds its indexes and yields the settings."""

    name: str
    package: str
    ladders: Callable[[np.ndarray, int], Iterator[Ladder]]
    slow_to_build: bool = False  # many minutes for a million items

    @property
    def installed(self) -> bool:
        """Whether its package is installed."""
        return importlib.util.find_spec(self.package) is not None


def timed(build: Callable[[], T]) -> tuple[T, float]:
    """Return the result of a call, and its seconds."""
    start = time.perf_counter()
    made = build()
    return made, time.perf_counter() - start


def augmented(item_factors: np.ndarray) -> np.ndarray:
    """Add a coordinate that makes items equally long, so that the nearest are those with the largest products."""
    squares = np.sum(item_factors.astype(np.float64) ** 2, axis=1)
    rest = np.sqrt(np.maximum(squares.max() - squares, 0))
    return np.ascontiguousarray(np.hstack([item_factors, rest[:, None]]), dtype=np.float32)


def widened(factors: np.ndarray, width: int) -> np.ndarray:
    """Append a zero coordinate to factors: the users for augmented items."""
    if factors.shape[1] == width:
        return factors
    wide = np.zeros((len(factors), width), np.float32)
    wide[:, : factors.shape[1]] = factors
    return wide
