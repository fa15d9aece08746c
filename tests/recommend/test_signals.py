"""Signals are coordinates: boosted searches equal brute force, and without boosts nothing changes."""

import datetime
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tessella as ts
from tessella.datasets import generated_factors
from tessella.recommend.signals import Decaying, Signals

DAY = 86_400.0
NOW = np.datetime64("2024-06-01")


def some_signals(rng, n):
    """Signals of all kinds: centred or not, skewed, rare, decaying, all alike."""
    return {
        "popularity": np.log1p(rng.pareto(1.0, n) * 100) + 5,
        "margin": rng.normal(-3, 0.1, n),
        "picked": rng.random(n) < 0.1,
        "fresh": Decaying(NOW - (rng.exponential(300, n) * DAY).astype("timedelta64[s]"), half_life=30 * DAY),
        "same": np.full(n, 7.0),
    }


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 60),
    d=st.integers(1, 9),
    size=st.sampled_from([1e-3, 1.0, 1e3]),
    weights=st.lists(st.sampled_from([0.0, 0.0, 0.1, -1.0, 5.0]), min_size=5, max_size=5),
    later=st.sampled_from([-100, 0, 1000]),
)
@settings(max_examples=150, deadline=None)
def test_boosted_searches_equal_brute_force(seed, n, d, size, weights, later):
    rng = np.random.default_rng(seed)
    factors = (rng.standard_normal((n, d)) * size).astype(np.float32)
    queries = rng.standard_normal((4, d)).astype(np.float32)
    signals = Signals.fit(some_signals(rng, n), factors)
    boosts = dict(zip(signals.names, weights, strict=True)) | {"margin": rng.normal(0, 1, 4)}
    now = NOW + np.timedelta64(later, "D")
    index = ts.Index.build(signals.extend(factors))
    part, offset = signals.query_part(boosts, 4, now), signals.offset(boosts, 4, now)
    found = index.search(np.hstack([queries, part]), k=min(n, 8))
    truth = queries.astype(np.float64) @ factors.T + signals.boost(boosts, 4, now)
    error = 1e-5 * np.maximum(1, np.abs(truth).max())
    best = -np.sort(-truth, axis=1)[:, : found.ids.shape[1]]
    assert np.allclose(found.scores + offset[:, None], best, atol=error)
    assert np.allclose(np.take_along_axis(truth, found.ids, 1), best, atol=error)
    assert found.certified.all()


def test_what_boosts_add_is_what_signals_say():
    data = some_signals(np.random.default_rng(1), 50)
    signals = Signals.fit(data, np.ones((50, 2), np.float32))
    boosts = {"popularity": 0.5, "fresh": [2.0, 0.0], "picked": -1}
    total = signals.boost(boosts, 2, NOW)
    fresh = 0.5 ** ((NOW - (data["fresh"].times * 1e6).astype("datetime64[us]")) / np.timedelta64(30, "D"))
    assert np.allclose(total[0], 0.5 * data["popularity"] + 2 * fresh - data["picked"])
    assert np.allclose(total[1], 0.5 * data["popularity"] - data["picked"])


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("n_signals", [1, 5])
def test_weight_0_gives_the_answers_without_signals(exact, n_signals):
    items, users = generated_factors(6_000, 200)
    data = dict(list(some_signals(np.random.default_rng(0), len(items)).items())[:n_signals])
    signals = Signals.fit(data, items)
    index = ts.Index.build(signals.extend(items))
    zeros = np.hstack([users, signals.query_part(None, len(users))])
    none = np.hstack([users, signals.query_part(dict.fromkeys(signals.names, 0.0), len(users))])
    assert np.array_equal(zeros, none)
    assert not signals.offset(None, 3).any()
    found = index.search(zeros, exact=exact)
    if exact:
        plain = ts.Index.build(items).search(users, exact=True)
        assert np.array_equal(found.ids, plain.ids)
        assert np.array_equal(found.scores, plain.scores)  # bit for bit: sums go by fixed lanes, and zeros add nothing
    else:
        assert np.array_equal(found.ids, index.search(none).ids)


def test_time_needs_no_updates():
    """Items are stored once; as time goes by, only the weight changes."""
    times = np.array(["2024-01-01", "2024-05-01", "2024-05-31"], "datetime64[D]")
    factors = np.float32([[1.0], [0.9], [0.5]])
    signals = Signals.fit({"fresh": Decaying(times, half_life=datetime.timedelta(days=30))}, factors)
    index = ts.Index.build(signals.extend(factors))

    def best(now):
        part = signals.query_part({"fresh": 1.0}, 1, now)
        return index.search(np.hstack([[[1.0]], part]).astype(np.float32), k=1).ids[0, 0]

    assert best(np.datetime64("2024-06-01")) == 2
    assert best(datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)) == 0
    assert signals.offset({"fresh": 1.0}, 1, 1_717_200_000.0) > signals.offset({"fresh": 1.0}, 1)  # by now it is later


