"""What processes say to each other and to the store (MillWheel 6, 7). One class a message; all are values.

Requests to the store carry ``request``, a number that the asker counts up and the reply repeats.
"""

from headrace.api.time import MIN_TIME
from headrace.wire.keys import KeyInterval
from headrace.wire.rows import Production, RowDelta, RowImage
from headrace.wire.value import Value

STORE = "store"
"""The address of the backing store's mediator."""


# Records (6.1.1)


class Deliver(Value, frozen=True, gc=False):
    """A production on its way to its consumer's owner. ``sender``: the address to ACK."""

    production: Production
    sender: str


class Ack(Value, frozen=True, gc=False):
    """These records of this consumer are durable; stop sending them."""

    consumer: str
    record_ids: tuple[str, ...]


# Ownership (7.1)


class Assignment(Value, frozen=True, gc=False):
    """One interval of the assignment table: who owns it under which sequencer."""

    computation: str
    interval: KeyInterval
    sequencer: int
    owner: str
    incarnation: int


class Table(Value, frozen=True, gc=False):
    """The whole assignment, as the store holds it. Compare by ``version``.

    Attributes:
        version: counts mints.
        topology: index of the pipeline version in force (3: computations are added and removed while it runs).
        retiring: computations that get no new records and leave when they have drained.
        assignments: sorted by computation and interval.
        joining: index of the version that is to be put in force once everybody knows its added computations, if any.
        retired_from: of each that is retiring: the version that was in force until then, by which it goes on.
    """

    version: int = 0
    topology: int = 0
    retiring: tuple[str, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    joining: int | None = None
    retired_from: tuple[int, ...] = ()


class IntervalLoad(Value, frozen=True, gc=False):
    """What an owner says of one interval.

    Attributes:
        computation: the computation.
        sequencer: of the interval; it names the interval.
        records: deliveries and timers run since the last heartbeat.
        bytes: of soft state in memory.
        split_key: a key that would halve its work; ``""``: unknown.
        pending: productions not ACKed yet, pending timers and queued work, all in one count (for draining).
        cpu_us: that its user code took since the last heartbeat, microseconds; 0 from a host that does not measure it.
    """

    computation: str
    sequencer: int
    records: int
    bytes: int
    split_key: str
    pending: int
    cpu_us: int = 0


class Heartbeat(Value, frozen=True, gc=False):
    """From workers and injectors to every master.

    Attributes:
        sender: address.
        incarnation: of the process; counts its restarts.
        table_version: of the table it acts upon.
        loads: of each interval that it owns and has scanned; empty for injectors.
        owing: consumer to number of deliveries that this process has not got ACKed, for retiring computations only.
        is_worker: it can own intervals.
    """

    sender: str
    incarnation: int
    table_version: int
    loads: tuple[IntervalLoad, ...] = ()
    owing: tuple[tuple[str, int], ...] = ()
    is_worker: bool = True


class MoveInterval(Value, frozen=True, gc=False):
    """Operator's verb, to a master: give the interval with this key to a worker (``""``: to the least loaded other one)."""

    computation: str
    key: str
    to: str = ""


class SplitInterval(Value, frozen=True, gc=False):
    """Operator's verb, to a master: divide an interval so that ``key`` begins the upper part."""

    computation: str
    key: str


class MergeIntervals(Value, frozen=True, gc=False):
    """Operator's verb, to a master: join the interval with this key and the next one."""

    computation: str
    key: str


class ChangeTopology(Value, frozen=True, gc=False):
    """Operator's verb, to a master: put another of the deployed pipeline versions in force."""

    topology: int


# Watermarks (7.2)


class Progress(Value, frozen=True, gc=False):
    """How far something has come.

    Attributes:
        low_watermark: no record still to come is before it, event time in microseconds.
        horizon: no record still to come has an origin before it, microseconds.
        percentiles: (per cent, event time) of the heuristic watermarks that somebody asked for.
    """

    low_watermark: int = MIN_TIME
    horizon: int = MIN_TIME
    percentiles: tuple[tuple[float, int], ...] = ()

    def at_least(self, other: "Progress") -> "Progress":
        """The further of the two in every respect: progress never goes back."""
        if other.percentiles and self.percentiles:
            mine = dict(self.percentiles)
            merged = tuple((p, max(t, mine.get(p, MIN_TIME))) for p, t in other.percentiles)
        else:
            merged = other.percentiles or self.percentiles
        return Progress(
            max(self.low_watermark, other.low_watermark), max(self.horizon, other.horizon), merged
        )


class IntervalReport(Value, frozen=True, gc=False):
    """One interval's progress: the minimum of its own oldest work and of its input as its owner knows it.

    Attributes:
        computation: the computation.
        interval: its keys.
        sequencer: of the interval.
        low_watermark: event time, microseconds.
        horizon: origin, microseconds.
        pending: (event time rounded down, count) of the pending work, for percentiles; empty when nobody asked.
    """

    computation: str
    interval: KeyInterval
    sequencer: int
    low_watermark: int
    horizon: int
    pending: tuple[tuple[int, int], ...] = ()


class InjectorReport(Value, frozen=True, gc=False):
    """One injector process's progress (5.2).

    Attributes:
        injector: name.
        process: number.
        epoch: of the process's journal.
        low_watermark: event time, microseconds; no record that it will send, or that is un-ACKed, is before it.
        horizon: origin, microseconds.
        frontier: the source's own watermark, without regard to what is un-ACKed (for percentiles).
        pending: (event time rounded down, count) of what is un-ACKed, for percentiles; empty when nobody asked.
    """

    injector: str
    process: int
    epoch: int
    low_watermark: int
    horizon: int
    frontier: int
    pending: tuple[tuple[int, int], ...] = ()


class Report(Value, frozen=True, gc=False):
    """From a worker to every replica of an authority's shard."""

    sender: str
    intervals: tuple[IntervalReport, ...]


class Watermarks(Value, frozen=True, gc=False):
    """The authority's broadcast: journaled progress by computation and injector."""

    shard: int
    values: tuple[tuple[str, Progress], ...]


# Requests to the store, and its replies


class Read(Value, frozen=True, gc=False):
    """Read one row."""

    request: int
    computation: str
    sequencer: int
    key: str


class RowRead(Value, frozen=True, gc=False):
    """The row, or ``None`` if there is none."""

    request: int
    row: RowImage | None


class Scan(Value, frozen=True, gc=False):
    """Read the rows of an interval from ``after`` on (exclusive; ``None``: from its beginning), a page at a time.

    ``progress_of``: names whose journaled progress to return with it.
    """

    request: int
    computation: str
    sequencer: int
    interval: KeyInterval
    after: str | None
    progress_of: tuple[str, ...]


class Scanned(Value, frozen=True, gc=False):
    """A page of rows; ``after``: where the next page begins, ``None`` if this was the last."""

    request: int
    rows: tuple[RowImage, ...]
    after: str | None
    progress: tuple[tuple[str, Progress], ...]


class Write(Value, frozen=True, gc=False):
    """Apply these row deltas, each atomically, and delete these checkpoints, if the sequencer is live and covers all their keys.

    ``delivered``: (key, record id, consumer) of the checkpoints; they have been ACKed.
    """

    request: int
    computation: str
    sequencer: int
    deltas: tuple[RowDelta, ...]
    delivered: tuple[tuple[str, str, str], ...] = ()

    def keys(self) -> list[str]:
        """The rows that it changes."""
        keys = [delta.key for delta in self.deltas]
        return keys + [key for key, _, _ in self.delivered] if self.delivered else keys


class Written(Value, frozen=True, gc=False):
    """The write is durable."""

    request: int


class CollectIds(Value, frozen=True, gc=False):
    """Delete the ids of this interval whose origin is before ``below`` (6.1.1)."""

    request: int
    computation: str
    sequencer: int
    interval: KeyInterval
    below: int


class Collected(Value, frozen=True, gc=False):
    """The ids are deleted."""

    request: int


class Refused(Value, frozen=True, gc=False):
    """The sequencer or epoch of this request is not the latest any more. ``latest``: the live one, 0 if none."""

    request: int
    latest: int


class Unavailable(Value, frozen=True, gc=False):
    """The store could not serve this request; ask again."""

    request: int


class MintChange(Value, frozen=True, gc=False):
    """An interval to exist from now on, and its owner."""

    computation: str
    interval: KeyInterval
    owner: str
    incarnation: int


class Mint(Value, frozen=True, gc=False):
    """Replace the overlapping intervals of the table by these, each with a new sequencer (6.2).

    Attributes:
        request: correlation.
        epoch: of the master's journal.
        number: counts this epoch's mints; the same number gets the same reply.
        changes: together they cover exactly the intervals that they replace, or a computation that has none.
        topology: the pipeline version in force from now on.
        retiring: computations that are draining from now on.
        removed: computations whose intervals vanish.
        joining: see `Table`.
    """

    request: int
    epoch: int
    number: int
    changes: tuple[MintChange, ...]
    topology: int
    retiring: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    joining: int | None = None


class Minted(Value, frozen=True, gc=False):
    """The table as it is now."""

    request: int
    table: Table


class Peek(Value, frozen=True, gc=False):
    """Look at a role's journal without claiming it."""

    request: int
    role: str


class Peeked(Value, frozen=True, gc=False):
    """Its epoch, and a count that moves whenever the holder renews or journals."""

    request: int
    epoch: int
    renewals: int


class Claim(Value, frozen=True, gc=False):
    """Become the holder of a role: raise its epoch from ``seen_epoch`` (refused if it moved meanwhile)."""

    request: int
    role: str
    seen_epoch: int
    holder: str


class Claimed(Value, frozen=True, gc=False):
    """The new epoch, the contents that the former holder journaled, and the assignment table (for masters)."""

    request: int
    epoch: int
    contents: tuple[tuple[str, Progress], ...]
    position: int
    table: Table


class Renew(Value, frozen=True, gc=False):
    """Show that the holder lives."""

    request: int
    role: str
    epoch: int


class Renewed(Value, frozen=True, gc=False):
    """It is still the holder."""

    request: int


class JournalWatermarks(Value, frozen=True, gc=False):
    """An authority's shard journals its progress, with the reports that it rests on since the last time (7.2).

    ``reports``: (computation, sequencer), (injector process's role, epoch): each must be live, or nothing is journaled.
    """

    request: int
    role: str
    epoch: int
    values: tuple[tuple[str, Progress], ...]
    reports: tuple[tuple[str, int], ...]


class Journaled(Value, frozen=True, gc=False):
    """The journal has it. ``stale``: reports that were not live; if any, nothing was journaled."""

    request: int
    stale: tuple[tuple[str, int], ...] = ()


class JournalPosition(Value, frozen=True, gc=False):
    """An injector process journals how far everything was ACKed, and the progress that it is about to publish (5.2)."""

    request: int
    role: str
    epoch: int
    position: int
    progress: Progress


Request = Read | Scan | Write | CollectIds | Mint | Peek | Claim | Renew | JournalWatermarks | JournalPosition
Reply = (
    RowRead
    | Scanned
    | Written
    | Collected
    | Refused
    | Unavailable
    | Minted
    | Peeked
    | Claimed
    | Renewed
    | Journaled
)
Verb = MoveInterval | SplitInterval | MergeIntervals | ChangeTopology
Message = Deliver | Ack | Table | Heartbeat | Report | InjectorReport | Watermarks | Verb | Request | Reply
