"""The History of a run: typed, ordered events, in one vocabulary for every host.

Checkers, timelines, latency figures and comparisons are functions of a History and of nothing else. Every event begins with
``at_us``, true (not a process's own) wall time in microseconds, and ``process``, the address where it happened. The order of a
History is the order in which things happened.

The engine writes its events itself, through the `History` that it was built with; the host only keeps `History.at_us`
current. Faults and the run's end are written by the host.
"""

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from headrace.api.errors import HistoryFormatError
from headrace.wire.keys import KeyInterval
from headrace.wire.messages import Progress
from headrace.wire.rows import Production, RowDelta, StoredTimer, Version
from headrace.wire.value import Value


class Injected(Value, frozen=True, gc=False):
    """An injector accepted a record from the source, and sends it (5.2).

    Written again when it is re-read after a crash. ``source_watermark``: what the injector had published before; the record is
    late from the source if its timestamp is smaller. ``productions``: one for each consumer.
    """

    at_us: int
    process: str
    offset: int
    source_watermark: int
    productions: tuple[Production, ...]


class Delivered(Value, frozen=True, gc=False):
    """A record reached its owner and is new to its memory."""

    at_us: int
    process: str
    computation: str
    key: str
    record_id: str
    sender: str


class DuplicateDropped(Value, frozen=True, gc=False):
    """A record was recognised as a duplicate and ACKed. ``by``: "id", "horizon" or "in progress" (then it is not ACKed yet)."""

    at_us: int
    process: str
    computation: str
    key: str
    record_id: str
    by: str


class Executed(Value, frozen=True, gc=False):
    """User code ran for a record (``timer`` is ``None``) or a timer. It counts only if its write is applied.

    Attributes:
        cause: record id, or the timer's identity.
        late: the record was behind the input watermark.
        input_watermark: as the worker knew it.
        version: of the write that will carry it.
        productions: what it made, one for each consumer.
    """

    at_us: int
    process: str
    computation: str
    key: str
    cause: str
    timestamp: int
    late: bool
    timer: StoredTimer | None
    input_watermark: int
    version: Version
    productions: tuple[Production, ...]


class UserCodeFailed(Value, frozen=True, gc=False):
    """User code raised; nothing of this attempt counts."""

    at_us: int
    process: str
    computation: str
    key: str
    cause: str
    attempt: int
    error: str


class DeadLettered(Value, frozen=True, gc=False):
    """A record or timer went to the dead letters' stream."""

    at_us: int
    process: str
    computation: str
    cause: str
    stream: str


class Applied(Value, frozen=True, gc=False):
    """The store applied one row delta (6.2). ``process`` is the store; ``live`` is the sequencer that owned the key then.

    A write that was taken before (re-sent, doubled on the wire) is not applied again and not written here.
    """

    at_us: int
    process: str
    computation: str
    sequencer: int
    live: int
    delta: RowDelta


class CheckpointsDeleted(Value, frozen=True, gc=False):
    """The store deleted checkpoints of productions that were ACKed (6.1.2). ``live``: as for `Applied`, for the first key.

    Those that were deleted before (re-sent, doubled on the wire) are not in it. ``checkpoints``: (key, record id, consumer).
    """

    at_us: int
    process: str
    computation: str
    sequencer: int
    live: int
    checkpoints: tuple[tuple[str, str, str], ...]


class WriteRefused(Value, frozen=True, gc=False):
    """The store refused a write whole: its sequencer was not live any more."""

    at_us: int
    process: str
    computation: str
    sequencer: int
    live: int
    keys: tuple[str, ...]


class AckSent(Value, frozen=True, gc=False):
    """An owner told a sender that these records are done."""

    at_us: int
    process: str
    computation: str
    record_ids: tuple[str, ...]
    to: str


class Acked(Value, frozen=True, gc=False):
    """A sender learned that a record is done at this consumer."""

    at_us: int
    process: str
    record_id: str
    consumer: str


class Checkpointed(Value, frozen=True, gc=False):
    """A weak straggler is being checkpointed, so that its cause can be ACKed (6.1.3)."""

    at_us: int
    process: str
    computation: str
    record_id: str
    consumer: str


