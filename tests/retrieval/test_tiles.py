"""Tiles: what is learned, which items are members of which, and what a partial reach finds."""

import pickle
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
import scipy.cluster.vq

import tessella as ts
from tessella import _kernels
from tessella.datasets import generated_factors
from tessella.retrieval.clustering import _means, learn_centres
from tessella.retrieval.codes import Axes
from tessella.retrieval.tiles import Tiling

ITEMS, USERS = generated_factors(4_000, 200, 24, seed=1)


def recall_of(found, truth):
    return np.mean(found.scores >= truth.scores[:, -1:])


def clustered(rng, n, k, n_clusters):
    middles = 3 * rng.standard_normal((n_clusters, k))
    return (middles[rng.integers(0, n_clusters, n)] + rng.standard_normal((n, k))).astype(np.float32)


def by_distance(points, centres):
    return np.argmin(((points[:, None].astype(np.float64) - centres) ** 2).sum(axis=2), axis=1).astype(np.int32)


@pytest.mark.parametrize("spill", [1, 2])
def test_recall_rises_with_reach(spill):
    index = ts.Index.build(ITEMS, method=ts.LearnedTiles(spill=spill))
    truth = index.search(USERS, exact=True)
    found = [index.search(USERS, method=ts.Tiles(reach)) for reach in (0.0, 0.2, 0.4, 0.7, 1.0)]
    recalls = [recall_of(part, truth) for part in found]
    assert recalls == sorted(recalls)
    assert recalls[0] < 0.9 < recalls[2]
    assert recalls[-1] == 1
    scored = [part.n_scored.mean() for part in found]
    assert scored == sorted(scored)
    assert scored[2] < 200
    assert [part.certified.all() for part in found] == [False, False, False, False, True]
    assert not any(part.certified.any() for part in found[:-1])
    for part in found:
        assert all(len(set(ids)) == 10 for ids in part.ids.tolist())


def test_an_item_that_spills_is_in_two_tiles_and_answered_once():
    index = ts.Index.build(ITEMS, method=ts.LearnedTiles(spill=2))
    tiled = index._version.segments[0].tiles
    members = tiled.members[tiled.members >= 0]
    counts = np.bincount(members)
    assert set(counts.tolist()) == {1, 2}
    assert np.mean(counts == 2) > 0.95
    tiles = np.repeat(np.arange(len(tiled.starts) - 1), 16 * np.diff(tiled.starts))[tiled.members >= 0]
    assert len(set(zip(members.tolist(), tiles.tolist(), strict=True))) == len(members) == tiled.n_members
    for reach in (0.0, 0.3, 1.0):
        for found in index.search(USERS, k=50, method=ts.Tiles(reach)).ids.tolist():
            assert len(set(found)) == 50


def test_the_longest_items_share_tile_0():
    rng = np.random.default_rng(0)
    items = rng.standard_normal((1000, 8)).astype(np.float32)
    items[::100] *= 50
    index = ts.Index.build(items, method=ts.LearnedTiles(n_tiles=16))
    segment = index._version.segments[0]
    long = segment.tiles.members[: 16 * segment.tiles.starts[1]]
    long = long[long >= 0]
    assert sorted(segment.ids[long].tolist()) == list(range(0, 1000, 100))
    assert (np.linalg.norm(index._version.fitted.tiling.centres, axis=1) < 10).all()
    user = items[300] / 50
    assert index.search(user, 1, method=ts.Tiles(0.0)).ids.tolist() == [300]


@pytest.mark.parametrize("reach", [0.0, 0.4])
def test_new_items_that_are_best_are_found_at_once(reach):
    index = ts.Index.build(ITEMS, method=ts.LearnedTiles())
    for number, user in enumerate(USERS[:50]):
        best = index.search(user, 1, exact=True).scores[0]
        index.add([user * (5 * best / (user @ user))], [10_000 + number])
        assert index.search(user, 3, method=ts.Tiles(reach)).ids[0] == 10_000 + number
        index.remove([10_000 + number])
        assert 10_000 + number not in index.search(user, 3, method=ts.Tiles(reach)).ids


@pytest.mark.parametrize(
    "items",
    [
        np.ones((1, 3)),
        np.zeros((1, 3)),
        np.zeros((40, 3)),
        np.ones((40, 3)),
        np.repeat(np.eye(3), 30, axis=0),
        np.eye(7),
        np.arange(5.0)[:, None],
    ],
    ids=["one item", "one zero", "zeros", "equal items", "three kinds", "fewer than tiles", "one coordinate"],
)
@pytest.mark.parametrize("spill", [1, 2])
def test_few_different_items(items, spill):
    index = ts.Index.build(items, method=ts.LearnedTiles(n_tiles=64, spill=spill))
    centres = index._version.fitted.tiling.centres
    assert 1 <= len(centres) <= len(np.unique(items, axis=0))
    assert len(np.unique(centres, axis=0)) == len(centres)
    users = np.random.default_rng(0).standard_normal((5, items.shape[1]))
    for k in (1, 5, len(items), len(items) + 3):
        expected = index.search(users, k, exact=True)
        found = index.search(users, k, method=ts.Tiles(1.0))
        np.testing.assert_array_equal(found.ids, expected.ids)
        assert found.scores.tobytes() == expected.scores.tobytes()
        partly = index.search(users, k, method=ts.Tiles(0.0))
        assert (np.sort(partly.ids)[:, max(0, k - len(items)) :] >= 0).all()
        assert all(len(set(ids)) == min(k, len(items)) + (k > len(items)) for ids in partly.ids.tolist())


