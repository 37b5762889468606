"""The outside world: replayable sources that feed the injectors, and the receiver of final outputs (MillWheel 5.2).

A source is a log: what has appeared in it keeps its offset. Only what has not appeared yet can be delayed.
"""

from bisect import insort

import msgspec

from headrace.api.specs import OUTSIDE
from headrace.history import History, Output
from headrace.wire.effects import SourceEvent, SourceRecord
from headrace.wire.messages import Ack, Deliver
from headrace_sim.feed import FeedEntry, ends_source


class InjectorLog:
    """One injector process's log.

    Args:
        entries: in order of time, numbered from 0.
    """

    def __init__(self, entries: list[FeedEntry]) -> None:
        self._entries = entries
        self._reader: int | None = None
        self._announced = 0
        self.readings = 0

    def read_from(self, offset: int) -> None:
        """Start or restart a reader at an offset."""
        self._reader = offset
        self.readings += 1

    def stop_reading(self) -> None:
        """Forget the reader."""
        self._reader = None
        self.readings += 1

    def take(self, now: int) -> list[SourceEvent]:
        """Read what has appeared since the last call."""
        if self._reader is None:
            return []
        begin, self._reader = self._reader, self._appeared(now, self._reader)
        return [entry.event for entry in self._entries[begin : self._reader]]

    def news(self, now: int) -> list[SourceEvent]:
        """Return what has appeared since the last call, whether or not there is a reader."""
        begin, self._announced = self._announced, self._appeared(now, self._announced)
        return [entry.event for entry in self._entries[begin : self._announced]]

    def _appeared(self, now: int, begin: int = 0) -> int:
        """Return how many entries have appeared; ``begin``: this many certainly have."""
        end = begin
        while end < len(self._entries) and self._entries[end].at_us <= now:
            end += 1
        return end

    def next_at(self) -> int | None:
        """Return when the reader's next event appears, true time in microseconds; ``None``: never, or there is no reader."""
        if self._reader is None or self._reader >= len(self._entries):
            return None
        return self._entries[self._reader].at_us

    @property
    def exhausted(self) -> bool:
        """Whether the reader has read everything."""
        return self._reader is not None and self._reader >= len(self._entries)

    @property
    def end_us(self) -> int:
        """When the last event appears, true time in microseconds."""
        return self._entries[-1].at_us if self._entries else 0

    def add(self, now: int, record: SourceRecord) -> bool:
        """Add a record by hand; return whether that was possible: the source had not ended."""
        appeared = self._appeared(now)
        if appeared == len(self._entries):
            return False
        address = self._entries[0].address
        self._replace(appeared, [FeedEntry(now, address, record), *self._entries[appeared:]])
        return True

    def make_late(self, now: int, count: int, by_us: int) -> int:
        """Delay the next records past watermarks, which are then wrong; return how many there were."""
        appeared = self._appeared(now)
        late = [entry for entry in self._entries[appeared:] if isinstance(entry.event, SourceRecord)][:count]
        rest = [entry for entry in self._entries[appeared:] if not any(entry is delayed for delayed in late)]
        for entry in late:
            insort(rest, _at(entry, entry.at_us + by_us), key=lambda message: message.at_us)
        self._replace(appeared, rest)
        return len(late)

    def stall(self, now: int, for_us: int) -> bool:
        """Delay everything that has not appeared; return whether there was anything."""
        appeared = self._appeared(now)
        rest = [_at(entry, entry.at_us + for_us) for entry in self._entries[appeared:]]
        self._replace(appeared, rest)
        return bool(rest)

    def _replace(self, appeared: int, rest: list[FeedEntry]) -> None:
        """Number the entries that have not appeared; the end of the source stays last."""
        others = [entry for entry in rest if not ends_source(entry.event)]
        latest_us = others[-1].at_us if others else 0
        ends = [_at(entry, max(entry.at_us, latest_us)) for entry in rest if ends_source(entry.event)]
        self._entries[appeared:] = [
            FeedEntry(
                entry.at_us,
                entry.address,
                msgspec.structs.replace(entry.event, offset=offset, arrived_us=entry.at_us),
            )
            for offset, entry in enumerate([*others, *ends], appeared)
        ]


def _at(entry: FeedEntry, at_us: int) -> FeedEntry:
    return FeedEntry(at_us, entry.address, entry.event)


class Outside:
    """The receiver of streams that nobody consumes. It never fails, and takes each record id once.

    Args:
        history: where outputs are written.
    """

    def __init__(self, address: str, history: History) -> None:
        self._address = address
        self._history = history
        self._seen: set[str] = set()

    def receive(self, now: int, message: Deliver) -> Ack:
        """Receive a record and ACK it."""
        production = message.production
        if production.record_id not in self._seen:
            self._seen.add(production.record_id)
            self._history.record(Output(now, self._address, production))
        return Ack(OUTSIDE, (production.record_id,))
