"""Promises about what a sink leaves: asked of its tables undisturbed, where a driver has died, and at the end of each trial."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from headrace_properties.findings import Family, Finding, FindingClass, Kind
from headrace_properties.promises import Promise, PromiseKind
from headrace_properties.sinks.story import TrialStory
from headrace_properties.spark_jobs.job_causes import CAUSES, Cause
from headrace_properties.spark_jobs.job_findings import place_at
from headrace_properties.spark_jobs.promised import JobAsker, JobMoment, SinkEffect, UnseenRows, asked_of_runs
from headrace_properties.spark_jobs.trials import SinkTrial
from headrace_sim.spark.columns.values import InputRows
from headrace_sim.spark.query.schedules import Feed
from headrace_sim.spark.query.streaming_query import Outcome
from headrace_sim.spark.refusals import shown_place
from headrace_sim.spark.sink_faults import SinkFault, SinkFaultKind
from headrace_sim.spark.sinks.requests_over_http import HttpRequest
from headrace_sim.spark.sinks.sink_effects import Effect
from headrace_sim.spark.sinks.sink_runs import Sight, Watcher
from headrace_sim.spark.sinks.trial_contents import rows_of_table
from headrace_sim.spark.spark_job import SparkJob

_DEAD = {SinkFaultKind.KILL, SinkFaultKind.REORDER, SinkFaultKind.RESTART}
"""Where a driver has just died of these, what it leaves is what others have seen of an undisturbed run, too."""


@dataclass(slots=True)
class _Broke:
    """How a promise was broken first."""

    promise: Promise
    fault: SinkFault
    why: str
    faults: set[SinkFault] = field(default_factory=set)  # under which it was broken


class TableJudge:
    """Asks promises during the trials of a sink.

    Args:
        promises: Those about tables.
        job: Whose sink it is.
        feed: The rows of its input, batch by batch; None: only its own source knows them.
        outcome: Of the query, undisturbed; None: only the real Spark can compute it.

    Attributes:
        calm: What the undisturbed run left; None: it has not ended.

    """

    def __init__(
        self, promises: Sequence[Promise], job: SparkJob, feed: Feed | None, outcome: Outcome | None
    ) -> None:
        self.calm: Sight | None = None
        self._promises, self._job, self._feed, self._outcome = promises, job, feed, outcome
        self._asker = JobAsker(promises)
        self._broke: dict[str, _Broke] = {}

    @property
    def watcher(self) -> Watcher:
        """What the trials tell."""
        kinds = {promise.kind for promise in self._promises}
        return Watcher(self.take, at_deaths=bool(kinds - {PromiseKind.AT_END}))

    def take(self, sight: Sight) -> None:
        """Ask what must hold of what is seen. Raise `PromiseError` if a promise is wrong in itself."""
        self.calm = self.calm or sight
        asked = [
            promise for promise in self._promises if sight.is_end or promise.kind is not PromiseKind.AT_END
        ]
        if not asked:
            return
        fresh = JobAsker(asked)
        fresh.ask(asked, self.moment(sight), self._when(sight))
        self._asker.tested |= fresh.tested
        self._asker.untested |= fresh.untested
        for name, why in fresh.broken.items():
            promise = next(promise for promise in asked if promise.name == name)
            broke = self._broke.setdefault(name, _Broke(promise, sight.fault, why))
            broke.faults.add(sight.fault)

    def moment(self, sight: Sight) -> JobMoment:
        """Return what a promise sees."""
        rows = [row for batch in (self._feed or ())[: sight.batches] for row in batch]
        inputs = UnseenRows() if self._feed is None else tuple(InputRows(self._job.input).rows(rows))
        outputs = [] if self._outcome is None else [
            row for batch, inputs in sorted(self._outcome.outputs.items()) if batch < sight.batches for row in inputs
        ]  # fmt: skip
        calm = (self.calm or sight).contents
        tables = {
            name: tuple(rows_of_table(sight.contents.get(name, []), calm.get(name, [])))
            for name in dict.fromkeys([*calm, *sight.contents])
        }
        results = inputs if self._feed is None else tuple(InputRows(self._job.output).rows(outputs))
        late = self._outcome.late if self._outcome else 0
        return JobMoment(inputs, results, {}, late, tables, tuple(map(_effect_seen, sight.effects)))

    def asked(self) -> dict[str, str]:
        """Return why no run has tested a promise, by its name; "": one has."""
        return asked_of_runs(self._promises, self._asker.tested | self._broke.keys(), self._asker.untested)

    def findings(self, feed_seed: int, kept: tuple[int, ...] | None, spark: str) -> Iterator[Finding]:
        """Yield how promises were broken. The arguments are those of `SinkTrial`."""
        rank = Cause.PROMISE.kind().rank
        for name, broke in self._broke.items():
            promise = broke.promise
            yield Finding(
                Kind(Family.PROMISE, name, FindingClass.VIOLATED, rank), broke.why,
                place_at(promise.where.replace(", line ", ":")), promise.title or CAUSES[Cause.PROMISE].remedy,
                trial=SinkTrial(broke.fault, feed_seed, kept, spark, name), trials=len(broke.faults),
            )  # fmt: skip

    def _when(self, sight: Sight) -> str:
        """Say when it is asked."""
        fault, last = sight.fault, next(reversed(sight.effects), None)
        if fault.kind is SinkFaultKind.NONE:
            return "in the end, without any failure"
        if not sight.is_end and fault.kind in _DEAD and last is not None:
            return f"without any failure, in batch {fault.batch} after {last.action} on {last.target} ({shown_place(last.place)})"
        if fault.kind is SinkFaultKind.STATE:
            return f"in batch {fault.batch} a task died at a call of its state; in the end"
        calm = [] if self.calm is None else self.calm.effects
        by_batch = [[effect for effect in calm if effect.batch == batch] for batch in range(1 + fault.batch)]
        return f"{TrialStory(fault, [], by_batch).struck()}; {'in the end' if sight.is_end else 'at that moment'}"


def _effect_seen(effect: Effect) -> SinkEffect:
    content = effect.payload.body if isinstance(effect.payload, HttpRequest) else None
    return SinkEffect(effect.action, effect.target, effect.batch, effect.pending, content)
