"""Files that a command writes.

Rules of this file: an existing file is replaced only with ``--force``, and never if the command reads it. A file appears whole or
not at all: it is written beside its place under a temporary name, and then renamed. That a file cannot be written is found before
the work if possible; after the work it is reported, and hides nothing of the result.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

from headrace import HeadraceError
from headrace.histories import Header, save_history
from headrace.history import Event
from headrace_cli.terminal.exit import ExitCode, print_stop
from headrace_cli.terminal.usage_errors import ExistingFileError, UnwritableFileError
from headrace_properties.whole_files import is_device, write_whole


class OutputFiles:
    """The files that a command writes.

    Args:
        force: replace those that exist.
        inputs: files that the command reads, and therefore never writes.

    Attributes:
        saved: those that have been written.
        failed: one could not be written.
    """

    def __init__(self, *, force: bool = False, inputs: Iterable[Path] = ()) -> None:
        self.saved: list[Path] = []
        self.failed = False
        self._force = force
        self._inputs = tuple(inputs)
        self._claimed: dict[Path, str] = {}

    def claim(self, path: Path | None, option: str) -> None:
        """Check before the work starts that a file can be written.

        Args:
            path: the file; ``None``: the option was not given.
            option: that names it.

        Raises:
            UnwritableFileError: its directory is missing, it is a directory, or the command reads it or writes it twice.
            ExistingFileError: it exists, and is not to be replaced.
        """
        if path is None:
            return
        self._check(path, option)
        place = path.resolve()
        if place in self._claimed and not is_device(path):
            raise UnwritableFileError(str(path), f"{self._claimed[place]} names it, too", option)
        self._claimed[place] = option

    def write(self, path: Path, option: str, make: Callable[[Path], object]) -> bool:
        """Write a file after the work, and return whether that was possible; report a failure on stderr.

        Args:
            path: the file.
            option: that names it.
            make: writes the content to the path that it is given, whose suffix is the same.
        """
        try:
            self._check(path, option)
            write_whole(path, make)
        except HeadraceError as error:
            print_stop(error)
        except OSError as error:
            print_stop(UnwritableFileError(str(path), error.strerror or str(error), option))
        else:
            self.saved.append(path)
            return True
        self.failed = True
        return False

    def code(self, code: ExitCode) -> ExitCode:
        """Return the command's exit code: a missing file turns success into a usage error, but never hides a violation."""
        return ExitCode.WRONG_USE if self.failed and code in (ExitCode.HOLDS, ExitCode.UNKNOWN) else code

    def _check(self, path: Path, option: str) -> None:
        if path.is_dir():
            raise UnwritableFileError(str(path), "it is a directory", option)
        if not path.parent.is_dir():
            raise UnwritableFileError(str(path), f"there is no directory {path.parent}", option)
        if not path.exists() or is_device(path):
            return
        if any(file.exists() and path.samefile(file) for file in self._inputs):
            raise UnwritableFileError(str(path), "this command reads it", option)
        if not self._force:
            raise ExistingFileError(str(path), "it already exists", option)


def write_bytes(data: bytes) -> Callable[[Path], object]:
    """Return a writer of this content for `OutputFiles.write`."""
    return lambda path: path.write_bytes(data)


SIMULATED = "the simulated cluster"


def write_history(files: OutputFiles, path: Path | None, history: Iterable[Event], header: Header) -> None:
    """Write a History if requested; a file that cannot be written is reported, and the result is still shown."""
    if path is not None:
        files.write(path, "--history", lambda place: save_history(place, history, header))
