"""Standing: an item's place in a user's list, by score alone and under a variety rule."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.recommend.answering import (
    DEEPER,
    Wish,
    attributes_for,
    filtered,
    queries_of,
    searched,
    shown_entries,
)
from tessella.recommend.asking import Asked
from tessella.recommend.edition import Edition
from tessella.recommend.variety import AtMost, Diversify
from tessella.retrieval.plan import Exact


@dataclass(frozen=True)
class Standing:
    """Where an item that passes the filters stands, and how a variety rule affects it.

    Attributes
    ----------
    by_score : int or None
        Its place, from 1, by score alone among the items that pass the filters and were not shown before; None if it is
        not among the candidates of `diversify`.
    number : int or None
        Its place, from 1, under the rule; None if the rule filters it out.
    rule : str or None
        The rule, as it was passed; None without one.
    rivals : tuple of (id, title)
        For `at_most`, the items that already take its value; for `diversify`, the most similar item chosen before it.
    value : object
        For `at_most`, the value that is already taken; for `diversify`, the similarity of the two items.
    """

    by_score: int | None
    number: int | None
    rule: str | None = None
    rivals: tuple[tuple[int | str, str | None], ...] = ()
    value: Any = None


def standing(edition: Edition, asked: Asked, wish: Wish, item: NDArray[Any]) -> Standing:
    """Find where an item that passes the filters stands for one user."""
    if isinstance(wish.variety, Diversify):
        return _diversified(edition, asked, wish, wish.variety, item)
    ids = _ranked(edition, asked, wish, item)
    if wish.variety is None:
        return Standing(len(ids), len(ids))
    return _at_most(edition, wish, wish.variety, ids)


def _ranked(edition: Edition, asked: Asked, wish: Wish, item: NDArray[Any]) -> NDArray[Any]:
    """Return the true list by score alone, without items shown before, up to and including an item."""
    plain = replace(wish, variety=None, method=Exact())
    queries, row_filter = queries_of(edition, asked, plain), filtered(edition, asked, plain)
    most = edition.version.n_live
    depth = min(wish.k, most)
    while True:
        ids: NDArray[Any] = searched(edition, queries, depth, plain, row_filter).ids[0]
        places = np.flatnonzero(ids == item[0])
        if places.size:
            return ids[: places[0] + 1]
        depth = min(DEEPER * depth, most)


def _at_most(edition: Edition, wish: Wish, rule: AtMost, ids: NDArray[Any]) -> Standing:
    """Find how `at_most` treats the last item of a ranked list."""
    attributes = attributes_for(edition, rule)
    before = shown_entries(edition, wish.cursor, 1)[0]
    entries = np.concatenate([before, edition.entries_at(ids)])
    kept = rule.kept(attributes, entries)
    if kept[-1]:
        return Standing(len(ids), int(np.count_nonzero(kept[len(before) :])), str(rule))
    ahead = entries[kept]
    starts, labels = attributes.labels(rule.per, np.append(ahead, entries[-1]), "per")
    theirs, own = labels[: starts[-2]], labels[starts[-2] :]
    owners = np.repeat(np.arange(len(ahead)), np.diff(starts)[:-1])
    used_up, at = next(
        (owners[theirs == label], at) for at, label in enumerate(own) if (theirs == label).sum() >= rule.n
    )
    (value,) = attributes.values(rule.per, entries[-1:])
    rivals = _titled(edition, edition.version.ids[ahead[used_up]])
    return Standing(len(ids), None, str(rule), rivals, value[at] if isinstance(value, list) else value)


def _diversified(edition: Edition, asked: Asked, wish: Wish, rule: Diversify, item: NDArray[Any]) -> Standing:
    """Find when `diversify` would choose an item, if it is a candidate."""
    plain = replace(wish, variety=None)
    row_filter = filtered(edition, asked, plain, shown=True)
    found = searched(edition, queries_of(edition, asked, plain), max(rule.candidates, wish.k), plain, row_filter)
    there = found.scores[0] > -np.inf
    named = found.ids[0][there]
    named = named.astype(np.str_) if named.dtype == object else named
    place = np.flatnonzero(named == item[0])
    if not place.size:
        return Standing(None, None, str(rule))
    vectors = edition.item_vectors(named)
    order = rule.order(found.scores[0][there], vectors, len(named))
    shown = np.zeros(0, named.dtype) if wish.cursor is None else wish.cursor.shown
    turn = int(np.flatnonzero(order == place[0])[0])
    number = turn + 1 - int(np.isin(named[order[:turn]], shown).sum())
    by_score = int(place[0]) + 1 - int(np.isin(named[: place[0]], shown).sum())
    if not turn:
        return Standing(by_score, number, str(rule))
    alike = rule.likeness(vectors)[place[0], order[:turn]]
    nearest = int(alike.argmax())
    rivals = _titled(edition, named[order[nearest : nearest + 1]])
    return Standing(by_score, number, str(rule), rivals, float(alike[nearest]))


def _titled(edition: Edition, ids: NDArray[Any]) -> tuple[tuple[int | str, str | None], ...]:
    return tuple(zip(ids.tolist(), edition.titles(ids).tolist(), strict=True))
