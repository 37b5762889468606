"""Errors about files that Spark reports, each in one sentence: which file, what is wrong with it, and how to fix it.

Rules of this file: the file is taken from Spark's message; if that names none, the checkpoint is searched for damage. None of
these errors loses accepted records: once the file is restored, the query resumes from its checkpoint.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from headrace.spark.io_errors import (
    CheckpointDamagedError,
    DiskFullError,
    DriverReplacedError,
    InputFileError,
    StorageError,
)
from headrace.spark.runtime.hadoop import Place

_RESTORE = (
    "Restore it, or the whole checkpoint from one backup, and start the query again: it resumes from there. "
    "With a new checkpoint it would start from the beginning and write all outputs to its sink again"
)
_KINDS: tuple[tuple[str, type[StorageError], str, str], ...] = (
    (
        r"CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED\].*?File: (?P<place>\S+)",
        CheckpointDamagedError, "its content does not match its checksum", _RESTORE,
    ),
    (
        r"Failed to read log file (?P<place>\S+)\. ",
        CheckpointDamagedError, "it is truncated", _RESTORE,
    ),
    (
        r"No space left on device|Disk quota exceeded",
        DiskFullError, "its disk is full", "Free some space, and start the query again: it resumes from there, and loses nothing",
    ),
    (
        r"FAILED_READ_FILE\.\w+\] .*?reading file (?P<place>\S+)\. ",
        InputFileError, "this input file cannot be read",
        "Replace it with an intact one, and start the query again: no record of it has been processed yet",
    ),
    (
        r"PATH_NOT_FOUND\] Path does not exist: (?P<place>\S+)\. ",
        InputFileError, "this input directory does not exist", "Create it, or fix the path, and start the query again",
    ),
    (
        r"CONCURRENT_STREAM_LOG_UPDATE|Multiple streaming queries are concurrently using",
        DriverReplacedError, "another driver runs this query, and has already committed this driver's micro-batch",
        "Leave the other driver running; a query has one driver at a time",
    ),
    (
        r"File (?P<place>\S+/state/\S+) does not exist",
        CheckpointDamagedError, "it is missing", "Restore it, and start the query again: it resumes from there",
    ),
    (
        r"CANNOT_LOAD_STATE_STORE",
        CheckpointDamagedError, "its state cannot be loaded", _RESTORE,
    ),
)  # fmt: skip
"""Pattern of Spark's message, error, problem and remedy; the first match counts. ``place``: the file, if Spark names it."""

_BROKEN_JSON = re.compile(r"INCLUDE_SOURCE_IN_LOCATION|JsonParseException|JsonEOFException|MappingException")


def storage_error_of(text: str, checkpoint: Place) -> StorageError | None:
    """Return the error that ended a query, if it is about a file; otherwise ``None``.

    Args:
        text: of Spark's exception, with its causes.
        checkpoint: the query's.
    """
    for pattern, kind, problem, remedy in _KINDS:
        match = re.search(pattern, text, re.DOTALL)
        if match is not None:
            place = _path(match.groupdict().get("place") or str(checkpoint))
            return _moved(place, checkpoint) or kind(place, problem, remedy)
    if not isinstance(checkpoint, Path) or not _BROKEN_JSON.search(text):
        return None
    broken = next(_broken_logs(checkpoint), None)
    return None if broken is None else CheckpointDamagedError(str(broken), "it is truncated", _RESTORE)


def _moved(place: str, checkpoint: Place) -> CheckpointDamagedError | None:
    """Return an error if Spark looks for the checkpoint's state elsewhere: its metadata has the absolute path of its schema."""
    home = place.partition("/state/")[0]
    if home == place or home == str(checkpoint) or Path(home).absolute() == Path(str(checkpoint)).absolute():
        return None
    problem = f"it was moved from {home}, and its state records that path"
    return CheckpointDamagedError(
        str(checkpoint), problem, "Move it back, or make that path point here, and start the query again"
    )


def _path(place: str) -> str:
    return re.sub(r"^file:(//)?(?=/)", "", place)


def _broken_logs(checkpoint: Path) -> Iterator[Path]:
    """Yield the files of a checkpoint's logs that are no longer valid JSON, if this machine can read them."""
    logs = [checkpoint / "metadata"]
    for folder in ("offsets", "commits", "sources/*"):
        logs += sorted(path for path in checkpoint.glob(f"{folder}/*") if path.name[0].isdecimal())
    for log in logs:
        if log.exists() and not all(map(_is_whole, log.read_text(errors="replace").splitlines())):
            yield log


def _is_whole(line: str) -> bool:
    """Return whether a line is JSON or one of Spark's other lines: the log's version, or ``-`` for a source without an offset."""
    if re.fullmatch(r"v\d+|-", line):
        return True
    try:
        msgspec.json.decode(line)
    except msgspec.DecodeError:
        return False
    return True
