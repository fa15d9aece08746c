"""SparseMap: values kept, slots right, input of every kind, scikit-learn."""

import pickle
import threading
import tracemalloc

import numpy as np
import pytest
import scipy.sparse
from conftest import NATIVE, factor_matrices
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.utils.validation import check_is_fitted

import tessella as ts
from tessella import _kernels
from tessella.mapping.axes import second_moments

SCHEMAS = [
    ts.Schema(),
    ts.Schema(ts.Ternary(max_nonzeros=3), ts.OneHot(), threshold=0.7),
    ts.Schema(ts.DAry(3), ts.ParseTree(2), threshold=0.7, threshold_kind="relative"),
    ts.Schema(ts.DAry(2), ts.CounterTree(), threshold=0.4, rotation="principal"),
    ts.Schema(ts.DAry(2, algorithm="rounded"), ts.ParseTree(3), threshold=0.4, rotation="random"),
    ts.Schema(ts.RandomTessellation(20), ts.OneHot(), threshold=0.5),
]


def schema_name(schema):
    parts = [type(schema.tessellation).__name__, type(schema.slot_map).__name__, schema.threshold_kind, schema.rotation]
    return "-".join(map(str, parts))


def slow_map(schema, fitted, factors):
    """The sparse map entry by entry, from its definition."""
    rows = np.asarray(factors, dtype=np.float32)
    if fitted.rotation_ is not None:
        rows = (rows.astype(np.float64) @ fitted.rotation_).astype(np.float32)
    scale = fitted.scale_
    if schema.threshold_kind == "relative":
        scale = np.sqrt(np.mean(rows.astype(np.float64) ** 2, axis=1, keepdims=True))
    rows = np.where(np.abs(rows.astype(np.float64)) < schema.threshold * scale, 0, rows)
    dense = np.zeros((len(rows), schema.n_slots(rows.shape[1])))
    for i, row in enumerate(rows):
        tile = schema.tessellation.tiles(row[None])
        if isinstance(schema.tessellation, ts.RandomTessellation):
            slots = np.arange(len(row)) * schema.tessellation.n_tiles + tile[0]
        else:
            slots = schema.slot_map.slots(tile, schema.tessellation.levels)[0]
        for value, slot in zip(row, slots, strict=True):
            if value:
                dense[i, slot] += value
    return dense, rows


def assert_csr(phi):
    assert isinstance(phi, scipy.sparse.csr_array)
    assert phi.dtype == np.float32
    assert phi.data.all()
    phi.check_format(full_check=True)
    fresh = scipy.sparse.csr_array((phi.data, phi.indices, phi.indptr), shape=phi.shape)
    assert fresh.has_canonical_format


@pytest.mark.parametrize("schema", SCHEMAS, ids=schema_name)
def test_map_by_definition(schema, rng):
    factors = rng.standard_normal((60, 7)).astype(np.float32)
    factors[5] = 0
    mapper = ts.SparseMap(schema).fit(factors)
    phi = mapper.transform(factors)
    dense, thresholded = slow_map(schema, mapper, factors)
    assert_csr(phi)
    np.testing.assert_allclose(phi.toarray(), dense, rtol=1e-6)
    np.testing.assert_allclose((phi**2).sum(axis=1), (thresholded**2).sum(axis=1), rtol=1e-5)
    assert phi.indptr[5] == phi.indptr[6]  # a row of zeros is empty


@pytest.mark.parametrize("schema", [ts.Schema(), ts.Schema(ts.DAry(2), ts.ParseTree(2), 0.5, "relative")])
@given(factors=factor_matrices())
def test_values_are_the_factors_own(schema, factors):
    phi = ts.SparseMap(schema).transform(factors)
    assert_csr(phi)
    for row, factor in enumerate(factors):
        stored = phi.data[phi.indptr[row] : phi.indptr[row + 1]]
        large = np.abs(factor) >= schema.threshold * np.sqrt(np.mean(factor.astype(np.float64) ** 2))
        np.testing.assert_array_equal(np.sort(stored), np.sort(factor[large & (factor != 0)]))


def test_row_products_are_partial_inner_products(rng):
    users, items = rng.standard_normal((2, 40, 6)).astype(np.float32)
    phi_users, phi_items = (ts.SparseMap().transform(factors) for factors in (users, items))
    tiles_users, tiles_items = (ts.Ternary().tiles(factors) for factors in (users, items))
    slots_users, slots_items = (ts.CounterTree().slots(tiles) for tiles in (tiles_users, tiles_items))
    shared = slots_users[:, None] == slots_items[None]
    expected = np.sum(shared * users[:, None] * items[None], axis=2)
    np.testing.assert_allclose((phi_users @ phi_items.T).toarray(), expected, atol=1e-5)


