"""LightFM: a `Recommender` from a trained model, with or without user and item features."""

from typing import Any

from tessella import Recommender
from tessella.integrations._factors import dense, with_biases, with_ones


def from_lightfm(model: Any, user_features: Any = None, item_features: Any = None, **options: Any) -> Recommender:
    """Build a `Recommender` from a LightFM model. The package is ``lightfm-next``; its module is named lightfm.

    Item biases become one more coordinate, which is 1 for every user. User biases do not change the order of items and
    are left out: a score is that of `model.predict` minus the user's bias.

    Parameters
    ----------
    model : lightfm.LightFM
        A trained model.
    user_features, item_features : sparse matrix of shape (n, n_features), default None
        The feature matrices the model was trained with, or rows for new users and items, whose factors are the sums of
        the factors learned for their features. None if the model was trained without them.
    **options
        As in `Recommender.build`: item_ids, user_ids, seen, attributes, signals, method, ...

    Returns
    -------
    recommender : Recommender
        Users and items have LightFM's row numbers as ids, unless `user_ids` and `item_ids` are given.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> import numpy as np
    >>> from tessella.integrations.lightfm import from_lightfm
    >>> model = SimpleNamespace(  # yours is trained
    ...     get_user_representations=lambda features: (np.zeros(1), np.array([[2.0, 1.0]])),
    ...     get_item_representations=lambda features: (np.array([0.0, 5.0]), np.eye(2)),
    ... )
    >>> from_lightfm(model).recommend(0, k=2).scores
    array([6., 2.], dtype=float32)
    """
    if not (hasattr(model, "get_item_representations") and hasattr(model, "get_user_representations")):
        raise TypeError(f"{type(model).__name__} has no get_item_representations; pass a LightFM model.")
    if getattr(model, "item_embeddings", True) is None:
        raise ValueError(f"the {type(model).__name__} has no embeddings yet; call its fit method first.")
    biases, items = model.get_item_representations(item_features)
    _, users = model.get_user_representations(user_features)
    return Recommender.build(
        with_biases(dense(items, "item_embeddings"), biases, "item_biases"),
        with_ones(dense(users, "user_embeddings")),
        **options,
    )
