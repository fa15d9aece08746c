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
    alone: near factors have their largest projection on the same vector. For l = 2 they collide with probability
    1 - angle / pi, like one bit of `SignRandomProjection`; larger l part factors more sharply.

    From the authors' abstract come the rank distribution and the plain Gaussian projections; that the hash is the
    number of an extreme one, looked up in a reverse index, is in their patent US 8,429,216; that l of them make an
    l-ary code is how the paper we follow puts it. Their faster discrete transforms, which stand in for the
    projections, are left out, and so are ranks after the first. Putting several values into one code is what hash
    tables usually do.

    Parameters
    ----------
    l : int
        Projections to choose the largest from, from 2 to 4,096. More leave fewer candidates and lose more of the true
        ones, and cost time in proportion. Fixed.
    tables : int
        How many tables to unite, from 1 to 1,024. More find more and cost time and memory in proportion. Fixed.
    seed : int, default 0
        At least 0. The same seed draws the same vectors, and those of fewer tables first.
    length : int, default 1
        Values in a table's code, each from l projections of its own; factors collide where all agree. At least 1, and
        l to its power at most 2^62. More leave fewer candidates. Fixed.

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
        """The vectors to project on, of shape (tables, length * l, n_factors).

        Parameters
        ----------
        n_factors : int
            How many coordinates factors have.
        """
        return random_directions(self.tables, self.length * self.l, n_factors, self.seed)

    def _code(self, projections: NDArray[np.float64]) -> NDArray[np.int64]:
        largest = projections.reshape(len(projections), self.length, self.l).argmax(axis=2)
        codes: NDArray[np.int64] = largest @ np.power(self.l, np.arange(self.length, dtype=np.int64))
        return codes
