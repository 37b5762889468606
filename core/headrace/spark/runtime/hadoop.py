"""A job's directory on a file system that this machine does not mount: HDFS, an object store, whatever Hadoop's clients reach.

Rules of this file:

* Every file goes through the manager that Spark keeps the query's own checkpoint with
  (``spark.sql.streaming.checkpointFileManagerClass``), and like Spark's logs it is only ever created. So wherever a checkpoint is
  safe, the job's own files are: a file appears whole or not at all, and no rename is needed where the store writes conditionally.
* **No file is replaced**: on most stores that means to delete it first, and a driver that dies in between would leave none. What
  is written to a name again is a new file, its next version (``NAME.version-2``); then the older ones are deleted.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Self

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import SparkSession

from headrace.api.errors import OptionsError
from headrace.spark.runtime.job_files import local_directory, replace_file, scheme_of, scratch, write_file


class HadoopPath:
    """A file or directory behind Hadoop's file systems. It has those members of a `Path` that a job's files need.

    Args:
        uri: with its scheme.
        spark: the session, whose driver runs in this process.

    Raises:
        OSError: there is no such file system, or it cannot be reached.
    """

    __slots__ = ("_jvm", "_manager", "_path", "_settings")

    def __init__(self, uri: str, spark: SparkSession) -> None:
        self._jvm: Any = spark._jvm
        session: Any = spark._jsparkSession
        with _java_errors():
            self._settings: Any = session.sessionState().newHadoopConf()
            path = self._jvm.org.apache.hadoop.fs.Path(uri)
            self._path: Any = path.getFileSystem(self._settings).makeQualified(path)
            checkpointing = self._jvm.org.apache.spark.sql.execution.streaming.checkpointing
            self._manager: Any = checkpointing.CheckpointFileManager.create(self._path, self._settings)

    def __str__(self) -> str:
        return str(self._path.toString())

    def __truediv__(self, name: str) -> "HadoopPath":
        return self._at(self._jvm.org.apache.hadoop.fs.Path(self._path, name))

    def _at(self, path: Any) -> Self:
        other = object.__new__(type(self))
        other._jvm, other._manager, other._path = self._jvm, self._manager, path
        other._settings = self._settings
        return other

    @property
    def name(self) -> str:
        """The last part of the path."""
        return str(self._path.getName())

    def exists(self) -> bool:
        """Return whether there is such a file or directory."""
        with _java_errors():
            return bool(self._manager.exists(self._path)) or bool(self._versions())

    def read_bytes(self) -> bytes:
        """Read a file: its newest version.

        Raises:
            FileNotFoundError: there is none.
        """
        before = 0
        while True:
            newest = max(self._versions(), default=1)
            try:
                return self._version(newest)._read()
            except FileNotFoundError:
                if newest == before:
                    raise
                before = newest  # perhaps a newer one has been written since

    def _read(self) -> bytes:
        with _java_errors():
            stream = self._manager.open(self._path)
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()

    def create(self, data: bytes) -> None:
        """Create a file that never gets another version. Create its directory if there is none.

        Raises:
            FileExistsError: there is such a file.
            OSError: the store did not keep it.
        """
        with _java_errors():
            self._manager.mkdirs(self._path.getParent())
        self._create(data)

    def read_created(self) -> bytes:
        """Read a file from `create`, without looking for versions of it. It may be large.

        Raises:
            FileNotFoundError: there is none.
        """
        # Through a file: 64 MiB would take three seconds through the socket between Java and Python.
        with NamedTemporaryFile(dir=scratch()) as file:
            with _java_errors():
                stream = self._manager.open(self._path)
                try:
                    copy = self._jvm.java.io.FileOutputStream(file.name)
                    stream.transferTo(copy)
                    copy.close()
                finally:
                    stream.close()
            return file.read()

    def copy_to(self, target: "HadoopPath") -> None:
        """Copy a directory with all that is in it, or a file; nothing, if there is none."""
        with suppress(FileNotFoundError), _java_errors():
            system, copy = (
                self._path.getFileSystem(self._settings),
                self._jvm.org.apache.hadoop.fs.FileUtil.copy,
            )
            copy(system, self._path, system, target._path, False, self._settings)  # noqa: FBT003  Java

    def write(self, data: bytes) -> None:
        """Write the next version of the file, and delete the older ones. Create its directory if there is none.

        Raises:
            OSError: the store did not keep it.
        """
        with _java_errors():
            self._manager.mkdirs(self._path.getParent())
        for _ in range(_TRIES):
            versions = self._versions()
            if versions and versions[max(versions)]._has(data):
                return
            new = self._version(max(versions, default=0) + 1)
            with suppress(FileExistsError):
                new._create(data)
            if new._has(data):
                for old in versions.values():
                    old._delete()
                return
        raise OSError(f"{self} was written {_TRIES} times, and the store has something else each time")

    def _create(self, data: bytes) -> None:
        with _java_errors():
            stream = self._manager.createAtomic(self._path, False)  # noqa: FBT003  Java
            try:
                stream.write(bytearray(data))
            except BaseException:
                stream.cancel()
                raise
            stream.close()

    def _has(self, data: bytes) -> bool:
        try:
            return self._read() == data
        except FileNotFoundError:
            return False

    def remove(self) -> None:
        """Delete a directory with all that is in it, or a file with all its versions; nothing, if there is none."""
        self._delete()
        for version in self._versions().values():
            version._delete()

    def _delete(self) -> None:
        with suppress(FileNotFoundError), _java_errors():
            self._manager.delete(self._path)

    def _versions(self) -> "dict[int, HadoopPath]":
        """Return the versions of the file that are there, by number."""
        beside = self._at(self._path.getParent())._list()
        names = [_version_of(path.name) for path in beside]
        return {number: self._version(number) for name, number in names if name == self.name}

    def _version(self, number: int) -> "HadoopPath":
        """Return the file of a version. The first has the plain name."""
        return self if number == 1 else self._at(self._path.suffix(f"{_VERSION}{number}"))

    def files(self) -> "list[HadoopPath]":
        """Return what is in the directory, by name; nothing, if there is none."""
        return [self / name for name in sorted({_version_of(path.name)[0] for path in self._list()})]

    def _list(self) -> "list[HadoopPath]":
        try:
            with _java_errors():
                return [self._at(status.getPath()) for status in self._manager.list(self._path)]
        except FileNotFoundError:
            return []


Place = Path | HadoopPath
"""A file or directory of a job."""

_KINDS: dict[str, type[OSError]] = {
    "FileNotFoundException": FileNotFoundError,
    "NoSuchFileException": FileNotFoundError,
    "FileAlreadyExistsException": FileExistsError,
}
_VERSION = ".version-"
_TRIES = 5


def _version_of(name: str) -> tuple[str, int]:
    """Return a file's name without its version, and the version.

    >>> _version_of("deployment.json.version-12"), _version_of("deployment.json")
    (('deployment.json', 12), ('deployment.json', 1))
    """
    plain, mark, number = name.partition(_VERSION)
    return (plain, int(number)) if mark and number.isdecimal() else (name, 1)


@contextmanager
def _java_errors() -> Iterator[None]:
    """Raise Java's exceptions as Python's."""
    try:
        yield
    except Py4JJavaError as error:
        raised = error.java_exception
        kind = _KINDS.get(str(raised.getClass().getSimpleName()), OSError)
        raise kind(str(raised.getMessage())) from None
    except (
        CapturedException
    ) as error:  # PySpark has exceptions of its own for some of them, such as for an unknown host
        raise OSError(str(error).partition("\n")[0]) from None


def job_directory(directory: str | Path, spark: SparkSession, option: str = "directory") -> Place:
    """Return the directory of a job, or of another writer.

    Args:
        directory: a path, a ``file:`` URI, or a URI of any file system that the session's Hadoop client reaches.
        spark: the session.
        option: name of the option that gives it, for the error message.

    Raises:
        OptionsError: Hadoop has no such file system or cannot reach it, or a `Path` was made of a URI.
    """
    scheme = scheme_of(str(directory))
    if scheme in (None, "file") or isinstance(directory, Path):
        return local_directory(option, directory)
    try:
        place = HadoopPath(directory, spark)
        place.exists()
    except OSError as error:
        expected = (
            f"a directory that Spark's driver can reach; Hadoop says: {error}. If the connector of {scheme!r} is missing, add "
            "its package to the session (spark.jars.packages)"
        )
        raise OptionsError(option, str(directory), expected) from None
    return place


def write(place: Place, data: bytes) -> None:
    """Replace a file atomically, or create it and its directory."""
    if isinstance(place, HadoopPath):
        place.write(data)
    else:
        replace_file(place, data)


def create(place: Place, data: bytes) -> None:
    """Create a file that is never written again, and its directory."""
    if isinstance(place, HadoopPath):
        place.create(data)
    else:
        place.parent.mkdir(parents=True, exist_ok=True)
        write_file(place, data)


def create_once(place: Place, data: bytes) -> None:
    """Create a file, whole or not at all, and its directory.

    Raises:
        FileExistsError: there is such a file.
    """
    if isinstance(place, HadoopPath):
        place.create(data)
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = place.with_name(f".{place.name}.{os.getpid()}")
    write_file(draft, data)
    try:
        place.hardlink_to(draft)
    finally:
        draft.unlink()


def copy_tree(source: Place, target: Place) -> None:
    """Copy a directory of a job with all that is in it; nothing, if there is none."""
    if isinstance(source, HadoopPath) and isinstance(target, HadoopPath):
        source.copy_to(target)
    elif isinstance(source, Path) and isinstance(target, Path) and source.is_dir():
        shutil.copytree(source, target)


def remove(place: Place) -> None:
    """Delete a file, or a directory with all that is in it; nothing, if there is none."""
    if isinstance(place, HadoopPath):
        place.remove()
    elif place.is_dir():
        shutil.rmtree(place, ignore_errors=True)
    else:
        place.unlink(missing_ok=True)


def files_in(directory: Place) -> "list[Place]":
    """Return what is in a directory, by name; nothing, if there is none."""
    if isinstance(directory, HadoopPath):
        return list(directory.files())
    return list(sorted(directory.iterdir()) if directory.is_dir() else ())
