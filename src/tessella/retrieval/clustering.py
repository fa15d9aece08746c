"""Learn cluster centres by k-means (P14).

Points are assigned by integer codes, and centres are summed in a fixed order. So the result depends on the points and
the seed, but not on threads or SIMD levels.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tessella._norms import squared_norms

SEEDING_ROUNDS = 4
ROUNDS = 8

Assign = Callable[[NDArray[np.float32], NDArray[np.float32]], NDArray[np.int32]]


def learn_centres(points: NDArray[np.float32], n: int, seed: int, assign: Assign) -> NDArray[np.float32]:
    """Return at most n different centres of some points; `assign` returns the nearest centre of each point."""
    centres = _seeds(points, n, np.random.default_rng(seed), assign)
    nearest = np.full(len(points), -1, np.int32)
    for _ in range(ROUNDS):
        before, nearest = nearest, assign(points, centres)
        if np.array_equal(before, nearest):
            break
        centres = _means(points, nearest, centres)
    return np.unique(centres, axis=0)


def _seeds(points: NDArray[np.float32], n: int, rng: np.random.Generator, assign: Assign) -> NDArray[np.float32]:
    """Choose initial centres: some at random, then in rounds, preferring points far from all centres so far."""
    chosen = points[rng.permutation(len(points))[: max(1, n // SEEDING_ROUNDS)]]
    while len(chosen) < n:
        far = _squared_distances(points, chosen, assign)
        candidates = np.flatnonzero(far > 0)
        if not candidates.size:  # every point is a centre
            break
        count = min(max(1, n // SEEDING_ROUNDS), n - len(chosen), candidates.size)
        weights = far[candidates] / far[candidates].sum()
        chosen = np.concatenate([chosen, points[rng.choice(candidates, count, replace=False, p=weights)]])
    return np.unique(chosen, axis=0)


def _squared_distances(
    points: NDArray[np.float32], centres: NDArray[np.float32], assign: Assign
) -> NDArray[np.float64]:
    return squared_norms(points - centres[assign(points, centres)])


def _means(
    points: NDArray[np.float32], nearest: NDArray[np.int32], centres: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return the mean of the points of each centre; centres without points move to the points farthest from theirs."""
    order = np.argsort(nearest, kind="stable")
    used, starts, counts = np.unique(nearest[order], return_index=True, return_counts=True)
    moved = centres.copy()
    moved[used] = np.add.reduceat(points[order], starts, axis=0, dtype=np.float64) / counts[:, None]
    idle = np.setdiff1d(np.arange(len(centres)), used)
    if idle.size:
        far = squared_norms(points - moved[nearest])
        moved[idle] = points[np.argsort(-far, kind="stable")[: idle.size]]
    return moved
