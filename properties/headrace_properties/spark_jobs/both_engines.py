"""What the simulation and the real Spark say of one query, and in what they differ: findings, crash points, and what is left.

Rules of this file:

* A crash point that both have tried is the same if it makes the same things wrong. How each engine calls a destination counts
  nothing: a store that is simulated has no path.
* What only one of them judges by nature is no difference: the outcome of a schedule, growth of state.
"""

from collections.abc import Iterator
from dataclasses import replace

from headrace_properties.findings import ranked
from headrace_properties.sinks.sink_reports import PointOutcome, SinkReport
from headrace_properties.spark_jobs.targets import SparkReport
from headrace_properties.spark_jobs.trials import SinkTrial

_MOST_TOLD = 5


def compared(simulated: SparkReport, real: SparkReport) -> SparkReport:
    """Return what both engines say of one query, with notes in what they differ."""
    ours, theirs = (
        {(finding.kind, finding.place): finding for finding in report.findings}
        for report in (simulated, real)
    )
    only = [
        f"only {whose} finds: {finding.kind.title} at {finding.place}"
        for whose, findings, other in (("the simulation", ours, theirs), ("the real Spark", theirs, ours))
        for key, finding in findings.items()
        if key not in other and isinstance(finding.trial, SinkTrial)
    ]
    agreed = f"the simulation and the real Spark both find {len(ours.keys() & theirs.keys())} of {len(ours | theirs)}"
    points = () if simulated.sink is None or real.sink is None else _points(simulated.sink, real.sink)
    return replace(
        simulated,
        sink=real.sink or simulated.sink,
        findings=ranked([*(theirs | ours).values()]),
        unknown=(*simulated.unknown, *(why for why in real.unknown if why not in simulated.unknown)),
        notes=tuple(dict.fromkeys([*simulated.notes, *real.notes, agreed, *only, *points])),
    )


def _points(simulated: SinkReport, real: SinkReport) -> Iterator[str]:
    """Yield at how many crash points both find the same, and those at which they do not; and what they leave otherwise."""
    ours, theirs = ({point.fault: _wrong(point) for point in report.outcomes} for report in (simulated, real))
    tried = [fault for fault in theirs if fault in ours]
    differing = [fault for fault in tried if ours[fault] != theirs[fault]]
    yield f"both find the same at {len(tried) - len(differing)} of {len(ours | theirs)} crash points"
    for fault in differing[:_MOST_TOLD]:
        place = f"{fault.kind.value} at effect {fault.effect + 1} of batch {fault.batch}"
        yield f"{place}: {ours[fault] or 'nothing'} in the simulation, {theirs[fault] or 'nothing'} on the real Spark"
    for name in sorted(simulated.left.keys() & real.left.keys()):
        rows, really = simulated.left[name].total(), real.left[name].total()
        if rows != really:
            yield f"undisturbed, {name} has {rows} rows in the simulation, and {really} on the real Spark"


def _wrong(point: PointOutcome) -> str:
    return " and ".join(sorted({wrong.value for wrong, _ in point.wrong}))
