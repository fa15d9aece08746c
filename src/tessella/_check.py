"""Every check of what users pass in, and the sentence for each."""

import operator
from collections.abc import Sequence
from typing import Any, NoReturn, SupportsIndex, TypeVar

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from tessella._core import core

MAX_FACTORS = 4096
_SEQUENCES = (list, tuple, set, frozenset, range, np.ndarray)
MAX_LEVELS = 127
_ELEMENTS_PER_BLOCK = 2**19
_State = TypeVar("_State")


def whole_number(value: SupportsIndex, name: str, low: int, high: int | None = None) -> int:
    """`value` as an int within [low, high]."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is a whole number, not {type(value).__name__}.") from None
    if isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} is a whole number, not {type(value).__name__}.")
    if number < low or (high is not None and number > high):
        limits = f"at least {low}" if high is None else f"from {low} to {high}"
        raise ValueError(f"{name} is {number}, but must be {limits}.")
    return number


def _number(value: float, name: str) -> float:
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(f"{name} is a number, not {type(value).__name__}.")
    try:
        return float(value)
    except OverflowError:
        return float(np.inf)


def number_at_least(value: float, name: str, low: float) -> float:
    """`value` as a finite float that is at least `low`."""
    number = _number(value, name)
    if not (np.isfinite(number) and number >= low):
        raise ValueError(f"{name} is {number}, but must be finite and at least {low:g}.")
    return number


def number_between(value: float, name: str, low: float, high: float) -> float:
    """`value` as a float within [low, high]."""
    number = _number(value, name)
    if not low <= number <= high:
        raise ValueError(f"{name} is {number:g}, but must be from {low:g} to {high:g}.")
    return number


def true_or_false(value: object, name: str) -> None:
    """Refuse what is no bool."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} is True or False, not {type(value).__name__}.")


def slot_count(count: int) -> int:
    """`count`, if slots can be numbered with it."""
    whole_number(count, "the number of slots", 1)
    if count > np.iinfo(np.int64).max:
        raise ValueError(f"the slot map needs {count:.3g} slots, but 9.22e+18 can be numbered; use a smaller depth.")
    return count


