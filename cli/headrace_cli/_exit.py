"""How a command ends: its exit code, and what becomes of an error.

Rules of this file: an error that Headrace raises on purpose is one message on stderr and exit code 2, never a
traceback. Anything else that escapes is our own bug, and keeps its traceback.
"""

import enum
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

import typer

from headrace import HeadraceError
from headrace_cli._consoles import error_console
from headrace_properties.search.verification import Verification, violations
from headrace_properties.verdict import Unknown, Verdict


class ExitCode(enum.IntEnum):
    """What the shell learns; CI can rely on it."""

    HOLDS = 0
    """Nothing is violated."""
    VIOLATED = 1
    """An invariant is, or the run stopped with an error."""
    WRONG_USE = 2
    """The command, a file or a pipeline is not what it should be; nothing was judged."""
    UNKNOWN = 3
    """Nothing is violated, but the runs do not tell: an invariant's case never came up."""
    INTERRUPTED = 130
    """Ctrl-C: 128 and the number of SIGINT, as shells have it."""
    TERMINATED = 143
    """SIGTERM: likewise."""


RESULT_WORDS = {
    ExitCode.HOLDS: "holds",
    ExitCode.VIOLATED: "violated",
    ExitCode.UNKNOWN: "unknown",
    ExitCode.INTERRUPTED: "interrupted",
    ExitCode.TERMINATED: "terminated",
}
"""What ``--json`` calls it."""


class UnknownScenarioError(HeadraceError):
    """A scenario that there is not. Fields: name, known."""

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        super().__init__(name, known)
        self.name, self.known = name, known

    def __str__(self) -> str:
        """Say which there are."""
        return f"there is no scenario {self.name!r}. There are: {', '.join(self.known)}"


class UnknownWithoutError(HeadraceError):
    """Something that the protocol can not be run without. Fields: name, known."""

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        super().__init__(name, known)
        self.name, self.known = name, known

    def __str__(self) -> str:
        """Say what can be left out."""
        return f"--without {self.name}: the protocol can be run without {' or '.join(self.known)} only"


class UnwritableFileError(HeadraceError):
    """A file that can not be written. Fields: path, reason, option."""

    def __init__(self, path: str, reason: str, option: str = "--save") -> None:
        super().__init__(path, reason, option)
        self.path, self.reason, self.option = path, reason, option

    def __str__(self) -> str:
        """Say which and why."""
        return f"{self.path} can not be written: {self.reason}. Name another file with {self.option}"


@contextmanager
def tidy_errors() -> Iterator[None]:
    """Turn a `HeadraceError` into one message on stderr and exit code 2, and Ctrl-C into exit code 130."""
    try:
        yield
    except HeadraceError as error:
        print_stop(error)
        raise typer.Exit(ExitCode.WRONG_USE) from error
    except KeyboardInterrupt as error:
        error_console().print("Interrupted.")
        raise typer.Exit(ExitCode.INTERRUPTED) from error


def print_stop(error: HeadraceError) -> None:
    """Say on stderr what stopped a command."""
    error_console().print(f"Error: {error}", soft_wrap=True)


def exit_code_of_run(verdicts: dict[str, Verdict]) -> ExitCode:
    """The exit code for one run, which can not bring up every case: it is unknown only if nothing at all was judged."""
    if violations(verdicts):
        return ExitCode.VIOLATED
    return ExitCode.UNKNOWN if _all_unknown(verdicts.values()) else ExitCode.HOLDS


def exit_code_of_search(verification: Verification, may_be_unknown: Collection[str] = ()) -> ExitCode:
    """The exit code for a search, which has the time to bring up every case but those that the pipeline does not have.

    Args:
        verification: what it found.
        may_be_unknown: invariants whose case need not come up. A search that judged nothing at all is unknown, even so.
    """
    if verification.failure is not None:
        return ExitCode.VIOLATED
    missing = set(verification.unknown).difference(may_be_unknown)
    return ExitCode.UNKNOWN if missing or _all_unknown(verification.verdicts.values()) else ExitCode.HOLDS


def _all_unknown(verdicts: Iterable[Verdict]) -> bool:
    return all(isinstance(verdict, Unknown) for verdict in verdicts)
