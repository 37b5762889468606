"""Check that a History of records gets somewhere: watermarks follow, records leave, and what is late is nobody's secret.

Rules of this file:

* An engine may hold back what it likes, and a filter may drop all it gets: what only the job's owner can know is `Unknown`, and
  the message says what to record or declare to know it. Only what the header declares, or the end of every input, makes it a
  violation.
* A process is judged by what it processed itself, since lines of several processes may be merged in many orders: one that is
  idle, dead or paused does not hold up anything here.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from headrace import MIN_TIME, format_time
from headrace.histories import End, In, Out, RecordLine, SourceWatermark, Watermark
from headrace_properties.checkers.checker import Checker, Handlers, OpenVerdict
from headrace_properties.histories.books import Books
from headrace_properties.verdict import Unknown, Verdict

_COMPLETE_US = 2**62
"""A watermark from here on says that a stream has ended: event time, microseconds. Engines differ in their greatest timestamp."""

_STANDS = 5
"""Choice: a watermark stands once this many records came, or promises of its inputs, each later than all before."""

_SEVERAL = 3
"""Choice: what a process did so often, it does regularly."""

_SILENT = 10
"""Choice: a stage falls silent with more records than this, and than three times what it ever took between two that it sent."""


@dataclass(slots=True)
class _Progress:
    """How the watermark of a process follows the records that it processes.

    Attributes:
        said: its watermark, event time in microseconds; ``None``: it has said none.
        moved: the lines in which it moved, the first of which is where it was first said.
        newest: the greatest event time that the process took, microseconds.
        since: those greatest event times, one after the other, since the watermark moved.
        longest: how many of them there were at most between two moves, or up to the watermark when it was first said.
        lag_us: how far the watermark was behind at most when it had just moved, event time.
        last: its last line of any kind.
    """

    said: int | None = None
    moved: list[int] = field(default_factory=list)
    newest: int = MIN_TIME
    since: list[int] = field(default_factory=list)
    longest: int = 0
    lag_us: int = 0
    last: int = 0

    def took(self, timestamp: int) -> None:
        """Note a record."""
        if timestamp > self.newest:
            self.newest = timestamp
            self.since.append(timestamp)

    def says(self, timestamp: int, number: int) -> None:
        """Note a watermark; what goes back is another check's."""
        if self.said is not None and timestamp <= self.said:
            return
        beyond = bisect_right(self.since, timestamp)
        self.longest = max(self.longest, len(self.since) if self.moved else beyond)
        if self.moved:
            self.lag_us = max(self.lag_us, self.newest - timestamp)
            self.since.clear()
        else:
            del self.since[:beyond]
        self.said = timestamp
        self.moved.append(number)

    @property
    def tells_both(self) -> bool:
        """Whether it took records, and said a watermark."""
        return self.said is not None and self.newest > MIN_TIME

    def has_moved_since(self, line: int) -> bool:
        """Return whether it has moved several times after a line."""
        return len(self.moved) >= _SEVERAL and self.moved[-_SEVERAL] > line

    @property
    def is_behind(self) -> bool:
        """Whether it took records beyond its watermark."""
        return self.said is not None and self.newest > self.said

    @property
    def behind(self) -> int:
        """How many records, each newer than all before, it took beyond its watermark since that moved."""
        return 0 if self.said is None else len(self.since) - bisect_right(self.since, self.said)

    @property
    def stands(self) -> bool:
        """Whether its watermark no longer follows: by far longer, and further, than ever before."""
        if self.said is None or self.behind < _STANDS:
            return False
        usual = len(self.moved) == 1 or self.newest - self.said > 2 * self.lag_us
        return usual and self.behind > 2 * self.longest


def _where(stage: str, process: str, progress: _Progress) -> str:
    assert progress.said is not None, "it has said a watermark"
    at = "the beginning of time" if progress.said <= MIN_TIME else format_time(progress.said)
    return f"the watermark of {stage!r}{f' ({process!r})' if process else ''} stands at {at} (line {progress.moved[-1]})"


