"""Plans: the fastest method that reaches a recall is taken, and nothing is kept for the others."""

import pickle

import numpy as np
import pytest

import tessella as ts
from tessella.datasets import generated_factors
from tessella.search import made_up, measuring, tuning
from tessella.search.made_up import made_up_queries

ITEMS, USERS = generated_factors(5_200, 300, 16, kind="als-heavy", seed=3)


def measured_recall(index, users, k=10):
    truth = index.search(users, k, exact=True).scores[:, -1:]
    return np.mean(index.search(users, k).scores >= truth - 1e-5 * np.abs(truth))


@pytest.mark.parametrize(
    ("items", "options", "reason"),
    [
        (ITEMS[:4_999], {}, "there are only 4,999 items"),
        (ITEMS, {"target_recall": 1.0}, "only it has a recall of 1"),
        (ITEMS[:1], {"target_recall": 0.0}, "there are only 1 items"),
    ],
)
def test_exact_search_without_measuring(items, options, reason, monkeypatch):
    def fail(*_):
        raise RuntimeError("measured")

    monkeypatch.setattr(tuning, "tuned", fail)
    monkeypatch.setattr("tessella.index.tuned", fail)
    index = ts.Index.build(items, **options)
    assert index.plan.method.name == "exact"
    assert reason in index.plan.reason
    assert index.tiles is None
    assert index.memory["tiles"] == 0
    assert index.search(USERS).certified.all()


@pytest.mark.parametrize(
    ("name", "target"), [("tiles", 0.5), ("tiles", 0.9), ("tiles", 0.97), ("slots", 0.5), ("slots", 0.9)]
)
def test_the_recall_asked_for_is_reached(fastest, name, target):
    fastest(name)
    index = ts.Index.build(ITEMS, target_recall=target, queries=USERS)
    plan = index.plan
    assert plan.method.name == name
    recall, at_least = plan.recall
    assert target <= at_least <= recall == pytest.approx(measured_recall(index, USERS))
    assert plan.trials[0][:3] == (ts.Exact(), 1.0, 1.0)
    chosen = next(trial for trial in plan.trials if trial.method.name == name and trial.k == plan.k)
    assert (chosen.recall, chosen.recall_low) == plan.recall
    assert "300 queries given" in plan.reason
    assert index.search(USERS).n_scored.mean() < (5_200 if name == "slots" else 500)
    assert index.search(USERS, exact=True).certified.all()


@pytest.mark.parametrize("name", ["exact", "slots"])
def test_nothing_is_kept_of_tiles_that_are_not_chosen(fastest, name):
    fastest(name)
    index = ts.Index.build(ITEMS)
    assert index.plan.method.name == name
    assert "2,000 queries generated from the items" in index.plan.reason
    assert index.tiles is None
    assert index.memory["tiles"] == 0
    plain = ts.Index.build(ITEMS, method="exact")
    assert index.memory == plain.memory
    with pytest.raises(ValueError, match="method is Tiles, but the index has no tiles"):
        index.search(USERS, method=ts.Tiles(0.5))


def test_a_plan_survives_changes_files_and_rebuilding(fastest, tmp_path):
    fastest("tiles")
    index = ts.Index.build(ITEMS, queries=USERS)
    plan = index.plan
    assert plan.method.name == "tiles"
    index.save(tmp_path / "items")
    index.add(ITEMS[:5], 9_000 + np.arange(5))
    for same in (index, ts.Index.load(tmp_path / "items"), pickle.loads(pickle.dumps(index))):  # noqa: S301
        assert same.plan == plan
        assert str(same.plan) == str(plan)
        assert same.tiles == index.tiles is not None
    assert (plan.target_recall, plan.k, plan.automatic) == (0.95, 10, True)


@pytest.mark.parametrize("name", ["exact", "tiles"])
def test_rebuilding_chooses_anew_what_was_chosen(fastest, name):
    fastest(name)
    index = ts.Index.build(ITEMS, target_recall=0.9)
    index.add(ITEMS[:5], 9_000 + np.arange(5))
    before = index.plan
    fastest("tiles")
    index.rebuild(queries=USERS)
    assert index.plan.method.name == "tiles"
    assert index.tiles == ts.LearnedTiles()
    assert "the fastest method with a recall of at least 0.9, on 300 queries given" in index.plan.reason
    assert index.plan != before
    assert measured_recall(index, USERS, 10) >= 0.9
    index.rebuild()
    assert "queries generated from the items" in index.plan.reason
    with pytest.raises(ValueError, match="queries has 0 rows"):
        index.rebuild(queries=USERS[:0])


def test_rebuilding_tunes_what_was_tuned_and_leaves_the_rest(fastest):
    fastest("tiles")
    tiles = ts.LearnedTiles(n_tiles=40)
    index = ts.Index.build(ITEMS, method=tiles)
    plan = index.plan
    index.rebuild()
    assert index.plan == plan
    index.tune(USERS, 0.8, k=5)
    index.rebuild(queries=USERS)
    assert (index.plan.target_recall, index.plan.k, index.plan.automatic) == (0.8, 5, False)
    assert index.tiles == tiles


