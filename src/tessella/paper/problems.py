"""The problems of the experiments: draws of user and item factors, generated (P18) or learned from ratings (P19)."""

import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tessella import _checks
from tessella._numbers import MAX_FACTORS
from tessella.datasets import DATA_VARIABLE, Ratings, movielens
from tessella.paper.factorise import Factors, factorise, factorise_implicit

KAPPA = 10  # the number of true best items of a user
FEWEST_ITEMS = 2 * KAPPA
FACTORS_ASKED = 102  # users of ready-made factors, since those sets are large
# By the error on held-out ratings: for 1M the best of 0.05, 0.065 and 0.08; for 100k, 0.12 would be better by 0.003.
REGULARISATION = {"100k": 0.1, "1m": 0.065}


class Draw(NamedTuple):
    """Factors to search, and the seed of the baselines' random vectors."""

    users: NDArray[np.float32]
    items: NDArray[np.float32]
    seed: int


@dataclass(frozen=True)
class Problem:
    """Draws of one kind, and the discarded share at which methods are compared."""

    name: str
    title: str
    draws: tuple[Draw, ...]
    target: float
    facts: dict[str, Any] = field(default_factory=dict)
    popularity: NDArray[np.int64] | None = None  # how often each item was rated


@dataclass(frozen=True)
class Scale:
    """How much work to do."""

    n_items: int  # of a synthetic draw
    n_users: int  # of a synthetic draw
    n_draws: int
    n_asked: int  # users of a set of ratings
    widths: tuple[int, ...]  # of synthetic factors
    thresholds: tuple[float, ...]
    bits: tuple[int, ...]
    ranks: tuple[int, ...]
    most_codes: int  # of a table of concomitant ranks
    tables: tuple[int, ...]
    depths: tuple[int, ...]
    spills: tuple[float, ...]
    shares: tuple[float, ...]


FULL = Scale(
    n_items=10_000,
    n_users=150,
    n_draws=3,
    n_asked=900,
    widths=(10, 20, 50),
    thresholds=tuple(tenths / 10 for tenths in range(4, 31)),
    bits=(1, 2, 3, 4, 5, 6, 8, 10, 12),
    ranks=(2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64),
    most_codes=1024,
    tables=(1, 2, 3, 4, 5, 6, 8, 16, 32, 64, 128, 256),
    depths=(1, 2, 3, 4, 5, 6, 8),
    spills=(0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4),
    shares=(0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3),
)
QUICK = Scale(
    n_items=2000,
    n_users=200,
    n_draws=2,
    n_asked=800,
    widths=(10, 20, 50),
    thresholds=tuple(tenths / 10 for tenths in range(4, 31, 2)),
    bits=(1, 2, 3, 4, 5, 6, 8),
    ranks=(2, 4, 8, 16, 32),
    most_codes=256,
    tables=(1, 2, 3, 4, 5, 6, 8, 16, 64),
    depths=(1, 2, 3, 4, 6),
    spills=(0.0, 0.1, 0.2, 0.3),
    shares=(0.01, 0.02, 0.05, 0.1, 0.2),
)


def resized(
    scale: Scale,
    *,
    n_items: int | None = None,
    n_users: int | None = None,
    n_draws: int | None = None,
    widths: tuple[int, ...] = (),
) -> Scale:
    """Return a scale with other sizes of synthetic factors, as far as they are given.

    Parameters
    ----------
    scale : Scale
        The scale to start from.
    n_items, n_users, n_draws : int, default None
        Items and users of a draw, and how many draws of each width.
    widths : tuple of int
        The numbers of factors to try.
    """
    sizes: dict[str, Any] = {}
    for name, value, least in (("items", n_items, FEWEST_ITEMS), ("users", n_users, 1), ("draws", n_draws, 1)):
        if value is not None:
            sizes[f"n_{name}"] = _checks.whole_number(value, name, least)
    if widths:
        checked = {_checks.whole_number(width, "factors", 1, MAX_FACTORS) for width in widths}
        sizes["widths"] = tuple(sorted(checked))
    return replace(scale, **sizes)


def synthetic_problems(scale: Scale, seed: int) -> list[Problem]:
    """Draw standard normal factors (P18), several times for each width."""
    problems = []
    for width in scale.widths:
        draws = []
        for number in range(scale.n_draws):
            rng = np.random.default_rng([seed, width, number])
            users = rng.standard_normal((scale.n_users, width), dtype=np.float32)
            items = rng.standard_normal((scale.n_items, width), dtype=np.float32)
            draws.append(Draw(users, items, seed + number))
        facts = {"seeds": [[seed, width, number] for number in range(scale.n_draws)]}
        title = f"Standard normal factors, k = {width}"
        problems.append(Problem(f"synthetic-{width}", title, tuple(draws), 0.8, facts))
    return problems


