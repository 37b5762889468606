"""A directory of files as an injector (MillWheel 5.2, Figure 10): which files are new, which is read next, and what may change.

Rules of this file:

* Files appear complete (write elsewhere, then move) and never change. Their size and modification time are in the offset. A file
  that has changed, or that disappears before it was read to its end, stops the query, because its batch could not be read again.
* The low watermark is that of Figure 10 (`FileInjectorSource`): the creation time of the oldest unfinished file.
* The oldest file over all processes is read first, so that the watermark advances. A record's offset is its position in that
  order.
* A record's stamp is the creation time of the newest file begun so far, so it does not depend on how the files were divided into
  batches.
* A finished file that has disappeared from the directory is forgotten: moving finished files away keeps the offsets small.
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
from headrace.spark.runtime.job_files import scheme_of
from headrace.spark.sources.data_source import Offset, to_offset
from headrace.spark.sources.injected_rows import BATCH_ROWS, InjectionPlan, NewRecord, RowWriter
from headrace.wire.messages import Progress

TASK_RECORDS = 50_000
"""Maximum records that one task reads; a larger file is divided."""

_LOOK_AT = 1_000
"""Maximum records of a new file to search for a readable one, from which the file's creation time is taken."""


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory of input files.

    Attributes:
        path: the directory, on a file system that all workers share: a path, or a URI for ``pyarrow.fs``. An injector of several
            processes needs one for each: ``"/logs/{process}"``; one that does not exist yet holds the watermark back.
        pattern: pattern of the file names. Names that begin with ``.`` or ``_`` are always ignored.
        created: (path of a file) -> its creation time: event time in microseconds, not after its records' timestamps. Called
            once for each file. Default: the timestamp of the file's first record, less ``disorder_us``.
        disorder_us: how far a record's timestamp may be before that of the first record of its file, event time in microseconds.
        end_marker: name of a file, such as ``"_SUCCESS"``: once it exists, no new files will appear, and the source ends when
            the existing ones have been read.
        complete: no new files will ever appear.
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
        position: the position reached.
        records: number of records up to there from the starting position.
        done: whether it is the end of the file.
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
    """A file format."""

    @property
    def line(self) -> str:
        """The word for a record's place in messages: "line" or "row"."""
        ...

    def advance(self, file: Any, position: int, limit: int | None) -> Advance:
        """Advance from a position to the end, or by at most ``limit`` records."""
        ...

    def read(self, file: Any, part: Slice) -> Iterator[tuple[int, bytes, Any]]:
        """Yield (place in the file from 1, its bytes if it has any, row) of each record; for a malformed row, an exception."""
        ...

    @property
    def make(self) -> Callable[[Any], NewRecord]:
        """The function that makes a record of a row."""
        ...


class FileOffset(msgspec.Struct, array_like=True):
    """A file, and how far it has been read. ``done``: whether to its end."""

    created_us: int
    size: int
    changed_ns: int
    position: int = 0
    records: int = 0
    done: bool = False


class ProcessOffset(msgspec.Struct):
    """A process: the offset of its next record, its promised watermark, its newest stamp, its files."""

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
    """What a task reads: parts of one process's files, each with its first offset, its stamp and its file's expected state."""

    process: int
    slices: list[tuple[Slice, int, int, FileOffset]]


_Listing = tuple[bool, list[dict[str, tuple[int, int]]]]
"""Whether no new files will appear, and for each process: name to (size, modification time in nanoseconds)."""


