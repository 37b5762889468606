"""The History of a run: typed, ordered events, the same on every host.

Checkers, timelines, latency figures and comparisons are functions of a History and of nothing else. Every event begins with
``at_us``, true (not a process's own) wall time in microseconds, and ``process``, the address where it happened. Events are in
the order in which they happened.

The engine records its events itself, in the `History` that it was built with; the host only keeps `History.at_us`
current, and records faults and the run's end.

A host that can tell also records causes. It calls `History.begin` for each input that it gives to a process: a message, an
alarm, a record of the source. What the process does then is an `Activation`, and whatever leaves it (a message, an alarm that it
sets) carries the activation's number, which is the cause of the activation that it leads to. The events of an activation follow
each other in the History, so nothing is stored in events. `headrace.causes` answers what happened before what.
"""

import enum
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Concatenate, ParamSpec, Protocol, cast, overload

import msgspec

from headrace.api.ropes import plain_bytes
from headrace.wire.effects import SourceRecord, SourceWatermark
from headrace.wire.keys import KeyInterval
from headrace.wire.messages import Progress
from headrace.wire.rows import Asked, Production, RowDelta, StoredTimer, Version
from headrace.wire.value import Value

P = ParamSpec("P")
"""Fields of an event after the first two."""


class _Recorded(Value, frozen=True, gc=False):
    """What every event begins with."""

    at_us: int
    process: str


class SourceHeld(_Recorded, frozen=True, gc=False):
    """The source of an injector's process has a record or a watermark that it did not have before (5.2).

    Recorded once, whether or not the process reads it: when the process could read it, or at the end of the run at the latest.
    Hosts that cannot look into their sources record none; what is injected is then taken for all that there was.
    """

    what: SourceRecord | SourceWatermark


class Injected(_Recorded, frozen=True, gc=False):
    """An injector accepted a record from the source and sends it (5.2).

    Recorded again when the source is re-read after a crash. ``source_watermark``: the watermark that the injector had published
    before; a record with an earlier timestamp was late at the source. ``productions``: one for each consumer.
    """

    offset: int
    source_watermark: int
    productions: tuple[Production, ...]


class Delivered(_Recorded, frozen=True, gc=False):
    """A record reached the owner of its key, which had no memory of it."""

    computation: str
    key: str
    record_id: str
    sender: str


class KnownBy(enum.StrEnum):
    """How a record was recognized as a duplicate (6.1.1)."""

    ID = "id"
    """Its id is in the row."""
    HORIZON = "horizon"
    """Its origin is before the horizon: its id may have been collected."""
    IN_PROGRESS = "in progress"
    """Another copy is being processed; it is not ACKed yet."""


class DuplicateDropped(_Recorded, frozen=True, gc=False):
    """A record was recognized as a duplicate and dropped; it is ACKed unless it is still in progress."""

    computation: str
    key: str
    record_id: str
    by: KnownBy


class Executed(_Recorded, frozen=True, gc=False):
    """User code ran for a record (``timer`` is ``None``) or a timer. The run counts only if its write is applied.

    Attributes:
        cause: record id, or the timer's identity.
        late: whether the record was behind the input watermark.
        input_watermark: input watermark known to the worker.
        version: version of the write that will carry the step.
        productions: productions of the step, one for each consumer.
        asked: what user code asked of the row beside its state; ``None``: the host does not tell.
    """

    computation: str
    key: str
    cause: str
    timestamp: int
    late: bool
    timer: StoredTimer | None
    input_watermark: int
    version: Version
    productions: tuple[Production, ...]
    asked: Asked | None = None


class UserCodeFailed(_Recorded, frozen=True, gc=False):
    """User code raised an exception; nothing of this attempt counts."""

    computation: str
    key: str
    cause: str
    attempt: int
    error: str


class DeadLettered(_Recorded, frozen=True, gc=False):
    """A dead letter for a record or timer was produced to ``stream``."""

    computation: str
    cause: str
    stream: str


class Applied(_Recorded, frozen=True, gc=False):
    """The store applied one row delta (6.2). ``process`` is the store; ``live`` is the sequencer that owned the key then.

    A repeated write (re-sent, or duplicated by the network) is not applied again and not recorded.
    """

    computation: str
    sequencer: int
    live: int
    delta: RowDelta


class CheckpointsDeleted(_Recorded, frozen=True, gc=False):
    """The store deleted checkpoints of productions that were ACKed (6.1.2). ``live``: as for `Applied`, for the first key.

    ``checkpoints``: (key, record id, consumer), without those that were deleted before (re-sent, or duplicated by the network).
    """

    computation: str
    sequencer: int
    live: int
    checkpoints: tuple[tuple[str, str, str], ...]


