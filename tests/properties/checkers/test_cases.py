"""The hard cases that `reached` counts, and the checkers on runs of the simulated cluster."""

import msgspec
import pytest

from headrace import Clock, KeyInterval
from headrace.history import (
    Delivered,
    DuplicateDropped,
    Healed,
    ProcessStarted,
    Published,
    Resent,
    RoleClaimed,
    ScanBegun,
    WriteRefused,
)
from headrace.wire.messages import Progress
from headrace_properties.checkers import CASES, judge, reached
from headrace_properties.verdict import Holds
from headrace_scenarios import zeitgeist
from headrace_sim import simulate
from tests.properties.checkers.steps import (
    QUERY,
    Row,
    Table,
    add,
    check,
    collect,
    inject,
    mint,
    query,
    reaches,
    run,
    scan,
    take,
    write,
)
from tests.properties.stories import Story, begin, healthy, timer


def test_every_case_is_counted_even_if_never_reached() -> None:
    assert reached([]) == dict.fromkeys(CASES, 0)


def test_a_run_of_the_cluster_without_faults_holds() -> None:
    for pipeline in (zeitgeist.pipeline, zeitgeist.weak_pipeline):
        history = simulate(pipeline, zeitgeist.feed(1), seed=1)
        verdicts = judge(history, [pipeline])
        verdicts.pop("S5-weak", None)
        assert {name: verdict for name, verdict in verdicts.items() if not isinstance(verdict, Holds)} == {}


REFUSED = add(WriteRefused, "store", "counter", 1, 3, ("cats",))
WALL = timer("v", 10, 1, clock=Clock.WALL)

# fmt: off
HISTORIES: Table = {
    # The zombie has run a step when its interval is taken away; its write comes after its successor's scan.
    "a refused write of a zombie is reached": (
        begin, inject(0, 100), run("counter", 1, QUERY), mint("counter", 3, "worker-1"), REFUSED,
        reaches({"ownership changed": 1, "ownership changed with a write in flight": 1, "a write was refused": 1}),
        scan("counter", 3, "worker-1"), REFUSED,
        reaches({
            "ownership changed": 1, "ownership changed with a write in flight": 1, "a write was refused": 2,
            "a zombie's write came late": 1,
        })),
    "duplicates restarts and takeovers are reached": (
        Story, add(DuplicateDropped, "worker-0", "counter", "cats", "queries/0:0", "id"),
        add(DuplicateDropped, "worker-0", "counter", "cats", "queries/0:0", "horizon"), add(ProcessStarted, "worker-0", 1),
        add(ProcessStarted, "worker-0", 2), add(RoleClaimed, "store", "master", 1, "master-0"),
        add(RoleClaimed, "store", "master", 2, "master-1"),
        reaches({
            "a duplicate arrived": 2, "a duplicate came behind the horizon": 1, "a process restarted": 1,
            "a standby took over": 1,
        })),
    "a healthy run reaches no fault": (
        healthy,
        reaches({"a timer was set": 1, "a timer fired": 1, "an id was collected": 1})),
    "a zombies applied write is reached": (
        begin, write("counter", 1, live=3),
        reaches({"a zombie's write was applied": 1})),
    "a scan that finds something is reached": (
        begin, scan("counter", 3, timers=(("cats", "w"),), productions=(("counter@1.1#0", "detector"),)),
        reaches({"a scan found timers": 1, "a scan found checkpointed productions": 1})),
    "shared steps cancellations and holds are reached": (
        begin, write("counter", 1, seen=(("a", 0), ("b", 0)), set_timers=(timer("w", 200, 1),), hold=7, cancelled=("v",)),
        reaches({
            "a step took several records or timers": 1, "a timer was set": 1, "a timer was cancelled": 1,
            "a state held the watermark": 1,
        })),
    # A late query is re-sent though it was ACKed, and comes once more when its id is gone; its injector reads it again.
    "what becomes of records is reached": (
        begin, inject(0, 100, watermark=200, origin=5), take("counter", 1, query(0, 100, origin=5)),
        add(Resent, "queries/0", "queries/0:0", "counter"), collect("counter", 6, 1),
        add(DuplicateDropped, "worker-0", "counter", "cats", "queries/0:0", "horizon"), inject(0, 100, origin=5),
        run("counter", 2, query(0, 100, origin=5)),
        reaches({
            "a record was late from the source": 1, "a delivery was re-sent": 1, "an ACK was lost": 1,
            "an id was collected": 1, "a duplicate arrived": 1, "a duplicate came behind the horizon": 1,
            "a duplicate came after its id was collected": 1, "an injector read its source again": 1,
            "user code ran again for a record": 1,
        })),
    "what becomes of timers is reached": (
        begin, write("counter", 1, set_timers=(msgspec.structs.replace(timer("w", 200, 1), overdue=True), WALL)),
        write("counter", 1, sequencer=3, fired=(WALL,)),
        add(Published, "authority-0.0", (("counter", Progress(5, 0, ((80.0, 7),))),)),
        reaches({
            "a timer was set": 2, "a timer was set behind the watermark": 1, "a timer fired": 1, "a wall timer fired": 1,
            "a timer fired at another owner than set it": 1, "a percentile watermark was ahead": 1,
        })),
    # A scan meets a late write, and is cut short by a split; an authority dies before the new owners have reported.
    "what becomes of intervals is reached": (
        Story, mint("counter", 1), mint("counter", 2, "worker-1"), add(ScanBegun, "worker-1", "counter", KeyInterval(), 2),
        add(WriteRefused, "store", "counter", 1, 2, ("cats",)), mint("counter", 3, "worker-1", KeyInterval("", "m")),
        mint("counter", 4, "worker-2", KeyInterval("m")), add(RoleClaimed, "store", "authority-0", 2, "authority-0.1"),
        add(RoleClaimed, "store", "queries/0", 2, "queries/0"),
        add(Delivered, "worker-0", "counter", "cats", "queries/0:0", "queries/0"), mint("counter", 5),
        add(Healed, "", ("worker-1",)),
        reaches({
            "ownership changed": 3, "a write was refused": 1, "a scan overlapped a late write": 1, "a scan was cut short": 1,
            "an interval was split": 1, "intervals were merged": 1, "a standby took over": 1,
            "an authority was replaced while an interval was missing": 1, "a delivery reached a stale owner": 1,
            "a process stayed bad": 1,
        })),
}
# fmt: on


@pytest.mark.parametrize("row", HISTORIES.values(), ids=HISTORIES)
def test_checkers_give_the_expected_verdicts(row: Row) -> None:
    check(row)
