"""Adapters read what models hold, so objects that hold the same will do; here, without any library.

Other tests of this folder need the libraries: `make test-integrations`.
"""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import tessella.integrations
from tessella.integrations.gensim import from_gensim
from tessella.integrations.implicit import ImplicitRecommender, from_implicit
from tessella.integrations.lightfm import from_lightfm
from tessella.integrations.surprise import from_surprise
from tessella.integrations.torch import from_torch

FOLDER = Path(tessella.integrations.__file__).parent
LIBRARIES = ("gensim", "implicit", "lightfm", "pandas", "polars", "pyarrow", "sklearn", "surprise", "torch")
RNG = np.random.default_rng(0)
ITEMS, USERS = RNG.standard_normal((20, 4)), RNG.standard_normal((6, 4))
BIASES = RNG.standard_normal(20)
SEEN = scipy.sparse.random(6, 20, 0.3, format="csr", random_state=0)
MODEL = SimpleNamespace(item_factors=ITEMS.astype(np.float32), user_factors=USERS.astype(np.float32))
LOWEST = np.finfo(np.float32).min


class Tensor:
    """A tensor as far as adapters see."""

    def __init__(self, values):
        self.values = values

    def detach(self):
        return self

    cpu = detach

    def numpy(self):
        return self.values


def ranked(scores, seen=SEEN, k=5):
    left = np.where(seen.toarray() != 0, -np.inf, scores)
    return np.argsort(-left, axis=1)[:, :k]


def test_biases_of_items_are_a_coordinate():
    lightfm = SimpleNamespace(
        get_item_representations=lambda _: (BIASES, ITEMS), get_user_representations=lambda _: (np.ones(6), USERS)
    )
    surprise = SimpleNamespace(pu=USERS, qi=ITEMS, bi=BIASES)
    torch = {"items": SimpleNamespace(weight=Tensor(ITEMS)), "users": Tensor(USERS), "item_biases": Tensor(BIASES)}
    expected = ranked(USERS @ ITEMS.T + BIASES)
    for made in (from_lightfm(lightfm, seen=SEEN), from_surprise(surprise, seen=SEEN), from_torch(**torch, seen=SEEN)):
        np.testing.assert_array_equal(made.recommend(np.arange(6), k=5).ids, expected)


def test_keys_are_ids():
    items = SimpleNamespace(vectors=ITEMS, index_to_key=[f"item {n}" for n in range(20)])
    users = SimpleNamespace(vectors=USERS, index_to_key=[f"user {n}" for n in range(6)])
    found = from_gensim(SimpleNamespace(wv=items), SimpleNamespace(dv=users), seen=SEEN).recommend("user 4", k=5)
    assert found.ids.tolist() == [f"item {n}" for n in ranked(USERS @ ITEMS.T)[4]]


def test_a_model_of_implicit_becomes_a_recommender():
    for model in (MODEL, SimpleNamespace(item_factors=Tensor(ITEMS), user_factors=Tensor(USERS))):
        made = from_implicit(model, SEEN)
        np.testing.assert_array_equal(made.recommend(np.arange(6), k=5).ids, ranked(USERS @ ITEMS.T))


def by_hand(scores, left_out, pool, n):
    """What implicit's heap of n holds in the end, from its best to its worst."""
    heap = []
    for place, item in enumerate(pool):
        pair = (LOWEST if left_out[item] else scores[item], place)
        if len(heap) < n:
            heap.append(pair)
        elif pair[0] > min(heap)[0]:
            heap[heap.index(min(heap))] = pair
    heap.sort(reverse=True)
    ids = [int(pool[place]) for _, place in heap] + [int(pool[0])] * (n - len(heap))
    return ids, [score for score, _ in heap] + [0.0] * (n - len(heap))


