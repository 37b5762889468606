"""Turn an emission into its productions (MillWheel 4.2, 4.3, 6.1.1): one for each consumer of the stream, named and keyed.

Rules of this file, for workers, for injectors and for Spark's host alike:

* The consumer names the key extractor (4.2). It gets a copy of the value of its own, and the record's id.
* All consumers of a record see the same id, which `Rules` makes of its cause (6.1.1), and the same origin.
"""

from collections.abc import Iterable

from headrace.api.codecs import Codec, decode_at, shown
from headrace.api.context import Emission
from headrace.api.errors import KeyExtractorError, text_of
from headrace.api.records import Record, is_text
from headrace.api.specs import KeyExtractor, Subscriber, same_key
from headrace.delivery.deployed import Deployed
from headrace.wire.rows import Production, Version

CONSUMED = "stream {!r}, consumed by {!r}, record {}"
"""The place of a value that cannot be read; see `decode_at`."""


def productions_of(
    where: Deployed, emissions: Iterable[Emission], version: Version, cause: str, emitted: int, origin: int
) -> tuple[Production, ...]:
    """Name and address what user code emitted for one cause.

    Args:
        where: the emitting computation.
        emissions: what it emitted, in order.
        version: of the write that will carry them.
        cause: id of the record, or identity of the timer.
        emitted: how many emissions this version has already.
        origin: of the cause, microseconds.

    Raises:
        CodecError: a consumer cannot read the value.
        KeyExtractorError: a consumer's extractor failed.
    """
    rules, strong = where.rules, where.strong
    prefix = rules.id_prefix(where.spec.name, version, cause, strong)
    productions: list[Production] = []
    for ordinal, emission in enumerate(emissions, rules.first_ordinal(emitted, strong)):
        stream = emission.stream
        record_id = f"{prefix}#{ordinal}"
        productions += addressed(emission, record_id, origin, where.consumers(stream), where.codec(stream))
    return tuple(productions)


def addressed(
    emission: Emission, record_id: str, origin: int, consumers: Iterable[Subscriber], codec: Codec
) -> list[Production]:
    """Address an emission to each of its consumers.

    Args:
        emission: the record, with its own key.
        record_id: of the record.
        origin: of its cause, microseconds.
        consumers: of its stream.
        codec: of its stream.

    Raises:
        CodecError: a consumer cannot read the value.
        KeyExtractorError: a consumer's extractor failed.
    """
    stream, own, data, timestamp = emission.stream, emission.key, emission.value, emission.timestamp
    productions = []
    for consumer, extractor in consumers:
        key = own
        if extractor is not same_key:
            key = key_for(consumer, extractor, codec, stream, own, data, timestamp, record_id)
        productions.append(Production(record_id, stream, consumer, key, data, timestamp, origin))
    return productions


def key_for(
    consumer: str, extractor: KeyExtractor, codec: Codec,
    stream: str, own_key: str, data: bytes, timestamp: int, record_id: str,
) -> str:  # fmt: skip
    """Ask a consumer's key extractor for the key of a record (4.2); values and not an `Emission`, for hosts that have none.

    Raises:
        CodecError: the value cannot be read.
        KeyExtractorError: the extractor failed, or did not return a ``str``.
    """
    value = decode_at(CONSUMED, codec, data, stream, consumer, record_id)
    try:
        key = extractor(Record(own_key, value, timestamp, stream, False, record_id))  # noqa: FBT003  ``late``
    except Exception as error:
        reason = f"{text_of(error)} (value {shown(value)})"
        raise KeyExtractorError(consumer, stream, reason) from error
    if type(key) is not str or not (key.isascii() or is_text(key)):
        raise KeyExtractorError(consumer, stream, f"returned {key!r:.80} ({type(key).__name__})")
    return key
