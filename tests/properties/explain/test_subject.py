"""A story has what its failure is made of: every record, the states that the steps read, and what was lost."""

from headrace import SECOND, Computation, Context, DeadLetter, Pipeline, Record, Timer
from headrace import history as h
from headrace.history import History
from headrace_properties.explain.fault_sentences import struck
from headrace_properties.explain.narrative import LONGEST, Narrative, narrate
from headrace_properties.explain.pictures.spacetime import document_of
from headrace_properties.explain.tenures import Outage, outages_of
from headrace_properties.promises import Moment, Promise, always, at_end, judge_promises
from headrace_properties.search.application import Application, PipelineTrial
from headrace_properties.search.judging import by_cause, run_plan
from headrace_properties.search.plans import Plan
from headrace_properties.verdict import Verdict
from headrace_scenarios.catalogue import SCENARIOS
from headrace_sim import ClusterOptions, FaultSchedule, Feed, FeedBuilder, simulate
from headrace_sim import faults as f
from headrace_sim.faults import KINDS
from tests.properties.stories import begin


class Reserved(Computation):
    """Copies of a book. One that is collected in time comes back when its reservation ends all the same."""

    def initial_state(self) -> dict[str, int]:
        return {"copies": 1}

    def process_record(self, context: Context, record: Record) -> None:
        if record.value == "reserve":
            context.state["copies"] -= 1
            context.set_timer("ends", at=record.timestamp + SECOND)
        elif record.value == "collect":
            context.produce("collected", context.key)
        elif record.value == "fail":
            raise ValueError(record.value)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.state["copies"] += 1


books = Pipeline("books")
books.injector("desk", outputs=["requests"])
books.add(Reserved(), name="books", inputs=["requests"], outputs=["collected"], on_failure=DeadLetter("dead"))


@always(of="books")
def no_more_copies_than_there_are(moment: Moment) -> None:
    """A copy that was collected is not there."""
    assert moment.changed.after["copies"] + len(moment.outputs("collected")) <= 1


@always(of="books")
def never_below_zero(moment: Moment) -> None:
    """There is no debt of copies."""
    assert moment.changed.after["copies"] >= 0


@at_end
def all_copies_are_there(moment: Moment) -> None:
    """Nobody collects anything."""
    assert not moment.outputs("collected")


def requests(*values: str) -> Feed:
    builder = FeedBuilder(books)
    for number, value in enumerate(values):
        at_us = SECOND + number * SECOND // 10
        builder.record(at_us=at_us, key="dune", value=value, timestamp=at_us)
        builder.watermark(at_us=at_us, low_watermark=at_us)
    return builder.build()


def run_of(*values: str, promises: tuple[Promise, ...]) -> tuple[History, dict[str, Verdict]]:
    history = simulate(books, requests(*values), seed=0)
    return history, judge_promises(history, promises, [books])


def story_of(*values: str, promise: Promise = no_more_copies_than_there_are) -> Narrative:
    history, verdicts = run_of(*values, promises=(promise,))
    narrative = narrate(history, verdicts, pipelines=[books])
    assert narrative is not None
    return narrative


def sentences(narrative: Narrative) -> str:
    return "\n".join(sentence.text for sentence in narrative.sentences)


def test_the_story_of_a_promise_has_every_record_and_what_the_row_was_before() -> None:
    text = sentences(story_of("reserve", "collect"))
    assert (
        "sends record desk/0:0 of 'requests' (key 'dune', timestamp 1.000 s) to 'books': 'reserve'." in text
    )
    assert (
        "Write 1.1 changes the state from {'copies': 1} to {'copies': 0} and sets timer 'ends' for 2.000 s."
        in text
    )
    assert (
        "sends record desk/0:2 of 'requests' (key 'dune', timestamp 1.100 s) to 'books': 'collect'." in text
    )
    assert "Write 1.2 produces books@1.2#0 on 'collected' ('dune')." in text
    assert "books@1.2#0 of 'collected' arrives outside." in text
    assert "timer 'ends' of key 'dune', set for 2.000 s, fires at worker-0; its input has ended." in text
    assert text.endswith("changes the state from {'copies': 0} to {'copies': 1}.")


