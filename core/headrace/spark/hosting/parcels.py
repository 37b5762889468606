"""What travels between Spark's operators: parcels of records for one key interval, many in one row.

Choice: a row of Spark's is a whole parcel. Each row costs the JVM and PySpark several microseconds on each side, whatever is
in it, and a record packed with others a fraction of one.
"""

from collections.abc import Iterator

import msgspec
import pyarrow as pa

Batches = Iterator[pa.RecordBatch]

Packed = tuple[str, str, str, bytes, int, int]
"""A record: stream, record id, key, value, timestamp and origin (both microseconds)."""

PARCEL_SCHEMA = "`group` string, parcel binary"
"""Of the rows between operators: which group, and what for it: a parcel, or, on its way outside, a tally."""

_PARCELS = pa.schema([("group", pa.string()), ("parcel", pa.binary())])


class Parcel(msgspec.Struct, array_like=True, gc=False):
    """What one operator's task has for one group.

    Attributes:
        records: deliveries, or outputs.
        holds: (group, event time): how far that group of a sender holds the low watermark back; `MAX_TIME`: no more. In the
            staged layout, (sender, event time): the sender's low watermark.
        horizons: (injector, origin): no record still to come from it has an origin before that.
        tick: time has passed; wall timers may be due.
        events: of the History, encoded.
        taken: (sender, number): up to which entry of its log this micro-batch has read (staged layout).
    """

    records: list[Packed] = []
    holds: list[tuple[str, int]] = []
    horizons: list[tuple[str, int]] = []
    tick: bool = False
    events: list[bytes] = []
    taken: list[tuple[str, int]] = []


encode_parcel = msgspec.msgpack.Encoder().encode
decode_parcel = msgspec.msgpack.Decoder(Parcel).decode


class Tally(msgspec.Struct, frozen=True, gc=False):
    """What one key interval tells of itself at the end of a micro-batch, for `headrace.spark.hosting.progress`.

    Attributes:
        group: the interval.
        computation: that it is one of.
        turn: how often the interval has been worked on; a later one counts.
        records: that have come for it, ever.
        late_records: of these, how many were behind its low watermark.
        outputs: that it has produced, ever.
        newest: timestamp that has come for it, event time in microseconds; `MIN_TIME`: none.
        input_watermark: that this micro-batch began with, event time in microseconds.
        held: how far the interval holds its own low watermark back, likewise; `MAX_TIME`: it does not.
        low_watermark: its own, likewise.
        timers: how many are pending.
        keys: how many have a row.
        state_bytes: size of these rows, bytes.
        new_records: that have come in this micro-batch; so with the next two.
        new_late_records: see above.
        new_outputs: see above.
        timers_here: what this tally adds to the timers of the intervals that the micro-batch has worked on: an interval that it
            works on twice tells the second time how many more there are; so with the next three.
        keys_here: see above.
        state_bytes_here: see above.
        intervals_here: see above.
        wall_due: when its next wall timer is due, wall time in microseconds; ``None``: none is pending.
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


TALLY_BEGINS = b"{"
"""A tally is a JSON object, which Spark can read, and no parcel begins like that."""

encode_tally = msgspec.json.Encoder().encode
decode_tally = msgspec.json.Decoder(Tally).decode


def is_tally(data: bytes) -> bool:
    """Tell a tally from a parcel."""
    return data.startswith(TALLY_BEGINS)


class Post:
    """Parcels being filled, by group.

    Attributes:
        parcels: by group.
        tallies: (group that takes it outside, tally).
    """

    __slots__ = ("parcels", "tallies")

    def __init__(self) -> None:
        self.parcels: dict[str, Parcel] = {}
        self.tallies: list[tuple[str, Tally]] = []

    def to(self, group: str) -> Parcel:
        """The parcel for a group."""
        parcel = self.parcels.get(group)
        if parcel is None:
            parcel = self.parcels[group] = Parcel([], [], [], False, [], [])  # noqa: FBT003  ``tick``
        return parcel

    def add(self, other: "Post") -> None:
        """Put in what another has."""
        self.tallies += other.tallies
        for group, parcel in other.parcels.items():
            mine = self.to(group)
            mine.records.extend(parcel.records)
            mine.holds.extend(parcel.holds)
            mine.events.extend(parcel.events)

    def encoded(self) -> tuple[list[str], list[bytes]]:
        """Groups and parcels, as two columns."""
        groups, parcels = list(self.parcels), [encode_parcel(parcel) for parcel in self.parcels.values()]
        for group, tally in self.tallies:
            groups.append(group)
            parcels.append(encode_tally(tally))
        return groups, parcels


def parcel_rows(post: Post) -> pa.RecordBatch:
    """Return what was posted as rows for the next operator."""
    groups, parcels = post.encoded()
    return pa.RecordBatch.from_arrays(
        [pa.array(groups, pa.string()), pa.array(parcels, pa.binary())], schema=_PARCELS
    )