def one_of(value: object, name: str, choices: tuple[str, ...]) -> str:
    """`value`, if it is one of the choices."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} is {value!r}, but must be one of {', '.join(map(repr, choices))}.")
    return value


def is_sparse(values: Any) -> bool:
    """Whether `values` is a SciPy sparse matrix or array."""
    return bool(scipy.sparse.issparse(values))


def numbers(values: ArrayLike, name: str) -> NDArray[Any]:
    """`values` as an array of real numbers, not yet converted, copied or looked at."""
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
    """`values` as a matrix of `n_factors` columns; its numbers are checked by `block`."""
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
    """Slices of rows, each small enough to stay in the cache."""
    step = max(1, _ELEMENTS_PER_BLOCK // array.shape[1])
    return [slice(first, min(first + step, len(array))) for first in range(0, len(array), step)]


def block(array: NDArray[Any], rows: slice, name: str) -> NDArray[np.float32]:
    """Rows of a matrix from `factors` as C-ordered float32, refusing NaN and infinity.

    An array that is float32 and C-ordered already is not copied.
    """
    taken = unchecked_block(array, rows)
    running = core()
    bad = running.kernels.first_bad_row(taken, running.level)
    if bad < len(taken):
        refuse_row(array, name, rows.start + bad)
    return taken


def unchecked_block(array: NDArray[Any], rows: slice) -> NDArray[np.float32]:
    """The same for numbers that are looked at elsewhere."""
    if array.dtype == np.float32 and array.flags.c_contiguous and array.flags.aligned:
        return array[rows]
    with np.errstate(over="ignore"):
        return np.require(array[rows], np.float32, ["C", "A"])


def refuse_row(array: NDArray[Any], name: str, number: int) -> NoReturn:
    """Say what is wrong with a row in which a NaN or an infinity turned up."""
    row = array[number]
    with np.errstate(over="ignore"):
        columns = np.flatnonzero(~np.isfinite(row.astype(np.float32)))
    if not columns.size:
        raise ValueError(f"{name} in row {number} is too large for float32 once rotated; scale the factors down.")
    column = int(columns[0])
    if np.isfinite(row[column]):
        raise ValueError(
            f"{name} holds {row[column]:g} in row {number}, too large for float32; scale the factors down."
        )
    raise ValueError(f"{name} holds {row[column]} in row {number}, column {column}; factors must be finite.")


def rotation(values: ArrayLike, name: str = "rotation") -> NDArray[np.float64]:
    """`values` as a read-only orthogonal matrix."""
    array = np.array(numbers(values, name), dtype=np.float64, order="C")
    if array.ndim != 2 or array.shape[0] != array.shape[1] or not 1 <= len(array) <= MAX_FACTORS:
        raise ValueError(f"{name} has shape {array.shape}, but must be square, with 1 to {MAX_FACTORS} rows.")
    if not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array).all(axis=1))[0])
        raise ValueError(f"{name} holds a NaN or an infinity in row {row}; it must be finite.")
    array += 0.0  # no negative zeros: what is equal has equal bytes
    error = float(np.abs(array.T @ array - np.eye(len(array))).max())
    if error > 1e-5:
        raise ValueError(f"{name} is not orthogonal: its columns' products are off by {error:.2g}; 1e-05 is allowed.")
    array.flags.writeable = False
    return array


def n_factors(value: SupportsIndex) -> int:
    """`value` as a number of coordinates."""
    return whole_number(value, "n_factors", 1, MAX_FACTORS)


def levels(value: SupportsIndex) -> int:
    """`value` as a number of tile levels."""
    return whole_number(value, "levels", 1, MAX_LEVELS)


def tiles(values: ArrayLike, levels: int) -> NDArray[np.int8]:
    """`values` as a matrix of tile coordinates in [-levels, levels]."""
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise TypeError(f"tiles holds {array.dtype}, but must hold whole numbers such as int8.")
    if array.ndim != 2 or not 1 <= array.shape[1] <= MAX_FACTORS:
        raise ValueError(f"tiles has shape {array.shape}, but must have shape (n, n_factors), 1 to {MAX_FACTORS} wide.")
    largest = max(-int(array.min()), int(array.max())) if array.size else 0
    if largest > levels:
        raise ValueError(
            f"tiles holds a value of size {largest}, but there are {levels} levels; pass levels={largest}."
        )
    return np.ascontiguousarray(array, dtype=np.int8)


def all_factors(values: ArrayLike, name: str, n_factors: int | None = None) -> NDArray[np.float32]:
    """`values` as a checked, C-ordered float32 matrix that is nobody else's to change."""
    matrix = factors(values, name, n_factors)
    if len(matrix) == 1 and matrix.dtype == np.float32:  # a single query should not wait for what blocks need
        return block(matrix.copy(), slice(0, 1), name)
    taken = np.empty(matrix.shape, np.float32)
    for rows in row_blocks(matrix):
        taken[rows] = block(matrix, rows, name)
    return taken


def item_factors(values: ArrayLike, n_factors: int | None = None) -> NDArray[np.float32]:
    """The same for items, whose norms must fit float32, too."""
    taken = all_factors(values, "item_factors", n_factors)
    norms_fit(taken, "item_factors")
    return taken


def auto_or_one_of(schema: object, kinds: tuple[type, ...]) -> None:
    """Refuse what is neither "auto" nor of these kinds."""
    if isinstance(schema, str):
        if schema != "auto":
            raise ValueError(
                f"schema is {schema!r}, but must be 'auto', a tessella.Schema or tessella.LearnedTiles; exact search "
                "is target_recall=1."
            )
        return
    if not isinstance(schema, kinds):
        kind = type(schema).__name__
        raise TypeError(f"schema is a {kind}, but must be 'auto', a tessella.Schema or tessella.LearnedTiles.")


def items_to_fit(values: ArrayLike) -> NDArray[Any]:
    """`values` as a matrix of at least one item; its numbers are checked by `block`."""
    matrix = factors(values, "item_factors")
    if not len(matrix):
        raise ValueError("item_factors has 0 rows, but at least 1 is needed to fit.")
    return matrix


