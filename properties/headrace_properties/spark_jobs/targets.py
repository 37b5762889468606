"""A Spark job or a sink with its input, and its trials."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from msgspec import structs

from headrace.api.errors import HeadraceError
from headrace_properties.findings import Finding, FindingClass, ranked
from headrace_properties.promises import Promise
from headrace_properties.search.guard import effects_let_through
from headrace_properties.search.limits import CodeLimits, call_time_limited
from headrace_properties.sinks import (
    OneTrial,
    RowsOf,
    SinkFinding,
    SinkReport,
    UnfollowableSinkError,
)
from headrace_properties.sinks.sink_check import SinkCheck
from headrace_properties.sinks.sink_reports import Progress
from headrace_properties.sinks.story import OtherRows
from headrace_properties.sinks.trial import sink_of, undisturbed_run
from headrace_properties.spark_jobs.explaining import placed, rows_by_version
from headrace_properties.spark_jobs.feeds.sink_plans import feed_for_sink
from headrace_properties.spark_jobs.feeds.versioned_rows import in_versions
from headrace_properties.spark_jobs.job_causes import Cause
from headrace_properties.spark_jobs.job_findings import (
    JobFailsError,
    JobReport,
    finding_of,
    finding_of_sink,
    question_of_sink,
    untested,
)
from headrace_properties.spark_jobs.laboratory import Laboratory
from headrace_properties.spark_jobs.outcomes import SCHEDULES, check_job, without_sink
from headrace_properties.spark_jobs.query_review import QueryReview, is_for_looking, review_query
from headrace_properties.spark_jobs.smaller_feeds import narrowed, shrunk
from headrace_properties.spark_jobs.table_judge import TableJudge
from headrace_properties.spark_jobs.trials import SinkTrial
from headrace_properties.spark_jobs.upgrades import Earlier, Upgrade
from headrace_properties.target_kinds import TargetKind
from headrace_sim.deliveries import DELIVERIES, UNSAID, Batches, RowDelivery
from headrace_sim.spark.columns.ddl import Schema
from headrace_sim.spark.columns.frames import Rows, column
from headrace_sim.spark.columns.recorded import Recorded
from headrace_sim.spark.declares import Declares
from headrace_sim.spark.laboratory.laboratory_program import REMOTE
from headrace_sim.spark.pyspark_versions import versions
from headrace_sim.spark.query.schedules import Schedule
from headrace_sim.spark.query.stages import planned
from headrace_sim.spark.query.streaming_query import Outcome, hashable, run_job
from headrace_sim.spark.refusals import place_of_error
from headrace_sim.spark.sink_faults import SinkFault, SinkFaultKind
from headrace_sim.spark.sinks.processes import SinkFunction
from headrace_sim.spark.sinks.sink_runs import Sight, SinkFailsError, Watcher
from headrace_sim.spark.spark_job import (
    Aggregate,
    Columns,
    OutputMode,
    SparkJob,
    SparkJobError,
    SparksOwn,
    Step,
    Union,
    WatermarkStep,
)

_REFUSED = re.compile("output mode", re.IGNORECASE)
"""What Spark says of a query whose output mode does not fit its operators, or its sink."""
_MISSING = re.compile(r"(?:ClassNotFoundException|Failed to find (?:the )?data source): ([\w.$]*[\w$])")
"""What Spark says of a connector or a driver whose jar it has not."""
NO_ROW = "no row came to the sink: nothing could be lost or doubled"
_SELECTIVE = frozenset({"filter", "dropna", "join", "sample"})
"""The steps that may leave no row of a batch."""
SINK_TRIES = 3
"""Choice: the number of smaller inputs tried for a finding about a sink. Each takes a few processes."""
CALM_TRIES = 40
"""Choice: the same, of a promise that is broken without any failure. Each takes one process."""


@dataclass(frozen=True, slots=True)
class SparkReport:
    """The findings about a Spark job and its sink."""

    name: str  # as the user wrote it
    # the results of its schedules, or None if it neither keeps state nor calls functions in Python
    job: JobReport | None
    sink: SinkReport | None  # the results of its sink's trials, or None if it has no sink of its own
    findings: tuple[Finding, ...] = ()  # what was found of both, violated ones first
    unknown: tuple[str, ...] = ()  # what was not judged, each with the reason
    notes: tuple[str, ...] = ()  # what is worth knowing of the query's settings and its sink
    written: tuple[int, ...] = ()  # the number of rows that reach a sink which is not code, by batch
    calm: Sight | None = None  # what the sink left undisturbed
    # why nothing tested a promise, by its name; "": something did
    asked: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_run(self) -> bool:
        """Whether rows went through it, undisturbed."""
        return self.calm is not None or any(self.written) or (self.job is not None and self.job.schedules > 0)


@dataclass(frozen=True, slots=True)
class SparkTarget:
    """A job or a sink, with its input."""

    name: str  # as the user wrote it
    job: SparkJob  # the job; for a sink alone, one without steps
    feed: Sequence[Sequence[tuple[Any, ...]]]
    prepare: Callable[[], Any] | None = None  # makes what the sink takes for granted, or None
    promises: tuple[Promise, ...] = ()  # what its author says of it
    # the columns by which connectors write that are not known, by table of ``df.write``; none: it adds rows
    keys: Mapping[str, Sequence[str]] = field(default_factory=dict)
    limits: CodeLimits = field(default_factory=CodeLimits)  # of each call of its code
    assumed: bool = False  # whether nothing is known of the query before the sink, and its rows are drawn
    laboratory: Laboratory | None = None  # where it is tried on the real Spark; None: it is simulated
    feed_seed: int = 0  # from which the rows are drawn, or made
    earlier: Earlier | None = None  # a version of it from whose checkpoint it is to go on

    @property
    def upgrade(self) -> Upgrade | None:
        """Its upgrade from an earlier version, if there is one."""
        if self.earlier is None:
            return None
        feed = self.feed if len(self.feed) > 1 else [[row] for batch in self.feed for row in batch]
        return Upgrade(self.earlier, without_sink(self.job), feed, self.limits)

    def declaring(self, more: Declares) -> "SparkTarget":
        """Return it with more declared."""
        return replace(self, job=replace(self.job, declares=self.job.declares | more))

    @property
    def kind(self) -> TargetKind:
        """Whether it is hosted, runs under schedules, or is a sink alone."""
        if self.laboratory is not None and self.laboratory.reader is not None:
            return TargetKind.HOSTED
        asked = self._promises_of_query
        return TargetKind.QUERY if asked or self.job.working or self.job.stateful else TargetKind.SINK

    @property
    def _promises_of_query(self) -> tuple[Promise, ...]:
        """Those that the schedules are asked; the others are about what a sink leaves."""
        return tuple(promise for promise in self.promises if promise not in self._promises_of_sink)

    @property
    def _promises_of_sink(self) -> tuple[Promise, ...]:
        laboratory = self.laboratory
        if laboratory is None:
            has_tables = self.job.sink.function is not None
        else:  # what is only shown, Spark keeps nowhere
            has_tables = laboratory.reader is None and not is_for_looking(self.job)
        return tuple(promise for promise in self.promises if has_tables and promise.reads_sink)

    @property
    def engines(self) -> "tuple[SparkTarget, ...]":
        """Itself on each engine on which it is tried: simulated, on the real Spark, or both."""
        if self.laboratory is None or not self.laboratory.beside:
            return (self,)
        real = replace(self.laboratory, beside=False)
        on_spark = replace(self, laboratory=real)
        return replace(self, laboratory=None), replace(on_spark, promises=on_spark._promises_of_sink)

    def verify(
        self,
        *,
        schedules: int = SCHEDULES,
        seed: int = 0,
        allow: Collection[Cause] = (),
        overtaken: bool = True,
        allow_unknown: Collection[str] = (),
        progress: Progress | None = None,
        on_finding: Callable[[Finding], object] = lambda _: None,
    ) -> SparkReport:
        """Review the query, run it under schedules, and then try its sink at each of its effects, on the job's output.

        Args:
            schedules: How many, for a job that keeps state or calls functions in Python.
            seed: They follow from it.
            allow: On what the job's outcome may depend.
            overtaken: Whether a driver that was replaced may go on (a zombie).
            allow_unknown: Promises that no run needs to test.
            progress: Told the number of schedules or trials that are done, and of all; a true result stops the search.
            on_finding: Told of what breaks, while the search goes on: of a job once it is shrunk, of a sink as it was found.

        Raises:
            JobFailsError: If the job fails without faults.
            SinkFailsError: If the sink fails without faults.
            UnfollowableSinkError: If the sink does something that cannot be simulated.
            CannotFollowError: If the job does.

        """
        judged, review = None, review_query(self.job, allow)
        if self.laboratory is not None:
            return self._in_laboratory(
                self.laboratory,
                review,
                allow,
                progress,
                allow_unknown,
                overtaken=overtaken,
            )
        if (refusal := self._refusal()) is not None:
            return SparkReport(self.name, None, None, (refusal,))
        if self.kind is TargetKind.QUERY:
            judged = check_job(
                self.job, self.feed, schedules=schedules, seed=seed, allow=allow, promises=self._promises_of_query,
                allow_unknown=allow_unknown, limits=self.limits, progress=progress,
                on_finding=lambda finding: on_finding(self._stamped(finding)),
            )  # fmt: skip
            judged = replace(judged, findings=tuple(map(self._stamped, judged.findings)))
            stopped = judged.schedules < schedules or judged.outcome.failure is not None
            if stopped or self.job.sink.function is None:
                findings = ranked([*judged.findings, *review.findings])
                notes = () if is_for_looking(self.job) else review.notes
                unknown = (*judged.unknown, *review.unknown)
                return SparkReport(self.name, judged, None, findings, unknown, notes, asked=judged.asked)
        if self.job.sink.function is None:
            return self._written(review)
        judge = self._judge()
        check = self._check(
            allow, judge.watcher, revised=self._revised(), new_checkpoint=self.job.declares.new_checkpoint,
            on_finding=lambda finding: on_finding(self._unshrunk(finding)),
        )  # fmt: skip
        sink = check.run(progress, overtaken=overtaken)
        findings, unknown = (judged.findings, judged.unknown) if judged else ((), ())
        if not any(self._outputs()):
            unknown = (*unknown, NO_ROW)
        asked = judge.asked()
        unknown = (*unknown, *untested(asked, allow_unknown))
        findings = ranked([*findings, *self._broken(judge, sink), *self._shown(sink), *review.findings])
        unknown = (*unknown, *sink.unknown)
        asked |= judged.asked if judged else {}
        return SparkReport(
            self.name, judged, sink, findings, unknown, review.notes, calm=judge.calm, asked=asked
        )

    def _in_laboratory(
        self,
        laboratory: Laboratory,
        review: QueryReview,
        allow: Collection[Cause],
        progress: Progress | None,
        allow_unknown: Collection[str],
        *,
        overtaken: bool,
    ) -> SparkReport:
        """Try the query on the real Spark, at each of its effects."""
        judge = self._judge()
        own = f"paths and tables were the trials' own{laboratory.reached}"
        note = f"Spark {self._spark} ran it as it is; {own}"
        reader = laboratory.reader
        if reader is not None:
            reader.promises = self.promises
        try:
            new_checkpoint = False if is_for_looking(self.job) else self.job.declares.new_checkpoint
            check = self._check(
                allow, judge.watcher, new_checkpoint=new_checkpoint, processes=laboratory.sparks
            )
            # Without a function, Spark itself refuses the first one:
            sink = check.run(progress, overtaken=overtaken and self.job.sink.function is not None)
        except SinkFailsError as error:
            if missing := _MISSING.search(error.message):
                jar = f"the Spark that is installed lacks {missing[1]}. Put its jar beside Spark's own: pyspark/jars"
                raise UnfollowableSinkError(f"{error.place}: {jar}") from error
            if error.batch >= 0 or not _REFUSED.search(error.message):
                raise
            message = f"Spark refuses to start the query: {error.message}"
            remedy = "Choose an output mode that fits the query and its sink"
            refusal = self._refusal() or finding_of(Cause.ERROR, error.place, message, remedy)
            return SparkReport(self.name, None, None, (refusal,), notes=(note,))
        if self.job.state is not None and REMOTE in self.job.state.settings.values:
            note += ". It is a client of Spark Connect, and had a classic session"
        note += laboratory.went_on(check.sink, len(sink.effects))
        may_repeat = self.job.declares.source.once is False
        note += "; rows that it delivers again were not tried" * (may_repeat and bool(laboratory.batches))
        of_source = () if reader is None else reader.of_source(self.job.declares.source)
        findings = ranked([*of_source, *self._broken(judge, sink), *self._shown(sink), *review.findings])
        asked = judge.asked()
        unknown = (*sink.unknown, *untested(asked, allow_unknown))
        if reader is None or reader.first is None:
            names = (promise.name for promise in self._promises_of_query if promise.name not in allow_unknown)
            unjudged = (
                f"promise {name} is not judged on the real Spark: its trials leave no such table"
                for name in names
            )
            unknown, notes = (*unknown, *unjudged), (note, *review.notes)
            return SparkReport(self.name, None, sink, findings, unknown, notes, calm=judge.calm, asked=asked)
        of_pipeline = reader.first.findings(reader.expected, FindingClass.UNDECLARED)
        violated = FindingClass.VIOLATED
        kept = (
            finding
            for finding in of_pipeline
            if finding.finding_class is violated or Cause.ORDER not in allow
        )
        findings = ranked([*kept, *findings])
        unknown = (*unknown, *reader.first.unknown(allow_unknown))
        notes = (note, reader.first.note, *review.notes)
        return SparkReport(self.name, None, sink, findings, unknown, notes, asked=reader.first.asked())

    def _judge(self) -> TableJudge:
        """Return what asks promises of what the sink leaves."""
        asked, outcome = self._promises_of_sink, None
        try:
            if asked and not (self.laboratory is not None and (self.assumed or self.laboratory.batches)):
                outcome = self.outcome()
        except HeadraceError:  # only the real Spark can compute it
            if self.laboratory is None:
                raise
        feed = None if self.laboratory is not None and self.laboratory.batches else self.feed
        return TableJudge(asked, self.job, feed, outcome)

    def _broken(self, judge: TableJudge, sink: SinkReport) -> Iterator[Finding]:
        """Yield the promises that the sink breaks. They are shrunk unless the search was stopped."""
        whole = sink.stopped or self.laboratory is not None
        for finding in judge.findings(self.feed_seed, None, self._spark):
            yield finding if whole else self._promise_shrunk(finding)

    def _promise_shrunk(self, finding: Finding) -> Finding:
        """Leave out rows as long as the promise is broken under the same fault."""
        smallest = finding

        def fails(kept: tuple[int, ...], _schedule: Schedule) -> bool:
            nonlocal smallest
            try:
                broken = replace(self, feed=narrowed(self.feed, kept)).broken_again(finding.trial)
            except HeadraceError:
                return False
            smallest = smallest if broken is None else broken
            return broken is not None

        calm = finding.trial.fault.kind is SinkFaultKind.NONE
        kept, _ = shrunk(sum(map(len, self.feed)), Schedule(), fails, CALM_TRIES if calm else SINK_TRIES)
        trial = structs.replace(finding.trial, kept=kept)
        return replace(finding, message=smallest.message, trial=trial)

    def broken_again(self, trial: SinkTrial) -> Finding | None:
        """Run the trial of a broken promise again; return what it shows, or None."""
        asked = tuple(promise for promise in self.promises if promise.name == trial.promise)
        target = replace(self, promises=asked)
        judge = target._judge()
        if trial.fault.kind is SinkFaultKind.NONE and self.laboratory is None:
            calm = undisturbed_run(*self.sink_call(), self.prepare_call(), self.job.state, self.keys)
            judge.take(calm.at_end(len(self.feed)))
        else:
            target.try_fault(trial.fault, judge.watcher)
        finding = next(judge.findings(trial.feed_seed, trial.kept, trial.spark), None)
        return None if finding is None else replace(finding, trial=trial)

    def rows_beside(self, trial: SinkTrial, batches: Batches) -> OtherRows | None:
        """Return the rows that show how a promise is broken, beside those that the sink is given; ``None``: no others do."""
        if trial.fault.kind is SinkFaultKind.DELIVERED:
            delivery = [*RowDelivery][trial.fault.effect]
            return OtherRows(delivery.value, DELIVERIES[delivery].of(batches))
        if trial.fault.kind is SinkFaultKind.NONE and trial.promise:
            names = self.sink_call()[2].names
            return rows_by_version(batches, names, self.promises, trial.promise)
        return None

    def _refusal(self) -> Finding | None:
        """Return the finding that Spark refuses to start a query of its own operators."""
        if not any(isinstance(step, SparksOwn) for step in self.job.stateful):
            return None
        try:
            planned(self.job)
        except SparkJobError as error:
            message = f"Spark refuses to start the query: {error.problem}"
            return finding_of(Cause.ERROR, error.place, message, error.remedy)
        return None

    def _written(self, review: QueryReview) -> SparkReport:
        """Run a query that has no code to try, and return what its sink guarantees."""
        rows = tuple(map(len, self._outputs()))
        unknown = review.unknown if any(rows) else (*review.unknown, NO_ROW)
        return SparkReport(self.name, None, None, ranked(review.findings), unknown, review.notes, rows)

    def _shown(self, sink: SinkReport) -> Iterator[Finding]:
        """Yield what was found of the sink, and what is asked. Findings are shrunk unless the search was stopped."""
        whole = sink.stopped or self.laboratory is not None
        yield from map(self._unshrunk if whole else self._shrunk, sink.findings)
        yield from (question_of_sink(asked, self.feed_seed, None, self._spark) for asked in sink.questions)

    def _allowed_of_sink(self, allow: Collection[Cause]) -> list[str]:
        source, running = self.job.declares.source, self.job.declares.running
        declared = {Cause.ORDER: source.ordered, Cause.BATCHING: running}
        return [cause.value for cause in Cause if cause in allow or declared.get(cause)]

    def _stamped(self, finding: Finding) -> Finding:
        """Return a finding of the job with its line, and the seed of its rows."""
        trial = structs.replace(finding.trial, feed_seed=self.feed_seed)
        return replace(placed(self.job, self.feed, finding), trial=trial)

    def try_fault(
        self, fault: SinkFault, watcher: Watcher | None = None, rows: OtherRows | None = None
    ) -> OneTrial:
        """Try the sink under one fault, on the job's output. ``watcher``: told what is seen. ``rows``: as in `SinkCheck.one`.

        Raises:
            JobFailsError: As `verify` does; so are the others.

        """
        return self._check((), watcher).one(fault, rows)

    def _check(self, allow: Collection[Cause], watcher: Watcher | None, **how: Any) -> SinkCheck:
        """Return the trials of the sink, simulated or on the real Spark. ``how``: more fields of `SinkCheck`."""
        how |= {"rows_of": self._rows_of(), "allow": self._allowed_of_sink(allow), "watcher": watcher}
        where = self.laboratory
        # Its own sources deliver what they have; what a pipeline makes of its source's records is no matter of the sink.
        is_apart = where is not None and (where.batches > 0 or where.reader is not None)
        how["source"] = UNSAID if is_apart else self.job.declares.source
        if self.laboratory is not None:
            return SinkCheck(self.laboratory.sink(self.job, self.feed, self.keys), **how)
        sink = sink_of(*self.sink_call(), self.prepare_call(), self.keys, self.job.state)
        return SinkCheck(sink, filters=self._filters, **how)

    @property
    def _filters(self) -> bool:
        """Whether the query may leave no row of a batch that its source gives."""
        return any(isinstance(step, Columns) and step.call in _SELECTIVE for step in self.job.steps)

    def _rows_of(self) -> RowsOf:
        if not self.job.stateful:
            return RowsOf.UNKNOWN if self.assumed else RowsOf.SOURCE
        appended = self.job.stateful[-1].output_mode is OutputMode.APPEND
        return RowsOf.APPENDED if appended else RowsOf.UPDATED

    def _revised(self) -> tuple[tuple[int, int], ...]:
        """Return the numbers of output rows of which the second one is a newer result for the key of the first one."""
        names, last = self.job.output.names, self.job.stateful[-1] if self.job.stateful else None
        if not isinstance(last, Aggregate) or last.output_mode is OutputMode.APPEND:
            return ()
        if not set(last.keys) <= set(names):
            return ()
        places = [names.index(name) for name in last.keys]
        known, pairs = dict[Any, int](), list[tuple[int, int]]()
        for number, row in enumerate(row for rows in self._outputs() for row in rows):
            key = tuple(hashable(row[place]) for place in places)
            if key in known:
                pairs.append((known[key], number))
            known[key] = number
        return tuple(pairs)

    def prepare_call(self) -> Callable[[], Any] | None:
        """Return what the trials of the sink call first, or None."""
        return None if self.prepare is None else self._confined(self.prepare)

    def _confined(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return a call that is limited. A trial simulates its effects, and refuses those outside of it."""

        def confined(*arguments: Any) -> None:
            with effects_let_through(), call_time_limited(self.limits):
                call(*arguments)

        confined.__wrapped__ = call  # type: ignore[attr-defined]  # whose definition is the place
        return confined

    def sink_call(self) -> tuple[Callable[..., Any], Sequence[Sequence[tuple[Any, ...]]], Schema]:
        """Return what the trials of the sink call for each batch, the batches, and their schema.

        A batch that is run again is computed again: so what only computes columns is a part of what is tried.
        """
        function = self.job.sink.function
        assert function is not None
        steps = self.job.steps
        if not steps or any(not isinstance(step, Columns | Union | WatermarkStep) for step in steps):
            return self._confined(function), self._outputs(), self.job.output

        def computed(frame: Any, batch_id: int) -> None:
            function(frame.sparkSession.derived(frame, lambda rows: reduce(_computed, steps, rows)), batch_id)

        computed.__wrapped__ = function  # type: ignore[attr-defined]  # its definition is the place
        return self._confined(computed), self.feed, self.job.input

    def with_drawn_rows(self) -> "SparkTarget":
        """Return it with rows that are also drawn for what its sink does with frames, and for what its promises are about."""

        def run(function: SinkFunction) -> None:
            target = replace(self, job=replace(self.job, sink=replace(self.job.sink, function=function)))
            undisturbed_run(*target.sink_call(), target.prepare_call(), self.job.state)

        feed, sink = self.feed, self.job.sink
        if sink.function is not None and sink.writer is None:
            feed = feed_for_sink(self.job, self.feed_seed, feed, run)
        return replace(self, feed=in_versions(feed, self.job.input.names, self.promises))

    def _outputs(self) -> list[list[tuple[Any, ...]]]:
        """Return the job's output, undisturbed."""
        return [rows for _, rows in sorted(self.outcome().outputs.items())]

    def outcome(self) -> Outcome:
        """Run the query, undisturbed. Raise `JobFailsError` if it fails."""
        outcome = run_job(without_sink(self.job), self.feed)
        if outcome.failure is not None:
            error = f"{type(outcome.failure).__name__}: {outcome.failure}"
            first = next((step.place for step in self.job.working), "")
            raise JobFailsError(error, place_of_error(outcome.failure, first))
        return outcome

    def _unshrunk(self, finding: SinkFinding) -> Finding:
        return finding_of_sink(finding, self.feed_seed, None, self._spark)

    @property
    def _spark(self) -> str:
        """The version of the real Spark that tries it, or ""."""
        return "" if self.laboratory is None else self.laboratory.jvm.version

    @property
    def versions(self) -> dict[str, str]:
        """What judges it, by name."""
        return versions() | ({} if self.laboratory is None else self.laboratory.versions)

    def _shrunk(self, finding: SinkFinding) -> Finding:
        """Leave out rows as long as the same fault still shows the finding, and record the remaining rows."""
        if finding.fault.kind is SinkFaultKind.NONE:  # another loss may be the simpler one, and says less
            return self._unshrunk(finding)
        smallest = finding

        def fails(kept: tuple[int, ...], _schedule: Schedule) -> bool:
            nonlocal smallest
            try:
                trial = replace(self, feed=narrowed(self.feed, kept)).try_fault(finding.fault)
            except HeadraceError:  # a smaller feed that the job or the sink cannot take
                return False
            for shown in trial.findings:
                if (shown.wrong, shown.place) == (finding.wrong, finding.place):
                    smallest = shown
                    return True
            return False

        kept, _ = shrunk(sum(map(len, self.feed)), Schedule(), fails, SINK_TRIES)
        return finding_of_sink(replace(smallest, trials=finding.trials), self.feed_seed, kept)


def _computed(rows: Rows, step: Step) -> Rows:
    """Compute a step that keeps no state on the rows of a batch."""
    if isinstance(step, Union):
        streams = []
        for part in step.branches:
            own = rows.filter(Recorded("isNotNull", (column(part.source),), step.place))
            whole = own.select([column(f"{part.source}.*", step.place)])
            streams.append(reduce(_computed, part.steps, whole))
        return reduce(lambda one, other: one.union(other, step.place), streams)
    return step.compute(rows) if isinstance(step, Columns) else rows
