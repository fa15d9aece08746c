"""Connections: opens SQLite, locks the store for its writer, and turns SQLite's errors into sentences.

One process writes, through one connection and under a lock file. Others open the file read-only. See decision 61.
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

APPLICATION = 0x7E55E11A  # SQLite's application id in the file header
FORMAT = 1
_MAGIC = b"SQLite format 3\0"
_HEADER = 100  # bytes of SQLite's file header
_BUSY_MS = 5_000

_READ_ONLY = "open it with read_only=True"


def check_header(path: Path) -> None:
    """Refuse a file that is not a store, before SQLite touches it."""
    _files.check_readable(path)
    with path.open("rb") as file:
        header = file.read(_HEADER)
    if len(header) < _HEADER or not header.startswith(_MAGIC):
        raise ValueError(f"{path} is not a tessella store: it is not an SQLite file.")
    form, application = struct.unpack_from(">I", header, 60)[0], struct.unpack_from(">I", header, 68)[0]
    if application != APPLICATION:
        raise ValueError(f"{path} is not a tessella store: another program made this SQLite file.")
    if form != FORMAT:
        raise ValueError(f"{path} is a store of format {form}, but this version of tessella reads format {FORMAT}.")


class WriterLock:
    """An exclusive lock for the writer of a store. The system releases it if the process dies."""

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
                f"{path} is already open for writing in {who}, and a store has one writer; {_READ_ONLY}."
            ) from None
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, str(os.getpid()).encode(), 0)

    def release(self) -> None:
        """Release the lock. The lock file stays, because another process may be waiting for it."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def _not_writable(path: Path, error: OSError) -> OSError:
    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(f"{path} cannot be opened: there is no folder {path.parent}.")
    reason = str(error.strerror).lower()
    return PermissionError(f"{path} cannot be written: {path.parent} is not writable ({reason}); {_READ_ONLY}.")


def connect_writer(path: Path, *, risk_power_loss: bool, vfs: str | None = None) -> sqlite3.Connection:
    """Open the only connection that commits and checkpoints."""
    database = _connect(path, "rw", vfs)
    with _closed_on_error(database), sentences(path):
        if not os.access(path, os.W_OK):
            raise PermissionError(f"{path} cannot be written: the file is read-only; {_READ_ONLY}.")
        mode = database.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        if mode != "wal":
            raise OSError(
                f"{path} cannot be a store: its file system does not support SQLite's write-ahead log (the journal "
                f"mode stays {mode!r}), which is common for network file systems; put it on a local disk."
            )
        database.execute(f"PRAGMA synchronous = {'NORMAL' if risk_power_loss else 'FULL'}")
        database.execute("PRAGMA foreign_keys = OFF")
        database.execute("PRAGMA cache_size = -65536")
    return database


def connect_reader(path: Path, vfs: str | None = None) -> sqlite3.Connection:
    """Open a read-only connection, which never checkpoints."""
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
    """Commit everything done in the block at its end, or nothing if it raises."""
    with sentences(path):
        database.execute("BEGIN IMMEDIATE")
        try:
            yield database
            database.execute("COMMIT")
        except BaseException:
            if database.in_transaction:  # SQLite rolls back by itself in some cases, such as a full disk
                database.execute("ROLLBACK")
            raise


@contextlib.contextmanager
def reading(database: sqlite3.Connection, path: Path) -> Iterator[sqlite3.Connection]:
    """Read one consistent state of the database within the block."""
    with sentences(path):
        database.execute("BEGIN")
        try:
            yield database
        finally:
            if database.in_transaction:
                database.execute("COMMIT")


@contextlib.contextmanager
def sentences(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into one sentence that names the path."""
    try:
        yield
    except UnicodeEncodeError as error:
        raise ValueError(f"{error.object!r} cannot be written to a store: it cannot be encoded as UTF-8.") from None
    except sqlite3.ProgrammingError:
        raise ValueError(f"{path} was closed; open the store again.") from None
    except sqlite3.Error as error:
        raise _sentence(path, error) from error


def _sentence(path: Path, error: sqlite3.Error) -> Exception:  # noqa: PLR0911 - one return per kind
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    said = str(error)
    if code == sqlite3.SQLITE_FULL:
        return OSError(f"{path} could not be written: the disk is full; nothing was changed.")
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return ValueError(f"{path} is damaged ({said}); restore it from a backup.")
    if code == sqlite3.SQLITE_READONLY:
        return PermissionError(f"{path} cannot be written: the file or its folder is read-only ({said}).")
    if code == sqlite3.SQLITE_CANTOPEN:
        if path.exists():
            return PermissionError(
                f"{path} cannot be opened: SQLite needs to write {path.name}-wal and {path.name}-shm beside it, but "
                f"{path.parent} is not writable."
            )
        return FileNotFoundError(f"{path} cannot be opened: there is no such file.")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return BlockingIOError(f"{path} is locked by another program; close it and try again.")
    if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PROTOCOL):
        return OSError(f"{path} could not be read or written: {said}; nothing was changed.")
    return RuntimeError(f"{path}: {said}.")


def is_file(path: Path) -> bool:
    """Return whether there is something other than an empty file at the path."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return not stat.S_ISREG(found.st_mode) or found.st_size > 0
