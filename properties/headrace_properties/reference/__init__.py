"""The reference: a pipeline's result on a feed with no distribution, no faults and no waiting (MillWheel 4, 5.1).

Rules of this file:

* It is written from the paper and shares no code with the engine that it judges; import-linter checks this. Of `headrace.api` it
  uses what user code uses: pipelines, computations, codecs, records, timers and errors.
* One thing at a time, in the order of arrival. Each arrival is carried through all computations, sources first, before the next.
* A computation first handles the records that have arrived, then learns its senders' low watermarks, then fires due timers,
  so every production holds back what it should.
* Wall time is the feed's. After the feed's end it continues as long as a wall timer holds a low watermark.

A faulty run equals the reference for user code that depends neither on the order of arrival nor on which records are late.
Skew limits (8.4) delay records and change nothing else, so they are ignored.
"""

import base64
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.api.codecs import Codec, decode_at, encode_at
from headrace.api.errors import (
    CodecError,
    HeadraceError,
    KeyExtractorError,
    MalformedRecordError,
    UserCodeError,
    traceback_of_user_code,
)
from headrace.api.pipeline import Pipeline
from headrace.api.records import Clock, Record, Timer
from headrace.api.specs import OUTSIDE, DeadLetter, KeyExtractor, same_key
from headrace.api.time import EVENT_TIME, MAX_TIME, MIN_TIME, is_timestamp
from headrace.wire.effects import SourceRecord
from headrace_properties.reference.hook_calls import HookCall, StepHost, StepResult, run_step
from headrace_properties.reference.hook_context import is_text
from headrace_properties.reference.running_computation import (
    Delivery,
    Emitted,
    KeyRow,
    PendingTimer,
    RunningComputation,
)
from headrace_sim.feed import Feed, FeedEntry

__all__ = ["Emitted", "HookCall", "RunResult", "StepHost", "StepResult", "run_reference", "run_step"]


@dataclass(frozen=True, slots=True)
class RunResult:
    """The records that a run sent outside, and its final states.

    Attributes:
        outputs: how often each record went outside.
        states: (computation, key) to encoded state; keys in the initial state are left out.
    """

    outputs: Counter[Emitted]
    states: dict[tuple[str, str], bytes]


def run_reference(
    pipeline: Pipeline,
    feed: Feed,
    on_entry: Callable[[int], object] | None = None,
    host: StepHost = run_step,
    *,
    deployed: Pipeline | None = None,
    after: int = 0,
) -> RunResult:
    """Run a pipeline over a feed, sequentially.

    Args:
        pipeline: what to run.
        feed: the input.
        on_entry: called before each of the feed's entries with the number done; if it returns ``True``, the run ends there.
        host: runs user code; default: runs it once, in this process.
        deployed: another version, which takes its place behind ``after`` entries (3); it has the same injectors.
        after: how many entries the first version takes.

    Raises:
        HeadraceError: user code or input failed, and the policy is to stop.
    """
    reference = _Reference(pipeline, host)
    for done, entry in enumerate(feed.entries):
        if on_entry is not None and on_entry(done) is True:
            return reference.result()
        if deployed is not None and done == after:
            reference.deploy(deployed)
        reference.take(entry)
    return reference.finish()


