"""A folder of answers, filled block by block, so that finished blocks survive an interruption.

The folder `NAME` contains ids.npy, scores.npy, n_scored.npy and certified.npy, with a row for each user, and job.json.
If users have ids, users.json lists them. If item ids are strings, items.json lists them, and ids.npy holds positions in
that list. In either case, -1 in ids.npy means no item. Until it is complete, the folder is called `NAME.partial`, and
job.json says how many users are done, what was requested, and the digests of their factors, filters and answers. Rows
of other users are not valid yet.

A partial folder is consistent at every moment. It is created in this order: an empty ids.npy, on which the job that
fills the folder holds a lock; a job.json that says that no users are done; the arrays. A job that finds no users done
creates the arrays again. Rows are written and synced before job.json counts them, and job.json is replaced atomically.
"""

import contextlib
import io
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from tessella import _files
from tessella._threads import cut
from tessella.results import SearchResult
from tessella.versions.fingerprint import fingerprint

FORMAT = 3
SECONDS_BETWEEN_SYNCS = 2.0
JOB = "job.json"
ARRAYS = {name: f"{name}.npy" for name in SearchResult.FIELDS}
LISTS = {name: f"{name}.json" for name in ("users", "items")}
LOCKED = next(iter(ARRAYS.values()))  # the file on which the job that fills a folder holds a lock
MOST_PER_BLOCK = 2**20
_IDS_AT_ONCE = 2**12
_WORDS = {"n_users": "number of users", "tessella": "version of tessella"}


class Listed(Protocol):
    """Ids that can be read in slices."""

    def __len__(self) -> int: ...

    def __getitem__(self, some: slice, /) -> NDArray[Any]: ...


class Done(NamedTuple):
    """The progress of a job. Always replaced as a whole, so that an interrupt never sees a mixture."""

    n_users: int
    asked: str  # digest of the requests of these users, block by block
    answered: str  # digest of their answers


class _Unfit(Exception):  # noqa: N818
    """Why a partial folder cannot be resumed."""