@dataclass(slots=True)
class FilesPlanner:
    """Reads a directory (`Planner`)."""

    entry: InjectionPlan
    directory: Directory
    format: Format
    max_records: int | None
    frozen: _Listing | None = field(default=None)

    def check(self) -> None:
        """Check the options before anything runs."""
        several = self.entry.spec.processes > 1
        path = self.directory.path
        if several != ("{process}" in path):
            expected = "one directory for each process, such as '/logs/{process}'"
            raise OptionsError(
                "path", path, expected if several else "no '{process}', since the injector has one process"
            )
        if self.max_records is not None and self.max_records < 1:
            raise OptionsError("max_records", self.max_records, "at least 1, or None")
        if self.directory.disorder_us < 0:
            raise OptionsError("disorder_us", self.directory.disorder_us, "at least 0")
        self._listing()

    # Planner

    def initial(self) -> Offset:
        """See `Planner`: no file is known."""
        return to_offset(FilesOffset([ProcessOffset() for _ in range(self.entry.spec.processes)]))

    def freeze(self) -> None:
        """See `Planner`: keep the current listing."""
        self.frozen = self._listing()

    def all(self) -> Offset:
        """See `Planner`: the end of all current files."""
        return self.latest(self.initial(), None)

    def latest(self, start: Offset, limit: int | None) -> Offset:
        """See `Planner`: discover new files, then advance in the oldest ones."""
        offset = self._offset(start)
        complete, listing = self.frozen or self._listing()
        sources = [
            self._discover(process, known, listing[process], ended=offset.ended)
            for process, known in enumerate(offset.processes)
        ]
        self._advance(offset.processes, sources, limit)
        for process, source in zip(offset.processes, sources, strict=True):
            process.low_watermark = source.low_watermark
        offset.ended = complete and all(
            file.done for process in offset.processes for file in process.files.values()
        )
        return to_offset(offset) if _is_news(self._offset(start), offset) else start

    def progress(self, end: Offset) -> Progress:
        """See `Planner`: the minimum over the processes; one that has no file yet holds it back (5.2)."""
        offset = self._offset(end)
        if offset.ended:
            return Progress(MAX_TIME, MAX_TIME)
        return Progress(
            min(process.low_watermark for process in offset.processes),
            min(process.arrived_us for process in offset.processes),
        )

    def tasks(self, start: Offset, end: Offset) -> list[FileTask]:
        """See `Planner`: divide the records between two offsets, in order."""
        tasks: list[FileTask] = []
        before, after = self._offset(start), self._offset(end)
        for process, (old, new) in enumerate(zip(before.processes, after.processes, strict=True)):
            slices = []
            offset, arrived_us = old.next, old.arrived_us
            for name, file in sorted(new.files.items(), key=lambda read: (read[1].created_us, read[0])):
                known = old.files.get(name, _UNREAD)
                if file.records == known.records:
                    continue
                arrived_us = max(arrived_us, file.created_us)
                path = posixpath.join(self._base(process)[1], name)
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
        """See `Planner`: yield the rows of a task's slices."""
        writer = RowWriter(self.entry, task.process)
        make = self.format.make
        for part, offset, arrived_us, expected in task.slices:
            with self._opened(part.path, expected) as file:
                for place, raw, row in self.format.read(file, part):
                    number = offset + place - 1 - part.first_record
                    try:
                        if isinstance(row, Exception):
                            raise row  # noqa: TRY301  caught below, where the policy is applied
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
            problem = f"the query's checkpoint is not from a directory of files ({error})"
            raise CheckpointMismatchError(self.entry.name, problem, "Start with a new checkpoint") from error
        processes = self.entry.spec.processes
        if len(known.processes) != processes:
            problem = f"the query's checkpoint has {len(known.processes)} processes, the pipeline {processes}"
            raise CheckpointMismatchError(
                self.entry.name, problem, "Start with a new checkpoint, or restore the number of processes"
            )
        return known

    def _discover(
        self, process: int, known: ProcessOffset, there: dict[str, tuple[int, int]], *, ended: bool
    ) -> FileInjectorSource:
        """Compare the listing with the known files, and pass new files to Figure 10's injector."""
        path = self._base(process)[1]
        for name, file in list(known.files.items()):
            self._check_unchanged(posixpath.join(path, name), file, there.get(name))
            if name not in there:
                del known.files[name]
        unfinished = {name: file.created_us for name, file in known.files.items() if not file.done}
        source = FileInjectorSource(known.low_watermark, unfinished)
        new = []
        for name in sorted(there.keys() - known.files.keys()):
            size, changed_ns = there[name]
            new.append((self._created(posixpath.join(path, name), FileOffset(0, size, changed_ns)), name))
        if new and ended:
            problem = "it appeared after the source had ended"
            raise SourceChangedError(
                self.entry.name, new[0][1], problem, "Start with a new checkpoint to read it"
            )
        for created_us, name in sorted(new, key=lambda file: (file[0] is None, file)):
            if created_us is None:  # it has no record that the watermark could wait for
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
            problem, remedy = "it disappeared before it was read to its end", "Put it back"
        else:
            verb = "shrunk" if now[0] < file.size else "grown" if now[0] > file.size else "been changed"
            problem = f"it has {verb} since it was first seen ({file.size} bytes then, {now[0]} now)"
            remedy = "Restore it; write new files elsewhere, and move them here when they are complete"
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
        for _, number, name, file in sorted(unfinished, key=lambda file: file[:3]):
            if left == 0:
                return
            process = processes[number]
            with self._opened(posixpath.join(self._base(number)[1], name), file) as opened:
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
        """Return the creation time of a file; ``None`` if it has no readable record."""
        created = self.directory.created
        if created is not None:
            created_us = created(path)
            if type(created_us) is not int or not MIN_TIME < created_us < MAX_TIME:
                raise OptionsError("created", created_us, f"an int of microseconds, for {path}")
            return created_us
        make = self.format.make
        with self._opened(path, file) as opened:
            ahead = self.format.advance(opened, 0, _LOOK_AT)
            for _, _, row in self.format.read(opened, Slice(path, 0, ahead.position, 0, ahead.records)):
                try:
                    if not isinstance(row, Exception):
                        return make(row).timestamp - self.directory.disorder_us
                except Exception:  # noqa: BLE001, S112  reading raises it again, with its offset
                    continue
        return None

    # The file system

    def _base(self, process: int) -> tuple[fs.FileSystem, str]:
        return _located(self.directory.path.replace("{process}", str(process)))

    def _listing(self) -> _Listing:
        marker = self.directory.end_marker
        complete = self.directory.complete or bool(marker)
        listings = []
        for process in range(self.entry.spec.processes):
            filesystem, path = self._base(process)
            # Look for the marker first: then the listing has all the files it promises.
            if marker and filesystem.get_file_info(posixpath.join(path, marker)).type != fs.FileType.File:
                complete = False
            listings.append(self._list(filesystem, path))
        return complete, listings

    def _list(self, filesystem: fs.FileSystem, path: str) -> dict[str, tuple[int, int]]:
        try:
            infos = filesystem.get_file_info(fs.FileSelector(path))
        except FileNotFoundError as error:
            if self.entry.spec.processes > 1:
                return {}  # this process has not begun; it holds the watermark back
            remedy = "Create it, or fix the path; every worker must have access to it"
            raise SourceMissingError(self.entry.name, f"directory {path}", remedy) from error
        except NotADirectoryError as error:
            remedy = "Give the directory that contains the files; use a pattern to choose among them"
            raise SourceMissingError(self.entry.name, f"directory {path} (it is a file)", remedy) from error
        pattern, marker = self.directory.pattern, self.directory.end_marker
        return {
            info.base_name: (info.size, info.mtime_ns)
            for info in infos
            if info.type == fs.FileType.File
            and not info.base_name.startswith((".", "_"))
            and info.base_name != marker
            and fnmatchcase(info.base_name, pattern)
        }

    @contextmanager
    def _opened(self, path: str, expected: FileOffset) -> Iterator[Any]:
        """Open a file that must be unchanged."""
        filesystem, _ = self._base(0)
        info = filesystem.get_file_info(path)
        now = (info.size, info.mtime_ns) if info.type == fs.FileType.File else None
        if now != (expected.size, expected.changed_ns):
            self._check_unchanged(path, FileOffset(0, expected.size, expected.changed_ns), now)
        try:
            with filesystem.open_input_file(path) as file:
                yield gzip.GzipFile(fileobj=file) if path.endswith(".gz") else file
        except (OSError, EOFError, zlib.error, pa.ArrowException) as error:
            remedy = "Remove it or fix it, and make sure that every worker can read it"
            raise SourceUnreadableError(
                self.entry.name, path, f"{type(error).__name__}: {error}", remedy
            ) from error


