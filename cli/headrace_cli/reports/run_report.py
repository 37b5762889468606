"""The report of ``headrace run``, for people and as JSON."""

import signal
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from headrace import MAX_TIME, SECOND, Pipeline
from headrace_cli.options.run_options import HostName
from headrace_cli.runs.hosts import HostOptions, HostRun
from headrace_cli.runs.jobs import Job
from headrace_cli.runs.output_file import output_lines
from headrace_cli.terminal.documents import invariants_document, progress_document
from headrace_cli.terminal.exit import RESULT_WORDS, ExitCode
from headrace_cli.terminal.render import (
    counted,
    plain_table,
    print_differences,
    print_dropped,
    print_heading,
    print_lines,
    print_table,
    print_text,
    print_violations,
)
from headrace_properties.reference import Emitted
from headrace_properties.search.judging import violations
from headrace_properties.user_code.comparison import OutputComparison
from headrace_properties.verdict import Holds, Verdict
from headrace_scenarios.shipped import DataReport, JobInput

_SIDES = {"first": "only here", "second": "only there"}


@dataclass(slots=True)
class Ran:
    """A run, with its output.

    Attributes:
        job: what was run.
        host: where.
        options: of the host.
        input: what it was given.
        run: its result.
        elapsed_s: wall time, seconds.
        report: what the job found, if it comes with a report.
        compared_with: what its output was compared with: a host or an earlier output.
        comparison: with that.
        compared_until_us: as far as both had their input, event time in microseconds; `MAX_TIME`: to the end.
        other: the run on the other host, if it was one.
        files: what was written.
    """

    job: Job
    host: HostName
    options: HostOptions
    input: JobInput
    run: HostRun
    elapsed_s: float
    report: DataReport | None = None
    compared_with: str = ""
    comparison: OutputComparison | None = None
    compared_until_us: int = MAX_TIME
    other: "Ran | None" = None
    files: tuple[Path, ...] = ()

    @property
    def differs(self) -> bool:
        """Whether its output differs from the one that it was compared with."""
        return self.comparison is not None and not self.comparison.same

    @property
    def violated(self) -> bool:
        """Whether an invariant is violated, in this run or in the one that it was compared with."""
        here = bool(violations(dict(self.run.verdicts)))
        return here or (self.other is not None and self.other.violated)

    @property
    def stopped_by(self) -> signal.Signals | None:
        """The signal that has ended this run, or that on the other host, before its end; ``None``: none."""
        there = self.other.stopped_by if self.other is not None else None
        return self.run.stopped_by or there

    @property
    def code(self) -> ExitCode:
        """The command's exit code."""
        if self.stopped_by is not None:
            return ExitCode(128 + self.stopped_by)
        return ExitCode.VIOLATED if self.violated or self.differs else ExitCode.HOLDS

    @property
    def result(self) -> str:
        """Its name in ``--json``."""
        if self.stopped_by is not None:
            return RESULT_WORDS[self.code]
        if self.violated:
            return "violated"
        return "differs" if self.differs else "done"

    def print(self, console: Console) -> None:
        """Print it for people."""
        _print_run(console, self)
        for paragraph in self.report.about() if self.report is not None else ():
            print_text(console, paragraph)
        _print_streams(console, self.run.outputs, self.job.pipeline)
        if self.report is not None:
            _print_report(console, self.report)
        if self.other is not None:
            console.print()
            _print_run(console, self.other)
        if self.comparison is not None:
            console.print()
            _print_comparison(console, self, self.comparison)
        if self.files:
            print_heading(console, "Written")
            print_lines(console, "\n".join(map(str, self.files)), indent=2)

    def document(self) -> dict[str, Any]:
        """Return it as JSON."""
        document: dict[str, Any] = {
            "pipeline": self.job.name,
            "seed": self.options.seed,
            "result": self.result,
            **_run_document(self),
            "comparison": _comparison_document(self),
            "files": self.files,
        }
        if self.report is not None:
            document["findings"] = self.report.document()
        return document


