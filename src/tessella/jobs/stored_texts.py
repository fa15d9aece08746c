"""String ids in a folder of answers: stored as positions in a list of items, which holds each string once."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from tessella.results import SearchResult


class StoredTexts(NDArrayOperatorsMixin):
    """An array of string ids that is memory-mapped as integers and looked up on access; None for missing answers.

    Examples
    --------
    >>> stored = StoredTexts(np.array([[1, 0], [1, -1]]), np.array(["tea", "mate"]))
    >>> stored[1]
    array(['mate', None], dtype=object)
    >>> (stored == "mate").tolist()
    [[True, False], [True, False]]
    """

    dtype = np.dtype(object)

    def __init__(self, places: NDArray[np.int64], texts: NDArray[np.str_]) -> None:
        self.places = places
        self._texts = np.array([*texts.tolist(), None], object)  # -1 is the last

    @property
    def shape(self) -> tuple[int, ...]:
        """As for a NumPy array."""
        return self.places.shape

    @property
    def ndim(self) -> int:
        """As for a NumPy array."""
        return self.places.ndim

    @property
    def size(self) -> int:
        """As for a NumPy array."""
        return self.places.size

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, some: Any) -> Any:
        return self._texts[self.places[some]]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self._texts[self.places], dtype)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        arrays = (np.asarray(value) if isinstance(value, StoredTexts) else value for value in inputs)
        return getattr(ufunc, method)(*arrays, **options)

    def __repr__(self) -> str:
        return f"StoredTexts of shape {self.shape}"

    def tolist(self) -> Any:
        """As for a NumPy array."""
        return np.asarray(self).tolist()


def numbers_in(texts: NDArray[np.str_]) -> Callable[[SearchResult], SearchResult]:
    """Return a function that replaces the string ids of answers by their positions in a list."""
    places: dict[str | None, int] = {text: place for place, text in enumerate(texts.tolist())}
    places[None] = -1

    def numbered(found: SearchResult) -> SearchResult:
        ids = found.ids
        flat = np.fromiter(map(places.__getitem__, ids.ravel().tolist()), np.int64, ids.size)
        return SearchResult(flat.reshape(ids.shape), found.scores, found.n_scored, found.certified)

    return numbered
