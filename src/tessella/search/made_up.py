"""Made-up queries: directions like users' factors, made from items, for those who pass no queries of their own."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tessella._norms import squared_norms
from tessella._numbers import LARGEST_PRODUCT
from tessella.versions.version import Version

SAMPLE = 2_000  # queries of all kinds
MOST_LIKED = 0.01  # of the queries' items, so that one that is far too long does not stand for all
LEAST_SPREAD = 1e-9  # of an axis, squared, beside the largest
ITEMS_FOR_AXES = 2**14


class Kind(NamedTuple):
    """A kind of made-up query."""

    weights: tuple[float, ...]  # of the items that a query is a mix of
    noise: float  # length of what no item explains, beside the mix; spread over the axes as items are
    power: int  # of the items' spread that every principal axis is divided by


KINDS = (Kind((1, 1), 0.5, 0), Kind((1, 0.2), 0.0, 1))


def made_up_queries(version: Version, seed: int = 0) -> list[NDArray[np.float32]]:
    """Samples of queries like users' factors, made from items: several kinds, since nobody knows which fits.

    A user is a mix of the directions of one or two items, the longer the likelier, but none likelier than 1 in 100.
    Gradient steps leave it about so, with something of everything else; least squares divide every principal axis by
    the items' spread along it. The axes are those of the items there are, not of those the index was fitted to.
    """
    rng = np.random.default_rng(seed)
    positions = np.concatenate([segment.live + base for segment, base in version.parts()])
    lengths = np.concatenate([np.sqrt(squared_norms(segment.factors))[segment.live] for segment in version.segments])
    for _ in range(8):
        lengths = np.minimum(lengths, lengths.sum() * MOST_LIKED)
    likely = lengths / lengths.sum() if lengths.sum() > 0 else None
    basis, spread = _axes(version, positions)
    length = min(1.0, 0.1 * LARGEST_PRODUCT / max(version.longest, 1.0))  # so that products with the longest items fit
    samples = []
    for weights, noise, power in KINDS:
        n = SAMPLE // len(KINDS)
        drawn = positions[rng.choice(len(positions), (n, len(weights)), p=likely)]
        mixed = np.tensordot(_directions(version.factors_at(drawn).astype(np.float64)), weights, (1, 0))
        rest = _directions((rng.standard_normal((n, len(spread))) * spread) @ basis.T)
        mixed = _directions(mixed) + noise * rest
        evened = length * _directions(mixed @ (basis * spread**-power) @ basis.T)  # only directions matter
        samples.append(np.ascontiguousarray(evened, np.float32))
    return samples


def _axes(version: Version, positions: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The principal axes of items, and how far they are spread along each, beside the longest."""
    evenly = np.linspace(0, len(positions) - 1, min(ITEMS_FOR_AXES, len(positions))).astype(np.int64)
    some = version.factors_at(positions[evenly]).astype(np.float64)
    some /= max(float(np.abs(some).max()), 1e-300)
    squares, basis = np.linalg.eigh(some.T @ some)
    if squares.max() <= 0:
        return basis, np.ones_like(squares)
    return basis, np.sqrt(np.maximum(squares / squares.max(), LEAST_SPREAD))


def _directions(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Vectors with the length 1, if they have any."""
    directions: NDArray[np.float64] = vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-30)
    return directions
