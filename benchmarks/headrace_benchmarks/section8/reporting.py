"""The report as a value: the runs, their results and their provenance, as JSON from which REPORT.md is generated.

Rules of this file: a report holds the figures of every run, so that its tables follow from it and any run can be repeated;
`problems` lists where this fails. In the file, each line has the values of one figure at one point, one value per seed.
"""

import dataclasses
import hashlib
import os
import platform
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from itertools import chain

import msgspec

from headrace.api.json_text import read_json
from headrace_benchmarks.section8.calibration import CALIBRATION
from headrace_benchmarks.section8.experiment import ExperimentSize, Row, RunSample, rows_of
from headrace_benchmarks.section8.experiments import EXPERIMENTS
from headrace_properties.search.parallel import spread

_DEEP = re.compile(rb"\n(?: {7,}| {6}(?=[]}]))")
"""The line breaks within one figure of the indented JSON."""

_PACKAGES = ("headrace", "simpy", "hypothesis", "msgspec", "pyspark")


class Provenance(msgspec.Struct, frozen=True):
    """How and where a report was made.

    Attributes:
        command: command that writes it again.
        versions: versions of Python and packages.
        machine: the machine's architecture.
        cores: the machine's number of CPUs. Simulated time does not depend on it.
    """

    command: str
    versions: dict[str, str]
    machine: str
    cores: int


class ExperimentResult(msgspec.Struct, frozen=True):
    """The results of one experiment.

    Attributes:
        name: name in `EXPERIMENTS`.
        seeds: number of runs at each point, with seeds from 0.
        samples: rounded results of each run.
        plot_sha256: hash of the picture's file, hex.
    """

    name: str
    seeds: int
    samples: tuple[RunSample, ...]
    plot_sha256: str = ""

    @property
    def rows(self) -> list[Row]:
        """The figures over all runs."""
        return rows_of(self.samples)


