"""Pools: the distinct values of a column, sorted, so that a small integer can stand for each."""

import bisect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

Whole: TypeAlias = NDArray[np.signedinteger[Any]]

_UTF8 = ("utf-8", "surrogatepass")
_FEW = 16  # a pool smaller by this factor is merged by single lookups


def narrow(numbers: NDArray[Any]) -> Whole:
    """Convert integers to the smallest type that holds them and leaves one lower number free."""
    low, high = (int(numbers.min()), int(numbers.max())) if numbers.size else (0, 0)
    return numbers.astype(type_for(low, high), copy=False)


def type_for(low: int, high: int) -> type[np.signedinteger[Any]]:
    """Return the smallest type for the numbers from `low` to `high` that leaves one lower number free."""
    for kind in (np.int8, np.int16, np.int32):
        if np.iinfo(kind).min < low and high <= np.iinfo(kind).max:
            return kind
    return np.int64


class Pool(Protocol):
    """Distinct values in ascending order; the code of a value is its place."""

    def __len__(self) -> int: ...

    def __getitem__(self, code: int) -> Any: ...

    def find(self, value: Any) -> int:
        """Return the code of a value, or -1."""

    def take(self, codes: NDArray[Any]) -> Self:
        """Return the values of some codes, which must ascend."""

    def merged(self, other: Self) -> tuple[Self, NDArray[np.int64], NDArray[np.int64]]:
        """Merge two pools; return the result, the new codes of this pool and the new codes of the other."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all data as arrays."""


@dataclass(frozen=True, eq=False)
class Texts:
    """Distinct strings, in the order of their code points, without padding."""

    data: NDArray[np.uint8]  # their UTF-8, one after another
    ends: NDArray[np.int64]  # where each ends

    @classmethod
    def of(cls, texts: Iterable[str]) -> Self:
        """Create a pool of strings, which must ascend."""
        encoded = [text.encode(*_UTF8) for text in texts]
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        return cls(np.frombuffer(b"".join(encoded), np.uint8), np.cumsum(lengths))

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, code: int) -> str:
        return self._bytes(code).decode(*_UTF8)

    def __iter__(self) -> Iterator[str]:
        data, ends = self.data.tobytes(), self.ends.tolist()
        return (data[start:end].decode(*_UTF8) for start, end in zip([0, *ends], ends, strict=False))

    def _bytes(self, code: int) -> bytes:
        return self.data[self.ends[code - 1] if code else 0 : self.ends[code]].tobytes()

    def _place(self, encoded: bytes) -> int:
        return bisect.bisect_left(range(len(self)), encoded, key=self._bytes)

    def find(self, value: str) -> int:
        """Return the code of a string, or -1."""
        encoded = value.encode(*_UTF8)
        place = self._place(encoded)
        return place if place < len(self) and self._bytes(place) == encoded else -1

    def take(self, codes: NDArray[Any]) -> Self:
        """Return the strings of some codes, which must ascend."""
        starts = np.concatenate([[0], self.ends])
        lengths = starts[codes + 1] - starts[codes]
        ends = np.cumsum(lengths)
        places = np.repeat(starts[codes] - (ends - lengths), lengths) + np.arange(lengths.sum())
        return type(self)(self.data[places], ends)

    def merged(self, other: Self) -> tuple[Self, NDArray[np.int64], NDArray[np.int64]]:
        """Merge two pools; return the result, the new codes of this pool and the new codes of the other."""
        if _FEW * len(other) > len(self):
            mine, theirs = list(self), list(other)
            whole = mine if mine == theirs else sorted({*mine, *theirs})
            code_of = {text: code for code, text in enumerate(whole)}
            one, two = (np.fromiter(map(code_of.__getitem__, own), np.int64, len(own)) for own in (mine, theirs))
            return (self if len(whole) == len(mine) else self.of(whole)), one, two
        encoded = [other._bytes(code) for code in range(len(other))]
        places = np.fromiter(map(self._place, encoded), np.int64, len(encoded))
        new = np.fromiter(
            (place == len(self) or self._bytes(place) != text for place, text in zip(places, encoded, strict=True)),
            np.bool_,
            len(encoded),
        )
        others = places + np.cumsum(new) - new
        if not new.any():
            return self, np.arange(len(self)), others
        added = self.of(text.decode(*_UTF8) for text, is_new in zip(encoded, new, strict=True) if is_new)
        starts = np.concatenate([[0], self.ends])
        at = np.repeat(starts[places[new]], np.diff(added.ends, prepend=0))
        lengths = np.insert(np.diff(starts), places[new], np.diff(added.ends, prepend=0))
        mine_codes = np.arange(len(self)) + np.searchsorted(places[new], np.arange(len(self)), side="right")
        return type(self)(np.insert(self.data, at, added.data), np.cumsum(lengths)), mine_codes, others

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all data as arrays."""
        return {"text_bytes": self.data, "text_ends": self.ends}


@dataclass(frozen=True, eq=False)
class WholeNumbers:
    """Distinct integers, ascending."""

    numbers: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, code: int) -> int:
        return int(self.numbers[code])

    def find(self, value: float) -> int:
        """Return the code of a number, or -1."""
        place = bisect.bisect_left(range(len(self)), value, key=self.__getitem__)
        return place if place < len(self) and self[place] == value else -1

    def take(self, codes: NDArray[Any]) -> Self:
        """Return the numbers of some codes, which must ascend."""
        return type(self)(self.numbers[codes])

    def merged(self, other: Self) -> tuple[Self, NDArray[np.int64], NDArray[np.int64]]:
        """Merge two pools; return the result, the new codes of this pool and the new codes of the other."""
        whole = np.union1d(self.numbers, other.numbers)
        one, two = (np.searchsorted(whole, own.numbers) for own in (self, other))
        return (self if len(whole) == len(self) else type(self)(whole)), one, two

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all data as arrays."""
        return {"numbers": self.numbers}


def coded(values: list[Any], *, whole_numbers: bool) -> tuple[NDArray[np.int64], Texts | WholeNumbers]:
    """Return the codes of strings or of integers, and their pool; None has the code -1."""
    different = sorted(set(values) - {None})
    code_of = {value: code for code, value in enumerate(different)}
    code_of[None] = -1
    codes = np.fromiter(map(code_of.__getitem__, values), np.int64, len(values))
    return codes, WholeNumbers(np.array(different, np.int64)) if whole_numbers else Texts.of(different)
