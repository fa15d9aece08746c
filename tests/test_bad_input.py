"""Bad input times every public function, with the sentence expected; nothing changes."""

import re

import numpy as np
import pytest
import scipy.sparse

import tessella as ts
from tessella.datasets import generated_factors

GOOD = np.arange(12.0).reshape(4, 3) - 5
NAN = np.where(np.arange(12).reshape(4, 3) == 7, np.nan, GOOD)
INF = np.where(np.arange(12).reshape(4, 3) == 7, -np.inf, GOOD)
LARGE = np.where(np.arange(12).reshape(4, 3) == 7, 1e300, GOOD)

FACTOR_FUNCTIONS = {
    "Ternary.tiles": (ts.Ternary().tiles, "factors"),
    "DAry.tiles": (ts.DAry(2).tiles, "factors"),
    "DAry.tiles, rounded": (ts.DAry(2, algorithm="rounded").tiles, "factors"),
    "RandomTessellation.tiles": (ts.RandomTessellation(5).tiles, "factors"),
    "ExplicitTessellation.tiles": (ts.ExplicitTessellation(np.eye(3)).tiles, "factors"),
    "SparseMap.fit": (ts.SparseMap().fit, "item_factors"),
    "SparseMap.fit_transform": (ts.SparseMap().fit_transform, "item_factors"),
    "SparseMap.transform": (ts.SparseMap().transform, "factors"),
    "SparseMap.transform, fitted": (ts.SparseMap(ts.Schema(threshold=1.0)).fit(GOOD).transform, "factors"),
}
BAD_FACTORS = {
    "NaN": (NAN, ValueError, "{name} holds nan in row 2, column 1; factors must be finite."),
    "infinity": (INF, ValueError, "{name} holds -inf in row 2, column 1; factors must be finite."),
    "too large": (LARGE, ValueError, "{name} holds 1e+300 in row 2, too large for float32; scale the factors down."),
    "float32 infinity": (INF.astype(np.float32), ValueError, "{name} holds -inf in row 2, column 1;"),
    "three dimensions": (GOOD[None], ValueError, "{name} has 3 dimensions, but must have 2: (n, n_factors)."),
    "a number": (3.0, ValueError, "{name} has 0 dimensions, but must have 2: (n, n_factors)."),
    "no columns": (GOOD[:, :0], ValueError, "{name} has 0 columns, but"),
    "too many columns": (np.zeros((1, 4097)), ValueError, "{name} has 4097 columns, but"),
    "text": ([["a", "b"]], TypeError, "{name} holds <U1, but must hold real numbers such as float32."),
    "objects": (np.array([[1.0, None]]), TypeError, "{name} holds object, but must hold real numbers"),
    "complex": (GOOD * 1j, TypeError, "{name} holds complex128, but must hold real numbers"),
    "booleans": (GOOD > 0, TypeError, "{name} holds bool, but must hold real numbers"),
    "dates": (GOOD.astype("M8[s]"), TypeError, "{name} holds datetime64[s], but must hold real numbers"),
    "None": (None, TypeError, "{name} holds object, but must hold real numbers"),
    "ragged": ([[1.0, 2.0], [3.0]], ValueError, "{name} is not a matrix: its rows have different lengths or depths."),
    "sparse": (scipy.sparse.csr_array(GOOD), TypeError, "{name} is a SciPy sparse matrix, but factors are dense;"),
    "masked": (np.ma.masked_less(GOOD, 0), TypeError, "{name} is a masked array; fill it first"),
}


@pytest.mark.parametrize("bad", BAD_FACTORS)
@pytest.mark.parametrize("function", FACTOR_FUNCTIONS)
def test_bad_factors(function, bad):
    call, name = FACTOR_FUNCTIONS[function]
    values, error, sentence = BAD_FACTORS[bad]
    before = values.copy() if isinstance(values, np.ndarray) else None
    with pytest.raises(error, match=re.escape(sentence.format(name=name))):
        call(values)
    if before is not None:
        np.testing.assert_array_equal(values, before)


class Broken:
    """A slot map that gives what it is told to."""

    def __init__(self, slots, n_slots=99):
        self.given = slots
        self.p = n_slots

    def n_slots(self, n_factors, levels=1):  # noqa: ARG002
        return self.p

    def slots(self, tiles, levels=1):  # noqa: ARG002
        return np.asarray(self.given)


class Stubborn:
    """Something that will not be an array."""

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("not now")


def square(width):
    return np.ones((2, width))


