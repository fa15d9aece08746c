"""Connections: how SQLite is opened, who may write, and what becomes of its errors.

One process writes, by one connection; a lock file says which. Others open the file read-only. See decision 61.
"""

import contextlib
import fcntl
import os
import sqlite3
import stat
import struct
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from tessella import _files

APPLICATION = 0x7E55E11A  # in the header of a file: a store of tessella
FORMAT = 1
_MAGIC = b"SQLite format 3\0"
_HEADER = 100  # bytes
_BUSY_MS = 5_000

_READ_ONLY = "open it with read_only=True"


def check_header(path: Path) -> None:
    """Refuse a file that is no store, before SQLite touches it."""
    _files.check_readable(path)
    with path.open("rb") as file:
        header = file.read(_HEADER)
    if len(header) < _HEADER or not header.startswith(_MAGIC):
        raise ValueError(f"{path} is no store of tessella: it is no SQLite file.")
    form, application = struct.unpack_from(">I", header, 60)[0], struct.unpack_from(">I", header, 68)[0]
    if application != APPLICATION:
        raise ValueError(f"{path} is no store of tessella, but the SQLite file of another program.")
    if form != FORMAT:
        raise ValueError(f"{path} is a store of format {form}, but this version reads format {FORMAT}.")


class WriterLock:
    """Says that this process writes to a store; the system takes it back if the process dies."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lock = _files.beside(path, "", ".writer")
        try:
            self._handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise _not_writable(path, error) from None
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.pread(self._handle, 32, 0).decode(errors="replace").strip()
            os.close(self._handle)
            who = "this process" if owner == str(os.getpid()) else f"process {owner}" if owner else "another process"
            raise BlockingIOError(
                f"{path} is open for writing in {who}, and a store has one writer; {_READ_ONLY}."
            ) from None
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, str(os.getpid()).encode(), 0)

    def release(self) -> None:
        """Let others write. The lock file stays, as another process may be waiting at it."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def _not_writable(path: Path, error: OSError) -> OSError:
    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(f"{path} cannot be opened: there is no folder {path.parent}.")
    reason = str(error.strerror).lower()
    return PermissionError(f"{path} cannot be written: {path.parent} does not allow it ({reason}); {_READ_ONLY}.")


def connect_writer(path: Path, *, risk_power_loss: bool, vfs: str | None = None) -> sqlite3.Connection:
    """The one connection that commits and checkpoints."""
    database = _connect(path, "rw", vfs)
    with _closed_on_error(database), sentences(path):
        if not os.access(path, os.W_OK):
            raise PermissionError(f"{path} cannot be written: the file is read-only; {_READ_ONLY}.")
        mode = database.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        if mode != "wal":
            raise OSError(
                f"{path} cannot be a store: its file system does not allow SQLite's write-ahead log (it stays in mode "
                f"{mode!r}), as is usual for network file systems; put it on a local disk."
            )
        database.execute(f"PRAGMA synchronous = {'NORMAL' if risk_power_loss else 'FULL'}")
        database.execute("PRAGMA foreign_keys = OFF")
        database.execute("PRAGMA cache_size = -65536")
    return database


def connect_reader(path: Path, vfs: str | None = None) -> sqlite3.Connection:
    """A connection that only reads, and never checkpoints."""
    on_read_only_disk = bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    database = _connect(path, "ro&immutable=1" if on_read_only_disk else "ro", vfs)
    with _closed_on_error(database), sentences(path):
        database.execute("PRAGMA query_only = ON")
        database.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone()
    return database


def _connect(path: Path, mode: str, vfs: str | None) -> sqlite3.Connection:
    name = f"file:{quote(str(path.absolute()))}?mode={mode}" + (f"&vfs={vfs}" if vfs else "")
    with sentences(path):
        database = sqlite3.connect(name, uri=True, isolation_level=None, check_same_thread=False, timeout=0)
        database.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
    return database


@contextlib.contextmanager
def _closed_on_error(database: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        database.close()
        raise


@contextlib.contextmanager
def transaction(database: sqlite3.Connection, path: Path) -> Iterator[sqlite3.Connection]:
    """What happens in the block is written whole at its end, or not at all."""
    with sentences(path):
        database.execute("BEGIN IMMEDIATE")
        try:
            yield database
            database.execute("COMMIT")
        except BaseException:
            if database.in_transaction:  # SQLite may have rolled it back by itself, as when a disk is full
                database.execute("ROLLBACK")
            raise


@contextlib.contextmanager
def reading(database: sqlite3.Connection, path: Path) -> Iterator[sqlite3.Connection]:
    """What is read in the block is of one moment."""
    with sentences(path):
        database.execute("BEGIN")
        try:
            yield database
        finally:
            if database.in_transaction:
                database.execute("COMMIT")


@contextlib.contextmanager
def sentences(path: Path) -> Iterator[None]:
    """Errors of SQLite as one sentence about the path."""
    try:
        yield
    except UnicodeEncodeError as error:
        raise ValueError(f"{error.object!r} cannot be written to a store: it is no text that UTF-8 has.") from None
    except sqlite3.ProgrammingError:
        raise ValueError(f"{path} was closed; open the store again.") from None
    except sqlite3.Error as error:
        raise _sentence(path, error) from error


def _sentence(path: Path, error: sqlite3.Error) -> Exception:  # noqa: PLR0911 - one for each kind
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    said = str(error)
    if code == sqlite3.SQLITE_FULL:
        return OSError(f"{path} could not be written: the disk is full; nothing was changed.")
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return ValueError(f"{path} is damaged ({said}); restore it from a copy.")
    if code == sqlite3.SQLITE_READONLY:
        return PermissionError(f"{path} cannot be written: the file or its folder is read-only ({said}).")
    if code == sqlite3.SQLITE_CANTOPEN:
        if path.exists():
            return PermissionError(
                f"{path} cannot be opened: SQLite needs to write {path.name}-wal and {path.name}-shm beside it, and "
                f"{path.parent} does not allow it."
            )
        return FileNotFoundError(f"{path} cannot be opened: there is no such file.")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return BlockingIOError(f"{path} is locked by another program; close that, and try again.")
    if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PROTOCOL):
        return OSError(f"{path} could not be read or written: {said}; nothing was changed.")
    return RuntimeError(f"{path}: {said}.")


def is_file(path: Path) -> bool:
    """Whether there is a file with something in it."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return not stat.S_ISREG(found.st_mode) or found.st_size > 0
