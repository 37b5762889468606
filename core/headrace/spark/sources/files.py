"""A directory of files as an injector (MillWheel 5.2, Figure 10): what has come, what is read next, and what may change.

Rules of this file:

* Files appear whole (write elsewhere, then move) and stay as they are. Size and time of change are in the offset; a file that is
  not as it was read, or that is gone before it was read to its end, stops the query: a batch could not be read again.
* The low watermark is Figure 10's (`FileInjectorSource`): the creation time of the oldest unfinished file.
* The oldest file is read first, over all processes, so that the watermark rises. A record's offset is its place in that order.
* A record is stamped with the creation time of the newest file that was begun: the stamp does not depend on how the
  files were divided into batches.
* A finished file that is gone from the directory is forgotten: moving finished files away keeps the offsets small.
"""

import gzip
import io
import posixpath
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

import msgspec
import pyarrow as pa
from pyarrow import fs

from headrace.api.errors import OptionsError
from headrace.api.time import MAX_TIME, MIN_TIME
from headrace.injector.file_injector import FileInjectorSource
from headrace.spark.io_errors import (
    CheckpointMismatchError,
    SourceChangedError,
    SourceMissingError,
    SourceUnreadableError,
)
from headrace.spark.runtime.files import scheme_of
from headrace.spark.sources.data_source import Offset
from headrace.spark.sources.rows import BATCH_ROWS, Entry, NewRecord, RowWriter
from headrace.wire.messages import Progress

TASK_RECORDS = 50_000
"""What one task reads at most; a larger file is divided."""

_LOOK_AT = 1_000
"""Records of a new file that are looked at to find one that can be read, and with it the file's creation time."""


@dataclass(frozen=True, slots=True)
class Directory:
    """Which files of a directory count, and what is known of their times.

    Attributes:
        path: the directory, on a file system that all workers share: a path, or what ``pyarrow.fs`` takes as a URI. An injector
            of several processes has one for each: ``"/logs/{process}"``; one that is not there yet holds the watermark back.
        pattern: of the files' names. Names that begin with ``.`` or ``_`` never count.
        created: (path of a file) -> its creation time: event time in microseconds, not after its records' timestamps. Asked
            once for each file. Default: the timestamp of the file's first record, less ``disorder_us``.
        disorder_us: how far behind the first record of its file another one may be.
        end_marker: name of a file, such as ``"_SUCCESS"``: when it is there, no more files will come, and when those that are
            there have been read the source has ended.
        complete: no more files will come, from the start on.
    """

    path: str
    pattern: str = "*"
    created: Callable[[str], int] | None = None
    disorder_us: int = 0
    end_marker: str = ""
    complete: bool = False


@dataclass(frozen=True, slots=True)
class Advance:
    """How far a file can be read.

    Attributes:
        position: where to go on.
        records: read up to there, from where it was asked.
        done: whether that is the end of the file.
    """

    position: int
    records: int
    done: bool


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of a file."""

    path: str
    position: int
    to: int
    first_record: int
    records: int


class Format(Protocol):
    """How files of a kind are read."""

    @property
    def line(self) -> str:
        """What messages call a record's place: "line" or "row"."""
        ...

    def advance(self, file: Any, position: int, limit: int | None) -> Advance:
        """Find how far from a position on it is to the end, or to so many records."""
        ...

    def read(self, file: Any, part: Slice) -> Iterator[tuple[int, bytes, Any]]:
        """Read (place in the file from 1, its bytes if it has any, row) of each record; a malformed row is an exception."""
        ...

    def record(self) -> Callable[[Any], NewRecord]:
        """Make what turns a row into a record."""
        ...


class FileOffset(msgspec.Struct, array_like=True):
    """A file, and how far it has been read. ``done``: to its end."""

    created_us: int
    size: int
    changed_ns: int
    position: int = 0
    records: int = 0
    done: bool = False


class ProcessOffset(msgspec.Struct):
    """A process: its next record's offset, what it has promised, its newest stamp, its files."""

    next: int = 0
    low_watermark: int = MIN_TIME
    arrived_us: int = MIN_TIME
    files: dict[str, FileOffset] = msgspec.field(default_factory=dict)


class FilesOffset(msgspec.Struct, forbid_unknown_fields=True):
    """How far a directory has been read."""

    processes: list[ProcessOffset]
    ended: bool = False


@dataclass(frozen=True, slots=True)
class FileTask:
    """What a task of Spark reads: parts of files of one process, each with its first offset, stamp and file as it must be."""

    process: int
    slices: list[tuple[Slice, int, int, FileOffset]]


_Listing = tuple[bool, list[dict[str, tuple[int, int]]]]
"""Whether no more files will come, and for each process: name to (size, time of change in nanoseconds)."""


