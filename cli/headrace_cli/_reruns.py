"""A recorded trial that is made again: what is said of it, whatever its target is."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console

from headrace_cli._exit import ExitCode
from headrace_cli._files import OutputFiles
from headrace_cli._pictures import Showing
from headrace_cli._render import print_text
from headrace_properties.findings import FindingClass, Kind
from headrace_properties.kept_failures import shown
from headrace_properties.replays import Replay
from headrace_properties.search.limits import CodeLimits


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """How a recorded trial is made again, and what is shown of it.

    Attributes:
        path: of its file.
        showing: how to show it.
        limits: of each call of the user's code.
        promises: those to judge by; none: all.
        until: the event up to which it is shown; ``None``: its end.
        history: where its History is saved.
        when: whether to find the moment after which it fails whatever else happens.
        jobs: processes that share the runs of that; ``None``: as many as there are cores.
    """

    path: Path
    showing: Showing
    limits: CodeLimits
    promises: Sequence[str] = ()
    until: str | None = None
    history: Path | None = None
    when: bool = False
    jobs: int | None = None

    @property
    def wants_story(self) -> bool:
        """Whether an explanation, a picture or a part of the run is asked for."""
        return self.until is not None or self.showing.explain or self.showing.pictures


class Rerun(Protocol):
    """A recorded trial that was made again."""

    @property
    def replay(self) -> Replay:
        """What was recorded."""

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """What it shows now, the cause first."""

    @property
    def changes(self) -> tuple[str, ...]:
        """What it was recorded from and is not known to be the same today: ``code``, ``input``."""

    @property
    def stopped(self) -> KeyboardInterrupt | None:
        """The signal that stopped what was to be found out beside it."""

    def document(self) -> dict[str, Any]:
        """Return it as JSON, without its result."""

    def print(self, console: Console) -> None:
        """Print all but its headline."""

    def save(self, files: OutputFiles) -> None:
        """Save what is asked for."""


def code_of(rerun: Rerun) -> ExitCode:
    """Return the command's exit code."""
    if any(kind.finding_class is FindingClass.VIOLATED for kind in rerun.kinds):
        return ExitCode.VIOLATED
    return ExitCode.UNKNOWN if rerun.kinds or rerun.changes else ExitCode.HOLDS


def print_headline(console: Console, rerun: Rerun) -> None:
    """Print what has come of what was recorded."""
    code = code_of(rerun)
    if code is ExitCode.VIOLATED:
        print_text(console, f"VIOLATED again: {shown(rerun.kinds)}", style="bold red")
    elif rerun.kinds:
        print_text(console, f"UNDECLARED again: {shown(rerun.kinds)}", style="bold yellow")
    elif code is ExitCode.UNKNOWN:
        print_text(console, f"UNKNOWN: nothing is violated, but {_changed(rerun)}", style="bold yellow")
    else:
        print_text(console, "HOLDS: this run no longer violates anything", style="bold green")


def _changed(rerun: Rerun) -> str:
    """Say what is not as it was recorded."""
    what, replay = " and the ".join(rerun.changes), rerun.replay
    verb = "have" if len(rerun.changes) > 1 else "has"
    if replay.code_digest and replay.input_digest:
        return f"the {what} {verb} changed since"
    return f"whether the {what} {verb} changed is not recorded"
