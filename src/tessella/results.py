"""What an index returns."""

import html
import json
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tessella import _checks

_SLOTS_SHOWN = 10


class SearchResult(NamedTuple):
    """The answers to queries, best first; a single query gives arrays of one dimension less.

    Attributes
    ----------
    ids : ndarray of shape (n_queries, k)
        Ids of items. Where fewer than k items answer a query: -1, or None for text ids.
    scores : ndarray of float32, shape (n_queries, k)
        Inner products of the factors as given; -inf where there is no item.
    scored : ndarray of int64, shape (n_queries,)
        How many items were scored for each query; the rest was discarded.
    certified : ndarray of bool, shape (n_queries,)
        Whether the answer is proven to be the true top k.
    """

    ids: NDArray[Any]
    scores: NDArray[np.float32]
    scored: NDArray[np.int64]
    certified: NDArray[np.bool_]


class Trial(NamedTuple):
    """One way to answer at one setting, as it was measured.

    Attributes
    ----------
    way : {"exact", "tiles", "slots"}
        The kind of search.
    setting : str
        Its parameters in words.
    recall : float
        Share of the true top k that it found.
    recall_low : float
        What that share is at least, with a confidence of 95%.
    queries_per_second : float
        Its speed on one thread.
    """

    way: str
    setting: str
    recall: float
    recall_low: float
    queries_per_second: float


@dataclass(frozen=True)
class Plan:
    """How a search answers when it is told nothing else.

    Attributes
    ----------
    way : {"exact", "tiles", "slots"}
        The kind of search.
    reason : str
        Why this way.
    reach : float
        The reach of tile search.
    max_slots : int
        Slots of a query that slots search uses.
    budget_per_answer : int
        Items that slots search scores for each of the k answers.
    recall : tuple of two floats, or None
        The share of the true top k that this way found, and what it is at least with a confidence of 95%; None where
        nothing was measured.
    trials : tuple of Trial
        What was measured to decide.
    target_recall : float or None
        The share of the true top k that was asked for; None where nothing was measured.
    k : int
        For how many answers.
    automatic : bool
        Whether the index was built with ``schema="auto"``, so that `rebuild` chooses among all ways again.
    """

    way: Literal["exact", "tiles", "slots"]
    reason: str
    reach: float = 0.5
    max_slots: int = 24
    budget_per_answer: int = 40
    recall: tuple[float, float] | None = None
    trials: tuple[Trial, ...] = ()
    target_recall: float | None = None
    k: int = 10
    automatic: bool = False

    def __str__(self) -> str:
        slots = f"{self.max_slots} slots and a budget of {self.budget_per_answer} for each answer"
        settings = {"exact": "", "tiles": f" with a reach of {self.reach:g}", "slots": f" with {slots}"}
        lines = [f"{self.way} search{settings[self.way]}: {self.reason}"]
        if self.way != "slots":
            lines.append(f"where a budget, max_slots or min_overlap is given: slots search, with {slots}")
        lines += [
            f"  {trial.way:<6} {trial.setting:<28} recall {trial.recall:.4f} (at least {trial.recall_low:.4f}) "
            f"{trial.queries_per_second:>10,.0f} queries/s"
            for trial in self.trials
        ]
        return "\n".join(lines)


EXACT = Plan("exact", "it proves its answers")
TILES = Plan("tiles", "the index was built with tiles; tune() chooses the reach for a recall")


def plan_to_json(plan: Plan) -> str:
    """A plan as JSON text."""
    return json.dumps(asdict(plan))


def plan_from_json(text: str, *, tiled: bool) -> Plan:
    """The plan that `plan_to_json` wrote, of an index with or without tiles."""
    given = json.loads(text)
    given["trials"] = tuple(
        Trial(str(way), str(setting), *map(float, measured)) for way, setting, *measured in given["trials"]
    )
    if given["recall"] is not None:
        low, high = map(float, given["recall"])
        given["recall"] = (low, high)
    plan = Plan(**(given | {"reason": str(given["reason"])}))
    _checks.one_of(plan.way, "way", ("exact", "tiles", "slots") if tiled else ("exact", "slots"))
    _checks.number_between(plan.reach, "reach", 0.0, 1.0)
    _checks.whole_number(plan.max_slots, "max_slots", 1)
    _checks.whole_number(plan.budget_per_answer, "budget_per_answer", 1)
    if plan.target_recall is not None:
        _checks.number_between(plan.target_recall, "target_recall", 0.0, 1.0)
    _checks.whole_number(plan.k, "k", 1)
    _checks.true_or_false(plan.automatic, "automatic")
    return plan


