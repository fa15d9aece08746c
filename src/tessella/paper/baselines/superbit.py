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
    """Hash a factor by signs of projections on vectors made orthogonal in batches (P16; Ji and others, NIPS 2012).

    A single bit agrees as often as with `SignRandomProjection`, but the bits of a batch are less redundant: for factors
    up to a right angle apart, the share of equal bits has a smaller variance. Tables are independent of each other.

    Parameters
    ----------
    bits : int
        The number of projections per table, 1 to 62. More leave fewer candidates and lose more of the true ones. Cannot
        change later.
    tables : int
        How many tables to combine, 1 to 1,024. More tables find more, and cost time and memory in proportion. Cannot
        change later.
    depth : int
        The number of vectors per batch, at least 1, and at most `bits` and the number of factors. The last batch of a
        table may be smaller. Larger batches reduce the variance; 1 gives exactly the codes of `SignRandomProjection`.
        Cannot change later.
    seed : int, default 0
        At least 0. Equal seeds draw equal vectors; with more tables, the first ones stay the same.

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
        """Return unit vectors, orthogonal within each batch, of shape (tables, bits, n_factors).

        Parameters
        ----------
        n_factors : int
            The number of coordinates of a factor, at least `depth`.
        """
        drawn = random_directions(self.tables, self.bits, n_factors, self.seed)
        _paper_checks.depth_fits(self.depth, drawn.shape[2])
        for batch in cut(self.bits, self.depth):
            axes, triangle = np.linalg.qr(drawn[:, batch].transpose(0, 2, 1))
            # The Gram-Schmidt process keeps the side of each vector; LAPACK may flip its sign.
            sides = np.where(np.diagonal(triangle, axis1=1, axis2=2) < 0, -1.0, 1.0)
            drawn[:, batch] = (axes * sides[:, None]).transpose(0, 2, 1)
        return drawn

    def _code(self, projections: NDArray[np.float64]) -> NDArray[np.int64]:
        return sign_codes(projections)
