"""gensim: a `Recommender` from KeyedVectors, such as those that Word2Vec learns from baskets or sessions."""

from typing import Any

from tessella import Recommender
from tessella.integrations._factors import dense


def from_gensim(items: Any, users: Any = None, **options: Any) -> Recommender:
    """Build a `Recommender` from keyed vectors; their keys become the ids.

    Without users, use `similar`, which ranks by cosine like gensim's `most_similar`, or ``recommend(like=[...])``.

    Parameters
    ----------
    items : KeyedVectors, or a model with KeyedVectors in ``wv``
        Any object with ``vectors`` and ``index_to_key``.
    users : KeyedVectors, or a model with KeyedVectors in ``dv``, default None
        User vectors in the same space, such as document vectors from Doc2Vec.
    **options
        As in `Recommender.build`: seen, attributes, signals, method, ...

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> import numpy as np
    >>> from tessella.integrations.gensim import from_gensim
    >>> vectors = SimpleNamespace(vectors=np.array([[2.0, 0.0], [1.0, 1.0]]), index_to_key=["tea", "mate"])
    >>> from_gensim(vectors).recommend(np.array([1.0, 0.0]), k=2).ids.tolist()
    ['tea', 'mate']
    """
    keyed = _keyed(items, "items", "wv")
    known = {"item_ids": list(keyed.index_to_key)}
    user_factors = None
    if users is not None:
        keyed_users = _keyed(users, "users", "dv")
        user_factors = dense(keyed_users.vectors, "users.vectors")
        known["user_ids"] = list(keyed_users.index_to_key)
    return Recommender.build(dense(keyed.vectors, "items.vectors"), user_factors, **(known | options))


def _keyed(given: Any, name: str, attribute: str) -> Any:
    """Return the keyed vectors of a model, or `given` itself if it has no such attribute."""
    found = getattr(given, attribute, given)
    if not (hasattr(found, "vectors") and hasattr(found, "index_to_key")):
        raise TypeError(
            f"{name} must have vectors and index_to_key, as KeyedVectors do, but {type(given).__name__} does not."
        )
    return found
