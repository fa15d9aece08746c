"""Files: an output takes its name when it is whole, and takes the place of nothing but an output like it.

Until then it has a temporary name in the same folder. A symbolic link is followed: what it leads to is written or
replaced, and the link stays. Errors of the system become one sentence about the path that was given.
"""

import contextlib
import hashlib
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

_USUAL_NAME_BYTES = 255  # where the file system does not say
_KINDS = {
    stat.S_IFREG: "a file",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def followed(path: Path) -> Path:
    """Where a path leads: to the target of a link, which need not be there, and otherwise to itself."""
    return Path(os.path.realpath(path)) if path.is_symlink() or path.name in ("", "..") else path


def check_readable(path: Path) -> None:
    """Refuse what is no regular file: to open a pipe could wait for ever, and a device may have no end."""
    kind = stat.S_IFMT(path.stat().st_mode)
    if kind != stat.S_IFREG:
        raise _refused(path, kind, "a regular file can be read", OSError)


def check_file(path: Path, *, overwrite: bool) -> None:
    """Refuse a path that a file could not be written to."""
    _check_place(path, stat.S_IFREG, "a regular file can be replaced", overwrite)


def check_folder(path: Path, *, overwrite: bool) -> None:
    """Refuse a path that a folder could not be written to."""
    _check_place(path, stat.S_IFDIR, "a folder can be replaced", overwrite)


def _check_place(path: Path, wanted: int, possible: str, overwrite: bool) -> None:
    try:
        target = followed(path)
        kind = stat.S_IFMT(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        if not target.parent.is_dir():
            raise FileNotFoundError(f"{path} cannot be written: there is no folder {target.parent}.") from None
        return
    except OSError as error:
        raise type(error)(f"{path} cannot be written: {error.strerror}.") from None
    if kind != wanted:
        raise _refused(path, kind, possible, FileExistsError)
    if not overwrite:
        raise _exists(path)


def _exists(path: Path) -> FileExistsError:
    return FileExistsError(f"{path} exists already; pass overwrite=True to replace it.")


def _refused(path: Path, kind: int, possible: str, usual: type[OSError]) -> OSError:
    error = IsADirectoryError if kind == stat.S_IFDIR else usual
    return error(f"{path} is {_KINDS.get(kind, 'no file')}, but only {possible}.")


@contextlib.contextmanager
def one_sentence(path: Path, more: Callable[[], str] = lambda: "") -> Iterator[None]:
    """Errors of the system as one sentence about `path`, and what `more` adds; our own sentences stay as they are."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or getattr(error.__cause__, "strerror", None)  # without the name of a temporary file
        if not reason:
            raise
        raise OSError(f"{path} could not be written: {reason}.{more()}") from error


def beside(path: Path, prefix: str, suffix: str) -> Path:
    """A path in the same folder whose name is made from that of `path`, always in the same way.

    Where the name would be too long for the file system, a digest stands for its end.
    """
    name = os.fsencode(path.name)
    room = _longest_name(path.parent) - len(prefix) - len(suffix)
    if len(name) <= room:
        return path.with_name(f"{prefix}{path.name}{suffix}")
    digest = hashlib.blake2b(name, digest_size=8).hexdigest()
    kept = name[: max(0, room - len(digest) - 1)].decode(errors="ignore")  # no half of a character
    return path.with_name(f"{prefix}{kept}~{digest}{suffix}")


def _longest_name(folder: Path) -> int:
    """How many bytes the name of a file in a folder may have."""
    try:
        return os.pathconf(folder, "PC_NAME_MAX")
    except (AttributeError, OSError, ValueError):
        return _USUAL_NAME_BYTES


def _temporary(path: Path) -> Path:
    return beside(path, ".", f".{secrets.token_hex(6)}.tmp")


def leftovers(path: Path) -> list[Path]:
    """The temporary files of `replacing` beside a path: of processes that were killed, and of those at work."""
    start = _temporary(path).name.rsplit(".", 2)[0]
    pattern = re.compile(re.escape(start) + r"\.[0-9a-f]{12}\.tmp")
    return [file for file in path.parent.iterdir() if pattern.fullmatch(file.name)]


@contextlib.contextmanager
def replacing(path: Path, *, overwrite: bool) -> Iterator[Path]:
    """A temporary file to write to, which takes its name at the end of the block, and goes if the block fails.

    Parameters
    ----------
    path : Path
        The name to take. Until then, what has it stays as it is.
    overwrite : bool
        Whether a regular file that has the name may be replaced. The new file gets its mode.
    """
    check_file(path, overwrite=overwrite)
    target = followed(path)
    temporary = _temporary(target)
    there = target.exists()
    try:
        with one_sentence(path, lambda: " The file that was there is unchanged." if there else ""):
            temporary.touch(exist_ok=False)
            mode = (target if there else temporary).stat().st_mode & 0o777
            temporary.chmod(0o600)  # until it is whole, nobody else reads it
            yield temporary
            _sync(temporary)
            temporary.chmod(mode)
            check_file(path, overwrite=overwrite)  # again, as the block may have taken long
            if overwrite:
                temporary.replace(target)
            else:
                _rename_to_free(temporary, target, path)
            sync_folder(target.parent)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def _rename_to_free(temporary: Path, target: Path, path: Path) -> None:
    """Rename a file, but fail if someone took the name meanwhile."""
    try:
        try:
            os.link(temporary, target)
        except FileExistsError:
            raise
        except OSError:  # no hard links here
            target.touch(exist_ok=False)
            temporary.replace(target)
    except FileExistsError:
        raise _exists(path) from None


@contextlib.contextmanager
def replacing_folder(path: Path, *, overwrite: bool) -> Iterator[Path]:
    """A temporary folder to fill, which takes its name at the end of the block, and goes if the block fails.

    Parameters
    ----------
    path : Path
        The name to take. Until then, what has it stays as it is.
    overwrite : bool
        Whether a folder that has the name may be replaced, with all that is in it.
    """
    check_folder(path, overwrite=overwrite)
    temporary = _temporary(followed(path))
    try:
        with one_sentence(path):
            temporary.mkdir()
        yield temporary
        check_folder(path, overwrite=overwrite)
        with one_sentence(path):
            rename_folder(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def rename_folder(folder: Path, path: Path) -> None:
    """Give a folder another name; one that has it goes, and comes back if that fails.

    A process that is killed between the two renames leaves the old one under a hidden name: see `settle`.
    """
    settle(path)
    target, old = followed(path), _old(path)
    try:
        if target.exists():
            target.rename(old)
        folder.rename(target)
    except BaseException:
        if old.exists() and not target.exists():
            old.rename(target)
        raise
    sync_folder(target.parent)
    shutil.rmtree(old, ignore_errors=True)


def settle(path: Path) -> None:
    """Undo or finish a `rename_folder` to a path that was cut off; not for one that another process is at."""
    target, old = followed(path), _old(path)
    if not target.exists() and old.exists():
        old.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def _old(path: Path) -> Path:
    return beside(followed(path), ".", ".replaced-by-tessella")


def sync_folder(folder: Path) -> None:
    """Make sure that the names of files in a folder outlast a power cut."""
    with contextlib.suppress(OSError):  # some systems cannot open folders
        _sync(folder)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
