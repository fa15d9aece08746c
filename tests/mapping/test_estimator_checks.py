"""SparseMap under scikit-learn's own checks of an estimator."""

import warnings

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import tessella as ts

MAPS = [
    ts.SparseMap(),  # learns nothing
    ts.SparseMap(ts.Schema(ts.DAry(2), ts.OneHot(), threshold=0.7, rotation="principal")),
]

ROWS = np.arange(12.0).reshape(4, 3)

# Checks that SparseMap does not pass: why, what they pass to a fitted map, and what it answers instead.
EXPECTED = {
    "check_n_features_in_after_fitting": (
        "refused, but the sentence names the argument and its columns, where scikit-learn's says X and features",
        ROWS[:, :1], ValueError, r"^factors has 1 columns, but 3 are expected\.$",
    ),
    "check_fit2d_predict1d": (
        "refused, but the sentence says how to pass a single factor, where scikit-learn's says to reshape",
        ROWS[0], ValueError, r"^factors has 1 dimensions, but must have 2: \(n, n_factors\); pass factors\[None\]",
    ),
    "check_estimators_empty_data_messages": (
        "refused, but the sentence also names the largest width",
        ROWS[:, :0], ValueError, r"^item_factors has 0 columns, but must have from 1 to 4096\.$",
    ),
    "check_estimators_nan_inf": (
        "refused, but the sentence names the row and column of the nan, which it writes as NumPy does",
        np.where(ROWS == 7, np.nan, ROWS), ValueError, r"^factors holds nan in row 2, column 1; factors must be finite",
    ),
    "check_complex_data": (
        "refused, but as a TypeError, like every array that does not hold real numbers",
        ROWS * 1j, TypeError, r"^factors holds complex128, but must hold real numbers such as float32\.$",
    ),
    "check_dtype_object": (
        "arrays of Python objects are refused, even where all of them are numbers: they are mistakes more often",
        ROWS.astype(object), TypeError, r"^factors holds object, but must hold real numbers such as float32\.$",
    ),
}  # fmt: skip
REASONS = {name: reason for name, (reason, *_) in EXPECTED.items()}


def checks():
    """scikit-learn's checks of each map; they warn that SparseMap does not inherit from BaseEstimator, on purpose."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Estimator SparseMap does not inherit", UserWarning)
        return parametrize_with_checks(MAPS, expected_failed_checks=lambda _: REASONS)


@checks()
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("name", EXPECTED)
def test_what_fails_a_check_gets_our_sentence(name):
    _, given, error, sentence = EXPECTED[name]
    fitted = ts.SparseMap().fit(ROWS)
    with pytest.raises(error, match=sentence):
        fitted.transform(given) if given.shape[-1] else fitted.fit(given)
