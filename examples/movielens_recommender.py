"""A recommender from ratings to answers: train, recommend with titles, filter, fold in, page, explain, save.

Uses MovieLens 100k if it finds the folder ml-100k (in --data, TESSELLA_DATA or the current folder), and made-up movies
otherwise. Trains with implicit if it is installed, and otherwise with a few lines of NumPy.
"""

import argparse
import importlib.util
import itertools
import os
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

# NumPy and implicit read these variables when they load. More threads would slow down small matrices.
os.environ.update({f"{blas}_NUM_THREADS": "1" for blas in ("OPENBLAS", "MKL", "OMP")})

import numpy as np
import scipy.sparse

import tessella as ts

N_FACTORS, ALPHA, REGULARIZATION, SWEEPS = 32, 20.0, 1.0, 8
GENRES = """\
unknown Action Adventure Animation Children's Comedy Crime Documentary Drama Fantasy Film-Noir Horror Musical Mystery
Romance Sci-Fi Thriller War Western"""

WORDS = """\
Last Silent Golden Broken Hidden Lonely Electric Wild
Harbour Mirror Summer Winter Garden River Island Letter Clock Train
Athens Bergen Cairo Genoa Kyoto Lima Oslo Porto Quito Riga"""


class Movies(NamedTuple):
    """Who liked which movies, and the attributes of the movies."""

    user_items: scipy.sparse.csr_matrix  # 1 where a user liked a movie
    user_ids: list[int]
    item_ids: list[int]
    attributes: dict[str, list[Any]]  # title, genres, year


def movielens(folder: Path) -> Movies:
    """Read MovieLens 100k; a rating of 4 or 5 is a like."""
    ratings = np.loadtxt(folder / "u.data", dtype=np.int64)
    liked = ratings[ratings[:, 2] >= 4]
    user_ids, users = np.unique(liked[:, 0], return_inverse=True)
    item_ids, items = np.unique(liked[:, 1], return_inverse=True)
    known = {}
    for line in (folder / "u.item").read_text("latin-1").splitlines():
        number, title, released, _, _, *flags = line.split("|")
        genres = [genre for genre, flag in zip(GENRES.split(), flags, strict=True) if flag == "1"]
        known[int(number)] = title, genres, int(released[-4:]) if released else None
    table = scipy.sparse.csr_matrix((np.ones(len(liked), np.float32), (users, items)))
    titles, genres, years = zip(*(known[number] for number in item_ids.tolist()), strict=True)
    attributes = {"title": list(titles), "genres": list(genres), "year": list(years)}
    return Movies(table, user_ids.tolist(), item_ids.tolist(), attributes)


def made_up(n_users: int = 400, n_items: int = 600) -> Movies:
    """Make up movies of one or two genres, and users who prefer two genres and popular movies."""
    rng = np.random.default_rng(0)
    genres = GENRES.split()[1:]
    titles = [f"The {a} {b} of {c}" for a, b, c in itertools.product(*map(str.split, WORDS.splitlines()))]
    of_items = [sorted(rng.choice(genres, rng.integers(1, 3), replace=False).tolist()) for _ in range(n_items)]
    years = rng.integers(1930, 2020, n_items).tolist()
    has = np.array([[genre in own for genre in genres] for own in of_items], np.float64)
    tastes = np.array([np.isin(genres, rng.choice(genres, 2, replace=False)) for _ in range(n_users)], np.float64)
    wish = np.exp(2.5 * tastes @ has.T + rng.normal(size=n_items))
    likes = [rng.choice(n_items, 40, replace=False, p=own / own.sum()) for own in wish]
    rows, columns = np.repeat(np.arange(n_users), 40), np.concatenate(likes)
    table = scipy.sparse.csr_matrix((np.ones(len(rows), np.float32), (rows, columns)), (n_users, n_items))
    chosen = rng.permutation(titles)[:n_items]
    shown = [f"{title} ({year})" for title, year in zip(chosen, years, strict=True)]
    ids = np.arange(1, 1 + max(n_users, n_items)).tolist()
    return Movies(table, ids[:n_users], ids[:n_items], {"title": shown, "genres": of_items, "year": years})


def trained(user_items: scipy.sparse.csr_matrix) -> tuple[np.ndarray, np.ndarray, str]:
    """Return item and user factors by alternating least squares, and the name of the library that computed them."""
    if importlib.util.find_spec("implicit") is None:
        return *least_squares(user_items), "NumPy"
    from implicit.cpu.als import AlternatingLeastSquares  # noqa: PLC0415

    model = AlternatingLeastSquares(N_FACTORS, regularization=REGULARIZATION, alpha=ALPHA, random_state=0)
    model.fit(user_items, show_progress=False)
    return model.item_factors, model.user_factors, "implicit"