@dataclass(frozen=True)
class Drift:
    """How much new items look like those an index was fitted to.

    Attributes
    ----------
    n_new : int
        Items that came or changed since.
    n_items : int
        All items.
    scale_ratio : float
        Root-mean-square length of new items over that of the fitted ones.
    likeness : float
        Share of their squared length that new items have where the fitted ones had it, axis by axis: 1 is alike.
    refit : bool
        Whether there are at least 100 new items, and they are more than twice as long or as short, have a likeness
        below 0.8, or do not fit the tiles: their tile distance is above 1.3, so that tile search gets slow or misses
        more; `n_long` is above twice the square root of the number of items; or fewer than 100 of the items that tiles
        were learned from are left to compare with.
    tile_distance : float or None
        Root-mean-square distance of new items from the centres of their tiles over that of the fitted ones, on up to
        4,096 of both, those of `n_long` aside. None without tiles, with fewer than 16 items to a tile, and where there
        is nothing to compare.
    n_long : int
        New items so long that every query looks at them; 0 without tiles.
    """

    n_new: int
    n_items: int
    scale_ratio: float
    likeness: float
    refit: bool
    tile_distance: float | None = None
    n_long: int = 0

    def __str__(self) -> str:
        advice = "they look different: rebuild()" if self.refit else "no need to rebuild"
        tiles = "" if self.tile_distance is None else f", {self.tile_distance:.2f} times as far from their tiles"
        long = f", {self.n_long:,} of them in the tile of long items" if self.n_long else ""
        return (
            f"{self.n_new:,} of {self.n_items:,} items are new, {self.scale_ratio:.2f} times as long as the fitted "
            f"ones and {self.likeness:.0%} alike{tiles}{long}: {advice}."
        )


class SharedSlot(NamedTuple):
    """A slot that a query and an item share, and what it adds to the partial score."""

    slot: int
    query_value: float
    item_value: float
    product: float


@dataclass(frozen=True)
class Explanation:
    """Why an item is, or is not, an answer to a query. Prints well, in a terminal and in a notebook.

    Attributes
    ----------
    item_id : int or str
        The item.
    n_items : int
        Items in the index.
    score : float
        Its inner product with the query.
    rank : int
        Its number among all items by score, from 1.
    query_slots, item_slots : tuple of int
        Slots of both, ascending; an item's only where it reaches the threshold.
    used_slots : int
        How many of the query's slots slots search uses, the heaviest.
    shared : tuple of SharedSlot
        Used slots that the item has, too.
    partial_score : float
        What they add up to.
    candidate_rank : int or None
        The item's number by partial score, as slots search sees it; None if it is passed over.
    budget : int
        How many items slots search scores for 10 answers.
    """

    item_id: int | str
    n_items: int
    score: float
    rank: int
    query_slots: tuple[int, ...]
    used_slots: int
    item_slots: tuple[int, ...]
    shared: tuple[SharedSlot, ...]
    partial_score: float
    candidate_rank: int | None
    budget: int

    @property
    def found_by_slots(self) -> bool:
        """Whether slots search scores the item within the budget."""
        return self.candidate_rank is not None and self.candidate_rank <= self.budget

    @property
    def sentences(self) -> tuple[str, str]:
        """What exact search and what slots search make of the item, in words."""
        exact = (
            f"Item {self.item_id!r} scores {self.score:.6g} and is number {self.rank:,} of {self.n_items:,}: "
            f"exact search returns it for k of at least {self.rank:,}."
        )
        if not self.item_slots:
            slots = "No coordinate of it reaches the threshold, so it has no slots, and slots search passes it over."
        elif not self.shared:
            slots = f"It shares none of the query's {self.used_slots} heaviest slots, so slots search passes it over."
        elif self.candidate_rank is None:
            slots = "The slots it shares add nothing worth having, so slots search passes it over."
        else:
            place = (
                f"It shares {len(self.shared)} of the query's {self.used_slots} heaviest slots, which add up to "
                f"{self.partial_score:.6g} and make it number {self.candidate_rank:,} of the candidates: "
            )
            verdict = (
                f"slots search scores it within a budget of {self.budget:,}."
                if self.found_by_slots
                else f"beyond a budget of {self.budget:,}; slots search scores it with budget={self.candidate_rank}."
            )
            slots = place + verdict
        return exact, slots

    def _table(self) -> tuple[list[tuple[str, ...]], int]:
        """The shared slots that add most, and how many more there are."""
        heaviest = sorted(self.shared, key=lambda slot: -abs(slot.product))
        rows: list[tuple[str, ...]] = [
            (str(at.slot), f"{at.query_value:.4g}", f"{at.item_value:.4g}", f"{at.product:.4g}")
            for at in heaviest[:_SLOTS_SHOWN]
        ]
        return rows, len(heaviest) - len(rows)

    def __str__(self) -> str:
        rows, more = self._table()
        lines = list(self.sentences)
        if rows:
            table = [("slot", "query", "item", "product"), *rows]
            widths = [max(len(row[column]) for row in table) for column in range(4)]
            lines += [
                "",
                *("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in table),
            ]
        if more:
            lines.append(f"and {more} more")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows, more = self._table()
        lines = [f"<p>{html.escape(sentence)}</p>" for sentence in self.sentences]
        if rows:
            body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
            head = "".join(f"<th>{name}</th>" for name in ("slot", "query", "item", "product"))
            lines.append(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")
        if more:
            lines.append(f"<p>and {more} more</p>")
        return "\n".join(lines)
