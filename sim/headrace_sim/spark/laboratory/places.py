"""Where a trial keeps what its program names: each path, bucket and file system is a directory of the trial.

Spark's own file systems do it, for whatever names a path (Python, SQL, a connector's options): the default one is a view whose
root is in the trial, and each remote one that is named is a view, too. See Hadoop's ``ViewFs`` and "View File System Overload
Scheme". What Python opens is redirected by `watch_paths`.
"""

import builtins
import getpass
import io
import os
import re
import shutil
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from py4j.clientserver import ClientServerConnection
from pyspark.sql import DataFrameReader

from headrace_sim.spark.client.script_needs import ProgramError
from headrace_sim.spark.refusals import users_place
from headrace_sim.spark.sinks.file_effects import ABSOLUTE, WRITING

REMOTE = ("abfs", "abfss", "dbfs", "gs", "hdfs", "maprfs", "oss", "s3", "s3a", "s3n", "wasb", "wasbs")
"""Schemes of file systems that jobs name."""
_BEGIN = r"(?:\b|(?<=^s))"
"""Where a word begins; a text that is sent to Java has a letter before it."""
_NAMED = re.compile(rf"{_BEGIN}({'|'.join(REMOTE)}):/(?:/([^/\s'\"`,;)]*))?", re.MULTILINE)
OF_THIS_MACHINE = re.compile(rf"{_BEGIN}file:(?://(?:localhost)?)?(?=/)", re.MULTILINE)
_VIEW = "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme"
_COMMITTER = "org.apache.hadoop.mapreduce.lib.output.FileOutputCommitterFactory"
_HOME = "/headrace"
CHECKPOINTS = "spark.sql.streaming.checkpointLocation"
WAREHOUSE = "spark.sql.warehouse.dir"
"""Where tables are that have no place of their own. No session can change it, so that each catalog begins with its own."""
ROOT = ABSOLUTE
"""The directory of a trial's working directory that is the root of absolute paths."""
MOST_BYTES = 50_000_000
"""Choice: what is copied into a trial of the owner's files, at most."""


def settings_of(name: str, folder: Path, homes: Sequence[Path] = ()) -> dict[str, str]:
    """Return the settings of Spark with which a path is one of a trial's.

    ``name``: of the trial, as a host's name may be. ``folder``: its working directory: that of relative paths. ``homes``: the
    absolute paths that are of this directory, too.
    """
    table, user = f"fs.viewfs.mounttable.{name}", getpass.getuser()
    views = {f"fs.{scheme}.impl": _VIEW for scheme in REMOTE}
    views |= {f"fs.{scheme}.impl.disable.cache": "true" for scheme in REMOTE}
    views |= {f"mapreduce.outputcommitter.factory.scheme.{scheme}": _COMMITTER for scheme in REMOTE}
    return {
        **views,
        **{f"{table}.link.{home}": folder.as_uri() for home in homes},
        "fs.defaultFS": f"viewfs://{name}/",
        WAREHOUSE: f"viewfs://{name}/warehouse",
        f"{table}.homedir": _HOME,
        f"{table}.link.{_HOME}/{user}": folder.as_uri(),
        f"{table}.linkFallback": (folder / ROOT).as_uri(),
    }


def watch_commands(folder: Path, hadoop: Any) -> None:
    """Redirect what this process names to Spark, irreversibly.

    ``folder``: the trial's working directory. ``hadoop``: Spark's Hadoop configuration, which learns of each remote file system
    when it is first named.
    """
    known = set[str]()
    really_send = ClientServerConnection.send_command

    def send(self: Any, command: str) -> Any:
        views = {name: view for name, view in views_of(command, folder).items() if name not in known}
        known.update(views)
        for name, view in views.items():
            hadoop.set(name, view)
        if "file:" in command and str(folder.parent) not in command:
            command = OF_THIS_MACHINE.sub("", command)
        return really_send(self, command)

    ClientServerConnection.send_command = send


def views_of(text: str, folder: Path) -> dict[str, str]:
    """Return the settings by which the remote file systems that a text names are directories of a trial, which are made."""
    settings = {}
    for scheme, host in set(_NAMED.findall(text)):
        place = folder / scheme / host
        place.mkdir(parents=True, exist_ok=True)
        settings[f"fs.viewfs.mounttable.{host or 'default'}.linkFallback"] = place.as_uri()
    return settings


