"""S1 to S6 and L2, each on a History that it must pass and on one that it must not."""

import msgspec
import pytest

from headrace import Productions
from headrace.history import AckSent, Applied, DuplicateDropped, FaultStruck, Healed, IntervalMinted
from headrace.wire.rows import Production
from headrace_properties.checkers import all_checkers, judge
from headrace_properties.verdict import Holds, Unknown, Violated
from tests.properties.explain.stories import ALL, Story, begin, counting, healthy, record, timer


def weak(**switches: bool) -> Story:
    return begin(counting(productions=Productions.WEAK, **switches))


# All of them


def test_every_checker_holds_for_a_healthy_run() -> None:
    verdicts = healthy().verdicts()
    assert {name: type(verdict) for name, verdict in verdicts.items()} == dict.fromkeys(verdicts, Holds)


def test_every_checker_is_unknown_for_an_empty_history() -> None:
    verdicts = judge([], [counting()])
    assert {name: type(verdict) for name, verdict in verdicts.items()} == dict.fromkeys(verdicts, Unknown)


def test_checkers_say_what_they_check() -> None:
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
    }
    assert set(names) == expected
    assert all(checker.title and checker.section for checker in checkers)
    assert [checker.name for checker in checkers if checker.finding] == ["S5-weak"]


def test_the_pipeline_without_weak_productions_is_not_asked_about_them() -> None:
    assert "S5-weak" not in judge([], [counting()])


def test_pipelines_that_change_while_running_are_judged_as_one() -> None:
    story = healthy()
    whole = counting()
    verdicts = judge(story.events, [whole, whole.without("detector")])
    assert isinstance(verdicts.pop("S16"), Unknown)  # who joins a running topology is behind
    assert verdicts == {name: one for name, one in story.verdicts().items() if name != "S16"}


# S1, L2


def test_a_durable_production_that_no_row_has_at_rest_is_lost() -> None:
    story = begin()
    query = story.inject(0, 100)
    story.take("counter", 1, query, record("counter@1.1#0", "detector", 100))
    story.end()
    assert "record counter@1.1#0 of 'counter' to 'detector' (key 'cats'" in story.violated("S1")
    assert story.broken() == {"S1", "L2"}


def test_an_accepted_record_that_was_never_applied_is_lost() -> None:
    story = begin()
    story.inject(0, 100)
    story.end()
    assert "queries/0:0" in story.violated("S1")


def test_an_output_that_never_left_is_lost() -> None:
    story = begin()
    query = story.inject(0, 100)
    count = record("counter@1.1#0", "detector", 100)
    story.take("counter", 1, query, count)
    story.take("detector", 1, count, record("detector@2.1#0", "", 100), sequencer=2)
    story.end()
    assert "to the outside" in story.violated("S1")


def test_a_run_that_its_deadline_ended_is_judged_by_liveness_only() -> None:
    story = begin()
    story.inject(0, 100)
    story.end("deadline")
    assert isinstance(story.verdicts()["S1"], Unknown)
    message = story.violated("L2")
    assert "has waited since 0.005000s" in message
    assert "'queries' to 'counter'" in message


def test_liveness_is_not_due_while_faults_strike() -> None:
    story = begin()
    story.add(FaultStruck(story.tick(), "worker-0", "crash", ""))
    story.inject(0, 100)
    story.end("deadline")
    assert {name: type(story.verdicts()[name]) for name in ("L1", "L2", "L4")} == dict.fromkeys(
        ("L1", "L2", "L4"), Unknown
    )


def test_liveness_is_due_once_faults_are_healed() -> None:
    story = begin()
    story.add(FaultStruck(story.tick(), "worker-0", "crash", ""))
    story.add(Healed(story.tick(), "", ()))
    story.inject(0, 100)
    story.end("deadline")
    story.violated("L2")


def test_liveness_is_due_when_all_is_at_rest_healed_or_not() -> None:
    story = begin()
    story.add(FaultStruck(story.tick(), "worker-0", "crash", ""))
    story.inject(0, 100)
    story.end("quiescent")
    story.violated("L2")


def test_without_exactly_once_an_ack_shows_that_a_record_arrived() -> None:
    story = begin(counting(exactly_once=False))
    query = story.inject(0, 100)
    story.run("counter", 1, query)
    story.end()
    story.violated("S1")
    story.events.pop()
    story.ack("counter", query.record_id)
    story.end()
    assert not story.broken()


