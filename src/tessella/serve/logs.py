"""Logs: one line of JSON per request, written by a separate thread."""

import sys
import threading
import time
from collections import deque
from pathlib import Path
from typing import IO

import msgspec

_MOST = 200_000  # lines that may wait to be written; more are dropped and counted
_EVERY = 0.2  # seconds between two writes


class AccessLog:
    """An access log that never makes a request wait for the disk.

    Parameters
    ----------
    target : str
        A file to append to, or "-" for standard output.
    """

    def __init__(self, target: str) -> None:
        self._file: IO[bytes] = sys.stdout.buffer if target == "-" else Path(target).open("ab")  # noqa: SIM115 - closed in `close`
        self._lines: deque[tuple[object, ...]] = deque()
        self._dropped = 0
        self._stop = threading.Event()
        self._encoder = msgspec.json.Encoder()
        self._thread = threading.Thread(target=self._work, name="tessella access log", daemon=True)
        self._thread.start()

    def add(self, *line: object) -> None:
        """Add a line: time, method, path, status, milliseconds, bytes, client."""
        if len(self._lines) < _MOST:
            self._lines.append(line)
        else:
            self._dropped += 1

    def _work(self) -> None:
        while not self._stop.wait(_EVERY):
            self._write()
        self._write()

    def _write(self) -> None:
        names = ("time", "method", "path", "status", "ms", "bytes", "client")
        made = bytearray()
        for _ in range(len(self._lines)):
            line = dict(zip(names, self._lines.popleft(), strict=True))
            made += self._encoder.encode(line) + b"\n"
        if self._dropped:
            made += self._encoder.encode({"time": time.time(), "dropped_lines": self._dropped}) + b"\n"
            self._dropped = 0
        if made:
            try:
                self._file.write(made)
                self._file.flush()
            except (OSError, ValueError):  # a full disk must not stop the service
                self._dropped += 1

    def close(self) -> None:
        """Write the remaining lines and close the file."""
        self._stop.set()
        self._thread.join()
        if self._file is not sys.stdout.buffer:
            self._file.close()
