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
    shares = _shares(version)
    basis, spread = _axes(version)
    length = min(1.0, 0.1 * LARGEST_PRODUCT / max(version.longest, 1.0))  # so that products with the longest items fit
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
    """How likely it is to draw one of the live items up to each; None if all are as likely.

    This is one number for each item, worked out in place, since at this point of a build memory is at its peak.
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
    """Positions of live items, of which each has a number: those of the first segment come first."""
    positions, first = np.empty_like(numbers), 0
    for segment, base in version.parts():
        here = (numbers >= first) & (numbers < first + segment.n_live)
        of_segment = numbers[here] - first
        positions[here] = base + (of_segment if segment.removed is None else segment.live[of_segment])
        first += segment.n_live
    return positions


def _axes(version: Version) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The principal axes of items, and how far they are spread along each, beside the longest."""
    n = version.n_live
    evenly = np.linspace(0, n - 1, min(ITEMS_FOR_AXES, n)).astype(np.int64)
    some = version.factors_at(_positions(version, evenly)).astype(np.float64)
    some /= max(float(np.abs(some).max()), 1e-300)
    squares, basis = np.linalg.eigh(some.T @ some)
    if squares.max() <= 0:
        return basis, np.ones_like(squares)
    return basis, np.sqrt(np.maximum(squares / squares.max(), LEAST_SPREAD))


def _directions(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Vectors with the length 1, if they have any."""
    directions: NDArray[np.float64] = vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-30)
    return directions
