"""Searches with boosts keep the recall that was asked for, whatever the strength, and do not depend on each other."""

import json

import numpy as np
import pytest

import tessella as ts
from tessella.datasets import generated_factors
from tessella.recommend.boosting import RANGES, Boosting, boosted_samples
from tessella.recommend.signals import Signals
from tessella.retrieval.plan import Exact
from tessella.search.filters import LazyFilter, filter_for
from tessella.search.recall import recall
from tessella.search.route import search

TARGET = 0.9
NAMES = ("fresh", "picked", "popularity")


def signals_of(rng, items):
    n = len(items)
    return {
        "fresh": np.exp(-rng.exponential(3, n)),
        "picked": rng.random(n) < 0.02,
        "popularity": 5 + np.log(np.linalg.norm(items, axis=1)) + 0.3 * rng.standard_normal(n),
    }


@pytest.fixture(scope="module", params=[("fresh",), NAMES], ids=["one", "three"])
def told(request):
    """Items with signals, searched by tiles, the plans for boosts, and users that they were not measured with."""
    items, users = generated_factors(12_000, 1_600, 16, seed=5)
    data = signals_of(np.random.default_rng(0), items)
    signals = Signals.fit({name: data[name] for name in request.param}, items)
    index = ts.Index.build(signals.extend(items), method="tiles")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "tessella.search.tuning.seconds_of", lambda methods, *_: {m: 1 + (m.name != "tiles") for m in methods}
        )
        patch.setattr("tessella.search.tuning._least_slots", lambda *_: ())
        index.tune(np.hstack([users[:1_000], signals.query_part(None, 1_000)]), TARGET)
        boosting = Boosting.measured(index._version, len(signals.names), users[:1_000])
    return index, boosting, users[1_000:]


def measured(index, boosting, queries, k):
    truth = index.search(queries, k, exact=True).scores
    return recall(boosting.search(index._version, queries, k).scores, truth).mean()


def with_boosts(users, n_signals, signal, strength):
    part = np.zeros((len(users), n_signals), np.float32)
    part[:, signal] = strength * np.linalg.norm(users, axis=1)
    return np.hstack([users, part])


@pytest.mark.parametrize("strength", [0.0, 0.005, 0.03, 0.1, 0.3, -0.3, 1.0, 1.9, 5.0])
@pytest.mark.parametrize("k", [1, 10, 100])
def test_the_recall_is_had_at_every_strength(told, strength, k):
    index, boosting, users = told
    for signal in range(boosting.n_signals):
        queries = with_boosts(users, boosting.n_signals, signal, strength)
        assert measured(index, boosting, queries, k) >= TARGET - 0.02


def test_plans_are_by_tiles_and_differ(told):
    _, boosting, _ = told
    assert len(boosting.plans) == len(RANGES)
    assert {step.method.name for plan in boosting.plans for step in plan.steps} == {"tiles"}
    assert len({plan.steps for plan in boosting.plans}) > 1
    assert "with boosts" in boosting.plans[0].reason


def test_without_boosts_the_plan_of_the_index_holds(told):
    index, boosting, users = told
    queries = with_boosts(users, boosting.n_signals, 0, 0.0)
    ours, theirs = boosting.search(index._version, queries, 10), index.search(queries, 10)
    assert np.array_equal(ours.ids, theirs.ids)
    assert np.array_equal(ours.n_scored, theirs.n_scored)


def test_strong_boosts_are_searched_exactly(told):
    index, boosting, users = told
    assert boosting.search(index._version, with_boosts(users, boosting.n_signals, 0, 2.1), 10).certified.all()
    only = np.zeros((1, index.n_factors), np.float32)
    only[:, -1] = 1e-6  # no user at all
    assert boosting.search(index._version, only, 10).certified.all()
    assert not boosting.search(index._version, with_boosts(users, boosting.n_signals, 0, 1.0), 10).certified.all()


def test_a_method_that_is_named_holds(told):
    index, boosting, users = told
    queries = with_boosts(users, boosting.n_signals, 0, 0.1)
    assert boosting.search(index._version, queries, 10, Exact()).certified.all()


