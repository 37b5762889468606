"""The report as a value: which runs, what they found, and with what; written as JSON, from which all of REPORT.md follows.

Rules of this file: a report holds the figures of every run, so that its tables follow from it, and any run can be repeated; what
is not so, `problems` names. In the file, a figure's values at a point, one for each seed, are a line.
"""

import dataclasses
import hashlib
import os
import platform
import re
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from itertools import chain

import msgspec

from headrace_benchmarks.section8.calibration import CALIBRATION
from headrace_benchmarks.section8.experiment import Row, Sample, Size, rows_of
from headrace_benchmarks.section8.experiments import EXPERIMENTS
from headrace_properties.search.parallel import spread

_DEEP = re.compile(rb"\n(?: {7,}| {6}(?=[]}]))")
"""The line breaks within a figure of the file, which is indented by its depth."""

_PACKAGES = ("headrace", "simpy", "hypothesis", "msgspec", "pyspark")


class Provenance(msgspec.Struct, frozen=True):
    """What a report was made with.

    Attributes:
        command: that writes it again.
        versions: of Python and packages.
        machine: its architecture.
        cores: its CPUs. Simulated time does not depend on them.
    """

    command: str
    versions: dict[str, str]
    machine: str
    cores: int


class Measured(msgspec.Struct, frozen=True):
    """One experiment.

    Attributes:
        name: of `EXPERIMENTS`.
        seeds: runs at each point, with seeds from 0.
        samples: of each run, rounded.
        plot_sha256: of the picture's file, hex.
    """

    name: str
    seeds: int
    samples: tuple[Sample, ...]
    plot_sha256: str = ""

    @property
    def rows(self) -> list[Row]:
        """What the runs come to."""
        return rows_of(self.samples)


class Report(msgspec.Struct, frozen=True):
    """All of it.

    Attributes:
        provenance: of all figures.
        quick: fewer seeds and points than the full report.
        calibration: the model's parameters.
        measured: experiments, in the paper's order.
    """

    provenance: Provenance
    quick: bool
    calibration: dict[str, float]
    measured: tuple[Measured, ...]

    def to_bytes(self) -> bytes:
        """Write it as JSON, one figure of a point a line."""
        measured = tuple(
            _StoredMeasured(one.name, one.seeds, one.plot_sha256, _columns(one.samples))
            for one in self.measured
        )
        stored = _StoredReport(self.provenance, self.quick, self.calibration, measured)
        return _DEEP.sub(b"", msgspec.json.format(msgspec.json.encode(stored), indent=1)) + b"\n"

    def updated(self, renewed: "Report") -> "Report":
        """Return this report with the experiments of another in the place of its own."""
        by_name = {one.name: one for one in (*self.measured, *renewed.measured)}
        return msgspec.structs.replace(
            self, measured=tuple(by_name[name] for name in EXPERIMENTS if name in by_name)
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> "Report":
        """Read what `to_bytes` has written.

        Raises:
            msgspec.MsgspecError: it is something else.
        """
        stored = msgspec.json.decode(data, type=_StoredReport)
        measured = tuple(
            Measured(one.name, one.seeds, _samples(one), one.plot_sha256) for one in stored.measured
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


def _columns(samples: Sequence[Sample]) -> tuple[_StoredPoint, ...]:
    by_point: dict[str, list[Sample]] = {}
    for sample in samples:
        by_point.setdefault(sample.point, []).append(sample)
    return tuple(_stored_point(point, runs) for point, runs in by_point.items())


def _stored_point(point: str, runs: Sequence[Sample]) -> _StoredPoint:
    figures = []
    for values in zip(*[run.values for run in runs], strict=True):
        place, figure, _ = values[0]
        assert all(value[:2] == (place, figure) for value in values), (
            f"runs of {point} tell different figures"
        )
        figures.append((place, figure, tuple(value for *_, value in values)))
    bins = sorted({number for run in runs for number in run.counts})
    counts = {number: tuple(run.counts.get(number, 0) for run in runs) for number in bins}
    return _StoredPoint(point, tuple(figures), counts)


def _samples(stored: _StoredMeasured) -> tuple[Sample, ...]:
    for one in stored.points:
        if {len(values) for values in (*[of for _, _, of in one.figures], *one.counts.values())} != {
            stored.seeds
        }:
            raise msgspec.ValidationError(
                f"{stored.name}: {one.point}: {stored.seeds} values are expected in each figure"
            )
    return tuple(_sample(one, seed) for seed in range(stored.seeds) for one in stored.points)


def _sample(stored: _StoredPoint, seed: int) -> Sample:
    values = tuple((place, figure, values[seed]) for place, figure, values in stored.figures)
    return Sample(
        stored.point, seed, values, {number: of[seed] for number, of in stored.counts.items() if of[seed]}
    )


def measure(
    names: Sequence[str], size: Size, jobs: int, on_run: Callable[[int, int, str], None]
) -> tuple[Measured, ...]:
    """Run experiments.

    Args:
        names: of `EXPERIMENTS`.
        size: how much of each.
        jobs: processes to spread the runs over.
        on_run: told after each run how many are done, of how many, and of which experiment it was.
    """
    tasks = [(name, *task) for name in names for task in EXPERIMENTS[name].tasks(size)]
    alone = [task for task in tasks if EXPERIMENTS[task[0]].wall]
    together = [task for task in tasks if task not in alone]
    found: dict[tuple[str, str, int], Sample] = {}
    for done, (task, sample) in enumerate(chain(_run_all(together, jobs), _run_all(alone, 1)), 1):
        found[task] = sample
        on_run(done, len(tasks), task[0])
    measured = []
    for name in names:
        samples = tuple(found[task] for task in tasks if task[0] == name)
        seeds = EXPERIMENTS[name].seeds(size)
        measured.append(Measured(name, seeds, samples))
    return tuple(measured)


def provenance(command: str) -> Provenance:
    """What this process makes a report with."""
    versions = {"python": platform.python_version()}
    versions |= {name: version(name) for name in _PACKAGES if find_spec(name) is not None}
    return Provenance(command, versions, platform.machine(), os.cpu_count() or 1)


def calibration_document() -> dict[str, float]:
    """The model's parameters, as they are now."""
    return {name: float(value) for name, value in dataclasses.asdict(CALIBRATION).items()}


def problems(report: Report, again: int) -> Iterator[str]:
    """What in a report is not what this code finds.

    Args:
        report: that was read.
        again: so many runs of each experiment are run again, spread over all of them.
    """
    if report.calibration != calibration_document():
        yield "the calibration is not the one of this code: write the report again"
    for measured in report.measured:
        if EXPERIMENTS[measured.name].wall:
            continue  # no run repeats it
        stride = max(len(measured.samples) // max(again, 1), 1)
        for sample in measured.samples[::stride][:again]:
            if _run((measured.name, sample.point, sample.seed))[1] != sample:
                yield f"{measured.name}: {sample.point}, seed {sample.seed}, comes out differently when it is run again"


def sha256(data: bytes) -> str:
    """Hash a file's contents, hex."""
    return hashlib.sha256(data).hexdigest()


_Task = tuple[str, str, int]


def _run_all(tasks: Sequence[_Task], jobs: int) -> Iterator[tuple[_Task, Sample]]:
    """In any order; the results do not depend on it."""
    if tasks:
        yield from spread(_run, tasks, jobs)


def _run(task: _Task) -> tuple[_Task, Sample]:
    name, point, seed = task
    return task, EXPERIMENTS[name].sample(point, seed).rounded()