def test_weak_productions_count_once_their_step_is_applied() -> None:
    story = weak()
    query = story.inject(0, 100)
    count = record("queries/0:0>counter#0", "detector", 100)
    story.run("counter", 1, query, count)
    story.write("counter", 1, seen=((query.record_id, 0),))
    story.end()
    assert count.record_id in story.violated("S1")


# S2


def test_a_record_that_two_owners_apply_counts_twice() -> None:
    story = begin()
    query = story.inject(0, 100)
    story.take("counter", 1, query)
    story.own("counter", 3, "worker-1")
    story.take("counter", 1, query, sequencer=3)
    message = story.violated("S2")
    assert "queries/0:0 was applied twice at 'counter': by write 1.1" in message
    assert "and by write 3.1" in message


def test_a_record_that_one_write_claims_twice_counts_twice() -> None:
    story = begin()
    query = story.inject(0, 100)
    story.run("counter", 1, query)
    story.run("counter", 1, query)
    story.write("counter", 1, seen=((query.record_id, 0), (query.record_id, 0)))
    story.violated("S2")


def test_two_consumers_may_apply_one_record() -> None:
    story = begin()
    story.write("counter", 1, seen=(("queries/0:0", 0),))
    story.write("detector", 1, seen=(("queries/0:0", 0),), sequencer=2)
    assert story.verdicts()["S2"] == Holds(2)


# S3


def test_an_ack_before_the_write_is_too_early() -> None:
    story = begin()
    query = story.inject(0, 100)
    story.run("counter", 1, query)
    story.ack("counter", query.record_id)
    story.write("counter", 1, seen=((query.record_id, 0),))
    assert "queries/0:0 was ACKed by worker-0 for 'counter'" in story.violated("S3")


def test_a_duplicate_is_acked_long_after_its_write() -> None:
    story = begin()
    query = story.inject(0, 100)
    story.take("counter", 1, query)
    story.ack("counter", query.record_id, process="worker-1")
    assert story.verdicts()["S3"] == Holds(2)


def test_without_exactly_once_an_ack_before_user_code_is_too_early() -> None:
    story = begin(counting(exactly_once=False))
    query = story.inject(0, 100)
    story.ack("counter", query.record_id)
    assert "before user code ran" in story.violated("S3")


def test_without_exactly_once_an_ack_waits_for_strong_productions() -> None:
    story = begin(counting(exactly_once=False))
    query = story.inject(0, 100)
    count = record("counter@1.1#0", "detector", 100)
    story.run("counter", 1, query, count)
    story.ack("counter", query.record_id)
    assert "counter@1.1#0 was neither ACKed nor checkpointed" in story.violated("S3")
    story.events.pop()
    story.write("counter", 1, productions=(count,))
    story.ack("counter", query.record_id)
    assert isinstance(story.verdicts()["S3"], Holds)


def test_a_weak_step_is_not_forgotten_before_its_productions_arrive() -> None:
    story = weak()
    query = story.inject(0, 100)
    story.run("counter", 1, query, record("queries/0:0>counter#0", "detector", 100))
    story.write("counter", 1, seen=((query.record_id, 0),))
    assert "lets its cause queries/0:0 be forgotten" in story.violated("S3")


def test_who_drops_a_remnant_that_no_weak_step_made_may_not_forget_it() -> None:
    """A weak production that is refused may be a zombie's; what an injector has accepted is owed, whoever refuses it."""
    story = begin(counting(productions=Productions.WEAK))
    query = story.inject(0, 100)
    story.add(DuplicateDropped(story.tick(), "worker-0", "counter", "cats", query.record_id, "horizon"))
    assert "S3" not in story.broken()
    story.ack("counter", query.record_id)
    assert "before any write with its id was applied" in story.violated("S3")


@pytest.mark.parametrize("checkpointed", [True, False])
def test_a_weak_step_is_safe_with_a_checkpoint_or_an_arrival(*, checkpointed: bool) -> None:
    story = weak()
    query = story.inject(0, 100)
    count = record("queries/0:0>counter#0", "detector", 100)
    story.run("counter", 1, query, count)
    if not checkpointed:
        story.take("detector", 1, count, sequencer=2)
    story.write("counter", 1, seen=((query.record_id, 0),), productions=(count,) if checkpointed else ())
    story.ack("counter", query.record_id)
    assert isinstance(story.verdicts()["S3"], Holds)


