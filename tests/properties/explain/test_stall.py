"""A violation of liveness: what is awaited, who touched it last, and which rule requires the next step."""

from collections.abc import Callable

import pytest

from headrace import MAX_TIME, Clock
from headrace.history import (
    Acked,
    Applied,
    Delivered,
    DropCause,
    DuplicateDropped,
    Event,
    FaultStruck,
    Healed,
    IntervalDropped,
    KnownBy,
    ProcessStarted,
    Resent,
    RoleClaimed,
    ScanBegun,
    SourceHeld,
    UserCodeFailed,
)
from headrace.wire.effects import SourceRecord
from headrace_properties.explain.decoding import Codecs
from headrace_properties.explain.narrative import Narrative, narrate
from headrace_properties.explain.stall import waiting_for
from headrace_properties.explain.step_sentences import StepSentences
from headrace_properties.proof.mutants import CATALOGUE, Probe
from headrace_properties.proof.workloads import WORKLOADS
from headrace_properties.search.application import Application, PipelineTrial
from headrace_properties.search.judging import run_plan
from headrace_properties.search.plans import Plan
from headrace_properties.verdict import Awaited, AwaitedKind, Violated
from headrace_sim import FaultSchedule
from headrace_sim import faults as f
from tests.properties.stories import ALL, Story, begin, record, timer

QUERY = record("queries/0:0", "counter", 100)
RECORD = Awaited(AwaitedKind.RECORD, "counter", 3_000, "cats", "queries/0:0")
TIMER = Awaited(AwaitedKind.TIMER, "counter", 7_000, "cats", "w")
HOLD = Awaited(AwaitedKind.HOLD, "counter", 7_000, "cats", time_us=50)
CHECKPOINT = Awaited(AwaitedKind.CHECKPOINT, "counter", 7_000, "cats", "counter@1.1#0", "detector")
INTERVAL = Awaited(AwaitedKind.INTERVAL, "counter", 1_000, "", str(ALL))
WATERMARK = Awaited(AwaitedKind.WATERMARK, "counter", 7_000, time_us=300)
INJECTION = Awaited(AwaitedKind.INJECTION, "queries/0", 3_000, "cats", "1")
SOURCE = Awaited(AwaitedKind.WATERMARK, "queries", 7_000, time_us=300)
ID = Awaited(AwaitedKind.ID, "counter", 7_000, "cats", "queries/0:0")


def injected() -> Story:
    story = begin()
    story.inject(0, 100)
    return story


def with_timer(clock: Clock = Clock.WATERMARK, *, hold: int | None = None) -> Story:
    story = injected()
    story.take("counter", 1, QUERY, set_timers=(timer("w", 200, 1, clock=clock),), hold=hold)
    return story


def add(story: Story, make: Callable[[int], Event]) -> Story:
    story.add(make(story.tick()))
    return story


def delivered(story: Story) -> Story:
    return add(story, lambda at: Delivered(at, "worker-0", "counter", "cats", "queries/0:0", "queries/0"))


def dropped(story: Story, by: KnownBy, consumer: str = "counter", record_id: str = "queries/0:0") -> Story:
    return add(story, lambda at: DuplicateDropped(at, "worker-0", consumer, "cats", record_id, by))


def failed(story: Story, cause: str) -> Story:
    return add(
        story, lambda at: UserCodeFailed(at, "worker-0", "counter", "cats", cause, 1, "ValueError: no")
    )


def acked(story: Story, record_id: str, consumer: str, process: str) -> Story:
    return add(story, lambda at: Acked(at, process, record_id, consumer))


def told(story: Story, *calls: Callable[[Story], object]) -> Story:
    for call in calls:
        call(story)
    return story


def lost(story: Story) -> Story:
    return add(story, lambda at: IntervalDropped(at, "worker-0", "counter", ALL, 1, DropCause.REFUSED))


def crashed(story: Story) -> Story:
    return add(story, lambda at: FaultStruck(at, "worker-0", "crash", "incarnation 1"))


