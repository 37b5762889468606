"""End a command: its exit code, and the reports of errors and signals.

Rules of this file: an error that Headrace raises on purpose is one message on stderr and exit code 2, never a
traceback. Anything else that escapes is our own bug: `headrace_cli.main` reports it, with exit code 70.
"""

import enum
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from traceback import walk_tb

import typer

from headrace import HeadraceError
from headrace_cli.terminal.consoles import error_console
from headrace_cli.terminal.signals import signal_of
from headrace_properties.search.guard import EndsProcessError
from headrace_properties.search.judging import violations
from headrace_properties.search.limits import OverrunError
from headrace_properties.session import Result, Session
from headrace_properties.user_frames import is_users_file
from headrace_properties.verdict import Unknown, Verdict


class ExitCode(enum.IntEnum):
    """The command's exit code, on which CI can rely."""

    HOLDS = 0
    """Nothing is violated."""
    VIOLATED = 1
    """A failure changes what comes out, a promise is broken, something is lost or doubled, or code raises, hangs or escapes."""
    WRONG_USE = 2
    """The command line, a file or a pipeline is wrong, or output could not be written."""
    UNKNOWN = 3
    """Nothing is violated, but only the author can say what is meant, or something was never exercised."""
    DEFECT = 70
    """Headrace itself failed: no verdict. It says so, and where the report for its authors lies (``EX_SOFTWARE``)."""
    HUNG_UP = 129
    """SIGHUP, such as a closed terminal: 128 plus the signal's number, as in shells."""
    INTERRUPTED = 130
    """SIGINT (Ctrl-C)."""
    TERMINATED = 143
    """SIGTERM."""


RESULT_WORDS = {
    ExitCode.HOLDS: "holds",
    ExitCode.VIOLATED: "violated",
    ExitCode.UNKNOWN: "unknown",
    ExitCode.HUNG_UP: "hung up",
    ExitCode.INTERRUPTED: "interrupted",
    ExitCode.TERMINATED: "terminated",
}
"""The code's name in ``--json``."""


class UnknownChoiceError(HeadraceError):
    """There is nothing of this name. Fields: kind, such as ``scenario``, name, known."""

    def __init__(self, kind: str, name: str, known: tuple[str, ...]) -> None:
        super().__init__(kind, name, known)
        self.kind, self.name, self.known = kind, name, known

    def __str__(self) -> str:
        """List the names."""
        return f"there is no {self.kind} {self.name!r}. The {self.kind}s are: {', '.join(self.known)}"


class WrongOptionError(HeadraceError):
    """An option or argument has an unusable value, or goes with no other. Fields: option, problem, remedy."""

    def __init__(self, option: str, problem: str, remedy: str) -> None:
        super().__init__(option, problem, remedy)
        self.option, self.problem, self.remedy = option, problem, remedy

    def __str__(self) -> str:
        """Name the option, the problem and the remedy."""
        return f"{self.option}: {self.problem}. {self.remedy}"


class UnknownWithoutError(HeadraceError):
    """``--without`` does not accept this. Fields: name, known."""

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        super().__init__(name, known)
        self.name, self.known = name, known

    def __str__(self) -> str:
        """List what can be left out."""
        return f"--without accepts only {' or '.join(self.known)}, not {self.name}"


class UnwritableFileError(HeadraceError):
    """A file cannot be written. Fields: path, reason, option."""

    def __init__(self, path: str, reason: str, option: str = "--save") -> None:
        super().__init__(path, reason, option)
        self.path, self.reason, self.option = path, reason, option

    def __str__(self) -> str:
        """Name the file, the reason, and the option for another file."""
        return f"cannot write {self.path}: {self.reason}. Name another file with {self.option}"


class ExistingFileError(UnwritableFileError):
    """A file would be replaced without ``--force``. Fields: as `UnwritableFileError`."""

    def __str__(self) -> str:
        """Name the file, and both remedies."""
        return f"{super().__str__()}, or replace this one with --force"


@contextmanager
def tidy_errors() -> Iterator[None]:
    """Turn a `HeadraceError`, and user code that ends the command, into one message on stderr and exit code 2.

    A signal becomes 128 plus its number.
    """
    try:
        yield
    except HeadraceError as error:
        print_stop(error)
        raise typer.Exit(ExitCode.WRONG_USE) from error
    except (SystemExit, OverrunError) as end:
        if not any(is_users_file(frame.f_code.co_filename) for frame, _ in walk_tb(end.__traceback__)):
            raise
        said = (
            str(end)
            if isinstance(end, OverrunError | EndsProcessError)
            else f"your code raises SystemExit({end})"
        )
        error_console().print(f"Error: {said}", soft_wrap=True)
        raise typer.Exit(ExitCode.WRONG_USE) from end
    except KeyboardInterrupt as stop:
        code = ExitCode(128 + signal_of(stop))
        error_console().print(f"{RESULT_WORDS[code].capitalize()}.")
        raise typer.Exit(code) from stop


def print_stop(error: HeadraceError) -> None:
    """Report on stderr what stopped a command."""
    error_console().print(f"Error: {error}", soft_wrap=True)


def exit_code_of_run(verdicts: dict[str, Verdict]) -> ExitCode:
    """Return the exit code for one run, which cannot exercise everything: unknown only if nothing at all was judged."""
    if violations(verdicts):
        return ExitCode.VIOLATED
    return ExitCode.UNKNOWN if _all_unknown(verdicts.values()) else ExitCode.HOLDS


def exit_code_of_session(session: Session, stopped_by: signal.Signals | None, *, strict: bool) -> ExitCode:
    """Return the exit code for a session.

    Args:
        session: it.
        stopped_by: the signal that ended it early; ``None``: none.
        strict: whether a question to the author counts as violated.
    """
    if stopped_by is not None:
        return ExitCode(128 + stopped_by)
    match session.result:
        case Result.HOLDS:
            return ExitCode.HOLDS
        case Result.VIOLATED:
            return ExitCode.VIOLATED
        case Result.UNDECLARED:
            return ExitCode.VIOLATED if strict else ExitCode.UNKNOWN
        case Result.UNKNOWN:
            return ExitCode.UNKNOWN


def _all_unknown(verdicts: Iterable[Verdict]) -> bool:
    return all(isinstance(verdict, Unknown) for verdict in verdicts)
