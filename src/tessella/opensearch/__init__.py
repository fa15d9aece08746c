"""OpenSearch: live serving on a cluster that is sharded and replicated.

The sparse map turns factors into what an ordinary inverted index holds. `OpenSearchIndex` keeps items in an index of
OpenSearch, and answers as slots search does in one process. It needs opensearch-py: ``pip install
'tessella[opensearch]'``.
"""

try:
    import opensearchpy as _  # noqa: F401
except ImportError:
    raise ImportError(
        "tessella.opensearch needs opensearch-py; get it with: pip install 'tessella[opensearch]'"
    ) from None

from tessella.opensearch.index import OpenSearchIndex
from tessella.opensearch.patience import ClusterError
from tessella.opensearch.stats import Stats
from tessella.opensearch.writing import WriteError, WriteReport

__all__ = ["ClusterError", "OpenSearchIndex", "Stats", "WriteError", "WriteReport"]
