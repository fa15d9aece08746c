"""Fitted: what was learned from the items at build time; it stays fixed as items are added and removed."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tessella._cached import cached
from tessella._kernels import core
from tessella.mapping.axes import principal_axes
from tessella.mapping.schema import Schema
from tessella.mapping.sparse_map import BlockMapper, SparseMap
from tessella.retrieval.codes import Axes
from tessella.retrieval.postings import Entries
from tessella.retrieval.tiles import LearnedTiles, Tiling


@dataclass(frozen=True)
class Fitted:
    """What was learned from the items at build time; it stays fixed as items are added and removed."""

    sparse_map: SparseMap
    basis: NDArray[np.float64]  # (n_factors, n_factors) principal axes as columns
    spectrum: NDArray[np.float64]  # (n_factors) mean square of items along them
    tiling: Tiling | None = None

    @classmethod
    def to(
        cls, factors: NDArray[np.float32], schema: Schema, tiles: LearnedTiles | None = None, threads: int = 1
    ) -> Self:
        """Fit to checked factors."""
        sparse_map = SparseMap(schema)
        moments = sparse_map._fit(factors, moments_wanted=True)
        rotated = sparse_map.rotation_
        basis = rotated if schema.learns_axes and rotated is not None else principal_axes(moments)
        spectrum = np.einsum("ij,ij->j", basis, moments @ basis) / len(factors)
        fitted = cls(sparse_map, basis, spectrum)
        if tiles is None:
            return fitted
        return replace(fitted, tiling=Tiling.learn(factors, fitted.axes, tiles, threads))

    @cached
    def axes(self) -> Axes:
        """The axes that codes are made along."""
        return Axes.of(self.basis, self.spectrum)

    @property
    def n_factors(self) -> int:
        """The number of coordinates of a factor."""
        return len(self.basis)

    @property
    def nbytes(self) -> int:
        """The memory of the arrays in bytes."""
        arrays = [self.basis, self.axes.head, self.spectrum]
        rotation = self.sparse_map.rotation_
        if rotation is not None and rotation is not self.basis:
            arrays.append(rotation)
        return sum(array.nbytes for array in arrays) + (0 if self.tiling is None else self.tiling.nbytes)

    @cached
    def item_mapper(self) -> BlockMapper:
        """The mapper of items, as the schema defines it."""
        return self.sparse_map._mapper(self.sparse_map.schema_, self.n_factors)

    def rotate(self, factors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Rotate factors to the principal axes."""
        rotated = np.empty_like(factors)
        running = core()
        running.kernels.prepare(factors, self.basis, 0.0, False, rotated, running.level)
        return rotated

    def item_entries(self, factors: NDArray[np.float32], rotated: NDArray[np.float32]) -> Entries:
        """Return the sparse map of items, given their factors and the same along the principal axes."""
        if self.item_mapper.rotation is self.basis:
            return self.item_mapper.entries_of(self.item_mapper.thresholded(rotated))
        return self.item_mapper.entries(factors)

    @cached
    def query_mapper(self) -> BlockMapper:
        """The mapper of queries: it applies no threshold, so that answers do not depend on a query's length."""
        return self.sparse_map._mapper(self.sparse_map.schema_, self.n_factors, thresholded=False)