def test_learning_depends_on_the_seed_alone(monkeypatch):
    def centres(threads, seed=0):
        index = ts.Index.build(ITEMS[:2000], method=ts.LearnedTiles(seed=seed), threads=threads)
        tiled = index._version.segments[0].tiles
        return index._version.fitted.tiling.centres.tobytes(), tiled.members.tobytes(), tiled.radii.tobytes()

    expected = centres(1)
    assert centres(4) == expected
    assert centres(1, seed=1)[0] != expected[0]
    monkeypatch.setattr("tessella.retrieval.tiles.ITEMS_AT_ONCE", 48)
    assert centres(3) == expected
    for level in _kernels.simd_levels():
        monkeypatch.setenv("TESSELLA_SIMD", level)
        assert centres(2) == expected


@pytest.mark.parametrize("n_clusters", [5, 40])
def test_centres_are_about_as_good_as_scipys(rng, n_clusters):
    points = clustered(rng, 2500, 10, n_clusters)
    settings = ts.LearnedTiles(n_tiles=n_clusters)

    def inertia(centres):
        return ((points - centres[by_distance(points, centres)]) ** 2).sum()

    def learned(seed):
        return learn_centres(
            points,
            n_clusters,
            seed,
            lambda some, centres: Tiling(settings, Axes(np.eye(10)), centres, np.inf, 0).nearest(some, 1),
        )

    ours = np.mean([inertia(learned(seed)) for seed in range(3)])
    theirs = np.mean(
        [inertia(scipy.cluster.vq.kmeans2(points, n_clusters, iter=8, minit="++", seed=seed)[0]) for seed in range(3)]
    )
    assert ours <= 1.1 * theirs


def test_centres_that_lose_their_points_move():
    """Two points each at three places, and four centres to begin with: one has nothing to do."""
    points = np.repeat(np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]], np.float32), 2, axis=0)
    centres = learn_centres(points, 4, 0, by_distance)
    np.testing.assert_array_equal(np.unique(centres, axis=0), np.unique(points, axis=0))
    nearest = np.array([0, 0, 0, 2], np.int32)
    some = np.array([[0.0], [1.0], [8.0], [20.0]], np.float32)
    np.testing.assert_array_equal(_means(some, nearest, some[:3]), [[3.0], [8.0], [20.0]])


def test_a_tile_holds_the_items_nearest_to_its_centre():
    tiling = ts.Index.build(ITEMS, method=ts.LearnedTiles())._version.fitted.tiling
    far = np.linalg.norm(ITEMS[:500, None] - tiling.centres, axis=2)
    chosen = tiling.nearest(ITEMS[:500], 1)
    assert np.mean(chosen == far.argmin(axis=1)) > 0.9
    room = 0.05 * np.linalg.norm(ITEMS[:500], axis=1) * np.linalg.norm(tiling.centres, axis=1).max()  # codes are coarse
    assert (far[np.arange(500), chosen] ** 2 < far.min(axis=1) ** 2 + room).all()
    second = tiling.nearest(ITEMS[:500], 1, taken=chosen)
    assert (second != chosen).all()


def test_memory_counts_tiles():
    index = ts.Index.build(ITEMS, method=ts.LearnedTiles())
    plain = ts.Index.build(ITEMS, method="exact")
    assert plain.memory["tiles"] == 0
    assert index.memory["tiles"] > len(ITEMS) * (ITEMS.shape[1] + 10)
    assert index.memory["fitted"] > plain.memory["fitted"]
    assert index.nbytes == sum(index.memory.values())
    n_tiles = len(index._version.fitted.tiling.centres)
    assert f"; {n_tiles} learned tiles, " in repr(index)
    assert "learned" not in repr(plain)


def test_tiles_survive_changes_files_and_rebuilding(tmp_path):
    settings = ts.LearnedTiles(n_tiles=40, spill=2, seed=7)
    index = ts.Index.build(ITEMS, method=settings)
    assert index.tiles == settings
    assert index.plan.method.name == "tiles"
    index.add(2 * ITEMS[:30], 5000 + np.arange(30))
    index.remove(np.arange(100))
    index.save(tmp_path / "items")
    for same in (ts.Index.load(tmp_path / "items"), pickle.loads(pickle.dumps(index))):  # noqa: S301
        assert same.tiles == settings
        assert same.plan == index.plan
        again = pickle.loads(pickle.dumps(same))  # noqa: S301
        for method in (None, ts.Tiles(0.2), ts.Tiles(1.0)):
            for found, wanted in zip(
                again.search(USERS, method=method), same.search(USERS, method=method), strict=True
            ):
                np.testing.assert_array_equal(found, wanted)
    index.rebuild()
    assert index.tiles == settings
    assert index.plan.method.name == "tiles"
    fresh = ts.Index.build(index[index.ids], method=settings)
    assert index._version.fitted.tiling.centres.tobytes() == fresh._version.fitted.tiling.centres.tobytes()


