"""Events that state machines get besides messages, and effects that they request from their driver (sans-IO)."""

from collections.abc import Iterable

import msgspec

from headrace.api.errors import HeadraceError
from headrace.api.time import MIN_TIME
from headrace.wire.messages import Message
from headrace.wire.rows import Production
from headrace.wire.value import Value


class Start(Value, frozen=True, gc=False):
    """The process has started with empty memory. ``incarnation`` counts its starts, from 1."""

    incarnation: int


class Wake(Value, frozen=True, gc=False):
    """A time requested with `WakeAt` has come."""


class SourceRecord(Value, frozen=True, gc=False):
    """To an injector: the source has a record.

    Attributes:
        offset: its position in the source; increases, and stays the same when the record is read again.
        stream: the stream to inject it into.
        key: the record's own key.
        value: the value, encoded by the stream's codec.
        timestamp: event time, microseconds.
        arrived_us: when the source received it, by the source's own clock, microseconds; stays the same when the record is read
            again. It becomes the record's origin (see docs/protocol.md), and should not decrease from offset to offset.
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
        offset: its position in the source, like a record's.
        low_watermark: event time, microseconds; `MAX_TIME`: the source has ended.
        arrived_us: like a record's. An idle source should keep sending these, since watermark and horizon wait for it.
    """

    offset: int
    low_watermark: int
    arrived_us: int = MIN_TIME


SourceEvent = SourceRecord | SourceWatermark


class Deliveries(Value, frozen=True, gc=False):
    """To a worker: many `Deliver` messages from one sender in one event, in order, from hosts that deliver in batches.

    Attributes:
        productions: the records.
        sender: the address to ACK.
        in_order: they are all that will come, by event time: a record runs after those timers of its key that are due by then.
    """

    productions: Iterable[Production]
    sender: str
    in_order: bool = False


class Replayed(Value, frozen=True, gc=False):
    """To an injector: it has been given everything that was in the source when it requested `Replay`."""


class Send(Value, frozen=True, gc=False):
    """Send a message to an address; it may be lost, delayed, duplicated or reordered."""

    to: str
    message: Message


class WakeAt(Value, frozen=True, gc=False):
    """Send `Wake` at this time of the process's own clock, microseconds. A new request does not replace earlier ones."""

    at_us: int


class Replay(Value, frozen=True, gc=False):
    """From an injector: feed the source again from this offset (inclusive), then send `Replayed`."""

    offset: int


class Halt(msgspec.Struct, frozen=True, eq=False):
    """Stop the run: user code or input has failed for good.

    Attributes:
        error: the error to show to the user.
    """

    error: HeadraceError


Event = Start | Wake | Deliveries | SourceEvent | Replayed | Message
Effect = Send | WakeAt | Replay | Halt
