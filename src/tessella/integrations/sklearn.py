"""scikit-learn: a `Recommender` from a TruncatedSVD or NMF of users x items, alone or at the end of a pipeline."""

from typing import Any

import numpy as np
import scipy.sparse

from tessella import Recommender, _checks
from tessella.integrations._factors import dense

_KEEP_ORDER = {"str", "NoneType", "Normalizer"}  # "passthrough", None, and a step that only scales user vectors


def from_sklearn(model: Any, user_items: Any, **options: Any) -> Recommender:
    """Build a `Recommender` from a scikit-learn decomposition of a matrix of users x items.

    Item factors are the columns of ``components_``, and user factors are the transformed rows. So a score is the value
    that the decomposition reconstructs for that entry, on the scale of the pipeline steps before it. For new users,
    pass the vectors ``model.transform(rows)`` to `recommend`.

    Parameters
    ----------
    model : TruncatedSVD, NMF, MiniBatchNMF, or Pipeline
        A fitted model. A pipeline may preprocess the matrix (`TfidfTransformer`, `Normalizer`, ...), as long as its
        columns remain the items. Only a `Normalizer` may follow the decomposition: it changes scores, but not the order
        of items for a user.
    user_items : sparse matrix, array or frame of shape (n_users, n_items)
        One row per user of the recommender, in the form the model was fitted with. Its nonzero entries are the seen
        items, unless `seen` is given.
    **options
        As in `Recommender.build`: item_ids, user_ids, seen, attributes, signals, method, ...

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.decomposition import TruncatedSVD
    >>> from tessella.integrations.sklearn import from_sklearn
    >>> ratings = np.array([[5.0, 4.0, 0.0], [4.0, 5.0, 3.0], [0.0, 2.0, 5.0]])
    >>> model = TruncatedSVD(n_components=2, random_state=0).fit(ratings)
    >>> recommender = from_sklearn(model, ratings)
    >>> recommender.recommend(0, k=1).ids
    array([2])
    """
    decomposition = _decomposition(model)
    n_items = decomposition.components_.shape[1]
    if user_items.shape[1] != n_items:
        raise ValueError(
            f"user_items has {user_items.shape[1]} columns, but the decomposition has {n_items} items; remove pipeline "
            "steps that change the columns."
        )
    users = dense(model.transform(user_items), "the result of transform")
    if "seen" not in options:
        entries = user_items if _checks.is_sparse(user_items) else np.asarray(user_items)
        options = {**options, "seen": _nonzero(entries)}
    return Recommender.build(decomposition.components_.T, users, **options)


def _decomposition(model: Any) -> Any:
    """Return the step that has factors; refuse later steps that may change the order of items."""
    steps = getattr(model, "steps", [("", model)])
    at = [number for number, (_, step) in enumerate(steps) if hasattr(step, "components_")]
    kind = type(model).__name__
    if not at:
        raise TypeError(
            f"{kind} has no components_; pass a fitted TruncatedSVD or NMF of users x items, or a pipeline with one."
        )
    for name, step in steps[at[-1] + 1 :]:
        if type(step).__name__ not in _KEEP_ORDER:
            raise ValueError(
                f"step {name!r} comes after the decomposition and may change the order of items; remove it."
            )
    found = steps[at[-1]][1]
    if hasattr(found, "mean_") or not hasattr(found, "inverse_transform"):
        raise TypeError(
            f"{type(found).__name__} is not a plain product of two matrices; use TruncatedSVD or NMF instead."
        )
    return found


def _nonzero(matrix: Any) -> Any:
    """Return the nonzero entries as a CSR matrix."""
    entries = scipy.sparse.csr_matrix(matrix)
    if not entries.data.all():
        entries = entries.copy()
        entries.eliminate_zeros()
    return entries
