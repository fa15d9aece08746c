"""Problems: errors as RFC 9457 has them, with the library's own sentences."""

import http
import json
from typing import Any

import msgspec

from tessella.store import DamagedRowError, EmptyError

PROBLEM = "application/problem+json"


class Problem(Exception):  # noqa: N818
    """An answer that is an error."""

    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, headers or {}

    def body(self) -> bytes:
        """The problem as JSON."""
        title = http.HTTPStatus(self.status).phrase
        told = {"type": "about:blank", "title": title, "status": self.status, "detail": self.detail}
        return json.dumps(told, ensure_ascii=False).encode("utf-8", "replace")


def too_large(what: str, given: int, most: int, option: str) -> Problem:
    """A request beyond a limit."""
    return Problem(413, f"{what} is {given:,}, but {most:,} is the most here; the service's option is {option}.")


def problem_of(error: BaseException) -> Problem | None:  # noqa: C901, PLR0911 - one for each kind
    """What an error of the library becomes; None if it is one of the program."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, msgspec.ValidationError):
        return Problem(422, f"the body does not fit: {error}.")
    if isinstance(error, msgspec.DecodeError | UnicodeDecodeError | RecursionError):
        return Problem(400, f"the body is no JSON: {error}.")
    if isinstance(error, EmptyError | FileExistsError):
        return Problem(409, _sentence(error))
    if isinstance(error, DamagedRowError):
        return Problem(503, _sentence(error))
    if isinstance(error, KeyError):
        return Problem(404, _sentence(error))
    if isinstance(error, LookupError):
        return Problem(409, _sentence(error))
    if isinstance(error, ValueError | TypeError | ArithmeticError):
        return Problem(422, _sentence(error))
    if isinstance(error, TimeoutError):
        return Problem(504, _sentence(error))
    if isinstance(error, PermissionError):
        return Problem(403, _sentence(error))
    if isinstance(error, OSError | MemoryError):
        return Problem(503, _sentence(error), {"Retry-After": "5"})
    return None


def _sentence(error: BaseException) -> str:
    said: Any = error.args[0] if isinstance(error, KeyError) and error.args else error
    return " ".join(str(said).split()) or type(error).__name__
