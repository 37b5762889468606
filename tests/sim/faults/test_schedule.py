"""Schedules of faults as values: written, read, described, refused, and how long they last by default."""

import msgspec
import pytest

from headrace import SECOND, HistoryFormatError, OptionsError
from headrace import history as h
from headrace_sim import FaultSchedule, start
from headrace_sim import faults as f
from tests.sim.disturbances import AT, COUNTER, EXAMPLES, MOVE, SORTER, SPAN
from tests.sim.rig import CHECKED, HEAL_US, assert_sound, letters, mail, run

# Schedules as values

SCHEDULE = FaultSchedule(
    tuple(fault for faults in EXAMPLES.values() for fault in faults), HEAL_US, ("worker-2",)
)


def test_a_schedule_survives_json() -> None:
    again = FaultSchedule.from_json(SCHEDULE.to_json())
    assert again == SCHEDULE
    assert [type(fault) for fault in again.faults] == [type(fault) for fault in SCHEDULE.faults]
    assert FaultSchedule.from_json(f.NO_FAULTS.to_json()) == f.NO_FAULTS


def test_schedules_are_equal_when_all_of_them_is() -> None:
    pause = f.Pause(at_us=AT, process=COUNTER, for_us=SECOND)
    assert FaultSchedule((pause,)) == FaultSchedule((f.Pause(at_us=AT, process=COUNTER, for_us=SECOND),))
    assert FaultSchedule((pause,)) != FaultSchedule((msgspec.structs.replace(pause, for_us=1),))
    assert FaultSchedule((pause,)) != FaultSchedule((pause,), heal_at_us=AT)
    assert FaultSchedule((pause,)) != FaultSchedule((pause,), lasting=(COUNTER,))
    crash = f.Crash(at_us=AT, process=COUNTER)
    assert crash != f.Crash(at_us=AT, process=SORTER)


def test_a_schedule_is_described_a_fault_a_line_in_order_of_time() -> None:
    schedule = FaultSchedule(
        (
            f.Operate(at_us=3 * SECOND, verb=MOVE),
            f.Partition(at_us=AT, side=("worker-0", "worker-1"), for_us=SPAN, one_way=True),
            f.Crash(at_us=SECOND, process="mail/0"),
        )
    )
    assert schedule.describe().splitlines() == [
        "1.000000s crash process=mail/0",
        "2.000000s partition side=worker-0,worker-1 for=0.500000s one_way=True",
        "3.000000s operate MoveInterval(counter, arco, )",
    ]
    assert f.NO_FAULTS.describe() == "no faults"


@pytest.mark.parametrize(
    ("data", "wrong"),
    [
        ("", "it ends within a value"),
        ("[]", "object is expected"),
        ('{"faults": [{"type": "Crash", "at_us": "soon", "process": "worker-0"}]}', "in faults[0].at_us"),
        ('{"faults": [{"type": "Crash", "process": "worker-0"}]}', "'at_us'"),
        ('{"faults": [{"type": "Explode", "at_us": 1}]}', "Explode"),
        (
            '{"faults": [{"type": "Operate", "at_us": 1, "verb": {"type": "MoveInterval", "key": "a"}}]}',
            "'computation'",
        ),
    ],
)
def test_a_schedule_that_cannot_be_read_names_what_is_wrong(data: str, wrong: str) -> None:
    with pytest.raises(HistoryFormatError) as caught:
        FaultSchedule.from_json(data.encode(), "faults.json")
    assert wrong in str(caught.value)
    assert str(caught.value).startswith("cannot read fault schedule faults.json: ")


@pytest.mark.parametrize(
    ("fault", "heals_at_us"),
    [
        (f.Pause(at_us=AT, process=COUNTER, for_us=SECOND), AT + SECOND),
        (f.Crash(at_us=AT, process=COUNTER, restart_after_us=SECOND), AT + SECOND),
        (f.Operate(at_us=AT, verb=MOVE), AT),
    ],
    ids=lambda value: value.kind if isinstance(value, f.Fault) else "",
)
def test_by_default_a_schedule_heals_when_its_last_fault_is_over(fault: f.AnyFault, heals_at_us: int) -> None:
    assert FaultSchedule((fault, f.Operate(at_us=SECOND, verb=MOVE))).heals_at_us == heals_at_us
    assert f.NO_FAULTS.heals_at_us == 0


@pytest.mark.parametrize("kind", EXAMPLES, ids=f.KINDS.__getitem__)
def test_by_default_a_fault_is_given_the_time_to_strike_and_to_last(kind: type[f.Fault]) -> None:
    """Without a time for the heal, a schedule of one fault must still be a run with a fault in it."""
    pipeline = mail()
    done = run(pipeline, letters(pipeline), *EXAMPLES[kind], heal_at_us=None)
    assert_sound(done)
    assert any(event.kind.startswith(f.KINDS[kind]) for event in done.all(h.FaultStruck))


def test_by_default_a_crash_that_names_no_restart_lasts_for_a_while() -> None:
    pipeline = mail()
    done = run(pipeline, letters(pipeline), f.Crash(at_us=AT, process=COUNTER), heal_at_us=None)
    assert_sound(done)
    assert done.struck("restart")[0].at_us >= AT + CHECKED.engine.heartbeat_timeout_us


@pytest.mark.parametrize(
    "fault",
    [
        f.Crash(at_us=AT, process="worker-7"),
        f.Pause(at_us=AT, process="mail", for_us=1),
        f.Partition(at_us=AT, side=("worker-0",), other=("worker-7",), for_us=1),
        f.DelayCommit(at_us=AT, process="worker-7", by_us=1),
        f.LateRecords(at_us=AT, process="worker-0", count=1, by_us=1),
        f.Noise(at_us=AT, for_us=1, process="worker-7"),
    ],
    ids=lambda fault: fault.kind,
)
def test_a_fault_on_a_process_that_does_not_exist_is_refused_at_once(fault: f.AnyFault) -> None:
    pipeline = mail()
    with pytest.raises(OptionsError) as caught:
        start(pipeline, letters(pipeline), faults=FaultSchedule((fault,)))
    assert caught.value.option == f"{fault.kind} of"
    assert "worker-0" in str(caught.value) or "mail/0" in str(caught.value)


def test_a_lasting_address_that_does_not_exist_is_refused_at_once() -> None:
    pipeline = mail()
    with pytest.raises(OptionsError, match="worker-7"):
        start(pipeline, letters(pipeline), faults=FaultSchedule(lasting=("worker-7",)))
