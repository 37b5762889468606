"""A streaming query, run batch by batch as in Spark's micro-batch engine.

Before a batch runs, its number, rows, clock and watermark are written to the offset log. Its tasks start from the state of
the previous batch; what they commit counts from then on. The sink is called, the commit log is written, and the watermark
advances. A batch in the offset log but not in the commit log is rerun with the same number, rows, clock and watermark. Rows
are late by the previous batch's watermark; timers expire by that of the batch itself.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from zlib import crc32

from headrace.api.errors import HeadraceError
from headrace_sim.spark.client.connect_answers import Answers, SessionState
from headrace_sim.spark.client.sessions import ClientSession, connected
from headrace_sim.spark.columns.values import byte_order, shuffled_key
from headrace_sim.spark.query.operators import Aggregation, SessionWindows
from headrace_sim.spark.query.schedules import FaultKind, Feed, Schedule, ScheduledFault
from headrace_sim.spark.query.stages import (
    JobWatermarks,
    Native,
    QueryStage,
    Stateful,
    Streams,
    StreamStages,
    WatermarkStage,
    event_time,
    planned,
    stateful_in,
)
from headrace_sim.spark.query.stream_joins import Joining
from headrace_sim.spark.refusals import CannotFollowError, gap_in, shown_place
from headrace_sim.spark.spark_job import OutputMode, SparkJob, TimeMode
from headrace_sim.spark.state.group_states import GroupOperator
from headrace_sim.spark.state.state_server import BatchTimes
from headrace_sim.spark.state.stores import Key, Store, in_order
from headrace_sim.spark.state.tasks import Operator, Rows, TaskResult

SETTLING_BATCHES = 20
"""Maximum number of batches without data after the last row, in time mode ProcessingTime."""
ATTEMPT, REPLACED = "attempt", "attempt for a driver that was replaced"
SINK_CALLED_LATE = "sink called by a driver that was replaced"
"""The event texts of a task's attempts. The state of the second kind is lost."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened in the run. ``partition`` is -1 where there is none; ``stage`` is a place among the job's steps."""

    batch: int
    what: str
    partition: int = -1
    stage: int = -1


@dataclass(frozen=True, slots=True)
class OffsetLogEntry:
    """An entry of the offset log: the batch's number, rows, clock, and watermarks (for late rows, and for timers), in ms."""

    number: int
    rows: tuple[tuple[Any, ...], ...]
    now_ms: int
    late_ms: int
    watermark_ms: int


