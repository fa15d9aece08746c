"""Schema: the tessellation, slot map, threshold and rotation that define a sparse map."""

import json
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tessella import _checks
from tessella.mapping.slots import CounterTree, OneHot, ParseTree, SlotMap
from tessella.mapping.tessellation import (
    CoordinateTessellation,
    DAry,
    ExplicitTessellation,
    NumberedTessellation,
    RandomTessellation,
    Ternary,
)

_PARTS = (Ternary, DAry, RandomTessellation, ExplicitTessellation, OneHot, ParseTree, CounterTree)


@dataclass(frozen=True, eq=False)
class Schema:
    """How factors become sparse vectors. Immutable, and compared by value.

    Parameters
    ----------
    tessellation : Ternary, DAry, RandomTessellation or ExplicitTessellation
        Assigns a factor to a tile. Any object with `levels` and `tiles` works (`CoordinateTessellation`), and so does
        one with `n_tiles` and `tiles` (`NumberedTessellation`).
    slot_map : OneHot, ParseTree or CounterTree
        Maps coordinates to slots, depending on the tile. Any object with `n_slots` and `slots` works (`SlotMap`).
        Numbered tessellations need `OneHot`.
    threshold : float, default 0.0
        At least 0. Coordinates smaller than this are set to zero before mapping (P13) and take no slot. A larger
        threshold means fewer entries and fewer candidates; if it is too large, good candidates are lost. Cannot change
        once items are mapped.
    threshold_kind : {"absolute", "relative"}, default "absolute"
        The unit of the threshold. "absolute" is the root-mean-square coordinate of all fitted factors, so long factors
        keep more slots. "relative" is that of the factor itself, so length does not matter.
    rotation : None, "principal", "random" or array_like of shape (n_factors, n_factors), default None
        Orthogonal matrix by which factors are multiplied first. Inner products do not change. "principal" rotates to
        the principal axes of the fitted factors, so that fewer coordinates pass the threshold; "random" spreads values
        over all coordinates. Costs n_factors^2 multiplications per factor. Cannot change once items are mapped.
    rotation_seed : int, default 0
        Seed of the "random" rotation.

    Examples
    --------
    >>> import tessella as ts
    >>> schema = ts.Schema(ts.Ternary(), ts.CounterTree(), threshold=1.3)
    >>> schema.n_slots(64)
    8192
    >>> ts.Schema.from_json(schema.to_json()) == schema
    True
    """

    tessellation: CoordinateTessellation | NumberedTessellation = field(default_factory=Ternary)
    slot_map: SlotMap = field(default_factory=CounterTree)
    threshold: float = 0.0
    threshold_kind: Literal["absolute", "relative"] = "absolute"
    rotation: Literal["principal", "random"] | NDArray[np.float64] | None = None
    rotation_seed: int = 0

    def __post_init__(self) -> None:
        """Check the parts, and that they fit together."""
        for name, part in (("tessellation", self.tessellation), ("slot_map", self.slot_map)):
            if isinstance(part, type):
                raise TypeError(f"{name} is the class {part.__name__}, but must be an instance of it.")
        if not isinstance(self.tessellation, CoordinateTessellation | NumberedTessellation):
            raise TypeError(
                f"tessellation is a {type(self.tessellation).__name__}, but must have `tiles` and `levels` or "
                "`n_tiles`."
            )
        if not isinstance(self.slot_map, SlotMap):
            raise TypeError(
                f"slot_map is a {type(self.slot_map).__name__}, but must have the methods `n_slots` and `slots`."
            )
        if not isinstance(self.tessellation, CoordinateTessellation) and not isinstance(self.slot_map, OneHot):
            raise ValueError(
                f"{type(self.slot_map).__name__} needs tiles that are vectors, but the tiles of "
                f"{type(self.tessellation).__name__} are numbers; use OneHot()."
            )
        object.__setattr__(self, "threshold", _checks.number_at_least(self.threshold, "threshold", 0.0) + 0.0)
        _checks.one_of(self.threshold_kind, "threshold_kind", ("absolute", "relative"))
        if isinstance(self.rotation, str):
            _checks.one_of(self.rotation, "rotation", ("principal", "random"))
        elif self.rotation is not None:
            object.__setattr__(self, "rotation", _checks.rotation(self.rotation))
        object.__setattr__(self, "rotation_seed", _checks.whole_number(self.rotation_seed, "rotation_seed", 0))

    @property
    def learns_axes(self) -> bool:
        """Whether the rotation is learned from the items."""
        return isinstance(self.rotation, str) and self.rotation == "principal"

    @property
    def learns_scale(self) -> bool:
        """Whether the threshold is a multiple of a scale learned from the items."""
        return self.threshold > 0 and self.threshold_kind == "absolute"

    def _key(self) -> tuple[object, ...]:
        rotation = self.rotation
        matrix = (rotation.shape, rotation.tobytes()) if isinstance(rotation, np.ndarray) else rotation
        return (self.tessellation, self.slot_map, self.threshold, self.threshold_kind, matrix, self.rotation_seed)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def n_slots(self, n_factors: int) -> int:
        """Return the dimension p of the sparse map for factors of `n_factors` coordinates."""
        width = _checks.n_factors(n_factors)
        if isinstance(self.tessellation, CoordinateTessellation):
            return _checks.slot_count(self.slot_map.n_slots(width, self.tessellation.levels))
        return width * self.tessellation.n_tiles

    def to_json(self) -> str:
        """Return the schema as JSON. Only tessella's own tessellations and slot maps can be written."""
        values = {part.name: getattr(self, part.name) for part in fields(self)}
        return json.dumps({name: _to_plain(value, name) for name, value in values.items()})

    @classmethod
    def from_json(cls, text: str) -> "Schema":
        """Read a schema that `to_json` wrote."""
        if not isinstance(text, str):
            raise TypeError(f"the schema is a {type(text).__name__}, but must be a JSON string.")
        try:
            plain = json.loads(text, object_pairs_hook=_without_repeats)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"the schema is not valid JSON: {error}.") from None
        known = {part.name for part in fields(cls)}
        if not isinstance(plain, dict) or set(plain) != known:
            raise ValueError(f"the schema is not a JSON object with the keys {', '.join(sorted(known))}.")
        return cls(**{name: _from_plain(value, name) for name, value in plain.items()})


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key appears twice")
    return dict(pairs)


def _to_plain(value: object, name: str) -> object:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if type(value) in _PARTS:
        parts = {part.name: _to_plain(getattr(value, part.name), part.name) for part in fields(value)}  # type: ignore[arg-type]
        return {"kind": type(value).__name__, **parts}
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(
        f"{name} is a {type(value).__name__}, which cannot be written as JSON; only tessella's own classes can."
    )


def _from_plain(value: object, name: str) -> Any:
    if not isinstance(value, dict):
        return value
    kinds = {part.__name__: part for part in _PARTS}
    parts = dict(value)
    kind = parts.pop("kind", None)
    if not isinstance(kind, str) or kind not in kinds:
        raise ValueError(f"{name} is of kind {kind!r}, but must be one of {', '.join(kinds)}.")
    if kind == "DAry" and "method" in parts:
        parts["algorithm"] = parts.pop("method")  # before format 3
    wanted = {part.name for part in fields(kinds[kind])}
    if set(parts) != wanted:
        listed = ", ".join(sorted(wanted)) or "nothing else"
        raise ValueError(f"{name} does not describe a {kind}, which has {listed}.")
    return kinds[kind](**parts)