def test_protocol_that_nothing_disturbed_is_no_part_of_the_story_of_a_promise() -> None:
    text = sentences(story_of("reserve", "collect"))
    assert "sequencer" not in text
    assert "ACK" not in text


def test_the_story_of_a_promise_of_the_end_has_every_record() -> None:
    text = sentences(story_of("reserve", "collect", promise=all_copies_are_there))
    assert text.count("sends record") == 2
    assert text.endswith("the run comes to rest.")


def test_the_states_before_are_followed_back_in_a_large_input_and_the_story_stays_short() -> None:
    narrative = story_of(*["look"] * 30, "reserve", "collect")
    assert len(narrative.sentences) <= LONGEST
    text = sentences(narrative)
    assert "'reserve'" in text
    assert "'collect'" in text
    assert "'look'" not in text
    assert ", number 31 of its row, changes the state from {'copies': 1} to {'copies': 0}" in text
    assert "unrelated to this or long before it." in narrative.paragraphs[-1]


def test_records_whose_steps_share_a_write_are_told_together() -> None:
    story = begin()
    queries = [story.inject(offset, 100 + offset) for offset in range(3)]
    for query in queries:
        story.run("counter", 1, query)
    story.write("counter", 1, seen=tuple((query.record_id, 0) for query in queries), state=b"3")
    story.write("counter", 2, sequencer=1, live=3)
    narrative = narrate(story.events, story.verdicts(), "S6")
    assert narrative is not None
    text = sentences(narrative)
    assert "runs 'counter' for queries/0:0, queries/0:1 and queries/0:2 (key 'cats'). Write 1.1" in text
    assert "never applied" not in text


def test_a_dead_letter_is_told_with_the_error() -> None:
    text = sentences(story_of("fail", "reserve", "collect"))
    assert "the code of 'books' fails on desk/0:0: ValueError: fail." in text
    assert "a dead letter for desk/0:0 is produced to" in text


def test_of_several_promises_the_one_that_was_broken_first_leads() -> None:
    history, verdicts = run_of(
        "reserve", "collect", promises=(all_copies_are_there, no_more_copies_than_there_are)
    )
    assert list(by_cause(verdicts)) == ["no_more_copies_than_there_are", "all_copies_are_there"]
    narrative = narrate(history, verdicts)
    assert narrative is not None
    assert narrative.invariant == "no_more_copies_than_there_are"


def test_the_page_has_every_step_of_the_story_and_the_initial_state_of_a_row() -> None:
    history, verdicts = run_of("reserve", "collect", promises=(no_more_copies_than_there_are,))
    document = document_of(history, verdicts, "books", "", None, [books])
    (told,) = document["verdicts"]
    assert {sentence["event"] for sentence in told["sentences"]} <= set(told["subject"])
    applied = [number for number, event in enumerate(history) if isinstance(event, h.Applied)]
    assert set(applied) <= set(told["subject"])
    states = [document["events"][number]["detail"] for number in applied]
    assert states == ['state: {"copies":0}', "", 'state: {"copies":1}']  # stored as nothing: the initial one


# What was lost


def acked(lost: bool, received: bool) -> str:  # noqa: FBT001
    story = begin()
    query = story.inject(0, 100)
    story.run("counter", 1, query)
    story.mint("counter", 3, "worker-1")
    story.write("counter", 1, sequencer=1, live=3, seen=((query.record_id, 0),))
    story.ack("counter", query.record_id)
    if lost:
        story.add(h.FaultStruck(story.now, "worker-0", "partition", "Ack worker-0 -> sender"))
    if received:
        story.add(h.Acked(story.tick(), "sender", query.record_id, "counter"))
    narrative = narrate(story.events, story.verdicts(), "S6")
    assert narrative is not None
    return next(text for text in sentences(narrative).splitlines() if "ACKs" in text)


def test_an_ack_is_told_as_received_only_if_it_was() -> None:
    assert acked(lost=False, received=True).endswith("to sender, which may now forget it.")
    assert acked(lost=False, received=False).endswith("to sender.")
    assert acked(lost=True, received=False).endswith("to sender, but the ACK is lost.")


