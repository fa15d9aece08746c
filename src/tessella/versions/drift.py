"""Drift: whether new items still resemble those that an index was fitted to."""

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
ITEMS_PER_TILE = 16  # with fewer, centres are much closer to the items they were learned from than to any others
SAMPLE = 2**12  # items whose distance from their tiles is computed
ITEMS_AT_ONCE = 2**12


def drift(version: Version) -> Drift:
    """Compare new items with fitted ones: their lengths, their spread over the principal axes, and their tiles."""
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
    """Return the scale ratio and the likeness of new items."""
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
    """Return the tile distance of new items, how many are long, and whether the tiles no longer fit.

    The items left of those that the tiles were learned from stand for all of them. If hardly any are left, there is no
    evidence that the tiles still fit.
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
    """Return the root of a mean square divided by that of the fitted items."""
    if fitted > 0:
        return float(np.sqrt(square / fitted))
    return np.inf if square > 0 else 1.0


def _squared_distances(version: Version, tiling: Tiling, positions: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return squared distances from the nearest centres, for a sample of items, without those of tile 0."""
    evenly = np.linspace(0, len(positions) - 1, min(SAMPLE, len(positions))).astype(np.int64)
    factors = version.factors_at(positions[evenly])
    factors = factors[~tiling.is_long(factors)]
    sketches = tiling.axes.sketch(factors)
    return squared_norms(sketches.astype(np.float64) - tiling.centres[tiling.nearest(sketches, threads=1)])


def _live(version: Version, *, new: bool) -> NDArray[np.int64]:
    """Return the positions of live items, either the new ones or the others, in order of their rows."""
    positions = version.live_positions
    return positions[version.is_new_at(positions) == new] if len(positions) else positions
