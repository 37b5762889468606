"""The end of a search, of whatever target: its result, its exit code, and its time."""

import signal
from dataclasses import dataclass

from headrace_cli.terminal.exit import RESULT_WORDS, ExitCode
from headrace_properties.session import Result, Session

_CODES = {
    Result.HOLDS: ExitCode.HOLDS,
    Result.VIOLATED: ExitCode.VIOLATED,
    Result.UNDECLARED: ExitCode.UNKNOWN,
    Result.UNKNOWN: ExitCode.UNKNOWN,
}


@dataclass(frozen=True, slots=True)
class SearchEnd:
    """How a search ended.

    Attributes:
        session: the session.
        elapsed_s: wall time, seconds.
        runs_per_second: wall-clock rate of a pipeline's runs, with those that shrank a failure.
        stopped_by: the signal that ended it early; ``None``: none.
        shrinking: whether a failure was being shrunk at that time.
        strict: whether a question to the author counts as violated.
    """

    session: Session
    elapsed_s: float
    runs_per_second: float = 0.0
    stopped_by: signal.Signals | None = None
    shrinking: bool = False
    strict: bool = False

    @property
    def code(self) -> ExitCode:
        """The command's exit code."""
        if self.stopped_by is not None:
            return ExitCode(128 + self.stopped_by)
        result = self.session.result
        return ExitCode.VIOLATED if self.strict and result is Result.UNDECLARED else _CODES[result]

    @property
    def result(self) -> str:
        """The result in a word."""
        return RESULT_WORDS[self.code] if self.stopped_by is not None else self.session.result.value
