"""Similar items equal brute force, by both metrics, whatever has changed before."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tessella as ts
from tessella.datasets import generated_factors
from tessella.recommend.similar import Similar


class Of:
    """Similar items of an index as it is now."""

    def __init__(self, index, n_factors=None):
        self.index, self.similar = index, Similar(n_factors or index.n_factors)

    def search(self, *args, **options):
        return self.similar.search(self.index._version, *args, **options)

    @property
    def unit(self):
        return self.similar._unit.items


def brute_force(factors, ids, wanted, metric):
    """By id, every other item with its similarity, best first."""
    every = factors.astype(np.float64)
    if metric == "cosine":
        lengths = np.linalg.norm(every, axis=1, keepdims=True)
        every = np.divide(every, lengths, out=np.zeros_like(every), where=lengths > 0)
    own = every[ids.tolist().index(wanted)]
    scores = dict(zip(ids.tolist(), (every @ own).tolist(), strict=True))
    del scores[wanted]
    return scores


def check(similar, factors, ids, metric, k=5):
    found = similar.search(ids[:4], k, metric=metric, exact=True)
    assert found.ids.shape == (min(4, len(ids)), k)
    for wanted, answers, scores in zip(ids[:4].tolist(), found.ids.tolist(), found.scores, strict=True):
        truth = brute_force(factors, ids, wanted, metric)
        best = sorted(truth.values(), reverse=True)[:k]
        n = len(best)
        assert wanted not in answers
        assert len(set(answers[:n])) == n
        assert np.allclose(scores[:n], best, atol=1e-5)
        assert np.allclose([truth[answer] for answer in answers[:n]], best, atol=1e-5)
        assert set(answers[n:]) <= {-1}


@pytest.mark.parametrize("metric", ["cosine", "inner product"])
@given(
    seed=st.integers(0, 2**32 - 1), changes=st.lists(st.sampled_from(["add", "remove", "update", "many"]), max_size=6)
)
@settings(max_examples=40, deadline=None)
def test_it_follows_changes(metric, seed, changes):
    rng = np.random.default_rng(seed)
    ids = rng.permutation(1000)[:40]
    factors = rng.integers(-3, 4, (40, 4)).astype(np.float32)
    index = ts.Index.build(factors, ids)
    similar = Of(index)
    next_id = 1000
    for change in ["none", *changes]:
        n = 30 if change == "many" else int(rng.integers(1, 4))
        new = rng.integers(-3, 4, (n, 4)).astype(np.float32)
        if change in ("add", "many"):
            fresh = next_id + np.arange(n)
            next_id += n
            index.add(new, fresh)
            ids, factors = np.concatenate([ids, fresh]), np.concatenate([factors, new])
        elif change == "update":
            index.update(new, ids[:n])
            factors[:n] = new
        elif change == "remove":
            index.remove(ids[-n:])
            ids, factors = ids[:-n], factors[:-n]
        check(similar, factors, ids, metric)


def test_what_follows_equals_what_is_made_anew():
    rng = np.random.default_rng(3)
    index = ts.Index.build(rng.integers(-1, 2, (300, 3)).astype(np.float32))  # many ties
    similar = Of(index)
    similar.search([0], 20)
    first = similar.unit
    index.remove([5, 6])
    index.add(np.float32([[1, 0, 0], [1, 1, 0]]), [5, 900])  # 5 comes back, now last among equals
    index.update(np.float32([[0, 0, 1]]), [7])
    asked = index.ids[:50]
    assert np.array_equal(similar.search(asked, 20).ids, Of(index).search(asked, 20).ids)
    assert similar.unit is not first
    assert similar.unit.ids.tolist() == index.ids.tolist()


def test_few_changes_keep_the_tiles():
    items, _ = generated_factors(6_000, 10)
    index = ts.Index.build(items)
    similar = Of(index)
    similar.search([0])
    fitted = similar.unit._version.fitted
    index.update(items[:3], [7, 8, 9])
    assert similar.search(7, 1, exact=True).ids.tolist() == [0]
    assert similar.unit._version.fitted is fitted
    index.add(items[:3000], 10_000 + np.arange(3000))
    similar.search([0])
    assert similar.unit._version.fitted is not fitted


def test_coordinates_behind_do_not_count():
    rng = np.random.default_rng(0)
    factors = rng.standard_normal((100, 5)).astype(np.float32)
    wide = np.hstack([factors, 100 * rng.standard_normal((100, 2)).astype(np.float32)])
    narrow, extended = Of(ts.Index.build(factors)), Of(ts.Index.build(wide), 5)
    for metric in ("cosine", "inner product"):
        assert np.array_equal(narrow.search(range(9), metric=metric).ids, extended.search(range(9), metric=metric).ids)


def test_a_single_item_itself_filters_and_memory():
    index = ts.Index.build(np.float32([[1, 0], [2, 0.2], [0, 1], [0, 0]]), ["a", "b", "c", "zero"])
    similar = Of(index)
    assert similar.similar.nbytes == 0
    one = similar.search("a", 2, itself=True)
    assert one.ids.tolist() == ["a", "b"]
    assert similar.similar.nbytes > 0
    assert similar.search("a", 3).ids.tolist() == ["b", "c", "zero"]
    assert similar.search(["a"], 3, allow=["c", "zero"]).ids.tolist() == [["c", "zero", None]]
    assert similar.search(["a"], 1, exclude=["b"]).ids.tolist() == [["c"]]
    assert similar.search([], 2).ids.shape == (0, 2)
    assert similar.search("zero", 2).scores.tolist() == [0, 0]


def test_bad_input_gets_a_sentence():
    index = ts.Index.build(np.eye(3))
    similar = Of(index)
    with pytest.raises(KeyError, match="there is no item with id 9 in the index"):
        similar.search([0, 9])
    with pytest.raises(ValueError, match="metric is 'dot', but must be one of 'cosine', 'inner product'"):
        similar.search([0], metric="dot")
    with pytest.raises(TypeError, match="items holds float64, but must hold integers or strings"):
        similar.search([1.5])
    index.remove([0, 1, 2])
    with pytest.raises(ValueError, match="the index has 0 items, but similar items need at least 1"):
        similar.search([0])


def test_threads_that_ask_first_get_one_index():
    items, _ = generated_factors(3_000, 10)
    similar = Of(ts.Index.build(items))
    found = []

    def ask():
        similar.search([1], 3)
        found.append(similar.unit)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(map(id, found))) == 1
