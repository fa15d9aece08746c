"""Faiss's inverted files: over factors, over items made equally long, and over codes with refinement."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from methods import Built, Ladder, Method, augmented, timed, widened

if TYPE_CHECKING:
    import faiss

PROBES = (1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128, 192, 256, 384, 512, 1024)
FEW_PROBES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024)
REFINED = (2, 3, 10, 30)  # times k: how many items are scored exactly
DEEPEST_REFINED = 3000  # items scored exactly; more than 10 k are never worth it beyond this
MANY_ITEMS = 200_000


def ivf_ip(item_factors: np.ndarray, threads: int) -> Iterator[Ladder]:
    """By inner product."""
    for n_lists in list_counts(len(item_factors))[:2]:
        yield _ivf("faiss IVF ip", item_factors, n_lists, threads, euclidean=False)


def ivf_augmented(item_factors: np.ndarray, threads: int) -> Iterator[Ladder]:
    """By distance over items that are made equally long."""
    wide = augmented(item_factors)
    for n_lists in list_counts(len(item_factors)):
        yield _ivf("faiss IVF augmented", wide, n_lists, threads, euclidean=True)


def ivf_pq_refined(item_factors: np.ndarray, threads: int) -> Iterator[Ladder]:
    """Four-bit codes of pairs of coordinates, compared in registers; the best are scored exactly."""
    kinds = {"augmented": augmented(item_factors)}
    if len(item_factors) <= MANY_ITEMS:
        kinds["ip"] = item_factors
    for kind, factors in kinds.items():
        yield from _ivf_pq(kind, factors, list_counts(len(factors))[0], threads)


def list_counts(n_items: int) -> list[int]:
    """Return how many lists an expert would try: 4 times the square root, and half and twice that if it is cheap."""
    usual = max(16, int(4 * np.sqrt(n_items)))
    return [usual] if n_items > MANY_ITEMS else [usual, usual // 2, 2 * usual]


def new_ivf(width: int, n_lists: int, *, euclidean: bool) -> "faiss.IndexIVFFlat":
    """Build an inverted file with faiss's own settings."""
    import faiss  # noqa: PLC0415

    quantizer = faiss.IndexFlatL2(width) if euclidean else faiss.IndexFlatIP(width)
    index = faiss.IndexIVFFlat(quantizer, width, n_lists, faiss.METRIC_L2 if euclidean else faiss.METRIC_INNER_PRODUCT)
    index.cp.min_points_per_centroid = 5  # no warning if there are few items per list
    return index


def _ivf(family: str, factors: np.ndarray, n_lists: int, threads: int, *, euclidean: bool) -> Ladder:
    from peers import faiss_threads  # noqa: PLC0415

    def build() -> "faiss.Index":
        faiss_threads.use(threads)
        index = new_ivf(factors.shape[1], n_lists, euclidean=euclidean)
        _train_within_reason(index, len(factors))
        index.train(factors)
        index.add(factors)
        return index

    index, seconds = timed(build)
    built = Built(seconds, lambda: _serialised(index), "serialised")
    return [_method(family, f"{n_lists} lists, {probes} probed", built, index, index, probes)
            for probes in PROBES if probes <= n_lists]  # fmt: skip


def _ivf_pq(kind: str, factors: np.ndarray, n_lists: int, threads: int) -> Iterator[Ladder]:
    import faiss  # noqa: PLC0415

    from peers import faiss_threads  # noqa: PLC0415

    padded = np.ascontiguousarray(widened(factors, factors.shape[1] + factors.shape[1] % 2))
    width = padded.shape[1]
    metric, quantizer = (
        (faiss.METRIC_L2, faiss.IndexFlatL2(width))
        if kind == "augmented"
        else (faiss.METRIC_INNER_PRODUCT, faiss.IndexFlatIP(width))
    )

    def build() -> tuple[faiss.Index, faiss.Index]:
        faiss_threads.use(threads)
        base = faiss.IndexIVFPQFastScan(quantizer, width, n_lists, width // 2, 4, metric)
        base.cp.min_points_per_centroid = 5
        _train_within_reason(base, len(padded))
        index = faiss.IndexRefineFlat(base)
        index.train(padded)
        index.add(padded)
        return index, base

    (index, base), seconds = timed(build)
    built = Built(seconds, lambda: _serialised(index), "serialised")
    for refined in REFINED:
        yield [_method("faiss IVF-PQ refined", f"{kind}, {n_lists} lists, {probes} probed, {refined} k refined", built,
                    index, base, probes, refined) for probes in FEW_PROBES if probes <= n_lists]  # fmt: skip


def _method(
    family: str,
    setting: str,
    built: Built,
    index: "faiss.Index",
    lists: "faiss.IndexIVF",
    probes: int,
    refined: int | None = None,
) -> Method:
    from peers import faiss_threads  # noqa: PLC0415

    def search(queries: np.ndarray, k: int, threads: int) -> np.ndarray:
        faiss_threads.use(threads)
        lists.nprobe = probes
        if refined is not None:
            index.k_factor = refined
        return index.search(widened(queries, index.d), k)[1]

    def fits(k: int) -> bool:
        return refined is None or refined * k <= DEEPEST_REFINED or refined <= 10

    return Method(family, setting, built, search, lambda query, k: search(query[None], k, 1), fits)


def _train_within_reason(index: "faiss.IndexIVF", n_items: int) -> None:
    """Return items to train on: of very many items, 64 per list are enough; faiss itself asks for at least 39."""
    if n_items > MANY_ITEMS:
        index.cp.max_points_per_centroid = 64


def _serialised(index: "faiss.Index") -> int:
    import faiss  # noqa: PLC0415

    return int(faiss.serialize_index(index).nbytes)
