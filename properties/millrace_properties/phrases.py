"""Each event of a History in a few words, as a label beside its mark in a picture."""

from typing import assert_never

from millrace import MAX_TIME, MIN_TIME, SECOND
from millrace import history as h


def seconds(time_us: int) -> str:
    """A time in seconds, as short as it can be; the two ends by name.

    >>> seconds(2_310_000), seconds(5_006_519), seconds(MAX_TIME), seconds(MIN_TIME)
    ('2.310 s', '5.006519 s', 'end', 'unknown')
    """
    if time_us >= MAX_TIME:
        return "end"
    if time_us <= MIN_TIME:
        return "unknown"
    return f"{f'{time_us / SECOND:.6f}'.removesuffix('000')} s"


def phrase(event: h.Event) -> str:  # noqa: C901, PLR0912  a table of phrases
    """What happened, in a few words; where and when, the reader sees."""
    match event:
        case h.Injected():
            return f"inject {', '.join(dict.fromkeys(one.record_id for one in event.productions))}"
        case h.Delivered():
            return f"{event.computation}: receive {event.record_id}"
        case h.DuplicateDropped():
            return f"{event.computation}: drop {event.record_id} ({event.by})"
        case h.Executed(timer=None):
            return f"{event.computation}: run on {event.cause}{', late' if event.late else ''}"
        case h.Executed():
            tag = event.timer.tag if event.timer else ""
            return f"{event.computation}: timer {tag!r} of {event.key!r} fires"
        case h.UserCodeFailed():
            return f"{event.computation}: user code fails on {event.cause}"
        case h.DeadLettered():
            return f"{event.computation}: dead letter of {event.cause}"
        case h.Applied():
            return _applied(event)
        case h.CheckpointsDeleted():
            return f"delete {len(event.checkpoints)} checkpoints of {event.computation}"
        case h.WriteRefused():
            return f"REFUSE write of {event.sequencer}: {event.live} is live"
        case h.AckSent():
            return f"ACK {', '.join(event.record_ids)}"
        case h.Acked():
            return f"{event.record_id} is done"
        case h.Checkpointed():
            return f"checkpoint straggler {event.record_id}"
        case h.Resent():
            return f"send {event.record_id} again"
        case h.IntervalMinted():
            return f"{event.computation} {event.interval}: sequencer {event.sequencer} for {event.owner}"
        case h.ComputationRemoved():
            return f"{event.computation} leaves"
        case h.VersionAdopted():
            return f"version {event.version} of the pipeline is in force"
        case h.ScanBegun():
            return f"scan {event.interval} of {event.computation} ({event.sequencer})"
        case h.ScanEnded():
            return f"scanned {event.computation}: {found_by(event)}"
        case h.IntervalDropped():
            return f"lose {event.computation} {event.interval} ({event.why})"
        case h.Reported():
            return f"report {event.computation}: {seconds(event.low_watermark)}"
        case h.InjectorReported():
            return f"report: {seconds(event.low_watermark)}"
        case h.Published():
            return ", ".join(f"{name} {seconds(one.low_watermark)}" for name, one in event.values)
        case h.InputWatermarkAdvanced():
            return f"{event.computation}: input watermark {seconds(event.low_watermark)}"
        case h.IdsCollected():
            return f"collect {event.count} ids of {event.computation}"
        case h.RoleClaimed():
            return f"{event.role}: {event.holder}, epoch {event.epoch}"
        case h.Output():
            return f"{event.production.stream}: {event.production.value.decode(errors='replace')[:40]}"
        case h.ProcessStarted():
            return "start" if event.incarnation == 1 else f"start again (incarnation {event.incarnation})"
        case h.KeysSampled():
            return "only some rows are recorded"
        case h.FaultStruck():
            return f"{event.kind} {event.detail}".strip()
        case h.StepReached():
            return f"{event.fault} {event.moment} it {event.step}"
        case h.Healed():
            return "faults end"
        case h.RunEnded():
            return f"the run ends: {event.why}"
        case _:
            assert_never(event)


def found_by(scan: h.ScanEnded) -> str:
    """What a recovery scan brought."""
    found = [f"timer {tag!r} of {key!r}" for key, tag in scan.timers]
    found += [f"production {record_id}" for record_id, _ in scan.productions]
    if len(found) > 3:
        return f"{', '.join(found[:2])} and {len(found) - 2} more"
    return ", ".join(found) or "no timer, no production"


def changes(event: h.Applied) -> list[str]:
    """What a write changed in its row."""
    delta = event.delta
    parts = [f"sets timer {timer.tag!r}" for timer in delta.set_timers]
    parts += [f"removes the fired timer {timer.tag!r}" for timer in delta.fired]
    parts += [f"cancels timer {tag!r}" for tag in delta.cancelled]
    parts += [
        f"checkpoints production {one}" for one in dict.fromkeys(one.record_id for one in delta.productions)
    ]
    return parts or (["changes the state"] if delta.state is not None else ["notes what it has seen"])


def _applied(event: h.Applied) -> str:
    version = f"{event.sequencer}.{event.delta.number}"
    timers = "".join(f", sets timer {timer.tag!r}" for timer in event.delta.set_timers[:1])
    if event.sequencer != event.live:
        return (
            f"STALE write {version} of {event.computation} {event.delta.key!r}{timers} ({event.live} is live)"
        )
    return f"apply {version} of {event.computation} {event.delta.key!r}{timers}"
