"""Variety: rules equal a plain greedy choice, and for single values the best list that any choice can give."""

import itertools
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessella import _kernels
from tessella.recommend.attributes import Attributes
from tessella.recommend.variety import at_most, diversify

VALUES = {
    "category": st.sampled_from("abc"),
    "several": st.lists(st.sampled_from("abcd"), max_size=3),
    "number": st.integers(1, 3),
    "float": st.sampled_from([0.5, 1.5]),
    "boolean": st.booleans(),
}
SAMPLES = {"category": ["a"], "several": [["a"]], "number": [1], "float": [0.5], "boolean": [True]}


@st.composite
def columns(draw, kinds=tuple(VALUES)):
    kind = draw(st.sampled_from(kinds))
    values = draw(st.lists(st.none() | VALUES[kind], min_size=1, max_size=12))
    return values, Attributes.of({"per": values}, len(values), like=Attributes.of({"per": SAMPLES[kind]}, 1))


def greedy(values, entries, n):
    """What the rule says, item by item."""
    taken, kept = [], []
    for entry in entries:
        value = None if entry < 0 else values[entry]
        own = set() if value is None else set(value) if isinstance(value, list) else {value}
        kept.append(entry >= 0 and all(sum(one in other for other in taken) < n for one in own))
        if kept[-1]:
            taken.append(own)
    return kept


@settings(max_examples=500, deadline=None)
@given(columns(), st.integers(1, 3), st.randoms(use_true_random=False), st.integers(0, 4))
def test_at_most_takes_items_in_order_unless_a_value_is_used_up(column, n, random, n_lists):
    values, attributes = column
    lists = np.array([random.sample(range(-1, len(values)), len(values)) for _ in range(n_lists)], np.int64)
    lists = lists.reshape(n_lists, len(values))
    rule = at_most(n, per="per")
    assert rule.kept(attributes, lists).tolist() == [greedy(values, own, n) for own in lists.tolist()]
    for own in lists:
        kept = rule.kept(attributes, own)
        assert kept.tolist() == greedy(values, own.tolist(), n)
        assert rule.kept(attributes, own[:5]).tolist() == kept[:5].tolist()  # a longer list goes on


@settings(max_examples=200, deadline=None)
@given(
    columns(("category", "number", "boolean")), st.integers(1, 2), st.integers(1, 4), st.randoms(use_true_random=False)
)
def test_no_list_under_the_rule_is_better_where_items_have_one_value(column, n, k, random):
    values, attributes = column
    scores = sorted((random.random() for _ in values), reverse=True)
    kept = np.flatnonzero(at_most(n, per="per").kept(attributes, np.arange(len(values))))[:k]

    def fits(choice):
        own = [values[entry] for entry in choice if values[entry] is not None]
        return all(own.count(value) <= n for value in own)

    allowed = [choice for choice in itertools.combinations(range(len(values)), len(kept)) if fits(choice)]
    assert fits(kept)
    assert sum(scores[entry] for entry in kept) == max(sum(scores[entry] for entry in choice) for choice in allowed)
    if len(kept) < k:
        assert not any(map(fits, itertools.combinations(range(len(values)), len(kept) + 1)))


def marginal(scores, vectors, k, weight, metric):
    """Maximal marginal relevance as it is written, in double."""
    low, high = min(scores), max(scores)
    relevance = [(score - low) / (high - low) if high > low else 1.0 for score in scores]
    longest = max(vector @ vector for vector in vectors)

    def alike(one, two):
        scale = np.sqrt((one @ one) * (two @ two)) if metric == "cosine" else longest
        return one @ two / scale if scale else 0.0

    chosen = []
    while len(chosen) < min(k, len(scores)):
        worth = {
            place: (1 - weight) * relevance[place]
            - weight * max((alike(vectors[place], vectors[other]) for other in chosen), default=0.0)
            for place in range(len(scores))
            if place not in chosen
        }
        chosen.append(max(worth, key=worth.get))
    return chosen


@pytest.mark.parametrize("metric", ["cosine", "inner product"])
@pytest.mark.parametrize("weight", [0.0, 0.2, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("seed", range(10))
def test_diversify_is_maximal_marginal_relevance(seed, weight, metric, monkeypatch):
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((30, 7)).astype(np.float32)
    vectors[4], vectors[11] = vectors[3], 0  # one twice, one of zeros
    scores = np.sort(rng.standard_normal(30).astype(np.float32))[::-1]
    rule = diversify(weight, metric=metric)
    expected = marginal(scores.tolist(), vectors.astype(float), 10, weight, metric)
    for level in _kernels.simd_levels():
        monkeypatch.setenv("TESSELLA_SIMD", level)
        assert rule.order(scores, vectors, 10).tolist() == expected
    padded = np.append(scores, np.float32([-np.inf, -np.inf]))
    assert rule.order(padded, np.vstack([vectors, vectors[:2]]), 10).tolist() == expected


def test_diversify_keeps_the_order_at_0_and_what_there_is():
    vectors, scores = np.eye(4, dtype=np.float32)[[0, 0, 1, 1]], np.float32([3, 3, 3, 1])
    assert diversify(0).order(scores, vectors, 9).tolist() == [0, 1, 2, 3]
    assert diversify(0.5).order(scores, vectors, 9).tolist() == [0, 2, 1, 3]
    assert diversify(1).order(np.float32([1, 1, 1, 1]), vectors, 3).tolist() == [0, 2, 1]
    assert diversify(0.5).order(scores[:0], vectors[:0], 3).tolist() == []
    assert diversify(0.5).order(np.float32([-np.inf]), vectors[:1], 3).tolist() == []


@pytest.mark.parametrize(
    ("make", "kind", "sentence"),
    [
        (lambda: at_most(0, per="genre"), ValueError, "n is 0, but must be at least 1."),
        (lambda: at_most(1.5, per="genre"), TypeError, "n must be an integer, not float."),
        (lambda: at_most(1, per=["genre"]), TypeError, "per must be the name of a column, not list."),
        (lambda: diversify(1.5), ValueError, "weight is 1.5, but must be from 0 to 1."),
        (lambda: diversify(float("nan")), ValueError, "weight is nan, but must be from 0 to 1."),
        (lambda: diversify(0.5, candidates=0), ValueError, "candidates is 0, but must be at least 1."),
        (
            lambda: diversify(0.5, metric="dot"),
            ValueError,
            "metric is 'dot', but must be one of 'cosine', 'inner product'.",
        ),
        (
            lambda: at_most(1, per="gender").kept(Attributes.of({"genre": ["a"]}, 1), np.array([0])),
            ValueError,
            "per names the column 'gender', but there is no such column; did you mean 'genre'?",
        ),
    ],
)
def test_bad_input(make, kind, sentence):
    with pytest.raises(kind, match=re.escape(sentence)):
        make()
