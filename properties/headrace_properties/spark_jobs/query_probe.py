"""What one trial of a Spark query shows: each cause is looked for in its own way, in the search and when a file is replayed."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from msgspec import structs

from headrace_properties.findings import Family, Finding, FindingClass, Kind
from headrace_properties.promises import Promise
from headrace_properties.spark_jobs.alone import LOOKS, dropped_early, place_of_watermark
from headrace_properties.spark_jobs.changes import by_clock, cuts_otherwise
from headrace_properties.spark_jobs.job_causes import CAUSES, Cause
from headrace_properties.spark_jobs.job_findings import (
    AFTER_A_FAULT,
    SEVERAL_WINDOWS,
    JobFailsError,
    difference_told,
    finding_of,
    place_at,
    schedule_told,
    size_told,
    swallowed_call,
)
from headrace_properties.spark_jobs.promised import QueryJudge
from headrace_properties.spark_jobs.runs import (
    StoppedError,
    place_of_failure,
    raised_told,
    run_changed,
    watched_calmly,
    watched_job,
)
from headrace_properties.spark_jobs.settled import Updates, difference, has_more
from headrace_properties.spark_jobs.smaller_feeds import narrowed
from headrace_properties.spark_jobs.swallowed import heard_run
from headrace_properties.spark_jobs.trials import QueryTrial
from headrace_properties.spark_jobs.watching import (
    LeakedState,
    Lifetime,
    Noted,
    outside_of,
    place_of,
    watched_run,
)
from headrace_sim.deliveries import RowDelivery, are_split, key_twins
from headrace_sim.spark.query.schedules import Feed, Schedule
from headrace_sim.spark.query.streaming_query import Outcome
from headrace_sim.spark.spark_job import SparkJob, TimeMode, TransformWithState


@dataclass
class QueryProbe:
    """A query on its input, and what its trials show."""

    job: SparkJob  # the query, without its sink
    feed: Feed
    promises: Sequence[Promise] = ()  # its author's promises
    allows_effects: bool = False  # whether effects outside the process are meant
    _undisturbed: dict[tuple[tuple[int, ...] | None, Schedule], Outcome] = field(default_factory=dict)

    @cached_property
    def watched(self) -> tuple[Outcome, Noted]:
        """The undisturbed run, and what was noted of the code.

        Raise `JobFailsError` if the job fails in it, and not because an effect of its code is refused.
        """
        calm, noted = watched_calmly(self.job, self.feed)
        effects = () if self.allows_effects else noted.effects
        if calm.failure is not None and not effects:
            error = raised_told(calm.failure)
            if noted.effects:
                error += f" (its code {noted.effects[0][0]}, which a task that is run again repeats)"
            raise JobFailsError(error, place_of_failure(calm.failure, self._place_of_processor()))
        return calm, noted

    @property
    def rows(self) -> int:
        """The number of rows of the input."""
        return sum(map(len, self.feed))

    @property
    def kept_outside(self) -> list[LeakedState]:
        """What the code keeps outside state."""
        return self.watched[1].kept

    def find(self, trial: QueryTrial) -> Finding | None:
        """Return what a trial shows of its cause, or ``None``."""
        declares = self.job.declares
        by_order = declares.source.ordered and trial.changed is Cause.ORDER
        if by_order or (declares.late and trial.cause is Cause.LATE):
            return None
        match trial.cause:
            case Cause.PROMISE:
                finding = self._broken(trial)
            case Cause.SWALLOWED:
                finding = self._swallowed(trial)
            case Cause.ALIKE:
                finding = self._alike(trial)
            case _ if trial.schedule is None:
                finding = self._alone(trial)
            case Cause.LATE:
                finding = self._early(trial) or self._differing(trial)
            case _:
                finding = self._differing(trial)
        return None if finding is None else replace(finding, trial=trial)

    def kind(self, cause: Cause, promise: str = "") -> Kind:
        """Return the kind of what is found: what breaks a promise or a declaration is violated."""
        if cause is Cause.PROMISE:
            return Kind(Family.PROMISE, promise, FindingClass.VIOLATED, cause.kind().rank)
        source, running = self.job.declares.source, self.job.declares.running
        said = {
            Cause.BATCHING: running,
            Cause.FORGOTTEN: source.again_within_s,
            Cause.ALIKE: source.keys_alike,
        }
        declared = said.get(cause)
        return cause.kind(FindingClass.VIOLATED if declared else None)

    def run(self, trial: QueryTrial) -> Outcome:
        """Run the query as a trial says."""
        return run_changed(self.job, self._rows_of(trial), trial.schedule or Schedule(), trial.changed)

    def undisturbed(self, trial: QueryTrial) -> Outcome:
        """Return the run with which a trial's is compared: on the same rows, of which nothing is moved."""
        calm = (trial.schedule or Schedule()).undisturbed
        key = trial.kept, calm
        if key not in self._undisturbed:
            while len(self._undisturbed) > 3:  # those of the whole feed, and the latest one
                del self._undisturbed[list(self._undisturbed)[-1]]
            self._undisturbed[key] = run_changed(self.job, self._rows_of(trial), calm, Cause.FAULTS)
        return self._undisturbed[key]

    def difference(self, calm: Outcome, outcome: Outcome, schedule: Schedule) -> str | None:
        """Describe what a schedule makes differ; ``None``: nothing, or nothing that can be compared."""
        if (schedule.delayed or schedule.twice) and (outcome.late or calm.late):
            return None  # which rows are late then differs, and losing them is not the job's fault
        if isinstance(outcome.failure, StoppedError):
            return str(outcome.failure)
        if outcome.failure is not None:
            return f"it raises {raised_told(outcome.failure)}"
        is_running = self.job.declares.running or (bool(schedule.twice) and self.depends_on_batching)
        recut = cuts_otherwise(schedule) or bool(schedule.idle_after)
        runs_again = replace(schedule.undisturbed, faults=schedule.faults, workers=schedule.workers)
        updates = Updates.LAST if recut else Updates.ALL if schedule == runs_again else Updates.LAST_OF_BATCH
        return difference(self.job, calm, outcome, last_only=is_running and recut, updates=updates)

    @cached_property
    def depends_on_batching(self) -> bool:
        """Whether rows that come one by one, in order, make a difference: a row that is moved then shows nothing more.

        Of a running result, whether all rows in one batch do, too.
        """
        still = Schedule(step_ms=0) if self.follows_the_clock else Schedule()
        cuts = ((1,) * self.rows, (self.rows,))[: 1 + self.job.declares.running]
        trials = [QueryTrial(Cause.BATCHING, Cause.BATCHING, replace(still, cuts=cut)) for cut in cuts]
        return any(self._differing(trial) for trial in trials)

    @property
    def follows_the_clock(self) -> bool:
        """Whether the clock of batches decides what becomes of state."""
        return self.watched[0].clocked and by_clock(self.job)

    def is_of_memory(self, trial: QueryTrial) -> bool:
        """Return whether a difference goes away once all that is kept outside state lasts for a call, or for the run."""
        lasting = (Lifetime.CALL, Lifetime.RUN)
        return bool(self.kept_outside) and not all(self._differs(trial, memory) for memory in lasting)

    def _differs(self, trial: QueryTrial, memory: Lifetime) -> bool:
        schedule = trial.schedule or Schedule()
        job, outside, lasts = watched_job(self.job, memory), outside_of(self.job), memory is Lifetime.RUN
        calm, other = (
            watched_run(partial(run_changed, job, self._rows_of(trial), *changed, lasts=lasts), outside)[0]
            for changed in ((schedule.undisturbed, Cause.FAULTS), (schedule, trial.changed))
        )
        return self.difference(calm, other, schedule) is not None

    def _rows_of(self, trial: QueryTrial) -> Feed:
        return self.feed if trial.kept is None else narrowed(self.feed, trial.kept)

    def _alone(self, trial: QueryTrial) -> Finding | None:
        """Look at the undisturbed run."""
        calm, noted = self.watched if trial.kept is None else watched_calmly(self.job, self._rows_of(trial))
        failed = calm.failure is not None and trial.cause is not Cause.EFFECT
        return None if failed else LOOKS[trial.cause](self.job, calm, noted)

    def _early(self, trial: QueryTrial) -> Finding | None:
        schedule = trial.schedule or Schedule()
        if schedule.delayed or schedule.twice:
            return None  # only the trial brings them late
        claim = FindingClass.UNDECLARED if schedule.cuts else FindingClass.VIOLATED
        return dropped_early(self.job, self.run(trial), f"; {self._how(trial)}", claim)

    def _differing(self, trial: QueryTrial) -> Finding | None:
        """Compare with the undisturbed run of the same rows; a smaller feed may be one that the job cannot take."""
        calm = self.undisturbed(trial)
        if calm.failure is not None or trial.schedule is None:
            return None
        outcome = self.run(trial)
        if trial.changed is Cause.FORGOTTEN:  # by then, what is left in state has expired, or not
            calm, outcome = replace(calm, state={}), replace(outcome, state={})
        differs = self.difference(calm, outcome, trial.schedule)
        if outcome.failure is None and trial.cause is Cause.ERROR:
            return None
        return None if differs is None else self.finding(trial, differs, outcome)

    def finding(self, trial: QueryTrial, differs: str, outcome: Outcome) -> Finding:
        """Return the finding that a trial makes a difference, or that the job fails in it, whatever was looked for."""
        if outcome.failure is not None:
            trial = structs.replace(trial, cause=Cause.ERROR)
        schedule, row = trial.schedule or Schedule(), CAUSES[trial.cause]
        steps = (*self.job.working, *self.job.stateful)
        place, what, remedy = next((step.place for step in steps), ""), row.what, ""
        match trial.cause:
            case Cause.ERROR:
                remedy = AFTER_A_FAULT if schedule.faults else ""
                place = place if outcome.failure is None else place_of_failure(outcome.failure, place)
            case Cause.BATCHING:
                timed = any(step.time_mode is TimeMode.EVENT_TIME for step in self.job.processing)
                remedy = SEVERAL_WINDOWS if timed else ""
                what += ", though a running result is declared" * self.job.declares.running
            case Cause.LATE:
                place = place_of_watermark(self.job)
            case Cause.MEMORY if self.kept_outside:
                place = self.kept_outside[0].place
                what += f" ({', '.join(kept.what for kept in self.kept_outside)})"
            case _:
                pass
        message = f"the outcome {what}: {differs}; {self._how(trial)}"
        renewed = not schedule.workers and (trial.changed is Cause.CHANCE or bool(schedule.faults))
        if trial.cause is Cause.MEMORY and renewed:
            message += ", each task in a new Python worker"
        finding_class = self.kind(trial.cause).finding_class
        return replace(finding_of(trial.cause, place, message, remedy, finding_class), trial=trial)

    def _how(self, trial: QueryTrial) -> str:
        feed = self._rows_of(trial)
        if trial.schedule is None:
            return f"with {size_told(feed)}, undisturbed"
        return schedule_told(trial.changed, trial.schedule, feed)

    def _alike(self, trial: QueryTrial) -> Finding | None:
        """Let keys come in other case, or with a blank at their end."""
        rows, are_one = self._rows_of(trial), self.job.declares.source.keys_alike
        for delivery in (RowDelivery.CASE, RowDelivery.BLANK) if are_one is not False else ():
            twins = key_twins(rows, delivery)
            if twins is None:
                return None
            runs = [self._left(batches) for batches in (rows, twins.alike, twins.apart, twins.other)]
            given_out = [outputs for outputs, _ in runs]
            whole = [outputs + kept for outputs, kept in runs]
            if not any(are_split(twins, *left, are_one=are_one is True) for left in (given_out, whole)):
                continue
            shown = "a state keeps both, and another keeps one"
            if given_out[1] != given_out[0]:
                more, fewer = given_out[1] - given_out[0], given_out[0] - given_out[1]
                shown = difference_told("job", more, Counter() if more else fewer)
            both = f"the keys {twins.key!r} and {twins.spelled!r} are one"
            message = f"{both} key to a part of the query, and two to another: {shown}"
            if are_one:
                message = f"{both}, and the query takes them for two: {shown}"
            steps = (*self.job.stateful, *self.job.working)
            place = next((step.place for step in steps), "")
            return finding_of(Cause.ALIKE, place, message, finding_class=self.kind(Cause.ALIKE).finding_class)
        return None

    def _left(self, batches: Feed) -> tuple[Counter[str], Counter[str]]:
        """Return what a query gives out of rows, and what it keeps; nothing if it fails."""
        outcome = run_changed(self.job, batches, Schedule(), Cause.FAULTS)
        if outcome.failure is not None:
            return Counter(), Counter()
        kept = Counter(str(item) for state in outcome.state.values() for item in state.items())
        return Counter(str(row) for row in outcome.rows().elements()), kept

    def _swallowed(self, trial: QueryTrial) -> Finding | None:
        """Find an error of a state call that is caught, unless the run's output or state shows it."""
        run = partial(self.run, trial)
        outcome, raised = heard_run(run)
        if outcome.failure is not None or not raised:
            return None
        call = next((call for call in raised if call.is_silent), None)
        if call is None:
            other, _ = heard_run(run, silenced=True)
            if other.failure is not None or has_more(self.job, outcome, other):
                return None
            call = raised[0]
        return swallowed_call(call, self._rows_of(trial))

    def _broken(self, trial: QueryTrial) -> Finding | None:
        """Ask the promise in a run."""
        promise = next((promise for promise in self.promises if promise.name == trial.promise), None)
        if promise is None:
            return None
        judge = QueryJudge([promise], self.job)
        outcome = run_changed(
            self.job, self._rows_of(trial), trial.schedule or Schedule(), trial.changed, after_batch=judge.after_batch,
        )  # fmt: skip
        why = judge.at_end(outcome).broken.get(promise.name, "")
        if not why:
            return None
        kind = self.kind(Cause.PROMISE, promise.name)
        remedy = promise.title.rstrip(".") or CAUSES[Cause.PROMISE].remedy
        place = place_at(promise.where.replace(", line ", ":"))
        return Finding(kind, f"{why}; {self._how(trial)}", place, remedy)

    def _place_of_processor(self) -> str:
        processors = (step.processor for step in self.job.stateful if isinstance(step, TransformWithState))
        otherwise = next((step.place for step in (*self.job.stateful, *self.job.working)), "")
        return next((place_of(processor) for processor in processors), otherwise)
