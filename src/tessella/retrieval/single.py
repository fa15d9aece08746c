"""Single queries: one native call that checks, codes, scans and looks ids up, where the general search takes many.

Its answers are those of the general search, which takes over whatever is unusual.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.results import SearchResult
from tessella.retrieval.segments import State
from tessella.retrieval.slots import Effort
from tessella.retrieval.ways import Reach, Way

_PROVEN: Any = np.True_
_NOT_PROVEN: Any = np.False_


def search_one(state: State, query: NDArray[np.float32], k: int, way: Way) -> SearchResult | None:
    """The answers to one query that is float32 in one piece, or None if that is for the general search."""
    server = state.server
    if server is None or k > state.n_live or isinstance(way, Effort):
        return None
    reach = way.reach if isinstance(way, Reach) else -1.0
    certified = _NOT_PROVEN if 0 <= reach < 1 else _PROVEN
    ids, scores = np.empty(k, np.int64), np.empty(k, np.float32)
    scored = server.search(query, reach, ids, scores)
    if scored < 0:
        return None
    scalar: Any = np.int64(scored)
    return SearchResult(state.ids_of(ids) if state.text_ids else ids, scores, scalar, certified)
