"""Files: where indexes lie, and how they get to workers. A file is named after what is in it, so it never changes."""

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

_folders: dict[str, "tempfile.TemporaryDirectory[str]"] = {}  # of this process's sessions, by application


@dataclass(frozen=True)
class Shipped:
    """A file that workers can open, on any machine of the cluster."""

    name: str
    folder: str | None  # one that all machines share; None if Spark brings a copy

    def path(self) -> str:
        """Where it is for the process that asks."""
        return SparkFiles.get(self.name) if self.folder is None else str(Path(self.folder) / self.name)


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
        raise FileNotFoundError(
            f"there is no folder {path} here; shared_folder must be one that the driver and all executors have."
        )
    return str(path)


def _own_folder(application: str) -> str:
    """A temporary folder of a session, which goes when the next session begins, or the process ends."""
    for other in set(_folders) - {application}:
        _folders.pop(other).cleanup()
    if application not in _folders:
        _folders[application] = tempfile.TemporaryDirectory(prefix="tessella-")
    return _folders[application].name
