"""Problems: errors in the format of RFC 9457, with the library's own sentences."""

import http
import json
from typing import Any

import msgspec

from tessella.store import DamagedRowError, EmptyError

PROBLEM = "application/problem+json"


class Problem(Exception):  # noqa: N818
    """An error that is sent to the client."""

    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, headers or {}

    def body(self) -> bytes:
        """Return the problem as JSON."""
        title = http.HTTPStatus(self.status).phrase
        told = {"type": "about:blank", "title": title, "status": self.status, "detail": self.detail}
        return json.dumps(told, ensure_ascii=False).encode("utf-8", "replace")


def too_large(what: str, given: int, most: int, option: str | None = None) -> Problem:
    """Return the problem of a request beyond a limit; `option` is the option of the service that raises it."""
    way_out = "send less at a time" if option is None else f"ask for less, or start the service with a larger {option}"
    return Problem(413, f"{what} is {given:,}, but the limit is {most:,}; {way_out}.")


def problem_of(error: BaseException) -> Problem | None:  # noqa: C901, PLR0911 - one return per kind
    """Return the problem for an error of the library; None if the error is unexpected."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, msgspec.ValidationError):
        return Problem(422, f"the body does not match the schema: {error}.")
    if isinstance(error, msgspec.DecodeError | UnicodeDecodeError | RecursionError):
        return Problem(400, f"the body is not valid JSON: {error}.")
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
