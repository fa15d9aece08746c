"""Explanations, drift, plans and rebuilding."""

from dataclasses import replace

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
    chosen = set(index.search(user, 10, method=ts.Slots(budget, 24)).ids.tolist())
    for rank in (0, 4, 9, 200, 1999):
        item = int(ranking.ids[rank])
        said = index.explain(user, item)
        assert said.rank == rank + 1
        assert np.float32(said.score) == ranking.scores[rank]
        assert said.partial_score == pytest.approx(sum(slot.product for slot in said.shared))
        assert {slot.slot for slot in said.shared} <= set(said.query_slots) & set(said.item_slots)
        if rank < 10:
            assert said.found_by_slots == (item in chosen)
        assert f"ranks {rank + 1:,} of 2,000" in str(said)


def test_what_slots_make_of_an_item():
    items = np.zeros((400, 4))
    items[:, 0] = np.linspace(3, 4, 400)
    items[0] = [0, 0.01, 0, 0]
    items[1] = [0, 0, 6, 0]
    schema = ts.Schema(ts.Ternary(), ts.OneHot(), threshold=1.0)
    index = ts.Index.build(items, schema=schema)
    user, slots = [1.0, 0.5, -0.5, 0.0], {"method": ts.Slots()}
    assert "None of its coordinates reaches the threshold" in str(index.explain(user, 0, **slots))
    assert "shares none of the query's 3 heaviest slots" in str(index.explain(user, 1, **slots))
    assert "slots search scores it within a budget of 400" in str(index.explain(user, 399, **slots))
    left_out = index.explain(user, 399, **slots, exclude=[399])
    assert "filters it out: it is in exclude" in str(left_out)
    assert "Slots search skips it: it is filtered out" in str(left_out)
    html = index.explain(user, 399, **slots)._repr_html_()
    assert html.startswith("<p>")
    assert "<td>0</td>" in html
    many = ts.Index.build(np.vstack([items] * 2), schema=schema)
    alone = many.explain(user, 402, **slots)
    assert "slots search scores it with budget=" in str(alone)
    assert many.explain(user, 402, **slots, exclude=range(200, 400)).candidate_rank < alone.candidate_rank


METHODS = [ts.Exact(), ts.Tiles(0.0), ts.Tiles(0.1), ts.Tiles(1.0), ts.Slots(15)]


def check_said(said, item, found, may, ids, ranking):
    """Hold an explanation against what searches returned; whether the item was missed."""
    place = found.ids.tolist().index(item) + 1 if item in found.ids.tolist() else None
    assert (said.place, said.returned) == (place, place is not None)
    allowed = bool(may[ids == item][0])
    assert said.n_left == may.sum()
    assert (said.left_out_by is None) == allowed
    left = ranking.ids[np.isin(ranking.ids.astype(ids.dtype), ids[may])].tolist()
    assert said.rank_left == (left.index(item) + 1 if allowed else None)
    assert said.rank == ranking.ids.tolist().index(item) + 1
    sentence = said.sentences[1]
    if place:
        assert f"returns it at rank {place}." in sentence
    elif not allowed:
        assert "filters it out" in sentence
    elif said.rank_left > 10:
        assert f"that needs a k of at least {said.rank_left:,}." in sentence
    else:
        assert "misses it" in sentence
        return True
    return False


@pytest.mark.parametrize("spill", [1, 2])
@pytest.mark.parametrize("text", [False, True], ids=["numbers", "texts"])
@pytest.mark.parametrize("method", [None, *METHODS], ids=str)
def test_what_is_said_is_what_the_search_did(method, text, spill, rng):
    items = rng.standard_normal((1500, 10)).astype(np.float32)
    ids = np.array([f"i{i}" for i in range(1500)]) if text else rng.permutation(4000)[:1500]
    index = ts.Index.build(items[:1200], ids[:1200], method=ts.LearnedTiles(n_tiles=40, spill=spill))
    index.add(items[1200:], ids[1200:])
    index.remove(ids[:100])
    ids, missed = index.ids, 0
    out, only = rng.permutation(ids)[:60], rng.permutation(ids)[:900]
    for options in ({}, {"exclude": out}, {"allow": only}, {"exclude": out, "allow": index.filter(allow=only)}):
        may = np.isin(ids, only) if "allow" in options else np.ones(len(ids), np.bool_)
        may &= ~np.isin(ids, out) if "exclude" in options else True
        for user in rng.standard_normal((3, 10)).astype(np.float32):
            found = index.search(user, 10, method=method, **options)
            ranking = index.search(user, len(ids), exact=True)
            for item in [*ranking.ids[:25].tolist(), *out[:3].tolist()]:
                said = index.explain(user, item, 10, method=method, **options)
                assert str(index.plan.method if method is None else method) in said.sentences[1]
                if not check_said(said, item, found, may, ids, ranking):
                    continue
                missed += 1
                if isinstance(method, ts.Slots):
                    assert not said.found_by_slots
                else:
                    assert said.score <= (said.tile.centre_score + said.tile.spread) * (1 + 1e-5)
    if method in (METHODS[0], METHODS[3]):
        assert missed == 0
    if method in (METHODS[1], METHODS[4]):
        assert missed > 0


