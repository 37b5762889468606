"""What a delivery costs the simulation, counted in events on SimPy's heap: a figure that no machine's speed changes."""

import gc
import weakref
from typing import Any, NoReturn

import pytest
import simpy

from headrace import MICROSECOND, MILLISECOND, SECOND, Computation, Context, Pipeline, Record
from headrace.history import Delivered
from headrace_sim import Cluster, FeedBuilder, simulate, start
from headrace_sim.kernel import ScheduledCall, seldom_collected
from headrace_sim.wires.departures import Flight

MOST = 6
"""Heap events a delivery: there, write and reply, ACK, and a deletion and its reply; the rest of the cluster is in it, too."""

KEYS = 100


class Tally(Computation):
    """Counts by key, and passes on to the next stage, if there is one."""

    def __init__(self, stream: str = "") -> None:
        self._stream = stream

    def process_record(self, context: Context, record: Record) -> None:
        context.state["count"] = context.state.get("count", 0) + 1
        if self._stream:
            context.produce(self._stream, record.value)


def shuffle() -> Pipeline:
    """Two stages, each with intervals on all workers, the second one keyed anew."""
    pipeline = Pipeline("shuffle")
    pipeline.injector("numbers")
    first, second = (
        (lambda record: f"{record.value % KEYS:02}"),
        (lambda record: f"{record.value * 7 % KEYS:02}"),
    )
    pipeline.add(
        Tally("again"), name="first", inputs={"numbers": first}, outputs=["again"], split_at=["33", "66"]
    )
    pipeline.add(Tally(), name="second", inputs={"again": second}, split_at=["33", "66"])
    return pipeline


def started(records: int, every_us: int) -> Cluster:
    """A cluster with default options, before so many records come to `shuffle`."""
    pipeline = shuffle()
    builder = FeedBuilder(pipeline)
    for number in range(records):
        at_us = SECOND + number * every_us
        builder.record(at_us=at_us, value=number, timestamp=at_us)
    return start(pipeline, builder.build())


def loaded(records: int, every_us: int) -> Cluster:
    """Run all records through; return the cluster when they are delivered."""
    cluster = started(records, every_us)
    cluster.run_until(SECOND + records * every_us + 200 * MILLISECOND)
    assert deliveries(cluster) == 2 * records
    return cluster


def deliveries(cluster: Cluster) -> int:
    return sum(isinstance(event, Delivered) for event in cluster.history)


@pytest.mark.parametrize("every_us", [5 * MILLISECOND, MILLISECOND, 100 * MICROSECOND])
def test_a_shuffle_takes_at_most_six_heap_events_a_delivery(every_us: int) -> None:
    """From 200 to 10,000 records a second; heartbeats, reports, journals and the first scans are counted with them."""
    cluster = loaded(1_500, every_us)
    assert cluster.kernel.events <= MOST * deliveries(cluster)


def test_more_load_costs_less_a_delivery() -> None:
    light, heavy = loaded(500, 5 * MILLISECOND), loaded(500, 100 * MICROSECOND)
    assert heavy.kernel.events < light.kernel.events / 2


def test_the_count_is_complete_and_nothing_is_a_simpy_process(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 0
    step = simpy.Environment.step

    def counted(environment: simpy.Environment) -> None:
        nonlocal steps
        steps += 1
        step(environment)

    def process(*_: Any) -> NoReturn:
        pytest.fail("a SimPy process was started")

    monkeypatch.setattr(simpy.Environment, "step", counted)
    monkeypatch.setattr(simpy.Environment, "process", process)
    cluster = loaded(200, MILLISECOND)
    to_come = [event for event in cluster.kernel.pending() if not isinstance(event, simpy.Event)]
    assert cluster.kernel.events == steps - 1 + len(to_come)  # one step was SimPy's own: the end of `run`


def test_an_unused_cluster_is_garbage_collected() -> None:
    """What it has still to do, and what is on its wires, refers to it, and it to that: the collector has to see all of it."""
    cluster = started(1_000, 100 * MICROSECOND)
    cluster.run_until(SECOND + 50 * MILLISECOND)
    assert {type(event) for event in cluster.kernel.pending()} >= {ScheduledCall, Flight}
    forgotten = weakref.ref(cluster)
    del cluster
    gc.collect()
    assert forgotten() is None


def test_a_run_leaves_nothing_for_a_later_collection() -> None:
    """In a search the collector rests between runs: what each has left would pile up."""
    seen: list[weakref.ref[Any]] = []
    pipeline = shuffle()
    builder = FeedBuilder(pipeline)
    builder.record(at_us=SECOND, value=0, timestamp=SECOND)
    with seldom_collected():
        simulate(pipeline, builder.build(), look=lambda cluster: seen.append(weakref.ref(cluster.host)))
        assert [one() for one in seen] == [None, None]
