"""Asking: builds the bodies of search requests to OpenSearch."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.opensearch import features
from tessella.opensearch.conditions import ALL
from tessella.opensearch.fields import OWN
from tessella.opensearch.layout import FACTOR, SLOTS, VECTOR, Layout

HEADER = json.dumps({"allow_partial_search_results": False})  # a shard that does not answer is an error
SOURCE = [f"{OWN}.{FACTOR}"]
_QUERY_EXPONENT = 30  # queries are scaled to norms of about 2^30, so that adding 1 to a score loses no bits


def restricted(filters: Sequence[dict[str, Any]], excluded: list[str]) -> dict[str, Any]:
    """Return a query for the items that pass the filters and are not excluded, without scoring them."""
    clauses: dict[str, Any] = {}
    if filters:
        clauses["filter"] = list(filters)
    if excluded:
        clauses["must_not"] = [{"ids": {"values": excluded}}]
    return {"bool": clauses} if clauses else ALL


def by_slots(weights: dict[str, float], filters: Sequence[dict[str, Any]], excluded: list[str]) -> dict[str, Any]:
    """Return a query that scores items by their partial products over the slots they share with the query.

    Examples
    --------
    >>> by_slots({"17-": 1.0}, [], [])["bool"]["should"]
    [{'rank_feature': {'field': 'tessella.slots.17-', 'boost': 1.0, 'linear': {}}}]
    """
    clauses = dict(restricted(filters, excluded).get("bool", {}))
    clauses["should"] = [
        {"rank_feature": {"field": f"{OWN}.{SLOTS}.{name}", "boost": weight, "linear": {}}}
        for name, weight in weights.items()
    ]
    clauses["minimum_should_match"] = 1
    return {"bool": clauses}


def scored(query: NDArray[np.float32], norm: float, asked: dict[str, Any]) -> dict[str, Any]:
    """Return a query whose items are scored by inner product on the shards.

    The k-NN plugin turns a product p into p + 1, or into 1 / (1 - p) if p is negative. This keeps the order, and no
    score is 0.
    """
    scale = _QUERY_EXPONENT - int(np.frexp(norm)[1])
    vector = np.ldexp(query.astype(np.float64), scale).tolist()
    params = {"field": f"{OWN}.{VECTOR}", "query_value": vector, "space_type": "innerproduct"}
    return {"script_score": {"query": asked, "script": {"lang": "knn", "source": "knn_score", "params": params}}}


def slots_body(
    asked: dict[str, Any], query: tuple[NDArray[np.float32], float], k: int, window: int, n_shards: int
) -> dict[str, Any]:
    """Return the body of a slots search; each shard rescores its best items by inner product."""
    rescore = {"rescore_query": scored(*query, ALL), "query_weight": 0, "rescore_query_weight": 1}
    return {
        "size": k,
        "query": asked,
        "rescore": {"window_size": window, "query": rescore},
        "track_total_hits": window * n_shards,
        "_source": SOURCE,
    }


def plain_body(asked: dict[str, Any], size: int, *, counted: bool | int = False) -> dict[str, Any]:
    """Return the body of a search for the `size` best items of a query."""
    return {"size": size, "query": asked, "track_total_hits": counted, "_source": SOURCE}


def weights_of(layout: Layout, queries: NDArray[np.float32], max_slots: int) -> list[dict[str, float]]:
    """Return the features of each query, with their weights."""
    starts, slots, values = layout.query_mapper.entries(queries)
    parts = zip(starts.tolist(), starts[1:].tolist(), strict=False)
    return [features.of_query(slots[start:end], values[start:end], max_slots) for start, end in parts]
