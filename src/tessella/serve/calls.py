"""Calls: requests and answers, independent of the transport, and how ids and vectors are read and written."""

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
from tessella.store import Model

JSON, ARROW = "application/json", "application/vnd.apache.arrow.stream"
SAFE = 2**53  # beyond it, JavaScript cannot represent every integer
_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,18})", re.ASCII)
Message = TypeVar("Message")


class Call(msgspec.Struct):
    """A request."""

    method: str
    path: str
    params: Mapping[str, str] = {}  # path parameters
    query: Mapping[str, str] = {}
    content_type: str = JSON
    accept: str = "*/*"
    body: bytes = b""
    deadline: float = float("inf")  # by time.monotonic()

    def read(self, kind: type[Message]) -> Message:
        """Decode the body as a message of the given type."""
        if self.content_type != JSON:
            raise Problem(415, f"Content-Type is {self.content_type or 'missing'}, but must be {JSON}.")
        return msgspec.json.decode(self.body, type=kind)

    def check_time(self) -> None:
        """Raise an error if the deadline has passed."""
        if time.monotonic() > self.deadline:
            raise TimeoutError("the time limit passed before the answer was ready; ask for less or allow more time.")

    def number(self, name: str, default: int, low: int, high: int) -> int:
        """Return an integer parameter of the query string."""
        text = self.query.get(name)
        if text is None:
            return default
        if not _WHOLE.fullmatch(text) or not low <= int(text) <= high:
            raise Problem(422, f"{name} is {text!r}, but must be a whole number from {low} to {high}.")
        return int(text)


class Answer(NamedTuple):
    """A response."""

    body: bytes
    status: int = 200
    content_type: bytes = b"application/json"
    headers: tuple[tuple[bytes, bytes], ...] = ()


def answer(message: Any, generation: str | None = None, version: int | None = None) -> Answer:
    """Encode a message as JSON, with headers that name the generation and version."""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    if generation is not None:
        headers = ((b"tessella-generation", generation.encode()), (b"tessella-version", str(version).encode()))
    return Answer(ENCODER.encode(message), headers=headers)


def item_kind(model: Model) -> str | None:
    """Return the dtype kind of the model's item ids, "U" or "i"; None if it has no items."""
    return None if model.held is None else ("U" if model.held._edition.version.text_ids else "i")


def user_kind(model: Model) -> str | None:
    """Return the dtype kind of the model's user ids, "U" or "i"; None if it has no users."""
    users = None if model.held is None else model.held._edition.users
    return None if users is None else users.ids.dtype.kind


def ids_in(given: Iterable[Id], kind: str | None) -> list[Id]:
    """Convert ids from JSON: if the store's ids are integers, strings of digits become integers."""
    if kind == "U":
        return list(given)
    return [int(one) if isinstance(one, str) and _WHOLE.fullmatch(one) else one for one in given]


def id_in(given: Id, kind: str | None) -> Id:
    """Convert one id from JSON, as `ids_in` does."""
    if kind != "U" and isinstance(given, str) and _WHOLE.fullmatch(given):
        return int(given)
    return given


def ids_out(ids: list[Any]) -> list[Id]:
    """Convert ids for JSON: integers beyond 2^53 become strings."""
    if ids and type(ids[0]) is int and (max(ids) > SAFE or min(ids) < -SAFE):
        return [str(one) if abs(one) > SAFE else one for one in ids]
    return ids


def id_out(one: Id) -> Id:
    """Convert one id for JSON, as `ids_out` does."""
    return str(one) if type(one) is int and abs(one) > SAFE else one


def moment(given: str | float | None) -> Any:
    """Convert a point in time, given as a date or as seconds since 1970."""
    if not isinstance(given, str):
        return given
    text = dates.written(given)
    if text is None:
        raise Problem(422, f"now is {given!r}, but must be a date such as 2030-12-31T12:00:00, or seconds since 1970.")
    return np.datetime64(text)


def vectors_of(given: Sequence[Any], n_factors: int) -> NDArray[np.float32]:
    """Convert vectors to one array; each must have as many numbers as the model has factors."""
    for number, one in enumerate(given):
        if len(one) != n_factors:
            raise Problem(422, f"vector {number} has {len(one)} numbers, but the model has {n_factors} factors.")
    with np.errstate(over="ignore"):
        made = np.array(given, np.float32).reshape(len(given), n_factors)
    if not np.isfinite(made).all():
        raise Problem(422, "a vector holds a number too large for float32; scale it down.")
    return made
