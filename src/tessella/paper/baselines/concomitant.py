"""Concomitant rank order statistics: which of some random projections is the largest."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tessella import _checks
from tessella.paper import _checks as _paper_checks
from tessella.paper.baselines.hashing import MAX_TABLES, Hashes, random_directions


@dataclass(frozen=True)
class ConcomitantRank(Hashes):
    """Which of l random projections is the largest (P16; Eshghi and Rajaram, KDD 2008).

    The projections of two factors on the same random vector are a pair of correlated Gaussians. The order statistics
    of one factor's projections have the other's as concomitants, and the rank of a concomitant depends on the angle
    alone: similar factors have their largest projection on the same vector. For l = 2 they collide with probability
    1 - angle / pi, like one bit of `SignRandomProjection`; a larger l separates factors more sharply.

    The rank distribution and the plain Gaussian projections are from the authors' abstract. Their patent US 8,429,216
    says that the hash is the number of an extreme projection, looked up in a reverse index. That l of them make an
    l-ary code is the wording of the paper we follow. The authors' faster discrete transforms, which replace the
    projections, are left out, and so are ranks after the first. Combining several values into one code is common
    practice with hash tables.

    Parameters
    ----------
    l : int
        How many projections to choose the largest from, 2 to 4,096. A larger number leaves fewer candidates, loses more
        of the true ones, and costs time in proportion. Cannot change later.
    tables : int
        How many tables to combine, 1 to 1,024. More tables find more, and cost time and memory in proportion. Cannot
        change later.
    seed : int, default 0
        At least 0. Equal seeds draw equal vectors; with more tables, the first ones stay the same.
    length : int, default 1
        Values in a table's code, each from l projections of its own; factors collide if all values agree. At least 1,
        and l^length at most 2^62. A larger length leaves fewer candidates. Cannot change later.

    Examples
    --------
    >>> from tessella.paper.baselines import ConcomitantRank
    >>> hashes = ConcomitantRank(l=4, tables=3).fit([[1.0, 0.0], [1.0, 0.1], [-1.0, 0.0]])
    >>> hashes.candidates([[2.0, 0.0]]).toarray()
    array([[3, 3, 0]], dtype=int32)
    """

    l: int  # noqa: E741 - the paper's letter
    tables: int
    seed: int = 0
    length: int = 1

    def __post_init__(self) -> None:
        """Check the parameters."""
        object.__setattr__(self, "l", _checks.whole_number(self.l, "l", 2, 4096))
        object.__setattr__(self, "tables", _checks.whole_number(self.tables, "tables", 1, MAX_TABLES))
        object.__setattr__(self, "seed", _checks.whole_number(self.seed, "seed", 0))
        object.__setattr__(self, "length", _paper_checks.code_length(self.length, self.l))

    def directions(self, n_factors: int) -> NDArray[np.float64]:
        """Return the vectors to project on, of shape (tables, length * l, n_factors).

        Parameters
        ----------
        n_factors : int
            The number of coordinates of a factor.
        """
        return random_directions(self.tables, self.length * self.l, n_factors, self.seed)

    def _code(self, projections: NDArray[np.float64]) -> NDArray[np.int64]:
        largest = projections.reshape(len(projections), self.length, self.l).argmax(axis=2)
        codes: NDArray[np.int64] = largest @ np.power(self.l, np.arange(self.length, dtype=np.int64))
        return codes
