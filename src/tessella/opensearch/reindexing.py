"""Reindexing: copies the items to a new index, which replaces the old one while reads and writes continue.

1. A journal is opened beside the index, and the write alias is replaced by another. Writers that still use the old one
   are refused, ask the cluster again, and record their changes from then on. Writes are blocked briefly, until those
   in progress have ended.
2. All items are copied as they are now, mapped by the new schema.
3. Items that the journal names are copied again, or deleted, until few are left.
4. Writes are blocked, the rest of the journal is processed, and the alias is moved to the new index in one step.
   Blocked writers find the new index and continue. The old index is deleted.

Searches continue throughout: in the old index, and once that is gone, in the new one.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from opensearchpy import NotFoundError, RequestError

from tessella.opensearch import journal
from tessella.opensearch.cluster import Cluster, Fixed
from tessella.opensearch.conditions import ALL
from tessella.opensearch.documents import documents, factors_of, values_of
from tessella.opensearch.fields import OWN
from tessella.opensearch.layout import Layout, Place, index_name, index_pattern, journal_of, write_alias
from tessella.opensearch.writing import MOST_DOCUMENTS, Change, Operation, write

SAMPLED = 50_000  # items to fit the schema on, at most
_FEW_NOTES = 5  # notes that may be left when writes are blocked
_MOST_ROUNDS = 20  # of catching up, before writes are blocked anyway
_QUIET = {"refresh_interval": "-1"}  # while items are copied


@dataclass(frozen=True)
class _Copy(Change):
    """Documents of another index, mapped by the new schema; documents that no longer exist are deleted."""

    found: list[dict[str, Any]]
    layout: Layout

    def operations(self, cluster: Cluster, place: Place, which: list[int]) -> list[Operation | None]:  # noqa: ARG002
        """Return a document or a deletion for each item."""
        made: list[Operation | None] = [Operation(self.ids[at]) for at in which]
        there = [number for number, at in enumerate(which) if self.found[at].get("found", True)]
        if there:
            sources = [self.found[which[number]]["_source"] for number in there]
            factors = factors_of(sources, self.layout.n_factors)
            texts = documents(self.layout, factors, list(map(values_of, sources)))
            for number, text in zip(there, texts, strict=True):
                made[number] = Operation(self.ids[which[number]], text)
        return made


def own_indexes(cluster: Cluster) -> list[str]:
    """Return all OpenSearch indexes made for the alias: the current one, and what earlier calls left behind."""
    pattern = index_pattern(cluster.name)
    found = cluster.patiently(lambda: cluster.client.indices.get(index=f"{cluster.name}-*"))
    return [
        index
        for index, facts in found.items()
        if pattern.fullmatch(index) and OWN in facts["mappings"].get("_meta", {})
    ]


def drop(cluster: Cluster, indexes: list[str]) -> None:
    """Delete OpenSearch indexes, if they exist."""
    gone = {"ignore_unavailable": "true"}
    for index in indexes:
        cluster.patiently(partial(cluster.client.indices.delete, index=index, params=gone))


def create(
    cluster: Cluster,
    layout: Layout,
    n_shards: int,
    n_replicas: int,
    settings: dict[str, Any],
    *,
    visible: bool,
) -> Place:
    """Make an OpenSearch index; if `visible`, the alias points to it."""
    index = index_name(cluster.name)
    alias = write_alias(index, 0, journaled=False)
    body = {
        "settings": {**settings, "index.number_of_shards": n_shards, "index.number_of_replicas": n_replicas},
        "mappings": layout.mapping(),
        "aliases": {alias: {}, cluster.name: {}} if visible else {alias: {}},
    }
    cluster.patiently(lambda: cluster.client.indices.create(index=index, body=body))
    ((_, made),) = cluster.patiently(lambda: cluster.client.indices.get(index=index)).items()
    return Place.of(cluster.name, {index: made})


def sample(cluster: Cluster, place: Place) -> NDArray[np.float32]:
    """Return the factors of all items of an index, or of a random sample."""
    cluster.patiently(lambda: cluster.client.indices.refresh(index=place.index))
    total = cluster.patiently(lambda: cluster.client.count(index=place.index))["count"]
    query: dict[str, Any] = ALL
    if total > SAMPLED:
        drawn = {"random_score": {"seed": 0, "field": "_seq_no"}, "boost_mode": "replace"}
        query = {"function_score": {**drawn, "min_score": 1 - SAMPLED / total}}
    pages = [
        factors_of([hit["_source"] for hit in hits], place.layout.n_factors)
        for hits in cluster.scan(place.index, query, MOST_DOCUMENTS)
    ]
    if not pages:
        raise ValueError(f"the index {cluster.name!r} has 0 items, but fitting needs at least 1; add some first.")
    return np.concatenate(pages)


def reindex(cluster: Cluster, old: Place, make: Callable[[], Place], moved: Callable[[int], None]) -> None:
    """Replace an index by the one that `make` returns; if this fails, restore the former state."""
    client = cluster.client
    _make_journal(cluster, old)
    try:
        old = _journaled(cluster, old)
        new = make()
        kept = client.indices.get_settings(index=new.index)[new.index]["settings"]["index"].get("refresh_interval")
        client.indices.put_settings(index=new.index, body={"index": _QUIET})
        target = Fixed(cluster, new)
        _copy(cluster, old, target, new, moved)
        _catch_up(cluster, old, target, new)
        client.indices.put_settings(index=new.index, body={"index": {"refresh_interval": kept}})
        client.indices.refresh(index=new.index)
        _wait_for_copies(cluster, old, new)
        with _writes_blocked(cluster, old.index):
            _work_off(cluster, old, target, new, all_notes=True)
            client.indices.refresh(index=new.index)
            _swap(cluster, old, new)
    except BaseException:
        abandon(cluster)
        raise
    abandon(cluster)  # drops the old index and the journal


def abandon(cluster: Cluster) -> None:
    """Clean up after a reindex, finished or not; the index that the alias points to stays."""
    place = cluster.find()
    if place is None:
        return
    if place.journal is not None:
        cluster.patiently(lambda: _unblock(cluster, place.index))  # while the journal says that the block is ours
        actions = [
            {"remove": {"index": place.index, "alias": place.write_alias}},
            {"add": {"index": place.index, "alias": place.next_write_alias(journaled=False)}},
        ]
        cluster.patiently(lambda: cluster.client.indices.update_aliases(body={"actions": actions}))
    drop(cluster, [index for index in own_indexes(cluster) if index != place.index])
    cluster.forget()


def under_way(cluster: Cluster) -> ValueError:
    """Return the error for a reindex that is started while another may be running."""
    return ValueError(
        f"a reindex of {cluster.name!r} is running, or was killed; if no process is running it any more, pass "
        "restart=True."
    )


def _make_journal(cluster: Cluster, old: Place) -> None:
    """Make the journal of an index; there can be only one."""
    body = {
        "settings": {"index.number_of_shards": 1, "index.number_of_replicas": old.n_replicas},
        "mappings": journal.MAPPING,
        "aliases": {journal_of(old.index): {}},
    }
    try:
        cluster.client.indices.create(index=f"{journal_of(old.index)}-1", body=body)
    except RequestError as error:
        if error.error != "resource_already_exists_exception":
            raise
        raise under_way(cluster) from None


def _journaled(cluster: Cluster, old: Place) -> Place:
    """Make writers record their changes, and wait for writes in progress that are not recorded."""
    actions = [
        {"remove": {"index": old.index, "alias": old.write_alias}},
        {"add": {"index": old.index, "alias": old.next_write_alias(journaled=True)}},
    ]
    cluster.client.indices.update_aliases(body={"actions": actions})
    with _writes_blocked(cluster, old.index):
        pass
    cluster.forget()
    return cluster.place()


@contextlib.contextmanager
def _writes_blocked(cluster: Cluster, index: str) -> Iterator[None]:
    """Block writes within the block, after those in progress have ended."""
    answer = cluster.client.indices.add_block(index=index, block="write")
    if not answer["shards_acknowledged"]:
        _unblock(cluster, index)
        raise RuntimeError(f"writes to {index!r} could not be blocked: {answer}.")
    try:
        yield
    finally:
        with contextlib.suppress(NotFoundError):
            _unblock(cluster, index)


def _unblock(cluster: Cluster, index: str) -> None:
    cluster.client.indices.put_settings(index=index, body={"index.blocks.write": None})


def _copy(cluster: Cluster, old: Place, target: Cluster, new: Place, moved: Callable[[int], None]) -> None:
    cluster.client.indices.refresh(index=old.index)
    for hits in cluster.scan(old.index, ALL, MOST_DOCUMENTS):
        ids = [hit["_id"] for hit in hits]
        write(target, _Copy(ids, hits, new.layout), ids)
        moved(len(hits))


def _catch_up(cluster: Cluster, old: Place, target: Cluster, new: Place) -> None:
    """Copy changed items until few are left to copy while writes are blocked."""
    for _ in range(_MOST_ROUNDS):
        if _work_off(cluster, old, target, new, all_notes=False) <= _FEW_NOTES:
            return


def _work_off(cluster: Cluster, old: Place, target: Cluster, new: Place, *, all_notes: bool) -> int:
    """Copy or delete the items that notes name, delete the notes, and return how many there were.

    A note that is not marked as done may announce a change that is still to come, so it waits until writes are blocked.
    """
    client, alias = cluster.client, journal_of(old.index)
    client.indices.refresh(index=alias)
    count = 0
    for notes in cluster.scan(alias, ALL if all_notes else {"term": {"done": True}}, MOST_DOCUMENTS):
        ids = sorted({item for note in notes for item in note["_source"]["ids"]})
        for first in range(0, len(ids), MOST_DOCUMENTS):
            part = ids[first : first + MOST_DOCUMENTS]
            write(target, _Copy(part, cluster.documents(old.index, part), new.layout), part)
        body = "".join(f'{{"delete":{{"_id":"{note["_id"]}"}}}}\n' for note in notes)
        client.bulk(body=body, index=alias, params={"require_alias": "true"})
        count += len(notes)
    return count


def _wait_for_copies(cluster: Cluster, old: Place, new: Place) -> None:
    """Wait until the new index is as healthy as the old one."""
    wanted = cluster.client.cluster.health(index=old.index)["status"]
    answer = cluster.health(new.index, wanted)
    if answer["timed_out"]:
        raise RuntimeError(
            f"the new index is {answer['status']}, but the old one is {wanted}; the old one stays in use."
        )


def _swap(cluster: Cluster, old: Place, new: Place) -> None:
    """Move the alias atomically; this fails as a whole if either index is gone."""
    actions = [
        {"remove": {"index": old.index, "alias": cluster.name}},
        {"remove": {"index": old.index, "alias": old.write_alias}},
        {"add": {"index": new.index, "alias": cluster.name}},
    ]
    cluster.client.indices.update_aliases(body={"actions": actions})
