"""Files: outputs are written atomically, and only ever replace outputs of the same kind.

An output gets its final name only once it is complete. Until then it has a temporary name in the same folder. Symbolic
links are followed: the target is written or replaced, and the link stays. System errors become one sentence about the
path that the caller gave.
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

_USUAL_NAME_BYTES = 255  # used if the file system does not tell its limit
_KINDS = {
    stat.S_IFREG: "a file",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def followed(path: Path) -> Path:
    """Return the target of a symbolic link, which need not exist, or the path itself if it is not a link."""
    return Path(os.path.realpath(path)) if path.is_symlink() or path.name in ("", "..") else path


def check_readable(path: Path) -> None:
    """Refuse anything but a regular file: opening a pipe could block for ever, and a device may never end."""
    kind = stat.S_IFMT(path.stat().st_mode)
    if kind != stat.S_IFREG:
        raise _refused(path, kind, "a regular file can be read", OSError)


def check_file(path: Path, *, overwrite: bool) -> None:
    """Refuse a path to which no file can be written."""
    _check_place(path, stat.S_IFREG, "a regular file can be replaced", overwrite)


def check_folder(path: Path, *, overwrite: bool) -> None:
    """Refuse a path at which no folder can be created."""
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
    return FileExistsError(f"{path} already exists; pass overwrite=True to replace it.")


def _refused(path: Path, kind: int, possible: str, usual: type[OSError]) -> OSError:
    error = IsADirectoryError if kind == stat.S_IFDIR else usual
    return error(f"{path} is {_KINDS.get(kind, 'not a file')}, but only {possible}.")


@contextlib.contextmanager
def one_sentence(path: Path, more: Callable[[], str] = lambda: "") -> Iterator[None]:
    """Turn system errors into one sentence about `path`, plus what `more` adds; leave tessella's own errors alone."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or getattr(error.__cause__, "strerror", None)  # without the name of a temporary file
        if not reason:
            raise
        raise OSError(f"{path} could not be written: {reason}.{more()}") from error


def beside(path: Path, prefix: str, suffix: str) -> Path:
    """Return a path in the same folder whose name is derived from that of `path`, always in the same way.

    If the name would be too long for the file system, a digest replaces its end.
    """
    name = os.fsencode(path.name)
    room = _longest_name(path.parent) - len(prefix) - len(suffix)
    if len(name) <= room:
        return path.with_name(f"{prefix}{path.name}{suffix}")
    digest = hashlib.blake2b(name, digest_size=8).hexdigest()
    kept = name[: max(0, room - len(digest) - 1)].decode(errors="ignore")  # no half of a character
    return path.with_name(f"{prefix}{kept}~{digest}{suffix}")


def _longest_name(folder: Path) -> int:
    """Return how many bytes long a file name in a folder may be."""
    try:
        return os.pathconf(folder, "PC_NAME_MAX")
    except (AttributeError, OSError, ValueError):
        return _USUAL_NAME_BYTES


def _temporary(path: Path) -> Path:
    return beside(path, ".", f".{secrets.token_hex(6)}.tmp")


def leftovers(path: Path) -> list[Path]:
    """List the temporary files of `replacing` next to a path, of killed processes and of running ones."""
    start = _temporary(path).name.rsplit(".", 2)[0]
    pattern = re.compile(re.escape(start) + r"\.[0-9a-f]{12}\.tmp")
    return [file for file in path.parent.iterdir() if pattern.fullmatch(file.name)]


@contextlib.contextmanager
def replacing(path: Path, *, overwrite: bool) -> Iterator[Path]:
    """Yield a temporary file to write to. It is renamed when the block ends, and deleted if the block fails.

    Parameters
    ----------
    path : Path
        The final name. An existing file stays unchanged until then.
    overwrite : bool
        Whether to replace an existing regular file. The new file gets its mode.
    """
    check_file(path, overwrite=overwrite)
    target = followed(path)
    temporary = _temporary(target)
    there = target.exists()
    try:
        with one_sentence(path, lambda: " The existing file is unchanged." if there else ""):
            temporary.touch(exist_ok=False)
            mode = (target if there else temporary).stat().st_mode & 0o777
            temporary.chmod(0o600)  # until it is complete, nobody else can read it
            yield temporary
            _sync(temporary)
            temporary.chmod(mode)
            check_file(path, overwrite=overwrite)  # again, since the block may have taken a long time
            if overwrite:
                temporary.replace(target)
            else:
                _rename_to_free(temporary, target, path)
            sync_folder(target.parent)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def _rename_to_free(temporary: Path, target: Path, path: Path) -> None:
    """Rename a file, but fail if another process has taken the name meanwhile."""
    try:
        try:
            os.link(temporary, target)
        except FileExistsError:
            raise
        except OSError:  # this file system has no hard links
            target.touch(exist_ok=False)
            temporary.replace(target)
    except FileExistsError:
        raise _exists(path) from None


@contextlib.contextmanager
def replacing_folder(path: Path, *, overwrite: bool) -> Iterator[Path]:
    """Yield a temporary folder to fill. It is renamed when the block ends, and deleted if the block fails.

    Parameters
    ----------
    path : Path
        The final name. An existing folder stays unchanged until then.
    overwrite : bool
        Whether to replace an existing folder and everything in it.
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
    """Rename a folder. An existing folder of that name is deleted, or restored if the rename fails.

    A process that is killed between the two renames leaves the old folder under a hidden name; see `settle`.
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
    """Undo or finish an interrupted `rename_folder`. No other process may be renaming to the same path."""
    target, old = followed(path), _old(path)
    if not target.exists() and old.exists():
        old.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def _old(path: Path) -> Path:
    return beside(followed(path), ".", ".replaced-by-tessella")


def sync_folder(folder: Path) -> None:
    """Make sure that the file names in a folder survive a power failure."""
    with contextlib.suppress(OSError):  # some systems cannot open folders
        _sync(folder)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