def watch_paths(folder: Path, left: Sequence[Path], redirect: Callable[..., str] | None = None) -> None:
    """Redirect the absolute paths that this process opens or changes, irreversibly.

    What is only read may be the owner's; of what is changed, a copy is.

    ``folder``: the trial's working directory. ``left``: the directories whose paths are as they should be. ``redirect``:
    returns where any other path is, by its name and whether it is changed (``changes``). None: as above.
    """
    redirect = redirect or partial(_redirected, folder)
    inside = tuple(f"{place}{os.sep}" for place in (*left, "/dev", "/proc"))

    def moved(path: Any, *, changes: bool) -> Any:
        if not isinstance(path, str | bytes | os.PathLike):
            return path
        name = os.fsdecode(path)
        return path if name.startswith(inside) else redirect(name, changes=changes)

    def connect_moved(database: Any, *args: Any, **options: Any) -> Any:
        return really_connect(moved(database, changes=True), *args, **options)

    def open_moved(file: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
        return really_open(moved(file, changes=bool(set(mode) & set("wax+"))), mode, *args, **options)

    def open_descriptor(file: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        name = file if dir_fd is not None else moved(file, changes=bool(flags & WRITING))
        return really_open_descriptor(name, flags, mode, dir_fd=dir_fd)

    really_open_descriptor, os.open = os.open, open_descriptor  # type: ignore[assignment]
    really_open = builtins.open
    builtins.open = io.open = open_moved  # pathlib's is the latter
    really_connect = sqlite3.connect
    sqlite3.connect = sqlite3.dbapi2.connect = connect_moved
    for name in _READING:
        setattr(os, name, _moving(getattr(os, name), lambda path: moved(path, changes=False)))
    for name in _CHANGING:
        setattr(os, name, _moving(getattr(os, name), lambda path: moved(path, changes=True)))


def _redirected(folder: Path, name: str, *, changes: bool) -> str:
    """Return where an absolute path is in a trial; of a file that is only read, or a relative path, the path itself."""
    if not name.startswith("/"):
        return name
    ours = folder / ROOT / name.lstrip("/")
    if not changes and not ours.exists():
        return name
    if changes and ours.parent != folder / ROOT and Path(name).parent.is_dir():
        ours.parent.mkdir(parents=True, exist_ok=True)
    if changes and not ours.exists() and Path(name).is_file() and Path(name).stat().st_size <= MOST_BYTES:
        with io.FileIO(name) as theirs, io.FileIO(ours, "w") as copy:  # which is no effect of the program's
            copy.write(theirs.readall())
    return str(ours)


def watch_reads(folder: Path, unseen: Callable[[], AbstractContextManager[None]]) -> None:
    """Copy the owner's files that this process lets Spark read by an absolute path into the trial, irreversibly.

    Reading raises `ProgramError` where they are too large. ``folder``: the trial's working directory. ``unseen``: within it, what
    is done is no effect of the program's.
    """

    def bring(path: str) -> None:
        real = Path(OF_THIS_MACHINE.sub("", path))
        copy = folder / ROOT / str(real).lstrip("/")
        if not real.is_absolute() or copy.exists() or not real.exists() or real.is_relative_to(folder.parent):
            return
        if (size := tree_size(real)) > MOST_BYTES:
            problem = f"{path} has {size:,} bytes, and each trial has a copy of at most {MOST_BYTES:,}"
            raise ProgramError(problem, users_place(), "Let the program read a smaller one")
        with unseen():
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy_all = shutil.copy2 if real.is_file() else shutil.copytree
            copy_all(real, copy)

    tell_paths(DataFrameReader, bring)


def tell_paths(kind: type, tell: Callable[[str], object]) -> None:
    """Tell of each path that a reader or writer of frames, of this class, is given, before it is used, irreversibly."""

    def telling(really: Callable[..., Any]) -> Callable[..., Any]:
        def called(self: Any, *paths: Any, **options: Any) -> Any:
            noted = vars(self).get("_headrace", {}).get("path")
            for path in (*paths[:1], options.get("path"), options.get("paths"), noted):
                for one in path if isinstance(path, list | tuple) else [path]:
                    if isinstance(one, str):
                        tell(one)
            return really(self, *paths, **options)

        return called

    for name in ("csv", "json", "load", "orc", "parquet", "save", "text", "xml"):
        if hasattr(kind, name):
            setattr(kind, name, telling(getattr(kind, name)))


_READING = ("access", "listdir", "lstat", "readlink", "scandir", "stat")
_CHANGING = (
    "chmod", "chown", "link", "mkdir", "remove", "rename", "replace", "rmdir", "symlink", "truncate", "unlink", "utime",
)  # fmt: skip


def _moving(call: Callable[..., Any], moved: Callable[[Any], Any]) -> Callable[..., Any]:
    def called(*paths: Any, **options: Any) -> Any:
        return call(*(map(moved, paths) if options.get("dir_fd") is None else paths), **options)

    return called


def tree_size(path: Path) -> int:
    """Return the size of a file, or of all files in a directory, in bytes."""
    files = [path] if path.is_file() else path.rglob("*")
    return sum(file.stat().st_size for file in files if file.is_file())


def copied(source: Path, folder: Path, left_out: Collection[Path] = ()) -> Mapping[str, tuple[int, int]]:
    """Copy the small files of the owner's working directory, and return the size and time of each copy, by relative path.

    ``left_out``: the directories and files that are not copied.
    """
    left = MOST_BYTES
    for place, folders, files in os.walk(source):
        named = [name for name in folders if not name.startswith((".", "__")) and name not in _LEFT_OUT]
        folders[:] = [name for name in named if Path(place, name) not in left_out]
        for file in (Path(place) / name for name in files if not name.startswith(".")):
            if not file.is_file() or file in left_out or (size := file.stat().st_size) > left:
                continue
            left -= size
            copy = folder / file.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, copy)
    return looked_at(folder)


_LEFT_OUT = frozenset({"build", "dist", "env", "node_modules", "site-packages", "venv"})


def looked_at(folder: Path) -> Mapping[str, tuple[int, int]]:
    """Return the size and the time of the last change of each file in a folder, by relative path."""
    files = {}
    for path in folder.rglob("*"):
        if path.is_file():
            stat = path.stat()
            files[str(path.relative_to(folder))] = stat.st_size, stat.st_mtime_ns
    return files


def shown(name: str) -> str:
    """Return a path in a trial as its program names it."""
    first, _, rest = name.partition("/")
    if first in REMOTE:
        return f"{first}://{rest}"
    return f"/{rest}" if first == ROOT else name
