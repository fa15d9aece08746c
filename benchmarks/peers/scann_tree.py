"""ScaNN: a tree, quantised scores inside its leaves, exact scores of the best."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from methods import Built, Ladder, Method, timed

PROBES = (1, 2, 3, 4, 6, 8, 10, 13, 16, 20, 26, 32, 48, 64, 96, 128, 192, 256)
REORDERED = (30, 60, 100, 200, 400, 1000, 2000, 5000, 10_000)
MANY_ITEMS = 200_000


def scann_tree(item_factors: np.ndarray, threads: int) -> Iterator[Ladder]:
    """Build trees with as many leaves as the square root of the number of items, and twice as many."""
    root = max(16, int(np.sqrt(len(item_factors))))
    for leaves in (root, 2 * root):
        yield from _ladders(item_factors, leaves, threads)


def _ladders(item_factors: np.ndarray, leaves: int, threads: int) -> Iterator[Ladder]:
    import scann  # noqa: PLC0415

    def build() -> "scann.ScannSearcher":
        builder = scann.scann_ops_pybind.builder(item_factors, 10, "dot_product")
        builder.set_n_training_threads(threads)
        builder = builder.tree(
            num_leaves=leaves, num_leaves_to_search=leaves // 4, training_sample_size=min(len(item_factors), 250_000)
        )
        return builder.score_ah(2, anisotropic_quantization_threshold=0.2).reorder(100).build()

    searcher, seconds = timed(build)
    built = Built(seconds, lambda: _serialised(searcher), "serialised")
    for reordered in REORDERED:
        yield [_method(searcher, built, leaves, probed, reordered) for probed in PROBES if probed <= leaves]


def _method(searcher: "scann.ScannSearcher", built: Built, leaves: int, probed: int, reordered: int) -> Method:  # noqa: F821
    def search(queries: np.ndarray, k: int, threads: int) -> np.ndarray:
        if threads == 1:
            found, _ = searcher.search_batched(queries, k, reordered, probed)
        else:
            searcher.set_num_threads(threads)
            found, _ = searcher.search_batched_parallel(
                queries, k, reordered, probed, batch_size=max(1, len(queries) // (4 * threads))
            )
        return found.astype(np.int64)

    def single(query: np.ndarray, k: int) -> object:
        return searcher.search(query, k, reordered, probed)

    def fits(k: int) -> bool:
        return 2 * k <= reordered <= max(1000, 20 * k)

    return Method("ScaNN", f"{probed} of {leaves} leaves, {reordered} reordered", built, search, single, fits)


def _serialised(searcher: "scann.ScannSearcher") -> int:  # noqa: F821
    with tempfile.TemporaryDirectory() as folder:
        searcher.serialize(folder)
        return sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