def least_squares(user_items: scipy.sparse.csr_matrix) -> tuple[np.ndarray, np.ndarray]:
    """Compute item and user factors by implicit alternating least squares (Hu, Koren and Volinsky, 2008)."""

    def solved(table: scipy.sparse.csr_matrix, others: np.ndarray) -> np.ndarray:
        gram = others.T @ others + REGULARIZATION * np.eye(N_FACTORS)
        found = np.zeros((table.shape[0], N_FACTORS))
        for row, (start, end) in enumerate(itertools.pairwise(table.indptr)):
            liked = others[table.indices[start:end]]
            found[row] = np.linalg.solve(gram + (ALPHA - 1) * liked.T @ liked, ALPHA * liked.sum(axis=0))
        return found

    items = np.random.default_rng(0).normal(0, 0.1, (user_items.shape[1], N_FACTORS))
    for _ in range(SWEEPS):
        users = solved(user_items, items)
        items = solved(user_items.T.tocsr(), users)
    return items.astype(np.float32), users.astype(np.float32)


def built(movies: Movies, items: np.ndarray, users: np.ndarray) -> ts.Recommender:
    """Build a recommender with titles, genres, years and the popularity of each movie."""
    likes = np.asarray(movies.user_items.sum(axis=0)).ravel()
    return ts.Recommender.build(
        items,
        users,
        item_ids=movies.item_ids,
        user_ids=movies.user_ids,
        seen=movies.user_items,
        attributes=movies.attributes,
        signals={"popularity": np.log1p(likes)},
    )


def show(title: str, *found: object) -> None:
    """Print results under a title."""
    print(f"\n{title}\n")
    for one in found:
        print("  " + str(one).replace("\n", "\n  "))


def tour(model: ts.Recommender, movies: Movies) -> None:
    """Show what a service needs, for one user and for a new one."""
    user = movies.user_ids[0]
    titles, genres = movies.attributes["title"], movies.attributes["genres"]
    liked = movies.user_items[0].indices
    show(f"User {user} liked {len(liked)} movies, such as", *(titles[item] for item in liked[:5]))
    show("Recommended, leaving those out", model.recommend(user, k=5))
    show("Only comedies since 1980", model.recommend(user, k=5, where={"genres": "Comedy", "year": {"from": 1980}}))
    show("Less popular movies boosted", model.recommend(user, k=5, boosts={"popularity": -0.1}))
    show("At most one per genre", model.recommend(user, k=5, variety=ts.at_most(1, per="genres")))

    first = model.recommend(user, k=3)
    second = model.recommend(user, k=3, after=first.next)
    show("The second page, with three per page", second, f"its cursor has {len(first.next)} characters")

    best = first.ids[0].item()
    show("Why the first movie is recommended", model.explain(user, item=best))
    show("Why a seen movie is not", model.explain(user, item=movies.item_ids[liked[0]]))
    show(f"Similar to {first.titles[0]}", model.similar(best, k=3))

    fans = [item for item, own in zip(movies.item_ids, genres, strict=True) if "Sci-Fi" in own][:5]
    show("A new user likes", *(titles[movies.item_ids.index(item)] for item in fans))
    new = model.recommend(liked=fans, k=5, regularization=REGULARIZATION, alpha=ALPHA)
    show("and gets these recommendations", new)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "movies.tessella"
        model.save(path)
        again = ts.Recommender.load(path, mmap=True)
        same = bool((again.recommend(user, k=5).ids == model.recommend(user, k=5).ids).all())
        size = path.stat().st_size / 2**20
    show("Saved and loaded", f"one file of {size:.1f} MB; the same answers: {same}")
    start = time.perf_counter()
    everybody = model.recommend_all(k=10, progress=False)
    took = time.perf_counter() - start
    show("Ten for every user", f"{everybody.ids.size:,} recommendations in {1000 * took:.0f} ms")


def main() -> None:
    """Read or make up movies, train a model, and show what a recommender does."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(os.environ.get("TESSELLA_DATA", "."))
    parser.add_argument(
        "--data", type=Path, default=default, help="a folder that holds ml-100k; TESSELLA_DATA or this one by default"
    )
    parser.add_argument("--made-up", action="store_true", help="use made-up movies, even if MovieLens is found")
    options = parser.parse_args()
    folder = options.data / "ml-100k"
    real = not options.made_up and (folder / "u.data").exists()
    movies = movielens(folder) if real else made_up()
    start = time.perf_counter()
    items, users, by = trained(movies.user_items)
    print(f"{'MovieLens 100k' if real else 'Made-up movies'}: {movies.user_items.nnz:,} likes; "
          f"factors by {by} in {time.perf_counter() - start:.1f} s")  # fmt: skip
    model = built(movies, items, users)
    print(model)
    tour(model, movies)


if __name__ == "__main__":
    main()
