"""The promise: the recall asked for is had at every k, behind excluded items and under allow lists, until it is stale."""

import pickle
import subprocess
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest

import tessella as ts
from tessella.datasets import generated_factors
from tessella.retrieval.engine import Filter
from tessella.retrieval.plan import Plan, Step, Trial, plan_from_json, plan_to_json
from tessella.search.recall import recall
from tessella.search.staleness import MOST_CHANGED

TARGET = 0.9


def flat(rng, n, users):
    return rng.standard_normal((n, 16)), rng.standard_normal((users, 16))


def clustered(rng, n, users):
    centres = 3 * rng.standard_normal((100, 16))
    near = [centres[rng.integers(100, size=size)] + rng.standard_normal((size, 16)) for size in (n, users)]
    return near[0], near[1]


def heavy(rng, n, users):
    axes = np.arange(1, 17) ** -0.4
    items, queries = (rng.standard_normal((size, 16)) * axes for size in (n, users))
    return items * rng.lognormal(0, 1, (n, 1)), queries


def learned(_, n, users):
    return generated_factors(n, users, 16, seed=5)


@pytest.fixture(scope="module", params=[flat, clustered, heavy, learned], ids=lambda make: make.__name__)
def told(request):
    """An index by tiles, tuned on some users, and other users."""
    items, users = request.param(np.random.default_rng(3), 12_000, 1_600)
    index = ts.Index.build(items.astype(np.float32), method="tiles")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "tessella.search.tuning.seconds_of", lambda methods, *_: {m: 1 + (m.name != "tiles") for m in methods}
        )
        patch.setattr("tessella.search.tuning._least_slots", lambda *_: ())
        index.tune(users[:1_000], TARGET)
    assert {step.method.name for step in index.plan.steps} == {"tiles"}
    return index, users[1_000:].astype(np.float32)


def measured(index, users, k, **filters):
    truth = index.search(users, k, exact=True, **filters).scores
    return recall(index.search(users, k, **filters).scores, truth).mean()


@pytest.mark.parametrize("k", [1, 3, 10, 20, 50, 100, 500, 1000])
def test_the_recall_is_had_at_every_k(told, k):
    index, users = told
    assert measured(index, users, k) >= TARGET - 0.01


@pytest.mark.parametrize("k", [1, 10, 100])
@pytest.mark.parametrize("n_excluded", [1, 20, 100])
def test_the_recall_is_had_behind_the_best_items(told, k, n_excluded):
    index, users = told
    best = index.search(users[:300], n_excluded, exact=True).ids
    assert measured(index, users[:300], k, exclude=list(best)) >= TARGET - 0.01


@pytest.mark.parametrize("k", [1, 10, 100])
@pytest.mark.parametrize("share", [0.05, 0.3, 0.9])
def test_the_recall_is_had_from_a_list_of_allowed_items(told, k, share):
    index, users = told
    allowed = np.random.default_rng(1).permutation(12_000)[: int(12_000 * share)]
    assert measured(index, users[:400], k, allow=allowed) >= TARGET - 0.01


def test_the_recall_is_had_where_everybodys_best_are_not_allowed(told):
    index, users = told
    best = np.unique(index.search(users[:40], 10, exact=True).ids)
    assert measured(index, users, 10, allow=np.setdiff1d(index.ids, best)) >= TARGET - 0.01


def test_deeper_than_was_measured_is_exact(told):
    index, users = told
    assert index.search(users[:3], 1_001).certified.all()
    assert not index.search(users[:50], 1_000).certified.all()
    many = index.search(users[:3], 1_400, exact=True).ids
    assert index.search(users[:3], 10, exclude=list(many)).certified.all()
    few = np.arange(0, 12_000, 60)[:200]
    assert index.search(users[:3], 10, allow=few).certified.all()
    assert index.search(users[:3], 100, allow=np.arange(900)).certified.all()  # the best 100 of them are among 1,300


