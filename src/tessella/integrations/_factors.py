"""Code shared by adapters: converting arrays to NumPy, biases as a coordinate, and imports that may fail."""

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella import _checks


def dense(values: Any, name: str, dimensions: tuple[int, ...] = (2,)) -> NDArray[Any]:
    """Convert an array of numbers from PyTorch, CuPy, implicit's GPU models or NumPy to NumPy."""
    for step in ("detach", "cpu"):
        values = getattr(values, step, lambda kept=values: kept)()
    if str(getattr(values, "dtype", "")) == "torch.bfloat16":  # NumPy has no such type
        values = values.float()
    for step in ("to_numpy", "numpy", "get"):
        if hasattr(values, step) and not isinstance(values, np.ndarray):
            values = getattr(values, step)()
            break
    array = _checks.numbers(values, name)
    if array.ndim not in dimensions:
        return _checks.factors(array, name)  # raises the error
    return array


def with_biases(factors: NDArray[Any], biases: Any, name: str) -> NDArray[np.float32]:
    """Append the biases of items to their factors as one more coordinate; `with_ones` is for users."""
    taken = np.asarray(biases, np.float32)
    if taken.shape != (len(factors),):
        raise ValueError(f"{name} has shape {taken.shape}, but must have shape ({len(factors)},), one for each item.")
    return np.column_stack([factors, taken]).astype(np.float32, copy=False)


def with_ones(factors: NDArray[Any]) -> NDArray[np.float32]:
    """Append a 1 to user factors, where items have their bias."""
    return np.column_stack([factors, np.ones(len(factors), np.float32)]).astype(np.float32, copy=False)


def needed(module: str, purpose: str, extra: str) -> Any:
    """Import a module on demand; if it is missing, the error says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        library = module.partition(".")[0]
        raise ImportError(f"{purpose} needs {library}; install it with: pip install 'tessella[{extra}]'") from None