@dataclass(frozen=True)
class _ArrayFile:
    """One array, with a row for each user, in an open .npy file."""

    file: BinaryIO
    begin: int  # the offset of the first row
    kind: np.dtype[Any]
    shape: tuple[int, ...]

    @classmethod
    def create(cls, file: BinaryIO, kind: np.dtype[Any], shape: tuple[int, ...]) -> Self:
        """Start an array without rows, in a file that is emptied first."""
        header = io.BytesIO()
        facts = {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(header, facts)
        file.truncate(0)
        _write_at(file, 0, header.getbuffer())
        return cls(file, file.tell(), kind, shape)

    @classmethod
    def open(cls, file: BinaryIO, kind: np.dtype[Any], shape: tuple[int, ...]) -> Self:
        """Open the array of a file that `create` wrote; raise ValueError if it is another."""
        file.seek(0)
        np.lib.format.read_magic(file)
        found = np.lib.format.read_array_header_1_0(file)
        if found != (shape, False, kind):
            raise ValueError(f"it holds {found}")
        return cls(file, file.tell(), kind, shape)

    @property
    def _user_bytes(self) -> int:
        return self.kind.itemsize * int(np.prod(self.shape[1:], dtype=np.int64))

    def reserve(self) -> None:
        """Reserve disk space for all users now, if the system can, so that a full disk is noticed early."""
        size = self.begin + self.shape[0] * self._user_bytes
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(self.file.fileno(), 0, size)

    def write(self, first: int, values: NDArray[Any]) -> None:
        """Write the rows of some users."""
        data = np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
        _write_at(self.file, self.begin + first * self._user_bytes, data)

    def read(self, users: slice) -> NDArray[Any]:
        """Read the rows of some users; a truncated file returns fewer."""
        self.file.seek(self.begin + users.start * self._user_bytes)
        data = self.file.read((users.stop - users.start) * self._user_bytes)
        whole = len(data) // max(1, self._user_bytes)
        return np.frombuffer(data, self.kind, whole * self._user_bytes // self.kind.itemsize).reshape(
            whole, *self.shape[1:]
        )


def _write_at(file: BinaryIO, at: int, data: memoryview) -> None:
    file.seek(at)
    while data:
        data = data[file.write(data) :]


class AnswerFolder:
    """A partial folder that is being filled. Open it with `opened`, `put` blocks in order, then `finish`."""

    def __init__(
        self, path: Path, request: Mapping[str, Any], files: dict[str, _ArrayFile], per_block: int, done: Done
    ) -> None:
        self.path = path
        self.partial = partial_of(path)
        self.request = request
        self.files = files
        self.per_block = per_block
        self.done = self._synced = done
        self._synced_at = time.monotonic()

    def left(self) -> list[slice]:
        """Return the blocks of users that are not done, with the block size that the job started with."""
        return cut(self.request["n_users"], self.per_block, self.done.n_users)

    def put(self, users: slice, asked: str, found: SearchResult) -> None:
        """Add the answers of a block of users; `asked` is the digest of their request."""
        parts = found.arrays()
        with self._one_sentence():
            for name, part in parts.items():
                self.files[name].write(users.start, part)
        self.done = _further(self.done, users.stop, asked, parts)
        if time.monotonic() - self._synced_at > SECONDS_BETWEEN_SYNCS:
            with self._one_sentence():
                self.sync()

    def sync(self) -> None:
        """Make sure that finished blocks survive a power failure."""
        done = self.done
        if done == self._synced:
            return
        for part in self.files.values():
            os.fsync(part.file.fileno())
        _write_job(self.partial, self.request, self.per_block, done)
        self._synced, self._synced_at = done, time.monotonic()

    def finish(self, lists: Mapping[str, Listed], *, overwrite: bool) -> SearchResult:
        """Add lists of ids and give the folder its final name; return its arrays, memory-mapped."""
        with self._one_sentence():
            for name, ids in lists.items():
                _write_list(self.partial / LISTS[name], ids)
            self.sync()
            _refuse_finished(self.path, overwrite)
            _files.rename_folder(self.partial, self.path)  # while it is locked, so that no other job claims it
            self.close()
            return SearchResult(*(np.load(self.path / file, mmap_mode="r") for file in ARRAYS.values()))

    def close(self) -> None:
        """Close the files."""
        for part in self.files.values():
            part.file.close()

    def stop(self) -> None:
        """After an error or an interrupt: keep finished blocks, or delete the folder if there are none."""
        if self.done.n_users:
            with contextlib.suppress(OSError):  # blocks that were synced before are kept
                self.sync()
        else:
            _discard(self.partial)
        self.close()

    def _one_sentence(self) -> contextlib.AbstractContextManager[None]:
        return _files.one_sentence(self.path, self._kept)

    def _kept(self) -> str:
        if not self.done.n_users:
            return ""
        done = f"{self.done.n_users:,} of {self.request['n_users']:,} users are done and kept in {self.partial}"
        return f" {done}; repeat the call to resume."


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
    """Open the folder to write answers to. If an equal job was interrupted, keep its answers and resume it.

    Parameters
    ----------
    path : Path
        The path of the finished folder.
    request : mapping
        The request in plain values; a partial folder with another request is refused.
    kinds : SearchResult
        An empty result with the right dtypes and widths.
    asked_of : callable
        Returns the digest of the request for a block of users, to be compared for users that are done.
    per_block : int
        The number of users per block of a new job.
    overwrite : bool
        Whether to replace a finished folder, or a partial one that cannot be resumed.
    """
    _refuse_finished(path, overwrite)
    with contextlib.ExitStack() as files:
        with _files.one_sentence(path):
            locked = files.enter_context(_claimed(path, overwrite))
            files.callback(_discard_unused, partial_of(path))
            _files.settle(path)
            _refuse_finished(path, overwrite)  # again, since another job may just have finished
            folder = _resumed(path, locked, request, kinds, asked_of, overwrite)
            if folder is None:
                folder = _begun(path, locked, request, kinds, per_block)
        files.pop_all()
    try:
        with folder._one_sentence():
            for left in _unnamed(folder.partial):
                left.unlink()
            for part in folder.files.values():
                part.reserve()
        yield folder
    except BaseException:
        folder.stop()
        raise


def users_done(path: Path) -> int:
    """Return how many users an unfinished job has answered; 0 if there is no such job."""
    try:
        return int(_read_job(partial_of(path))["done"]["n_users"])
    except (LookupError, OSError, TypeError, ValueError):
        return 0


def check_place(path: Path, *, overwrite: bool) -> None:
    """Refuse, before the work begins, a folder that could not be written at the end."""
    if path.name in ("", ".."):
        raise ValueError(f"out is {str(path)!r}, but must be the path of a folder to create.")
    _refuse_finished(path, overwrite)


def partial_of(path: Path) -> Path:
    """Return the path of a folder until it is complete."""
    return _files.beside(_files.followed(path), "", ".partial")


def _refuse_finished(path: Path, overwrite: bool) -> None:
    _files.check_folder(path, overwrite=overwrite)
    with contextlib.suppress(FileNotFoundError):  # nothing is there, or another job is replacing it
        _refuse_foreign(path)


def _refuse_foreign(path: Path) -> None:
    """Refuse to replace a folder that this module did not write."""
    if {file.name for file in path.iterdir()} - {JOB, *ARRAYS.values(), *LISTS.values()} - _leftovers(path):
        raise FileExistsError(f"{path} contains files other than answers, so it is not replaced; choose another path.")


def _leftovers(partial: Path) -> set[str]:
    """Return the names of temporary files that a killed job left behind."""
    return {file.name for file in _unnamed(partial)}


def _unnamed(partial: Path) -> list[Path]:
    return [file for name in (JOB, *LISTS.values()) for file in _files.leftovers(partial / name)]


def _claimed(path: Path, overwrite: bool) -> BinaryIO:
    """Create the partial folder if necessary, and lock the file that a job holds while it fills the folder."""
    partial = partial_of(path)
    while True:
        _files.check_folder(partial, overwrite=True)
        try:
            partial.mkdir()
        except FileExistsError:  # it belongs to another job, which may end at any moment
            if partial.is_symlink() and not partial.exists():
                raise
        with contextlib.ExitStack() as stack, contextlib.suppress(FileNotFoundError):  # another job has just ended
            file = stack.enter_context(_opened_to_lock(partial, overwrite))
            _lock(file, partial)
            if os.path.samestat(os.fstat(file.fileno()), (partial / LOCKED).stat()):  # it was not renamed meanwhile
                stack.pop_all()
                return file


def _opened_to_lock(partial: Path, overwrite: bool) -> BinaryIO:
    file = partial / LOCKED
    if file.exists():
        _files.check_readable(file)
    elif not _is_unused(partial) and not file.exists():  # checked again: another job may have begun meanwhile
        if not overwrite:
            raise _refused(partial, _damage(f"{LOCKED} is missing"))
        _refuse_foreign(partial)
    return os.fdopen(os.open(file, os.O_RDWR | os.O_CREAT, 0o666), "rb+", buffering=0)


def _is_unused(partial: Path) -> bool:
    """Return whether a folder is empty, except for what a job leaves if it is killed while creating the folder."""
    others = {file.name for file in partial.iterdir()} - _leftovers(partial)
    return not others or (others == {LOCKED} and not (partial / LOCKED).stat().st_size)


def _lock(file: BinaryIO, partial: Path) -> None:
    """Prevent two jobs from filling one folder; the lock is released when the file is closed."""
    try:
        import fcntl  # noqa: PLC0415 - not available on Windows
    except ImportError:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BlockingIOError(
            f"{partial} is being filled by another job; wait for it, or choose another path."
        ) from None
    except OSError:  # a file system without locks
        return


def _begun(
    path: Path, locked: BinaryIO, request: Mapping[str, Any], kinds: SearchResult, per_block: int
) -> AnswerFolder:
    """Start a partial folder with no users done."""
    partial, done = partial_of(path), Done(0, "", "")
    with contextlib.ExitStack() as files:
        try:
            _write_job(partial, request, per_block, done)
            for name in LISTS.values():
                (partial / name).unlink(missing_ok=True)
            arrays = {}
            for name, part in kinds.arrays().items():
                file = locked
                if ARRAYS[name] != LOCKED:
                    (partial / ARRAYS[name]).unlink(missing_ok=True)
                    file = files.enter_context((partial / ARRAYS[name]).open("xb+", buffering=0))
                arrays[name] = _ArrayFile.create(file, part.dtype, (request["n_users"], *part.shape[1:]))
            for folder in (partial, partial.parent):
                _files.sync_folder(folder)
        except BaseException:
            _discard(partial)
            raise
        files.pop_all()
    return AnswerFolder(path, request, arrays, per_block, done)


def _discard(partial: Path) -> None:
    """Delete a partial folder, its lock last; keep files that this module did not write."""
    with contextlib.suppress(OSError):
        for left in _unnamed(partial):
            left.unlink()
        for name in (JOB, *LISTS.values(), *reversed(ARRAYS.values())):
            (partial / name).unlink(missing_ok=True)
        partial.rmdir()


def _discard_unused(partial: Path) -> None:
    """Delete the partial folder of a job that was refused before it wrote anything."""
    with contextlib.suppress(OSError):
        if _is_unused(partial):
            _discard(partial)


def _write_job(folder: Path, request: Mapping[str, Any], per_block: int, done: Done) -> None:
    job = {"format": FORMAT, "request": request, "users_per_block": per_block, "done": done._asdict()}
    text = json.dumps(job, indent=1)
    with _files.replacing(folder / JOB, overwrite=True) as temporary:
        temporary.write_text(text + "\n")


def _write_list(path: Path, ids: Listed) -> None:
    """Write ids as a JSON list, one per line."""
    with _files.replacing(path, overwrite=True) as temporary, temporary.open("w", encoding="ascii") as file:
        file.write("[")
        for some in cut(len(ids), _IDS_AT_ONCE):
            lines = ",\n".join(map(json.dumps, ids[some].tolist()))
            file.write((",\n" if some.start else "\n") + lines)
        file.write("\n]\n")


def _read_job(partial: Path) -> Any:
    _files.check_readable(partial / JOB)
    return json.loads((partial / JOB).read_text())


def _resumed(
    path: Path,
    locked: BinaryIO,
    request: Mapping[str, Any],
    kinds: SearchResult,
    asked_of: Callable[[slice], str],
    overwrite: bool,
) -> AnswerFolder | None:
    """Verify and return a partial folder with users done; None if the job has to start from the beginning."""
    partial = partial_of(path)
    if _is_unused(partial):
        return None
    try:
        per_block, done = _job(partial, request)
        if not done.n_users:
            return None
        with contextlib.ExitStack() as files:
            arrays = {
                name: _opened_array(partial, files, locked, name, part.dtype, (request["n_users"], *part.shape[1:]))
                for name, part in kinds.arrays().items()
            }
            _compare(arrays, per_block, done, asked_of)
            files.pop_all()
    except _Unfit as reason:
        if not overwrite:
            raise _refused(partial, reason) from None
        _refuse_foreign(partial)
        return None
    return AnswerFolder(path, request, arrays, per_block, done)


def _opened_array(
    partial: Path,
    files: contextlib.ExitStack,
    locked: BinaryIO,
    name: str,
    kind: np.dtype[Any],
    shape: tuple[int, ...],
) -> _ArrayFile:
    """Open one array of a partial folder."""
    path = partial / ARRAYS[name]
    try:
        _files.check_readable(path)
        file = locked if path.name == LOCKED else files.enter_context(path.open("rb+", buffering=0))
        return _ArrayFile.open(file, kind, shape)
    except FileNotFoundError:
        raise _damage(f"{path.name} is missing") from None
    except ValueError:
        raise _damage(f"{path.name} was modified") from None


def _compare(arrays: Mapping[str, _ArrayFile], per_block: int, done: Done, asked_of: Callable[[slice], str]) -> None:
    """Refuse answers that were modified, and users or filters that differ from those answered."""
    seen = Done(0, "", "")
    for block in cut(done.n_users, per_block):
        parts = {name: part.read(block) for name, part in arrays.items()}
        seen = _further(seen, block.stop, asked_of(block), parts)
    if seen.answered != done.answered:
        raise _damage("its answers were modified")
    if seen.asked != done.asked:
        raise _other("other users or filters")


def _job(partial: Path, request: Mapping[str, Any]) -> tuple[int, Done]:
    """Return the job's block size and progress, if its request is the given one."""
    unread = _damage(f"{JOB} cannot be read")
    try:
        job = _read_job(partial)
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
    return _Unfit(f"is damaged: {what}; pass")


def _other(what: str) -> _Unfit:
    return _Unfit(f"was started with {what}; pass the same to resume, or")


def _refused(partial: Path, reason: _Unfit) -> ValueError:
    return ValueError(f"{partial} {reason} overwrite=True to start over.")


def _numbers(theirs: object, mine: object) -> str:
    """Return both values in brackets, if they are numbers."""
    return f" ({theirs:,}, not {mine:,})" if isinstance(theirs, int) and isinstance(mine, int) else ""


def _further(done: Done, n_users: int, asked: str, parts: Mapping[str, NDArray[Any]]) -> Done:
    return Done(n_users, fingerprint(done.asked, asked), fingerprint(done.answered, *parts.values()))
