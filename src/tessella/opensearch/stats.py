"""Stats: how large an index in OpenSearch is, and how it fares."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Stats:
    """What a cluster says of an index.

    Attributes
    ----------
    index : str
        The index of OpenSearch behind the alias.
    health : str
        "green": every shard has all its copies. "yellow": some copies are missing. "red": some shards do not answer.
    n_items : int
        Items that searches see.
    n_deleted : int
        Documents that are deleted or replaced, and not yet merged away.
    n_shards, n_replicas : int
        Shards, and copies of each beside the first.
    n_bytes : int
        Bytes on disk, without copies, as of a few seconds ago. Merging halves what was just written.
    n_bytes_with_replicas : int
        Bytes on disk, with copies.
    reindexing : bool
        Whether a `reindex` is under way, or was interrupted.
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
        each = f", {self.n_bytes / self.n_items:,.0f} bytes an item" if self.n_items else ""
        return (
            f"{self.n_items:,} items in {self.index} ({self.health}); shards: {self.n_shards}, replicas of each: "
            f"{self.n_replicas}, {self.n_bytes / 2**20:,.1f} MiB without replicas{each}"
        )
