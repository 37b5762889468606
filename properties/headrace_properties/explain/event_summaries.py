"""Each event of a History in a few words, as a label beside its mark in a picture."""

from collections.abc import Callable
from typing import Any

from headrace import MAX_TIME, MIN_TIME, SECOND
from headrace import history as h
from headrace.wire.effects import SourceWatermark


def seconds(time_us: int) -> str:
    """Write a time in seconds, as short as possible; the two ends of time by name.

    >>> seconds(2_310_000), seconds(5_006_519), seconds(MAX_TIME), seconds(MIN_TIME)
    ('2.310 s', '5.006519 s', 'end', 'unknown')
    """
    if time_us >= MAX_TIME:
        return "end"
    if time_us <= MIN_TIME:
        return "unknown"
    return f"{f'{time_us / SECOND:.6f}'.removesuffix('000')} s"


def phrase(event: h.Event) -> str:
    """Describe an event in a few words, without its place and time, which the picture shows."""
    return _PHRASES[type(event)](event)


def found_by(scan: h.ScanEnded) -> str:
    """Describe what a recovery scan returned."""
    parts = [f"timer {tag!r} of {key!r}" for key, tag in scan.timers]
    parts += [f"production {record_id}" for record_id, _ in scan.productions]
    if len(parts) > 3:
        return f"{', '.join(parts[:2])} and {len(parts) - 2} more"
    return ", ".join(parts) or "no timer, no production"


def _applied(event: h.Applied) -> str:
    version = f"{event.sequencer}.{event.delta.number}"
    timers = "".join(f", sets timer {timer.tag!r}" for timer in event.delta.set_timers[:1])
    if event.sequencer != event.live:
        return (
            f"STALE write {version} of {event.computation} {event.delta.key!r}{timers} ({event.live} is live)"
        )
    return f"apply {version} of {event.computation} {event.delta.key!r}{timers}"


def _ran(event: h.Executed) -> str:
    if event.timer is not None:
        return f"{event.computation}: timer {event.timer.tag!r} of {event.key!r} fires"
    return f"{event.computation}: run on {event.cause}{', late' if event.late else ''}"


_PHRASES: dict[type, Callable[[Any], str]] = {
    h.SourceHeld: lambda e: (
        f"source: watermark {seconds(e.what.low_watermark)}"
        if isinstance(e.what, SourceWatermark)
        else f"source: record {e.what.offset}"
    ),
    h.Injected: lambda e: (
        f"inject {', '.join(dict.fromkeys(production.record_id for production in e.productions))}"
    ),
    h.Delivered: lambda e: f"{e.computation}: receive {e.record_id}",
    h.DuplicateDropped: lambda e: f"{e.computation}: drop {e.record_id} ({e.by})",
    h.Executed: _ran,
    h.UserCodeFailed: lambda e: f"{e.computation}: user code fails on {e.cause}",
    h.DeadLettered: lambda e: f"{e.computation}: dead letter of {e.cause}",
    h.Applied: _applied,
    h.CheckpointsDeleted: lambda e: f"delete {len(e.checkpoints)} checkpoints of {e.computation}",
    h.WriteRefused: lambda e: f"REFUSE write of {e.sequencer}: {e.live} is live",
    h.AckSent: lambda e: f"ACK {', '.join(e.record_ids)}",
    h.Acked: lambda e: f"{e.record_id} is done",
    h.Checkpointed: lambda e: f"checkpoint straggler {e.record_id}",
    h.Resent: lambda e: f"send {e.record_id} again",
    h.IntervalMinted: lambda e: f"{e.computation} {e.interval}: sequencer {e.sequencer} for {e.owner}",
    h.ComputationRemoved: lambda e: f"{e.computation} leaves",
    h.VersionAdopted: lambda e: f"version {e.version} of the pipeline is in force",
    h.ScanBegun: lambda e: f"scan {e.interval} of {e.computation} ({e.sequencer})",
    h.ScanEnded: lambda e: f"scanned {e.computation}: {found_by(e)}",
    h.IntervalDropped: lambda e: f"lose {e.computation} {e.interval} ({e.why})",
    h.Reported: lambda e: f"report {e.computation}: {seconds(e.low_watermark)}",
    h.InjectorReported: lambda e: f"report: {seconds(e.low_watermark)}",
    h.Published: lambda e: ", ".join(f"{name} {seconds(report.low_watermark)}" for name, report in e.values),
    h.InputWatermarkAdvanced: lambda e: f"{e.computation}: input watermark {seconds(e.low_watermark)}",
    h.IdsCollected: lambda e: f"collect {e.count} ids of {e.computation}",
    h.RoleClaimed: lambda e: f"{e.role}: {e.holder}, epoch {e.epoch}",
    h.Output: lambda e: f"{e.production.stream}: {e.production.value.decode(errors='replace')[:40]}",
    h.ProcessStarted: lambda e: (
        "start" if e.incarnation == 1 else f"start again (incarnation {e.incarnation})"
    ),
    h.KeysSampled: lambda _: "only some rows are recorded",
    h.FaultStruck: lambda e: f"{e.kind} {e.detail}".strip(),
    h.StepReached: lambda e: f"{e.fault} {e.moment} it {e.step}",
    h.Rested: lambda e: f"nothing to do: {seconds(e.for_us)} skipped",
    h.Healed: lambda _: "faults end",
    h.RunEnded: lambda e: f"the run ends: {e.why}",
}
"""The summary of each kind of event."""
