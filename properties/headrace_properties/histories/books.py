"""Keep the books of a History of records: who has sent, processed, owned and promised what so far.

Rule of this file: the books are kept *after* each check has seen a line, as the `WorkLedger` is: a line is judged by what was so
until then.
"""

from dataclasses import dataclass
from heapq import heappop, heappush
from operator import attrgetter

from headrace import HistoryFormatError
from headrace.histories import Graph, Header, In, Out, Owns, RecordLine, SourceWatermark, Watermark
from headrace_properties.closure import closure


@dataclass(slots=True, eq=False)
class Sent:
    """A record on its way.

    Attributes:
        line: the line that first sent it.
        number: the number of that line.
        stream: its stream.
        promised: what its sender had promised by then, event time in microseconds; ``None``: nothing.
        waits_for: stages that have not processed it yet.
    """

    line: Out
    number: int
    stream: str
    promised: int | None
    waits_for: set[str]

    @property
    def late(self) -> bool:
        """Whether it was sent behind its sender's watermark."""
        return self.promised is not None and self.line.timestamp < self.promised

    def __lt__(self, other: "Sent") -> bool:
        """Order by time."""
        return (self.line.timestamp, self.number) < (other.line.timestamp, other.number)


class Books:
    """The state built up from the lines of a History of records.

    Args:
        header: the first line; only the first graph counts.
        path: the file, for errors.

    Attributes:
        number: number of the line being judged.
        sent: stream to id to the record.
        processed: stage to (stream, id) to the number of the line that processed it last.
        said: stage to process to what it promised last, event time in microseconds.
        owners: stage to partition to its owner.
        in_order: stages that promise to keep the order of a key.
        stages: all stages, in the order of the header.
        sources: all sources, in the order of the header.
        waiting: how many records wait for a stage: each counts once for every stage that has not processed it.
    """

    def __init__(self, header: Header, path: str) -> None:
        graph: Graph = header.graphs[0]
        self._path = path
        self._inputs = {stage.name: stage.inputs for stage in graph.stages}
        self._outputs = {
            **{stage.name: stage.outputs for stage in graph.stages},
            **{source.name: source.outputs or (source.name,) for source in graph.sources},
        }
        self._stages = {stage.name: stage for stage in graph.stages}
        self._watermarks = {source.name: source.watermark for source in graph.sources}
        self.stages, self.sources = tuple(self._stages), tuple(self._watermarks)
        self.waiting = 0
        self._open: dict[Sent, None] = {}
        self._readers: dict[str, list[str]] = {}
        for stage in graph.stages:
            for stream in stage.inputs:
                self._readers.setdefault(stream, []).append(stage.name)
        self.in_order = frozenset(stage.name for stage in graph.stages if stage.in_order)
        self.number = 0
        self.sent: dict[str, dict[str, Sent]] = {}
        self.processed: dict[str, dict[tuple[str, str], int]] = {}
        self.said: dict[str, dict[str, int]] = {}
        self.owners: dict[str, dict[str, str]] = {}
        self._members: dict[str, dict[str, None]] = {}
        self._waiting: dict[str, dict[str, list[Sent]]] = {}

    def is_stage(self, name: str) -> bool:
        """Return whether a name is a stage, and not a source."""
        return name in self._inputs

    def readers(self, stream: str) -> list[str]:
        """Return the stages that read a stream."""
        return self._readers.get(stream, [])

    def outputs(self, stage: str) -> tuple[str, ...]:
        """Return the streams that a stage or source writes."""
        return tuple(self._outputs[stage])

    def writers(self, stream: str) -> list[str]:
        """Return the stages and sources that write a stream."""
        return [name for name, streams in self._outputs.items() if stream in streams]

    def senders(self, stage: str) -> list[str]:
        """Return the stages and sources that a stage reads from."""
        writers = (name for stream in self._inputs[stage] for name in self.writers(stream))
        return list(dict.fromkeys(writers))

    def readers_of(self, sender: str) -> list[str]:
        """Return the stages that read from a stage or source."""
        return list(dict.fromkeys(name for stream in self._outputs[sender] for name in self.readers(stream)))

    def sources_of(self, stage: str) -> set[str]:
        """Return the sources whose records reach a stage, directly or through others."""
        upstream = closure([stage], lambda name: self.senders(name) if self.is_stage(name) else ())
        return {name for name in upstream if not self.is_stage(name)}

    def promised_to(self, stage: str) -> int | None:
        """Return the least that anyone who sends to a stage has promised, event time; ``None``: someone said nothing."""
        least: list[int] = []
        for sender in self.senders(stage) if self.is_stage(stage) else ():
            said = self.said.get(sender, {})
            if not said or any(process not in said for process in self._members.get(sender, ())):
                return None
            least += said.values()
        return min(least, default=None)

    def lag_us(self, stage: str) -> int | None:
        """Return how far the header lets a stage's watermark stay behind, event time, microseconds."""
        return self._stages[stage].lag_us if stage in self._stages else None

    def may_be_silent(self, stage: str) -> bool | None:
        """Return what the header says about whether a stage may take records and send none; ``None``: nothing."""
        return self._stages[stage].may_be_silent

    def watermark_of(self, source: str) -> SourceWatermark | None:
        """Return what the header says of a source's watermark; ``None``: nothing, or it is no source."""
        return self._watermarks.get(source)

    def first_waiting(self) -> Sent | None:
        """Return the record that was sent first of those that wait for a stage."""
        return next(iter(self._open), None)

    def stream_of(self, line: In | Out) -> str:
        """Return the stream of a record.

        Raises:
            HistoryFormatError: the header has no such stage, or the stage no such stream.
        """
        named = self._inputs if isinstance(line, In) else self._outputs
        does = "reads" if isinstance(line, In) else "writes"
        streams = named.get(line.stage)
        if streams is None:
            raise self._error(f"{line.stage!r} is no stage of the header that {does} records", sorted(named))
        if not line.stream and len(streams) != 1:
            raise self._error(
                f"stage {line.stage!r} {does} {len(streams)} streams, so name the stream", streams
            )
        stream = line.stream or streams[0]
        if stream not in streams:
            raise self._error(f"stage {line.stage!r} {does} no stream {stream!r}", streams)
        return stream

    def check_stage(self, line: RecordLine) -> None:
        """Refuse a line of a stage that the header does not have.

        Raises:
            HistoryFormatError: it has not.
        """
        if line.stage not in self._outputs:
            raise self._error(
                f"{line.stage!r} is neither a stage nor a source of the header", sorted(self._outputs)
            )

    def _error(self, problem: str, known: list[str] | tuple[str, ...]) -> HistoryFormatError:
        names = ", ".join(map(repr, known)) or "none"
        return HistoryFormatError(
            "history", self._path, f"line {self.number}: {problem}. The header names: {names}"
        )

    def record(self, line: In) -> Sent | None:
        """Return the record that a line processes; ``None`` if no line reports that it was sent."""
        return self.sent.get(self.stream_of(line), {}).get(line.id)

    def promise(self, line: Out) -> int | None:
        """Return the process's promise when it sent a record, event time in microseconds; ``None``: nothing."""
        return self.said.get(line.stage, {}).get(line.process)

    def claim(self, saying: Watermark, partition: str) -> int | None:
        """Return a stage's promise for an input partition as of this line: its owner's, or else the least of all.

        Returns:
            Event time in microseconds; ``None``: nothing yet.
        """
        said = {**self.said.get(saying.stage, {}), saying.process: saying.timestamp}
        owner = self.owners.get(saying.stage, {}).get(partition) if partition else None
        if owner is not None:
            return said.get(owner)
        if any(process not in said for process in self._members.get(saying.stage, ())):
            return None
        return min(said.values())

    def oldest(self, stage: str) -> list[Sent]:
        """Return each partition's oldest on-time record that the stage has not processed and whose sender makes promises."""
        records = []
        for heap in self._waiting.get(stage, {}).values():
            while heap and stage not in heap[0].waits_for:
                heappop(heap)
            promising = [record for record in heap[:1] if self.said.get(record.line.stage)]
            records += promising
        return sorted(records, key=attrgetter("number"))

    def take(self, line: RecordLine) -> None:
        """Take in a line."""
        self._members.setdefault(line.stage, {})[line.process] = None
        if isinstance(line, Out):
            self._take_out(line)
        elif isinstance(line, In):
            stream = self.stream_of(line)
            self.processed.setdefault(line.stage, {})[stream, line.id] = self.number
            record = self.sent.get(stream, {}).get(line.id)
            if record is not None and line.stage in record.waits_for:
                record.waits_for.remove(line.stage)
                self.waiting -= 1
                if not record.waits_for:
                    del self._open[record]
        elif isinstance(line, Watermark):
            self.said.setdefault(line.stage, {})[line.process] = line.timestamp
        elif isinstance(line, Owns):
            self.owners.setdefault(line.stage, {})[line.partition] = line.process

    def _take_out(self, line: Out) -> None:
        stream = self.stream_of(line)
        records = self.sent.setdefault(stream, {})
        if line.id in records:
            return
        waits_for = {
            stage for stage in self.readers(stream) if (stream, line.id) not in self.processed.get(stage, {})
        }
        self.waiting += len(waits_for)
        record = records[line.id] = Sent(line, self.number, stream, self.promise(line), waits_for)
        if waits_for:
            self._open[record] = None
        if not record.late:
            for stage in self.readers(stream):
                heappush(self._waiting.setdefault(stage, {}).setdefault(line.partition, []), record)
