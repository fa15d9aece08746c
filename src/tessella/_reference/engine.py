"""The engine in NumPy: what native/engine.hpp does, in the order in which one would explain it.

Answers, certificates and candidates are those of the native engine, bit for bit. Exact and slots search skip no items
here, so `n_scored` may be larger.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella import _numbers as numbers
from tessella._packing import candidate_positions, positions_of
from tessella._reference import slots as by_slots
from tessella._reference.arithmetic import Doubles, Floats, sums_of_squares
from tessella._reference.best import Best, QueryFilter
from tessella._reference.ids import Lists, fill_lists, find_ids
from tessella._reference.tiles import TileQuery, Visitor, gather_tiles, scan_tiles


class Engine:
    """Holds the arrays of one version of an index, and searches them by any method."""

    def __init__(
        self,
        head: Doubles,
        longest: float,
        longest_held: float,
        centres: Any,
        radii: Floats | None,
        segments: Sequence[Any],
    ) -> None:
        self.n_factors, self.head = len(head), head
        self.longest, self.longest_held = longest, longest_held
        self.centres, self.radii = centres, radii
        self.segments = list(segments)
        self.n_live = sum(segment.n_live for segment in self.segments)

    def search(self, queries: Floats, setting: Any, entries: Any, row_filter: Any, answers: Any, level: int) -> int:  # noqa: ARG002
        """Fill in the answers to all queries; return -1, or the first query that is not finite or too long."""
        ids, scores, n_scored, certified = answers
        asked = queries.reshape(-1, self.n_factors)
        k = ids.shape[-1]
        with np.errstate(over="ignore", invalid="ignore"):
            norms = np.sqrt(sums_of_squares(asked))
            fits = (norms <= numbers.LARGEST_NORM) & (norms * self.longest <= numbers.LARGEST_PRODUCT)
        if not fits.all():
            return int(np.argmin(fits))
        ids, scores = ids.reshape(len(asked), k), scores.reshape(len(asked), k)
        for number, query in enumerate(asked):
            best = Best(query, min(k, self.n_live))
            n_allowed = None if row_filter is None or row_filter[0] is None else row_filter[1]
            rules = QueryFilter.of(number, row_filter)
            certified[number] = self._search_one(best, setting, _of_query(entries, number), rules, n_allowed)
            found = len(best.scores)
            ids[number, :found], scores[number, :found] = self._ids(best.ranks), best.scores
            ids[number, found:], scores[number, found:] = -1, -np.inf
            n_scored[number] = best.n_scored
        return -1

    def _search_one(self, best: Best, setting: Any, entries: Any, rules: QueryFilter, n_allowed: int | None) -> bool:
        """Fill in the best answers to one query; return whether they are certified."""
        n_left = n_allowed if rules.only is None else len(rules.only)
        if not best.k or not best.query.any():  # for a query of zeros, the items that were added first
            self._score_all(best, rules)
            best.scores[:], best.n_scored = 0, len(best.scores)
            return True
        if n_left is not None and n_left <= numbers.few_allowed(self.n_live):
            self._score_all(best, rules)
            best.n_scored = n_left
            return True
        if setting.method == numbers.SLOTS and setting.budget == 0:
            return self._score_sharing(best, entries, rules, setting)
        if setting.method == numbers.SLOTS:
            return self._search_by_slots(best, entries, rules, setting)
        repeats = any(s.tiles is not None and s.tiles.n_members > len(s.rows) for s in self.segments)
        if setting.method == numbers.TILES and not (repeats and best.k > numbers.MOST_WITH_REPEATS):
            coded = TileQuery.of(best.query, self.head, setting.reach)
            bounds = coded.tile_bounds(self.centres, np.asarray(self.radii))
            if best.k >= numbers.SCORED_LAST and not repeats:
                gather_tiles(list(self._parts()), coded, bounds, best, rules)
            else:
                visitors = [Visitor(segment, base, coded, best, rules) for segment, base in self._parts()]
                for visitor in visitors:
                    visitor.visit(0)
                for visitor in visitors:
                    scan_tiles(visitor, bounds)
            return bool(setting.reach >= 1)
        if setting.method not in (numbers.EXACT, numbers.TILES):
            raise ValueError(f"there is no method {setting.method}")
        return self._score_all(best, rules)

    def _score_all(self, best: Best, rules: QueryFilter) -> bool:
        """Exact search, without codes and bounds: score every item that may answer."""
        for segment, base in self._parts():
            best.score(segment, base, np.flatnonzero(rules.allows(segment) & ~rules.excludes(segment)))
        return True

    def _search_by_slots(self, best: Best, entries: Any, rules: QueryFilter, setting: Any) -> bool:
        """Score the candidates with the largest partial products; if they are too few, search exactly."""
        keys = self._chosen(best.query, entries, rules, setting.budget, setting)
        positions = np.sort(candidate_positions(keys))
        unseen = -np.inf
        for segment, base in self._parts():
            here = positions[(positions >= base) & (positions < base + len(segment.rows))] - base
            unseen = max(unseen, by_slots.unseen_bound(segment, here, best.query, rules))
            best.score(segment, base, here)
        if best.is_full:
            return bool(unseen == -np.inf or best.scores[-1] > unseen)
        return self._start_again_exactly(best, rules) if unseen > -np.inf else True

    def _start_again_exactly(self, best: Best, rules: QueryFilter) -> bool:
        """Search exactly for a query that got fewer than k answers, although more items may answer."""
        best.scores, best.ranks = best.scores[:0], best.ranks[:0]
        return self._score_all(best, rules)

    def _score_sharing(self, best: Best, entries: Any, rules: QueryFilter, setting: Any) -> bool:
        """Score every item that shares enough slots: the paper's own rule."""
        slots, _ = by_slots.heaviest(entries, setting.max_slots)
        for segment, base in self._parts():
            sharing = by_slots.sharing(segment, slots, setting.min_overlap)
            sharing = sharing[rules.allows(segment)[sharing]]
            excluded = rules.excludes(segment)[sharing]
            best.score(segment, base, sharing[~excluded])
            best.n_scored += int(excluded.sum())
        return False

    def choose(
        self,
        query: Floats,
        setting: Any,
        entries: Any,
        row_filter: Any,
        candidates: NDArray[np.uint64],
        level: int,  # noqa: ARG002
    ) -> int:
        """Fill in the candidates of slots search for one query; return how many there are."""
        rules = QueryFilter.of(0, row_filter)
        chosen = self._chosen(query, _of_query(entries, 0), rules, len(candidates), setting)
        candidates[: len(chosen)] = chosen
        return len(chosen)

    def list_ids(
        self,
        ids: NDArray[np.int64],
        starts: NDArray[np.int64] | None,
        without: Lists | None,
        rows: NDArray[np.int64],
        row_starts: NDArray[np.int64],
    ) -> int:
        """Turn lists of ids into ascending lists of rows; return how many ids are unknown. -1 is skipped."""
        starts = np.array([0, len(ids)]) if starts is None else starts
        wanted = ids[starts[0] : starts[-1]]
        found = np.full(len(wanted), -1)
        for segment in self.segments:
            positions = np.full(len(wanted), -1)
            find_ids(segment, 0, wanted, positions)
            found[positions >= 0] = segment.rows[positions[positions >= 0]]
        fill_lists(found, starts, without, rows, row_starts)
        return int(np.count_nonzero((found < 0) & (wanted != -1)))

    def _chosen(self, query: Floats, entries: Any, rules: QueryFilter, budget: int, setting: Any) -> NDArray[np.uint64]:
        limits = setting.max_slots, setting.min_overlap
        found = [
            by_slots.candidates(segment, base, query, entries, rules, limits, self.longest_held)
            for segment, base in self._parts()
        ]
        return np.sort(np.concatenate([*found, np.zeros(0, np.uint64)]))[-budget:]

    def _parts(self) -> Iterator[tuple[Any, int]]:
        """Iterate over the segments with the offsets of their positions."""
        base = 0
        for segment in self.segments:
            yield segment, base
            base += len(segment.rows)

    def _ids(self, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
        positions = positions_of(ranks)
        if not self.segments or self.segments[0].ids.dtype.kind != "i":
            return positions
        held: NDArray[np.int64] = np.concatenate([segment.ids for segment in self.segments])
        return held[positions]


def _of_query(entries: Any, query: int) -> Any:
    """Return the slots and values of one query."""
    if entries is None:
        return None
    starts, slots, values = entries
    here = slice(starts[query], starts[query + 1])
    return slots[here], values[here]
