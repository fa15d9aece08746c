"""Drift: whether new items still look like those an index was fitted to."""

import numpy as np
from numpy.typing import NDArray

from tessella.results import Drift
from tessella.retrieval.clustering import squared_norms
from tessella.retrieval.tiles import MOST_LONG, Tiling
from tessella.versions.version import State

FEWEST_JUDGED = 100
LARGEST_SCALE_RATIO = 2.0
LEAST_LIKENESS = 0.8
LARGEST_TILE_DISTANCE = 1.3
ITEMS_PER_TILE = 16  # with fewer, centres lie much nearer to the items they were learned from than to any others
SAMPLE = 2**12  # items whose distance from their tiles is looked at
ITEMS_AT_ONCE = 2**12


def drift(state: State) -> Drift:
    """Compare new items with fitted ones: their length, how it is spread over the principal axes, and their tiles."""
    new = _places(state, new=True)
    if not len(new):
        return Drift(0, state.n_live, 1.0, 1.0, False)
    ratio, likeness = _spectra(state, new)
    strange = not 1 / LARGEST_SCALE_RATIO <= ratio <= LARGEST_SCALE_RATIO or likeness < LEAST_LIKENESS
    tiling, distance, n_long = state.fitted.tiling, None, 0
    if tiling is not None:
        distance, n_long, astray = _tile_fit(state, tiling, new)
        strange = strange or astray
    return Drift(len(new), state.n_live, ratio, likeness, strange and len(new) >= FEWEST_JUDGED, distance, n_long)


def _spectra(state: State, new: NDArray[np.int64]) -> tuple[float, float]:
    """How long new items are beside the fitted ones, and the share of their squared length on the same axes."""
    fitted = state.fitted.spectrum
    spectrum = np.zeros(state.fitted.n_factors)
    for at in range(0, len(new), ITEMS_AT_ONCE):
        turned = state.at(new[at : at + ITEMS_AT_ONCE], "factors").astype(np.float64) @ state.fitted.basis
        spectrum += np.einsum("ij,ij->j", turned, turned)
    likeness = 1.0
    if fitted.sum() > 0 and spectrum.sum() > 0:
        likeness = float(np.minimum(spectrum / spectrum.sum(), fitted / fitted.sum()).sum())
    return _ratio(spectrum.sum() / len(new), fitted.sum()), likeness


def _tile_fit(state: State, tiling: Tiling, new: NDArray[np.int64]) -> tuple[float | None, int, bool]:
    """How far from their tiles new items lie beside the fitted ones, how many are too long, and if that is too much.

    Of the items that tiles were learned from, those that are left stand for all. Where hardly any are, nothing speaks
    for the tiles.
    """
    n_long = sum(
        int(np.count_nonzero(tiling.is_long(state.at(new[at : at + ITEMS_AT_ONCE], "factors"))))
        for at in range(0, len(new), ITEMS_AT_ONCE)
    )
    astray = bool(n_long > MOST_LONG * np.sqrt(state.n_live))
    if state.n_live < ITEMS_PER_TILE * len(tiling.centres):
        return None, n_long, astray
    fitted = _squared_distances(state, tiling, _places(state, new=False))
    if len(fitted) < FEWEST_JUDGED:
        return None, n_long, True
    apart = _squared_distances(state, tiling, new)
    if not len(apart):
        return None, n_long, astray
    distance = _ratio(apart.mean(), fitted.mean())
    return distance, n_long, astray or distance > LARGEST_TILE_DISTANCE


def _ratio(square: float, fitted: float) -> float:
    """The root of a mean square over that of the fitted items."""
    if fitted > 0:
        return float(np.sqrt(square / fitted))
    return np.inf if square > 0 else 1.0


def _squared_distances(state: State, tiling: Tiling, places: NDArray[np.int64]) -> NDArray[np.float64]:
    """Squared distances of some of the items at places, those for tile 0 aside, from the nearest centres."""
    evenly = np.linspace(0, len(places) - 1, min(SAMPLE, len(places))).astype(np.int64)
    factors = state.at(places[evenly], "factors")
    factors = factors[~tiling.is_long(factors)]
    return squared_norms(factors.astype(np.float64) - tiling.centres[tiling.nearest(factors, threads=1)])


def _places(state: State, *, new: bool) -> NDArray[np.int64]:
    """Places of the items that are there and are new, or are not, in the order in which they came."""
    places = state.live_places
    return places[state.at(places, "is_new") == new] if len(places) else places