CALLS = [
    (lambda: ts.Ternary(0), ValueError, "max_nonzeros is 0, but must be at least 1."),
    (lambda: ts.Ternary(1.5), TypeError, "max_nonzeros must be an integer, not float."),
    (lambda: ts.Ternary(True), TypeError, "max_nonzeros must be an integer, not bool."),
    (lambda: ts.DAry(0), ValueError, "levels is 0, but must be from 1 to 127."),
    (lambda: ts.DAry(128), ValueError, "levels is 128, but must be from 1 to 127."),
    (lambda: ts.DAry("2"), TypeError, "levels must be an integer, not str."),
    (lambda: ts.DAry(2, "best"), ValueError, "algorithm is 'best', but must be one of 'exact', 'rounded'."),
    (lambda: ts.RandomTessellation(0), ValueError, "n_tiles is 0, but must be from 1 to 16777216."),
    (lambda: ts.RandomTessellation(3, -1), ValueError, "seed is -1, but must be at least 0."),
    (lambda: ts.RandomTessellation(3).tiles(GOOD, 0), ValueError, "n_nearest is 0, but must be from 1 to 16777216."),
    (lambda: ts.ExplicitTessellation(np.zeros((0, 3))), ValueError, "vectors has 0 rows, but a tessellation needs at least 1"),
    (lambda: ts.ExplicitTessellation([[1, 0], [0, 0]]), ValueError, "row 1 of vectors is zero, but every tile needs a direction."),
    (lambda: ts.ExplicitTessellation([[1, np.nan]]), ValueError, "vectors holds NaN or infinity in row 0;"),
    (lambda: ts.ExplicitTessellation([1, 2]), ValueError, "vectors has 1 dimensions, but must have 2"),
    (lambda: ts.ExplicitTessellation(np.eye(3)).tiles(square(4)), ValueError, "factors has 4 columns, but 3 are expected."),
    (lambda: ts.ParseTree(0), ValueError, "depth is 0, but must be from 1 to 32."),
    (lambda: ts.ParseTree("deep"), TypeError, "depth must be an integer, not str."),
    (lambda: ts.OneHot().slots([[0, 2]]), ValueError, "tiles holds a value of magnitude 2, but there are 1 levels; pass levels=2."),
    (lambda: ts.OneHot().slots([[-128, 0]]), ValueError, "tiles holds a value of magnitude 128, but there are 1 levels; pass levels=128."),
    (lambda: ts.OneHot().slots([0, 1]), ValueError, "tiles has shape (2,), but must have shape (n, n_factors), 1 to 4096 wide."),
    (lambda: ts.CounterTree().slots([[0.5]]), TypeError, "tiles holds float64, but must hold integers such as int8."),
    (lambda: ts.OneHot().n_slots(0), ValueError, "n_factors is 0, but must be from 1 to 4096."),
    (lambda: ts.CounterTree().n_slots(3, 0), ValueError, "levels is 0, but must be from 1 to 127."),
    (lambda: ts.ParseTree(2).slots([[0, 1]], 0.5), TypeError, "levels must be an integer, not float."),
    (lambda: ts.Schema("ternary"), TypeError, "tessellation is a str, but must have `tiles` and `levels` or `n_tiles`."),
    (lambda: ts.Schema(ts.Ternary), TypeError, "tessellation is the class Ternary, but must be an instance of it."),
    (lambda: ts.Schema(slot_map=ts.OneHot), TypeError, "slot_map is the class OneHot, but must be an instance of it."),
    (lambda: ts.Schema(slot_map=3), TypeError, "slot_map is a int, but must have the methods `n_slots` and `slots`."),
    (lambda: ts.Schema(ts.RandomTessellation(9), ts.CounterTree()), ValueError, "CounterTree needs tiles that are vectors"),
    (lambda: ts.Schema(threshold=-0.1), ValueError, "threshold is -0.1, but must be finite and at least 0."),
    (lambda: ts.Schema(threshold=np.nan), ValueError, "threshold is nan, but must be finite and at least 0."),
    (lambda: ts.Schema(threshold=10**400), ValueError, "threshold is inf, but must be finite and at least 0."),
    (lambda: ts.CounterTree().slots([[True]]), TypeError, "tiles holds bool, but must hold integers such as int8."),
    (lambda: ts.CounterTree().slots(np.zeros((1, 5000), int)), ValueError, "tiles has shape (1, 5000), but must have shape (n, n_factors), 1 to 4096 wide."),
    (lambda: ts.RandomTessellation(3).explicit(-1), ValueError, "n_factors is -1, but must be from 1 to 4096."),
    (lambda: ts.RandomTessellation(10**12), ValueError, "n_tiles is 1000000000000, but must be from 1 to 16777216."),
    (lambda: ts.SparseMap("x").set_params(schema__threshold=1), TypeError, "schema is a str, but must be a tessella.Schema."),
    (lambda: ts.SparseMap(ts.Schema(slot_map=Broken([[0, 1, 2]], None))).transform(GOOD[:1]), TypeError, "the number of slots must be an integer, not NoneType."),
    (lambda: ts.SparseMap(ts.Schema(slot_map=Broken([[0, 1, 2]], 2**70))).transform(GOOD[:1]), ValueError, "the slot map needs 1.18e+21 slots, but can have at most 9.22e+18"),
    (lambda: ts.Ternary().tiles(Stubborn()), TypeError, "factors cannot be read as an array: not now."),
    (lambda: ts.SparseMap().transform(GOOD, threads=True), TypeError, "threads must be an integer or None, not bool."),
    (lambda: ts.Schema(threshold="1"), TypeError, "threshold must be a number, not str."),
    (lambda: ts.Schema(threshold_kind="odd"), ValueError, "threshold_kind is 'odd', but must be one of 'absolute', 'relative'."),
    (lambda: ts.Schema(rotation="left"), ValueError, "rotation is 'left', but must be one of 'principal', 'random'."),
    (lambda: ts.Schema(rotation=np.ones((2, 2))), ValueError, "rotation is not orthogonal: products of its columns are off by"),
    (lambda: ts.Schema(rotation=np.ones((2, 3))), ValueError, "rotation has shape (2, 3), but must be square, with 1 to 4096 rows."),
    (lambda: ts.Schema(rotation=np.eye(2) * np.nan), ValueError, "rotation holds NaN or infinity in row 0; it must be finite."),
    (lambda: ts.Schema(rotation_seed=-1), ValueError, "rotation_seed is -1, but must be at least 0."),
    (lambda: ts.Schema().n_slots(0), ValueError, "n_factors is 0, but must be from 1 to 4096."),
    (lambda: ts.SparseMap("paper").fit(GOOD), TypeError, "schema is a str, but must be a tessella.Schema."),
    (lambda: ts.SparseMap().fit(GOOD[:0]), ValueError, "item_factors has 0 rows, but at least 1 is needed to fit."),
    (lambda: ts.SparseMap().fit(GOOD).transform(square(4)), ValueError, "factors has 4 columns, but 3 are expected."),
    (lambda: ts.SparseMap().transform(GOOD[0]), ValueError, "factors has 1 dimensions, but must have 2: (n, n_factors); pass factors[None]"),
    (lambda: ts.SparseMap(ts.Schema(threshold=1)).transform(GOOD), ValueError, "not fitted, but its schema learns the scale"),
    (lambda: ts.SparseMap(ts.Schema(rotation="principal")).transform(GOOD), ValueError, "learns principal axes; call fit("),
    (lambda: ts.SparseMap(ts.Schema(rotation=np.eye(4))).fit(GOOD), ValueError, "factors have 3 columns, but the schema's rotation has 4."),
    (lambda: ts.SparseMap(ts.Schema(rotation="random")).transform(np.full((3, 9), 3e38)), ValueError, "row 0 of factors is too large for float32 once rotated; scale the factors down."),
    (lambda: ts.SparseMap().set_params(depth=2), ValueError, "'depth' is not a parameter of SparseMap"),
    (lambda: ts.SparseMap().transform(GOOD, threads=0), ValueError, "threads is 0, but at least 1 is needed; None uses every CPU."),
    (lambda: ts.SparseMap().transform(GOOD, threads=1.5), TypeError, "threads must be an integer or None, not float."),
    (lambda: ts.Ternary().tiles(GOOD, threads=-3), ValueError, "threads is -3, but at least 1 is needed"),
    (lambda: ts.LearnedTiles(0), ValueError, "n_tiles is 0, but must be from 1 to 65536."),
    (lambda: ts.LearnedTiles(65537), ValueError, "n_tiles is 65537, but must be from 1 to 65536."),
    (lambda: ts.LearnedTiles("many"), ValueError, "n_tiles is 'many', but must be an integer or 'auto'."),
    (lambda: ts.LearnedTiles(2.0), TypeError, "n_tiles must be an integer, not float."),
    (lambda: ts.LearnedTiles(None), TypeError, "n_tiles must be an integer, not NoneType."),
    (lambda: ts.LearnedTiles(spill=0), ValueError, "spill is 0, but must be from 1 to 2."),
    (lambda: ts.LearnedTiles(spill=3), ValueError, "spill is 3, but must be from 1 to 2."),
    (lambda: ts.LearnedTiles(spill=True), TypeError, "spill must be an integer, not bool."),
    (lambda: ts.LearnedTiles(seed=-1), ValueError, "seed is -1, but must be at least 0."),
    (lambda: ts.LearnedTiles(seed=0.5), TypeError, "seed must be an integer, not float."),
    (lambda: ts.Index.build(GOOD, method=ts.LearnedTiles), TypeError, "method is a type, but must be 'auto', 'exact', 'tiles' or a tessella.LearnedTiles."),
    (lambda: ts.Index.build(GOOD, method=ts.LearnedTiles(), queries=GOOD[:0]), ValueError, "queries has 0 rows, but at least 1 is needed to measure recall."),
    (lambda: ts.Index.build(GOOD, target_recall=1.01), ValueError, "target_recall is 1.01, but must be from 0 to 1."),
    (lambda: ts.Index.build(GOOD, target_recall=-1), ValueError, "target_recall is -1, but must be from 0 to 1."),
    (lambda: ts.Index.build(GOOD, target_recall="high"), TypeError, "target_recall must be a number, not str."),
    (lambda: ts.Index.build(GOOD, queries=GOOD[:0]), ValueError, "queries has 0 rows, but at least 1 is needed to measure recall."),
    (lambda: ts.Index.build(GOOD, queries=GOOD[:, :2]), ValueError, "queries has 2 columns, but 3 are expected."),
    (lambda: ts.Index.build(GOOD, queries=NAN), ValueError, "queries holds nan in row 2, column 1; factors must be finite."),
    (lambda: generated_factors(-1, 1), ValueError, "n_items is -1, but must be at least 0."),
    (lambda: generated_factors(1, 2.0), TypeError, "n_users must be an integer, not float."),
    (lambda: generated_factors(1, 1, 4097), ValueError, "n_factors is 4097, but must be from 1 to 4096."),
    (lambda: generated_factors(1, 1, kind="svd"), ValueError, "kind is 'svd', but must be one of 'als', 'als-heavy', 'bpr', 'flat'."),
    (lambda: generated_factors(1, 1, seed=-2), ValueError, "seed is -2, but must be at least 0."),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "sentence"), CALLS, ids=[sentence for _, _, sentence in CALLS])
