"""The reference: what a pipeline makes of a feed with no distribution, no faults and no waiting (MillWheel 4).

Rules of this file:

* One thing at a time, in the order of arrival. Each arrival is carried through all computations, sources first, before the next.
* A computation first handles the records that have come, then learns of its senders' low watermarks, then fires what is
  due: what a production holds back is held back.
* User code is met through the engine's own `Context`; nothing else of the protocol is used.
* Wall time is the feed's. After the feed's end it goes on as long as a wall timer holds a low watermark.

A faulty run equals the reference for user code that depends neither on the order of arrival nor on which records are late.
Skew limits (8.4) delay records and change nothing else, so they are not looked at.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from headrace import (
    MAX_TIME,
    MIN_TIME,
    Clock,
    ComputationSpec,
    Context,
    DeadLetter,
    MalformedRecordError,
    Pipeline,
)
from headrace.api.context import Emission
from headrace.api.specs import OUTSIDE
from headrace.api.time import is_timestamp
from headrace.history import Applied, Event, Output
from headrace.injector.injection import dead_letter as injected_dead_letter
from headrace.injector.injection import productions_of as injected_productions_of
from headrace.rules import RULES
from headrace.wire.effects import SourceRecord
from headrace.wire.rows import Production, StoredTimer, Version
from headrace.wire.value import Value
from headrace.worker.execution import (
    Deployed,
    dead_letter,
    final_error,
    productions_of,
    run_record,
    run_timer,
    stamp_of,
    stored_timers,
    timer_identity,
)
from headrace_sim.feed import Feed, FeedEntry


class Emitted(Value, frozen=True):
    """A record as the outside receives it. Ids and origins are left out: they differ from run to run."""

    stream: str
    key: str
    value: bytes
    timestamp: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run comes to.

    Attributes:
        outputs: how often each record went outside.
        states: (computation, key) to encoded state; keys in the initial state are left out.
    """

    outputs: Counter[Emitted]
    states: dict[tuple[str, str], bytes]


def run_reference(pipeline: Pipeline, feed: Feed, on_entry: Callable[[int], object] | None = None) -> Outcome:
    """Run a pipeline over a feed, sequentially.

    Args:
        pipeline: what to run.
        feed: the input.
        on_entry: told before each of the feed's entries how many are done, for progress.

    Raises:
        HeadraceError: user code or input failed, and the policy is to stop.
    """
    reference = _Reference(pipeline)
    for done, entry in enumerate(feed.entries):
        if on_entry is not None:
            on_entry(done)
        reference.take(entry)
    return reference.finish()


def outcome_of(history: Iterable[Event]) -> Outcome:
    """What a recorded run came to, to be compared with the reference."""
    outputs: Counter[Emitted] = Counter()
    states: dict[tuple[str, str], bytes] = {}
    for event in history:
        if type(event) is Output:
            outputs[_emitted(event.production)] += 1
        elif type(event) is Applied and event.delta.state is not None:
            states[event.computation, event.delta.key] = event.delta.state
    return Outcome(outputs, {name: state for name, state in states.items() if state})


def outputs_of(history: Iterable[Event]) -> Counter[Emitted]:
    """What a recorded run sent outside."""
    return outcome_of(history).outputs


def _emitted(production: Production) -> Emitted:
    return Emitted(production.stream, production.key, production.value, production.timestamp)


@dataclass(slots=True)
class _Timer:
    """A pending timer; ``holds``: it was not late when it was set, and so holds the low watermark."""

    stored: StoredTimer
    holds: bool


@dataclass(slots=True)
class _Row:
    state: bytes = b""
    hold: int = MAX_TIME
    timers: dict[str, _Timer] = field(default_factory=dict)

    def oldest(self) -> int:
        """The smallest event time that it holds; `MAX_TIME`: none."""
        held = [timer.stored.held for timer in self.timers.values() if timer.holds]
        return min([self.hold, *[time for time in held if time is not None]])


