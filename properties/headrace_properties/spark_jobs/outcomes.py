"""A Spark job under many schedules: its settled outcome must be the same in each.

All runs are compared with the run of the given feed without faults. Each schedule changes only one thing, so that a
difference has a name: faults, the number of partitions, the order of rows in a batch, how the input is cut into batches, or
the date and random numbers.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from msgspec import structs

from headrace_properties.findings import Finding, Kind, ranked
from headrace_properties.promises import Promise
from headrace_properties.search.guard import guarded
from headrace_properties.search.limits import CodeLimits, call_time_limited
from headrace_properties.sinks.sink_reports import Progress
from headrace_properties.spark_jobs.alone import LOOKS, lasting
from headrace_properties.spark_jobs.changes import BY_CLOCK, by_clock, changes_of, cuts_otherwise, left_out_of
from headrace_properties.spark_jobs.job_causes import Cause
from headrace_properties.spark_jobs.job_findings import EFFECT_FIRST, NO_OUTPUT, WAITING, JobReport, untested
from headrace_properties.spark_jobs.odd_records import told_of_odd_records
from headrace_properties.spark_jobs.promised import QueryJudge, asked_of_runs
from headrace_properties.spark_jobs.query_probe import QueryProbe
from headrace_properties.spark_jobs.query_rests import rests, told_of_stops
from headrace_properties.spark_jobs.runs import StoppedError, run_changed
from headrace_properties.spark_jobs.smaller_feeds import TRIES, narrowed, shrunk
from headrace_properties.spark_jobs.swallowed import RaisedCall, heard_run
from headrace_properties.spark_jobs.trials import QueryTrial
from headrace_properties.spark_jobs.watching import Noted
from headrace_sim.deliveries import FeedSource
from headrace_sim.spark.declares import Declares
from headrace_sim.spark.query.schedules import Feed, Schedule, draw_schedule
from headrace_sim.spark.query.streaming_query import Outcome
from headrace_sim.spark.refusals import shown_place
from headrace_sim.spark.spark_job import OutputMode, SparkJob, SparkSink

LONG_AFTER_S = 400 * 86_400
"""Choice: when a row comes again of which nobody has said how late it may, in seconds."""
SCHEDULES = 200
"""Choice: number of schedules per job."""


def check_job(
    job: SparkJob,
    feed: Feed,
    *,
    schedules: int = SCHEDULES,
    seed: int = 0,
    allow: Collection[Cause] = (),
    promises: Sequence[Promise] = (),
    allow_unknown: Collection[str] = (),
    limits: CodeLimits | None = None,
    progress: Progress | None = None,
    on_finding: Callable[[Finding], object] = lambda _: None,
) -> JobReport:
    """Run a job under schedules that each change one thing, and compare outcomes. Its sink is not called.

    Args:
        job: The job.
        feed: The rows of its input, batch by batch.
        schedules: How many.
        seed: All schedules follow from it.
        allow: What the outcome may depend on, because that is intended.
        promises: Its author's promises, checked in each run.
        allow_unknown: Those that no run needs to test.
        limits: Of each call of its code.
        progress: Told after each schedule; a true result stops the search.
        on_finding: Told of each finding as soon as it is shrunk, while the search goes on.

    Raises:
        JobFailsError: If the job fails without faults.
        SparkJobError: If Spark would refuse it.
        PySparkException: If a row of the feed does not fit its schema.

    """
    limits = limits or CodeLimits()
    probe = QueryProbe(declared(without_sink(job), allow), feed, promises, Cause.EFFECT in allow)
    search = _Search(probe, frozenset(allow), limits, on_finding)
    with guarded(allows_effects=Cause.EFFECT in allow), call_time_limited(limits):
        report = search.run(schedules, seed, progress)
        if report.schedules == schedules:
            # Else the trials of the sink have the rows of the source.
            spoiled = bool(job.stateful) or job.sink.function is None
            odd = told_of_odd_records(probe.job, feed, report.outcome, spoiled=spoiled)
            report = replace(report, notes=(*report.notes, *odd, *told_of_stops(probe)))
    asked = asked_of_runs(promises, search.tested, search.untested)
    return replace(report, unknown=(*report.unknown, *untested(asked, allow_unknown)), asked=asked)


def check_again(
    job: SparkJob,
    feed: Feed,
    trial: QueryTrial,
    promises: Sequence[Promise] = (),
    limits: CodeLimits | None = None,
) -> Finding | None:
    """Run an earlier trial again.

    Args:
        job: The job.
        feed: All rows of its input.
        trial: What to run, and what to look for.
        promises: Its author's promises.
        limits: Of each call of its code.

    Returns:
        What it shows, with this trial, or None.

    Raises:
        JobFailsError: As `check_job` does; so is `SparkJobError`.

    """
    limits = limits or CodeLimits()
    with guarded(), call_time_limited(limits):
        probe = QueryProbe(without_sink(job), narrowed(feed, trial.kept), promises)
        probe.watched  # noqa: B018  or raise
        finding = probe.find(structs.replace(trial, kept=None))
    return None if finding is None else replace(finding, trial=trial)


def without_sink(job: SparkJob) -> SparkJob:
    """Return the job without the code of its sink."""
    is_code = job.sink.function is not None or job.sink.writer is not None
    return replace(job, sink=SparkSink(output_mode=job.sink.output_mode)) if is_code else job


def declared(job: SparkJob, allow: Collection[Cause]) -> SparkJob:
    """Return the job with what is allowed by name declared as well."""
    allowed = Declares(
        source=FeedSource(ordered=Cause.ORDER in allow),
        running=Cause.BATCHING in allow,
        late=Cause.LATE in allow,
        bounded_by="few keys" if Cause.GROWTH in allow else "",
        repeated=Cause.REPEATED in allow,
    )
    return replace(job, declares=allowed | job.declares)


class _Search:
    """Runs schedules of a query, and keeps the smallest trial of each kind of finding."""

    def __init__(
        self,
        probe: QueryProbe,
        allow: frozenset[Cause],
        limits: CodeLimits,
        on_finding: Callable[[Finding], object],
    ) -> None:
        self._probe = probe
        self._on_finding = on_finding
        self._allow = allow - {Cause.BATCHING}  # what is left of it is checked
        self._limits = limits
        self._findings: dict[Kind, Finding] = {}
        self.tested: set[str] = set()
        self.untested: dict[str, str] = {}
        self._handled: set[str] = set()

    def run(self, schedules: int, seed: int, progress: Progress | None) -> JobReport:
        (calm, noted), raised = heard_run(lambda: self._probe.watched)
        self._hear(raised, QueryTrial(Cause.SWALLOWED))
        for cause in LOOKS:
            self._take(QueryTrial(cause))
        if calm.failure is not None:  # of an effect, which is told
            return JobReport(ranked(self._findings.values()), (EFFECT_FIRST,), 0, 0, calm)
        self._ask(QueryTrial(Cause.PROMISE))
        done, most_late = self._tried(schedules, seed, progress)
        for trial in (*rests(self._probe), QueryTrial(Cause.ALIKE)) if done == schedules else ():
            self._take(trial)
        unknown = [] if any(calm.outputs.values()) else [_no_output(self._probe.job, calm)]
        if done < schedules:
            unknown.append(f"the search was stopped after {done:,} of {schedules:,} schedules")
        left_out = BY_CLOCK if self._probe.follows_the_clock else left_out_of(self._probe.job)
        notes = (*self._long_after(),) if done == schedules else ()
        notes += _notes(self._probe.job.declares, len({key for _, _, key in lasting(calm, noted)}))
        if Cause.MEMORY not in self._allow and self._probe.kind(Cause.MEMORY) not in self._findings:
            notes += (*told_of_kept(noted),)
        findings = ranked(self._findings.values())
        return JobReport(findings, tuple(unknown), done, most_late, calm, left_out, notes)

    def _tried(self, schedules: int, seed: int, progress: Progress | None) -> tuple[int, int]:
        """Run schedules. Return their number, and the greatest number of late rows in one of them."""
        probe, timed, kept = self._probe, self._probe.follows_the_clock, bool(self._probe.kept_outside)
        changes = [*changes_of(probe.job, len(probe.feed), timed=timed, kept=kept)]
        most_late, shown = probe.watched[0].late, dict[QueryTrial, list[Kind]]()
        for number in range(schedules):
            change = changes[number % len(changes)]
            schedule = change.of(draw_schedule(seed + number, probe.job.partitions, probe.feed))
            trial, endless = QueryTrial(change.cause, change.cause, schedule), False
            if trial in shown:  # drawn before: it comes to the same
                for kind in shown[trial]:
                    self._count(kind)
            else:
                before = {kind: finding.trials for kind, finding in self._findings.items()}
                outcome = self._run_and_judge(trial, timed=timed)
                most_late = max(most_late, outcome.late)
                findings = self._findings.items()
                shown[trial] = [kind for kind, finding in findings if finding.trials > before.get(kind, 0)]
                endless = isinstance(outcome.failure, StoppedError)  # each more would take as long
            if (progress is not None and progress(number + 1, schedules)) or endless:
                return number + 1, most_late
        return schedules, most_late

    def _run_and_judge(self, trial: QueryTrial, *, timed: bool) -> Outcome:
        """Run a schedule, and keep what it shows. ``timed``: as in `changes_of`."""
        outcome, schedule = self._ask(structs.replace(trial, cause=Cause.PROMISE)), trial.schedule
        assert schedule is not None
        if outcome.early and all(kind.name != Cause.LATE.value for kind in self._findings):
            self._take(structs.replace(trial, cause=Cause.LATE))
        moves_clock = cuts_otherwise(schedule) or bool(schedule.steps_ms)
        if timed or not (outcome.clocked and by_clock(self._probe.job) and moves_clock):
            self._judge(trial, outcome)
        return outcome

    def _long_after(self) -> Iterator[str]:
        """Let all rows come again long after the first time, of a query that takes each once if they come again soon.

        Yield what is told of it where nobody has said that rows come again.
        """
        probe, source = self._probe, self._probe.job.declares.source
        twice, seconds = tuple(range(probe.rows)), source.again_within_s or LONG_AFTER_S
        soon = QueryTrial(Cause.DUPLICATES, Cause.DUPLICATES, Schedule(twice=twice, step_ms=0))
        late = QueryTrial(Cause.FORGOTTEN, Cause.FORGOTTEN, Schedule(twice=twice, step_ms=seconds * 500 - 1))
        if source.once or not probe.follows_the_clock or probe.find(soon) is not None:
            return
        if source.once is False:
            self._take(late)
        elif (finding := probe.find(late)) is not None:
            declare = "Say how late it may repeat one: source = FeedSource(once=False, again_within_s=...)"
            yield f"{shown_place(str(finding.place or ''))}: {finding.message}. {declare}"

    def _ask(self, trial: QueryTrial) -> Outcome:
        """Run a schedule; take the promises that it breaks, and the errors of state calls that the code catches in it."""
        judge = QueryJudge(self._probe.promises, self._probe.job)
        schedule, feed = trial.schedule or Schedule(), self._probe.feed
        job, after = self._probe.job, judge.after_batch
        outcome, raised = heard_run(
            lambda: run_changed(job, feed, schedule, trial.changed, after_batch=after)
        )
        if outcome.failure is None:
            self._hear(raised, trial)
        if trial.changed is Cause.DUPLICATES or outcome.late > self._probe.watched[0].late:
            return outcome
        judge.at_end(outcome)
        self.tested |= judge.tested
        self.untested |= judge.untested
        for name in judge.broken:
            self._take(structs.replace(trial, promise=name))
        return outcome

    def _hear(self, raised: Sequence[RaisedCall], trial: QueryTrial) -> None:
        """Take a state call whose error the code catches and tells nobody of."""
        places = {call.place for call in raised} - self._handled
        if places and self._probe.kind(Cause.SWALLOWED) not in self._findings:
            self._handled |= places
            self._take(structs.replace(trial, cause=Cause.SWALLOWED))

    def _judge(self, trial: QueryTrial, outcome: Outcome) -> None:
        """Compare a schedule's outcome with the undisturbed one, and name what makes it differ."""
        probe, schedule = self._probe, trial.schedule or Schedule()
        calm = probe.undisturbed(trial)
        differs = probe.difference(calm, outcome, schedule)
        if differs is None or (schedule.delayed and probe.depends_on_batching):
            return
        cause = self._named(trial, calm, outcome)
        expected = cause is Cause.LATE and (calm.late > 0 or probe.job.declares.late)  # its author knows
        if cause not in self._allow and not expected:
            named = structs.replace(trial, cause=cause)
            self._keep(
                probe.finding(named, differs, outcome), endless=isinstance(outcome.failure, StoppedError)
            )

    def _named(self, trial: QueryTrial, calm: Outcome, outcome: Outcome) -> Cause:
        if outcome.failure is not None:
            return Cause.ERROR
        if self._probe.is_of_memory(trial):
            return Cause.MEMORY
        if trial.changed is Cause.CHANCE or self._probe.kind(Cause.CHANCE) in self._findings:
            return Cause.CHANCE
        is_late = trial.changed is Cause.BATCHING and (outcome.late or calm.late)
        return Cause.LATE if is_late else trial.changed

    def _take(self, trial: QueryTrial) -> None:
        """Look for what a trial may show, and keep it."""
        if trial.cause in self._allow:
            return
        kind = self._probe.kind(trial.cause, trial.promise)
        if kind in self._findings:
            self._count(kind)
        elif (finding := self._probe.find(trial)) is not None:
            self._keep(finding)

    def _keep(self, finding: Finding, *, endless: bool = False) -> None:
        """Keep a finding of a new kind, in the smallest trial that shows it."""
        if finding.kind in self._findings:
            self._count(finding.kind)
            return
        limits, tries = (_HASTY, _HASTY_TRIES) if endless else (self._limits, TRIES)
        with call_time_limited(limits):
            smallest = self._smallest(finding, tries)
            memory = self._of_memory(smallest)
        self._findings[finding.kind] = smallest = smallest if memory is None else memory
        self._on_finding(smallest)

    def _of_memory(self, finding: Finding) -> Finding | None:
        """Return a difference as one of memory, if it is one on the rows that are left: on all rows, others may mask it."""
        trial: QueryTrial = finding.trial
        if trial.cause not in _OF_TIMING or not self._probe.is_of_memory(trial):
            return None
        return self._probe.find(structs.replace(trial, cause=Cause.MEMORY))

    def _count(self, kind: Kind) -> None:
        known = self._findings[kind]
        self._findings[kind] = replace(known, trials=known.trials + 1)

    def _smallest(self, finding: Finding, tries: int) -> Finding:
        trial: QueryTrial = finding.trial

        def smaller(kept: tuple[int, ...], schedule: Schedule) -> QueryTrial:
            return structs.replace(trial, kept=kept, schedule=schedule if trial.schedule else None)

        def shows(kept: tuple[int, ...], schedule: Schedule) -> bool:
            again = self._probe.find(smaller(kept, schedule))
            return again is not None and again.kind == finding.kind

        smallest = smaller(*shrunk(self._probe.rows, trial.schedule or Schedule(), shows, tries))
        if smallest.cause in {Cause.PROMISE, Cause.SWALLOWED} and smallest.schedule == Schedule():
            smallest = structs.replace(smallest, schedule=None)
        return self._probe.find(smallest) or replace(finding, trial=smallest)


