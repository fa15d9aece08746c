"""Every native function equals its NumPy reference, bit for bit, at every SIMD level; the engine has tests of its own."""

from types import SimpleNamespace

import numpy as np
import pytest
from conftest import NATIVE, factor_matrices
from hypothesis import given
from hypothesis import strategies as st

from tessella import _kernels, _reference
from tessella._reference.arithmetic import scores_of
from tessella._reference.codes import exact_bounds
from tessella._reference.ids import _homes
from tessella.retrieval.codes import Axes, ExactCodes
from tessella.versions.segment import _table_of

native = _kernels._native
LEVELS = range(len(native.levels())) if native else []
pytestmark = NATIVE


def tiles_of(kernels, level, factors, *arguments, name):
    tiles = np.full(factors.shape, 99, np.int8)
    getattr(kernels, name)(factors, *arguments, tiles, level)
    return tiles


def same_at_every_level(factors, *arguments, name):
    expected = tiles_of(_reference, 0, factors, *arguments, name=name)
    for level in LEVELS:
        np.testing.assert_array_equal(tiles_of(native, level, factors, *arguments, name=name), expected)


def hard_factors(rng, n, k):
    """Rows that are Gaussian, heavy-tailed, tied, sparse, tiny, huge and nearly tied."""
    gauss = rng.standard_normal((n, k))
    return {
        "gaussian": gauss,
        "heavy": rng.standard_cauchy((n, k)) ** 3,
        "tied": np.round(2 * gauss),
        "sparse": gauss * (rng.random((n, k)) < 0.1),
        "tiny": gauss * 1e-44,
        "huge": gauss * 5e37,
        "nearly tied": 1 + gauss * 1e-7,
        "decaying": gauss * 0.7 ** np.arange(k),
    }


