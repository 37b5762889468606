"""The row (MillWheel 6.2, 7.1): all durable data for one key of one computation, and the deltas that change it.

Every change is a blind delta (6.1.2): it can be applied without reading the row first.
"""

from headrace.api.records import Clock
from headrace.api.ropes import Encoded
from headrace.api.time import MIN_TIME
from headrace.wire.value import Value


class Version(Value, frozen=True, order=True, gc=False):
    """A write, identified by the ``sequencer`` of its owner's interval and its ``number``, counted by the owner."""

    sequencer: int
    number: int

    def __str__(self) -> str:
        """Format as in record ids."""
        return f"{self.sequencer}.{self.number}"


class Production(Value, frozen=True, gc=False):
    """One record addressed to one consumer (MillWheel 6.1.1).

    Attributes:
        record_id: id of the logical emission, the same for all its consumers.
        stream: the stream's name.
        consumer: the consuming computation; ``""``: the outside world.
        key: the key extracted by the consumer.
        value: the value, encoded by the stream's codec.
        timestamp: event time, microseconds.
        origin: when the input that led to it entered the system, as stamped by the injector, microseconds.
    """

    record_id: str
    stream: str
    consumer: str
    key: str
    value: bytes
    timestamp: int
    origin: int


class StoredTimer(Value, frozen=True, gc=False, omit_defaults=True):
    """A pending timer as stored in the row (MillWheel 4.6).

    Attributes:
        tag: the timer's name; one timer per key and tag.
        timestamp: the time that user code asked for, microseconds of its clock.
        clock: the clock that it waits for.
        due: when to fire it: the later of ``timestamp`` and the time of the handler that set it, microseconds of its clock.
        overdue: whether it was set at or before its handler's time, and so fires after timers already due.
        hold: event time at which a wall timer holds the low watermark, if any.
        set_by: the write that set it, which identifies it together with the tag.
        origin: origin of the record or timer that set it.
        set_at: event time of the record or timer that set it, for a wall timer without a hold; `MIN_TIME` for all others.
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
        """Sort key: the timers of a key fire in this order."""
        return (self.due, self.overdue, self.timestamp, self.tag)

    @property
    def held(self) -> int | None:
        """The event time at which it holds the low watermark, if any (4.5)."""
        return self.timestamp if self.clock is Clock.WATERMARK else self.hold


class AskedTimer(Value, frozen=True, gc=False, omit_defaults=True):
    """A timer that user code set or cancelled (4.6).

    Attributes:
        tag: its name.
        timestamp: microseconds of its clock; ``None``: it is cancelled.
        clock: the clock that it waits for.
        hold: event time at which a wall timer holds the low watermark, if any.
    """

    tag: str
    timestamp: int | None
    clock: Clock = Clock.WATERMARK
    hold: int | None = None


class Asked(Value, frozen=True, gc=False, omit_defaults=True):
    """What one run of user code asked of its row, beside the state (5.1, 5.2).

    Attributes:
        hold: of `Context.hold_watermark`, event time in microseconds: `MAX_TIME` releases it; ``None``: nothing.
        timers: that it set or cancelled.
    """

    hold: int | None = None
    timers: tuple[AskedTimer, ...] = ()


class RowDelta(Value, frozen=True, gc=False):
    """One step's changes to one row, applied completely or not at all (MillWheel 6.2).

    Attributes:
        key: the row's key.
        number: the owner's count; with the sequencer of the write, the row's new version.
        state: the new state; ``None``: unchanged; ``b""``: cleared.
        hold: the new event time at which the state holds the watermark; ``None``: unchanged; `MAX_TIME`: no hold.
        set_timers: timers to add or move.
        cancelled: tags of timers to remove without firing.
        fired: timers that this step fired, which are also removed.
        seen: (record id, origin) of the records that this step consumed.
        productions: checkpoints to add.
    """

    key: str
    number: int
    state: Encoded | None = None
    hold: int | None = None
    set_timers: tuple[StoredTimer, ...] = ()
    cancelled: tuple[str, ...] = ()
    fired: tuple[StoredTimer, ...] = ()
    seen: tuple[tuple[str, int], ...] = ()
    productions: tuple[Production, ...] = ()


class RowImage(Value, frozen=True, gc=False):
    """A row as returned by a read or a scan."""

    key: str
    version: Version
    state: bytes
    hold: int
    timers: tuple[StoredTimer, ...]
    productions: tuple[Production, ...]
    seen: tuple[tuple[str, int], ...]
