"""Sign random projections."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tessella import _checks
from tessella.paper.baselines.hashing import MAX_BITS, MAX_TABLES, Hashes, random_directions, sign_codes


@dataclass(frozen=True)
class SignRandomProjection(Hashes):
    """Hash a factor by the sides of random hyperplanes on which it lies (P16; Charikar, STOC 2002).

    Two factors at an angle a agree in one bit with probability 1 - a / pi, and in a table with the `bits`-th power of
    that.

    Parameters
    ----------
    bits : int
        The number of hyperplanes per table, 1 to 62. More leave fewer candidates and lose more of the true ones. Cannot
        change later.
    tables : int
        How many tables to combine, 1 to 1,024. More tables find more, and cost time and memory in proportion. Cannot
        change later.
    seed : int, default 0
        At least 0. Equal seeds draw equal hyperplanes; with more tables, the first ones stay the same.

    Examples
    --------
    >>> from tessella.paper.baselines import SignRandomProjection
    >>> hashes = SignRandomProjection(bits=2, tables=3).fit([[1.0, 0.0], [1.0, 0.1], [-1.0, 0.0]])
    >>> hashes.candidates([[2.0, 0.0]]).toarray()
    array([[3, 3, 0]], dtype=int32)
    """

    bits: int
    tables: int
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the parameters."""
        object.__setattr__(self, "bits", _checks.whole_number(self.bits, "bits", 1, MAX_BITS))
        object.__setattr__(self, "tables", _checks.whole_number(self.tables, "tables", 1, MAX_TABLES))
        object.__setattr__(self, "seed", _checks.whole_number(self.seed, "seed", 0))

    def directions(self, n_factors: int) -> NDArray[np.float64]:
        """Return the normals of the hyperplanes, of shape (tables, bits, n_factors).

        Parameters
        ----------
        n_factors : int
            The number of coordinates of a factor.
        """
        return random_directions(self.tables, self.bits, n_factors, self.seed)

    def _code(self, projections: NDArray[np.float64]) -> NDArray[np.int64]:
        return sign_codes(projections)
