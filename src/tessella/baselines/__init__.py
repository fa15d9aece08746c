"""What the paper compares with (P16): three families of hashes and a tree, under one protocol.

Each puts items into buckets; a query's candidates are the items in its own buckets. `Index.candidates` gives the same
kind of matrix, so one piece of code can compare them all.
"""

from tessella.baselines.concomitant import ConcomitantRank
from tessella.baselines.pca_tree import PCATree
from tessella.baselines.protocol import Baseline
from tessella.baselines.srp import SignRandomProjection
from tessella.baselines.superbit import Superbit

__all__ = ["Baseline", "ConcomitantRank", "PCATree", "SignRandomProjection", "Superbit"]