def test_a_small_index_that_has_grown_gets_tiles_when_it_is_rebuilt(fastest):
    fastest("tiles")
    index = ts.Index.build(ITEMS[:1000])
    assert index.tiles is None
    index.add(ITEMS[1000:], np.arange(1000, len(ITEMS)))
    index.rebuild(queries=USERS)
    assert index.plan.method.name == "tiles"


def test_tiles_are_tuned_when_a_recall_is_asked_for(fastest):
    fastest("tiles")
    index = ts.Index.build(ITEMS, method=ts.LearnedTiles(), target_recall=0.9, queries=USERS)
    assert index.plan.method.name == "tiles"
    assert index.plan.recall[1] >= 0.9
    assert not index.plan.automatic


def test_a_plan_prints_what_was_measured(fastest):
    fastest("tiles")
    plan = ts.Index.build(ITEMS, queries=USERS).plan
    lines = str(plan).splitlines()
    assert lines[0].startswith(
        f"tiles, reach {plan.method.reach:g}: the fastest method with a recall of at least 0.95, on 300 queries given"
    )
    assert lines[1].split() == ["k", "excluded", "method", "recall", "at", "least", "below", "0.8", "queries/s"]
    assert len(lines) == 2 + len(plan.trials)
    rows = [line.split() for line in lines[2:]]
    assert [(int(row[0].replace(",", "")), row[1]) for row in rows[:2]] == [(1, "0"), (1, "0")]
    assert rows[0][2:] == ["exact", "1.0000", "1.0000", "0.0%", rows[0][-1]]
    assert {row[2].rstrip(",") for row in rows} == {"exact", "tiles", "slots"}
    assert {row[-1] for row in rows if row[1] != "0"} == {"-"}  # not timed
    assert str(ts.Index.build(np.eye(3)).plan).startswith("exact: there are only 3 items")


@pytest.mark.parametrize("k", [1, 7, 40])
def test_tuning_sets_the_plan(fastest, k):
    fastest("tiles")
    index = ts.Index.build(ITEMS, method=ts.LearnedTiles())
    before = index.search(USERS[0], 5, exact=True)
    plan = index.tune(USERS, 0.9, k)
    assert index.plan is plan
    assert plan.method.name == "tiles"
    assert 0.9 <= plan.recall[1] <= plan.recall[0] == pytest.approx(measured_recall(index, USERS, k))
    assert index.version == 0
    np.testing.assert_array_equal(index.search(USERS[0], 5, exact=True).ids, before.ids)
    loose, strict = (index.tune(USERS, target, k).method.reach for target in (0.3, 0.99))
    assert loose <= plan.method.reach <= strict
    assert loose < strict
    assert index.tune(USERS, 1.0, k).method.name in ("exact", "tiles")
    assert index.plan.recall == (1.0, 1.0)
    assert index.tune(target_recall=0.8).recall[1] >= 0.8


def test_tuning_where_there_are_fewer_items_than_answers(rng):
    index = ts.Index.build(rng.standard_normal((6, 4)), method=ts.LearnedTiles())
    plan = index.tune(rng.standard_normal((20, 4)), 0.9, k=50)
    assert plan.recall == (1.0, 1.0)
    assert plan.k == 50


def test_slots_are_tuned_for_an_index_without_tiles(fastest):
    fastest("slots")
    index = ts.Index.build(ITEMS, method="exact")
    plan = index.tune(USERS, 0.8)
    assert plan.method.name == "slots"
    assert {trial.method.name for trial in plan.trials} == {"exact", "slots"}
    assert index.search(USERS).n_scored.max() <= plan.method.budget


def test_few_queries_prove_little(fastest):
    """That all of three queries find all does not show that 95 of 100 answers are found."""
    fastest("tiles")
    index = ts.Index.build(ITEMS, method=ts.LearnedTiles())
    assert index.tune(USERS[:3], 0.95).recall == (1.0, 1.0)
    assert index.plan.method.name == "exact" or index.plan.method.reach == 1
    plan = index.tune(USERS, 0.95)
    assert plan.method.name == "tiles"
    assert 0.95 <= plan.recall[1] < plan.recall[0]


@pytest.mark.parametrize("size", [1e-30, 1e19, 1.6e38])
def test_items_of_any_size_can_be_tuned_for(size):
    for shape in (ITEMS, ITEMS * 0.3 ** np.arange(16)):
        index = ts.Index.build((shape / np.linalg.norm(shape, axis=1).max() * size).astype(np.float32))
        assert 0.95 <= index.plan.recall[1] <= index.plan.recall[0] <= 1
        for sample in made_up_queries(index._version):
            assert np.linalg.norm(sample, axis=1).max() < 1.001  # so that products with the longest items fit


def test_made_up_queries_draw_items_that_are_there_by_their_length(rng):
    index = ts.Index.build(ITEMS[:5_000], method="exact")
    index.add(ITEMS[5_000:], np.arange(5_000, 5_200))
    index.remove(rng.permutation(5_000)[:100])
    version = index._version
    assert len(version.segments) == 2
    live = np.concatenate([segment.live + base for segment, base in version.parts()])
    np.testing.assert_array_equal(made_up._positions(version, np.arange(5_100)), live)
    lengths = np.linalg.norm(version.factors_at(live).astype(np.float64), axis=1)
    for _ in range(8):
        lengths = np.minimum(lengths, lengths.sum() * made_up.MOST_LIKED)
    np.testing.assert_allclose(made_up._shares(version), np.cumsum(lengths) / lengths.sum(), rtol=1e-9)


