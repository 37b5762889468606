"""The work of ``headrace paper report``."""

import os
import signal
from pathlib import Path

import msgspec

from headrace.api.json_text import JsonError
from headrace_benchmarks.section8.experiment import FULL, QUICK, ExperimentSize
from headrace_benchmarks.section8.experiments import EXPERIMENTS
from headrace_benchmarks.section8.markdown import DATA, PLOTS, render
from headrace_benchmarks.section8.plots import draw
from headrace_benchmarks.section8.reporting import (
    ExperimentReport,
    ExperimentResult,
    calibration_document,
    measure,
    problems,
    provenance,
    sha256,
)
from headrace_cli.terminal.consoles import error_console, output_console
from headrace_cli.terminal.documents import print_document
from headrace_cli.terminal.exit import ExitCode
from headrace_cli.terminal.files import OutputFiles, write_bytes
from headrace_cli.terminal.live_progress import RunProgress
from headrace_cli.terminal.render import counted
from headrace_cli.terminal.signals import signal_of
from headrace_cli.terminal.usage_errors import UnknownChoiceError, UnwritableFileError, WrongOptionError


def write_report(
    output: Path,
    only: list[str],
    seeds: int | None,
    jobs: int | None,
    *,
    quick: bool,
    update: bool,
    force: bool,
    as_json: bool,
) -> ExitCode:
    """Measure, write the report, and return the exit code."""
    size = QUICK if quick else FULL
    size = ExperimentSize(seeds or size.seeds, size.quick)
    names = _chosen(only, size)
    before = _to_update(output, size) if update else None
    files = _files(output, names, force=force or update)
    command = _command(names, size) if before is None else before.provenance.command
    measurements, stopped_by = _measure(names, size, jobs or os.cpu_count() or 1, command)
    if stopped_by is not None:
        done = [experiment.name for experiment in measurements.measured]
        what = f"{output}: {', '.join(done)}" if done else "nothing was written"
        words = (
            f"Stopped by {stopped_by.name} after {len(done)} of {counted(len(names), 'experiment')}: {what}."
        )
        error_console().print(words, soft_wrap=True)
        if not done:
            return ExitCode(128 + stopped_by)
        if before is None:
            of_part = msgspec.structs.replace(measurements.provenance, command=_command(done, size))
            measurements = msgspec.structs.replace(measurements, provenance=of_part)
    if before is not None:
        measurements = before.updated(measurements)
    _write(measurements, output, files)
    if as_json:
        print_document(msgspec.json.decode(measurements.to_bytes()))
    elif not files.failed:
        output_console().print(
            f"{output}: {counted(len(measurements.measured), 'experiment')}", soft_wrap=True
        )
    return files.code(ExitCode.HOLDS if stopped_by is None else ExitCode(128 + stopped_by))


def _unreadable(path: object, reason: object) -> WrongOptionError:
    return WrongOptionError(f"cannot read report {path}", str(reason), "Write it with headrace paper report")


def _refuse_unknown(only: list[str]) -> None:
    for name in only:
        if name not in EXPERIMENTS:
            raise UnknownChoiceError("experiment", name, tuple(EXPERIMENTS))


def _chosen(only: list[str], size: ExperimentSize) -> list[str]:
    _refuse_unknown(only)
    return [
        name for name, entry in EXPERIMENTS.items() if name in only or (not only and entry.is_usual(size))
    ]


def _to_update(output: Path, size: ExperimentSize) -> ExperimentReport:
    """Read the report in which some experiments are to be replaced.

    Raises:
        WrongOptionError: there is none, or it was made with other versions, sizes or parameters.
    """
    before = _read(output)
    if (before.quick, before.calibration) != (size.quick, calibration_document()):
        raise _unreadable(output, "it was made with other sizes or other parameters of the model")
    here = provenance(before.provenance.command)
    if before.provenance.versions != here.versions:
        raise _unreadable(output, "it was made with other versions of Python or of packages")
    return before


def _read(output: Path) -> ExperimentReport:
    try:
        return ExperimentReport.from_bytes(_data(output).read_bytes())
    except OSError as error:
        raise _unreadable(error.filename, error.strerror or error) from error
    except JsonError as error:
        raise _unreadable(_data(output), error) from error


