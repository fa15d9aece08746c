"""Peak memory of one call in a fresh process: the peak during the call minus the memory before it."""

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import tessella as ts

STATUS, PEAK = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def ask(command: str, *arguments: object) -> dict:
    """Run a command below in its own process, with malloc's defaults."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    called = [sys.executable, __file__, command, *map(str, arguments)]
    return json.loads(subprocess.run(called, env=plain, check=True, capture_output=True, text=True).stdout)


def forget_peak() -> int:
    """Reset the peak; return the bytes that this process has now."""
    if PEAK.exists():
        PEAK.write_text("5")
    return _bytes("VmRSS")


def peak() -> int:
    """Return the peak memory of this process since then, or since its start if the system cannot reset the peak."""
    return _bytes("VmHWM")


def _bytes(name: str) -> int:
    if STATUS.exists():
        return next(1024 * int(line.split()[1]) for line in STATUS.read_text().splitlines() if line.startswith(name))
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def build(items: str, kind: str) -> dict[str, float]:
    """Build an index."""
    factors = np.load(items)
    ts.Index.build(factors[:100], method="exact")  # loads modules before memory is measured
    before, start = forget_peak(), time.perf_counter()
    index = ts.Index.build(factors, method=kind)
    return {"given": factors.nbytes, "grown": peak() - before, "kept": index.nbytes,
            "seconds": time.perf_counter() - start}  # fmt: skip


def own_lists(items: str, users: str, n_ids: str) -> dict[str, float]:
    """Search with a list of allowed ids for every query, in int32 to save memory."""
    factors, queries, rng = np.load(items), np.load(users), np.random.default_rng(0)
    index = ts.Index.build(factors, method="exact")
    index.search(queries[:10], allow=[[1, 2]] * 10)
    n_items = len(factors)
    own = [np.sort(rng.permutation(n_items)[: int(n_ids)]).astype(np.int32) for _ in queries]
    given = sum(one.nbytes for one in own)
    before, start, cpu = forget_peak(), time.perf_counter(), time.process_time()
    index.search(queries, allow=own)
    seconds = time.perf_counter() - start
    return {"given": given, "grown": peak() - before, "seconds": seconds, "cpu_seconds": time.process_time() - cpu}


if __name__ == "__main__":
    print(json.dumps({"build": build, "own_lists": own_lists}[sys.argv[1]](*sys.argv[2:])))
