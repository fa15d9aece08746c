"""A tile index grown tenfold by small adds against a fresh build, and the peak memory of a build."""

import argparse
import tempfile
from pathlib import Path

import measure
import memory_worker
import numpy as np
import ours
import sets
from race import Course, K
from workloads import Figures, Size

import tessella as ts

TIMES, BATCH = 10, 500  # growth factor, and items per add
MEMORY_GOAL, KEPT_GOAL = 2.5, 0.8


def grow(size: Size, options: argparse.Namespace) -> Figures:
    """Measure growth on the three learned sets and the learned million, and the memory of builds of a million."""
    for name in size.learned((*sets.LEARNED, sets.EXPANDED[0]), options.only):
        yield {"set": name, **grown(name, sets.learned(name).sample(size.n_users, size.learned_items), size)}
    if not options.only:
        yield from memory_of_builds(size)


def grown(name: str, factors: sets.Factors, size: Size) -> dict[str, object]:
    """Print and return throughput and recall of a grown and a fresh index, at the reach that the fresh one needs."""
    items, users = factors
    order = np.random.default_rng(0).permutation(len(items))
    first, *rest = np.split(order, np.arange(len(items) // TIMES, len(items), BATCH))
    index = ts.Index.build(items[first], first, method="tiles")
    for part in rest:
        index.add(items[part], part)
    fresh = ours.build_tiles(items)
    plan = fresh.tune(users)
    method = plan.method if isinstance(plan.method, ts.Tiles) else ts.Tiles(0.5)
    course = Course.over(name, factors)
    calls = {"grown": lambda: index.search(users, K, method=method, threads=1),
             "fresh": lambda: fresh.search(users, K, method=method, threads=1)}  # fmt: skip
    recalls = {side: course.recall(call().ids) for side, call in calls.items()}
    seconds = measure.alternate(calls, size.turns)
    kept = measure.median_ratio(seconds, "fresh", "grown")
    lost = recalls["fresh"] - recalls["grown"]
    print(f"\ngrow {name} from {len(first):,} to {len(items):,} items, {BATCH} per add, {method}")
    print(f"  throughput over a fresh build's {kept:.2f}{measure.goal(kept, least=KEPT_GOAL)}; recall "
          f"{recalls['grown']:.4f}, fresh {recalls['fresh']:.4f}{measure.goal(lost, most=0.005)}")  # fmt: skip
    rates = {side: len(users) / float(np.median(taken)) for side, taken in seconds.items()}
    return {"n_items": len(items), "kept": kept, "recall": recalls, "queries_per_second": rates, "method": str(method)}


def memory_of_builds(size: Size) -> Figures:
    """Print and yield the extra peak memory of builds, relative to that of the factors."""
    print(f"\nbuild of generated {size.many:,} x 64 in its own process: extra peak memory over the factors' memory")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "items.npy"
        np.save(path, sets.generated(size.many, 64, 1).items)
        for kind in ("auto", "tiles", "exact"):
            found = memory_worker.ask("build", path, kind)
            ratio = found["grown"] / found["given"]
            kept = found["kept"] / found["given"]
            goal = measure.goal(ratio, most=MEMORY_GOAL)
            print(f"  {kind:<6} {ratio:.2f}{goal}, kept {kept:.2f}, {found['seconds']:.1f} s")
            yield {"n_items": size.many, "method": kind, "peak_over_factors": ratio, **found}