class WatermarkFollows:
    """H7: the watermark of a stage follows what it processes and what its inputs promise, and that of a source what it sends.

    If all inputs have ended and it stands, that is violated. Otherwise it may be held back on purpose, or by a source that is
    idle: unknown, unless the header says how far it may stay behind (``lag_us``).
    """

    name = "H7"
    title = "the watermark follows its inputs"
    section = "4.5"

    def __init__(self, books: Books) -> None:
        self._books = books
        self._verdict = OpenVerdict("no stage promised a second watermark")
        self._progress: dict[str, dict[str, _Progress]] = {}
        self._promises: dict[
            str, _Progress
        ] = {}  # the same of a stage, with what its inputs promise in place of its records
        self.handlers: Handlers = {
            In: self._on_record,
            Out: self._on_out,
            Watermark: self._on_watermark,
            End: self._on_end,
        }

    def _of(self, line: RecordLine) -> list[_Progress]:
        """Return the progress of a process, and that of its stage as a whole, for where one tells for the others."""
        known = self._progress.setdefault(line.stage, {})
        both = [known.setdefault(name, _Progress()) for name in (line.process, "")]
        both[0].last = self._books.number
        return both

    def _on_record(self, line: In | Out) -> None:
        if isinstance(line, Out) or not line.late:
            for progress in self._of(line):
                progress.took(line.timestamp)

    def _on_out(self, line: Out) -> None:
        if not self._books.is_stage(line.stage):
            self._on_record(line)

    def _on_watermark(self, line: Watermark) -> None:
        both = self._of(line)
        said = both[0].said
        self._verdict.reached += (
            self._books.is_stage(line.stage) and said is not None and line.timestamp > said
        )
        for progress in (*both, self._promises.setdefault(line.stage, _Progress())):
            progress.says(line.timestamp, self._books.number)
        for reader in self._books.readers_of(line.stage):
            promised = self._books.promised_to(reader)
            if promised is not None:
                self._promises.setdefault(reader, _Progress()).took(promised)

    def _on_end(self, _: End) -> None:
        """At rest, what the header or the end of every input says can be broken."""
        for stage, process, progress in self._judged():
            promised, lag_us = self._books.promised_to(stage), self._books.lag_us(stage)
            best = self._progress[stage][""].said
            if promised is None or best is None:
                continue
            where = _where(stage, process, progress)
            if lag_us is not None and best + lag_us < promised:
                self._verdict.violated(
                    f"{where}: its inputs have promised {format_time(promised)}, and the header says that it stays at most"
                    f" {lag_us / 1e6:g} s behind (MillWheel 4.5)"
                )
            elif promised >= _COMPLETE_US > best and progress.stands:
                self._verdict.violated(f"{where}, although all of its inputs have ended (MillWheel 4.5)")

    def verdict(self) -> Verdict:
        """Return the verdict so far."""
        if self._verdict.violation is not None:
            return self._verdict.violation
        for stage, process, progress in self._judged():
            said, promised, lag_us = progress.said, self._books.promised_to(stage), self._books.lag_us(stage)
            if said is None or not progress.stands:
                continue
            is_declared = lag_us is not None and promised is not None and said + lag_us >= promised > said
            if not is_declared:
                where = _where(stage, process, progress)
                if progress is not self._promises.get(stage):
                    where += f", and its records have reached {format_time(progress.newest)}"
                return Unknown(f"{where}: {self._why(stage, said, promised)}", cut_short=True)
        return self._verdict.verdict()

    def _judged(self) -> Iterator[tuple[str, str, _Progress]]:
        """Yield, sources first, the live processes that took records beyond their watermark.

        Without a name: stages as a whole, where no process tells both records and watermarks; and as their inputs' promises go.
        """
        for stage in (*self._books.sources, *self._books.stages):
            known = self._progress.get(stage, {})
            telling_both = {name: one for name, one in known.items() if name and one.tells_both}
            owners = self._books.owners.get(stage)
            for name, one in (telling_both or known).items():
                if telling_both and owners:
                    is_live = name in owners.values()
                else:
                    is_live = not any(other.has_moved_since(one.last) for other in telling_both.values())
                if one.is_behind and is_live:
                    yield stage, name, one
            if stage in self._promises and self._promises[stage].is_behind:
                yield stage, "", self._promises[stage]

    def _why(self, stage: str, said: int, promised: int | None) -> str:
        """Return what may hold a stage's watermark back, and how to find out."""
        again = "If it has moved, write a 'watermark' line each time"
        if not self._books.is_stage(stage):
            return f"what waits downstream for the watermark waits for it. {again}; if it promises nothing, write none"
        if promised is not None and promised > said:
            return (
                f"its inputs have promised {format_time(promised)}. {again}. If it stays behind on purpose, say in the header how"
                ' far it may ("lag_us" of the stage, microseconds)'
            )
        slow = [
            (progress.said, progress.moved[-1], source, process)
            for source in sorted(self._books.sources_of(stage))
            for process, progress in self._progress.get(source, {}).items()
            if process and progress.said is not None and progress.said <= said
        ]
        if not slow:
            return f"nothing in the file says what holds it. {again}, also of the sources"
        least, number, source, process = min(slow)
        return (
            f"{process!r} of source {source!r} has promised nothing beyond {format_time(least)} since line {number}, and what"
            " waits for the watermark waits for it. If it is idle, the engine has to be told, so that the others go on; if it is"
            " slow, record until it goes on; if it has promised more, write its 'watermark' lines"
        )