@dataclass(slots=True)
class FilesPlanner:
    """Reads a directory (`Planner`)."""

    entry: Entry
    directory: Directory
    format: Format
    max_records: int | None
    frozen: _Listing | None = field(default=None)

    def check(self) -> None:
        """Raise what is wrong with the options, before anything runs."""
        several = self.entry.spec.processes > 1
        path = self.directory.path
        if several != ("{process}" in path):
            expected = "one directory for each process, such as '/logs/{process}'"
            raise OptionsError("path", path, expected if several else "no '{process}': the injector has one")
        if self.max_records is not None and self.max_records < 1:
            raise OptionsError("max_records", self.max_records, "at least 1, or None")
        if self.directory.disorder_us < 0:
            raise OptionsError("disorder_us", self.directory.disorder_us, "at least 0")
        self._listing()

    # Planner

    def initial(self) -> Offset:
        """Nothing read, no file known."""
        return _to_offset(FilesOffset([ProcessOffset() for _ in range(self.entry.spec.processes)]))

    def freeze(self) -> None:
        """Remember what is there."""
        self.frozen = self._listing()

    def all(self) -> Offset:
        """Read everything that is there."""
        return self.latest(self.initial(), None)

    def latest(self, start: Offset, limit: int | None) -> Offset:
        """Take notice of new files, then advance in the oldest ones."""
        offset = self._offset(start)
        complete, listing = self.frozen or self._listing()
        sources = [
            self._discover(process, one, listing[process], ended=offset.ended)
            for process, one in enumerate(offset.processes)
        ]
        self._advance(offset.processes, sources, limit)
        for process, source in zip(offset.processes, sources, strict=True):
            process.low_watermark = source.low_watermark
        offset.ended = complete and all(
            file.done for process in offset.processes for file in process.files.values()
        )
        return _to_offset(offset) if _is_news(self._offset(start), offset) else start

    def progress(self, end: Offset) -> Progress:
        """The least over the processes: one that has nothing yet holds it back (5.2)."""
        offset = self._offset(end)
        if offset.ended:
            return Progress(MAX_TIME, MAX_TIME)
        return Progress(
            min(process.low_watermark for process in offset.processes),
            min(process.arrived_us for process in offset.processes),
        )

    def tasks(self, start: Offset, end: Offset) -> list[FileTask]:
        """Divide what was advanced, in the order of the offsets."""
        tasks: list[FileTask] = []
        before, after = self._offset(start), self._offset(end)
        for process, (old, new) in enumerate(zip(before.processes, after.processes, strict=True)):
            slices = []
            offset, arrived_us = old.next, old.arrived_us
            for name, file in sorted(new.files.items(), key=_by_age):
                known = old.files.get(name, _UNREAD)
                if file.records == known.records:
                    continue
                arrived_us = max(arrived_us, file.created_us)
                path = posixpath.join(self._directories()[process], name)
                count = file.records - known.records
                whole = Slice(path, known.position, file.position, known.records, count)
                for part in self._divided(whole, file):
                    slices.append((part, offset, arrived_us, file))
                    offset += part.records
            assert offset == new.next, (
                f"{self.entry.name}/{process}: a batch ends at {offset}, not {new.next}"
            )
            tasks += [FileTask(process, group) for group in _grouped(slices)]
        return tasks

    def read(self, task: FileTask) -> Iterator[pa.RecordBatch]:
        """Read a task's slices."""
        writer = RowWriter(self.entry, task.process)
        make = self.format.record()
        for part, offset, arrived_us, expected in task.slices:
            with self._opened(part.path, expected) as file:
                for place, raw, row in self.format.read(file, part):
                    number = offset + place - 1 - part.first_record
                    try:
                        if isinstance(row, Exception):
                            raise row  # noqa: TRY301  met where the policy is known
                        writer.add(number, make(row), arrived_us)
                    except Exception as error:  # noqa: BLE001  users' functions may raise anything
                        where = f"{part.path}, {self.format.line} {place}"
                        writer.refuse(
                            number,
                            error,
                            where,
                            raw or repr(row).encode(),
                            max(expected.created_us, 0),
                            arrived_us,
                        )
                    if not place % BATCH_ROWS:
                        yield from writer.take()
        yield from writer.take()

    # The offset

    def _offset(self, offset: Offset) -> FilesOffset:
        try:
            known = msgspec.convert(offset, FilesOffset)
        except msgspec.ValidationError as error:
            problem = f"the query's checkpoint is not that of a directory of files ({error})"
            raise CheckpointMismatchError(self.entry.name, problem, "Start with a new checkpoint") from error
        processes = self.entry.spec.processes
        if len(known.processes) != processes:
            problem = (
                f"the query's checkpoint knows {len(known.processes)} processes, the pipeline {processes}"
            )
            raise CheckpointMismatchError(
                self.entry.name, problem, "Start with a new checkpoint, or put it back"
            )
        return known

    def _discover(
        self, process: int, known: ProcessOffset, there: dict[str, tuple[int, int]], *, ended: bool
    ) -> FileInjectorSource:
        """Compare what is there with what is known; tell Figure 10's injector of the new files."""
        path = self._directories()[process]
        for name, file in list(known.files.items()):
            self._check_unchanged(posixpath.join(path, name), file, there.get(name))
            if name not in there:
                del known.files[name]
        unfinished = {name: file.created_us for name, file in known.files.items() if not file.done}
        source = FileInjectorSource(known.low_watermark, unfinished)
        found = []
        for name in sorted(there.keys() - known.files.keys()):
            size, changed_ns = there[name]
            found.append((self._created(posixpath.join(path, name), FileOffset(0, size, changed_ns)), name))
        if found and ended:
            problem = "it has come after the source had ended"
            raise SourceChangedError(
                self.entry.name, found[0][1], problem, "Start with a new checkpoint to read it"
            )
        for created_us, name in sorted(found, key=lambda one: (one[0] is None, one)):
            if created_us is None:  # nothing in it that the watermark could wait for
                newest_us = max((file.created_us for file in known.files.values()), default=0)
                known.files[name] = FileOffset(max(known.arrived_us, newest_us, 0), *there[name])
            else:
                known.files[name] = FileOffset(created_us, *there[name])
                source.receive(name, created_us)
        return source

    def _check_unchanged(self, path: str, file: FileOffset, now: tuple[int, int] | None) -> None:
        if now == (file.size, file.changed_ns) or (now is None and file.done):
            return
        if now is None:
            problem, remedy = "it is gone, but was not read to its end", "Put it back"
        else:
            verb = "shrunk" if now[0] < file.size else "grown" if now[0] > file.size else "been changed"
            problem = f"it has {verb} since it was first seen ({file.size} bytes then, {now[0]} now)"
            remedy = "Put it back as it was, and write each file elsewhere before you move it here"
        raise SourceChangedError(self.entry.name, path, problem, remedy)

    def _advance(
        self, processes: list[ProcessOffset], sources: list[FileInjectorSource], limit: int | None
    ) -> None:
        left = limit
        unfinished = [
            (file.created_us, number, name, file)
            for number, process in enumerate(processes)
            for name, file in process.files.items()
            if not file.done
        ]
        for _, number, name, file in sorted(unfinished, key=lambda one: one[:3]):
            if left == 0:
                return
            process = processes[number]
            with self._opened(posixpath.join(self._directories()[number], name), file) as opened:
                advance = self.format.advance(opened, file.position, left)
            file.position, file.done = advance.position, advance.done
            file.records += advance.records
            process.next += advance.records
            if advance.records:
                process.arrived_us = max(process.arrived_us, file.created_us)
            if advance.done and name in sources[number].unfinished:
                sources[number].finish(name)
            left = None if left is None else left - advance.records

    def _divided(self, whole: Slice, expected: FileOffset) -> list[Slice]:
        """Divide a part of a file into parts of about `TASK_RECORDS`."""
        if whole.records <= TASK_RECORDS:
            return [whole]
        parts, position, record = [], whole.position, whole.first_record
        end = record + whole.records
        with self._opened(whole.path, expected) as file:
            while record < end:
                step = self.format.advance(file, position, min(TASK_RECORDS, end - record))
                parts.append(Slice(whole.path, position, step.position, record, step.records))
                position, record = step.position, record + step.records
        return parts

    def _created(self, path: str, file: FileOffset) -> int | None:
        """The creation time of a file, or ``None``: it has no readable record."""
        created = self.directory.created
        if created is not None:
            created_us = created(path)
            if type(created_us) is not int or not MIN_TIME < created_us < MAX_TIME:
                raise OptionsError("created", created_us, f"an int of microseconds, for {path}")
            return created_us
        make = self.format.record()
        with self._opened(path, file) as opened:
            ahead = self.format.advance(opened, 0, _LOOK_AT)
            for _, _, row in self.format.read(opened, Slice(path, 0, ahead.position, 0, ahead.records)):
                try:
                    if not isinstance(row, Exception):
                        return make(row).timestamp - self.directory.disorder_us
                except Exception:  # noqa: BLE001, S112  it is met again, with its offset, when it is read
                    continue
        return None

    # The file system

    def _directories(self) -> list[str]:
        return [self._base(process)[1] for process in range(self.entry.spec.processes)]

    def _base(self, process: int) -> tuple[fs.FileSystem, str]:
        return _located(self.directory.path.replace("{process}", str(process)))

    def _listing(self) -> _Listing:
        marker = self.directory.end_marker
        complete = self.directory.complete or bool(marker)
        listings = []
        for process in range(self.entry.spec.processes):
            filesystem, path = self._base(process)
            # The marker is looked for before the files: what it promises is then in the listing.
            if marker and filesystem.get_file_info(posixpath.join(path, marker)).type != fs.FileType.File:
                complete = False
            listings.append(self._list(filesystem, path))
        return complete, listings

    def _list(self, filesystem: fs.FileSystem, path: str) -> dict[str, tuple[int, int]]:
        try:
            infos = filesystem.get_file_info(fs.FileSelector(path))
        except FileNotFoundError as error:
            if self.entry.spec.processes > 1:
                return {}  # a process that has not begun; it holds the watermark back
            remedy = "Make it, or mend the path; every worker must see it"
            raise SourceMissingError(self.entry.name, f"directory {path}", remedy) from error
        except NotADirectoryError as error:
            remedy = "Name the directory that the files are in; a pattern chooses among them"
            raise SourceMissingError(self.entry.name, f"directory {path} (it is a file)", remedy) from error
        pattern, marker = self.directory.pattern, self.directory.end_marker
        return {
            one.base_name: (one.size, one.mtime_ns)
            for one in infos
            if one.type == fs.FileType.File
            and not one.base_name.startswith((".", "_"))
            and one.base_name != marker
            and fnmatchcase(one.base_name, pattern)
        }

    @contextmanager
    def _opened(self, path: str, expected: FileOffset) -> Iterator[Any]:
        """Open a file that must be as it was."""
        filesystem, _ = self._base(0)
        info = filesystem.get_file_info(path)
        now = (info.size, info.mtime_ns) if info.type == fs.FileType.File else None
        if now != (expected.size, expected.changed_ns):
            self._check_unchanged(path, FileOffset(0, expected.size, expected.changed_ns), now)
        try:
            with filesystem.open_input_file(path) as file:
                yield gzip.GzipFile(fileobj=file) if path.endswith(".gz") else file
        except (OSError, EOFError, zlib.error, pa.ArrowException) as error:
            remedy = "Remove it or mend it, and see to it that every worker can read it"
            raise SourceUnreadableError(
                self.entry.name, path, f"{type(error).__name__}: {error}", remedy
            ) from error


