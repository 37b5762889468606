"""``headrace run``: run a pipeline on a host, from an input to an output, and compare hosts."""

import sys
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from headrace import SECOND, UserCodeError
from headrace_cli.options.option_groups import LONGEST_S, JsonOption, with_options
from headrace_cli.reports.run_report import Ran
from headrace_cli.runs.hosts import HOSTS, HostName, HostOptions
from headrace_cli.runs.input_file import InputOptions
from headrace_cli.runs.jobs import Job, load_job
from headrace_cli.runs.output_file import SUFFIX, output_files, output_lines, read_outputs, write_outputs
from headrace_cli.terminal.consoles import error_console, output_console
from headrace_cli.terminal.documents import print_document, stdout_reserved
from headrace_cli.terminal.exit import (
    ExitCode,
    UnwritableFileError,
    WrongOptionError,
    print_stop,
)
from headrace_cli.terminal.files import HISTORY, ForceOption, HistoryOption, OutputFiles, write_history
from headrace_cli.terminal.live_progress import RunProgress
from headrace_properties.explain.pictures.event_time_chart import check_chart
from headrace_properties.explain.pictures.run_chart import chart_of
from headrace_properties.user_code.comparison import same_output

app = typer.Typer(add_completion=False)

_EXAMPLES = """[bold]Examples[/]
  headrace run zeitgeist --on sim --faults 30 --compare reference
  headrace run my_job:pipeline --on spark --judge 0.01 --compare reference
  headrace run my_job:pipeline --on sim --input clicks.jsonl --output counts/
  headrace run my_job:pipeline --faults 10 --chart run.html
  headrace run my_job:pipeline --on reference --input clicks.csv --timestamp time --key user --slack 60 --output -

[bold]Exit codes[/]
  0 done, 1 an invariant or a promise is violated, the outputs differ, or your code failed, 2 usage error,
  130 interrupted, 143 terminated, 129 hung up: with the output so far; on spark, after the current micro-batch"""


@dataclass(frozen=True, slots=True)
class ReadingOptions:
    """The input, and how its lines are read."""

    input_file: Annotated[
        Path | None,
        typer.Option(
            "--input",
            metavar="FILE",
            help="JSON lines, each with a value and a timestamp; or a table, .csv or .parquet. A column of CSV is of numbers "
            "only if all its values are written as JSON writes numbers (007 is text); the key is always text.",
        ),
    ] = None
    feed: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Function of the module that makes the input, if there is no --input."
        ),
    ] = None
    stream: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Stream of the records. Default: the injector's first stream."),
    ] = None
    key: Annotated[str | None, typer.Option(metavar="FIELD", help="Field to use as the key.")] = None
    timestamp: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD", help="Field to use as the timestamp; the whole line is then the value."
        ),
    ] = None
    slack: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=0,
            max=LONGEST_S,
            help="Distance of the low watermark behind the newest timestamp. Default: it waits for the end.",
        ),
    ] = None

    @property
    def of_lines(self) -> InputOptions:
        """The way to read lines."""
        slack_us = None if self.slack is None else round(self.slack * SECOND)
        return InputOptions(self.stream, self.key, self.timestamp, slack_us)


@dataclass(frozen=True, slots=True)
class WritingOptions:
    """The places of the output, and what it is compared with."""

    output: Annotated[
        Path | None,
        typer.Option(metavar="DIR|FILE.jsonl|-", help="Where to write the output; - is stdout."),
    ] = None
    compare: Annotated[
        str | None,
        typer.Option(
            metavar="HOST|PATH", help="Compare with a run on another host, or with an earlier output."
        ),
    ] = None
    history: HistoryOption = None
    force: ForceOption = False


RunArgument = Annotated[
    str,
    typer.Argument(
        metavar="zeitgeist|nexmark-qN|MODULE:PIPELINE",
        help="Zeitgeist on real flights, a query of NEXMark (0 to 12), or your own pipeline.",
    ),
]
FaultsOption = Annotated[int, typer.Option(min=0, help="Number of faults, drawn from the seed; on sim only.")]
SeedOption = Annotated[int, typer.Option(help="Seed for the faults, the cluster and the generated input.")]
JudgeOption = Annotated[
    float | None,
    typer.Option(
        metavar="FRACTION",
        min=0,
        max=1,
        help="On spark: fraction of the keys whose History is judged, up to 1.",
    ),
]
UntilOption = Annotated[
    datetime | None,
    typer.Option(formats=["%Y-%m-%d"], help="Zeitgeist: end date (exclusive). Default on sim: 2013-02-15."),
]
ChartOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.svg|FILE.png|FILE.html",
        help="On sim: draw the key with the most results in event time, with panes and watermark. "
        "Zeitgeist: expected and actual departures.",
    ),
]


