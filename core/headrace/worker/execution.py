"""Running user code for one record or timer (MillWheel 5.1, 6.1): pure, nothing it does counts before the step commits.

Rules of this file: user code that fails leaves no trace in its step; ids of productions are given here (6.1.1): strong ones from
the row's version, weak ones from their cause and ordinal, so that a re-run makes the same ids; each consumer gets its own
production.
"""

import traceback
from collections.abc import Sequence

from headrace.api.codecs import Codec, decode_at, encode_at, unreadable
from headrace.api.context import Context, Emission
from headrace.api.dead_letters import step_letter
from headrace.api.errors import HeadraceError, UserCodeError
from headrace.api.pipeline import Pipeline
from headrace.api.records import Clock, Record, Timer
from headrace.api.specs import OUTSIDE, ComputationSpec, KeyExtractor, Productions, extract_key, same_key
from headrace.api.time import MAX_TIME, MIN_TIME
from headrace.rules import RULES, Rules
from headrace.wire.messages import Table
from headrace.wire.rows import Production, StoredTimer, Version


class Deployed:
    """One computation as deployed: its spec, and the pipeline version that says where its streams lead (3).

    Attributes:
        spec: the computation.
        pipeline: the version that it is of.
        present: the consumers that have not left the topology.
        strong: its productions are (6.1.2).
        exactly_once: its deliveries are deduplicated (6.1.1).
        is_late: tells whether a record of this timestamp is late at this low watermark (4.5).
    """

    __slots__ = (
        "_codecs",
        "_consumers",
        "_rules",
        "exactly_once",
        "is_late",
        "pipeline",
        "present",
        "spec",
        "strong",
    )

    def __init__(
        self, spec: ComputationSpec, pipeline: Pipeline, present: frozenset[str], rules: Rules = RULES
    ) -> None:
        self._rules = rules
        self.is_late = rules.is_late
        self.spec = spec
        self.pipeline = pipeline
        self.present = present
        self.strong = spec.productions is Productions.STRONG
        self.exactly_once = spec.exactly_once
        self._codecs: dict[str, Codec] = {}
        self._consumers: dict[str, Sequence[tuple[str, KeyExtractor]]] = {}

    def codec(self, stream: str) -> Codec:
        """The codec of a stream; asked for with each record, and so remembered."""
        found = self._codecs.get(stream)
        if found is None:
            found = self._codecs[stream] = self.pipeline.codec(stream)
        return found

    def consumers(self, stream: str) -> Sequence[tuple[str, KeyExtractor]]:
        """(computation, key extractor) of each subscriber that is present; remembered likewise."""
        found = self._consumers.get(stream)
        if found is None:
            subscribers = [one for one in self.pipeline.consumers(stream) if one[0] in self.present]
            found = self._consumers[stream] = self._rules.recipients(subscribers)
        return found


def deployed(name: str, topologies: Sequence[Pipeline], table: Table, rules: Rules = RULES) -> Deployed:
    """Find a computation's spec: in the version in force, or, if it is retiring, in the one that was until then.

    Choice: one that was added, and whose version never came into force, retires as in the last before that has it, or any.
    """
    present = frozenset([OUTSIDE, *(a.computation for a in table.assignments)])
    since = dict(zip(table.retiring, table.retired_from, strict=False))
    former = topologies[since.get(name, table.topology)]
    for pipeline in [
        topologies[table.topology],
        former,
        *reversed(topologies[: table.topology]),
        *topologies,
    ]:
        spec = pipeline.computations.get(name)
        if spec is not None:
            return Deployed(spec, pipeline, present, rules)
    raise AssertionError(f"no deployed pipeline version has computation {name!r}")


def run_record(
    where: Deployed, key: str, state: bytes, production: Production, low_watermark: int, now: int
) -> Context:
    """Run ``process_record`` on a fresh copy of everything; raises what user code raises."""
    spec = where.spec
    stream = production.stream
    timestamp, record_id = production.timestamp, production.record_id
    codec = where.codec(stream)
    try:
        value = codec.decode(production.value)
    except Exception as error:
        names = stream, spec.name, record_id
        raise unreadable(error, _CONSUMED, codec, production.value, *names) from error
    context = Context(spec, key, state, timestamp, low_watermark, now, timestamp)
    record = Record(key, value, timestamp, stream, where.is_late(timestamp, low_watermark), record_id)
    spec.computation.process_record(context, record)
    return context


