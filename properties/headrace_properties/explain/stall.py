"""Explain what a run waits for in vain, who touched it last, and which rule was due next (MillWheel 4.5, 4.6, 6.1, 7.1).

A violation of liveness has no event that is wrong: one is missing. So its story is what happened to the one thing that is
awaited, up to the last event that touched it, and the rule by which the next would have followed.
"""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass

from headrace import MIN_TIME, Clock, rules
from headrace import history as h
from headrace.wire.effects import SourceRecord
from headrace.wire.messages import STORE
from headrace.wire.rows import RowDelta, StoredTimer
from headrace_properties.explain.event_summaries import seconds
from headrace_properties.explain.tenures import Tenure, outages_of, tenures_of
from headrace_properties.verdict import Awaited, AwaitedKind


@dataclass(frozen=True, slots=True)
class Stall:
    """Why a run stopped making progress.

    Attributes:
        opening: what is awaited, and since when.
        touches: numbers of the events that touched it, in order; of repeated events, the first and the last.
        times: event number to how often similar events happened, if more than twice.
        processes: the processes whose faults belong to the story: its owners, and those that touched it.
        next: what should have happened next, with the rule that says so.
    """

    opening: str
    touches: tuple[int, ...]
    times: dict[int, int]
    processes: frozenset[str]
    next: str


def waiting_for(history: Sequence[h.Event], awaited: Awaited) -> Stall:
    """Find out what happened to what is awaited.

    Args:
        history: of the whole run.
        awaited: what a liveness checker found missing.
    """
    return _Inquiry(history, awaited).result()


def rule_words(name: str) -> str:
    """Return a rule of `headrace.rules` with its place and its sentence.

    >>> rule_words("acks_duplicate").partition("): ")[2]
    'Return whether a duplicate is ACKed: it is discarded and ACKed, lest its sender retry indefinitely (6.1.1).'
    """
    rule = getattr(rules.Rules, name)
    sentence = (inspect.getdoc(rule) or "").partition("\n\n")[0]
    return f"rule {name} (core/headrace/rules.py, line {inspect.getsourcelines(rule)[1]}): {' '.join(sentence.split())}"


_REPEATED = (h.Resent, h.Delivered, h.DuplicateDropped, h.UserCodeFailed, h.AckSent, h.Acked, h.IdsCollected)
"""Events that may repeat for one thing; only the first and the last are listed."""


