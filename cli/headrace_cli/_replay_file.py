"""Failures as files: written by ``headrace verify``, read by ``headrace replay``."""

import hashlib
from pathlib import Path

import msgspec

from headrace import HistoryFormatError, OptionsError
from headrace_cli._files import OutputFiles, write_bytes
from headrace_cli._targets import PipelineTarget
from headrace_properties.mutants import protocol_named
from headrace_properties.search.judging import Failure
from headrace_properties.search.replay_file import REPLAY_FORMAT, ReplayFile, to_replay
from headrace_sim import Protocol

_DIGITS = 8


class _Format(msgspec.Struct):
    """The one field that every format has."""

    format: int


class Recorded(msgspec.Struct, frozen=True):
    """The content of a replay file.

    Attributes:
        path: of the file.
        file: the failing run.
        protocol: the state machines that it ran on.
    """

    path: str
    file: ReplayFile
    protocol: Protocol


def save_failure(
    failure: Failure, target: PipelineTarget, protocol: Protocol, path: Path | None, files: OutputFiles
) -> Path | None:
    """Write a failure to a file, and return its path; ``None``: it cannot be written, as stderr says.

    Args:
        failure: what a search has found.
        target: what was searched.
        protocol: the state machines that it ran on.
        path: of the file; ``None``: in the current directory, named by the digest of its content.
        files: writes it.
    """
    data = to_replay(failure, target.name, protocol.name, target.feed_name, tuple(target.versions)) + b"\n"
    path = path or _free_name(data)
    if path.is_file() and path.read_bytes() == data:
        return path
    return path if files.write(path, "--save", write_bytes(data)) else None


def _free_name(data: bytes) -> Path:
    """Name a file by its content: as many digits as it takes to replace no other file."""
    digest = hashlib.sha256(data).hexdigest()
    names = [Path(f"headrace-failure-{digest[:digits]}.json") for digits in range(_DIGITS, len(digest) + 1)]
    return next((name for name in names if not name.exists() or name.read_bytes() == data), names[-1])


def load_failure(path: Path) -> Recorded:
    """Read what `save_failure` wrote.

    Raises:
        HistoryFormatError: it can not be read, or is something else, or of another version.
    """
    try:
        data = path.read_bytes()
        version = msgspec.json.decode(data, type=_Format).format
        if version != REPLAY_FORMAT:
            raise HistoryFormatError("replay file", str(path), _of_another_format(version))
        file = msgspec.json.decode(data, type=ReplayFile)
        return Recorded(str(path), file, protocol_named(file.protocol))
    except OptionsError as error:
        raise HistoryFormatError("replay file", str(path), str(error)) from error
    except KeyError as error:
        raise HistoryFormatError("replay file", str(path), f"there is no protocol {error}") from error
    except OSError as error:
        raise HistoryFormatError("replay file", str(path), error.strerror or str(error)) from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise HistoryFormatError("replay file", str(path), str(error)) from error


def _of_another_format(version: int) -> str:
    """Why a file is not read, and what to do."""
    if version > REPLAY_FORMAT:
        return f"it has format {version}, and this version of Headrace reads format {REPLAY_FORMAT}. Update Headrace"
    return (
        f"it has format {version}, which was written before the project was renamed Headrace; its modules and options"
        f" have new names, and this version reads format {REPLAY_FORMAT} only. Search again with the file's pipeline:"
        " headrace verify MODULE:PIPELINE --save FILE. CHANGELOG.md lists what was renamed"
    )
