"""The work of ``headrace run``."""

import sys
import time
from datetime import date
from pathlib import Path

import typer

from headrace import UserCodeError
from headrace_cli.options.run_options import HostName, ReadingOptions, WritingOptions
from headrace_cli.reports.run_report import Ran
from headrace_cli.runs.hosts import HOSTS, HostOptions
from headrace_cli.runs.jobs import Job, load_job
from headrace_cli.runs.output_file import SUFFIX, output_files, output_lines, read_outputs, write_outputs
from headrace_cli.terminal.consoles import error_console, output_console
from headrace_cli.terminal.documents import print_document, stdout_reserved
from headrace_cli.terminal.exit import ExitCode, print_stop
from headrace_cli.terminal.files import OutputFiles, write_history
from headrace_cli.terminal.live_progress import RunProgress
from headrace_cli.terminal.usage_errors import UnwritableFileError, WrongOptionError
from headrace_properties.explain.pictures.event_time_chart import check_chart
from headrace_properties.explain.pictures.run_chart import chart_of
from headrace_properties.user_code.comparison import same_output


def run_pipeline(
    pipeline: str,
    reading: ReadingOptions,
    writing: WritingOptions,
    on: HostName,
    faults: int,
    seed: int,
    judge: float | None,
    until: date | None,
    chart: Path | None,
    *,
    as_json: bool,
) -> ExitCode:
    """Run a pipeline, write its output, print the report, and return the exit code."""
    output, compare = writing.output, writing.compare
    _check_stdout(output, as_json=as_json)
    _check_judge(judge, on, compare)
    if writing.history is not None and on is HostName.REFERENCE:
        raise WrongOptionError("--history", "the reference records no History", "Use --on sim or --on spark")
    with stdout_reserved():
        job = load_job(pipeline, seed, reading.input_file, reading.of_lines, until, reading.feed)
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
    return files.code(ran.code)


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
    files.claim(writing.history, "--history")
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