def test_a_missed_tile_is_visited_with_the_reach_that_is_named(rng):
    items = rng.standard_normal((3000, 8)).astype(np.float32)
    index = ts.Index.build(items, method=ts.LearnedTiles(n_tiles=60))
    named = 0
    for user in rng.standard_normal((20, 8)).astype(np.float32):
        for item in index.search(user, 10, exact=True).ids.tolist():
            said = index.explain(user, item, method=ts.Tiles(0.05))
            if "so the tile is not visited; a reach of" in str(said):
                named += 1
                assert said.tile.believed < said.last_score
                reach = float(str(said).rsplit("a reach of ", 1)[1].split(" ")[0])
                assert 0.05 < reach <= 1
                assert item in index.search(user, method=ts.Tiles(1.0)).ids
    assert named > 5


def test_an_explanation_searches_as_search_does(index, rng):
    user = rng.standard_normal(16)
    assert index.explain(user, 3, k=2000).place == index.explain(user, 3).rank
    assert index.explain(user, 3, exact=True).method == "exact"
    with pytest.raises(ValueError, match="k is 0, but must be from 1"):
        index.explain(user, 3, k=0)
    with pytest.raises(TypeError, match="method is a str, but must be"):
        index.explain(user, 3, method="exact")
    with pytest.raises(ValueError, match="contradict each other"):
        index.explain(user, 3, method=ts.Slots(), exact=True)
    with pytest.raises(ValueError, match="exclude has 2 sequences of ids, but there is 1 query"):
        index.explain(user, 3, exclude=[[1], [2]])


def test_text_ids_are_escaped_in_html():
    index = ts.Index.build(np.eye(2), ["<b>", "a"])
    assert "<b>" not in index.explain([1.0, 0.0], "<b>")._repr_html_()


def test_long_tables_are_cut(rng):
    index = ts.Index.build(rng.standard_normal((50, 40)), schema=ts.Schema(ts.Ternary(), ts.OneHot()))
    user = index[3]
    assert str(index.explain(user, 3, method=ts.Slots())).endswith("more")


def test_drift_is_seen_and_rebuilding_ends_it(rng):
    spectrum = 0.7 ** np.arange(12)
    index = ts.Index.build(rng.standard_normal((1000, 12)) * spectrum)
    assert not index.drift().needs_rebuild
    index.add(rng.standard_normal((300, 12)) * spectrum, 1000 + np.arange(300))
    alike = index.drift()
    assert alike.n_new == 300
    assert not alike.needs_rebuild
    assert alike.likeness > 0.9
    assert 0.9 < alike.scale_ratio < 1.1
    assert str(alike).endswith("no need to rebuild.")
    index.update(rng.standard_normal((500, 12)) * spectrum[::-1], np.arange(500))
    strange = index.drift()
    assert strange.n_new == 800
    assert strange.needs_rebuild
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


CENTRES = np.random.default_rng(5).standard_normal((2, 60, 12))


def clustered(rng, n, which):
    """Items around the first centres or around others, alike in length and spread."""
    centres = CENTRES[which]
    return centres[rng.integers(len(centres), size=n)] + 0.2 * rng.standard_normal((n, 12))


def tiled(rng):
    return ts.Index.build(clustered(rng, 2000, 0), method=ts.LearnedTiles(n_tiles=60))


def test_new_items_that_fit_the_tiles_need_no_rebuilding(rng):
    index = tiled(rng)
    assert index.drift().tile_distance is None
    for first in range(2000, 4000, 500):
        index.add(clustered(rng, 500, 0), first + np.arange(500))
    drift = index.drift()
    assert 0.9 < drift.tile_distance < 1.15
    assert drift.n_long == 0
    assert not drift.needs_rebuild
    assert "times as far from their tiles; no need to rebuild" in str(drift)


