"""Computations are added and removed while the pipeline runs, and nothing is lost (MillWheel 3)."""

from collections import Counter as Bag
from collections.abc import Sequence

import msgspec
import pytest

from headrace import (
    MAX_TIME,
    MILLISECOND,
    SECOND,
    Computation,
    Context,
    Pipeline,
    PipelineError,
    Productions,
    Record,
)
from headrace import history as h
from headrace.wire.messages import ChangeTopology, MoveInterval
from headrace_properties.reference import run_reference
from headrace_sim import faults as f
from headrace_sim import start
from tests.sim.rig import CHECKED, HEAL_US, Run, Sorter, WindowCounter, assert_sound, city, letters, mail, run

AT = 2 * SECOND
CHANGE = f.Operate(at_us=AT, verb=ChangeTopology(1))
BACK = f.Operate(at_us=AT + 1_700 * MILLISECOND, verb=ChangeTopology(0))


class Copier(Computation):
    """Passes on; the stream says whose copy it is."""

    def __init__(self, stream: str) -> None:
        self._stream = stream

    def process_record(self, context: Context, record: Record) -> None:
        context.produce(self._stream, record.value)


def with_copier(pipeline: Pipeline, name: str, stream: str, source: str = "sorted") -> Pipeline:
    changed = pipeline.copy()
    changed.add(Copier(stream), name=name, inputs={source: city}, outputs=[stream])
    return changed


PLAIN = mail()
AUDITED = with_copier(PLAIN, "auditor", "audited")
ARCHIVED = with_copier(PLAIN, "archivist", "archived")


def changed(pipelines: Sequence[Pipeline], *faults: f.AnyFault, seed: int = 0, count: int = 60) -> Run:
    """Run a deployment; whatever happens to it, it is sound, and those that stay count what they would have counted."""
    feed = letters(pipelines[0], count)
    done = run(pipelines, feed, *faults, seed=seed)
    assert_sound(done)
    expected = run_reference(PLAIN, feed).outputs
    counts = Bag({name: times for name, times in done.outputs.items() if name[0] == "counts"})
    assert counts == Bag(
        (element.stream, element.value) for element in expected.elements() if element.stream == "counts"
    )
    return done


def numbers(done: Run, stream: str) -> list[int]:
    """Which letters came out on a stream, sorted."""
    found = [
        msgspec.json.decode(value)["number"] for name, value in done.outputs.elements() if name == stream
    ]
    return sorted(found)


def removed(done: Run) -> dict[str, int]:
    """Computation to when it left, true time."""
    return {event.computation: event.at_us for event in done.all(h.ComputationRemoved)}


STRIKES: dict[str, tuple[f.AnyFault, ...]] = {
    "calm": (),
    "worker-0 crashes": (f.Crash(at_us=AT + MILLISECOND, process="worker-0", restart_after_us=SECOND),),
    "worker-1 crashes": (f.Crash(at_us=AT + 3 * MILLISECOND, process="worker-1", restart_after_us=SECOND),),
    "worker-2 becomes a zombie": (f.Pause(at_us=AT - 100, process="worker-2", for_us=2 * SECOND),),
    "the master crashes": (f.Crash(at_us=AT + 2 * MILLISECOND, process="master-0", restart_after_us=3 * SECOND),),
    "the injector crashes": (f.Crash(at_us=AT - 10, process="mail/0", restart_after_us=300 * MILLISECOND),),
    "tables are lost": (f.DropMessages(at_us=AT, message="Table", count=4),),
    "deliveries are held": (f.Hold(at_us=AT - 300 * MILLISECOND, message="Deliver", count=20, for_us=SECOND),),
    "ACKs are lost": (f.Noise(at_us=AT - 500 * MILLISECOND, for_us=SECOND, drop=0.5, kinds=("Ack",)),),
    "heartbeats come late": (
        f.Noise(at_us=AT - SECOND, for_us=4 * SECOND, delay=0.5, delay_us=900 * MILLISECOND, kinds=("Heartbeat",)),
    ),
    "intervals move": (
        f.Operate(at_us=AT + 500, verb=MoveInterval("auditor", "riva")),
        f.Operate(at_us=AT + 5_000, verb=MoveInterval("sorter", "anna")),
    ),
}  # fmt: skip
EVERY_STRIKE = pytest.mark.parametrize("strikes", STRIKES.values(), ids=STRIKES)


