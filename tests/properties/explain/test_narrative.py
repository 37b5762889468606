"""How a rule was broken, in sentences: their claims are true of the History."""

import re
from typing import get_args

import pytest

from headrace import history as h
from headrace.history import Applied, DropCause, Event, FaultStruck, IntervalDropped, ScanBegun
from headrace_properties.explain import event_summaries
from headrace_properties.explain.causality import links_of, numbers_of
from headrace_properties.explain.narrative import LONGEST, Narrative, narrate
from headrace_properties.explain.snapshot import UnknownEventError, find_event, world_at
from headrace_properties.explain.subject import subject_of
from headrace_properties.explain.tenures import outages_of, tenures_of
from headrace_scenarios.catalogue import SCENARIOS
from tests.properties.stories import ALL, Story, begin, healthy, record, timer


def zombie() -> Story:
    """worker-0 runs its code, and is replaced by worker-1; then its write lands."""
    story = begin()
    query = story.inject(0, 100)
    story.add(ScanBegun(story.tick(), "worker-0", "counter", ALL, 1))
    story.run("counter", 1, query)
    story.mint("counter", 3, "worker-1")
    story.scan("counter", 3, "worker-1", timers=(("dogs", "w"),))
    story.write(
        "counter", 1, sequencer=1, live=3, seen=((query.record_id, 0),), set_timers=(timer("w", 200, 1),)
    )
    story.ack("counter", query.record_id)
    story.end()
    return story


def told(story: Story, about: str = "") -> Narrative:
    narrative = narrate(story.events, story.verdicts(), about)
    assert narrative is not None
    return narrative


def test_a_healthy_run_has_nothing_to_explain() -> None:
    assert narrate(healthy().events, healthy().verdicts()) is None


def test_the_story_of_a_zombie_says_who_believed_what_and_which_write_landed_when() -> None:
    text = " ".join(told(zombie()).paragraphs)
    assert (
        "queries/0 sends record queries/0:0 of 'queries' (key 'cats', timestamp 0.000100 s) to 'counter': 1."
        in text
    )
    assert "worker-0 runs 'counter' for queries/0:0 (key 'cats'). It sends write 1.1." in text
    assert "worker-0 does not know it: it still believes that it owns them (sequencer 1)." in text
    assert "of 'cats' it found no timer." in text
    assert (
        "write 1.1 reaches the store, and is applied: in the row of 'cats' it sets timer 'w' for 0.000200 s."
        in text
    )
    assert (
        "worker-0 still believes that it owns ['', end) with sequencer 1; the store gave 3 to worker-1 at"
        in text
    )
    assert "worker-0 ACKs queries/0:0 to sender." in text


def test_the_story_ends_with_the_rule_and_the_papers_section() -> None:
    narrative = told(zombie())
    assert narrative.invariant == "S6"
    assert narrative.paragraphs[-1] == narrative.rule
    assert narrative.rule.startswith("The rule that was broken is S6, only the latest owner writes: ")
    assert narrative.rule.endswith("(MillWheel 6.2).")


def test_an_owner_that_was_told_no_longer_believes_it_is_the_owner() -> None:
    """As above, but worker-0 hears of it before its write lands."""
    story = zombie()
    at = next(n for n, event in enumerate(story.events) if type(event).__name__ == "Applied")
    story.events.insert(
        at, IntervalDropped(story.events[at].at_us, "worker-0", "counter", ALL, 1, DropCause.TABLE)
    )
    text = " ".join(told(story).paragraphs)
    assert "worker-0, which sent it, does not own the key any more" in text
    assert "still believes that it owns ['', end)" not in text


def test_unrelated_events_are_left_out_and_counted() -> None:
    story = zombie()
    quiet = told(story)
    for _ in range(50):
        story.report(10)
    noisy = told(story)
    assert [sentence.text for sentence in noisy.sentences] == [sentence.text for sentence in quiet.sentences]
    assert noisy.left_out == quiet.left_out + 50
    assert f"Left out: {noisy.left_out} of {len(story.events)} events, unrelated to this." in noisy.paragraphs


def test_each_event_of_a_witness_is_told() -> None:
    """A zombie deletes a checkpoint that its successor has to deliver."""
    story = begin()
    query = story.inject(0, 100)
    count = record("counter@1.1#0", "detector", 100)
    story.take("counter", 1, query, count)
    story.mint("counter", 3, "worker-1")
    story.delete("counter", count, sequencer=1, live=3)
    text = " ".join(told(story, "S6").paragraphs)
    assert "store: delete 1 checkpoints of counter." in text
    story.end()
    assert " the run comes to rest." in " ".join(told(story, "L2").paragraphs)


def test_what_was_written_to_the_row_while_a_write_was_under_way_is_told() -> None:
    """A copy of a write arrives after a later write: the witness of S4 is the copy alone."""
    story = begin()
    first, second = story.inject(0, 100), story.inject(1, 110)
    story.run("counter", 1, first)
    for number, taken in ((1, first), (2, second), (1, first)):
        if number == 2:
            story.run("counter", 2, second)
        story.write("counter", number, seen=((taken.record_id, 0),), state=b"x")
    text = " ".join(told(story, "S4").paragraphs)
    assert "Write 1.1 changes the state from nothing to x." in text
    assert "Write 1.2 leaves the state at x." in text
    assert "write 1.1 reaches the store, and is applied again (first at " in text


