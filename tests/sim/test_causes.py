"""Causes as the simulator records them, checked against what the messages carried: identities, senders, versions."""

import random
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import get_args

import pytest

from headrace import history as h
from headrace.causes import Causes, NoSuchEventError, UnknownCausesError
from headrace.delivery.routing import OUTSIDE_ADDRESS
from headrace.history import Activation, History
from headrace.wire import messages as m
from headrace_benchmarks.sampled_runs import case_of
from headrace_properties.proof.workloads import WORKLOADS
from headrace_properties.search.step_faults import single_faults
from headrace_sim import ClusterOptions, FaultSchedule, simulate

ANSWERS = {
    "Read": "RowRead", "Scan": "Scanned", "Write": "Written", "CollectIds": "Collected", "Mint": "Minted",
    "Peek": "Peeked", "Claim": "Claimed", "Renew": "Renewed", "JournalWatermarks": "Journaled",
    "JournalPosition": "Journaled",
}  # fmt: skip
REPLIES = {kind.__name__ for kind in get_args(m.Reply)}
BETWEEN_PROCESSES = {"Deliver", "Ack", "Table", "Heartbeat", "Report", "InjectorReport", "Watermarks"}
TO_ITSELF = {"Deliver", "Ack", "Table"}
FROM_A_SOURCE = {"SourceRecord", "SourceWatermark", "SourceEnd"}

SAMPLED = 3
TIED = 60


def tied_histories() -> Iterator[History]:
    """Runs in which a fault begins before, at or after a step of a process."""
    workload = WORKLOADS["tallies"]
    feed, options = workload.feed(0), ClusterOptions()
    faults = single_faults(workload.deployed, feed, options)
    for fault in random.Random(0).sample(faults, TIED):
        yield simulate(workload.deployed, feed, options=options, faults=FaultSchedule(at_steps=(fault,)))


@pytest.fixture(scope="module")
def histories() -> list[History]:
    runs = [case_of(number).history() for number in range(SAMPLED * len(WORKLOADS))]
    return [*runs, *tied_histories()]


def test_activations_are_numbered_in_order_and_caused_by_earlier_ones(histories: list[History]) -> None:
    for history in histories:
        assert history.activations[0].first_event == 0
        assert all(a.first_event <= b.first_event for a, b in pairwise(history.activations))
        for number, activation in enumerate(history.activations):
            assert activation.cause is None or 0 <= activation.cause < number


def test_an_activations_events_happen_at_a_single_process(histories: list[History]) -> None:
    """Faults are written where they strike: what the store does to a request, at the process that asked."""
    for history in histories:
        causes = Causes(history)
        for number, event in enumerate(history):
            activation = history.activations[causes.activation_of(number)]
            if isinstance(event, h.FaultStruck):
                continue
            assert event.process == activation.process, (number, event, activation)


def test_a_message_is_caused_by_its_sender(histories: list[History]) -> None:
    for history in histories:
        for activation in history.activations:
            cause = None if activation.cause is None else history.activations[activation.cause]
            assert fits(activation, cause), (activation, cause)


def fits(activation: Activation, cause: Activation | None) -> bool:
    """Whether an activation of this kind can be caused by the other one."""
    match activation.input:
        case "Wake":
            return cause is not None and cause.process == activation.process
        case "Replayed":
            return cause is not None and cause.process == activation.process
        case name if name in FROM_A_SOURCE:
            return cause is None or cause.process == activation.process
        case name if name in REPLIES:
            return (
                cause is not None and cause.process == m.STORE
                and name in (ANSWERS[cause.input], "Refused", "Unavailable")
            )  # fmt: skip
        case name if name in ANSWERS or name in BETWEEN_PROCESSES:
            return cause is not None and (cause.process != activation.process or name in TO_ITSELF)
        case "Start":
            return cause is None or cause.input == "restart"
        case _:
            return True


def sender(history: History, causes: Causes, event: int) -> int:
    """The activation that sent what led to an event, without the faults that began at its steps."""
    sent = causes.sender_of(event)
    while sent is not None and history.activations[sent].input == "step":
        sent = history.activations[sent].cause
    assert sent is not None, history[event]
    return sent


def by_then(history: History, activation: int) -> list[h.Event]:
    """Return what happened at an activation's process until it ended."""
    firsts = [activation.first_event for activation in history.activations]
    end = firsts[activation + 1] if activation + 1 < len(firsts) else len(history)
    process = history.activations[activation].process
    return [event for event in history.events[:end] if event.process == process]


def at(history: History, activation: int) -> list[h.Event]:
    """The events of an activation."""
    firsts = [*(activation.first_event for activation in history.activations), len(history)]
    return history.events[firsts[activation] : firsts[activation + 1]]


