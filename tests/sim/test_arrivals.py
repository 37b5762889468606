"""The order of arrivals at each process, as a value."""

import dataclasses
import weakref
from collections.abc import Iterable

import msgspec
import pytest

from headrace import MILLISECOND, SECOND, Computation, Context, OptionsError, Pipeline, Record
from headrace.history import Applied, History, Output
from headrace.wire import messages as m
from headrace.wire.keys import ALL_KEYS
from headrace.wire.rows import RowDelta
from headrace_sim import (
    Arrivals,
    Cluster,
    ClusterOptions,
    Constant,
    Delay,
    Does,
    Exponential,
    FaultSchedule,
    Feed,
    FeedBuilder,
    Redraw,
    Step,
    Uniform,
    simulate,
)  # fmt: skip
from headrace_sim import arrivals as module
from headrace_sim.arrivals import ArrivedMessage, Routine, earliest, may_swap, next_overtaker
from headrace_sim.hosting.host import Host

BASE = ClusterOptions(workers=2)
OPTIONS = msgspec.structs.replace(
    BASE, engine=dataclasses.replace(BASE.engine, masters=1, authority_replicas=1)
)


class Last(Computation):
    """Keeps the last number of each key, and passes it on."""

    def process_record(self, context: Context, record: Record) -> None:
        context.state["last"] = record.value
        context.produce("lasts", record.value)


def two_at_once() -> tuple[Pipeline, Feed]:
    """Two numbers of one key, that arrive at the injector at the same time."""
    pipeline = Pipeline("lasts")
    pipeline.injector("numbers")
    pipeline.add(Last(), name="last", inputs={"numbers": lambda record: "k"}, outputs=["lasts"])
    builder = FeedBuilder(pipeline)
    for value in (1, 2):
        builder.record(at_us=100 * MILLISECOND, value=value, timestamp=value)
    return pipeline, builder.build()


def run(*delays: Delay, options: ClusterOptions = OPTIONS) -> tuple[History, Arrivals]:
    pipeline, feed = two_at_once()
    arrivals = Arrivals(delays)
    return simulate(pipeline, feed, options=options, arrivals=arrivals), arrivals


def the(arrivals: Arrivals, name: str, nth: int = 1, place: str = "worker") -> int:
    """The index of an arrival."""
    return next(
        index
        for index, arrival in enumerate(arrivals.handled)
        if arrival.name == name and arrival.nth == nth and arrival.place.startswith(place)
    )


def test_without_delays_everything_takes_its_shortest_time() -> None:
    pipeline, feed = two_at_once()
    assert run()[0].digest() == simulate(pipeline, feed, options=earliest(OPTIONS)).digest()


def test_a_delayed_arrival_is_handled_right_after_what_overtakes_it() -> None:
    _, usual = run()
    first, second = the(usual, "Deliver", 1), the(usual, "Deliver", 2)
    delay = Delay(usual.handled[first].step, next_overtaker(usual.handled, first) or 0)
    _, changed = run(delay)
    late, early = (changed.handled[the(changed, "Deliver", nth)] for nth in (1, 2))
    assert changed.handled.index(early) + 1 == changed.handled.index(late)
    assert late.at_us == early.at_us == usual.handled[second].at_us
    assert [late.content, early.content] == [usual.handled[first].content, usual.handled[second].content]


def test_an_arrival_never_waits_longer_than_its_interval_allows() -> None:
    _, usual = run()
    delayed = usual.handled[the(usual, "Deliver", 1)]
    _, changed = run(Delay(delayed.step, 10_000))
    assert changed.handled[the(changed, "Deliver", 1)].at_us == delayed.at_us + 1_300
    assert changed.further() is None


def test_what_is_sent_because_of_an_arrival_cannot_overtake_it() -> None:
    _, usual = run()
    handled = usual.handled
    for index, arrival in enumerate(handled):
        past = next_overtaker(handled, index) if arrival.content is not None else None
        if past is not None:
            _, changed = run(Delay(arrival.step, past))
            again = next(handled for handled in changed.handled if handled.step == arrival.step)
            assert again.at_us <= arrival.latest_us
            assert (
                sum(later.place == arrival.place and later.at_us <= again.at_us for later in changed.handled)
                >= past
            )


def test_a_delayed_arrival_reports_whether_it_could_be_delayed_further() -> None:
    wide = msgspec.structs.replace(OPTIONS, link=Uniform(200, 60 * MILLISECOND))
    _, usual = run(options=wide)
    first = the(usual, "Deliver", 1)
    past, tried = next_overtaker(usual.handled, first), []
    while past is not None:
        tried.append(past)
        past = run(Delay(usual.handled[first].step, past), options=wide)[1].further()
    assert len(tried) > 1
    assert tried == sorted(set(tried))


def test_a_latency_without_a_longest_time_is_refused() -> None:
    with pytest.raises(OptionsError, match="link"):
        run(options=msgspec.structs.replace(OPTIONS, link=Exponential(100, 100)))
    with pytest.raises(OptionsError, match="user_code_cpu_of last"):
        run(options=msgspec.structs.replace(OPTIONS, user_code_cpu_of={"last": Exponential(1, 1)}))


def test_a_constant_latency_leaves_nothing_to_delay() -> None:
    fixed = {
        name: Constant(500) for name in ("link", "store_link", "store_write", "store_read", "store_scan")
    }
    _, arrivals = run(options=msgspec.structs.replace(OPTIONS, **fixed))
    messages = [index for index, arrival in enumerate(arrivals.handled) if arrival.content is not None]
    assert all(arrivals.handled[index].latest_us == arrivals.handled[index].at_us for index in messages)