def test_a_violation_can_be_told_by_its_name() -> None:
    story = zombie()
    assert {told(story, name).invariant for name in story.broken()} == story.broken()


def test_writes_of_one_owner_that_follow_each_other_are_told_as_one() -> None:
    story = zombie()
    late = story.events.index(next(event for event in story.events if type(event).__name__ == "Applied"))
    head, tail = story.events[:late], story.events[late:]
    story.events = head
    for number in range(1, 5):
        story.write("counter", number, sequencer=3)
    story.events += tail
    text = " ".join(told(story).paragraphs)
    assert "the 4 writes 3.1 to 3.4 of worker-1 are applied to the row of 'cats'." in text


@pytest.mark.parametrize("name", ["zombie-timer", "zombie-production"])
def test_the_papers_stories_are_told_in_order_and_briefly(name: str) -> None:
    outcome = SCENARIOS[name].run("sequencers")
    for violated in outcome.violations:
        narrative = narrate(outcome.history, outcome.verdicts, violated)
        assert narrative is not None
        numbers = [sentence.event for sentence in narrative.sentences]
        assert numbers == sorted(numbers)
        assert 3 <= len(numbers) <= LONGEST
        times = [
            float(found)
            for sentence in narrative.sentences
            for found in re.findall(r"^(?:At|From) ([\d.]+) s", sentence.text)
        ]
        assert times == sorted(times)


def test_the_zombies_fault_and_its_delay_are_told() -> None:
    outcome = SCENARIOS["zombie-timer"].run("sequencers")
    narrative = narrate(outcome.history, outcome.verdicts)
    assert narrative is not None
    text = " ".join(narrative.paragraphs)
    for told in (
        r"worker-1 is cut off by a partition: \d+ of its messages are lost \((Report, Heartbeat|Heartbeat, Report)\)\.",
        r"A fault delays the write of B \[cat videos\] by worker-1, sent at 2\.\d+ s, on its way to the store\.",
        r"write 2\.2, 3\.000\d+ s after it was made, reaches the store, and is applied",
    ):
        assert re.search(told, text), told


def test_the_subject_of_a_witness_has_the_witness() -> None:
    outcome = SCENARIOS["zombie-timer"].run("sequencers")
    events = outcome.history
    for violated in outcome.violations.values():
        witness = numbers_of(events, violated.witness)
        assert set(witness) <= subject_of(events, witness, links_of(events))


# Owners and faults


def test_a_tenure_ends_in_truth_with_the_next_mint_and_in_belief_when_it_is_told() -> None:
    events = zombie().events
    first = next(tenure for tenure in tenures_of(events) if tenure.sequencer == 1)
    assert first.replaced is not None
    assert first.true_at(first.replaced - 1)
    assert not first.true_at(first.replaced)
    assert first.zombie_at(first.replaced)
    assert first.zombie_at(len(events) - 1)


def struck(at_us: int, kind: str, detail: str = "", process: str = "worker-0") -> Event:
    return FaultStruck(at_us, process, kind, detail)


def test_a_crash_lasts_until_the_restart_and_strikes_in_a_row_are_one_fault() -> None:
    history = [
        struck(0, "crash"),
        struck(5, "partition", "Report a -> b", "worker-1"),
        struck(1_000_000, "partition", "Report a -> b", "worker-1"),
        struck(1_500_000, "restart"),
        struck(9_000_000, "partition", "Report a -> b", "worker-1"),
    ]
    assert [(outage.kind, outage.begin, outage.end) for outage in outages_of(history)] == [
        ("crash", 0, 3),
        ("partition", 1, 2),
        ("partition", 4, 4),
    ]


# The state of the world


def test_the_world_at_an_event_shows_the_owner_the_zombie_and_the_write_in_flight() -> None:
    story = zombie()
    scanned = next(n for n, event in enumerate(story.events) if getattr(event, "sequencer", 0) == 3)
    world = world_at(story.events, scanned)
    counter = next(owner for owner in world.owners if owner.computation == "counter")
    assert (counter.owner, counter.sequencer, counter.scanned) == ("worker-1", 3, False)
    assert counter.zombies == (("worker-0", 1),)
    assert [(write.process, write.key, write.version) for write in world.writes] == [
        ("worker-0", "cats", "1.1")
    ]
    after = world_at(story.events, len(story.events) - 1)
    assert after.writes == ()


def test_an_event_is_found_by_number_by_kind_and_by_the_violation() -> None:
    outcome = SCENARIOS["zombie-timer"].run("sequencers")
    events, verdicts = outcome.history.events, outcome.verdicts
    assert find_event(events, "3", verdicts) == 3
    first = find_event(events, "Applied", verdicts)
    assert isinstance(events[first], Applied)
    assert not any(isinstance(event, Applied) for event in events[:first])
    stale = events[find_event(events, "violation", verdicts)]
    assert isinstance(stale, Applied)
    assert (stale.sequencer, stale.live) == (2, 3)


@pytest.mark.parametrize(
    ("wanted", "says"),
    [("999", "Its events are 0 to"), ("Nothing", "Give a number"), ("violation", "Nothing is")],
)
def test_a_missing_event_is_refused_and_the_existing_ones_listed(wanted: str, says: str) -> None:
    with pytest.raises(UnknownEventError, match=says):
        find_event(healthy().events, wanted, healthy().verdicts())


def test_every_kind_of_event_has_its_phrase() -> None:
    assert event_summaries._PHRASES.keys() == set(get_args(h.Event))