@dataclass(slots=True)
class _Flow:
    """What goes through a stage.

    Attributes:
        taken: how many records it processed on time.
        first: event time of the earliest, microseconds.
        last: event time of the latest, microseconds.
        sent: how often it sent some after it had taken some.
        since: records that it took since.
        longest: the most that it took between two that it sent.
    """

    taken: int = 0
    first: int = 0
    last: int = 0
    sent: int = 0
    since: int = 0
    longest: int = 0

    def takes(self, timestamp: int) -> None:
        """Note a record that came in."""
        self.first = min(self.first, timestamp) if self.taken else timestamp
        self.last = max(self.last, timestamp) if self.taken else timestamp
        self.taken += 1
        self.since += 1

    def sends(self) -> None:
        """Note a record that left."""
        self.longest = max(self.longest, self.since)
        self.sent += 1
        self.since = 0

    @property
    def is_silent(self) -> bool:
        """Whether nothing has left, or nothing has left any more for longer than ever."""
        if not self.sent:
            return self.taken > 0
        return self.sent >= _SEVERAL and self.since > max(_SILENT, 3 * self.longest)


class SomethingLeaves:
    """H8: a stage that takes records and has outputs sends something.

    A filter or an alarm may send nothing, and the header can say which stage may and which may not (``may_be_silent``). Without
    that, or before the run has come to rest, silence is unknown.
    """

    name = "H8"
    title = "what has outputs sends something"
    section = "2"

    def __init__(self, books: Books) -> None:
        self._books = books
        self._verdict = OpenVerdict("no stage with outputs processed a record")
        self._flows = {stage: _Flow() for stage in books.stages if books.outputs(stage)}
        self.handlers: Handlers = {In: self._on_in, Out: self._on_out, End: self._on_end}

    def _on_in(self, line: In) -> None:
        flow = self._flows.get(line.stage)
        if flow is not None and not line.late:
            self._verdict.reached += 1
            flow.takes(line.timestamp)

    def _on_out(self, line: Out) -> None:
        if line.stage in self._flows:
            self._flows[line.stage].sends()

    def _on_end(self, _: End) -> None:
        for stage, flow in self._flows.items():
            if flow.is_silent and self._books.may_be_silent(stage) is False:
                self._verdict.violated(
                    f"{self._silence(stage, flow)}; the header says that it may not be silent"
                )

    def verdict(self) -> Verdict:
        """Return the verdict so far."""
        for stage, flow in self._flows.items():
            if flow.is_silent and not self._books.may_be_silent(stage) and self._verdict.violation is None:
                question = (
                    ". If it did, write its 'out' lines; if its windows are not over, record until one is. The header can say"
                    ' whether it may send nothing, however much it takes ("may_be_silent" of the stage: true or false)'
                )
                return Unknown(self._silence(stage, flow) + question, cut_short=True)
        return self._verdict.verdict()

    def _silence(self, stage: str, flow: _Flow) -> str:
        streams = ", ".join(map(repr, self._books.outputs(stage)))
        times = f"{format_time(flow.first)} to {format_time(flow.last)}"
        if not flow.sent:
            return f"stage {stage!r} processed {flow.taken:,} records on time ({times}), and sent none on {streams}"
        return (
            f"stage {stage!r} has sent none on {streams} since {flow.since:,} records, and never took more than {flow.longest:,}"
            " between two before"
        )


