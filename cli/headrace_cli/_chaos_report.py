"""The report of ``headrace chaos`` on a run, as text and as JSON."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from headrace_cli._documents import fields_of, invariants_document
from headrace_cli._exit import RESULT_WORDS, ExitCode
from headrace_cli._render import (
    counted,
    plain_table,
    print_differences,
    print_heading,
    print_lines,
    print_result,
    print_table,
    print_text,
    print_violations,
)
from headrace_properties.verdict import Holds, Unknown, Verdict, Violated
from headrace_scenarios.chaos.run import ChaosReport, StrikeResult

_CODES = {Holds: ExitCode.HOLDS, Violated: ExitCode.VIOLATED, Unknown: ExitCode.UNKNOWN}
_EXAMPLES = 10


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
        report, findings = self.report, self.report.findings
        left_out = f", without {' and '.join(self.without)}" if self.without else ""
        print_text(console, f"{self.target} on Spark, seed {self.seed}{left_out}", style="bold")
        counts = f"{counted(len(report.seen), 'fault')}, {counted(report.drivers, 'driver')}, {report.batches} micro-batches"
        print_text(console, f"{counts}, {report.elapsed_s:.0f} s")
        if report.seen:
            console.print()
            _print_strikes(console, report.seen)
        _print_differences(console, report)
        print_violations(console, findings.verdicts)
        console.print()
        print_result(console, f"{RESULT_WORDS[self.code].upper()}: {self._result()}", self.code)
        if self.directory.exists():
            print_lines(console, f"logs, checkpoint and outputs: {self.directory}")

    def _result(self) -> str:
        findings = self.report.findings
        if not isinstance(self.report.verdict, Holds):
            return _said(self.report.verdict)
        held = sum(isinstance(verdict, Holds) for verdict in findings.verdicts.values())
        invariants = f"{held} of {len(findings.verdicts)} invariants were exercised, none violated"
        return (
            f"{counted(findings.outputs.common, 'output')} and {counted(findings.states_compared, 'state')} match the reference, "
            f"and {invariants if findings.verdicts else 'no invariant was checked, for want of a History'}"
        )

    def document(self) -> dict[str, Any]:
        """Return the report as a JSON document."""
        report, findings = self.report, self.report.findings
        return {
            "pipeline": self.target,
            "seed": self.seed,
            "without": self.without,
            "result": RESULT_WORDS[self.code],
            "verdict": _said(report.verdict),
            **fields_of(report, "plan", "drivers", "batches"),
            "faults": [_seen_document(seen) for seen in report.seen],
            "directory": self.directory if self.directory.exists() else None,
            "elapsed_s": round(report.elapsed_s, 3),
            "outputs": {
                "common": findings.outputs.common,
                "missing": findings.outputs.only_first.total(),
                "extra": findings.outputs.only_second.total(),
            },
            "states": {
                "compared": findings.states_compared,
                "differing": [f"{state.computation}/{state.key}" for state in findings.states],
            },
            "events": findings.events,
            "invariants": invariants_document(findings.verdicts),
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


def _print_strikes(console: Console, strikes: tuple[StrikeResult, ...]) -> None:
    table = plain_table("part", "fault", "when", "recovered", "observed", numbers=("part", "recovered"))
    for seen in strikes:
        strike = seen.strike
        struck = f"{seen.recovered_s:.1f} s" if seen.struck else "never struck"
        table.add_row(
            str(strike.part), Text(strike.verb), Text(strike.moment or "between batches"), struck, Text("; ".join(seen.notes))
        )  # fmt: skip
    print_table(console, table, indent=2)


def _print_differences(console: Console, report: ChaosReport) -> None:
    findings = report.findings
    if findings.outputs.same and not findings.states:
        return
    print_heading(console, "Differences from the reference")
    print_differences(console, findings.outputs, "missing", "extra")
    for state in findings.states[:_EXAMPLES]:
        found, expected = (
            None if data is None else data.decode(errors="backslashreplace") for data in (state.found, state.expected)
        )  # fmt: skip
        print_text(
            console, f"state of {state.computation} {state.key!r}: {found}, expected {expected}", indent=2
        )
