"""Recommendations for all users without seen items: implicit's model against the same code with one line changed.

Gowalla's factors are read from the folder named in TESSELLA_DATA (or ../shared/data); for MovieLens, ALS and BPR are
trained here. Answers are compared before they are timed.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import measure
import numpy as np
import scipy.sparse
import sets
from implicit.cpu.als import AlternatingLeastSquares
from implicit.cpu.bpr import BayesianPersonalizedRanking

from tessella.integrations.implicit import ImplicitRecommender

K = 10
MOVIELENS = "ml-1m"
GOAL = 5.0  # times as fast
NEAR = 1e-5  # items whose scores differ by less may be in another order


class Trained(NamedTuple):
    """A model, and what it was trained on."""

    name: str
    model: Any
    user_items: scipy.sparse.csr_matrix


def trained(only: str) -> Iterator[Trained]:
    """Yield every model that is available here."""
    for name in sets.LEARNED:
        if only not in name:
            continue
        user_items = sets.seen(name) if name in sets.learned_names() else None
        if user_items is None:
            print(f"{name} is skipped: it is not in {sets.DATA}")
            continue
        factors = sets.learned(name)
        model = AlternatingLeastSquares(factors=factors.items.shape[1])
        model.item_factors, model.user_factors = factors
        yield Trained(name, model, user_items)
    if only not in MOVIELENS:
        return
    ratings = sets.DATA / MOVIELENS / "ratings.npz"
    if not ratings.exists():
        print(f"MovieLens is skipped: there is no {ratings}")
        return
    user_items = scipy.sparse.csr_matrix(scipy.sparse.load_npz(ratings)).astype(np.float32)
    for kind, options in ((AlternatingLeastSquares, {"alpha": 20.0}), (BayesianPersonalizedRanking, {})):
        model = kind(factors=64, random_state=0, num_threads=1, **options)
        model.fit(user_items, show_progress=False)
        yield Trained(f"{MOVIELENS} {kind.__name__}", model, user_items)


def differences(ours: tuple[np.ndarray, np.ndarray], theirs: tuple[np.ndarray, np.ndarray]) -> tuple[int, int]:
    """Return how many places hold another item, and how many hold another score, apart from rounding."""
    other = ours[0] != theirs[0]
    worse = np.abs(ours[1] - theirs[1]) > NEAR * np.maximum(1.0, np.abs(theirs[1]))
    return int(np.count_nonzero(other)), int(np.count_nonzero(worse))


def race(given: Trained, threads: int, turns: int, **options: Any) -> dict[str, object]:
    """Print and return how many times as fast as implicit all users are answered."""
    given.model.num_threads = threads
    users = np.arange(given.user_items.shape[0])
    models = {"implicit": given.model, "tessella": ImplicitRecommender(given.model, **options)}  # the line that changes
    found = {name: model.recommend(users, given.user_items, N=K) for name, model in models.items()}
    other, worse = differences(found["tessella"], found["implicit"])
    calls = {name: lambda model=model: model.recommend(users, given.user_items, N=K) for name, model in models.items()}
    seconds = measure.alternate(calls, turns)
    ratio = measure.median_ratio(seconds, "implicit", "tessella")
    how = ", ".join(f"{name} {value}" for name, value in options.items()) or "exact"
    taken = {name: float(np.median(times)) for name, times in seconds.items()}
    print(f"  {threads} thread{'s' if threads > 1 else ' '}  {how:<32} {taken['implicit']:.2f} s over "
          f"{taken['tessella']:.3f} s = {ratio:.1f}{measure.goal(ratio, least=GOAL)}; {other} of "
          f"{found['implicit'][0].size:,} places hold another item, {worse} with another score")  # fmt: skip
    return {"set": given.name, "threads": threads, "options": options, "seconds": taken, "over_implicit": ratio,
            "other_items": other, "other_scores": worse}  # fmt: skip


def everyone(only: str, turns: int, threads: int, *, quick: bool) -> Iterator[dict[str, object]]:
    """Print and yield the figures of every set, on one thread and on all; a quick run uses fewer users."""
    for given in trained(only):
        some = Trained(given.name, given.model, given.user_items[:1000]) if quick else given
        n_users, n_items = some.user_items.shape
        print(f"\n{some.name}: {n_users:,} users x {n_items:,} items, k = {K}, {some.user_items.nnz:,} seen")
        for count in dict.fromkeys((1, threads)):
            yield race(some, count, turns)
        yield race(some, 1, turns, method="auto", target_recall=0.99)
