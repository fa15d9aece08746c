"""OpenSearch: live search on a sharded and replicated cluster.

The sparse map turns factors into terms for an ordinary inverted index. `OpenSearchIndex` keeps items in an index of
OpenSearch and finds what slots search finds in one process. It needs opensearch-py: ``pip install
'tessella[opensearch]'``.
"""

try:
    import opensearchpy as _  # noqa: F401
except ImportError:
    raise ImportError(
        "tessella.opensearch needs opensearch-py; install it with: pip install 'tessella[opensearch]'"
    ) from None

from tessella.opensearch.index import OpenSearchIndex
from tessella.opensearch.patience import ClusterError
from tessella.opensearch.stats import Stats
from tessella.opensearch.writing import WriteError, WriteReport

__all__ = ["ClusterError", "OpenSearchIndex", "Stats", "WriteError", "WriteReport"]