@pytest.mark.parametrize("k", [1, 2, 7, 8, 9, 16, 31, 64, 65, 100])
def test_tiles_equal_their_reference(rng, k):
    for factors in hard_factors(rng, 70, k).values():
        rows = factors.clip(-3e38, 3e38).astype(np.float32)
        for max_nonzeros in {1, 2, k // 2, k - 1, k} & set(range(1, k + 1)):
            same_at_every_level(rows, max_nonzeros, name="ternary_tiles")
        for n_levels in (1, 2, 3, 4, 8):
            same_at_every_level(rows, n_levels, True, name="dary_tiles")
            same_at_every_level(rows, n_levels, False, name="dary_tiles")


@pytest.mark.parametrize(("k", "n_levels"), [(5, 127), (40, 50), (600, 2), (4096, 1)])
def test_tiles_equal_their_reference_at_the_limits(rng, k, n_levels):
    for factors in hard_factors(rng, 9, k).values():
        same_at_every_level(factors.clip(-3e38, 3e38).astype(np.float32), n_levels, True, name="dary_tiles")


def test_rows_that_need_the_margin_of_the_search():
    """With a quarter of the margin against rounding, the search for exact D-ary tiles goes wrong here."""
    one = np.full((1, 1024), 0.68089467, np.float32)
    one[0, :6] = 1
    two = np.full((1, 4096), 0.69501116, np.float32)
    two[0, :934] = 0.68642822
    two[0, :38] = 1
    for rows in (one, two):
        same_at_every_level(rows, 2, True, name="dary_tiles")


@given(factors=factor_matrices(), n_levels=st.integers(1, 6), exact=st.booleans())
def test_dary_tiles_equal_their_reference(factors, n_levels, exact):
    same_at_every_level(factors, n_levels, exact, name="dary_tiles")


@given(factors=factor_matrices(), data=st.data())
def test_ternary_tiles_equal_their_reference(factors, data):
    same_at_every_level(factors, data.draw(st.integers(1, factors.shape[1])), name="ternary_tiles")


@given(factors=factor_matrices(max_factors=40), threshold=st.floats(0, 3), relative=st.booleans(), turn=st.booleans())
def test_preparation_equals_its_reference(factors, threshold, relative, turn):
    k = factors.shape[1]
    factors = factors.clip(-1e30, 1e30)
    rotation = np.linalg.qr(np.random.default_rng(k).standard_normal((k, k))).Q.copy() if turn else None
    expected = np.empty_like(factors)
    _reference.prepare(factors, rotation, threshold, relative, expected, 0)
    counts = np.empty(len(factors), np.int64)
    assert _reference.count_entries(expected, counts, 0) == len(factors)
    for level in LEVELS:
        prepared, counted = np.empty_like(factors), np.empty_like(counts)
        native.prepare(factors, rotation, threshold, relative, prepared, level)
        assert native.count_entries(prepared, counted, level) == len(factors)
        assert prepared.tobytes() == expected.tobytes()
        np.testing.assert_array_equal(counted, counts)


@given(
    factors=factor_matrices(max_factors=30),
    n_levels=st.integers(1, 5),
    depth=st.integers(0, 4),
    wide=st.booleans(),
)
def test_entries_equal_their_reference(factors, n_levels, depth, wide):
    index = np.int64 if wide else np.int32
    tiles = np.random.default_rng(1).integers(-n_levels, n_levels + 1, factors.shape).astype(np.int8)
    starts = np.concatenate([[3], 3 + np.cumsum(np.count_nonzero(factors, axis=1))]).astype(index)

    def filled(kernels, level):
        slots, values = np.full(starts[-1] + 5, -7, index), np.full(starts[-1] + 5, -7, np.float32)
        assert kernels.fill_entries(factors, tiles, n_levels, depth, starts, slots, values, level) == len(factors)
        return slots, values

    for level in LEVELS:
        for found, expected in zip(filled(native, level), filled(_reference, 0), strict=True):
            assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("kernels", [native, _reference])
@pytest.mark.parametrize("change", [1, -1])
def test_entries_that_do_not_fit_are_reported(kernels, change, rng):
    factors = rng.standard_normal((40, 24)).astype(np.float32)
    starts = (24 * np.arange(41)).astype(np.int32)
    starts[18:] += change
    slots, values = np.zeros(starts[-1] + 8, np.int32), np.zeros(starts[-1] + 8, np.float32)
    tiles = np.ones(factors.shape, np.int8)
    for depth in (0, 1):
        assert kernels.fill_entries(factors, tiles, 1, depth, starts, slots, values, 0) == 17
    np.testing.assert_array_equal(slots[starts[-1] :], 0)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("k", [1, 5, 8, 33])
def test_the_first_nonfinite_is_found(bad, k, rng):
    factors = rng.standard_normal((50, k)).astype(np.float32)
    for kernels, level in [(_reference, 0), *((native, level) for level in LEVELS)]:
        assert kernels.first_nonfinite(factors, level) == 50
        spoilt = factors.copy()
        spoilt[[31, 44], k - 1] = bad
        assert kernels.first_nonfinite(spoilt, level) == 31
        counts = np.full(50, -1)
        assert kernels.count_entries(spoilt, counts, level) == 31
        np.testing.assert_array_equal(counts[:31], np.count_nonzero(factors[:31], axis=1))


@given(queries=factor_matrices(max_factors=70), seed=st.integers(0, 2**32))
def test_inner_products_equal_their_reference(queries, seed):
    queries = queries.clip(-1e18, 1e18)
    items = np.random.default_rng(seed).standard_normal((7, queries.shape[1])).astype(np.float32)
    expected = np.empty((len(queries), 7), np.float32)
    _reference.inner_products(queries, items, expected, 0)
    for level in LEVELS:
        found = np.empty_like(expected)
        native.inner_products(queries, items, found, level)
        assert found.tobytes() == expected.tobytes()


@given(factors=factor_matrices(max_rows=150, max_factors=70), data=st.data())
def test_item_codes_equal_their_reference_and_bound_scores(factors, data):
    factors = factors.clip(-1e18, 1e18)
    n, k = factors.shape
    basis = np.linalg.qr(np.random.default_rng(k).standard_normal((k, k))).Q.copy()
    head = basis[:, : data.draw(st.integers(1, k))]
    rotated = np.empty_like(factors)
    _reference.prepare(factors, basis, 0.0, False, rotated, 0)
    size = Axes(head).code_size
    n_blocks = -(-n // 64)

    def coded(kernels, level):
        codes, offsets = np.empty(n_blocks * 64 * size, np.int8), np.empty(n_blocks * 64, np.int16)
        terms = np.empty((n_blocks, 5))
        kernels.code_items(factors, rotated, head.shape[1], codes, offsets, terms, level)
        return codes, offsets, terms

    expected = coded(_reference, 0)
    for level in LEVELS:
        for found, wanted in zip(coded(native, level), expected, strict=True):
            assert found.tobytes() == wanted.tobytes()
    codes, _, terms = expected
    whole = codes.reshape(n_blocks, size // 2, 64, 2).transpose(0, 2, 1, 3).reshape(n_blocks * 64, size)[:n]
    coordinates = factors.astype(np.float64) @ head
    off = coordinates - (whole * np.repeat(terms[:, 3], 64)[:n, None])[:, : head.shape[1]]
    assert (np.linalg.norm(off, axis=1) <= np.repeat(terms[:, 1], 64)[:n] + 1e-300).all()
    assert (np.linalg.norm(factors.astype(np.float64), axis=1) <= np.repeat(terms[:, 0], 64)[:n] + 1e-300).all()


@given(
    k=st.sampled_from([1, 3, 16, 51, 64, 130]),
    kinds=st.tuples(*[st.sampled_from(["gaussian", "heavy", "whole", "spikes", "equal"])] * 2),
    sizes=st.tuples(*[st.sampled_from([1.0, 1e-3, 1e-22, 3e-45, 1e15])] * 2),
    seed=st.integers(0, 2**32),
)
def test_bounds_of_exact_search_are_never_below_scores(k, kinds, sizes, seed):
    rng = np.random.default_rng(seed)
    make = {
        "gaussian": lambda n: rng.standard_normal((n, k)),
        "heavy": lambda n: rng.standard_cauchy((n, k)).clip(-1e3, 1e3),
        "whole": lambda n: rng.integers(-2, 3, (n, k)),
        "spikes": lambda n: rng.standard_normal((n, k)) * (rng.random((n, k)) < 0.1),
        "equal": lambda n: np.ones((n, k)) * rng.integers(-1, 2, (n, 1)),
    }
    items, queries = (
        (make[kind](n) * size).astype(np.float32) for kind, n, size in zip(kinds, (100, 9), sizes, strict=True)
    )
    basis = np.linalg.qr(rng.standard_normal((k, k))).Q.copy()
    axes = Axes.of(basis, np.geomspace(1, 10.0 ** -rng.integers(0, 4), k))
    rotated, codes = np.empty_like(items), ExactCodes.empty(100, axes)
    _reference.prepare(items, basis, 0.0, False, rotated, 0)
    codes.fill(slice(0, 100), items, rotated, axes)
    bounds = exact_bounds(queries, axes.head, codes.codes, codes.offsets, codes.block_terms)[:, :100]
    assert (bounds >= scores_of(queries, items)).all()


def test_wrong_arrays_are_refused_not_read():
    factors, tiles = np.zeros((4, 3), np.float32), np.zeros((4, 3), np.int8)
    with pytest.raises(ValueError, match=r"tiles has shape \(2, 3\), but \(4, 3\) is expected"):
        native.ternary_tiles(factors, 3, tiles[:2], 0)
    with pytest.raises(TypeError):
        native.ternary_tiles(factors.astype(np.float64), 3, tiles, 0)
    with pytest.raises(TypeError):
        native.ternary_tiles(np.asfortranarray(factors), 3, tiles, 0)
    with pytest.raises(ValueError, match="max_nonzeros"):
        native.ternary_tiles(factors, 4, tiles, 0)
    with pytest.raises(ValueError, match="levels"):
        native.dary_tiles(factors, 128, True, tiles, 0)
    with pytest.raises(ValueError, match="SIMD"):
        native.first_nonfinite(factors, 99)
    with pytest.raises(ValueError, match="1 to 4096"):
        native.ternary_tiles(np.zeros((1, 4097), np.float32), 1, np.zeros((1, 4097), np.int8), 0)
    for starts in ([0, 1, 2, 3, 99], [0, 2, 1, 3, 4], [-1, 0, 0, 0, 0]):
        entries = np.zeros(4, np.int32), np.zeros(4, np.float32)
        with pytest.raises(ValueError, match="starts points outside its array"):
            native.fill_entries(factors, tiles, 1, 1, np.array(starts, np.int32), *entries, 0)


@given(
    n=st.integers(1, 300),
    spread=st.sampled_from([1, 3, 2**40]),
    with_removed=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_ids_are_found_as_their_reference_finds_them(n, spread, with_removed, seed):
    rng = np.random.default_rng(seed)
    ids = rng.permutation((np.arange(n) - n // 2) * spread)
    ids[0] = rng.choice([np.iinfo(np.int64).min, np.iinfo(np.int64).max, ids[0]])
    removed = np.packbits(rng.random(n) < 0.3, bitorder="little") if with_removed else None
    wanted = np.concatenate([rng.choice(ids, 40), rng.integers(-2 * n, 2 * n, 40) * spread, ids[:1]])
    rows = np.arange(n, dtype=np.int32)

    def tables():
        for kernels in (native, _reference):
            slots = np.empty(1 << (2 * n).bit_length(), np.int32)
            kernels.scatter_ids(ids, slots)
            assert np.sort(slots[slots >= 0]).tolist() == list(range(n))
            yield slots, None
        span = int(ids.max()) - int(ids.min()) + 1
        if span < 4 * n:
            yield _table_of(ids, rows + 1, rows)

    def found(kernels, by_id, first_id):
        positions = np.full(len(wanted), -1)
        segment = SimpleNamespace(ids=ids, rows=rows, removed=removed, by_id=by_id, first_id=first_id)
        kernels.find_ids(segment, 7, wanted, positions)
        return positions

    expected = found(_reference, *next(tables()))
    for table in tables():
        for kernels in (native, _reference):
            np.testing.assert_array_equal(found(kernels, *table), expected)
    there = expected >= 0
    np.testing.assert_array_equal(ids[expected[there] - 7], wanted[there])
    assert not np.isin(
        wanted[~there], ids[np.unpackbits(removed, bitorder="little", count=n) == 0] if with_removed else ids
    ).any()


@pytest.mark.parametrize("step", [5, 2**16, 2**32, 2**40, 10**9 + 7, 2**20 + 1])
def test_ids_in_steps_are_found_near_their_homes(step):
    ids = np.arange(2**12) * step
    slots = np.empty(2**13, np.int32)
    for kernels in (native, _reference):
        kernels.scatter_ids(ids, slots)
        at = np.flatnonzero(slots >= 0)
        ways = (at - _homes(ids[slots[at]], len(slots))) % len(slots)
        assert ways.mean() < 2
        assert ways.max() < 200
