"""The failures that ``headrace verify`` keeps, and tries first the next time."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace_cli._consoles import error_console
from headrace_cli._render import print_text
from headrace_properties.search.kept_failures import FOLDER, KeptFailures, Retried, is_fit_for_files

if TYPE_CHECKING:
    from headrace_properties.spark_jobs.replay_file import RetriedFinding

FailuresOption = Annotated[
    Path | None,
    typer.Option(
        "--failures",
        metavar="DIR",
        help="Where failures are kept, to be tried first the next time.",
        show_default=str(FOLDER),
    ),
]


class Memory:
    """Keeps failures, and retires those that no longer fail. An unwritable directory is reported once and changes no result.

    Args:
        folder: where; ``None``: in the current directory, unless that is a home directory.
        of: what is verified: as `KeptFailures` takes it.
    """

    def __init__(self, folder: Path | None, *of: Any) -> None:
        self._writable = folder is not None or is_fit_for_files(Path())
        self.failures = KeptFailures(folder or FOLDER, *of)

    def keep(self, data: bytes) -> Path | None:
        """Keep a failure as a replay file, and return the file's path if it could be written."""
        if not self._writable:
            return None
        try:
            return self.failures.keep(data)
        except OSError as error:
            self._complain(error)
            return None

    def settle(self, retried: "Sequence[Retried | RetriedFinding]") -> tuple[str, ...]:
        """Retire what passed; return a line for each that was tried, and for each that could not be read."""
        return (*(self._settled(failure) for failure in retried), *self.failures.unreadable())

    def _settled(self, retried: "Retried | RetriedFinding") -> str:
        if not retried.passed or not self._writable:
            return str(retried)
        try:
            return f"{retried}; moved to {self.failures.retire(retried.path).parent}"
        except OSError as error:
            self._complain(error)
            return str(retried)

    def _complain(self, error: OSError) -> None:
        self._writable = False
        why = error.strerror or str(error)
        print_text(
            error_console(),
            f"Note: {self.failures.folder} cannot be written ({why}), so failures are not kept",
        )
