"""Recommendations: the answers of a recommender, as arrays, as lists, and as a table."""

import html
import importlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tessella.results import SearchResult

_ROWS_SHOWN = 20
_WIDEST = 60  # characters of a title


class Recommendation(NamedTuple):
    """One recommended item."""

    item: int | str
    score: float
    title: str | None


class Recommendations(SearchResult):
    """Lists of recommended items, best first; for a single user, arrays have one dimension less.

    Unpacks as ``ids, scores``. Prints as a table, with titles if the items have an attribute "title".

    Attributes
    ----------
    users : ndarray of shape (n_users,), or None
        Ids of the users; None if vectors or likes were passed.
    ids : ndarray of shape (n_users, k)
        Ids of items. Lists with fewer than k items are padded with -1, or with None for string ids.
    scores : ndarray of float32, shape (n_users, k)
        Inner products plus boosts; -inf where there is no item.
    n_scored : ndarray of int64, shape (n_users,)
        The number of items scored for each user.
    certified : ndarray of bool, shape (n_users,)
        Whether the list is certified to be the true top k.
    generation : str
        The model that answered: see `Recommender.generation`.
    version : int
        The version of the recommender that answered: see `Recommender.version`.
    after_version : int or None
        The version that answered the previous page; None on the first page. If it equals `version`, exact pages add up
        to the long list. If not, items have changed in between: no item appears twice, and this page holds the best of
        the rest.

    Examples
    --------
    >>> import numpy as np
    >>> import tessella as ts
    >>> movies = {"title": ["Alien", "Brazil", "Casablanca"]}
    >>> model = ts.Recommender.build(np.eye(3), [[3.0, 2.0, 1.0]], attributes=movies)
    >>> found = model.recommend(0, k=2)
    >>> found
    rank  item  score  title
    1     0     3      Alien
    2     1     2      Brazil
    >>> ids, scores = found
    >>> found.lists()
    [Recommendation(item=0, score=3.0, title='Alien'), Recommendation(item=1, score=2.0, title='Brazil')]
    """

    __slots__ = ("_next", "_titles", "_who", "after_version", "generation", "users", "version")

    def __init__(
        self,
        found: SearchResult,
        users: NDArray[Any] | None,
        generation: str,
        version: int,
        titles: Callable[[NDArray[Any]], NDArray[Any]] | None,
        following: Callable[[SearchResult], str] | None,
        who: str = "user",
        after_version: int | None = None,
    ) -> None:
        super().__init__(found.ids, found.scores, found.n_scored, found.certified)
        self.users, self.generation, self.version, self.after_version = users, generation, version, after_version
        self._titles, self._next, self._who = titles, following, who

    @property
    def next(self) -> str:
        """The cursor of the next page, to pass as ``after``: a string of letters, digits, - and _."""
        if self._next is None:
            raise ValueError("similar items have no pages; ask for a larger k.")
        return self._next(self)

    @property
    def short(self) -> NDArray[np.bool_]:
        """Whether each list has fewer than k items because its filters or its variety rule allow no more."""
        return np.asarray(self.scores[..., -1] == -np.inf)

    @property
    def titles(self) -> NDArray[Any]:
        """The titles of the items, as an object array; None where there is no title."""
        return np.full(self.ids.shape, None, object) if self._titles is None else self._titles(self.ids)

    def lists(self) -> list[Any]:
        """Return a list of `Recommendation` for each user, or one list for a single user; without padding."""
        titles = self.titles
        rows = zip(np.atleast_2d(self.ids), np.atleast_2d(self.scores), np.atleast_2d(titles), strict=True)
        made = [
            [
                Recommendation(item, score, title)
                for item, score, title in zip(ids.tolist(), scores.tolist(), names.tolist(), strict=True)
                if score > -np.inf
            ]
            for ids, scores, names in rows
        ]
        return made[0] if self.ids.ndim == 1 else made

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return one row per recommendation: user (or query number), rank from 1, item, score and, if any, title."""
        ids, scores = np.atleast_2d(self.ids), np.atleast_2d(self.scores)
        there = scores > -np.inf
        query, at = np.nonzero(there)
        made = {
            self._who: query if self.users is None else np.atleast_1d(self.users)[query],
            "rank": at + 1,
            "item": ids[there],
            "score": scores[there],
        }
        return made if self._titles is None else made | {"title": np.atleast_2d(self.titles)[there]}

    def to_pandas(self) -> Any:
        """Return `columns` as a pandas DataFrame."""
        return _library("pandas").DataFrame(self.columns())

    def to_polars(self) -> Any:
        """Return `columns` as a polars DataFrame."""
        return _library("polars").DataFrame({name: _plain(values) for name, values in self.columns().items()})

    def to_arrow(self) -> Any:
        """Return `columns` as an Arrow table."""
        arrow = _library("pyarrow")
        return arrow.table({name: arrow.array(_plain(values)) for name, values in self.columns().items()})

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the titles and the cursor along with the arrays, but not the model."""
        titles = (
            None if self._titles is None else dict(zip(self.ids.ravel().tolist(), self.titles.ravel(), strict=True))
        )
        cursor = None if self._next is None else self.next
        arrays = tuple(self.arrays().values())
        named = (self.users, self.generation, self.version, self.after_version)
        return _unpickled, (arrays, named, titles, cursor, self._who)

    def _rows(self) -> Iterator[tuple[str, ...]]:
        """Yield a header and then the first rows, as strings."""
        ids, scores = np.atleast_2d(self.ids), np.atleast_2d(self.scores)
        shown = max(1, -(-_ROWS_SHOWN // max(1, ids.shape[1])))
        part = _part(self, slice(0, shown))
        columns = part.columns()
        if self.ids.ndim == 1:
            del columns[self._who]
        yield tuple(columns)
        for row in list(zip(*(values.tolist() for values in columns.values()), strict=True))[:_ROWS_SHOWN]:
            yield tuple(_cell(value) for value in row)
        more = int(np.count_nonzero(scores > -np.inf)) - min(_ROWS_SHOWN, len(columns["rank"]))
        if more > 0:
            yield (f"... and {more:,} more",)
        n_short, k = int(np.count_nonzero(self.short)), ids.shape[1]
        if n_short and self.ids.ndim == 1:
            yield (f"{len(columns['rank']):,} of the {k:,} requested items; no more were found.",)
        elif n_short:
            lists = "1 list has" if n_short == 1 else f"{n_short:,} lists have"
            yield (f"{lists} fewer than the {k:,} requested items; no more were found.",)

    def __repr__(self) -> str:
        head, *rows = self._rows()
        table = [head, *(row for row in rows if len(row) == len(head))]
        widths = [max(len(row[at]) for row in table) for at in range(len(head))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table
        ]
        return "\n".join([*lines, *(row[0] for row in rows if len(row) < len(head))])

    def _repr_html_(self) -> str:
        head, *rows = self._rows()
        names = "".join(f"<th>{html.escape(name)}</th>" for name in head)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in rows
            if len(row) == len(head)
        )
        more = "".join(f"<p>{html.escape(row[0])}</p>" for row in rows if len(row) < len(head))
        return f"<table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>{more}"


def _unpickled(
    arrays: tuple[Any, ...],
    named: tuple[NDArray[Any] | None, str, int, int | None],
    titles: dict[Any, Any] | None,
    cursor: str | None,
    who: str,
) -> Recommendations:
    def title_of(ids: NDArray[Any]) -> NDArray[Any]:
        known = {} if titles is None else titles
        return np.array([known[item] for item in ids.ravel().tolist()], object).reshape(ids.shape)

    def following(_: SearchResult) -> str:
        return cursor or ""

    next_page = None if cursor is None else following
    shown = None if titles is None else title_of
    users, generation, version, before = named
    return Recommendations(SearchResult(*arrays), users, generation, version, shown, next_page, who, before)


def _part(found: Recommendations, some: slice) -> Recommendations:
    """Return the lists of some users."""
    if found.ids.ndim == 1:
        return found
    users = None if found.users is None else found.users[some]
    arrays = (found.ids[some], found.scores[some], found.n_scored[some], found.certified[some])
    return Recommendations(
        SearchResult(*arrays), users, found.generation, found.version, found._titles, found._next, found._who
    )


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    text = "" if value is None else str(value)
    return text if len(text) <= _WIDEST else text[: _WIDEST - 3] + "..."


def _plain(values: NDArray[Any]) -> Any:
    """Return strings as a list, which every library reads, and numbers as they are."""
    return values if values.dtype.kind in "iuf" else values.tolist()


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ImportError(f"{name} is not installed; install it with: pip install {name}") from None