def test_a_trial_says_for_which_k_it_is_and_how_recall_is_spread(told):
    plan = told[0].plan
    assert [step.k for step in plan.steps] == [1, 10, 30, 100, 300, 1000]
    for step in plan.steps:
        trial = next(t for t in plan.trials if (t.k, t.n_excluded, t.method) == (step.k, 0, step.method))
        assert TARGET <= trial.recall_low <= trial.recall
        assert 0 <= trial.share_below <= 1
        assert trial.queries_per_second > 0
        assert step.excluding.reach >= step.method.reach
    assert any(trial.share_below > 0 for trial in plan.trials)
    assert {(trial.k, trial.n_excluded) for trial in plan.trials if trial.n_excluded} >= {
        (1, 5),
        (10, 90),
        (1000, 300),
    }


@pytest.mark.parametrize("counts", [[0, 3, 1_400, 50, 0, 1] * 15, [2] * 40 + [0, 1_400, 0] + [2] * 47])
def test_answers_do_not_depend_on_who_else_asks(told, counts):
    """Queries that exclude nothing, something and too much have different settings."""
    index, users = told
    best = index.search(users[:90], 1_400, exact=True).ids
    without = [list(best[user, :count]) for user, count in enumerate(counts)]
    found = index.search(users[:90], 7, exclude=without, threads=2)
    assert found.certified.any()
    assert not found.certified.all()
    for user in range(90):
        alone = index.search(users[user : user + 1], 7, exclude=[without[user]])
        for mine, theirs in zip(found.arrays().values(), alone.arrays().values(), strict=True):
            np.testing.assert_array_equal(mine[user], theirs[0])
    half = index.search(users[45:90], 7, exclude=without[45:])
    np.testing.assert_array_equal(half.ids, found.ids[45:])


def test_lists_of_allowed_items_of_any_length_give_what_each_alone_gives(told):
    index, users = told
    rng = np.random.default_rng(2)
    allowed = [rng.permutation(12_000)[:size] for size in rng.integers(0, 9_000, 40)]
    found = index.search(users[:40], 6, allow=allowed, threads=2)
    for user in range(40):
        np.testing.assert_array_equal(
            found.ids[user], index.search(users[user : user + 1], 6, allow=[allowed[user]]).ids[0]
        )


def test_a_bad_query_among_others_is_named_by_its_row(told):
    index, users = told
    asked = users[:60].copy()
    asked[[17, 44]] = np.nan
    without = [[1]] * 30 + [[]] * 30
    with pytest.raises(ValueError, match="queries holds nan in row 17"):
        index.search(asked, exclude=without)
    with pytest.raises(ValueError, match="queries holds nan in row 17"):
        index.search(asked, exclude=without[::-1])


def test_filters_are_gathered_by_query():
    listed, starts = np.array([1, 4, 2, 7, 8, 9]), np.array([0, 2, 2, 3, 6])
    some = Filter(None, 0, listed, starts, only=False).of_numbers(np.array([3, 1, 0]))
    assert some.listed.tolist() == [7, 8, 9, 1, 4]
    assert some.starts.tolist() == [0, 3, 3, 5]
    assert Filter(None, 0, listed, None, only=False).of_numbers(np.array([0])).listed is listed


STEPS = (
    Step(1, ts.Tiles(0.5), ts.Tiles(0.6)),
    Step(100, ts.Tiles(0.3), ts.Tiles(0.4)),
    Step(300, ts.Tiles(0.4), ts.Exact()),
)
PLAN = Plan(ts.Tiles(0.5), "", steps=STEPS, trials=(Trial(ts.Tiles(0.4), 1, 1, None, 100, 50),))


