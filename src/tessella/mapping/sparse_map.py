"""SparseMap: from factors to a CSR matrix, as a schema defines (P11, P13)."""

import functools
from dataclasses import fields, replace
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from tessella import _checks, _reference
from tessella._kernels import core
from tessella._threads import run_blocks, thread_count
from tessella.mapping.axes import principal_axes, second_moments
from tessella.mapping.schema import Schema
from tessella.mapping.slots import CounterTree, OneHot, ParseTree, SlotMap
from tessella.mapping.tessellation import CoordinateTessellation, DAry, RandomTessellation, Ternary


class SparseMap:
    """Map factors to sparse vectors. A scikit-learn transformer that works without scikit-learn.

    Each coordinate that passes the threshold is stored unchanged, in the slot that the factor's tile assigns to it
    (P11). So the product of two rows is the inner product over their shared slots, and a row has the same norm as the
    thresholded factor. A factor of zeros maps to an empty row.

    Parameters
    ----------
    schema : Schema, default Schema(Ternary(), CounterTree())
        Tessellation, slot map, threshold and rotation.

    Attributes
    ----------
    schema_ : Schema
        The schema that was fitted.
    n_features_in_ : int
        The number of coordinates of a factor.
    scale_ : float
        Root-mean-square coordinate of the fitted factors, the unit of an absolute threshold.
    rotation_ : ndarray of shape (n_factors, n_factors) or None
        The matrix by which factors are multiplied first.

    Examples
    --------
    >>> import numpy as np
    >>> import tessella as ts
    >>> item_factors = np.random.default_rng(0).standard_normal((1000, 32), dtype=np.float32)
    >>> phi = ts.SparseMap(ts.Schema(ts.Ternary(), ts.CounterTree(), threshold=1.3)).fit_transform(item_factors)
    >>> phi.shape, phi.dtype
    ((1000, 2048), dtype('float32'))
    >>> (phi @ phi.T).shape  # partial inner products over shared slots
    (1000, 1000)
    """

    schema_: Schema
    n_features_in_: int
    scale_: float
    rotation_: NDArray[np.float64] | None

    def __init__(self, schema: Schema | None = None) -> None:
        self.schema = schema

    def __repr__(self) -> str:
        return f"SparseMap({self.schema!r})"

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return parameters by name, as scikit-learn expects; `deep` adds the schema's, like ``schema__threshold``."""
        params: dict[str, Any] = {"schema": self.schema}
        if deep and isinstance(self.schema, Schema):
            params |= {f"schema__{part.name}": getattr(self.schema, part.name) for part in fields(self.schema)}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set `schema`, or parts of it such as ``schema__threshold``."""
        valid = {"schema", *(f"schema__{part.name}" for part in fields(Schema))}
        unknown = set(params) - valid
        if unknown:
            raise ValueError(
                f"{min(unknown)!r} is not a parameter of SparseMap, but must be one of {', '.join(sorted(valid))}."
            )
        schema = params.pop("schema", self.schema)
        if params:
            changes = {name.removeprefix("schema__"): value for name, value in params.items()}
            schema = replace(_checked_schema(schema), **changes)
        self.schema = schema
        return self

    def fit(self, item_factors: ArrayLike, y: object = None) -> Self:  # noqa: ARG002
        """Learn the scale of coordinates and the rotation from item factors.

        Parameters
        ----------
        item_factors : array_like of shape (n_items, n_factors)
            At least one row.
        y : ignored
            Present for scikit-learn.
        """
        self._fit(item_factors)
        return self

    def _fit(self, item_factors: ArrayLike, *, moments_wanted: bool = False) -> NDArray[np.float64]:
        """Fit, and return the items' second moments if they were requested or needed."""
        schema = _checked_schema(self.schema)
        matrix = _checks.factors(item_factors, "item_factors")
        if not len(matrix):
            raise ValueError("item_factors has 0 rows, but at least 1 is needed to fit.")
        n_factors = matrix.shape[1]
        moments = np.zeros((n_factors, n_factors))
        squares = 0.0
        for rows in _checks.row_blocks(matrix):
            wide = _checks.block(matrix, rows, "item_factors").astype(np.float64)
            if schema.learns_axes or moments_wanted:
                moments += second_moments(wide)
            squares += float(np.sum(np.multiply(wide, wide, out=wide)))
        rotation = principal_axes(moments) if schema.learns_axes else _given_rotation(schema, n_factors)
        self._restore(n_factors, float(np.sqrt(squares / (len(matrix) * n_factors))), rotation)
        return moments

    def _restore(self, n_factors: int, scale: float, rotation: NDArray[np.float64] | None) -> None:
        """Restore what an earlier `fit` learned."""
        self.schema_ = _checked_schema(self.schema)
        self.n_features_in_ = n_factors
        self.scale_ = scale
        self.rotation_ = rotation

    def fit_transform(self, item_factors: ArrayLike, y: object = None) -> csr_array:
        """Fit to item factors and map them."""
        return self.fit(item_factors, y).transform(item_factors)

    def transform(self, factors: ArrayLike, *, threads: int | None = None) -> csr_array:
        """Map factors.

        Parameters
        ----------
        factors : array_like of shape (n, n_factors)
            Finite numbers; computed in float32. `fit` is not needed if the schema learns nothing, that is, with a
            threshold of 0 or a relative one, and without principal rotation.
        threads : int, default None
            How many threads to use; None uses every CPU. Does not affect results.

        Returns
        -------
        phi : scipy.sparse.csr_array of float32, shape (n, n_slots)
            Slots ascend in every row, and zeros are not stored.
        """
        count = thread_count(threads)
        schema = _checked_schema(self.schema)
        matrix = _checks.factors(factors, "factors", getattr(self, "n_features_in_", None))
        mapper = self._mapper(schema, matrix.shape[1])

        blocks = _checks.row_blocks(matrix)
        starts = np.zeros(len(matrix) + 1, np.int64)

        def count_entries(rows: slice) -> None:
            good = mapper.count(
                mapper.prepare(_checks.unchecked_block(matrix, rows)), starts[rows.start + 1 : rows.stop + 1]
            )
            if rows.start + good < rows.stop:
                _checks.refuse_row(matrix, "factors", rows.start + good)

        run_blocks(count_entries, blocks, count)
        np.cumsum(starts, out=starts)
        index = np.int32 if max(starts[-1], mapper.n_slots) <= np.iinfo(np.int32).max else np.int64
        starts = starts.astype(index, copy=False)
        slots = np.empty(starts[-1], index)
        values = np.empty(starts[-1], np.float32)

        def fill_entries(rows: slice) -> None:
            prepared = mapper.prepare(_checks.unchecked_block(matrix, rows))
            mapper.fill(prepared, starts[rows.start : rows.stop + 1], slots, values)

        run_blocks(fill_entries, blocks, count)

        phi = csr_array((values, slots, starts), shape=(len(matrix), mapper.n_slots))
        phi.has_canonical_format = True
        return phi

    def _mapper(self, schema: Schema, n_factors: int, *, thresholded: bool = True) -> "BlockMapper":
        scale, rotation = self._fitted_state(schema, n_factors)
        return BlockMapper(schema, schema.threshold * scale if thresholded else 0.0, rotation, n_factors)

    def _fitted_state(self, schema: Schema, n_factors: int) -> tuple[float, NDArray[np.float64] | None]:
        if hasattr(self, "n_features_in_"):
            if schema != self.schema_:
                raise ValueError("the schema has changed since fit; call fit(item_factors) again.")
            return self.scale_ if schema.threshold_kind == "absolute" else 1.0, self.rotation_
        if schema.learns_axes or schema.learns_scale:
            learned = "principal axes" if schema.learns_axes else "the scale of an absolute threshold"
            raise ValueError(f"this SparseMap is not fitted, but its schema learns {learned}; call fit(item_factors).")
        return 1.0, _given_rotation(schema, n_factors)

    def __sklearn_tags__(self) -> Any:
        """Describe this transformer to scikit-learn, which alone calls this."""
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags  # type: ignore[import-untyped]  # noqa: PLC0415

        schema = Schema() if self.schema is None else self.schema
        learns = not isinstance(schema, Schema) or schema.learns_axes or schema.learns_scale
        return Tags(
            estimator_type="transformer",
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(preserves_dtype=["float32"]),
            input_tags=InputTags(),
            requires_fit=learns,
        )

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether `fit` has been called."""
        return hasattr(self, "n_features_in_")


def _checked_schema(schema: Schema | None) -> Schema:
    """Return `schema`, or the default schema for None."""
    if schema is None:
        return Schema()
    if not isinstance(schema, Schema):
        raise TypeError(f"schema is a {type(schema).__name__}, but must be a tessella.Schema.")
    return schema


def _given_rotation(schema: Schema, n_factors: int) -> NDArray[np.float64] | None:
    """Return the rotation of a schema that does not learn it."""
    if isinstance(schema.rotation, np.ndarray):
        if len(schema.rotation) != n_factors:
            raise ValueError(f"factors have {n_factors} columns, but the schema's rotation has {len(schema.rotation)}.")
        return schema.rotation
    return None if schema.rotation is None else _random_rotation(n_factors, schema.rotation_seed)


@functools.lru_cache(maxsize=4)
def _random_rotation(n_factors: int, seed: int) -> NDArray[np.float64]:
    drawn = np.random.default_rng(seed).standard_normal((n_factors, n_factors))
    orthogonal, triangle = np.linalg.qr(drawn)
    rotation = np.ascontiguousarray(orthogonal * np.sign(np.diag(triangle)))
    rotation.flags.writeable = False
    return rotation


class BlockMapper:
    """Map blocks of checked factors, on any number of threads: first count all entries, then fill them in."""

    def __init__(self, schema: Schema, threshold: float, rotation: NDArray[np.float64] | None, n_factors: int) -> None:
        self.slot_map = schema.slot_map
        self.tessellation = schema.tessellation
        if isinstance(self.tessellation, RandomTessellation):
            self.tessellation = self.tessellation.explicit(n_factors)
        self.threshold = threshold
        self.relative = schema.threshold_kind == "relative"
        self.rotation = rotation
        self.n_slots = schema.n_slots(n_factors)

    def prepare(self, block: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return rows rotated and thresholded."""
        return self._prepare(block, self.rotation)

    def thresholded(self, rotated: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return rows thresholded, given that they are already rotated."""
        return self._prepare(rotated, None)

    def _prepare(self, block: NDArray[np.float32], rotation: NDArray[np.float64] | None) -> NDArray[np.float32]:
        if rotation is None and self.threshold == 0:
            return block
        prepared = np.empty_like(block)
        running = core()
        running.kernels.prepare(block, rotation, self.threshold, self.relative, prepared, running.level)
        return prepared

    def count(self, prepared: NDArray[np.float32], counts: NDArray[np.int64]) -> int:
        """Fill in the number of entries of each row; return the first bad row, or the number of rows."""
        running = core()
        return running.kernels.count_entries(prepared, counts, running.level)

    def fill(
        self,
        prepared: NDArray[np.float32],
        starts: NDArray[np.int32] | NDArray[np.int64],
        slots: NDArray[np.int32] | NDArray[np.int64],
        values: NDArray[np.float32],
    ) -> None:
        """Write each row's entries, beginning at its start."""
        window = _window(self.slot_map)
        tessellation = self.tessellation
        if type(tessellation) in (Ternary, DAry) and window is not None:  # a subclass may override the tiles
            own = cast(Ternary | DAry, tessellation)
            tiles = np.empty(prepared.shape, np.int8)
            own._fill_tiles(prepared, tiles)
            levels = own.levels
            running = core()
            misfit = running.kernels.fill_entries(prepared, tiles, levels, window, starts, slots, values, running.level)
        else:
            misfit = _reference.place_entries(prepared, self._any_slots(prepared), starts, slots, values)
        if misfit < len(prepared):
            raise RuntimeError("factors were modified while they were being mapped; pass a copy.")

    def entries(self, block: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
        """Return the entries of rows whose values were checked: starts, slots and values."""
        return self.entries_of(self.prepare(block))

    def entries_of(
        self, prepared: NDArray[np.float32]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
        """Return the entries of factors that are already rotated and thresholded."""
        starts = np.zeros(len(prepared) + 1, np.int64)
        if self.count(prepared, starts[1:]) < len(prepared):
            raise ValueError("a factor is too large for float32 once rotated; scale the factors down.")
        np.cumsum(starts, out=starts)
        slots, values = np.empty(starts[-1], np.int64), np.empty(starts[-1], np.float32)
        self.fill(prepared, starts, slots, values)
        return starts, slots, values

    def _any_slots(self, prepared: NDArray[np.float32]) -> NDArray[np.int64]:
        """Return the slots of any tessellation and slot map, checked."""
        tessellation = self.tessellation
        n, k = prepared.shape
        if isinstance(tessellation, CoordinateTessellation):
            tiles = tessellation.tiles(prepared, threads=1)
            slots = np.asarray(self.slot_map.slots(tiles, tessellation.levels))
        else:
            numbers = np.asarray(tessellation.tiles(prepared))
            if numbers.shape != (n, 1) or numbers.dtype.kind not in "iu":
                raise ValueError(
                    f"{type(tessellation).__name__}.tiles returned {numbers.dtype} of shape {numbers.shape}, but must "
                    f"return integers of shape {(n, 1)}."
                )
            slots = np.arange(k) * tessellation.n_tiles + numbers
        name = type(self.slot_map).__name__
        if slots.shape != (n, k) or slots.dtype.kind not in "iu":
            raise ValueError(
                f"{name}.slots returned {slots.dtype} of shape {slots.shape}, but must return integers of shape "
                f"{(n, k)}."
            )
        kept = prepared != 0
        if ((slots < 0) | (slots >= self.n_slots))[kept].any():
            raise ValueError(f"{name}.slots returned a slot outside [0, {self.n_slots}).")
        ordered = np.sort(np.where(kept, slots, -1 - np.arange(k)), axis=1)
        if (ordered[:, 1:] == ordered[:, :-1]).any():
            raise ValueError(f"{name}.slots returned the same slot for two coordinates of a row.")
        return slots.astype(np.int64, copy=False)


def _window(slot_map: SlotMap) -> int | None:
    """Return the window of one of tessella's own slot maps, as kernels expect it; None for other slot maps."""
    if type(slot_map) is ParseTree:
        return slot_map.depth
    return {OneHot: 1, CounterTree: 0}.get(type(slot_map))  # not isinstance: a subclass may override the slots
