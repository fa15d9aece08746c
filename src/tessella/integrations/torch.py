"""PyTorch: a `Recommender` of two embeddings, or of two towers and what they are asked with."""

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
    """A `Recommender` of the embeddings of items and users, or of two towers.

    Parameters
    ----------
    items, users : torch.nn.Embedding, tensor or array, or torch.nn.Module with its inputs
        The vectors, a row for each, on any device; or a tower that computes them from `item_inputs`, `user_inputs`.
        Without users there are only items, to be asked for with vectors. The row of an embedding's ``padding_idx`` is
        no item.
    item_inputs, user_inputs : tensor, tuple of tensors, or iterable of batches, default None
        What to call a tower with. Tensors are cut into batches of their rows; a tuple is passed as several arguments. A
        `DataLoader`, or another iterable, gives batches itself, and each is passed to the tower as it is.
    item_biases : Embedding, tensor or array of shape (n_items,) or (n_items, 1), default None
        Added to every score. They become one more coordinate, with a 1 for every user.
    batch_size : int, default 4096
        How many rows a tower gets at once. Larger is faster, and takes more memory.
    **options
        As for `Recommender.build`: item_ids, user_ids, seen, attributes, signals, method, ...

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
    """The table of an embedding; a tensor is its own."""
    return getattr(given, "weight", given)


def _vectors(given: Any, inputs: Any, name: str, inputs_name: str, size: int) -> NDArray[Any]:
    if inputs is not None:
        if not callable(given):
            raise TypeError(f"{name} is a {type(given).__name__}, but with {inputs_name} it must be a tower to call.")
        return _answers(given, inputs, name, size)
    if callable(given) and not hasattr(given, "weight"):
        raise TypeError(f"{name} is a {type(given).__name__}, a tower, which needs {inputs_name} to be called with.")
    return dense(_weight(given), name)


def _answers(tower: Any, inputs: Any, name: str, size: int) -> NDArray[Any]:
    """What a tower makes of its inputs, in the mode that it answers in; its mode is then as it was."""
    torch = needed("torch", "A tower", "torch")
    training = [part for part in getattr(tower, "modules", list)() if part.training]
    try:
        if training:
            tower.eval()
        with torch.inference_mode():
            parts = [dense(tower(*batch), f"what {name} gives") for batch in _batches(inputs, size)]
    finally:
        for part in training:
            part.training = True
    if not parts:
        raise ValueError(f"{name} was given no inputs, but at least 1 is needed.")
    return np.concatenate(parts)


def _batches(inputs: Any, size: int) -> Iterable[tuple[Any, ...]]:
    """Arguments of one call after another."""
    columns = inputs if isinstance(inputs, tuple) else (inputs,)
    if all(hasattr(column, "shape") and hasattr(column, "__getitem__") for column in columns):
        lengths = {len(column) for column in columns}
        if len(lengths) > 1:
            raise ValueError(
                f"the inputs of a tower have {min(lengths)} and {max(lengths)} rows, but must have as many."
            )
        for first in range(0, lengths.pop(), size):
            yield tuple(column[first : first + size] for column in columns)
    else:
        for batch in inputs:
            yield tuple(batch) if isinstance(batch, list | tuple) else (batch,)
