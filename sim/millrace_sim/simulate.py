"""A run as a function: ``(pipeline, input, options, faults, seed) -> History``, the same bytes each time."""

from collections.abc import Sequence
from typing import Any

from millrace import Pipeline
from millrace.history import History
from millrace_sim import faults as f
from millrace_sim.cluster import Cluster
from millrace_sim.feed import Feed
from millrace_sim.options import ClusterOptions
from millrace_sim.protocol import SOUND, Protocol


def simulate(  # noqa: PLR0913  a run is made of exactly these
    pipeline: Pipeline | Sequence[Pipeline],
    feed: Feed,
    *,
    options: ClusterOptions | None = None,
    faults: f.FaultSchedule = f.NO_FAULTS,
    seed: int = 0,
    protocol: Protocol = SOUND,
) -> History:
    """Run a pipeline over a feed in a simulated cluster, with faults; then heal, and run until all is done.

    Args:
        pipeline: the pipeline, or its deployed versions (3), of which the first is in force from the start.
        feed: the input.
        options: of the cluster; default: three workers, two masters, two authorities.
        faults: what goes wrong.
        seed: root of all draws.
        protocol: the state machines to host; default: the engine's own.

    Raises:
        MillraceError: user code or input failed for good, and the policy is to stop.
    """
    cluster = start(pipeline, feed, options=options, faults=faults, seed=seed, protocol=protocol)
    cluster.run_until(faults.heals_at_us)
    cluster.heal(faults.lasting)
    cluster.run_to_the_end()
    return cluster.history


def start(  # noqa: PLR0913  a run is made of exactly these
    pipeline: Pipeline | Sequence[Pipeline],
    feed: Feed,
    *,
    options: ClusterOptions | None = None,
    faults: f.FaultSchedule = f.NO_FAULTS,
    seed: int = 0,
    protocol: Protocol = SOUND,
) -> Cluster:
    """Build the cluster of a run, with its faults scheduled, and leave it to the caller to let time pass."""
    pipelines = [pipeline] if isinstance(pipeline, Pipeline) else list(pipeline)
    cluster = Cluster(pipelines, feed, options or ClusterOptions(), seed, protocol)
    director = _Director(cluster, faults)
    for fault in faults.faults:
        cluster.kernel.call_at(fault.at_us, director.begin, fault)
    return cluster


class _Director:
    """Makes scheduled faults happen, and end."""

    def __init__(self, cluster: Cluster, schedule: f.FaultSchedule) -> None:
        self._cluster = cluster
        self._heals_at_us = schedule.heals_at_us
        self._lasting = schedule.lasting

    def begin(self, fault: Any) -> None:
        """Let a fault begin, and see to its end."""
        cluster = self._cluster
        match fault:
            case f.Crash():
                if cluster.crash(fault.process) and fault.restart_after_us is not None:
                    self._later(fault.restart_after_us, lambda _: cluster.restart(fault.process))
            case f.Pause():
                if cluster.pause(fault.process):
                    self._later(fault.for_us, lambda _: cluster.revive(fault.process))
            case f.Partition() | f.Noise() | f.Hold() | f.DropMessages():
                handle = cluster.network.begin(fault)
                self._until(fault, lambda _: cluster.release(handle))
            case f.DelayCommit() | f.LoseCommit() | f.LoseReply() | f.DuplicateCommit():
                cluster.store.expect(fault)
            case f.StoreUnavailable() | f.StoreErrors():
                handle = cluster.store.begin(fault)
                self._until(fault, lambda _: cluster.store.end(handle))
            case f.Slow():
                cluster.slow(fault.process, fault.factor)
                self._until(fault, lambda _: cluster.slow(fault.process, 1))
            case f.SkewClock():
                cluster.skew(fault.process, fault.by_us)
                self._until(fault, lambda _: cluster.skew(fault.process, -fault.by_us))
            case f.LateRecords():
                late = cluster.sources[fault.process].make_late(cluster.kernel.now, fault.count, fault.by_us)
                if late:
                    cluster.struck(fault.kind, fault.process, f"{late} records")
            case f.StallSource():
                if cluster.sources[fault.process].stall(cluster.kernel.now, fault.for_us):
                    cluster.struck(fault.kind, fault.process, "")
            case f.Operate():
                cluster.operate(fault.verb)
            case _:
                raise AssertionError(f"nobody makes {fault} happen")

    def _later(self, delay_us: int, end: Any) -> None:
        self._cluster.kernel.call_later(delay_us, end, None)

    def _until(self, fault: Any, end: Any) -> None:
        """End it after its time, or when all is healed; what holds no time ends only then."""
        duration_us = getattr(fault, "for_us", None)
        heal_after_us = max(self._heals_at_us - self._cluster.kernel.now, 0)
        self._later(heal_after_us if duration_us is None else min(duration_us, heal_after_us), end)