@pytest.mark.parametrize("filters", ["none", "all", "each", "lazy"])
def test_queries_of_all_strengths_are_answered_as_each_alone(told, filters):
    index, boosting, users = told
    version = index._version
    rng = np.random.default_rng(2)
    strengths = rng.choice([0.0, 0.05, 0.2, 1.0, 4.0], 60)
    queries = np.concatenate([with_boosts(users[[at]], boosting.n_signals, 0, own) for at, own in enumerate(strengths)])
    lists = [rng.choice(12_000, 40, replace=False) for _ in range(60)]
    chosen = {
        "none": lambda _: None,
        "all": lambda some: filter_for(version, len(some), lists[0], None),
        "each": lambda some: filter_for(version, len(some), [lists[at] for at in some], None),
        "lazy": lambda some: filter_for(version, len(some), None, [lists[at].tolist() * 20 for at in some]),
    }[filters]
    whole = chosen(range(60))
    if filters == "lazy":
        assert isinstance(whole, LazyFilter)
        whole = whole._replace(queries_at_once=7)
    together = boosting.search(version, queries, 5, None, whole)
    for threads in (1, 2):
        again = boosting.search(version, queries, 5, None, whole, threads)
        assert np.array_equal(again.ids, together.ids)
    for at in range(60):
        alone = boosting.search(version, queries[[at]], 5, None, chosen([at]))
        for name, part in together.arrays().items():
            assert np.array_equal(part[[at]], getattr(alone, name)), name
    one = boosting.search(version, queries[3], 5, None, chosen([3]))
    assert one.ids.tolist() == together.ids[3].tolist()
    assert boosting.search(version, queries[:0], 5).ids.shape == (0, 5)


def test_it_follows_versions(told):
    index, boosting, users = told
    copy = ts.Index(index._version)
    queries = with_boosts(users, boosting.n_signals, 0, 0.2)
    boosting.search(copy._version, queries, 3)
    far = np.zeros((1, index.n_factors))
    far[0, -boosting.n_signals] = 1e4
    copy.add(far, [99_999])
    assert (boosting.search(copy._version, queries, 3).ids[:, 0] == 99_999).all()
    assert not (boosting.search(index._version, queries, 3).ids == 99_999).any()


def test_plans_go_through_json(told):
    _, boosting, _ = told
    again = Boosting.from_json(json.loads(json.dumps(boosting.to_json())), boosting.n_signals, tiled=True)
    assert again == boosting
    with pytest.raises(ValueError, match="there are 1 plans for boosts, but there must be 3"):
        Boosting.from_json(boosting.to_json()[:1], 1, tiled=True)


def test_where_all_is_exact_nothing_is_measured():
    index = ts.Index.build(np.eye(4))
    assert Boosting.measured(index._version, 1) is None
    unmeasured = ts.Index.build(generated_factors(5_000, 1)[0], method="tiles")
    assert Boosting.measured(unmeasured._version, 1) is None


def test_queries_are_made_up_where_there_are_no_users(told):
    index, boosting, users = told
    made_up = Boosting.measured(index._version, boosting.n_signals)
    queries = with_boosts(users, boosting.n_signals, 0, 0.2)
    assert measured(index, made_up, queries, 10) >= TARGET - 0.02


def test_samples_have_the_strengths_asked_for():
    users = np.random.default_rng(0).standard_normal((50, 4)).astype(np.float32)
    one, three = boosted_samples(users, 1, 0.1, 0.4), boosted_samples(users, 3, 0.1, 0.4)
    assert (len(one), len(three)) == (3, 10)
    for sample in [*one, *three]:
        width = sample.shape[1] - 4
        strengths = np.linalg.norm(sample[:, -width:], axis=1) / np.linalg.norm(sample[:, :4], axis=1)
        assert (strengths > 0.0999).all()
        assert (strengths < 0.4001).all()
    assert (one[0][:, 4] > 0).all()
    assert (one[0][:, 4] / np.linalg.norm(one[0][:, :4], axis=1) < 0.2001).all()
    assert (one[1][:, 4] / np.linalg.norm(one[1][:, :4], axis=1) > 0.1999).all()
    assert (one[2][:, 4] < 0).all()
    assert (np.count_nonzero(three[-1][:, 4:], axis=1) == 3).all()


def test_the_route_is_the_one_of_the_index(told):
    """A search with boosts is the search of an index that has this plan."""
    index, boosting, users = told
    queries = with_boosts(users[:50], boosting.n_signals, 0, 0.2)
    named = boosting.plans[1].method_for(10)
    ours, theirs = boosting.search(index._version, queries, 10), search(index._version, queries, 10, named)
    assert np.array_equal(ours.ids, theirs.ids)
