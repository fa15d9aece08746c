"""Journal: records which items change while they are copied to another index.

During a `reindex`, every writer notes the ids that it is about to change in a separate index, and marks the note when
it has changed them. The process that copies then copies these items again, so that no change is lost.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

from opensearchpy import OpenSearch, TransportError

from tessella.opensearch.fields import OWN
from tessella.opensearch.layout import Place

MAPPING: dict[str, Any] = {
    "dynamic": "strict",
    "_meta": {OWN: {"journal": True}},
    "properties": {"ids": {"type": "keyword", "index": False, "doc_values": False}, "done": {"type": "boolean"}},
}


@contextlib.contextmanager
def noted(client: OpenSearch, place: Place, ids: list[str]) -> Iterator[None]:
    """Note that items are about to change, and afterwards that they have; without a reindex, do nothing."""
    if place.journal is None:
        yield
        return
    alias = {"require_alias": "true"}
    note = client.index(index=place.journal, body={"ids": ids, "done": False}, params=alias)
    yield
    with contextlib.suppress(TransportError):  # a note that stays open is processed at the end
        client.update(index=place.journal, id=note["_id"], body={"doc": {"done": True}}, params=alias)
