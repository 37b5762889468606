"""Records that wait because they are too far ahead of the slowest computation (MillWheel 8.4: the skew limit of an injector).

Rules of this file:

* Choice: records wait in the intervals of their consumers. Spark's sources cannot know the low watermark, and a source that stops
  at the first record beyond the limit would keep back the later ones, too, for one of which the slowest may be waiting.
* An interval knows the slowest low watermark that the driver last sent, which is never ahead of the true one.
* What waits holds its consumer's input watermark, and enters in order of timestamps. Late records never wait.
* Records that wait are kept in chunks beside those of the rows, with negative numbers. A chunk is read only if one of its records
  may enter.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from headrace.api.time import MAX_TIME
from headrace.rules import RULES
from headrace.spark.hosting.chunks import Buckets, IntervalHeader, IntervalStore, WaitingRecords
from headrace.spark.hosting.parcels import Packed

RECORDS_IN_CHUNK = 1_000
"""Number of records at which a chunk takes no more."""

Limited = tuple[str, int, Packed]
"""A record, with its injector and the watermark of the sources when it arrived, event time in microseconds."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Limited]).decode


def _timestamp(limited: Limited) -> int:
    return limited[2][4]


@dataclass(frozen=True, slots=True)
class WaitingRoom:
    """The records that wait in one interval.

    Attributes:
        header: of the interval.
        store: where they are stored.
        limits: the skew limit of each injector that has one, microseconds.
    """

    header: IntervalHeader
    store: IntervalStore
    limits: Mapping[str, int]

    @property
    def earliest(self) -> int:
        """The earliest timestamp that waits, event time in microseconds; `MAX_TIME`: none."""
        return min([waiting.earliest for waiting in self.header.waiting.values()], default=MAX_TIME)

    @property
    def enters_at(self) -> int | None:
        """The slowest low watermark at which the next record may enter, event time in microseconds; ``None``: none waits."""
        return min([waiting.enters_at for waiting in self.header.waiting.values()], default=None)

    def pending(self) -> Buckets:
        """Return pending timestamps for percentile watermarks (7.2). Choice: those of a chunk all count as its earliest."""
        return tuple(sorted((waiting.earliest, waiting.records) for waiting in self.header.waiting.values()))

    def admit(self, arrived: Iterable[Limited]) -> list[Limited]:
        """Return the records that may enter now, of those that waited and those that have arrived. The others wait.

        Args:
            arrived: in order.
        """
        arrived, soonest = list(arrived), self.enters_at
        if not arrived and (soonest is None or soonest > self.header.slowest):
            return []
        entering: list[Limited] = []
        staying: list[Limited] = []
        for record in self._woken():
            (entering if self._may_enter(record) else staying).append(record)
        entering.sort(key=_timestamp)
        for record in arrived:
            is_late = RULES.is_late(_timestamp(record), record[1])
            (entering if is_late or self._may_enter(record) else staying).append(record)
        self.keep(staying)
        return entering

    def _may_enter(self, limited: Limited) -> bool:
        limit_us = self.limits.get(limited[0])  # a later version of the pipeline may have none
        return limit_us is None or RULES.may_inject(_timestamp(limited), self.header.slowest, limit_us)

    def _woken(self) -> Iterator[Limited]:
        """Take out the chunks in which a record may enter, or into which there is room."""
        header = self.header
        last = min(header.waiting, default=0)  # numbers count down
        for number, waiting in list(header.waiting.items()):
            has_room = number == last and waiting.records < RECORDS_IN_CHUNK
            if has_room or waiting.enters_at <= header.slowest:
                yield from self._take(number)

    def _take(self, number: int) -> list[Limited]:
        data = self.store.chunk(number)
        assert data is not None, "the header knows of it"
        self.store.set_chunk(number, None)
        del self.header.waiting[number]
        return _decode(data)

    def all(self) -> Iterator[Limited]:
        """Take all records out, in the order in which they have come."""
        for number in sorted(self.header.waiting, reverse=True):
            yield from self._take(number)

    def keep(self, staying: list[Limited]) -> None:
        """Let records wait."""
        number = min(self.header.waiting, default=0)
        for at in range(0, len(staying), RECORDS_IN_CHUNK):
            part = staying[at : at + RECORDS_IN_CHUNK]
            number -= 1
            self.store.set_chunk(number, _encode(part))
            self.header.waiting[number] = WaitingRecords(
                min(map(_timestamp, part)),
                min(_timestamp(record) - self.limits.get(record[0], 0) for record in part),
                len(part),
            )
