"""Writing: sends changes in bulk, repeats them after temporary failures, and reports the outcome.

Every operation is idempotent: storing or deleting a document twice has the same effect as once. So if it is unknown
whether a request was carried out, it is sent again. An operation counts as written once OpenSearch acknowledges it,
which happens when the primary shard and all in-sync copies have it on disk.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from opensearchpy import TransportError

from tessella._threads import cut
from tessella.opensearch import journal
from tessella.opensearch.cluster import REQUEST_SECONDS, SERVER_SECONDS, Cluster
from tessella.opensearch.documents import documents, factors_of, values_of
from tessella.opensearch.fields import Values
from tessella.opensearch.layout import Place
from tessella.opensearch.patience import GONE, Patience, is_gone, is_passing, passes, reason

MOST_DOCUMENTS = 1000  # documents per request
_BYTES = 4 * 2**20  # per request, roughly
_BYTES_PER_COORDINATE, _BYTES_PER_ITEM = 20, 500
_CONFLICT, _NOT_FOUND = 409, 404


class WriteReport(NamedTuple):
    """The result of a change.

    Attributes
    ----------
    n_written : int
        Items whose change OpenSearch has acknowledged.
    missing : tuple of ids
        Items to remove that were not in the index.
    n_repeated : int
        Operations that were sent again, because a node was lost or busy.
    """

    n_written: int
    missing: tuple[int | str, ...] = ()
    n_repeated: int = 0


class WriteError(RuntimeError):
    """Some items were not written.

    Attributes
    ----------
    report : WriteReport
        What was written.
    failed : dict of id to str
        The items that were tried and failed, and why. If it is unknown whether a request was carried out, its items
        may have been written after all.
    n_untried : int
        How many further items were not tried. Repeating the call is always safe.
    """

    def __init__(self, report: WriteReport, failed: dict[int | str, str], n_untried: int) -> None:
        self.report, self.failed, self.n_untried = report, failed, n_untried
        n_all = report.n_written + len(report.missing) + len(failed) + n_untried
        (first, why), *_ = failed.items()
        super().__init__(
            f"{len(failed) + n_untried:,} of {n_all:,} items were not written, among them {first!r}: {why}; it is safe "
            "to repeat the call."
        )


class Operation(NamedTuple):
    """Stores or deletes a document."""

    id: str
    document: str | None = None  # None deletes it
    guard: tuple[int, int] | None = None  # the sequence number and primary term that the document must still have

    def lines(self) -> str:
        """Return the operation as lines of a bulk request."""
        if self.document is None:
            return json.dumps({"delete": {"_id": self.id}}) + "\n"
        head: dict[str, Any] = {"_id": self.id}
        if self.guard is not None:
            head |= {"if_seq_no": self.guard[0], "if_primary_term": self.guard[1]}
        return json.dumps({"index": head}) + "\n" + self.document + "\n"


@dataclass(frozen=True)
class Change(ABC):
    """A change of some items."""

    ids: list[str]

    @abstractmethod
    def operations(self, cluster: Cluster, place: Place, which: list[int]) -> list[Operation | None]:
        """Return the operations for some of the items; None for an item that does not exist."""


@dataclass(frozen=True)
class Addition(Change):
    """Stores items, replacing those that exist."""

    factors: NDArray[np.float32]
    values: list[Values] | None

    def operations(self, cluster: Cluster, place: Place, which: list[int]) -> list[Operation | None]:  # noqa: ARG002
        """Return a document for each item."""
        values = None if self.values is None else [self.values[at] for at in which]
        made = documents(place.layout, self.factors[which], values)
        return [Operation(self.ids[at], document) for at, document in zip(which, made, strict=True)]


@dataclass(frozen=True)
class Replacement(Change):
    """Changes the factors or attributes of existing items, or both.

    A document is read, changed, and stored again only if nobody else has changed it meanwhile.
    """

    factors: NDArray[np.float32] | None
    values: list[Values] | None

    def operations(self, cluster: Cluster, place: Place, which: list[int]) -> list[Operation | None]:
        """Return a document for each item that exists."""
        made: list[Operation | None] = [None] * len(which)
        found = cluster.documents(place.index, [self.ids[at] for at in which])
        there = [number for number, document in enumerate(found) if document["found"]]
        if not there:
            return made
        sources = [found[number]["_source"] for number in there]
        rows = [which[number] for number in there]
        factors = factors_of(sources, place.layout.n_factors) if self.factors is None else self.factors[rows]
        values = list(map(values_of, sources)) if self.values is None else [self.values[at] for at in rows]
        for number, document in zip(there, documents(place.layout, factors, values), strict=True):
            guard = found[number]["_seq_no"], found[number]["_primary_term"]
            made[number] = Operation(found[number]["_id"], document, guard)
        return made


@dataclass(frozen=True)
class Removal(Change):
    """Deletes items."""

    def operations(self, cluster: Cluster, place: Place, which: list[int]) -> list[Operation | None]:  # noqa: ARG002
        """Return a deletion for each item."""
        return [Operation(self.ids[at]) for at in which]


@dataclass
class _Outcome:
    """The outcome of operations, by their number."""

    written: list[int] = field(default_factory=list)
    missing: list[int] = field(default_factory=list)
    again: dict[int, str] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)
    moved: bool = False  # whether the items have moved to another index


def write(
    cluster: Cluster, change: Change, ids: Sequence[Any], moved: Callable[[int], None] = lambda _: None
) -> WriteReport:
    """Carry out a change in several requests; `moved` is called with the number of items done in each.

    Raises
    ------
    WriteError
        If some items were not written.
    """
    n_factors = cluster.place().layout.n_factors
    at_once = max(1, min(MOST_DOCUMENTS, _BYTES // (n_factors * _BYTES_PER_COORDINATE + _BYTES_PER_ITEM)))
    n_written = n_repeated = 0
    missing: list[int] = []
    for part in cut(len(change.ids), at_once):
        outcome, repeated = _write_part(cluster, change, part)
        n_written, n_repeated = n_written + len(outcome.written), n_repeated + repeated
        missing += outcome.missing
        moved(part.stop - part.start)
        if outcome.failed:
            report = WriteReport(n_written, tuple(ids[at] for at in sorted(missing)), n_repeated)
            failed = {ids[at]: why for at, why in sorted(outcome.failed.items())}
            raise WriteError(report, failed, len(change.ids) - part.stop)
    return WriteReport(n_written, tuple(ids[at] for at in sorted(missing)), n_repeated)


def _write_part(cluster: Cluster, change: Change, part: slice) -> tuple[_Outcome, int]:
    """Carry out one request's part of a change; return its outcome, and how many operations were sent again."""
    total, n_repeated = _Outcome(), 0
    layout = cluster.place().layout
    patience = Patience(cluster.timeout)
    which = list(range(part.start, part.stop))
    sent: set[int] = set()
    while which:
        place = cluster.place()
        if not place.layout.fits(layout):
            raise ValueError(
                f"the index {cluster.name!r} was replaced by a different one while items were written to it."
            )
        outcome = _try(cluster, place, change, which)
        total.written += outcome.written
        total.failed |= outcome.failed
        for at in outcome.missing:  # missing on a second attempt: the first one deleted it
            (total.written if at in sent else total.missing).append(at)
        if outcome.moved:
            cluster.forget()
        sent.update(outcome.again)
        which = list(outcome.again)
        if which and not patience.pause():
            total.failed |= outcome.again
            break
        n_repeated += len(which)
    return total, n_repeated


