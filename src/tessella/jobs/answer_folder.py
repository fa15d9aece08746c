"""A folder of answers, filled a block at a time: what was answered outlasts an interruption.

`NAME` holds ids.npy, scores.npy, n_scored.npy and certified.npy, a row for each user, and job.json. Until all of it
is there it is called `NAME.partial`, and job.json says how many users are done, what was asked, and the digests of
their factors, filters and answers. Rows beyond those are not to be read. Rows are written and synced before job.json
says so, and job.json is replaced whole, so a partial folder is sound at every moment.
"""

import contextlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tessella.results import SearchResult
from tessella.versions import storage
from tessella.versions.fingerprint import fingerprint

FORMAT = 2
SECONDS_BETWEEN_SYNCS = 2.0
JOB = "job.json"
ARRAYS = {name: f"{name}.npy" for name in SearchResult.FIELDS}
MOST_PER_BLOCK = 2**20
_WORDS = {"n_users": "number of users", "tessella": "version of tessella", "options": "choice of options"}


class Done(NamedTuple):
    """How far a job got. Replaced as a whole, so that an interrupt finds it in one piece."""

    n_users: int
    asked: str  # digest of what was asked for these users, block by block
    answered: str  # digest of their answers


class _Unfit(Exception):  # noqa: N818
    """Why a partial folder cannot be gone on with."""


@dataclass(frozen=True)
class _Rows:
    """The rows of one array, in an open .npy file."""

    file: BinaryIO
    begin: int  # where they begin
    kind: np.dtype[Any]
    shape: tuple[int, ...]

    @classmethod
    def create(cls, path: Path, kind: np.dtype[Any], shape: tuple[int, ...]) -> None:
        """Write a file with all but the rows."""
        facts = {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False, "shape": shape}
        with path.open("xb") as file:
            np.lib.format.write_array_header_1_0(file, facts)

    @classmethod
    def open(cls, file: BinaryIO, kind: np.dtype[Any], shape: tuple[int, ...]) -> Self:
        """The rows of a file that `create` wrote; ValueError if it did not."""
        np.lib.format.read_magic(file)
        found = np.lib.format.read_array_header_1_0(file)
        if found != (shape, False, kind):
            raise ValueError(f"it holds {found}")
        return cls(file, file.tell(), kind, shape)

    @property
    def _row_bytes(self) -> int:
        return self.kind.itemsize * int(np.prod(self.shape[1:], dtype=np.int64))

    def reserve(self) -> None:
        """Take the room for all rows now, where the system can, rather than find out later that there is none."""
        size = self.begin + self.shape[0] * self._row_bytes
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(self.file.fileno(), 0, size)

    def write(self, first: int, values: NDArray[Any]) -> None:
        """Put rows where they belong."""
        left = np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
        self.file.seek(self.begin + first * self._row_bytes)
        while left:
            left = left[self.file.write(left) :]

    def read(self, rows: slice) -> NDArray[Any]:
        """Rows as they were written; a file that was cut off gives fewer."""
        self.file.seek(self.begin + rows.start * self._row_bytes)
        data = self.file.read((rows.stop - rows.start) * self._row_bytes)
        whole = len(data) // max(1, self._row_bytes)
        return np.frombuffer(data, self.kind, whole * self._row_bytes // self.kind.itemsize).reshape(
            whole, *self.shape[1:]
        )


