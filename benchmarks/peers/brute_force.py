"""Libraries that score every item."""

from collections.abc import Iterator

import numpy as np
from methods import Built, Ladder, Method, timed


def faiss_flat(item_factors: np.ndarray, threads: int) -> Iterator[Ladder]:
    """Faiss's brute force, through BLAS."""
    import faiss  # noqa: PLC0415

    from peers import faiss_threads  # noqa: PLC0415

    def build() -> faiss.Index:
        faiss_threads.use(threads)
        index = faiss.IndexFlatIP(item_factors.shape[1])
        index.add(item_factors)
        return index

    index, seconds = timed(build)

    def search(queries: np.ndarray, k: int, threads: int) -> np.ndarray:
        faiss_threads.use(threads)
        return index.search(queries, k)[1]

    built = Built(seconds, lambda: item_factors.nbytes, "arrays")
    yield [Method("faiss Flat", "", built, search, lambda query, k: search(query[None], k, 1))]


def implicit_topk(item_factors: np.ndarray, threads: int) -> Iterator[Ladder]:
    """The top-k kernel behind implicit's `recommend`; each of its threads uses one BLAS thread, as it advises."""
    from implicit.cpu.topk import topk  # noqa: PLC0415

    del threads  # there is nothing to build

    def search(queries: np.ndarray, k: int, threads: int) -> np.ndarray:
        return topk(item_factors, queries, k, num_threads=threads)[0].astype(np.int64)

    built = Built(0.0, lambda: item_factors.nbytes, "arrays")
    yield [Method("implicit topk", "", built, search, lambda query, k: topk(item_factors, query, k, num_threads=1))]