@dataclass(frozen=True, slots=True)
class SinkCall:
    """A call of the sink: which batch, with which rows, and whether a replaced driver made it."""

    batch: int
    rows: tuple[tuple[Any, ...], ...]
    zombie: bool = False


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a query goes on from: its offset log, the state of each stateful stage by partition, and its watermark."""

    batches: tuple[OffsetLogEntry, ...]
    state: dict[int, list[Store]]
    watermark_ms: int
    late: int = 0  # how many rows were dropped as late up to it


@dataclass(slots=True)
class Outcome:
    """The outcome of a run."""

    batches: list[OffsetLogEntry] = field(default_factory=list)  # the offset log
    # the rows of each committed batch
    outputs: dict[int, list[tuple[Any, ...]]] = field(default_factory=dict)
    sink_calls: list[SinkCall] = field(default_factory=list)  # every call of the sink, in order
    # of each stateful stage (by its place among the job's stages): rows by (variable, key)
    state: dict[int, dict[tuple[str, Key], Any]] = field(default_factory=dict)
    # of each stateful stage: (key, expiry in ms), in order of expiry
    timers: dict[int, list[tuple[Key, int]]] = field(default_factory=dict)
    # the rows that the last stateful stage made in each committed batch, with their keys, if it is the user's own
    keyed: dict[int, list[tuple[Any, tuple[Any, ...]]]] = field(default_factory=dict)
    late: int = 0  # how many rows were dropped as late
    # those of them that came within the delay of their own stream: another one was ahead
    early: list[tuple[Any, ...]] = field(default_factory=list)
    watermark_ms: int = 0  # after the last batch
    events: list[Event] = field(default_factory=list)  # what happened, in order
    failure: Exception | None = None  # the error that ended the query, if one did
    clocked: bool = False  # whether the clock of batches counted: a timer was registered, or state had a TTL
    # the stateful stages (as in `state`) of Spark's own whose state the watermark bounds
    bounded: set[int] = field(default_factory=set)
    checkpoint: Checkpoint | None = None  # after the latest committed batch

    def rows(self) -> Counter[tuple[Any, ...]]:
        """Count the output rows of all batches. Unhashable values count by their text."""
        return Counter(hashable(row) for rows in self.outputs.values() for row in rows)


def hashable(value: Any) -> Any:
    """Return a value that is equal where the given one is, and can be hashed."""
    if isinstance(value, dict):
        return tuple(sorted(((hashable(key), hashable(item)) for key, item in value.items()), key=repr))
    return tuple(map(hashable, value)) if isinstance(value, (tuple, list)) else value


def run_job(
    job: SparkJob,
    feed: Feed,
    schedule: Schedule | None = None,
    *,
    after_batch: Callable[[OffsetLogEntry, Outcome], None] | None = None,
    watch: Callable[[Event], None] | None = None,
    streams_go_on: bool = False,
    start: Checkpoint | None = None,
) -> Outcome:
    """Run a job on a feed under a schedule. An error that a processor or a sink raises ends the query and is its `failure`.

    ``feed``: the source's rows, batch by batch. ``schedule``: how it runs. Without one: as the feed is cut, and nothing fails.
    ``after_batch``: called after each committed batch, with the state as it is then. ``watch``: called with each event when it
    happens, and with one before each attempt of a task (`ATTEMPT`, `REPLACED`). ``streams_go_on``: whether each stream is taken
    to go on after its last row. A new driver knows the watermark that counted, not those of several streams; only when they go
    on does it come to where the old one was. ``start``: the checkpoint that it goes on from; None: a new one. The number of
    partitions is then the checkpoint's. Raise `SparkJobError` if Spark would refuse to start the job, `CannotFollowError` if it
    comes to a call that is not simulated, or `PySparkException` if a row of the feed does not fit the input's schema.
    """
    with ExitStack() as stack:
        session = ClientSession(Answers(state=job.state.copy() if job.state else SessionState()))
        stack.enter_context(connected(session))
        query = _Query(
            job, schedule or Schedule(), session, watch or (lambda _event: None), go_on=streams_go_on
        )
        if start is not None:
            query.go_on_from(start)
        query.run(feed, after_batch or (lambda _batch, _outcome: None))
        return query.outcome


class _TaskDiedError(BaseException):
    """Ends a task at the scheduled step. User code does not catch it."""


class _DriverDiedError(BaseException):
    """Ends a driver."""


_Done = tuple[list[tuple[Any, ...]], "_Progress"]
"""A batch's rows, the state after it, how many rows were late, and the watermark that each stream's rows imply."""


@dataclass(slots=True)
class _Progress:
    """How far a batch is: the state after it, how many rows were late, and the watermark that each stream's rows imply."""

    state: dict[int, list[Store]]
    late: int = 0
    observed: dict[int, int] = field(default_factory=dict)
    keyed: list[tuple[Any, tuple[Any, ...]]] = field(default_factory=list)