def test_rotation_keeps_inner_products(rng):
    items = rng.standard_normal((200, 12)) @ rng.standard_normal((12, 12))
    for rotation in ("principal", "random", np.eye(12)[::-1]):
        mapper = ts.SparseMap(ts.Schema(ts.RandomTessellation(1), ts.OneHot(), rotation=rotation)).fit(items)
        phi = mapper.transform(items)
        np.testing.assert_allclose((phi @ phi.T).toarray(), items @ items.T, rtol=1e-4, atol=1e-3)


def test_principal_axes_are_ordered_and_reproducible(rng):
    items = rng.standard_normal((500, 8)) * 2.0 ** -np.arange(8)
    mapper = ts.SparseMap(ts.Schema(rotation="principal")).fit(items[:, ::-1])
    turned = items[:, ::-1] @ mapper.rotation_
    energy = (turned**2).sum(axis=0)
    assert (np.diff(energy) < 0).all()
    np.testing.assert_array_equal(
        ts.SparseMap(ts.Schema(rotation="principal")).fit(items[:, ::-1]).rotation_, mapper.rotation_
    )


def test_absolute_threshold_keeps_more_of_long_factors(rng):
    directions = rng.standard_normal((300, 16))
    factors = np.concatenate([directions, 5 * directions])
    absolute = np.diff(ts.SparseMap(ts.Schema(threshold=1.0)).fit_transform(factors).indptr)
    assert absolute[300:].sum() > 3 * absolute[:300].sum()
    relative = np.diff(ts.SparseMap(ts.Schema(threshold=1.0, threshold_kind="relative")).fit_transform(factors).indptr)
    np.testing.assert_array_equal(relative[:300], relative[300:])


def test_scale_is_the_root_mean_square(rng):
    factors = rng.standard_normal((1000, 10)) * 3
    assert ts.SparseMap().fit(factors).scale_ == pytest.approx(np.sqrt(np.mean(factors.astype(np.float32) ** 2)))


def same(one, two):
    return all(
        np.array_equal(getattr(one, part), getattr(two, part)) and getattr(one, part).dtype == getattr(two, part).dtype
        for part in ("data", "indices", "indptr")
    )


@pytest.mark.parametrize("schema", SCHEMAS, ids=schema_name)
def test_threads_batches_and_levels_change_nothing(schema, rng, monkeypatch):
    factors = rng.standard_normal((700, 33)).astype(np.float32)
    mapper = ts.SparseMap(schema).fit(factors)
    expected = mapper.transform(factors, threads=1)
    for level in _kernels.simd_levels():
        monkeypatch.setenv("TESSELLA_SIMD", level)
        assert same(mapper.transform(factors), expected)
    monkeypatch.delenv("TESSELLA_SIMD")
    if _kernels._native is None:
        monkeypatch.setenv("TESSELLA_SIMD", "numpy")
    monkeypatch.setattr("tessella._checks._factors._ELEMENTS_PER_BLOCK", 33 * 37)
    for threads in (1, 2, 7):
        assert same(mapper.transform(factors, threads=threads), expected)
    parts = [mapper.transform(factors[first : first + 99]) for first in range(0, 700, 99)]
    assert same(scipy.sparse.vstack(parts, format="csr"), expected)


def inputs(factors, tmp_path):
    """The same numbers in every form that users have them in."""
    path = tmp_path / "factors.npy"
    np.save(path, factors)
    frozen = factors.copy()
    frozen.flags.writeable = False
    return {
        "float64": factors.astype(np.float64),
        "list": factors.tolist(),
        "read-only": frozen,
        "sliced rows": np.repeat(factors, 2, axis=0)[::2],
        "sliced columns": np.repeat(factors, 3, axis=1)[:, ::3],
        "reversed": factors[::-1, ::-1].copy()[::-1, ::-1],
        "Fortran": np.asfortranarray(factors),
        "memory map": np.load(path, mmap_mode="r"),
        "big-endian": factors.astype(">f4"),
        "subclass": np.asarray(factors).view(np.matrix),
    }


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_every_form_of_input_gives_the_same(rng, tmp_path):
    factors = rng.standard_normal((50, 9)).astype(np.float32)
    for schema in SCHEMAS:
        mapper = ts.SparseMap(schema).fit(factors)
        expected = mapper.transform(factors)
        for form in inputs(factors, tmp_path).values():
            assert same(mapper.transform(form), expected)
            assert same(ts.SparseMap(schema).fit(form).transform(factors), expected)


def test_float16_and_whole_numbers():
    halves = np.array([[0.5, -1.5, 3.0]], np.float16)
    assert same(ts.SparseMap().transform(halves), ts.SparseMap().transform(halves.astype(np.float32)))
    assert same(ts.SparseMap().transform([[1, -2, 3]]), ts.SparseMap().transform([[1.0, -2.0, 3.0]]))


