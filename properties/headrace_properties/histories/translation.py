"""Translate a History of records into events, so that the step checkers can judge what applies.

Rules of this file:

* Only the checkers in `JUDGES_RECORDS` get something to judge. To the others the events would look better than they are: the
  translation makes up whatever the lines do not tell, such as atomic writes.
* ``out`` becomes an execution and its write; ``in`` a write with the record's id. Records that leave the topology are
  processed, at once, by the stage `OUTSIDE_STAGE`, so that each goes outside once.
* ``owns`` mints a sequencer for a partition: a process writes with the last one that it was given.
"""

from collections.abc import Iterator

import msgspec

from headrace import MIN_TIME, KeyInterval, Pipeline
from headrace.api.specs import OUTSIDE
from headrace.histories import End, Header, In, Out, Owns, RecordLine, Stage, State, Watermark, pipelines_of
from headrace.history import (
    Applied,
    Event,
    Executed,
    Injected,
    InjectorReported,
    IntervalMinted,
    Output,
    RunEnded,
)
from headrace.wire.rows import Production, RowDelta, Version
from headrace_properties.histories.books import Books

OUTSIDE_STAGE = "the outside"

JUDGES_RECORDS = ("S1", "S2", "S5", "S6", "S11", "S15")
"""Invariants that a History of records can tell."""


def topology_of(header: Header) -> Pipeline:
    """Return the topology with an added stage for the outside world.

    Raises:
        HeadraceError: it is inconsistent.
    """
    graph = header.graphs[0]
    read = {stream for stage in graph.stages for stream in stage.inputs}
    written = [stream for stage in graph.stages for stream in stage.outputs]
    leaving = tuple(dict.fromkeys(stream for stream in written if stream not in read))
    stages = [*graph.stages, *([Stage(OUTSIDE_STAGE, leaving)] if leaving else [])]
    whole = msgspec.structs.replace(graph, stages=tuple(stages))
    (pipeline,) = pipelines_of(msgspec.structs.replace(header, graphs=(whole,)))
    return pipeline


class Translation:
    """Turns lines into events.

    Args:
        pipeline: see `topology_of`.
        books: the lines so far.

    Attributes:
        tells_owners: whether a record was processed whose partition has an owner.
    """

    def __init__(self, pipeline: Pipeline, books: Books) -> None:
        self._pipeline = pipeline
        self._books = books
        self._plain: dict[str, str] = {}
        self._at_us = 0
        self._number = self._sequencer = 0
        self._causes: dict[tuple[str, str], tuple[str, int, str]] = {}
        self._keys: dict[tuple[str, str], str] = {}
        self._minted: dict[tuple[str, str], int] = {}
        self._held: dict[tuple[str, str, str], int] = {}
        self.tells_owners = False

    def events(self, line: RecordLine | End) -> Iterator[Event]:
        """Return a line as events."""
        if line.at is not None:
            self._at_us = line.at
        match line:
            case Out():
                yield from self._out(line)
            case In():
                yield self._in(line)
            case State():
                yield self._state(line)
            case Owns():
                yield self._owns(line)
            case Watermark():
                process = f"{line.stage}/{line.process}"
                yield InjectorReported(self._at_us, process, line.stage, line.timestamp, MIN_TIME)
            case End():
                yield RunEnded(self._at_us, "", "quiescent")
            case _:
                raise AssertionError(f"unknown kind of line: {line!r}")

    def _out(self, line: Out) -> Iterator[Event]:
        stream = self._books.stream_of(line)
        productions = tuple(
            self._production(line, stream, name) for name, _ in self._pipeline.consumers(stream)
        )
        process = f"{line.stage}/{line.process}"
        cause = self._causes.get((line.stage, line.cause)) if line.cause is not None else None
        if cause is None or not self._books.is_stage(line.stage):
            watermark = self._books.promise(line)
            said = MIN_TIME if watermark is None else watermark
            yield Injected(self._at_us, process, self._books.number, said, productions)
        else:
            version = self._version(0)
            yield Executed(
                at_us=self._at_us, process=process, computation=line.stage, key=cause[2], cause=cause[0], timestamp=cause[1],
                late=False, timer=None, input_watermark=MIN_TIME, version=version, productions=productions,
            )  # fmt: skip
            yield self._applied(line, version, RowDelta(line.key, version.number, productions=productions))
        for production in productions:
            if production.consumer == OUTSIDE_STAGE:
                yield Output(self._at_us, "", msgspec.structs.replace(production, consumer=OUTSIDE))
                version = self._version(0)
                delta = RowDelta(line.key, version.number, seen=((production.record_id, 0),))
                yield Applied(self._at_us, process, OUTSIDE_STAGE, 0, 0, delta)

    def _production(self, line: Out, stream: str, consumer: str) -> Production:
        value = b"" if line.value is None else msgspec.json.encode(line.value, order="sorted")
        return Production(self._id(stream, line.id), stream, consumer, line.key, value, line.timestamp, 0)

    def _id(self, stream: str, record_id: str) -> str:
        """Return an id, qualified by its stream if another one has had it before: ids are unique within a stream only."""
        return record_id if self._plain.setdefault(record_id, stream) == stream else f"{stream}/{record_id}"

    def _in(self, line: In) -> Event:
        record_id = self._id(self._books.stream_of(line), line.id)
        self._causes[line.stage, line.id] = record_id, line.timestamp, line.key
        held = self._held.get((line.stage, line.partition, line.process), 0)
        version = self._version(held)
        key = self._row(line.stage, line.partition, line.key)
        return self._applied(
            line, version, RowDelta(key, version.number, seen=((record_id, 0),)), line.partition
        )

    def _state(self, line: State) -> Event:
        version = self._version(0)
        state = msgspec.json.encode(line.value, order="sorted")
        return self._applied(line, version, RowDelta(line.key, version.number, state=state))

    def _applied(self, line: RecordLine, version: Version, delta: RowDelta, partition: str = "") -> Applied:
        live = self._minted.get((line.stage, partition), 0) if partition else 0
        self.tells_owners |= live > 0
        return Applied(self._at_us, line.process, line.stage, version.sequencer, live, delta)

    def _owns(self, line: Owns) -> Event:
        self._sequencer += 1
        sequencer = self._sequencer
        self._held[line.stage, line.partition, line.process] = sequencer
        self._minted[line.stage, line.partition] = sequencer
        prefix = _prefix(line.partition)
        interval = KeyInterval(f"{prefix}/", f"{prefix}0")  # "0" is the character after "/"
        return IntervalMinted(self._at_us, line.process, line.stage, interval, sequencer, line.process, 1)

    def _row(self, stage: str, partition: str, key: str) -> str:
        """Return a row's key; in an owned partition it gets a prefix, so that the partition is an interval."""
        if (stage, partition) not in self._minted:
            return key
        row = f"{_prefix(partition)}/{key}"
        self._keys[stage, row] = key
        return row

    def key_of(self, stage: str, row: str) -> str:
        """Return the plain key of a row's key."""
        return self._keys.get((stage, row), row)

    def _version(self, sequencer: int) -> Version:
        self._number += 1
        return Version(sequencer, self._number)


def _prefix(partition: str) -> str:
    """Return the part of a row's key before the key."""
    return partition.replace("/", "|")
