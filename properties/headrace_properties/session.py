"""One verification of one target, whoever asks: review its code, try what was kept, search, and keep what is found.

Rules of this file:

* Failures of earlier searches are tried before the search. One that fails again ends a search that stops at its first failure.
* What is found is kept as a replay file. A directory that cannot be written hides no verdict, and is reported once.
* A signal may stop a session at any time: it has what was found so far.
"""

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from headrace_properties.findings import Finding, FindingClass
from headrace_properties.kept_failures import KeptFailures, Retried


class Result(enum.Enum):
    """The result of a session."""

    HOLDS = "holds"
    VIOLATED = "violated"
    UNDECLARED = "undeclared"
    UNKNOWN = "unknown"


class Trials(Protocol):
    """The trials of one target in one session, and what they have shown so far."""

    def review(self) -> None:
        """Look at what needs no faults."""

    def retry(self, kept: KeptFailures) -> Sequence[Retried]:
        """Try kept failures again."""

    def search(self) -> None:
        """Make the trials, unless what is known already makes them useless or harmful."""

    @property
    def findings(self) -> Sequence[Finding]:
        """What is found, the cause first."""

    @property
    def leading(self) -> Finding | None:
        """The finding that is reported first, or None."""

    def replay(self, finding: Finding) -> bytes | None:
        """Write a finding for a file; ``None``: no single trial shows it again."""

    def file_of(self, finding: Finding) -> Path | None:
        """Return the file of a kept failure that is found again; ``None``: the finding is new."""

    def why_not_kept(self, finding: Finding) -> str:
        """Return why later sessions do not try a new finding again; ``""``: they do."""

    def told(self, finding: Finding) -> str:
        """Tell a finding in paragraphs."""

    @property
    def is_open(self) -> bool:
        """Whether something that was to be judged was not judged."""


class Memory:
    """Keeps failures, and retires those that no longer fail. An unwritable directory is reported once and changes no result.

    Args:
        failures: where; ``None``: nowhere, as no file could name the target.
        complain: told of the error if the directory cannot be written.
        writable: whether files may be written there.

    Attributes:
        failures: where.
        refused: why the directory could not be written; ``None``: it could.
    """

    def __init__(
        self,
        failures: KeptFailures | None,
        complain: Callable[[OSError], None] = lambda _: None,
        *,
        writable: bool = True,
    ) -> None:
        self.failures = failures
        self.refused: OSError | None = None
        self._complain = complain
        self._writable = writable and failures is not None

    def keep(self, data: bytes) -> Path | None:
        """Keep a failure as a replay file, and return the file's path if it could be written."""
        if not self._writable or self.failures is None:
            return None
        try:
            return self.failures.keep(data)
        except OSError as error:
            self._give_up(error)
            return None

    def retry(self, trials: Trials) -> tuple[str, ...]:
        """Retry kept failures, and retire those that pass; return a line for each, and for each file that could not be read."""
        if self.failures is None:
            return ()
        return (*map(self._settled, trials.retry(self.failures)), *self.failures.unreadable())

    def _settled(self, retried: Retried) -> str:
        if not retried.passed or not self._writable or self.failures is None:
            return str(retried)
        try:
            return f"{retried}; moved to {self.failures.retire(retried.path).parent}"
        except OSError as error:
            self._give_up(error)
            return str(retried)

    def _give_up(self, error: OSError) -> None:
        self._writable, self.refused = False, error
        self._complain(error)


@dataclass(slots=True)
class Session:
    """One verification.

    Attributes:
        trials: of the target.
        memory: what was found before, and keeps what is found now.
        kept: a line for each failure that was kept.
        files: the replay file of each finding that has one, by its number.
    """

    trials: Trials
    memory: Memory
    kept: tuple[str, ...] = ()
    files: dict[int, Path] = field(default_factory=dict)

    def run(self) -> None:
        """Review, try what was kept, and search."""
        self.trials.review()
        self.kept = self.memory.retry(self.trials)
        self.trials.search()

    @property
    def result(self) -> Result:
        """Its result so far."""
        classes = {finding.finding_class for finding in self.trials.findings}
        if FindingClass.VIOLATED in classes:
            return Result.VIOLATED
        if FindingClass.UNDECLARED in classes:
            return Result.UNDECLARED
        return Result.UNKNOWN if self.trials.is_open else Result.HOLDS

    def keep(self) -> None:
        """Keep what is found."""
        for number, finding in enumerate(self.trials.findings):
            path = self.trials.file_of(finding)
            if path is None and not self.trials.why_not_kept(finding):
                data = self.trials.replay(finding)
                path = None if data is None else self.memory.keep(data)
            if path is not None:
                self.files[number] = path
