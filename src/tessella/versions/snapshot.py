"""Snapshots: convert a version of an index to named arrays and plain metadata, and back."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella import _checks
from tessella._numbers import LARGEST_SKEW
from tessella._threads import thread_count
from tessella.mapping.schema import Schema
from tessella.mapping.sparse_map import SparseMap
from tessella.retrieval.codes import Axes, ExactCodes
from tessella.retrieval.fitted import Fitted
from tessella.retrieval.plan import EXACT_PLAN, plan_from_json, plan_to_json
from tessella.retrieval.postings import Postings
from tessella.retrieval.tiles import LearnedTiles, TileCodes, TiledItems, Tiling
from tessella.versions import storage
from tessella.versions.changes import merged
from tessella.versions.segment import Segment
from tessella.versions.version import Version

_CODES = ("codes", "offsets", "block_terms")
_TILES = ("tile_members", "tile_starts", "tile_radii", "tile_codes", "tile_offsets", "tile_scales")
_GROUPS = ("group_codes", "group_offsets", "group_scales", "group_radii")
_POSTINGS = ("positions", "impacts", "slots", "starts", "scales", "block_lists")
GROUPED_FROM = 4  # the format since which tiles have groups, and codes have tails and variable heads
SKETCHED_FROM = 5  # the format since which tiles may use sketches instead of factors
_BEFORE_FORMAT_3 = {"places": "positions", "tile_places": "tile_members"}


def snapshot(version: Version) -> tuple[dict[str, NDArray[Any]], dict[str, object]]:
    """Return the arrays and metadata of all live items, as one segment with rows from 0."""
    fitted = version.fitted
    arrays: dict[str, NDArray[Any]] = {"basis": fitted.basis, "spectrum": fitted.spectrum}
    facts: dict[str, object] = {
        "n_items": version.n_live,
        "n_factors": fitted.n_factors,
        "text_ids": version.text_ids,
        "version": version.number,
        "schema": fitted.sparse_map.schema_.to_json(),
        "scale": fitted.sparse_map.scale_.hex(),
        "plan": plan_to_json(version.plan),
        "moved": version.moved,
        "n_changed": version.n_changed,
    }
    if fitted.tiling is not None:
        facts |= {"tiles": fitted.tiling.parameters.to_json(), "long_norm": fitted.tiling.long_norm.hex()}
        facts["tiled_items"] = fitted.tiling.n_items
        arrays["centres"] = fitted.tiling.centres
    if fitted.sparse_map.rotation_ is not None and fitted.sparse_map.rotation_ is not fitted.basis:
        arrays["rotation"] = fitted.sparse_map.rotation_
    if version.n_live:
        segment = merged(version.segments, fitted)
        arrays |= {"factors": segment.factors, "is_new": segment.is_new.view(np.uint8)}
        arrays["rows"] = np.searchsorted(version.live_rows, segment.rows).astype(np.int32)
        if version.text_ids:
            arrays["id_bytes"], arrays["id_ends"] = storage.texts_to_arrays(segment.ids)
        else:
            arrays["ids"] = segment.ids
        arrays |= {name: getattr(segment.codes, name) for name in _CODES}
        arrays |= {name: getattr(segment.postings, name) for name in _POSTINGS}
        if segment.tiles is not None:
            tiles, coded, groups = segment.tiles, segment.tiles.coded, segment.tiles.groups
            parts = (tiles.members, tiles.starts, tiles.radii, coded.codes, coded.offsets, coded.scales)
            arrays |= dict(zip(_TILES, parts, strict=True))
            arrays |= dict(zip(_GROUPS, (groups.codes, groups.offsets, groups.scales, tiles.group_radii), strict=True))
    return arrays, facts


def restore(arrays: dict[str, NDArray[Any]], facts: dict[str, Any], name: str) -> Version:
    """Rebuild the version from a snapshot; refuse arrays that are inconsistent."""
    if facts.get("kind", "index") != "index":
        raise ValueError(f"{name} holds a {facts['kind']}, not an index; load it with Recommender.load.")
    arrays = {_BEFORE_FORMAT_3.get(part, part): array for part, array in arrays.items()}
    try:
        n, n_factors = int(facts["n_items"]), _checks.n_factors(facts["n_factors"])
        fitted = _restore_fitted(arrays, facts, n_factors)
        texts, number = facts["text_ids"], _checks.whole_number(facts["version"], "version", 0)
        _checks.true_or_false(texts, "text_ids")
        plan = (
            plan_from_json(facts["plan"], tiled=fitted.tiling is not None) if "plan" in facts else EXACT_PLAN
        )  # files of format 1 have no plan
        grouped = _format(facts) >= GROUPED_FROM
        _check_names(arrays, n, texts, fitted.tiling is not None, grouped)
        moved = facts.get("moved", number > 0)  # older files do not record whether items were removed
        _checks.true_or_false(moved, "moved")
        n_changed = _checks.whole_number(facts.get("n_changed", 0), "n_changed", 0)  # not in files before format 4
        if not n:
            return Version((), fitted, texts, number, 0, plan, n_changed, moved)
        codes = ExactCodes(*(arrays[part] for part in _CODES))
        postings = Postings(*(arrays[part] for part in _POSTINGS))
        _checks.expect(arrays["factors"], "factors", np.float32, (n, n_factors))
        _checks.expect(arrays["rows"], "rows", np.int32, (n,))
        _checks.expect(arrays["is_new"], "is_new", np.uint8, (n,))
        _check_items(arrays["factors"], arrays["rows"])
        if grouped:
            codes.check(arrays["factors"], fitted.rotate, fitted.axes)
        else:
            codes = ExactCodes.of(arrays["factors"], fitted.rotate, fitted.axes)
            codes.check_order()
        postings.check(n, codes.longest)
        ids = storage.texts_from_arrays(arrays["id_bytes"], arrays["id_ends"]) if texts else arrays["ids"]
        is_new = arrays["is_new"].astype(np.bool_)
        tiles = None
        if fitted.tiling is not None:
            tiles = (_restore_tiles if grouped else _regroup_tiles)(arrays, fitted.tiling, _format(facts))
        segment = Segment.from_ordered(
            arrays["factors"], arrays["rows"], _checks.ids(ids, n), is_new, codes, postings, tiles
        )
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(f"{name} cannot be used: its arrays do not belong together ({error}).") from None
    return Version((segment,), fitted, texts, number, n, plan, n_changed, moved)


def _check_names(arrays: dict[str, NDArray[Any]], n: int, texts: bool, tiled: bool, grouped: bool) -> None:
    wanted = {"basis", "spectrum"}
    if tiled:
        wanted |= {"centres", *(_TILES if n else ()), *(_GROUPS if n and grouped else ())}
    if n:
        wanted |= {"factors", "is_new", "rows", *_CODES, *_POSTINGS}
        wanted |= {"id_bytes", "id_ends"} if texts else {"ids"}
    strange = (set(arrays) - {"rotation"}) ^ wanted
    if strange:
        raise ValueError(f"{min(strange)} is missing or unexpected")


def _check_items(factors: NDArray[np.float32], rows: NDArray[np.int32]) -> None:
    if not np.isfinite(factors).all():
        raise ValueError("not all factors are finite")
    if not np.array_equal(np.sort(rows), np.arange(len(rows))):
        raise ValueError("rows are not numbered from 0")


def _restore_fitted(arrays: dict[str, NDArray[Any]], facts: dict[str, Any], n_factors: int) -> Fitted:
    basis = _checks.rotation(arrays["basis"], "basis")
    _checks.expect(basis, "basis", np.float64, (n_factors, n_factors))
    if np.abs(basis.T @ basis - np.eye(n_factors)).max() > LARGEST_SKEW:  # certificates rely on it
        raise ValueError("the basis is not orthonormal")
    _checks.expect(arrays["spectrum"], "spectrum", np.float64, (n_factors,))
    schema = Schema.from_json(facts["schema"])
    rotation = basis if schema.learns_axes else None
    if "rotation" in arrays:
        rotation = _checks.rotation(arrays["rotation"])
        _checks.expect(rotation, "rotation", np.float64, (n_factors, n_factors))
    sparse_map = SparseMap(schema)
    sparse_map._restore(n_factors, _checks.number_at_least(float.fromhex(facts["scale"]), "scale", 0.0), rotation)
    fitted = Fitted(sparse_map, basis, arrays["spectrum"])
    return replace(fitted, tiling=_restore_tiling(arrays, facts, fitted.axes))


def _restore_tiling(arrays: dict[str, NDArray[Any]], facts: dict[str, Any], axes: Axes) -> Tiling | None:
    if "tiles" not in facts:
        return None
    centres, sketched = arrays["centres"], _format(facts) >= SKETCHED_FROM
    _checks.expect(centres, "centres", np.float32, (len(centres), axes.tile_width if sketched else axes.n_factors))
    if not len(centres) or not np.isfinite(centres).all():
        raise ValueError("centres are missing or not finite")
    long_norm = _checks.number_at_least(float.fromhex(facts["long_norm"]), "long_norm", 0.0)
    n_items = _checks.whole_number(facts.get("tiled_items", facts["n_items"]), "tiled_items", 0)
    centres = centres if sketched else axes.sketch(centres)
    return Tiling(LearnedTiles.from_json(facts["tiles"]), axes, centres, long_norm, n_items)


def _format(facts: dict[str, Any]) -> int:
    return int(facts.get("format", storage.FORMAT))


def _restore_tiles(arrays: dict[str, NDArray[Any]], tiling: Tiling, form: int) -> TiledItems:
    members, starts, radii, *coded = (arrays[name] for name in _TILES)
    if form < SKETCHED_FROM and tiling.axes.tile_width < tiling.axes.n_factors:
        TiledItems.check_groups(members, starts, len(arrays["factors"]), len(tiling.centres))
        return TiledItems.in_groups(arrays["factors"], tiling, members, starts, thread_count(None))
    *groups, group_radii = (arrays[name] for name in _GROUPS)
    tiles = TiledItems(members, starts, radii, TileCodes(*coded), TileCodes(*groups), group_radii)
    tiles.check(arrays["factors"], tiling)
    return tiles


def _regroup_tiles(arrays: dict[str, NDArray[Any]], tiling: Tiling, form: int) -> TiledItems:  # noqa: ARG001
    """Group the tiles of a file before format 4, which has each tile's members by falling norm, without groups."""
    members, starts, n = arrays["tile_members"], arrays["tile_starts"], len(arrays["factors"])
    _checks.expect(members, "tile_members", np.int32, (len(members),))
    _checks.expect(starts, "tile_starts", np.int32, (len(tiling.centres) + 2,))
    if starts[0] != 0 or starts[-1] != len(members) or (np.diff(starts) < 0).any():
        raise ValueError("tiles point outside the arrays")
    if not np.array_equal(np.unique(members), np.arange(n)) or len(members) > 2 * n:
        raise ValueError("tiles do not contain every item")
    return TiledItems.of(arrays["factors"], tiling, members, np.diff(starts), thread_count(None))
