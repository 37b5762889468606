"""Breaches: how the store breaks the guarantees that the paper assumes of it (MillWheel 4.4, 6.2).

The History records what the store really did, so the checkers judge a broken store like a broken engine.
"""

import msgspec

from headrace.store.mediator import Mediator
from headrace.wire import messages as m
from headrace.wire.rows import RowDelta, RowImage
from headrace_sim.faults import Breach, BreakStore
from headrace_sim.faults.log import FaultLog

_Snapshot = dict[str, dict[str, RowImage]]
"""Rows by computation and key."""


class Breaches:
    """Serves requests wrongly, once for each fault.

    Args:
        mediator: serves them rightly.
        log: where strikes are written.

    Attributes:
        pending: the faults that have not struck yet, and for an old snapshot the rows as they were when it began; while empty,
            nobody need ask.
    """

    def __init__(self, mediator: Mediator, log: FaultLog) -> None:
        self.pending: list[tuple[BreakStore, _Snapshot]] = []
        self._mediator = mediator
        self._log = log

    def expect(self, fault: BreakStore) -> None:
        """Let a fault strike the next request for which it makes a difference."""
        rows = self._mediator.images() if fault.how is Breach.OLD_SNAPSHOT else {}
        self.pending.append((fault, rows))

    def handle(self, source: str, request: m.Request) -> m.Reply:
        """Serve a request, wrongly if a fault strikes it."""
        for index, (fault, snapshot) in enumerate(self.pending):
            if fault.process not in ("", source):
                continue
            reply = None
            if isinstance(request, m.Write):
                reply = self._write(fault.how, request)
            elif fault.how is Breach.OLD_SNAPSHOT and isinstance(request, m.Read | m.Scan):
                reply = self._read(request, snapshot.get(request.computation, {}))
            if reply is not None:
                del self.pending[index]
                detail = f"{type(request).__name__} of {getattr(request, 'computation', '')}"
                self._log.struck(fault.kind, source, detail)
                return reply
        return self._mediator.handle(request)

    def _write(self, how: Breach, request: m.Write) -> m.Reply | None:
        keys = request.keys()
        if not self._mediator.is_live(request.computation, request.sequencer, min(keys), max(keys)):
            return None
        match how:
            case Breach.LOST_WRITE:  # whoever recovers the row deletes again what a write only deletes
                return m.Written(request.request) if request.deltas else None
            case Breach.TORN_ROW:
                deltas = tuple(map(_torn, request.deltas))
            case Breach.WRONG_ROW:
                deltas = tuple(self._astray(request, delta) for delta in request.deltas)
            case _:
                return None
        if deltas == request.deltas:
            return None
        self._mediator.handle(msgspec.structs.replace(request, deltas=deltas))
        return m.Written(request.request)

    def _astray(self, request: m.Write, delta: RowDelta) -> RowDelta:
        """Return a delta for the row of another key that its owner has, or that would come right after this one."""
        others = sorted(key for key in self._mediator.rows(request.computation) if key != delta.key)
        for key in (*others, delta.key + "!"):
            if self._mediator.is_live(request.computation, request.sequencer, key, key):
                return msgspec.structs.replace(delta, key=key)
        return delta

    def _read(self, request: m.Read | m.Scan, snapshot: dict[str, RowImage]) -> m.Reply | None:
        match reply := self._mediator.handle(request):
            case m.Scanned(rows=rows):
                old = tuple(snapshot[row.key] for row in rows if row.key in snapshot)
                return None if old == rows else msgspec.structs.replace(reply, rows=old)
            case m.RowRead(row=RowImage() as row):
                was = snapshot.get(row.key)
                return None if was == row else m.RowRead(reply.request, was)
            case _:
                return None


def _torn(delta: RowDelta) -> RowDelta:
    """Return what is left of a delta: the state."""
    return RowDelta(delta.key, delta.number, delta.state, delta.hold)