def _no_output(job: SparkJob, calm: Outcome) -> str:
    """Return why nothing came out: the watermark has not come to the end of any group, or the input does not fit."""
    waits = any(calm.state[place] for place in calm.bounded & calm.state.keys())
    if not waits or job.sink.output_mode is not OutputMode.APPEND:
        return NO_OUTPUT
    end = datetime.fromtimestamp(calm.watermark_ms / 1000, UTC)
    return WAITING.format(end=f"{end:%Y-%m-%d %H:%M:%S} UTC")


_OF_TIMING = frozenset({Cause.BATCHING, Cause.ORDER, Cause.PARTITIONS, Cause.FAULTS})
_HASTY, _HASTY_TRIES = CodeLimits(call_s=1.0), 20
"""Choice: limits of the smaller feeds for code that is known not to end, and their number."""


def told_of_kept(noted: Noted) -> Iterator[str]:
    """Yield what the code keeps outside state, which no schedule shows to matter. ``noted``: of the undisturbed run."""
    most = max(noted.rows.values(), default=0)
    few = f": no key had more than {most} rows in the input" * bool(most)
    for place in dict.fromkeys(kept.place for kept in noted.kept):
        names = " and ".join(kept.what for kept in noted.kept if kept.place == place)
        yield (
            f"{shown_place(place)}: the code keeps {names} outside state, where it lasts for a task or a Python worker. No "
            f"schedule shows that this matters{few}. If the code waits for more, give it such rows; if it must not forget, "
            "keep it in state"
        )


def _notes(declares: Declares, keys: int) -> tuple[str, ...]:
    """Tell what is declared of state that lasts. ``keys``: how many have such state on this input."""
    if not keys or not declares.bounded_by:
        return ()
    bound = declares.bounded_by
    bound = f"at most {bound} keys" if isinstance(bound, int) else bound
    return (f"nothing removes the state of {keys} keys on this input; declared: {bound}",)