def test_a_stateless_weak_step_without_exactly_once_needs_no_write() -> None:
    story = weak(exactly_once=False)
    query = story.inject(0, 100)
    count = record("queries/0:0>counter#0", "detector", 100)
    story.run("counter", 1, query, count)
    story.take("detector", 1, count, sequencer=2)
    story.ack("counter", query.record_id)
    story.end()
    assert not story.broken()


# S4


def test_a_delta_without_its_production_is_torn() -> None:
    story = begin()
    query = story.inject(0, 100)
    story.run("counter", 1, query, record("counter@1.1#0", "detector", 100))
    story.write("counter", 1, seen=((query.record_id, 0),))
    assert "it checkpoints [], and ['counter@1.1#0'] were produced" in story.violated("S4")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"seen": ()}, "it claims the records []"),
        ({"seen": (("queries/0:0", 0),), "fired": (timer("w", 50, 0),)}, "it fires ['w'], and timers [] ran"),
        (
            {"seen": (("queries/0:0", 0),), "set_timers": (timer("w", 50, 9),)},
            "its timer 'w' was set by version 1.9",
        ),
        ({"seen": (("queries/0:0", 0),), "key": "dogs"}, "its executions are of key 'cats'"),
    ],
)
def test_a_delta_that_differs_from_its_execution_is_torn(changes: dict[str, object], problem: str) -> None:
    story = begin()
    story.run("counter", 1, story.inject(0, 100))
    story.write("counter", 1, **changes)  # type: ignore[arg-type]
    assert problem in story.violated("S4")


@pytest.mark.parametrize(
    "change", [{}, {"state": b"1"}, {"hold": 7}, {"cancelled": ("w",)}, {"seen": (("queries/0:0", 0),)}]
)
def test_a_delta_that_no_user_code_ran_for_is_no_step(change: dict[str, object]) -> None:
    story = begin()
    story.write("counter", 1, **change)  # type: ignore[arg-type]
    assert "no user code ran for it" in story.violated("S4")


def test_a_checkpoint_that_is_deleted_before_its_record_has_arrived_breaks_the_promise_of_the_ack() -> None:
    story = begin()
    count = record("counter@1.1#0", "detector", 100)
    story.take("counter", 1, story.inject(0, 100), count)
    story.delete("counter", count)
    assert "the checkpoint of counter@1.1#0 in key 'cats' at 'counter' was deleted" in story.violated("S3")
    story.take("detector", 1, count, sequencer=2)
    assert story.broken() == {"S3"}


def test_a_zombies_deletion_is_seen_by_who_writes_and_by_soft_state() -> None:
    story = begin()
    count = record("counter@1.1#0", "detector", 100)
    story.take("counter", 1, story.inject(0, 100), count)
    story.take("detector", 1, count, sequencer=2)
    story.mint("counter", 3, "worker-1")
    story.scan("counter", 3, "worker-1", productions=(("counter@1.1#0", "detector"),))
    assert story.broken() == set()
    story.delete("counter", count, live=3)
    assert "a write of key 'cats' at 'counter' was applied" in story.violated("S6")
    assert "a checkpoint was deleted behind its back" in story.violated("S7")


def test_checkpoints_are_deleted_without_a_step() -> None:
    story = begin()
    story.delete("counter", record("counter@1.0#0", "detector", 100))
    assert story.broken() == set()


def test_several_executions_share_a_delta_in_their_order() -> None:
    story = begin()
    first, second = story.inject(0, 100), story.inject(1, 101)
    counts = (record("counter@1.1#0", "detector", 100), record("counter@1.1#1", "detector", 101))
    story.run("counter", 1, first, counts[0])
    story.run("counter", 1, second, counts[1])
    story.write("counter", 1, seen=((first.record_id, 0), (second.record_id, 0)), productions=counts)
    assert story.verdicts()["S4"] == Holds(1)


def test_a_row_that_goes_back_to_an_earlier_version_is_torn() -> None:
    story = begin()
    story.take("counter", 2, story.inject(0, 100))
    story.take("counter", 1, story.inject(1, 100))
    assert "it follows the later version 1.2" in story.violated("S4")


# S5