@EVERY_STRIKE
def test_an_added_computation_gets_what_is_produced_from_then_on(strikes: tuple[f.AnyFault, ...]) -> None:
    done = changed([PLAIN, ARCHIVED], CHANGE, *strikes, count=90)  # a standby master takes two seconds
    archived = numbers(done, "archived")
    assert archived
    assert len(archived) == len(set(archived))
    last = [event for event in done.all(h.Published) if "archivist" in dict(event.values)][-1]
    assert dict(last.values)["archivist"].low_watermark == MAX_TIME


def test_in_a_calm_run_the_added_one_gets_everything_from_the_change_on() -> None:
    archived = numbers(changed([PLAIN, ARCHIVED], CHANGE), "archived")
    assert archived == list(range(archived[0], 60))
    assert archived[0] <= 22, "record 20 comes at the time of the change"


@EVERY_STRIKE
def test_a_removed_computation_finishes_what_it_was_sent_and_leaves(strikes: tuple[f.AnyFault, ...]) -> None:
    done = changed([AUDITED, PLAIN], CHANGE, *strikes)
    assert removed(done).keys() == {"auditor"}
    audited = numbers(done, "audited")
    assert audited
    assert len(audited) == len(set(audited))
    applied = {
        (event.sequencer, event.delta.number) for event in done.all(h.Applied)
    }  # a zombie's steps do not count
    ran = [
        event
        for event in done.all(h.Executed)
        if event.computation == "auditor" and (event.version.sequencer, event.version.number) in applied
    ]
    assert max(event.at_us for event in ran) < removed(done)["auditor"]


@EVERY_STRIKE
@pytest.mark.parametrize("seed", range(2))
def test_when_one_replaces_another_each_record_goes_to_one_of_them(
    seed: int, strikes: tuple[f.AnyFault, ...]
) -> None:
    done = changed([AUDITED, ARCHIVED], CHANGE, *strikes, seed=seed)
    assert removed(done).keys() == {"auditor"}
    assert sorted(numbers(done, "audited") + numbers(done, "archived")) == list(range(60))


def with_reader_of_counts(name: str) -> Pipeline:
    changed = PLAIN.copy()
    changed.add(Copier(name), name=name, inputs=["counts"], outputs=[name])
    return changed


@EVERY_STRIKE
def test_a_retiring_computation_continues_as_in_the_version_that_it_retires_from(
    strikes: tuple[f.AnyFault, ...],
) -> None:
    """The counter and its reader retire from the first version to the third. In the second, which is never in force, the
    counter has another reader: its last counts still go to the one that it had, which leaves after it."""
    versions = [with_reader_of_counts("reader"), with_reader_of_counts("other"), PLAIN.without("counter")]
    change = f.Operate(at_us=AT, verb=ChangeTopology(2))
    done = run(versions, letters(PLAIN), change, *strikes)
    assert_sound(done)
    read = [
        msgspec.json.decode(value)["count"] for name, value in done.outputs.elements() if name == "reader"
    ]
    assert sum(read) + len(numbers(done, "sorted")) == 60, "each letter was counted, or came after the change"
    assert removed(done)["counter"] <= removed(done)["reader"]


def test_watermarks_of_the_remaining_computations_advance_while_another_drains() -> None:
    """The removed one is kept from draining: its ACKs to come are held. Nobody waits for it."""
    hold = f.Noise(
        at_us=AT - 100 * MILLISECOND, for_us=2 * SECOND, drop=1.0, kinds=("Deliver",), process="worker-2"
    )
    done = changed([AUDITED, PLAIN], CHANGE, hold)
    assert removed(done)["auditor"] > AT
    values = [
        (event.at_us, dict(event.values)["counter"].low_watermark)
        for event in done.all(h.Published)
        if "counter" in dict(event.values)
    ]
    assert [low for _, low in values] == sorted(low for _, low in values)
    assert values[-1][1] == MAX_TIME


def test_a_change_at_the_very_end_of_a_run_is_waited_for() -> None:
    """The new version is minted while all else is done, and nobody has heard of it yet: the run is not over."""
    options = msgspec.structs.replace(CHECKED, check_period_us=MILLISECOND)
    feed = letters(PLAIN, 5)
    calm = run([PLAIN, ARCHIVED], feed, options=options, heal_at_us=None)
    end_us = calm.all(h.RunEnded)[-1].at_us
    for at_us in range(end_us - 15 * MILLISECOND, end_us, 500):
        late = f.Operate(at_us=at_us, verb=ChangeTopology(1))
        done = run([PLAIN, ARCHIVED], feed, late, options=options, heal_at_us=at_us)
        assert_sound(done)
        if any(event.computation == "archivist" for event in done.all(h.IntervalMinted)):
            assert any("archivist" in dict(event.values) for event in done.all(h.Published))


