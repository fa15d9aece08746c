"""Searching: answers queries through a cluster.

A query is first searched by slots: each shard ranks items by partial products over shared slots, scores its best items
by inner product, and returns the best of these. If that finds fewer than k items, or if few items pass the filters, all
items that pass are scored. This process scores the hits again, with the same arithmetic as `Index`.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tessella._kernels import core
from tessella._numbers import FEW_ALLOWED
from tessella.opensearch.asking import HEADER, SOURCE, by_slots, plain_body, restricted, scored, slots_body, weights_of
from tessella.opensearch.cluster import REQUEST_SECONDS, Cluster
from tessella.opensearch.conditions import filter_of
from tessella.opensearch.documents import factors_of
from tessella.opensearch.filters import Lists
from tessella.opensearch.layout import Place
from tessella.opensearch.patience import refused
from tessella.results import SearchResult

QUERIES_AT_ONCE = 100
_EXACT_AT_ONCE = 10  # queries per request that score all items
_HITS_AT_ONCE = 20_000  # hits per response, to bound its memory
_BYTES_AT_ONCE = 8 * 2**20  # of ids per request
_PAGE = 2000

Hits: TypeAlias = list[dict[str, Any]]


class Best(NamedTuple):
    """The best items of a query so far, best first."""

    ids: NDArray[Any]  # int64, or strings as objects
    scores: NDArray[np.float32]

    def first(self, k: int) -> "Best":
        """Return the best k; among equal scores, the smallest ids."""
        order = np.lexsort((self.ids, -self.scores))[:k]
        return Best(self.ids[order], self.scores[order])

    def joined(self, other: "Best") -> "Best":
        """Return these and others together."""
        return Best(np.concatenate([self.ids, other.ids]), np.concatenate([self.scores, other.scores]))


@dataclass(frozen=True)
class Search:
    """One call of `search`: checked queries and options."""

    cluster: Cluster
    queries: NDArray[np.float32]
    norms: NDArray[np.float64]
    k: int
    budget: int
    max_slots: int
    on_shards: bool
    exclude: Lists | None
    allow: Lists | None
    where: Any

    def answered(self, *, exact: bool) -> SearchResult:
        """Answer all queries."""
        n = len(self.queries)
        text_ids = self.cluster.place().layout.text_ids
        found = SearchResult(
            np.full((n, self.k), None, object) if text_ids else np.full((n, self.k), -1, np.int64),
            np.full((n, self.k), -np.inf, np.float32),
            np.zeros(n, np.int64),
            np.zeros(n, np.bool_),  # items may change during a search, so nothing is certified
        )
        zeros = np.flatnonzero(self.norms == 0)
        few = self._few()
        all_scored = np.flatnonzero((self.norms > 0) & (few | exact))
        slotted = np.flatnonzero((self.norms > 0) & ~few & (not exact))
        self._run(zeros, found, self._any_bodies, self._zero_answers)
        self._run(slotted, found, self._slots_bodies, self._scored_answers)
        short = slotted[found.scores[slotted, -1] == -np.inf]
        if self.on_shards:
            rest = np.concatenate([all_scored, short])
            self._run(rest, found, self._exact_bodies, self._scored_answers, _EXACT_AT_ONCE)
        else:
            in_reach = few[all_scored]
            self._run(all_scored[in_reach], found, self._few_bodies, self._scored_answers)
            self._scan(np.concatenate([all_scored[~in_reach], short]), found)
        return found

    @property
    def _limit(self) -> int:
        """If at most so many items pass the filters, all are scored, which costs no more than the budget."""
        return max(FEW_ALLOWED, self.budget)

    def _few(self) -> NDArray[np.bool_]:
        """Return, for each query, whether few items pass the filters."""
        n = len(self.queries)
        few = np.zeros(n, np.bool_)
        if self.allow is not None:
            few |= [len(self.allow.of_query(number)) <= self._limit for number in range(n)]
        if self.where is not None and n and not few.all():
            few |= self.cluster.at_place(self._passing) <= self._limit
        return few

    def _passing(self, place: Place) -> int:
        """Count the items that pass `where`, up to one more than the limit."""
        body = plain_body(restricted(self._filters(place, None), []), 0, counted=self._limit + 1)
        (answer,) = self._asked(place, [body])
        return int(answer["hits"]["total"]["value"])

    def _filters(self, place: Place, number: int | None) -> list[dict[str, Any]]:
        """Return the filters for a query; for None, those without `allow`."""
        filters = [] if self.where is None else [filter_of(self.where, place.layout.columns)]
        if self.allow is not None and number is not None:
            filters.append({"ids": {"values": self.allow.of_query(number)}})
        return filters

    def _excluded(self, number: int) -> list[str]:
        return [] if self.exclude is None else self.exclude.of_query(number)

    def _run(
        self,
        numbers: NDArray[np.int64],
        found: SearchResult,
        bodies: Callable[[Place, Sequence[int]], list[dict[str, Any]]],
        answers: Callable[[Place, int, dict[str, Any]], tuple[Best, int]],
        at_once: int = QUERIES_AT_ONCE,
    ) -> None:
        """Answer some of the queries in several requests, wherever the items are."""

        def answer(part: list[int], place: Place) -> None:
            for number, given in zip(part, self._asked(place, bodies(place, part)), strict=True):
                best, found.n_scored[number] = answers(place, number, given)
                found.ids[number, : len(best.ids)], found.scores[number, : len(best.ids)] = best

        for part in self._parts(numbers.tolist(), at_once):
            self.cluster.at_place(partial(answer, part))

    def _parts(self, numbers: list[int], most: int) -> Iterator[list[int]]:
        """Split queries into requests by the size of the request and of its response."""
        each = self.k if self.on_shards else max(self.budget, self._limit)
        at_once = max(1, min(most, _HITS_AT_ONCE // each))
        part: list[int] = []
        size = 0
        for number in numbers:
            listed = self._excluded(number), [] if self.allow is None else self.allow.of_query(number)
            length = sum(len(text) + 3 for ids in listed for text in ids)
            if part and (len(part) == at_once or size + length > _BYTES_AT_ONCE):
                yield part
                part, size = [], 0
            part.append(number)
            size += length
        if part:
            yield part

    def _asked(self, place: Place, bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Send several searches as one request, and return their answers."""
        lines = "".join(f"{HEADER}\n{json.dumps(body, separators=(',', ':'))}\n" for body in bodies)
        options = {"request_timeout": REQUEST_SECONDS}
        answers = self.cluster.client.msearch(body=lines, index=place.index, params=options)["responses"]
        for answer in answers:
            if "error" in answer:
                raise refused(answer["error"], answer["status"])
        return list(answers)

    def _slots_bodies(self, place: Place, numbers: Sequence[int]) -> list[dict[str, Any]]:
        weights = weights_of(place.layout, self.queries[list(numbers)], self.max_slots)
        window = -(-self.budget // place.n_shards)
        made = []
        for number, own in zip(numbers, weights, strict=True):
            asked = by_slots(own, self._filters(place, number), self._excluded(number))
            if self.on_shards:
                query = self.queries[number], float(self.norms[number])
                made.append(slots_body(asked, query, self.k, window, place.n_shards))
            else:
                made.append(plain_body(asked, self.budget))
        return made

    def _exact_bodies(self, place: Place, numbers: Sequence[int]) -> list[dict[str, Any]]:
        return [
            plain_body(
                scored(self.queries[number], float(self.norms[number]), self._restricted(place, number)),
                self.k,
                counted=True,
            )
            for number in numbers
        ]

    def _few_bodies(self, place: Place, numbers: Sequence[int]) -> list[dict[str, Any]]:
        return [plain_body(self._restricted(place, number), self._limit) for number in numbers]

    def _any_bodies(self, place: Place, numbers: Sequence[int]) -> list[dict[str, Any]]:
        return [plain_body(self._restricted(place, number), self.k) for number in numbers]

    def _restricted(self, place: Place, number: int) -> dict[str, Any]:
        return restricted(self._filters(place, number), self._excluded(number))

    def _scored_answers(self, place: Place, number: int, answer: dict[str, Any]) -> tuple[Best, int]:
        """Return the best items among the hits, and an upper bound on how many items were scored."""
        hits = [
            hit for hit in answer["hits"]["hits"] if hit["_score"] != 0 or not self.on_shards
        ]  # 0: outside the rescore window
        best = self._best(place, hits, number).first(self.k)
        total = answer["hits"].get("total")
        return best, len(hits) if total is None else int(total["value"])

    def _zero_answers(self, place: Place, number: int, answer: dict[str, Any]) -> tuple[Best, int]:
        """Return arbitrary items for a query of zeros."""
        best = self._best(place, answer["hits"]["hits"], number).first(self.k)
        return best, len(best.ids)

    def _best(self, place: Place, hits: Hits, number: int) -> Best:
        """Return the hits with their scores, computed as `Index` computes them."""
        return Best(_ids_of(hits, place), self._products(place, hits, [number])[0])

    def _products(self, place: Place, hits: Hits, numbers: Sequence[int]) -> NDArray[np.float32]:
        factors = factors_of([hit["_source"] for hit in hits], place.layout.n_factors)
        products = np.empty((len(numbers), len(hits)), np.float32)
        running = core()
        running.kernels.inner_products(self.queries[list(numbers)], factors, products, running.level)
        return products

    def _scan(self, numbers: NDArray[np.int64], found: SearchResult) -> None:
        """Fetch all items that pass `where`, and score them in this process."""
        if not len(numbers):
            return
        todo = numbers.tolist()

        def answer(place: Place) -> None:
            nothing = Best(_ids_of([], place), np.zeros(0, np.float32))
            best, n_scored = dict.fromkeys(todo, nothing), dict.fromkeys(todo, 0)
            asked = restricted(self._filters(place, None), [])
            for hits in self.cluster.scan(place.index, asked, _PAGE, SOURCE):
                texts = np.array([hit["_id"] for hit in hits], object)
                ids = _ids_of(hits, place)
                for number, scores in zip(todo, self._products(place, hits, todo), strict=True):
                    may = self._may_answer(texts, number)
                    n_scored[number] += int(np.count_nonzero(may))
                    best[number] = best[number].joined(Best(ids[may], scores[may])).first(self.k)
            for number in todo:
                length = len(best[number].ids)
                found.ids[number, :length], found.scores[number, :length] = best[number]
                found.n_scored[number] = n_scored[number]

        self.cluster.at_place(answer)

    def _may_answer(self, texts: NDArray[Any], number: int) -> NDArray[np.bool_]:
        may = np.ones(len(texts), np.bool_)
        if self.exclude is not None:
            may &= ~np.isin(texts, self.exclude.of_query(number))
        if self.allow is not None:
            may &= np.isin(texts, self.allow.of_query(number))
        return may


def _ids_of(hits: Hits, place: Place) -> NDArray[Any]:
    """Return the ids of hits as the caller knows them."""
    texts = [hit["_id"] for hit in hits]
    return np.array(texts, object) if place.layout.text_ids else np.array(list(map(int, texts)), np.int64)
