"""Calls: a request and its answer, apart from how they travel; ids as they travel."""

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from tessella.recommend import dates
from tessella.serve.messages import ENCODER, Id
from tessella.serve.problems import Problem

JSON, ARROW = "application/json", "application/vnd.apache.arrow.stream"
SAFE = 2**53  # the last whole number that JavaScript counts to
_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,18})", re.ASCII)
Message = TypeVar("Message")


class Call(msgspec.Struct):
    """One request."""

    method: str
    path: str
    params: Mapping[str, str] = {}  # parts of the path
    query: Mapping[str, str] = {}
    content_type: str = JSON
    accept: str = "*/*"
    body: bytes = b""
    deadline: float = float("inf")  # by time.monotonic()

    def read(self, kind: type[Message]) -> Message:
        """The body as a message."""
        if self.content_type != JSON:
            raise Problem(415, f"the body is {self.content_type or 'of no type'}, but must be {JSON}.")
        return msgspec.json.decode(self.body, type=kind)

    def check_time(self) -> None:
        """Refuse to go on after the time limit."""
        if time.monotonic() > self.deadline:
            raise TimeoutError("the time limit passed before the answer was ready; ask for less, or allow more time.")

    def number(self, name: str, default: int, low: int, high: int) -> int:
        """A whole number of the query string."""
        text = self.query.get(name)
        if text is None:
            return default
        if not _WHOLE.fullmatch(text) or not low <= int(text) <= high:
            raise Problem(422, f"{name} is {text!r}, but must be a whole number from {low} to {high}.")
        return int(text)


class Answer(NamedTuple):
    """What is sent back."""

    body: bytes
    status: int = 200
    content_type: bytes = b"application/json"
    headers: tuple[tuple[bytes, bytes], ...] = ()


def answer(message: Any, generation: str | None = None, version: int | None = None) -> Answer:
    """A message as JSON, and which model it is of, in headers."""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    if generation is not None:
        headers = ((b"tessella-generation", generation.encode()), (b"tessella-version", str(version).encode()))
    return Answer(ENCODER.encode(message), headers=headers)


def ids_in(given: Iterable[Id], kind: str | None) -> list[Id]:
    """Ids as the store has them: a text of digits is a whole number where ids are whole numbers."""
    if kind == "U":
        return list(given)
    return [int(one) if isinstance(one, str) and _WHOLE.fullmatch(one) else one for one in given]


def id_in(given: Id, kind: str | None) -> Id:
    """One id as the store has it."""
    if kind != "U" and isinstance(given, str) and _WHOLE.fullmatch(given):
        return int(given)
    return given


def ids_out(ids: list[Any]) -> list[Id]:
    """Ids as they travel: whole numbers beyond 2^53 as texts."""
    if ids and type(ids[0]) is int and (max(ids) > SAFE or min(ids) < -SAFE):
        return [str(one) if abs(one) > SAFE else one for one in ids]
    return ids


def id_out(one: Id) -> Id:
    """One id as it travels."""
    return str(one) if type(one) is int and abs(one) > SAFE else one


def moment(given: str | float | None) -> Any:
    """A moment, from a date or from seconds since 1970."""
    if not isinstance(given, str):
        return given
    text = dates.written(given)
    if text is None:
        raise Problem(422, f"now is {given!r}, but must be a date such as 2030-12-31T12:00:00, or seconds since 1970.")
    return np.datetime64(text)


def vectors_of(given: Sequence[Any], n_factors: int) -> NDArray[np.float32]:
    """Vectors, whose widths must all be the model's."""
    for number, one in enumerate(given):
        if len(one) != n_factors:
            raise Problem(422, f"vector {number} has {len(one)} numbers, but the model has {n_factors} factors.")
    with np.errstate(over="ignore"):
        made = np.array(given, np.float32).reshape(len(given), n_factors)
    if not np.isfinite(made).all():
        raise Problem(422, "a vector has a number that is too large for float32.")
    return made
