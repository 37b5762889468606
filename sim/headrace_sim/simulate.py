"""A run as a function: ``(pipeline, input, options, faults, seed) -> History``, the same bytes each time."""

from collections.abc import Iterable, Sequence
from typing import Any, assert_never

from headrace import OptionsError, Pipeline
from headrace.delivery.routing import OUTSIDE_ADDRESS
from headrace.history import History
from headrace.wire.messages import STORE
from headrace_sim import faults as f
from headrace_sim.cluster import Cluster
from headrace_sim.feed import Feed
from headrace_sim.kernel import seldom_collected
from headrace_sim.options import ClusterOptions
from headrace_sim.protocol import SOUND, Protocol
from headrace_sim.steps import EVENTS, MESSAGES, Does
from headrace_sim.watch import Watch

Versions = Pipeline | Sequence[Pipeline]
"""A pipeline, or its deployed versions (3), of which the first is in force from the start."""


def versions_of(pipeline: Versions) -> list[Pipeline]:
    """All versions, the first one first."""
    return [pipeline] if isinstance(pipeline, Pipeline) else list(pipeline)


def simulate(
    pipeline: Versions,
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
        PipelineError: a version does not fit together, or does not fit the others.
        OptionsError: a fault is to strike a process that there is not.
        HeadraceError: user code or input failed for good, and the policy is to stop.
    """
    with seldom_collected():
        cluster = start(pipeline, feed, options=options, faults=faults, seed=seed, protocol=protocol)
        cluster.run_until(faults.heals_at_us)
        cluster.heal(faults.lasting)
        cluster.run_to_the_end()
    return cluster.history


def start(
    pipeline: Versions,
    feed: Feed,
    *,
    options: ClusterOptions | None = None,
    faults: f.FaultSchedule = f.NO_FAULTS,
    seed: int = 0,
    protocol: Protocol = SOUND,
    history: History | None = None,
) -> Cluster:
    """Build the cluster of a run, with its faults scheduled, and leave it to the caller to let time pass.

    Raises:
        PipelineError: a version does not fit together, or does not fit the others.
        OptionsError: a fault is to strike a process that there is not.
    """
    cluster = Cluster(versions_of(pipeline), feed, options or ClusterOptions(), seed, protocol, history)
    _check(cluster, faults)
    director = _Director(cluster, faults)
    for fault in faults.faults:
        cluster.kernel.call_at(fault.at_us, director.begin, fault)
    if faults.at_steps:
        cluster.watch = Watch(cluster, faults.at_steps, director.begin_at_step)
    return cluster


def _check(cluster: Cluster, schedule: f.FaultSchedule) -> None:
    nodes, sources, wires = [*cluster.nodes], [*cluster.sources], [*cluster.nodes, STORE, OUTSIDE_ADDRESS]
    for one in schedule.at_steps:
        _check_step(one, nodes)
    for fault in (*schedule.faults, *(one.fault for one in schedule.at_steps)):
        known = nodes
        if isinstance(fault, f.LateRecords | f.StallSource):
            known = sources
        elif isinstance(fault, f.Partition | f.Noise | f.Hold | f.DropMessages):
            known = wires
        _check_known(f"{fault.kind} of", fault.addresses, known)
    _check_known("lasting", schedule.lasting, nodes)


def _check_step(one: f.StepFault, nodes: Sequence[str]) -> None:
    step = one.step
    _check_known("step of", [step.process], nodes)
    known = (
        MESSAGES if step.does is Does.SENDS or isinstance(one.fault, f.MessageFault) else MESSAGES + EVENTS
    )
    _check_known(f"{one.fault.kind} where it {step.does.value}", [step.message], known)
    if step.nth < 1:
        raise OptionsError("nth", step.nth, "at least 1")


def _check_known(option: str, addresses: Sequence[str], known: Sequence[str]) -> None:
    for address in addresses:
        if address not in known:
            raise OptionsError(option, address, f"one of {', '.join(known)}")


class _Director:
    """Makes scheduled faults happen, and end."""

    def __init__(self, cluster: Cluster, schedule: f.FaultSchedule) -> None:
        self._cluster = cluster
        self._heals_at_us = schedule.heals_at_us
        self._lasting = schedule.lasting

    def begin(self, fault: Any) -> None:
        """Let a fault begin, and see to its end."""
        match fault:
            case f.Partition(other=(), one_way=False) if self._lasts(fault.side):
                handle = self._cluster.network.begin(fault)
                self._later(self._until_heal_us, lambda _: self._cluster.network.leave(handle))
            case f.Partition() | f.Noise() | f.Hold() | f.DropMessages():
                handle = self._cluster.network.begin(fault)
                self._until(fault, lambda _: self._cluster.release(handle))
            case f.StoreUnavailable() | f.StoreErrors():
                handle = self._cluster.store.begin(fault)
                self._until(fault, lambda _: self._cluster.store.end(handle))
            case f.DelayCommit() | f.LoseCommit() | f.LoseReply() | f.DuplicateCommit():
                self._cluster.store.expect(fault)
            case f.LateRecords() | f.StallSource():
                self._disturb_source(fault)
            case f.Operate():
                self._cluster.operate(fault.verb)
            case _:
                self._disturb_process(fault)

    def begin_at_step(self, one: f.StepFault) -> None:
        """Its step has come. What a master is asked for waits until whoever takes the step has taken it."""
        if one.fault.at_us or isinstance(one.fault, f.Operate):
            self._later(one.fault.at_us, lambda _: self._begin_in_time(one.fault))
        else:
            self.begin(one.fault)

    def _begin_in_time(self, fault: f.Fault) -> None:
        if self._cluster.kernel.now < self._heals_at_us:
            self.begin(fault)

    def _disturb_process(self, fault: f.Crash | f.Pause | f.Slow | f.SkewClock) -> None:
        cluster, process = self._cluster, fault.process
        match fault:
            case f.Crash():
                if (
                    cluster.crash(process)
                    and fault.restart_after_us is not None
                    and not self._lasts([process])
                ):
                    self._later(fault.restart_after_us, lambda _: cluster.restart(process))
            case f.Pause():
                if cluster.pause(process) and not self._lasts([process]):
                    self._later(fault.for_us, lambda _: cluster.revive(process))
            case f.Slow():
                cluster.slow(process, fault.factor)
                self._until(fault, lambda _: cluster.slow(process, 1))
            case f.SkewClock():
                by_us = fault.by_us
                cluster.skew(process, by_us)
                self._until(fault, lambda _: cluster.skew(process, -by_us))
            case _:
                assert_never(fault)

    def _disturb_source(self, fault: f.LateRecords | f.StallSource) -> None:
        source, now = self._cluster.sources[fault.process], self._cluster.kernel.now
        if isinstance(fault, f.StallSource):
            if source.stall(now, fault.for_us):
                self._cluster.struck(fault.kind, fault.process, "")
        elif late := source.make_late(now, fault.count, fault.by_us):
            self._cluster.struck(fault.kind, fault.process, f"{late} records")

    def _later(self, delay_us: int, end: Any) -> None:
        self._cluster.kernel.call_later(delay_us, end, None)

    def _until(self, fault: Any, end: Any) -> None:
        """End it after its time, or when all is healed; what holds no time ends only then."""
        duration_us = getattr(fault, "for_us", None)
        heal_after_us = self._until_heal_us
        self._later(heal_after_us if duration_us is None else min(duration_us, heal_after_us), end)

    @property
    def _until_heal_us(self) -> int:
        return max(self._heals_at_us - self._cluster.kernel.now, 0)

    def _lasts(self, addresses: Iterable[str]) -> bool:
        """What has stopped them, or cut them off, does not end."""
        return all(address in self._lasting for address in addresses)
