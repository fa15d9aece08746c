"""The border to the native core: which kernels run, and at which SIMD level."""

import functools
import importlib.metadata
import os
import platform
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from tessella import _reference
from tessella._threads import thread_count

_native: ModuleType | None
try:
    from tessella import _native
except ImportError:
    _native = None

TWINS = "numpy"


class Kernels(Protocol):
    """What the native core and its NumPy twins both offer; `_reference` says what each function means."""

    def first_bad_row(self, factors: NDArray[np.float32], level: int) -> int: ...
    def prepare(
        self,
        factors: NDArray[np.float32],
        rotation: NDArray[np.float64] | None,
        threshold: float,
        relative: bool,
        prepared: NDArray[np.float32],
        level: int,
    ) -> None: ...
    def count_entries(self, prepared: NDArray[np.float32], counts: NDArray[np.int64], level: int) -> int: ...
    def ternary_tiles(
        self, factors: NDArray[np.float32], max_nonzeros: int, tiles: NDArray[np.int8], level: int
    ) -> None: ...
    def dary_tiles(
        self,
        factors: NDArray[np.float32],
        n_levels: int,
        exact: bool,
        tiles: NDArray[np.int8],
        level: int,
    ) -> None: ...
    def fill_entries(
        self,
        prepared: NDArray[np.float32],
        tiles: NDArray[np.int8],
        n_levels: int,
        depth: int,
        starts: NDArray[np.int32] | NDArray[np.int64],
        slots: NDArray[np.int32] | NDArray[np.int64],
        values: NDArray[np.float32],
        level: int,
    ) -> int: ...
    def code_queries(
        self,
        queries: NDArray[np.float32],
        head: NDArray[np.float64],
        largest: float,
        longest: float,
        codes: NDArray[np.uint8],
        terms: NDArray[np.float64],
        level: int,
    ) -> None: ...
    def find_ids(
        self,
        ids: NDArray[np.int64],
        by_id: NDArray[np.int32],
        dead: NDArray[np.uint8] | None,
        base: int,
        wanted: NDArray[np.int64],
        places: NDArray[np.int64],
        level: int,
    ) -> None: ...
    def sort_found(
        self, scores: NDArray[np.float32], answers: NDArray[np.int64], counts: NDArray[np.int64], level: int
    ) -> None: ...
    def code_items(
        self,
        factors: NDArray[np.float32],
        turned: NDArray[np.float32],
        n_head: int,
        largest: float,
        longest: float,
        room: float,
        codes: NDArray[np.int8],
        offsets: NDArray[np.int16],
        block_terms: NDArray[np.float64],
        level: int,
    ) -> None: ...
    def exact_scan(
        self,
        factors: NDArray[np.float32],
        rows: NDArray[np.int32],
        dead: NDArray[np.uint8] | None,
        base: int,
        codes: NDArray[np.int8],
        offsets: NDArray[np.int16],
        block_terms: NDArray[np.float64],
        queries: NDArray[np.float32],
        query_codes: NDArray[np.uint8],
        query_terms: NDArray[np.float64],
        allowed: NDArray[np.uint8] | None,
        excluded: NDArray[np.int64],
        excluded_starts: NDArray[np.int64],
        scores: NDArray[np.float32],
        answers: NDArray[np.int64],
        counts: NDArray[np.int64],
        scored: NDArray[np.int64],
        level: int,
    ) -> None: ...
    def slot_scan(
        self,
        factors: NDArray[np.float32],
        rows: NDArray[np.int32],
        dead: NDArray[np.uint8] | None,
        base: int,
        places: NDArray[np.uint16],
        impacts: NDArray[np.int8],
        slots: NDArray[np.int64],
        starts: NDArray[np.int64],
        scales: NDArray[np.float32],
        block_lists: NDArray[np.int64],
        queries: NDArray[np.float32],
        entry_starts: NDArray[np.int64],
        entry_slots: NDArray[np.int64],
        entry_values: NDArray[np.float32],
        allowed: NDArray[np.uint8] | None,
        excluded: NDArray[np.int64],
        excluded_starts: NDArray[np.int64],
        max_slots: int,
        min_overlap: int,
        longest: float,
        keys: NDArray[np.uint64],
        counts: NDArray[np.int64],
        level: int,
    ) -> None: ...
    def score_chosen(
        self,
        factors: NDArray[np.float32],
        rows: NDArray[np.int32],
        dead: NDArray[np.uint8] | None,
        base: int,
        block_terms: NDArray[np.float64],
        queries: NDArray[np.float32],
        allowed: NDArray[np.uint8] | None,
        excluded: NDArray[np.int64],
        excluded_starts: NDArray[np.int64],
        keys: NDArray[np.uint64],
        chosen_counts: NDArray[np.int64],
        scores: NDArray[np.float32],
        answers: NDArray[np.int64],
        counts: NDArray[np.int64],
        scored: NDArray[np.int64],
        unseen: NDArray[np.float64],
        level: int,
    ) -> None: ...
    def code_rows(
        self,
        factors: NDArray[np.float32],
        codes: NDArray[np.int8],
        offsets: NDArray[np.int16],
        scales: NDArray[np.float32],
        level: int,
    ) -> None: ...
    def code_askers(
        self,
        queries: NDArray[np.float32],
        codes: NDArray[np.uint8],
        terms: NDArray[np.float32],
        level: int,
    ) -> None: ...
    def nearest_tiles(
        self,
        codes: NDArray[np.int8],
        offsets: NDArray[np.int16],
        scales: NDArray[np.float32],
        halves: NDArray[np.float32],
        asker_codes: NDArray[np.uint8],
        asker_terms: NDArray[np.float32],
        taken: NDArray[np.int32] | None,
        tiles: NDArray[np.int32],
        level: int,
    ) -> None: ...
    def rank_tiles(
        self,
        codes: NDArray[np.int8],
        offsets: NDArray[np.int16],
        scales: NDArray[np.float32],
        n_factors: int,
        asker_codes: NDArray[np.uint8],
        asker_terms: NDArray[np.float32],
        reach: float,
        nears: NDArray[np.float32],
        level: int,
    ) -> None: ...
    def tile_scan(
        self,
        factors: NDArray[np.float32],
        rows: NDArray[np.int32],
        dead: NDArray[np.uint8] | None,
        base: int,
        places: NDArray[np.int32],
        starts: NDArray[np.int32],
        codes: NDArray[np.int8],
        offsets: NDArray[np.int16],
        scales: NDArray[np.float32],
        radii: NDArray[np.float32],
        queries: NDArray[np.float32],
        asker_codes: NDArray[np.uint8],
        asker_terms: NDArray[np.float32],
        nears: NDArray[np.float32],
        reach: float,
        allowed: NDArray[np.uint8] | None,
        excluded: NDArray[np.int64],
        excluded_starts: NDArray[np.int64],
        scores: NDArray[np.float32],
        answers: NDArray[np.int64],
        counts: NDArray[np.int64],
        scored: NDArray[np.int64],
        level: int,
    ) -> None: ...


