"""Faiss counts its threads in two places: OpenMP, and the BLAS that it brings along."""

import functools

import faiss
from threadpoolctl import ThreadpoolController


def use(threads: int) -> None:
    """Let faiss use so many threads from now on; costs nothing where it does already."""
    if faiss.omp_get_max_threads() != threads or _last.get("blas") != threads:
        faiss.omp_set_num_threads(threads)
        for library in _own_blas():
            library.set_num_threads(threads)
        _last["blas"] = threads


_last: dict[str, int] = {}


@functools.cache
def _own_blas() -> list:
    libraries = ThreadpoolController().lib_controllers
    return [library for library in libraries if library.user_api == "blas" and "faiss" in library.filepath]
