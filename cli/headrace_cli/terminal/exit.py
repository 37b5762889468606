"""End a command: its exit code, and the reports of errors and signals.

Rules of this file: an error that Headrace raises on purpose is one message on stderr and exit code 2, never a
traceback. Anything else that escapes is our own bug, with exit code 70.
"""

import enum
from collections.abc import Iterable
from traceback import walk_tb

from headrace import HeadraceError
from headrace_cli.terminal.consoles import error_console
from headrace_cli.terminal.defects import report_defect
from headrace_cli.terminal.signals import STOPPED
from headrace_properties.search.guard import EndsProcessError
from headrace_properties.search.judging import violations
from headrace_properties.search.limits import OverrunError
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
    **{ExitCode(128 + number): word for number, word in STOPPED.items()},
}
"""The code's name in ``--json``."""


def ended_by(error: BaseException) -> ExitCode:
    """Report on stderr the error, the user code or the defect that has ended a command, and return its exit code."""
    if isinstance(error, HeadraceError):
        print_stop(error)
        return ExitCode.WRONG_USE
    frames = (frame.f_code.co_filename for frame, _ in walk_tb(error.__traceback__))
    if not (isinstance(error, SystemExit | OverrunError) and any(map(is_users_file, frames))):
        report_defect(error)
        return ExitCode.DEFECT
    explains = isinstance(error, OverrunError | EndsProcessError)
    said = str(error) if explains else f"your code raises SystemExit({error})"
    error_console().print(f"Error: {said}", soft_wrap=True)
    return ExitCode.WRONG_USE


def print_stop(error: HeadraceError) -> None:
    """Report on stderr what stopped a command."""
    error_console().print(f"Error: {error}", soft_wrap=True)


def exit_code_of_run(verdicts: dict[str, Verdict]) -> ExitCode:
    """Return the exit code for one run, which cannot exercise everything: unknown only if nothing at all was judged."""
    if violations(verdicts):
        return ExitCode.VIOLATED
    return ExitCode.UNKNOWN if _all_unknown(verdicts.values()) else ExitCode.HOLDS


def _all_unknown(verdicts: Iterable[Verdict]) -> bool:
    return all(isinstance(verdict, Unknown) for verdict in verdicts)
