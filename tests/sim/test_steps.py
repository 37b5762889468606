"""Faults that are tied to protocol steps: they begin at that very moment, and leave other runs unchanged."""

from typing import Any

import pytest

from headrace import MILLISECOND, SECOND, OptionsError, format_time
from headrace.history import Applied, Delivered, Event, FaultStruck, History, IntervalMinted, StepReached
from headrace.wire.messages import MoveInterval
from headrace_properties.checkers import judge
from headrace_properties.proof.workloads import tallies
from headrace_properties.verdict import Violated
from headrace_sim import Does, FaultSchedule, Moment, Step, StepFault, simulate, start
from headrace_sim import faults as f
from headrace_sim.hosting.step_watch import StepWatch

TALLIES = tallies()
FEED = TALLIES.feed(0)
HEAL_US = 6 * SECOND


def run(*planned: StepFault) -> History:
    """A run of `tallies` with these faults; it must hold whatever they are."""
    history = simulate(TALLIES.pipeline, FEED, faults=FaultSchedule(heal_at_us=HEAL_US, at_steps=planned))
    broken = [
        verdict for verdict in judge(history, [TALLIES.pipeline]).values() if isinstance(verdict, Violated)
    ]
    assert not broken
    return history


def counts() -> dict[tuple[str, Does, str, str], int]:
    cluster = start(TALLIES.pipeline, FEED)
    watch = cluster.watch()
    cluster.run_to_the_end()
    return dict(watch.counts)


COUNTS = counts()
WRITER = next(place[0] for place in COUNTS if place[1:] == (Does.SENDS, "Write", "senders"))
WRITE = Step(WRITER, Does.SENDS, "Write", 1, "senders")
WRITTEN = Step(WRITER, Does.RECEIVES, "Written")
CRASH = f.Crash(at_us=0, process=WRITER, restart_after_us=300 * MILLISECOND)


def first(history: History, sort: type, **fields: Any) -> int:
    """Where the first such event is."""
    return next(
        number
        for number, event in enumerate(history)
        if isinstance(event, sort) and all(getattr(event, name) == value for name, value in fields.items())
    )


def at(history: History, number: int) -> Event:
    return history.events[number]


def test_counting_steps_changes_nothing() -> None:
    watched = start(TALLIES.pipeline, FEED)
    watched.watch()
    watched.run_until(0)
    watched.heal()
    watched.run_to_the_end()
    assert watched.history.digest() == simulate(TALLIES.pipeline, FEED).digest()


def test_what_is_sent_to_a_process_is_received_by_it() -> None:
    written = sum(n for place, n in COUNTS.items() if place[1:] == (Does.RECEIVES, "Written", ""))
    writes = sum(n for place, n in COUNTS.items() if place[1:] == (Does.SENDS, "Write", ""))
    assert written == writes > 0
    assert COUNTS["letters/0", Does.RECEIVES, "SourceRecord", ""] == FEED.records


def test_a_fault_at_a_step_that_never_comes_changes_nothing_but_when_all_heals() -> None:
    never = StepFault(Step(WRITER, Does.SENDS, "Write", 1_000), CRASH)
    assert not [event for event in run(never) if isinstance(event, FaultStruck | StepReached)]


@pytest.mark.parametrize("moment", Moment)
def test_a_crash_before_a_write_leaves_loses_it_and_one_after_does_not(moment: Moment) -> None:
    history = run(StepFault(WRITE, CRASH, moment))
    struck = first(history, FaultStruck, kind="crash")
    assert at(history, struck - 1) == StepReached(
        at(history, struck).at_us, WRITER, "sends Write", 1, moment.value, "crash"
    )
    sequencers = {
        event.sequencer for event in history if isinstance(event, IntervalMinted) and event.owner == WRITER
    }
    applied = first(history, Applied, computation="senders")
    write: Any = at(history, applied)
    assert applied > struck
    by_the_dead = write.at_us - at(history, struck).at_us < 10 * MILLISECOND and write.sequencer in sequencers
    assert by_the_dead == (moment is Moment.AFTER)


