"""S7, S8, S9 and L1, each on a History that it must pass and on one that it must not."""

from functools import partial

import pytest

from headrace import Clock
from headrace.history import Acked, Executed, ScanBegun
from headrace.wire.rows import Asked, AskedTimer, StoredTimer
from tests.properties.checkers.steps import (
    COUNT,
    QUERY,
    Row,
    Table,
    add,
    back,
    breaks,
    check,
    end,
    fire,
    holds,
    inject,
    mint,
    own,
    publish,
    query,
    run,
    scan,
    spares,
    take,
    unknown,
    violates,
    wait,
    write,
)
from tests.properties.stories import ALL, Story, begin, counting, healthy, timer


def with_timer(*timers: StoredTimer) -> Story:
    """A first record sets these timers, in write 1.1."""
    story = begin()
    story.take("counter", 1, story.inject(0, 100), set_timers=timers)
    story.report(1_000)
    return story


# S7 (Figure 12)


def zombie_timer(*, fires: bool) -> Story:
    """A zombie's write with a timer is applied after its successor has scanned; a later owner finds the timer."""
    story = begin()
    query = story.inject(0, 100)
    lost = timer("w17", 200, 1)
    story.run("counter", 1, query)
    story.own("counter", 3, "worker-1")
    story.write("counter", 1, sequencer=1, live=3, seen=((query.record_id, 0),), set_timers=(lost,))
    story.ack("counter", query.record_id)
    story.report(300)
    story.publish("queries", 300)
    story.tick(12_000)
    if fires:
        story.mint("counter", 4, "worker-2")
        story.scan("counter", 4, "worker-2", timers=(("cats", "w17"),))
        story.fire("counter", 1, lost, sequencer=4, watermark=300)
    story.end()
    return story


def test_the_healthy_story_runs_user_code_for_its_timer() -> None:
    assert [event.timer.tag for event in healthy().events if isinstance(event, Executed) and event.timer] == [
        "w"
    ]


WINDOW = timer("w", 200, 1)
EARLY, LATE = timer("a", 200, 1), timer("b", 300, 1)
TWO_SOURCES = counting()
TWO_SOURCES.injector("more", outputs=["queries"])

ON_THE_WALL = timer("a", 200, 1, clock=Clock.WALL)

