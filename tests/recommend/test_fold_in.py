"""Fold-in equals the normal equations, and implicit."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tessella
from tessella.recommend.fold_in import Gram, fold_in


def by_normal_equations(factors, liked, weights, regularization, alpha):
    """One least-squares step, written out: every item has a preference and a confidence."""
    confidences, preferences = np.ones(len(factors)), np.zeros(len(factors))
    for row, weight in zip(liked, weights, strict=True):
        confidences[row] = abs(alpha * weight)
        preferences[row] = float(alpha * weight > 0)
    every = factors.astype(np.float64)
    left = every.T @ np.diag(confidences) @ every + regularization * np.eye(every.shape[1])
    return np.linalg.solve(left, every.T @ (confidences * preferences))


def gap(found, wanted):
    """The largest difference beside the length of what is wanted, if that is above 1."""
    return np.abs(found - wanted).max() / max(1.0, np.linalg.norm(wanted))


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 40),
    d=st.integers(1, 12),
    share=st.floats(0, 1),
    regularization=st.sampled_from([0.01, 0.5, 20.0]),
    alpha=st.sampled_from([0.5, 1.0, 40.0]),
)
@settings(max_examples=200, deadline=None)
def test_it_solves_the_normal_equations(seed, n, d, share, regularization, alpha):
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((n, d)).astype(np.float32)
    liked = np.flatnonzero(rng.random(n) < share)
    weights = rng.choice([-2.0, -0.3, 0.0, 0.2, 1.0, 3.0], len(liked))
    found = fold_in(factors[liked], weights, Gram.of(factors), regularization=regularization, alpha=alpha)
    assert found.dtype == np.float32
    assert gap(found, by_normal_equations(factors, liked, weights, regularization, alpha)) < 1e-5


def test_without_weights_each_is_1():
    factors = np.random.default_rng(0).standard_normal((9, 4)).astype(np.float32)
    gram = Gram.of(factors)
    assert np.array_equal(fold_in(factors[:3], None, gram, alpha=7), fold_in(factors[:3], [1, 1, 1], gram, alpha=7))
    assert not np.array_equal(fold_in(factors[:3], None, gram, alpha=7), fold_in(factors[:3], None, gram))


def test_nothing_liked_is_a_factor_of_zeros():
    gram = Gram.of(np.eye(3, dtype=np.float32))
    for weights in (None, []):
        assert fold_in(np.zeros((0, 3), np.float32), weights, gram).tolist() == [0, 0, 0]


@given(st.integers(0, 2**32 - 1), st.lists(st.sampled_from(["plus", "minus", "update"]), max_size=12))
@settings(deadline=None)
def test_a_gram_matrix_follows_changes(seed, changes):
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((20, 5)).astype(np.float32)
    gram = Gram.of(factors)
    for change in changes:
        n = int(rng.integers(0, 5))
        new = rng.standard_normal((n, 5)).astype(np.float32)
        if change != "plus":
            gram, factors = gram.minus(factors[:n]), factors[n:]
            new = new[: len(new) if change == "update" else 0]
        gram, factors = gram.plus(new), np.concatenate([factors, new])
    assert np.allclose(gram.matrix, factors.astype(np.float64).T @ factors, atol=1e-12)


def test_a_gram_matrix_is_worn_once_what_went_was_far_larger():
    small, large = np.eye(3, dtype=np.float32), np.full((1, 3), 1e6, np.float32)
    gram = Gram.of(small)
    assert not gram.worn
    assert not gram.plus(small).minus(small).worn
    assert gram.plus(large).minus(large).worn
    with pytest.raises(ValueError, match="read-only"):
        gram.matrix[0, 0] = 1


def test_a_gram_matrix_reads_blocks_of_a_memory_map(tmp_path):
    factors = np.random.default_rng(1).standard_normal((30_000, 33)).astype(np.float32)
    np.save(tmp_path / "users.npy", factors)
    mapped = np.load(tmp_path / "users.npy", mmap_mode="r")
    assert np.allclose(Gram.of(mapped).matrix, factors.astype(np.float64).T @ factors, rtol=1e-12)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"weights": [1.0]}, r"weights has shape \(1,\), but must have shape \(2,\), one weight for each like\."),
        ({"weights": [1.0, np.nan]}, "weights holds nan in row 1, but must be finite."),
        ({"regularization": -1.0}, "regularization is -1.0, but must be finite and at least 0."),
        (
            {"regularization": 0.0},
            "regularization is 0, which is too small: the least-squares system has no unique solution",
        ),
        ({"alpha": np.inf}, "alpha is inf, but must be finite and at least 0."),
        (
            {
                "weights": [1e300, 1e300],
                "liked": np.full((2, 3), 1e-200),
                "gram": Gram(np.eye(3) * 1e-99, 0.0),
                "regularization": 0.0,
            },
            "too large for float32; use a larger regularization",
        ),
    ],
)
def test_bad_input_gets_a_sentence(change, sentence):
    factors = np.float32([[1, 0, 0], [1, 0, 0]])
    options = {"liked": factors, "weights": None, "gram": Gram.of(factors), "regularization": 0.1} | change
    with pytest.raises(ValueError, match=sentence):
        fold_in(**options)


IMPLICIT = """
import sys
import numpy as np, scipy.sparse
from implicit.als import AlternatingLeastSquares
sys.path[:0] = [sys.argv[1]]
from tessella.recommend.fold_in import Gram, fold_in
worst = 0.0
for dtype, alpha, regularization in [("float32", 1.0, 0.05), ("float32", 20.0, 0.05), ("float64", 40.0, 0.01)]:
    rng = np.random.default_rng(5)
    likes = scipy.sparse.random(400, 300, 0.05, "csr", random_state=rng, data_rvs=lambda n: rng.integers(1, 6, n))
    likes.data[::7] *= -1
    likes = likes.astype(np.float32)
    model = AlternatingLeastSquares(16, regularization, alpha, dtype=dtype, iterations=5, random_state=1, num_threads=1)
    model.fit(likes, show_progress=False)
    for factors, others, own in (
        (model.item_factors, likes, model.recalculate_user), (model.user_factors, likes.T.tocsr(), model.recalculate_item)
    ):
        gram = Gram.of(factors)
        for row in range(100):
            some = others[row]
            ours = fold_in(factors[some.indices], some.data, gram, regularization=regularization, alpha=alpha)
            theirs = own(0, some)
            worst = max(worst, np.abs(ours - theirs).max() / max(1.0, np.linalg.norm(theirs)))
            assert np.linalg.norm(theirs) > 0.01 or not some.nnz
print(worst)
"""


@pytest.mark.skipif(importlib.util.find_spec("implicit") is None, reason="implicit, an extra, is not installed")
def test_it_equals_implicit(tmp_path):
    """In a process of its own, because implicit leaves a thread behind."""
    source = Path(tessella.__file__).parent.parent
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", IMPLICIT, source],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        cwd=tmp_path,
    )
    assert not done.returncode, done.stderr
    assert float(done.stdout.split()[-1]) < 1e-5
