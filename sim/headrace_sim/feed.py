"""The input of a run, as a value: what arrives at each injector process, and when (MillWheel 5.2).

A feed is the content of a replayable source (a log with offsets): after a crash an injector reads it again from an offset and
finds the same events.
"""

from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from headrace import MAX_TIME, MIN_TIME, SECOND, MalformedRecordError, OptionsError, Pipeline
from headrace.api.codecs import encode_at  # the one writer of wire values
from headrace.api.records import is_text
from headrace.api.specs import InjectorSpec
from headrace.wire.effects import SourceEvent, SourceRecord, SourceWatermark


class FeedEntry(msgspec.Struct, frozen=True):
    """An arrival.

    Attributes:
        at_us: when the source has it, true wall time in microseconds since the run began.
        address: the injector's process, ``INJECTOR/NUMBER``.
        event: the record or watermark; offsets count up from 0 at each address.
    """

    at_us: int
    address: str
    event: SourceEvent


class Feed(msgspec.Struct, frozen=True):
    """All arrivals of a run, in order of time; each address's last event is a watermark of `MAX_TIME`.

    Attributes:
        entries: see `FeedBuilder` for how to make them.
    """

    entries: tuple[FeedEntry, ...]

    @property
    def records(self) -> int:
        """The number of records."""
        return sum(isinstance(entry.event, SourceRecord) for entry in self.entries)

    @property
    def end_us(self) -> int:
        """When the last event arrives, true time in microseconds."""
        return self.entries[-1].at_us if self.entries else 0

    def on_time(self) -> frozenset[int]:
        """Return the records that no source delivers behind its own low watermark (4.5), by their order in the feed, from 0."""
        promised: dict[str, int] = {}
        on_time, number = set(), 0
        for entry in self.entries:
            known = promised.get(entry.address, MIN_TIME)
            match entry.event:
                case SourceWatermark(low_watermark=low_watermark):
                    promised[entry.address] = max(known, low_watermark)
                case SourceRecord(timestamp=timestamp):
                    if timestamp >= known:
                        on_time.add(number)
                    number += 1
        return frozenset(on_time)

    def only(self, kept: Collection[int]) -> "Feed":
        """Return the same input with only some of its records, but all of its watermarks.

        Args:
            kept: the records to keep, by their order in the feed, from 0.
        """
        number, arrivals = 0, []
        for entry in self.entries:
            if isinstance(entry.event, SourceRecord):
                number += 1
                if number - 1 not in kept:
                    continue
            arrivals.append((entry.at_us, entry.address, entry.event))
        return Feed(tuple(_number(arrivals)))

    def closer(self, gap_us: int) -> "Feed":
        """Return the same records in the same order, each at most a gap after the one before it; event times stay what they are.

        Of the watermarks of a source between two records, the last one stays: it says what the others said.

        Args:
            gap_us: the gap, microseconds. The first record keeps up to a second, in which the processes start.
        """
        entries: list[FeedEntry] = []
        last: dict[str, FeedEntry] = {}
        for entry in self.entries:
            if isinstance(entry.event, SourceRecord):
                entries += last.values()
                last.clear()
                entries.append(entry)
            else:
                last[entry.address] = entry
        entries += last.values()
        at_us = before_us = 0
        arrivals: list[tuple[int, str, SourceEvent]] = []
        for entry in entries:
            most_us = gap_us if arrivals else max(gap_us, SECOND)
            at_us, before_us = at_us + min(entry.at_us - before_us, most_us), entry.at_us
            arrivals.append((at_us, entry.address, entry.event))
        return Feed(tuple(_number(arrivals)))