def windowed_auditor() -> Pipeline:
    pipeline = PLAIN.copy()
    pipeline.add(
        WindowCounter(), name="auditor", inputs={"sorted": city}, outputs=["audited", "counts", "late"]
    )
    return pipeline


def test_a_removed_computation_waits_for_its_timers() -> None:
    """Its windows are open when it is removed: it stays until the watermark has closed them, and tells their counts."""
    done = run([windowed_auditor(), PLAIN], letters(PLAIN), CHANGE)
    assert_sound(done)
    fired = [event for event in done.all(h.Executed) if event.computation == "auditor" and event.timer]
    got = [event for event in done.all(h.Executed) if event.computation == "auditor" and not event.timer]
    assert max(event.at_us for event in got) < AT + 100 * MILLISECOND
    assert AT + 500 * MILLISECOND < max(event.at_us for event in fired) < removed(done)["auditor"]
    counted = sum(
        msgspec.json.decode(production.value)["count"] for event in fired for production in event.productions
    )
    assert counted == len(got)
    assert not any(event.late for event in got)


def test_a_chain_leaves_from_its_beginning_to_its_end() -> None:
    chain = with_copier(AUDITED, "reporter", "reported", "audited")
    done = changed([chain, PLAIN], CHANGE)
    left = removed(done)
    assert list(left) == ["auditor", "reporter"]
    ran = [event.cause for event in done.all(h.Executed) if event.computation == "auditor"]
    assert len(numbers(done, "reported")) == len(ran)


@EVERY_STRIKE
def test_a_change_can_be_reverted(strikes: tuple[f.AnyFault, ...]) -> None:
    """What was added leaves again; it has the windows that it has got, and none of its records is late."""
    back = f.Operate(at_us=AT + 3 * SECOND, verb=ChangeTopology(0))  # a standby master takes two seconds
    done = changed([PLAIN, ARCHIVED], CHANGE, back, *strikes, count=100)
    assert removed(done).keys() == {"archivist"}
    archived = numbers(done, "archived")
    assert archived
    assert len(archived) == len(set(archived))


def test_when_a_change_is_reverted_timers_of_the_leaving_computation_still_wait_for_the_watermark() -> None:
    """Its last records are held on the wire when the change is taken back."""
    pipelines = [PLAIN, windowed_auditor()]
    hold = f.Hold(at_us=BACK.at_us - 120 * MILLISECOND, message="Deliver", count=10, for_us=800 * MILLISECOND)
    done = run(pipelines, letters(PLAIN), CHANGE, BACK, hold)
    assert_sound(done)
    assert removed(done).keys() == {"auditor"}
    got = [event for event in done.all(h.Executed) if event.computation == "auditor" and not event.timer]
    assert not any(event.late for event in got)


def test_a_removed_computation_that_returns_continues_with_its_state() -> None:
    again = f.Operate(at_us=AT + 1_500 * MILLISECOND, verb=ChangeTopology(2))
    done = changed([AUDITED, PLAIN, with_copier(PLAIN, "auditor", "audited")], CHANGE, again)
    assert removed(done).keys() == {"auditor"}
    audited = numbers(done, "audited")
    assert len(audited) == len(set(audited))
    assert audited[0] == 0
    assert audited[-1] == 59
    assert len(audited) < 60


def test_a_change_that_is_reverted_while_it_drains_removes_nothing() -> None:
    """The auditor is kept from draining by a delivery that is held, and is wanted again before it arrives."""
    hold = f.Hold(at_us=AT - 200 * MILLISECOND, message="Deliver", target="", count=4, for_us=SECOND)
    back = f.Operate(at_us=AT + 20 * MILLISECOND, verb=ChangeTopology(0))
    done = changed([AUDITED, PLAIN], CHANGE, back, hold)
    assert removed(done) == {}
    assert len(set(numbers(done, "audited"))) == len(numbers(done, "audited")) >= 50