def run_of(story: Story, cause: object) -> Story:
    story.run("counter", 2, cause, watermark=300)  # type: ignore[arg-type]
    return story


def moved(story: Story, *, scans: bool) -> Story:
    """The keys go to worker-1."""
    story.mint("counter", 3, "worker-1")
    if scans:
        add(story, lambda at: ScanBegun(at, "worker-1", "counter", ALL, 3))
    return story


def made() -> Story:
    story = injected()
    story.take("counter", 1, QUERY, record("counter@1.1#0", "detector", 100))
    return story


def claimed(story: Story, incarnation: int) -> Story:
    add(story, lambda at: RoleClaimed(at, "store", "authority-0", 1, "authority-0.0#1"))
    return add(story, lambda at: ProcessStarted(at, "authority-0.0", incarnation))


def held(story: Story) -> Story:
    """The source has a second record."""
    what = SourceRecord(1, "queries", "cats", b"1", 110, 0)
    return add(story, lambda at: SourceHeld(at, "queries/0", what))


def stopped(story: Story) -> Story:
    return add(story, lambda at: FaultStruck(at, "queries/0", "crash", "incarnation 1"))


def reported(story: Story, low: int) -> Story:
    story.owner_reports("counter", low)
    return story


# fmt: off
CASES: dict[str, tuple[Callable[[], Story], Awaited, str, str]] = {
    "a record that never came is sent again": (
        injected, RECORD, "its sender sends it again, until it is ACKed", "retries"),
    "a record that was delivered is run": (
        lambda: delivered(injected()), RECORD, "worker-0 runs user code for it", "order"),
    "a record that user code failed on is run again": (
        lambda: failed(delivered(injected()), "queries/0:0"), RECORD, "worker-0 runs user code for it again", "order"),
    "a record that was run is committed": (
        lambda: run_of(injected(), QUERY), RECORD, "worker-0 commits what user code did for it", "needs_write"),
    "a record that was wrongly taken for a duplicate is processed": (
        lambda: dropped(injected(), KnownBy.ID), RECORD, "instead of taking it for a duplicate", "is_duplicate"),
    "a record that was wrongly taken for a remnant is processed": (
        lambda: dropped(injected(), KnownBy.HORIZON), RECORD, "instead of taking it for a remnant", "is_remnant"),
    "a record that was ACKed too early is not sent again": (
        lambda: acked(injected(), "queries/0:0", "counter", "queries/0"), RECORD, "nothing. The ACK came too early", "order"),
    "what the former owner did with a record does not count": (
        lambda: told(run_of(injected(), QUERY), lambda story: story.own("counter", 3, "worker-1")), RECORD,
        "its sender sends it again", "retries"),
    "keys that nobody has go to an owner": (
        Story, RECORD, "the master gives the keys to an owner", "is_orphan"),
    "keys whose owner has dropped them go to another": (
        lambda: lost(injected()), RECORD, "the master replaces worker-0", "is_orphan"),
    "keys whose owner stays down go to another": (
        lambda: crashed(injected()), INTERVAL, "the master replaces worker-0", "is_orphan"),
    "an owner that does not know that it is one scans": (
        lambda: moved(injected(), scans=False), RECORD, "worker-1 hears that it owns the keys", "scans_first"),
    "a scan that has begun ends": (
        lambda: moved(injected(), scans=True), INTERVAL, "worker-1 ends the scan", "continues_scan"),
    "an owner that works but knows of no new version learns of it": (
        begin, INTERVAL, "the owner follows the master's table", "adopts_version"),
    "a timer whose owner has heard of no watermark waits for it": (
        with_timer, TIMER, "hears that its input is complete up to 0.000200 s; it knows of unknown", "input_watermark"),
    "a due timer fires": (
        lambda: told(with_timer(), lambda story: story.advance("counter", 200)), TIMER,
        "fires the timer, as the low watermark has passed 0.000200 s", "may_fire"),
    "a due wall timer fires": (
        lambda: with_timer(Clock.WALL), TIMER, "fires the timer, as its clock has passed 0.000200 s", "may_fire"),
    "a timer that ran is committed": (
        lambda: run_of(with_timer(), timer("w", 200, 1)), TIMER, "commits what user code did for the timer", "needs_write"),
    "a timer that user code failed on runs again": (
        lambda: failed(with_timer(), "counter@1.1!w"), TIMER, "runs user code for the timer again", "order"),
    "a timer that a scan has missed is found": (
        lambda: told(with_timer(), lambda story: story.own("counter", 3, "worker-1"),
                     lambda story: story.advance("counter", 200, sequencer=3, process="worker-1")), TIMER,
        "worker-1 finds the timer in its scan, and queues it", "recovered"),
    "a hold waits for the timer that may end it": (
        lambda: with_timer(Clock.WALL, hold=50), HOLD, "timer 'w' of the key, due at 0.000200 s, may end the hold", "may_fire"),
    "a hold without a timer waits for user code": (
        lambda: told(injected(), lambda story: story.take("counter", 1, QUERY, hold=50)), HOLD,
        "user code ends the hold", "holds_watermark"),
    "a checkpoint that was ACKed is deleted": (
        lambda: acked(made(), "counter@1.1#0", "detector", "worker-0"), CHECKPOINT, "deletes it", "deletes_checkpoint"),
    "a checkpoint whose copies are dropped is ACKed": (
        lambda: dropped(made(), KnownBy.ID, "detector", "counter@1.1#0"), CHECKPOINT, "ACKs the copy", "acks_duplicate"),
    "a checkpoint that nobody took is sent again": (
        made, CHECKPOINT, "its owner sends it again", "retries"),
    "an id behind the horizon is collected": (
        with_timer, ID, "the owner has the store collect it", "collects_below"),
    "an owner that has never reported does": (
        begin, WATERMARK, "worker-0 reports how far the keys", "may_report"),
    "an owner that has not heard of its input does": (
        lambda: reported(begin(), 100), WATERMARK, "hears that its input has reached 0.000300 s", "input_watermark"),
    "an owner that has heard of its input reports it": (
        lambda: reported(told(begin(), lambda story: story.advance("counter", 300)), 100), WATERMARK,
        "reports that the keys ['', end) have reached 0.000300 s", "low_watermark"),
    "what all owners have reported is broadcast": (
        lambda: reported(claimed(begin(), 1), 300), WATERMARK, "the authority combines what was reported", "takes_report"),
    "the authority's standby takes over": (
        lambda: reported(claimed(begin(), 2), 300), WATERMARK, "a standby takes over from authority-0.0#1", "may_lead"),
    "a source's record is injected": (
        lambda: held(injected()), INJECTION, "queries/0 injects it, unless its timestamp is beyond", "may_inject"),
    "a source's record that was skipped is read": (
        lambda: told(held(injected()), lambda story: story.inject(2, 120)), INJECTION, "queries/0 reads it", "resumes_at"),
    "an injector's process that is down starts again": (
        lambda: stopped(held(injected())), INJECTION, "queries/0 starts again", "resumes_at"),
    "an injector that is behind its source reports": (
        lambda: told(begin(), lambda story: story.report(200)), SOURCE,
        "queries/0 reports that all before 0.000300 s has been delivered", "holds_watermark"),
    "what an injector has reported is broadcast": (
        lambda: told(begin(), lambda story: story.report(300)), SOURCE, "the authority combines", "takes_report"),
    "an owner of other keys that has gone is replaced before a watermark moves": (
        lambda: lost(reported(begin(), 100)), WATERMARK, "the master replaces worker-0", "is_orphan"),
}
# fmt: on