class AnswerFolder:
    """A partial folder under way. Open it with `opened`, `put` blocks in order, then `finish`."""

    def __init__(
        self, path: Path, request: Mapping[str, Any], rows: dict[str, _Rows], per_block: int, done: Done
    ) -> None:
        self.path = path
        self.partial = _partial(path)
        self.request = request
        self.rows = rows
        self.per_block = per_block
        self.done = self._synced = done
        self._synced_at = time.monotonic()

    def left(self) -> list[slice]:
        """The blocks of users that are not done, as the job was begun with them."""
        return blocks(self.done.n_users, self.request["n_users"], self.per_block)

    def put(self, rows: slice, asked: str, found: SearchResult) -> None:
        """Add the answers to a block of users; `asked` is the digest of what was asked."""
        parts = self._as_stored(found)
        with self._one_sentence():
            for name, part in parts.items():
                self.rows[name].write(rows.start, part)
        self.done = _further(self.done, rows.stop, asked, parts)
        if time.monotonic() - self._synced_at > SECONDS_BETWEEN_SYNCS:
            with self._one_sentence():
                self.sync()

    def _as_stored(self, found: SearchResult) -> dict[str, NDArray[Any]]:
        ids = found.ids
        if ids.dtype == object:  # texts, and None where there is no item: files hold no objects
            ids = np.where(found.scores > -np.inf, ids, "").astype(self.rows["ids"].kind)
        return found.arrays() | {"ids": ids}

    def sync(self) -> None:
        """Make sure that what is done outlasts a power cut."""
        done = self.done
        if done == self._synced:
            return
        for part in self.rows.values():
            os.fsync(part.file.fileno())
        _write_job(self.partial, self.request, self.per_block, done)
        self._synced, self._synced_at = done, time.monotonic()

    def finish(self, *, overwrite: bool) -> SearchResult:
        """Give the folder its name; its arrays, memory-mapped."""
        with self._one_sentence():
            self.sync()
            self.close()
            old = self.path.with_name(f".{self.path.name}.{secrets.token_hex(6)}.old") if self.path.exists() else None
            if old is not None:
                _refuse_finished(self.path, overwrite)
                self.path.rename(old)
            try:
                self.partial.rename(self.path)
            except OSError:
                if old is not None:
                    old.rename(self.path)
                raise
            storage.sync_folder(self.path.parent)
            if old is not None:
                shutil.rmtree(old, ignore_errors=True)
            return SearchResult(*(np.load(self.path / file, mmap_mode="r") for file in ARRAYS.values()))

    def close(self) -> None:
        """Let the files go."""
        for part in self.rows.values():
            part.file.close()

    def stop(self) -> None:
        """After an error or an interrupt: keep what is done; a folder with nothing done goes."""
        if self.done.n_users:
            with contextlib.suppress(OSError):  # what was synced before is kept
                self.sync()
        else:
            shutil.rmtree(self.partial, ignore_errors=True)
        self.close()

    @contextlib.contextmanager
    def _one_sentence(self) -> Iterator[None]:
        try:
            yield
        except FileExistsError:
            raise
        except OSError as error:
            kept = f" {self.done.n_users:,} of {self.request['n_users']:,} users are done and kept in {self.partial}"
            way_out = f"{kept}; call it again to go on." if self.done.n_users else ""
            raise OSError(f"{self.path} could not be written: {_reason(error)}.{way_out}") from error


@contextlib.contextmanager
def opened(
    path: Path,
    request: Mapping[str, Any],
    kinds: SearchResult,
    asked_of: Callable[[slice], str],
    *,
    per_block: int,
    overwrite: bool,
) -> Iterator[AnswerFolder]:
    """The folder to put answers in, which goes on where an equal job stopped.

    Parameters
    ----------
    path : Path
        What the finished folder is called.
    request : mapping
        What was asked, in plain values; a partial folder with another request is refused.
    kinds : SearchResult
        No answers, of the right types and widths.
    asked_of : callable
        The digest of what is asked for a block of users, compared for those that are done.
    per_block : int
        Users in a block of a job that is new.
    overwrite : bool
        Whether to replace a finished folder, and a partial one that cannot be gone on with.
    """
    _refuse_finished(path, overwrite)
    partial = _partial(path)
    try:
        if not partial.exists():
            _create(partial, request, kinds, per_block)
        try:
            folder = _resume(path, request, kinds, asked_of)
        except _Unfit as reason:
            if not overwrite:
                raise ValueError(f"{partial} {reason} overwrite=True to begin anew.") from None
            _refuse_foreign(partial)
            shutil.rmtree(partial)
            _create(partial, request, kinds, per_block)
            folder = _resume(path, request, kinds, asked_of)
    except (BlockingIOError, FileExistsError):
        raise
    except OSError as error:
        raise OSError(f"{path} could not be written: {_reason(error)}.") from error
    try:
        with folder._one_sentence():
            for part in folder.rows.values():
                part.reserve()
        yield folder
    except BaseException:
        folder.stop()
        raise


def blocks(first: int, n_users: int, per_block: int) -> list[slice]:
    """Users from `first` on, in blocks."""
    return [slice(at, min(at + per_block, n_users)) for at in range(first, n_users, per_block)]


def users_done(path: Path) -> int:
    """How many users an unfinished job has answered; 0 if there is none."""
    try:
        return int(json.loads((_partial(path) / JOB).read_text())["done"]["n_users"])
    except (LookupError, OSError, TypeError, ValueError):
        return 0


def check_place(path: Path, *, overwrite: bool) -> None:
    """Refuse, before the work, a folder that could not be written after it."""
    if path.name in ("", ".."):
        raise ValueError(f"out is {str(path)!r}, which names no folder to make.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path} cannot be written: there is no folder {path.parent}.")
    _refuse_finished(path, overwrite)


def _partial(path: Path) -> Path:
    return path.with_name(f"{path.name}.partial")


def _refuse_finished(path: Path, overwrite: bool) -> None:
    if not path.exists():
        return
    if not overwrite:
        raise FileExistsError(f"{path} exists already; pass overwrite=True to replace it.")
    _refuse_foreign(path)


def _refuse_foreign(path: Path) -> None:
    """Refuse to replace what this room did not write."""
    ours = {JOB, *ARRAYS.values()}
    if not path.is_dir() or any(file.name not in ours and not _is_leftover(file.name) for file in path.iterdir()):
        raise FileExistsError(f"{path} holds something other than answers, so it is not replaced.")


