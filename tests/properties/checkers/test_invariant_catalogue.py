"""S1 to S6 and L2, each on a History that it must pass and on one that it must not."""

from functools import partial

import msgspec
import pytest

from headrace import Productions
from headrace.history import AckSent, Applied, DuplicateDropped, FaultStruck, Healed, IntervalMinted
from headrace_properties.checkers import all_checkers, judge
from headrace_properties.checkers.invariant_catalogue import is_about_code
from headrace_properties.verdict import Holds, Unknown, Violated
from tests.properties.checkers.steps import (
    COUNT,
    QUERY,
    WEAK_COUNT,
    Row,
    Table,
    ack,
    add,
    back,
    breaks,
    check,
    delete,
    end,
    holds,
    inject,
    mint,
    output,
    own,
    query,
    run,
    scan,
    spares,
    take,
    unknown,
    violates,
    write,
)
from tests.properties.stories import ALL, Story, begin, counting, healthy, record, timer


def weak(**switches: bool) -> Story:
    return begin(counting(productions=Productions.WEAK, **switches))


# All of them


def test_every_checker_holds_for_a_healthy_run() -> None:
    verdicts = healthy().verdicts()
    assert {name: type(verdict) for name, verdict in verdicts.items()} == dict.fromkeys(verdicts, Holds)


def test_every_checker_is_unknown_for_an_empty_history() -> None:
    verdicts = judge([], [counting()])
    assert {name: type(verdict) for name, verdict in verdicts.items()} == dict.fromkeys(verdicts, Unknown)


def test_checkers_describe_what_they_check() -> None:
    checkers = all_checkers([counting(productions=Productions.WEAK)])
    names = [checker.name for checker in checkers]
    assert names == sorted(set(names), key=names.index)
    expected = {
        "S1",
        "S2",
        "S3",
        "S4",
        "S5",
        "S5-weak",
        "S6",
        "S7",
        "S8",
        "S9",
        "S10",
        "S10-horizon",
        "S11",
        "S12",
        "S13",
        "S14",
        "S15",
        "S16",
        "S17",
        "L1",
        "L2",
        "L3",
        "L4",
        "L5",
        "L6",
    }
    assert set(names) == expected
    assert all(checker.title and checker.section for checker in checkers)
    assert [checker.name for checker in checkers if is_about_code(checker.name)] == ["S5-weak"]


def test_a_pipeline_without_weak_productions_is_not_checked_for_them() -> None:
    assert "S5-weak" not in judge([], [counting()])


def test_pipelines_that_change_while_running_are_judged_as_one() -> None:
    story = healthy()
    whole = counting()
    verdicts = judge(story.events, [whole, whole.without("detector")])
    assert isinstance(verdicts.pop("S16"), Unknown)  # a computation that joins a running topology is behind
    assert verdicts == {name: verdict for name, verdict in story.verdicts().items() if name != "S16"}


def test_a_zombies_write_is_caught_though_the_store_calls_it_live() -> None:
    story = begin()
    story.own("counter", 3, "worker-1")
    story.write("counter", 1, sequencer=1, live=1)
    verdict = story.verdicts()["S6"]
    assert isinstance(verdict, Violated)
    assert "under sequencer 1, when 3 owned the key" in verdict.message
    mint, write = verdict.witness
    assert isinstance(mint, IntervalMinted)
    assert mint.sequencer == 3
    assert isinstance(write, Applied)


def test_a_witness_is_the_events_that_show_it() -> None:
    story = begin()
    query = story.inject(0, 100)
    story.ack("counter", query.record_id)
    verdict = story.verdicts()["S3"]
    assert isinstance(verdict, Violated)
    (event,) = verdict.witness
    assert isinstance(event, AckSent)


