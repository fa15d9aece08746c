"""Fingerprints: equal for what is equal, different for what is not."""

from dataclasses import fields, replace

import numpy as np
import pytest

import tessella as ts
from tessella.versions.fingerprint import fingerprint, index_fingerprint
from tessella.versions.version import Version

ITEMS = np.random.default_rng(0).standard_normal((60, 5)).astype(np.float32)

DIFFERENT = [
    (), (None,), (0,), (False,), (0.0,), ("",), ("0",), ("a", "b"), ("ab",), ("a",), (("a", "b"),), ((), ()), ((),),
    (np.zeros(2),), (np.zeros(2, np.float32),), (np.zeros((2, 1)),), (np.zeros(4, np.float32),), (np.zeros(0),),
    (np.array(["a", "b"]),), (np.array(["ab"]),), (np.array([True, False]),), (np.array([1, 0]),),
]  # fmt: skip


def test_what_differs_has_another_fingerprint():
    assert len({fingerprint(*values) for values in DIFFERENT}) == len(DIFFERENT)


def test_what_is_equal_has_the_same():
    strided = np.arange(20)[::2]
    assert fingerprint(strided, "x") == fingerprint(strided.copy(), "x")
    with pytest.raises(TypeError, match=r"^a object has no fingerprint\.$"):
        fingerprint(object())


def of(index):
    return index_fingerprint(index._version)


def test_an_index_has_the_fingerprint_of_its_contents(tmp_path):
    index = ts.Index.build(ITEMS)
    mine = of(index)
    assert of(ts.Index.build(ITEMS.astype(np.float64), threads=1)) == mine
    index.save(tmp_path / "items")
    assert of(ts.Index.load(tmp_path / "items")) == of(ts.Index.load(tmp_path / "items", mmap=True)) == mine
    index.remove([])
    assert index.version == 1
    assert of(index) == mine
    others = [
        ts.Index.build(ITEMS[:59]),
        ts.Index.build(ITEMS, np.arange(60) + 1),
        ts.Index.build(ITEMS, [str(row) for row in range(60)]),
        ts.Index.build(ITEMS[::-1]),
        ts.Index.build(ITEMS, schema=ts.Schema(ts.Ternary(), ts.OneHot(), threshold=2.4, rotation="principal")),
    ]
    for change in (
        lambda: index.remove([3]),
        lambda: index.update([ITEMS[5]], [5]),
        lambda: index.add([ITEMS[0]], [90]),
    ):
        change()
        others.append(ts.Index(index._version))
    assert len({mine, *map(of, others)}) == 1 + len(others)


def test_every_part_of_a_version_counts():
    """Answers may depend on parts that are yet to be added: only those that tell its history are left out."""
    version = ts.Index.build(ITEMS)._version
    for part in fields(Version):
        changed = index_fingerprint(replace(version, **{part.name: "other"}))
        history = ("number", "next_row", "moved", "lineage", "n_changed")
        assert (changed == index_fingerprint(version)) == (part.name in history)
