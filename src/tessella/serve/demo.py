"""Demo: a store of movies, from MovieLens or made up, with two models of different width to compare."""

import datetime
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from tessella.recommend.signals import Decaying
from tessella.store import Store

WIDTHS = {"wide": 32, "narrow": 12}  # factors of each generation; the first is live
ALPHA, REGULARIZATION, SWEEPS = 20.0, 1.0, 6
HALF_LIFE = datetime.timedelta(days=3650)
LIKED = 4  # stars
GENRES = """\
unknown Action Adventure Animation Children's Comedy Crime Documentary Drama Fantasy Film-Noir Horror Musical Mystery
Romance Sci-Fi Thriller War Western"""
WORDS = """\
Last Silent Golden Broken Hidden Lonely Electric Wild Paper Second
Harbour Mirror Summer Winter Garden River Island Letter Clock Train Orchard Lantern
Athens Bergen Cairo Genoa Kyoto Lima Oslo Porto Quito Riga Tunis Vilnius"""


class Movies(NamedTuple):
    """Who liked which movie, and the attributes of the movies."""

    user_items: Any  # users x items, 1 where a user liked a movie
    user_ids: list[int]
    item_ids: list[int]
    attributes: dict[str, list[Any]]


def movielens(data: Path) -> Movies:
    """Read MovieLens 100k as published."""
    folder = data / "ml-100k" if (data / "ml-100k").is_dir() else data
    for name in ("u.data", "u.item"):
        if not (folder / name).is_file():
            raise FileNotFoundError(f"{data} holds no ml-100k/{name}; unpack MovieLens 100k there.")
    ratings = np.loadtxt(folder / "u.data", dtype=np.int64)
    liked = ratings[ratings[:, 2] >= LIKED]
    user_ids, users = np.unique(liked[:, 0], return_inverse=True)
    item_ids, items = np.unique(liked[:, 1], return_inverse=True)
    known = {}
    for line in (folder / "u.item").read_text("latin-1").splitlines():
        number, title, released, _, _, *flags = line.split("|")
        own = [genre for genre, flag in zip(GENRES.split(), flags, strict=True) if flag == "1"]
        known[int(number)] = title, own, int(released[-4:]) if released else None
    table = scipy.sparse.csr_matrix((np.ones(len(liked), np.float32), (users, items)))
    titles, genres, years = zip(*(known[number] for number in item_ids.tolist()), strict=True)
    attributes = {"title": list(titles), "genres": list(genres), "year": list(years)}
    return Movies(table, user_ids.tolist(), item_ids.tolist(), attributes)


def made_up(n_users: int = 600, n_items: int = 900, likes: int = 40) -> Movies:
    """Make up movies with one or two genres, and users who prefer two genres and popular movies."""
    rng = np.random.default_rng(0)
    genres = GENRES.split()[1:]
    titles = [f"The {a} {b} of {c}" for a, b, c in itertools.product(*map(str.split, WORDS.splitlines()))]
    of_items = [sorted(rng.choice(genres, rng.integers(1, 3), replace=False).tolist()) for _ in range(n_items)]
    years = rng.integers(1930, 2025, n_items).tolist()
    has = np.array([[genre in own for genre in genres] for own in of_items], np.float64)
    tastes = np.array([np.isin(genres, rng.choice(genres, 2, replace=False)) for _ in range(n_users)], np.float64)
    wish = np.exp(2.5 * tastes @ has.T + rng.normal(size=n_items))
    chosen = [rng.choice(n_items, likes, replace=False, p=own / own.sum()) for own in wish]
    rows, columns = np.repeat(np.arange(n_users), likes), np.concatenate(chosen)
    table = scipy.sparse.csr_matrix((np.ones(len(rows), np.float32), (rows, columns)), (n_users, n_items))
    named = rng.permutation(titles)[:n_items]
    shown = [f"{title} ({year})" for title, year in zip(named, years, strict=True)]
    ids = np.arange(1, 1 + max(n_users, n_items)).tolist()
    return Movies(table, ids[:n_users], ids[:n_items], {"title": shown, "genres": of_items, "year": years})


def trained(user_items: Any, width: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Train item and user factors by implicit alternating least squares (Hu, Koren and Volinsky, 2008)."""

    def solved(table: Any, others: NDArray[np.float64]) -> NDArray[np.float64]:
        gram = others.T @ others + REGULARIZATION * np.eye(width)
        found = np.zeros((table.shape[0], width))
        for row, (start, end) in enumerate(itertools.pairwise(table.indptr)):
            liked = others[table.indices[start:end]]
            found[row] = np.linalg.solve(gram + (ALPHA - 1) * liked.T @ liked, ALPHA * liked.sum(axis=0))
        return found

    items = np.random.default_rng(0).normal(0, 0.1, (user_items.shape[1], width))
    users = np.zeros((user_items.shape[0], width))
    for _ in range(SWEEPS):
        users = solved(user_items, items)
        items = solved(user_items.T.tocsr(), users)
    return items.astype(np.float32), users.astype(np.float32)


def fill(path: Path, movies: Movies, tell: Callable[[str], None] = lambda _: None) -> None:
    """Train a model of each width and publish them in a new store; the first of `WIDTHS` is live.

    Parameters
    ----------
    path : Path
        The store to create.
    movies : Movies
        The movies to train on.
    tell : callable
        Called with a line of text before each step.
    """
    likes = np.asarray(movies.user_items.sum(axis=0)).ravel()
    years = [1970 if year is None else year for year in movies.attributes["year"]]
    moments = np.array([f"{year}-07-01" for year in years], "datetime64[D]")
    with Store.open(path) as store:
        if store.live is not None:
            raise FileExistsError(f"{path} already holds a model; name another file, or serve it with tessella serve.")
        for name, width in reversed(WIDTHS.items()):
            tell(f"training {width} factors of {len(movies.item_ids):,} movies and {len(movies.user_ids):,} users")
            items, users = trained(movies.user_items, width)
            store.publish(
                items,
                users,
                name=name,
                item_ids=movies.item_ids,
                user_ids=movies.user_ids,
                seen=movies.user_items,
                attributes=movies.attributes,
                signals={"popularity": np.log1p(likes), "recency": Decaying(moments, half_life=HALF_LIFE)},
                payload=[{"likes": int(count)} for count in likes],
            )
