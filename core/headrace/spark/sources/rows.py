"""From records of an outside source to the rows of `INJECTED_SCHEMA` (MillWheel 5.2), in a worker of Spark.

Rules of this file: a record is checked and encoded where it enters; one that can not enter stops the query, or goes to the dead
letters under the id that it would have had, as the injector's policy says (`headrace.injector.injection`). Rows leave as
Arrow batches:
tuples cost several times as much.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Never

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from headrace.api.codecs import Codec, encode_at
from headrace.api.errors import CodecError, MalformedRecordError, OptionsError
from headrace.api.pipeline import Pipeline
from headrace.api.specs import DeadLetter, InjectorSpec
from headrace.api.time import EVENT_TIME, is_timestamp
from headrace.injector.injection import dead_letter
from headrace.spark.runtime.event_time import to_spark
from headrace.spark.sources.schema import ARROW_SCHEMA
from headrace.wire.effects import SourceRecord

BATCH_ROWS = 10_000
"""Of one Arrow batch."""


_SHOWN = 200
"""Characters of a malformed record that its error shows."""


def shown(raw: bytes) -> str:
    r"""What a malformed record reads, for its error: on one line, without anything that a terminal would obey, and cut.

    >>> shown(b'{"a": \x1b[2J}\xff')
    '\'{"a": \\x1b[2J}\\\\xff\''
    >>> shown(b"a" * 300)[-24:]
    "aaaaaaaa'... (300 bytes)"
    """
    text = raw[: 4 * _SHOWN].decode("utf-8", "backslashreplace")
    return f"{text[:_SHOWN]!r}" + (f"... ({len(raw)} bytes)" if len(text) > _SHOWN else "")


class NewRecord(msgspec.Struct, frozen=True, gc=False):
    """A record as your code reads or makes it.

    Attributes:
        key: its own key.
        value: what the codec of its stream takes.
        timestamp: event time, microseconds.
        stream: one of the injector's outputs; may be left out where there is one only.
    """

    key: str
    value: Any
    timestamp: int
    stream: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """Where records come into a pipeline: what a worker has to know of it, and no more.

    Attributes:
        spec: the injector.
        pipeline: just the injector and the codecs of its streams, so that the users' computations need not pickle.
    """

    spec: InjectorSpec
    pipeline: Pipeline

    @staticmethod
    def of(pipeline: Pipeline, injector: str) -> "Entry":
        """Take from a pipeline what concerns one injector.

        Raises:
            OptionsError: it has no injector of that name.
        """
        spec = pipeline.injectors.get(injector)
        if spec is None:
            known = ", ".join(map(repr, pipeline.injectors))
            raise OptionsError("injector", injector, f"an injector of pipeline {pipeline.name!r}: {known}")
        part = Pipeline(pipeline.name)
        part.injector(
            spec.name, outputs=spec.outputs, processes=spec.processes, on_malformed=spec.on_malformed
        )
        for stream in dict.fromkeys(spec.all_outputs):
            part.stream(stream, pipeline.codec(stream))
        return Entry(spec, part)

    @property
    def name(self) -> str:
        """The injector's."""
        return self.spec.name

    def codecs(self) -> Mapping[str, Codec]:
        """Of the streams that it injects into; the only one is also that of the name ""."""
        outputs = self.spec.outputs
        codecs = {stream: self.pipeline.codec(stream) for stream in outputs}
        return {**codecs, "": codecs[outputs[0]]} if len(outputs) == 1 else codecs