@given(
    st.integers(1, 24),
    st.booleans(),
    st.sets(st.integers(0, 19)),
    st.one_of(st.none(), st.lists(st.integers(0, 19), min_size=1, unique=True)),
    st.sampled_from([0, 3, [1, 4], []]),
)
def test_answers_and_padding_are_those_of_a_heap(n, filtered, without, items, userid):
    without = set() if items is not None else without
    users = np.atleast_1d(np.array(userid, np.int64))
    ids, scores = ImplicitRecommender(MODEL).recommend(
        userid, SEEN[users], n, filter_already_liked_items=filtered, filter_items=list(without), items=items
    )
    assert ids.dtype == (np.int32 if items is None else np.int64)
    assert scores.dtype == np.float32
    pool = np.arange(20) if items is None else np.sort(items)
    width = n if items is None else min(n, len(items))
    assert ids.shape == scores.shape == ((width,) if np.isscalar(userid) else (len(users), width))
    for user, row, row_scores in zip(users, np.atleast_2d(ids), np.atleast_2d(scores), strict=True):
        left_out = np.isin(np.arange(20), list(without)) | (filtered & (SEEN[[user]].toarray()[0] != 0))
        expected, expected_scores = by_hand(ITEMS @ USERS[user], left_out, pool, width)
        assert row.tolist() == expected
        np.testing.assert_allclose(row_scores, expected_scores, rtol=1e-4, atol=1e-5)


@given(st.integers(1, 24), st.sets(st.integers(0, 19)), st.permutations(range(20)), st.integers(0, 20))
def test_similar_ones_and_their_padding_are_those_of_a_heap(n, without, order, n_named):
    named = order[:n_named] or None
    without = set() if named else without
    ids, scores = ImplicitRecommender(MODEL).similar_items(7, n, filter_items=list(without), items=named)
    norms = np.linalg.norm(ITEMS, axis=1)
    left_out = np.isin(np.arange(20), list(without))
    pool = np.arange(20) if named is None else np.array(named)
    expected, expected_scores = by_hand(ITEMS @ ITEMS[7] / norms, left_out, pool, n)
    assert ids.tolist() == expected
    with np.errstate(over="ignore"):
        expected_scores = np.float32(expected_scores) / np.float32(norms[7])
    np.testing.assert_allclose(scores, expected_scores, rtol=1e-4, atol=1e-5)


def test_approximate_search_is_an_option():
    assert "tiles" in repr(ImplicitRecommender(MODEL, method="tiles"))


@pytest.mark.parametrize(
    ("call", "refused", "sentence"),
    [
        (lambda one: one.recommend(6, SEEN[[0]]), IndexError, r"userid holds 6, but the model has users 0 to 5\."),
        (lambda one: one.recommend(-1, SEEN[[0]]), IndexError, r"userid holds -1, but the model has users 0 to 5\."),
        (
            lambda one: one.recommend("ann", SEEN[[0]]),
            TypeError,
            r"userid holds <U3 of shape \(1,\), but must be a flat sequence of integers\.",
        ),
        (lambda one: one.recommend([[1]], SEEN[[0]]), TypeError, r"userid holds int64 of shape \(1, 1\), but must"),
        (
            lambda one: one.recommend(0, SEEN),
            ValueError,
            r"user_items has 6 rows, but must have 1: one for each user or item requested\.",
        ),
        (
            lambda one: one.recommend(0, SEEN.tocsc()),
            ValueError,
            r"user_items must be a SciPy CSR matrix, not csc_\w+\.",
        ),
        (lambda one: one.recommend(0, None), ValueError, r"user_items must be a SciPy CSR matrix, not NoneType\."),
        (lambda one: one.recommend(0, SEEN[[0]], N=0), ValueError, r"N is 0, but must be at least 1\."),
        (lambda one: one.recommend(0, SEEN[[0]], items=[]), ValueError, r"items is empty, but must name at least 1;"),
        (lambda one: one.recommend(0, SEEN[[0]], items=[3, 3]), ValueError, r"items holds 3 more than once\."),
        (
            lambda one: one.recommend(0, SEEN[[0]], items=[20]),
            IndexError,
            r"items holds 20, but the model has items 0 to 19",
        ),
        (
            lambda one: one.recommend(0, SEEN[[0]], filter_items=[-1]),
            IndexError,
            r"filter_items holds -1, but the model",
        ),
        (
            lambda one: one.recommend(0, SEEN[[0]], items=[1], filter_items=[2]),
            ValueError,
            r"items and filter_items cannot be combined",
        ),
        (
            lambda one: one.recommend(0, SEEN[[0]], recalculate_user=True),
            NotImplementedError,
            r"only ALS models can recalculate users",
        ),
        (
            lambda one: one.recommend(0, scipy.sparse.csr_matrix(np.ones((1, 21)))),
            IndexError,
            r"entries in column 20, but the model has 20 columns\.",
        ),
        (lambda one: one.similar_items(20), IndexError, r"itemid holds 20, but the model has items 0 to 19\."),
        (
            lambda one: one.similar_users(0, users=[1], filter_users=[2]),
            ValueError,
            r"users and filter_users cannot be combined",
        ),
    ],
)
def test_what_cannot_be_answered_gets_a_sentence(call, refused, sentence):
    with pytest.raises(refused, match=sentence):
        call(ImplicitRecommender(MODEL))


