"""Journal: which items change while they are being copied to another index.

During a `reindex`, every writer notes the ids it is about to change, in an index beside the one it writes to, and says
when it has changed them. Who copies looks up what has become of them, so that no change is lost.
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
    """Note that items are about to change, and afterwards that they have; nothing to do if no one copies them."""
    if place.journal is None:
        yield
        return
    alias = {"require_alias": "true"}
    note = client.index(index=place.journal, body={"ids": ids, "done": False}, params=alias)
    yield
    with contextlib.suppress(TransportError):  # a note that stays open is looked at in the end
        client.update(index=place.journal, id=note["_id"], body={"doc": {"done": True}}, params=alias)