def test_a_redrawn_continuation_draws_arrival_times() -> None:
    (pipeline, feed), heals = two_at_once(), FaultSchedule((), heal_at_us=SECOND)

    def continued(seed: int) -> History:
        redraw = Redraw(100 * MILLISECOND, seed)
        return simulate(pipeline, feed, options=OPTIONS, faults=heals, arrivals=Arrivals(), redraw=redraw)

    first, other = continued(1), continued(2)
    assert first.digest() == continued(1).digest() != other.digest()
    before = [[event for event in run if event.at_us < 100 * MILLISECOND] for run in (first, other)]
    assert before[0] == before[1] != []


def write(computation: str, *keys: str) -> m.Write:
    return m.Write(1, computation, 1, tuple(RowDelta(key, 1) for key in keys))


MINT = m.Mint(1, 1, 1, (), 0)
SCAN = m.Scan(1, "a", 1, ALL_KEYS, None, ())
JOURNAL = m.JournalWatermarks(1, "authority-0", 1, (), ())


ALIKE = [
    (write("a", "k"), write("a", "l")),
    (write("a", "k"), write("b", "k")),
    (m.Read(1, "a", 1, "k"), m.Read(2, "a", 1, "k")),
    (SCAN, write("b", "k")),
    (JOURNAL, write("a", "k")),
]
UNLIKE = [
    (write("a", "k"), write("a", "k", "l")),
    (m.Read(1, "a", 1, "k"), write("a", "k")),
    (SCAN, write("a", "k")),
    (MINT, write("a", "k")),
    (MINT, SCAN),
    (JOURNAL, SCAN),
    (JOURNAL, MINT),
    (JOURNAL, m.Renew(1, "master", 1)),
]


def at_store(pair: tuple[m.Request, m.Request]) -> list[ArrivedMessage]:
    return [ArrivedMessage("store", "", 1, request, 0, 0, periodic=False) for request in pair]


@pytest.mark.parametrize("pair", ALIKE)
def test_the_store_serves_requests_for_different_rows_the_same_in_either_order(
    pair: tuple[m.Request, m.Request],
) -> None:
    assert may_swap(*at_store(pair))
    assert may_swap(*at_store(pair)[::-1])


@pytest.mark.parametrize("pair", UNLIKE)
def test_the_order_of_other_requests_to_the_store_matters(pair: tuple[m.Request, m.Request]) -> None:
    assert not may_swap(*at_store(pair))
    assert not may_swap(*at_store(pair)[::-1])


def test_a_process_can_tell_every_order_of_its_own_arrivals() -> None:
    acks = [ArrivedMessage("worker-0", "Ack", nth, m.Ack("a", ()), 0, 0, periodic=False) for nth in (1, 2)]
    assert not may_swap(*acks)
    elsewhere = dataclasses.replace(acks[0], place="worker-1")
    assert may_swap(elsewhere, acks[0])


def test_a_report_is_routine_if_it_repeats_the_previous_one() -> None:
    routine = Routine()
    says, repeats = m.Report("worker-0", ()), m.Report("worker-0", ())
    other = m.Report("worker-0", (m.IntervalReport("a", ALL_KEYS, 1, 2, 2),))
    said: Iterable[m.Message] = (says, repeats, other, says)
    assert [routine.takes("worker-0", "authority-0.0", report) for report in said] == [
        False,
        True,
        False,
        False,
    ]
    assert routine.takes("worker-0", "master-0", m.Heartbeat("worker-0", 1, 1))
    assert not routine.takes("worker-0", "store", write("a", "k"))


def test_swapping_arrivals_at_different_places_changes_nothing() -> None:
    """A run in which arrivals at several places come later, none of which overtakes another at its own place, ends alike."""
    history, usual = run()
    for index, arrival in enumerate(usual.handled):
        own = next_overtaker(usual.handled, index)
        anywhere = next_overtaker(usual.handled, index, anywhere=True)
        if arrival.content is None or anywhere is None or (own is not None and own <= anywhere):
            continue
        changed, _ = run(Delay(arrival.step, anywhere, anywhere=True))
        assert outcome(changed) == outcome(history), arrival


def outcome(history: History) -> set[str]:
    """What the outside gets and what the rows become, whenever that is."""
    outside = {repr(event.production) for event in history if isinstance(event, Output)}
    return outside | {repr(event.delta) for event in history if isinstance(event, Applied)}


def test_steps_that_receive_are_named_as_faults_name_them() -> None:
    assert str(Step("worker-1", Does.RECEIVES, "Deliver", 2)) == "worker-1 receives its 2nd Deliver"
    assert (
        module.Delay(Step("worker-1", Does.RECEIVES, "Deliver", 2), 1)
        .describe()
        .endswith("the next arrival there")
    )


def test_nothing_of_a_runs_cluster_is_kept_once_it_is_over() -> None:
    """A search keeps each run's arrivals; through them it would keep the cluster until a collection that comes seldom."""
    pipeline, feed = two_at_once()
    arrivals, hosts = Arrivals(), list[weakref.ref[Host]]()

    def look(cluster: Cluster) -> None:
        hosts.append(weakref.ref(cluster.host))

    simulate(pipeline, feed, options=OPTIONS, arrivals=arrivals, look=look)
    assert arrivals.handled
    assert [host() for host in hosts] == [None, None]
