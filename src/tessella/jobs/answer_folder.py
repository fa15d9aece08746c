"""A folder of answers, filled a block at a time: what was answered outlasts an interruption.

`NAME` holds ids.npy, scores.npy, n_scored.npy and certified.npy, a row for each user, and job.json. If users have ids,
users.json lists them. If the ids of items are texts, items.json lists them, and ids.npy says which of the list each
answer is. Either way -1 in ids.npy is no item. Until all of it is there it is called `NAME.partial`, and job.json says
how many users are done, what was asked, and the digests of their factors, filters and answers. Rows beyond those are
not to be read.

A partial folder is sound at every moment. It is made in place: first an empty ids.npy, which the job that fills the
folder keeps locked, then a job.json that says that nobody is done, then the arrays; a job that finds nobody done makes
the arrays anew. Rows are written and synced before job.json says so, and job.json is replaced whole.
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
LOCKED = next(iter(ARRAYS.values()))  # the array whose file the job that fills a folder holds locked
MOST_PER_BLOCK = 2**20
_IDS_AT_ONCE = 2**12
_WORDS = {"n_users": "number of users", "tessella": "version of tessella"}


class Listed(Protocol):
    """Ids, some of them at a time."""

    def __len__(self) -> int: ...

    def __getitem__(self, some: slice, /) -> NDArray[Any]: ...


class Done(NamedTuple):
    """How far a job got. Replaced as a whole, so that an interrupt finds it in one piece."""

    n_users: int
    asked: str  # digest of what was asked for these users, block by block
    answered: str  # digest of their answers


class _Unfit(Exception):  # noqa: N818
    """Why a partial folder cannot be resumed."""


@dataclass(frozen=True)
class _ArrayFile:
    """One array, with a part for each user, in an open .npy file."""

    file: BinaryIO
    begin: int  # where they begin
    kind: np.dtype[Any]
    shape: tuple[int, ...]

    @classmethod
    def create(cls, file: BinaryIO, kind: np.dtype[Any], shape: tuple[int, ...]) -> Self:
        """Rows yet to be written, in a file that is emptied for them."""
        header = io.BytesIO()
        facts = {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(header, facts)
        file.truncate(0)
        _write_at(file, 0, header.getbuffer())
        return cls(file, file.tell(), kind, shape)

    @classmethod
    def open(cls, file: BinaryIO, kind: np.dtype[Any], shape: tuple[int, ...]) -> Self:
        """The array of a file that `create` wrote; ValueError if it did not."""
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
        """Take the room for all users now, where the system can, rather than find out later that there is none."""
        size = self.begin + self.shape[0] * self._user_bytes
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(self.file.fileno(), 0, size)

    def write(self, first: int, values: NDArray[Any]) -> None:
        """Put the parts of some users where they belong."""
        data = np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
        _write_at(self.file, self.begin + first * self._user_bytes, data)

    def read(self, users: slice) -> NDArray[Any]:
        """Rows as they were written; a file that was cut off gives fewer."""
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
    """A partial folder under way. Open it with `opened`, `put` blocks in order, then `finish`."""

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
        """The blocks of users that are not done, as the job was begun with them."""
        return cut(self.request["n_users"], self.per_block, self.done.n_users)

    def put(self, users: slice, asked: str, found: SearchResult) -> None:
        """Add the answers to a block of users; `asked` is the digest of what was asked."""
        parts = found.arrays()
        with self._one_sentence():
            for name, part in parts.items():
                self.files[name].write(users.start, part)
        self.done = _further(self.done, users.stop, asked, parts)
        if time.monotonic() - self._synced_at > SECONDS_BETWEEN_SYNCS:
            with self._one_sentence():
                self.sync()

    def sync(self) -> None:
        """Make sure that what is done outlasts a power cut."""
        done = self.done
        if done == self._synced:
            return
        for part in self.files.values():
            os.fsync(part.file.fileno())
        _write_job(self.partial, self.request, self.per_block, done)
        self._synced, self._synced_at = done, time.monotonic()

    def finish(self, lists: Mapping[str, Listed], *, overwrite: bool) -> SearchResult:
        """Add lists of ids, and give the folder its name; its arrays, memory-mapped."""
        with self._one_sentence():
            for name, ids in lists.items():
                _write_list(self.partial / LISTS[name], ids)
            self.sync()
            _refuse_finished(self.path, overwrite)
            _files.rename_folder(self.partial, self.path)  # still locked, so that no other job takes it for its own
            self.close()
            return SearchResult(*(np.load(self.path / file, mmap_mode="r") for file in ARRAYS.values()))

    def close(self) -> None:
        """Let the files go."""
        for part in self.files.values():
            part.file.close()

    def stop(self) -> None:
        """After an error or an interrupt: keep what is done; a folder with nothing done goes."""
        if self.done.n_users:
            with contextlib.suppress(OSError):  # what was synced before is kept
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
    """The folder to put answers in. If an equal job was interrupted, its answers are kept and the job resumes.

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
        Whether to replace a finished folder, and a partial one that cannot be resumed.
    """
    _refuse_finished(path, overwrite)
    with contextlib.ExitStack() as files:
        with _files.one_sentence(path):
            locked = files.enter_context(_claimed(path, overwrite))
            files.callback(_discard_unused, partial_of(path))
            _files.settle(path)
            _refuse_finished(path, overwrite)  # again, as another job may just have finished
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
    """How many users an unfinished job has answered; 0 if there is none."""
    try:
        return int(_read_job(partial_of(path))["done"]["n_users"])
    except (LookupError, OSError, TypeError, ValueError):
        return 0


def check_place(path: Path, *, overwrite: bool) -> None:
    """Refuse, before the work, a folder that could not be written after it."""
    if path.name in ("", ".."):
        raise ValueError(f"out is {str(path)!r}, which names no folder to make.")
    _refuse_finished(path, overwrite)


def partial_of(path: Path) -> Path:
    """What a folder is called until it is whole."""
    return _files.beside(_files.followed(path), "", ".partial")


def _refuse_finished(path: Path, overwrite: bool) -> None:
    _files.check_folder(path, overwrite=overwrite)
    with contextlib.suppress(FileNotFoundError):  # nothing is there, or another job is replacing it
        _refuse_foreign(path)


def _refuse_foreign(path: Path) -> None:
    """Refuse to replace a folder that this room did not write."""
    if {file.name for file in path.iterdir()} - {JOB, *ARRAYS.values(), *LISTS.values()} - _leftovers(path):
        raise FileExistsError(f"{path} holds something other than answers, so it is not replaced.")


def _leftovers(partial: Path) -> set[str]:
    """Names of files that a killed job was about to give their names."""
    return {file.name for file in _unnamed(partial)}


def _unnamed(partial: Path) -> list[Path]:
    return [file for name in (JOB, *LISTS.values()) for file in _files.leftovers(partial / name)]


def _claimed(path: Path, overwrite: bool) -> BinaryIO:
    """The file that a job holds locked while it fills the partial folder, which is made if it is not there."""
    partial = partial_of(path)
    while True:
        _files.check_folder(partial, overwrite=True)
        try:
            partial.mkdir()
        except FileExistsError:  # the folder of another job, which may end at any moment
            if partial.is_symlink() and not partial.exists():
                raise
        with contextlib.ExitStack() as stack, contextlib.suppress(FileNotFoundError):  # another job has just ended
            file = stack.enter_context(_opened_to_lock(partial, overwrite))
            _lock(file, partial)
            if os.path.samestat(os.fstat(file.fileno()), (partial / LOCKED).stat()):  # and not that of a finished job
                stack.pop_all()
                return file


def _opened_to_lock(partial: Path, overwrite: bool) -> BinaryIO:
    file = partial / LOCKED
    if file.exists():
        _files.check_readable(file)
    elif not _is_unused(partial) and not file.exists():  # another job may have begun meanwhile
        if not overwrite:
            raise _refused(partial, _damage(f"there is no {LOCKED}"))
        _refuse_foreign(partial)
    return os.fdopen(os.open(file, os.O_RDWR | os.O_CREAT, 0o666), "rb+", buffering=0)


def _is_unused(partial: Path) -> bool:
    """Whether a folder is empty, but for what a job leaves that is killed while it makes it."""
    others = {file.name for file in partial.iterdir()} - _leftovers(partial)
    return not others or (others == {LOCKED} and not (partial / LOCKED).stat().st_size)


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


def _begun(
    path: Path, locked: BinaryIO, request: Mapping[str, Any], kinds: SearchResult, per_block: int
) -> AnswerFolder:
    """A partial folder with nothing done."""
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
    """Remove a partial folder, its lock last; what this room did not write stays."""
    with contextlib.suppress(OSError):
        for left in _unnamed(partial):
            left.unlink()
        for name in (JOB, *LISTS.values(), *reversed(ARRAYS.values())):
            (partial / name).unlink(missing_ok=True)
        partial.rmdir()


def _discard_unused(partial: Path) -> None:
    """Remove a partial folder that a job was refused before it began there."""
    with contextlib.suppress(OSError):
        if _is_unused(partial):
            _discard(partial)


def _write_job(folder: Path, request: Mapping[str, Any], per_block: int, done: Done) -> None:
    job = {"format": FORMAT, "request": request, "users_per_block": per_block, "done": done._asdict()}
    text = json.dumps(job, indent=1)
    with _files.replacing(folder / JOB, overwrite=True) as temporary:
        temporary.write_text(text + "\n")


def _write_list(path: Path, ids: Listed) -> None:
    """Ids as a JSON list, one a line."""
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
    """A partial folder with something done, after a look at all of it; None if a job is to begin there."""
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
    """One array of a partial folder."""
    path = partial / ARRAYS[name]
    try:
        _files.check_readable(path)
        file = locked if path.name == LOCKED else files.enter_context(path.open("rb+", buffering=0))
        return _ArrayFile.open(file, kind, shape)
    except FileNotFoundError:
        raise _damage(f"there is no {path.name}") from None
    except ValueError:
        raise _damage(f"{path.name} is not as it was written") from None


def _compare(arrays: Mapping[str, _ArrayFile], per_block: int, done: Done, asked_of: Callable[[slice], str]) -> None:
    """Refuse answers that have changed, and users or filters that are others than those answered."""
    seen = Done(0, "", "")
    for block in cut(done.n_users, per_block):
        parts = {name: part.read(block) for name, part in arrays.items()}
        seen = _further(seen, block.stop, asked_of(block), parts)
    if seen.answered != done.answered:
        raise _damage("its answers are not as they were written")
    if seen.asked != done.asked:
        raise _other("other users or filters")


def _job(partial: Path, request: Mapping[str, Any]) -> tuple[int, Done]:
    """How many users a block of the job has and how far it got, if it is the one that is asked for."""
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
    return _Unfit(f"was begun with {what}; pass the same to resume, or")


def _refused(partial: Path, reason: _Unfit) -> ValueError:
    return ValueError(f"{partial} {reason} overwrite=True to start over.")


def _numbers(theirs: object, mine: object) -> str:
    """Both numbers, where there are two."""
    return f" ({theirs:,}, not {mine:,})" if isinstance(theirs, int) and isinstance(mine, int) else ""


def _further(done: Done, n_users: int, asked: str, parts: Mapping[str, NDArray[Any]]) -> Done:
    return Done(n_users, fingerprint(done.asked, asked), fingerprint(done.answered, *parts.values()))
