"""What owners, versions and attempts leave to those after them, on Histories that are made up."""

from headrace import Computation, KeyInterval, Pipeline
from headrace.history import (
    ComputationRemoved,
    DropCause,
    Executed,
    History,
    IntervalDropped,
    IntervalMinted,
    ProcessStarted,
    UserCodeFailed,
    VersionAdopted,
)
from headrace.wire.messages import STORE
from headrace.wire.rows import Version
from headrace_properties.proof.succession import adopted_twice, knows_less, left_too_soon, miscounted


def failed(attempt: int) -> UserCodeFailed:
    return UserCodeFailed(0, "worker-0", "adders", "a", "letters/0:1", attempt, "ValueError: 1")


def minted(sequencer: int, owner: str = "worker-0") -> IntervalMinted:
    return IntervalMinted(0, STORE, "adders", KeyInterval(), sequencer, owner, 1)


DROPPED = IntervalDropped(0, "worker-0", "adders", KeyInterval(), 1, DropCause.TABLE)


def ran(sequencer: int, watermark: int) -> Executed:
    late = False
    here = 0, "worker-0", "adders", "a"
    return Executed(*here, "letters/0:1", 5, late, None, watermark, Version(sequencer, 1), ())


def test_attempts_are_counted_by_each_owner() -> None:
    assert miscounted(History([failed(1), failed(2), minted(2), failed(3), DROPPED, failed(1)])) == ""
    assert miscounted(History([failed(1), failed(2), minted(2), failed(1)])) != ""
    assert miscounted(History([failed(1), ProcessStarted(0, "worker-0", 2), failed(1)])) == ""
    assert miscounted(History([failed(1), failed(2), failed(1)])).endswith("for the 1th time, after 2")
    assert miscounted(History([failed(1), failed(3)])).endswith("for the 3th time, after 1")


def test_a_version_is_adopted_once() -> None:
    first, again = VersionAdopted(0, "worker-0", 1), VersionAdopted(9, "worker-0", 1)
    assert adopted_twice(History([first, ProcessStarted(0, "worker-0", 2), again])) == ""
    assert adopted_twice(History([first, again])) == "worker-0 adopted version 1 at 9 us, which it had"
    assert adopted_twice(History([VersionAdopted(0, "worker-0", 0)])) != ""


def test_a_computation_leaves_after_those_that_fed_it() -> None:
    one, other = Pipeline("p"), Pipeline("p")
    for pipeline in (one, other):
        pipeline.injector("letters")
    one.add(Computation(), name="senders", inputs=["letters"], outputs=["sent"])
    one.add(Computation(), name="readers", inputs=["sent"])
    adopted = VersionAdopted(0, STORE, 1)
    senders, readers = (ComputationRemoved(0, STORE, name) for name in ("senders", "readers"))
    assert left_too_soon(History([adopted, senders, readers]), (one, other)) == ""
    problem = left_too_soon(History([adopted, readers, senders]), (one, other))
    assert problem == "readers left at 0 us, and senders, which fed it, had not"


def test_a_new_owner_knows_what_its_predecessor_acted_upon() -> None:
    assert knows_less(History([minted(1), ran(1, 50), minted(2), ran(1, 70), ran(2, 50)])) == ""
    assert knows_less(History([minted(1), ran(1, 50), minted(2), ran(2, 40)])) != ""
    joined = IntervalMinted(0, STORE, "senders", KeyInterval(), 2, "worker-0", 1)
    assert knows_less(History([minted(1), ran(1, 50), joined, minted(3), ran(3, 40)])) == ""
