"""Patience: which failures of a cluster are temporary, and how long to retry."""

import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from opensearchpy import ConnectionError as Unreachable
from opensearchpy import NotFoundError, OpenSearch, TransportError

PASSING = (429, 502, 503, 504)
BLOCKED = "cluster_block_exception"  # no cluster manager yet, or writes are blocked for a moment
LOST = {  # errors of a node that is lost or stops, or of a shard that moves; some have status 500
    "connect_transport_exception",
    "illegal_index_shard_state_exception",
    "no_shard_available_action_exception",
    "node_closed_exception",
    "node_disconnected_exception",
    "node_not_connected_exception",
    "receive_timeout_transport_exception",
    "search_context_missing_exception",
}
GONE = "index_not_found_exception"
CLOSED = "index_closed_exception"
_NOT_FOUND = 404
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0

T = TypeVar("T")


class ClusterError(RuntimeError):
    """OpenSearch does not answer, or refuses a request. The error of opensearch-py is its `__cause__`."""


class Patience:
    """Pauses of growing length, until a time is up."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self._pause = _FIRST_PAUSE

    def pause(self) -> bool:
        """Wait a moment and return True; return False at once if the time is up."""
        left = self._end - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(self._pause, left))
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        return True


def passes(status: object, error: Any) -> bool:
    """Return whether a request that failed with this status and error, as OpenSearch describes it, is worth repeating.

    Examples
    --------
    >>> lost = {"type": "node_disconnected_exception", "reason": "disconnected"}
    >>> passes(500, {"type": "search_phase_execution_exception", "root_cause": [lost]})
    True
    >>> passes(500, {"type": "search_phase_execution_exception", "root_cause": [{"type": "null_pointer_exception"}]})
    False
    """
    return status in PASSING or not LOST.union([BLOCKED]).isdisjoint(_kinds(error))


def is_passing(error: TransportError) -> bool:
    """Return whether a request that raised this error is worth repeating."""
    return isinstance(error, Unreachable) or error.error == BLOCKED or passes(error.status_code, error.info)


def is_gone(error: TransportError) -> bool:
    """Return whether a request failed because the index, alias or scan that it named does not exist."""
    return isinstance(error, NotFoundError)


def refused(error: dict[str, Any], status: int) -> TransportError:
    """Return the error that a failed part of a request would have raised alone."""
    kind = str(error.get("type"))
    gone = status == _NOT_FOUND or kind == GONE
    return (NotFoundError if gone else TransportError)(status, kind, error)


def patiently(request: Callable[[], T], seconds: float) -> T:
    """Return the result of a request, which is repeated for some seconds while it fails for a temporary reason."""
    patience = Patience(seconds)
    while True:
        try:
            return request()
        except TransportError as error:
            if not is_passing(error) or not patience.pause():
                raise


def _kinds(error: Any) -> Iterator[str]:
    """Yield the types of an error and of its causes."""
    if isinstance(error, dict):
        yield str(error.get("type"))
        for cause in (error.get("error"), error.get("caused_by"), *error.get("root_cause", ())):
            yield from _kinds(cause)


def reason(error: Any) -> str:
    """Return the innermost cause that OpenSearch gives for an error.

    Examples
    --------
    >>> reason({"error": {"type": "search_phase_execution_exception", "caused_by": {"reason": "too many clauses."}}})
    'too many clauses'
    """
    while isinstance(error, dict):
        inner = error.get("error") or error.get("caused_by")
        if not isinstance(inner, dict):
            break
        error = inner
    if isinstance(error, dict):
        said = (
            "the index is closed" if error.get("type") == CLOSED else error.get("reason") or error.get("type") or error
        )
        return str(said).rstrip(" .;")
    return str(error)


def in_plain_words(error: TransportError, name: str, client: OpenSearch) -> ClusterError:
    """What to tell the caller of a request for the index `name` that failed for good."""
    if isinstance(error, Unreachable):
        hosts = ", ".join(f"{host['host']}:{host.get('port', 9200)}" for host in client.transport.hosts)
        return ClusterError(f"OpenSearch does not answer at {hosts}: {str(error.info).rpartition(': ')[2]}.")
    if CLOSED in _kinds(error.info):
        return ClusterError(f"the index {name!r} is closed; open it in OpenSearch, and repeat the call.")
    return ClusterError(f"OpenSearch refused a request for the index {name!r}: {reason(error.info or error.error)}.")