def fitted(state: _State | None, what: object) -> _State:
    """`state`, if there is one."""
    if state is None:
        raise ValueError(f"this {type(what).__name__} is not fitted; call fit(item_factors) first.")
    return state


def depth_fits(depth: int, n_factors: int) -> None:
    """Refuse to make more vectors orthogonal than there are coordinates."""
    if depth > n_factors:
        raise ValueError(f"depth is {depth}, but factors have {n_factors} coordinates; use a depth of that or less.")


def leaves_fit(depth: int, n_items: int) -> None:
    """Refuse a tree with more leaves than items."""
    if 2**depth > n_items:
        raise ValueError(
            f"depth is {depth}, for {2**depth} leaves, but item_factors has {n_items} rows; use less depth."
        )


def code_length(value: SupportsIndex, base: int) -> int:
    """`value` as a number of digits whose codes stay within 2^62."""
    length = whole_number(value, "length", 1, 62)
    if base**length > 2**62:
        raise ValueError(f"length is {length}, but {base} to that power exceeds 2^62; use a smaller length.")
    return length


def norms_fit(factors: NDArray[np.float32], name: str, first: int = 0) -> NDArray[np.float64]:
    """Norms of factors, refusing one that is too large for float32; rows are numbered from `first`."""
    norms: NDArray[np.float64] = np.sqrt(np.einsum("ij,ij->i", factors, factors, dtype=np.float64))
    if norms.max(initial=0) > np.finfo(np.float32).max / 2:
        row = int(np.argmax(norms))
        raise ValueError(
            f"{name} has norm {norms[row]:.3g} in row {first + row}, too large for float32; scale it down."
        )
    return norms


def products_fit(queries: NDArray[np.float32], longest: float, name: str, first: int = 0) -> None:
    """Refuse queries whose inner products with an item of that norm could leave float32."""
    norms = norms_fit(queries, name, first)
    if norms.max(initial=0) * longest > 1e38:
        row = int(np.argmax(norms))
        raise ValueError(
            f"{name} has norm {norms[row]:.3g} in row {first + row} and an item {longest:.3g}: their product is too "
            "large for float32; scale the factors down."
        )


def ids(values: Any, count: int | None, *, unique: bool = True, name: str = "ids") -> NDArray[Any]:
    """`values` as an array of `count` ids: int64 or text."""
    if isinstance(values, list | tuple):
        _same_types(values, name)
    try:
        array = np.array(values)
    except (ValueError, OverflowError):
        raise ValueError(f"{name} is not a flat sequence of texts or int64 numbers.") from None
    if array.ndim == 0:
        raise ValueError(f"{name} is {values!r}, but must be a sequence; pass [{values!r}].")
    if array.ndim != 1:
        raise ValueError(f"{name} has {array.ndim} dimensions, but must have 1.")
    if count is not None and len(array) != count:
        raise ValueError(f"{name} has {len(array)} entries, but there are {count} items.")
    array = _numbers_or_texts(array, name)
    if array.dtype.kind == "U":
        cut = [given for given, kept in zip(values, array.tolist(), strict=True) if given != kept]
        if cut:
            raise ValueError(f"{name} holds {cut[0]!r}, but texts may not end in a NUL character.")
    if unique:
        found, counts = np.unique(array, return_counts=True)
        if len(found) < len(array):
            raise ValueError(f"{name} holds {found[counts > 1][0].item()!r} more than once.")
        _refuse_missing(array, name)
    return array


def may_be_id(value: object) -> bool:
    """Whether `value` is a text or a number that `ids` takes."""
    if isinstance(value, str):
        return not value.endswith("\0")
    if not isinstance(value, int | np.integer) or isinstance(value, bool):
        return False
    return value != -1 and -(2**63) <= int(value) < 2**63


def _refuse_missing(array: NDArray[Any], name: str) -> None:
    if array.dtype.kind != "U" and (array == -1).any():
        raise ValueError(f"{name} holds -1, which stands for a missing answer; use another number.")


