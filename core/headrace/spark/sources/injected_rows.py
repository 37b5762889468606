"""From records of an outside source to rows of `INJECTED_SCHEMA` (MillWheel 5.2), in a worker of Spark.

Rules of this file: records are checked and encoded where they enter. By the injector's policy (`headrace.injector.injection`) a
malformed record stops the query, or goes to the dead letters under the id that it would have had. Rows leave as Arrow batches:
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
"""Rows of one Arrow batch."""


_SHOWN = 200
"""Maximum characters of a malformed record that its error shows."""


def shown(raw: bytes) -> str:
    r"""Return a malformed record's text for its error: on one line, truncated, and without terminal control characters.

    >>> shown(b'{"a": \x1b[2J}\xff')
    '\'{"a": \\x1b[2J}\\\\xff\''
    >>> shown(b"a" * 300)[-24:]
    "aaaaaaaa'... (300 bytes)"
    """
    text = raw[: 4 * _SHOWN].decode("utf-8", "backslashreplace")
    return f"{text[:_SHOWN]!r}" + (f"... ({len(raw)} bytes)" if len(text) > _SHOWN else "")


class NewRecord(msgspec.Struct, frozen=True, gc=False):
    """A record as your code reads or generates it.

    Attributes:
        key: its own key.
        value: a value that the stream's codec can encode.
        timestamp: event time, microseconds.
        stream: one of the injector's outputs; can be left out if there is only one.
    """

    key: str
    value: Any
    timestamp: int
    stream: str = ""


@dataclass(frozen=True, slots=True)
class InjectionPlan:
    """The part of a pipeline that a worker needs to inject records.

    Attributes:
        spec: the injector.
        pipeline: only the injector and the codecs of its streams, so that the user's computations need not be picklable.
    """

    spec: InjectorSpec
    pipeline: Pipeline

    @staticmethod
    def of(pipeline: Pipeline, injector: str) -> "InjectionPlan":
        """Extract what concerns one injector from a pipeline.

        Raises:
            OptionsError: the pipeline has no injector of that name.
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
        return InjectionPlan(spec, part)

    @property
    def name(self) -> str:
        """The injector's name."""
        return self.spec.name

    def codecs(self) -> Mapping[str, Codec]:
        """Return the codecs of the injector's streams; if there is only one, also under the name ""."""
        outputs = self.spec.outputs
        codecs = {stream: self.pipeline.codec(stream) for stream in outputs}
        return {**codecs, "": codecs[outputs[0]]} if len(outputs) == 1 else codecs


class RowWriter:
    """Writes the rows of one process."""

    __slots__ = (
        "_address", "_arrived", "_codecs", "_entry", "_keys", "_offsets", "_stream", "_streams", "_timestamps", "_values",
    )  # fmt: skip

    def __init__(self, entry: InjectionPlan, process: int) -> None:
        self._entry = entry
        self._address = f"{entry.name}/{process}"
        self._codecs = entry.codecs()
        self._stream = entry.spec.outputs[0]
        self._clear()

    def _clear(self) -> None:
        # Lists of plain values, because ten thousand tuples would keep the garbage collector busy.
        self._streams: list[str] = []
        self._keys: list[str] = []
        self._values: list[bytes] = []
        self._timestamps: list[int] = []
        self._offsets: list[int] = []
        self._arrived: list[int] = []

    def add(self, offset: int, record: NewRecord, arrived_us: int) -> None:
        """Write a record.

        Args:
            offset: its position in the process's part of the source.
            record: the record.
            arrived_us: the source's stamp, microseconds.

        Raises:
            MalformedRecordError: the record is malformed.
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
        """Refuse a malformed record: raise an error, or write a dead letter.

        Args:
            offset: its position.
            error: the reason.
            where: its file and line.
            raw: its bytes.
            timestamp: timestamp of the dead letter, microseconds.
            arrived_us: the source's stamp, microseconds.

        Raises:
            MalformedRecordError: the policy is to stop.
        """
        stream, reason = self._stream, f"{type(error).__name__}: {error}"
        if isinstance(error, MalformedRecordError):
            stream, reason = error.stream, error.reason
        reason = f"{where}: {reason}: {shown(raw)}" if where else reason
        refusal = MalformedRecordError(self._address, stream, offset, reason)
        policy = self._entry.spec.on_malformed
        if not isinstance(policy, DeadLetter):
            raise refusal from error
        record = SourceRecord(offset, stream, "", raw, timestamp, arrived_us)
        letter = dead_letter(self._entry.pipeline, self._address, policy.stream, record, timestamp, refusal)
        self._append(letter.stream, letter.key, letter.value, timestamp, offset, arrived_us)

    def take(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows written so far as a batch, if there are any. Call it every `BATCH_ROWS` records."""
        count = len(self._keys)
        if count:
            numbers = pa.array(self._offsets, pa.int64()).cast(pa.string())
            ids = pc.binary_join_element_wise(self._address, numbers, ":")
            nothing = [None] * count
            data = (self._streams, self._keys, self._values, self._timestamps, ids, self._arrived)
            self._clear()
            yield _batch((*data, nothing, nothing))


def heartbeat(low_watermark: int, horizon: int) -> pa.RecordBatch:
    """Return the heartbeat row that ends a batch."""
    return _batch(([None], [None], [None], [None], [None], [None], [to_spark(low_watermark)], [horizon]))


def _batch(columns: tuple[Any, ...]) -> pa.RecordBatch:
    arrays = [
        column if isinstance(column, pa.Array) else pa.array(column, field.type)
        for column, field in zip(columns, ARROW_SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)
