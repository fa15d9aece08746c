"""Schema: equal by value, to JSON and back."""

import copy
import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessella as ts


def rotations(k):
    return np.linalg.qr(np.random.default_rng(k).standard_normal((k, k))).Q


coordinate = st.one_of(
    st.builds(ts.Ternary, st.none() | st.integers(1, 9)),
    st.builds(ts.DAry, st.integers(1, 127), st.sampled_from(["exact", "rounded"])),
)
numbered = st.one_of(
    st.builds(ts.RandomTessellation, st.integers(1, 9), st.integers(0, 2**40)),
    st.integers(1, 4).map(lambda k: ts.ExplicitTessellation(rotations(k))),
)
slot_maps = st.one_of(st.just(ts.OneHot()), st.just(ts.CounterTree()), st.builds(ts.ParseTree, st.integers(1, 5)))
parts = st.one_of(st.tuples(coordinate, slot_maps), st.tuples(numbered, st.just(ts.OneHot())))


@st.composite
def schemas(draw):
    tessellation, slot_map = draw(parts)
    rotation = draw(st.sampled_from([None, "principal", "random"]) | st.integers(1, 4).map(rotations))
    kind = draw(st.sampled_from(["absolute", "relative"]))
    return ts.Schema(tessellation, slot_map, draw(st.floats(0, 10)), kind, rotation, draw(st.integers(0, 9)))


@given(schemas())
def test_json_pickle_and_copies_are_equal(schema):
    for other in (
        ts.Schema.from_json(schema.to_json()),
        pickle.loads(pickle.dumps(schema)),  # noqa: S301
        copy.deepcopy(schema),
    ):
        assert other == schema
        assert hash(other) == hash(schema)
        assert other.to_json() == schema.to_json()


@given(schemas(), schemas())
def test_equal_means_equal_json(one, two):
    assert (one == two) == (one.to_json() == two.to_json())


def test_schemas_are_frozen():
    schema = ts.Schema(rotation=np.eye(2))
    with pytest.raises(AttributeError):
        schema.threshold = 2
    with pytest.raises(ValueError, match="read-only"):
        schema.rotation[0, 0] = 3


def test_rotation_is_a_copy():
    rotation = np.eye(2)
    schema = ts.Schema(rotation=rotation)
    rotation[0, 0] = 5
    np.testing.assert_array_equal(schema.rotation, np.eye(2))


@pytest.mark.parametrize(
    ("schema", "k", "n_slots"),
    [
        (ts.Schema(ts.Ternary(), ts.OneHot()), 10, 30),
        (ts.Schema(ts.DAry(4), ts.OneHot()), 10, 90),
        (ts.Schema(ts.Ternary(), ts.ParseTree(2)), 10, 3 + 9 * 9),
        (ts.Schema(ts.DAry(2), ts.ParseTree(3)), 10, 10 + 8 * 125),
        (ts.Schema(ts.Ternary(), ts.CounterTree()), 10, 200),
        (ts.Schema(ts.DAry(3), ts.CounterTree()), 10, 600),
        (ts.Schema(ts.RandomTessellation(7), ts.OneHot()), 10, 70),
    ],
)
def test_slot_counts(schema, k, n_slots):
    assert schema.n_slots(k) == n_slots


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda plain: plain.pop("threshold"), "keys"),
        (lambda plain: plain.update(extra=1), "keys"),
        (lambda plain: plain.update(threshold=-1), "threshold is -1.0"),
        (lambda plain: plain.update(threshold="much"), "threshold must be a number"),
        (lambda plain: plain["tessellation"].update(kind="Hexagons"), "'Hexagons'"),
        (lambda plain: plain["tessellation"].update(colour=1), "does not describe a Ternary, which has max_nonzeros"),
        (lambda plain: plain["tessellation"].update(kind=[]), "is of kind"),
        (lambda plain: plain.update(threshold=10**400), "threshold is inf"),
        (lambda plain: plain.update(tessellation=None), "must have `tiles`"),
        (lambda plain: plain.update(rotation=[[1, 2], [3, 4]]), "not orthogonal"),
        (lambda plain: plain.update(rotation=[[1, 2], [3]]), "different lengths or depths"),
    ],
)
def test_damaged_json_is_refused(change, sentence):
    plain = json.loads(ts.Schema().to_json())
    change(plain)
    with pytest.raises((ValueError, TypeError), match=sentence):
        ts.Schema.from_json(json.dumps(plain))


def test_text_that_is_not_json_is_refused():
    for text in ("", "{", "[]", "3", "nonsense", "[" * 100_000, '{"threshold": 1, "threshold": 2}'):
        with pytest.raises(ValueError, match="the schema is not"):
            ts.Schema.from_json(text)
    for other in (None, {}, b"{}"):
        with pytest.raises(TypeError, match="must be a JSON string"):
            ts.Schema.from_json(other)


def test_what_is_equal_has_equal_hashes():
    pairs = [
        (ts.Schema(threshold=0.0), ts.Schema(threshold=-0.0)),
        (ts.Schema(rotation=[[1, 0], [0, 1]]), ts.Schema(rotation=[[1, -0.0], [0, 1]])),
        (ts.ExplicitTessellation([[1, 0.0]]), ts.ExplicitTessellation([[1, -0.0]])),
    ]
    for one, two in pairs:
        assert one == two
        assert hash(one) == hash(two)


def test_parts_of_ones_own_cannot_be_written():
    class Mine:
        def n_slots(self, n_factors, levels=1):  # noqa: ARG002
            return n_factors

        def slots(self, tiles, levels=1):  # noqa: ARG002
            return np.tile(np.arange(np.shape(tiles)[1]), (len(tiles), 1))

    with pytest.raises(TypeError, match="slot_map is a Mine, which cannot be written as JSON"):
        ts.Schema(slot_map=Mine()).to_json()
