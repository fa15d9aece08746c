"""Other libraries, tuned as an expert would, on one thread: ways to answer, and how long each took to build."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import faiss
import hnswlib
import numpy as np

Search = Callable[[np.ndarray, int], np.ndarray]


@dataclass(frozen=True)
class Peer:
    """One library at one setting."""

    name: str
    setting: str
    build_seconds: float
    search: Search


def augmented(item_factors: np.ndarray) -> np.ndarray:
    """Items with one more coordinate that makes them equally long: the nearest are those with the largest products."""
    squares = np.sum(item_factors.astype(np.float64) ** 2, axis=1)
    rest = np.sqrt(np.maximum(squares.max() - squares, 0))
    return np.ascontiguousarray(np.hstack([item_factors, rest[:, None]]), dtype=np.float32)


def flat(item_factors: np.ndarray) -> Peer:
    """Faiss's brute force."""
    start = time.perf_counter()
    index = faiss.IndexFlatIP(item_factors.shape[1])
    index.add(item_factors)
    return Peer("faiss Flat", "", time.perf_counter() - start, lambda queries, k: index.search(queries, k)[1])


def ivf_augmented(item_factors: np.ndarray) -> Iterator[Peer]:
    """Faiss's inverted file over augmented vectors, Euclidean."""
    wide = augmented(item_factors)
    n_lists = max(16, int(4 * np.sqrt(len(wide))))
    start = time.perf_counter()
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(wide.shape[1]), wide.shape[1], n_lists)
    index.cp.niter = 10
    index.train(wide)
    index.add(wide)
    seconds = time.perf_counter() - start

    def search_with(probes: int) -> Search:
        def search(queries: np.ndarray, k: int) -> np.ndarray:
            index.nprobe = probes
            return index.search(np.hstack([queries, np.zeros((len(queries), 1), np.float32)]), k)[1]

        return search

    for probes in (1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 64, 96, 128, 256):
        yield Peer("faiss IVF augmented", f"{n_lists} lists, {probes} probed", seconds, search_with(probes))


def hnsw(item_factors: np.ndarray) -> Iterator[Peer]:
    """Hnswlib by inner product."""
    start = time.perf_counter()
    index = hnswlib.Index(space="ip", dim=item_factors.shape[1])
    index.init_index(max_elements=len(item_factors), ef_construction=200, M=16)
    index.set_num_threads(1)
    index.add_items(item_factors)
    seconds = time.perf_counter() - start

    def search_with(ef: int) -> Search:
        def search(queries: np.ndarray, k: int) -> np.ndarray:
            index.set_ef(max(ef, k))
            return index.knn_query(queries, k, num_threads=1)[0].astype(np.int64)

        return search

    for ef in (20, 50, 100, 200, 400, 800):
        yield Peer("hnswlib ip", f"ef {ef}", seconds, search_with(ef))


def scann_tree(item_factors: np.ndarray) -> Iterator[Peer]:
    """ScaNN's tree with quantised scoring and reordering, where it is installed."""
    try:
        import scann  # noqa: PLC0415
    except ImportError:
        return
    leaves = max(16, int(np.sqrt(len(item_factors))))
    start = time.perf_counter()
    builder = scann.scann_ops_pybind.builder(item_factors, 10, "dot_product")
    builder = builder.tree(num_leaves=leaves, num_leaves_to_search=leaves // 4, training_sample_size=len(item_factors))
    searcher = builder.score_ah(2, anisotropic_quantization_threshold=0.2).reorder(100).build()
    seconds = time.perf_counter() - start

    def search_with(probed: int, reordered: int) -> Search:
        def search(queries: np.ndarray, k: int) -> np.ndarray:
            found, _ = searcher.search_batched(
                queries, final_num_neighbors=k, leaves_to_search=probed, pre_reorder_num_neighbors=reordered
            )
            return found.astype(np.int64)

        return search

    for share in (0.01, 0.02, 0.05, 0.1, 0.2, 0.4):
        for reordered in (30, 100, 200, 300, 1000):
            probed = max(1, int(share * leaves))
            setting = f"{probed} of {leaves} leaves, {reordered} reordered"
            yield Peer("ScaNN", setting, seconds, search_with(probed, reordered))