def test_a_crash_before_a_record_is_received_leaves_it_unseen_and_one_after_does_not() -> None:
    received = Step(WRITER, Does.RECEIVES, "Deliver", COUNTS[WRITER, Does.RECEIVES, "Deliver", ""])
    unseen, seen = (run(StepFault(received, CRASH, moment)) for moment in Moment)
    delivered = [
        sum(
            isinstance(event, Delivered)
            for event in history.events[: first(history, FaultStruck, kind="crash")]
        )
        for history in (unseen, seen)
    ]
    assert delivered[0] + 1 == delivered[1]


def test_a_process_that_is_paused_before_it_sends_continues_where_it_was() -> None:
    """The pause is short: nobody replaces it, and its write is as good as before."""
    pause = f.Pause(at_us=0, process=WRITER, for_us=100 * MILLISECOND)
    history = run(StepFault(WRITE, pause))
    revived = first(history, FaultStruck, kind="revive", detail="still the owner")
    assert first(history, Applied, computation="senders") > revived


def test_a_process_that_is_paused_long_before_it_sends_is_a_zombie_whose_write_is_refused() -> None:
    history = run(StepFault(WRITE, f.Pause(at_us=0, process=WRITER, for_us=3 * SECOND)))
    assert first(history, FaultStruck, kind="revive", detail="zombie")


@pytest.mark.parametrize("does", Does)
@pytest.mark.parametrize(
    "fault",
    [
        f.DropMessage(at_us=0),
        f.DuplicateMessage(at_us=0, by_us=SECOND),
        f.DelayMessage(at_us=0, by_us=SECOND),
    ],
    ids=lambda fault: fault.kind,
)
def test_the_message_of_the_step_itself_is_struck(fault: f.MessageFault, does: Does) -> None:
    step = WRITE if does is Does.SENDS else WRITTEN
    history = run(StepFault(step, fault))
    strikes = [event for event in history if isinstance(event, FaultStruck)]
    assert [(strike.process, strike.kind, strike.detail) for strike in strikes] == [
        (WRITER, fault.kind, str(step))
    ]


CAUGHT: dict[str, f.AnyFault | f.MessageFault] = {
    "pause": f.Pause(at_us=0, process=WRITER, for_us=100 * MILLISECOND),
    "delay": f.DelayMessage(at_us=0, by_us=100 * MILLISECOND),
}


@pytest.mark.parametrize("fault", CAUGHT.values(), ids=CAUGHT)
def test_a_message_caught_on_arrival_and_handled_later_is_one_step(
    fault: f.AnyFault | f.MessageFault,
) -> None:
    """The 1st Written waits; when it is handled at last, it is no 2nd one: there are as many as there were Writes."""
    never = StepFault(Step(WRITER, Does.SENDS, "Write", 1_000), CRASH)  # so that Writes are counted, too
    schedule = FaultSchedule(at_steps=(StepFault(WRITTEN, fault), never))
    cluster = start(TALLIES.pipeline, FEED, faults=schedule)
    cluster.run_to_the_end()
    watch = cluster.host.observer
    assert isinstance(watch, StepWatch)
    counts = watch.counts
    assert counts[WRITER, Does.RECEIVES, "Written", ""] == counts[WRITER, Does.SENDS, "Write", ""] > 1


@pytest.mark.parametrize("fault", CAUGHT.values(), ids=CAUGHT)
def test_a_fault_tied_to_the_end_of_a_delayed_step_strikes_when_it_is_taken(
    fault: f.AnyFault | f.MessageFault,
) -> None:
    history = run(StepFault(WRITTEN, fault), StepFault(WRITTEN, CRASH, Moment.AFTER))
    waited, crashed = (event for event in history if isinstance(event, StepReached))
    assert (crashed.nth, crashed.moment) == (1, "after")
    assert crashed.at_us >= waited.at_us + 100 * MILLISECOND


def test_a_doubled_write_changes_nothing_the_second_time() -> None:
    history = run(StepFault(WRITE, f.DuplicateMessage(at_us=0, by_us=300 * MILLISECOND)))
    usual = sum(isinstance(event, Applied) for event in simulate(TALLIES.pipeline, FEED))
    assert sum(isinstance(event, Applied) for event in history) == usual


