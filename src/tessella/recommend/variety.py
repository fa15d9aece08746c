"""Variety: rules that make ranked lists more varied."""

from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from tessella import _checks
from tessella._kernels import core
from tessella.recommend.attributes import Attributes

Metric: TypeAlias = Literal["cosine", "inner product"]


@dataclass(frozen=True)
class AtMost:
    """At most n items for each value of a column; created by `at_most`."""

    n: int
    per: str

    def __str__(self) -> str:
        return f"at_most({self.n}, per={self.per!r})"

    def kept(self, attributes: Attributes, entries: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which items of ranked lists the rule keeps: all but those with a value that n kept items already have.

        The result for a longer list starts with the result for a shorter one, so a search can go deeper.

        Parameters
        ----------
        attributes : Attributes
            The columns.
        entries : array of shape (n_ranks,) or (n_lists, n_ranks)
            Entries of the attributes, best first; -1 means no item.
        """
        lists = np.atleast_2d(entries)
        there = lists >= 0
        starts, labels = attributes.labels(self.per, lists[there], "per")
        of_list = np.repeat(np.arange(len(lists)), there.sum(axis=1))
        if (np.diff(starts) <= 1).all():
            allowed = self._first_of_each(of_list, starts, labels)
        else:
            allowed = self._one_by_one(of_list, starts, labels)
        kept = np.zeros(lists.shape, np.bool_)
        kept[there] = allowed
        return kept.reshape(np.shape(entries))

    def _first_of_each(
        self, of_list: NDArray[np.int64], starts: NDArray[np.int64], labels: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Keep the first n of each value in each list, if every item has at most one value."""
        kept = np.ones(len(of_list), np.bool_)
        valued = np.flatnonzero(np.diff(starts))
        order = np.lexsort((labels, of_list[valued]))  # stable: within a value, by rank
        lists, values = of_list[valued][order], labels[order]
        first = np.ones(len(order), np.bool_)
        first[1:] = (lists[1:] != lists[:-1]) | (values[1:] != values[:-1])
        place = np.arange(len(order))
        kept[valued[order]] = place - np.maximum.accumulate(np.where(first, place, 0)) < self.n
        return kept

    def _one_by_one(
        self, of_list: NDArray[np.int64], starts: NDArray[np.int64], labels: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Go through the lists item by item, if items have several values; a dropped item counts for none of them."""
        kept = np.ones(len(of_list), np.bool_)
        values, bounds, current = labels.tolist(), starts.tolist(), -1
        counts: Counter[int] = Counter()
        for item, which in enumerate(of_list.tolist()):
            if which != current:
                counts, current = Counter(), which
            own = values[bounds[item] : bounds[item + 1]]
            if any(counts[value] >= self.n for value in own):
                kept[item] = False
            else:
                counts.update(own)
        return kept


@dataclass(frozen=True)
class Diversify:
    """Maximal marginal relevance over the best candidates; created by `diversify`."""

    weight: float
    candidates: int
    metric: Metric

    def __str__(self) -> str:
        metric = "" if self.metric == "cosine" else f", metric={self.metric!r}"
        return f"diversify({self.weight:g}, candidates={self.candidates}{metric})"

    def order(self, scores: NDArray[np.float32], vectors: NDArray[np.float32], k: int) -> NDArray[np.int64]:
        """Choose k of the ranked candidates and return their places, in the order of choice; fewer if there are fewer.

        Parameters
        ----------
        scores : array of shape (n_candidates,)
            Best first; minus infinity means no item.
        vectors : float32 array of shape (n_candidates, n_factors)
            Their factors.
        k : int
            How many to choose.
        """
        n = int(np.count_nonzero(scores > -np.inf))
        relevance = _from_0_to_1(scores[:n])
        alike = self.likeness(vectors[:n])
        nearest = np.zeros(n)  # the largest similarity of each candidate to a chosen item
        left = np.ones(n, np.bool_)
        chosen = np.empty(min(k, n), np.int64)
        for place in range(len(chosen)):
            worth = (1 - self.weight) * relevance - self.weight * nearest
            best = int(np.argmax(np.where(left, worth, -np.inf)))
            chosen[place], left[best] = best, False
            nearest = np.maximum(nearest, alike[best]) if place else alike[best]
        return chosen

    def likeness(self, vectors: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return cosines, or inner products divided by the largest squared norm: from -1 to 1."""
        products = np.empty((len(vectors), len(vectors)), np.float32)
        running = core()
        running.kernels.inner_products(vectors, vectors, products, running.level)
        norms = np.sqrt(products.diagonal().astype(np.float64))
        longest = norms.max(initial=0)
        scale = np.outer(norms, norms) if self.metric == "cosine" else np.full(products.shape, longest * longest)
        likeness = np.zeros(products.shape)
        np.divide(products, scale, out=likeness, where=scale > 0)
        return likeness


def _from_0_to_1(scores: NDArray[Any]) -> NDArray[np.float64]:
    """Scale scores linearly so that the worst is 0 and the best 1; all 1 if they are equal."""
    if not len(scores):
        return np.zeros(0)
    low, high = float(scores.min()), float(scores.max())
    return (scores.astype(np.float64) - low) / (high - low) if high > low else np.ones(len(scores))


def at_most(n: int, *, per: str) -> AtMost:
    """Limit each list to n items for each value of a column.

    Items are taken in the order of their scores. An item is skipped if n items with its value were already taken. If
    the column has one value per item, this gives the best list under the rule: no other has a larger sum of scores. An
    item with several values counts for each of them, and is skipped if any of them is already taken n times. An item
    without a value is never skipped.

    Parameters
    ----------
    n : int
        The limit, at least 1. A smaller limit makes lists more varied, and needs a deeper search.
    per : str
        The name of the column.

    Examples
    --------
    >>> at_most(2, per="genre")
    AtMost(n=2, per='genre')
    """
    if not isinstance(per, str):
        raise TypeError(f"per must be the name of a column, not {type(per).__name__}.")
    return AtMost(_checks.whole_number(n, "n", 1), per)


def diversify(weight: float, *, candidates: int = 100, metric: Metric = "cosine") -> Diversify:
    """Choose items from the best candidates, one after another, that are relevant and unlike those chosen before.

    This is maximal marginal relevance: the next item is the one with the largest
    (1 - weight) x relevance - weight x similarity. Relevance is the score, scaled so that the worst candidate has 0 and
    the best 1. Similarity is the largest cosine with an item chosen before. The first item is the top candidate; ties
    go to the better-ranked item.

    Parameters
    ----------
    weight : float
        From 0 to 1. With 0, the list stays as it is; with 1, only variety counts.
    candidates : int, default 100
        How many of the best items to choose from. More candidates give more variety, but time and memory grow with the
        square of their number.
    metric : {"cosine", "inner product"}, default "cosine"
        How to measure similarity. Inner products are divided by the largest squared norm of the candidates, so long
        items count as more similar.

    Examples
    --------
    >>> diversify(0.3)
    Diversify(weight=0.3, candidates=100, metric='cosine')
    """
    share = _checks.number_between(weight, "weight", 0, 1)
    _checks.one_of(metric, "metric", get_args(Metric))
    return Diversify(share, _checks.whole_number(candidates, "candidates", 1), metric)