def _same_types(values: Sequence[Any], name: str) -> None:
    if len({isinstance(value, str) for value in values}) > 1:
        raise TypeError(f"{name} holds both texts and other values, but must hold whole numbers or texts.")
    if any(isinstance(value, bool | np.bool_) for value in values):
        raise TypeError(f"{name} holds a bool, but must hold whole numbers or texts.")


def _numbers_or_texts(array: NDArray[Any], name: str) -> NDArray[Any]:
    if array.dtype.kind == "O" and all(isinstance(value, str) for value in array):
        return array.astype(np.str_)
    if array.dtype.kind == "U" or not len(array):
        return array if array.dtype.kind == "U" else array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} holds {array.dtype}, but must hold whole numbers or texts.")
    if int(array.max()) > np.iinfo(np.int64).max:
        raise ValueError(f"{name} holds {array.max()}, but ids must fit int64.")
    return array.astype(np.int64)


def excluding_shape(shape: tuple[int, ...], n_queries: int, n_items: int) -> None:
    """Refuse a sparse `exclude` that has not a row for each query and a column for each item."""
    if shape != (n_queries, n_items):
        raise ValueError(
            f"exclude has shape {shape}, but must have shape {(n_queries, n_items)}: column j is item index.ids[j]; "
            "widen it if items have come, or pass lists of ids."
        )


def is_list_of_lists(values: object) -> bool:
    """Whether `values` holds sequences of ids rather than ids."""
    if isinstance(values, np.ndarray):
        return values.ndim == 2
    return isinstance(values, list | tuple) and bool(values) and all(isinstance(part, _SEQUENCES) for part in values)


def is_list_of_ids(values: object) -> bool:
    """Whether `values` holds ids rather than sequences of ids."""
    return isinstance(values, _SEQUENCES) and not is_list_of_lists(values)


def id_lists(values: Any, name: str, n: int) -> list[NDArray[Any]]:
    """`values` as `n` arrays of ids; what stands for a missing answer is left out."""
    lists = list(values) if isinstance(values, list | tuple | np.ndarray) else None
    if lists is None or not all(isinstance(part, _SEQUENCES) for part in lists):
        other = "a sequence of ids" if name == "allow" else "a sparse matrix"
        raise TypeError(f"{name} is neither {other} nor a list with a sequence for each query, such as [[1, 2], [3]].")
    if len(lists) != n:
        raise ValueError(f"{name} has {len(lists)} sequences of ids, but there are {n} queries.")
    return [_listed(part, name) for part in lists]


def _listed(part: Any, name: str) -> NDArray[Any]:
    known = [value for value in part if value is not None] if not isinstance(part, np.ndarray | range) else part
    if isinstance(known, np.ndarray) and known.dtype.kind == "O":
        known = known[known != None]  # noqa: E711
    array = ids(known, None, unique=False, name=name)
    return array if array.dtype.kind == "U" else array[array != -1]


def candidates(values: Any) -> scipy.sparse.csr_array:
    """`values` as a sparse matrix with a row for each user and at least one item."""
    if not is_sparse(values):
        raise TypeError(f"candidates is a {type(values).__name__}, but must be a SciPy sparse matrix.")
    if values.ndim != 2 or not values.shape[1]:
        raise ValueError(
            f"candidates has shape {values.shape}, but must have shape (n_users, n_items), 1 item or more."
        )
    matrix = scipy.sparse.csr_array(values)
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix


def item_numbers(
    values: ArrayLike, name: str, n_items: int | None = None, *, unique: bool = False
) -> NDArray[np.int64]:
    """`values` as a matrix of item numbers, -1 for none."""
    array = numbers(values, name)
    if array.ndim != 2:
        raise ValueError(f"{name} has {array.ndim} dimensions, but must have 2: (n_users, k).")
    if array.dtype.kind not in "iu" and array.size:
        raise TypeError(f"{name} holds {array.dtype}, but must hold whole numbers.")
    lowest, highest = int(array.min(initial=0)), int(array.max(initial=0))
    if lowest < -1:
        raise ValueError(f"{name} holds {lowest}, but items are numbered from 0, and -1 is a missing one.")
    most = np.iinfo(np.int64).max if n_items is None else n_items - 1
    if highest > most:
        raise ValueError(f"{name} holds {highest}, but the last item is {most}.")
    taken = array.astype(np.int64)
    if unique:
        ordered = np.sort(taken, axis=1)
        twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
        if twice.any():
            row, place = np.argwhere(twice)[0]
            raise ValueError(f"{name} holds {ordered[row, place]} more than once in row {row}.")
    return taken