def test_settings_are_frozen_and_in_json():
    settings = ts.LearnedTiles(n_tiles=np.int64(7), spill=2, seed=3)
    with pytest.raises(FrozenInstanceError):
        settings.spill = 1
    assert settings == ts.LearnedTiles(7, 2, 3)
    assert hash(settings) == hash(ts.LearnedTiles(7, 2, 3))
    assert ts.LearnedTiles.from_json(settings.to_json()) == settings
    assert ts.LearnedTiles().count_for(10_000, n_axes=20) == 160
    assert ts.LearnedTiles().count_for(10_000, n_axes=64) == 160
    assert ts.LearnedTiles().count_for(10_000, n_axes=96) == 240
    assert ts.LearnedTiles().count_for(10_000, n_axes=1_000) == 384
    assert ts.LearnedTiles().count_for(3, n_axes=64) == 3
    assert ts.LearnedTiles(n_tiles=50).count_for(7, n_axes=64) == 7
    for text in ("[]", "{}", '{"n_tiles": 3}', settings.to_json().replace("spill", "spell")):
        with pytest.raises(ValueError, match="the JSON does not describe learned tiles"):
            ts.LearnedTiles.from_json(text)


def test_new_items_are_found_as_old_ones_are():
    items, users = generated_factors(24_000, 500, 32, seed=5)
    items = np.random.default_rng(0).permutation(items)
    index = ts.Index.build(items[:12_000], method=ts.LearnedTiles())
    index.tune(users, 0.95)
    for first in range(12_000, 24_000, 1000):
        index.add(items[first : first + 1000], np.arange(first, first + 1000))
    index.add(items[:300], np.arange(24_000, 24_300))
    index.remove(np.arange(24_000, 24_300, 2))
    assert len(index._version.segments) > 1
    true, found = index.search(users, exact=True).ids, index.search(users).ids
    hits = np.array([np.isin(best, some) for best, some in zip(true, found, strict=True)])
    assert hits[true < 12_000].mean() >= 0.94
    assert hits[true >= 12_000].mean() >= 0.91


def test_groups_that_are_not_those_of_the_factors_are_refused():
    version = ts.Index.build(ITEMS, method=ts.LearnedTiles())._version
    (segment,) = version.segments
    tiled = segment.tiles
    tiled.check(segment.factors, version.fitted.tiling)
    gaps = np.concatenate([group[::-1] for group in tiled.members.reshape(-1, 16)])
    swapped = tiled.members.copy()
    swapped[[0, -16]] = swapped[[-16, 0]]
    wrong = {
        "groups of tiles are not filled in order": {"members": gaps},
        "tiles do not contain every item": {"members": np.maximum(tiled.members, 0) * 0},
        "of tiles do not match the factors": {"members": swapped},
        "^radii of tiles do not match": {"radii": tiled.radii / 2},
        "^group_radii of tiles do not match": {"group_radii": tiled.group_radii / 2},
        "^codes of tiles do not match": {"coded": replace(tiled.coded, codes=tiled.coded.codes[::-1].copy())},
        "^group_scales of tiles do not match": {"groups": replace(tiled.groups, scales=tiled.groups.scales * 2)},
        "tiles point outside the arrays": {"starts": tiled.starts[::-1].copy()},
    }
    for sentence, changes in wrong.items():
        with pytest.raises(ValueError, match=sentence):
            replace(tiled, **changes).check(segment.factors, version.fitted.tiling)


@pytest.mark.parametrize("change", [lambda i: i.remove([0]), lambda i: i.update(ITEMS[:1], [0])])
def test_a_huge_item_that_has_gone_makes_no_query_too_long(change):
    items = ITEMS.copy()
    items[0] = 1e37
    index = ts.Index.build(items, method=ts.LearnedTiles())
    query = np.full(24, 1e3, np.float32)
    with pytest.raises(ValueError, match="their product is too large"):
        index.search(query)
    change(index)
    fresh = ts.Index.build(index[index.ids], index.ids, method=ts.LearnedTiles())
    for options in ({"method": ts.Tiles(1.0)}, {"exact": True}):
        np.testing.assert_array_equal(index.search(query, **options).ids, fresh.search(query, **options).ids)
    assert index.search(query, method=ts.Slots(50)).ids.shape == (10,)


def test_a_number_of_tiles_is_a_number_or_auto():
    with pytest.raises((TypeError, ValueError), match="n_tiles"):
        ts.LearnedTiles(n_tiles=np.array("auto"))


def test_many_answers_from_two_tiles_each_are_looked_for_exactly():
    index = ts.Index.build(ITEMS, method=ts.LearnedTiles(spill=2))
    for options in ({}, {"method": ts.Tiles(0.2)}):
        assert not index.search(USERS[:3], 1000, **options).certified.any()
        assert index.search(USERS[:3], 1001, **options).certified.all()
