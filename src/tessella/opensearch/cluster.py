"""Cluster: a client, the name of an index, and where its items are."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from opensearchpy import NotFoundError, OpenSearch, TransportError

from tessella.opensearch.layout import Place
from tessella.opensearch.patience import Patience, is_gone, is_passing, patiently, refused

SERVER_SECONDS = "10s"  # how long the server waits for a shard before it refuses a write
REQUEST_SECONDS = 60  # how long to wait for an answer before trying another node
_KEPT = "2m"  # how long the server keeps a scan between two pages
_NO_SHARD, _TIMED_OUT = 503, 408

T = TypeVar("T")


class Cluster:
    """Finds an index in a cluster, and remembers its place until the place is gone."""

    def __init__(self, client: OpenSearch, name: str, timeout: float) -> None:
        self.client, self.name, self.timeout = client, name, timeout
        self._place: Place | None = None

    def place(self) -> Place:
        """Return where the items are; ask the cluster if this is not known yet."""
        place = self._place
        if place is None:
            found = self.find()
            if found is None:
                raise ValueError(f"there is no index {self.name!r} in OpenSearch; make one with create().")
            self._place = place = found
        return place

    def find(self) -> Place | None:
        """Ask the cluster where the items are; None if there is no such index."""
        try:
            found = self.patiently(lambda: self.client.indices.get(index=self.name))
        except NotFoundError:
            return None
        return Place.of(self.name, found)

    def forget(self) -> None:
        """Forget where the items are, so that the next call asks the cluster."""
        self._place = None

    def patiently(self, request: Callable[[], T]) -> T:
        """Return the result of a request, which is repeated while it fails for a temporary reason."""
        return patiently(request, self.timeout)

    def at_place(self, request: Callable[[Place], T]) -> T:
        """Return the result of a request to the index, which is repeated at the new place if the items have moved."""
        patience = Patience(self.timeout)
        while True:
            place = self.place()
            try:
                return request(place)
            except TransportError as error:
                if not is_passing(error):  # a search whose index is deleted meanwhile can fail in many ways
                    if not is_gone(error) and not self._left(place):
                        raise
                    self.forget()
                if not patience.pause():
                    raise

    def _left(self, place: Place) -> bool:
        """Return whether the items are no longer in a place."""
        found = self.find()
        return found is None or found.index != place.index

    def health(self, index: str, wanted: str) -> dict[str, Any]:
        """Wait until an index has the wanted health, or the time is up, and return its health."""
        milliseconds = f"{round(1000 * self.timeout)}ms"  # OpenSearch takes no fractions
        wait = {"wait_for_status": wanted, "timeout": milliseconds, "request_timeout": self.timeout + 10}
        answer = self.client.cluster.health(index=index, params={**wait, "ignore": (_TIMED_OUT,)})
        return dict(answer)

    def documents(self, index: str, ids: Sequence[str]) -> list[dict[str, Any]]:
        """Return the current documents by id, refreshed or not; `found` says whether one exists."""
        body = {"ids": list(ids)}
        found = self.client.mget(body=body, index=index, params={"request_timeout": REQUEST_SECONDS})["docs"]
        for document in found:
            if "error" in document:
                raise refused(document["error"], _NO_SHARD)
        return list(found)

    def scan(self, index: str, query: dict[str, Any], size: int, source: Any = True) -> Iterator[list[dict[str, Any]]]:
        """Yield all matching documents in pages, as they were when the scan began."""
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
    """A cluster whose items are expected in one place only."""

    def __init__(self, cluster: Cluster, place: Place) -> None:
        super().__init__(cluster.client, cluster.name, cluster.timeout)
        self._place = place

    def forget(self) -> None:
        """Raise an error, because the items cannot be anywhere else."""
        raise RuntimeError(f"the index {self.place().index!r} was deleted while items were copied to it.")