class _Stage:
    """One computation: its rows, what waits for it, and how far it is."""

    __slots__ = ("input_us", "low_us", "queue", "rows", "senders", "wall_timers", "where")

    def __init__(self, where: Deployed, senders: tuple[str, ...]) -> None:
        self.where = where
        self.senders = senders
        self.queue: deque[Production] = deque()
        self.rows: dict[str, _Row] = {}
        self.input_us = MIN_TIME
        self.low_us = MIN_TIME
        self.wall_timers = 0

    def forget_timer(self, row: _Row, tag: str) -> None:
        """Drop a timer, if it is set."""
        timer = row.timers.pop(tag, None)
        self.wall_timers -= timer is not None and timer.stored.clock is Clock.WALL

    def set_timer(self, row: _Row, timer: _Timer) -> None:
        """Set a timer whose tag is free."""
        row.timers[timer.stored.tag] = timer
        self.wall_timers += timer.stored.clock is Clock.WALL

    def due(self, key: str, now: int) -> StoredTimer | None:
        """The next timer of a key that is to fire, if one is due (4.6)."""
        row = self.rows.get(key)
        found = [timer.stored for timer in row.timers.values()] if row is not None else []
        for clock, limit in ((Clock.WATERMARK, self.input_us), (Clock.WALL, now)):
            due = [timer for timer in found if timer.clock is clock and timer.due <= limit]
            if due:
                return min(due, key=lambda timer: timer.order)
        return None

    def oldest(self) -> int:
        """The smallest event time that its rows hold."""
        return min((row.oldest() for row in self.rows.values()), default=MAX_TIME)

    def next_wall_us(self) -> int:
        """When its next wall timer is due; `MAX_TIME`: it has none."""
        if not self.wall_timers:
            return MAX_TIME
        timers = (timer.stored for row in self.rows.values() for timer in row.timers.values())
        return min((timer.due for timer in timers if timer.clock is Clock.WALL), default=MAX_TIME)