def test_an_interval_moves_while_its_write_is_in_flight() -> None:
    move = f.Operate(at_us=0, verb=MoveInterval("senders", "a"))
    history = run(StepFault(WRITE, move))
    reached = at(history, first(history, StepReached))
    minted = [e.at_us for e in history if isinstance(e, IntervalMinted) and e.at_us >= reached.at_us]
    assert 0 < min(minted) - reached.at_us < 50 * MILLISECOND


def test_a_fault_may_begin_later_and_strike_another_process() -> None:
    later = f.Crash(at_us=70 * MILLISECOND, process="master-0", restart_after_us=SECOND)
    history = run(StepFault(WRITE, later))
    reached = at(history, first(history, StepReached))
    struck = at(history, first(history, FaultStruck))
    assert (struck.process, struck.at_us - reached.at_us) == ("master-0", 70 * MILLISECOND)


def test_a_step_may_be_counted_from_some_time_on() -> None:
    """The first write after another was applied, whatever came before."""
    usual = simulate(TALLIES.pipeline, FEED)
    applied = [event.at_us for event in usual if isinstance(event, Applied)]
    step = Step(WRITER, Does.SENDS, "Write", 1, after_us=applied[0])
    assert str(step).endswith(f"sends its 1st Write after {format_time(applied[0])}")
    history = run(StepFault(step, CRASH))
    reached = at(history, first(history, StepReached))
    assert reached.at_us >= applied[0]
    assert next(event.at_us for event in history if isinstance(event, Applied)) == applied[0]
    assert (
        FaultSchedule.from_json(FaultSchedule(at_steps=(StepFault(step, CRASH),)).to_json()).at_steps[0].step
        == step
    )


def test_nothing_begins_at_a_step_after_the_heal() -> None:
    schedule = FaultSchedule(heal_at_us=1, at_steps=(StepFault(WRITE, CRASH),))
    history = simulate(TALLIES.pipeline, FEED, faults=schedule)
    assert not [event for event in history if isinstance(event, FaultStruck)]


# The value


SCHEDULE = FaultSchedule(
    (f.Pause(at_us=5, process="worker-1", for_us=7),),
    at_steps=(
        StepFault(WRITE, f.Crash(at_us=0, process=WRITER)),
        StepFault(WRITTEN, f.DropMessage(at_us=0), Moment.BEFORE),
        StepFault(WRITTEN, f.Partition(at_us=2 * SECOND, side=(WRITER,), for_us=SECOND), Moment.AFTER),
    ),
    lasting=("worker-1",),
)


def test_a_schedule_with_steps_survives_json_and_reads_like_sentences() -> None:
    assert FaultSchedule.from_json(SCHEDULE.to_json()) == SCHEDULE
    assert SCHEDULE.describe().splitlines() == [
        "0.000005s pause process=worker-1 for=0.000007s",
        f"{WRITER} crashes before it sends its 1st Write of senders; it stays down until the heal",
        f"the 1st Written that {WRITER} receives is lost",
        f"partition side={WRITER} for=1.000000s, 2.000000s after it receives its 1st Written",
        "worker-1 is not healed",
    ]


def test_a_file_from_before_there_were_steps_still_loads() -> None:
    old = b'{"faults": [{"type": "Pause", "at_us": 5, "process": "worker-1", "for_us": 7}], "heal_at_us": null, "lasting": []}'
    assert FaultSchedule.from_json(old).faults == SCHEDULE.faults


@pytest.mark.parametrize(
    ("planned", "message"),
    [
        (StepFault(Step("worker-7", Does.SENDS, "Write"), CRASH), "step of"),
        (StepFault(Step(WRITER, Does.SENDS, "Wrote"), CRASH), "crash where it sends"),
        (StepFault(Step(WRITER, Does.RECEIVES, "Wake"), f.DropMessage(at_us=0)), "drop_message where it receives"),
        (StepFault(Step(WRITER, Does.SENDS, "Write", 0), CRASH), "nth"),
        (StepFault(WRITE, f.Crash(at_us=0, process="worker-7")), "crash of"),
    ],
    ids=["process", "message", "an event that the network does not carry", "number", "target"],
)  # fmt: skip
def test_an_impossible_step_is_refused(planned: StepFault, message: str) -> None:
    with pytest.raises(OptionsError, match=message):
        start(TALLIES.pipeline, FEED, faults=FaultSchedule(at_steps=(planned,)))
