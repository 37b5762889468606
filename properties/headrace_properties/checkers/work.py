"""Pending work as it really is (MillWheel 4.5, 7.2): what must hold low watermarks and horizons back, whatever processes believe.

Each sender has a heap, whose finished entries are dropped when its top is read.
"""

from dataclasses import dataclass, field
from heapq import heappop, heappush

from headrace import MAX_TIME, format_time
from headrace.history import Applied, Injected
from headrace.wire.rows import Production, StoredTimer
from headrace_properties.verdict import Awaited, AwaitedKind


@dataclass(slots=True, eq=False)
class WorkItem:
    """Something durable or accepted that has yet to be done.

    Attributes:
        sender: the computation or injector that has to do it, or to see it done.
        key: of the row that holds it; of a production, its consumer's key.
        what: a production, a timer, or ``None``: the hold of a state.
        time_us: the event time that it holds; `MAX_TIME`: none.
        origin: of a production, the smallest that any copy of it carries.
        late: it was born behind its sender's watermark, or stems from what was, and holds nothing back (4.5).
        number: counts all work; orders it by age.
        source: the event that made it.
        holds: it was counted as holding its sender's low watermark.
        done: it is over.
    """

    sender: str
    key: str
    what: Production | StoredTimer | None
    time_us: int
    origin: int
    source: Injected | Applied
    late: bool = field(kw_only=True)
    number: int = 0
    holds: bool = False
    done: bool = False

    def __str__(self) -> str:
        """Name it for messages."""
        what = self.what
        if isinstance(what, Production):
            time = format_time(what.timestamp)
            return f"record {what.record_id} of {self.sender!r} to {receiver_of(what)} (key {self.key!r}, timestamp {time})"
        if isinstance(what, StoredTimer):
            due = format_time(what.due)
            return f"{what.clock.value} timer {what.tag!r} of key {self.key!r} at {self.sender!r} (due {due})"
        return f"the state of key {self.key!r} at {self.sender!r} (which holds {format_time(self.time_us)})"

    def awaited(self, since_us: int) -> Awaited:
        """Return it as something awaited. ``since_us``: when it became due, true time."""
        match self.what:
            case Production(consumer=consumer, record_id=name):
                return Awaited(AwaitedKind.RECORD, consumer, since_us, self.key, name)
            case StoredTimer(tag=tag):
                return Awaited(AwaitedKind.TIMER, self.sender, since_us, self.key, tag)
            case _:
                return Awaited(AwaitedKind.HOLD, self.sender, since_us, self.key, time_us=self.time_us)


def receiver_of(production: Production) -> str:
    """Name a production's consumer for messages."""
    return repr(production.consumer) if production.consumer else "the outside"


Heap = list[tuple[int, int, WorkItem]]


class PendingWork:
    """All work by sender, in order of event time and of origin."""

    __slots__ = ("_count", "_holding", "_origins", "_times")

    def __init__(self) -> None:
        self._count = 0
        self._times: dict[str, Heap] = {}
        self._holding: dict[str, int] = {}
        self._origins: dict[str, Heap] = {}

    @property
    def count(self) -> int:
        """The amount of work so far."""
        return self._count

    def add(self, work: WorkItem) -> None:
        """Add work; unless late, it holds its sender's low watermark."""
        self._count += 1
        work.number = self._count
        if not work.late and work.time_us != MAX_TIME:
            self.hold_watermark(work)

    def hold_watermark(self, work: WorkItem) -> None:
        """Let it hold its sender's low watermark from now on."""
        _push(self._times, work.sender, work.time_us, work)
        if not work.holds and not work.done:
            work.holds = True
            self._holding[work.sender] = self._holding.get(work.sender, 0) + 1

    def hold_horizon(self, work: WorkItem) -> None:
        """Let it also hold its sender's horizon from now on, at its present origin."""
        _push(self._origins, work.sender, work.origin, work)

    def oldest(self, sender: str) -> int:
        """Return the smallest event time of a sender's pending work; `MAX_TIME`: none."""
        heap = self._times.get(sender)
        return _top(heap) if heap else MAX_TIME

    def oldest_origin(self, sender: str) -> int:
        """Return the smallest origin of a sender's pending productions; `MAX_TIME`: none."""
        heap = self._origins.get(sender)
        return _top(heap) if heap else MAX_TIME

    def finish(self, work: WorkItem) -> None:
        """Note that it is over."""
        if work.holds and not work.done:
            self._holding[work.sender] -= 1
        work.done = True

    def holding(self, sender: str) -> int:
        """Return how much of a sender's pending work holds its low watermark."""
        return self._holding.get(sender, 0)

    def before(self, sender: str, time_us: int) -> list[WorkItem]:
        """Return a sender's work with event times before this, oldest first. Slow; only for reporting violations."""
        return [
            work
            for time, _, work in sorted(self._times.get(sender, ()), key=_age)
            if time < time_us and not work.done
        ]

    def before_origin(self, sender: str, origin: int) -> list[WorkItem]:
        """Return a sender's productions with origins before this, oldest first. Slow; only for reporting violations."""
        return [
            work
            for time, _, work in sorted(self._origins.get(sender, ()), key=_age)
            if time < origin and not work.done
        ]


def _push(heaps: dict[str, Heap], sender: str, time_us: int, work: WorkItem) -> None:
    heap = heaps.get(sender)
    if heap is None:
        heap = heaps[sender] = []
    heappush(heap, (time_us, work.number, work))


def _top(heap: Heap) -> int:
    while heap:
        if not heap[0][2].done:
            return heap[0][0]
        heappop(heap)
    return MAX_TIME


def _age(entry: tuple[int, int, WorkItem]) -> tuple[int, int]:
    return entry[:2]
