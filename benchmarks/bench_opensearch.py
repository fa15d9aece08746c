"""Recall, throughput and latency of slots search in an OpenSearch cluster, compared with slots search in one process.

Starts three nodes on this machine (opensearch_cluster.py says how to use others) and stores items in three shards with
a replica each. Runs the same queries with each setting, by scoring all items on the shards, and in this process. Prints
the figures and appends them to results/opensearch.jsonl. All nodes and the client share this machine's CPUs.
"""

import argparse
import contextlib
import os
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

import measure
import numpy as np
import opensearch_cluster
import sets
from opensearchpy import OpenSearch

import tessella as ts
from tessella.opensearch import OpenSearchIndex
from tessella.search.recall import recall

SHARDS, REPLICAS, K = 3, 1, 10
SETTINGS = {"fast": {"budget": 100, "max_slots": 12}, "thorough": {"budget": 400, "max_slots": 24}}
SMALL, LARGE = "gowalla-als-alpha20-k64", "gowalla-x-als-1m"
STATS_SECONDS = 11  # after this time, OpenSearch's statistics show the size of its files
LEASE_SECONDS = 60  # after this time, merges drop the history that replicas need to catch up
WARM_ROUNDS, ROUNDS = 5, 5
ALL_SCORED = 20  # queries for which all items are scored

Ask: TypeAlias = Callable[[np.ndarray], ts.SearchResult]


def main() -> None:
    """Measure each requested set of factors that is available."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=[SMALL], help=f"sets of learned factors, such as {LARGE}")
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--single", type=int, default=300, help="number of queries that are run one by one")
    asked = parser.parse_args()
    measure.settle_process()
    missing = [name for name in asked.names if name not in sets.learned_names()]
    if missing:
        sys.exit(f"There are no factors {missing[0]} in {sets.DATA} or {sets.CACHE}; `make learned` makes some.")
    with opensearch_cluster.any_cluster() as (urls, cluster):
        client = OpenSearch(urls, timeout=600)
        for name in asked.names:
            figures = measured(client, cluster, name, sets.learned(name).sample(asked.queries), asked.single)
            measure.record("opensearch", figures)


def measured(
    client: OpenSearch, cluster: opensearch_cluster.Cluster | None, name: str, factors: sets.Factors, n_single: int
) -> dict[str, object]:
    """Return the figures of one set of factors."""
    items, users = (part.astype(np.float32) for part in factors)
    index = OpenSearchIndex(client, f"bench-{name}", timeout=600)
    with contextlib.suppress(ValueError):
        index.drop()
    index.create(SHARDS, REPLICAS, item_factors=items)
    start = time.perf_counter()
    index.add(items, np.arange(len(items)), refresh=True)
    stored = len(items) / (time.perf_counter() - start)
    print(f"\n{name}: {len(items):,} x {items.shape[1]}, {SHARDS} shards, {REPLICAS} replica")
    here = ts.Index.build(items, method="exact", threads=1)
    true = here.search(users, K, exact=True).scores
    calls = {name: partial(index.search, k=K, **options) for name, options in SETTINGS.items()}
    calls["exact"] = partial(index.search, k=K, exact=True)
    found = timed(calls, users, n_single, true, cluster)
    for setting, options in SETTINGS.items():
        method = ts.Slots(**options)
        found[setting] |= options
        own = float(recall(here.search(users, K, method=method, threads=1).scores, true).mean())
        found[setting]["recall_in_process"] = own
        print(f"  {setting:<9} {method!s:<30} {shown(found[setting])}; recall in one process {own:.4f}")
    print(f"  {'exact':<9} {'all items, on the shards':<30} {shown(found['exact'])}")
    fresh, merged = sizes(client, index)
    print(f"  {stored:,.0f} items a second stored; {fresh:,.0f} bytes per item on disk, {merged:,.0f} once merged, "
          "without the replica")  # fmt: skip
    index.drop()
    return {
        "set": name, "n_items": len(items), "n_factors": items.shape[1], "k": K, "shards": SHARDS, "replicas": REPLICAS,
        "stored_per_second": stored, "bytes_per_item": fresh, "merged_bytes_per_item": merged, "found": found,
    }  # fmt: skip


def timed(
    calls: dict[str, Ask],
    users: np.ndarray,
    n_single: int,
    true: np.ndarray,
    cluster: opensearch_cluster.Cluster | None,
) -> dict[str, dict[str, float | None]]:
    """Return recall, queries per second in one call, times of single queries, and the nodes' CPU time per query.

    Calls take turns. The first rounds do not count, because the nodes still compile their code.
    """
    seconds, spent = ({name: [] for name in calls} for _ in range(2))
    answers = {}
    for turn in range(WARM_ROUNDS + ROUNDS):
        for name, ask in calls.items():
            asked = users[:ALL_SCORED] if name == "exact" else users
            before, start = cpu_seconds(cluster), time.perf_counter()
            answers[name] = ask(asked)
            if turn >= WARM_ROUNDS:
                seconds[name].append((time.perf_counter() - start) / len(asked))
                spent[name].append((cpu_seconds(cluster) - before) / len(asked))
    single = measure.latencies(calls, users[:n_single])
    found = {}
    for name in calls:
        middle, slow = measure.middle_and_slow(single[name])
        scores = answers[name].scores
        found[name] = {
            "recall": float(recall(scores, true[: len(scores)]).mean()),
            "scored": float(answers[name].n_scored.mean()),
            "queries_per_second": 1 / statistics.median(seconds[name]),
            "median_ms": middle / 1000,
            "slow_ms": slow / 1000,
            "node_cpu_ms": None if cluster is None else 1000 * statistics.median(spent[name]),
        }
    return found


def sizes(client: OpenSearch, index: OpenSearchIndex) -> tuple[float, float]:
    """Return the bytes per item on disk, before and after segments are merged."""
    client.indices.flush(index=index.name)
    time.sleep(LEASE_SECONDS)
    before = index.stats()
    client.indices.forcemerge(index=index.name, params={"max_num_segments": 1, "request_timeout": 3600})
    for step in (client.indices.flush, client.indices.refresh):
        step(index=index.name)
    time.sleep(STATS_SECONDS)
    return before.n_bytes / before.n_items, index.stats().n_bytes / before.n_items


def shown(row: dict[str, float | None]) -> str:
    """Format a row of figures."""
    spent = "" if row["node_cpu_ms"] is None else f", {row['node_cpu_ms']:.1f} ms of the nodes' CPUs each"
    return (
        f"recall {row['recall']:.4f}, {row['queries_per_second']:>5,.0f} queries/s{spent}; one by one "
        f"{row['median_ms']:.1f} ms, 99% {row['slow_ms']:.1f} ms"
    )


def cpu_seconds(cluster: opensearch_cluster.Cluster | None) -> float:
    """Return the CPU time that the nodes have used so far, if we started them."""
    if cluster is None:
        return 0.0
    ticks = 0
    for node in cluster.nodes:
        if node.process is not None:
            numbers = Path(f"/proc/{node.process.pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(numbers[11]) + int(numbers[12])
    return ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
