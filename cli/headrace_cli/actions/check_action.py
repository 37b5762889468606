"""The work of ``headrace check``."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from headrace.api.errors import did_you_mean
from headrace.histories import End, HistoryReader, Tells
from headrace.history import RunEnded
from headrace_cli.reports.log_report import answered, check_spark_logs
from headrace_cli.targets.loading import load_named_promises, load_pipeline, load_promises
from headrace_cli.terminal.consoles import error_console
from headrace_cli.terminal.documents import (
    fields_of,
    invariants_document,
    show,
    stdout_reserved,
)
from headrace_cli.terminal.exit import RESULT_WORDS, ExitCode, exit_code_of_run
from headrace_cli.terminal.live_progress import RunProgress
from headrace_cli.terminal.render import (
    counted,
    print_heading,
    print_lines,
    print_questions,
    print_result,
    print_text,
    print_verdicts,
    print_violations,
)
from headrace_cli.terminal.signals import StopRequest, stop_requested
from headrace_cli.terminal.usage_errors import WrongOptionError
from headrace_properties.histories.batch_checks import SPARK_CHECKS
from headrace_properties.histories.file_judge import NOT_TOLD, FileJudge
from headrace_properties.histories.micro_batches import is_spark_log
from headrace_properties.search.judging import violations
from headrace_properties.verdict import Unknown, Verdict, Violated


def check_history(
    history: Path,
    pipeline: str | None,
    promises: str | None,
    allow: str | None,
    *,
    follow: bool,
    as_json: bool,
) -> ExitCode:
    """Judge a recorded run, print the verdicts, and return the exit code."""
    if is_spark_log(history):
        _refuse_for_spark(pipeline=pipeline, promises=promises, follow=follow)
        return check_spark_logs(history, _allowed(allow, SPARK_CHECKS), as_json=as_json)
    with stdout_reserved():
        ran = [load_pipeline(pipeline)] if pipeline else None
        meant = (load_promises(pipeline) if pipeline else ()) + (
            load_named_promises(promises) if promises else ()
        )
        with HistoryReader(history, growing=follow) as reader, stop_requested() as stop:
            _await_header(reader, stop)
            judge = FileJudge(reader.header, history, ran, meant)
            checked = Checked(history, reader, judge, stop, _allowed(allow, judge.verdicts()))
            if follow:
                error_console().print(f"Following {history}; Ctrl-C ends it.", soft_wrap=True)
            _judge(checked, follow=follow)
    show(checked.document, checked.print, as_json=as_json)
    return checked.code


_PERIOD_LINES = 2_000
"""Choice: progress is shown, and a growing file judged, once in this many lines."""

_POLL_S = 0.2
"""Choice: how often a growing file is looked at."""


@dataclass(slots=True)
class Checked:
    """The verdicts on a file.

    Attributes:
        path: the file.
        reader: read it.
        judge: judged it.
        stop: what interrupted it, if anything.
        allowed: the checks whose questions are answered.
        ended: whether the run's last line was met.
    """

    path: Path
    reader: HistoryReader
    judge: FileJudge
    stop: StopRequest
    allowed: frozenset[str] = frozenset()
    ended: bool = False

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """All verdicts, without the questions that are answered."""
        return answered(self.judge.verdicts(), self.allowed)

    @property
    def code(self) -> ExitCode:
        """The command's exit code."""
        code = exit_code_of_run(self.verdicts)
        if code is not ExitCode.VIOLATED and self.stop.signal is not None:
            return ExitCode(128 + self.stop.signal)
        return ExitCode.UNKNOWN if code is ExitCode.HOLDS and self.open else code

    @property
    def open(self) -> dict[str, Unknown]:
        """Questions that a History of records leaves to its author."""
        if self.reader.header.tells is Tells.STEPS:
            return {}
        return {
            name: verdict
            for name, verdict in self.verdicts.items()
            if isinstance(verdict, Unknown) and verdict.cut_short
        }

    def document(self) -> dict[str, Any]:
        """Return it for ``--json``."""
        header, verdicts = self.reader.header, self.verdicts
        invariants = invariants_document(verdicts)
        for name, verdict in verdicts.items():
            if isinstance(verdict, Violated):
                invariants[name]["lines"] = self._lines(verdict)
        return {
            "history": self.path,
            **fields_of(header, "pipeline", "host", "tells"),
            "lines": self.reader.number,
            "ended": self.ended,
            "result": RESULT_WORDS[self.code],
            "invariants": invariants,
        }

    def _lines(self, verdict: Violated) -> list[int]:
        return [self.judge.line_of(event) for event in verdict.witness]

    def print(self, console: Console) -> None:
        """Print it for people."""
        header, verdicts = self.reader.header, self.verdicts
        broken = violations(verdicts)
        questions = self.open
        named = broken or (questions if self.code is ExitCode.UNKNOWN else {})
        names = f": {', '.join(named)}" if named else ""
        print_result(console, f"{RESULT_WORDS[self.code].upper()}{names}", self.code)
        on = f" on {header.host}" if header.host else ""
        ended = (
            "" if self.ended else "; the run has not ended in it, so nothing can be said to be lost or stuck"
        )
        print_lines(
            console, f"{self.path}: {header.pipeline}{on}, {counted(self.reader.number, 'line')}{ended}"
        )
        decided = {name: verdict for name, verdict in verdicts.items() if verdict != Unknown(NOT_TOLD)}
        print_heading(console, "Verdicts")
        print_verdicts(console, decided | dict.fromkeys(questions, Unknown("see below")))
        if len(decided) < len(verdicts):
            rest = counted(len(verdicts) - len(decided), "further invariant")
            print_text(console, f"{rest} cannot be told from a History of records.", indent=2)
        print_questions(console, questions)
        print_violations(console, verdicts, witnesses=True)
        for name, verdict in broken.items():
            places = ", ".join(f"line {line:,}" for line in self._lines(verdict))
            if places:
                print_lines(console, f"{name}: see {places} of the file", indent=2)


