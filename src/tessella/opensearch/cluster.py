"""Cluster: a client, the name of an index, and what is known of where that is."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from opensearchpy import NotFoundError, OpenSearch, TransportError

from tessella.opensearch.layout import Place
from tessella.opensearch.patience import Patience, is_gone, is_passing, patiently, refused

SERVER_SECONDS = "10s"  # for a shard to become available, before the server gives a write back
REQUEST_SECONDS = 60  # for an answer, before another node is asked
_KEPT = "2m"  # a scan, from one page to the next
_NO_SHARD, _TIMED_OUT = 503, 408

T = TypeVar("T")


class Cluster:
    """Where an index is looked for. Knows its place until that turns out to be gone."""

    def __init__(self, client: OpenSearch, name: str, timeout: float) -> None:
        self.client, self.name, self.timeout = client, name, timeout
        self._place: Place | None = None

    def place(self) -> Place:
        """Where the items are; asks the cluster if that is not known."""
        place = self._place
        if place is None:
            found = self.find()
            if found is None:
                raise ValueError(f"there is no index {self.name!r} in OpenSearch; make it with create().")
            self._place = place = found
        return place

    def find(self) -> Place | None:
        """Where the items are, as the cluster says; None if there is no such index."""
        try:
            found = self.patiently(lambda: self.client.indices.get(index=self.name))
        except NotFoundError:
            return None
        return Place.of(self.name, found)

    def forget(self) -> None:
        """Ask again where the items are."""
        self._place = None

    def patiently(self, request: Callable[[], T]) -> T:
        """What a request gives, repeated while it fails for a reason that passes."""
        return patiently(request, self.timeout)

    def at_place(self, request: Callable[[Place], T]) -> T:
        """What a request to the index gives, repeated where the items are now if they have moved."""
        patience = Patience(self.timeout)
        while True:
            place = self.place()
            try:
                return request(place)
            except TransportError as error:
                if not is_passing(error):  # a search that was under way when its index went can fail in many ways
                    if not is_gone(error) and not self._left(place):
                        raise
                    self.forget()
                if not patience.pause():
                    raise

    def _left(self, place: Place) -> bool:
        """Whether the items are no longer in a place."""
        found = self.find()
        return found is None or found.index != place.index

    def health(self, index: str, wanted: str) -> dict[str, Any]:
        """How an index fares once it is as well as wanted, or the time is up."""
        milliseconds = f"{round(1000 * self.timeout)}ms"  # OpenSearch takes no fractions
        wait = {"wait_for_status": wanted, "timeout": milliseconds, "request_timeout": self.timeout + 10}
        answer = self.client.cluster.health(index=index, params={**wait, "ignore": (_TIMED_OUT,)})
        return dict(answer)

    def documents(self, index: str, ids: Sequence[str]) -> list[dict[str, Any]]:
        """Documents by id as they are now, refreshed or not; `found` says whether there is one."""
        body = {"ids": list(ids)}
        found = self.client.mget(body=body, index=index, params={"request_timeout": REQUEST_SECONDS})["docs"]
        for document in found:
            if "error" in document:
                raise refused(document["error"], _NO_SHARD)
        return list(found)

    def scan(self, index: str, query: dict[str, Any], size: int, source: Any = True) -> Iterator[list[dict[str, Any]]]:
        """All documents that match, as they were when the scan began, in pages."""
        body = {"query": query, "size": size, "sort": ["_doc"], "_source": source}
        options = {"scroll": _KEPT, "allow_partial_search_results": "false", "request_timeout": REQUEST_SECONDS}
        page = self.patiently(lambda: self.client.search(body=body, index=index, params=options))
        try:
            while page["hits"]["hits"]:
                yield page["hits"]["hits"]
                asked = {"scroll": _KEPT, "scroll_id": page["_scroll_id"]}
                page = self.client.scroll(body=asked, params={"request_timeout": REQUEST_SECONDS})
                if page["_shards"]["failed"]:
                    raise TransportError(_NO_SHARD, "a shard was lost during a scan", page["_shards"])
        finally:
            self.client.clear_scroll(body={"scroll_id": [page["_scroll_id"]]}, params={"ignore": (404,)})


class Fixed(Cluster):
    """A cluster in which items are in one place, or nowhere."""

    def __init__(self, cluster: Cluster, place: Place) -> None:
        super().__init__(cluster.client, cluster.name, cluster.timeout)
        self._place = place

    def forget(self) -> None:
        """Refuse to look elsewhere."""
        raise RuntimeError(f"the index {self.place().index!r}, to which items were being copied, is gone.")
