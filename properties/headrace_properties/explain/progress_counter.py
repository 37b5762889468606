"""Progress of each computation, derived from the History of its run, on any host.

Progress is a function of the events so far, and can be read repeatedly during a run. Except for timers, a History does not
contain what rows hold, so only hosts that can read the rows report keys and bytes.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from headrace import MIN_TIME, ComputationProgress, Pipeline
from headrace.api.progress import lag_of
from headrace.history import Applied, Event, Executed, Injected, Published


@dataclass(slots=True)
class _Counts:
    records: int = 0
    late_records: int = 0
    outputs: int = 0
    low_watermark: int = MIN_TIME
    timers: dict[str, set[str]] = field(default_factory=dict)


class ProgressCounter:
    """Counts applied steps; without exactly-once, executed ones.

    Args:
        pipeline: the running pipeline.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._exactly_once = {name: spec.exactly_once for name, spec in pipeline.computations.items()}
        self._counts = {name: _Counts() for name in pipeline.computations}
        self._runs: dict[tuple[int, int], list[Executed]] = {}
        self._newest = MIN_TIME

    def take(self, events: Iterable[Event]) -> None:
        """Take more events of a History."""
        for event in events:
            match event:
                case Injected(productions=productions):
                    self._newest = max([self._newest, *[production.timestamp for production in productions]])
                case Executed(version=version) if self._exactly_once[event.computation]:
                    self._runs.setdefault((version.sequencer, version.number), []).append(event)
                case Executed():
                    self._count(event)
                case Applied():
                    self._on_applied(event)
                case Published(values=values):
                    for name, progress in values:
                        if name in self._counts:
                            self._counts[name].low_watermark = progress.low_watermark
                case _:
                    pass

    def progress(self) -> tuple[ComputationProgress, ...]:
        """Return the progress of each computation, in the pipeline's order."""
        return tuple(
            ComputationProgress(
                name,
                counts.records,
                counts.late_records,
                counts.outputs,
                counts.low_watermark,
                lag_of(counts.low_watermark, self._newest),
                timers=sum(len(tags) for tags in counts.timers.values()),
            )
            for name, counts in self._counts.items()
        )

    def _count(self, run: Executed) -> None:
        counts = self._counts[run.computation]
        counts.records += run.timer is None
        counts.late_records += run.late
        counts.outputs += len({production.record_id for production in run.productions})

    def _on_applied(self, event: Applied) -> None:
        delta = event.delta
        for run in self._runs.pop((event.sequencer, delta.number), ()):
            self._count(run)
        timers = self._counts[event.computation].timers
        tags = timers.setdefault(delta.key, set())
        tags.difference_update([timer.tag for timer in delta.fired], delta.cancelled)
        tags.update([timer.tag for timer in delta.set_timers])
        if not tags:
            del timers[delta.key]
