"""Rows between Spark's operators: parcels of many records for one key interval, and tallies of its progress.

Choice: each row of Spark's holds a whole parcel. A row costs the JVM and PySpark several microseconds on each side, whatever its
content, and a record packed with others costs a fraction of one.
"""

from collections.abc import Iterator

import msgspec
import pyarrow as pa

Batches = Iterator[pa.RecordBatch]

Packed = tuple[str, str, str, bytes, int, int]
"""A record: stream, record id, key, value, timestamp and origin (both microseconds)."""

PARCEL_SCHEMA = "`group` string, parcel binary"
"""Of the rows between operators: a group, and a parcel for it or, on its way to the outside, a tally."""

_PARCELS = pa.schema([("group", pa.string()), ("parcel", pa.binary())])


class Parcel(msgspec.Struct, array_like=True, gc=False):
    """What one operator's task sends to one group.

    Attributes:
        records: deliveries, or outputs.
        holds: (sender's group, event time at which it holds the low watermark back; `MAX_TIME`: not any more).
        horizons: (injector, origin): no future record from it has an earlier origin.
        tick: wall time has passed, so wall timers may be due.
        events: History events, encoded.
        pending: (group that feeds this one, its pending timestamps), for a percentile watermark.
        limited: (injector with a skew limit, its record): it may have to wait.
        slowest: the slowest low watermark, event time in microseconds, as the driver knows it; ``None``: it did not say.
    """

    records: list[Packed] = []
    holds: list[tuple[str, int]] = []
    horizons: list[tuple[str, int]] = []
    tick: bool = False
    events: list[bytes] = []
    pending: list[tuple[str, tuple[tuple[int, int], ...]]] = []
    limited: list[tuple[str, Packed]] = []
    slowest: int | None = None


encode_parcel = msgspec.msgpack.Encoder().encode
decode_parcel = msgspec.msgpack.Decoder(Parcel).decode


class Tally(msgspec.Struct, frozen=True, gc=False):
    """The progress of one key interval at the end of a micro-batch, for `Board`. See also `IntervalHeader`.

    Attributes:
        group: the interval.
        computation: its computation.
        turn: number of micro-batches that have processed the interval; the latest tally counts.
        newest: latest timestamp received, event time in microseconds; `MIN_TIME`: none.
        input_watermark: low watermark at the start of this micro-batch, event time in microseconds.
        held: where the interval holds its own low watermark, event time in microseconds; `MAX_TIME`: nowhere.
        low_watermark: its own low watermark, event time in microseconds.
        keys: number of keys with a row.
        state_bytes: size of these rows, bytes.
        new_records: number of records received in this micro-batch.
        new_late_records: how many of them were late.
        new_outputs: number of records produced in this micro-batch.
        timers_here: what this tally adds to the micro-batch's sum of timers. If the micro-batch processes an interval twice, the
            second tally adds only the difference; the same holds for the next three.
        keys_here: the same for keys.
        state_bytes_here: the same for the size of the rows, bytes.
        intervals_here: the same for the number of intervals.
        wall_due: when its next wall timer is due, wall time in microseconds; ``None``: none is pending.
        new_dropped: number of elements dropped in this micro-batch.
        enters_at: the slowest low watermark at which the next record that waits for it may enter, event time in microseconds;
            ``None``: none waits.
    """

    group: str
    computation: str
    turn: int
    records: int
    late_records: int
    outputs: int
    newest: int
    input_watermark: int
    held: int
    low_watermark: int
    timers: int
    keys: int
    state_bytes: int
    new_records: int
    new_late_records: int
    new_outputs: int
    timers_here: int
    keys_here: int
    state_bytes_here: int
    intervals_here: int
    wall_due: int | None = None
    hot_key: str = ""
    hot_records: int = 0
    latest_records: int = 0
    dropped: int = 0
    new_dropped: int = 0
    enters_at: int | None = None


TALLY_BEGINS = b"{"
"""First byte of a tally: it is a JSON object, which Spark can read. No parcel begins with it."""

encode_tally = msgspec.json.Encoder().encode
decode_tally = msgspec.json.Decoder(Tally).decode


def is_tally(data: bytes) -> bool:
    """Return whether encoded data is a tally, not a parcel."""
    return data.startswith(TALLY_BEGINS)


class Post:
    """Parcels being filled, by group.

    Attributes:
        parcels: by group.
        tallies: (output group, tally).
    """

    __slots__ = ("parcels", "tallies")

    def __init__(self) -> None:
        self.parcels: dict[str, Parcel] = {}
        self.tallies: list[tuple[str, Tally]] = []

    def to(self, group: str) -> Parcel:
        """Return the parcel for a group."""
        parcel = self.parcels.get(group)
        if parcel is None:
            parcel = self.parcels[group] = Parcel([], [], [], False, [], [], [])  # noqa: FBT003  ``tick``
        return parcel

    def add(self, other: "Post") -> None:
        """Add the content of another post."""
        self.tallies += other.tallies
        for group, parcel in other.parcels.items():
            self.take(group, parcel)

    def take(self, group: str, parcel: Parcel) -> None:
        """Add the content of a parcel of an operator's to the one for a group."""
        mine = self.to(group)
        mine.records.extend(parcel.records)
        mine.holds.extend(parcel.holds)
        mine.events.extend(parcel.events)
        mine.pending.extend(parcel.pending)
        mine.limited.extend(parcel.limited)

    def encoded(self) -> tuple[list[str], list[bytes]]:
        """Return groups and encoded parcels, as two columns."""
        groups, parcels = list(self.parcels), [encode_parcel(parcel) for parcel in self.parcels.values()]
        for group, tally in self.tallies:
            groups.append(group)
            parcels.append(encode_tally(tally))
        return groups, parcels


def parcel_rows(post: Post) -> pa.RecordBatch:
    """Return what was posted as rows for the next operator."""
    return record_batch(*post.encoded())


def record_batch(groups: list[str], parcels: list[bytes]) -> pa.RecordBatch:
    """Return two columns as rows for the next operator."""
    return pa.RecordBatch.from_arrays(
        [pa.array(groups, pa.string()), pa.array(parcels, pa.binary())], schema=_PARCELS
    )