@pytest.mark.parametrize(
    ("call", "refused", "sentence"),
    [
        (lambda: from_implicit(SimpleNamespace(similarity=SEEN)), TypeError, r"SimpleNamespace has no item_factors and user_factors: item-item models"),
        (lambda: ImplicitRecommender(SimpleNamespace(item_factors=None, user_factors=None)), ValueError, r"the SimpleNamespace has no factors yet; call its fit method first\."),
        (lambda: ImplicitRecommender(SimpleNamespace(item_factors=ITEMS, user_factors=USERS[:, :3])), ValueError, r"user_factors has 3 columns, but 4 are expected\."),
        (lambda: from_lightfm(MODEL), TypeError, r"SimpleNamespace has no get_item_representations; pass a LightFM model\."),
        (lambda: from_surprise(MODEL), TypeError, r"SimpleNamespace has no pu and qi; pass a fitted SVD, SVDpp or NMF"),
        (lambda: from_surprise(SimpleNamespace(pu=USERS, qi=ITEMS, bi=BIASES[:3])), ValueError, r"bi has shape \(3,\), but must have shape \(20,\), one for each item\."),
        (lambda: from_surprise(SimpleNamespace(pu=USERS, qi=ITEMS, yj=ITEMS)), ValueError, r"has yj, but no trainset to say which items each user rated\."),
        (lambda: from_gensim(MODEL), TypeError, r"items must have vectors and index_to_key, as KeyedVectors do, but SimpleNamespace does not\."),
    ],
)  # fmt: skip
def test_what_is_no_model_gets_a_sentence(call, refused, sentence):
    with pytest.raises(refused, match=sentence):
        call()


def test_no_library_is_imported_before_it_is_needed():
    modules = ", ".join(f"tessella.integrations.{path.stem}" for path in FOLDER.glob("*.py") if path.stem != "__init__")
    code = f"import sys, tessella; assert not any('integrations' in m for m in sys.modules); import {modules}; print(*(set({LIBRARIES}) & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert ran.stdout.split() == []


def test_a_library_that_is_missing_gets_a_sentence(monkeypatch, tmp_path):
    from tessella.integrations.frames import from_frames  # noqa: PLC0415

    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(
        ImportError, match=r"^Parquet needs pyarrow; install it with: pip install 'tessella\[parquet\]'$"
    ):
        from_frames(tmp_path)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"^A tower needs torch; install it with: pip install 'tessella\[torch\]'$"):
        from_torch(lambda ids: ids, item_inputs=np.eye(3))


def test_every_adapter_is_an_extra_and_has_tests_of_its_own():
    extras = tomllib.loads((FOLDER.parents[2] / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    adapters = {path.stem for path in FOLDER.glob("[a-z]*.py")}
    assert adapters <= set(extras)
    assert adapters == {path.stem.removeprefix("test_") for path in Path(__file__).parent.glob("test_*.py")} - {
        "stand_ins",
        "page",
    }
    (everything,) = extras["integrations"]
    assert everything == f"tessella[{','.join(extra for extra in extras if extra in adapters)}]"


def test_adapters_have_the_same_face():
    """What a recommender is built with can be passed through each of them."""
    for path in FOLDER.glob("[a-z]*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("from_"):
                assert node.args.kwarg is not None, node.name
                assert node.args.kwarg.arg == "options"
