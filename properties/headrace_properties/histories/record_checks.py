"""Check what the step invariants do not cover in a History of records: watermark promises, states and order.

Rules of this file:

* A check reads lines and the books, and nothing else. The first violation counts. Messages name lines of the file.
* Sources are held to nothing here: what breaks their watermark is late, and `SourceKeepsWatermark` judges that.
"""

import msgspec

from headrace import format_time
from headrace.histories import In, Out, State, Watermark
from headrace_properties.checkers.checker import Checker, Handlers, OpenVerdict
from headrace_properties.histories.books import Books
from headrace_properties.histories.liveness import liveness_checks

_encode = msgspec.json.Encoder(order="sorted").encode


class WatermarkWaits:
    """H1: a stage promises no watermark beyond an on-time record that it has not processed.

    A process speaks for the partitions that it owns; without partitions, the least of what the stage's processes said counts. A
    record counts if its sender says watermarks too: then it was on time unless it was behind its sender's.
    """

    name = "H1"
    title = "no watermark passes an unprocessed record"
    section = "4.5"

    def __init__(self, books: Books) -> None:
        self._books = books
        self._verdict = OpenVerdict(
            "no process promised a watermark while a record waited for it whose sender promised one, too"
        )
        self.verdict = self._verdict.verdict
        self.handlers: Handlers = {Watermark: self._on_watermark}

    def _on_watermark(self, line: Watermark) -> None:
        books = self._books
        for record in books.oldest(line.stage):
            claim = books.claim(line, record.line.partition)
            if claim is None:
                continue
            self._verdict.reached += 1
            if claim > record.line.timestamp:
                self._verdict.violated(
                    f"line {books.number}: {line.process!r} promises {format_time(line.timestamp)} for stage {line.stage!r}, and"
                    f" the stage has not processed record {record.line.id!r} with timestamp {format_time(record.line.timestamp)},"
                    f" sent in line {record.number} (MillWheel 4.5)"
                )


class NothingBehind:
    """H2: a stage sends no record behind its own watermark, unless it was caused by a late one."""

    name = "H2"
    title = "nothing is sent behind the sender's watermark"
    section = "4.5"

    def __init__(self, books: Books) -> None:
        self._books = books
        self._verdict = OpenVerdict("no stage sent a record after it had promised a watermark")
        self.verdict = self._verdict.verdict
        self._late: set[tuple[str, str]] = set()
        self.handlers: Handlers = {In: self._on_in, Out: self._on_out}

    def _on_in(self, line: In) -> None:
        said = self._books.said.get(line.stage, {}).get(line.process)
        if line.late or (said is not None and line.timestamp < said):
            self._late.add((line.stage, line.id))

    def _on_out(self, line: Out) -> None:
        promised = self._books.promise(line)
        if promised is None or not self._books.is_stage(line.stage):
            return
        if line.cause is not None and (line.stage, line.cause) in self._late:
            return
        self._verdict.reached += 1
        if line.timestamp < promised:
            self._verdict.violated(
                f"line {self._books.number}: {line.process!r} sent record {line.id!r} with timestamp"
                f" {format_time(line.timestamp)}, and had promised to send nothing before {format_time(promised)} (MillWheel 4.5)"
            )


class LateOnlyIfLate:
    """H3: a stage treats a record as late only if it was sent behind its sender's watermark."""

    name = "H3"
    title = "no record on time is treated as late"
    section = "4.5"

    def __init__(self, books: Books) -> None:
        self._books = books
        self._verdict = OpenVerdict("no record was processed whose sender had promised a watermark")
        self.verdict = self._verdict.verdict
        self.handlers: Handlers = {In: self._on_in}

    def _on_in(self, line: In) -> None:
        record = self._books.record(line)
        if record is None or record.promised is None or record.late:
            return
        self._verdict.reached += 1
        if line.late:
            self._verdict.violated(
                f"line {self._books.number}: stage {line.stage!r} treated record {line.id!r} as late; its timestamp,"
                f" {format_time(record.line.timestamp)}, is not behind {format_time(record.promised)}, which"
                f" {record.line.process!r} had promised when it sent it in line {record.number} (MillWheel 4.5)"
            )


