"""Super-bits: sign random projections on vectors made orthogonal in batches."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tessella import _checks
from tessella._threads import cut
from tessella.paper import _checks as _paper_checks
from tessella.paper.baselines.hashing import MAX_BITS, MAX_TABLES, Hashes, random_directions, sign_codes


@dataclass(frozen=True)
class Superbit(Hashes):
    """Signs of projections on random vectors made orthogonal in batches (P16; Ji and others, NIPS 2012).

    A bit agrees as often as with `SignRandomProjection`, but the bits of a batch repeat each other less: the share of
    equal bits varies less for factors up to a right angle apart. Tables stay independent of each other.

    Parameters
    ----------
    bits : int
        Projections in a table, from 1 to 62. More leave fewer candidates and lose more of the true ones. Fixed.
    tables : int
        How many tables to unite, from 1 to 1,024. More find more and cost time and memory in proportion. Fixed.
    depth : int
        Vectors in a batch, from 1 to `bits` and to the number of factors; the last batch of a table may be smaller.
        Larger batches vary less; 1 is `SignRandomProjection`, code for code. Fixed.
    seed : int, default 0
        At least 0. The same seed draws the same vectors, and those of fewer tables first.

    Examples
    --------
    >>> import numpy as np
    >>> from tessella.paper.baselines import Superbit
    >>> hashes = Superbit(bits=2, tables=3, depth=2)
    >>> vectors = hashes.directions(5)[0]
    >>> np.allclose(vectors @ vectors.T, np.eye(2))
    True
    >>> hashes.fit([[1.0, 0.0], [1.0, 0.1], [-1.0, 0.0]]).candidates([[2.0, 0.0]]).toarray()
    array([[3, 3, 0]], dtype=int32)
    """

    bits: int
    tables: int
    depth: int
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the parameters."""
        object.__setattr__(self, "bits", _checks.whole_number(self.bits, "bits", 1, MAX_BITS))
        object.__setattr__(self, "tables", _checks.whole_number(self.tables, "tables", 1, MAX_TABLES))
        object.__setattr__(self, "depth", _checks.whole_number(self.depth, "depth", 1, self.bits))
        object.__setattr__(self, "seed", _checks.whole_number(self.seed, "seed", 0))

    def directions(self, n_factors: int) -> NDArray[np.float64]:
        """Vectors of unit length, orthogonal within each batch, of shape (tables, bits, n_factors).

        Parameters
        ----------
        n_factors : int
            How many coordinates factors have, at least `depth`.
        """
        drawn = random_directions(self.tables, self.bits, n_factors, self.seed)
        _paper_checks.depth_fits(self.depth, drawn.shape[2])
        for batch in cut(self.bits, self.depth):
            axes, triangle = np.linalg.qr(drawn[:, batch].transpose(0, 2, 1))
            # The Gram-Schmidt process keeps each vector on its own side; LAPACK may turn it round.
            sides = np.where(np.diagonal(triangle, axis1=1, axis2=2) < 0, -1.0, 1.0)
            drawn[:, batch] = (axes * sides[:, None]).transpose(0, 2, 1)
        return drawn

    def _code(self, projections: NDArray[np.float64]) -> NDArray[np.int64]:
        return sign_codes(projections)
