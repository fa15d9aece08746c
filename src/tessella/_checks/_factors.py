"""Checks of factors and other arrays of numbers."""

from typing import Any, NoReturn

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from tessella._kernels import core
from tessella._norms import squared_norms
from tessella._numbers import LARGEST_NORM, LARGEST_PRODUCT, MAX_FACTORS
from tessella._threads import cut

_ELEMENTS_PER_BLOCK = 2**19


def is_sparse(values: Any) -> bool:
    """Whether `values` is a SciPy sparse matrix or array."""
    return bool(scipy.sparse.issparse(values))


def numbers(values: ArrayLike, name: str) -> NDArray[Any]:
    """Return `values` as an array of real numbers; values are not converted, copied or checked yet."""
    if is_sparse(values):
        raise TypeError(f"{name} is a SciPy sparse matrix, but factors are dense; pass {name}.toarray().")
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array; fill it first, with {name}.filled(0) for instance.")
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} is not a matrix: its rows have different lengths or depths.") from None
    except Exception as error:
        raise TypeError(f"{name} cannot be read as an array: {error}.") from error
    if array.dtype.kind not in "fiu":
        raise TypeError(f"{name} holds {array.dtype}, but must hold real numbers such as float32.")
    return array


def factors(values: ArrayLike, name: str, n_factors: int | None = None) -> NDArray[Any]:
    """Return `values` as a matrix of `n_factors` columns. `block` checks the numbers in it."""
    array = numbers(values, name)
    if array.ndim != 2:
        way_out = f"; pass {name}[None] for a single factor" if array.ndim == 1 and name.isidentifier() else ""
        raise ValueError(f"{name} has {array.ndim} dimensions, but must have 2: (n, n_factors){way_out}.")
    width = array.shape[1]
    if n_factors is not None and width != n_factors:
        raise ValueError(f"{name} has {width} columns, but {n_factors} are expected.")
    if not 1 <= width <= MAX_FACTORS:
        raise ValueError(f"{name} has {width} columns, but must have from 1 to {MAX_FACTORS}.")
    return array


def row_blocks(array: NDArray[Any]) -> list[slice]:
    """Return slices of rows, each small enough to fit in the cache."""
    step = max(1, _ELEMENTS_PER_BLOCK // array.shape[1])
    return cut(len(array), step)


def block(array: NDArray[Any], rows: slice, name: str) -> NDArray[np.float32]:
    """Return rows of a matrix from `factors` as C-ordered float32; refuse NaN and infinity.

    An array that is already float32 and C-ordered is not copied.
    """
    taken = unchecked_block(array, rows)
    running = core()
    bad = running.kernels.first_nonfinite(taken, running.level)
    if bad < len(taken):
        refuse_row(array, name, rows.start + bad)
    return taken


def unchecked_block(array: NDArray[Any], rows: slice) -> NDArray[np.float32]:
    """Return rows as C-ordered float32 without checking their values."""
    if array.dtype == np.float32 and array.flags.c_contiguous and array.flags.aligned:
        return array[rows]
    with np.errstate(over="ignore"):
        return np.require(array[rows], np.float32, ["C", "A"])


def refuse_row(array: NDArray[Any], name: str, number: int) -> NoReturn:
    """Raise the error for a row that contains NaN or infinity."""
    row = array[number]
    with np.errstate(over="ignore"):
        columns = np.flatnonzero(~np.isfinite(row.astype(np.float32)))
    if not columns.size:
        raise ValueError(f"row {number} of {name} is too large for float32 once rotated; scale the factors down.")
    column = int(columns[0])
    if np.isfinite(row[column]):
        raise ValueError(
            f"{name} holds {row[column]:g} in row {number}, too large for float32; scale the factors down."
        )
    raise ValueError(f"{name} holds {row[column]} in row {number}, column {column}; factors must be finite.")


def all_factors(values: ArrayLike, name: str, n_factors: int | None = None) -> NDArray[np.float32]:
    """Return a checked, C-ordered float32 copy of `values`."""
    matrix = factors(values, name, n_factors)
    if len(matrix) == 1 and matrix.dtype == np.float32:  # a shortcut for a single query
        return block(matrix.copy(), slice(0, 1), name)
    taken = np.empty(matrix.shape, np.float32)
    for rows in row_blocks(matrix):
        taken[rows] = block(matrix, rows, name)
    return taken


def item_factors(values: ArrayLike, n_factors: int | None = None) -> NDArray[np.float32]:
    """Return item factors as a checked float32 matrix whose norms fit in float32."""
    taken = all_factors(values, "item_factors", n_factors)
    norms_fit(taken, "item_factors")
    return taken


def norms_fit(factors: NDArray[np.float32], name: str, first: int = 0) -> NDArray[np.float64]:
    """Return the norms of factors; refuse one that is too large for float32. Rows are numbered from `first`."""
    norms: NDArray[np.float64] = np.sqrt(squared_norms(factors))
    if norms.max(initial=0) > LARGEST_NORM:
        row = int(np.argmax(norms))
        raise ValueError(
            f"{name} has norm {norms[row]:.3g} in row {first + row}, too large for float32; scale it down."
        )
    return norms


def products_fit(queries: NDArray[np.float32], longest: float, name: str, first: int = 0) -> None:
    """Refuse queries whose inner products with an item of norm `longest` could overflow float32."""
    norms = norms_fit(queries, name, first)
    if norms.max(initial=0) * longest > LARGEST_PRODUCT:
        row = int(np.argmax(norms))
        raise ValueError(
            f"{name} has norm {norms[row]:.3g} in row {first + row} and an item has norm {longest:.3g}: their product "
            "is too large for float32; scale the factors down."
        )


def expect(array: NDArray[np.generic], name: str, kind: type[np.generic], shape: tuple[int, ...]) -> None:
    """Refuse an array of another dtype or shape."""
    if array.dtype != kind or array.shape != shape:
        raise ValueError(f"{name} is {array.dtype} of shape {array.shape}")
