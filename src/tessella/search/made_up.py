"""Generated queries: vectors like users' factors, made from the items, for callers who pass no queries."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tessella._norms import squared_norms
from tessella._numbers import LARGEST_PRODUCT
from tessella.versions.version import Version

SAMPLE = 2_000  # queries, of all kinds together
MOST_LIKED = 0.01  # the largest probability of an item, so that one extremely long item does not dominate
LEAST_SPREAD = 1e-9  # squared, of an axis relative to the largest
ITEMS_FOR_AXES = 2**14


class Kind(NamedTuple):
    """A kind of generated query."""

    weights: tuple[float, ...]  # of the items mixed into a query
    noise: float  # length of random noise relative to the mix; spread over the axes like the items
    power: int  # each principal axis is divided by the items' spread along it to this power


KINDS = (Kind((1, 1), 0.5, 0), Kind((1, 0.2), 0.0, 1))


def made_up_queries(version: Version, seed: int = 0) -> list[NDArray[np.float32]]:
    """Generate samples of queries that resemble users' factors: several kinds, since the model is not known.

    A user is a mix of the directions of one or two items. Longer items are drawn more often, but none with a
    probability above 1%. Models trained by gradient steps give users like these, with some noise. Least squares also
    divides each principal axis by the items' spread along it. The axes are those of the current items, not of the items
    the index was fitted to.
    """
    rng = np.random.default_rng(seed)
    shares = _shares(version)
    basis, spread = _axes(version)
    length = min(1.0, 0.1 * LARGEST_PRODUCT / max(version.longest, 1.0))  # so that no product overflows
    samples = []
    for weights, noise, power in KINDS:
        n = SAMPLE // len(KINDS)
        shape = (n, len(weights))
        drawn = (
            rng.integers(version.n_live, size=shape)
            if shares is None
            else shares.searchsorted(rng.random(shape), side="right")
        )
        liked = version.factors_at(_positions(version, drawn))
        mixed = np.tensordot(_directions(liked.astype(np.float64)), weights, (1, 0))
        rest = _directions((rng.standard_normal((n, len(spread))) * spread) @ basis.T)
        mixed = _directions(mixed) + noise * rest
        evened = length * _directions(mixed @ (basis * spread**-power) @ basis.T)  # only directions matter
        samples.append(np.ascontiguousarray(evened, np.float32))
    return samples


def _shares(version: Version) -> NDArray[np.float64] | None:
    """Return the cumulative probability of drawing each live item, or None if all are equally likely.

    There is one number per item, computed in place, because this is where a build's memory peaks.
    """
    parts = [squared_norms(segment.factors) for segment in version.segments]
    parts = [
        part if part.size == segment.n_live else part[segment.live]
        for part, segment in zip(parts, version.segments, strict=True)
    ]
    shares = parts[0] if len(parts) == 1 else np.concatenate(parts)
    np.sqrt(shares, out=shares)
    for _ in range(8):
        np.minimum(shares, shares.sum() * MOST_LIKED, out=shares)
    total = shares.sum()
    if total <= 0:
        return None
    shares /= total
    np.cumsum(shares, out=shares)
    shares /= shares[-1]
    return shares


def _positions(version: Version, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the positions of live items given by number; those of the first segment come first."""
    positions, first = np.empty_like(numbers), 0
    for segment, base in version.parts():
        here = (numbers >= first) & (numbers < first + segment.n_live)
        of_segment = numbers[here] - first
        positions[here] = base + (of_segment if segment.removed is None else segment.live[of_segment])
        first += segment.n_live
    return positions


def _axes(version: Version) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the principal axes of the items, and their spread along each relative to the largest."""
    n = version.n_live
    evenly = np.linspace(0, n - 1, min(ITEMS_FOR_AXES, n)).astype(np.int64)
    some = version.factors_at(_positions(version, evenly)).astype(np.float64)
    some /= max(float(np.abs(some).max()), 1e-300)
    squares, basis = np.linalg.eigh(some.T @ some)
    if squares.max() <= 0:
        return basis, np.ones_like(squares)
    return basis, np.sqrt(np.maximum(squares / squares.max(), LEAST_SPREAD))


def _directions(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Normalise vectors to length 1; zeros stay zeros."""
    directions: NDArray[np.float64] = vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-30)
    return directions