@pytest.mark.parametrize("schema", SCHEMAS[:5], ids=schema_name)
@pytest.mark.parametrize("k", [1, 2, 65, 300])
def test_any_width(schema, k, rng):
    factors = rng.standard_normal((30, k))
    phi = ts.SparseMap(schema).fit(factors).transform(factors[:3])
    assert phi.shape == (3, schema.n_slots(k))
    assert_csr(phi)


def test_the_greatest_width(rng):
    factors = rng.standard_normal((3, 4096))
    for schema in SCHEMAS[:3]:
        phi = ts.SparseMap(schema).fit(factors).transform(factors)
        assert phi.shape == (3, schema.n_slots(4096))
        assert_csr(phi)


def test_no_rows(rng):
    mapper = ts.SparseMap(ts.Schema(threshold=1.0)).fit(rng.standard_normal((5, 4)))
    phi = mapper.transform(np.zeros((0, 4)))
    assert phi.shape == (0, 32)
    assert_csr(phi)


def test_more_than_2_to_the_31_slots(rng):
    factors = rng.standard_normal((20, 64))
    schema = ts.Schema(ts.DAry(4), ts.ParseTree(9))
    phi = ts.SparseMap(schema).transform(factors)
    assert phi.indices.dtype == np.int64
    assert phi.shape == (20, schema.n_slots(64))
    assert_csr(phi)
    np.testing.assert_array_equal(phi.indices.reshape(20, 64), ts.ParseTree(9).slots(ts.DAry(4).tiles(factors), 4))


def test_no_fit_is_needed_where_nothing_is_learned(rng):
    factors = rng.standard_normal((20, 6))
    for schema in (
        ts.Schema(),
        ts.Schema(threshold=1, threshold_kind="relative"),
        ts.Schema(rotation="random"),
        ts.Schema(rotation=np.eye(6)),
    ):
        assert same(ts.SparseMap(schema).transform(factors), ts.SparseMap(schema).fit(factors).transform(factors))


@NATIVE
def test_factors_that_change_meanwhile_are_noticed(rng, monkeypatch):
    factors = rng.standard_normal((50, 8)).astype(np.float32)
    original = np.cumsum

    def change(*args, **kwargs):
        factors[20, 3] = 0
        return original(*args, **kwargs)

    monkeypatch.setattr("tessella.mapping.sparse_map.np.cumsum", change)
    with pytest.raises(RuntimeError, match="were modified while"):
        ts.SparseMap().transform(factors)


def test_maps_can_be_shared_by_threads(rng):
    factors = rng.standard_normal((100_000, 16)).astype(np.float32)  # several blocks
    mapper = ts.SparseMap(ts.Schema(threshold=0.5)).fit(factors)
    expected = mapper.transform(factors, threads=1)
    found = [None] * 8

    def work(i):
        found[i] = mapper.transform(factors, threads=2)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(same(phi, expected) for phi in found)


class Backwards:
    """A slot map of one's own: one-hot, last coordinate first."""

    def n_slots(self, n_factors, levels=1):
        return (2 * levels + 1) * n_factors

    def slots(self, tiles, levels=1):
        tiles = np.asarray(tiles, dtype=np.int64)
        k = tiles.shape[1]
        return (k - 1 - np.arange(k)) * (2 * levels + 1) + levels - tiles


class Signs:
    """A tessellation of one's own: the signs of all coordinates."""

    levels = 1

    def tiles(self, factors, *, threads=None):  # noqa: ARG002
        return np.sign(np.asarray(factors)).astype(np.int8)


def test_parts_of_ones_own(rng):
    factors = rng.standard_normal((30, 5)).astype(np.float32)
    phi = ts.SparseMap(ts.Schema(ts.Ternary(), Backwards())).transform(factors)
    assert_csr(phi)
    expected = Backwards().slots(ts.Ternary().tiles(factors))
    np.testing.assert_array_equal(phi.indices.reshape(30, 5), expected[:, ::-1])
    np.testing.assert_array_equal(phi.data.reshape(30, 5), factors[:, ::-1])
    for slot_map in (ts.OneHot(), ts.CounterTree(), Backwards()):
        phi = ts.SparseMap(ts.Schema(Signs(), slot_map)).transform(factors)
        np.testing.assert_array_equal(
            phi.indices.reshape(30, 5), np.sort(slot_map.slots(np.sign(factors).astype(int)), axis=1)
        )


