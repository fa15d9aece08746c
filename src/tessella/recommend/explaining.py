"""Explaining: why an item is, or is not, recommended to a user."""

import html
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella import _checks
from tessella.recommend.answering import Wish, answered, filtered, queries_of, signals_of
from tessella.recommend.asking import Asked
from tessella.recommend.edition import Edition
from tessella.recommend.standing import Standing, standing
from tessella.results import Explanation
from tessella.search.explain import explain, rows_allowed

NEAR = 3  # how many similar items of the user's own to list
_REASONS = {
    "seen": "the user has seen or named it",
    "after": "it was shown on a previous page",
    "exclude": "it is in exclude",
    "where": "it does not meet the where condition",
    "allow": "it is not in allow",
}


@dataclass(frozen=True)
class Reason:
    """Why an item is, or is not, recommended. Prints as sentences, in a terminal and in a notebook.

    Attributes
    ----------
    item : int or str
        The id of the item.
    title : str or None
        Its title.
    score : float
        Its score, including boosts.
    parts : dict of float
        The parts of the score: "factors" is the inner product, and each boost is listed under its name.
    left_out_by : tuple of str
        The filters that exclude it: "seen", "after", "exclude", "where", "allow".
    near : tuple of (id, title, cosine)
        The most similar items that the user has seen or named.
    search : Explanation
        How a search ranked it, regardless of any variety rule: rank, place, method. If the user has several vectors,
        the search uses the one with which the item scores best.
    place : int or None
        Its place in the list that `recommend` returns, from 1; None if it is not in the list.
    standing : Standing or None
        With a variety rule or several vectors: its place by score alone and under the rule. None otherwise, and if a
        filter excludes the item.
    """

    item: int | str
    title: str | None
    score: float
    parts: dict[str, float]
    left_out_by: tuple[str, ...]
    near: tuple[tuple[int | str, str | None, float], ...]
    search: Explanation
    place: int | None
    standing: Standing | None

    @property
    def recommended(self) -> bool:
        """Whether the item is in the recommended list."""
        return self.place is not None

    @property
    def sentences(self) -> tuple[str, ...]:
        """The explanation as sentences."""
        named = _named(self.item, self.title)
        made = [f"{named[0].upper()}{named[1:]} scores {self.score:.6g}{self._made_of()}."]
        if self.left_out_by:
            made.append(f"It is filtered out: {', and '.join(_REASONS[name] for name in self.left_out_by)}.")
        elif self.standing is not None:
            made.append(self._stands(self.standing))
        else:
            made += self.search.sentences[1:2]
        if self.near:
            alike = ", ".join(f"{_named(item, title)} ({cosine:.2f})" for item, title, cosine in self.near)
            made.append(f"Most similar items the user has seen or named, by cosine: {alike}.")
        return tuple(made)

    def _stands(self, standing: Standing) -> str:
        """Describe where an item ended up that passes the filters, under a rule or with several vectors."""
        rule, k = standing.rule, self.search.k
        rivals = ", ".join(_named(item, title) for item, title in standing.rivals)
        if standing.by_score is None:
            return f"It is not among the candidates of {rule}."
        if standing.number is None:
            return f"{rule} filters it out: {standing.value!r} is already taken by {rivals}."
        said = "By the best score over several vectors," if rule is None else f"With {rule},"
        if self.place is None and standing.number <= k:
            return f"{said} it should rank {standing.number:,}, but the search ({self.search.method}) misses it."
        number = self.place or standing.number
        made = f"{said} it ranks {number:,}"
        if rule is not None and standing.by_score != number:
            made += f"; by score alone, it ranks {standing.by_score:,}"
        if number > k:
            made += f"; only {k:,} were requested"
        if rivals:
            made += f". The most similar item chosen before it is {rivals} ({standing.value:.2f})"
        return f"{made}."

    def _made_of(self) -> str:
        if len(self.parts) == 1:
            return ""
        return ": " + ", ".join(
            f"{value:.6g} from {'the factors' if name == 'factors' else name}" for name, value in self.parts.items()
        )

    def __str__(self) -> str:
        return "\n".join(self.sentences)

    def _repr_html_(self) -> str:
        return "\n".join(f"<p>{html.escape(sentence)}</p>" for sentence in self.sentences)


def _named(item: int | str, title: str | None) -> str:
    return f"item {item!r}" if title is None else f"{title!r} ({item!r})"