def test_items_without_length_can_be_tuned_for():
    assert ts.Index.build(np.zeros((5_000, 3))).search(USERS[:2, :3]).scores.tolist() == [[0.0] * 10] * 2


BAD = [
    (lambda index: index.tune(USERS[:0]), "queries has 0 rows, but at least 1 is needed to measure recall."),
    (lambda index: index.tune(USERS[:, :5]), "queries has 5 columns, but 16 are expected."),
    (lambda index: index.tune(USERS[0]), "queries has 1 dimensions, but must have 2"),
    (lambda index: index.tune(np.full((1, 16), np.nan)), "queries holds nan in row 0, column 0;"),
    (lambda index: index.tune(USERS * 1e37), "their product is too large for float32"),
    (lambda index: index.tune(USERS, -0.1), "target_recall is -0.1, but must be from 0 to 1."),
    (lambda index: index.tune(USERS, 1.1), "target_recall is 1.1, but must be from 0 to 1."),
    (lambda index: index.tune(USERS, np.nan), "target_recall is nan, but must be from 0 to 1."),
    (lambda index: index.tune(USERS, "all"), "target_recall must be a number, not str."),
    (lambda index: index.tune(USERS, k=0), "k is 0, but must be"),
    (lambda index: index.tune(USERS, k=1.5), "k must be an integer, not float."),
]  # fmt: skip


@pytest.mark.parametrize(("call", "sentence"), BAD, ids=[sentence for _, sentence in BAD])
def test_bad_input_changes_nothing(call, sentence):
    index = ts.Index.build(ITEMS[:500], method=ts.LearnedTiles())
    version = index._version
    with pytest.raises((TypeError, ValueError)) as raised:
        call(index)
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)
    assert index._version is version


def test_an_empty_index_cannot_be_tuned():
    index = ts.Index.build(ITEMS[:50], method=ts.LearnedTiles())
    index.remove(index.ids)
    version = index._version
    with pytest.raises(ValueError, match="the index holds no items, but at least 1 is needed to tune; add some first"):
        index.tune(USERS)
    assert index._version is version


@pytest.mark.parametrize("times", [1e3, 1e6, 1e9])
def test_one_item_that_is_far_too_long_does_not_mislead_the_plan(fastest, times):
    fastest("tiles")
    items, users = generated_factors(6_000, 300, 24, seed=4)
    items[7] *= np.float32(times)
    index = ts.Index.build(items)
    assert measured_recall(index, users) >= 0.93


def test_the_same_query_many_times_proves_as_little_as_once(fastest):
    fastest("tiles")
    index = ts.Index.build(ITEMS, method=ts.LearnedTiles())
    once, often = index.tune(USERS[:3], 0.9), index.tune(np.repeat(USERS[:3], 200, axis=0), 0.9)
    assert once.method == often.method
    assert once.recall == pytest.approx(often.recall)


def test_tuning_for_many_answers_ends():
    index = ts.Index.build(ITEMS, method=ts.LearnedTiles())
    plan = index.tune(USERS, 0.9, k=len(ITEMS))
    assert plan.recall[0] >= 0.9


def test_a_budget_grows_with_k(fastest):
    fastest("slots")
    index = ts.Index.build(ITEMS, method="exact")
    plan = index.tune(USERS, 0.8, k=10)
    assert plan.method_for(10) == plan.method
    by_k = {step.k: step.method for step in plan.steps}
    assert plan.method_for(25).budget >= 25 * by_k[10].budget / 10
    assert plan.method_for(25).budget >= 25 * by_k[30].budget / 30
    assert index.search(USERS, 25).n_scored.max() <= plan.method_for(25).budget
    assert index.search(USERS, 25, exclude=[[0]] * len(USERS)).certified.all()  # by slots nothing was measured so


def test_what_is_timed_is_what_is_served(monkeypatch):
    """Plans are measured by the route that answers searches."""
    asked = []
    search = measuring.search
    monkeypatch.setattr(
        measuring, "search", lambda *arguments, **options: asked.append(arguments[3]) or search(*arguments, **options)
    )
    assert measuring.search is not search
    plan = ts.Index.build(ITEMS, queries=USERS).plan
    assert plan.method in asked
    assert {type(method) for method in asked} == {ts.Exact, ts.Tiles, ts.Slots}


@pytest.mark.parametrize("n", [0, 1, 7, 26])
def test_the_first_step_that_is_enough_is_found_from_any_guess(n):
    for first in range(n + 1):
        for guess in (None, *range(n)):
            asked = []
            found = tuning._first(n, lambda at: asked.append(at) or at >= first, guess)  # noqa: B023
            assert found == first
            assert len(asked) == len(set(asked))
            assert len(asked) <= 2 * n.bit_length()
