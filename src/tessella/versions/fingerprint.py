"""Fingerprints: short strings that differ if their inputs differ."""

import hashlib
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from tessella.mapping.schema import Schema
from tessella.mapping.sparse_map import SparseMap
from tessella.retrieval.plan import Plan
from tessella.versions.version import Version

_HISTORY = ("number", "next_row", "moved", "lineage", "n_changed")


def fingerprint(*values: Any) -> str:
    """Return the digest of arrays, plain values, and tuples and dataclasses of them."""
    digest = hashlib.blake2b(digest_size=16)
    _feed(digest, values)
    return digest.hexdigest()


def index_fingerprint(version: Version) -> str:
    """Return the digest of everything that answers depend on, but not of the history of changes."""
    parts = {part.name: getattr(version, part.name) for part in fields(version) if part.name not in _HISTORY}
    return fingerprint(*parts.items())


def _feed(digest: Any, value: Any) -> None:
    """Add a value to a digest, preceded by its type and size, so that different sequences of values never coincide."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufU":
        digest.update(f"array {value.dtype.str} {value.shape};".encode())
        digest.update(np.ascontiguousarray(value).reshape(-1).view(np.uint8))
    elif isinstance(value, Schema):
        _feed(digest, value.to_json())
    elif isinstance(value, SparseMap):
        _feed(digest, (value.schema_, value.scale_, value.rotation_))
    elif isinstance(value, Plan):  # without its measurements
        _feed(digest, (value.method.name, value.method, value.k, value.deepest))
        _feed(digest, [(step.k, *((method.name, method) for method in step[1:])) for step in value.steps])
    elif is_dataclass(value):
        _feed(digest, tuple((part.name, getattr(value, part.name)) for part in fields(value)))
    elif isinstance(value, tuple | list):
        digest.update(f"{len(value)} values;".encode())
        for part in value:
            _feed(digest, part)
    elif value is None or isinstance(value, bool | int | float | str):
        text = f"{type(value).__name__} {value!r}".encode("utf-8", "surrogatepass")
        digest.update(f"text {len(text)};".encode() + text)
    else:
        raise TypeError(f"a {type(value).__name__} has no fingerprint.")