def explained(edition: Edition, asked: Asked, wish: Wish, item_id: Any) -> Reason:
    """Search for one user, and explain what became of an item."""
    version = edition.version
    if len(asked) != 1:
        raise ValueError(f"there are {len(asked)} users, but explain takes 1 at a time.")
    item = _checks.ids([item_id], 1, name="item")
    version.same_kind(item)
    position = int(version.positions_of(item)[0])
    wish = replace(wish, now=time.time()) if wish.now is None else wish  # the same time for all parts
    vector = edition.item_vectors(item)[0].astype(np.float64)
    queries = queries_of(edition, asked, wish)[0]
    full = version.factors_at(np.array([position]))[0].astype(np.float64)
    query = queries if queries.ndim == 1 else _best_vector(queries, full, edition.n_factors)
    parts = {"factors": float(query[: edition.n_factors].astype(np.float64) @ vector)}
    entry = edition.entries_of(item)
    for name in wish.boosts or ():
        own = {name: wish.boosts[name]}
        parts[name] = float(signals_of(edition).boost(own, 1, wish.now, entry)[0, 0])
    planned, method = version, wish.method
    if wish.boosts and edition.boosting is not None and method is None:
        planned, method = edition.boosting.planned(version, query)
    found = explain(planned, query, item[0].item(), position, wish.k, method, None, filtered(edition, asked, wish))
    left_out_by = _left_out_by(edition, asked, wish, int(version.rows_at(np.array([position]))[0]))
    place, stands = found.place, None
    if wish.variety is not None or queries.ndim == 2:
        place = _place(answered(edition, asked, wish).ids, item)
        stands = None if left_out_by else standing(edition, asked, wish, item)
    return Reason(
        item=item[0].item(),
        title=edition.titles(item)[0],
        score=sum(parts.values()),
        parts=parts,
        left_out_by=left_out_by,
        near=_near(edition, asked, item),
        search=found,
        place=place,
        standing=stands,
    )


def _best_vector(queries: NDArray[np.float32], item: NDArray[np.float64], n_factors: int) -> NDArray[np.float32]:
    """Return the vector with which an item scores best; vectors of zeros are ignored, unless there is no other."""
    there = queries[:, :n_factors].any(axis=1)
    scores = np.where(there | ~there.any(), queries.astype(np.float64) @ item, -np.inf)
    best: NDArray[np.float32] = queries[int(np.argmax(scores))]
    return best


def _place(ids: NDArray[Any], item: NDArray[Any]) -> int | None:
    """Return an item's place in a list, from 1; None if it is not in the list."""
    places = np.flatnonzero(ids.ravel() == item[0])
    return int(places[0]) + 1 if places.size else None


def _left_out_by(edition: Edition, asked: Asked, wish: Wish, row: int) -> tuple[str, ...]:
    """Return the names of the filters that exclude a row."""
    nothing = replace(wish, exclude_seen=False, cursor=None, exclude=None, where=None, allow=None)
    alone = {
        "seen": replace(nothing, exclude_seen=wish.exclude_seen),
        "after": replace(nothing, cursor=wish.cursor),
        "exclude": replace(nothing, exclude=wish.exclude),
        "where": replace(nothing, where=wish.where),
        "allow": replace(nothing, allow=wish.allow),
    }
    made = {name: filtered(edition, asked, own) for name, own in alone.items()}
    return tuple(
        name
        for name, row_filter in made.items()
        if row_filter is not None and not rows_allowed(edition.version, None, row_filter)[row]
    )


def _near(edition: Edition, asked: Asked, item: NDArray[Any]) -> tuple[tuple[int | str, str | None, float], ...]:
    """Return the items most similar to an item among those the user has seen or named."""
    version = edition.version
    met = filtered(edition, asked, Wish(1))
    if met is None:
        return ()
    rows = np.flatnonzero(~rows_allowed(version, None, met))
    entries = np.searchsorted(version.live_rows, rows)
    ids = version.ids[entries]
    ids = ids[ids != item[0]]
    if not len(ids):
        return ()
    theirs, own = edition.item_vectors(ids).astype(np.float64), edition.item_vectors(item)[0].astype(np.float64)
    lengths = np.linalg.norm(theirs, axis=1) * np.linalg.norm(own)
    cosines = np.divide(theirs @ own, lengths, out=np.zeros(len(theirs)), where=lengths > 0)
    best = np.argsort(-cosines, kind="stable")[:NEAR]
    titles = edition.titles(ids[best])
    return tuple((ids[at].item(), title, float(cosines[at])) for at, title in zip(best.tolist(), titles, strict=True))