def test_changes_make_new_signals():
    rng = np.random.default_rng(2)
    factors = rng.standard_normal((30, 3)).astype(np.float32)
    data = some_signals(rng, 30)
    signals = Signals.fit(data, factors)
    more = {"popularity": [1.0, 2], "margin": [3.0, 4], "picked": [True, False], "fresh": [NOW, NOW], "same": [7, 7]}
    joined = signals.joined(more, 2)
    assert (len(signals), len(joined)) == (30, 32)
    assert np.array_equal(joined.coordinates()[:30], signals.coordinates())
    assert joined.boost({"margin": 1.0}, 1)[0, 30:].tolist() == [3, 4]
    assert joined.boost({"fresh": 1.0}, 1, NOW)[0, 30:].tolist() == [1, 1]
    changed = joined.replaced(np.array([4, 0]), more)
    assert changed.boost({"margin": 1.0}, 1)[0, [0, 4]].tolist() == [4, 3]
    assert np.array_equal(changed.take(np.array([31, 7])).coordinates(), joined.coordinates(np.array([31, 7])))
    assert np.array_equal(changed.coordinates(np.arange(5, 32)), joined.coordinates(np.arange(5, 32)))
    again = changed.refitted(rng.standard_normal((32, 3)).astype(np.float32))
    assert np.allclose(
        again.boost({"fresh": 2.0, "same": 1.0}, 1, NOW), changed.boost({"fresh": 2.0, "same": 1.0}, 1, NOW)
    )


def test_a_signal_is_spread_as_far_as_ordinary_coordinates_times_three():
    rng = np.random.default_rng(3)
    factors = rng.standard_normal((5_000, 8)).astype(np.float32) * 0.01
    data = some_signals(rng, 5_000)
    for names, times in ((["margin"], 3), (list(data), 3 / 5**0.25)):
        spread = Signals.fit({name: data[name] for name in names}, factors).coordinates().astype(np.float64)
        assert np.allclose(spread.mean(0), 0, atol=1e-6)
        assert np.allclose(spread.std(0), [0.0 if name == "same" else 0.01 * times for name in names], rtol=0.05)


def test_decaying_signals_wear():
    factors = np.ones((2, 2), np.float32)
    signals = Signals.fit({"fresh": Decaying([0.0, 10.0], tau=10.0)}, factors)
    assert not signals.joined({"fresh": [25.0]}, 1).worn
    late = signals.joined({"fresh": [50.0]}, 1)
    assert late.worn
    assert not late.refitted(np.ones((3, 2), np.float32)).worn
    with pytest.raises(ValueError, match=r"signals\['fresh'\] has an item 99 lifetimes newer"):
        signals.joined({"fresh": [1000.0]}, 1)


def test_they_go_through_a_file():
    rng = np.random.default_rng(4)
    signals = Signals.fit(some_signals(rng, 20), rng.standard_normal((20, 3)).astype(np.float32))
    again = Signals.from_arrays(signals.to_arrays(), json.loads(json.dumps(signals.facts())))
    boosts = {"fresh": 1.0, "popularity": 2.0}
    assert again.names == signals.names
    assert np.array_equal(again.coordinates(), signals.coordinates())
    assert np.array_equal(again.query_part(boosts, 2, NOW), signals.query_part(boosts, 2, NOW))
    assert repr(again) == repr(signals)
    assert "fresh (half-life 30 days, 0:00:00)" in repr(signals)
    assert signals.nbytes == 20 * 5 * 8


def test_moments_may_be_anything_that_tells_time():
    utc = datetime.datetime(2024, 1, 2, 12, tzinfo=datetime.UTC)
    forms = [
        np.array(["2024-01-02T12"], "datetime64[h]"),
        [datetime.datetime(2024, 1, 2, 12)],
        [utc.astimezone(datetime.timezone(datetime.timedelta(hours=5)))],
        [utc.timestamp()],
    ]
    assert {float(Decaying(form, tau=1.0).times[0]) for form in forms} == {utc.timestamp()}
    assert Decaying([datetime.date(2024, 1, 2)], tau=1.0).times[0] == utc.timestamp() - DAY / 2
    for half_life in (DAY, datetime.timedelta(days=1), np.timedelta64(1, "D")):
        assert Decaying([utc], half_life=half_life).half_life == pytest.approx(DAY)
    fresh = Decaying([utc], half_life=DAY)
    for now in ("2024-01-03T12:00", "2024-01-03 14:00+02:00", utc + datetime.timedelta(days=1)):
        assert fresh.at(now) == pytest.approx(0.5)
    with pytest.raises(ValueError, match=r"now is 'soon', but must be a time such as 2030-12-31T12:00\."):
        fresh.at("soon")


