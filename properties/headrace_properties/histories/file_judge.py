"""Judge a History's file line by line: by the invariants that it can exercise, and by the checks of a History of records.

Rule of this file: what the file does not contain is unknown, and never holds.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import msgspec

from headrace import HeadraceError, HistoryFormatError, Pipeline
from headrace.histories import End, Graph, Header, In, Line, RecordLine, Tells, pipelines_of
from headrace.history import Activation, Applied, Event
from headrace_properties.checkers import Judge, engine_checkers
from headrace_properties.histories.books import Books
from headrace_properties.histories.record_checks import record_checks
from headrace_properties.histories.translation import JUDGES_RECORDS, OUTSIDE_STAGE, Translation, topology_of
from headrace_properties.promises import Promise, promise_checkers
from headrace_properties.verdict import Unknown, Verdict, Violated

NOT_TOLD = "the file tells of records, and not of steps"
"""Why an invariant that needs more than a History of records is unknown."""


@cache
def record_titles() -> Mapping[str, str]:
    """Return the checks of a History of records: name to statement, in one line."""
    any_header = Header("headrace-history", 1, Tells.RECORDS, "any", (Graph((), ()),))
    return {check.name: check.title for check in record_checks(Books(any_header, ""))}


class FileJudge:
    """Judges the lines of one file.

    Args:
        header: its first line.
        path: the file, for errors.
        pipelines: the versions that ran, with their codecs; ``None``: those of the header, which do not name codecs.
        promises: judge by these, too.

    Raises:
        HistoryFormatError: the header's topology is inconsistent, or another than the pipelines'.
        PromiseError: a promise is wrong in itself.
    """

    def __init__(
        self,
        header: Header,
        path: Path,
        pipelines: Sequence[Pipeline] | None = None,
        promises: Sequence[Promise] = (),
    ) -> None:
        self._path = str(path)
        try:
            recorded = [topology_of(header)] if header.tells is Tells.RECORDS else pipelines_of(header)
        except HeadraceError as error:
            raise HistoryFormatError("history", self._path, f"line 1: {error}") from error
        if pipelines is not None:
            _check_ran(self._path, recorded[0], pipelines[0])
        records = header.tells is Tells.RECORDS
        self._records = _Records(header, self._path, recorded[0]) if records else None
        ran = recorded if records or pipelines is None else pipelines
        self._judge = Judge(engine_checkers(ran, header.options))
        self._promises = Judge(promise_checkers(promises, pipelines or recorded, header.key_of))
        self._lines: dict[int, int] = {}

    def take(self, number: int, line: Line) -> None:
        """Take a line.

        Args:
            number: of the line, from 1.
            line: the line.

        Raises:
            HistoryFormatError: it is not a line of this kind of History, or names what the header does not.
            PromiseError: a promise is wrong in itself.
        """
        if self._records is not None:
            if not isinstance(line, RecordLine | End):
                raise self._foreign(number, line, "steps", "records")
            for event in self._records.take(number, line):
                self._take(number, event)
        elif isinstance(line, RecordLine | End):
            raise self._foreign(number, line, "records", "steps")
        elif not isinstance(line, Activation):  # causes explain verdicts but do not change them
            self._take(number, line)

    def _take(self, number: int, event: Event) -> None:
        self._lines[id(event)] = number
        self._judge.take([event])
        shown = event if self._records is None else self._records.shown(event)
        if shown is not None:
            self._lines[id(shown)] = number
            self._promises.take([shown])

    def line_of(self, event: Event) -> int:
        """Return the line of an event that a checker keeps, such as a witness."""
        return self._lines[id(event)]

    def _foreign(self, number: int, line: Line, of: str, header: str) -> HistoryFormatError:
        kind = f"{type(line).__name__!r} is a line of a History of {of}"
        reason = f"line {number}: {kind}, and the header says that this one tells {header}"
        return HistoryFormatError("history", self._path, reason)

    def verdicts(self) -> dict[str, Verdict]:
        """Return the verdicts so far; promises are listed by name."""
        verdicts = self._judge.verdicts()
        judged = verdicts if self._records is None else self._records.verdicts(verdicts)
        return judged | self._promises.verdicts()


def _check_ran(path: str, recorded: Pipeline, pipeline: Pipeline) -> None:
    lacking = {*recorded.injectors, *recorded.computations} - {*pipeline.injectors, *pipeline.computations}
    if lacking:
        reason = f"it tells of {min(lacking)!r}, which pipeline {pipeline.name!r} does not have. Name the pipeline that ran"
        raise HistoryFormatError("history", path, reason)


class _Records:
    """The differences in judging a History of records."""

    def __init__(self, header: Header, path: str, pipeline: Pipeline) -> None:
        self._path = path
        self._ended_in = 0
        self._step: Applied | None = None
        self._books = Books(header, path)
        self._checks = record_checks(self._books)
        self._translation = Translation(pipeline, self._books)
        self._unsent: dict[str, None] = {}

    def take(self, number: int, line: RecordLine | End) -> list[Event]:
        if self._ended_in:
            reason = f"line {number}: the run ended in line {self._ended_in}. Write the line 'end' once, last"
            raise HistoryFormatError("history", self._path, reason)
        self._books.number = number
        if isinstance(line, End):
            self._ended_in = number
        if isinstance(line, RecordLine):
            self._books.check_stage(line)
        for check in self._checks:
            handler = check.handlers.get(type(line))
            if handler is not None:
                handler(line)
        if isinstance(line, In) and self._books.stream_of(line) not in self._books.sent:
            self._unsent[self._books.stream_of(line)] = None
        events = list(self._translation.events(line))
        if isinstance(line, RecordLine):
            self._books.take(line)
        return events

    def shown(self, event: Event) -> Event | None:
        """Return an event as promises get it: a step with the state that it left, if its process tells that next; ``None``: not.

        The writes that the translation makes up for outputs are left out; and what others say of a state, which H4 judges.
        """
        if not isinstance(event, Applied):
            return event
        step, delta = self._step, event.delta
        if delta.seen and event.computation != OUTSIDE_STAGE:
            self._step = event
        if delta.state is None or step is None:
            return None
        key = self._translation.key_of(step.computation, step.delta.key)
        if (step.process, step.computation, key) != (event.process, event.computation, delta.key):
            return None
        self._step = None
        return msgspec.structs.replace(event, delta=msgspec.structs.replace(delta, seen=step.delta.seen))

    def verdicts(self, judged: dict[str, Verdict]) -> dict[str, Verdict]:
        """Return the verdicts of the checkers that apply to this kind of History, and of its own checks."""
        verdicts: dict[str, Verdict] = {
            name: verdict if name in JUDGES_RECORDS else Unknown(NOT_TOLD) for name, verdict in judged.items()
        }
        if not self._translation.tells_owners:
            verdicts["S6"] = Unknown("no record was processed from a partition whose owner the file tells")
        if self._unsent and not isinstance(verdicts["S1"], Violated):
            streams = ", ".join(map(repr, self._unsent))
            verdicts["S1"] = Unknown(f"the file does not tell what was sent on {streams}", cut_short=True)
        elif self._books.sent and not self._ended_in and not isinstance(verdicts["S1"], Violated):
            verdicts["S1"] = Unknown(self._cut_off(), cut_short=True)
        return verdicts | {check.name: check.verdict() for check in self._checks}

    def _cut_off(self) -> str:
        first = self._books.first_waiting()
        waiting = (
            f" {self._books.waiting:,} of its records wait, first {first.line.id!r} (line {first.number}) for stage"
            f" {min(first.waits_for)!r}."
            if first is not None
            else ""
        )
        return (
            f"the file does not end with a line 'end', so nothing can be said to be lost.{waiting} Record until the run has come"
            " to rest, and write 'end'"
        )
