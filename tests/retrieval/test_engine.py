"""The engine and what it reads: the native one equals its reference at every SIMD level, and bounds bound."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from conftest import NATIVE, factor_matrices
from hypothesis import example, given, settings
from hypothesis import strategies as st

import tessella as ts
from tessella import _kernels, _numbers, _reference
from tessella._reference.arithmetic import scores_of
from tessella._reference.tiles import TileQuery
from tessella.index import DEFAULT_SCHEMA
from tessella.retrieval.codes import Axes
from tessella.retrieval.engine import Answers, Filter
from tessella.retrieval.plan import Setting
from tessella.retrieval.tiles import LearnedTiles, TileCodes, TiledItems, Tiling, code_size
from tessella.versions.changes import added, built, removed, updated

native = _kernels._native
LEVELS = range(len(native.levels())) if native else []
LARGEST_NORM = 1.7e38
pytestmark = NATIVE


def fitting(factors):
    """Factors that an index takes, made shorter where they are too long."""
    norms = np.linalg.norm(factors.astype(np.float64), axis=1, keepdims=True)
    return (factors * np.minimum(1, LARGEST_NORM / np.maximum(norms, 1.0))).astype(np.float32)


def coded(kernels, level, factors):
    size, padded = code_size(factors.shape[1]), -(-len(factors) // 16) * 16
    arrays = np.full(padded * size, 99, np.int8), np.full(padded, 99, np.int16), np.full(padded, 99, np.float32)
    kernels.code_tile_items(factors, *arrays, level)
    return arrays


def nearest_tiles(kernels, level, centres, halves, factors, taken):
    tiles = np.full(len(factors), -9, np.int32)
    kernels.nearest_tiles(centres, halves, factors, taken, tiles, level)
    return (tiles,)


def same_at_every_level(function, *arguments):
    expected = function(_reference, 0, *arguments)
    for level in LEVELS:
        for found, wanted in zip(function(native, level, *arguments), expected, strict=True):
            assert found.tobytes() == wanted.tobytes()
    return expected


def test_numbers_are_those_of_the_core():
    theirs = native.numbers()
    assert theirs.pop("rounding_share(64)") == _numbers.rounding_share(64)
    ours = {name: value for name, value in vars(_numbers).items() if name.isupper()}
    assert ours == theirs


@given(factors=factor_matrices(max_rows=40, max_factors=70).map(fitting))
def test_tile_codes_equal_their_reference_and_lie_near(factors):
    size = code_size(factors.shape[1])
    codes, offsets, scales = same_at_every_level(coded, factors)
    n, exactly = len(factors), factors.astype(np.float64)
    whole = codes.reshape(-1, size // 2, 16, 2).transpose(0, 2, 1, 3).reshape(-1, size).astype(np.int64)
    np.testing.assert_array_equal(offsets, (-64 * whole.sum(axis=1)).astype(np.uint16).view(np.int16))
    assert not whole[n:].any()
    assert not scales[n:].any()
    query_codes, query_scales, norms = _reference.codes.code_tile_queries(factors)
    for found, steps, longest in ((whole[:n], scales[:n], 214), (query_codes.astype(np.int64) - 64, query_scales, 152)):
        assert (steps > 0).all()
        off = np.abs(found[:, : factors.shape[1]] * steps[:, None].astype(np.float64) - exactly)
        assert (off <= 0.5001 * steps[:, None]).all()
        assert (np.linalg.norm(found, axis=1) <= longest).all()
    assert ((query_codes >= 1) & (query_codes <= 127)).all()
    assert (norms >= np.linalg.norm(exactly, axis=1)).all()


def sketched(kernels, level, factors, head):
    sketches = np.full((len(factors), head.shape[1] + 1), np.nan, np.float32)
    kernels.sketch(factors, head, sketches, level)
    return (sketches,)


@given(
    factors=factor_matrices(max_rows=10, max_factors=40).map(fitting),
    n_head=st.integers(1, 40),
    seed=st.integers(0, 99),
)
def test_sketches_equal_their_reference_and_are_as_long(factors, n_head, seed):
    n_factors = factors.shape[1]
    n_head = min(n_head, n_factors - 1)
    if not n_head:
        return
    square = np.linalg.qr(np.random.default_rng(seed).standard_normal((n_factors, n_factors)))[0]
    (sketches,) = same_at_every_level(sketched, factors, square[:, :n_head].copy())
    norms = np.linalg.norm(factors.astype(np.float64), axis=1)
    found = np.linalg.norm(sketches.astype(np.float64), axis=1)
    np.testing.assert_allclose(found, norms, rtol=3e-6, atol=1e-37)
    assert (found >= norms).all()


@given(
    drawn=st.integers(1, 50).flatmap(
        lambda k: factor_matrices(max_rows=40, max_factors=1).map(lambda m: np.resize(m, (max(1, len(m)), k)))
    ),
    seed=st.integers(0, 2**32),
    sizes=st.tuples(st.sampled_from([1.0, 1e36, 1e-38, 0.0]), st.sampled_from([1.0, 1e36, 1e-38, 1e19])),
)
def test_the_nearest_tiles_are_those_of_the_reference(drawn, seed, sizes):
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal(drawn.shape) * rng.integers(0, 2)  # without it there are ties
    centres = fitting((np.sign(drawn) + noise) * sizes[1])
    factors = fitting(rng.integers(-2, 3, (9, drawn.shape[1])) * sizes[0])
    halves = np.minimum(0.5 * (centres.astype(np.float64) ** 2).sum(axis=1), 3.4e38).astype(np.float32)
    codes = TileCodes.of(centres)
    (chosen,) = same_at_every_level(nearest_tiles, codes, halves, factors, None)
    assert ((chosen >= 0) & (chosen < len(centres))).all()
    if len(centres) > 1:
        (other,) = same_at_every_level(nearest_tiles, codes, halves, factors, chosen)
        if max(sizes) <= 1:
            assert (other != chosen).all()


@given(
    kind=st.sampled_from(["gaussian", "heavy", "whole", "spikes", "equal"]),
    k=st.integers(1, 130),
    sizes=st.tuples(*[st.sampled_from([1.0, 1e-3, 1e-22, 3e-38, 3e-45, 1e19, 1e37])] * 2),
    n_head=st.integers(1, 130),
    seed=st.integers(0, 2**32),
)
def test_bounds_at_a_reach_of_one_are_never_below_scores(kind, k, sizes, n_head, seed):
    """In float32, as a scan compares them: what a score of some size rules out may not reach that score."""
    rng = np.random.default_rng(seed)
    make = {
        "gaussian": lambda: rng.standard_normal((24, k)),
        "heavy": lambda: rng.standard_cauchy((24, k)),
        "whole": lambda: rng.integers(-2, 3, (24, k)),
        "spikes": lambda: rng.standard_normal((24, k)) * (rng.random((24, k)) < 0.1),
        "equal": lambda: np.ones((24, k)) * rng.integers(-1, 2, (24, 1)),
    }[kind]
    items, queries = (fitting(make() * size) for size in sizes)
    lengths = [np.linalg.norm(part.astype(np.float64), axis=1).max() for part in (items, queries)]
    if lengths[0] * lengths[1] > 1e38:
        return  # refused before it gets here
    axes = Axes(np.linalg.qr(rng.standard_normal((k, k)))[0][:, :n_head].copy())
    tiling = Tiling(LearnedTiles(), axes, axes.sketch(items), 0.0, len(items))  # every item is a centre
    points = np.zeros(32, np.float32)
    coded = [TileQuery.of(query, axes.head, 1.0) for query in queries]
    bounds = np.stack([query.tile_bounds(tiling.coded, points)[:24] for query in coded])
    assert (bounds >= scores_of(queries, items) - np.float32(k * 2.0**-148)).all()


def grouped(kernels, level, factors, starts, members):
    order = members.copy()
    kernels.group_neighbours(factors, starts, order, level)
    return (order,)


@given(
    kind=st.sampled_from(["gaussian", "skewed", "whole", "zero", "repeated"]),
    n=st.integers(1, 200),
    k=st.sampled_from([1, 2, 5, 16, 33]),
    size=st.sampled_from([1.0, 1e-38, 1e-44, 1e37]),
    seed=st.integers(0, 2**32),
)
def test_groups_of_neighbours_are_those_of_the_reference(kind, n, k, size, seed):
    rng = np.random.default_rng(seed)
    factors = tiled_items(rng, kind, n, k, size)[0]
    members = np.arange(n, dtype=np.int32)
    starts = np.sort(np.append(rng.integers(0, n + 1, 3), [0, n]))
    (order,) = same_at_every_level(grouped, factors, starts, members)
    for start, stop in itertools.pairwise(starts.tolist()):
        assert sorted(order[start:stop].tolist()) == members[start:stop].tolist()
    for wrong in (starts[1:] - starts[1], starts[:-1]):
        if wrong[-1] != n:
            with pytest.raises(ValueError, match="starts"):
                native.group_neighbours(factors, wrong.copy(), order, 0)
    with pytest.raises(ValueError, match="members point outside the factors"):
        native.group_neighbours(factors, starts, order + np.int32(n), 0)


def tiled_items(rng, kind, n, k, size=1.0, n_tiles=12, spill=1):
    made = {
        "gaussian": lambda: rng.standard_normal((n, k)),
        "skewed": lambda: rng.standard_normal((n, k)) * rng.lognormal(-2, 2, (n, 1)).clip(0, 3),
        "whole": lambda: rng.integers(-1, 2, (n, k)),
        "zero": lambda: np.zeros((n, k)),
        "repeated": lambda: np.repeat(rng.standard_normal((n // 9 + 1, k)), 9, axis=0)[:n],
        "steep": lambda: rng.standard_normal((n, k)) * 0.7 ** np.arange(k),  # which sketches suit
    }[kind]()
    factors = fitting(made * size)
    factors = factors[np.argsort(-(factors.astype(np.float64) ** 2).sum(axis=1), kind="stable")]
    axes = Axes(np.eye(k)[:, : -(-k // 4) if kind == "steep" else k].copy())
    tiling = Tiling.learn(factors, axes, LearnedTiles(n_tiles=n_tiles, spill=spill), 1)
    return factors, tiling, TiledItems.build(factors, tiling, 1)


@settings(max_examples=60)
@example(kind="gaussian", k=40, size=1e37, spill=2, seed=113887)  # its second tiles are those it has
@given(
    kind=st.sampled_from(["gaussian", "skewed", "whole", "zero", "repeated", "steep"]),
    k=st.integers(1, 40),
    size=st.sampled_from([1.0, 1e-38, 1e-44, 1e19, 1e37]),
    spill=st.integers(1, 2),
    seed=st.integers(0, 2**32),
)
def test_radii_bound_distances(kind, k, size, spill, seed):
    factors, tiling, tiled = tiled_items(np.random.default_rng(seed), kind, 150, k, size, spill=spill)
    groups = np.repeat(np.arange(tiled.starts[-1]), 16)[tiled.members >= 0]
    members = tiled.members[tiled.members >= 0]
    tiles = np.repeat(np.arange(len(tiled.starts) - 1), np.diff(tiled.starts))[groups]
    around = tiles > 0
    sketches = tiling.axes.sketch(factors)
    apart = sketches[members[around]].astype(np.float64) - tiling.centres[tiles[around] - 1]
    assert (np.linalg.norm(apart, axis=1) <= tiled.radii[tiles[around] - 1]).all()
    assert np.isfinite(tiled.radii).all()
    assert (np.linalg.norm(factors[members[~around]].astype(np.float64), axis=1) > tiling.long_norm).all()
    within = groups - tiled.starts[tiles]
    centre_numbers = tiled.centre_starts[tiles] * 16 + within
    for group in np.unique(groups):
        theirs = sketches[members[groups == group]].astype(np.float64)
        off = np.linalg.norm(theirs - theirs.mean(axis=0).astype(np.float32), axis=1).max()
        assert off <= tiled.group_radii[centre_numbers[groups == group][0]]
    tiled.check(factors, tiling)


EXACT = Setting(0)
SETTINGS = [
    EXACT,
    *(Setting(1, reach=reach) for reach in (0.0, 0.2, 0.7, 1.0)),
    Setting(2, budget=5, max_slots=3),
    Setting(2, budget=40, max_slots=40, min_overlap=2),
    Setting(2, max_slots=40, min_overlap=1),
    Setting(2, max_slots=40, min_overlap=3),
]


@settings(max_examples=150)
@given(
    kind=st.sampled_from(["gaussian", "skewed", "whole", "zero", "repeated", "steep"]),
    n=st.integers(1, 150)
    | st.integers(300, 400)  # more than the few of which all are scored
    | st.integers(850, 1000),  # enough for tiles whose groups have bounds of their own
    n_factors=st.sampled_from([1, 2, 3, 7, 16, 33, 60]),
    sizes=st.sampled_from([(1.0, 1.0), (1e36, 1.0), (1e37, 0.3), (1e-38, 1.0), (1.0, 1e-38), (1e-22, 1e-22)]),
    tiles=st.tuples(st.sampled_from([1, 5, 40, 300]), st.integers(1, 2)),
    k=st.sampled_from([1, 3, 20, 40, 300, 1100]),
    setting=st.sampled_from(SETTINGS),
    seed=st.integers(0, 2**32),
)
def test_the_engine_equals_its_reference(kind, n, n_factors, sizes, tiles, k, setting, seed):
    rng = np.random.default_rng(seed)
    factors = rng.permutation(tiled_items(rng, kind, n, n_factors, sizes[0])[0])
    half = -(-n // 2)
    version = built(factors[:half].copy(), np.arange(half), DEFAULT_SCHEMA, LearnedTiles(*tiles), 1)
    if half < n:
        version = added(version, factors[half:].copy(), np.arange(half, n))
    gone = np.flatnonzero(rng.random(n) < 0.2)
    version = updated(removed(version, gone), factors[:0], np.zeros(0, np.int64))
    queries = (rng.integers(-3, 4, (5, n_factors)) * sizes[1]).astype(np.float32)
    allowed = np.packbits(rng.random(n) < rng.random(), bitorder="little") if rng.random() < 0.3 else None
    listed = [np.flatnonzero(rng.random(n) < 0.3) for _ in queries]
    starts = np.cumsum([0, *map(len, listed)]) if rng.random() < 0.7 else None
    n_allowed = 0 if allowed is None else int(np.unpackbits(allowed).sum())
    rows = Filter(allowed, n_allowed, np.concatenate(listed), starts, bool(rng.random() < 0.5) and allowed is None)
    entries = version.fitted.query_mapper.entries(queries)
    lengths = version.longest, version.longest_held
    centres = version.fitted.tiling.coded
    expected, before = None, None
    for kernels, level in [(_reference, 0), *((native, level) for level in LEVELS)]:
        engine = kernels.Engine(version.fitted.axes.head, *lengths, centres, version.radii, list(version.segments))
        answers = Answers.empty(len(queries), k)
        refused = engine.search(queries, setting, entries, rows, answers, level)
        norms = np.linalg.norm(queries.astype(np.float64), axis=1)
        assert refused == (
            int(np.argmax(norms * version.longest > 1e38)) if norms.max() * version.longest > 1e38 else -1
        )
        if refused >= 0:
            continue
        for found in answers.ids.tolist():
            there = [one for one in found if one >= 0]
            assert len(set(there)) == len(there)
            assert not set(there) & set(gone.tolist())
        if expected is not None:
            same = (
                "ids",
                "scores",
                "certified",
                *(["n_scored"] if setting.method == 1 or before is native else []),
            )
            for name in same:
                if name == "n_scored" and k > 1000 and tiles[1] > 1 and before is _reference:
                    continue  # search is exact, and the reference leaves nothing out
                assert getattr(answers, name).tobytes() == getattr(expected, name).tobytes(), name
        expected, before = answers, kernels


def engine_of(version, **changes):
    segments = [replace(segment, **changes) for segment in version.segments]
    centres = version.fitted.tiling.coded
    lengths = version.longest, version.longest_held
    return native.Engine(version.fitted.axes.head, *lengths, centres, version.radii, segments)


def test_wrong_arrays_are_refused_not_read(rng):
    factors = rng.standard_normal((200, 4)).astype(np.float32)
    version = built(factors, np.arange(200), DEFAULT_SCHEMA, LearnedTiles(n_tiles=20), 1)
    (segment,) = version.segments
    engine_of(version)
    tiles, codes, postings = segment.tiles, segment.codes, segment.postings
    wrong = {
        r"Segment\.rows has 199 entries, but 200 are expected": {"rows": segment.rows[1:]},
        r"Segment\.rows is not an array of the right type": {"rows": segment.rows.astype(np.int64)},
        r"Segment\.by_row has 3 entries, but 200": {"by_row": segment.by_row[:3]},
        r"Segment\.ids has 199 entries, but 200": {"ids": segment.ids[1:]},
        r"Segment\.factors has shape \(200, 3\), but \(200, 4\)": {"factors": factors[:, 1:].copy()},
        r"Segment\.factors is not an array of the right type": {"factors": np.asfortranarray(factors)},
        r"Segment\.removed has 2 entries, but 25": {"removed": np.zeros(2, np.uint8)},
        r"Segment\.n_live is out of range": {"n_live": 201},
        r"Segment\.tiles and centres must be passed together": {"tiles": None},
        r"ExactCodes\.codes has": {"codes": replace(codes, codes=codes.codes[1:])},
        r"ExactCodes\.block_terms has shape": {"codes": replace(codes, block_terms=codes.block_terms[1:])},
        r"Postings\.impacts has": {"postings": replace(postings, impacts=postings.impacts[1:])},
        r"Postings\.starts does not cover": {"postings": replace(postings, starts=postings.starts + 1)},
        r"Postings\.block_lists does not cover": {"postings": replace(postings, block_lists=postings.block_lists // 2)},
        r"TiledItems\.starts does not cover": {"tiles": replace(tiles, members=np.tile(tiles.members, 2))},
        r"TiledItems\.members are not in whole": {"tiles": replace(tiles, members=tiles.members[1:])},
        r"TiledItems\.centre_starts does not cover": {
            "tiles": replace(tiles, group_radii=np.tile(tiles.group_radii, 2))
        },
        r"TiledItems\.starts points outside its array": {"tiles": replace(tiles, starts=tiles.starts[::-1].copy())},
        r"TiledItems\.starts has no tile": {"tiles": replace(tiles, starts=tiles.starts[:2])},
        r"TileCodes\.scales has": {"tiles": replace(tiles, coded=replace(tiles.coded, scales=tiles.coded.scales[1:]))},
    }  # fmt: skip
    for sentence, changes in wrong.items():
        with pytest.raises(ValueError, match=sentence):
            engine_of(version, **changes)
    for head in (np.zeros((4, 0)), np.ones((4, 5))):
        with pytest.raises(ValueError, match="head must have from 1 to n_factors columns"):
            native.Engine(head, 1.0, 1.0, None, None, [])


def test_wrong_calls_are_refused(rng):
    factors = rng.standard_normal((200, 4)).astype(np.float32)
    version = built(factors, np.arange(200), DEFAULT_SCHEMA, LearnedTiles(n_tiles=20), 1)
    engine, queries = engine_of(version), factors[:3]
    entries = version.fitted.query_mapper.entries(queries)
    answers = Answers.empty(3, 5)
    nothing = np.zeros(0, np.int64)

    def search(queries=queries, setting=EXACT, entries=entries, rows=None, answers=answers, level=0):
        return engine.search(queries, setting, entries, rows, answers, level)

    assert search() == -1
    wrong = {
        "queries must be as wide as the items": {"queries": factors[:3, :3].copy()},
        "ids must have as many dimensions": {"queries": factors[0]},
        "scores has 12 entries, but 15": {"answers": answers._replace(scores=answers.scores[:, 1:].copy())},
        "n_scored has 2 entries, but 3": {"answers": answers._replace(n_scored=answers.n_scored[1:])},
        "there is no such method": {"setting": Setting(99)},
        "reach must be from 0 to 1": {"setting": Setting(1, reach=1.5)},
        "budget, max_slots or min_overlap is too small": {"setting": Setting(2, max_slots=0)},
        "entries are missing": {"setting": Setting(2), "entries": None},
        "entries has 3 entries, but 4": {"setting": Setting(2), "entries": (entries[0][1:], *entries[1:])},
        "values has": {"setting": Setting(2), "entries": (*entries[:2], entries[2][1:])},
        "row_filter points outside its array": {"rows": Filter(None, 0, nothing, np.array([0, 0, 0, 9]), False)},
        "row_filter has 2 entries, but 4": {"rows": Filter(None, 0, nothing, np.zeros(2, np.int64), False)},
        "there is no such SIMD level": {"level": 99},
    }
    for sentence, given_ in wrong.items():
        with pytest.raises(ValueError, match=sentence):
            search(**given_)
    plain = ts.Index.build(factors, method="exact")._version.engine._handle
    with pytest.raises(ValueError, match="there are no tiles"):
        plain.search(queries, Setting(1), None, None, answers, 0)


@pytest.mark.parametrize("setting", [EXACT, Setting(1, reach=1.0), Setting(1, reach=0.3)])
def test_a_query_that_finds_fewer_than_it_wants_stays_inside_the_tiles(rng, setting):
    """Long queries with most items excluded, and tiles that do not fill their last group."""
    factors = rng.standard_normal((200, 4)).astype(np.float32)
    version = built(factors.copy(), np.arange(200), DEFAULT_SCHEMA, LearnedTiles(n_tiles=24), 1)
    queries = (1000 * rng.standard_normal((6, 4))).astype(np.float32)
    listed = np.tile(np.arange(180), 6)
    rows = Filter(None, 0, listed, np.arange(7) * 180, False)
    for level in LEVELS:
        engine, answers = engine_of(version), Answers.empty(6, 40)
        assert engine.search(queries, setting, None, rows, answers, level) == -1
        assert (np.sort(answers.ids[:, :20]) == np.arange(180, 200)).all()
        assert (answers.ids[:, 20:] == -1).all()
        assert (answers.n_scored <= 200).all()
