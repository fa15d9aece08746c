"""Files: stores index files and ships them to workers. Files are named by their contents, so they never change."""

import atexit
import hashlib
import os
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pyspark import SparkFiles
from pyspark.sql import SparkSession

from tessella import _files

_folders: dict[str, str] = {}  # temporary folders of this process's sessions, by application id
_process = os.getpid()


@dataclass(frozen=True)
class Shipped:
    """A file that workers can open on any machine of the cluster."""

    name: str
    folder: str | None  # shared by all machines; None if Spark ships a copy

    def path(self) -> str:
        """Return the path of the file on this machine."""
        if self.folder is None:
            return str(SparkFiles.get(self.name))
        path = Path(self.folder) / self.name
        if not path.exists():
            raise _not_shared(str(path))
        return str(path)


class Depot:
    """The folder that the driver writes index files to, and the way from there to the workers."""

    def __init__(self, spark: SparkSession, shared_folder: str | os.PathLike[str] | None) -> None:
        self._context = spark.sparkContext
        self.shared = None if shared_folder is None else _checked(shared_folder)
        self.folder = Path(self.shared or _own_folder(self._context.applicationId))

    def ship(self, name: str) -> Shipped:
        """Make a file of the folder available to workers."""
        if self.shared is None:
            path = str(self.folder / name)
            if not any(added.endswith(f"/{name}") for added in self._context.listFiles):
                self._context.addFile(path)
        return Shipped(name, self.shared)

    def copy(self, path: Path) -> str:
        """Copy a file into the folder and return the name of the copy; later changes to the file have no effect."""
        with path.open("rb") as file:
            name = f"tessella-{hashlib.file_digest(file, 'blake2b').hexdigest()[:32]}"
        if not (self.folder / name).exists():
            with suppress(FileExistsError), _files.replacing(self.folder / name, overwrite=False) as temporary:
                shutil.copyfile(path, temporary)
        return name


def _checked(folder: str | os.PathLike[str]) -> str:
    path = Path(folder).absolute()
    if not path.is_dir():
        raise _not_shared(f"folder {path}")
    return str(path)


def _not_shared(what: str) -> FileNotFoundError:
    wanted = "the driver and all executors must see the same shared_folder"
    return FileNotFoundError(f"there is no {what} here; {wanted}, and its files must stay while jobs use them.")


def _own_folder(application: str) -> str:
    """Return the temporary folder of a session; it is removed when the next session needs one or the process ends."""
    for other in set(_folders) - {application}:
        shutil.rmtree(_folders.pop(other), ignore_errors=True)
    if application not in _folders:
        _folders[application] = tempfile.mkdtemp(prefix="tessella-")
    return _folders[application]


@atexit.register
def _remove_folders() -> None:
    for folder in _folders.values() if os.getpid() == _process else ():  # not when a forked child exits
        shutil.rmtree(folder, ignore_errors=True)
