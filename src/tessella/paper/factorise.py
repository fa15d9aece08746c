"""Factors learned from ratings, for the experiments: by alternating least squares, and by the implicit library."""

import warnings
from typing import NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from tessella import _checks
from tessella.datasets import Ratings


class Factors(NamedTuple):
    """Factors whose inner products rank items for users.

    Attributes
    ----------
    users : ndarray of float32, shape (n_users, n_factors)
        User factors.
    items : ndarray of float32, shape (n_items, n_factors)
        Item factors.
    rmse : ndarray of float64, shape (n_sweeps + 1,)
        The root-mean-square error on held-out ratings, at the start and after each sweep; empty if none are held out.
    """

    users: NDArray[np.float32]
    items: NDArray[np.float32]
    rmse: NDArray[np.float64]


def factorise(
    ratings: Ratings,
    *,
    n_factors: int = 20,
    regularisation: float = 0.1,
    n_sweeps: int = 15,
    held_out: float = 0.1,
    seed: int = 0,
) -> Factors:
    """Factorise explicit ratings by alternating least squares, with biases.

    A rating is modelled as mean + user bias + item bias + an inner product. Each sweep solves a ridge regression for
    every user and then for every item, with a penalty that grows with the number of ratings (Zhou and others, AAIM
    2008). A user's bias does not change the ranking, so it is left out of the factors. An item's bias does, so it
    becomes the last coordinate of items, and all users have the same number there. Any such number c gives the same
    products if the items' coordinate is divided by c. The c used makes this coordinate as large in users as in items,
    which minimises the sum of squares.

    Parameters
    ----------
    ratings : Ratings
        From `tessella.datasets`.
    n_factors : int, default 20
        The number of coordinates, including the item bias; at least 2. More coordinates fit better and take longer.
    regularisation : float, default 0.1
        The penalty per rating, above 0 in practice. A larger value fits less closely.
    n_sweeps : int, default 15
        How often to solve for all users and items, at least 1.
    held_out : float, default 0.1
        The share of ratings, from 0 to 0.5, that is used to measure the error instead of for learning.
    seed : int, default 0
        The seed of the initial factors and of the choice of held-out ratings.

    Examples
    --------
    >>> import numpy as np
    >>> from tessella.datasets import Ratings
    >>> from tessella.paper.factorise import factorise
    >>> users, items = (part.ravel() for part in np.mgrid[:30, :20])
    >>> stars = 1.0 + (users + items) % 5
    >>> found = factorise(Ratings(users, items, stars, None), n_factors=4)
    >>> found.items.shape, bool(found.rmse[-1] < found.rmse[0])
    ((20, 4), True)
    """
    width = _checks.whole_number(n_factors, "n_factors", 2) - 1
    penalty = _checks.number_at_least(regularisation, "regularisation", 0)
    sweeps = _checks.whole_number(n_sweeps, "n_sweeps", 1)
    share = _checks.number_between(held_out, "held_out", 0, 0.5)
    rng = np.random.default_rng(_checks.whole_number(seed, "seed", 0))
    hidden = rng.random(len(ratings.ratings)) < share
    learned = ~hidden
    mean = float(ratings.ratings[learned].mean())
    shape = ratings.n_users, ratings.n_items
    seen = ratings.users[learned], ratings.items[learned]
    table = scipy.sparse.csr_array((ratings.ratings[learned] - mean, seen), shape=shape)
    transposed = scipy.sparse.csr_array(table.T)

    users = np.zeros((shape[0], width + 1))
    items = np.concatenate([rng.normal(0, 0.1, (shape[1], width)), np.zeros((shape[1], 1))], axis=1)

    def error() -> float:
        who, what = ratings.users[hidden], ratings.items[hidden]
        product = np.einsum("ij,ij->i", users[who, :-1], items[what, :-1])
        guess = np.clip(mean + users[who, -1] + items[what, -1] + product, 1, 5)
        return float(np.sqrt(np.mean((ratings.ratings[hidden] - guess) ** 2)))

    errors = [error()] if hidden.any() else []
    for _ in range(sweeps):
        users = _solved(table, items, penalty)
        items = _solved(transposed, users, penalty)
        if hidden.any():
            errors.append(error())
    size = float(np.mean(items[:, -1] ** 2)) ** 0.25 or 1.0
    users[:, -1] = size
    items[:, -1] /= size
    return Factors(users.astype(np.float32), items.astype(np.float32), np.array(errors))


def _solved(table: scipy.sparse.csr_array, others: NDArray[np.float64], penalty: float) -> NDArray[np.float64]:
    """Return for each row the factor and (last) the bias that fit its ratings best, given those of the columns."""
    found = np.zeros((table.shape[0], others.shape[1]))
    design = others.copy()
    design[:, -1] = 1  # the row's bias counts once for each rating
    eye = np.eye(others.shape[1])
    for row in range(table.shape[0]):
        part = slice(table.indptr[row], table.indptr[row + 1])
        columns = table.indices[part]
        if len(columns):
            known = design[columns]
            wanted = table.data[part] - others[columns, -1]
            found[row] = np.linalg.solve(known.T @ known + penalty * len(columns) * eye, known.T @ wanted)
    return found


def factorise_implicit(ratings: Ratings, *, n_factors: int = 20, alpha: float = 20.0, seed: int = 0) -> Factors:
    """Factorise who rated what (not how) with the `implicit` library (Hu, Koren and Volinsky, ICDM 2008).

    Parameters
    ----------
    ratings : Ratings
        From `tessella.datasets`.
    n_factors : int, default 20
        The number of coordinates of the factors.
    alpha : float, default 20.0
        How much more a rating counts than its absence. A larger value gives item factors of more even length.
    seed : int, default 0
        The seed of the initial factors.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about other libraries' threads
            from implicit.cpu.als import AlternatingLeastSquares  # noqa: PLC0415 - an extra
    except ImportError:
        raise ImportError(
            "implicit factors need the implicit library; install it with pip install 'tessella[experiments]'."
        ) from None
    table = scipy.sparse.csr_matrix((np.ones(len(ratings.users), np.float32), (ratings.users, ratings.items)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = AlternatingLeastSquares(
            factors=n_factors, alpha=alpha, iterations=15, random_state=seed, num_threads=1, use_cg=False
        )
        model.fit(table, show_progress=False)
    return Factors(np.asarray(model.user_factors), np.asarray(model.item_factors), np.empty(0))