def _print_run(console: Console, ran: Ran) -> None:
    """Print what ran where, which faults took effect, and the verdicts."""
    records, sent = counted(ran.input.feed.records, "record"), f"{ran.run.outputs.total():,}"
    title = f"{ran.job.name} on {ran.host}: {records} in, {sent} out, {ran.elapsed_s:.1f} s"
    print_text(console, title, style="bold")
    for note in ran.run.notes:
        print_text(console, note)
    if ran.options.faults:
        struck = ", ".join(f"{count:,} {kind}" for kind, count in ran.run.struck.items()) or "none"
        print_text(console, f"faults that struck: {struck}")
    print_dropped(console, ran.run.dropped)
    if ran.run.verdicts:
        _print_verdicts(console, ran.run.verdicts, whole=ran.run.stopped_by is None)


def _print_verdicts(console: Console, verdicts: Mapping[str, Verdict], *, whole: bool) -> None:
    broken = violations(dict(verdicts))
    if broken:
        print_text(console, f"VIOLATED: {', '.join(broken)}", style="bold red")
        print_violations(console, verdicts)
        return
    held = sum(isinstance(verdict, Holds) for verdict in verdicts.values())
    judged = f"{held} of {len(verdicts)} invariants and promises were exercised, none is violated"
    style = "bold green" if held and whole else "bold yellow"
    print_text(console, f"HOLDS: {judged}" if whole else f"STOPPED: {judged} so far", style=style)


def _print_streams(console: Console, outputs: Counter[Emitted], pipeline: Pipeline) -> None:
    print_heading(console, "Output")
    table = plain_table("stream", "records", numbers=("records",))
    for stream, count in _per_stream(outputs, pipeline).items():
        table.add_row(stream, f"{count:,}")
    print_table(console, table, indent=2)


def _print_report(console: Console, report: DataReport) -> None:
    heading, *lines = report.lines() or [""]
    if heading:
        print_heading(console, heading)
        print_lines(console, "\n".join(lines), indent=2)
    print_text(console, report.summary(), indent=2)


def _per_stream(outputs: Counter[Emitted], pipeline: Pipeline) -> dict[str, int]:
    counts = dict.fromkeys(pipeline.output_streams, 0)
    for output, count in outputs.items():
        counts[output.stream] += count
    return counts


def _print_comparison(console: Console, ran: Ran, comparison: OutputComparison) -> None:
    both = f"{ran.host} and {ran.compared_with}"
    if comparison.same:
        words = f"SAME OUTPUT: {both} agree on each of {counted(comparison.common, 'record')}{_until(ran)}"
        print_text(console, words, style="bold green")
        return
    differ = counted(comparison.differing, "record")
    words = f"DIFFERENT OUTPUT: {both} differ in {differ} and agree on {comparison.common:,}{_until(ran)}"
    print_text(console, words, style="bold red")
    print_differences(console, comparison, *_SIDES.values())


def _until(ran: Ran) -> str:
    if ran.compared_until_us == MAX_TIME:
        return ""
    then = datetime.fromtimestamp(ran.compared_until_us / SECOND, UTC)
    return f" until {then:%Y-%m-%d %H:%M} UTC, as far as both had their input"


def _run_document(ran: Ran) -> dict[str, Any]:
    return {
        "host": ran.host,
        "elapsed_s": round(ran.elapsed_s, 3),
        "records": ran.input.feed.records,
        "outputs": _per_stream(ran.run.outputs, ran.job.pipeline),
        "notes": ran.run.notes,
        "progress": progress_document(ran.run.progress),
        "faults_struck": ran.run.struck,
        "dropped": dict(sorted(ran.run.dropped.items())),
        "invariants": invariants_document(ran.run.verdicts),
    }


def _comparison_document(ran: Ran) -> dict[str, Any] | None:
    comparison = ran.comparison
    if comparison is None:
        return None
    return {
        "with": ran.compared_with,
        "other": None if ran.other is None else _run_document(ran.other),
        "same": comparison.same,
        "common": comparison.common,
        "only_here": comparison.only_first.total(),
        "only_there": comparison.only_second.total(),
        "examples": [
            {"side": _SIDES[side], **msgspec.json.decode(line)}
            for side, record in comparison.examples()
            for line in output_lines(Counter([record]), ran.job.pipeline)
        ],
    }
