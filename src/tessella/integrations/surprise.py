"""Surprise: a `Recommender` from SVD, SVD++ or NMF, or from any object with the same arrays."""

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from tessella import Recommender
from tessella.integrations._factors import dense, with_biases, with_ones


def from_surprise(algorithm: Any, **options: Any) -> Recommender:
    """Build a `Recommender` from a Surprise model, or any object with ``pu``, ``qi`` and, if it has biases, ``bi``.

    Item biases become one more coordinate, which is 1 for every user. The mean of all ratings and the user biases do
    not change the order of items and are left out: a score is `estimate` minus these two. For SVD++, the implicit
    factors of the items a user rated are added to the user's vector.

    Parameters
    ----------
    algorithm : surprise.SVD, SVDpp or NMF, or an object with pu and qi
        A trained model. If it has a ``trainset``, ids are the raw ids, and the items a user rated count as seen.
    **options
        As in `Recommender.build`; these override the ids and seen items of the trainset.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> import numpy as np
    >>> from tessella.integrations.surprise import from_surprise
    >>> algorithm = SimpleNamespace(pu=np.array([[2.0, 1.0]]), qi=np.eye(2), bi=np.array([0.0, 5.0]))  # yours is fitted
    >>> from_surprise(algorithm).recommend(0, k=2).scores
    array([6., 2.], dtype=float32)
    """
    kind = type(algorithm).__name__
    if not (hasattr(algorithm, "pu") and hasattr(algorithm, "qi")):
        raise TypeError(f"{kind} has no pu and qi; pass a fitted SVD, SVDpp or NMF, since others learn no factors.")
    users, items = dense(algorithm.pu, "pu"), dense(algorithm.qi, "qi")
    trainset = getattr(algorithm, "trainset", None)
    if hasattr(algorithm, "yj"):
        if trainset is None:
            raise ValueError(f"the {kind} has yj, but no trainset to say which items each user rated.")
        users = users + _implied(trainset, dense(algorithm.yj, "yj"))
    if getattr(algorithm, "biased", True) and getattr(algorithm, "bi", None) is not None:
        items, users = with_biases(items, algorithm.bi, "bi"), with_ones(users)
    known = {} if trainset is None else _known(trainset)
    return Recommender.build(items, users, **(known | options))


def _rated(trainset: Any) -> scipy.sparse.csr_matrix:
    """Return the ratings as a matrix of users x items."""
    triples = list(trainset.all_ratings())
    users, items, ratings = zip(*triples, strict=True) if triples else ((), (), ())
    return scipy.sparse.csr_matrix((np.array(ratings), (users, items)), (trainset.n_users, trainset.n_items))


def _known(trainset: Any) -> dict[str, Any]:
    """Return the raw ids and the ratings, as options of `Recommender.build`."""
    return {
        "item_ids": [trainset.to_raw_iid(number) for number in range(trainset.n_items)],
        "user_ids": [trainset.to_raw_uid(number) for number in range(trainset.n_users)],
        "seen": _rated(trainset),
    }


def _implied(trainset: Any, implied: NDArray[Any]) -> NDArray[Any]:
    """Return what SVD++ adds to each user: the sum of the factors of rated items over the root of their number."""
    rated = _rated(trainset)
    rated.data[:] = 1
    counts = np.maximum(np.diff(rated.indptr), 1)
    added: NDArray[Any] = (rated @ implied) / np.sqrt(counts)[:, None]
    return added
