"""Settings: what a service allows, and the tokens that it asks for."""

import hmac
import ipaddress
import os
import stat
import warnings
from dataclasses import dataclass, field
from pathlib import Path

from tessella import _checks

READ, WRITE = "TESSELLA_READ_TOKEN", "TESSELLA_WRITE_TOKEN"
SHORTEST = 16  # characters of a token


@dataclass(frozen=True)
class Tokens:
    """The token that reads and the one that writes; never printed."""

    read: str | None = field(default=None, repr=False)
    write: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, file: Path | None) -> "Tokens":
        """Those in a file, or in the environment."""
        found = {"read": os.environ.get(READ), "write": os.environ.get(WRITE)}
        if file is not None:
            if file.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
                warnings.warn(f"{file} can be read by others than its owner; use: chmod 600 {file}", stacklevel=2)
            for number, line in enumerate(file.read_text().splitlines(), 1):
                if not line.strip() or line.lstrip().startswith("#"):
                    continue
                name, equals, token = (part.strip() for part in line.partition("="))
                if name not in found or not equals:
                    raise ValueError(f"{file} has no token in line {number}; lines are like: read = TOKEN")
                found[name] = token
        for name, value in found.items():
            if value is not None and len(value) < SHORTEST:
                raise ValueError(
                    f"the token that {name}s has {len(value)} characters, but must have {SHORTEST} or more."
                )
        return cls(found["read"] or None, found["write"] or None)

    @property
    def any(self) -> bool:
        """Whether there is one."""
        return self.read is not None or self.write is not None

    def may(self, given: bytes | None, *, write: bool) -> bool:
        """Whether a token lets a request read, or write. Takes the same time for any wrong one."""
        wanted = [self.write] if write else [self.write, self.read]
        if not self.any:
            return True
        allowed = False
        for token in wanted:
            if token is not None and given is not None:
                allowed |= hmac.compare_digest(given, token.encode())
        return allowed or (write is False and self.read is None)


@dataclass(frozen=True)
class Settings:
    """How a service answers.

    Attributes
    ----------
    writable : bool
        Whether it takes changes.
    max_body, max_batch, max_k, max_filter, max_waiting : int
        Limits of a request: bytes, users, answers, ids in filters, and batches that may wait for a thread.
    timeout : float
        Seconds for a request.
    workers : int
        Processes that answer.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    writable: bool = False
    tokens: Tokens = Tokens()
    max_body: int = 8 * 2**20
    max_batch: int = 1_000
    max_k: int = 1_000
    max_filter: int = 10_000
    max_waiting: int = 64
    timeout: float = 10.0
    workers: int = 1
    access_log: str | None = None  # a file; "-" is standard output, None is no log
    risk_power_loss: bool = False
    keep: int = 3

    def __post_init__(self) -> None:
        for name in ("max_body", "max_batch", "max_k", "max_filter", "max_waiting", "workers"):
            _checks.whole_number(getattr(self, name), name, 1)
        if not self.timeout > 0:
            raise ValueError(f"timeout is {self.timeout}, but must be above 0.")
        if not is_loopback(self.host) and (self.tokens.read is None or self.tokens.write is None):
            raise ValueError(
                f"{self.host} can be reached by others, so tokens are needed, one that reads and one that writes: pass "
                f"--tokens FILE, or set {READ} and {WRITE}."
            )


def is_loopback(host: str) -> bool:
    """Whether an address is only this machine's."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