def test_an_id_that_names_two_byte_strings_is_caught() -> None:
    story = begin()
    story.inject(0, 100, value=b"1")
    story.inject(0, 100, value=b"2")
    assert "id queries/0:0 stands for two records: b'1' on 'queries'" in story.violated("S5")


def test_an_id_that_two_causes_share_is_caught_though_the_bytes_agree() -> None:
    story = begin()
    count = record("counter@1.1#0", "detector", 100)
    story.run("counter", 1, story.inject(0, 100), count)
    story.run("counter", 1, story.inject(1, 100), count)
    assert "for queries/0:0, and b'1'" in story.violated("S5")


def test_one_run_that_gives_two_productions_one_id_is_caught() -> None:
    story = begin()
    count = record("counter@1.1#0", "detector", 100)
    story.run("counter", 1, story.inject(0, 100), count, count)
    assert "gives one id to two productions" in story.violated("S5")


def test_a_weak_id_that_two_causes_share_is_caught() -> None:
    story = weak()
    count = record("x>counter#0", "detector", 100)
    story.run("counter", 1, story.inject(0, 100), count)
    story.run("counter", 2, story.inject(1, 100), count)
    story.violated("S5")


def test_an_output_is_what_was_produced() -> None:
    story = begin()
    story.run(
        "detector",
        1,
        record("counter@1.1#0", "detector", 100),
        record("detector@2.1#0", "", 100),
        sequencer=2,
    )
    story.output(record("detector@2.1#0", "", 100, value=b"other"))
    assert "left as b'other'" in story.violated("S5")


def test_an_output_that_nobody_produced_is_caught() -> None:
    story = begin()
    story.output(record("detector@2.1#0", "", 100))
    assert "was never produced" in story.violated("S5")


def test_a_record_that_is_read_again_is_the_same() -> None:
    story = begin()
    story.inject(0, 100, origin=5)
    story.inject(0, 100, origin=9)
    assert story.verdicts()["S5"] == Holds(2)


# S5-weak


@pytest.mark.parametrize("again", [(record("queries/0:0>counter#0", "detector", 100, value=b"2"),), ()])
def test_weak_code_that_does_not_repeat_itself_is_a_finding_and_no_fault_of_the_protocol(
    again: tuple[Production, ...],
) -> None:
    """A zombie and its successor both run the step; user code looks at the wall clock (6.1.2)."""
    story = weak()
    query = story.inject(0, 100)
    story.run("counter", 1, query, record("queries/0:0>counter#0", "detector", 100, value=b"1"))
    story.run("counter", 1, query, *again, sequencer=3, process="worker-1")
    assert "ran twice for queries/0:0" in story.violated("S5-weak")
    assert story.broken() == {"S5-weak"}


def test_weak_code_that_repeats_itself_holds() -> None:
    story = weak()
    query = story.inject(0, 100)
    count = record("queries/0:0>counter#0", "detector", 100)
    story.run("counter", 1, query, count)
    assert story.verdicts()["S5-weak"] == Unknown("no weak step ran twice")
    story.run("counter", 1, query, count, sequencer=3, process="worker-1")
    assert story.verdicts()["S5-weak"] == Holds(1)


def test_weak_code_repeats_itself_though_the_consumers_have_changed() -> None:
    story = weak()
    query = story.inject(0, 100)
    count = record("queries/0:0>counter#0", "detector", 100)
    story.run("counter", 1, query, count)
    story.run(
        "counter", 1, query, msgspec.structs.replace(count, consumer=""), sequencer=3, process="worker-1"
    )
    assert story.verdicts()["S5-weak"] == Holds(1)


# S6


def test_a_write_that_the_store_knows_to_be_a_zombies_is_caught() -> None:
    story = begin()
    story.write("counter", 1, live=3)
    assert "under sequencer 1, when" in story.violated("S6")


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


def test_writes_on_both_sides_of_a_reassignment_are_the_latest_owners() -> None:
    story = begin()
    story.write("counter", 1)
    story.mint("counter", 3, "worker-1", ALL)
    story.write("counter", 1, sequencer=3)
    assert story.verdicts()["S6"] == Holds(2)


def test_a_witness_is_the_events_that_show_it() -> None:
    story = begin()
    query = story.inject(0, 100)
    story.ack("counter", query.record_id)
    verdict = story.verdicts()["S3"]
    assert isinstance(verdict, Violated)
    (event,) = verdict.witness
    assert isinstance(event, AckSent)
