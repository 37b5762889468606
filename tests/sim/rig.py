"""Small pipelines, and common assertions on runs in the simulated cluster."""

import dataclasses
from collections import Counter as Bag
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

import msgspec

from headrace import MILLISECOND, SECOND, Computation, Context, Pipeline, Record, Timer
from headrace.history import Event, FaultStruck, History, Output, RunEnded
from headrace.wire.messages import MoveInterval, SplitInterval
from headrace_properties.checkers import judge
from headrace_properties.reference import run_reference
from headrace_properties.results import outputs_of
from headrace_properties.verdict import Violated
from headrace_sim import SOUND, Cluster, ClusterOptions, FaultSchedule, Feed, FeedBuilder, Protocol, start
from headrace_sim import faults as f

CITIES = ("arco", "mori", "nago", "riva", "torbole")
SENDERS = ("anna", "bruno", "nora", "ugo", "vera", "zeno")

CHECKED = ClusterOptions(check_invariants=True)
"""The cluster's defaults, and every process asserts its invariants after every event."""

HEAL_US = 6 * SECOND


def with_engine(**changes: Any) -> ClusterOptions:
    """`CHECKED`, with some of the engine's options changed."""
    return msgspec.structs.replace(CHECKED, engine=dataclasses.replace(CHECKED.engine, **changes))


E = TypeVar("E", bound=Event)


def storm(source: str, computation: str) -> tuple[f.AnyFault, ...]:
    """Every kind of fault in a few seconds. ``source``: an injector's process; ``computation``: what the operator changes."""
    ms = MILLISECOND
    return (
        f.Operate(at_us=1_200 * ms, verb=SplitInterval(computation, "g")),
        f.StoreErrors(at_us=1_200 * ms, for_us=600 * ms, rate=0.5),
        f.Hold(at_us=1_300 * ms, message="Report", count=2, for_us=400 * ms),
        f.DropMessages(at_us=1_400 * ms, message="Ack", count=2),
        f.Noise(at_us=1_500 * ms, for_us=1_500 * ms, drop=0.1, duplicate=0.2, delay=0.2, delay_us=800 * ms),
        f.DelayCommit(at_us=1_600 * ms, process="worker-0", count=2, by_us=900 * ms),
        f.LoseCommit(at_us=1_700 * ms, process="worker-1"),
        f.LoseReply(at_us=1_800 * ms, process="worker-2"),
        f.DuplicateCommit(at_us=1_900 * ms, process="worker-0", by_us=1_500 * ms),
        f.Slow(at_us=2_000 * ms, process="worker-1", factor=200, for_us=500 * ms),
        f.SkewClock(at_us=2_100 * ms, process="worker-2", by_us=700 * ms, for_us=2_000 * ms),
        f.LateRecords(at_us=2_200 * ms, process=source, count=2, by_us=900 * ms),
        f.Partition(at_us=2_300 * ms, side=("worker-0",), for_us=1_300 * ms),
        f.Pause(at_us=2_600 * ms, process="worker-1", for_us=1_800 * ms),
        f.StallSource(at_us=2_800 * ms, process=source, for_us=400 * ms),
        f.Operate(at_us=3_000 * ms, verb=MoveInterval(computation, "a")),
        f.StoreUnavailable(at_us=3_300 * ms, for_us=400 * ms),
        f.Crash(at_us=3_700 * ms, process="worker-2", restart_after_us=600 * ms),
        f.Crash(at_us=4_000 * ms, process="master-0", restart_after_us=2_000 * ms),
        f.Crash(at_us=4_200 * ms, process="authority-0.0", restart_after_us=2_000 * ms),
        f.Crash(at_us=4_400 * ms, process=source, restart_after_us=300 * ms),
    )


class Sorter(Computation):
    """First stage, keyed by sender: passes letters on."""

    def process_record(self, context: Context, record: Record) -> None:
        context.produce("sorted", record.value)


class WindowCounter(Computation):
    """Second stage, keyed by city: counts the letters of each second, and tells when it is over."""

    def process_record(self, context: Context, record: Record) -> None:
        if record.late:
            context.produce("late", record.value)
            return
        second = record.timestamp // SECOND
        context.state[str(second)] = context.state.get(str(second), 0) + 1
        context.set_timer(str(second), (second + 1) * SECOND)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce("counts", {"second": timer.tag, "count": context.state.pop(timer.tag)})


def city(record: Record) -> str:
    """The counter's key."""
    found: str = record.value["city"]
    return found


