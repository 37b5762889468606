"""Causality in a run: its messages, and the causal past of an event.

Events name their subject: a record by its id, a write by its version, an owner by its sequencer. So an event is linked to the one
that created its subject: a record is sent where it is made and arrives where it is `Delivered`; a write leaves with user code
(`Executed`) and arrives where it is `Applied` or refused; and so on. What was made or sent several times is linked by the causes
that the run's host recorded (`headrace.causes`): to the copy that the message carried, or else to the last one that happened
before. In a History without causes, it is taken to be the last one of all.
"""

import enum
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from headrace import history as h
from headrace.causes import Causes
from headrace_properties.closure import closure


class LinkKind(enum.Enum):
    """Why one event had to come before another."""

    RECORD = "record"
    ACK = "ack"
    WRITE = "write"
    REPLY = "reply"
    OWNERSHIP = "ownership"
    WATERMARK = "watermark"
    LOCAL = "local"
    """At one process: no message."""


@dataclass(frozen=True, slots=True)
class Link:
    """One event that led to another.

    Attributes:
        cause: the first event's number in the History.
        effect: the second event's number, always the larger.
        kind: the reason for the order.
        label: what the message carried, for people.
    """

    cause: int
    effect: int
    kind: LinkKind
    label: str = ""


def links_of(history: Sequence[h.Event]) -> list[Link]:
    """Return all cause-effect links, in order of the effects."""
    tracer = _Tracer(history)
    for number, event in enumerate(history):
        tracer.take(number, event)
    return tracer.links


def messages_of(links: Iterable[Link]) -> list[Link]:
    """Return the links between different processes."""
    return [link for link in links if link.kind is not LinkKind.LOCAL]


def causal_past(links: Iterable[Link], of: Iterable[int]) -> set[int]:
    """Return these events and all events that they depend on.

    Earlier events at the same processes are not all included: a report sent in between may have had no effect on these events.
    """
    causes: dict[int, list[int]] = {}
    for link in links:
        causes.setdefault(link.effect, []).append(link.cause)
    return set(closure(of, lambda number: causes.get(number, ())))


def numbers_of(history: Sequence[h.Event], events: Iterable[h.Event]) -> list[int]:
    """Return the positions of these events, such as a verdict's witness, in their History; missing events are left out."""
    numbers = {id(event): number for number, event in enumerate(history)}
    equal = {event: number for number, event in reversed(list(enumerate(history)))}
    positions = [numbers.get(id(event), equal.get(event, -1)) for event in events]
    return [number for number in positions if number >= 0]


_Made = dict[str, list[int]]
"""The events that created the same thing, by process."""


def _last(made_at: _Made, process: str, end: int) -> int | None:
    """Return the last of these events that happened at a process before event number ``end``."""
    numbers = made_at.get(process, ())
    count = bisect_left(numbers, end)
    return numbers[count - 1] if count else None