def _try(cluster: Cluster, place: Place, change: Change, which: list[int]) -> _Outcome:
    """Send operations once."""
    outcome = _Outcome()
    try:
        planned = change.operations(cluster, place, which)
        outcome.failed = {at: "it is not in the index" for at, one in zip(which, planned, strict=True) if one is None}
        operations = {at: one for at, one in zip(which, planned, strict=True) if one is not None}
        if operations:
            with journal.noted(cluster.client, place, [one.id for one in operations.values()]):
                send(cluster, place.write_alias, operations, outcome)
    except TransportError as error:
        if is_gone(error):
            outcome.moved = True
        elif not is_passing(error):
            raise
        why = reason(error.info) if isinstance(error.info, dict) else str(error.error)
        outcome.again = dict.fromkeys(which, why)
    return outcome


def send(cluster: Cluster, alias: str, operations: dict[int, Operation], outcome: _Outcome) -> None:
    """Send operations in one request, and sort them by outcome."""
    body = "".join(operation.lines() for operation in operations.values())
    options = {"require_alias": "true", "timeout": SERVER_SECONDS, "request_timeout": REQUEST_SECONDS}
    answer = cluster.client.bulk(body=body, index=alias, params=options)
    for at, item in zip(operations, answer["items"], strict=True):
        (result,) = item.values()
        status, error = result["status"], result.get("error")
        if error is None:
            (outcome.missing if status == _NOT_FOUND else outcome.written).append(at)
        elif error["type"] == GONE:
            outcome.moved = True
            outcome.again[at] = reason(error)
        elif status == _CONFLICT or passes(status, error):
            outcome.again[at] = reason(error)
        else:
            outcome.failed[at] = reason(error)
