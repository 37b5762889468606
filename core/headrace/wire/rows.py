"""The row (MillWheel 6.2, 7.1): all that is durable of one key of one computation, and the deltas that change it.

Every change is a blind delta (6.1.2): it can be applied without having been read first.
"""

from headrace.api.records import Clock
from headrace.api.time import MIN_TIME
from headrace.wire.value import Value


class Version(Value, frozen=True, order=True, gc=False):
    """Which write of which owner: ``sequencer`` of the interval, and the owner's own count."""

    sequencer: int
    number: int

    def __str__(self) -> str:
        """Write it short, as it stands in record ids."""
        return f"{self.sequencer}.{self.number}"


class Production(Value, frozen=True, gc=False):
    """One record on its way to one consumer (MillWheel 6.1.1).

    Attributes:
        record_id: one id for each logical emission, the same for all its consumers.
        stream: the stream's name.
        consumer: the consuming computation; ``""`` is the outside world.
        key: the consumer's key for it.
        value: encoded by the stream's codec.
        timestamp: event time, microseconds.
        origin: when the chain of work that led to it entered the system (the injector's stamp, microseconds).
    """

    record_id: str
    stream: str
    consumer: str
    key: str
    value: bytes
    timestamp: int
    origin: int


class StoredTimer(Value, frozen=True, gc=False, omit_defaults=True):
    """A pending timer as it stands in the row (MillWheel 4.6).

    Attributes:
        tag: one timer a key and tag.
        timestamp: what the user asked for, microseconds of its clock.
        clock: the clock that it waits for.
        due: when it is to fire: ``timestamp``, or the time of the handler that set it if that was not earlier.
        overdue: it was set at or before its handler's time, and so fires after those already due.
        hold: event time that a wall timer holds the low watermark at, if any.
        set_by: the write that set it; with the tag, its identity.
        origin: the origin of what set it.
        set_at: of a wall timer without a hold, the event time of what set it; `MIN_TIME` for others.
    """

    tag: str
    timestamp: int
    clock: Clock
    due: int
    overdue: bool
    hold: int | None
    set_by: Version
    origin: int
    set_at: int = MIN_TIME

    @property
    def order(self) -> tuple[int, bool, int, str]:
        """In this order the timers of a key fire."""
        return (self.due, self.overdue, self.timestamp, self.tag)

    @property
    def held(self) -> int | None:
        """The event time at which it holds the low watermark back, if any (4.5)."""
        return self.timestamp if self.clock is Clock.WATERMARK else self.hold


class RowDelta(Value, frozen=True, gc=False):
    """What one step changes in one row, all of it or nothing (MillWheel 6.2).

    Attributes:
        key: the row.
        number: the owner's count; with the sequencer of the write, the row's new version.
        state: the new state; ``None`` leaves it, ``b""`` clears it.
        hold: the new event time at which the state holds the watermark; ``None``: as it was; `MAX_TIME`: none.
        set_timers: timers to add, or to move.
        cancelled: tags of timers to remove without firing.
        fired: timers that this step fired; removed as well.
        seen: (record id, origin) of the records that this step has consumed.
        productions: checkpoints to add.
    """

    key: str
    number: int
    state: bytes | None = None
    hold: int | None = None
    set_timers: tuple[StoredTimer, ...] = ()
    cancelled: tuple[str, ...] = ()
    fired: tuple[StoredTimer, ...] = ()
    seen: tuple[tuple[str, int], ...] = ()
    productions: tuple[Production, ...] = ()


class RowImage(Value, frozen=True, gc=False):
    """A row as a read or a scan returns it."""

    key: str
    version: Version
    state: bytes
    hold: int
    timers: tuple[StoredTimer, ...]
    productions: tuple[Production, ...]
    seen: tuple[tuple[str, int], ...]