def _allowed(names: str | None, known: Iterable[str]) -> frozenset[str]:
    """Return the checks that are named."""
    asked = [name.strip() for name in (names or "").split(",") if name.strip()]
    known = list(known)
    unknown = [name for name in asked if name not in known]
    if unknown:
        problem = f"no check of this file is called {', '.join(map(repr, unknown))}"
        raise WrongOptionError(
            "--allow", problem, f"{did_you_mean(unknown[0], known)}Its checks are: {', '.join(known)}"
        )
    return frozenset(asked)


def _refuse_for_spark(**options: object) -> None:
    for name, value in options.items():
        if value:
            problem = "a log of Spark has micro-batches, and no records or states to judge"
            remedy = "Leave it out, or record a History (docs/how-to/histories.md)"
            raise WrongOptionError(f"--{name}", problem, remedy)


def _await_header(reader: HistoryReader, stop: StopRequest) -> None:
    while not reader.open_header():
        if stop():
            raise KeyboardInterrupt
        time.sleep(_POLL_S)


def _judge(checked: Checked, *, follow: bool) -> None:
    with RunProgress(f"checking {checked.path.name}") as progress:
        for _ in _pieces(checked):
            progress.advance(checked.reader.position / max(checked.reader.size_bytes, 1))
            if checked.stop() or (follow and violations(checked.verdicts)):
                return
        while follow and not (checked.ended or checked.reader.sealed or checked.stop()):
            time.sleep(_POLL_S)
            for _ in _pieces(checked):
                if violations(checked.verdicts):
                    return


def _pieces(checked: Checked) -> Iterator[None]:
    """Judge the lines of a file. Yield now and then, and at its end."""
    for number, line in checked.reader.lines():
        checked.judge.take(number, line)
        checked.ended |= isinstance(line, RunEnded | End)
        if number % _PERIOD_LINES == 0:
            yield
    yield