def test_bad_arguments(call, error, sentence):
    with pytest.raises(error, match=re.escape(sentence)):
        call()


@pytest.mark.parametrize(
    ("slots", "sentence"),
    [
        ([[0, 1]], "Broken.slots returned int64 of shape (1, 2), but must return integers of shape (1, 3)."),
        ([[0.0, 1, 2]], "Broken.slots returned float64 of shape (1, 3), but"),
        ([[0, 1, 99]], "Broken.slots returned a slot outside [0, 99)."),
        ([[0, -1, 2]], "Broken.slots returned a slot outside [0, 99)."),
        ([[5, 1, 5]], "Broken.slots returned the same slot for two coordinates of a row."),
    ],
)
def test_broken_slot_maps(slots, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        ts.SparseMap(ts.Schema(slot_map=Broken(slots))).transform(GOOD[:1])


def test_a_failed_fit_changes_nothing():
    mapper = ts.SparseMap(ts.Schema(threshold=1.0, rotation="principal")).fit(GOOD)
    before = mapper.transform(GOOD)
    scale = mapper.scale_
    for bad in (NAN, GOOD[:0], [["x"]]):
        with pytest.raises((ValueError, TypeError)):
            mapper.fit(bad)
    assert mapper.scale_ == scale
    assert (mapper.transform(GOOD) != before).nnz == 0


def test_the_first_bad_row_is_named_on_any_number_of_threads(monkeypatch):
    monkeypatch.setattr("tessella._checks._factors._ELEMENTS_PER_BLOCK", 3)
    factors = np.ones((200, 3), np.float32)
    factors[[60, 61, 150]] = np.nan
    for threads in (1, 2, 7):
        for call in (ts.Ternary().tiles, ts.SparseMap().transform):
            with pytest.raises(ValueError, match="in row 60"):
                call(factors, threads=threads)