class Resent(Value, frozen=True, gc=False):
    """A sender sent an un-ACKed record again."""

    at_us: int
    process: str
    record_id: str
    consumer: str


class IntervalMinted(Value, frozen=True, gc=False):
    """The store gave an interval a new sequencer and killed those that overlapped (6.2)."""

    at_us: int
    process: str
    computation: str
    interval: KeyInterval
    sequencer: int
    owner: str
    incarnation: int


class ComputationRemoved(Value, frozen=True, gc=False):
    """A retiring computation has drained and left the topology (3)."""

    at_us: int
    process: str
    computation: str


class VersionAdopted(Value, frozen=True, gc=False):
    """A version of the pipeline is in force (3): at the store from now on, and for a process as soon as it learns of it.

    What a worker or an injector's process makes goes to the consumers in the version that it has adopted last; each incarnation
    begins with version 0. ``version``: its index among those that are deployed.
    """

    at_us: int
    process: str
    version: int


class ScanBegun(Value, frozen=True, gc=False):
    """A new owner began its recovery scan (7.1)."""

    at_us: int
    process: str
    computation: str
    interval: KeyInterval
    sequencer: int


class ScanEnded(Value, frozen=True, gc=False):
    """Its soft state now has these timers and checkpointed productions; it begins to work (7.1)."""

    at_us: int
    process: str
    computation: str
    interval: KeyInterval
    sequencer: int
    keys: int
    timers: tuple[tuple[str, str], ...]
    productions: tuple[tuple[str, str], ...]


class IntervalDropped(Value, frozen=True, gc=False):
    """A worker learned that it does not own an interval any more. ``why``: "table" or "refused"."""

    at_us: int
    process: str
    computation: str
    interval: KeyInterval
    sequencer: int
    why: str


class Reported(Value, frozen=True, gc=False):
    """An owner reported an interval's progress to the authority (7.2)."""

    at_us: int
    process: str
    computation: str
    interval: KeyInterval
    sequencer: int
    low_watermark: int
    horizon: int


class InjectorReported(Value, frozen=True, gc=False):
    """An injector's process reported its progress (5.2)."""

    at_us: int
    process: str
    injector: str
    low_watermark: int
    horizon: int


class Published(Value, frozen=True, gc=False):
    """The authority broadcast what it has journaled, where it changed. Values by computation and injector (7.2)."""

    at_us: int
    process: str
    values: tuple[tuple[str, Progress], ...]


class InputWatermarkAdvanced(Value, frozen=True, gc=False):
    """A worker's view of an interval's input watermark advanced (7.2)."""

    at_us: int
    process: str
    computation: str
    sequencer: int
    low_watermark: int


class IdsCollected(Value, frozen=True, gc=False):
    """The store deleted record ids with an origin before ``below`` (6.1.1)."""

    at_us: int
    process: str
    computation: str
    interval: KeyInterval
    below: int
    count: int


class RoleClaimed(Value, frozen=True, gc=False):
    """A process became master, an authority's shard, or an injector's process (6.2, 7.1)."""

    at_us: int
    process: str
    role: str
    epoch: int
    holder: str


class Output(Value, frozen=True, gc=False):
    """The outside world received a record for the first time."""

    at_us: int
    process: str
    production: Production


class ProcessStarted(Value, frozen=True, gc=False):
    """A process began with an empty memory."""

    at_us: int
    process: str
    incarnation: int


class KeysSampled(Value, frozen=True, gc=False):
    """Of what happens to rows, the History has only what happens to this part of the keys; ``fraction``: between 0 and 1.

    The first event of such a History. Of what happens to a key that is in it nothing is left out.
    """

    at_us: int
    process: str
    fraction: float


class FaultStruck(Value, frozen=True, gc=False):
    """The host made a fault happen. ``kind``: the fault's verb; ``detail``: on whom or what, for people."""

    at_us: int
    process: str
    kind: str
    detail: str


