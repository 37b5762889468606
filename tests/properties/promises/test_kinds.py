"""When each kind of promise is asked, and how its answers become a verdict."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from headrace import SECOND, Clock
from headrace.history import ProcessStarted
from headrace_properties.checkers import all_checkers, judge
from headrace_properties.promises import (
    Broken,
    Moment,
    Promise,
    RecordView,
    RowChange,
    Unexercised,
    always,
    at_end,
    eventually,
    never,
    promise_checkers,
    sometimes,
)
from headrace_properties.verdict import Holds, Unknown, Violated
from tests.properties.promises.rig import Told, bank, plain_assertion, production, timer


@always(of="accounts")
def no_overdraft(moment: Moment) -> None:
    """No account is ever below zero."""
    assert moment.changed.after["balance"] >= 0


def rich(moment: Moment) -> bool:
    return any(state["balance"] >= 10 for state in moment.states("accounts").values())


def test_always_is_broken_by_the_first_change_that_breaks_it() -> None:
    told = Told()
    told.apply("ann", {"balance": 3})
    bad = told.apply("ann", {"balance": -1})
    told.apply("ann", {"balance": -2})
    verdict = told.end().verdict(no_overdraft)
    assert isinstance(verdict, Violated)
    assert verdict.witness == (bad,)
    assert "row 'ann' of 'accounts' changed from {'balance': 3} to {'balance': -1}" in verdict.message
    assert verdict.message.endswith("-1 >= 0")  # as pytest rewrites it


def test_an_assertion_without_a_message_shows_its_line_and_values() -> None:
    told = Told()
    told.apply("ann", {"balance": 97})
    verdict = told.end().verdict(at_end(plain_assertion))
    assert isinstance(verdict, Violated)
    assert "assert total == 100 (rig.py, line " in verdict.message
    assert "), where total=97, name='evil \\x1b[2Jxxx" in verdict.message
    assert verdict.message.endswith("xxx..., odd=a Unshowable")


def test_always_sees_a_dip_that_is_over_at_the_end() -> None:
    told = Told()
    told.apply("ann", {"balance": -1})
    told.apply("ann", {"balance": 1})
    assert isinstance(told.end().verdict(no_overdraft), Violated)
    assert told.verdict(at_end(no_overdraft_at_end)) == Holds(1)


def test_promises_are_checkers_judged_in_one_pass_with_the_invariants() -> None:
    told = Told()
    told.apply("ann", {"balance": -1})
    promised = promise_checkers([no_overdraft], [bank()])
    found = judge(told.end().events, [bank()], None, promised)
    assert {*(checker.name for checker in all_checkers([bank()])), "no_overdraft"} == found.keys()
    assert found["no_overdraft"] == told.verdict(no_overdraft)
    assert isinstance(found["no_overdraft"], Violated)
    (checker,) = promised.checkers
    assert (checker.name, checker.section) == ("no_overdraft", "")


def no_overdraft_at_end(moment: Moment) -> bool:
    return all(state["balance"] >= 0 for state in moment.states("accounts").values())


def test_code_that_ran_and_is_not_durable_says_nothing() -> None:
    told = Told()
    told.run("ann", "in1", 7, production("told", "", "ann", {"id": 1}, "out"))
    assert isinstance(told.verdict(no_overdraft), Unknown)
    told.apply("bob", {"balance": 1})
    assert told.end().verdict(always(nothing_told)) == Holds(1)


def test_a_record_on_its_way_has_not_left() -> None:
    told = Told()
    told.apply("ann", {"balance": 1}, makes=[production("told", "", "ann", {"id": 1}, "x")])
    assert told.end().verdict(always(nothing_told)) == Holds(1)
    told.output("ann", {"id": 1}, name="x")
    assert isinstance(told.verdict(always(nothing_told)), Violated)


def test_a_restarted_process_changes_nothing_durable() -> None:
    told = Told()
    told.apply("ann", {"balance": 10})
    told.add(ProcessStarted(told.at_us, "store", 2))
    assert told.end().verdict(at_end(rich)) == Holds(1)
    told.apply("ann", {"balance": -1})
    assert isinstance(told.verdict(no_overdraft), Violated)


def test_always_is_asked_while_faults_strike() -> None:
    told = Told()
    told.fault()
    told.apply("ann", {"balance": -1})
    told.heal()
    told.apply("ann", {"balance": 1})
    assert isinstance(told.end().verdict(no_overdraft), Violated)


def nothing_told(moment: Moment) -> bool:
    return not moment.outputs()


def test_always_without_any_change_is_unknown() -> None:
    told = Told()
    told.apply("ann", {"balance": -1}, computation="received")
    assert told.end().verdict(no_overdraft) == Unknown("nothing changed that it is about: 'accounts'")


def test_never_is_broken_by_true() -> None:
    told = Told()
    told.apply("ann", {"balance": 9})
    assert told.end().verdict(never(rich)) == Holds(1)
    told.apply("bob", {"balance": 10})
    assert isinstance(told.verdict(never(rich)), Violated)


def test_sometimes_is_unknown_until_it_is_reached_once() -> None:
    told = Told()
    told.apply("ann", {"balance": 9})
    assert told.verdict(sometimes(rich)) == Unknown("no run has reached it")
    told.apply("ann", {"balance": 10})
    told.apply("ann", {"balance": 0})
    assert told.end().verdict(sometimes(rich)) == Holds(1)


@pytest.mark.parametrize("why", ["deadline", "limit", ""])
def test_the_end_of_a_run_that_did_not_come_to_rest_is_unknown(why: str) -> None:
    told = Told()
    told.apply("ann", {"balance": -1})
    if why:
        told.end(why)
    verdict = told.verdict(at_end(no_overdraft_at_end))
    assert isinstance(verdict, Unknown)
    assert verdict.cut_short
    told.end()
    assert isinstance(told.verdict(at_end(no_overdraft_at_end)), Violated)


in_time = eventually(within_us=SECOND, name="in_time")(rich)


def test_eventually_counts_from_the_end_of_all_faults() -> None:
    """Faults strike for 5 s; 0.9 s after they heal it is so."""
    told = Told()
    told.inject("deposits", "ann", {"amount": 10})
    told.fault()
    told.wait(5 * SECOND)
    told.heal()
    told.wait(9 * SECOND // 10)
    told.apply("ann", {"balance": 10})
    assert told.end().verdict(in_time) == Holds(1)


def test_eventually_is_broken_by_what_comes_after_the_bound() -> None:
    told = Told()
    told.heal()
    told.wait(2 * SECOND)
    told.apply("ann", {"balance": 10})
    end = told.end().events[-1]
    verdict = told.verdict(in_time)
    assert isinstance(verdict, Violated)
    assert verdict.witness == (end,)
    assert "within 1 s of 0 s" in verdict.message


def test_eventually_counts_from_the_last_input() -> None:
    """It was so before the last record came in, and is not afterwards."""
    told = Told()
    told.heal()
    told.apply("ann", {"balance": 10})
    told.wait(5 * SECOND)
    told.apply("ann", {"balance": 1})
    told.inject("deposits", "ann", {"amount": 9}, name="a")
    told.wait(SECOND // 2)
    assert isinstance(Told.end(told).verdict(in_time), Violated)
    told.events.pop()
    told.apply("ann", {"balance": 10})
    assert told.end().verdict(in_time) == Holds(1)


def test_a_reread_record_does_not_restart_the_clock() -> None:
    told = Told()
    told.heal()
    told.inject("deposits", "ann", {"amount": 9}, name="a")
    told.wait(2 * SECOND)
    told.inject("deposits", "ann", {"amount": 9}, name="a")
    told.apply("ann", {"balance": 10})
    assert isinstance(told.end().verdict(in_time), Violated)


def test_eventually_is_unknown_while_faults_last_and_when_the_run_is_cut_before_the_bound() -> None:
    told = Told()
    told.fault()
    assert isinstance(told.end("deadline").verdict(in_time), Unknown)
    told = Told()
    told.heal()
    told.wait(SECOND // 2)
    assert isinstance(told.end("limit").verdict(in_time), Unknown)
    told.wait(SECOND)
    assert isinstance(told.end("limit").verdict(in_time), Violated)


def test_eventually_is_unknown_if_the_run_ends_before_the_bound_and_before_a_wall_timer() -> None:
    """What the timer does could yet keep the promise; without one, or after the bound, nothing will."""
    wall = replace(timer("later", 10 * SECOND), clock=Clock.WALL)
    told = Told()
    told.heal()
    told.apply("ann", {"balance": 1}, timers=(wall,))
    verdict = told.end().verdict(in_time)
    assert isinstance(verdict, Unknown)
    assert "before wall timer 'later' of key 'ann' at 'accounts'" in verdict.why
    told.events.pop()
    told.apply("ann", {"balance": 1}, fired=(wall,))
    assert isinstance(told.end().verdict(in_time), Violated)


def test_a_fault_that_outlasts_healing_must_be_tolerated() -> None:
    told = Told()
    told.heal()
    told.fault()
    told.wait(2 * SECOND)
    told.apply("ann", {"balance": 10})
    assert isinstance(told.end().verdict(in_time), Violated)


def test_the_world_is_decoded_and_each_record_counts_once() -> None:
    """A record is injected twice, as after a crash, and an output is heard of twice."""
    shown: list[Any] = []

    @at_end
    def look(moment: Moment) -> None:
        shown.append([(view.stream, view.key, view.value, view.timestamp) for view in moment.inputs()])
        shown.append([(view.key, view.value) for view in moment.outputs("told")])
        shown.append(dict(moment.states("accounts")))
        shown.append((moment.state("accounts", "cid"), moment.low_watermark("accounts"), moment.at_us))

    told = Told()
    told.inject("deposits", "ann", {"amount": 5}, name="a", timestamp=7)
    told.inject("deposits", "ann", {"amount": 5}, name="a", timestamp=7)
    told.apply("ann", {"balance": 5}, seen=["a"])
    told.apply("bob", {"balance": 5})
    told.apply("bob", "")
    told.output("ann", {"id": 1}, name="x")
    told.output("ann", {"id": 1}, name="x")
    told.publish(accounts=44)
    assert told.end().verdict(look) == Holds(1)
    assert shown == [
        [("deposits", "ann", {"amount": 5}, 7)],
        [("ann", {"id": 1})],
        {"ann": {"balance": 5}},
        ({"balance": 0}, 44, 8000),
    ]


def test_a_change_has_its_earlier_state_and_what_it_consumed_and_produced() -> None:
    shown: list[Any] = []

    @always
    def look(moment: Moment) -> None:
        change = moment.changed
        if isinstance(change, RowChange):
            consumed, produced = (
                [record.value for record in change.consumed],
                [record.stream for record in change.produced],
            )
            shown.append((change.computation, change.key, change.before, change.after, consumed, produced))
        else:
            assert isinstance(change, RecordView)
            shown.append((change.stream, change.value))

    told = Told()
    told.inject("deposits", "ann", {"amount": 5}, name="a")
    told.apply(
        "ann",
        {"balance": 5},
        seen=["a"],
        makes=[production("credits", "received", "bob", {"amount": 1}, "c")],
    )
    told.apply("bob", {"balance": 1}, computation="received", seen=["c"])
    told.output("ann", {"id": 1})
    assert told.end().verdict(look) == Holds(3)
    assert shown == [
        ("accounts", "ann", {"balance": 0}, {"balance": 5}, [{"amount": 5}], ["credits"]),
        ("received", "bob", {"balance": 0}, {"balance": 1}, [{"amount": 1}], []),
        ("told", {"id": 1}),
    ]


def test_the_witness_is_what_the_promise_blames() -> None:
    @always(stream="told")
    def once(moment: Moment) -> None:
        first = moment.memory.setdefault(moment.changed.value["id"], moment.changed)
        if first is not moment.changed and first.number != moment.changed.number:
            raise Broken("told twice", first)

    told = Told()
    one, other, again = (told.output("ann", {"id": number}) for number in (1, 2, 1))
    verdict = told.end().verdict(once)
    assert isinstance(verdict, Violated)
    assert verdict.witness == (one, again)
    assert other not in verdict.witness


def test_an_unexercised_promise_is_unknown() -> None:
    @at_end
    def about_transfers(moment: Moment) -> bool:
        if not moment.inputs("transfers"):
            raise Unexercised("no transfer")
        return True

    assert Told().end().verdict(about_transfers) == Unknown("no transfer")


@pytest.mark.parametrize("kind", [at_end, eventually(within_us=1)])
def test_a_promise_about_each_of_none_is_unknown(kind: Callable[[Callable[[Moment], bool]], Promise]) -> None:
    @kind
    def all_went_well(moment: Moment) -> bool:
        return all(view.value["ok"] for view in moment.outputs("told")) and not any(
            state["balance"] < 0 for state in moment.states("accounts").values()
        )

    told = Told()
    told.heal()
    told.end()
    why = "it goes through outputs('told'), states('accounts'), and there was nothing"
    assert told.verdict(all_went_well) == Unknown(why)
    told = Told()
    told.apply("ann", {"balance": 1})
    told.heal()
    assert told.end().verdict(all_went_well) == Holds(1)


def test_that_there_is_none_can_be_promised() -> None:
    for counted in (
        lambda moment: not moment.outputs("told"),
        lambda moment: len(moment.outputs("told")) == 0,
        lambda moment: moment.outputs("told") == (),
        lambda moment: not moment.states("accounts"),
        lambda moment: moment.at_us >= 0 and all(view.key for view in moment.outputs()),
        lambda moment: moment.state("accounts", "ann")["balance"] == 0 and not [*moment.inputs()],
    ):
        assert Told().end().verdict(at_end(name="counted")(counted)) == Holds(1)


def test_an_inconclusive_moment_leaves_the_verdict_to_the_others() -> None:
    @always(of="accounts")
    def about_ann(moment: Moment) -> bool:
        if moment.changed.key != "ann":
            raise Unexercised("nothing of ann")
        return bool(moment.changed.after["balance"] > 0)

    told = Told()
    told.apply("bob", {"balance": 0})
    assert told.verdict(about_ann) == Unknown("nothing of ann")
    told.apply("ann", {"balance": 1})
    told.apply("bob", {"balance": 0})
    assert told.verdict(about_ann) == Holds(1)
    told.apply("ann", {"balance": 0})
    told.apply("bob", {"balance": 0})
    assert isinstance(told.verdict(about_ann), Violated)


def test_eventually_is_unknown_where_the_promise_cannot_tell() -> None:
    @eventually(within_us=1)
    def about_ann(moment: Moment) -> bool:
        if not moment.inputs():
            raise Unexercised("no input")
        return False

    told = Told()
    told.heal()
    assert told.end().verdict(about_ann) == Unknown("no input")


def test_a_sample_of_the_keys_decides_about_rows_but_not_about_totals() -> None:
    told = Told()
    told.sampled(0.1)
    told.apply("ann", {"balance": -1})
    told.end()
    assert isinstance(told.verdict(no_overdraft), Violated)
    assert isinstance(told.verdict(never(rich)), Unknown)
    assert isinstance(told.verdict(at_end(no_overdraft_at_end)), Unknown)


def test_what_the_pipelines_switches_permit_is_said_beside_what_breaks() -> None:
    told = Told()
    told.apply("ann", {"balance": -1})
    verdict = told.end().verdict(no_overdraft, bank(exactly_once=False))
    assert isinstance(verdict, Violated)
    assert "exactly_once=False of 'accounts' permits" in verdict.message
    sound = told.verdict(no_overdraft)
    assert isinstance(sound, Violated)
    assert "note" not in sound.message
