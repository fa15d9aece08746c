"""Sign random projections."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tessella import _checks
from tessella.paper.baselines.hashing import MAX_BITS, MAX_TABLES, Hashes, random_directions, sign_codes


@dataclass(frozen=True)
class SignRandomProjection(Hashes):
    """On which side of random hyperplanes a factor lies (P16; Charikar, STOC 2002).

    Two factors at an angle a agree in a bit with probability 1 - a / pi, and in a table with that to the power `bits`.

    Parameters
    ----------
    bits : int
        Hyperplanes in a table, from 1 to 62. More leave fewer candidates and lose more of the true ones. Fixed.
    tables : int
        How many tables to unite, from 1 to 1,024. More find more and cost time and memory in proportion. Fixed.
    seed : int, default 0
        At least 0. The same seed draws the same hyperplanes, and those of fewer tables first.

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
        """The hyperplanes' normals, of shape (tables, bits, n_factors).

        Parameters
        ----------
        n_factors : int
            How many coordinates factors have.
        """
        return random_directions(self.tables, self.bits, n_factors, self.seed)

    def _code(self, projections: NDArray[np.float64]) -> NDArray[np.int64]:
        return sign_codes(projections)
