"""Messages between processes, and requests to the store with their replies (MillWheel 6, 7). One class per message."""

from headrace.api.time import MIN_TIME
from headrace.wire.keys import KeyInterval
from headrace.wire.rows import Production, RowDelta, RowImage
from headrace.wire.value import Value

STORE = "store"
"""The address of the backing store's mediator."""


# Records (6.1.1)


class Deliver(Value, frozen=True, gc=False):
    """A production sent to the owner of its key. ``sender``: the address to ACK."""

    production: Production
    sender: str


class Ack(Value, frozen=True, gc=False):
    """These records are durable at this consumer; stop sending them."""

    consumer: str
    record_ids: tuple[str, ...]


# Ownership (7.1)


class Assignment(Value, frozen=True, gc=False):
    """One interval of the assignment table: its owner and its sequencer."""

    computation: str
    interval: KeyInterval
    sequencer: int
    owner: str
    incarnation: int


class Table(Value, frozen=True, gc=False):
    """The whole assignment, as the store holds it. Compare tables by ``version``.

    Attributes:
        version: number of mints so far.
        topology: index of the pipeline version in force (3: computations are added and removed while it runs).
        retiring: computations that get no new records and are removed once drained.
        assignments: all intervals, sorted by computation and interval.
        joining: index of the pipeline version, if any, to put in force once all processes know its added computations.
        retired_from: for each retiring computation, the pipeline version in force before it retired, which it keeps using.
    """

    version: int = 0
    topology: int = 0
    retiring: tuple[str, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    joining: int | None = None
    retired_from: tuple[int, ...] = ()


class IntervalLoad(Value, frozen=True, gc=False):
    """An owner's load report for one interval.

    Attributes:
        computation: the computation.
        sequencer: the interval's sequencer, which identifies it.
        records: number of deliveries and timers run since the last heartbeat.
        bytes: size of its soft state in memory.
        split_key: a key that would halve its work; ``""``: unknown.
        pending: total number of unACKed productions, pending timers and queued work, if its computation retires; else 0.
        cpu_us: CPU time of its user code since the last heartbeat, microseconds; 0 from a host that does not measure it.
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
        sender: the process's address.
        incarnation: number of the process's starts.
        table_version: version of the table it acts on.
        loads: load of each interval that it owns and has scanned; empty for injectors.
        owing: (consumer, number of its unACKed deliveries from this process), for retiring computations only.
        is_worker: whether it can own intervals.
        scanning: sequencers of the intervals that it has been given and has not scanned yet.
    """

    sender: str
    incarnation: int
    table_version: int
    loads: tuple[IntervalLoad, ...] = ()
    owing: tuple[tuple[str, int], ...] = ()
    is_worker: bool = True
    scanning: tuple[int, ...] = ()


class MoveInterval(Value, frozen=True, gc=False):
    """Operator's request to a master: move the interval with this key to a worker (``""``: to the least loaded other worker)."""

    computation: str
    key: str
    to: str = ""


class SplitInterval(Value, frozen=True, gc=False):
    """Operator's request to a master: split an interval so that ``key`` begins the upper part."""

    computation: str
    key: str


class MergeIntervals(Value, frozen=True, gc=False):
    """Operator's request to a master: merge the interval with this key and the next one."""

    computation: str
    key: str


class ChangeTopology(Value, frozen=True, gc=False):
    """Operator's request to a master: put another of the deployed pipeline versions in force."""

    topology: int


# Watermarks (7.2)


class Progress(Value, frozen=True, gc=False):
    """The progress of a computation or injector.

    Attributes:
        low_watermark: event time before which no record is still to come, microseconds.
        horizon: origin before which no record is still to come, microseconds.
        percentiles: (percent, event time) of the heuristic watermarks in use.
    """

    low_watermark: int = MIN_TIME
    horizon: int = MIN_TIME
    percentiles: tuple[tuple[float, int], ...] = ()

    def at_least(self, other: "Progress") -> "Progress":
        """Return the maximum of the two in every field: progress never goes back."""
        if other.percentiles and self.percentiles:
            mine = dict(self.percentiles)
            merged = tuple((p, max(t, mine.get(p, MIN_TIME))) for p, t in other.percentiles)
        else:
            merged = other.percentiles or self.percentiles
        return Progress(
            max(self.low_watermark, other.low_watermark), max(self.horizon, other.horizon), merged
        )


class IntervalReport(Value, frozen=True, gc=False):
    """One interval's progress: the minimum of its own oldest work and its input watermark, as known to its owner.

    Attributes:
        computation: the computation.
        interval: its keys.
        sequencer: the interval's sequencer.
        low_watermark: event time, microseconds.
        horizon: origin, microseconds.
        pending: (event time rounded down, count) of its pending work, for percentiles; empty unless percentiles are used.
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
        injector: the injector's name.
        process: the process's number.
        epoch: epoch of the process's journal.
        low_watermark: event time, microseconds; no future or unACKed record is before it.
        horizon: origin, microseconds.
        frontier: the source's own watermark, event time in microseconds, regardless of unACKed records (for percentiles).
        pending: (event time rounded down, count) of unACKed records, for percentiles; empty unless percentiles are used.
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


# Requests to the store and their replies


class _Numbered(Value, frozen=True, gc=False):
    """A request to the store, or the reply to it. ``request``: its number, which the requester counts and the reply repeats."""

    request: int


class Read(_Numbered, frozen=True, gc=False):
    """Read one row."""

    computation: str
    sequencer: int
    key: str


class RowRead(_Numbered, frozen=True, gc=False):
    """The row, or ``None`` if there is none."""

    row: RowImage | None


class Scan(_Numbered, frozen=True, gc=False):
    """Read one page of an interval's rows, from ``after`` on (exclusive; ``None``: from the beginning).

    ``progress_of``: computations and injectors whose journaled progress to return as well.
    """

    computation: str
    sequencer: int
    interval: KeyInterval
    after: str | None
    progress_of: tuple[str, ...]


class Scanned(_Numbered, frozen=True, gc=False):
    """A page of rows; ``after``: the key after which the next page begins, ``None`` if this was the last."""

    rows: tuple[RowImage, ...]
    after: str | None
    progress: tuple[tuple[str, Progress], ...]


class Write(_Numbered, frozen=True, gc=False):
    """Apply row deltas, each atomically, and delete checkpoints, if the sequencer is live and its interval covers all the keys.

    ``delivered``: (key, record id, consumer) of checkpoints that have been ACKed.
    """

    computation: str
    sequencer: int
    deltas: tuple[RowDelta, ...]
    delivered: tuple[tuple[str, str, str], ...] = ()

    def keys(self) -> list[str]:
        """Return the keys of the rows that it changes."""
        keys = [delta.key for delta in self.deltas]
        return keys + [key for key, _, _ in self.delivered] if self.delivered else keys


class Written(_Numbered, frozen=True, gc=False):
    """The write is durable."""


class CollectIds(_Numbered, frozen=True, gc=False):
    """Delete this interval's record ids whose origin is before ``below`` (6.1.1)."""

    computation: str
    sequencer: int
    interval: KeyInterval
    below: int


class Collected(_Numbered, frozen=True, gc=False):
    """The ids are deleted."""


class Refused(_Numbered, frozen=True, gc=False):
    """The sequencer or epoch of this request is no longer the latest. ``latest``: the live one; 0: none."""

    latest: int


class Unavailable(_Numbered, frozen=True, gc=False):
    """The store could not serve this request; try again."""


class MintChange(Value, frozen=True, gc=False):
    """A new interval and its owner."""

    computation: str
    interval: KeyInterval
    owner: str
    incarnation: int


class Mint(_Numbered, frozen=True, gc=False):
    """Replace the overlapping intervals of the table by these, each with a new sequencer (6.2).

    Attributes:
        epoch: epoch of the master's journal.
        number: number of this mint within the epoch; repeating a number repeats the reply.
        changes: new intervals, which together cover exactly the intervals that they replace, or a computation that has none.
        topology: index of the pipeline version in force from now on.
        retiring: computations that are draining from now on.
        removed: computations whose intervals are removed.
        joining: see `Table`.
    """

    epoch: int
    number: int
    changes: tuple[MintChange, ...]
    topology: int
    retiring: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    joining: int | None = None


class Minted(_Numbered, frozen=True, gc=False):
    """The table after the mint."""

    table: Table


class Peek(_Numbered, frozen=True, gc=False):
    """Read the state of a role's journal without claiming the role."""

    role: str


class Peeked(_Numbered, frozen=True, gc=False):
    """The journal's epoch, and a count that increases whenever the holder renews or journals."""

    epoch: int
    renewals: int


class Claim(_Numbered, frozen=True, gc=False):
    """Become the holder of a role: raise its epoch from ``seen_epoch`` (refused if the epoch has changed since)."""

    role: str
    seen_epoch: int
    holder: str


class Claimed(_Numbered, frozen=True, gc=False):
    """The new epoch, the previous holder's journal, and the assignment table (for masters)."""

    epoch: int
    contents: tuple[tuple[str, Progress], ...]
    position: int
    table: Table


class Renew(_Numbered, frozen=True, gc=False):
    """Show that the holder is alive."""

    role: str
    epoch: int


class Renewed(_Numbered, frozen=True, gc=False):
    """The requester is still the holder."""


class IntervalReporter(Value, frozen=True, gc=False):
    """The reporter of an interval's progress: the owner with this sequencer."""

    computation: str
    sequencer: int


class ProcessReporter(Value, frozen=True, gc=False):
    """The reporter of an injector process's progress: the holder of its role in this epoch."""

    injector: str
    process: int
    epoch: int


Reporter = IntervalReporter | ProcessReporter


class JournalWatermarks(_Numbered, frozen=True, gc=False):
    """An authority's shard journals progress, and names the reporters on which it is based (7.2).

    ``reporters``: each must be live, or nothing is journaled.
    """

    role: str
    epoch: int
    values: tuple[tuple[str, Progress], ...]
    reporters: tuple[Reporter, ...]


class Journaled(_Numbered, frozen=True, gc=False):
    """The entry is journaled, unless ``stale`` names reporters that were not live: then nothing was journaled."""

    stale: tuple[Reporter, ...] = ()


class JournalPosition(_Numbered, frozen=True, gc=False):
    """An injector process journals the position up to which everything is ACKed, and the progress that it will publish (5.2)."""

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
