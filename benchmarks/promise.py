"""Promised recall against actual recall, at several k and under filters.

An index is built for a target recall, with or without users to measure with. Then other users are searched for, by the
plan, as callers do who do not choose a method.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import sets
from filters import as_matrix
from workloads import Figures, Size

import tessella as ts

KS = (1, 10, 100, 500)
TARGETS = (0.95, 0.99)
SHORT = 0.005  # a promise is broken if recall is more than this below the target
BEST = 100  # best items to exclude
SHARES = (0.01, 0.1)
TOLD = 2000  # the most users to measure with
ASKED, ASKED_DEEP = 10_000, 2_000  # the most users to search for, and with 100 or more answers
FEW = 0.8


class Case(NamedTuple):
    """A set with two groups of users, and what those to search for have seen, if it is known."""

    name: str
    items: np.ndarray
    told: np.ndarray
    asked: np.ndarray
    seen: scipy.sparse.csr_matrix | None


def promise(size: Size, options: argparse.Namespace) -> Figures:
    """Print a line for each set, target, and whether users were given; with a flag if recall is too low."""
    print("\npromised and actual recall: built for a target recall, searched for other users than it was measured with")
    for case in cases(size, options.only):
        print(f"\n{case.name}: {len(case.items):,} x {case.items.shape[1]}, {len(case.asked):,} users")
        for told in (True, False):
            for target in TARGETS:
                yield had(case, target, told=told)


def cases(size: Size, only: str) -> Iterator[Case]:
    """Yield the available learned sets, and every generated kind."""
    for name in size.learned((*sets.LEARNED, *sets.EXPANDED), only):
        factors = sets.learned(name)
        kept = sets.sampled_items(len(factors.items), size.learned_items)
        seen = sets.seen(name)
        if seen is not None:
            seen = scipy.sparse.csr_matrix(seen[:, kept])
        yield halved(name, sets.Factors(factors.items[kept], factors.users), seen, size)
    made = {f"{kind} {n:,}": (kind, n) for kind, n in sets.MADE.items()}
    for name, (kind, n_items) in made.items():
        if only in name:
            n = min(n_items, size.learned_items or n_items)
            yield halved(name, sets.made(kind, n, 64, TOLD + ASKED), None, size)


def halved(name: str, factors: sets.Factors, seen: scipy.sparse.csr_matrix | None, size: Size) -> Case:
    """Split users: half, or as many as are needed, to measure with, and others to search for."""
    order = sets.sampled_users(len(factors.users), len(factors.users))
    half = len(order) // 2
    told, asked = order[: min(half, TOLD)], order[-min(half, ASKED, size.n_users if size.quick else ASKED) :]
    return Case(name, np.ascontiguousarray(factors.items), factors.users[told], factors.users[asked],
                None if seen is None else seen[asked])  # fmt: skip


def had(case: Case, target: float, *, told: bool) -> dict[str, object]:
    """Print and return the actual recall, by filter and k."""
    start = time.perf_counter()
    index = ts.Index.build(case.items, target_recall=target, queries=case.told if told else None)
    seconds = time.perf_counter() - start
    print(f"  built for {target:.2f} {'with' if told else 'without'} users in {seconds:.0f} s: {index.plan.method}")
    print(f"    {'':<22}" + "".join(f"{f'k = {k}':>18}" for k in KS) + f"   (users below {FEW} in brackets)")
    cells: dict[str, dict[str, dict[str, float]]] = {}
    for title, options in filters_of(case, index):
        row = cells[title] = {}
        for k in KS:
            n = min(len(case.asked), ASKED if k <= 10 else ASKED_DEEP)
            recalls = recalls_had(index, case.asked[:n], k, options(n))
            row[str(k)] = {"recall": float(recalls.mean()), "few": float(np.mean(recalls < FEW))}
        shown = [f"{cell['recall']:.4f} ({cell['few']:.3f}){flag(cell['recall'], target)}" for cell in row.values()]
        print(f"    {title:<22}" + "".join(f"{cell:>18}" for cell in shown))
    short = sum(cell["recall"] < target - SHORT for row in cells.values() for cell in row.values())
    print(f"    {short} of {sum(map(len, cells.values()))} more than {SHORT} below the target")
    return {"set": case.name, "n_items": len(case.items), "target": target, "told": told, "cells": cells,
            "method": str(index.plan.method), "short": short}  # fmt: skip


def flag(recall: float, target: float) -> str:
    """Return a mark if recall is too low."""
    return "!" if recall < target - SHORT else " "


def filters_of(case: Case, index: ts.Index) -> Iterator[tuple[str, Callable[[int], dict[str, Any]]]]:
    """Return filters by name; each is a function from a number of users to the options of a search."""
    yield "plain", lambda _n: {}
    if case.seen is not None:
        seen = case.seen
        yield "seen left out", lambda n: {"exclude": seen[:n]}
    best = index.search(case.asked, BEST, exact=True).ids
    yield f"best {BEST} left out", lambda n: {"exclude": as_matrix(best[:n].tolist(), len(case.items))}
    for share in SHARES:
        rows = np.random.default_rng(1).permutation(len(case.items))[: int(share * len(case.items))]
        yield f"{share:.0%} allowed", lambda _n, rows=rows: {"allow": rows}


def recalls_had(index: ts.Index, users: np.ndarray, k: int, options: dict[str, Any]) -> np.ndarray:
    """Return each user's tie-aware recall against exact search, which tests compare with brute force."""
    true = index.search(users, k, exact=True, **options).scores
    found = index.search(users, k, **options).scores
    wanted = np.isfinite(true).sum(axis=1)
    last = np.take_along_axis(true, np.maximum(wanted - 1, 0)[:, None], axis=1)
    hits = (found >= last - 1e-5 * np.abs(last)) & np.isfinite(found)
    return np.minimum(hits.sum(axis=1), wanted) / np.maximum(wanted, 1)
