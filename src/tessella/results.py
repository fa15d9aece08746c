"""What an index returns."""

import html
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_SLOTS_SHOWN = 10


class SearchResult:
    """The answers to queries, best first; a single query gives arrays of one dimension less.

    Unpacks as ``ids, scores``.

    Attributes
    ----------
    ids : ndarray of shape (n_queries, k)
        Ids of items. Where fewer than k items answer a query: -1, or None for text ids.
    scores : ndarray of float32, shape (n_queries, k)
        Inner products of the factors as given; -inf where there is no item.
    n_scored : ndarray of int64, shape (n_queries,)
        Items scored for each query, including excluded ones that were scored before the filter was read.
    certified : ndarray of bool, shape (n_queries,)
        Whether the answer is certified to be the true top k.

    Examples
    --------
    >>> import numpy as np
    >>> import tessella as ts
    >>> ids, scores = ts.Index.build(np.eye(3)).search([3.0, 2.0, 1.0], k=2)
    >>> ids, scores
    (array([0, 1]), array([3., 2.], dtype=float32))
    """

    __slots__ = ("certified", "ids", "n_scored", "scores")

    FIELDS = ("ids", "scores", "n_scored", "certified")

    def __init__(
        self,
        ids: NDArray[Any],
        scores: NDArray[np.float32],
        n_scored: NDArray[np.int64],
        certified: NDArray[np.bool_],
    ) -> None:
        self.ids = ids
        self.scores = scores
        self.n_scored = n_scored
        self.certified = certified

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return iter((self.ids, self.scores))

    def __len__(self) -> int:
        return 2

    def __getitem__(self, at: int) -> NDArray[Any]:
        return (self.ids, self.scores)[at]

    def __repr__(self) -> str:
        n, k = (1, *self.ids.shape) if self.ids.ndim == 1 else self.ids.shape
        certified = int(np.count_nonzero(self.certified))
        return f"SearchResult(top {k} of {n:,} {'query' if n == 1 else 'queries'}, {certified:,} certified)"

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All arrays by name."""
        return {name: getattr(self, name) for name in self.FIELDS}


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
    needs_rebuild : bool
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
    needs_rebuild: bool
    tile_distance: float | None = None
    n_long: int = 0

    def __str__(self) -> str:
        advice = "they look different: rebuild()" if self.needs_rebuild else "no need to rebuild"
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


class TileBound(NamedTuple):
    """What tile search believes of the tile of an item, for one query."""

    centre_score: float  # the centre's inner product with the query
    spread: float  # the tile's radius times the query's length: no item scores more than both together
    reach: float  # the share of the spread that the search believes in

    @property
    def believed(self) -> float:
        """The score that no item of the tile is believed to exceed."""
        return self.centre_score + self.reach * self.spread


@dataclass(frozen=True)
class Explanation:
    """Why a search did, or did not, return an item. Prints well, in a terminal and in a notebook.

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
    k : int
        How many answers the search gave, at most.
    method : str
        How it searched.
    place : int or None
        The item's number among the answers, from 1; None if it is not one.
    left_out_by : "exclude", "allow" or None
        The filter that does not let it answer.
    n_left : int
        Items that may answer.
    rank_left : int or None
        Its number among these by score, from 1; None if it may not answer.
    last_score : float
        The score of the last answer; -inf where there are fewer than k.
    tile : TileBound or None
        What tile search believes of the item's tile, the more promising one if it is in two. None for other methods,
        and for the longest items, which every query looks at.
    query_slots, item_slots : tuple of int
        Slots of both, ascending; an item's only where it reaches the threshold.
    used_slots : int
        How many of the query's slots slots search uses, the heaviest.
    shared : tuple of SharedSlot
        Used slots that the item has, too.
    partial_score : float
        What they add up to.
    candidate_rank : int or None
        The item's number by partial score among those that may answer, as slots search sees it; None if it is passed
        over.
    budget : int
        How many items slots search scores.
    """

    item_id: int | str
    n_items: int
    score: float
    rank: int
    k: int
    method: str
    place: int | None
    left_out_by: str | None
    n_left: int
    rank_left: int | None
    last_score: float
    tile: TileBound | None
    query_slots: tuple[int, ...]
    used_slots: int
    item_slots: tuple[int, ...]
    shared: tuple[SharedSlot, ...]
    partial_score: float
    candidate_rank: int | None
    budget: int

    @property
    def returned(self) -> bool:
        """Whether the search returned the item."""
        return self.place is not None

    @property
    def found_by_slots(self) -> bool:
        """Whether slots search scores the item within the budget."""
        return self.candidate_rank is not None and self.candidate_rank <= self.budget

    @property
    def sentences(self) -> tuple[str, ...]:
        """How good the item is, what the search made of it, and why, in words."""
        worth = f"Item {self.item_id!r} scores {self.score:.6g} and is number {self.rank:,} of {self.n_items:,}"
        if self.rank_left is not None and self.n_left < self.n_items:
            worth += f", and number {self.rank_left:,} of the {self.n_left:,} that may answer"
        search = f"A search for {self.k:,} ({self.method})"
        if self.place is not None:
            said = f"{search} returns it as number {self.place:,}."
        elif self.left_out_by is not None:
            named = "exclude names it" if self.left_out_by == "exclude" else "it is not among what allow lets through"
            said = f"{search} leaves it out: {named}."
        elif self.rank_left is not None and self.rank_left > self.k:
            said = f"{search} has no room for it: k of at least {self.rank_left:,} is needed."
        else:
            said = f"{search} misses it{self._missed_by_tiles()}."
        return (f"{worth}.", said, self._by_slots()) if self._slotted else (f"{worth}.", said)

    @property
    def _slotted(self) -> bool:
        return self.method.startswith("slots")

    def _missed_by_tiles(self) -> str:
        """Why tile search missed the item."""
        if self.tile is None:
            return ""
        if self.tile.believed >= self.last_score:
            return ": bounds inside its tile are believed too far; a larger reach finds it"
        needed = (self.score - self.tile.centre_score) / self.tile.spread if self.tile.spread > 0 else 1.0
        return (
            f": nothing in its tile is believed to score above {self.tile.believed:.6g}, and the last answer scores "
            f"{self.last_score:.6g}, so the tile was not visited; it is with a reach of {min(needed, 1.0):.3f} or more"
        )

    def _by_slots(self) -> str:
        """What slots search makes of the item."""
        if not self.item_slots:
            return "No coordinate of it reaches the threshold, so it has no slots, and slots search passes it over."
        if not self.shared:
            return f"It shares none of the query's {self.used_slots} heaviest slots, so slots search passes it over."
        if self.candidate_rank is None:
            return "Slots search passes it over: it may not answer, or the slots it shares add nothing worth having."
        place = (
            f"It shares {len(self.shared)} of the query's {self.used_slots} heaviest slots, which add up to "
            f"{self.partial_score:.6g} and make it number {self.candidate_rank:,} of the candidates: "
        )
        if self.found_by_slots:
            return f"{place}slots search scores it within a budget of {self.budget:,}."
        return f"{place}beyond a budget of {self.budget:,}; slots search scores it with budget={self.candidate_rank}."

    def _table(self) -> tuple[list[tuple[str, ...]], int]:
        """The shared slots that add most, and how many more there are."""
        heaviest = sorted(self.shared, key=lambda slot: -abs(slot.product))
        rows: list[tuple[str, ...]] = [
            (str(at.slot), f"{at.query_value:.4g}", f"{at.item_value:.4g}", f"{at.product:.4g}")
            for at in heaviest[:_SLOTS_SHOWN]
        ]
        return rows, len(heaviest) - len(rows)

    def __str__(self) -> str:
        rows, more = self._table() if self._slotted else ([], 0)
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
        rows, more = self._table() if self._slotted else ([], 0)
        lines = [f"<p>{html.escape(sentence)}</p>" for sentence in self.sentences]
        if rows:
            body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
            head = "".join(f"<th>{name}</th>" for name in ("slot", "query", "item", "product"))
            lines.append(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")
        if more:
            lines.append(f"<p>and {more} more</p>")
        return "\n".join(lines)
