"""Drift: whether new items still look like those an index was fitted to."""

import numpy as np

from tessella import _check
from tessella.results import Drift
from tessella.retrieval.segments import State

FEWEST_JUDGED = 100
LARGEST_SCALE_RATIO = 2.0
LEAST_LIKENESS = 0.8


def drift(state: State) -> Drift:
    """Compare the length of new items, and how it is spread over the principal axes, with the fitted ones'."""
    spectrum = np.zeros(state.fitted.n_factors)
    n_new = 0
    for segment in state.segments:
        live = segment.live
        factors = segment.factors[live[segment.is_new[live]]]
        n_new += len(factors)
        for rows in _check.row_blocks(factors):
            turned = factors[rows].astype(np.float64) @ state.fitted.basis
            spectrum += np.einsum("ij,ij->j", turned, turned)
    fitted = state.fitted.spectrum
    if not n_new:
        return Drift(0, state.n_live, 1.0, 1.0, False)
    ratio, likeness = 1.0, 1.0
    if fitted.sum() > 0:
        ratio = float(np.sqrt(spectrum.sum() / n_new / fitted.sum()))
        if spectrum.sum() > 0:
            likeness = float(np.minimum(spectrum / spectrum.sum(), fitted / fitted.sum()).sum())
    elif spectrum.sum() > 0:
        ratio = np.inf
    strange = not 1 / LARGEST_SCALE_RATIO <= ratio <= LARGEST_SCALE_RATIO or likeness < LEAST_LIKENESS
    return Drift(n_new, state.n_live, ratio, likeness, bool(strange and n_new >= FEWEST_JUDGED))