def mail(*, processes: int = 1, **switches: object) -> Pipeline:
    """``mail`` -> sorter -> (by city) -> counter -> outside. ``switches``: of both computations."""
    pipeline = Pipeline("mail")
    pipeline.injector("mail", processes=processes)
    common = {"split_at": ["m"], **switches}
    pipeline.add(Sorter(), name="sorter", inputs=["mail"], outputs=["sorted"], **common)  # type: ignore[arg-type]
    pipeline.add(
        WindowCounter(), name="counter", inputs={"sorted": city}, outputs=["counts", "late"], **common  # type: ignore[arg-type]
    )  # fmt: skip
    return pipeline


def letters(
    pipeline: Pipeline, count: int = 60, *, begin_us: int = SECOND, every_us: int = 50 * MILLISECOND
) -> Feed:
    """Letters in some disorder, none of them late, spread over the injector's processes."""
    builder = FeedBuilder(pipeline)
    processes = pipeline.injectors["mail"].processes
    for number in range(count):
        at_us = begin_us + number * every_us
        process = number % processes
        value = {"city": CITIES[number * 3 % len(CITIES)], "number": number}
        timestamp = at_us - number * 7 % 5 * 40 * MILLISECOND
        builder.record(
            at_us=at_us, value=value, timestamp=timestamp, key=SENDERS[number % len(SENDERS)], process=process
        )
        if number % 5 >= 5 - processes:
            builder.watermark(at_us=at_us, low_watermark=at_us - 200 * MILLISECOND, process=process)
    return builder.build()


@dataclass(frozen=True, slots=True)
class Run:
    """A run that is over."""

    cluster: Cluster
    pipelines: Sequence[Pipeline]
    feed: Feed
    outputs: Bag[tuple[str, bytes]] = field(default_factory=Bag)

    @property
    def history(self) -> History:
        return self.cluster.history

    def all(self, kind: type[E]) -> list[E]:
        """The events of a kind, in order."""
        return [event for event in self.history if isinstance(event, kind)]

    def struck(self, kind: str) -> list[FaultStruck]:
        """The strikes of a fault, in order."""
        return [event for event in self.all(FaultStruck) if event.kind == kind]


def run(
    pipeline: Pipeline | Sequence[Pipeline],
    feed: Feed,
    *faults: f.AnyFault,
    options: ClusterOptions = CHECKED,
    heal_at_us: int | None = HEAL_US,
    lasting: tuple[str, ...] = (),
    seed: int = 0,
    protocol: Protocol = SOUND,
) -> Run:
    """Run to the end, as `simulate` does, and keep the cluster."""
    schedule = FaultSchedule(faults, heal_at_us, lasting)
    cluster = start(pipeline, feed, options=options, faults=schedule, seed=seed, protocol=protocol)
    cluster.run_until(schedule.heals_at_us)
    cluster.heal(schedule.lasting)
    cluster.run_to_the_end()
    return finished(cluster, pipeline, feed)


def finished(cluster: Cluster, pipeline: Pipeline | Sequence[Pipeline], feed: Feed) -> Run:
    """Return the result of a cluster that was operated by hand."""
    pipelines = (pipeline,) if isinstance(pipeline, Pipeline) else tuple(pipeline)
    outputs = Bag((e.production.stream, e.production.value) for e in cluster.history if isinstance(e, Output))
    return Run(cluster, pipelines, feed, outputs)


def assert_sound(done: Run) -> None:
    """Assert that no invariant is broken, and everything was done in time."""
    verdicts = judge(done.history, done.pipelines)
    broken = {name: verdict.message for name, verdict in verdicts.items() if isinstance(verdict, Violated)}
    assert not broken, broken
    assert done.all(RunEnded)[-1].why == "quiescent", "not everything was done in time"


def assert_as_reference(done: Run) -> None:
    """What came out is what one machine without faults would have made of the input."""
    expected = run_reference(done.pipelines[0], done.feed)
    assert expected.outputs, "nothing to compare"
    found = outputs_of(done.history)
    assert found == expected.outputs, {
        "missing": expected.outputs - found,
        "too many": found - expected.outputs,
    }


@cache
def calm_owner(computation: str, key: str) -> str:
    """Who owns a key of `mail` before anything goes wrong."""
    pipeline = mail()
    cluster = start(pipeline, letters(pipeline))
    cluster.run_until(SECOND - 1)
    return owner(cluster, computation, key)


def owner(cluster: Cluster, computation: str, key: str) -> str:
    """Who owns a key, by the newest table."""
    return next(
        assignment.owner
        for assignment in cluster.table.assignments
        if assignment.computation == computation and assignment.interval.contains(key)
    )