class OneState:
    """H4: whoever tells the state of a key as of a record tells the same: owners, successors, replicas, readers."""

    name = "H4"
    title = "all see the same state as of a record"
    section = "6.2, 7.1"

    def __init__(self, books: Books) -> None:
        self._books = books
        self._verdict = OpenVerdict("no state was told twice as of the same record")
        self.verdict = self._verdict.verdict
        self._contents: dict[tuple[str, str, str], tuple[bytes, int, str]] = {}
        self.handlers: Handlers = {State: self._on_state}

    def _on_state(self, line: State) -> None:
        books, value = self._books, _encode(line.value)
        before = self._contents.setdefault(
            (line.stage, line.key, line.as_of), (value, books.number, line.process)
        )
        if before[1] == books.number:
            return
        self._verdict.reached += 1
        if before[0] != value:
            self._verdict.violated(
                f"line {books.number}: {line.process!r} has state {value.decode():.200} for key {line.key!r} at stage"
                f" {line.stage!r} as of record {line.as_of!r}, and in line {before[1]} {before[2]!r} had"
                f" {before[0].decode():.200} (MillWheel 6.2)"
            )


class InOrder:
    """H5: a stage that promises so takes the records of a key in the order in which each process sent them.

    MillWheel promises no order (2): the header says which stages do.
    """

    name = "H5"
    title = "the records of a key stay in order, where that is promised"
    section = "2"

    def __init__(self, books: Books) -> None:
        self._books = books
        self._verdict = OpenVerdict(
            "no stage that promises an order processed two records of a key"
            if books.in_order
            else 'no stage promises an order (set "in_order" in the header)'
        )
        self.verdict = self._verdict.verdict
        self._latest: dict[tuple[str, str, str, str], tuple[int, str, int]] = {}
        self.handlers: Handlers = {In: self._on_in}

    def _on_in(self, line: In) -> None:
        books = self._books
        record = books.record(line) if line.stage in books.in_order else None
        if record is None or line.stage not in record.waits_for:
            return
        slot = (line.stage, record.stream, record.line.process, line.key)
        latest = self._latest.get(slot)
        if latest is not None:
            self._verdict.reached += 1
            if latest[0] > record.number:
                self._verdict.violated(
                    f"line {books.number}: stage {line.stage!r} processed record {line.id!r} of key {line.key!r} after record"
                    f" {latest[1]!r} (line {latest[2]}); {record.line.process!r} had sent it before that one, in line"
                    f" {record.number} (the header promises the order)"
                )
                return
        self._latest[slot] = (record.number, line.id, books.number)


class OnlySent:
    """H6: a stage processes only what was sent on its stream before."""

    name = "H6"
    title = "only what was sent is processed"
    section = "3"

    def __init__(self, books: Books) -> None:
        self._books = books
        self._verdict = OpenVerdict("nobody tells what was sent on a stream that is read")
        self.verdict = self._verdict.verdict
        self._early: dict[str, tuple[int, In]] = {}
        self.handlers: Handlers = {In: self._on_in, Out: self._on_out}

    def _on_in(self, line: In) -> None:
        stream = self._books.stream_of(line)
        if stream not in self._books.sent:
            self._early.setdefault(stream, (self._books.number, line))
            return
        self._verdict.reached += 1
        if self._books.record(line) is None:
            self._accuse(self._books.number, line, stream)

    def _on_out(self, line: Out) -> None:
        """The file does tell what was sent on this stream: what came before was not sent."""
        stream = self._books.stream_of(line)
        if stream in self._early:
            self._accuse(*self._early.pop(stream), stream)

    def _accuse(self, number: int, line: In, stream: str) -> None:
        self._verdict.violated(
            f"line {number}: stage {line.stage!r} processed record {line.id!r} of stream {stream!r}, and no line before says"
            " that it was sent (MillWheel 3)"
        )


def record_checks(books: Books) -> list[Checker]:
    """Return all of them."""
    return [
        WatermarkWaits(books),
        NothingBehind(books),
        LateOnlyIfLate(books),
        OneState(books),
        InOrder(books),
        OnlySent(books),
        *liveness_checks(books),
    ]