@pytest.mark.parametrize("name", CASES)
def test_the_next_expected_step_is_named(name: str) -> None:
    tell, awaited, words, rule = CASES[name]
    waiting = waiting_for(tell().events, awaited)
    assert words in waiting.next
    assert f"It is rule {rule} (core/headrace/rules.py, line " in waiting.next


def test_of_repeated_events_the_first_and_the_last_are_described() -> None:
    story = injected()
    for _ in range(5):
        add(story, lambda at: Resent(at, "queries/0", "queries/0:0", "counter"))
    waiting = waiting_for(story.events, RECORD)
    told = [story.events[number] for number in waiting.touches if isinstance(story.events[number], Resent)]
    assert told == [story.events[-5], story.events[-1]]
    assert waiting.times == {len(story.events) - 1: 5}


def test_events_of_another_key_are_not_described() -> None:
    story = with_timer()
    story.write("counter", 9, key="dogs", set_timers=(timer("w", 200, 9),))
    last = story.events[-1]
    assert isinstance(last, Applied)
    assert len(story.events) - 1 not in waiting_for(story.events, TIMER).touches


def narrative_of(story: Story, about: str) -> Narrative:
    narrative = narrate(story.events, story.verdicts(), about)
    assert narrative is not None
    return narrative


def test_the_story_of_a_lost_timer_begins_with_it_and_ends_with_the_rules() -> None:
    story = with_timer()
    story.publish("queries", 200)
    story.tick(2_000)
    story.end()
    first, *rest = narrative_of(story, "L1").paragraphs
    assert first == "Awaited since 0.009 s: timer 'w' of key 'cats' at 'counter' has yet to fire."
    assert "Write 1.1 sets timer 'w' for 0.000200 s." in " ".join(rest)
    following = next(line for line in rest if line.startswith("What had to come next: "))
    assert "MillWheel" not in following
    assert "(4.5, 7.2)" in following
    assert rest[-1].startswith("The rule that was broken is L1")


