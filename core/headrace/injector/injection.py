"""From a record of the source to its productions (MillWheel 5.2): check it, and address it to each consumer.

Rules of this file: a record that cannot be read or keyed is refused with its place in the source, by a `MalformedRecordError`;
what goes to the dead letters is the record as it came.
"""

from collections.abc import Iterable

from headrace.api.codecs import decode_at, encode_at
from headrace.api.context import Emission
from headrace.api.dead_letters import injector_letter, written_out
from headrace.api.errors import CodecError, KeyExtractorError, MalformedRecordError
from headrace.api.pipeline import Pipeline
from headrace.api.records import is_text
from headrace.api.specs import Subscriber
from headrace.api.time import EVENT_TIME, MAX_TIME, is_timestamp
from headrace.delivery.addressing import addressed
from headrace.rules import RULES
from headrace.wire.effects import SourceRecord
from headrace.wire.rows import Production


def productions_of(
    pipeline: Pipeline,
    injector: str,
    outputs: tuple[str, ...],
    record: SourceRecord,
    origin: int,
    also: Iterable[Subscriber] = (),
    *,
    record_id: str | None = None,
) -> tuple[Production, ...]:
    """Make one production for each consumer of a record's stream.

    Args:
        pipeline: the topology in force.
        injector: address of the process.
        outputs: the streams that it may inject into.
        record: as the source gave it.
        origin: its stamp, microseconds.
        also: subscribers that have left this topology, and are still owed the record.
        record_id: its id, if the source names its records itself; default: the process and the offset.

    Raises:
        MalformedRecordError: its stream, types, bytes or keys are wrong.
    """
    problem = _problem(record, outputs)
    if problem:
        raise MalformedRecordError(injector, record.stream, record.offset, problem)
    stream, data, timestamp = record.stream, record.value, record.timestamp
    record_id = record_id or RULES.injected_id(injector, record.offset, 1)
    codec = pipeline.codec(stream)
    emission = Emission(stream, record.key, data, timestamp)
    try:
        decode_at("stream {!r}", codec, data, stream)  # even if no key extractor reads it
        return tuple(addressed(emission, record_id, origin, (*pipeline.consumers(stream), *also), codec))
    except (CodecError, KeyExtractorError) as error:
        raise MalformedRecordError(injector, stream, record.offset, str(error)) from error


def time_of(record: SourceRecord) -> int:
    """Return a record's event time; if it has none, when the source received it, which is the same however often it is read."""
    if is_timestamp(record.timestamp):
        return record.timestamp
    return min(max(record.arrived_us, 0), MAX_TIME - 1)


def dead_letter(
    pipeline: Pipeline,
    injector: str,
    stream: str,
    record: SourceRecord,
    timestamp: int,
    error: MalformedRecordError,
) -> SourceRecord:
    """Wrap a malformed record for the dead letters' stream, at the same offset.

    Args:
        pipeline: the topology in force.
        injector: address of the process.
        stream: of the dead letters.
        record: the malformed one.
        timestamp: its timestamp, or what stands for it if that is what is wrong.
        error: why it is malformed.

    Raises:
        CodecError: that stream's codec refuses it.
    """
    stamp = record.timestamp if is_timestamp(record.timestamp) else repr(record.timestamp)
    key = written_out(str(record.key))
    letter = injector_letter(
        injector, str(record.stream), record.offset, key, record.value, stamp, str(error)
    )
    data = encode_at(f"stream {stream!r}, dead letters of {injector!r}", pipeline.codec(stream), letter)
    return SourceRecord(record.offset, stream, key, data, timestamp)


def _problem(record: SourceRecord, outputs: tuple[str, ...]) -> str:
    if record.stream not in outputs:
        return f"the stream is not among its outputs ({', '.join(map(repr, outputs))})"
    if not is_timestamp(record.timestamp):
        return f"timestamp {record.timestamp!r:.80} is not {EVENT_TIME}"
    if type(record.key) is not str:
        return f"key {record.key!r:.80} is not a str"
    if not (record.key.isascii() or is_text(record.key)):
        return f"key {record.key!r:.80} cannot be written as UTF-8"
    if type(record.value) is not bytes:
        return f"value {record.value!r:.80} is not bytes; write it with the stream's codec"
    return ""