@cache
def _located(path: str) -> tuple[fs.FileSystem, str]:
    """A path or URI as a file system, of which there is one for each, and a path in it."""
    scheme = scheme_of(path)
    if scheme is None:
        return fs.LocalFileSystem(), path.rstrip("/") or "/"
    try:
        filesystem, inner = fs.FileSystem.from_uri(path)
    except (pa.ArrowException, OSError) as error:
        expected = f"a path, or a URI that pyarrow.fs can open; it says of the scheme {scheme!r}: {error}"
        raise OptionsError("path", path, expected) from error
    return filesystem, inner


@contextmanager
def open_uri(uri: str) -> Iterator[Any]:
    """Open a file by its path or URI, to read its lines; names that end in ``.gz`` are unpacked."""
    parts = urlsplit(uri)
    filesystem, path = _located(unquote(parts.path) if parts.scheme == "file" else uri)
    with filesystem.open_input_file(path) as file:
        yield gzip.GzipFile(fileobj=file) if path.endswith(".gz") else io.BufferedReader(file)


_UNREAD = FileOffset(MIN_TIME, 0, 0)


def _by_age(file: tuple[str, FileOffset]) -> tuple[int, str]:
    """The order in which a process's files are read."""
    return file[1].created_us, file[0]


def _is_news(old: FilesOffset, new: FilesOffset) -> bool:
    """Tell whether there is anything to say in a batch: that finished files are gone is none."""
    return old.ended != new.ended or any(
        (one.next, one.low_watermark, one.arrived_us) != (two.next, two.low_watermark, two.arrived_us)
        or any(one.files.get(name) != file for name, file in two.files.items())
        for one, two in zip(old.processes, new.processes, strict=True)
    )


def _to_offset(offset: FilesOffset) -> Offset:
    built: Offset = msgspec.to_builtins(offset)
    return built


_Pieces = list[tuple[Slice, int, int, FileOffset]]


def _grouped(pieces: _Pieces) -> list[_Pieces]:
    """Give small files to one task."""
    groups: list[_Pieces] = []
    room = 0
    for piece in pieces:
        if piece[0].records > room:
            groups.append([])
            room = TASK_RECORDS
        groups[-1].append(piece)
        room -= piece[0].records
    return groups