def _command(names: list[str], size: ExperimentSize) -> str:
    """Return the command that reproduces the report."""
    words = ["headrace paper report"]
    words += ["--quick"] if size.quick else []
    words += [f"--only {name}" for name in names] if names != _chosen([], size) else []
    default = QUICK if size.quick else FULL
    words += [f"--seeds {size.seeds}"] if size.seeds != default.seeds else []
    return " ".join(words)


def _measure(
    names: list[str], size: ExperimentSize, jobs: int, command: str
) -> tuple[ExperimentReport, signal.Signals | None]:
    """Measure until all experiments are complete or a signal arrives, which is returned, too."""
    by_name: dict[str, ExperimentResult] = {}
    stopped_by = None
    with RunProgress("report") as progress:
        try:
            for result in measure(
                names, size, jobs, lambda done, total, name: progress.advance(done / total, name)
            ):
                by_name[result.name] = result
        except KeyboardInterrupt as stop:
            stopped_by = signal_of(stop)
    measured = tuple(by_name[name] for name in names if name in by_name)
    return ExperimentReport(provenance(command), size.quick, calibration_document(), measured), stopped_by


def _files(output: Path, names: list[str], *, force: bool) -> OutputFiles:
    """Make the directories, and check before the measurements that all files can be written."""
    files = OutputFiles(force=force)
    try:
        _data(output).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnwritableFileError(str(output), error.strerror or str(error), "--output") from error
    for path in (output, _data(output), *(_plot(output, name) for name in names)):
        files.claim(path, "--output")
    return files


def _write(measurements: ExperimentReport, output: Path, files: OutputFiles) -> None:
    pictures = {_plot(output, experiment.name): draw(experiment) for experiment in measurements.measured}
    measured = tuple(
        msgspec.structs.replace(experiment, plot_sha256=sha256(data))
        for experiment, data in zip(measurements.measured, pictures.values(), strict=True)
    )
    measurements = msgspec.structs.replace(measurements, measured=measured)
    contents = pictures | {_data(output): measurements.to_bytes(), output: render(measurements).encode()}
    for path, data in contents.items():
        files.write(path, "--output", write_bytes(data))


def check_report(output: Path, again: int, only: list[str], *, as_json: bool) -> ExitCode:
    """Print where the report differs from what the code computes, and return the exit code."""
    _refuse_unknown(only)
    differences = _differences(output, again, only)
    if as_json:
        print_document({"report": str(output), "problems": differences})
    else:
        for problem in differences or ["no differences from what the code computes"]:
            output_console().print(f"{output}: {problem}", soft_wrap=True)
    return ExitCode.VIOLATED if differences else ExitCode.HOLDS


def _differences(output: Path, again: int, only: list[str]) -> list[str]:
    """List differences: first in the files, then from running again."""
    recorded = _read(output)
    try:
        text = output.read_text(encoding="utf-8")
        pictures = {
            measured.name: sha256(_plot(output, measured.name).read_bytes()) for measured in recorded.measured
        }
    except OSError as error:
        raise _unreadable(error.filename, error.strerror or error) from error
    except UnicodeDecodeError as error:
        raise _unreadable(output, error) from error
    differences = [
        f"line {number} contradicts the report's data: {line}"
        for number, (line, wanted) in enumerate(_side_by_side(text, render(recorded)), 1)
        if line != wanted
    ]
    differences += [
        f"the picture of {measured.name} was changed"
        for measured in recorded.measured
        if pictures[measured.name] != measured.plot_sha256
    ]
    return differences + list(problems(recorded, again, only))


def _side_by_side(text: str, wanted: str) -> list[tuple[str, str]]:
    lines, others = text.splitlines(), wanted.splitlines()
    longest = max(len(lines), len(others))
    lines += ["(missing)"] * (longest - len(lines))
    others += ["(missing)"] * (longest - len(others))
    return list(zip(lines, others, strict=True))


def _data(output: Path) -> Path:
    return output.parent / DATA


def _plot(output: Path, name: str) -> Path:
    return output.parent / PLOTS / f"{name}.svg"
