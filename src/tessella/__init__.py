"""tessella: top-k recommendations from matrix-factorisation factors, through geometry-aware sparse maps."""

from importlib.metadata import version as _version

from tessella import datasets
from tessella._kernels import show_config
from tessella.index import Index, exact_search
from tessella.mapping.schema import Schema
from tessella.mapping.slots import CounterTree, OneHot, ParseTree, SlotMap
from tessella.mapping.sparse_map import SparseMap
from tessella.mapping.tessellation import (
    CoordinateTessellation,
    DAry,
    ExplicitTessellation,
    NumberedTessellation,
    RandomTessellation,
    Ternary,
)
from tessella.recommend.explaining import Reason
from tessella.recommend.signals import Decaying
from tessella.recommend.tables import Recommendations
from tessella.recommend.variety import at_most, diversify
from tessella.recommender import Live, Recommender
from tessella.results import SearchResult
from tessella.retrieval.plan import Exact, Plan, Slots, Tiles
from tessella.retrieval.tiles import LearnedTiles
from tessella.search.filters import PreparedFilter

__version__ = _version("tessella")

__all__ = [
    "CoordinateTessellation",
    "CounterTree",
    "DAry",
    "Decaying",
    "Exact",
    "ExplicitTessellation",
    "Index",
    "LearnedTiles",
    "Live",
    "NumberedTessellation",
    "OneHot",
    "ParseTree",
    "Plan",
    "PreparedFilter",
    "RandomTessellation",
    "Reason",
    "Recommendations",
    "Recommender",
    "Schema",
    "SearchResult",
    "SlotMap",
    "Slots",
    "SparseMap",
    "Ternary",
    "Tiles",
    "at_most",
    "datasets",
    "diversify",
    "exact_search",
    "show_config",
]
