"""The kernels of tile search equal their twins at every SIMD level, and their bounds bound."""

import numpy as np
import pytest
from conftest import NATIVE, factor_matrices
from hypothesis import given, settings
from hypothesis import strategies as st

from tessella import _kernels, _reference
from tessella.retrieval.tiles import Filed, LearnedTiles, Tiling, code_size

native = _kernels._native
LEVELS = range(len(native.levels())) if native else []
KERNELS = [(native, level) for level in LEVELS] or [(_reference, 0)]
LARGEST_NORM = 1.7e38
pytestmark = NATIVE


def fitting(factors):
    """Rows that an index takes, made shorter where they are too long."""
    norms = np.linalg.norm(factors.astype(np.float64), axis=1, keepdims=True)
    return (factors * np.minimum(1, LARGEST_NORM / np.maximum(norms, 1.0))).astype(np.float32)


def coded_rows(kernels, level, rows):
    size, padded = code_size(rows.shape[1]), -(-len(rows) // 16) * 16
    coded = np.full(padded * size, 99, np.int8), np.full(padded, 99, np.int16), np.full(padded, 99, np.float32)
    kernels.code_rows(rows, *coded, level)
    return coded


def coded_askers(kernels, level, rows):
    coded = np.full((len(rows), code_size(rows.shape[1])), 99, np.uint8), np.full((len(rows), 2), 99, np.float32)
    kernels.code_askers(rows, *coded, level)
    return coded


def nearest_tiles(kernels, level, rows, halves, askers, taken):
    tiles = np.full(len(askers[0]), -9, np.int32)
    kernels.nearest_tiles(*rows, halves, *askers, taken, tiles, level)
    return (tiles,)


def ranked_tiles(kernels, level, rows, n_factors, askers, reach):
    nears = np.full((len(askers[0]), len(rows[2])), 99, np.float32)
    kernels.rank_tiles(*rows, n_factors, *askers, reach, nears, level)
    return (nears,)


def same_at_every_level(function, *arguments):
    expected = function(_reference, 0, *arguments)
    for level in LEVELS:
        for found, wanted in zip(function(native, level, *arguments), expected, strict=True):
            assert found.tobytes() == wanted.tobytes()
    return expected


def whole(codes, size):
    """Codes row by row."""
    return codes.reshape(-1, size // 2, 16, 2).transpose(0, 2, 1, 3).reshape(-1, size)


@given(factors=factor_matrices(max_rows=40, max_factors=70).map(fitting))
def test_codes_equal_their_twins_and_lie_near(factors):
    size = code_size(factors.shape[1])
    codes, offsets, scales = same_at_every_level(coded_rows, factors)
    asker_codes, terms = same_at_every_level(coded_askers, factors)
    n, exactly = len(factors), factors.astype(np.float64)
    rows = whole(codes, size).astype(np.int64)
    np.testing.assert_array_equal(offsets, (-64 * rows.sum(axis=1)).astype(np.uint16).view(np.int16))
    assert not rows[n:].any()
    assert not scales[n:].any()
    askers = asker_codes.astype(np.int64) - 64
    for coded, steps, longest in ((rows[:n], scales[:n], 214), (askers, terms[:, 0], 152)):
        assert (steps > 0).all()
        off = np.abs(coded[:, : factors.shape[1]] * steps[:, None].astype(np.float64) - exactly)
        assert (off <= 0.5001 * steps[:, None]).all()
        assert (np.linalg.norm(coded, axis=1) <= longest).all()
    assert ((asker_codes >= 1) & (asker_codes <= 127)).all()
    assert (terms[:, 1] >= np.linalg.norm(exactly, axis=1)).all()


@given(
    rows=st.integers(1, 50).flatmap(
        lambda k: st.tuples(
            factor_matrices(max_rows=40, max_factors=1).map(lambda drawn: np.resize(drawn, (max(1, len(drawn)), k))),
            st.just(k),
        )
    ),
    seed=st.integers(0, 2**32),
    size_of_askers=st.sampled_from([1.0, 1e36, 1e-38, 0.0]),
    size_of_rows=st.sampled_from([1.0, 1e36, 1e-38, 1e19]),
    reach=st.sampled_from([0.0, 0.3, 1.0]),
)
def test_tiles_are_ranked_and_chosen_as_by_their_twins(rows, seed, size_of_askers, size_of_rows, reach):
    drawn, k = rows
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal(drawn.shape) * rng.integers(0, 2)  # without it there are ties
    centres = fitting((np.sign(drawn) + noise) * size_of_rows)
    askers = fitting(rng.integers(-2, 3, (9, k)) * size_of_askers)
    halves = np.minimum(0.5 * (centres.astype(np.float64) ** 2).sum(axis=1), 3.4e38).astype(np.float32)
    coded, asked = coded_rows(*KERNELS[0], centres), coded_askers(*KERNELS[0], askers)
    (chosen,) = same_at_every_level(nearest_tiles, coded, halves, asked, None)
    assert ((chosen >= 0) & (chosen < len(centres))).all()
    if len(centres) > 1:
        (other,) = same_at_every_level(nearest_tiles, coded, halves, asked, chosen)
        if size_of_askers <= 1 and size_of_rows <= 1:
            assert (other != chosen).all()
    (nears,) = same_at_every_level(ranked_tiles, coded, k, asked, reach)
    assert np.isneginf(nears[:, len(centres) :]).all()
    assert np.isfinite(nears[:, : len(centres)]).all()


@given(
    kind=st.sampled_from(["gaussian", "heavy", "whole", "spikes", "equal"]),
    k=st.integers(1, 130),
    sizes=st.tuples(*[st.sampled_from([1.0, 1e-3, 1e-22, 3e-38, 3e-45, 1e19, 1e37])] * 2),
    seed=st.integers(0, 2**32),
)
def test_bounds_at_a_reach_of_one_are_never_below_scores(kind, k, sizes, seed):
    """In float32, as `take` compares them: what a score of some size rules out may not reach that score."""
    rng = np.random.default_rng(seed)
    make = {
        "gaussian": lambda: rng.standard_normal((24, k)),
        "heavy": lambda: rng.standard_cauchy((24, k)),
        "whole": lambda: rng.integers(-2, 3, (24, k)),
        "spikes": lambda: rng.standard_normal((24, k)) * (rng.random((24, k)) < 0.1),
        "equal": lambda: np.ones((24, k)) * rng.integers(-1, 2, (24, 1)),
    }[kind]
    rows, askers = (fitting(make() * size) for size in sizes)
    lengths = [np.linalg.norm(part.astype(np.float64), axis=1).max() for part in (rows, askers)]
    if lengths[0] * lengths[1] > 1e38:
        return  # refused before it gets here
    asked = coded_askers(*KERNELS[0], askers)
    (nears,) = ranked_tiles(*KERNELS[0], coded_rows(*KERNELS[0], rows), k, asked, 1.0)
    scores = _reference.scores_of(askers, rows)
    assert (nears[:, :24] >= scores - np.float32(k * 2.0**-148)).all()


@settings(max_examples=60)
@given(
    kind=st.sampled_from(["gaussian", "skewed", "whole", "zero", "repeated"]),
    k=st.integers(1, 40),
    size=st.sampled_from([1.0, 1e-38, 1e-44, 1e19, 1e37]),
    spill=st.integers(1, 2),
    seed=st.integers(0, 2**32),
)
def test_radii_bound_distances(kind, k, size, spill, seed):
    factors, tiling, filed = filed_items(np.random.default_rng(seed), kind, 150, k, size, spill=spill)
    tiles = np.repeat(np.arange(len(filed.starts) - 1), np.diff(filed.starts))
    around = tiles > 0
    apart = factors[filed.places[around]].astype(np.float64) - tiling.centres[tiles[around] - 1]
    assert (np.linalg.norm(apart, axis=1) <= filed.radii[tiles[around] - 1]).all()
    assert np.isfinite(filed.radii).all()
    assert (np.linalg.norm(factors[filed.places[~around]].astype(np.float64), axis=1) > tiling.long_norm).all()
    filed.check(len(factors), len(tiling.centres), k)


def filed_items(rng, kind, n, k, size=1.0, n_tiles=12, spill=1):
    made = {
        "gaussian": lambda: rng.standard_normal((n, k)),
        "skewed": lambda: rng.standard_normal((n, k)) * rng.lognormal(-2, 2, (n, 1)).clip(0, 3),
        "whole": lambda: rng.integers(-1, 2, (n, k)),
        "zero": lambda: np.zeros((n, k)),
        "repeated": lambda: np.repeat(rng.standard_normal((n // 9 + 1, k)), 9, axis=0)[:n],
    }[kind]()
    factors = fitting(made * size)
    factors = factors[np.argsort(-(factors.astype(np.float64) ** 2).sum(axis=1), kind="stable")]
    tiling = Tiling.learn(factors, LearnedTiles(n_tiles=n_tiles, spill=spill), 1)
    return factors, tiling, Filed.build(factors, tiling, 1)


def bits(flags):
    return np.packbits(flags, bitorder="little")


@settings(max_examples=150)
@given(
    kind=st.sampled_from(["gaussian", "skewed", "whole", "zero", "repeated"]),
    n=st.integers(1, 250),
    n_factors=st.sampled_from([1, 2, 3, 7, 16, 33]),
    sizes=st.sampled_from([(1.0, 1.0), (1e36, 1.0), (1e37, 0.3), (1e-38, 1.0), (1.0, 1e-38), (1e-22, 1e-22)]),
    spill=st.integers(1, 2),
    n_tiles=st.sampled_from([1, 5, 40, 300]),
    k=st.sampled_from([1, 3, 20, 300]),
    reach=st.sampled_from([0.0, 0.2, 0.7, 1.0]),
    seed=st.integers(0, 2**32),
)
def test_tile_scan_equals_its_twin(kind, n, n_factors, sizes, spill, n_tiles, k, reach, seed):
    rng = np.random.default_rng(seed)
    factors, tiling, filed = filed_items(rng, kind, n, n_factors, sizes[0], n_tiles, spill)
    queries = (rng.integers(-3, 4, (5, n_factors)) * sizes[1]).astype(np.float32)
    rows = rng.permutation(n).astype(np.int32)
    dead = bits(rng.random(n) < 0.2) if rng.random() < 0.5 else None
    allowed = bits(rng.random(n) < 0.5) if rng.random() < 0.3 else None
    seen = [np.flatnonzero(rng.random(n) < 0.1) for _ in queries]
    excluded = np.concatenate(seen).astype(np.int64), np.cumsum([0, *map(len, seen)]).astype(np.int64)
    asked = coded_askers(*KERNELS[0], queries)
    (nears,) = ranked_tiles(*KERNELS[0], coded_rows(*KERNELS[0], tiling.centres), n_factors, asked, reach)

    def scanned(kernels, level):
        found = np.full((5, k), -np.inf, np.float32), np.full((5, k), -1, np.int64), np.zeros(5, np.int64)
        scored = np.zeros(5, np.int64)
        for base in (0, n):  # a second segment with the same items goes on with what the first found
            kernels.tile_scan(
                factors, rows + np.int32(base), dead, base, filed.places, filed.starts, filed.coded.codes,
                filed.coded.offsets, filed.coded.scales, filed.radii, queries, *asked, nears, reach,
                None if allowed is None else bits(np.tile(np.unpackbits(allowed, bitorder="little", count=n), 2)),
                *excluded, *found, scored, level,
            )  # fmt: skip
        kernels.sort_found(*found, level)
        return *found, scored

    _, answers, counts, _ = same_at_every_level(scanned)
    for query, count in enumerate(counts):
        assert len(set(answers[query, :count].tolist())) == count


def test_wrong_arrays_are_refused_not_read(rng):
    factors, tiling, filed = filed_items(rng, "gaussian", 60, 4)
    rows, asked = coded_rows(native, 0, tiling.centres), coded_askers(native, 0, factors[:3])
    halves, three = tiling.halves, np.zeros(3, np.int32)
    with pytest.raises(ValueError, match="shapes differ"):
        native.code_rows(factors, *(part[:-1] for part in rows), 0)
    with pytest.raises(ValueError, match="shapes differ"):
        native.code_askers(factors, *asked, 0)
    with pytest.raises(ValueError, match="shapes differ"):
        native.nearest_tiles(*rows, halves, *asked, None, three[:2], 0)
    for taken in (-1, len(halves)):
        with pytest.raises(ValueError, match="there is no such tile"):
            native.nearest_tiles(*rows, halves, *asked, np.full(3, taken, np.int32), three, 0)
    with pytest.raises(ValueError, match="shapes differ"):
        native.rank_tiles(*rows, 4, *asked, 1.0, np.zeros((3, 17), np.float32), 0)
    nears = ranked_tiles(native, 0, rows, 4, asked, 1.0)[0]

    def scan(**changed):
        parts = {"places": filed.places, "starts": filed.starts, "radii": filed.radii, "nears": nears} | changed
        native.tile_scan(
            factors, np.arange(60, dtype=np.int32), None, 0, parts["places"], parts["starts"], filed.coded.codes,
            filed.coded.offsets, filed.coded.scales, parts["radii"], factors[:3], *asked, parts["nears"], 1.0, None,
            np.zeros(0, np.int64), np.zeros(4, np.int64), np.zeros((3, 2), np.float32), np.zeros((3, 2), np.int64),
            np.zeros(3, np.int64), np.zeros(3, np.int64), 0,
        )  # fmt: skip

    scan()
    for changed in (
        {"places": filed.places[1:]},
        {"starts": filed.starts[::-1].copy()},
        {"starts": filed.starts[:2]},
        {"starts": filed.starts + np.int32(1)},
        {"radii": filed.radii[1:]},
        {"nears": nears[:, 1:].copy()},
        {"nears": nears[:2]},
    ):
        with pytest.raises(ValueError, match=r"shapes differ|starts leave|at least one tile"):
            scan(**changed)


def test_a_server_without_its_tiles_answers_no_reach(rng):
    factors, tiling, _ = filed_items(rng, "gaussian", 60, 4)
    server = native.Server(4, 9.0, np.eye(4), 63.0, 146.0, 0)
    ids, scores, scored = np.zeros((1, 2), np.int64), np.zeros((1, 2), np.float32), np.zeros(1, np.int64)
    coded = tiling.coded
    server.learn(coded.codes, coded.offsets, coded.scales)
    codes = np.zeros(64 * 6, np.int8), np.zeros(64, np.int16), np.zeros((1, 4))
    server.add(factors, np.arange(60, dtype=np.int32), None, 0, np.arange(60), *codes)
    filters = None, np.zeros(0, np.int64), np.zeros(2, np.int64)
    with pytest.raises(ValueError, match="shapes differ"):
        server.search(factors[:1], 0.5, *filters, ids, scores, scored)
    with pytest.raises(ValueError, match="shapes differ"):
        server.search_one(factors[0], 0.5, ids[0], scores[0])
    for starts in (np.zeros(1, np.int64), np.array([0, 1]), np.array([-1, 0])):
        with pytest.raises(ValueError, match=r"shapes differ|starts leave"):
            server.search(factors[:1], -1.0, *filters[:2], starts, ids, scores, scored)
    for head, largest in ((np.eye(4)[:, :0].copy(), 63.0), (np.ones((4, 5)), 63.0), (np.eye(4), 64.0)):
        with pytest.raises(ValueError, match=r"shapes differ|codes do not fit"):
            native.Server(4, 9.0, head, largest, 146.0, 0)