def same_rows(first: Any, first_name: str, second: Any, second_name: str) -> None:
    """Refuse matrices that are not about the same users."""
    if first.shape[0] != second.shape[0]:
        raise ValueError(f"{first_name} has {first.shape[0]} rows, but {second_name} has {second.shape[0]}.")


def scores(
    values: ArrayLike, name: str, shape: tuple[int, ...] | None = None, *, missing: bool = False
) -> NDArray[np.float64]:
    """`values` as a matrix of scores, of that shape if one is given; -inf only where scores may be missing."""
    array = numbers(values, name).astype(np.float64)
    if array.ndim != 2 or not (array.shape[1] or shape):
        raise ValueError(f"{name} has shape {array.shape}, but must have shape (n_users, n_items), 1 item or more.")
    if shape is not None and array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}, but found_ids has {shape}.")
    bad = ~np.isfinite(array)
    if missing:
        bad &= array != -np.inf
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise ValueError(f"{name} holds {array[row, column]} in row {row}, column {column}; scores must be finite.")
    return array


def finite_values(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """`values` as an array of finite numbers, one a user."""
    array = numbers(values, name).astype(np.float64)
    if array.ndim != 1 or not array.size:
        raise ValueError(f"{name} has shape {array.shape}, but must have shape (n_users,), 1 user or more.")
    if not np.isfinite(array).all():
        place = int(np.flatnonzero(~np.isfinite(array))[0])
        raise ValueError(f"{name} holds {array[place]} at {place}; it must be finite.")
    return array


def shares(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """`values` as an array of numbers from 0 to 1."""
    array = numbers(values, name).astype(np.float64)
    bad = ~((array >= 0) & (array <= 1))
    if bad.any():
        raise ValueError(f"{name} holds {array[bad][0]:g}, but shares are from 0 to 1.")
    return array


def sweep(discarded: ArrayLike, accuracy: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Two arrays of shares, one of each for every setting."""
    across, up = shares(discarded, "discarded"), shares(accuracy, "accuracy")
    if across.ndim != 1 or not across.size:
        raise ValueError(f"discarded has shape {across.shape}, but must have shape (n_settings,), 1 setting or more.")
    if across.shape != up.shape:
        raise ValueError(f"discarded has shape {across.shape}, but accuracy has {up.shape}.")
    return across, up


def is_curve(value: object, name: str, kind: type) -> None:
    """Refuse what is no curve."""
    if not isinstance(value, kind):
        given = type(value).__name__
        raise TypeError(f"{name} is a {given}, but must be a Curve; make one with curve(discarded, accuracy).")


def on_curve(value: float, reached: NDArray[np.float64]) -> float:
    """`value`, if it lies between the ends of a curve."""
    number = number_between(value, "discarded", 0, 1)
    low, high = reached[0], reached[-1]
    if not low <= number <= high:
        raise ValueError(f"discarded is {number:g}, but the curve runs from {low:g} to {high:g}.")
    return number


def common_range(first: NDArray[np.float64], second: NDArray[np.float64]) -> tuple[float, float]:
    """The ends of what two curves both reach."""
    low, high = max(first[0], second[0]), min(first[-1], second[-1])
    if low > high:
        ends = [f"from {reached[0]:g} to {reached[-1]:g}" for reached in (first, second)]
        raise ValueError(f"the curves have no range in common: one runs {ends[0]}, the other {ends[1]}.")
    return float(low), float(high)


def expect(array: NDArray[np.generic], name: str, kind: type[np.generic], shape: tuple[int, ...]) -> None:
    """Refuse an array of another type or shape."""
    if array.dtype != kind or array.shape != shape:
        raise ValueError(f"{name} is {array.dtype} of shape {array.shape}")