class _Query:
    def __init__(
        self,
        job: SparkJob,
        schedule: Schedule,
        session: ClientSession,
        watch: Callable[[Event], None],
        *,
        go_on: bool,
    ) -> None:
        self.outcome = Outcome()
        self._watch = watch
        self._go_on = go_on
        self._attempt = ATTEMPT
        self._job = job
        self._schedule = schedule
        self._session = session
        self._partitions = schedule.partitions or job.partitions
        self._faults = list(schedule.faults)
        self._zombies: list[tuple[int, OffsetLogEntry, list[tuple[Any, ...]]]] = []
        self._watermark = 0
        self._watermarks = JobWatermarks(job)
        self._of_streams: list[list[int]] = []
        self._early: list[tuple[Any, ...]] = []
        self._stages = planned(job)
        self._stateful = list(stateful_in(self._stages))
        self._state = {stage.place: [Store() for _ in range(self._partitions)] for stage in self._stateful}
        self.outcome.bounded = {
            stage.place
            for stage in self._stateful
            if isinstance(stage.work, Native) and stage.work.is_bounded
        }

    def run(self, feed: Feed, after_batch: Callable[[OffsetLogEntry, Outcome], None]) -> None:
        batches = self._schedule.batches(feed)
        try:
            place, backups = 0, list[Checkpoint]()
            while place < len(batches):
                backups[place:] = [self._checkpoint()]
                batch = self._next(batches[place])
                self._commit(batch, after_batch)
                last = place == len(batches) - 1
                if last and self._go_on:
                    self._watermark = max(self._watermark, self._watermarks.settled())
                if last or place in self._schedule.idle_after:
                    self._idle(SETTLING_BATCHES if last else 1, after_batch)
                place += 1
                if fault := self._takes(FaultKind.CHECKPOINT_RESTORED, batch):
                    place = max(0, place - 1 - fault.delay)
                    self.go_on_from(backups[place])
        except CannotFollowError:  # says nothing of the job
            raise
        except Exception as error:
            if (gap := gap_in(error)) is not None:
                raise gap from error
            self.outcome.failure = error
        for _, batch, rows in self._zombies:
            self._give(batch, rows, zombie=True)

    def _checkpoint(self) -> Checkpoint:
        return Checkpoint(tuple(self.outcome.batches), self._state, self._watermark, self.outcome.late)

    def go_on_from(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint: its state, and its offset and commit logs. Output already written stays."""
        self._state, self._watermark = checkpoint.state, checkpoint.watermark_ms
        self.outcome.late = checkpoint.late
        self._partitions = next((len(stores) for stores in self._state.values()), self._partitions)
        self._watermarks.forget()
        for batch in self.outcome.batches[len(checkpoint.batches) :]:
            self.outcome.outputs.pop(batch.number, None)
            self.outcome.keyed.pop(batch.number, None)
        self.outcome.batches = [*checkpoint.batches]
        self._of_streams += [
            self._watermarks.of_streams() for _ in checkpoint.batches[len(self._of_streams) :]
        ]

    # The driver.

    def _next(self, rows: Rows, at_least_ms: int | None = None) -> OffsetLogEntry:
        log = self.outcome.batches
        number = len(log)
        steps = self._schedule.steps_ms
        now = self._schedule.start_ms
        if log:
            now = log[-1].now_ms + (steps[number - 1] if number <= len(steps) else self._schedule.step_ms)
        if at_least_ms is not None:
            now = max(now, at_least_ms)
        late = log[-1].watermark_ms if log else 0
        self._of_streams[number:] = [self._watermarks.of_streams()]
        return OffsetLogEntry(number, tuple(rows), now, late, self._watermark)

    def _idle(self, most: int, after_batch: Callable[[OffsetLogEntry, Outcome], None]) -> None:
        for _ in range(most):
            wanted, at_least = self._wants_a_batch()
            if not wanted:
                return
            self._commit(self._next((), at_least if most > 1 else None), after_batch)

    def _wants_a_batch(self) -> tuple[bool, int | None]:
        """Return whether Spark runs a batch without data, and from which time on it has something to do."""
        users = [stage.work for stage in self._stateful if isinstance(stage.work, Operator | GroupOperator)]
        modes = {work.stage.time_mode for work in users}
        stores = [store for stores in self._state.values() for store in stores]
        expiries = [expiry for store in stores for expiry, _ in store.timers]
        if TimeMode.PROCESSING_TIME in modes and expiries:
            return True, min(expiries)
        waits = TimeMode.EVENT_TIME in modes or any(
            isinstance(stage.work, Native) and stage.work.wakes for stage in self._stateful
        )
        return waits and self._watermark > self.outcome.batches[-1].watermark_ms, None

    def _commit(self, batch: OffsetLogEntry, after_batch: Callable[[OffsetLogEntry, Outcome], None]) -> None:
        """Run a batch, with as many drivers as it takes, until it is in the commit log."""
        while self._takes(FaultKind.DRIVER_DIES_BEFORE_OFFSETS, batch):
            self._watermarks.forget()
            self._note(batch, "restart from the batch before")
        self.outcome.batches.append(batch)
        while (done := self._driven(batch)) is None:
            self._watermarks.forget()
            self._note(batch, "restart: the commit log does not have the batch")
        rows, progress = done
        if fault := self._takes(FaultKind.ZOMBIE_DRIVER, batch):
            self._attempt = REPLACED
            again, *_ = self._execute(batch)
            self._attempt = ATTEMPT
            self._watermarks.forget()
            self._zombies.append((batch.number + fault.delay, batch, again))
        self._state = progress.state
        self.outcome.outputs[batch.number], self.outcome.keyed[batch.number] = rows, progress.keyed
        self.outcome.late += progress.late
        self.outcome.early += self._early if progress.late else []
        self._watermark = max(self._watermark, self._watermarks.after(progress.observed))
        self._note(batch, "committed")
        self._tell_state()
        self.outcome.checkpoint = self._checkpoint()
        after_batch(batch, self.outcome)
        due = [zombie for zombie in self._zombies if zombie[0] <= batch.number]
        self._zombies = [zombie for zombie in self._zombies if zombie[0] > batch.number]
        for _, old, again in due:
            self._give(old, again, zombie=True)

    def _driven(self, batch: OffsetLogEntry) -> _Done | None:
        """Run a batch up to its entry in the commit log. None if the driver dies before."""
        try:
            done = self._execute(batch)
        except _DriverDiedError:
            return None
        self._give(batch, done[0])
        lost = (FaultKind.DRIVER_DIES_AFTER_SINK, FaultKind.COMMIT_ENTRY_LOST)
        return None if any(self._takes(kind, batch) for kind in lost) else done

    def _takes(
        self, kind: FaultKind, batch: OffsetLogEntry, partition: int | None = None
    ) -> ScheduledFault | None:
        """Return the fault of this kind that strikes here, if any. Each strikes once."""
        for fault in self._faults:
            if (
                fault.kind is kind
                and fault.batch == batch.number
                and partition in {None, fault.partition % self._partitions}
            ):
                self._faults.remove(fault)
                self._note(batch, fault.kind.value, -1 if partition is None else partition)
                return fault
        return None

    def _note(self, batch: OffsetLogEntry, what: str, partition: int = -1) -> None:
        self.outcome.events.append(Event(batch.number, what, partition))
        self._watch(self.outcome.events[-1])

    def _give(self, batch: OffsetLogEntry, rows: list[tuple[Any, ...]], *, zombie: bool = False) -> None:
        self.outcome.sink_calls.append(SinkCall(batch.number, tuple(rows), zombie))
        self._note(batch, SINK_CALLED_LATE if zombie else "sink called")
        if self._job.sink.function is not None:
            self._job.sink.function(self._session.frame(self._job.output, [rows]), batch.number)

    def _tell_state(self) -> None:
        self.outcome.watermark_ms = self._watermark
        for place, stores in self._state.items():
            self.outcome.state[place] = {
                (name, key): held for store in stores for name, key, held in store.contents()
            }
            timers = in_order(timer for store in stores for timer in store.timers)
            self.outcome.timers[place] = [(key, expiry) for expiry, key in timers]
            self.outcome.clocked |= any(store.clocked for store in stores)

    # The batch.

    def _execute(self, batch: OffsetLogEntry) -> _Done:
        self._early = []
        done = _Progress(dict(self._state))
        parts = self._through(self._stages, _split(batch.rows, self._partitions), batch, done)
        return _joined(parts), done

    def _through(
        self, stages: Sequence[QueryStage], parts: "_Parts", batch: OffsetLogEntry, done: "_Progress"
    ) -> "_Parts":
        """Run a batch through stages."""
        for stage in stages:
            match stage.work:
                case Joining():
                    sides = [self._branch(batch, stream, parts, done) for stream in stage.streams]
                    rows = [(number, row) for number, side in enumerate(sides) for row in _joined(side)]
                    parts = self._with_state(stage, rows, batch, done)
                case work if isinstance(work, Stateful):
                    parts = self._with_state(stage, _joined(parts), batch, done)
                case Streams():
                    sides = [self._branch(batch, stream, parts, done) for stream in stage.work]
                    parts = [part for side in sides for part in side]
                case WatermarkStage():
                    self._observe(stage.work, _joined(parts), batch, done)
                case work:
                    parts = [work(part, self._schedule.frame_rows) for part in parts]
        return parts

    def _with_state(
        self, stage: QueryStage, rows: Rows, batch: OffsetLogEntry, done: "_Progress"
    ) -> "_Parts":
        late_ms = batch.late_ms - stage.lag_ms
        work = stage.work
        if isinstance(work, Aggregation | SessionWindows):
            rows = work.spread(rows)
        if isinstance(work, Native):
            kept = [row for row in rows if not work.is_late(row, late_ms)]
        else:
            read = stage.event_time
            kept = [row for row in rows if read is None or (time := read(row)) is None or time > late_ms]
        done.late += len(rows) - len(kept)
        tasks = self._tasks(batch, stage, kept)
        parts, done.state[stage.place] = [task.rows for task in tasks], [task.store for task in tasks]
        if stage is self._stateful[-1]:
            done.keyed = [pair for task in tasks for pair in zip(task.keys, task.rows, strict=False)]
        if isinstance(work, Operator) and work.stage.event_time:
            self._expect_fresh(_joined(parts), stage, batch)
        if isinstance(work, Aggregation | SessionWindows) and work.stage.output_mode is OutputMode.COMPLETE:
            return [sorted(_joined(parts), key=repr)]  # so that a sort breaks ties alike in each run
        return parts

    def _branch(
        self, batch: OffsetLogEntry, stream: StreamStages, parts: "_Parts", done: "_Progress"
    ) -> "_Parts":
        if stream.column is not None:
            column = stream.column
            rows = [tuple(row[column]) for row in batch.rows if row[column] is not None]
            parts = _split(rows, self._partitions)
        return self._through(stream.stages, parts, batch, done)

    def _observe(self, delay: WatermarkStage, rows: Rows, batch: OffsetLogEntry, done: "_Progress") -> None:
        """Note the event times of a stream."""
        for moved in delay.filters:
            rows = moved(list(rows), self._schedule.frame_rows)
        timed = [(row, time) for row in rows if (time := delay.time_ms(row)) is not None]
        if timed:
            done.observed[delay.number] = max(time for _, time in timed) - delay.delay_ms
        if batch.number > 0 and len(self._of_streams[batch.number - 1]) > 1:
            own = self._of_streams[batch.number - 1][delay.number]
            self._early += [row for row, time in timed if own < time <= batch.late_ms]

    @staticmethod
    def _expect_fresh(rows: list[tuple[Any, ...]], stage: QueryStage, batch: OffsetLogEntry) -> None:
        assert isinstance(stage.work, Operator)
        time_ms = event_time(stage.work.stage.event_time, stage.output, stage.work.stage.place)
        for row in rows:
            if (time := time_ms(row)) is not None and time < batch.late_ms:
                raise OldRowError(stage.work.stage.place, row, batch.late_ms)

    def _tasks(self, batch: OffsetLogEntry, stage: QueryStage, rows: Rows) -> list[TaskResult]:
        operator = stage.work
        assert isinstance(operator, Stateful)
        parts: list[list[tuple[Any, ...]]] = [[] for _ in range(self._partitions)]
        own = isinstance(operator, Native)
        for row in rows:
            key = operator.key_of(row)
            parts[crc32(repr(key).encode()) % self._partitions if own else self._partition(key)].append(row)
        initial: list[list[tuple[Any, ...]] | None] = [None] * self._partitions
        if isinstance(operator, Operator) and operator.stage.initial is not None and batch.number == 0:
            initial = [[] for _ in range(self._partitions)]
            for key, row in operator.initial_rows():
                initial[self._partition(key)].append(row)  # type: ignore[union-attr]
        done = [self._task(batch, stage, number, part, initial[number]) for number, part in enumerate(parts)]
        if fault := self._takes(FaultKind.EXECUTOR_LOST, batch):
            lost = fault.partition % self._partitions
            done[lost] = self._task(batch, stage, lost, parts[lost], initial[lost])
        return done

    def _partition(self, key: Key) -> int:
        return crc32(byte_order(shuffled_key(key))) % self._partitions

    def _task(
        self, batch: OffsetLogEntry, stage: QueryStage, number: int, rows: Rows, initial: Rows | None
    ) -> TaskResult:
        """Run a task, with as many attempts as it takes."""
        times = BatchTimes(batch.now_ms, batch.watermark_ms - stage.lag_ms)
        place, operator = stage.place, stage.work
        assert isinstance(operator, Stateful)
        before = self._state[place][number]
        while True:
            dies = self._takes(FaultKind.TASK_DIES, batch, number)
            self._watch(Event(batch.number, self._attempt, number, place))
            try:
                step = _dying_at(dies.step) if dies else lambda _what: None
                if isinstance(operator, Native):
                    result = operator.run(rows, before, times, step)
                else:
                    result = operator.run(rows, initial, before, times, step, self._schedule.frame_rows)
            except _TaskDiedError:
                continue
            if self._takes(FaultKind.DRIVER_DIES_IN_BATCH, batch, number):
                raise _DriverDiedError
            if any(self._takes(kind, batch, number) for kind in _AGAIN):
                continue
            return result


class OldRowError(HeadraceError):
    """A row behind the watermark from a step with ``eventTimeColumnName``: Spark's end. Fields: place, row, watermark_ms."""

    def __init__(self, place: str, row: tuple[Any, ...], watermark_ms: int) -> None:
        super().__init__(place, row, watermark_ms)
        self.place, self.row, self.watermark_ms = place, row, watermark_ms

    def __str__(self) -> str:
        """Show the row, and what to do."""
        return (
            f"{shown_place(self.place)}: the row {self.row} is older than the watermark, {self.watermark_ms} ms "
            "(EMITTING_ROWS_OLDER_THAN_WATERMARK_NOT_ALLOWED). "
            "Yield rows whose event time is at or after timerValues.getCurrentWatermarkInMs()"
        )


def _dying_at(step: int) -> Callable[[str], None]:
    left = iter(range(step - 1))

    def count(_what: str) -> None:
        if next(left, None) is None:
            raise _TaskDiedError

    return count


_AGAIN = (
    FaultKind.TASK_DIES_BEFORE_COMMIT, FaultKind.TASK_DIES_AFTER_COMMIT, FaultKind.SPECULATIVE_ATTEMPT,
)  # fmt: skip
_Parts = list[list[tuple[Any, ...]]]
"""Rows, partition by partition."""


def _split(rows: Rows, partitions: int) -> _Parts:
    """Distribute the rows of a source over partitions, in contiguous pieces."""
    size, more = divmod(len(rows), partitions)
    ends = [(place + 1) * size + min(place + 1, more) for place in range(partitions)]
    return [list(rows[start:end]) for start, end in pairwise((0, *ends))]


def _joined(parts: _Parts) -> list[tuple[Any, ...]]:
    return [row for part in parts for row in part]
