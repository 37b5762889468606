"""S10, S10-horizon, S11 and L4, each on a History that it must pass and on one that it must not."""

from functools import partial

import pytest

from headrace import MAX_TIME, MIN_TIME, Clock, Computation, Productions
from headrace.history import (
    ComputationRemoved,
    DuplicateDropped,
    FaultStruck,
    Published,
    RoleClaimed,
)
from headrace.wire.messages import Progress
from headrace.wire.rows import Production
from tests.properties.checkers.steps import (
    COUNT,
    QUERY,
    WEAK_COUNT,
    Row,
    Table,
    ack,
    add,
    advance,
    back,
    breaks,
    check,
    end,
    fire,
    holds,
    inject,
    own,
    publish,
    query,
    report,
    run,
    spares,
    take,
    unknown,
    violates,
    wait,
    write,
)
from tests.properties.stories import Story, begin, counting, record, timer


def held(time: int) -> Story:
    """A story whose injector has come to 1000; a record at ``time`` is durable on its way to the detector."""
    story = begin()
    query = story.inject(0, time, origin=7)
    story.take("counter", 1, query, record("counter@1.1#0", "detector", time, origin=7))
    story.report(1_000)
    story.publish("queries", 1_000)
    return story


WINDOW = timer("w", 200, 1)
OLD_QUERY = query(0, 100, origin=7)
WITH_SLOW = counting()
WITH_SLOW.add(Computation(), name="slow", inputs=["queries"], outputs=["counts"])


def made(number: int) -> Production:
    """What the counter's write of this number makes of the old query."""
    return record(f"counter@1.{number}#0", "detector", 100, origin=7)


