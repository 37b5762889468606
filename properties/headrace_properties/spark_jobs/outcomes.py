"""A Spark job under many schedules: its settled outcome must be the same in each.

All runs are compared with the run of the given feed without faults. Each schedule changes only one thing, so that a
difference has a name: faults, the number of partitions, the order of rows in a batch, how the input is cut into batches, or
the date and random numbers.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from headrace_properties.promises import Promise
from headrace_properties.search.guard import guarded
from headrace_properties.search.limits import CodeLimits, call_time_limited
from headrace_properties.spark_jobs.causes import Cause
from headrace_properties.spark_jobs.findings import (
    ANY_TIMING,
    EFFECT_FIRST,
    LEADING,
    NO_OUTPUT,
    SEVERAL_WINDOWS,
    TOLD,
    JobFailsError,
    JobFinding,
    JobReport,
    altered_value,
    difference_told,
    early_told,
    effect_told,
    expired_told,
    lost_timer_told,
    schedule_told,
    size_told,
    swallowed_call,
)
from headrace_properties.spark_jobs.promised import Judge
from headrace_properties.spark_jobs.runs import (
    StoppedError,
    place_of_failure,
    raised_told,
    run_changed,
    watched_calmly,
    watched_job,
)
from headrace_properties.spark_jobs.shrinking import TRIES, narrowed, shrunk
from headrace_properties.spark_jobs.swallowed import Raised, heard_run
from headrace_properties.spark_jobs.watching import (
    Kept,
    Memory,
    Noted,
    outside_of,
    place_of,
    watched_run,
)
from headrace_properties.spark_jobs.workers import SAME_WORKER
from headrace_properties.user_code.comparison import DIGITS
from headrace_sim.spark.job import (
    ApplyWithState,
    MapInPandas,
    OutputMode,
    SparkJob,
    SparkSink,
    TimeMode,
    TransformWithState,
    watermarks_of,
)
from headrace_sim.spark.queries import Outcome, hashable
from headrace_sim.spark.schedules import Feed, Schedule, draw_schedule
from headrace_sim.spark.sinks.trial import Progress

_OTHER_START_MS = 1_900_000_000_000
SCHEDULES = 200
"""Choice: number of schedules per job."""


def check_job(
    job: SparkJob,
    feed: Feed,
    *,
    schedules: int = SCHEDULES,
    seed: int = 0,
    allow: Collection[Cause] = (),
    duplicates: bool = False,
    promises: Sequence[Promise] = (),
    allow_unknown: Collection[str] = (),
    limits: CodeLimits | None = None,
    progress: Progress | None = None,
) -> JobReport:
    """Run a job under schedules that each change one thing, and compare outcomes. Its sink is not called.

    Args:
        job: The job.
        feed: The rows of its input, batch by batch.
        schedules: How many.
        seed: All schedules follow from it.
        allow: What the outcome may depend on, because that is intended.
        duplicates: Whether the source may deliver a row twice.
        promises: Its author's promises, checked in each run.
        allow_unknown: Those that no run needs to test.
        limits: Of each call of its code.
        progress: Told after each schedule; a true result stops the search.

    Raises:
        JobFailsError: If the job fails without faults.
        SparkJobError: If Spark would refuse it.
        PySparkException: If a row of the feed does not fit its schema.

    """
    limits = limits or CodeLimits()
    check = _Check(without_sink(job), feed, frozenset(allow), promises, limits, duplicates=duplicates)
    with guarded(allows_effects=Cause.EFFECT in allow), call_time_limited(limits):
        report = check.run(schedules, seed, progress)
    untested = (f"the promise {name} {why}" for name, why in check.untested() if name not in allow_unknown)
    return replace(report, unknown=(*report.unknown, *untested))


def check_again(
    job: SparkJob,
    feed: Feed,
    cause: Cause,
    changed: Cause,
    schedule: Schedule | None,
    promise: Promise | None = None,
    limits: CodeLimits | None = None,
) -> JobFinding | None:
    """Look for an earlier finding, under its schedule alone.

    Args:
        job: The job.
        feed: Its rows, as they are left.
        cause: Of the finding.
        changed: What its schedule changes.
        schedule: The schedule, or None if the feed alone showed it.
        promise: That was broken, if one was.
        limits: Of each call of its code.

    Raises:
        JobFailsError: As `check_job` does; so is `SparkJobError`.

    """
    promises = () if promise is None else (promise,)
    limits = limits or CodeLimits()
    with guarded(), call_time_limited(limits):
        return _Check(without_sink(job), feed, frozenset(), promises, limits).again(cause, changed, schedule)


def without_sink(job: SparkJob) -> SparkJob:
    """Return the job without its own sink."""
    return replace(job, sink=SparkSink(output_mode=job.sink.output_mode))


Settled = tuple[Counter[Any], Counter[Any]]
"""Return output and final state, as multisets."""


class _Check:
    def __init__(
        self,
        job: SparkJob,
        feed: Feed,
        allow: frozenset[Cause],
        promises: Sequence[Promise] = (),
        limits: CodeLimits = CodeLimits(),  # noqa: B008  it is frozen
        *,
        duplicates: bool = False,
    ) -> None:
        self._limits = limits
        self._promises = promises
        self._promised: dict[str, JobFinding] = {}
        self._tested: set[str] = set()
        self._untested: dict[str, str] = {}
        self._duplicates = duplicates
        self._alone_differ: bool | None = None
        self._still: Outcome | None = None
        self._handled: set[str] = set()
        self._failure: Exception | None = None
        self._job = job
        self._feed = feed
        self._allow = allow
        self._findings: dict[Cause, JobFinding] = {}
        self._kept: list[Kept] = []
        self._place = next((step.place for step in (*job.stateful, *job.working)), "")

    def run(self, schedules: int, seed: int, progress: Progress | None) -> JobReport:
        calm, raised = heard_run(self._calm)
        self._swallows(raised, Cause.FAULTS, Schedule())
        for cause in _ALONE:
            if (found := self._alone(cause)) is not None and cause not in self._allow:
                self._findings[cause] = found
        if calm.failure is not None:  # of an effect, which is told
            return JobReport(tuple(self._findings.values()), (EFFECT_FIRST,), 0, 0, calm, "")
        judge = Judge(self._promises, self._job)
        undisturbed = run_changed(
            self._job, self._feed, Schedule(), Cause.FAULTS, after_batch=judge.after_batch
        )
        self._ask(judge.at_end(undisturbed), Cause.FAULTS, Schedule())
        most_late = calm.late
        timed = calm.clocked and _by_clock(self._job)
        kinds = list(_changes(self._job, duplicates=self._duplicates, timed=timed, kept=bool(self._kept)))
        done = 0
        for number in range(schedules):
            cause, change = kinds[number % len(kinds)]
            schedule = change(draw_schedule(seed + number, self._job.partitions, self._feed, mean_faults=3.0))
            judge = Judge(self._promises, self._job)
            run = partial(run_changed, self._job, self._feed, schedule, cause, after_batch=judge.after_batch)
            outcome, raised = heard_run(run)
            if outcome.failure is None:
                self._swallows(raised, cause, schedule)
            if cause is not Cause.DUPLICATES and outcome.late <= calm.late:
                self._ask(judge.at_end(outcome), cause, schedule)
            most_late = max(most_late, outcome.late)
            if outcome.early and not {Cause.LATE} & {*self._allow, *self._findings}:
                self._findings[Cause.LATE] = self._dropped_early(outcome, cause, schedule)
            if timed or not (outcome.clocked and _by_clock(self._job) and _moves_the_clock(schedule)):
                self._judge(cause, schedule, self._undisturbed(schedule, calm), outcome)
            done = number + 1
            if progress is not None and progress(done, schedules):
                break
            if isinstance(outcome.failure, StoppedError):  # each more would take as long
                break
        unknown = [] if any(calm.outputs.values()) else [NO_OUTPUT]
        if done < schedules:
            unknown.append(f"the search was stopped after {done:,} of {schedules:,} schedules")
        leading = [self._findings.pop(cause) for cause in LEADING if cause in self._findings]
        findings = (*leading, *self._promised.values(), *self._findings.values())
        return JobReport(findings, tuple(unknown), done, most_late, calm, _BY_CLOCK if timed else "")

    def _swallows(self, raised: Sequence[Raised], changed: Cause, schedule: Schedule) -> None:
        """Find a state call whose error the code catches and tells nobody of, with as few rows as possible."""
        places = {call.place for call in raised} - self._handled
        if not places or Cause.SWALLOWED in self._allow | self._findings.keys():
            return
        self._handled |= places
        rows = sum(map(len, self._feed))

        def shows(kept: tuple[int, ...], schedule: Schedule) -> bool:
            return self._swallowed(changed, narrowed(self._feed, kept), schedule) is not None

        if shows(tuple(range(rows)), schedule):
            kept, smallest = shrunk(rows, schedule, shows)
            found = self._swallowed(changed, narrowed(self._feed, kept), smallest)
            assert found is not None
            self._findings[Cause.SWALLOWED] = replace(found, kept=kept)

    def _swallowed(self, changed: Cause, feed: Feed, schedule: Schedule) -> JobFinding | None:
        """Return the finding that a run of these rows has an error that is caught, unless its output or state tells of it."""
        run = partial(run_changed, self._job, feed, schedule, changed)
        outcome, raised = heard_run(run)
        if outcome.failure is not None or not raised:
            return None
        call = next((call for call in raised if call.is_silent), None)
        if call is None:
            other, _ = heard_run(run, silenced=True)
            settled = zip(self._settled(outcome), self._settled(other), strict=True)
            if other.failure is not None or any(found - without for found, without in settled):
                return None
            call = raised[0]
        alone = schedule == Schedule()
        return replace(swallowed_call(call, feed), schedule=None if alone else schedule, changed=changed)

    def _undisturbed(self, schedule: Schedule, calm: Outcome) -> Outcome:
        """Return the run that a schedule's is compared with: ``calm``, or one whose clock stands still."""
        if schedule.undisturbed == Schedule():
            return calm
        if self._still is None:
            self._still = run_changed(self._job, self._feed, schedule.undisturbed, Cause.FAULTS)
        return self._still

    def untested(self) -> Iterator[tuple[str, str]]:
        """Yield the promises that no run has tested, each with the reason."""
        for promise in self._promises:
            if promise.name not in self._tested:
                yield promise.name, self._untested.get(promise.name, "never came true")

    def _ask(self, judge: Judge, changed: Cause, schedule: Schedule) -> None:
        """Record the broken promises, each with the smallest feed and schedule that break it."""
        self._tested |= judge.tested
        self._untested |= judge.untested
        for name in judge.broken:
            if (known := self._promised.get(name)) is not None:
                self._promised[name] = replace(known, schedules=known.schedules + 1)
                continue
            promise = next(promise for promise in self._promises if promise.name == name)

            def why(kept: tuple[int, ...], schedule: Schedule, promise: Promise = promise) -> str:
                return self._broken(promise, kept, changed, schedule)

            kept, smallest = shrunk(sum(map(len, self._feed)), schedule, lambda *both: bool(why(*both)))
            self._promised[name] = self._promise_told(promise, why(kept, smallest), kept, changed, smallest)

    def _broken(self, promise: Promise, kept: tuple[int, ...], changed: Cause, schedule: Schedule) -> str:
        """Return why a promise is broken in a run of these rows; "": it is not."""
        judge = Judge([promise], self._job)
        feed = narrowed(self._feed, kept)
        outcome = run_changed(self._job, feed, schedule, changed, after_batch=judge.after_batch)
        return judge.at_end(outcome).broken.get(promise.name, "")

    def _promise_told(
        self, promise: Promise, why: str, kept: tuple[int, ...], changed: Cause, schedule: Schedule
    ) -> JobFinding:
        feed = narrowed(self._feed, kept)
        alone = schedule == Schedule()
        how = f"with {size_told(feed)}, undisturbed" if alone else schedule_told(changed, schedule, feed)
        remedy = promise.title.rstrip(".") or "Keep the promise, or change it"
        return JobFinding(
            Cause.PROMISE, promise.where.replace(", line ", ":"), f"{why}; {how}", remedy, feed, None if alone else schedule,
            changed=changed, kept=kept, promise=promise.name,
        )  # fmt: skip

    def again(self, cause: Cause, changed: Cause, schedule: Schedule | None) -> JobFinding | None:
        calm = self._calm()
        kept = tuple(range(sum(map(len, self._feed))))
        if cause is Cause.PROMISE:
            why = "".join(
                self._broken(promise, kept, changed, schedule or Schedule()) for promise in self._promises
            )
            return (
                self._promise_told(self._promises[0], why, kept, changed, schedule or Schedule())
                if why
                else None
            )
        if cause is Cause.SWALLOWED:
            found = self._swallowed(changed, self._feed, schedule or Schedule())
            return None if found is None else replace(found, kept=kept)
        if schedule is not None and cause is Cause.LATE:
            outcome = run_changed(self._job, self._feed, schedule, changed)
            if outcome.early:
                return self._dropped_early(outcome, changed, schedule)
        if schedule is None:
            found = self._alone(cause)
            return None if found is None else replace(found, feed=self._feed, kept=kept)
        outcome = run_changed(self._job, self._feed, schedule, changed)
        difference = self._compared(self._undisturbed(schedule, calm), outcome, schedule)
        return None if difference is None else self._told(cause, changed, kept, schedule, difference)

    def _calm(self) -> Outcome:
        """Run the job undisturbed, and watch it."""
        calm, noted = watched_calmly(self._job, self._feed)
        self._kept = noted.kept
        if calm.failure is not None and not (noted.effects and Cause.EFFECT not in self._allow):
            error = raised_told(calm.failure)
            if noted.effects:
                error += f" (its code {noted.effects[0][0]}, which a task that is run again repeats)"
            raise JobFailsError(
                error,
                place_of_failure(calm.failure, self._place_of_processor()),
            )
        return calm

    def _idle_timer(self, calm: Outcome, noted: Noted) -> JobFinding | None:
        """Find a timer that never fires for want of a watermark, or else one that is lost."""
        for place, step in enumerate(self._job.steps):
            timed = isinstance(step, TransformWithState) and step.time_mode is TimeMode.EVENT_TIME
            if not timed or any(watermarks_of(self._job.steps[:place])):
                continue
            if calm.timers.get(place):
                told = "no timer fires: the time mode is EventTime, and without withWatermark() the watermark stays at 0"
                remedy = "Call withWatermark() before groupBy(); Spark does not ask for it"
                return JobFinding(Cause.TIMER, step.place, told, remedy, ())
        return next(map(lost_timer_told, noted.lost), None)

    def _place_of_processor(self) -> str:
        processors = (step.processor for step in self._job.stateful if isinstance(step, TransformWithState))
        return next((place_of(processor) for processor in processors), self._place)

    def _judge(self, cause: Cause, schedule: Schedule, calm: Outcome, outcome: Outcome) -> None:
        found = self._compared(calm, outcome, schedule)
        if found is None or (schedule.delayed and self._depends_on_batching(schedule, calm)):
            return
        name = self._named(cause, schedule, calm, outcome)
        expected = (
            name is Cause.LATE and calm.late > 0
        )  # the given feed has late rows already, as its author knows
        if name in self._allow or expected:
            return
        known = self._findings.get(name)
        if known is not None:
            self._findings[name] = replace(known, schedules=known.schedules + 1)
            return
        endless = isinstance(outcome.failure, StoppedError)
        limits, tries = (_HASTY, _HASTY_TRIES) if endless else (self._limits, TRIES)
        with call_time_limited(limits):
            kept, schedule = shrunk(
                sum(map(len, self._feed)),
                schedule,
                lambda *both: self._difference(cause, *both) is not None,
                tries,
            )
        difference = self._difference(cause, kept, schedule) or found
        self._findings[name] = self._told(name, cause, kept, schedule, difference)

    def _depends_on_batching(self, schedule: Schedule, calm: Outcome) -> bool:
        """Return whether rows arriving one by one, in order, make a difference: if so, a delayed row shows nothing more."""
        if self._alone_differ is None:
            one_by_one = replace(schedule.undisturbed, cuts=(1,) * sum(map(len, self._feed)))
            outcome = run_changed(self._job, self._feed, one_by_one, Cause.BATCHING)
            self._alone_differ = self._compared(calm, outcome, one_by_one) is not None
        return self._alone_differ

    def _named(self, cause: Cause, schedule: Schedule, calm: Outcome, outcome: Outcome) -> Cause:
        if outcome.failure is not None:
            return Cause.ERROR
        if self._kept and not all(
            self._differs(cause, schedule, memory) for memory in (Memory.CALL, Memory.RUN)
        ):
            return Cause.MEMORY
        if cause is Cause.CHANCE or Cause.CHANCE in self._findings:
            return Cause.CHANCE
        return Cause.LATE if cause is Cause.BATCHING and (outcome.late or calm.late) else cause

    def _difference(self, cause: Cause, kept: tuple[int, ...], schedule: Schedule) -> str | None:
        """Describe what differs between a run of these rows and one under the schedule; None: nothing."""
        feed = narrowed(self._feed, kept)
        calm = run_changed(self._job, feed, schedule.undisturbed, Cause.FAULTS)
        if calm.failure is not None:
            return None  # a smaller feed that the job cannot take
        return self._compared(calm, run_changed(self._job, feed, schedule, cause), schedule)

    def _differs(self, cause: Cause, schedule: Schedule, memory: Memory) -> bool:
        """Return whether the outcome differs even if all that is kept outside state lasts for a call, or for the run."""
        job, outside, lasts = watched_job(self._job, memory), outside_of(self._job), memory is Memory.RUN
        runs = ((schedule.undisturbed, Cause.FAULTS), (schedule, cause))
        calm, other = (
            watched_run(partial(run_changed, job, self._feed, *changed, lasts=lasts), outside)[0]
            for changed in runs
        )
        return self._compared(calm, other, schedule) is not None

    def _compared(self, calm: Outcome, outcome: Outcome, schedule: Schedule) -> str | None:
        if (schedule.delayed or schedule.twice) and (outcome.late or calm.late):
            return None  # which rows are late then differs, and losing them is not the job's fault
        self._failure = outcome.failure
        if isinstance(outcome.failure, StoppedError):
            return str(outcome.failure)
        if outcome.failure is not None:
            return f"it raises {raised_told(outcome.failure)}"
        for what, expected, found in zip(
            ("output", "state"), self._settled(calm), self._settled(outcome), strict=True
        ):
            if expected != found:
                return difference_told(what, found - expected, expected - found)
        return None

    def _settled(self, outcome: Outcome) -> Settled:
        """If rows are updates, only the last one of each key counts."""
        rows = Counter(hashable(_leveled(row)) for row in outcome.rows().elements())
        last = self._job.stateful[-1] if self._job.stateful else None
        if last is not None and last.output_mode is not OutputMode.APPEND:
            rows = _last_by_key(outcome, last)
        held = {
            (place, *key): hashable(_leveled(value, in_any_order=True))
            for place, state in outcome.state.items()
            for key, value in state.items()
        }
        return rows, Counter((hashable(key), value) for key, value in held.items())

    def _told(
        self, cause: Cause, changed: Cause, kept: tuple[int, ...], schedule: Schedule, difference: str
    ) -> JobFinding:
        feed = narrowed(self._feed, kept)
        remedy = "Let the code accept what an earlier attempt left behind" if schedule.faults else ANY_TIMING
        what, remedy = TOLD.get(cause, ("fails", remedy))
        place, told = self._place, f"the outcome {what}: {difference}"
        if cause is Cause.ERROR and self._failure is not None:
            place = place_of_failure(self._failure, place)
        if cause is Cause.BATCHING and any(
            step.time_mode is TimeMode.EVENT_TIME for step in self._job.stateful
        ):
            remedy = SEVERAL_WINDOWS
        if cause is Cause.LATE:
            place = next((step.place for step in watermarks_of(self._job.steps)), place)
        if cause is Cause.MEMORY:
            place = self._kept[0].place
            told = f"the outcome {what} ({', '.join(kept.what for kept in self._kept)}): {difference}"
        told = f"{told}; {schedule_told(changed, schedule, feed)}"
        if cause is Cause.MEMORY and not schedule.workers and (changed is Cause.CHANCE or schedule.faults):
            told += ", each task in a new Python worker"
        return JobFinding(cause, place, told, remedy, feed, schedule, changed=changed, kept=kept)

    def _alone(self, cause: Cause) -> JobFinding | None:
        """Find what shows in a single run, with as few rows as possible."""

        def found(kept: tuple[int, ...], _schedule: Schedule) -> JobFinding | None:
            feed = narrowed(self._feed, kept)
            calm, noted = watched_calmly(self._job, feed)
            looks = {
                Cause.EFFECT: lambda _, noted: next(map(effect_told, noted.effects), None),
                Cause.VALUE: lambda _, noted: next(map(altered_value, noted.altered), None),
                Cause.TIMER: self._idle_timer,
                Cause.TTL: lambda _, noted: next(map(expired_told, noted.expired), None),
                Cause.GROWTH: self._growing,
                Cause.LATE: self._early,
            }
            failed = calm.failure is not None and cause is not Cause.EFFECT
            finding = None if failed else looks[cause](calm, noted)
            return None if finding is None else replace(finding, feed=feed, kept=kept)

        rows = sum(map(len, self._feed))
        if found(tuple(range(rows)), Schedule()) is None:
            return None
        return found(*shrunk(rows, Schedule(), lambda *both: found(*both) is not None))

    def _early(self, calm: Outcome, _noted: Noted) -> JobFinding | None:
        """Find rows that are dropped as late, though they come within the delay of their own stream."""
        place = next((step.place for step in watermarks_of(self._job.steps)), self._place)
        return early_told(calm.early, sum(map(len, self._feed)), place) if calm.early else None

    def _dropped_early(self, outcome: Outcome, changed: Cause, schedule: Schedule) -> JobFinding:
        place = next((step.place for step in watermarks_of(self._job.steps)), self._place)
        rows = sum(map(len, self._feed))
        finding = early_told(outcome.early, rows, place, f"; {schedule_told(changed, schedule, self._feed)}")
        return replace(finding, feed=self._feed, kept=tuple(range(rows)), schedule=schedule, changed=changed)

    def _growing(self, calm: Outcome, noted: Noted) -> JobFinding | None:
        timed = {(place, key) for place, timers in calm.timers.items() for key, _ in timers}
        growing = [
            (name, key)
            for place, state in calm.state.items()
            for name, key in state
            if (place, key) not in timed and name not in noted.expiring
        ]
        if not growing:
            return None
        name, key = growing[0]
        told = f"nothing will ever remove the state {name!r} of key {key}: it has no timer and no TTL"
        remedy = "Register a timer that clears it, or give it a TTL; or allow it, if there are few keys"
        step = self._job.stateful[0]
        handler = step.processor if isinstance(step, TransformWithState) else step.function
        return JobFinding(Cause.GROWTH, place_of(handler), told, remedy, ())


