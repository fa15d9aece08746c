"""What adapters share: other libraries' arrays as NumPy's, biases as a coordinate, and imports that may fail."""

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella import _checks


def dense(values: Any, name: str, dimensions: tuple[int, ...] = (2,)) -> NDArray[Any]:
    """An array of numbers of PyTorch, CuPy, implicit's GPU models or NumPy, as NumPy's."""
    for step in ("detach", "cpu"):
        values = getattr(values, step, lambda kept=values: kept)()
    if str(getattr(values, "dtype", "")) == "torch.bfloat16":  # NumPy has no such numbers
        values = values.float()
    for step in ("to_numpy", "numpy", "get"):
        if hasattr(values, step) and not isinstance(values, np.ndarray):
            values = getattr(values, step)()
            break
    array = _checks.numbers(values, name)
    if array.ndim not in dimensions:
        return _checks.factors(array, name)  # has the sentence
    return array


def with_biases(factors: NDArray[Any], biases: Any, name: str) -> NDArray[np.float32]:
    """Item factors with the items' biases as one more coordinate; `with_ones` has the users'."""
    taken = np.asarray(biases, np.float32)
    if taken.shape != (len(factors),):
        raise ValueError(f"{name} has shape {taken.shape}, but there are {len(factors)} items.")
    return np.column_stack([factors, taken]).astype(np.float32, copy=False)


def with_ones(factors: NDArray[Any]) -> NDArray[np.float32]:
    """User factors with a 1 where items have their bias."""
    return np.column_stack([factors, np.ones(len(factors), np.float32)]).astype(np.float32, copy=False)


def needed(module: str, purpose: str, extra: str) -> Any:
    """A module that is imported only now; without it, a sentence that says how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        library = module.partition(".")[0]
        raise ImportError(f"{purpose} needs {library}; get it with: pip install 'tessella[{extra}]'") from None