class StepReached(Value, frozen=True, gc=False):
    """A protocol step has come that a fault was tied to, and the fault begins.

    Attributes:
        at_us: true time.
        process: whose step it is.
        step: what it does, such as ``sends Write``.
        nth: which of those, from 1.
        moment: ``before`` or ``after`` the step.
        fault: the fault's verb.
    """

    at_us: int
    process: str
    step: str
    nth: int
    moment: str
    fault: str


class Healed(Value, frozen=True, gc=False):
    """From here on there are no more faults; liveness is due (L1-L5). ``lasting``: processes that stay bad."""

    at_us: int
    process: str
    lasting: tuple[str, ...]


class RunEnded(Value, frozen=True, gc=False):
    """The run's last event.

    ``why``: "quiescent" (all work done, watermarks at their end), "deadline" (it is not, and nothing more was done in the time
    that was granted) or "limit" (something still was, when the run had to end).
    """

    at_us: int
    process: str
    why: str


Event = (
    Injected | Delivered | DuplicateDropped | Executed | UserCodeFailed | DeadLettered | Applied | CheckpointsDeleted
    | WriteRefused | AckSent | Acked | Checkpointed | Resent | IntervalMinted | ComputationRemoved | VersionAdopted
    | ScanBegun | ScanEnded | IntervalDropped | Reported | InjectorReported | Published | InputWatermarkAdvanced
    | IdsCollected | RoleClaimed | Output | ProcessStarted | KeysSampled | FaultStruck | StepReached | Healed | RunEnded
)  # fmt: skip


class History:
    """Events in the order in which they happened.

    Attributes:
        at_us: true time of what happens now, microseconds; kept by the host.
        events: what has happened. Append only.
        keeps: it keeps what is recorded; if not, what happens with each record need not be told.
    """

    __slots__ = ("at_us", "events", "keeps", "record")

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.at_us = 0
        self.events: list[Event] = list(events)
        self.record = self.events.append
        self.keeps = True

    @classmethod
    def discarding(cls) -> "History":
        """A History that keeps nothing, for hosts that were not asked for one."""
        history = cls()
        history.record = _discard
        history.keeps = False
        return history

    def __iter__(self) -> Iterator[Event]:
        """Iterate in order."""
        return iter(self.events)

    def __len__(self) -> int:
        """Count the events."""
        return len(self.events)

    def to_bytes(self) -> bytes:
        """Write it as JSON lines, one event a line."""
        return _ENCODER.encode_lines(self.events)

    def digest(self) -> str:
        """Hash it (SHA-256, hex): equal digests mean equal runs, byte for byte."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def save(self, path: Path) -> None:
        """Write it to a file of JSON lines; the last line has the number of events and their digest, to tell a torn file."""
        data = self.to_bytes()
        path.write_bytes(data + _end_of(data, len(self)))

    @classmethod
    def load(cls, path: Path) -> "History":
        """Read a file that `save` wrote.

        Raises:
            HistoryFormatError: it is not one, or not all of one.
        """
        try:
            data = path.read_bytes()
            last = data.rfind(b"\n", 0, -1) + 1
            body, end = (data[:last], data[last:]) if data.startswith(_END, last) else (data, b"")
            history = cls(_DECODER.decode_lines(body))
        except (OSError, msgspec.MsgspecError) as error:
            raise HistoryFormatError("history", str(path), str(error)) from error
        if end.rstrip(b"\n") != _end_of(body, len(history)).rstrip(b"\n"):
            what = "is not that of the events before it" if end else "is missing"
            reason = f"its last line, which counts its events and has their digest, {what}: it was cut off or changed"
            raise HistoryFormatError("history", str(path), reason)
        return history


def _discard(_event: Event) -> None:
    """Keep nothing."""


_ENCODER = msgspec.json.Encoder()
_DECODER: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)
_END = b'{"events":'


def _end_of(data: bytes, events: int) -> bytes:
    """The last line of a file; every event's begins with its type."""
    return b'%s%d,"sha256":"%s"}\n' % (_END, events, hashlib.sha256(data).hexdigest().encode())
