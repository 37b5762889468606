"""The director of a run: starts and ends the faults of a schedule."""

from collections.abc import Callable, Iterable
from typing import Any, assert_never

from headrace_sim import faults as f
from headrace_sim.cluster import Cluster


class Director:
    """Begins and ends scheduled faults.

    Args:
        cluster: the cluster to disturb.
        schedule: the faults.
    """

    def __init__(self, cluster: Cluster, schedule: f.FaultSchedule) -> None:
        self._cluster = cluster
        self._schedule = schedule
        self._heals_at_us = schedule.heals_at_us

    def schedule(self) -> None:
        """Schedule every fault, at its time or at its step."""
        kernel = self._cluster.kernel
        for fault in self._schedule.faults:
            kernel.call_at(fault.at_us, self._begin, fault)
        if self._schedule.at_steps:
            self._cluster.watch(self._schedule.at_steps, self._begin_at_step)

    def _begin(self, fault: f.AnyFault) -> None:
        """Begin a fault, and schedule its end."""
        cluster = self._cluster
        match fault:
            case f.Partition(other=(), one_way=False) if self._lasts(fault.side):
                lasting = cluster.network.begin(fault)
                self._later(self._until_heal_us, lambda: cluster.network.leave(lasting))
            case f.Partition() | f.Noise() | f.Hold() | f.DropMessages():
                handle = cluster.network.begin(fault)
                self._until(fault, lambda: cluster.release(handle))
            case f.StoreUnavailable() | f.StoreErrors():
                window = cluster.store.begin(fault)
                self._until(fault, lambda: cluster.store.end(window))
            case f.DelayCommit() | f.LoseCommit() | f.LoseReply() | f.DuplicateCommit():
                cluster.store.expect(fault)
            case f.BreakStore():
                cluster.store.breaches.expect(fault)
            case f.LateRecords():
                cluster.make_late(fault.process, fault.count, fault.by_us)
            case f.StallSource():
                cluster.stall(fault.process, fault.for_us)
            case f.Operate():
                cluster.operate(fault.verb)
            case _:
                self._disturb_process(fault)

    def _disturb_process(self, fault: f.Crash | f.Pause | f.Slow | f.SkewClock) -> None:
        cluster, process = self._cluster, fault.process
        match fault:
            case f.Crash(restart_after_us=after_us):
                if cluster.crash(process) and after_us is not None and not self._lasts([process]):
                    self._later(after_us, lambda: cluster.restart(process))
            case f.Pause():
                if cluster.pause(process) and not self._lasts([process]):
                    self._later(fault.for_us, lambda: cluster.revive(process))
            case f.Slow():
                cluster.slow(process, fault.factor)
                self._until(fault, lambda: cluster.slow(process, 1))
            case f.SkewClock():
                by_us = fault.by_us
                cluster.skew(process, by_us)
                self._until(fault, lambda: cluster.skew(process, -by_us))
            case _:
                assert_never(fault)

    def _begin_at_step(self, tied: f.StepFault) -> None:
        """Begin a fault whose step has come. An operator's verb waits until the process has taken the step."""
        fault = tied.fault
        assert not isinstance(fault, f.MessageFault), f"the watch decides on {fault}"
        if fault.at_us or isinstance(fault, f.Operate):
            self._later(fault.at_us, lambda: self._begin_before_heal(fault))
        else:
            self._begin(fault)

    def _begin_before_heal(self, fault: f.AnyFault) -> None:
        if self._cluster.kernel.now < self._heals_at_us:
            self._begin(fault)

    def _later(self, delay_us: int, act: Callable[[], Any]) -> None:
        self._cluster.kernel.call_later(delay_us, lambda _: act(), None)

    def _until(self, fault: f.AnyFault, end: Callable[[], Any]) -> None:
        """End a fault after its time or at the heal, whichever comes first; one without a time ends at the heal."""
        duration_us = getattr(fault, "for_us", None)
        heal_after_us = self._until_heal_us
        self._later(heal_after_us if duration_us is None else min(duration_us, heal_after_us), end)

    @property
    def _until_heal_us(self) -> int:
        return max(self._heals_at_us - self._cluster.kernel.now, 0)

    def _lasts(self, addresses: Iterable[str]) -> bool:
        """Return whether faults that stop these addresses or cut them off last forever."""
        return all(address in self._schedule.lasting for address in addresses)