class ExperimentReport(msgspec.Struct, frozen=True):
    """A whole report.

    Attributes:
        provenance: how and where it was made.
        quick: whether it has fewer seeds and points than the full report.
        calibration: the model's parameters.
        measured: results of the experiments, in the paper's order.
    """

    provenance: Provenance
    quick: bool
    calibration: dict[str, float]
    measured: tuple[ExperimentResult, ...]

    def to_bytes(self) -> bytes:
        """Encode as JSON, one line per figure and point."""
        measured = tuple(
            _StoredMeasured(result.name, result.seeds, result.plot_sha256, _columns(result.samples))
            for result in self.measured
        )
        stored = _StoredReport(self.provenance, self.quick, self.calibration, measured)
        return _DEEP.sub(b"", msgspec.json.format(msgspec.json.encode(stored), indent=1)) + b"\n"

    def updated(self, renewed: "ExperimentReport") -> "ExperimentReport":
        """Return this report with experiments replaced by those of another one."""
        by_name = {result.name: result for result in (*self.measured, *renewed.measured)}
        return msgspec.structs.replace(
            self, measured=tuple(by_name[name] for name in EXPERIMENTS if name in by_name)
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> "ExperimentReport":
        """Decode what `to_bytes` encoded.

        Raises:
            JsonError: the data are not a report.
        """
        stored = read_json(data, msgspec.json.Decoder(_StoredReport).decode)
        measured = tuple(
            ExperimentResult(result.name, result.seeds, _samples(result), result.plot_sha256)
            for result in stored.measured
        )
        return cls(stored.provenance, stored.quick, stored.calibration, measured)


class _StoredPoint(msgspec.Struct, frozen=True):
    """The runs at a point, seed by seed."""

    point: str
    figures: tuple[tuple[str, str, tuple[float, ...]], ...]
    counts: dict[int, tuple[int, ...]]


class _StoredMeasured(msgspec.Struct, frozen=True):
    name: str
    seeds: int
    plot_sha256: str
    points: tuple[_StoredPoint, ...]


class _StoredReport(msgspec.Struct, frozen=True):
    provenance: Provenance
    quick: bool
    calibration: dict[str, float]
    measured: tuple[_StoredMeasured, ...]


def _columns(samples: Sequence[RunSample]) -> tuple[_StoredPoint, ...]:
    by_point: dict[str, list[RunSample]] = {}
    for sample in samples:
        by_point.setdefault(sample.point, []).append(sample)
    return tuple(_stored_point(point, runs) for point, runs in by_point.items())


def _stored_point(point: str, runs: Sequence[RunSample]) -> _StoredPoint:
    figures = []
    for values in zip(*[run.values for run in runs], strict=True):
        place, figure, _ = values[0]
        assert all(value[:2] == (place, figure) for value in values), (
            f"runs of {point} have different figures"
        )
        figures.append((place, figure, tuple(value for *_, value in values)))
    bins = sorted({number for run in runs for number in run.counts})
    counts = {number: tuple(run.counts.get(number, 0) for run in runs) for number in bins}
    return _StoredPoint(point, tuple(figures), counts)


def _samples(stored: _StoredMeasured) -> tuple[RunSample, ...]:
    for point in stored.points:
        if {len(values) for values in (*[of for _, _, of in point.figures], *point.counts.values())} != {
            stored.seeds
        }:
            raise msgspec.ValidationError(
                f"{stored.name}: {point.point}: {stored.seeds} values are expected in each figure"
            )
    return tuple(_sample(point, seed) for seed in range(stored.seeds) for point in stored.points)


def _sample(stored: _StoredPoint, seed: int) -> RunSample:
    values = tuple((place, figure, values[seed]) for place, figure, values in stored.figures)
    return RunSample(
        stored.point, seed, values, {number: of[seed] for number, of in stored.counts.items() if of[seed]}
    )


def measure(
    names: Sequence[str], size: ExperimentSize, jobs: int, on_run: Callable[[int, int, str], None]
) -> Iterator[ExperimentResult]:
    """Run experiments, and yield each as it is complete.

    Args:
        names: names in `EXPERIMENTS`.
        size: number of seeds and points.
        jobs: number of parallel processes.
        on_run: called after each run with the number of runs done, their total, and the experiment's name.
    """
    tasks = [(name, *task) for name in names for task in EXPERIMENTS[name].tasks(size)]
    alone = [task for task in tasks if EXPERIMENTS[task[0]].wall]
    together = [task for task in tasks if task not in alone]
    sampled: dict[str, dict[_Task, RunSample]] = {name: {} for name in names}
    for done, (task, sample) in enumerate(chain(_run_all(together, jobs), _run_all(alone, 1)), 1):
        name = task[0]
        sampled[name][task] = sample
        on_run(done, len(tasks), name)
        of_name = [task for task in tasks if task[0] == name]
        if len(sampled[name]) == len(of_name):
            samples = tuple(sampled[name][task] for task in of_name)
            yield ExperimentResult(name, EXPERIMENTS[name].seeds(size), samples)


def provenance(command: str) -> Provenance:
    """Return the provenance of a report made by this process."""
    versions = {"python": platform.python_version()}
    versions |= {name: version(name) for name in _PACKAGES if find_spec(name) is not None}
    return Provenance(command, versions, platform.machine(), os.cpu_count() or 1)


def calibration_document() -> dict[str, float]:
    """Return the model's current parameters."""
    return {name: float(value) for name, value in dataclasses.asdict(CALIBRATION).items()}


def problems(report: ExperimentReport, again: int, only: Collection[str] = ()) -> Iterator[str]:
    """Yield the differences between a report and what this code measures.

    Args:
        report: the report to check.
        again: number of runs of each experiment to repeat, spread over all of them.
        only: names of the experiments to repeat runs of; none: all.
    """
    if report.calibration != calibration_document():
        yield "its calibration differs from this code's: write the report again"
    for measured in report.measured:
        if EXPERIMENTS[measured.name].wall or (only and measured.name not in only):
            continue  # no run repeats those in wall time
        stride = max(len(measured.samples) // max(again, 1), 1)
        for sample in measured.samples[::stride][:again]:
            if _run((measured.name, sample.point, sample.seed))[1] != sample:
                yield f"{measured.name}: {sample.point}, seed {sample.seed}: a repeated run gives different figures"


def sha256(data: bytes) -> str:
    """Return the hash of a file's contents, hex."""
    return hashlib.sha256(data).hexdigest()


_Task = tuple[str, str, int]


def _run_all(tasks: Sequence[_Task], jobs: int) -> Iterator[tuple[_Task, RunSample]]:
    """Run tasks in any order; their results do not depend on it."""
    if tasks:
        yield from spread(_run, tasks, jobs)


def _run(task: _Task) -> tuple[_Task, RunSample]:
    name, point, seed = task
    return task, EXPERIMENTS[name].sample(point, seed).rounded()
