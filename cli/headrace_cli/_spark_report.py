"""The report of ``headrace verify`` on a Spark job or sink, for people and as JSON."""

import shlex
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console

from headrace_cli._documents import finding_document
from headrace_cli._exit import RESULT_WORDS, ExitCode, exit_code_of_session
from headrace_cli._render import print_lines
from headrace_properties.findings import Finding
from headrace_properties.session import Session

if TYPE_CHECKING:
    from headrace_properties.spark_jobs.targets import SparkReport
    from headrace_properties.spark_trials import SparkTrials
    from headrace_sim.spark.query.schedules import Feed


@dataclass(slots=True)
class SparkSearchReport:
    """What was found in a Spark job or sink.

    Attributes:
        trials: Of the job or sink.
        session: That made them.
        elapsed_s: Wall time, seconds.
        stopped_by: The signal that ended it early, or None.
        strict: Whether a question to the author counts as violated.
    """

    trials: "SparkTrials"
    session: Session
    elapsed_s: float
    stopped_by: signal.Signals | None = None
    strict: bool = False

    @property
    def _result(self) -> str:
        """The result in a word."""
        return RESULT_WORDS[self.code] if self.stopped_by is not None else self.session.result.value

    @property
    def _report(self) -> "SparkReport":
        """What came of the search."""
        report = self.trials.report
        assert report is not None
        return report

    @property
    def code(self) -> ExitCode:
        """The command's exit code."""
        return exit_code_of_session(self.session, self.stopped_by, strict=self.strict)

    @property
    def _notes(self) -> tuple[str, ...]:
        job, sink = self._report.job, self._report.sink
        return (*(job.notes if job else ()), *(sink.notes if sink else ()))

    def print(self, console: Console, *, verbose: bool = False) -> None:
        """Print it for people.

        Args:
            console: where to.
            verbose: with the whole input of each finding.
        """
        report = self._report
        for line in self.session.kept:
            print_lines(console, line)
        if report.job is not None:
            late = f"; up to {report.job.late:,} rows were late" if report.job.late else ""
            left_out = f"; {report.job.left_out}" if report.job.left_out else ""
            print_lines(console, f"{report.name}: {report.job.schedules:,} schedules{late}{left_out}")
        if report.sink is not None and report.sink.effects:
            effects = ", ".join(map(str, report.sink.effects))
            batches = f"{len(report.sink.effects)} batches"
            print_lines(console, f"{report.name}: a sink with {effects} effects in {batches}")
            print_lines(
                console, f"{report.sink.trials:,} trials: each effect of each batch under every fault"
            )
        for note in self._notes:
            print_lines(console, f"Note: {note}")
        for number, finding in enumerate(self.trials.findings):
            print_lines(console, f"\n{finding.finding_class.name}: {finding.kind.title}")
            print_lines(console, f"  {finding}")
            print_lines(console, f"  Seen in {_seen(finding)}.")
            if verbose:
                _print_input(console, finding, self.trials.target.feed)
            if (path := self.session.files.get(number)) is not None:
                print_lines(console, f"  headrace replay {shlex.quote(str(path))} --explain")
        for why in report.unknown:
            print_lines(console, f"\nUNKNOWN: {why}")
        print_lines(console, f"\n{self._result.capitalize()}, after {self.elapsed_s:.1f} s.")

    def document(self) -> dict[str, Any]:
        """Return it as JSON."""
        report, files = self._report, self.session.files
        return {
            "target": report.name,
            "result": self._result,
            "schedules": report.job.schedules if report.job else 0,
            "late": report.job.late if report.job else 0,
            "left_out": report.job.left_out if report.job else "",
            "trials": report.sink.trials if report.sink else 0,
            "effects": report.sink.effects if report.sink else (),
            "notes": self._notes,
            "kept": self.session.kept,
            "findings": [
                finding_document(finding) | {"replay_file": files.get(number)}
                for number, finding in enumerate(self.trials.findings)
            ],
            "unknown": report.unknown,
        }


def _print_input(console: Console, finding: Finding, feed: "Feed") -> None:
    from headrace_properties.spark_jobs.smaller_feeds import narrowed  # noqa: PLC0415

    for number, rows in enumerate(narrowed(feed, finding.trial.kept)):
        for row in rows:
            print_lines(console, f"  batch {number} has {row}")


def _seen(finding: Finding) -> str:
    fault, trials = getattr(finding.trial, "fault", None), finding.trials
    if fault.kind.value == "undisturbed" if fault else finding.trial.schedule is None:
        return "a run without faults"
    return f"{trials:,} {'trial' if fault else 'schedule'}{'s' * (trials != 1)}"
