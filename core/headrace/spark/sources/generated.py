"""Records that a function makes (MillWheel 5.2), for demos, tests and measurements.

Rules of this file: the function must give the same records for the same offset; then a batch can be read again. Records are
stamped by their place: the n-th at ``since + n / rate``; ``since`` is when the query first looked, and is in the offset.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from time import time_ns

import msgspec
import pyarrow as pa

from headrace.api.errors import OptionsError
from headrace.api.time import MAX_TIME, MIN_TIME, SECOND
from headrace.spark.io_errors import CheckpointMismatchError, SourceUnreadableError
from headrace.spark.sources.data_source import Offset
from headrace.spark.sources.rows import BATCH_ROWS, Entry, NewRecord, RowWriter
from headrace.wire.messages import Progress

TASK_RECORDS = 50_000
"""What one task makes at most."""


class GeneratorOffset(msgspec.Struct):
    """A process: its next record's offset, and what it has promised."""

    next: int = 0
    low_watermark: int = MIN_TIME


class GeneratedOffset(msgspec.Struct, forbid_unknown_fields=True):
    """How far the function was asked. ``since_us``: when it was first, by the planner's clock."""

    generated: list[GeneratorOffset]
    since_us: int | None = None


@dataclass(frozen=True, slots=True)
class GeneratedTask:
    """What a task of Spark makes. ``since_us``: the stamp of record 0."""

    process: int
    first: int
    count: int
    since_us: int


@dataclass(slots=True)
class GeneratedPlanner:
    """Asks a user's function (`Planner`); the fields are those of `Generated`."""

    entry: Entry
    records: Callable[[int, int], Iterable[NewRecord]]
    count: int | None
    per_second: float | None
    disorder_us: int
    watermark: Callable[[int, int], int] | None
    max_records: int | None
    frozen_us: int | None = field(default=None)

    def initial(self) -> Offset:
        """Nothing made."""
        return _to_offset(GeneratedOffset([GeneratorOffset() for _ in range(self.entry.spec.processes)]))

    def freeze(self) -> None:
        """Let the clock stand still."""
        self.frozen_us = _now_us()

    def all(self) -> Offset:
        """Make all that it has."""
        if self.count is None:
            raise OptionsError("count", None, "a number, for a source that is read as a bounded one")
        ended = [GeneratorOffset(self.count, MAX_TIME) for _ in range(self.entry.spec.processes)]
        return _to_offset(GeneratedOffset(ended, 0))

    def latest(self, start: Offset, limit: int | None) -> Offset:
        """Let go what is due, evenly over the processes."""
        offset = self._offset(start)
        if offset.since_us is None:
            offset.since_us = 0 if self.per_second is None else self.frozen_us or _now_us()
        due = self._due(offset.since_us)
        # Without an end and without a rate there is always more: a limit that is switched off for a batch is put back.
        limit = self.max_records if due is None and limit is None else limit
        left = limit
        for process, one in enumerate(offset.generated):
            share = None if left is None else left // (len(offset.generated) - process)
            more = share if due is None else max(due - one.next, 0)
            assert more is not None
            more = more if share is None else min(more, share)
            left = None if left is None else left - more
            if more:
                one.next += more
                one.low_watermark = max(one.low_watermark, self._estimate(process, one.next))
        return _to_offset(offset) if any(map(_differ, start["generated"], offset.generated)) else start

    def progress(self, end: Offset) -> Progress:
        """The least over the processes."""
        offset = self._offset(end)
        assert offset.since_us is not None
        since_us = offset.since_us
        return Progress(
            min(one.low_watermark for one in offset.generated),
            min(
                MAX_TIME if one.next == self.count else self._arrived(since_us, one.next)
                for one in offset.generated
            ),
        )

    def tasks(self, start: Offset, end: Offset) -> list[GeneratedTask]:
        """Divide what is to be made."""
        before, after = self._offset(start), self._offset(end)
        assert after.since_us is not None
        return [
            GeneratedTask(process, first, min(TASK_RECORDS, new.next - first), after.since_us)
            for process, (old, new) in enumerate(zip(before.generated, after.generated, strict=True))
            for first in range(old.next, new.next, TASK_RECORDS)
        ]

    def read(self, task: GeneratedTask) -> Iterator[pa.RecordBatch]:
        """Ask the function."""
        writer = RowWriter(self.entry, task.process)
        offset = task.first
        for record in islice(self._ask(task.process, offset), task.count):
            arrived_us = self._arrived(task.since_us, offset)
            try:
                writer.add(offset, record, arrived_us)
            except Exception as error:  # noqa: BLE001  codecs are the user's
                writer.refuse(offset, error, "", repr(record).encode(), 0, arrived_us)
            offset += 1
            if not offset % BATCH_ROWS:
                yield from writer.take()
        yield from writer.take()
        missing = task.first + task.count - offset
        if missing:
            raise self._error(
                task.process, offset, "there are no more records", "Set count to how many there are"
            )

    def _ask(self, process: int, offset: int) -> Iterator[NewRecord]:
        try:
            yield from self.records(process, offset)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise self._error(process, offset, reason, "Mend the function that makes the records") from error

    def _error(self, process: int, offset: int, reason: str, remedy: str) -> SourceUnreadableError:
        place = f"process {process}, asked for records from {offset} on"
        return SourceUnreadableError(self.entry.name, place, reason, remedy)

    def _estimate(self, process: int, offset: int) -> int:
        if offset == self.count:
            return MAX_TIME
        if self.watermark is not None:
            return self.watermark(process, offset)
        for record in self._ask(process, offset):
            if type(record) is not NewRecord:
                raise self._error(process, offset, f"{record!r:.80} is not a NewRecord", "Make NewRecords")
            return record.timestamp - self.disorder_us
        raise self._error(process, offset, "there are no more records", "Set count to how many there are")

    def _due(self, since_us: int) -> int | None:
        """How many records a process has let go by now."""
        if self.per_second is None:
            return self.count
        passed_us = max((self.frozen_us or _now_us()) - since_us, 0)
        due = 1 + int(passed_us * self.per_second) // SECOND
        return due if self.count is None else min(due, self.count)

    def _arrived(self, since_us: int, offset: int) -> int:
        if self.per_second is None:
            return since_us + offset
        return since_us + int(offset * SECOND / self.per_second)

    def _offset(self, offset: Offset) -> GeneratedOffset:
        remedy = "Start with a new checkpoint, or put it back"
        try:
            known = msgspec.convert(offset, GeneratedOffset)
        except msgspec.ValidationError as error:
            problem = f"the query's checkpoint is not that of a generator ({error})"
            raise CheckpointMismatchError(self.entry.name, problem, remedy) from error
        processes = self.entry.spec.processes
        if len(known.generated) != processes:
            problem = (
                f"the query's checkpoint knows {len(known.generated)} processes, the pipeline {processes}"
            )
            raise CheckpointMismatchError(self.entry.name, problem, remedy)
        return known


def _differ(before: dict[str, int], after: GeneratorOffset) -> bool:
    return (before["next"], before["low_watermark"]) != (after.next, after.low_watermark)


def _now_us() -> int:
    return time_ns() // 1_000


def _to_offset(offset: GeneratedOffset) -> Offset:
    built: Offset = msgspec.to_builtins(offset)
    return built