# fmt: off
HISTORIES: Table = {
    # S1, L2
    "a durable production that no row has at rest is lost": (
        begin, inject(0, 100), take("counter", 1, QUERY, COUNT), end(),
        violates("S1", "record counter@1.1#0 of 'counter' to 'detector' (key 'cats'"),
        breaks("S1", "L2")),
    "an accepted record that was never applied is lost": (
        begin, inject(0, 100), end(),
        violates("S1", "queries/0:0")),
    "an output that never left is lost": (
        begin, inject(0, 100), take("counter", 1, QUERY, COUNT),
        take("detector", 1, COUNT, record("detector@2.1#0", "", 100), sequencer=2), end(),
        violates("S1", "to the outside")),
    "a run that its deadline ended is judged by liveness only": (
        begin, inject(0, 100), end("deadline"),
        unknown("S1"), violates("L2", "has waited since 0.005000s", "'queries' to 'counter'")),
    "liveness is not due while faults strike": (
        begin, add(FaultStruck, "worker-0", "crash", ""), inject(0, 100), end("deadline"),
        unknown("L1"), unknown("L2"), unknown("L4")),
    "liveness is due once faults are healed": (
        begin, add(FaultStruck, "worker-0", "crash", ""), add(Healed, "", ()), inject(0, 100), end("deadline"),
        violates("L2")),
    "liveness is due when all is at rest healed or not": (
        begin, add(FaultStruck, "worker-0", "crash", ""), inject(0, 100), end("quiescent"),
        violates("L2")),
    "without exactly once an ack shows that a record arrived": (
        partial(begin, counting(exactly_once=False)), inject(0, 100), run("counter", 1, QUERY), end(),
        violates("S1"),
        back(), ack("counter", "queries/0:0"), end(),
        breaks()),
    "weak productions count once their step is applied": (
        weak, inject(0, 100), run("counter", 1, QUERY, WEAK_COUNT), write("counter", 1, seen=(("queries/0:0", 0),)), end(),
        violates("S1", "queries/0:0>counter#0")),

    # S2
    "a record that two owners apply counts twice": (
        begin, inject(0, 100), take("counter", 1, QUERY), own("counter", 3, "worker-1"),
        take("counter", 1, QUERY, sequencer=3),
        violates("S2", "queries/0:0 was applied twice at 'counter': by write 1.1", "and by write 3.1")),
    "a record that one write claims twice counts twice": (
        begin, inject(0, 100), run("counter", 1, QUERY), run("counter", 1, QUERY),
        write("counter", 1, seen=(("queries/0:0", 0), ("queries/0:0", 0))),
        violates("S2")),
    "two consumers may apply one record": (
        begin, write("counter", 1, seen=(("queries/0:0", 0),)), write("detector", 1, seen=(("queries/0:0", 0),), sequencer=2),
        holds("S2", 2)),

    # S3
    "an ack before the write is too early": (
        begin, inject(0, 100), run("counter", 1, QUERY), ack("counter", "queries/0:0"),
        write("counter", 1, seen=(("queries/0:0", 0),)),
        violates("S3", "queries/0:0 was ACKed by worker-0 for 'counter'")),
    "a duplicate is acked long after its write": (
        begin, inject(0, 100), take("counter", 1, QUERY), ack("counter", "queries/0:0", process="worker-1"),
        holds("S3", 2)),
    "without exactly once an ack before user code is too early": (
        partial(begin, counting(exactly_once=False)), inject(0, 100), ack("counter", "queries/0:0"),
        violates("S3", "before user code ran")),
    "without exactly once an ack waits for strong productions": (
        partial(begin, counting(exactly_once=False)), inject(0, 100), run("counter", 1, QUERY, COUNT),
        ack("counter", "queries/0:0"),
        violates("S3", "counter@1.1#0 was neither ACKed nor checkpointed"),
        back(), write("counter", 1, productions=(COUNT,)), ack("counter", "queries/0:0"),
        holds("S3")),
    "a weak step is not forgotten before its productions arrive": (
        weak, inject(0, 100), run("counter", 1, QUERY, WEAK_COUNT), write("counter", 1, seen=(("queries/0:0", 0),)),
        violates("S3", "lets its cause queries/0:0 be forgotten")),
    # A weak production that is refused may be a zombie's; what an injector has accepted is owed, whoever refuses it.
    "who drops a remnant that no weak step made may not forget it": (
        partial(begin, counting(productions=Productions.WEAK)), inject(0, 100),
        add(DuplicateDropped, "worker-0", "counter", "cats", "queries/0:0", "horizon"),
        spares("S3"),
        ack("counter", "queries/0:0"),
        violates("S3", "before any write with its id was applied")),
    "a weak step is safe with a checkpoint": (
        weak, inject(0, 100), run("counter", 1, QUERY, WEAK_COUNT),
        write("counter", 1, seen=(("queries/0:0", 0),), productions=(WEAK_COUNT,)), ack("counter", "queries/0:0"),
        holds("S3")),
    "a weak step is safe with an arrival": (
        weak, inject(0, 100), run("counter", 1, QUERY, WEAK_COUNT), take("detector", 1, WEAK_COUNT, sequencer=2),
        write("counter", 1, seen=(("queries/0:0", 0),)), ack("counter", "queries/0:0"),
        holds("S3")),
    "a stateless weak step without exactly once needs no write": (
        partial(weak, exactly_once=False), inject(0, 100), run("counter", 1, QUERY, WEAK_COUNT),
        take("detector", 1, WEAK_COUNT, sequencer=2), ack("counter", "queries/0:0"), end(),
        breaks()),

    # S4
    "a delta without its production is torn": (
        begin, inject(0, 100), run("counter", 1, QUERY, COUNT), write("counter", 1, seen=(("queries/0:0", 0),)),
        violates("S4", "it checkpoints [], and ['counter@1.1#0'] were produced")),
    "a delta that differs from its execution in its records is torn": (
        begin, inject(0, 100), run("counter", 1, QUERY), write("counter", 1, seen=()),
        violates("S4", "it claims the records []")),
    "a delta that differs from its execution in its fired timers is torn": (
        begin, inject(0, 100), run("counter", 1, QUERY),
        write("counter", 1, seen=(("queries/0:0", 0),), fired=(timer("w", 50, 0),)),
        violates("S4", "it fires ['w'], and timers [] ran")),
    "a delta that differs from its execution in its set timers is torn": (
        begin, inject(0, 100), run("counter", 1, QUERY),
        write("counter", 1, seen=(("queries/0:0", 0),), set_timers=(timer("w", 50, 9),)),
        violates("S4", "its timer 'w' was set by version 1.9")),
    "a delta that differs from its execution in its key is torn": (
        begin, inject(0, 100), run("counter", 1, QUERY), write("counter", 1, seen=(("queries/0:0", 0),), key="dogs"),
        violates("S4", "its executions are of key 'cats'")),
    "a delta with nothing that no user code ran for is no step": (
        begin, write("counter", 1),
        violates("S4", "no user code ran for it")),
    "a delta with a state that no user code ran for is no step": (
        begin, write("counter", 1, state=b"1"),
        violates("S4", "no user code ran for it")),
    "a delta with a hold that no user code ran for is no step": (
        begin, write("counter", 1, hold=7),
        violates("S4", "no user code ran for it")),
    "a delta with a cancellation that no user code ran for is no step": (
        begin, write("counter", 1, cancelled=("w",)),
        violates("S4", "no user code ran for it")),
    "a delta with a record that no user code ran for is no step": (
        begin, write("counter", 1, seen=(("queries/0:0", 0),)),
        violates("S4", "no user code ran for it")),
    "a checkpoint that is deleted before its record has arrived breaks the promise of the ack": (
        begin, inject(0, 100), take("counter", 1, QUERY, COUNT), delete("counter", COUNT),
        violates("S3", "the checkpoint of counter@1.1#0 in key 'cats' at 'counter' was deleted"),
        take("detector", 1, COUNT, sequencer=2),
        breaks("S3")),
    "a zombies deletion is seen by who writes and by soft state": (
        begin, inject(0, 100), take("counter", 1, QUERY, COUNT), take("detector", 1, COUNT, sequencer=2),
        mint("counter", 3, "worker-1"), scan("counter", 3, "worker-1", productions=(("counter@1.1#0", "detector"),)),
        breaks(),
        delete("counter", COUNT, live=3),
        violates("S6", "a write of key 'cats' at 'counter' was applied"),
        violates("S7", "a checkpoint was deleted behind its back")),
    "checkpoints are deleted without a step": (
        begin, delete("counter", record("counter@1.0#0", "detector", 100)),
        breaks()),
    "several executions share a delta in their order": (
        begin, inject(0, 100), inject(1, 101), run("counter", 1, QUERY, COUNT),
        run("counter", 1, query(1, 101), record("counter@1.1#1", "detector", 101)),
        write("counter", 1, seen=(("queries/0:0", 0), ("queries/0:1", 0)),
            productions=(COUNT, record("counter@1.1#1", "detector", 101))),
        holds("S4", 1)),
    "a row that goes back to an earlier version is torn": (
        begin, inject(0, 100), take("counter", 2, QUERY), inject(1, 100), take("counter", 1, query(1, 100)),
        violates("S4", "it follows the later version 1.2")),

    # S5
    "an id that names two byte strings is caught": (
        begin, inject(0, 100, value=b"1"), inject(0, 100, value=b"2"),
        violates("S5", "id queries/0:0 stands for two records: b'1' on 'queries'")),
    "an id that two causes share is caught though the bytes agree": (
        begin, inject(0, 100), run("counter", 1, QUERY, COUNT), inject(1, 100), run("counter", 1, query(1, 100), COUNT),
        violates("S5", "for queries/0:0, and b'1'")),
    "one run that gives two productions one id is caught": (
        begin, inject(0, 100), run("counter", 1, QUERY, COUNT, COUNT),
        violates("S5", "gives one id to two productions")),
    "a weak id that two causes share is caught": (
        weak, inject(0, 100), run("counter", 1, QUERY, record("x>counter#0", "detector", 100)), inject(1, 100),
        run("counter", 2, query(1, 100), record("x>counter#0", "detector", 100)),
        violates("S5")),
    "an output is what was produced": (
        begin, run("detector", 1, COUNT, record("detector@2.1#0", "", 100), sequencer=2),
        output(record("detector@2.1#0", "", 100, value=b"other")),
        violates("S5", "left as b'other'")),
    "an output that nobody produced is caught": (
        begin, output(record("detector@2.1#0", "", 100)),
        violates("S5", "was never produced")),
    "a record that is read again is the same": (
        begin, inject(0, 100, origin=5), inject(0, 100, origin=9),
        holds("S5", 2)),

    # S5-weak: a zombie and its successor both run the step; user code looks at the wall clock (6.1.2)
    "weak code that makes something else is a finding and no fault of the protocol": (
        weak, inject(0, 100), run("counter", 1, QUERY, WEAK_COUNT),
        run("counter", 1, QUERY, msgspec.structs.replace(WEAK_COUNT, value=b"2"), sequencer=3, process="worker-1"),
        violates("S5-weak", "ran twice for queries/0:0"),
        breaks("S5-weak")),
    "weak code that makes nothing the second time is a finding and no fault of the protocol": (
        weak, inject(0, 100), run("counter", 1, QUERY, WEAK_COUNT),
        run("counter", 1, QUERY, sequencer=3, process="worker-1"),
        violates("S5-weak", "ran twice for queries/0:0"),
        breaks("S5-weak")),
    "weak code that repeats itself holds": (
        weak, inject(0, 100), run("counter", 1, QUERY, WEAK_COUNT),
        unknown("S5-weak", "no weak step ran twice"),
        run("counter", 1, QUERY, WEAK_COUNT, sequencer=3, process="worker-1"),
        holds("S5-weak", 1)),
    "weak code repeats itself though the consumers have changed": (
        weak, inject(0, 100), run("counter", 1, QUERY, WEAK_COUNT),
        run("counter", 1, QUERY, msgspec.structs.replace(WEAK_COUNT, consumer=""), sequencer=3, process="worker-1"),
        holds("S5-weak", 1)),

    # S6
    "a write that the store knows to be a zombies is caught": (
        begin, write("counter", 1, live=3),
        violates("S6", "under sequencer 1, when")),
    "writes on both sides of a reassignment are the latest owners": (
        begin, write("counter", 1), mint("counter", 3, "worker-1", ALL), write("counter", 1, sequencer=3),
        holds("S6", 2)),
}
# fmt: on


@pytest.mark.parametrize("row", HISTORIES.values(), ids=HISTORIES)
def test_checkers_give_the_expected_verdicts(row: Row) -> None:
    check(row)
