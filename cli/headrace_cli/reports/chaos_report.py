"""The report of ``headrace chaos`` on a run, as text and as JSON."""

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from headrace_cli.terminal.documents import fields_of, finding_document
from headrace_cli.terminal.exit import RESULT_WORDS, ExitCode
from headrace_cli.terminal.render import (
    counted,
    plain_table,
    print_heading,
    print_lines,
    print_result,
    print_table,
    print_text,
)
from headrace_properties.verdict import Holds, Unknown, Verdict, Violated
from headrace_scenarios.chaos.chaos_run import ChaosReport, StrikeResult
from headrace_scenarios.chaos.plan import ChaosPlan

_CODES = {Holds: ExitCode.HOLDS, Violated: ExitCode.VIOLATED, Unknown: ExitCode.UNKNOWN}


@dataclass(frozen=True, slots=True)
class Chaos:
    """A run and its options.

    Attributes:
        target: ``MODULE:PIPELINE``.
        seed: seed for faults and input.
        without: the protections that were switched off.
        report: the result.
        directory: directory of its files, if they are kept.
    """

    target: str
    seed: int
    without: tuple[str, ...]
    report: ChaosReport
    directory: Path

    @property
    def code(self) -> ExitCode:
        """The command's exit code."""
        return _CODES[type(self.report.verdict)]

    def print(self, console: Console) -> None:
        """Print the report as text."""
        report = self.report
        left_out = f", without {' and '.join(self.without)}" if self.without else ""
        print_text(console, f"{self.target} on Spark, seed {self.seed}{left_out}", style="bold")
        counts = f"{counted(len(report.seen), 'fault')}, {counted(report.drivers, 'driver')}"
        print_text(console, f"{counts}, {report.elapsed_s:.0f} s")
        if report.seen:
            console.print()
            _print_strikes(console, report.seen)
        for finding in report.findings:
            print_heading(console, finding.kind.title)
            for line in finding.story:
                print_text(console, line, indent=2)
        console.print()
        print_result(console, f"{RESULT_WORDS[self.code].upper()}: {self._result()}", self.code)
        if self.directory.exists():
            print_lines(console, f"logs, checkpoint and outputs: {self.directory}")

    def _result(self) -> str:
        outcome = self.report.outcome
        if not isinstance(self.report.verdict, Holds):
            return _said(self.report.verdict)
        outputs, states = counted(outcome.outputs.total(), "output"), counted(len(outcome.states), "state")
        return f"{outputs} and {states} match the reference"

    def document(self) -> dict[str, Any]:
        """Return the report as a JSON document."""
        report = self.report
        return {
            "pipeline": self.target,
            "seed": self.seed,
            "without": self.without,
            "result": RESULT_WORDS[self.code],
            "verdict": _said(report.verdict),
            **fields_of(report, "plan", "drivers"),
            "faults": [_seen_document(seen) for seen in report.seen],
            "directory": self.directory if self.directory.exists() else None,
            "elapsed_s": round(report.elapsed_s, 3),
            "outputs": report.outcome.outputs.total(),
            "states": len(report.outcome.states),
            "findings": [finding_document(finding) for finding in report.findings],
        }


@dataclass(frozen=True, slots=True)
class StoppedChaos:
    """A run that a signal ended, and its options.

    Attributes:
        target: ``MODULE:PIPELINE``.
        seed: seed for faults and input.
        plan: the planned faults.
        seen: the effects of those that struck before.
        directory: directory of its files.
        stopped_by: the signal.
    """

    target: str
    seed: int
    plan: ChaosPlan
    seen: list[StrikeResult]
    directory: Path
    stopped_by: signal.Signals

    @property
    def code(self) -> ExitCode:
        """The command's exit code."""
        return ExitCode(128 + self.stopped_by)

    def print(self, console: Console) -> None:
        """Print what struck, and where the files are."""
        so_far = f"after {len(self.seen)} of {counted(len(self.plan.strikes), 'fault')}"
        words = f"{RESULT_WORDS[self.code].upper()} {so_far}; the output was not compared"
        print_result(console, words, self.code)
        print_text(console, f"{self.target} on Spark, seed {self.seed}")
        if self.seen:
            console.print()
            _print_strikes(console, self.seen)
        print_lines(console, f"logs, checkpoint and outputs so far: {self.directory}")

    def document(self) -> dict[str, Any]:
        """Return it as a JSON document."""
        return {
            "pipeline": self.target,
            "seed": self.seed,
            "result": RESULT_WORDS[self.code],
            "plan": self.plan,
            "faults": [_seen_document(seen) for seen in self.seen],
            "directory": self.directory,
        }


def _said(verdict: Verdict) -> str:
    match verdict:
        case Violated(message=message):
            return message
        case Unknown(why=why):
            return why
        case Holds(reached=reached):
            return f"{counted(reached, 'fault')} struck"


def _seen_document(seen: StrikeResult) -> Mapping[str, Any]:
    return {
        "strike": seen.strike,
        "struck": seen.struck,
        "recovered_s": round(seen.recovered_s, 3),
        "seen": seen.notes,
    }


def _print_strikes(console: Console, strikes: Sequence[StrikeResult]) -> None:
    table = plain_table("part", "fault", "when", "recovered", "observed", numbers=("part", "recovered"))
    for seen in strikes:
        strike = seen.strike
        struck = f"{seen.recovered_s:.1f} s" if seen.struck else "never struck"
        table.add_row(
            str(strike.part), Text(strike.verb), Text(strike.moment), struck, Text("; ".join(seen.notes))
        )  # fmt: skip
    print_table(console, table, indent=2)
