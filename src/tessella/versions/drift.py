"""Drift: whether new items still look like those an index was fitted to."""

import numpy as np
from numpy.typing import NDArray

from tessella._norms import squared_norms
from tessella._threads import cut
from tessella.results import Drift
from tessella.retrieval.tiles import LONG_SHARE, Tiling
from tessella.versions.version import Version

FEWEST_JUDGED = 100
LARGEST_SCALE_RATIO = 2.0
LEAST_LIKENESS = 0.8
LARGEST_TILE_DISTANCE = 1.3
ITEMS_PER_TILE = 16  # with fewer, centres lie much nearer to the items they were learned from than to any others
SAMPLE = 2**12  # items whose distance from their tiles is looked at
ITEMS_AT_ONCE = 2**12


def drift(version: Version) -> Drift:
    """Compare new items with fitted ones: their length, how it is spread over the principal axes, and their tiles."""
    new = _live(version, new=True)
    if not len(new):
        return Drift(0, version.n_live, 1.0, 1.0, False)
    ratio, likeness = _spectra(version, new)
    unlike = not 1 / LARGEST_SCALE_RATIO <= ratio <= LARGEST_SCALE_RATIO or likeness < LEAST_LIKENESS
    tiling, distance, n_long = version.fitted.tiling, None, 0
    if tiling is not None:
        distance, n_long, astray = _tile_fit(version, tiling, new)
        unlike = unlike or astray
    return Drift(len(new), version.n_live, ratio, likeness, unlike and len(new) >= FEWEST_JUDGED, distance, n_long)


def _spectra(version: Version, new: NDArray[np.int64]) -> tuple[float, float]:
    """How long new items are beside the fitted ones, and the share of their squared length on the same axes."""
    fitted = version.fitted.spectrum
    spectrum = np.zeros(version.fitted.n_factors)
    for part in cut(len(new), ITEMS_AT_ONCE):
        rotated = version.factors_at(new[part]).astype(np.float64) @ version.fitted.basis
        spectrum += np.einsum("ij,ij->j", rotated, rotated)
    likeness = 1.0
    if fitted.sum() > 0 and spectrum.sum() > 0:
        likeness = float(np.minimum(spectrum / spectrum.sum(), fitted / fitted.sum()).sum())
    return _ratio(spectrum.sum() / len(new), fitted.sum()), likeness


def _tile_fit(version: Version, tiling: Tiling, new: NDArray[np.int64]) -> tuple[float | None, int, bool]:
    """How far from their tiles new items lie beside the fitted ones, how many are too long, and if that is too much.

    Of the items that tiles were learned from, those that are left stand for all. Where hardly any are, nothing speaks
    for the tiles.
    """
    n_long = sum(
        int(np.count_nonzero(tiling.is_long(version.factors_at(new[part])))) for part in cut(len(new), ITEMS_AT_ONCE)
    )
    astray = bool(n_long > LONG_SHARE * np.sqrt(version.n_live))
    if version.n_live < ITEMS_PER_TILE * len(tiling.centres):
        return None, n_long, astray
    fitted = _squared_distances(version, tiling, _live(version, new=False))
    if len(fitted) < FEWEST_JUDGED:
        return None, n_long, True
    apart = _squared_distances(version, tiling, new)
    if not len(apart):
        return None, n_long, astray
    distance = _ratio(apart.mean(), fitted.mean())
    return distance, n_long, astray or distance > LARGEST_TILE_DISTANCE


def _ratio(square: float, fitted: float) -> float:
    """The root of a mean square over that of the fitted items."""
    if fitted > 0:
        return float(np.sqrt(square / fitted))
    return np.inf if square > 0 else 1.0


def _squared_distances(version: Version, tiling: Tiling, positions: NDArray[np.int64]) -> NDArray[np.float64]:
    """Squared distances of some of the items at positions, those for tile 0 aside, from the nearest centres."""
    evenly = np.linspace(0, len(positions) - 1, min(SAMPLE, len(positions))).astype(np.int64)
    factors = version.factors_at(positions[evenly])
    factors = factors[~tiling.is_long(factors)]
    sketches = tiling.axes.sketch(factors)
    return squared_norms(sketches.astype(np.float64) - tiling.centres[tiling.nearest(sketches, threads=1)])


def _live(version: Version, *, new: bool) -> NDArray[np.int64]:
    """Positions of the items that are there and are new, or are not, in the order in which they came."""
    positions = version.live_positions
    return positions[version.is_new_at(positions) == new] if len(positions) else positions
