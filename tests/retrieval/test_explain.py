"""Explanations, drift, plans and rebuilding."""

import numpy as np
import pytest

import tessella as ts


@pytest.fixture
def index(rng):
    return ts.Index.build(rng.standard_normal((2000, 16)) * rng.lognormal(0, 1, (2000, 1)))


def test_explanations_agree_with_searches(index, rng):
    user = rng.standard_normal(16).astype(np.float32)
    ranking = index.search(user, 2000)
    budget = 40 * 10
    chosen = set(index.search(user, 10, budget=budget, max_slots=24).ids.tolist())
    for rank in (0, 4, 9, 200, 1999):
        item = int(ranking.ids[rank])
        said = index.explain(user, item)
        assert said.rank == rank + 1
        assert np.float32(said.score) == ranking.scores[rank]
        assert said.partial_score == pytest.approx(sum(slot.product for slot in said.shared))
        assert {slot.slot for slot in said.shared} <= set(said.query_slots) & set(said.item_slots)
        if rank < 10:
            assert said.found_by_slots == (item in chosen)
        assert f"number {rank + 1:,} of 2,000" in str(said)


def test_every_reason_is_told():
    items = np.zeros((400, 4))
    items[:, 0] = np.linspace(3, 4, 400)
    items[0] = [0, 0.01, 0, 0]
    items[1] = [0, 0, 6, 0]
    schema = ts.Schema(ts.Ternary(), ts.OneHot(), threshold=1.0)
    index = ts.Index.build(items, schema=schema)
    user = [1.0, 0.5, -0.5, 0.0]
    assert "No coordinate of it reaches the threshold" in str(index.explain(user, 0))
    assert "shares none of the query's 3 heaviest slots" in str(index.explain(user, 1))
    assert "slots search scores it within a budget of 400" in str(index.explain(user, 399))
    html = index.explain(user, 399)._repr_html_()
    assert html.startswith("<p>")
    assert "<td>0</td>" in html
    many = ts.Index.build(np.vstack([items] * 2), schema=schema)
    assert "slots search scores it with budget=" in str(many.explain(user, 402))


def test_text_ids_are_escaped_in_html():
    index = ts.Index.build(np.eye(2), ["<b>", "a"])
    assert "<b>" not in index.explain([1.0, 0.0], "<b>")._repr_html_()


def test_long_tables_are_cut(rng):
    index = ts.Index.build(rng.standard_normal((50, 40)), schema=ts.Schema(ts.Ternary(), ts.OneHot()))
    user = index[3]
    assert str(index.explain(user, 3)).endswith("more")


def test_drift_is_seen_and_rebuilding_ends_it(rng):
    spectrum = 0.7 ** np.arange(12)
    index = ts.Index.build(rng.standard_normal((1000, 12)) * spectrum)
    assert not index.drift().refit
    index.add(rng.standard_normal((300, 12)) * spectrum, 1000 + np.arange(300))
    alike = index.drift()
    assert alike.n_new == 300
    assert not alike.refit
    assert alike.likeness > 0.9
    assert 0.9 < alike.scale_ratio < 1.1
    assert str(alike).endswith("no need to rebuild.")
    index.update(rng.standard_normal((500, 12)) * spectrum[::-1], np.arange(500))
    strange = index.drift()
    assert strange.n_new == 800
    assert strange.refit
    assert "rebuild()" in str(strange)
    users = rng.standard_normal((9, 12))
    before, version = index.search(users), index.version
    index.rebuild()
    assert index.version == version + 1
    assert index.drift().n_new == 0
    for one, other in zip(before[:2], index.search(users)[:2], strict=True):
        np.testing.assert_array_equal(one, other)
    fresh = ts.Index.build(index[index.ids], index.ids)
    np.testing.assert_array_equal(index.candidates(users).toarray(), fresh.candidates(users).toarray())


def test_drift_survives_a_file(rng, tmp_path):
    index = ts.Index.build(rng.standard_normal((500, 6)))
    index.add(50 * rng.standard_normal((200, 6)), 500 + np.arange(200))
    index.save(tmp_path / "items")
    assert ts.Index.load(tmp_path / "items").drift() == index.drift()


def test_drift_of_zero_items():
    index = ts.Index.build(np.zeros((3, 2)))
    index.add(np.zeros((200, 2)), 10 + np.arange(200))
    assert not index.drift().refit
    index.add(np.ones((200, 2)), 1000 + np.arange(200))
    assert index.drift().refit


def test_the_plan_says_why(index):
    assert index.plan.way == "exact"
    assert index.plan.reason in str(index.plan)


def test_an_empty_index_cannot_be_rebuilt():
    index = ts.Index.build(np.eye(2))
    index.remove([0, 1])
    with pytest.raises(ValueError, match="the index holds no items, but at least 1 is needed to fit"):
        index.rebuild()
    assert index.candidates(np.eye(2)).shape == (2, 0)
    assert index.drift().n_new == 0
    assert (index.search(np.eye(2), 3, budget=1).ids == -1).all()
