"""Causality: messages between processes, and the causal past of an event."""

import pytest

from headrace.causes import Causes
from headrace.history import (
    AckSent,
    Applied,
    Executed,
    History,
    Injected,
    InputWatermarkAdvanced,
    Published,
    ScanEnded,
)
from headrace_benchmarks.sampled_runs import case_of
from headrace_properties.explain.causality import (
    LinkKind,
    causal_past,
    links_of,
    messages_of,
    numbers_of,
)
from headrace_properties.proof.workloads import WORKLOADS
from headrace_scenarios.catalogue import SCENARIOS
from tests.properties.stories import healthy, timer

FIGURES_OF_DATAFLOW = [name for name in SCENARIOS if name.startswith("dataflow-")]
"""One pipeline, with other triggers."""


def ends(story_kind: LinkKind) -> list[tuple[str, str]]:
    events = healthy().events
    return [
        (type(events[message.cause]).__name__, type(events[message.effect]).__name__)
        for message in messages_of(links_of(events))
        if message.kind is story_kind
    ]


def test_a_write_goes_from_user_code_to_the_store_and_its_answer_lets_the_owner_ack() -> None:
    assert ends(LinkKind.WRITE).count(("Executed", "Applied")) == 3
    assert ends(LinkKind.REPLY) == [("Applied", "AckSent")] * 2


def test_an_output_comes_from_the_owner_that_acked_its_cause() -> None:
    """Strong productions are sent when the write is known, which is when the cause is ACKed."""
    assert ends(LinkKind.RECORD) == [("Injected", "Executed"), ("AckSent", "Output")]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.nightly if name in FIGURES_OF_DATAFLOW[1:] else ())
        for name in SCENARIOS
    ],
)
def test_every_cause_comes_before_its_effect_in_every_scenario(name: str) -> None:
    for without in ("", "sequencers"):
        history = SCENARIOS[name].run(without).history
        links = links_of(history)
        assert links
        assert all(link.cause < link.effect for link in links)


def test_the_past_of_a_zombies_write_has_the_record_and_the_owners_and_no_reports() -> None:
    outcome = SCENARIOS["zombie-timer"].run("sequencers")
    events = outcome.history
    witness = numbers_of(events, outcome.violations["S6"].witness)
    past = [events[number] for number in sorted(causal_past(links_of(events), witness))]
    assert [type(event) for event in past if isinstance(event, Injected | Applied)] == [
        Injected,
        Applied,
        Applied,
    ]
    assert not any(isinstance(event, Published) for event in past)
    assert len(past) < len(events) / 10


def test_a_witness_is_found_by_identity_before_equality() -> None:
    story = healthy()
    same = [story.events[0], story.events[0]]
    assert numbers_of(story.events, same) == [0, 0]
    assert numbers_of(story.events, [AckSent(1, "nobody", "counter", ("x",), "y")]) == []


def test_a_scan_depends_on_the_write_that_made_what_it_found() -> None:
    story = healthy()
    window = timer("late", 900, 7)
    story.write("counter", 7, set_timers=(window,))
    story.scan("counter", 5, "worker-9", timers=(("cats", "late"),))
    links = [link for link in links_of(story.events) if link.effect == len(story.events) - 1]
    assert isinstance(story.events[-1], ScanEnded)
    assert [(link.kind, type(story.events[link.cause])) for link in links] == [(LinkKind.REPLY, Applied)]


def test_a_timers_run_depends_on_the_write_that_set_it() -> None:
    story = healthy()
    fired = next(
        n for n, event in enumerate(story.events) if isinstance(event, Executed) and event.timer is not None
    )
    causes = [type(story.events[link.cause]) for link in links_of(story.events) if link.effect == fired]
    assert Applied in causes


# Recorded causes


@pytest.fixture(scope="module")
def histories() -> list[History]:
    """Every workload under random plans."""
    return [case_of(number).history() for number in range(3 * len(WORKLOADS))]


def test_every_cause_of_an_event_happened_before_it(histories: list[History]) -> None:
    for history in histories:
        causes = Causes(history)
        assert all(causes.happens_before(link.cause, link.effect) for link in links_of(history))


def test_a_message_comes_from_the_copy_that_arrived_and_not_from_the_latest(histories: list[History]) -> None:
    """Where they differ, the first copy of a record was delayed, and its sender had sent it again meanwhile."""
    wrong = 0
    for history in histories:
        causes = Causes(history)
        guessed = {(link.effect, link.label): link.cause for link in messages_of(links_of(history.events))}
        for link in messages_of(links_of(history)):
            sent = causes.sender_of(link.effect)
            assert sent is not None
            if causes.process_of(sent) == history[link.cause].process:
                assert link.cause < causes.end_of(sent)
            wrong += guessed.get((link.effect, link.label), link.cause) != link.cause
    assert wrong, "else nothing is gained over a History without causes"


def test_a_watermark_comes_from_the_broadcast_that_brought_it(histories: list[History]) -> None:
    for history in histories:
        causes = Causes(history)
        for link in messages_of(links_of(history)):
            if isinstance(history[link.effect], InputWatermarkAdvanced):
                assert isinstance(history[link.cause], Published)
                sent = causes.sender_of(link.effect)
                assert sent is not None
                assert causes.process_of(sent) == history[link.cause].process
