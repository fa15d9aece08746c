"""PyTorch: a `Recommender` from two embeddings, or from two towers and their inputs."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella import Recommender, _checks
from tessella.integrations._factors import dense, needed, with_biases, with_ones


def from_torch(
    items: Any,
    users: Any = None,
    *,
    item_inputs: Any = None,
    user_inputs: Any = None,
    item_biases: Any = None,
    batch_size: int = 4096,
    **options: Any,
) -> Recommender:
    """Build a `Recommender` from the embeddings of items and users, or from two towers.

    Parameters
    ----------
    items, users : torch.nn.Embedding, tensor or array, or torch.nn.Module with its inputs
        The vectors, one per row, on any device; or a tower that computes them from `item_inputs` or `user_inputs`.
        Without users, query the recommender with vectors. The ``padding_idx`` row of an item embedding is left out.
    item_inputs, user_inputs : tensor, tuple of tensors, or iterable of batches, default None
        The inputs of a tower. Tensors are split into batches of rows; a tuple is passed as several arguments. A
        `DataLoader` or another iterable yields batches itself, and each is passed to the tower as it is.
    item_biases : Embedding, tensor or array of shape (n_items,) or (n_items, 1), default None
        Added to every score of the item. They become one more coordinate, which is 1 for every user.
    batch_size : int, default 4096
        How many rows a tower gets at once. Larger batches are faster, but need more memory.
    **options
        As in `Recommender.build`: item_ids, user_ids, seen, attributes, signals, method, ...

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> import numpy as np
    >>> from tessella.integrations.torch import from_torch
    >>> items = SimpleNamespace(weight=np.eye(3))  # yours are torch.nn.Embedding
    >>> users = SimpleNamespace(weight=np.array([[3.0, 2.0, 1.0]]))
    >>> from_torch(items, users).recommend(0, k=2).ids
    array([0, 1])
    """
    size = _checks.whole_number(batch_size, "batch_size", 1)
    item_factors = _vectors(items, item_inputs, "items", "item_inputs", size)
    user_factors = None if users is None else _vectors(users, user_inputs, "users", "user_inputs", size)
    if item_biases is not None:
        biases = dense(_weight(item_biases), "item_biases", dimensions=(1, 2))
        item_factors = with_biases(item_factors, biases.reshape(-1), "item_biases")
        user_factors = None if user_factors is None else with_ones(user_factors)
    recommender = Recommender.build(item_factors, user_factors, **options)
    padding = getattr(items, "padding_idx", None)
    if padding is not None:
        recommender.remove_items(recommender.item_ids[[padding]])
    return recommender


def _weight(given: Any) -> Any:
    """Return the weights of an embedding; anything else is returned as it is."""
    return getattr(given, "weight", given)


def _vectors(given: Any, inputs: Any, name: str, inputs_name: str, size: int) -> NDArray[Any]:
    if inputs is not None:
        if not callable(given):
            raise TypeError(f"with {inputs_name}, {name} must be a callable tower, not {type(given).__name__}.")
        return _answers(given, inputs, name, size)
    if callable(given) and not hasattr(given, "weight"):
        raise TypeError(f"{name} ({type(given).__name__}) has no weights; pass {inputs_name} to call it as a tower.")
    return dense(_weight(given), name)


def _answers(tower: Any, inputs: Any, name: str, size: int) -> NDArray[Any]:
    """Return the outputs of a tower for its inputs, in evaluation mode; its mode is restored afterwards."""
    torch = needed("torch", "A tower", "torch")
    training = [part for part in getattr(tower, "modules", list)() if part.training]
    try:
        if training:
            tower.eval()
        with torch.inference_mode():
            parts = [dense(tower(*batch), f"the output of {name}") for batch in _batches(inputs, size)]
    finally:
        for part in training:
            part.training = True
    if not parts:
        raise ValueError(f"{name} has 0 batches of inputs, but needs at least 1.")
    return np.concatenate(parts)


def _batches(inputs: Any, size: int) -> Iterable[tuple[Any, ...]]:
    """Yield the arguments of each call."""
    columns = inputs if isinstance(inputs, tuple) else (inputs,)
    if all(hasattr(column, "shape") and hasattr(column, "__getitem__") for column in columns):
        lengths = {len(column) for column in columns}
        if len(lengths) > 1:
            raise ValueError(
                f"the inputs of a tower have {min(lengths)} and {max(lengths)} rows, but must all have the same number."
            )
        for first in range(0, lengths.pop(), size):
            yield tuple(column[first : first + size] for column in columns)
    else:
        for batch in inputs:
            yield tuple(batch) if isinstance(batch, list | tuple) else (batch,)
