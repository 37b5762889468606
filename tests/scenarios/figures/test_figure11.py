"""Figure 11: a straggler is checkpointed, its sender released, and the following crash loses nothing (MillWheel 6.1.3)."""

from typing import TypeVar

import pytest

from headrace import SECOND
from headrace import history as h
from headrace_properties.verdict import Violated
from headrace_scenarios.figures.figure11 import STRAGGLER
from headrace_scenarios.scenario import ScenarioRun

E = TypeVar("E", bound=h.Event)


@pytest.fixture(scope="module")
def outcome() -> ScenarioRun:
    return STRAGGLER.run()


def first(outcome: ScenarioRun, type_: type[E], **fields: object) -> E:
    """The first event of a type with these fields."""
    return next(
        event
        for event in outcome.history
        if isinstance(event, type_) and all(getattr(event, name) == value for name, value in fields.items())
    )


def test_every_invariant_holds(outcome: ScenarioRun) -> None:
    assert outcome.violations == {}
    assert not [verdict for verdict in outcome.verdicts.values() if isinstance(verdict, Violated)]


def test_b_checkpoints_after_a_second(outcome: ScenarioRun) -> None:
    sent = first(outcome, h.Executed, computation="B")
    checkpointed = first(outcome, h.Checkpointed, computation="B")
    assert SECOND <= checkpointed.at_us - sent.at_us < 1_100_000
    assert {checkpointed.record_id} == {production.record_id for production in sent.productions}
    written = first(outcome, h.Applied, computation="B")
    assert written.delta.productions == sent.productions
    assert 0 < written.at_us - checkpointed.at_us < 10_000


def test_a_is_acked_long_before_c_acks(outcome: ScenarioRun) -> None:
    a_acked = first(outcome, h.Acked, consumer="B")
    c_acks = first(outcome, h.AckSent, computation="C")
    written = first(outcome, h.Applied, computation="B")
    assert written.at_us < a_acked.at_us < c_acks.at_us - SECOND
    assert a_acked.record_id in {record_id for record_id, _ in written.delta.seen}


def test_b_recovers_the_production_from_its_checkpoint(outcome: ScenarioRun) -> None:
    """B crashed with it un-ACKed; its successor finds it in the row, and does not run B's code for it again."""
    crash = first(outcome, h.FaultStruck, kind="crash")
    checkpoint = first(outcome, h.Checkpointed, computation="B")
    scan = next(
        e
        for e in outcome.history
        if isinstance(e, h.ScanEnded) and e.computation == "B" and e.at_us > crash.at_us
    )
    assert checkpoint.at_us < first(outcome, h.Acked, consumer="B").at_us < crash.at_us < scan.at_us
    assert scan.productions == ((checkpoint.record_id, "C"),)
    assert len([e for e in outcome.history if isinstance(e, h.Executed) and e.computation == "B"]) == 1


def test_the_record_is_output_exactly_once(outcome: ScenarioRun) -> None:
    outputs = [event.production for event in outcome.history if isinstance(event, h.Output)]
    assert [(output.stream, output.value) for output in outputs] == [("c", b'"cat videos"')]
    assert outcome.conclusion[-1] == "After B's crash the record came out 1 time(s)."


def test_the_conclusion_gives_the_times(outcome: ScenarioRun) -> None:
    checkpointed = first(outcome, h.Checkpointed, computation="B")
    a_acked, c_acks = first(outcome, h.Acked, consumer="B"), first(outcome, h.AckSent, computation="C")
    assert outcome.conclusion[0] == f"B checkpointed its production at {checkpointed.at_us / SECOND:.6f}s."
    assert outcome.conclusion[1] == (
        f"A was ACKed at {a_acked.at_us / SECOND:.6f}s, C's first ACK was sent at {c_acks.at_us / SECOND:.6f}s."
    )


def test_without_a_zombie_sequencers_do_not_matter(outcome: ScenarioRun) -> None:
    assert STRAGGLER.run("sequencers").history.digest() == outcome.history.digest()
