"""``millrace run``: run a pipeline on a host, from an input to an output, and compare what two hosts make of it."""

import sys
import time
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console

from millrace import MAX_TIME, SECOND, Pipeline, UserCodeError
from millrace_cli._consoles import error_console, output_console
from millrace_cli._documents import invariants_document, print_document, stdout_reserved
from millrace_cli._exit import ExitCode, UnwritableFileError, print_stop, tidy_errors
from millrace_cli._flights_report import draw_chart, findings_document, print_findings, print_flights
from millrace_cli._hosts import HOSTS, HostName, HostOptions, HostRun
from millrace_cli._input import InputOptions
from millrace_cli._jobs import ZEITGEIST, Job, JobError, JobInput, load_job
from millrace_cli._output import SUFFIX, output_lines, read_outputs, write_outputs
from millrace_cli._progress import RunProgress
from millrace_cli._render import (
    counted,
    plain_table,
    print_heading,
    print_lines,
    print_table,
    print_text,
    print_violations,
)
from millrace_properties.comparison import OutputComparison, same_output
from millrace_properties.reference import Emitted
from millrace_properties.verification import violations
from millrace_scenarios.flight_findings import Findings, find

RUN_EXAMPLES = """[bold]Examples[/]

  millrace run zeitgeist --on sim --faults 30 --compare reference

  millrace run my_job:pipeline --on sim --input clicks.jsonl --output counts/

  millrace run my_job:pipeline --on reference --input clicks.jsonl --timestamp time --key user --slack 60 --output -

[bold]Exit codes[/]

  0 done, 1 an invariant is violated, or the outputs differ, or your code failed, 2 wrong use"""

_SIDES = {"first": "only here", "second": "only there"}


@dataclass(slots=True)
class Ran:
    """A run, and what became of its output.

    Attributes:
        job: what was run.
        host: where.
        options: of the host.
        input: what it was given.
        run: what it came to.
        elapsed_s: wall time, seconds.
        findings: what Zeitgeist found, if it was that.
        compared_with: the other run's name, if there is one.
        comparison: with the other run.
        files: what was written.
    """

    job: Job
    host: HostName
    options: HostOptions
    input: JobInput
    run: HostRun
    elapsed_s: float
    findings: Findings | None = None
    compared_with: str = ""
    comparison: OutputComparison | None = None
    files: tuple[Path, ...] = ()

    @property
    def differs(self) -> bool:
        """The other run came to something else."""
        return self.comparison is not None and not self.comparison.same

    @property
    def code(self) -> ExitCode:
        """The command's exit code."""
        broken = violations(dict(self.run.verdicts))
        return ExitCode.VIOLATED if broken or self.differs else ExitCode.HOLDS

    @property
    def result(self) -> str:
        """What ``--json`` calls it."""
        if violations(dict(self.run.verdicts)):
            return "violated"
        return "differs" if self.differs else "done"