_HASTY, _HASTY_TRIES = CodeLimits(call_s=1.0), 20
"""Choice: limits of the smaller feeds for code that is known not to end, and their number."""

_ALONE = (Cause.EFFECT, Cause.VALUE, Cause.TIMER, Cause.TTL, Cause.LATE, Cause.GROWTH)
"""Yield what shows in the undisturbed run."""


_BY_CLOCK = (
    "its timers or TTLs follow the clock of batches, so other times were not tried, and other cuts of the input and delayed rows "
    "only while it stands still"
)


def _by_clock(job: SparkJob) -> bool:
    """Return whether timers and TTLs of a job, if it has any, follow the clock of batches."""
    return any(step.time_mode is TimeMode.PROCESSING_TIME for step in job.stateful)


def _moves_the_clock(schedule: Schedule) -> bool:
    """Return whether rows are handled at other times than in the undisturbed run."""
    return bool(schedule.cuts or schedule.delayed or schedule.twice or schedule.steps_ms)


def _changes(
    job: SparkJob, *, duplicates: bool, timed: bool, kept: bool
) -> Iterator[tuple[Cause, Callable[[Schedule], Schedule]]]:
    """Yield what a schedule may change, one thing each.

    Args:
        job: The job.
        duplicates: Whether the source may deliver a row twice.
        timed: Whether the clock of batches decides what becomes of its state. Other times of its rows may then mean another
            outcome, so the clock stands still in both of the runs that are compared.
        kept: Whether its code keeps something outside state.

    """
    still = Schedule(step_ms=0) if timed else Schedule()
    if timed:
        yield Cause.CHANCE, lambda _drawn: Schedule()
    else:  # no intended behaviour follows the clock of batches, which may jump
        yield Cause.CHANCE, lambda drawn: Schedule(start_ms=_OTHER_START_MS, steps_ms=drawn.steps_ms)
    yield Cause.FAULTS, lambda drawn: Schedule(faults=drawn.faults)
    yield Cause.PARTITIONS, lambda drawn: Schedule(partitions=drawn.partitions or job.partitions + 2)
    yield Cause.ORDER, lambda drawn: Schedule(order=drawn.order)
    if duplicates:
        yield Cause.DUPLICATES, lambda drawn: Schedule(twice=drawn.twice)
    if any(
        isinstance(step, MapInPandas | ApplyWithState) or getattr(step, "pandas", False) for step in job.steps
    ):
        yield Cause.FRAMES, lambda _drawn: Schedule(frame_rows=1)
    yield Cause.ORDER, lambda drawn: replace(still, delayed=drawn.delayed)
    yield Cause.BATCHING, lambda drawn: replace(still, cuts=drawn.cuts, idle_after=drawn.idle_after)
    if kept:
        yield Cause.MEMORY, lambda drawn: Schedule(workers=drawn.workers)
        yield (
            Cause.FAULTS,
            lambda drawn: Schedule(
                faults=tuple(fault for fault in drawn.faults if fault.kind in SAME_WORKER), workers=(0,)
            ),
        )