class _Inquiry:
    """Follows one awaited thing through a History."""

    def __init__(self, history: Sequence[h.Event], awaited: Awaited) -> None:
        self._history = history
        self._awaited = awaited
        tenures = [tenure for tenure in tenures_of(history) if tenure.computation == awaited.computation]
        if awaited.kind is AwaitedKind.WATERMARK:
            self._tenures = [tenure for tenure in tenures if tenure.replaced is None]
            touched = self._last_reports()
        else:
            self._tenures = [tenure for tenure in tenures if tenure.interval.contains(awaited.key)]
            touched = [number for number, event in enumerate(history) if self._touches(event)]
        sequencers = {tenure.sequencer for tenure in self._tenures}
        self._of_owners = [
            number for number, event in enumerate(history) if getattr(event, "sequencer", None) in sequencers
        ]
        self._touched = touched

    def result(self) -> Stall:
        about = (h.IntervalMinted, h.ScanBegun, h.ScanEnded, h.IntervalDropped)
        owned = [number for number in self._of_owners if isinstance(self._history[number], about)]
        numbers, times = self._folded(sorted({*self._touched, *owned}))
        step, rule = self._next()
        opening = f"Awaited since {seconds(self._awaited.since_us)}: {self._what()}."
        touching = {self._history[number].process for number in numbers} - {STORE, ""}
        processes = frozenset(touching | {tenure.owner for tenure in self._tenures})
        return Stall(
            opening, numbers, times, processes, f"What had to come next: {step}. It is {rule_words(rule)}"
        )

    def _folded(self, numbers: Sequence[int]) -> tuple[tuple[int, ...], dict[int, int]]:
        alike: dict[tuple[type, str], list[int]] = {}
        for number in numbers:
            event = self._history[number]
            like = event.process if isinstance(event, _REPEATED) else str(number)
            alike.setdefault((type(event), like), []).append(number)
        ends = sorted({number for group in alike.values() for number in (group[0], group[-1])})
        return tuple(ends), {group[-1]: len(group) for group in alike.values() if len(group) > 2}

    # What is awaited, and what touches it

    def _what(self) -> str:
        awaited = self._awaited
        key = f"key {awaited.key!r} at {awaited.computation!r}"
        match awaited.kind:
            case AwaitedKind.RECORD:
                to = repr(awaited.computation) if awaited.computation else "the outside"
                return f"{to} has yet to apply record {awaited.name} (key {awaited.key!r})"
            case AwaitedKind.TIMER:
                return f"timer {awaited.name!r} of {key} has yet to fire"
            case AwaitedKind.HOLD:
                return f"the state of {key} still holds the low watermark at {seconds(awaited.time_us)}"
            case AwaitedKind.CHECKPOINT:
                return f"the checkpoint of {awaited.name} in {key} is still to be deleted"
            case AwaitedKind.ID:
                return f"the id {awaited.name} in {key} is still to be collected"
            case AwaitedKind.INTERVAL:
                return f"the keys {awaited.name} of {awaited.computation!r} have nobody who works on them"
            case AwaitedKind.WATERMARK:
                return f"the low watermark of {awaited.computation!r} has yet to reach {seconds(awaited.time_us)}"
            case AwaitedKind.INJECTION:
                record = f"record at offset {awaited.name} (key {awaited.key!r})"
                return f"{awaited.computation} has yet to inject its source's {record}"

    def _touches(self, event: h.Event) -> bool:
        awaited = self._awaited
        match awaited.kind:
            case AwaitedKind.RECORD | AwaitedKind.ID:
                if isinstance(event, h.IdsCollected) and awaited.kind is AwaitedKind.ID:
                    return event.computation == awaited.computation and event.interval.contains(awaited.key)
                return _touches_record(event, awaited.name, awaited.computation)
            case AwaitedKind.CHECKPOINT:
                return _touches_record(event, awaited.name, awaited.consumer)
            case AwaitedKind.TIMER:
                return self._touches_row(event, awaited.name)
            case AwaitedKind.HOLD:
                return self._touches_row(event, None)
            case AwaitedKind.INTERVAL:
                return isinstance(event, h.ProcessStarted) and event.process in {
                    tenure.owner for tenure in self._tenures
                }
            case AwaitedKind.WATERMARK:
                return False
            case AwaitedKind.INJECTION:
                return self._touches_injection(event)

    def _touches_injection(self, event: h.Event) -> bool:
        """Return whether an event concerns a record in a source, or the process that reads it."""
        process, offset = self._awaited.computation, int(self._awaited.name)
        match event:
            case h.SourceHeld(what=SourceRecord(offset=at)):
                return (event.process, at) == (process, offset)
            case h.Injected():
                return event.process == process and event.offset in (offset - 1, offset + 1)
            case h.RoleClaimed(role=role):
                return role == process
            case _:
                return isinstance(event, h.ProcessStarted) and event.process == process

    def _touches_row(self, event: h.Event, tag: str | None) -> bool:
        """Return whether an event concerns a timer of the key; ``None`` means any of its timers, or its hold."""
        here = (self._awaited.computation, self._awaited.key)
        match event:
            case h.Applied(computation=name, delta=delta) if (name, delta.key) == here:
                tags = {*(timer.tag for timer in (*delta.set_timers, *delta.fired)), *delta.cancelled}
                return (delta.hold is not None or bool(tags)) if tag is None else tag in tags
            case h.Executed(computation=name, key=key, timer=StoredTimer(tag=fired)):
                return (name, key) == here and tag in (None, fired)
            case h.UserCodeFailed(computation=name, key=key, cause=cause):
                return (name, key) == here and (tag is None or cause.endswith(f"!{tag}"))
            case h.WriteRefused(computation=name, keys=keys):
                return name == here[0] and here[1] in keys
            case _:
                return False

    def _last_reports(self) -> list[int]:
        """The last report and input of each owner, or of the injector; who combines them, and what rose last by broadcast."""
        name, low = self._awaited.computation, MIN_TIME
        live = {tenure.sequencer for tenure in self._tenures}
        last: dict[tuple[type, object], int] = {}
        for number, event in enumerate(self._history):
            match event:
                case h.Reported(sequencer=sequencer) | h.InputWatermarkAdvanced(sequencer=sequencer):
                    if sequencer in live:
                        last[type(event), sequencer] = number
                case h.InjectorReported(injector=injector) if injector == name:
                    last[type(event), event.process] = number
                case h.RoleClaimed(role=role) if role.startswith("authority"):
                    last[type(event), role] = number
                case h.Published(values=values):
                    value = dict(values).get(name)
                    if value is not None and value.low_watermark > low:
                        low = value.low_watermark
                        last[type(event), ""] = number
                case _:
                    pass
        return sorted(last.values())

    # What had to happen next: in words, with the rule

    def _next(self) -> tuple[str, str]:
        match self._awaited.kind:
            case AwaitedKind.RECORD:
                return self._lost_owner() or self._next_of_record()
            case AwaitedKind.TIMER:
                return self._lost_owner() or self._next_of_timer(self._awaited.name)
            case AwaitedKind.HOLD:
                return self._lost_owner() or self._next_of_hold()
            case AwaitedKind.CHECKPOINT:
                return self._lost_owner() or self._next_of_checkpoint()
            case AwaitedKind.ID:
                return "the owner has the store collect it, as the horizon has passed it", "collects_below"
            case AwaitedKind.INTERVAL:
                return self._lost_owner() or ("the owner follows the master's table", "adopts_version")
            case AwaitedKind.WATERMARK:
                return self._next_of_watermark()
            case AwaitedKind.INJECTION:
                return self._next_of_injection()

    @property
    def _owner(self) -> Tenure | None:
        live = [tenure for tenure in self._tenures if tenure.replaced is None]
        return live[-1] if live else None

    def _lost_owner(self) -> tuple[str, str] | None:
        """Return what had to happen next for the keys to get a working owner; ``None`` if they have one, or need none."""
        owner = self._owner
        if owner is None:
            return (
                ("the master gives the keys to an owner", "is_orphan") if self._awaited.computation else None
            )
        return self._lost(owner)

    def _is_down(self, process: str) -> bool:
        """Return whether a process has stopped for good."""
        lasting = [
            outage.kind
            for outage in outages_of(self._history)
            if outage.process == process and outage.end is None
        ]
        return "crash" in lasting or "pause" in lasting

    def _lost(self, owner: Tenure) -> tuple[str, str] | None:
        if owner.forgotten is not None or self._is_down(owner.owner):
            return f"the master replaces {owner.owner}, which does not work on the keys any more", "is_orphan"
        if owner.scan_ended is None and owner.scan_begun is None:
            return f"{owner.owner} hears that it owns the keys, and scans their rows", "scans_first"
        if owner.scan_ended is None:
            return f"{owner.owner} ends the scan that it has begun", "continues_scan"
        return None

    def _since_scan(self) -> list[h.Event]:
        """Return what touched it since its current owner scanned it."""
        owner = self._owner
        begin = 0 if owner is None or owner.scan_ended is None else owner.scan_ended
        return [self._history[number] for number in self._touched if number > begin]

    def _next_of_record(self) -> tuple[str, str]:
        consumer = self._awaited.computation
        at_owner = [event for event in self._since_scan() if getattr(event, "computation", None) == consumer]
        match at_owner[-1] if at_owner else None:
            case h.Executed(process=process):
                return f"{process} commits what user code did for it", "needs_write"
            case h.UserCodeFailed(process=process):
                return f"{process} runs user code for it again", "order"
            case h.Delivered(process=process):
                return f"{process} runs user code for it", "order"
            case h.DuplicateDropped(process=process, by=h.KnownBy.HORIZON):
                return f"{process} processes it instead of taking it for a remnant", "is_remnant"
            case h.DuplicateDropped(process=process, by=h.KnownBy.ID):
                return f"{process} processes it instead of taking it for a duplicate", "is_duplicate"
            case _:
                pass
        acked = [
            self._history[number] for number in self._touched if isinstance(self._history[number], h.Acked)
        ]
        if acked:
            at, sender = seconds(acked[-1].at_us), acked[-1].process
            words = (
                f"nothing. The ACK came too early: {sender} was told at {at} that it is done, and forgot it"
            )
            return words, "order"
        return "its sender sends it again, until it is ACKed", "retries"

    def _next_of_timer(self, tag: str) -> tuple[str, str]:
        owner = self._owner
        assert owner is not None, "the keys have no owner"
        at_owner = [event for event in self._since_scan() if event.process == owner.owner]
        match at_owner[-1] if at_owner else None:
            case h.Executed():
                return f"{owner.owner} commits what user code did for the timer", "needs_write"
            case h.UserCodeFailed():
                return f"{owner.owner} runs user code for the timer again", "order"
            case _:
                pass
        set_at, timer = self._timer(tag)
        if timer is None:
            return f"{owner.owner} looks at the timer", "queues"
        low = self._input_of(owner)
        if timer.clock is Clock.WATERMARK and low < timer.due:
            heard = f"hears that its input is complete up to {seconds(timer.due)}; it knows of {seconds(low)}"
            return f"{owner.owner} {heard}", "input_watermark"
        scan = None if owner.scan_ended is None else self._history[owner.scan_ended]
        is_scanned = isinstance(scan, h.ScanEnded) and (self._awaited.key, tag) in scan.timers
        if owner.scan_ended is not None and set_at < owner.scan_ended and not is_scanned:
            return f"{owner.owner} finds the timer in its scan, and queues it", "recovered"
        passed = "the low watermark" if timer.clock is Clock.WATERMARK else "its clock"
        return f"{owner.owner} fires the timer, as {passed} has passed {seconds(timer.due)}", "may_fire"

    def _timer(self, tag: str) -> tuple[int, StoredTimer | None]:
        """Return the key's last-set timer, and the event that set it."""
        for number in reversed(self._touched):
            event = self._history[number]
            if isinstance(event, h.Applied):
                for timer in event.delta.set_timers:
                    if timer.tag == tag:
                        return number, timer
        return 0, None

    def _input_of(self, owner: Tenure) -> int:
        """Return how far an owner knows its input to be complete, event time in microseconds."""
        heard = [self._history[number] for number in self._of_owners]
        own = [
            event
            for event in heard
            if isinstance(event, h.InputWatermarkAdvanced) and event.sequencer == owner.sequencer
        ]
        return own[-1].low_watermark if own else MIN_TIME

    def _next_of_hold(self) -> tuple[str, str]:
        pending: dict[str, StoredTimer] = {}
        for number in self._touched:
            event = self._history[number]
            if isinstance(event, h.Applied):
                for gone in (*(timer.tag for timer in event.delta.fired), *event.delta.cancelled):
                    pending.pop(gone, None)
                pending |= {timer.tag: timer for timer in event.delta.set_timers}
        if pending:
            first = min(pending.values(), key=lambda timer: timer.due)
            step, rule = self._next_of_timer(first.tag)
            return (
                f"timer {first.tag!r} of the key, due at {seconds(first.due)}, may end the hold: {step}",
                rule,
            )
        return "user code ends the hold, which no timer of the key is set to do", "holds_watermark"

    def _next_of_checkpoint(self) -> tuple[str, str]:
        acked = [event for event in self._since_scan() if isinstance(event, h.Acked)]
        if acked:
            return f"{acked[-1].process}, which knows that it was ACKed, deletes it", "deletes_checkpoint"
        if any(isinstance(event, h.DuplicateDropped) for event in self._since_scan()):
            return "its consumer ACKs the copy that it drops", "acks_duplicate"
        return "its owner sends it again, until it is ACKed", "retries"

    def _next_of_injection(self) -> tuple[str, str]:
        process, offset = self._awaited.computation, int(self._awaited.name)
        if self._is_down(process):
            return f"{process} starts again, and reads on from the oldest unfinished record", "resumes_at"
        injected = [
            event.offset
            for event in self._history
            if isinstance(event, h.Injected) and event.process == process
        ]
        if max(injected, default=0) > offset:
            return (
                f"{process} reads it: the oldest unfinished record comes before any that is newer",
                "resumes_at",
            )
        return f"{process} injects it, unless its timestamp is beyond the skew limit", "may_inject"

    def _next_of_watermark(self) -> tuple[str, str]:
        name, aim_us = self._awaited.computation, self._awaited.time_us
        reports = [self._history[number] for number in self._touched]
        for owner in self._tenures:
            own = [
                event
                for event in reports
                if isinstance(event, h.Reported) and event.sequencer == owner.sequencer
            ]
            if own and own[-1].low_watermark >= aim_us:
                continue
            if lost := self._lost(owner):
                return lost
            if not own:
                return f"{owner.owner} reports how far the keys {owner.interval} are", "may_report"
            if self._input_of(owner) < aim_us:
                return f"{owner.owner} hears that its input has reached {seconds(aim_us)}", "input_watermark"
            return (
                f"{owner.owner} reports that the keys {owner.interval} have reached {seconds(aim_us)}",
                "low_watermark",
            )
        for report in reports:
            if isinstance(report, h.InjectorReported) and report.low_watermark < aim_us:
                return (
                    f"{report.process} reports that all before {seconds(aim_us)} has been delivered",
                    "holds_watermark",
                )
        for claimed in reports:
            if isinstance(claimed, h.RoleClaimed):
                holder, _, incarnation = claimed.holder.partition("#")
                if self._is_down(holder) or self._incarnation(holder) > int(incarnation):
                    return (
                        f"a standby takes over from {claimed.holder}, which has lost its memory",
                        "may_lead",
                    )
        return (
            f"the authority combines what was reported of {name!r}, journals it, and broadcasts it",
            "takes_report",
        )

    def _incarnation(self, process: str) -> int:
        started = [
            event
            for event in self._history
            if isinstance(event, h.ProcessStarted) and event.process == process
        ]
        return max((process_started.incarnation for process_started in started), default=0)


def _touches_record(event: h.Event, record_id: str, consumer: str) -> bool:
    """Return whether an event concerns a consumer's copy of a record."""
    match event:
        case h.Injected(productions=produced) | h.Applied(delta=RowDelta(productions=produced)) if any(
            (production.record_id, production.consumer) == (record_id, consumer) for production in produced
        ):
            return True
        case h.Delivered() | h.DuplicateDropped():
            return (event.record_id, event.computation) == (record_id, consumer)
        case h.Executed() | h.UserCodeFailed() | h.DeadLettered():
            return (event.cause, event.computation) == (record_id, consumer)
        case h.Applied(computation=name, delta=delta):
            return name == consumer and any(seen_id == record_id for seen_id, _ in delta.seen)
        case h.AckSent(computation=name, record_ids=ids):
            return name == consumer and record_id in ids
        case h.Acked() | h.Resent() | h.Checkpointed():
            return (event.record_id, event.consumer) == (record_id, consumer)
        case h.Output(production=produced):
            return (produced.record_id, consumer) == (record_id, "")
        case _:
            return False