@dataclass(frozen=True)
class Core:
    """The kernels in use. Pass `level` to each of them."""

    kernels: Kernels
    level: int
    simd: str


def core() -> Core:
    """The kernels this process uses, by the machine and the environment variable TESSELLA_SIMD."""
    return _core_for(os.environ.get("TESSELLA_SIMD", ""))


def simd_levels() -> list[str]:
    """The values TESSELLA_SIMD may take here, slowest first."""
    return [TWINS, *(_native.levels() if _native is not None else [])]


def _levels_to_the_caller() -> int:
    """How far up the stack the code that uses tessella is."""
    own = str(Path(__file__).parent)
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(own):
        frame, level = frame.f_back, level + 1
    return level


@functools.cache
def _core_for(wanted: str) -> Core:
    names = simd_levels()
    if wanted and wanted not in names:
        raise ValueError(f"TESSELLA_SIMD is {wanted!r}, but this machine has {', '.join(map(repr, names))}.")
    if _native is None and not wanted:
        warnings.warn(
            "tessella runs WITHOUT its native core, many times slower: it could not be built when tessella was "
            "installed. Install a C++ compiler and reinstall tessella with pip's --no-cache-dir, or set "
            "TESSELLA_SIMD=numpy to accept this.",
            RuntimeWarning,
            stacklevel=_levels_to_the_caller(),
        )
    simd = wanted or names[-1]
    if simd == TWINS:
        return Core(_reference, 0, TWINS)
    return Core(cast(Kernels, _native), names.index(simd) - 1, simd)


def native() -> ModuleType:
    """The native core, where it runs."""
    if _native is None:
        raise RuntimeError("the native core was not built")
    return _native


def show_config() -> None:
    """Print the version, whether the native core runs, its SIMD level and the number of threads.

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
        "native core": "no, NumPy twins" if running.simd == TWINS else "yes",
        "SIMD level": f"{running.simd} (TESSELLA_SIMD can be {', '.join(simd_levels())})",
        "threads": str(thread_count(None)),
        "Python": platform.python_version(),
        "NumPy": np.__version__,
        "machine": f"{platform.system()} {platform.machine()}",
    }
    print("\n".join(f"{name:<12} {value}" for name, value in lines.items()))  # noqa: T201
