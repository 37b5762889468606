"""The failures that ``headrace verify`` keeps, and tries first the next time."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from headrace_cli._consoles import error_console
from headrace_cli._render import print_text
from headrace_cli._targets import PipelineTarget
from headrace_properties.search.kept_failures import FOLDER, KeptFailures, Retried, is_fit_for_files
from headrace_sim import Protocol

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
    """Keeps failures, and retires those that fail no longer. That it cannot write is said once, and changes no result.

    Args:
        folder: where; ``None``: in the current directory, unless that is a home directory.
        target: what is verified.
        protocol: the state machines that it runs on.
    """

    def __init__(self, folder: Path | None, target: PipelineTarget, protocol: Protocol) -> None:
        self._writable = folder is not None or is_fit_for_files(Path())
        self.failures = KeptFailures(
            folder or FOLDER, target.name, tuple(target.versions), protocol.name, target.feed_name
        )

    def keep(self, data: bytes) -> Path | None:
        """Keep a failure, as a replay file, and return the file's path if that is possible."""
        if not self._writable:
            return None
        try:
            return self.failures.keep(data)
        except OSError as error:
            self._complain(error)
            return None

    def settle(self, retried: Sequence[Retried]) -> tuple[str, ...]:
        """Retire what passed; return a line for each that was tried."""
        return tuple(self._settled(one) for one in retried)

    def _settled(self, one: Retried) -> str:
        if not one.passed or not self._writable:
            return str(one)
        try:
            return f"{one}; moved to {self.failures.retire(one.kept).parent}"
        except OSError as error:
            self._complain(error)
            return str(one)

    def _complain(self, error: OSError) -> None:
        self._writable = False
        why = error.strerror or str(error)
        print_text(
            error_console(),
            f"Note: {self.failures.folder} cannot be written ({why}), so failures are not kept",
        )