class WriteRefused(_Recorded, frozen=True, gc=False):
    """The store refused a write as a whole: its sequencer was no longer live."""

    computation: str
    sequencer: int
    live: int
    keys: tuple[str, ...]


class AckSent(_Recorded, frozen=True, gc=False):
    """An owner sent an ACK for these records to their sender."""

    computation: str
    record_ids: tuple[str, ...]
    to: str


class Acked(_Recorded, frozen=True, gc=False):
    """A sender received this consumer's ACK for a record."""

    record_id: str
    consumer: str


class Checkpointed(_Recorded, frozen=True, gc=False):
    """A weak production is a straggler and is being checkpointed, so that its cause can be ACKed (6.1.3)."""

    computation: str
    record_id: str
    consumer: str


class Resent(_Recorded, frozen=True, gc=False):
    """A sender sent an unACKed record again."""

    record_id: str
    consumer: str


class IntervalMinted(_Recorded, frozen=True, gc=False):
    """The store gave an interval a new sequencer and invalidated all overlapping ones (6.2)."""

    computation: str
    interval: KeyInterval
    sequencer: int
    owner: str
    incarnation: int


class ComputationRemoved(_Recorded, frozen=True, gc=False):
    """A retiring computation has drained and left the topology (3)."""

    computation: str


class VersionAdopted(_Recorded, frozen=True, gc=False):
    """A version of the pipeline took effect (3): in the store, or in a process that learned of it.

    The productions of a worker or an injector's process go to the consumers in the version that it adopted last; each
    incarnation begins with version 0. ``version``: index among the deployed versions.
    """

    version: int


class ScanBegun(_Recorded, frozen=True, gc=False):
    """A new owner began its recovery scan (7.1)."""

    computation: str
    interval: KeyInterval
    sequencer: int


class ScanEnded(_Recorded, frozen=True, gc=False):
    """A new owner finished its recovery scan and has these timers and checkpointed productions in memory (7.1)."""

    computation: str
    interval: KeyInterval
    sequencer: int
    keys: int
    timers: tuple[tuple[str, str], ...]
    productions: tuple[tuple[str, str], ...]


class DropCause(enum.StrEnum):
    """How a worker learned that it no longer owns an interval (6.2, 7.1)."""

    TABLE = "table"
    """The table assigns it to another worker."""
    REFUSED = "refused"
    """The store refused a request with its sequencer."""


class IntervalDropped(_Recorded, frozen=True, gc=False):
    """A worker learned that it no longer owns an interval."""

    computation: str
    interval: KeyInterval
    sequencer: int
    why: DropCause


class Reported(_Recorded, frozen=True, gc=False):
    """An owner reported an interval's progress to the authority (7.2)."""

    computation: str
    interval: KeyInterval
    sequencer: int
    low_watermark: int
    horizon: int


class InjectorReported(_Recorded, frozen=True, gc=False):
    """An injector's process reported its progress (5.2)."""

    injector: str
    low_watermark: int
    horizon: int


class Published(_Recorded, frozen=True, gc=False):
    """The authority broadcast its journaled progress. ``values``: changed progress by computation and injector (7.2)."""

    values: tuple[tuple[str, Progress], ...]


class InputWatermarkAdvanced(_Recorded, frozen=True, gc=False):
    """A worker's view of an interval's input watermark advanced (7.2)."""

    computation: str
    sequencer: int
    low_watermark: int


class IdsCollected(_Recorded, frozen=True, gc=False):
    """The store deleted record ids with an origin before ``below`` (6.1.1)."""

    computation: str
    interval: KeyInterval
    below: int
    count: int


class RoleClaimed(_Recorded, frozen=True, gc=False):
    """A process claimed a role: master, a shard of the authority, or an injector's process (6.2, 7.1)."""

    role: str
    epoch: int
    holder: str


class Output(_Recorded, frozen=True, gc=False):
    """The outside world received a record for the first time."""

    production: Production


class ProcessStarted(_Recorded, frozen=True, gc=False):
    """A process started with empty memory."""

    incarnation: int


class KeysSampled(_Recorded, frozen=True, gc=False):
    """This History records only a sample of the keys; ``fraction``: between 0 and 1.

    The first event of such a History. For a sampled key, it contains every event.
    """

    fraction: float


class FaultStruck(_Recorded, frozen=True, gc=False):
    """The host injected a fault. ``kind``: the fault's verb; ``detail``: its target, for people."""

    kind: str
    detail: str


class StepReached(_Recorded, frozen=True, gc=False):
    """A run reached the protocol step at which a fault is scheduled, and the fault begins.

    Attributes:
        step: what the process does, such as ``sends Write``.
        nth: number of the step among its kind, from 1.
        moment: ``before`` or ``after`` the step.
        fault: the fault's verb.
    """

    step: str
    nth: int
    moment: str
    fault: str