@pytest.mark.parametrize(
    ("k", "n_excluded", "method"),
    [
        (1, 0, ts.Tiles(0.5)),
        (10, 0, ts.Tiles(0.4)),  # falls with the logarithm of k
        (100, 0, ts.Tiles(0.3)),
        (101, 0, ts.Tiles(0.4)),  # does not wait to rise
        (300, 0, ts.Tiles(0.4)),
        (301, 0, ts.Exact()),
        (10, 1, ts.Tiles(0.5)),
        (10, 50, ts.Tiles(0.5)),
        (10, 51, ts.Exact()),  # more than was measured
        (120, 1, ts.Exact()),  # between two methods
    ],
)
def test_between_measured_k_the_safer_method_is_taken(k, n_excluded, method):
    assert PLAN.method_for(k, n_excluded) == method


def test_slots_between_measured_k_have_the_larger_budget():
    steps = (Step(10, ts.Slots(100, 16), ts.Exact()), Step(30, ts.Slots(600, 24), ts.Exact()))
    assert Plan(ts.Slots(100, 16), "", steps=steps).method_for(15) == ts.Slots(300, 24)
    steps = (Step(10, ts.Slots("all", 16), ts.Exact()), Step(30, ts.Slots(600, 24), ts.Exact()))
    assert Plan(ts.Slots(100, 16), "", steps=steps).method_for(15) == ts.Exact()


def test_a_plan_survives_json(told):
    plan = told[0].plan
    assert plan_from_json(plan_to_json(plan), tiled=True) == plan
    same = pickle.loads(pickle.dumps(told[0]))  # noqa: S301
    assert same.plan == plan
    np.testing.assert_array_equal(same.search(told[1], 40).ids, told[0].search(told[1], 40).ids)
    with pytest.raises(ValueError, match="the plan uses tiles, but the index has none"):
        plan_from_json(plan_to_json(replace(plan, method=ts.Exact())), tiled=False)
    with pytest.raises(ValueError, match="steps do not ascend"):
        plan_from_json(plan_to_json(replace(plan, steps=plan.steps[::-1])), tiled=True)


def test_the_k_of_a_build_is_the_plans(fastest):
    fastest("tiles")
    items, users = generated_factors(5_200, 300, 16, seed=3)
    plan = ts.Index.build(items, queries=users, k=40).plan
    assert plan.k == 40
    assert [step.k for step in plan.steps] == [1, 10, 30, 40, 100, 300, 1000]
    assert plan.method_for(40) == plan.method
    with pytest.raises(ValueError, match="k is 0"):
        ts.Index.build(items, k=0)


def turned(factors, seed=0):
    """Factors as another training would leave them: the same products, other axes."""
    axes = np.linalg.qr(np.random.default_rng(seed).standard_normal((factors.shape[1], factors.shape[1])))[0]
    return (factors @ axes).astype(np.float32)


@pytest.fixture
def tiled(fastest):
    fastest("tiles")
    rng = np.random.default_rng(3)
    items, users = clustered(rng, 6_000, 900)
    return ts.Index.build(items.astype(np.float32), queries=users), items, users


@pytest.mark.parametrize(
    "mend", [lambda index, users: index.rebuild(queries=users), lambda index, users: index.tune(users)]
)
def test_a_plan_is_stale_once_a_retrained_model_has_replaced_all_items(tiled, mend):
    index, items, users = tiled
    index.update(turned(items), index.ids)
    assert measured(index, turned(users), 10) < 0.9
    assert "changes since it was measured amount to 100% of its items" in index.plan.stale
    assert "use tune(queries) or rebuild()" in index.plan.stale
    assert f"stale: {index.plan.stale}" in str(index.plan)
    assert "stale: use tune(queries) or rebuild()" in repr(index)
    loaded = pickle.loads(pickle.dumps(index))  # noqa: S301
    assert loaded.plan.stale == index.plan.stale
    mend(index, turned(users))
    assert index.plan.stale == ""
    assert "stale" not in repr(index)
    assert measured(index, turned(users), 10) >= 0.94