@pytest.mark.parametrize(
    ("hold", "says"), [(50, "holds the low watermark at 0.000050 s"), (MAX_TIME, "lets the low watermark go")]
)
def test_a_write_says_what_it_does_to_the_hold_of_a_state(hold: int, says: str) -> None:
    story = injected()
    story.take("counter", 1, QUERY, hold=hold)
    ((number, applied),) = [
        (at, event) for at, event in enumerate(story.events) if isinstance(event, Applied)
    ]
    assert says in StepSentences(story.events, Codecs(())).changed(number, applied)


def test_an_undelivered_record_is_described_with_its_sender() -> None:
    story = injected()
    add(story, lambda at: Resent(at, "queries/0", "queries/0:0", "counter"))
    add(story, lambda at: FaultStruck(at, "queries/0", "pause", ""))
    add(story, lambda at: Healed(at, "", ("queries/0",)))
    story.end()
    narrative = narrative_of(story, "L2")
    text = " ".join(narrative.paragraphs)
    assert "queries/0 sends record queries/0:0" in text
    assert "queries/0: send queries/0:0 again" in text
    assert "queries/0 is paused" in text


def test_of_several_liveness_violations_the_missing_owner_is_explained() -> None:
    story = lost(injected())
    story.report(300)
    story.tick(20_000)
    story.end("deadline")
    assert {"L2", "L4", "L5"} <= story.broken()
    narrative = narrate(story.events, story.verdicts())
    assert narrative is not None
    assert narrative.invariant == "L5"


def test_a_timer_that_a_broken_recovery_forgets_is_explained_in_a_run() -> None:
    """Its owner is paused and replaced; the new one finds no timer. One fault of the run is told, and what the timer met."""
    mutant, workload = CATALOGUE["recovery queues no timer"], WORKLOADS["windows"]
    application = Application(workload.deployed, workload.feed)
    pause = f.Pause(at_us=900_000, process="worker-0", for_us=1_500_000)
    plan = Plan(FaultSchedule((pause,), heal_at_us=6_000_000), workload.options, seed=0)
    history, verdicts, _ = run_plan(application, PipelineTrial(plan, 1), mutant.protocol(Probe()))
    for about in ("L1", "L4"):
        broken = verdicts[about]
        assert isinstance(broken, Violated)
        assert broken.awaited is not None
        narrative = narrate(history, verdicts, about)
        assert narrative is not None
        assert 8 <= narrative.covered < len(history) / 5
        text = " ".join(narrative.paragraphs)
        assert "worker-0 is paused" in text
        assert "finds the timer in its scan, and queues it. It is rule recovered" in text
