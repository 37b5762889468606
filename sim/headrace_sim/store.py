"""The backing store in the cluster: the engine's mediator behind a wire, with what it costs and what goes wrong there.

The store itself is replicated and highly available (MillWheel 4.4); its links, its answers and its patience are not.
"""

import random
from collections.abc import Callable

from headrace.history import FaultStruck, History
from headrace.store.mediator import Mediator
from headrace.wire.messages import CollectIds, Read, Reply, Request, Scan, Unavailable, Write
from headrace_sim.faults import (
    DelayCommit,
    DuplicateCommit,
    LoseCommit,
    LoseReply,
    StoreErrors,
    StoreUnavailable,
)
from headrace_sim.options import ClusterOptions

CommitFault = DelayCommit | LoseCommit | LoseReply | DuplicateCommit
WindowFault = StoreUnavailable | StoreErrors


class StoreHost:
    """Serves requests; `Cluster` moves them.

    Args:
        mediator: the engine's gatekeeper.
        options: what things cost.
        history: where strikes are written.
        costs: of the draws for service times.
        noise: of the draws for errors.

    Attributes:
        commit_faults: (fault, how many writes it will yet strike); while there are none, nobody need ask for `commit_fault`.
    """

    def __init__(
        self,
        mediator: Mediator,
        options: ClusterOptions,
        history: History,
        costs: random.Random,
        noise: random.Random,
    ) -> None:
        self.mediator = mediator
        self._history = history
        self._noise = noise
        self._write = options.store_write.sampler(costs)
        read, scan = options.store_read.sampler(costs), options.store_scan.sampler(costs)
        self._service: dict[type, Callable[[], int]] = {Read: read, Scan: scan, CollectIds: scan}
        self.commit_faults: list[tuple[CommitFault, int]] = []
        self._windows: dict[int, WindowFault] = {}
        self._next = 0

    def expect(self, fault: CommitFault) -> None:
        """Let a fault strike the next writes of its process."""
        self.commit_faults.append((fault, fault.count))

    def begin(self, fault: WindowFault) -> int:
        """Let a fault act from now on; returns its handle."""
        self._next += 1
        self._windows[self._next] = fault
        return self._next

    def end(self, handle: int) -> None:
        """End it."""
        self._windows.pop(handle, None)

    def heal(self) -> None:
        """Nothing goes wrong any more."""
        self.commit_faults.clear()
        self._windows.clear()

    def commit_fault(self, source: str, request: Request) -> CommitFault | None:
        """The fault that strikes this request on its way, if any."""
        if type(request) is not Write:
            return None
        for index, (fault, left) in enumerate(self.commit_faults):
            if fault.process == source:
                if left == 1:
                    del self.commit_faults[index]
                else:
                    self.commit_faults[index] = (fault, left - 1)
                keys = ", ".join(dict.fromkeys(request.keys()))
                self._strike(source, fault.kind, f"write of {request.computation} [{keys}]")
                return fault
        return None

    def serve(self, source: str, request: Request) -> Reply | None:
        """Answer a request that has arrived; ``None``: silence."""
        if not self._windows:
            return self.mediator.handle(request)
        for fault in self._windows.values():
            if isinstance(fault, StoreUnavailable) and fault.process in ("", source):
                self._strike(source, fault.kind, type(request).__name__)
                return None if fault.silent else Unavailable(request.request)
            if (
                isinstance(fault, StoreErrors)
                and isinstance(request, Read | Scan)
                and self._noise.random() < fault.rate
            ):
                self._strike(source, fault.kind, type(request).__name__)
                return Unavailable(request.request)
        return self.mediator.handle(request)

    def service_us(self, request: Request) -> int:
        """How long the answer takes, microseconds."""
        return self._service.get(type(request), self._write)()

    def _strike(self, source: str, kind: str, detail: str) -> None:
        self._history.record(FaultStruck(self._history.at_us, source, kind, detail))
