"""The backing store: the engine's mediator, with its costs and its faults.

The store itself is replicated and highly available (MillWheel 4.4); its links and its replies are not.
"""

import random
from collections.abc import Callable

from headrace.store.mediator import Mediator
from headrace.wire.messages import CollectIds, Read, Reply, Request, Scan, Unavailable, Write
from headrace_sim.cluster_options import ClusterOptions
from headrace_sim.endpoints.breaches import Breaches
from headrace_sim.faults import (
    DelayCommit,
    DuplicateCommit,
    LoseCommit,
    LoseReply,
    StoreErrors,
    StoreUnavailable,
)
from headrace_sim.faults.log import FaultLog

CommitFault = DelayCommit | LoseCommit | LoseReply | DuplicateCommit
WindowFault = StoreUnavailable | StoreErrors


class StoreHost:
    """Serves requests that travel over the `StoreLink`.

    Args:
        mediator: the engine's gatekeeper.
        options: the costs.
        log: records the faults that take effect.
        costs: draws service times.
        noise: draws errors.

    Attributes:
        commit_faults: (fault, how many writes it will yet strike); while empty, nobody need ask for `commit_fault`.
        breaches: the faults by which it breaks its own guarantees.
    """

    def __init__(
        self,
        mediator: Mediator,
        options: ClusterOptions,
        log: FaultLog,
        costs: random.Random,
        noise: random.Random,
    ) -> None:
        self.mediator = mediator
        self._log = log
        self._noise = noise
        self._write = options.store_write.sampler(costs)
        read, scan = options.store_read.sampler(costs), options.store_scan.sampler(costs)
        self._service: dict[type, Callable[[], int]] = {Read: read, Scan: scan, CollectIds: scan}
        self.commit_faults: list[tuple[CommitFault, int]] = []
        self.breaches = Breaches(mediator, log)
        self._windows: dict[int, WindowFault] = {}
        self._next = 0

    def expect(self, fault: CommitFault) -> None:
        """Apply a fault to the next writes of its process."""
        self.commit_faults.append((fault, fault.count))

    def begin(self, fault: WindowFault) -> int:
        """Begin a fault; return its handle."""
        self._next += 1
        self._windows[self._next] = fault
        return self._next

    def end(self, handle: int) -> None:
        """End a fault."""
        self._windows.pop(handle, None)

    def heal(self) -> None:
        """End every fault."""
        self.commit_faults.clear()
        self.breaches.pending.clear()
        self._windows.clear()

    def commit_fault(self, source: str, request: Request) -> CommitFault | None:
        """Return the fault that affects a request in flight, if any."""
        if type(request) is not Write:
            return None
        for index, (fault, left) in enumerate(self.commit_faults):
            if fault.process == source:
                if left == 1:
                    del self.commit_faults[index]
                else:
                    self.commit_faults[index] = (fault, left - 1)
                keys = ", ".join(dict.fromkeys(request.keys()))
                self._log.struck(fault.kind, source, f"write of {request.computation} [{keys}]")
                return fault
        return None

    def serve(self, source: str, request: Request) -> Reply | None:
        """Return the answer to a request; ``None``: none is sent."""
        if not self._windows:
            return self._handle(source, request)
        for fault in self._windows.values():
            if isinstance(fault, StoreUnavailable) and fault.process in ("", source):
                self._log.struck(fault.kind, source, type(request).__name__)
                return None if fault.silent else Unavailable(request.request)
            if (
                isinstance(fault, StoreErrors)
                and isinstance(request, Read | Scan)
                and self._noise.random() < fault.rate
            ):
                self._log.struck(fault.kind, source, type(request).__name__)
                return Unavailable(request.request)
        return self._handle(source, request)

    def _handle(self, source: str, request: Request) -> Reply:
        if self.breaches.pending:
            return self.breaches.handle(source, request)
        return self.mediator.handle(request)

    def service_us(self, request: Request) -> int:
        """Draw how long the answer takes, microseconds."""
        return self._service.get(type(request), self._write)()
