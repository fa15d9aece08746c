"""Storage: one file for a recommender, with the arrays and facts of each part under a prefix of its own."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella import _checks
from tessella.recommend.attributes import Attributes
from tessella.recommend.boosting import Boosting
from tessella.recommend.edition import Edition
from tessella.recommend.seen import Seen
from tessella.recommend.signals import Signals
from tessella.recommend.users import Users
from tessella.versions import storage
from tessella.versions.snapshot import restore, snapshot
from tessella.versions.version import Version

KIND = "recommender"
Arrays = dict[str, NDArray[Any]]


def packed(edition: Edition) -> tuple[Arrays, dict[str, object]]:
    """Convert an edition to named arrays and plain facts."""
    arrays, index_facts = snapshot(edition.version)
    arrays = _under("index", arrays)
    facts: dict[str, object] = {
        "kind": KIND,
        "generation": edition.generation,
        "number": edition.number,
        "index": index_facts,
        "users": None,
        "attributes": None if edition.attributes is None else edition.attributes.facts(),
        "signals": None if edition.signals is None else edition.signals.facts(),
        "boosting": None if edition.boosting is None else edition.boosting.to_json(),
    }
    if edition.users is not None:
        own, facts["users"] = _users_packed(edition.users, edition.version)
        arrays |= _under("users", own)
    if edition.attributes is not None:
        arrays |= _under("attributes", edition.attributes.to_arrays())
    if edition.signals is not None:
        arrays |= _under("signals", edition.signals.to_arrays())
    return arrays, facts


def unpacked(arrays: Arrays, facts: dict[str, Any], name: str) -> Edition:
    """Restore an edition from the result of `packed`; arrays that do not belong together are refused."""
    if facts.get("kind") != KIND:
        raise ValueError(f"{name} holds an index, not a recommender; load it with Index.load.")
    version = restore(_of("index", arrays), facts["index"] | {"format": facts["format"]}, name)
    try:
        users = None if facts["users"] is None else _users_unpacked(_of("users", arrays), facts["users"], version)
        attributes = signals = None
        if facts["attributes"] is not None:
            attributes = Attributes.from_arrays(_of("attributes", arrays), facts["attributes"])
        if facts["signals"] is not None:
            signals = Signals.from_arrays(_of("signals", arrays), facts["signals"])
        number = _checks.whole_number(facts["number"], "number", 0)
        boosting = None
        if facts["boosting"] is not None and signals is not None:
            tiled = version.fitted.tiling is not None
            boosting = Boosting.from_json(facts["boosting"], len(signals.names), tiled=tiled)
        return _checked(Edition(version, users, attributes, signals, str(facts["generation"]), number, boosting))
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(f"{name} cannot be used: its arrays do not belong together ({error}).") from None


def _checked(edition: Edition) -> Edition:
    """Return an edition whose parts agree in their numbers of items and factors; refuse others."""
    n = edition.version.n_live
    for name, part in (("attributes", edition.attributes), ("signals", edition.signals)):
        if part is not None and len(part) != n:
            raise ValueError(f"{name} are for {len(part)} items, but there are {n}")
    factors = None if edition.users is None else edition.users.factors
    if factors is not None and factors.shape[-1] != edition.n_factors:
        raise ValueError(f"users have {factors.shape[-1]} factors, but items have {edition.n_factors}")
    return edition


def _under(name: str, arrays: Arrays) -> Arrays:
    return {f"{name}.{part}": array for part, array in arrays.items()}


def _of(name: str, arrays: Arrays) -> Arrays:
    return {part.removeprefix(f"{name}."): array for part, array in arrays.items() if part.startswith(f"{name}.")}


def _ids_packed(name: str, ids: NDArray[Any]) -> Arrays:
    if ids.dtype.kind != "U":
        return {name: ids}
    data, ends = storage.texts_to_arrays(ids)
    return {f"{name}_bytes": data, f"{name}_ends": ends}


def _ids_unpacked(name: str, arrays: Arrays) -> NDArray[Any]:
    if name in arrays:
        _checks.expect(arrays[name], name, np.int64, (len(arrays[name]),))
        return arrays[name]
    return storage.texts_from_arrays(arrays[f"{name}_bytes"], arrays[f"{name}_ends"])


def _users_packed(users: Users, version: Version) -> tuple[Arrays, dict[str, object]]:
    arrays = _ids_packed("ids", users.ids)
    seen = users.seen
    facts: dict[str, object] = {"n_users": len(users), "factors": users.factors is not None, "seen": seen is not None}
    if users.factors is not None:
        arrays["factors"] = np.asarray(users.factors, np.float32)
    if seen is not None:
        arrays |= {"seen_columns": seen.columns, "seen_starts": seen.starts}
        if seen.weights is not None:
            arrays["seen_weights"] = seen.weights
        facts["seen_of_index"] = bool(np.array_equal(seen.item_ids, version.ids))
        if not facts["seen_of_index"]:
            arrays |= _ids_packed("seen_ids", seen.item_ids)
    return arrays, facts


def _users_unpacked(arrays: Arrays, facts: dict[str, Any], version: Version) -> Users:
    n = _checks.whole_number(facts["n_users"], "n_users", 0)
    ids = _checks.ids(_ids_unpacked("ids", arrays), n)
    factors = arrays["factors"] if facts["factors"] else None
    if factors is not None and (factors.dtype != np.float32 or factors.ndim not in (2, 3) or len(factors) != n):
        raise ValueError(f"user factors are {factors.dtype} of shape {factors.shape}")
    if not facts["seen"]:
        return Users(ids, factors, None)
    columns, starts = arrays["seen_columns"], arrays["seen_starts"]
    item_ids = version.ids if facts["seen_of_index"] else _ids_unpacked("seen_ids", arrays)
    _checks.expect(starts, "seen_starts", np.int64, (n + 1,))
    _checks.starts_of_rows(starts, len(columns), "seen")
    if len(columns) and not 0 <= int(columns.min()) <= int(columns.max()) < len(item_ids):
        raise ValueError("seen holds columns that do not exist")
    weights = arrays.get("seen_weights")
    if weights is not None:
        _checks.expect(weights, "seen_weights", np.float32, (len(columns),))
    return Users(ids, factors, Seen(columns, starts, item_ids, weights))
