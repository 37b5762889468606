"""What a state machine is told besides messages, and what it asks of its driver (sans-IO)."""

from collections.abc import Iterable

from headrace.api.errors import HeadraceError
from headrace.api.time import MIN_TIME
from headrace.wire.messages import Message
from headrace.wire.rows import Production
from headrace.wire.value import Value


class Start(Value, frozen=True, gc=False):
    """The process has started, with an empty memory. ``incarnation`` counts its starts, from 1."""

    incarnation: int


class Wake(Value, frozen=True, gc=False):
    """A time that the process asked for with `WakeAt` has come."""


class SourceRecord(Value, frozen=True, gc=False):
    """To an injector: the source has a record.

    Attributes:
        offset: its place in the source; counts up, the same whenever it is read again.
        stream: the stream that it is for.
        key: the record's own key.
        value: encoded for the stream's codec.
        timestamp: event time, microseconds.
        arrived_us: when the source got it, by the source's own clock; the same whenever it is read again. It becomes the record's
            origin (see docs/protocol.md), and should not decrease from offset to offset.
    """

    offset: int
    stream: str
    key: str
    value: bytes
    timestamp: int
    arrived_us: int = MIN_TIME


class SourceWatermark(Value, frozen=True, gc=False):
    """To an injector: the source promises no earlier timestamps from here on (an estimate; 4.5).

    Attributes:
        offset: its place in the source, like a record's.
        low_watermark: event time, microseconds; `MAX_TIME`: the source has ended.
        arrived_us: like a record's. A source that is idle for long should go on sending these: watermark and horizon wait for it.
    """

    offset: int
    low_watermark: int
    arrived_us: int = MIN_TIME


SourceEvent = SourceRecord | SourceWatermark


class Deliveries(Value, frozen=True, gc=False):
    """To a worker: as many `Deliver` messages as there are productions, in order, at once; from a host that has them so.

    Attributes:
        productions: the records.
        sender: of all of them.
    """

    productions: Iterable[Production]
    sender: str


class Replayed(Value, frozen=True, gc=False):
    """To an injector: all that was in the source when it asked for `Replay` has been given to it."""


class Send(Value, frozen=True, gc=False):
    """Send a message to an address; it may be lost, late, doubled or out of order."""

    to: str
    message: Message


class WakeAt(Value, frozen=True, gc=False):
    """Send `Wake` at this time of the process's own clock, microseconds. A later request does not replace an earlier one."""

    at_us: int


class Replay(Value, frozen=True, gc=False):
    """Of an injector: feed the source again from this offset (inclusive), and say `Replayed` when that is done."""

    offset: int


class Halt:
    """Stop the run: user code or input has failed for good.

    Attributes:
        error: what to tell the user.
    """

    __slots__ = ("error",)

    def __init__(self, error: HeadraceError) -> None:
        self.error = error


Event = Start | Wake | Deliveries | SourceEvent | Replayed | Message
Effect = Send | WakeAt | Replay | Halt
