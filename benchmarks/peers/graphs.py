"""Libraries that walk a graph of near items."""

from collections.abc import Callable, Iterator

import numpy as np
from methods import Built, Ladder, Method, augmented, timed, widened

LINKS, BUILD_EFFORT = 24, 200  # links per item, and candidates examined for them
EFFORTS = (10, 20, 40, 80, 160, 320, 640, 1280)


def hnswlib_ip(item_factors: np.ndarray, threads: int) -> Iterator[Ladder]:
    """Hnswlib by inner product."""
    yield _hnswlib("hnswlib ip", "ip", item_factors, threads)


def hnswlib_augmented(item_factors: np.ndarray, threads: int) -> Iterator[Ladder]:
    """Hnswlib by distance over items that are made equally long."""
    yield _hnswlib("hnswlib augmented", "l2", augmented(item_factors), threads)


def _hnswlib(family: str, space: str, factors: np.ndarray, threads: int) -> Ladder:
    import hnswlib  # noqa: PLC0415

    width = factors.shape[1]

    def build() -> hnswlib.Index:
        index = hnswlib.Index(space=space, dim=width)
        index.init_index(max_elements=len(factors), ef_construction=BUILD_EFFORT, M=LINKS, random_seed=0)
        index.add_items(factors, num_threads=threads)
        return index

    index, seconds = timed(build)

    def ask(queries: np.ndarray, k: int, effort: int, threads: int) -> np.ndarray:
        index.set_ef(max(effort, k))
        return index.knn_query(widened(queries, width), k, num_threads=threads)[0].astype(np.int64)

    return _ladder(family, Built(seconds, index.index_file_size, "serialised"), ask)


def usearch_ip(item_factors: np.ndarray, threads: int) -> Iterator[Ladder]:
    """Usearch by inner product, in float32."""
    from usearch.index import Index  # noqa: PLC0415

    def build() -> Index:
        index = Index(ndim=item_factors.shape[1], metric="ip", dtype="f32", connectivity=LINKS,
                      expansion_add=BUILD_EFFORT, enable_key_lookups=False)  # fmt: skip
        index.add(np.arange(len(item_factors), dtype=np.uint64), item_factors, threads=threads)
        return index

    index, seconds = timed(build)

    def ask(queries: np.ndarray, k: int, effort: int, threads: int) -> np.ndarray:
        index.expansion_search = max(effort, k)
        found = index.search(queries[0] if len(queries) == 1 else queries, k, threads=threads)
        if len(queries) == 1:
            return found.keys[None].astype(np.int64)
        keys = found.keys.astype(np.int64)
        if np.any(found.counts < k):
            keys[np.arange(k) >= found.counts[:, None]] = -1
        return keys

    yield _ladder("usearch ip", Built(seconds, lambda: index.serialized_length, "serialised"), ask)


def voyager_ip(item_factors: np.ndarray, threads: int) -> Iterator[Ladder]:
    """Voyager by inner product, for which it makes items equally long itself."""
    import voyager  # noqa: PLC0415

    def build() -> voyager.Index:
        index = voyager.Index(voyager.Space.InnerProduct, item_factors.shape[1], M=LINKS, ef_construction=BUILD_EFFORT,
                              max_elements=len(item_factors), random_seed=0)  # fmt: skip
        index.add_items(item_factors, num_threads=threads)
        return index

    index, seconds = timed(build)

    def ask(queries: np.ndarray, k: int, effort: int, threads: int) -> np.ndarray:
        return index.query(queries, k, num_threads=threads, query_ef=max(effort, k))[0].astype(np.int64)

    yield _ladder("voyager ip", Built(seconds, lambda: len(index.as_bytes()), "serialised"), ask)


def _ladder(family: str, built: Built, ask: Callable[[np.ndarray, int, int, int], np.ndarray]) -> Ladder:
    def method(effort: int) -> Method:
        return Method(family, f"ef {effort}", built,
                   lambda queries, k, threads: ask(queries, k, effort, threads),
                   lambda query, k: ask(query[None], k, effort, 1))  # fmt: skip

    return [method(effort) for effort in EFFORTS]