class FeedBuilder:
    """Collects arrivals in any order and makes a `Feed`.

    >>> pipeline = Pipeline("letters")
    >>> pipeline.injector("mail")
    >>> builder = FeedBuilder(pipeline)
    >>> builder.record(at_us=10, value={"city": "Riva"}, timestamp=3)
    >>> builder.watermark(at_us=20, low_watermark=5)
    >>> [entry.event.offset for entry in builder.build().entries]
    [0, 1, 2]

    Args:
        pipeline: names the injectors, and the codecs that values are written with.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._default = next(iter(pipeline.injectors.values()))
        self._arrivals: list[tuple[int, str, SourceEvent]] = []

    def record(
        self, *, at_us: int, value: Any, timestamp: int, key: str = "", stream: str | None = None,
        injector: str | None = None, process: int = 0,
    ) -> None:  # fmt: skip
        """Add a record.

        Args:
            at_us: when the source has it.
            value: what the stream's codec takes.
            timestamp: event time, microseconds.
            key: the record's own key.
            stream: default: the injector's first output.
            injector: default: the pipeline's first.
            process: number of the injector's process.

        Raises:
            CodecError: the stream's codec refuses the value.
        """
        spec = self._pipeline.injectors[injector] if injector else self._default
        name = stream or spec.outputs[0]
        data = encode_at(f"stream {name!r}, feed of {spec.name!r}", self._pipeline.codec(name), value)
        self.raw(
            at_us=at_us,
            data=data,
            timestamp=timestamp,
            key=key,
            stream=name,
            injector=spec.name,
            process=process,
        )

    def raw(
        self, *, at_us: int, data: bytes, timestamp: int, key: str = "", stream: str | None = None,
        injector: str | None = None, process: int = 0,
    ) -> None:  # fmt: skip
        """Add a record as raw bytes from outside, well-formed or not.

        Raises:
            MalformedRecordError: its timestamp is no int, or its key is text that cannot be written as UTF-8.
        """
        spec = self._pipeline.injectors[injector] if injector else self._default
        if type(timestamp) is not int:
            raise self._malformed(spec, stream, f"timestamp {timestamp!r} is not an int")
        if type(key) is str and not is_text(key):
            raise self._malformed(spec, stream, f"key {key!r} cannot be written as UTF-8")
        record = SourceRecord(0, stream or spec.outputs[0], key, data, timestamp)
        self._arrivals.append((at_us, _address(spec.name, process, spec.processes), record))

    def _malformed(self, spec: InjectorSpec, stream: str | None, problem: str) -> MalformedRecordError:
        return MalformedRecordError(spec.name, stream or spec.outputs[0], len(self._arrivals), problem)

    def watermark(
        self, *, at_us: int, low_watermark: int, injector: str | None = None, process: int = 0
    ) -> None:
        """Add the source's promise of no earlier timestamps (an estimate: what breaks it is late)."""
        spec = self._pipeline.injectors[injector] if injector else self._default
        self._arrivals.append(
            (at_us, _address(spec.name, process, spec.processes), SourceWatermark(0, low_watermark))
        )

    def build(self) -> Feed:
        """Order the arrivals, number them at each address, and end each address with a watermark of `MAX_TIME`.

        Raises:
            OptionsError: a record arrives after a watermark of `MAX_TIME`, with which its source has ended.
        """
        arrivals = sorted(self._arrivals, key=lambda arrival: arrival[0])
        _check_ends(arrivals)
        end_us = arrivals[-1][0] if arrivals else 0
        for spec in self._pipeline.injectors.values():
            arrivals.extend((end_us, address, SourceWatermark(0, MAX_TIME)) for address in spec.addresses())
        return Feed(tuple(_number(arrivals)))


def ends_source(event: SourceEvent) -> bool:
    """Return whether only watermarks of `MAX_TIME` may follow it."""
    return isinstance(event, SourceWatermark) and event.low_watermark == MAX_TIME


def _check_ends(arrivals: Iterable[tuple[int, str, SourceEvent]]) -> None:
    ended: dict[str, int] = {}
    for at_us, address, event in arrivals:
        if ends_source(event):
            ended.setdefault(address, at_us)
        elif address in ended and isinstance(event, SourceRecord):
            expected = (
                f"before {ended[address]}, where the source of {address} ends with a watermark of MAX_TIME"
            )
            raise OptionsError("at_us", at_us, expected)


def _address(injector: str, process: int, processes: int) -> str:
    if not 0 <= process < processes:
        raise OptionsError("process", process, f"a process of injector {injector!r}, 0 to {processes - 1}")
    return f"{injector}/{process}"


def _number(arrivals: Iterable[tuple[int, str, SourceEvent]]) -> Iterable[FeedEntry]:
    offsets: dict[str, int] = {}
    for at_us, address, event in arrivals:
        offset = offsets.get(address, 0)
        offsets[address] = offset + 1
        yield FeedEntry(at_us, address, msgspec.structs.replace(event, offset=offset, arrived_us=at_us))
