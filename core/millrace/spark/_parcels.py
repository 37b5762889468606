"""What travels between Spark's operators: parcels of records for one key interval, many in one row.

Choice: a row of Spark's is a whole parcel. Each row costs the JVM and PySpark several microseconds on each side, whatever is
in it, and a record packed with others a fraction of one.
"""

import msgspec

Packed = tuple[str, str, str, bytes, int, int]
"""A record: stream, record id, key, value, timestamp and origin (both microseconds)."""

PARCEL_SCHEMA = "`group` string, parcel binary"
"""Of the rows between operators: which group, and what for it."""


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


class Post:
    """Parcels being filled, by group."""

    __slots__ = ("parcels",)

    def __init__(self) -> None:
        self.parcels: dict[str, Parcel] = {}

    def to(self, group: str) -> Parcel:
        """The parcel for a group."""
        parcel = self.parcels.get(group)
        if parcel is None:
            parcel = self.parcels[group] = Parcel([], [], [], False, [], [])  # noqa: FBT003  ``tick``
        return parcel

    def add(self, other: "Post") -> None:
        """Put in what another has."""
        for group, parcel in other.parcels.items():
            mine = self.to(group)
            mine.records.extend(parcel.records)
            mine.holds.extend(parcel.holds)
            mine.events.extend(parcel.events)

    def encoded(self) -> tuple[list[str], list[bytes]]:
        """Groups and parcels, as two columns."""
        return list(self.parcels), [encode_parcel(parcel) for parcel in self.parcels.values()]