def test_new_items_from_elsewhere_do_not_fit_the_tiles(rng):
    index = tiled(rng)
    index.add(clustered(rng, 99, 1), 2000 + np.arange(99))
    few = index.drift()
    assert few.tile_distance > 2
    assert not few.needs_rebuild
    index.add(clustered(rng, 900, 1), 3000 + np.arange(900))
    drift = index.drift()
    assert 0.9 < drift.scale_ratio < 1.1
    assert drift.likeness > 0.8
    assert drift.tile_distance > 2
    assert drift.needs_rebuild
    exactly = ts.Index.build(index[index.ids][:2000], schema=index.schema)
    exactly.add(index[index.ids][2000:], index.ids[2000:])
    assert exactly.drift().tile_distance is None
    assert not exactly.drift().needs_rebuild  # without tiles it is as it was
    index.rebuild()
    index.add(clustered(rng, 500, 1), 5000 + np.arange(500))
    assert not index.drift().needs_rebuild


def test_new_items_crowd_the_tile_of_long_items(rng):
    index = tiled(rng)
    items = clustered(rng, 1000, 0)
    lengths = np.linalg.norm(items, axis=1, keepdims=True)
    items[:120] *= 3.5 * np.sqrt(np.mean(lengths**2)) / lengths[:120]
    index.add(items, 2000 + np.arange(1000))
    drift = index.drift()
    assert drift.n_long == 120
    assert drift.scale_ratio < 2
    assert drift.tile_distance < 1.15  # which is of the others
    assert drift.needs_rebuild
    assert "120 of them in the tile of long items" in str(drift)


def test_tiles_whose_items_are_gone_are_learned_anew(rng):
    index = tiled(rng)
    index.update(clustered(rng, 1850, 0), np.arange(1850))
    assert not index.drift().needs_rebuild
    index.update(clustered(rng, 100, 0), 1850 + np.arange(100))
    assert index.drift().tile_distance is None
    assert index.drift().needs_rebuild


def test_tiles_of_few_items_are_not_judged(rng):
    index = ts.Index.build(clustered(rng, 600, 0), method=ts.LearnedTiles(n_tiles=500))
    index.add(clustered(rng, 600, 0), 600 + np.arange(600))
    assert index.drift().tile_distance is None
    assert not index.drift().needs_rebuild


@pytest.mark.parametrize("spill", [1, 2])
def test_drift_does_not_depend_on_how_items_are_spread_over_segments(rng, tmp_path, spill):
    index = ts.Index.build(clustered(rng, 6000, 0), method=ts.LearnedTiles(n_tiles=60, spill=spill))
    index.add(clustered(rng, 300, 1), 6000 + np.arange(300))
    index.update(clustered(rng, 700, 1) * 2, np.arange(700))
    index.add(clustered(rng, 5, 0) * 9, 7000 + np.arange(5))
    index.remove(np.arange(500, 2000, 7))
    assert len(index._version.segments) > 1
    index.save(tmp_path / "items")
    drift = index.drift()
    assert drift.tile_distance is not None
    assert drift.n_long >= 5
    for mmap in (False, True):
        assert ts.Index.load(tmp_path / "items", mmap=mmap).drift() == drift


def test_drift_of_tiles_without_any_width():
    index = ts.Index.build(np.ones((200, 2)), method=ts.LearnedTiles())
    index.add(np.ones((150, 2)), 1000 + np.arange(150))
    assert index.drift().tile_distance == 1.0
    assert not index.drift().needs_rebuild
    index.add(np.ones((150, 2)) * [1.1, 1], 2000 + np.arange(150))
    assert index.drift().tile_distance == np.inf
    assert index.drift().needs_rebuild


def test_drift_of_zero_items():
    index = ts.Index.build(np.zeros((3, 2)))
    index.add(np.zeros((200, 2)), 10 + np.arange(200))
    assert not index.drift().needs_rebuild
    index.add(np.ones((200, 2)), 1000 + np.arange(200))
    assert index.drift().needs_rebuild


def test_the_plan_says_why(index):
    assert index.plan.method.name == "exact"
    assert index.plan.reason in str(index.plan)


def test_an_empty_index_cannot_be_rebuilt():
    index = ts.Index.build(np.eye(2))
    index.remove([0, 1])
    with pytest.raises(ValueError, match="the index holds no items, but at least 1 is needed to fit"):
        index.rebuild()
    assert index.candidates(np.eye(2)).shape == (2, 0)
    assert index.drift().n_new == 0
    assert (index.search(np.eye(2), 3, method=ts.Slots(1)).ids == -1).all()


def test_a_planned_budget_is_that_of_ten_answers(rng):
    index = ts.Index.build(rng.standard_normal((3000, 8)), method="exact")
    plan = replace(index.plan, method=ts.Slots(2000, 5), k=100)
    index = ts.Index(replace(index._version, plan=plan))
    explained = index.explain(rng.standard_normal(8), 7)
    assert explained.budget == 200
    assert explained.used_slots == 5
