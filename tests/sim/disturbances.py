"""A pipeline that is disturbed: when and whom faults strike, an example of each kind, and what is read from such a run."""

from headrace import MILLISECOND, SECOND
from headrace import history as h
from headrace.wire.messages import MoveInterval
from headrace_sim import ClusterOptions
from headrace_sim import faults as f
from tests.sim.rig import (
    CHECKED,
    Run,
    assert_as_reference,
    assert_sound,
    calm_owner,
    letters,
    mail,
    run,
)

AT = 2 * SECOND
"""When most faults begin: in the middle of the feed."""

COUNTER = calm_owner("counter", "arco")
"""Owns an interval of the second stage, and nothing of the first."""

SORTER = calm_owner("sorter", "zeno")
"""Owns an interval of the first stage, and nothing of the second."""


SPAN = 500 * MILLISECOND
"""A short while."""

MOVE = MoveInterval("counter", "arco")

ADDRESSES = (
    "worker-0", "worker-1", "worker-2", "master-0", "master-1", "authority-0.0", "authority-0.1", "mail/0",
)  # fmt: skip


def disturbed(*faults: f.AnyFault, options: ClusterOptions = CHECKED) -> Run:
    """Run `mail` with these faults; whatever they are, the run is sound and its output is that of a run without faults."""
    pipeline = mail()
    done = run(pipeline, letters(pipeline), *faults, options=options)
    assert_sound(done)
    assert_as_reference(done)
    return done


def events_of(done: Run, process: str, begin_us: int, end_us: int) -> list[h.Event]:
    """What a process did between two times (both exclusive), by its own account."""
    return [
        event
        for event in done.history
        if event.process == process
        and begin_us < event.at_us < end_us
        and not isinstance(event, h.FaultStruck)
    ]


def executed(done: Run, computation: str, process: str = "") -> list[h.Executed]:
    return [e for e in done.all(h.Executed) if e.computation == computation and process in ("", e.process)]


def applied(done: Run, computation: str) -> list[h.Applied]:
    return [event for event in done.all(h.Applied) if event.computation == computation]


def minted_after(done: Run, at_us: int) -> list[h.IntervalMinted]:
    return [event for event in done.all(h.IntervalMinted) if event.at_us > at_us]


EXAMPLES: dict[type[f.Fault], tuple[f.AnyFault, ...]] = {
    f.Crash: (f.Crash(at_us=AT, process=COUNTER, restart_after_us=SECOND),),
    f.Pause: (f.Pause(at_us=AT, process=COUNTER, for_us=SECOND),),
    f.Partition: (f.Partition(at_us=AT, side=(COUNTER,), for_us=SECOND),),
    f.Noise: (f.Noise(at_us=AT, for_us=SECOND, drop=0.2, duplicate=0.2, delay=0.2, delay_us=SECOND),),
    f.Hold: (f.Hold(at_us=AT, message="Report", count=2, for_us=SECOND),),
    f.DropMessages: (f.DropMessages(at_us=AT, message="Ack", count=2),),
    f.DelayCommit: (f.DelayCommit(at_us=AT, process=COUNTER, count=2, by_us=SECOND),),
    f.LoseCommit: (f.LoseCommit(at_us=AT, process=COUNTER, count=2),),
    f.LoseReply: (f.LoseReply(at_us=AT, process=COUNTER, count=2),),
    f.DuplicateCommit: (f.DuplicateCommit(at_us=AT, process=COUNTER, count=2, by_us=SECOND),),
    f.StoreUnavailable: (f.StoreUnavailable(at_us=AT, for_us=SECOND),),
    f.StoreErrors: (
        f.Operate(at_us=AT, verb=MoveInterval("counter", "arco")),
        f.StoreErrors(at_us=AT, for_us=SECOND, rate=1.0),
    ),
    f.Slow: (f.Slow(at_us=AT, process=COUNTER, for_us=SECOND, factor=1_000),),
    f.SkewClock: (f.SkewClock(at_us=AT, process=COUNTER, by_us=-SECOND, for_us=SECOND),),
    f.LateRecords: (f.LateRecords(at_us=AT, process="mail/0", count=3, by_us=100 * MILLISECOND),),
    f.StallSource: (f.StallSource(at_us=AT, process="mail/0", for_us=SECOND),),
    f.Operate: (f.Operate(at_us=AT, verb=MoveInterval("counter", "arco")),),
}  # fmt: skip


def gone(fault: type[f.Fault], process: str, at_us: int, for_us: int) -> f.AnyFault:
    if fault is f.Crash:
        return f.Crash(at_us=at_us, process=process, restart_after_us=for_us)
    return f.Pause(at_us=at_us, process=process, for_us=for_us)