class RowWriter:
    """Writes the rows of one process.

    Args:
        entry: of its injector.
        process: its number.
    """

    __slots__ = (
        "_address", "_arrived", "_codecs", "_entry", "_keys", "_offsets", "_stream", "_streams", "_timestamps", "_values",
    )  # fmt: skip

    def __init__(self, entry: Entry, process: int) -> None:
        self._entry = entry
        self._address = f"{entry.name}/{process}"
        self._codecs = entry.codecs()
        self._stream = entry.spec.outputs[0]
        self._clear()

    def _clear(self) -> None:
        # Lists of plain values: ten thousand tuples would keep the garbage collector busy.
        self._streams: list[str] = []
        self._keys: list[str] = []
        self._values: list[bytes] = []
        self._timestamps: list[int] = []
        self._offsets: list[int] = []
        self._arrived: list[int] = []

    def add(self, offset: int, record: NewRecord, arrived_us: int) -> None:
        """Write a record.

        Args:
            offset: its place in the process's part of the source.
            record: as it was read.
            arrived_us: the source's stamp.

        Raises:
            MalformedRecordError: it does not fit.
        """
        if type(record) is not NewRecord:
            self._malformed(offset, "", f"{record!r:.80} is not a NewRecord")
        stream, timestamp, codec = record.stream, record.timestamp, self._codecs.get(record.stream)
        if codec is None:
            streams = ", ".join(map(repr, self._entry.spec.outputs))
            self._malformed(offset, stream, f"the stream is not among the injector's outputs ({streams})")
        if type(record.key) is not str:
            self._malformed(offset, stream, f"key {record.key!r:.80} is not a str")
        if not is_timestamp(timestamp):
            self._malformed(offset, stream, f"timestamp {timestamp!r:.80} is not {EVENT_TIME}")
        try:
            value = encode_at("stream {!r}", codec, record.value, stream or self._stream)
        except CodecError as error:
            self._malformed(offset, stream, str(error), error)
        self._append(stream or self._stream, record.key, value, timestamp, offset, arrived_us)

    def _malformed(self, offset: int, stream: str, reason: str, cause: Exception | None = None) -> Never:
        raise MalformedRecordError(self._address, stream or self._stream, offset, reason) from cause

    def _append(
        self, stream: str, key: str, value: bytes, timestamp: int, offset: int, arrived_us: int
    ) -> None:
        self._streams.append(stream)
        self._keys.append(key)
        self._values.append(value)
        self._timestamps.append(timestamp)
        self._offsets.append(offset)
        self._arrived.append(arrived_us)

    def refuse(
        self, offset: int, error: Exception, where: str, raw: bytes, timestamp: int, arrived_us: int
    ) -> None:
        """A record can not enter: stop, or write it to the dead letters.

        Args:
            offset: its place.
            error: why.
            where: in the user's words: file and line.
            raw: as it was read.
            timestamp: of the dead letter, microseconds.
            arrived_us: the source's stamp.

        Raises:
            MalformedRecordError: the policy is to stop.
        """
        stream, reason = self._stream, f"{type(error).__name__}: {error}"
        if isinstance(error, MalformedRecordError):
            stream, reason = error.stream, error.reason
        reason = f"{where}: {reason}. It reads {shown(raw)}" if where else reason
        told = MalformedRecordError(self._address, stream, offset, reason)
        policy = self._entry.spec.on_malformed
        if not isinstance(policy, DeadLetter):
            raise told from error
        record = SourceRecord(offset, stream, "", raw, timestamp, arrived_us)
        letter = dead_letter(self._entry.pipeline, self._address, policy.stream, record, timestamp, told)
        self._append(letter.stream, letter.key, letter.value, timestamp, offset, arrived_us)

    def take(self) -> Iterator[pa.RecordBatch]:
        """Give what was written as a batch, if there is any. Call it every `BATCH_ROWS` records."""
        count = len(self._keys)
        if count:
            numbers = pa.array(self._offsets, pa.int64()).cast(pa.string())
            ids = pc.binary_join_element_wise(self._address, numbers, ":")
            nothing = [None] * count
            data = (self._streams, self._keys, self._values, self._timestamps, ids, self._arrived)
            self._clear()
            yield _batch((*data, nothing, nothing))


def heartbeat(low_watermark: int, horizon: int) -> pa.RecordBatch:
    """Write the one heartbeat row that ends a batch."""
    return _batch(([None], [None], [None], [None], [None], [None], [to_spark(low_watermark)], [horizon]))


def _batch(columns: tuple[Any, ...]) -> pa.RecordBatch:
    arrays = [
        column if isinstance(column, pa.Array) else pa.array(column, one.type)
        for column, one in zip(columns, ARROW_SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)
