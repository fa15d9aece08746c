"""Faiss has two thread settings: OpenMP's, and that of its bundled BLAS."""

import functools

import faiss
from threadpoolctl import ThreadpoolController


def use(threads: int) -> None:
    """Set the number of threads that faiss uses; costs nothing if it is set already."""
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
