"""The interface to the native core: which kernels run, and at which SIMD level."""

import functools
import importlib.metadata
import os
import platform
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from tessella import _reference
from tessella._threads import thread_count

_native: ModuleType | None
try:
    from tessella import _native
except ImportError:
    _native = None

REFERENCE = "numpy"

Floats: TypeAlias = NDArray[np.float32]
Doubles: TypeAlias = NDArray[np.float64]
Pointers: TypeAlias = NDArray[np.int32] | NDArray[np.int64]


class NativeCore(Protocol):
    """The functions of the native core and of its NumPy reference; `_reference` documents each."""

    Engine: Any  # see retrieval/engine.py

    def first_nonfinite(self, factors: Floats, level: int) -> int: ...
    def prepare(
        self, factors: Floats, rotation: Doubles | None, threshold: float, relative: bool, prepared: Floats, level: int
    ) -> None: ...
    def count_entries(self, prepared: Floats, counts: NDArray[np.int64], level: int) -> int: ...
    def ternary_tiles(self, factors: Floats, max_nonzeros: int, tiles: NDArray[np.int8], level: int) -> None: ...
    def dary_tiles(self, factors: Floats, n_levels: int, exact: bool, tiles: NDArray[np.int8], level: int) -> None: ...
    def fill_entries(
        self,
        prepared: Floats,
        tiles: NDArray[np.int8],
        n_levels: int,
        depth: int,
        starts: Pointers,
        slots: Pointers,
        values: Floats,
        level: int,
    ) -> int: ...
    def inner_products(self, queries: Floats, items: Floats, products: Floats, level: int) -> None: ...
    def code_items(
        self,
        factors: Floats,
        rotated: Floats,
        n_head: int,
        codes: NDArray[np.int8],
        offsets: NDArray[np.int16],
        block_terms: Doubles,
        level: int,
    ) -> None: ...
    def sketch(self, factors: Floats, head: Doubles, sketches: Floats, level: int) -> None: ...
    def code_tile_items(
        self, factors: Floats, codes: NDArray[np.int8], offsets: NDArray[np.int16], scales: Floats, level: int
    ) -> None: ...
    def nearest_tiles(
        self,
        centres: Any,
        halves: Floats,
        factors: Floats,
        taken: NDArray[np.int32] | None,
        tiles: NDArray[np.int32],
        level: int,
    ) -> None: ...
    def reorder(self, factors: Floats, order: NDArray[np.int64]) -> None: ...
    def group_neighbours(
        self, factors: Floats, starts: NDArray[np.int64], members: NDArray[np.int32], level: int
    ) -> None: ...
    def scatter_ids(self, ids: NDArray[np.int64], slots: NDArray[np.int32]) -> None: ...
    def read_ids(self, lists: list[Any], ids: NDArray[np.int64]) -> bool: ...
    def find_ids(self, segment: Any, base: int, wanted: NDArray[Any], positions: NDArray[np.int64]) -> None: ...
    def list_columns(
        self,
        columns: Pointers,
        starts: NDArray[np.int64] | None,
        row_of_column: NDArray[np.int64] | None,
        without: _reference.Lists | None,
        rows: NDArray[np.int64],
        row_starts: NDArray[np.int64],
    ) -> int: ...


@dataclass(frozen=True)
class Core:
    """The kernels in use. Pass `level` to each function."""

    kernels: NativeCore
    level: int
    simd: str


def core() -> Core:
    """Return the kernels for this machine and the environment variable TESSELLA_SIMD."""
    return _core_for(os.environ.get("TESSELLA_SIMD", ""))


def simd_levels() -> list[str]:
    """Return the values that TESSELLA_SIMD can take on this machine, slowest first."""
    return [REFERENCE, *(_native.levels() if _native is not None else [])]


def levels_to_the_caller() -> int:
    """Return how many stack levels up the code that called tessella is."""
    own = str(Path(__file__).parent)
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(own):
        frame, level = frame.f_back, level + 1
    return level


@functools.cache
def _core_for(wanted: str) -> Core:
    names = simd_levels()
    if wanted and wanted not in names:
        raise ValueError(f"TESSELLA_SIMD is {wanted!r}, but must be one of {', '.join(map(repr, names))} here.")
    if _native is None and not wanted:
        warnings.warn(
            "tessella is running WITHOUT its native core and will be many times slower: the core was not built when "
            "tessella was installed. Install a C++ compiler and reinstall tessella with pip's --no-cache-dir, or set "
            "TESSELLA_SIMD=numpy to silence this warning.",
            RuntimeWarning,
            stacklevel=levels_to_the_caller(),
        )
    simd = wanted or names[-1]
    if simd == REFERENCE:
        return Core(_reference, 0, REFERENCE)
    return Core(cast(NativeCore, _native), names.index(simd) - 1, simd)


def show_config() -> None:
    """Print tessella's version, whether the native core is used, its SIMD level and the number of threads.

    Examples
    --------
    >>> import tessella as ts
    >>> ts.show_config()  # doctest: +ELLIPSIS
    tessella ...
    native ...
    """
    running = core()
    lines = {
        "tessella": importlib.metadata.version("tessella"),
        "native core": "no, NumPy reference" if running.simd == REFERENCE else "yes",
        "SIMD level": f"{running.simd} (TESSELLA_SIMD can be {', '.join(simd_levels())})",
        "threads": str(thread_count(None)),
        "Python": platform.python_version(),
        "NumPy": np.__version__,
        "machine": f"{platform.system()} {platform.machine()}",
    }
    print("\n".join(f"{name:<12} {value}" for name, value in lines.items()))  # noqa: T201
