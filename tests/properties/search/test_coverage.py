"""Where faults struck is counted from the History, whatever planned them."""

from headrace import SECOND
from headrace_properties.proof.workloads import tallies
from headrace_properties.search.coverage import Spot, covered
from headrace_sim import Does, FaultSchedule, Moment, Step, StepFault, simulate
from headrace_sim import faults as f

TALLIES = tallies()
FEED = TALLIES.feed(0)
MINT = Step("master-0", Does.SENDS, "Mint")


def spots(*faults: f.AnyFault | StepFault) -> dict[Spot, int]:
    timed = tuple(fault for fault in faults if not isinstance(fault, StepFault))
    tied = tuple(fault for fault in faults if isinstance(fault, StepFault))
    schedule = FaultSchedule(timed, 4 * SECOND, at_steps=tied)
    return dict(covered(simulate(TALLIES.pipeline, FEED, faults=schedule)))


def test_without_faults_nothing_is_covered() -> None:
    assert spots() == {}


def test_a_fault_at_a_step_is_counted_there_and_its_end_is_not() -> None:
    crash = f.Crash(at_us=0, process="master-0", restart_after_us=SECOND)
    assert spots(StepFault(MINT, crash, Moment.AFTER)) == {Spot("master", "sends Mint", "crash"): 1}


def test_a_crash_at_a_time_is_counted_after_the_last_thing_that_its_process_did() -> None:
    crash = f.Crash(at_us=SECOND, process="letters/0", restart_after_us=SECOND)
    ((spot, count),) = spots(crash).items()
    assert (spot.role, spot.fault, count) == ("injector", "crash", 1)
    assert spot.step == "after InjectorReported"


def test_a_message_that_is_lost_is_counted_as_its_step() -> None:
    drop = f.DropMessages(at_us=0, message="Table", source="master-0", count=2)
    assert spots(drop) == {Spot("master", "sends Table", "drop"): 2}


def test_a_step_without_effect_is_not_counted() -> None:
    """The worker is not there any more when the step's other fault comes."""
    down = f.Crash(at_us=0, process="worker-2")
    both = spots(StepFault(MINT, down), StepFault(MINT, down, Moment.AFTER))
    assert both == {Spot("master", "sends Mint", "crash"): 1}
