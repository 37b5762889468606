"""What happens to files, told in one sentence: which file, what is wrong with it, and how to go on.

Rules of this file: Spark's words are looked at for what they name; where they name no file, the checkpoint itself is searched.
Nothing that was accepted is lost by any of these: the query goes on from its checkpoint when the file is as it should be.
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

_RESTORE = (
    "Put it back as it was, or all of the checkpoint from one backup, and start the query again: it goes on from there. "
    "With a new checkpoint it would begin again, and its sink get all outputs once more"
)
_KINDS: tuple[tuple[str, type[StorageError], str, str], ...] = (
    (
        r"CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED\].*?File: (?P<place>\S+)",
        CheckpointDamagedError, "what is in it does not fit its checksum", _RESTORE,
    ),
    (
        r"Failed to read log file (?P<place>\S+)\. ",
        CheckpointDamagedError, "it breaks off", _RESTORE,
    ),
    (
        r"No space left on device|Disk quota exceeded",
        DiskFullError, "its disk is full", "Make room, and start the query again: it goes on from there, and nothing is lost",
    ),
    (
        r"FAILED_READ_FILE\.\w+\] .*?reading file (?P<place>\S+)\. ",
        InputFileError, "this file of the input can not be read",
        "Put a whole one in its place, and start the query again: nothing of it has been taken yet",
    ),
    (
        r"PATH_NOT_FOUND\] Path does not exist: (?P<place>\S+)\. ",
        InputFileError, "there is no such directory of input", "Make it, or mend the path, and start the query again",
    ),
    (
        r"CONCURRENT_STREAM_LOG_UPDATE",
        DriverReplacedError, "another driver runs this query, and has done this driver's micro-batch",
        "Leave it to that one; a query has one driver at a time",
    ),
    (
        r"File (?P<place>\S+/state/\S+) does not exist",
        CheckpointDamagedError, "it is not there", "Put it back, and start the query again: it goes on from there",
    ),
    (
        r"CANNOT_LOAD_STATE_STORE",
        CheckpointDamagedError, "its state can not be loaded", _RESTORE,
    ),
)  # fmt: skip
"""What Spark says, what it is, and what to do; the first that fits. ``place``: the file, where Spark names it."""

_BROKEN_JSON = re.compile(r"INCLUDE_SOURCE_IN_LOCATION|JsonParseException|JsonEOFException|MappingException")


def storage_error_of(text: str, checkpoint: Path) -> StorageError | None:
    """Tell what has ended a query, if it is something that can happen to files.

    Args:
        text: of Spark's exception, with its causes.
        checkpoint: the query's.
    """
    for pattern, kind, problem, remedy in _KINDS:
        found = re.search(pattern, text, re.DOTALL)
        if found is not None:
            place = _path(found.groupdict().get("place") or str(checkpoint))
            return _moved(place, checkpoint) or kind(place, problem, remedy)
    broken = next(_broken_logs(checkpoint), None) if _BROKEN_JSON.search(text) else None
    return None if broken is None else CheckpointDamagedError(str(broken), "it breaks off", _RESTORE)


def _moved(place: str, checkpoint: Path) -> CheckpointDamagedError | None:
    """Tell whether the state of a checkpoint is looked for elsewhere: Spark writes the place of its schema into it, in full."""
    home = place.partition("/state/")[0]
    if home == place or Path(home).absolute() == checkpoint.absolute():
        return None
    problem = f"it was moved: it was made as {home}, and its state knows its place"
    return CheckpointDamagedError(
        str(checkpoint), problem, "Move it back, or let that path lead here, and start the query again"
    )


def _path(place: str) -> str:
    return re.sub(r"^file:(//)?(?=/)", "", place)


def _broken_logs(checkpoint: Path) -> Iterator[Path]:
    """Files of a checkpoint's logs that are not JSON any more, as far as they can be seen from here."""
    logs = [checkpoint / "metadata"]
    for folder in ("offsets", "commits", "sources/*"):
        logs += sorted(path for path in checkpoint.glob(f"{folder}/*") if path.name[0].isdecimal())
    for log in logs:
        if log.exists() and not all(map(_is_whole, log.read_text(errors="replace").splitlines())):
            yield log


def _is_whole(line: str) -> bool:
    """Tell whether a line is JSON, or what Spark writes beside it: the log's version, or that a source has no offset."""
    if re.fullmatch(r"v\d+|-", line):
        return True
    try:
        msgspec.json.decode(line)
    except msgspec.DecodeError:
        return False
    return True