class _Reference:
    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        present = frozenset([OUTSIDE, *pipeline.computations])
        self._stages = {
            name: _Stage(Deployed(spec, pipeline, present), pipeline.senders(name))
            for name, spec in pipeline.computations.items()
        }
        self._sources = {
            name: dict.fromkeys(spec.addresses(), MIN_TIME) for name, spec in pipeline.injectors.items()
        }
        self._outputs: Counter[Emitted] = Counter()
        self._versions = 0
        self._now = 0

    # Arrivals

    def take(self, entry: FeedEntry) -> None:
        """Carry one arrival through all computations."""
        self._let_time_pass(entry.at_us)
        injector = entry.address.partition("/")[0]
        event = entry.event
        if isinstance(event, SourceRecord):
            self._send(self._inject(injector, entry.address, event))
        else:
            progress = self._sources[injector]
            progress[entry.address] = max(progress[entry.address], event.low_watermark)
        self._settle()

    def finish(self) -> Outcome:
        """Let wall time pass until nothing holds a low watermark any more; then tell what all came to."""
        while any(stage.low_us < MAX_TIME for stage in self._stages.values()):
            wall_us = min(stage.next_wall_us() for stage in self._stages.values())
            if wall_us == MAX_TIME:
                break
            self._let_time_pass(wall_us)
        states = {
            (name, key): row.state
            for name, stage in self._stages.items()
            for key, row in stage.rows.items()
            if row.state
        }
        return Outcome(self._outputs, states)

    def _let_time_pass(self, until_us: int) -> None:
        """Fire the wall timers on the way."""
        while (
            wall_us := min((stage.next_wall_us() for stage in self._stages.values()), default=MAX_TIME)
        ) <= until_us:
            self._now = max(self._now, wall_us)
            self._settle()
        self._now = max(self._now, until_us)

    def _inject(self, injector: str, address: str, record: SourceRecord) -> tuple[Production, ...]:
        spec = self._pipeline.injectors[injector]
        try:
            return injected_productions_of(self._pipeline, address, spec.outputs, record, self._now)
        except MalformedRecordError as error:
            if not isinstance(spec.on_malformed, DeadLetter):
                raise
            stream, timestamp = spec.on_malformed.stream, record.timestamp
            if not is_timestamp(timestamp):
                timestamp = min(max(self._sources[injector][address], 0), MAX_TIME - 1)
            letter = injected_dead_letter(self._pipeline, address, stream, record, timestamp, error)
            return injected_productions_of(self._pipeline, address, (stream,), letter, self._now)

    # Stages

    def _settle(self) -> None:
        """Records, then watermarks, then timers; sources first, so that one turn is enough.

        What a record made due was fired with it: the other keys have something due only if time has passed.
        """
        progress = {name: min(known.values()) for name, known in self._sources.items()}
        for name, stage in self._stages.items():
            while stage.queue:
                production = stage.queue.popleft()
                self._run_record(stage, production)
                self._fire_due(stage, production.key)
            input_us = min(progress[sender] for sender in stage.senders)
            if input_us > stage.input_us or stage.wall_timers:
                stage.input_us = max(stage.input_us, input_us)
                for key in sorted(stage.rows):
                    self._fire_due(stage, key)
            if stage.low_us < stage.input_us:
                stage.low_us = max(stage.low_us, min(stage.input_us, stage.oldest()))
            progress[name] = stage.low_us

    def _fire_due(self, stage: _Stage, key: str) -> None:
        while (timer := stage.due(key, self._now)) is not None:
            self._run_timer(stage, key, timer)

    def _send(self, productions: Iterable[Production]) -> None:
        for production in productions:
            if production.consumer == OUTSIDE:
                self._outputs[_emitted(production)] += 1
            else:
                self._stages[production.consumer].queue.append(production)

    # User code

    def _run_record(self, stage: _Stage, production: Production) -> None:
        where, key, cause = stage.where, production.key, production.record_id
        row = stage.rows.setdefault(key, _Row())
        try:
            context = run_record(where, key, row.state, production, stage.input_us, self._now)
            after = context.new_state()
        except Exception as error:  # noqa: BLE001  user code may raise anything
            self._fail(where, key, cause, production, production.timestamp, error)
            return
        self._adopt(stage, key, context, after, stage.input_us, cause)

    def _run_timer(self, stage: _Stage, key: str, timer: StoredTimer) -> None:
        where, cause = stage.where, timer_identity(stage.where.spec.name, timer)
        row = stage.rows[key]
        stage.forget_timer(row, timer.tag)
        handler_us = timer.due if timer.clock is Clock.WATERMARK else stage.input_us
        try:
            context = run_timer(where, key, row.state, timer, stage.input_us, self._now)
            after = context.new_state()
        except Exception as error:  # noqa: BLE001  user code may raise anything
            self._fail(where, key, cause, None, stamp_of(timer, stage.input_us), error)
            return
        self._adopt(stage, key, context, after, handler_us, cause)

    def _adopt(
        self, stage: _Stage, key: str, context: Context, after: bytes | None, handler_us: int, cause: str
    ) -> None:
        row = stage.rows[key]
        self._versions += 1
        version = Version(0, self._versions)
        if after is not None:
            row.state = after
        if context.new_hold is not None:
            row.hold = context.new_hold if context.new_hold >= stage.low_us else MAX_TIME
        timers = stored_timers(
            RULES, context, handler_time=handler_us, now=self._now, set_by=version, origin=self._now
        )
        for tag, timer in timers.items():
            stage.forget_timer(row, tag)
            if timer is not None:
                stage.set_timer(row, _Timer(timer, timer.held is not None and timer.held >= stage.low_us))
        self._emit(stage.where, context.emissions or [], version, cause)

    def _emit(self, where: Deployed, emissions: list[Emission], version: Version, cause: str) -> None:
        self._send(
            productions_of(
                where, emissions, RULES.id_prefix(where.spec.name, version, cause, where.strong), 0, self._now
            )
        )

    def _fail(
        self,
        where: Deployed,
        key: str,
        cause: str,
        production: Production | None,
        timestamp: int,
        error: Exception,
    ) -> None:
        """Choice: one attempt is enough, since nothing here can go better the next time."""
        policy = _policy(where.spec)
        if policy is None:
            raise final_error(where, key, cause, 1, error) from error
        self._versions += 1
        letter = dead_letter(where, policy.stream, key, cause, production, timestamp, error)
        self._emit(where, [letter], Version(0, self._versions), cause)


def _policy(spec: ComputationSpec) -> DeadLetter | None:
    return spec.on_failure if isinstance(spec.on_failure, DeadLetter) else None
