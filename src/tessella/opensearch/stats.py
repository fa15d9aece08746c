"""Stats: the size and health of an index in OpenSearch."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Stats:
    """The size and health of an index.

    Attributes
    ----------
    index : str
        The OpenSearch index behind the alias.
    health : str
        "green": every shard has all its copies. "yellow": some copies are missing. "red": some shards do not answer.
    n_items : int
        Items that are visible to searches.
    n_deleted : int
        Documents that were deleted or replaced, and are not yet merged away.
    n_shards, n_replicas : int
        The number of shards, and of further copies of each.
    n_bytes : int
        Bytes on disk without replicas, as of a few seconds ago. Merging later halves what was just written.
    n_bytes_with_replicas : int
        Bytes on disk with replicas.
    reindexing : bool
        Whether a `reindex` is running or was interrupted.
    """

    index: str
    health: str
    n_items: int
    n_deleted: int
    n_shards: int
    n_replicas: int
    n_bytes: int
    n_bytes_with_replicas: int
    reindexing: bool

    def __str__(self) -> str:
        each = f", {self.n_bytes / self.n_items:,.0f} bytes per item" if self.n_items else ""
        return (
            f"{self.n_items:,} items in {self.index} ({self.health}); shards: {self.n_shards}, replicas: "
            f"{self.n_replicas}, {self.n_bytes / 2**20:,.1f} MiB without replicas{each}"
        )