def test_a_version_that_is_not_deployed_is_ignored() -> None:
    done = changed([PLAIN], f.Operate(at_us=AT, verb=ChangeTopology(7)))
    assert [event for event in done.all(h.IntervalMinted) if event.at_us > SECOND] == []
    assert done.all(h.Healed)[0].at_us == HEAL_US
    assert CHECKED.check_invariants


def test_a_first_stage_can_be_exchanged_for_another() -> None:
    """The injector's own consumer changes: records that it has sent are finished by the old one."""
    second = Pipeline("mail")
    second.injector("mail")
    second.add(Sorter(), name="sorter 2", inputs=["mail"], outputs=["sorted"])
    second.add(
        WindowCounter(), name="counter", inputs={"sorted": city}, outputs=["counts", "late"], split_at=["m"]
    )
    done = changed([PLAIN, second], CHANGE)
    assert removed(done).keys() == {"sorter"}
    causes = [e.cause for e in done.all(h.Executed) if e.computation in ("sorter", "sorter 2")]
    assert len(causes) == len(set(causes)) == 60


@EVERY_STRIKE
@pytest.mark.parametrize("weak_first", [False, True], ids=["to weak", "to strong"])
def test_a_computation_changes_its_kind_of_productions_under_a_new_name(
    weak_first: bool,  # noqa: FBT001  a parameter of the test
    strikes: tuple[f.AnyFault, ...],
) -> None:
    """Under its own name it could not. The old one drains, its timers and all; the new one takes every record from then on."""
    pipelines = [windowed(name, kind) for name, kind in KINDS.items()]
    done = run(pipelines[::-1] if weak_first else pipelines, letters(PLAIN), CHANGE, *strikes)
    assert_sound(done)
    assert len(removed(done)) == 1
    counted = Bag[str]()
    for (_, value), times in done.outputs.items():
        found = msgspec.json.decode(value)
        counted["all"] += found.get("count", 1) * times
    assert counted["all"] == 60


KINDS = {"strong counter": Productions.STRONG, "weak counter": Productions.WEAK}


def windowed(name: str, productions: Productions) -> Pipeline:
    pipeline = Pipeline("mail")
    pipeline.injector("mail")
    pipeline.add(
        WindowCounter(), name=name, inputs={"mail": city}, outputs=["counts", "late"], productions=productions
    )
    return pipeline


def test_a_version_that_changes_a_computations_productions_is_refused_before_anything_runs() -> None:
    weak = PLAIN.with_computation("counter", productions=Productions.WEAK)
    with pytest.raises(PipelineError, match="computation 'counter' has productions=strong in version 0"):
        start([PLAIN, weak], letters(PLAIN))


class Lingerer(Copier):
    """Passes on, and has a timer open for a second: it cannot leave before that has fired."""

    def process_record(self, context: Context, record: Record) -> None:
        super().process_record(context, record)
        context.set_timer("linger", record.timestamp + SECOND)


def chain_of(length: int) -> Pipeline:
    pipeline = PLAIN.copy()
    stream = "sorted"
    for number in range(length):
        pipeline.add(Lingerer(f"s{number}"), name=f"c{number}", inputs={stream: city}, outputs=[f"s{number}"])
        stream = f"s{number}"
    return pipeline


OUT = f.Operate(at_us=1_500 * MILLISECOND, verb=ChangeTopology(1))


def test_when_its_senders_have_left_a_computation_need_not_wait_for_those_before_them() -> None:
    """The first of the chain leaves; the sorter, which fed it, goes on, and nobody downstream has to care."""
    feed = letters(PLAIN, 140)
    slow = [
        f.Slow(at_us=OUT.at_us, process=name, for_us=3 * SECOND, factor=300)
        for name in ("worker-0", "worker-1")
    ]
    done = run([chain_of(4), PLAIN], feed, OUT, *slow, heal_at_us=9 * SECOND)
    assert list(removed(done)) == ["c0", "c1", "c2", "c3"]
    assert_sound(done)


def test_a_chain_that_returns_loses_nothing() -> None:
    feed = letters(PLAIN, 140)
    back = f.Operate(at_us=4_500 * MILLISECOND, verb=ChangeTopology(2))
    done = run([chain_of(5), PLAIN, chain_of(5)], feed, OUT, back, heal_at_us=9 * SECOND)
    assert list(removed(done)) == ["c0", "c1", "c2", "c3", "c4"]
    assert len(numbers(done, "s4")) > 60
    assert_sound(done)