class Rested(_Recorded, frozen=True, gc=False):
    """Processes had only been telling each other that they live. The simulation skipped time in which they would have gone on."""

    for_us: int


class Healed(_Recorded, frozen=True, gc=False):
    """All faults have ended, and liveness is required from now on (L1-L5). ``lasting``: processes that stay faulty."""

    lasting: tuple[str, ...]


class RunEnded(_Recorded, frozen=True, gc=False):
    """The run's last event.

    ``why``: "quiescent" (all work done, watermarks at their end), "deadline" (work remained, but none was done within the time
    allowed) or "limit" (work was still being done when the run had to end).
    """

    why: str


Event = (
    SourceHeld | Injected | Delivered | DuplicateDropped | Executed | UserCodeFailed | DeadLettered | Applied | CheckpointsDeleted
    | WriteRefused | AckSent | Acked | Checkpointed | Resent | IntervalMinted | ComputationRemoved | VersionAdopted
    | ScanBegun | ScanEnded | IntervalDropped | Reported | InjectorReported | Published | InputWatermarkAdvanced
    | IdsCollected | RoleClaimed | Output | ProcessStarted | KeysSampled | FaultStruck | StepReached | Rested | Healed
    | RunEnded
)  # fmt: skip


class Recorder(Protocol):
    """Records what happens at one process, now."""

    def __call__(
        self, event: Callable[Concatenate[int, str, P], Event], *fields: P.args, **_: P.kwargs
    ) -> None:
        """Record an event of this type; the arguments are its fields after the first two, by position."""
        ...


class Activation(msgspec.Struct, frozen=True, tag=True, gc=False):
    """What a process did with one input.

    Attributes:
        process: the address; ``""``: no process, but the operator, or the network that sends a held message on.
        input: type of what it handled, such as ``Deliver`` or ``Wake``; or the verb of a fault that struck it; or ``step``: it
            reached a protocol step at which a fault begins, and continues after the fault.
        cause: number of the activation that sent the message or set the alarm; ``None``: the cause is outside the run.
        first_event: number of its first event; if it has none, of the next event in the History.
    """

    process: str
    input: str
    cause: int | None
    first_event: int


class History(Sequence[Event]):
    """Events in the order in which they happened, and their causes, if the host knows them.

    Args:
        events: of the run.
        activations: of the run; none: the causes are unknown.

    Attributes:
        at_us: the current true time, microseconds; set by the host.
        events: the events so far. Append only.
        activations: in the order in which they began. Append only.
        activation: number of the activation under way; ``None``: nothing has begun.
        keeps: whether it keeps events; if not, events about single records need not be recorded.
    """

    __slots__ = ("activation", "activations", "at_us", "events", "keeps", "record")

    def __init__(self, events: Iterable[Event] = (), activations: Iterable[Activation] = ()) -> None:
        self.at_us = 0
        self.events: list[Event] = list(events)
        self.activations: list[Activation] = list(activations)
        self.activation: int | None = None
        self.record = self.events.append
        self.keeps = True

    def of(self, process: str) -> Recorder:
        """Return what records the events of one process."""
        record = self.record

        def stamp(event: Callable[..., Event], *fields: Any) -> None:
            record(event(self.at_us, process, *fields))

        return cast(Recorder, stamp)

    def begin(self, process: str, input_: str, cause: int | None) -> None:
        """Begin an activation: a process handles an input. The arguments are the fields of `Activation`."""
        if self.keeps:
            activations = self.activations
            self.activation = len(activations)
            activations.append(Activation(process, input_, cause, len(self.events)))

    @classmethod
    def discarding(cls) -> "History":
        """Make a History that keeps nothing, for hosts that need none."""
        history = cls()
        history.record = _discard
        history.keeps = False
        return history

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    @overload
    def __getitem__(self, number: int) -> Event: ...
    @overload
    def __getitem__(self, number: slice) -> list[Event]: ...
    def __getitem__(self, number: int | slice) -> Event | list[Event]:
        """Return an event by its number, or several, without their causes."""
        return self.events[number]

    def to_bytes(self) -> bytes:
        """Encode as JSON lines, one event per line."""
        return _ENCODER.encode_lines(self.events)

    def digest(self) -> str:
        """Return the SHA-256 hash in hex: equal digests mean equal runs, byte for byte."""
        return hashlib.sha256(self.to_bytes()).hexdigest()


def _discard(_event: Event) -> None:
    """Keep nothing."""


_ENCODER = msgspec.json.Encoder(enc_hook=plain_bytes)
