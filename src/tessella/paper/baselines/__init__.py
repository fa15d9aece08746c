"""The baselines of the paper (P16): three families of hashes and a tree, under one protocol.

Each puts items into buckets; a query's candidates are the items in its own buckets. `Index.candidates` returns the same
kind of matrix, so the same code can compare them all.
"""

from tessella.paper.baselines.concomitant import ConcomitantRank
from tessella.paper.baselines.pca_tree import PCATree
from tessella.paper.baselines.protocol import Baseline
from tessella.paper.baselines.srp import SignRandomProjection
from tessella.paper.baselines.superbit import Superbit

__all__ = ["Baseline", "ConcomitantRank", "PCATree", "SignRandomProjection", "Superbit"]