def makes(event: h.Event, record_id: str, consumer: str) -> bool:
    match event:
        case h.Injected() | h.Executed():
            return any((made.record_id, made.consumer) == (record_id, consumer) for made in event.productions)
        case h.ScanEnded():
            return (record_id, consumer) in event.productions
        case h.Resent():
            return (event.record_id, event.consumer) == (record_id, consumer)
        case _:
            return False


def test_what_a_receipt_is_about_is_known_to_the_sender_that_is_recorded(histories: list[History]) -> None:
    seen, waited = Counter[type](), 0
    for history in histories:
        causes = Causes(history)
        for number, event in enumerate(history):
            match event:
                case h.Delivered():
                    if history.activations[causes.activation_of(number)].input == "Deliver":
                        sent = sender(history, causes, number)
                        assert history.activations[sent].process == event.sender
                        before = by_then(history, sent)
                    else:  # it had arrived before, and waited for its owner's scan
                        before = [
                            earlier for n, earlier in enumerate(history) if causes.happens_before(n, number)
                        ]
                        waited += 1
                    assert any(makes(earlier, event.record_id, event.computation) for earlier in before)
                case h.Output():
                    before = by_then(history, sender(history, causes, number))
                    assert any(makes(earlier, event.production.record_id, "") for earlier in before)
                case h.Applied():
                    before = by_then(history, sender(history, causes, number))
                    version = event.sequencer, event.delta.number
                    assert not event.delta.seen or any(
                        isinstance(event, h.Executed)
                        and (event.version.sequencer, event.version.number) == version
                        for event in before
                    )
                case h.Acked():
                    sent = sender(history, causes, number)
                    if history.activations[sent].process == OUTSIDE_ADDRESS:
                        assert event.consumer == ""
                        continue
                    assert any(
                        isinstance(event_sent, h.AckSent) and event.record_id in event_sent.record_ids
                        and event_sent.computation == event.consumer
                        for event_sent in at(history, sent)
                    ), "in that very activation"  # fmt: skip
                case _:
                    continue
            seen[type(event)] += 1
    assert seen.keys() == {h.Delivered, h.Output, h.Applied, h.Acked}
    assert waited < seen[h.Delivered] / 2


def test_a_resent_record_is_delivered_by_the_copy_that_arrived(histories: list[History]) -> None:
    """The first copy is slow and the second one fast: each delivery has its own sending as its cause."""
    found = 0
    for history in histories:
        causes = Causes(history)
        for number, event in enumerate(history):
            if not isinstance(event, h.Delivered | h.DuplicateDropped):
                continue
            sent = causes.sender_of(number)
            if sent is None or history.activations[sent].input != "Wake":
                continue
            again = [event for event in at(history, sent) if isinstance(event, h.Resent)]
            found += any(resent.record_id == event.record_id for resent in again)
    assert found


def test_happens_before_is_the_closure_of_processes_and_causes() -> None:
    """Against the definition: a graph of all events, searched from each."""
    history = case_of(1).history()
    causes, latest = Causes(history), dict[str, int]()
    past: list[set[int]] = []
    for number, activation in enumerate(history.activations):
        led = set() if activation.cause is None else {activation.cause} | past[activation.cause]
        if activation.process:
            previous = latest.get(activation.process)
            led |= set() if previous is None else {previous} | past[previous]
            latest[activation.process] = number
        past.append(led)
    for later in range(0, len(history), 7):
        for earlier in range(0, len(history), 3):
            first, second = causes.activation_of(earlier), causes.activation_of(later)
            expected = earlier < later if first == second else first in past[second]
            assert causes.happens_before(earlier, later) == expected
    assert not any(causes.happens_before(number, number) for number in range(len(history)))


def test_the_cause_of_an_event_happens_before_it(histories: list[History]) -> None:
    for history in histories:
        causes = Causes(history)
        for number in range(len(history)):
            cause = causes.cause_of(number)
            assert cause is None or (cause < number and causes.happens_before(cause, number))


def test_without_activations_nothing_is_known() -> None:
    history = case_of(1).history()
    with pytest.raises(UnknownCausesError, match=f"{len(history):,} events are unknown"):
        Causes(History(history.events))
    assert Causes(History()).clocks() == []


@pytest.mark.parametrize("event", [-1, 5])
def test_a_missing_event_is_refused(event: int) -> None:
    history = History([h.Healed(0, "", ())] * 5, [Activation("", "heal", None, 0)])
    with pytest.raises(NoSuchEventError, match=f"has 5 events, numbered from 0, and none is number {event}"):
        Causes(history).happens_before(0, event)


def test_a_history_that_keeps_nothing_has_no_activations() -> None:
    history = History.discarding()
    history.begin("worker-0", "Wake", None)
    assert history.activations == []
    assert history.activation is None
