"""Settings: the limits of a service and its tokens."""

import hmac
import ipaddress
import os
import stat
import warnings
from dataclasses import dataclass, field
from pathlib import Path

from tessella import _checks

READ, WRITE = "TESSELLA_READ_TOKEN", "TESSELLA_WRITE_TOKEN"
SHORTEST = 16  # characters that a token must have


@dataclass(frozen=True)
class Tokens:
    """The read token and the write token; `repr` hides both."""

    read: str | None = field(default=None, repr=False)
    write: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, file: Path | None) -> "Tokens":
        """Read the tokens from the environment and from a file, which takes precedence."""
        found = {"read": os.environ.get(READ), "write": os.environ.get(WRITE)}
        if file is not None:
            if file.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
                warnings.warn(f"{file} is readable by users other than its owner; run: chmod 600 {file}", stacklevel=2)
            for number, line in enumerate(file.read_text().splitlines(), 1):
                if not line.strip() or line.lstrip().startswith("#"):
                    continue
                name, equals, token = (part.strip() for part in line.partition("="))
                if name not in found or not equals:
                    raise ValueError(f"{file} has no token in line {number}; write lines such as: read = TOKEN")
                found[name] = token
        for name, value in found.items():
            if value is not None and len(value) < SHORTEST:
                raise ValueError(f"the {name} token has {len(value)} characters, but must have at least {SHORTEST}.")
        return cls(found["read"] or None, found["write"] or None)

    @property
    def any(self) -> bool:
        """Whether any token is set."""
        return self.read is not None or self.write is not None

    def may(self, given: bytes | None, *, write: bool) -> bool:
        """Return whether a token allows a read or a write, in a time that does not depend on how wrong it is."""
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
    """Settings of a service.

    Attributes
    ----------
    writable : bool
        Whether the service accepts changes.
    max_body, max_batch, max_k, max_filter, max_waiting : int
        Limits: bytes of a body, users of a batch, k, ids and values in filters, and batches waiting for a thread.
    timeout : float
        Seconds that a request may take.
    workers : int
        Number of worker processes.
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
    access_log: str | None = None  # a file, "-" for standard output, or None for no log
    risk_power_loss: bool = False
    keep: int = 3

    def __post_init__(self) -> None:
        for name in ("max_body", "max_batch", "max_k", "max_filter", "max_waiting", "workers"):
            _checks.whole_number(getattr(self, name), name, 1)
        if not self.timeout > 0:
            raise ValueError(f"timeout is {self.timeout}, but must be above 0.")
        if not is_loopback(self.host) and (self.tokens.read is None or self.tokens.write is None):
            raise ValueError(
                f"other machines can reach {self.host}, so the service needs a read token and a write token: pass "
                f"--tokens FILE, or set {READ} and {WRITE}."
            )


def is_loopback(host: str) -> bool:
    """Return whether a host name or address is a loopback address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