def test_no_signals_are_no_coordinates():
    signals = Signals.fit({}, np.ones((3, 2), np.float32))
    assert signals.extend(np.ones((3, 2))).shape == (3, 2)
    assert signals.query_part({}, 4).shape == (4, 0)


GOOD = {"a": [1.0, 2.0, 3.0], "fresh": Decaying([1.0, 2.0, 3.0], tau=1.0)}


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({"a": [1.0, 2.0]}, r"signals\['a'\] has 2 values, but there are 3 items\."),
        ({"a": [1.0, np.nan, 2.0]}, r"signals\['a'\] holds nan in row 1, but must be finite; fill missing values\."),
        ({"a": ["x", "y", "z"]}, r"signals\['a'\] holds <U1, but must hold real numbers"),
        ({"a": np.ones((3, 2))}, r"signals\['a'\] has 2 dimensions, but must have 1\."),
        ({3: [1.0, 2.0, 3.0]}, "signals has a column named 3, but column names must be strings."),
        ([1.0], "signals must be a dict or a frame of columns, not list."),
        ({"a": [1.0, 1.0, -1e308]}, r"signals\['a'\] holds -1e\+308, which is too large for float32; scale it down\."),
    ],
)
def test_bad_signals_get_a_sentence(data, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        Signals.fit(data, np.ones((3, 2), np.float32))


@pytest.mark.parametrize(
    ("boosts", "sentence"),
    [
        ({"b": 1.0}, "boosts names 'b', which is not a signal; there are 'a', 'fresh'."),
        ({"a": np.nan}, r"boosts\['a'\] is nan, but weights must be finite\."),
        (
            {"a": [1.0, 2.0, 3.0]},
            r"boosts\['a'\] has shape \(3,\), but must be one weight, or one for each of the 2 queries\.",
        ),
        ({"a": "much"}, r"boosts\['a'\] holds <U4, but must hold real numbers"),
        ([1.0], "boosts must be a dict of weights by signal name, not list."),
    ],
)
def test_bad_boosts_get_a_sentence(boosts, sentence):
    signals = Signals.fit(GOOD, np.ones((3, 2), np.float32))
    for ask in (signals.query_part, signals.offset, signals.boost):
        with pytest.raises((ValueError, TypeError), match=sentence):
            ask(boosts, 2)


def test_a_weight_too_large_gets_a_sentence():
    signals = Signals.fit(GOOD, np.ones((3, 2), np.float32))
    with pytest.raises(
        ValueError, match=r"boosts\['a'\] is 1e\+300, which is too large for float32; use a smaller weight\."
    ):
        signals.query_part({"a": 1e300}, 2)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"tau": 0.0}, "tau is 0, but must be above 0."),
        ({"half_life": -1.0}, "half_life is -1.0, but must be finite and at least 0."),
        ({}, "a decaying signal needs either half_life or tau; pass exactly one of them."),
        ({"tau": 1.0, "half_life": 1.0}, "a decaying signal needs either half_life or tau; pass exactly one of them."),
        ({"tau": 1.0, "times": np.array(["2024-01-01", "NaT"], "datetime64[D]")}, "times holds NaT in row 1"),
        ({"tau": 1.0, "times": ["soon"]}, "times holds strings, but must hold dates, times or seconds since 1970."),
    ],
)
def test_bad_decays_get_a_sentence(arguments, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        Decaying(**({"times": [1.0]} | arguments))


def test_new_items_have_the_same_signals():
    signals = Signals.fit(GOOD, np.ones((3, 2), np.float32))
    for data, sentence in [
        ({"a": [1.0]}, "signals has no 'fresh', but must have 'a', 'fresh'."),
        ({"a": [1.0], "fresh": [1.0], "b": [1.0]}, "signals has 'b', but the signals are 'a', 'fresh'."),
        (
            {"a": [1.0], "fresh": Decaying([1.0], tau=2.0)},
            r"signals\['fresh'\] has a lifetime of 2 s, but was built with 1 s\.",
        ),
        ({"a": Decaying([1.0], tau=2.0), "fresh": [1.0]}, r"signals\['a'\] has a lifetime of 2 s"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            signals.joined(data, 1)