class _Tracer:
    """Takes events in order, and remembers which event sent what is in flight."""

    def __init__(self, history: Sequence[h.Event]) -> None:
        self.links: list[Link] = []
        self._history = history
        self._causes = Causes.if_known(history)
        self._made_at: dict[tuple[Any, ...], _Made] = {}
        self._made: dict[tuple[str, str], list[tuple[str, str]]] = {}
        self._steps: dict[tuple[int, int], list[str]] = {}
        self._mints: list[tuple[int, h.IntervalMinted]] = []
        self._handlers: dict[type, Callable[[int, Any], None]] = {
            h.Injected: self._on_injected,
            h.Delivered: self._on_delivered,
            h.DuplicateDropped: self._on_duplicate,
            h.Executed: self._on_executed,
            h.Applied: self._on_applied,
            h.WriteRefused: self._on_refused,
            h.CheckpointsDeleted: self._on_deleted,
            h.AckSent: self._on_ack_sent,
            h.Acked: self._on_acked,
            h.Checkpointed: self._on_resent,
            h.Resent: self._on_resent,
            h.IntervalMinted: self._on_minted,
            h.ScanBegun: self._on_scan_begun,
            h.ScanEnded: self._on_scan_ended,
            h.IntervalDropped: self._on_dropped,
            h.Reported: self._on_reported,
            h.InjectorReported: self._on_injector_reported,
            h.Published: self._on_published,
            h.InputWatermarkAdvanced: self._on_advanced,
            h.RoleClaimed: self._on_claimed,
            h.Output: self._on_output,
            h.ProcessStarted: self._on_started,
        }

    def take(self, number: int, event: h.Event) -> None:
        handler = self._handlers.get(type(event))
        if handler is not None:
            handler(number, event)

    def _link(self, effect: int, kind: LinkKind, label: str, *cause: Any) -> bool:
        """Link to the event that created the thing of this name; return whether there is one."""
        cause_number = self._origin(effect, self._made_at.get(cause, {}), message=kind is not LinkKind.LOCAL)
        if cause_number is None:
            return False
        if self._history[cause_number].process == self._history[effect].process:
            kind = LinkKind.LOCAL
        self.links.append(Link(cause_number, effect, kind, label))
        return True

    def _origin(self, effect: int, made_at: _Made, *, message: bool) -> int | None:
        """Choose which of several events led to an effect. ``message``: whether the handled message may have carried it."""
        sender = self._sender(effect) if message else None
        if sender is not None and (carried := _last(made_at, *sender)) is not None:
            return carried
        others = [process for process in made_at if sender is None or process != sender[0]]
        latest = [_last(made_at, process, self._known(effect, process)) for process in others]
        return max([number for number in latest if number is not None], default=None)

    def _sender(self, effect: int) -> tuple[str, int] | None:
        """Return who sent what an effect handled, and until which event it may have put in; ``None``: unknown, or nobody."""
        causes = self._causes
        sent = None if causes is None else causes.sender_of(effect)
        return None if causes is None or sent is None else (causes.process_of(sent), causes.end_of(sent))

    def _known(self, effect: int, process: str) -> int:
        """Return up to which event a process may have led to an effect."""
        return effect if self._causes is None else self._causes.known_of(effect, process)

    def _note(self, number: int, *name: Any) -> None:
        self._made_at.setdefault(name, {}).setdefault(self._history[number].process, []).append(number)

    # Records and ACKs

    def _sends(self, number: int, process: str, record_id: str, consumer: str) -> None:
        self._note(number, "sent", record_id, consumer)
        self._note(number, "sent", record_id, consumer, process)

    def _on_injected(self, number: int, event: h.Injected) -> None:
        for production in event.productions:
            self._sends(number, event.process, production.record_id, production.consumer)

    def _on_delivered(self, number: int, event: h.Delivered) -> None:
        record_id, consumer = event.record_id, event.computation
        if not self._link(number, LinkKind.RECORD, record_id, "sent", record_id, consumer, event.sender):
            self._link(number, LinkKind.RECORD, record_id, "sent", record_id, consumer)
        self._note(number, "delivered", event.process, consumer, record_id)

    def _on_duplicate(self, number: int, event: h.DuplicateDropped) -> None:
        self._link(number, LinkKind.RECORD, event.record_id, "sent", event.record_id, event.computation)
        if event.by != "in progress":
            self._note(number, "acked", event.record_id, event.computation)
            self._note(number, "ran for", event.process, event.computation, event.record_id)

    def _on_executed(self, number: int, event: h.Executed) -> None:
        version = event.version
        if event.timer is None:
            record = (event.computation, event.cause)
            if not self._link(number, LinkKind.LOCAL, "", "delivered", event.process, *record):
                self._link(number, LinkKind.RECORD, event.cause, "sent", event.cause, event.computation)
        else:
            self._link(number, LinkKind.LOCAL, "", "timer", event.computation, event.key, event.timer.tag)
            self._link(number, LinkKind.LOCAL, "", "advanced", version.sequencer)
        self._link(number, LinkKind.LOCAL, "", "scanned", version.sequencer)
        self._steps.setdefault((version.sequencer, version.number), []).append(event.cause)
        self._note(number, "ran", version.sequencer, version.number)
        self._note(number, "ran for", event.process, event.computation, event.cause)
        self._note(number, "unanswered", version.sequencer, event.key)
        for production in event.productions:
            self._sends(number, event.process, production.record_id, production.consumer)
        self._made[event.process, event.cause] = [
            (production.record_id, production.consumer) for production in event.productions
        ]

    def _on_resent(self, number: int, event: h.Resent | h.Checkpointed) -> None:
        self._link(number, LinkKind.LOCAL, "", "sent", event.record_id, event.consumer, event.process)
        if isinstance(event, h.Resent):
            self._sends(number, event.process, event.record_id, event.consumer)

    def _on_output(self, number: int, event: h.Output) -> None:
        record_id = event.production.record_id
        self._link(number, LinkKind.RECORD, record_id, "sent", record_id, event.production.consumer)
        self._note(number, "acked", record_id, event.production.consumer)

    def _on_ack_sent(self, number: int, event: h.AckSent) -> None:
        for record_id in event.record_ids:
            self._link(number, LinkKind.LOCAL, "", "ran for", event.process, event.computation, record_id)
            self._note(number, "acked", record_id, event.computation)
            for production in self._made.pop(
                (event.process, record_id), ()
            ):  # Strong productions are sent with the ACK.
                self._sends(number, event.process, *production)
        self._link(number, LinkKind.REPLY, "written", "applied for", event.computation, event.record_ids[0])

    def _on_acked(self, number: int, event: h.Acked) -> None:
        self._link(number, LinkKind.ACK, event.record_id, "acked", event.record_id, event.consumer)
        self._note(number, "told", event.record_id, event.consumer)

    # Writes

    def _on_applied(self, number: int, event: h.Applied) -> None:
        step, computation, key = (event.sequencer, event.delta.number), event.computation, event.delta.key
        self._link(number, LinkKind.WRITE, f"write {step[0]}.{step[1]}", "ran", *step)
        if event.live != event.sequencer:
            self._link(number, LinkKind.LOCAL, "", "minted", event.live)
        if self._causes is None:
            self._made_at.pop(("unanswered", event.sequencer, key), None)
        for cause in self._steps.get(step, ()):
            self._note(number, "applied for", computation, cause)
        for timer in event.delta.set_timers:
            self._note(number, "timer", computation, key, timer.tag)
        for production in event.delta.productions:
            self._note(number, "checkpoint", production.record_id, production.consumer)

    def _on_refused(self, number: int, event: h.WriteRefused) -> None:
        for key in event.keys:
            if self._link(number, LinkKind.WRITE, "write", "unanswered", event.sequencer, key):
                break
        self._link(number, LinkKind.LOCAL, "", "minted", event.live)
        self._note(number, "refused", event.sequencer)

    def _on_deleted(self, number: int, event: h.CheckpointsDeleted) -> None:
        for _, record_id, consumer in event.checkpoints[:1]:
            self._link(number, LinkKind.WRITE, "delivered", "told", record_id, consumer)

    # Ownership

    def _on_started(self, number: int, event: h.ProcessStarted) -> None:
        self._note(number, "started", f"{event.process}#{event.incarnation}")

    def _on_claimed(self, number: int, event: h.RoleClaimed) -> None:
        self._link(number, LinkKind.OWNERSHIP, event.role, "started", event.holder)

    def _on_minted(self, number: int, event: h.IntervalMinted) -> None:
        self._mints.append((number, event))
        self._note(number, "minted", event.sequencer)

    def _on_scan_begun(self, number: int, event: h.ScanBegun) -> None:
        self._link(number, LinkKind.OWNERSHIP, f"sequencer {event.sequencer}", "minted", event.sequencer)
        self._note(number, "scanning", event.sequencer)

    def _on_scan_ended(self, number: int, event: h.ScanEnded) -> None:
        self._link(number, LinkKind.LOCAL, "", "scanning", event.sequencer)
        rows: list[tuple[str, ...]] = [("timer", event.computation, key, tag) for key, tag in event.timers]
        rows += [("checkpoint", *production) for production in event.productions]
        origins = [self._origin(number, self._made_at.get(row, {}), message=True) for row in rows]
        written = max([origin for origin in origins if origin is not None], default=None)
        if written is not None:
            self.links.append(Link(written, number, LinkKind.REPLY, "rows"))
        for record_id, consumer in event.productions:
            self._sends(number, event.process, record_id, consumer)
        self._note(number, "scanned", event.sequencer)

    def _on_dropped(self, number: int, event: h.IntervalDropped) -> None:
        if event.why == "refused":
            self._link(number, LinkKind.REPLY, "refused", "refused", event.sequencer)
            return
        for minted, mint in reversed(self._mints):
            overlaps = mint.computation == event.computation and mint.interval.overlaps(event.interval)
            if overlaps and mint.sequencer > event.sequencer and minted < self._known(number, mint.process):
                self.links.append(Link(minted, number, LinkKind.OWNERSHIP, f"sequencer {mint.sequencer}"))
                return

    # Watermarks

    def _on_reported(self, number: int, event: h.Reported) -> None:
        self._link(number, LinkKind.LOCAL, "", "advanced", event.sequencer)
        self._note(number, "reported", event.computation)

    def _on_injector_reported(self, number: int, event: h.InjectorReported) -> None:
        self._note(number, "reported", event.injector)

    def _on_published(self, number: int, event: h.Published) -> None:
        for name, _ in event.values:
            self._link(number, LinkKind.WATERMARK, f"report of {name}", "reported", name)
        self._note(number, "published")

    def _on_advanced(self, number: int, event: h.InputWatermarkAdvanced) -> None:
        sender = self._sender(number)
        published = None if sender is None else _last(self._made_at.get(("published",), {}), *sender)
        if published is not None:
            self.links.append(Link(published, number, LinkKind.WATERMARK, "watermarks"))
        self._note(number, "advanced", event.sequencer)