class SourceKeepsWatermark:
    """H9: what a source has promised, it keeps, where that is said of it; and no record of it is lost as late unnoticed.

    A source's watermark is an estimate as a rule (MillWheel 5.2): the header says which it is, ``"watermark": "estimate"`` or
    ``"promise"``. A promise may not be broken; of an estimate, records may be late. Without either, a record that a stage treated
    as late is unknown.
    """

    name = "H9"
    title = "no record of a source is late unannounced"
    section = "5.2"

    def __init__(self, books: Books) -> None:
        self._books = books
        self._verdict = OpenVerdict("no record was processed whose source had promised a watermark")
        self._late = 0
        self._first: tuple[str, str] | None = None
        self.handlers: Handlers = {In: self._on_in, Out: self._on_out}

    def _on_out(self, line: Out) -> None:
        if self._books.watermark_of(line.stage) is not SourceWatermark.PROMISE:
            return
        promised = self._books.promise(line)
        if promised is not None and line.timestamp < promised:
            self._verdict.violated(
                f"line {self._books.number}: {line.process!r} of source {line.stage!r} sent record {line.id!r} with timestamp"
                f" {format_time(line.timestamp)}, and had promised {format_time(promised)}; the header says that it keeps that"
                " (MillWheel 5.2)"
            )

    def _on_in(self, line: In) -> None:
        record = self._books.record(line)
        promised = None if record is None else record.promised
        if not line.late:
            self._verdict.reached += (
                record is not None and promised is not None and not self._books.is_stage(record.line.stage)
            )
        elif record is None or promised is None:
            self._ask(line, "the file does not tell what its sender had promised")
        elif record.late:
            self._ask(line, f"{record.line.process!r} had promised {format_time(promised)} when it sent it")

    def _ask(self, line: In, why: str) -> None:
        """Note a record that was treated as late, unless the sources that it may come from are said to have late ones."""
        sources = sorted(self._books.sources_of(line.stage))
        sources = [name for name in sources if self._books.watermark_of(name) is not SourceWatermark.ESTIMATE]
        if not sources:
            self._verdict.reached += 1
            return
        first = (
            f"line {self._books.number}: stage {line.stage!r} treated record {line.id!r}, with timestamp"
            f" {format_time(line.timestamp)}, as late: {why}"
        )
        self._first = self._first or (first, ", ".join(map(repr, sources)))
        self._late += 1

    def verdict(self) -> Verdict:
        """Return the verdict so far."""
        if self._verdict.violation is not None or self._first is None:
            return self._verdict.verdict()
        first, sources = self._first
        more = f" ({self._late:,} such records)" if self._late > 1 else ""
        return Unknown(
            f'{first}{more}. If late records are expected, say so in the header ("watermark": "estimate" of {sources}); if the'
            ' source must never be wrong, say "promise"',
            cut_short=True,
        )


def liveness_checks(books: Books) -> list[Checker]:
    """Return all of them."""
    return [WatermarkFollows(books), SomethingLeaves(books), SourceKeepsWatermark(books)]