class _Reference:
    def __init__(self, pipeline: Pipeline, host: StepHost) -> None:
        self._pipeline = pipeline
        self._host = host
        self._stages = dict[str, RunningComputation]()
        self.deploy(pipeline)
        self._sources = {
            name: dict.fromkeys(spec.addresses(), MIN_TIME) for name, spec in pipeline.injectors.items()
        }
        self._outputs: Counter[Emitted] = Counter()
        self._now = 0

    def deploy(self, pipeline: Pipeline) -> None:
        """Put a version in force: its computations go on with what those of their names have stored."""
        before, self._pipeline = self._stages, pipeline
        self._stages = {
            name: RunningComputation(spec, pipeline.senders(name), before.get(name))
            for name, spec in pipeline.computations.items()
        }

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

    def finish(self) -> RunResult:
        """Advance wall time until nothing holds a low watermark."""
        while any(stage.low_us < MAX_TIME for stage in self._stages.values()):
            wall_us = min(stage.next_wall_us() for stage in self._stages.values())
            if wall_us == MAX_TIME:
                break
            self._let_time_pass(wall_us)
        return self.result()

    def result(self) -> RunResult:
        states = {
            (name, key): bytes(row.state)
            for name, stage in self._stages.items()
            for key, row in stage.rows.items()
            if row.state
        }
        return RunResult(self._outputs, states)

    def _let_time_pass(self, until_us: int) -> None:
        """Fire the wall timers on the way."""
        while (
            wall_us := min((stage.next_wall_us() for stage in self._stages.values()), default=MAX_TIME)
        ) <= until_us:
            self._now = max(self._now, wall_us)
            self._settle()
        self._now = max(self._now, until_us)

    # Injectors (5.2)

    def _inject(self, injector: str, address: str, record: SourceRecord) -> list[Delivery]:
        """Stop the run, or write a dead letter, if a record is malformed."""
        spec = self._pipeline.injectors[injector]
        try:
            return self._checked(address, record, spec.outputs)
        except MalformedRecordError as error:
            policy = spec.on_malformed
            if not isinstance(policy, DeadLetter):
                raise
            letter = self._injector_letter(address, record, policy.stream, error)
            return self._checked(address, letter, (policy.stream,))

    def _checked(self, address: str, record: SourceRecord, outputs: tuple[str, ...]) -> list[Delivery]:
        stream, data = record.stream, record.value

        def refuse(reason: str) -> MalformedRecordError:
            return MalformedRecordError(address, stream, record.offset, reason)

        if stream not in outputs:
            raise refuse(f"the stream is not among its outputs ({', '.join(map(repr, outputs))})")
        if not is_timestamp(record.timestamp):
            raise refuse(f"timestamp {record.timestamp!r:.80} is not {EVENT_TIME}")
        if type(record.key) is not str:
            raise refuse(f"key {record.key!r:.80} is not a str")
        if type(data) is not bytes:
            raise refuse(f"value {data!r:.80} is not bytes; write it with the stream's codec")
        record_id = f"{address}:{record.offset}"
        emitted = Emitted(stream, record.key, data, record.timestamp)
        try:
            decode_at("stream {!r}", self._pipeline.codec(stream), data, stream)
            return self._deliveries(emitted, record_id, shown_id=record_id)
        except (CodecError, KeyExtractorError) as error:
            raise refuse(str(error)) from error

    def _injector_letter(
        self, address: str, record: SourceRecord, stream: str, error: MalformedRecordError
    ) -> SourceRecord:
        """Write a dead letter as `DeadLetter` describes it. Choice: without a timestamp it gets its arrival's."""
        value, timestamp = record.value, record.timestamp
        letter = {
            "injector": address,
            "stream": str(record.stream),
            "offset": record.offset,
            "key": str(record.key),
            "value": _base64(value) if type(value) is bytes else repr(value),
            "timestamp": timestamp if is_timestamp(timestamp) else repr(timestamp),
            "error": str(error),
        }
        data = _letter(self._pipeline.codec(stream), letter, stream, address)
        stamp = timestamp if is_timestamp(timestamp) else min(max(record.arrived_us, 0), MAX_TIME - 1)
        return SourceRecord(record.offset, stream, str(record.key), data, stamp)

    # Computations

    def _settle(self) -> None:
        """Process records, then watermarks, then timers; sources first, so one pass is enough.

        Timers that a record made due fired with it: other keys have due timers only if time has passed.
        """
        progress = {name: min(known.values()) for name, known in self._sources.items()}
        for name, stage in self._stages.items():
            while stage.queue:
                delivery = stage.queue.popleft()
                self._run_record(stage, delivery)
                self._fire_due(stage, delivery.key)
            input_us = min(progress[sender] for sender in stage.senders)
            if input_us > stage.input_us or stage.wall_timers:
                stage.input_us = max(stage.input_us, input_us)
                for key in sorted(stage.rows):
                    self._fire_due(stage, key)
            if stage.low_us < stage.input_us:
                stage.low_us = max(stage.low_us, min(stage.input_us, stage.oldest()))
            progress[name] = stage.low_us

    def _fire_due(self, stage: RunningComputation, key: str) -> None:
        while (timer := stage.due(key, self._now)) is not None:
            self._run_timer(stage, key, timer)

    def _run_record(self, stage: RunningComputation, delivery: Delivery) -> None:
        timestamp = delivery.record.timestamp
        row = stage.rows.setdefault(delivery.key, KeyRow())
        self._run(
            stage,
            HookCall(
                stage.spec.name, delivery.key, row.state, self._now, stage.input_us, delivery.record_id,
                record=delivery.record, moment_us=stage.input_us, earliest_us=timestamp, stamp=timestamp,
            ),
        )  # fmt: skip

    def _run_timer(self, stage: RunningComputation, key: str, timer: PendingTimer) -> None:
        row = stage.rows[key]
        stage.forget(row, timer.tag)
        moment_us = timer.due if timer.clock is Clock.WATERMARK else stage.input_us
        if timer.held is not None:
            earliest_us = stamp = timer.held
        else:  # Choice: its productions get the low watermark; without one, the timestamp of the hook that set it.
            is_known = MIN_TIME < stage.input_us < MAX_TIME
            earliest_us, stamp = MIN_TIME, stage.input_us if is_known else timer.stamp
        self._run(
            stage,
            HookCall(
                stage.spec.name, key, row.state, self._now, stage.input_us, f"{stage.spec.name}@{self._now}!{timer.tag}",
                timer=Timer(timer.tag, timer.at, timer.clock), moment_us=moment_us, earliest_us=earliest_us, stamp=stamp,
            ),
        )  # fmt: skip

    def _run(self, stage: RunningComputation, step: HookCall) -> None:
        """Run user code, atomically (5.1). Choice: one attempt, since a retry cannot succeed."""
        try:
            result = self._host(self._pipeline, stage, step)
            deliveries = self._productions(stage, result.made, step.cause)
        except Exception as error:
            policy = stage.spec.on_failure
            if not isinstance(policy, DeadLetter):
                raise self._user_error(stage, step, error) from error
            letter = self._step_letter(step, policy.stream, error)
            self._send(self._productions(stage, [letter], step.cause))
        else:
            stage.adopt(step.key, result.state, result.hold, result.timers)
            self._send(deliveries)

    def _user_error(self, stage: RunningComputation, step: HookCall, error: Exception) -> HeadraceError:
        if isinstance(error, HeadraceError):
            return error
        value = ""
        if step.record is not None:
            codec = self._pipeline.codec(step.record.stream)
            value = repr(codec.decode(step.record.value))
        return UserCodeError(stage.spec.name, step.key, step.cause, 1, traceback_of_user_code(error), value)

    def _step_letter(self, step: HookCall, stream: str, error: Exception) -> Emitted:
        """Write a dead letter as `DeadLetter` describes it."""
        name, key, stamp, record = step.computation, step.key, step.stamp, step.record
        letter = {
            "computation": name,
            "key": key,
            "cause": step.cause,
            "stream": None if record is None else record.stream,
            "value_base64": None if record is None else _base64(record.value),
            "timestamp": stamp,
            "error": f"{type(error).__name__}: {error}".encode(errors="backslashreplace").decode(),
        }
        return Emitted(stream, key, _letter(self._pipeline.codec(stream), letter, stream, name), stamp)

    # Streams (4.2, 4.3)

    def _productions(
        self, stage: RunningComputation, emissions: Sequence[Emitted], cause: str
    ) -> list[Delivery]:
        """Choice: ids name the cause and count, as those of weak productions do in every run (6.1.2)."""
        return [
            delivery
            for number, emitted in enumerate(emissions)
            for delivery in self._deliveries(emitted, f"{cause}>{stage.spec.name}#{number}")
        ]

    def _deliveries(self, emitted: Emitted, record_id: str, shown_id: str = "") -> list[Delivery]:
        """Return a copy per consumer, under the key that it extracts. ``shown_id``: the id that extractors see."""
        stream = emitted.stream
        codec = self._pipeline.codec(stream)
        deliveries = []
        for consumer, extractor in self._pipeline.consumers(stream):
            key = emitted.key
            if extractor is not same_key:
                value = decode_at("stream {!r}, read for {!r}", codec, emitted.value, stream, consumer)
                record = Record(key, value, emitted.timestamp, stream, record_id=shown_id)
                key = _extracted(consumer, extractor, record)
            deliveries.append(Delivery(consumer, key, emitted, record_id))
        return deliveries

    def _send(self, deliveries: Iterable[Delivery]) -> None:
        for delivery in deliveries:
            if delivery.consumer == OUTSIDE:
                self._outputs[delivery.record] += 1
            else:
                self._stages[delivery.consumer].queue.append(delivery)


def _extracted(consumer: str, extractor: KeyExtractor, record: Record) -> str:
    """Run a consumer's key extractor.

    Raises:
        KeyExtractorError: it failed, or did not return a text.
    """
    try:
        key = extractor(record)
    except Exception as error:
        reason = f"{type(error).__name__}: {error} (value {record.value!r:.80})"
        raise KeyExtractorError(consumer, record.stream, reason) from error
    if not is_text(key):
        raise KeyExtractorError(consumer, record.stream, f"returned {key!r:.80} ({type(key).__name__})")
    return key


def _letter(codec: Codec, letter: dict[str, Any], stream: str, sender: str) -> bytes:
    return encode_at("stream {!r}, dead letters of {!r}", codec, letter, stream, sender)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