@app.command("run", epilog=_EXAMPLES)
@with_options
def run(
    pipeline: RunArgument,
    reading: ReadingOptions,
    writing: WritingOptions,
    on: Annotated[HostName, typer.Option("--on", help="Host to run on.")] = HostName.SIM,
    faults: FaultsOption = 0,
    seed: SeedOption = 0,
    judge: JudgeOption = None,
    until: UntilOption = None,
    chart: ChartOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a pipeline on a host, write its output, and compare hosts record by record.

    On sim, the simulated cluster, the run is also judged. The reference processes one record at a time.
    """
    output, compare = writing.output, writing.compare
    _check_stdout(output, as_json=as_json)
    _check_judge(judge, on, compare)
    if writing.history is not None and on is HostName.REFERENCE:
        raise WrongOptionError(HISTORY, "the reference records no History", "Use --on sim or --on spark")
    with stdout_reserved():
        last = until.date() if until else None
        job = load_job(pipeline, seed, reading.input_file, reading.of_lines, last, reading.feed)
        charts = _charts(job, on, output, chart)
        files = _prepare(job, writing, reading.input_file, charts)
        ran = _run(
            job,
            on,
            HostOptions(
                seed,
                0 if on is not HostName.SIM and compare == HostName.SIM else faults,
                judge,
                job.promises,
                keep_history=writing.history is not None or (chart is not None and not job.pictures),
            ),
        )
        _compare(ran, compare, faults)
    _write(ran, output, charts, files)
    if writing.history is not None and ran.run.header is not None:
        write_history(files, writing.history, ran.run.history, ran.run.header)
    ran.files = tuple(files.saved)
    if as_json:
        print_document(ran.document())
    else:
        ran.print(error_console() if output == Path("-") else output_console())
    raise typer.Exit(files.code(ran.code))


def _check_stdout(output: Path | None, *, as_json: bool) -> None:
    if as_json and output == Path("-"):
        raise WrongOptionError(
            "--json", "--output - writes to stdout, too", "Give --output a file or a directory"
        )


def _check_judge(judge: float | None, on: HostName, compare: str | None) -> None:
    if judge is not None and HostName.SPARK not in (on, compare):
        remedy = f"Add --on {HostName.SPARK}, or leave it out: a run on sim is always judged"
        raise WrongOptionError("--judge", f"it needs --on {HostName.SPARK}", remedy)


def _charts(job: Job, on: HostName, output: Path | None, chart: Path | None) -> tuple[Path, ...]:
    """Return the pictures to draw: the one asked for, and those that belong beside the job's output."""
    asked = () if chart is None else (chart,)
    if not job.pictures:
        for path in asked:
            check_chart(path)
            if on is not HostName.SIM:
                raise WrongOptionError(
                    "--chart", f"--on {on} does not tell when what happened", "Use --on sim"
                )
        return asked
    beside = output is not None and output != Path("-") and output.suffix != SUFFIX
    return (*asked, *(output / name for name in job.pictures)) if beside and output is not None else asked


def _prepare(
    job: Job, writing: WritingOptions, input_file: Path | None, charts: tuple[Path, ...]
) -> OutputFiles:
    """Make the directory, and check before the run that all files can be written."""
    output, compared = writing.output, Path(writing.compare or "")
    inputs = [path for path in (input_file, compared) if path is not None and path.is_file()]
    inputs += compared.glob(f"*{SUFFIX}") if writing.compare and compared.is_dir() else []
    files = OutputFiles(force=writing.force, inputs=inputs)
    if output is not None and output != Path("-"):
        folder = output.parent if output.suffix == SUFFIX else output
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UnwritableFileError(str(output), error.strerror or str(error), "--output") from error
        for path in dict.fromkeys(output_files(output, job.pipeline).values()):
            files.claim(path, "--output")
    for path in charts:
        files.claim(path, "--chart")
    files.claim(writing.history, HISTORY)
    return files


def _run(job: Job, host: HostName, options: HostOptions, beside: tuple[HostName, ...] = ()) -> Ran:
    """Run it on a host. ``beside``: hosts whose run it is compared with, and need not outlast."""
    began = time.monotonic()
    with RunProgress(f"{job.name} on {host}") as progress:
        progress.advance(0.0, "reading the input")
        job_input = job.input_for(host, *beside)
        try:
            outcome = HOSTS[host](job.pipeline, job_input.feed, options, progress)
        except UserCodeError as error:
            print_stop(error)
            raise typer.Exit(ExitCode.VIOLATED) from error
    report = job_input.report(outcome.outputs) if job_input.report is not None else None
    return Ran(job, host, options, job_input, outcome, time.monotonic() - began, report)


def _compare(ran: Ran, compare: str | None, faults: int) -> None:
    """Compare with a run on another host, as far as both have seen the input, or with an output written earlier.

    Faults apply to the simulated cluster, whichever of the two it is.
    """
    if compare is None or ran.stopped_by is not None:  # half a run cannot be compared
        return
    if compare in HOSTS:
        host = HostName(compare)
        options = HostOptions(
            ran.options.seed, faults if host is HostName.SIM else 0, ran.options.judge, ran.job.promises
        )
        ran.other = _run(ran.job, host, options, beside=(ran.host,))
        if ran.other.run.stopped_by is not None:
            return
        outputs = ran.other.run.outputs
        if ran.other.input.feed.records != ran.input.feed.records:
            ran.compared_until_us = min(ran.input.until_us, ran.other.input.until_us)
    elif Path(compare).exists():
        outputs = read_outputs(Path(compare))
    else:
        remedy = f"Name a host ({', '.join(HOSTS)}), or a file or directory that --output wrote"
        raise WrongOptionError("--compare", f"there is no {compare!r}", remedy)
    ran.compared_with, ran.comparison = compare, same_output(ran.run.outputs, outputs, ran.compared_until_us)


def _write(ran: Ran, output: Path | None, charts: tuple[Path, ...], files: OutputFiles) -> None:
    if output == Path("-"):
        for line in output_lines(ran.run.outputs, ran.job.pipeline):
            sys.stdout.buffer.write(line + b"\n")
        sys.stdout.flush()
    elif output is not None:
        write_outputs(output, ran.run.outputs, ran.job.pipeline, files)
    for chart in charts:
        if ran.report is not None:
            files.write(chart, "--chart", ran.report.draw)
        else:
            files.write(chart, "--chart", chart_of(ran.run.history, ran.job.pipeline).save)