# fmt: off
HISTORIES: Table = {
    "a timer that eludes the scan is a violation though a later owner fires it": (
        partial(zombie_timer, fires=True),
        violates("S7", "timer 'w17' of key 'cats' at 'counter' was missed by its owner: it was due at 0.012000s",
            "fired only 12.004000s later", "worker-1 (sequencer 3) had scanned 'counter' ['', end) at 0.008000s",
            "a write under sequencer 1 was applied at 0.009000s (MillWheel 6.2, Figure 12)"),
        breaks("S6", "S7", but="L4")),
    "a timer that eludes the scan and never fires is named by liveness too": (
        partial(zombie_timer, fires=False),
        violates("S7", "it was due at 0.012000s and did not fire"),
        violates("L1", "watermark timer 'w17' of key 'cats' at 'counter'")),
    "a write that is applied between the scans read and its end is found by the scan": (
        begin, inject(0, 100), run("counter", 1, QUERY), mint("counter", 3, "worker-1"),
        write("counter", 1, sequencer=1, live=3, seen=(("queries/0:0", 0),), set_timers=(WINDOW,)),
        scan("counter", 3, "worker-1"),
        violates("S7", "timer 'w' of key 'cats' at 'counter' was missed by its owner")),
    "a checkpointed production that eludes the scan is named": (
        begin, inject(0, 100), run("counter", 1, QUERY, COUNT), own("counter", 3, "worker-1"),
        write("counter", 1, live=3, seen=(("queries/0:0", 0),), productions=(COUNT,)),
        violates("S7", "production counter@1.1#0 of 'counter' to 'detector' was missed by its owner, was never delivered"),
        take("detector", 1, COUNT, sequencer=2),
        violates("S7", "and arrived only 0.002000s later")),
    "a lost timer that the owner sets anew is lost no more": (
        partial(zombie_timer, fires=False), back(), inject(1, 150),
        take("counter", 1, query(1, 150), sequencer=3, set_timers=(timer("w17", 200, 1, sequencer=3),)),
        violates("S7", "until it was set anew or cancelled at")),
    "a write that leaves timers alone still changes the row behind the owners back": (
        begin, own("counter", 3, "worker-1"), write("counter", 1, live=3),
        violates("S7", "the row changed behind its back")),
    "a scan that brings what no row has is caught": (
        begin, mint("counter", 3, "worker-1"), scan("counter", 3, "worker-1", timers=(("cats", "ghost"),)),
        violates("S7", "its scan brought [('cats', 'ghost')], which no row has")),
    "a scan that finds timers and checkpoints agrees with the rows": (
        begin, inject(0, 100), take("counter", 1, QUERY, COUNT, set_timers=(WINDOW,)),
        mint("counter", 3, "worker-1"),
        scan("counter", 3, "worker-1", timers=(("cats", "w"),), productions=(("counter@1.1#0", "detector"),)),
        holds("S7", 3)),
    "a scan that ends after its owner was replaced does not matter": (
        begin, mint("counter", 3, "worker-1"), own("counter", 4, "worker-2"), inject(0, 100),
        take("counter", 1, QUERY, sequencer=4, set_timers=(timer("w", 200, 1, sequencer=4),)), scan("counter", 3, "worker-1"),
        holds("S7", 3)),
    "what an owner has written during its scan may be in its memory, or not yet": (
        begin, inject(0, 100), mint("counter", 3, "worker-1"), add(ScanBegun, "worker-1", "counter", ALL, 3),
        run("counter", 1, QUERY, COUNT, sequencer=3, process="worker-1"),
        write("counter", 1, sequencer=3, seen=(("queries/0:0", 0),), set_timers=(WINDOW,), productions=(COUNT,)),
        scan("counter", 3, "worker-1"),
        holds("S7", 3)),
    "a checkpoint that was ACKed during the scan may be in its owner's memory, or not any more": (
        begin, inject(0, 100), take("counter", 1, QUERY, COUNT), mint("counter", 3, "worker-1"),
        add(ScanBegun, "worker-1", "counter", ALL, 3), add(Acked, "worker-1", COUNT.record_id, "detector"),
        scan("counter", 3, "worker-1"),
        holds("S7", 3)),
    "what another process was told during a scan does not count": (
        begin, inject(0, 100), take("counter", 1, QUERY, COUNT), mint("counter", 3, "worker-1"),
        add(ScanBegun, "worker-1", "counter", ALL, 3), add(Acked, "worker-0", COUNT.record_id, "detector"),
        scan("counter", 3, "worker-1"),
        violates("S7", "was missed by its owner")),
    "a timer that its owner has not touched during its scan must be found": (
        begin, inject(0, 100), take("counter", 1, QUERY, set_timers=(EARLY,)), mint("counter", 3, "worker-1"),
        add(ScanBegun, "worker-1", "counter", ALL, 3), write("counter", 1, sequencer=3, set_timers=(LATE,)),
        scan("counter", 3, "worker-1", timers=(("cats", "b"),)),
        violates("S7", "timer 'a' of key 'cats' at 'counter' was missed by its owner")),

    # S8
    "a timer that overtakes an earlier one is caught": (
        partial(with_timer, EARLY, LATE), fire("counter", 2, LATE),
        violates("S8", "timer 'b' (due 0.000300s) of key 'cats' at 'counter' fired at", "before timer 'a' (due 0.000200s)")),
    "two timers of one step fire in order": (
        partial(with_timer, EARLY, LATE), run("counter", 2, EARLY, watermark=300), run("counter", 2, LATE, watermark=300),
        write("counter", 2, fired=(EARLY, LATE)),
        holds("S8")),
    "two timers of one step that fire in another order are caught": (
        partial(with_timer, EARLY, LATE), run("counter", 2, LATE, watermark=300), run("counter", 2, EARLY, watermark=300),
        write("counter", 2, fired=(LATE, EARLY)),
        violates("S8")),
    "an earlier timer that the step cancels is not overtaken": (
        partial(with_timer, EARLY, LATE), fire("counter", 2, LATE, cancelled=("a",)),
        holds("S8", 1)),
    "timers of the two clocks do not wait for each other": (
        partial(with_timer, timer("a", 200, 1, clock=Clock.WALL), LATE), fire("counter", 2, LATE),
        holds("S8", 1)),
    "a timer that the step sets is not overtaken by the one that fires": (
        partial(with_timer, LATE), fire("counter", 2, LATE, set_timers=(timer("a", 200, 2),)),
        holds("S8", 1)),
    "a timer that is due at once is not overtaken by the next timer of its step": (
        partial(with_timer, EARLY, LATE), run("counter", 2, EARLY, watermark=300, asked=Asked(timers=(AskedTimer("c", 250),))),
        run("counter", 2, LATE, watermark=300), write("counter", 2, fired=(EARLY, LATE), set_timers=(timer("c", 250, 2),)),
        violates("S8", "timer 'c' of key 'cats' at 'counter' was set at", "was due at once; counter@1.1!b ran before it")),
    "a timer that is not yet due lets its step go on": (
        partial(with_timer, EARLY, LATE), run("counter", 2, EARLY, watermark=300, asked=Asked(timers=(AskedTimer("c", 301),))),
        run("counter", 2, LATE, watermark=300), write("counter", 2, fired=(EARLY, LATE), set_timers=(timer("c", 301, 2),)),
        holds("S8")),
    "a timer that is due at once may be the last of its step": (
        partial(with_timer, EARLY), run("counter", 2, EARLY, watermark=300, asked=Asked(timers=(AskedTimer("c", 250),))),
        write("counter", 2, fired=(EARLY,), set_timers=(timer("c", 250, 2),)),
        holds("S8")),

    # L1 on wall time
    "a wall timer that does not fire is caught though the run comes to rest": (
        partial(with_timer, ON_THE_WALL), wait(6_000), end(),
        violates("L1", "wall timer 'a' of key 'cats' at 'counter'", "has been due since")),
    "a wall timer may be late by as much as clocks differ": (
        partial(with_timer, ON_THE_WALL), wait(4_000), end(),
        spares("L1")),
    "a wall timer that fires has fired": (
        partial(with_timer, ON_THE_WALL), fire("counter", 2, ON_THE_WALL), end(),
        holds("L1", 1)),

    # S4: what user code asked for
    "a hold that user code did not ask for is caught": (
        begin, run("counter", 1, QUERY, asked=Asked(hold=7)), write("counter", 1, seen=((QUERY.record_id, 0),), hold=8),
        violates("S4", "user code asked for the holds ['0.000007s'], and it writes ['0.000008s']")),
    "the hold that user code asked for last is right": (
        begin, run("counter", 1, QUERY, asked=Asked(hold=7)), run("counter", 1, query(1, 100), asked=Asked(hold=8)),
        write("counter", 1, seen=((QUERY.record_id, 0), ("queries/0:1", 0)), hold=8),
        holds("S4")),
    "a timer that is written for another time is caught": (
        begin, run("counter", 1, QUERY, asked=Asked(timers=(AskedTimer("a", 7),))),
        write("counter", 1, seen=((QUERY.record_id, 0),), set_timers=(timer("a", 8, 1),)),
        violates("S4", "user code asked otherwise for timers ['a']")),
    "a timer that is not cancelled is caught": (
        begin, run("counter", 1, QUERY, asked=Asked(timers=(AskedTimer("a", None),))),
        write("counter", 1, seen=((QUERY.record_id, 0),)),
        violates("S4", "user code asked otherwise for timers ['a']")),
    "without a timer nothing is known of timers": (
        begin, inject(0, 100), take("counter", 1, QUERY), end(),
        unknown("S8"), unknown("S9"), unknown("L1")),

    # S9
    "a timer that fires twice is caught": (
        partial(with_timer, WINDOW), fire("counter", 2, WINDOW),
        fire("counter", 3, WINDOW),
        violates("S9", "timer 'w' of key 'cats' at 'counter', set by version 1.1, fired twice")),
    "a timer that is set anew may fire again": (
        partial(with_timer, WINDOW), fire("counter", 2, WINDOW, set_timers=(timer("w", 300, 2),)),
        fire("counter", 3, timer("w", 300, 2)),
        holds("S9", 2)),
    "a timer that was moved does not fire": (
        partial(with_timer, WINDOW), inject(1, 100),
        take("counter", 2, query(1, 100), set_timers=(timer("w", 400, 2),)), fire("counter", 3, WINDOW),
        violates("S9", "was not pending")),
    "a timer that runs before its input watermark is caught": (
        partial(with_timer, WINDOW), fire("counter", 2, WINDOW, watermark=199),
        violates("S9", "due at 0.000200s, ran at", "when its input watermark was 0.000199s")),
    "a worker that believes too much is caught by what injectors reported": (
        partial(with_timer, timer("w", 2000, 1)), fire("counter", 2, timer("w", 2000, 1), watermark=2000),
        violates("S9", "not even the injectors were so far")),
    "a wall timer does not wait for the watermark": (
        partial(with_timer, timer("w", 2000, 1, clock=Clock.WALL)),
        fire("counter", 2, timer("w", 2000, 1, clock=Clock.WALL), watermark=0),
        holds("S9", 1)),

    # L1
    "a due timer that has not fired at rest is stuck": (
        partial(with_timer, WINDOW), publish("queries", 200), wait(1_000), end(),
        violates("L1",
            "watermark timer 'w' of key 'cats' at 'counter' (due 0.000200s), set at 0.007000s, has been due since 0.010000s")),
    "a timer that is not due may wait": (
        partial(with_timer, WINDOW), publish("queries", 199), end(),
        unknown("L1", "no timer came due")),
    "the end of a run (deadline) 4000 ms after a timer is due leaves it some time": (
        partial(with_timer, WINDOW), publish("queries", 200), wait(4_000), end("deadline"),
        spares("L1")),
    "the end of a run (deadline) 5000 ms after a timer is due finds it stuck": (
        partial(with_timer, WINDOW), publish("queries", 200), wait(5_000), end("deadline"),
        violates("L1")),
    "the end of a run (quiescent) 100 ms after a timer is due leaves it some time": (
        partial(with_timer, WINDOW), publish("queries", 200), wait(100), end("quiescent"),
        spares("L1")),
    "the end of a run (quiescent) 1000 ms after a timer is due finds it stuck": (
        partial(with_timer, WINDOW), publish("queries", 200), wait(1_000), end("quiescent"),
        violates("L1")),
    "a timer waits for the slowest sender": (
        partial(begin, TWO_SOURCES), inject(0, 100), take("counter", 1, QUERY, set_timers=(WINDOW,)), publish("queries", 200),
        wait(1_000), end(),
        spares("L1"),
        back(), publish("more", 200), wait(1_000), end(),
        violates("L1")),
}
# fmt: on


@pytest.mark.parametrize("row", HISTORIES.values(), ids=HISTORIES)
def test_checkers_give_the_expected_verdicts(row: Row) -> None:
    check(row)