def _is_leftover(name: str) -> bool:
    """Whether a file is one that a killed job was about to make its job.json."""
    return name.startswith(f".{JOB}.") and name.endswith(".tmp")


def _create(partial: Path, request: Mapping[str, Any], kinds: SearchResult, per_block: int) -> None:
    """A partial folder with nothing done, which appears whole."""
    temporary = partial.with_name(f".{partial.name}.{secrets.token_hex(6)}.tmp")
    temporary.mkdir()
    try:
        for name, part in kinds.arrays().items():
            _Rows.create(temporary / ARRAYS[name], part.dtype, (request["n_users"], *part.shape[1:]))
        _write_job(temporary, request, per_block, Done(0, "", ""))
        temporary.rename(partial)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _write_job(folder: Path, request: Mapping[str, Any], per_block: int, done: Done) -> None:
    job = {"format": FORMAT, "request": request, "users_per_block": per_block, "done": done._asdict()}
    text = json.dumps(job, indent=1)
    with storage.replacing(folder / JOB, overwrite=True) as temporary:
        temporary.write_text(text + "\n")


def _resume(
    path: Path, request: Mapping[str, Any], kinds: SearchResult, asked_of: Callable[[slice], str]
) -> AnswerFolder:
    """Open a partial folder, after a look at all that is done."""
    partial = _partial(path)
    with contextlib.ExitStack() as stack:
        rows: dict[str, _Rows] = {}
        for name, part in kinds.arrays().items():
            try:
                file = stack.enter_context((partial / ARRAYS[name]).open("rb+", buffering=0))
            except (FileNotFoundError, NotADirectoryError):
                raise _damage(f"there is no {ARRAYS[name]}") from None
            if not rows:
                _lock(file, partial)
                per_block, done = _job(partial, request)
            try:
                rows[name] = _Rows.open(file, part.dtype, (request["n_users"], *part.shape[1:]))
            except ValueError:
                raise _damage(f"{ARRAYS[name]} is not as it was written") from None
        seen = Done(0, "", "")
        for block in blocks(0, done.n_users, per_block):
            parts = {name: part.read(block) for name, part in rows.items()}
            seen = _further(seen, block.stop, asked_of(block), parts)
        if seen.answered != done.answered:
            raise _damage("its answers are not as they were written")
        if seen.asked != done.asked:
            raise _other("other users or filters")
        folder = AnswerFolder(path, request, rows, per_block, done)
        stack.pop_all()
    return folder


def _lock(file: BinaryIO, partial: Path) -> None:
    """Let no two jobs fill one folder; the lock goes when the file is closed."""
    try:
        import fcntl  # noqa: PLC0415 - there is none on Windows
    except ImportError:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BlockingIOError(
            f"{partial} is being filled by another job; wait for it, or choose another out."
        ) from None
    except OSError:  # a file system without locks
        return


def _job(partial: Path, request: Mapping[str, Any]) -> tuple[int, Done]:
    """How many users a block of the job has and how far it got, if it is the one that is asked for."""
    unread = _damage(f"{JOB} cannot be read")
    try:
        job = json.loads((partial / JOB).read_text())
        form, theirs, per_block, done = job["format"], dict(job["request"]), job["users_per_block"], Done(**job["done"])
    except (LookupError, FileNotFoundError, RecursionError, TypeError, ValueError):
        raise unread from None
    if form != FORMAT:
        raise _other(f"another format of answers{_numbers(form, FORMAT)}")
    for name, mine in json.loads(json.dumps(request)).items():
        if theirs.get(name) != mine:
            raise _other(f"another {_WORDS.get(name, name)}{_numbers(theirs.get(name), mine)}")
    if not (_is_within(per_block, 1, MOST_PER_BLOCK) and _is_within(done.n_users, 0, request["n_users"])):
        raise unread
    return per_block, done


def _is_within(value: object, low: int, high: int) -> bool:
    return isinstance(value, int) and low <= value <= high


def _damage(what: str) -> _Unfit:
    return _Unfit(f"is damaged, {what}; pass")


def _other(what: str) -> _Unfit:
    return _Unfit(f"was begun with {what}; pass the same to go on, or")


def _numbers(theirs: object, mine: object) -> str:
    """Both numbers, where there are two."""
    return f" ({theirs:,}, not {mine:,})" if isinstance(theirs, int) and isinstance(mine, int) else ""


def _further(done: Done, n_users: int, asked: str, parts: Mapping[str, NDArray[Any]]) -> Done:
    return Done(n_users, fingerprint(done.asked, asked), fingerprint(done.answered, *parts.values()))


def _reason(error: OSError) -> object:
    """What went wrong, without the names of temporary files."""
    cause = error.__cause__
    return error.strerror or (cause.strerror if isinstance(cause, OSError) else None) or error
