"""A recorded trial that is made again: what is asked for, and what is said of it, whatever its target is."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from headrace_cli.options.showing import Showing
from headrace_cli.terminal.exit import ExitCode
from headrace_cli.terminal.files import OutputFiles
from headrace_cli.terminal.render import print_result
from headrace_properties.findings import FindingClass, Kind
from headrace_properties.kept_failures import shown
from headrace_properties.replays import ReplayFile
from headrace_properties.search.limits import CodeLimits


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """The options for repeating a recorded trial.

    Attributes:
        path: of its file.
        showing: how to show it.
        limits: of each call of the user's code.
        promises: those to judge by; none: all.
        until: the event up to which it is shown; ``None``: its end.
        history: where its History is saved.
        when: whether to find the moment after which it fails whatever else happens.
        jobs: processes that share the runs of that; ``None``: as many as there are cores.
        environment: variables of a program, ``NAME=VALUE`` each.
        context: the command's, which ends with it.
    """

    path: Path
    showing: Showing
    limits: CodeLimits
    promises: Sequence[str] = ()
    until: str | None = None
    history: Path | None = None
    when: bool = False
    jobs: int | None = None
    environment: Sequence[str] = ()
    context: typer.Context | None = None


@dataclass(frozen=True, slots=True)
class Rerun:
    """A recorded trial, repeated.

    Attributes:
        kinds: what it shows now, the cause first.
        changes: what it was recorded from and is not known to be the same today: ``code``, ``input``.
        document: returns it as JSON, without its result.
        tell: prints all but its headline.
        save: saves what is asked for.
        stopped: the signal that stopped what was to be found out beside it.
    """

    kinds: tuple[Kind, ...]
    changes: tuple[str, ...]
    document: Callable[[], Mapping[str, Any]]
    tell: Callable[[Console], None]
    save: Callable[[OutputFiles], None] = lambda _: None
    stopped: KeyboardInterrupt | None = None

    @property
    def code(self) -> ExitCode:
        """The command's exit code."""
        if any(kind.finding_class is FindingClass.VIOLATED for kind in self.kinds):
            return ExitCode.VIOLATED
        return ExitCode.UNKNOWN if self.kinds or self.changes else ExitCode.HOLDS


def print_headline(console: Console, rerun: Rerun, replay: ReplayFile) -> None:
    """Print whether the recorded failure shows again."""
    if rerun.kinds:
        said = (
            f"{'VIOLATED' if rerun.code is ExitCode.VIOLATED else 'UNDECLARED'} again: {shown(rerun.kinds)}"
        )
    elif rerun.changes:
        verb = "have" if len(rerun.changes) > 1 else "has"
        known = "since" if replay.code_digest and replay.input_digest else "is not recorded"
        whether = "" if known == "since" else "whether "
        said = f"UNKNOWN: nothing is violated, but {whether}the {' and the '.join(rerun.changes)} {verb} changed {known}"
    else:
        said = "HOLDS: this run no longer violates anything"
    print_result(console, said, rerun.code)
