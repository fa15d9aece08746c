"""Slot maps: which tiles share which slots."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tessella as ts


def every_tile(k, levels=1):
    return np.array(list(itertools.product(range(-levels, levels + 1), repeat=k)), dtype=np.int8)


@st.composite
def tile_pairs(draw):
    """Two tiles that often agree in parts, and their levels."""
    levels = draw(st.integers(1, 4))
    k = draw(st.integers(1, 12))
    tiles = hnp.arrays(np.int8, k, elements=st.integers(-levels, levels))
    one, two = draw(tiles), draw(tiles)
    keep = draw(hnp.arrays(np.bool_, k))
    return one, np.where(keep, one, two).astype(np.int8), levels


def slots_of(slot_map, one, two, levels):
    slots = slot_map.slots(np.stack([one, two]), levels)
    p = slot_map.n_slots(len(one), levels)
    assert slots.dtype == np.int64
    assert (slots >= 0).all()
    assert (slots < p).all()
    return slots


@given(tile_pairs())
def test_one_hot_slots_meet_iff_values_do(pair):
    one, two, levels = pair
    first, second = slots_of(ts.OneHot(), one, two, levels)
    np.testing.assert_array_equal(first == second, one == two)
    assert ts.OneHot().n_slots(len(one), levels) == (2 * levels + 1) * len(one)


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
@given(pair=tile_pairs())
def test_window_slots_meet_iff_positions_and_windows_do(depth, pair):
    one, two, levels = pair
    first, second = slots_of(ts.ParseTree(depth), one, two, levels)
    k = len(one)
    for i, j in itertools.product(range(k), repeat=2):
        width = depth if j >= depth - 1 else 1  # the first depth - 1 coordinates are one-hot
        same = i == j and np.array_equal(one[j - width + 1 : j + 1], two[j - width + 1 : j + 1])
        assert (first[i] == second[j]) == same


@given(pair=tile_pairs())
def test_depth_one_is_one_hot(pair):
    one, two, levels = pair
    np.testing.assert_array_equal(slots_of(ts.ParseTree(1), one, two, levels), slots_of(ts.OneHot(), one, two, levels))


def test_window_fills_its_slots():
    for depth in (1, 2, 3):
        slots = ts.ParseTree(depth).slots(every_tile(4))
        assert set(slots.ravel()) == set(range(ts.ParseTree(depth).n_slots(4)))


def back_to_restart(tile, j):
    """The part of the tile that the counter tree remembers at j: from the last non-zero value on."""
    nonzero = np.flatnonzero(tile[: j + 1])
    return (int(nonzero[-1]), int(tile[nonzero[-1]])) if nonzero.size else (-1, 0)


@given(pair=tile_pairs())
def test_counter_slots_meet_iff_the_last_restarts_do(pair):
    one, two, levels = pair
    if not (one.any() and two.any()):  # erratum 7: an all-zero tile does not exist
        return
    first, second = slots_of(ts.CounterTree(), one, two, levels)
    for i, j in itertools.product(range(len(one)), repeat=2):
        same = i == j and back_to_restart(one, i) == back_to_restart(two, j)
        assert (first[i] == second[j]) == same


def test_counter_tree_is_the_papers_formula():
    k = 5
    for tile in every_tile(k):
        if not tile.any():
            continue
        tau, expected = 0, []
        for j, value in enumerate(tile, start=1):
            tau = {1: k * j, 0: tau + 1, -1: k * (k + j)}[int(value)]
            expected.append(tau - 1)
        np.testing.assert_array_equal(ts.CounterTree().slots(tile[None])[0], expected)
    assert ts.CounterTree().n_slots(k) == 2 * k * k


@pytest.mark.parametrize(
    ("slot_map", "levels"),
    [
        (ts.OneHot(), 1),
        (ts.OneHot(), 2),
        (ts.ParseTree(2), 1),
        (ts.ParseTree(3), 1),
        (ts.CounterTree(), 1),
        (ts.CounterTree(), 2),
    ],
)
def test_each_slot_belongs_to_one_coordinate(slot_map, levels):
    tiles = every_tile(4, levels)
    slots = slot_map.slots(tiles[tiles.any(axis=1)], levels)
    owners = [set(column) for column in slots.T]
    for one, two in itertools.combinations(owners, 2):
        assert not one & two


def permutation(tile):
    """The one-hot map as a permutation of 3k places: where each coordinate and each padding zero goes."""
    order = []
    for j, value in enumerate(tile):
        block = [f"pad {j} a", f"pad {j} b"]
        block.insert(1 - int(value), f"coordinate {j}")
        order += block
    return order


def adjacent_transpositions(one, two):
    """Kendall tau distance: pairs in a different order."""
    place = {name: i for i, name in enumerate(two)}
    sequence = [place[name] for name in one]
    return sum(a > b for a, b in itertools.combinations(sequence, 2))


@given(pair=tile_pairs())
def test_l1_distance_counts_adjacent_transpositions(pair):
    one, two, _ = pair
    one, two = np.sign(one), np.sign(two)
    assert [permutation(one).index(f"coordinate {j}") for j in range(len(one))] == ts.OneHot().slots(one[None])[
        0
    ].tolist()
    distance = int(np.abs(one.astype(int) - two).sum())
    assert adjacent_transpositions(permutation(one), permutation(two)) == distance


def test_more_slots_than_can_be_numbered():
    with pytest.raises(ValueError, match="smaller depth"):
        ts.ParseTree(32).n_slots(64, levels=4)


def test_levels_of_any_integer_type_give_the_same_slots():
    np.testing.assert_array_equal(ts.OneHot().slots([[100, -100]], np.int8(100)), [[0, 401]])
    tile = [[1, 0, 1, 0, 1, 0, -1]]
    for kind in (np.int8, np.uint8, np.int64):
        np.testing.assert_array_equal(ts.ParseTree(6).slots(tile, kind(1)), ts.ParseTree(6).slots(tile, 1))


def test_windows_longer_than_the_factor():
    np.testing.assert_array_equal(ts.ParseTree(32).slots([[1, 0, 1]], 4), ts.OneHot().slots([[1, 0, 1]], 4))
    np.testing.assert_array_equal(ts.ParseTree(5).slots([[1, 0, -1]]), ts.OneHot().slots([[1, 0, -1]]))