# fmt: off
HISTORIES: Table = {
    # S10
    "a broadcast past an undelivered production is caught": (
        partial(held, 100), publish("counter", 101),
        violates("S10", "the low watermark of 'counter' was broadcast as 0.000101s",
            "while record counter@1.1#0 of 'counter' to 'detector' (key 'cats', timestamp 0.000100s)")),
    "a broadcast up to pending work holds": (
        partial(held, 100), publish("counter", 100), publish("detector", 100),
        holds("S10", 3)),
    "work upstream holds the watermark of all downstream": (
        partial(held, 100), publish("detector", 101),
        violates("S10", "the low watermark of 'detector' was broadcast")),
    "a record that is applied holds nothing any more": (
        partial(held, 100), take("detector", 1, record("counter@1.1#0", "detector", 100, origin=7), sequencer=2),
        publish("counter", 900),
        holds("S10")),
    "an accepted record holds its injectors watermark": (
        begin, inject(0, 100), publish("queries", 101),
        violates("S10", "record queries/0:0 of 'queries' to 'counter'")),
    "a record that was injected late holds nothing": (
        begin, inject(0, 100, watermark=101), publish("queries", 900),
        holds("S10", 1)),
    "timers hold the watermark": (
        begin, inject(0, 100), take("counter", 1, QUERY, set_timers=(WINDOW,)), publish("queries", 1_000),
        publish("counter", 200),
        holds("S10", 2),
        publish("counter", 201),
        violates("S10", "watermark timer 'w' of key 'cats' at 'counter'")),
    "held state holds the watermark": (
        begin, inject(0, 100), take("counter", 1, QUERY, hold=200), publish("queries", 1_000), publish("counter", 200),
        holds("S10", 2),
        publish("counter", 201),
        violates("S10", "the state of key 'cats' at 'counter' (which holds 0.000200s)")),
    "a hold that is released and a timer that is cancelled hold nothing": (
        begin, inject(0, 100), take("counter", 1, QUERY, set_timers=(WINDOW,), hold=200), inject(1, 150),
        take("counter", 2, query(1, 150), cancelled=("w",), hold=MAX_TIME), publish("counter", 900),
        holds("S10", 1)),
    "a timer that is moved holds at its new time": (
        begin, inject(0, 100), take("counter", 1, QUERY, set_timers=(WINDOW,)), inject(1, 150),
        take("counter", 2, query(1, 150), set_timers=(timer("w", 300, 2),)), publish("counter", 300),
        holds("S10", 1),
        publish("counter", 301),
        violates("S10")),
    "a wall timer without a hold holds nothing": (
        begin, inject(0, 100), take("counter", 1, QUERY, set_timers=(timer("w", 200, 1, clock=Clock.WALL),)),
        publish("counter", 900),
        holds("S10", 1)),
    # The timer at 200 fires when the input is at 1000; its production at 200 is not late.
    "a windows production holds though the input has passed it": (
        begin, inject(0, 100), take("counter", 1, QUERY, set_timers=(WINDOW,)), report(1000),
        publish("queries", 1000), publish("counter", 200),
        fire("counter", 2, WINDOW, record("counter@1.2#0", "detector", 200), watermark=1000),
        publish("counter", 201),
        violates("S10", "record counter@1.2#0")),
    "what a late record leads to holds nothing behind the injectors": (
        begin, report(1000), publish("queries", 1000), inject(0, 100, watermark=1000),
        take("counter", 1, QUERY, COUNT, set_timers=(timer("w", 1200, 1),)), publish("counter", 1000),
        holds("S10", 2),
        publish("counter", 1201),
        violates("S10", "timer 'w'")),
    "what a late record leads to at the very watermark that was broadcast before is not late": (
        begin, report(1_000), publish("queries", 1_000), publish("counter", 1_000), inject(0, 100, watermark=1_000),
        take("counter", 1, QUERY, set_timers=(timer("w", 1_000, 1),)), publish("counter", 1_000),
        holds("S10"),
        publish("counter", 1_001),
        violates("S10", "timer 'w'")),
    "what a late record leads to at the very watermark that is broadcast afterwards is not late": (
        begin, report(1_000), publish("queries", 1_000), inject(0, 100, watermark=1_000),
        take("counter", 1, QUERY, set_timers=(timer("w", 1_000, 1),)), publish("counter", 1_000),
        holds("S10"),
        publish("counter", 1_001),
        violates("S10", "timer 'w'")),
    # The reply to the write is lost; the owner reports on, and learns later that the timer is durable, and late.
    "what a late record leads to holds nothing before its owner knows of it": (
        begin, report(1000), inject(0, 100, watermark=1000), run("counter", 1, QUERY),
        write("counter", 1, seen=(("queries/0:0", 0),), set_timers=(timer("w", 1200, 1),)), report(1300),
        publish("queries", 1300), publish("counter", 1300), ack("counter", "queries/0:0"), publish("counter", 1400),
        holds("S10")),
    "work that is born behind a broadcast is late": (
        begin, publish("counter", 500), inject(0, 100, watermark=101), take("counter", 1, QUERY, COUNT),
        publish("counter", 600),
        holds("S10", 2)),
    # Figure 12's second form: the zombie's commit lets A forget the record, and B-prime does not know what came of it.
    "a production that eluded a scan makes the watermark wrong": (
        begin, inject(0, 100), run("counter", 1, QUERY, COUNT), own("counter", 3, "worker-1"),
        write("counter", 1, live=3, seen=(("queries/0:0", 0),), productions=(COUNT,)), ack("counter", "queries/0:0"),
        report(1_000), publish("queries", 1_000), publish("counter", 1_000),
        violates("S10", "while record counter@1.1#0"), violates("S6"), violates("S7")),
    # The weak step has sent its production and is not committed; the consumer has set a timer for it.
    "what a weak production in flight leads to holds the watermark": (
        partial(begin, counting(productions=Productions.WEAK)), inject(0, 100), run("counter", 1, QUERY, WEAK_COUNT),
        report(1_000), take("detector", 1, WEAK_COUNT, sequencer=2, set_timers=(timer("w", 150, 1, sequencer=2),)),
        write("counter", 1, seen=(("queries/0:0", 0),)), publish("detector", 151),
        violates("S10", "timer 'w' of key 'cats' at 'detector'")),
    "a weak production holds by its cause until it is checkpointed": (
        partial(begin, counting(productions=Productions.WEAK)), inject(0, 100), run("counter", 1, QUERY, WEAK_COUNT),
        publish("counter", 101),
        violates("S10", "record queries/0:0 of 'queries'"),
        back(), write("counter", 1, seen=(("queries/0:0", 0),), productions=(WEAK_COUNT,)), publish("counter", 101),
        violates("S10", "record queries/0:0>counter#0 of 'counter'")),
    "a worker that acts upon a watermark past pending work is caught": (
        partial(held, 100), advance("detector", 100, sequencer=2),
        holds("S10"),
        advance("detector", 101, sequencer=2),
        violates("S10", "worker-0 took 0.000101s for the input watermark of 'detector'")),
    "a percentile watermark may pass pending work": (
        partial(begin, counting(watermark_percentile=50.0)), inject(0, 100), advance("counter", 900),
        spares("S10")),
    "a production to a computation that was removed holds nothing, but it is lost": (
        partial(held, 100), add(ComputationRemoved, "store", "detector"), publish("counter", 900), end(),
        breaks("S1", but="L4")),
    # The detector has come to 500 when a second, slower counter begins to feed it.
    "what joins a running topology behind a computation is late for it": (
        partial(begin, counting(), WITH_SLOW), publish("queries", 90), publish("detector", 500), own("slow", 3),
        inject(0, 100), take("counter", 1, QUERY), publish("detector", 600),
        spares("S10")),

    # S10-horizon
    "a horizon past the origin of an unfinished record is caught": (
        partial(held, 100), publish("counter", 100, horizon=7),
        holds("S10-horizon"),
        publish("detector", 100, horizon=8),
        violates("S10-horizon", "the horizon of 'detector' was broadcast as 0.000008s", "record counter@1.1#0 of 'counter'")),
    "late records hold the horizon like any": (
        begin, inject(0, 100, watermark=900, origin=7), publish("queries", 900, horizon=8),
        violates("S10-horizon")),
    "of two copies of a record the older origin holds the horizon": (
        begin, inject(0, 100, origin=9), inject(0, 100, origin=7), publish("queries", 100, horizon=8),
        violates("S10-horizon")),
    # A record is run twice, strong; what the second run made is refused behind the horizon (6.1.3).
    "remnants of code without exactly once are not unfinished": (
        partial(begin, counting(exactly_once=False)), inject(0, 100, origin=7), run("counter", 1, OLD_QUERY, made(1)),
        write("counter", 1, productions=(made(1),)), ack("counter", "queries/0:0"), take("detector", 1, made(1), sequencer=2),
        report(900, horizon=8), publish("counter", 900, horizon=8), run("counter", 2, OLD_QUERY, made(2)),
        write("counter", 2, productions=(made(2),)), ack("counter", "queries/0:0"),
        add(DuplicateDropped, "worker-0", "detector", "cats", "counter@1.2#0", "horizon"), ack("detector", "counter@1.2#0"),
        publish("counter", 950, horizon=9), end(),
        breaks(but="L4")),

    # S11
    "a low watermark that goes back is caught": (
        begin, publish("counter", 200, horizon=5), publish("counter", 199, horizon=5),
        violates("S11", "broadcast the progress of 'counter' at 0.006000s with a low watermark of 0.000199s")),
    "a horizon that goes back is caught": (
        begin, publish("counter", 200, horizon=5), publish("counter", 200, horizon=4, process="authority-0.1"),
        violates("S11", "with a horizon of 0.000004s, after 0.000005s")),
    "a new authority that knows less than was broadcast is caught": (
        begin, publish("counter", 200, process="authority-0.0"), add(RoleClaimed, "store", "authority-0", 2, "authority-0.1"),
        publish("counter", 100, process="authority-0.1"),
        violates("S11")),
    "a replaced authority may repeat what it had journaled": (
        begin, add(RoleClaimed, "store", "authority-0", 1, "authority-0.0#1"),
        publish("counter", 200, process="authority-0.0"), add(RoleClaimed, "store", "authority-0", 2, "authority-0.1#1"),
        publish("counter", 300, process="authority-0.1"), publish("counter", 250, process="authority-0.0"),
        holds("S11")),
    "an input watermark that goes back is caught for one owner only": (
        begin, advance("counter", 200), advance("counter", 100, sequencer=3, process="worker-1"),
        holds("S11"),
        advance("counter", 199),
        violates("S11", "worker-0 took the input of 'counter'")),
    "an injector that reports less after a restart is caught": (
        begin, report(200, horizon=5), report(200, horizon=4),
        violates("S11", "injector queries/0 reported at")),
    "a percentile that goes back is caught": (
        begin, add(Published, "authority-0.0", (("counter", Progress(200, 5, ((90.0, 300),))),)),
        add(Published, "authority-0.0", (("counter", Progress(200, 5, ((90.0, 299),))),)),
        violates("S11", "with a 90 % watermark of 0.000299s")),

    # L4
    "a watermark that stops behind its injectors is caught": (
        partial(held, 100), publish("counter", 100), end(),
        violates("L4", "the low watermark of 'counter' stands at 0.000100s at the end",
            "its injectors had reported 0.001000s; record counter@1.1#0")),
    "watermarks that reach their injectors hold": (
        begin, report(300), publish("counter", 300), publish("detector", MAX_TIME), end(),
        holds("L4", 2)),
    "a computation that was removed need not arrive": (
        begin, report(300), publish("counter", 300), add(ComputationRemoved, "store", "detector"), end(),
        holds("L4", 1)),
    "without a report nothing is known of the aim": (
        begin, report(MIN_TIME), end(),
        unknown("L4", "no source and no injector had a low watermark")),
    "an unhealed run is not asked to arrive": (
        partial(held, 100), add(FaultStruck, "worker-0", "pause", ""), end("deadline"),
        unknown("L4")),
    "a deadline leaves a watermark some time": (
        begin, report(300), wait(100), end("deadline"),
        spares("L4"),
        back(), wait(5_900), end("deadline"),
        violates("L4")),
}
# fmt: on


@pytest.mark.parametrize("row", HISTORIES.values(), ids=HISTORIES)
def test_checkers_give_the_expected_verdicts(row: Row) -> None:
    check(row)
