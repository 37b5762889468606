"""What an injector's process has read and not finished: its position, low watermark and horizon (MillWheel 4.5, 5.2).

Rules of this file:

* A record is finished when all its consumers have ACKed it; what the source says of its watermark is finished when the low
  watermark is there. The **position** is the smallest unfinished offset: reading again from it finds all that is owed.
* The **low watermark** is the smallest of the source's own and of all unfinished records that are not late. It is *promised*
  when it is given to the journal: from then on it may be published, by this process or a successor. A record that is read behind
  the promise is late, and holds nothing back; the promise never goes back.
* **Origins** are the source's own stamps, made never to decrease with the offset, and not this process's clock: a record that is
  read again by a successor has the same origin, else its id could be collected while it is under way once more (6.1.1). The
  **horizon** is the origin at the position; with nothing unfinished, the latest stamp, which nothing that is read later will be
  before; when the source has ended, the end of time.
"""

from collections import deque

import msgspec

from headrace.api.time import MAX_TIME
from headrace.rules import RULES, Rules, Work
from headrace.watermarks.oldest_work import OldestWork
from headrace.wire.messages import Progress


class IntakeRecord(msgspec.Struct, eq=False, gc=False):
    """A record that has been read.

    Attributes:
        offset: its place in the source.
        timestamp: event time, microseconds.
        origin: its stamp, microseconds.
        late: it was behind the promised low watermark when it was read.
        holds: it holds the low watermark back until it is finished.
        left: how many consumers have not ACKed it; kept by the injector.
        finished: all have.
    """

    offset: int
    timestamp: int
    origin: int
    late: bool
    holds: bool
    left: int = 0
    finished: bool = False


class Intake:
    """The unfinished part of a source.

    Attributes:
        next_offset: of what is to be read next.
        source_us: the source's own watermark, event time in microseconds.
        position: promised with the progress.
        promised: the progress that was last given to the journal.
    """

    def __init__(self, position: int, journaled: Progress, rules: Rules = RULES) -> None:
        self._rules = rules
        self.next_offset = self.position = position
        self.promised = journaled
        self.source_us = journaled.low_watermark
        self._source_offset, self._source_origin = position, journaled.horizon
        self._stamp_us = journaled.horizon
        self._entries: deque[IntakeRecord] = deque()
        self._on_time = OldestWork()

    def is_next(self, offset: int) -> bool:
        """Take the next offset; ``False``: it was read before."""
        assert offset <= self.next_offset, f"the source jumps from offset {self.next_offset} to {offset}"
        if offset < self.next_offset:
            return False
        self.next_offset += 1
        return True

    def read(self, arrived_us: int, offset: int, timestamp: int) -> IntakeRecord:
        """Take in a record."""
        assert self.promised.horizon < MAX_TIME, f"the source goes on at offset {offset} after its end"
        promised_us, rules = self.promised.low_watermark, self._rules
        entry = IntakeRecord(
            offset,
            timestamp,
            self._stamp(arrived_us),
            late=rules.is_late(timestamp, promised_us),
            holds=rules.holds_watermark(Work.INJECTED, timestamp, promised_us),
        )
        self._entries.append(entry)
        if entry.holds:
            self._on_time.add(timestamp)
        return entry

    def read_watermark(self, arrived_us: int, offset: int, low_watermark: int) -> bool:
        """Take in what the source says of its watermark; ``False``: it is no news."""
        stamp = self._stamp(arrived_us)
        if low_watermark <= self.source_us:
            return False
        self.source_us, self._source_offset, self._source_origin = low_watermark, offset, stamp
        return True

    def finish(self, entry: IntakeRecord) -> None:
        """Note that all consumers have ACKed an entry."""
        entry.finished = True
        if entry.holds:
            self._on_time.remove(entry.timestamp)

    def low_watermark(self) -> int:
        """Return its low watermark, event time in microseconds."""
        return min(self.source_us, self._on_time.oldest())

    def buckets(self, width_us: int) -> tuple[tuple[int, int], ...]:
        """Count what is unfinished and not late by timestamp (7.2)."""
        return self._on_time.buckets(width_us)

    def promise(self) -> bool:
        """Take position and progress as they are now, to be journaled; ``False``: they have not changed."""
        position, progress = self._measure()
        if position == self.position and progress == self.promised:
            return False
        self.position, self.promised = position, progress
        return True

    def _measure(self) -> tuple[int, Progress]:
        entries = self._entries
        while entries and entries[0].finished:
            entries.popleft()
        low_us = self.low_watermark()
        if entries:
            position, horizon = entries[0].offset, entries[0].origin
        else:
            position, horizon = self.next_offset, MAX_TIME if low_us == MAX_TIME else self._stamp_us
        if low_us < self.source_us and self._source_offset < position:
            position, horizon = self._source_offset, self._source_origin
        if not self._rules.holds_horizon(Work.INJECTED, horizon, self.promised.horizon):
            horizon = self._stamp_us
        return self._rules.resumes_at(position, self.next_offset), Progress(low_us, horizon)

    def _stamp(self, arrived_us: int) -> int:
        self._stamp_us = max(arrived_us, self._stamp_us)
        return self._stamp_us

    def check_invariants(self) -> None:
        """Assert that what was promised holds, and that origins are in the order of offsets."""
        assert self.promised.low_watermark <= self.low_watermark(), "the low watermark went back"
        assert self.promised.horizon in (MAX_TIME, min(self.promised.horizon, self._stamp_us)), (
            "a later record would be before the horizon"
        )
        assert self.position <= self.next_offset, "the position is before what was read"
        unfinished = [entry for entry in self._entries if not entry.finished]
        assert all(entry.offset >= self.position for entry in unfinished), (
            "the position has passed an unfinished record"
        )
        assert all(entry.origin >= self.promised.horizon for entry in unfinished), (
            "the horizon has passed an unfinished record"
        )
        offsets = [entry.offset for entry in self._entries]
        assert offsets == sorted(set(offsets)), f"offsets are out of order: {offsets}"
        origins = [entry.origin for entry in self._entries]
        assert origins == sorted(origins), f"origins are out of order: {origins}"
        assert len(self._on_time) == sum(entry.holds for entry in unfinished), "on-time work was miscounted"
