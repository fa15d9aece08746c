"""scikit-learn: a `Recommender` of a TruncatedSVD or NMF of users x items, alone or at the end of a pipeline."""

from typing import Any

import numpy as np
import scipy.sparse

from tessella import Recommender, _checks
from tessella.integrations._factors import dense

_KEEP_ORDER = {"str", "NoneType", "Normalizer"}  # "passthrough", None, and what only scales a user's vector


def from_sklearn(model: Any, user_items: Any, **options: Any) -> Recommender:
    """A `Recommender` of scikit-learn's decomposition of a matrix of users x items.

    Items are the columns of ``components_``, and users what `transform` makes of their rows, so a score is what the
    decomposition believes of that entry, in the numbers that the steps before it make. Users who come later are
    ``model.transform(rows)``: pass these vectors to `recommend`.

    Parameters
    ----------
    model : TruncatedSVD, NMF, MiniBatchNMF, or Pipeline
        Fitted. A pipeline may prepare the matrix (`TfidfTransformer`, `Normalizer`, ...), as long as its columns stay
        the items. After the decomposition, only a `Normalizer` may follow: it changes scores, and no user's order.
    user_items : sparse matrix, array or frame of shape (n_users, n_items)
        A row for each user of the recommender, as the model was fitted with. Its entries other than 0 were seen, unless
        `seen` says otherwise.
    **options
        As for `Recommender.build`: item_ids, user_ids, seen, attributes, signals, method, ...

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
            f"user_items has {user_items.shape[1]} columns, but the decomposition has {n_items} items; a pipeline must "
            "leave the columns as they are."
        )
    users = dense(model.transform(user_items), "what transform gives")
    if "seen" not in options:
        entries = user_items if _checks.is_sparse(user_items) else np.asarray(user_items)
        options = {**options, "seen": _nonzero(entries)}
    return Recommender.build(decomposition.components_.T, users, **options)


def _decomposition(model: Any) -> Any:
    """The step that has factors, if what comes after it keeps the order of items."""
    steps = getattr(model, "steps", [("", model)])
    at = [number for number, (_, step) in enumerate(steps) if hasattr(step, "components_")]
    kind = type(model).__name__
    if not at:
        raise TypeError(f"{kind} has no components_; fit a TruncatedSVD or NMF of users x items, or a pipeline of one.")
    for name, step in steps[at[-1] + 1 :]:
        if type(step).__name__ not in _KEEP_ORDER:
            raise ValueError(f"step {name!r} comes after the decomposition and may change the order of items; drop it.")
    found = steps[at[-1]][1]
    if hasattr(found, "mean_") or not hasattr(found, "inverse_transform"):
        raise TypeError(f"a {type(found).__name__} is more than a product of two matrices; use TruncatedSVD or NMF.")
    return found


def _nonzero(matrix: Any) -> Any:
    """The entries other than 0, by rows."""
    entries = scipy.sparse.csr_matrix(matrix)
    if not entries.data.all():
        entries = entries.copy()
        entries.eliminate_zeros()
    return entries