def movielens_problems(
    data: Path | None,
    scale: Scale,
    seed: int,
    *,
    more: bool,
    tell: Callable[[str], None] = lambda _doing: None,
    target: float = 0.7,
) -> tuple[list[Problem], list[str]]:
    """Return problems of MovieLens factors (P19) and, with `more`, of further datasets; also what was left out.

    Parameters
    ----------
    data : Path or None
        The data folder; for None, see `tessella.datasets.movielens`.
    scale : Scale
        How many users to query, in how many draws.
    seed : int
        The seed of the factorisation, of the choice of users, and of the baselines' vectors.
    more : bool
        Whether to include implicit factors, MovieLens 1M, and ready-made factors in the data folder.
    tell : callable
        Called with a description of each step.
    target : float
        The discarded share at which methods are compared.
    """
    tell("Reading MovieLens 100k")
    small = movielens(data, "100k")
    if not more:
        return [_explicit(small, "100k", scale, seed, target, tell)[0]], []
    ready = ready_made_problems(data, scale, seed, target)  # read first, because files may be damaged
    left_out: list[str] = []
    sets = {"100k": small}
    try:
        tell("Reading MovieLens 1M")
        sets["1m"] = movielens(data, "1m")
    except OSError as error:
        left_out.append(f"MovieLens 1M: {error}")
    installed = importlib.util.find_spec("implicit") is not None
    if not installed:
        left_out.append("implicit factors: the implicit library is missing; pip install 'tessella[experiments]'.")
    problems: list[Problem] = []
    for size, ratings in sets.items():
        problem, found = _explicit(ratings, size, scale, seed, target, tell)
        problems.append(problem)
        if size == "100k":
            title = "MovieLens 100k, explicit factors with all of the bias on items"
            lopsided = bias_on_items(found)
            problems.append(_learned("movielens-100k-bias", title, ratings, lopsided, scale, seed, target))
        if installed:
            tell(f"Learning implicit factors of MovieLens {_NAMES[size]}")
            title = f"MovieLens {_NAMES[size]}, implicit factors, k = 20"
            implicit = factorise_implicit(ratings, seed=seed)
            problems.append(_learned(f"movielens-{size}-implicit", title, ratings, implicit, scale, seed, target))
    return problems + ready, left_out


_NAMES = {"100k": "100k", "1m": "1M"}


def _explicit(
    ratings: Ratings, size: str, scale: Scale, seed: int, target: float, tell: Callable[[str], None]
) -> tuple[Problem, Factors]:
    tell(f"Learning factors of MovieLens {_NAMES[size]}")
    found = factorise(ratings, regularisation=REGULARISATION[size], seed=seed)
    title = f"MovieLens {_NAMES[size]}, explicit factors, k = 20"
    return _learned(f"movielens-{size}", title, ratings, found, scale, seed, target), found


def _learned(
    name: str, title: str, ratings: Ratings, found: Factors, scale: Scale, seed: int, target: float
) -> Problem:
    if ratings.n_items < FEWEST_ITEMS:
        raise ValueError(
            f"the MovieLens file has ratings of {ratings.n_items} items, but at least {FEWEST_ITEMS} are needed."
        )
    counts = np.bincount(ratings.items, minlength=ratings.n_items)
    facts = {"rmse": float(found.rmse[-1])} if found.rmse.size else {}
    draws = shared_out(found.users, found.items, scale.n_asked, scale.n_draws, seed)
    return Problem(name, title, draws, target, {"seeds": [draw.seed for draw in draws], **facts}, counts)


def shared_out(
    users: NDArray[np.float32], items: NDArray[np.float32], n_asked: int, n_draws: int, seed: int
) -> tuple[Draw, ...]:
    """Distribute some of the users over several draws of the same items.

    Hashes recover more with some random vectors than with others, so a single set of vectors would say little. Each
    draw has its own vectors, and each user counts once.
    """
    asked = np.random.default_rng(seed).permutation(len(users))[:n_asked]
    parts = np.array_split(asked, min(n_draws, len(asked)))
    return tuple(Draw(users[np.sort(part)], items, seed + number) for number, part in enumerate(parts))


def bias_on_items(found: Factors) -> Factors:
    """Rescale the bias coordinate so that users' is as large as their others; products stay the same."""
    users, items = found.users.copy(), found.items.copy()
    size = np.sqrt(np.mean(users[:, :-1] ** 2))
    items[:, -1] *= users[0, -1] / size
    users[:, -1] = size
    return found._replace(users=users, items=items)


def ready_made_problems(data: Path | None, scale: Scale, seed: int, target: float) -> list[Problem]:
    """Return problems of the factors in `factors/*/users.npy` and `items.npy` in the data folder."""
    folder = data or (Path(os.environ[DATA_VARIABLE]) if os.environ.get(DATA_VARIABLE) else None)
    problems = []
    for file in sorted((folder / "factors").glob("*/users.npy")) if folder else []:
        users = _factors_in(file)
        items = _factors_in(file.with_name("items.npy"), users.shape[1])
        if len(items) < FEWEST_ITEMS or not len(users):
            raise ValueError(
                f"{file.parent} has factors of {len(users)} users and {len(items)} items, but at least 1 user and "
                f"{FEWEST_ITEMS} items are needed."
            )
        name = file.parent.name
        draws = shared_out(users, items, FACTORS_ASKED, scale.n_draws, seed)
        facts = {"seeds": [draw.seed for draw in draws]}
        problems.append(Problem(name, f"Ready-made factors {name}", draws, target, facts))
    return problems


def _factors_in(path: Path, n_factors: int | None = None) -> NDArray[np.float32]:
    """Return the checked factors in a .npy file."""
    try:
        array = np.load(path, mmap_mode="r")
    except (OSError, ValueError):
        raise ValueError(f"{path} cannot be read: it is not a .npy file of numbers, or is damaged.") from None
    return _checks.all_factors(array, str(path), n_factors)
