"""What an index returns."""

import html
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_SLOTS_SHOWN = 10


class SearchResult:
    """The answers to queries, best first. For a single query, arrays have one dimension less.

    Unpacks as ``ids, scores``.

    Attributes
    ----------
    ids : ndarray of shape (n_queries, k)
        Item ids. Missing answers are -1, or None for string ids.
    scores : ndarray of float32, shape (n_queries, k)
        Inner products of the factors as given; -inf for missing answers.
    n_scored : ndarray of int64, shape (n_queries,)
        How many items were scored for each query, including excluded ones that were scored before the filter applied.
    certified : ndarray of bool, shape (n_queries,)
        Whether the answer is proven to be the true top k.

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
    """How new items compare with those that an index was fitted to.

    Attributes
    ----------
    n_new : int
        Items added or updated since the index was fitted.
    n_items : int
        All items.
    scale_ratio : float
        Root-mean-square length of the new items divided by that of the fitted ones.
    likeness : float
        How well the new items' squared length, split up by principal axis, agrees with that of the fitted ones; 1 means
        the same split.
    needs_rebuild : bool
        Whether there are at least 100 new items and one of these holds: they are more than twice or less than half as
        long; their likeness is below 0.8; their tile distance is above 1.3, which makes tile search slow or less
        complete; `n_long` exceeds twice the square root of the number of items; or fewer than 100 of the items that the
        tiles were learned from are left to compare with.
    tile_distance : float or None
        Root-mean-square distance of new items from the centres of their tiles, divided by that of the fitted ones. Uses
        up to 4,096 of each and leaves out the items counted in `n_long`. None without tiles, with fewer than 16 items
        per tile, or if there is nothing to compare.
    n_long : int
        New items that are so long that every query reads them; 0 without tiles.
    """

    n_new: int
    n_items: int
    scale_ratio: float
    likeness: float
    needs_rebuild: bool
    tile_distance: float | None = None
    n_long: int = 0

    def __str__(self) -> str:
        advice = "they look different, so call rebuild()" if self.needs_rebuild else "no need to rebuild"
        tiles = "" if self.tile_distance is None else f", {self.tile_distance:.2f} times as far from their tiles"
        long = f", {self.n_long:,} of them in the tile of long items" if self.n_long else ""
        return (
            f"{self.n_new:,} of {self.n_items:,} items are new: {self.scale_ratio:.2f} times as long as the fitted "
            f"ones, {self.likeness:.0%} alike{tiles}{long}; {advice}."
        )


class SharedSlot(NamedTuple):
    """A slot that a query and an item share, and what it adds to the partial score."""

    slot: int
    query_value: float
    item_value: float
    product: float


class TileBound(NamedTuple):
    """The bound that tile search uses for the tile of an item, for one query."""

    centre_score: float  # the centre's inner product with the query
    spread: float  # the tile's radius times the query's length; no item scores above centre_score + spread
    reach: float  # the share of the spread that the search counts on

    @property
    def believed(self) -> float:
        """The score that the search assumes no item of the tile to exceed."""
        return self.centre_score + self.reach * self.spread


@dataclass(frozen=True)
class Explanation:
    """Why a search returned an item, or why it did not. Readable when printed, and in a notebook.

    Attributes
    ----------
    item_id : int or str
        The item's id.
    n_items : int
        Items in the index.
    score : float
        The item's inner product with the query.
    rank : int
        The item's rank by score among all items, from 1.
    k : int
        The largest number of answers the search could return.
    method : str
        The search method.
    place : int or None
        The item's rank among the answers, from 1; None if it is not one of them.
    left_out_by : "exclude", "allow" or None
        The argument that filters the item out.
    n_left : int
        Items that pass the filters.
    rank_left : int or None
        The item's rank by score among these, from 1; None if it does not pass.
    last_score : float
        The score of the last answer; -inf if there are fewer than k answers.
    tile : TileBound or None
        The bound that tile search uses for the item's tile; the higher one if the item is in two tiles. None for other
        methods, and for the longest items, which every query reads.
    query_slots, item_slots : tuple of int
        Slots of the query and of the item, ascending. An item has slots only for coordinates that reach the threshold.
    used_slots : int
        How many of the query's slots are used by slots search; it uses those with the largest values.
    shared : tuple of SharedSlot
        Used slots that the item has too.
    partial_score : float
        The sum of their products.
    candidate_rank : int or None
        The item's rank by partial score, as slots search computes it, among the items that pass the filters; None if
        slots search does not consider it.
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
        """The item's rank, what the search did with it, and why, in words."""
        worth = f"Item {self.item_id!r} scores {self.score:.6g} and ranks {self.rank:,} of {self.n_items:,}"
        if self.rank_left is not None and self.n_left < self.n_items:
            worth += f", and {self.rank_left:,} of the {self.n_left:,} that pass the filter"
        search = f"A search for the top {self.k:,} ({self.method})"
        if self.place is not None:
            said = f"{search} returns it at rank {self.place:,}."
        elif self.left_out_by is not None:
            named = "it is in exclude" if self.left_out_by == "exclude" else "it is not in allow"
            said = f"{search} filters it out: {named}."
        elif self.rank_left is not None and self.rank_left > self.k:
            said = f"{search} does not reach it: that needs a k of at least {self.rank_left:,}."
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
            return ": bounds inside its tile are too low at this reach; a larger reach finds it"
        needed = (self.score - self.tile.centre_score) / self.tile.spread if self.tile.spread > 0 else 1.0
        return (
            f": at this reach its tile is bounded by {self.tile.believed:.6g} and the last answer scores "
            f"{self.last_score:.6g}, so the tile is not visited; a reach of {min(needed, 1.0):.3f} or more visits it"
        )

    def _by_slots(self) -> str:
        """What slots search does with the item."""
        if not self.item_slots:
            return "None of its coordinates reaches the threshold, so it has no slots and slots search cannot find it."
        if not self.shared:
            return f"It shares none of the query's {self.used_slots} heaviest slots, so slots search cannot find it."
        if self.candidate_rank is None:
            return "Slots search skips it: it is filtered out, shares too few slots, or has no positive partial score."
        place = (
            f"It shares {len(self.shared)} of the query's {self.used_slots} heaviest slots, whose products add up to "
            f"{self.partial_score:.6g}, and ranks {self.candidate_rank:,} among the candidates: "
        )
        if self.found_by_slots:
            return f"{place}slots search scores it within a budget of {self.budget:,}."
        return f"{place}beyond a budget of {self.budget:,}; slots search scores it with budget={self.candidate_rank}."

    def _table(self) -> tuple[list[tuple[str, ...]], int]:
        """The shared slots with the largest products, and how many more there are."""
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
