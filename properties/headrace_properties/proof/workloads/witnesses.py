"""Workloads that compute what their user code must have been called with, and how ownership must have followed the load."""

from itertools import groupby
from typing import Any

import msgspec

from headrace import MILLISECOND, SECOND, Computation, Context, Pipeline, Record, Timer
from headrace.history import Executed, FaultStruck, History, IntervalMinted
from headrace.wire.keys import ALL_KEYS
from headrace_properties.proof.workloads.workload import SHORT, Workload, letters
from headrace_properties.proof.workloads.workload_computations import WINDOW_US, Echo


class Testifier(Computation):
    """Records everything that it is called with."""

    def process_record(self, context: Context, record: Record) -> None:
        """Tell of a record, and set a timer of each kind."""
        context.state["count"] = context.state.get("count", 0) + record.value
        said = [record.record_id, record.key, record.stream, record.late]
        context.produce("told", [*said, *_around(context), record.timestamp])
        context.set_timer("event", record.timestamp + WINDOW_US)
        context.set_wall_timer("wall", context.wall_time + 200 * MILLISECOND)
        context.set_wall_timer("held", context.wall_time + 300 * MILLISECOND, hold=record.timestamp)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Tell of a timer."""
        said = [timer.tag, timer.clock.value, timer.timestamp]
        context.produce("told", [*said, *_around(context)], timestamp=max(context.stamp, 0))


def _around(context: Context) -> list[Any]:
    return [context.key, context.low_watermark, context.wall_time]


def witnesses() -> Workload:
    """Return a workload whose user code sends what it is told of each record, timer and time, to compare with the History."""
    pipeline = Pipeline("witnesses")
    pipeline.injector("letters")
    pipeline.add(Testifier(), name="witnesses", inputs=["letters"], outputs=["told"], split_at=["b"])
    feed = letters(pipeline, "witnesses", records=8, late=True)
    return Workload("witnesses", pipeline, feed, SHORT, unexpected=_misled)


def _misled(history: History) -> str:
    """Say which values passed to user code were wrong; a machine's clock is right to a second, unless somebody sets it."""
    is_set = any(isinstance(event, FaultStruck) for event in history)
    for event in history:
        if not isinstance(event, Executed) or not event.productions:
            continue
        (value,) = {production.value for production in event.productions}
        *said, wall = msgspec.json.decode(value)[: 7 if event.timer is None else 6]
        timer, low = event.timer, event.input_watermark
        if timer is None:
            if event.late != (event.timestamp < low):
                return f"{event.cause} is flagged {event.late}, and the watermark is {low}"
            expected = [event.cause, event.key, "letters", event.late, event.key, low]
        else:
            expected = [timer.tag, timer.clock.value, timer.timestamp, event.key, low]
        if said != expected or not (is_set or abs(wall - event.at_us) < 1_100 * MILLISECOND):
            return f"{event.cause} was told {said} at {wall}, and not {expected} at {event.at_us}"
    return ""


def busy() -> Workload:
    """Return more records for a while than an interval may have, and then none: it is split, moved and merged again (7.1)."""
    pipeline = Pipeline("busy")
    pipeline.injector("letters")
    pipeline.add(Echo("sent"), name="senders", inputs=["letters"], outputs=["sent"])
    keys = [f"{letter}{number}" for letter in "abcd" for number in range(3)]
    feed = letters(
        pipeline, "busy", records=90, gap_ms=110, keys=keys, quiet_us=4 * SECOND, begin_us=700 * MILLISECOND
    )
    one = Workload("busy", pipeline, feed, SHORT, unexpected=_unbalanced)
    return one.varied(
        "busy", balance_period_us=400 * MILLISECOND, split_load=_HOT, merge_load=_COLD, overload=1.5
    )


def _unbalanced(history: History) -> str:
    """Say what was done for no load, or not done for it, if nothing disturbed the run."""
    if any(isinstance(event, FaultStruck) for event in history):
        return ""
    mints = [event for event in history if isinstance(event, IntervalMinted)]
    runs = [event for event in history if isinstance(event, Executed)]
    if mints[-1].interval != ALL_KEYS or not any(mint.interval != ALL_KEYS for mint in mints):
        return f"the key space was not divided and joined again, but ended as {mints[-1].interval}"
    if len({mint.owner for mint in mints}) < 2:
        return "nobody shared the work"
    known = {ALL_KEYS: mints[0]}
    for at_us, changes in groupby(mints[1:], lambda mint: mint.at_us):
        new = {mint.interval: mint for mint in changes}
        for interval, mint in new.items():
            hosts = [one.at_us for host, one in known.items() if host.overlaps(interval)]
            came = [run.at_us for run in runs if run.at_us < at_us and interval.contains(run.key)]
            if interval in known and known[interval].owner == mint.owner:
                return f"{interval} was minted again for its owner at {at_us} us"
            if len(hosts) == 1 and not came:
                return f"{interval} was split off at {at_us} us, and had no records"
            starts = range(at_us - 600 * MILLISECOND, at_us - _BEAT_US, 50 * MILLISECOND)
            fewest = min(sum(start <= at_us < start + _BEAT_US for at_us in came) for start in starts)
            if (
                len(hosts) > 1 and fewest >= 2 * _COLD and max(hosts) < starts[0]
            ):  # a new owner has counted few
                return f"{interval} was merged at {at_us} us, and had {fewest} records in a heartbeat"
        known = {
            host: minted
            for host, minted in known.items()
            if not any(host.overlaps(interval) for interval in new)
        }
        known |= new
    return ""


_BEAT_US = 250 * MILLISECOND


_HOT, _COLD = 5, 3
"""Records in a heartbeat's time with which an interval is split, and merged."""
