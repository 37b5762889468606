"""Read a recorded run: its input, as a feed for the same sources, and its outcome.

Rules of this file:

* Records arrive in the recorded order, with the watermarks of the sources between them, so that what was on time is on time. The
  recorded gaps between arrivals are kept, unless the run took longer than a minute: then time is compressed, so a day takes a
  minute.
* A recording has the keys of records as consumers extracted them. Choice: the key that a consumer kept as it was counts as the
  record's own, or else any.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from headrace import MILLISECOND, MIN_TIME, SECOND, HeadraceError, Pipeline
from headrace.api.specs import same_key
from headrace.histories import End, Header, HistoryReader, RecordLine, Tells
from headrace.history import (
    Activation,
    Applied,
    CheckpointsDeleted,
    Delivered,
    DuplicateDropped,
    Event,
    Executed,
    Injected,
    InjectorReported,
    KeysSampled,
    RunEnded,
    UserCodeFailed,
)
from headrace.wire.rows import Production
from headrace_properties.histories.books import Books
from headrace_properties.histories.translation import Translation, topology_of
from headrace_sim import Feed, FeedBuilder

_LONGEST_US = 60 * SECOND
"""Choice: the input of a longer run is compressed to this."""

_APART_US = MILLISECOND
"""Choice: records arrive at least so far apart, also those that a host took in one batch."""


class RecordingError(HeadraceError):
    """The recorded run cannot be rerun. Fields: path, problem, remedy."""

    def __init__(self, path: str, problem: str, remedy: str) -> None:
        super().__init__(path, problem, remedy)
        self.path, self.problem, self.remedy = path, problem, remedy

    def __str__(self) -> str:
        """Say why, and what to do."""
        return f"{self.path}: {self.problem}. {self.remedy}"


@dataclass(frozen=True, slots=True)
class RecordedHistory:
    """A recorded run.

    Attributes:
        header: the file's first line.
        events: what happened, keys as user code knows them.
        feed: the input.
        ended: whether it came to rest.
        fraction: the fraction of keys that it contains.
    """

    header: Header
    events: tuple[Event, ...]
    feed: Feed
    ended: bool
    fraction: float

    @property
    def tells_steps(self) -> bool:
        """Whether it contains each step, and not only input and output."""
        return self.header.tells is Tells.STEPS


def read_recording(path: Path, pipeline: Pipeline) -> RecordedHistory:
    """Read a History, and its input as a feed for a pipeline.

    Args:
        path: the file.
        pipeline: today's pipeline.

    Raises:
        HistoryFormatError: the file is malformed.
        RecordingError: the pipeline has no source for a recorded record, or the file does not tell its input.
    """
    with HistoryReader(path) as reader:
        header = reader.header
        events = tuple(_with_plain_key(event, header) for event in _events(reader))
    whys = [event.why for event in events if isinstance(event, RunEnded)]
    fractions = [event.fraction for event in events if isinstance(event, KeysSampled)]
    return RecordedHistory(
        header,
        events,
        _feed(str(path), events, pipeline),
        whys[-1:] == ["quiescent"],
        min(fractions, default=1.0),
    )


def _events(reader: HistoryReader) -> Iterator[Event]:
    if reader.header.tells is Tells.STEPS:
        for _, line in reader.lines():
            if not isinstance(line, RecordLine | End | Activation):
                yield line
        return
    books = Books(reader.header, str(reader.path))
    translation = Translation(topology_of(reader.header), books)
    for number, line in reader.lines():
        books.number = number
        if isinstance(line, RecordLine):
            books.check_stage(line)
        if isinstance(line, RecordLine | End):
            for event in translation.events(line):
                if isinstance(event, Applied):
                    key = translation.key_of(event.computation, event.delta.key)
                    yield msgspec.structs.replace(event, delta=msgspec.structs.replace(event.delta, key=key))
                else:
                    yield event
        if isinstance(line, RecordLine):
            books.take(line)


def _with_plain_key(event: Event, header: Header) -> Event:
    """Return an event with its keys as user code knows them, where the host prefixes them."""
    replace = msgspec.structs.replace
    if not header.prefixed_keys:
        return event
    match event:
        case Executed(key=key, productions=productions):
            return replace(event, key=header.key_of(key), productions=_plain(productions, header))
        case Applied(delta=delta):
            productions = _plain(delta.productions, header)
            return replace(event, delta=replace(delta, key=header.key_of(delta.key), productions=productions))
        case Injected(productions=productions):
            return replace(event, productions=_plain(productions, header))
        case Delivered(key=key) | DuplicateDropped(key=key) | UserCodeFailed(key=key):
            return replace(event, key=header.key_of(key))
        case CheckpointsDeleted(checkpoints=checkpoints):
            plain = tuple(
                (header.key_of(key), record_id, consumer) for key, record_id, consumer in checkpoints
            )
            return replace(event, checkpoints=plain)
        case _:
            return event


def _plain(productions: tuple[Production, ...], header: Header) -> tuple[Production, ...]:
    """Return productions with plain keys; those that go outside have them already."""
    return tuple(
        msgspec.structs.replace(production, key=header.key_of(production.key))
        if production.consumer
        else production
        for production in productions
    )


class _Inputs:
    """Collects the input of a run.

    Args:
        path: the file, for errors.
        pipeline: today's pipeline.
        times: arrival of the first and the last record, microseconds.

    Attributes:
        values: how many records have a value.
    """

    def __init__(self, path: str, pipeline: Pipeline, times: tuple[int, int]) -> None:
        self.values = 0
        self._began_us, ended_us = times
        self._pace = min(1.0, _LONGEST_US / max(ended_us - self._began_us, 1))
        self._path = path
        self._pipeline = pipeline
        self._builder = FeedBuilder(pipeline)
        self._now_us = 0
        self._addresses: dict[str, tuple[str, int]] = {}
        self._said: dict[tuple[str, int], int] = {}
        self._seen: set[tuple[str, int]] = set()

    def inject(self, event: Injected) -> None:
        """Add a record; a record that was reread counts once."""
        if (event.process, event.offset) in self._seen or not event.productions:
            return
        self._seen.add((event.process, event.offset))
        first = event.productions[0]
        if first.stream not in {
            stream for spec in self._pipeline.injectors.values() for stream in spec.outputs
        }:
            name = event.process.partition("/")[0]
            if name in self._pipeline.injectors:
                return  # a dead letter of the injector's, which it makes again
            raise RecordingError(
                self._path,
                f"the input has records of stream {first.stream!r}, and no injector of {self._pipeline.name!r} writes it",
                "Check it against the pipeline that ran, or its successor",
            )
        injector, process = self._address(event.process, first.stream)
        self.report(injector, process, event.source_watermark)
        self._now_us = max(self._now_us + _APART_US, int((event.at_us - self._began_us) * self._pace))
        key = self._own_key(event.productions)
        self._builder.raw(
            at_us=self._now_us,
            data=first.value,
            timestamp=first.timestamp,
            key=key,
            stream=first.stream,
            injector=injector,
            process=process,
        )
        self.values += first.value != b""

    def advance(self, event: InjectorReported) -> None:
        """Add a watermark that a source reported."""
        if event.process in self._addresses:
            self.report(*self._addresses[event.process], event.low_watermark)

    def report(self, injector: str, process: int, low_watermark: int) -> None:
        """Add a source's watermark as known to an injector's process."""
        if low_watermark > MIN_TIME and low_watermark > self._said.get((injector, process), MIN_TIME):
            self._said[injector, process] = low_watermark
            self._builder.watermark(
                at_us=self._now_us, low_watermark=low_watermark, injector=injector, process=process
            )

    def _address(self, recorded: str, stream: str) -> tuple[str, int]:
        """Return the process of today's pipeline that reads the same part of the input."""
        if recorded not in self._addresses:
            name, _, number = recorded.partition("/")
            spec = self._pipeline.injectors.get(name)
            if spec is None or stream not in spec.outputs:
                spec = next(spec for spec in self._pipeline.injectors.values() if stream in spec.outputs)
            process = int(number) if number.isdigit() and int(number) < spec.processes else 0
            self._addresses[recorded] = (spec.name, process)
        return self._addresses[recorded]

    def _own_key(self, productions: tuple[Production, ...]) -> str:
        kept = {
            name
            for name, spec in self._pipeline.computations.items()
            if spec.inputs.get(productions[0].stream) is same_key
        }
        return next(
            (production.key for production in productions if production.consumer in kept), productions[0].key
        )

    def build(self) -> Feed:
        return self._builder.build()


def _feed(path: str, events: tuple[Event, ...], pipeline: Pipeline) -> Feed:
    times = [event.at_us for event in events if isinstance(event, Injected)]
    inputs = _Inputs(path, pipeline, (min(times, default=0), max(times, default=0)))
    for event in events:
        if isinstance(event, Injected):
            inputs.inject(event)
        elif isinstance(event, InjectorReported):
            inputs.advance(event)
    feed = inputs.build()
    if not feed.records:
        raise RecordingError(path, "it tells of no record that a source sent", "Record the input, too")
    if not inputs.values:
        raise RecordingError(
            path, "it does not tell the values of its input", 'Write "value" in the lines "out"'
        )
    return feed