def run(
    pipeline: Annotated[
        str,
        typer.Argument(
            metavar="zeitgeist|MODULE:PIPELINE", help="Zeitgeist over real flights, or your own pipeline."
        ),
    ],
    on: Annotated[HostName, typer.Option("--on", help="Where to run it.")] = HostName.SIM,
    input_file: Annotated[
        Path | None,
        typer.Option("--input", metavar="FILE.jsonl", help="JSON lines with value and timestamp each."),
    ] = None,
    feed: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Without --input: the module's function that makes the input."),
    ] = None,
    stream: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Stream of the records. Default: the injector's first."),
    ] = None,
    key: Annotated[
        str | None, typer.Option(metavar="FIELD", help="Field of the lines that is the key.")
    ] = None,
    timestamp: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD", help="Field of the lines that is the timestamp; the line is the value then."
        ),
    ] = None,
    slack: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=0,
            help="The low watermark is so far behind the newest timestamp. Default: it waits for the end.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="DIR|FILE.jsonl|-", help="Where the output goes; -: to stdout."),
    ] = None,
    compare: Annotated[
        str | None,
        typer.Option(metavar="HOST|PATH", help="Run it there too, or read an output, and compare."),
    ] = None,
    faults: Annotated[
        int, typer.Option(min=0, help="So many faults, drawn from the seed; in the simulated cluster only.")
    ] = 0,
    seed: Annotated[int, typer.Option(help="Of the faults, the cluster, and the input that is made.")] = 0,
    until: Annotated[
        datetime | None,
        typer.Option(
            formats=["%Y-%m-%d"], help="Zeitgeist: the day after the last. Default on sim: 2013-02-15."
        ),
    ] = None,
    chart: Annotated[
        Path | None, typer.Option(metavar="FILE.svg|FILE.png", help="Zeitgeist: draw expected and actual.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,  # noqa: FBT002  typer's way
) -> None:
    """Run a pipeline on a host, write what it puts out, and compare hosts record by record.

    On sim, the simulated cluster, the run is judged as well. The reference runs one record at a time.
    """
    with tidy_errors():
        _check_stdout(output, as_json=as_json)
        reading = InputOptions(stream, key, timestamp, None if slack is None else round(slack * SECOND))
        with stdout_reserved(as_json or output == Path("-")):
            job = load_job(pipeline, seed, input_file, reading, until.date() if until else None, feed)
            charts = _charts(job, output, chart)
            _prepare(output)
            ran = _run(job, on, HostOptions(seed, faults))
            _compare(ran, compare)
        ran.files = _write(ran, output, charts)
        if as_json:
            print_document(_document(ran))
        else:
            _print(error_console() if output == Path("-") else output_console(), ran)
        raise typer.Exit(ran.code)


def _check_stdout(output: Path | None, *, as_json: bool) -> None:
    if as_json and output == Path("-"):
        raise JobError("--json", "--output - wants stdout, too", "Give --output a file or a directory")


def _charts(job: Job, output: Path | None, chart: Path | None) -> tuple[Path, ...]:
    """Which pictures to draw: the one that was asked for, and those beside Zeitgeist's output."""
    asked = () if chart is None else (chart,)
    if job.name != ZEITGEIST:
        if asked:
            raise JobError(job.name, f"--chart is for {ZEITGEIST} only", "Leave it out")
        return ()
    beside = output is not None and output != Path("-") and output.suffix != SUFFIX
    return (*asked, output / "dips.svg", output / "dips.png") if beside and output is not None else asked


def _prepare(output: Path | None) -> None:
    """Make the directory now: that it can not be made should not turn out after the run."""
    if output is None or output == Path("-"):
        return
    folder = output.parent if output.suffix == SUFFIX else output
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnwritableFileError(str(output), error.strerror or str(error), "--output") from error


def _run(job: Job, host: HostName, options: HostOptions, beside: tuple[HostName, ...] = ()) -> Ran:
    """Run it on a host. ``beside``: it need not go further than a run on these."""
    began = time.monotonic()
    with RunProgress(f"{job.name} on {host}") as progress:
        progress.advance(0.0, "reading the input")
        given = job.input_for(host, *beside)
        try:
            found = HOSTS[host](job.pipeline, given.feed, options, progress)
        except UserCodeError as error:
            print_stop(error)
            raise typer.Exit(ExitCode.VIOLATED) from error
    findings = find(found.outputs, given.flights.options) if given.flights is not None else None
    return Ran(job, host, options, given, found, time.monotonic() - began, findings)


def _compare(ran: Ran, compare: str | None) -> None:
    """Compare with another host's run, as far as both have seen the input; or with an output that was written before."""
    if compare is None:
        return
    until_us = MAX_TIME
    if compare in HOSTS:
        host = HostName(compare)
        options = HostOptions(ran.options.seed, ran.options.faults if host is HostName.SIM else 0)
        other = _run(ran.job, host, options, beside=(ran.host,))
        outputs = other.run.outputs
        if other.input != ran.input:
            until_us = min(ran.input.until_us, other.input.until_us)
    elif Path(compare).exists():
        outputs = read_outputs(Path(compare))
    else:
        remedy = f"Name a host ({', '.join(HOSTS)}), or a file or directory that --output wrote"
        raise JobError("--compare", f"there is no {compare!r}", remedy)
    ran.compared_with, ran.comparison = compare, same_output(ran.run.outputs, outputs, until_us)


def _write(ran: Ran, output: Path | None, charts: tuple[Path, ...]) -> tuple[Path, ...]:
    files: list[Path] = []
    if output == Path("-"):
        for line in output_lines(ran.run.outputs, ran.job.pipeline):
            sys.stdout.buffer.write(line + b"\n")
        sys.stdout.flush()
    elif output is not None:
        files += write_outputs(output, ran.run.outputs, ran.job.pipeline)
    for chart in charts:
        assert ran.findings is not None, "only what has findings is drawn"
        draw_chart(ran.findings, chart)
        files.append(chart)
    return tuple(files)


def _print(console: Console, ran: Ran) -> None:
    records, sent = ran.input.feed.records, ran.run.outputs.total()
    title = (
        f"{ran.job.name} on {ran.host}: {counted(records, 'record')} in, {sent:,} out, {ran.elapsed_s:.1f} s"
    )
    print_text(console, title, style="bold")
    if ran.input.flights is not None:
        print_flights(console, ran.input.flights)
    for note in ran.run.notes:
        print_text(console, note)
    if ran.options.faults:
        struck = ", ".join(f"{count} {kind}" for kind, count in ran.run.struck.items()) or "none"
        print_text(console, f"faults that struck: {struck}")
    _print_verdicts(console, ran)
    _print_streams(console, ran.run.outputs, ran.job.pipeline)
    if ran.findings is not None:
        print_findings(console, ran.findings)
    _print_comparison(console, ran)
    if ran.files:
        print_heading(console, "Written")
        print_lines(console, "\n".join(map(str, ran.files)), indent=2)


def _print_verdicts(console: Console, ran: Ran) -> None:
    if not ran.run.verdicts:
        return
    broken = violations(dict(ran.run.verdicts))
    if broken:
        print_text(console, f"VIOLATED: {', '.join(broken)}", style="bold red")
        print_violations(console, ran.run.verdicts)
    else:
        held = sum(type(one).__name__ == "Holds" for one in ran.run.verdicts.values())
        words = f"HOLDS: {held} of {len(ran.run.verdicts)} invariants came up, and none is violated"
        print_text(console, words, style="bold green")


def _print_streams(console: Console, outputs: Counter[Emitted], pipeline: Pipeline) -> None:
    print_heading(console, "Output")
    table = plain_table("stream", "records")
    table.columns[1].justify = "right"
    for stream, count in _per_stream(outputs, pipeline).items():
        table.add_row(stream, f"{count:,}")
    print_table(console, table, indent=2)


def _per_stream(outputs: Counter[Emitted], pipeline: Pipeline) -> dict[str, int]:
    counts = dict.fromkeys(pipeline.output_streams, 0)
    for one, count in outputs.items():
        counts[one.stream] += count
    return counts


def _print_comparison(console: Console, ran: Ran) -> None:
    comparison = ran.comparison
    if comparison is None:
        return
    console.print()
    both = f"{ran.host} and {ran.compared_with}"
    if comparison.same:
        words = f"SAME OUTPUT: {both} agree on each of {counted(comparison.common, 'record')}"
        print_text(console, words, style="bold green")
        return
    words = f"DIFFERENT OUTPUT: {both} differ in {counted(comparison.differing, 'record')}, and agree on {comparison.common:,}"
    print_text(console, words, style="bold red")
    for side, one in comparison.examples():
        value = one.value.decode(errors="backslashreplace")
        print_text(
            console, f"{_SIDES[side]}: {one.stream} {one.key!r} at {one.timestamp} us: {value}", indent=2
        )


def _document(ran: Ran) -> dict[str, Any]:
    document: dict[str, Any] = {
        "pipeline": ran.job.name,
        "host": ran.host,
        "seed": ran.options.seed,
        "result": ran.result,
        "elapsed_s": round(ran.elapsed_s, 3),
        "records": ran.input.feed.records,
        "outputs": _per_stream(ran.run.outputs, ran.job.pipeline),
        "notes": list(ran.run.notes),
        "faults_struck": dict(ran.run.struck),
        "invariants": invariants_document(ran.run.verdicts),
        "comparison": _comparison_document(ran),
        "files": [str(file) for file in ran.files],
    }
    if ran.findings is not None and ran.input.flights is not None:
        document["findings"] = findings_document(ran.findings, ran.input.flights)
    return document


def _comparison_document(ran: Ran) -> dict[str, Any] | None:
    comparison = ran.comparison
    if comparison is None:
        return None
    return {
        "with": ran.compared_with,
        "same": comparison.same,
        "common": comparison.common,
        "only_here": comparison.only_first.total(),
        "only_there": comparison.only_second.total(),
        "examples": [
            {"side": _SIDES[side], **msgspec.to_builtins(one)} for side, one in comparison.examples()
        ],
    }