@cache
def _located(path: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a path or URI, always the same one, and the path within it."""
    scheme = scheme_of(path)
    if scheme is None:
        return fs.LocalFileSystem(), path.rstrip("/") or "/"
    try:
        filesystem, inner = fs.FileSystem.from_uri(path)
    except (pa.ArrowException, OSError) as error:
        expected = f"a path, or a URI that pyarrow.fs can open; its error for the scheme {scheme!r}: {error}"
        raise OptionsError("path", path, expected) from error
    return filesystem, inner


@contextmanager
def open_uri(uri: str) -> Iterator[Any]:
    """Open a file by its path or URI to read its lines; decompress it if its name ends in ``.gz``."""
    parts = urlsplit(uri)
    filesystem, path = _located(unquote(parts.path) if parts.scheme == "file" else uri)
    with filesystem.open_input_file(path) as file:
        yield gzip.GzipFile(fileobj=file) if path.endswith(".gz") else io.BufferedReader(file)


_UNREAD = FileOffset(MIN_TIME, 0, 0)


def _is_news(old: FilesOffset, new: FilesOffset) -> bool:
    """Return whether there is anything for a batch; the disappearance of finished files does not count."""
    return old.ended != new.ended or any(
        (before.next, before.low_watermark, before.arrived_us)
        != (after.next, after.low_watermark, after.arrived_us)
        or any(before.files.get(name) != file for name, file in after.files.items())
        for before, after in zip(old.processes, new.processes, strict=True)
    )


_Pieces = list[tuple[Slice, int, int, FileOffset]]


def _grouped(pieces: _Pieces) -> list[_Pieces]:
    """Group pieces into tasks, several small files in one."""
    groups: list[_Pieces] = []
    room = 0
    for piece in pieces:
        if piece[0].records > room:
            groups.append([])
            room = TASK_RECORDS
        groups[-1].append(piece)
        room -= piece[0].records
    return groups