def run_timer(
    where: Deployed, key: str, state: bytes, timer: StoredTimer, low_watermark: int, now: int
) -> Context:
    """Run ``process_timer`` on a fresh copy of everything; raises what user code raises."""
    held = timer.held
    cause_us = MIN_TIME if held is None else held
    context = Context(where.spec, key, state, cause_us, low_watermark, now, stamp_of(timer, low_watermark))
    where.spec.computation.process_timer(context, Timer(timer.tag, timer.timestamp, timer.clock))
    return context


def stamp_of(timer: StoredTimer, low_watermark: int) -> int:
    """The timestamp of what a timer produces, unless user code gives one; event time, microseconds.

    Choice: a wall timer without a hold stamps with the low watermark, so that nothing that it makes is late. While that is
    unknown, and when the source has ended, there is no such time (windows at the ends of time can not be computed): then it is
    the time of what set the timer, as in Beam.
    """
    held = timer.held
    if held is not None:
        return held
    return low_watermark if MIN_TIME < low_watermark < MAX_TIME else timer.set_at


def timer_identity(computation: str, timer: StoredTimer) -> str:
    """What names a timer as the cause of productions."""
    return f"{computation}@{timer.set_by}!{timer.tag}"


def productions_of(
    where: Deployed, emissions: Sequence[Emission], first_id: str, first_ordinal: int, origin: int
) -> list[Production]:
    """Name and address what user code emitted: one production for each consumer of the stream (4.3).

    Args:
        where: the emitting computation.
        emissions: what its context collected.
        first_id: the ids' common beginning.
        first_ordinal: the ordinal of the first one.
        origin: of their cause, microseconds.

    Raises:
        KeyExtractorError: a consumer's extractor failed.
    """
    found = []
    for ordinal, emission in enumerate(emissions, first_ordinal):
        stream = emission.stream
        record_id = f"{first_id}#{ordinal}"
        for consumer, extractor in where.consumers(stream):
            if extractor is same_key:
                key = emission.key
            else:
                value = decode_at(
                    f"stream {stream!r}, read for {consumer!r}", where.codec(stream), emission.value
                )
                key = extract_key(
                    consumer, stream, extractor, Record(emission.key, value, emission.timestamp, stream)
                )
            found.append(
                Production(record_id, stream, consumer, key, emission.value, emission.timestamp, origin)
            )
    return found


def stored_timers(
    rules: Rules, context: Context, *, handler_time: int, now: int, set_by: Version, origin: int
) -> dict[str, StoredTimer | None]:
    """What the timers that user code asked for come to in the row (4.6); ``None``: cancelled.

    Args:
        rules: of the protocol.
        context: of the hook that ran.
        handler_time: the input watermark, or, for a timer's hook, the time that it was due; event time, microseconds.
        now: this machine's clock, microseconds.
        set_by: the version of the write that will carry them.
        origin: of their cause, microseconds.
    """
    found: dict[str, StoredTimer | None] = {}
    for tag, request in (context.timers or {}).items():
        if request is None:
            found[tag] = None
            continue
        base = handler_time if request.clock is Clock.WATERMARK else now
        overdue = request.timestamp <= base
        due = rules.due(request.timestamp, base)
        set_at = context.stamp if request.clock is Clock.WALL and request.hold is None else MIN_TIME
        found[tag] = StoredTimer(
            tag, request.timestamp, request.clock, due, overdue, request.hold, set_by, origin, set_at
        )
    return found


def final_error(where: Deployed, key: str, cause: str, attempts: int, error: Exception) -> HeadraceError:
    """What the user is told when a step has failed for good."""
    if isinstance(error, HeadraceError):
        return error
    text = "".join(traceback.format_exception(error))
    return UserCodeError(where.spec.name, key, cause, attempts, text)


_CONSUMED = "stream {!r}, consumed by {!r}, record {}"
_DEAD = "stream {!r}, dead letters of {!r}"


def dead_letter(
    where: Deployed,
    stream: str,
    key: str,
    cause: str,
    production: Production | None,
    timestamp: int,
    error: Exception,
) -> Emission:
    """The dead letter of a record, or of a timer (``production`` is ``None``).

    Raises:
        CodecError: the stream's codec refuses it.
    """
    name = where.spec.name
    source, value = (production.stream, production.value) if production else (None, None)
    text = f"{type(error).__name__}: {error}"
    letter = step_letter(name, key, cause, source, value, timestamp, text)
    data = encode_at(_DEAD, where.codec(stream), letter, stream, name)
    return Emission(stream, key, data, timestamp)