def test_a_warm_start_is_not_stale(tiled):
    index, items, users = tiled
    index.update(items + 0.02 * np.random.default_rng(0).standard_normal(items.shape), index.ids)
    assert measured(index, users, 10) >= 0.94
    assert index.plan.stale == ""
    assert "stale" not in repr(index)


def test_few_changes_are_not_even_measured(tiled, monkeypatch):
    index, items, _ = tiled
    calls = []
    monkeypatch.setattr("tessella.search.staleness._verdict", lambda version: calls.append(version) or "gone")
    few = int(MOST_CHANGED * len(items))
    index.update(turned(items[:few]), np.arange(few))
    assert index.plan.stale == ""
    assert not calls
    index.remove([0])
    assert index.plan.stale == "gone"
    index.add(items[:5], 90_000 + np.arange(5))
    assert index.plan.stale == "gone"
    assert len(calls) == 1  # not anew for every change
    index.remove(np.arange(1, 1 + few))
    assert index.plan.stale == "gone"
    assert len(calls) == 2


def test_an_exact_plan_is_never_stale():
    items, _ = generated_factors(3_000, 1, 8)
    index = ts.Index.build(items)
    index.update(turned(items), index.ids)
    assert index.plan.stale == ""
    index.remove(index.ids)
    assert index.plan.stale == ""


def joined():
    for thread in threading.enumerate():
        if thread.name == "tessella-tune":
            thread.join()


def test_traffic_is_kept_and_tuned_on_once(tiled):
    index, _, users = tiled
    index.tune_from_traffic(n=200, target_recall=0.8, k=20)
    index.search_all(users)
    index.search(users[0])
    assert index._traffic._n_kept == 1
    with pytest.raises(ValueError, match="queries has 3 columns"):
        index.search(users[:, :3])
    assert index._traffic._n_kept == 1
    for at in range(5):
        assert "given" in index.plan.reason
        index.search(users[100 * at : 100 * at + 100].tolist())
    joined()
    assert index._traffic is None
    plan = index.plan
    assert plan.reason == "the fastest method with a recall of at least 0.8, on 200 queries from traffic"
    assert (plan.k, plan.target_recall, plan.automatic) == (20, 0.8, True)
    index.search(users)
    joined()
    assert index.plan is plan


def test_traffic_from_many_threads_is_tuned_on_once(tiled):
    index, _, users = tiled
    index.tune_from_traffic(n=300)
    searching = [threading.Thread(target=lambda: [index.search(user) for user in users[:100]]) for _ in range(6)]
    for thread in searching:
        thread.start()
    for thread in searching:
        thread.join()
    joined()
    assert "on 300 queries from traffic" in index.plan.reason


def test_traffic_can_be_stopped_and_bad_numbers_are_refused(tiled):
    index, _, users = tiled
    index.tune_from_traffic(n=50)
    index.tune_from_traffic(n=0)
    index.search(users)
    assert index._traffic is None
    for options, sentence in (
        ({"n": -1}, "n is -1"),
        ({"n": 2.5}, "n must be an integer"),
        ({"target_recall": 2}, "target_recall is 2"),
        ({"k": 0}, "k is 0"),
    ):
        with pytest.raises((TypeError, ValueError), match=sentence):
            index.tune_from_traffic(**options)
    assert index._traffic is None


def test_an_index_that_was_emptied_is_left_as_it_is_by_traffic(tiled):
    index, _, users = tiled
    index.tune_from_traffic(n=4)
    index.remove(index.ids)
    plan = index.plan
    for user in users[:4]:
        index.search(user)
    joined()
    assert index.plan is plan


def test_an_interpreter_that_ends_does_not_wait_for_traffic():
    program = """
import tessella as ts
items, users = ts.datasets.generated_factors(20_000, 400)
index = ts.Index.build(items, method="tiles")
index.tune_from_traffic(n=400)
for at in range(0, 400, 100):
    index.search(users[at : at + 100])
print("traffic" in index.plan.reason)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)  # noqa: S603
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "False\n", "")
