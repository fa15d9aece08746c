"""Twins of tile search: codes of rows and askers, the tiles that may hold answers, and the items in them."""

# ruff: noqa: ARG001

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tessella._reference.common import Doubles, Floats, nearest, offer, present, sums_of_squares

GROUP = 16
LONGEST_ROW = 214.0
LONGEST_ASKER = 152.0
LARGEST = np.float32(3.4e38)
INFINITY = np.float32(np.inf)


def _half_steps(code_size: int) -> float:
    """How far a code may lie from what it stands for, in steps."""
    return float(0.5 * np.sqrt(code_size))


def _steps(factors: Floats, norms: Doubles, most: float, longest: float) -> Floats:
    """What one step of each row's code stands for."""
    steps = np.maximum(norms / longest, np.abs(factors).max(axis=1, initial=0).astype(np.float64) / most) * (1.0 + 1e-6)
    smallest: Floats = np.maximum(steps.astype(np.float32), np.float32(1e-30))
    return smallest


def code_rows(factors: Floats, codes: NDArray[np.int8], offsets: NDArray[np.int16], scales: Floats, level: int) -> None:
    """Code rows in groups of 16, each in steps of its own scale; offsets are -64 times the sums of codes."""
    n, padded = len(factors), len(offsets)
    if not padded:
        return
    size = len(codes) // padded
    whole = np.zeros((padded, size))
    scales[:] = 0
    scales[:n] = _steps(factors, np.sqrt(sums_of_squares(factors)), 127.0, LONGEST_ROW - _half_steps(size))
    inverse = 1.0 / scales[:n].astype(np.float64)
    whole[:n, : factors.shape[1]] = nearest(factors.astype(np.float64) * inverse[:, None])
    codes[:] = whole.astype(np.int8).reshape(-1, GROUP, size // 2, 2).transpose(0, 2, 1, 3).ravel()
    offsets[:] = (-64 * whole.sum(axis=1)).astype(np.int64).astype(np.uint16).view(np.int16)


def code_askers(queries: Floats, codes: NDArray[np.uint8], terms: Floats, level: int) -> None:
    """Code queries, or items that look for their tile; scales and norms."""
    norms = np.sqrt(sums_of_squares(queries))
    scales = _steps(queries, norms, 63.0, LONGEST_ASKER - _half_steps(codes.shape[1]))
    codes[:] = 64
    codes[:, : queries.shape[1]] = 64 + nearest(
        queries.astype(np.float64) * (1.0 / scales.astype(np.float64))[:, None]
    ).astype(np.int64)
    terms[:, 0], terms[:, 1] = scales, norms * (1.0 + 1e-6) + 2.0**-126  # below, floats are coarse


def _rounding_room(n_factors: int) -> float:
    """The share of a product of norms that a score in float32 may stray, with some to spare."""
    return n_factors * 2.0**-23 + 3e-7


def _slack(scale: np.float32, norm: np.float32, n_factors: int, code_size: int, reach: float) -> np.float32:
    """What may be missing from a product of codes, in their steps: both codes lie off, and scores are rounded."""
    half, length, room = _half_steps(code_size), float(norm) / float(scale), _rounding_room(n_factors)
    return np.float32(reach * reach * ((length + half) * half + LONGEST_ROW * (half + room * length) + 1.0))


def _length(norm: np.float32, n_factors: int, code_size: int) -> np.float32:
    """What a row scores at most, in steps of its scale: its code is as long as a code may be, or shorter."""
    length = float(norm) * (LONGEST_ROW - _half_steps(code_size)) * (1.0 + _rounding_room(n_factors))
    return np.float32(length) if length < LARGEST else INFINITY


def _bounds(
    codes: NDArray[np.int8],
    offsets: NDArray[np.int16],
    scales: Floats,
    asker: NDArray[np.uint8],
    slack: np.float32,
    rows: slice = slice(None),
) -> Floats:
    """(Product + slack) * the row's scale, for some rows: in steps of the asker's scale, at least the score."""
    whole = codes.reshape(-1, len(asker) // 2, GROUP, 2).transpose(0, 2, 1, 3).reshape(-1, len(asker))[rows]
    products = (whole.astype(np.int64) @ asker.astype(np.int64) + offsets[rows]).astype(np.uint16).view(np.int16)
    with np.errstate(over="ignore"):
        return _finite((products.astype(np.float32) + slack) * scales[rows])


def _finite(bounds: Floats) -> Floats:
    """Bounds without infinities, which mark what is not there."""
    clipped: Floats = np.clip(bounds, -LARGEST, LARGEST)
    return clipped


def nearest_tiles(
    codes: NDArray[np.int8],
    offsets: NDArray[np.int16],
    scales: Floats,
    halves: Floats,
    asker_codes: NDArray[np.uint8],
    asker_terms: Floats,
    taken: NDArray[np.int32] | None,
    tiles: NDArray[np.int32],
    level: int,
) -> None:
    """The first tile with the greatest product less half the squared norm of its centre; not the one taken."""
    for number, (asker, (scale, _)) in enumerate(zip(asker_codes, asker_terms, strict=True)):
        with np.errstate(over="ignore"):
            values = _bounds(codes, offsets, scales, asker, np.float32(0))[: len(halves)] * scale - halves
        if taken is not None:
            values[taken[number]] = -np.inf
        tiles[number] = np.argmax(values)


def rank_tiles(
    codes: NDArray[np.int8],
    offsets: NDArray[np.int16],
    scales: Floats,
    n_factors: int,
    asker_codes: NDArray[np.uint8],
    asker_terms: Floats,
    reach: float,
    nears: Floats,
    level: int,
) -> None:
    """What each query and each centre score at most, as far as `reach` believes; minus infinity beyond the last."""
    for number, (asker, (scale, norm)) in enumerate(zip(asker_codes, asker_terms, strict=True)):
        slack = _slack(scale, norm, n_factors, len(asker), reach)
        bounds = _bounds(codes, offsets, scales, asker, slack)
        with np.errstate(over="ignore"):
            products = np.where(bounds < LARGEST, _finite(bounds * scale), LARGEST)
        nears[number] = np.where(scales > 0, products, -np.inf)


@dataclass
class _Visitor:
    """A query on its way through the tiles of a segment."""

    factor: Floats
    factors: Floats
    rows: NDArray[np.int32]
    base: int
    may_answer: NDArray[np.bool_]  # not excluded, by place
    there: NDArray[np.bool_]  # by place
    scale: np.float32
    length: np.float32  # times the scale of a row: what the row, or a shorter one, scores at most
    scores: Floats
    answers: NDArray[np.int64]
    count: int
    n_classes: int
    scored: int = 0

    @property
    def limit(self) -> np.float32:
        """The least bound worth scoring, in steps of the query's scale."""
        if self.count < len(self.scores):
            return np.float32(-LARGEST)
        with np.errstate(over="ignore"):
            return np.float32(np.clip(self.worst / self.scale, -LARGEST, LARGEST))

    @property
    def worst(self) -> np.float32:
        """The k-th best score so far, less what products may lose or gain near zero, where floats are even."""
        lost = np.float32(self.factors.shape[1] * 2.0**-148)
        return np.float32(self.scores[-1] - lost) if self.count == len(self.scores) else np.float32(-LARGEST)

    def first_too_short(self, scales: Floats, start: int, stop: int) -> int:
        """Where a tile's items, which are by falling norm, become too short for the query; looks once a group."""
        row = start
        with np.errstate(over="ignore"):
            while row < stop and self.length * scales[row] >= self.worst:
                row = row // GROUP * GROUP + GROUP
        return min(row, stop)

    def take(self, places: NDArray[np.int32], bounds: Floats, limit: np.float32, done: np.float32) -> None:
        """Score, one after another, items with bounds from a limit, which rises, up to those dealt with."""
        for place, bound in zip(places, bounds, strict=True):
            if not max(limit, self.limit) <= bound < done or not self.there[place]:
                continue
            self.scored += 1
            answer = int(self.rows[place]) << 32 | (self.base + int(place))
            if self.may_answer[place] and answer not in self.answers[: self.count]:
                at = np.array([place], np.int64)
                self.count = offer(
                    self.factor, self.factors, self.rows, self.base, at, self.scores, self.answers, self.count
                )

    def take_promising(self, places: NDArray[np.int32], bounds: Floats) -> np.float32:
        """Score what the best classes of items promise until there are k answers; from where on all are dealt with."""
        classes = np.full(self.n_classes, -LARGEST, np.float32)
        np.maximum.at(classes, np.arange(len(bounds)) % self.n_classes, bounds)
        promises = -np.sort(-classes[classes > -LARGEST])
        done, wanted = INFINITY, len(self.scores) - self.count
        while self.count < len(self.scores) and wanted <= len(promises) and done > -LARGEST:
            least = promises[wanted - 1]
            self.take(places, bounds, least, done)
            done, wanted = least, 2 * wanted
        return done

    def visit(self, places: NDArray[np.int32], bounds: Floats) -> None:
        """Score the items of a tile that may be among the best."""
        if len(places):
            done = self.take_promising(places, bounds) if self.count < len(self.scores) else INFINITY
            self.take(places, bounds, np.float32(-LARGEST), done)


def tile_scan(
    factors: Floats,
    rows: NDArray[np.int32],
    dead: NDArray[np.uint8] | None,
    base: int,
    places: NDArray[np.int32],
    starts: NDArray[np.int32],
    codes: NDArray[np.int8],
    offsets: NDArray[np.int16],
    scales: Floats,
    radii: Floats,
    queries: Floats,
    asker_codes: NDArray[np.uint8],
    asker_terms: Floats,
    nears: Floats,
    reach: float,
    allowed: NDArray[np.uint8] | None,
    excluded: NDArray[np.int64],
    excluded_starts: NDArray[np.int64],
    scores: Floats,
    answers: NDArray[np.int64],
    counts: NDArray[np.int64],
    scored: NDArray[np.int64],
    level: int,
) -> None:
    """Take each query to tile 0, to its most hopeful tiles until it has k answers, then to all that may hold better."""
    there = present(rows, dead, allowed)
    n_tiles, k = len(starts) - 2, scores.shape[1]
    largest = int(np.diff(starts).max())
    n_classes = -(-2 * min(k, largest) // 32) * 32
    for query, factor in enumerate(queries):
        scale, norm = asker_terms[query]
        slack = _slack(scale, norm, factors.shape[1], asker_codes.shape[1], reach)
        seen = excluded[excluded_starts[query] : excluded_starts[query + 1]]
        count = int(counts[query])
        order = np.lexsort((answers[query, :count], -scores[query, :count]))  # from a heap to best first
        scores[query, :count], answers[query, :count] = scores[query, order], answers[query, order]
        visitor = _Visitor(
            factor, factors, rows, base, ~np.isin(rows, seen), there,
            scale, _length(norm, factors.shape[1], asker_codes.shape[1]),
            scores[query], answers[query], count, n_classes,
        )  # fmt: skip
        bounds = _bounds(codes, offsets, scales, asker_codes[query], slack)
        with np.errstate(over="ignore"):
            hopes = np.minimum(nears[query] + np.float32(reach * float(norm)) * radii, LARGEST)[:n_tiles]

        def visit(tile: int, visitor: _Visitor = visitor, bounds: Floats = bounds) -> None:
            start = int(starts[tile])
            stop = visitor.first_too_short(scales, start, int(starts[tile + 1]))
            visitor.visit(places[start:stop], bounds[start:stop])

        visit(0)
        floor, opening = INFINITY, True
        while (opening or visitor.count < k) and (hopes < floor).any():
            opening, most = False, hopes[hopes < floor].max()
            for tile in np.flatnonzero(hopes == most).tolist():
                visit(1 + tile)
            floor = most
        for tile in np.flatnonzero(hopes < floor).tolist():
            if hopes[tile] >= visitor.worst:
                visit(1 + tile)
        counts[query] = visitor.count
        scored[query] += visitor.scored
