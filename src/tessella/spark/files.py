"""Files: where indexes lie, and how they get to workers. A file is named after what is in it, so it never changes."""

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

_folders: dict[str, str] = {}  # of this process's sessions, by application
_process = os.getpid()


@dataclass(frozen=True)
class Shipped:
    """A file that workers can open, on any machine of the cluster."""

    name: str
    folder: str | None  # one that all machines share; None if Spark brings a copy

    def path(self) -> str:
        """Where it is for the process that asks."""
        if self.folder is None:
            return str(SparkFiles.get(self.name))
        path = Path(self.folder) / self.name
        if not path.exists():
            raise _not_shared(str(path))
        return str(path)


class Depot:
    """The folder that the driver writes to, and the way from there to workers."""

    def __init__(self, spark: SparkSession, shared_folder: str | os.PathLike[str] | None) -> None:
        self._context = spark.sparkContext
        self.shared = None if shared_folder is None else _checked(shared_folder)
        self.folder = Path(self.shared or _own_folder(self._context.applicationId))

    def ship(self, name: str) -> Shipped:
        """Let workers open a file of the folder."""
        if self.shared is None:
            path = str(self.folder / name)
            if not any(added.endswith(f"/{name}") for added in self._context.listFiles):
                self._context.addFile(path)
        return Shipped(name, self.shared)

    def copy(self, path: Path) -> str:
        """The name of a copy of a file, whatever becomes of the file."""
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
    wanted = "shared_folder must be one that the driver and all executors have"
    return FileNotFoundError(f"there is no {what} here; {wanted}, and its files must stay while they are used.")


def _own_folder(application: str) -> str:
    """A temporary folder of a session, which goes when the next session asks for one, or the process ends."""
    for other in set(_folders) - {application}:
        shutil.rmtree(_folders.pop(other), ignore_errors=True)
    if application not in _folders:
        _folders[application] = tempfile.mkdtemp(prefix="tessella-")
    return _folders[application]


@atexit.register
def _remove_folders() -> None:
    for folder in _folders.values() if os.getpid() == _process else ():  # not at the end of a forked child
        shutil.rmtree(folder, ignore_errors=True)
