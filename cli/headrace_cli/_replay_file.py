"""Failures as files: written by ``headrace verify``, read by ``headrace replay``."""

from pathlib import Path

import msgspec

from headrace import HistoryFormatError
from headrace_cli._files import OutputFiles, write_bytes
from headrace_properties.mutants import protocol_named
from headrace_properties.search.kept_failures import free_name
from headrace_properties.search.replay_file import ReplayFile, read_replay
from headrace_sim import Protocol


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


def save_failure(data: bytes, path: Path | None, files: OutputFiles) -> Path | None:
    """Write a failure to a file, and return its path; ``None`` if it cannot be written, which is reported on stderr.

    Args:
        data: what `to_replay` makes of it.
        path: of the file; ``None``: in the current directory, named by its content.
        files: writes it.
    """
    path = path or free_name(Path(), data)
    if path.is_file() and path.read_bytes() == data:
        return path
    return path if files.write(path, "--save", write_bytes(data)) else None


def load_failure(path: Path) -> Recorded:
    """Read what `save_failure` wrote.

    Raises:
        HistoryFormatError: it cannot be read, or is something else, or of another version.
    """
    file = read_replay(path)
    try:
        return Recorded(str(path), file, protocol_named(file.protocol))
    except KeyError as error:
        raise HistoryFormatError("replay file", str(path), f"there is no protocol {error}") from error
