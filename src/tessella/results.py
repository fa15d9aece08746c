"""What searches return."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class SearchResult(NamedTuple):
    """The answers to queries, best first; a single query gives arrays of one dimension less.

    Attributes
    ----------
    ids : ndarray of shape (n_queries, k)
        Ids of items. Where fewer than k items answer a query: -1, or None for text ids.
    scores : ndarray of float32, shape (n_queries, k)
        Inner products of the factors as given; -inf where there is no item.
    scored : ndarray of int64, shape (n_queries,)
        How many items were scored for each query; the rest was discarded.
    certified : ndarray of bool, shape (n_queries,)
        Whether the answer is proven to be the true top k.
    """

    ids: NDArray[Any]
    scores: NDArray[np.float32]
    scored: NDArray[np.int64]
    certified: NDArray[np.bool_]