def _leveled(value: Any, *, in_any_order: bool = False) -> Any:
    """Return what is equal for values that count as equal: the last digits of a sum of floats depend on the order of its rows.

    Args:
        value: Of a row, or of state.
        in_any_order: Whether the order of lists does not count, as in state: what was appended may be sorted later; if it is not,
            output shows it.

    """
    match value:
        case float():
            return float(f"{value:.{DIGITS}g}") if value == value else math.nan  # noqa: PLR0124  one NaN for all
        case list() if in_any_order:
            return sorted((_leveled(part, in_any_order=True) for part in value), key=repr)
        case list() | tuple():
            return tuple(_leveled(part, in_any_order=in_any_order) for part in value)
        case dict():
            return {key: _leveled(part, in_any_order=in_any_order) for key, part in value.items()}
        case _:
            return value


def _last_by_key(outcome: Outcome, step: TransformWithState | ApplyWithState) -> Counter[Any]:
    places = [step.output.names.index(name) for name in step.keys if name in step.output.names]
    if len(places) < len(step.keys):
        return Counter()  # the key of an updating row is unknown, so only the state is compared
    last: dict[Any, Any] = {}
    for _, rows in sorted(outcome.outputs.items()):
        last.update(
            {tuple(hashable(row[place]) for place in places): hashable(_leveled(row)) for row in rows}
        )
    return Counter(last.values())