def test_subclasses_have_their_way(rng):
    class Reversed(ts.OneHot):
        def slots(self, tiles, levels=1):
            return Backwards().slots(tiles, levels)

    class AllOnes(ts.Ternary):
        def tiles(self, factors, *, threads=None):  # noqa: ARG002
            return np.ones(np.shape(factors), np.int8)

    factors = rng.standard_normal((9, 5)).astype(np.float32)
    expected = ts.SparseMap(ts.Schema(ts.Ternary(), Backwards())).transform(factors)
    assert same(ts.SparseMap(ts.Schema(ts.Ternary(), Reversed())).transform(factors), expected)
    phi = ts.SparseMap(ts.Schema(AllOnes(), ts.OneHot())).transform(factors)
    np.testing.assert_array_equal(phi.indices.reshape(9, 5), np.tile(3 * np.arange(5), (9, 1)))


def test_unaligned_arrays(rng):
    factors = rng.standard_normal((32, 64)).astype(np.float32)
    raw = np.frombuffer(b"\0" + factors.tobytes(), np.uint8)[1:].view(np.float32).reshape(32, 64)
    assert not raw.flags.aligned
    assert same(ts.SparseMap().transform(raw), ts.SparseMap().transform(factors))


@NATIVE
def test_factors_that_another_thread_writes_to_crash_nothing():
    factors = np.ones((2000, 64), np.float32)
    stop = threading.Event()

    def write():
        while not stop.is_set():
            factors[:] = 1
            factors[:] = 2.5

    writer = threading.Thread(target=write)
    writer.start()
    for _ in range(300):
        ts.Ternary(max_nonzeros=3).tiles(factors, threads=1)
        ts.DAry(3).tiles(factors[:200], threads=1)
    stop.set()
    writer.join()


class TestScikitLearn:
    def test_clone_and_parameters(self):
        mapper = ts.SparseMap(ts.Schema(threshold=0.5))
        copy = clone(mapper)
        assert copy.schema == mapper.schema
        assert mapper.get_params(deep=False) == {"schema": mapper.schema}
        assert mapper.get_params()["schema__threshold"] == 0.5
        assert mapper.set_params(schema__threshold=1.5, schema__slot_map=ts.OneHot()) is mapper
        assert mapper.schema == ts.Schema(ts.Ternary(), ts.OneHot(), threshold=1.5)

    def test_a_schema_changed_after_fit_is_refused(self, rng):
        factors = rng.standard_normal((20, 3))
        mapper = ts.SparseMap().fit(factors)
        mapper.set_params(schema__rotation="principal")
        with pytest.raises(ValueError, match="changed since fit"):
            mapper.transform(factors)
        assert mapper.fit(factors).transform(factors).shape == (20, 18)

    def test_clones_are_their_own(self):
        mapper = ts.SparseMap(ts.Schema(threshold=0.5))
        copy = clone(mapper)
        mapper.set_params(schema__threshold=1.5)
        assert copy.schema.threshold == 0.5
        assert clone(ts.SparseMap()).schema is None

    def test_pipeline(self, rng):
        factors = rng.standard_normal((40, 6)).astype(np.float32)
        pipeline = make_pipeline(Normalizer(), ts.SparseMap())
        for params in ParameterGrid({"sparsemap__schema": [ts.Schema(threshold=t) for t in (0.1, 1.0)]}):
            phi = pipeline.set_params(**params).fit_transform(factors)
            unit = Normalizer().fit_transform(factors)
            assert same(phi, ts.SparseMap(params["sparsemap__schema"]).fit_transform(unit))
            assert same(pipeline.transform(factors), phi)
        assert "SparseMap" in repr(pipeline)
        assert pipeline.__sklearn_tags__().transformer_tags is not None

    def test_fitted_or_not(self, rng):
        learning = ts.SparseMap(ts.Schema(threshold=1.0))
        with pytest.raises(ValueError, match="not fitted"):
            check_is_fitted(learning)
        check_is_fitted(learning.fit(rng.standard_normal((4, 3))))
        check_is_fitted(ts.SparseMap())  # learns nothing, so it maps without fit
        with pytest.raises(ValueError, match="not fitted"):
            check_is_fitted(ts.SparseMap("no schema"))

    def test_pickle(self, rng):
        factors = rng.standard_normal((40, 6))
        for schema in SCHEMAS:
            mapper = ts.SparseMap(schema).fit(factors)
            assert same(pickle.loads(pickle.dumps(mapper)).transform(factors), mapper.transform(factors))  # noqa: S301


@given(st.sampled_from(SCHEMAS))
def test_repr_says_what_it_is(schema):
    assert "Schema" in repr(ts.SparseMap(schema))


@pytest.mark.parametrize("n_factors", [1, 7, 127, 128, 129, 300, 512])
def test_second_moments_take_little_memory_however_many_factors(n_factors, rng):
    factors = rng.standard_normal((500, n_factors))
    tracemalloc.start()
    moments = second_moments(factors)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_allclose(moments, factors.T @ factors, atol=1e-9)
    assert peak < 4 * factors.nbytes + 4 * moments.nbytes + 2**24