def test_no_story_of_the_papers_says_that_a_sender_may_forget_what_it_was_not_acked() -> None:
    for name in ("zombie-timer", "zombie-production"):
        outcome = SCENARIOS[name].run("sequencers")
        for violated in outcome.violations:
            narrative = narrate(outcome.history, outcome.verdicts, violated)
            assert narrative is not None
            for sentence in narrative.sentences:
                event = outcome.history[sentence.event]
                if isinstance(event, h.AckSent) and "may now forget" in sentence.text:
                    assert any(
                        isinstance(later, h.Acked) and later.process == event.to and later.record_id in event.record_ids
                        for later in outcome.history[sentence.event :]
                    )  # fmt: skip


def test_a_write_that_never_arrives_is_not_told_as_sent() -> None:
    story = begin()
    query = story.inject(0, 100)
    story.run("counter", 1, query)
    story.mint("counter", 3, "worker-1")
    story.write("counter", 7, sequencer=1, live=3)
    narrative = narrate(story.events, story.verdicts(), "S6")
    assert narrative is not None
    assert "Its write 1.1 is never applied." in sentences(narrative)


def test_a_lost_record_is_told_as_lost() -> None:
    story = begin()
    story.inject(0, 100)
    story.add(h.FaultStruck(story.now, "queries/0", "noise_drop", "Deliver queries/0 -> worker-0"))
    story.own("counter", 3, "worker-1")
    story.write("counter", 7, sequencer=1, live=3)
    narrative = narrate(story.events, story.verdicts(), "S6")
    assert narrative is not None
    assert "to 'counter': 1; the message to worker-0 is lost." in sentences(narrative)


def partition_told(*details: str) -> str:
    strikes = [h.FaultStruck(at, "authority-0", "partition", detail) for at, detail in enumerate(details)]
    (outage,) = outages_of(strikes)
    return struck(strikes, outage)


def test_only_a_process_that_loses_messages_to_several_is_told_as_cut_off() -> None:
    one = partition_told("Watermarks authority-0 -> worker-1", "Watermarks authority-0 -> worker-1")
    assert one.endswith("2 messages from authority-0 to worker-1 are lost in a partition (Watermarks).")
    two = partition_told("Watermarks authority-0 -> worker-1", "Watermarks authority-0 -> worker-2")
    assert two.endswith("authority-0 is cut off by a partition: 2 of its messages are lost (Watermarks).")


def test_every_fault_has_a_sentence_of_its_own() -> None:
    verbs = {*KINDS.values()} - {"noise"}
    verbs |= {
        "noise_drop",
        "noise_delay",
        "noise_duplicate",
        "drop_message",
        "delay_message",
        "duplicate_message",
    }
    for verb in sorted(verbs):
        strike = h.FaultStruck(0, "worker-0", verb, "Ack worker-0 -> worker-1")
        assert "a fault strikes" not in struck([strike], Outage("worker-0", verb, 0, 0, [strike.detail]))


def test_what_was_sent_again_and_when_its_ack_was_heard_are_told() -> None:
    """The sender is paused when the ACK of its record arrives, sends it again when it is revived, and the step counts twice."""
    twice = Pipeline("books")
    twice.injector("desk", outputs=["requests"])
    twice.add(
        Reserved(), name="books", inputs=["requests"], outputs=["collected"], exactly_once=False, ordered=True
    )
    pause = f.Pause(at_us=1_000_500, process="desk/0", for_us=SECOND)
    plan = Plan(FaultSchedule((pause,), heal_at_us=4 * SECOND), ClusterOptions(), seed=0)
    application = Application(twice, lambda _: requests("reserve"), (never_below_zero,))
    history, verdicts, _ = run_plan(application, PipelineTrial(plan, 0))
    narrative = narrate(history, verdicts, pipelines=[twice])
    assert narrative is not None
    text = sentences(narrative)
    assert "to desk/0, which hears of it only at 2." in text
    assert "desk/0 sends desk/0:0 to 'books' again." in text
    assert "changes the state from {'copies': 0} to {'copies': -1} and sets timer 'ends' for 2.000 s." in text
