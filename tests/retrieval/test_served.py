"""Served queries: one native call answers as the general search does, and leaves what is unusual to it."""

import numpy as np
import pytest
import scipy.sparse
from conftest import NATIVE

import tessella as ts
from tessella.datasets import generated_factors

ITEMS, USERS = generated_factors(1_500, 40, 21, seed=2)
REACHES = [None, 0.0, 0.25, 0.6, 1.0]


def changed(text, spill):
    """An index of several segments, with removed and changed items."""
    make = (lambda numbers: [f"item {i}" for i in numbers]) if text else np.asarray
    index = ts.Index.build(ITEMS[:1000], make(range(1000)), schema=ts.LearnedTiles(spill=spill))
    index.add(ITEMS[1000:], make(range(1000, 1500)))
    index.update(ITEMS[:40] * 3, make(range(40)))
    index.remove(make(range(20, 300, 3)))
    index.add(USERS[:3], make(range(2000, 2003)))
    return index


def the_long_way(index, *arguments, **options):
    """What the general search finds, kernel by kernel."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tessella.retrieval.search.serves", lambda *_: False)
        return index.search(*arguments, **options)


def assert_same(found, wanted, query):
    for part, expected in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(part, expected[query])
        assert type(part) is type(expected[query])
        assert part.dtype == expected.dtype
    assert found.scores.tobytes() == wanted.scores[query].tobytes()


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("spill", [1, 2])
def test_one_query_is_answered_as_many_are(text, spill):
    index = changed(text, spill)
    n = len(index)
    for reach in REACHES:
        options = {"exact": True} if reach is None else {"reach": reach}
        for k in (1, 10, 100, n, n + 5):
            wanted = the_long_way(index, USERS[:6], k, **options)
            for query in range(6):
                assert_same(index.search(USERS[query], k, **options), wanted, query)
            batch = index.search(USERS[:6], k, **options)
            for part, expected in zip(batch, wanted, strict=True):
                np.testing.assert_array_equal(part, expected)
                assert part.dtype == expected.dtype


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("reach", REACHES)
def test_filters_are_served_as_the_general_search_applies_them(text, reach, rng):
    index = changed(text, spill=2)
    options = {"exact": True} if reach is None else {"reach": reach}
    ids = index.ids
    lists = [rng.permutation(ids)[: rng.integers(0, len(ids))] for _ in range(6)]
    seen = scipy.sparse.random_array((6, len(ids)), density=0.3, rng=rng, format="csr")
    for filters in (
        {"exclude": lists},
        {"exclude": seen},
        {"allow": rng.permutation(ids)[:700]},
        {"exclude": lists, "allow": rng.permutation(ids)[:700]},
        {"exclude": [ids, ids[5:], ids[::2], ids[:0], ids[:1], ids]},  # fewer than k are left, or none
    ):
        for k in (1, 10, 300):
            wanted = the_long_way(index, USERS[:6], k, **filters, **options)
            found = index.search(USERS[:6], k, **filters, **options)
            for part, expected in zip(found, wanted, strict=True):
                np.testing.assert_array_equal(part, expected)
                assert part.dtype == expected.dtype
    for number, left_out in enumerate(lists):
        wanted = the_long_way(index, USERS[number : number + 1], exclude=[left_out], **options)
        assert_same(index.search(USERS[number], exclude=left_out, **options), wanted, 0)


@pytest.mark.parametrize("reach", REACHES)
def test_unusual_queries_are_answered_alike(reach):
    index = changed(text=False, spill=1)
    options = {"exact": True} if reach is None else {"reach": reach}
    wanted = the_long_way(index, USERS[:1], **options)
    wide = np.repeat(USERS[:1], 2, axis=1)
    read_only = USERS[0].copy()
    read_only.flags.writeable = False
    raw = np.zeros(4 * 21 + 1, np.uint8)
    unaligned = raw[1:].view(np.float32)
    unaligned[:] = USERS[0]
    alike = [USERS[0].astype(np.float64), wide[0, ::2], USERS[0].tolist(), read_only, unaligned, USERS[0].astype(">f4")]
    for query in alike:
        assert_same(index.search(query, **options), wanted, 0)
        assert_same(index.search(query, threads=1, **options), wanted, 0)
    assert_same(index.search(USERS[0], k=np.int64(10), **options), wanted, 0)
    assert_same(index.search(np.zeros(21, np.float32), **options), the_long_way(index, np.zeros((1, 21)), **options), 0)


@NATIVE
def test_a_plain_query_takes_the_short_way(monkeypatch):
    index = changed(text=False, spill=1)

    def fail(*_):
        raise RuntimeError("the long way")

    monkeypatch.setattr("tessella.retrieval.search.search_by", fail)
    for options in ({}, {"exact": True}, {"reach": 1.0}, {"reach": 0.3, "threads": 1}, {"threads": 2}):
        assert index.search(USERS[0], 5, **options).ids.shape == (5,)
    assert index.search(USERS[0], 5, exclude=[3]).ids.shape == (5,)
    assert index.search(USERS[0], 5, allow=index.ids[:600]).ids.shape == (5,)
    longer = [{"budget": 20}, {"allow": [3, 4, 5]}, {"k": len(index) + 1}]
    for options in longer:
        with pytest.raises(RuntimeError, match="the long way"):
            index.search(USERS[0], **options)
    assert index.search(USERS, 5).ids.shape == (40, 5)
    assert index.search(USERS.astype(np.float64), 5).ids.shape == (40, 5)


def test_batches_and_threads_change_nothing():
    index = changed(text=False, spill=1)
    users = np.tile(USERS, (30, 1))  # more than a batch
    for options in ({"exact": True}, {"reach": 0.4}):
        wanted = the_long_way(index, users, **options)
        for threads in (1, 2, 3):
            found = index.search(users, threads=threads, **options)
            for part, expected in zip(found, wanted, strict=True):
                np.testing.assert_array_equal(part, expected)


@pytest.mark.parametrize("reach", [None, 0.5, 1.0])
@pytest.mark.parametrize(
    "spoil",
    [
        lambda query: np.where(np.arange(21) == 7, np.nan, query),
        lambda query: np.where(np.arange(21) == 20, np.inf, query),
        lambda query: np.where(np.arange(21) == 0, -np.inf, query),
        lambda query: query * np.float32(1e38),
        lambda query: query[:20],
        lambda query: query[:0],
        lambda query: np.append(query, query),
    ],
    ids=["NaN", "infinity", "minus infinity", "too long", "too narrow", "nothing", "too wide"],
)
def test_bad_queries_get_the_same_sentence(spoil, reach):
    index = changed(text=False, spill=1)
    with np.errstate(over="ignore"):
        bad = spoil(USERS[0]).astype(np.float32)
    with pytest.raises(ValueError, match="queries") as general:
        the_long_way(index, bad[None], reach=reach)
    with pytest.raises(ValueError, match="queries") as single:
        index.search(bad, reach=reach)
    assert str(single.value) == str(general.value)


@pytest.mark.parametrize("threads", [True, 1.0, 0, "1"])
def test_bad_options_are_refused_on_the_short_way_too(threads):
    index = changed(text=False, spill=1)
    with pytest.raises((TypeError, ValueError), match=r"^threads is "):
        index.search(USERS[0], threads=threads)
    for k in (0, -1, 2.0, True, "3"):
        with pytest.raises((TypeError, ValueError), match=r"^k is "):
            index.search(USERS[0], k)
