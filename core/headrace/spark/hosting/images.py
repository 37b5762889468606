"""Images of key intervals: the state of a job at rest, on its way into another checkpoint (MillWheel 7.1: splits and merges).

Rules of this file:

* The driver makes the image of each new interval from the state that the old intervals' last micro-batch has committed.
* Who holds the watermark back tells its consumers anew: the first micro-batch with any input calls all intervals.
* Rows move packed, and their pending work with them. What an interval knew of its input is the same for all intervals of a
  computation, except for those that had nothing to do: the new ones know what the best of the old ones knew.
"""

from collections.abc import Iterable, Mapping

import msgspec

from headrace.api.time import MIN_TIME
from headrace.spark.hosting.chunks import Chunks, IntervalHeader, IntervalStore, MemoryStore, decode_header
from headrace.spark.hosting.interval_task import next_timer_ms
from headrace.spark.hosting.layout import JobPlan, computation_of
from headrace.spark.hosting.waiting_room import Limited, WaitingRoom

Image = tuple[bytes, dict[int, bytes]]
"""An interval's header and chunks."""

encode_image = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Image).decode


def images_of(
    plan: JobPlan, before: Mapping[str, Image], intervals: int, low_watermark: int
) -> dict[str, Image]:
    """Return the images of all new intervals.

    Args:
        plan: the layout with the new intervals.
        before: the old intervals' headers and chunks, by group.
        intervals: number of the old intervals.
        low_watermark: Spark's, event time in microseconds.
    """
    images: dict[str, Image] = {}
    for name in [name for level in plan.levels for name in level]:
        old = [
            _Interval(*image, intervals) for group, image in before.items() if computation_of(group) == name
        ]
        if not old:
            continue
        groups = plan.groups[name]
        for place, group in enumerate(groups):
            store = MemoryStore()
            chunks = Chunks(store, plan.intervals)
            header = chunks.header
            _take_over(header, old, place, len(groups))
            moved = {
                key: entry
                for before in old
                for key, entry in before.entries.items()
                if plan.group(name, key) == group
            }
            from_here = [
                before.header.reported for before in old if not moved.keys().isdisjoint(before.entries)
            ]
            header.reported = min(from_here, default=max(before.header.reported for before in old))
            chunks.adopt(moved)
            room = WaitingRoom(header, store, plan.limits)
            room.keep([
                limited for before in old for limited in before.waiting if plan.group(name, limited[2][2]) == group
            ])  # fmt: skip
            header.timer_ms = next_timer_ms(chunks.dues()[1], room.enters_at, low_watermark)
            chunks.write_header()
            images[group] = store.image()
    return images


class _Interval:
    """An old interval: its header, its packed rows and the records that wait in it."""

    def __init__(self, header: bytes, chunks: dict[int, bytes], intervals: int) -> None:
        store = MemoryStore(header, chunks)
        read = Chunks(store, intervals)
        self.header = read.header
        self.entries = dict(read.entries())
        self.waiting: list[Limited] = list(WaitingRoom(read.header, store, {}).all())


def _take_over(header: IntervalHeader, old: list[_Interval], place: int, intervals: int) -> None:
    """Set what a new interval knows of its input, and its part of the counts."""
    known = [before.header for before in old]
    header.sequencer = max(before.sequencer for before in known)
    header.low = max(before.low for before in known)
    header.horizon = max(before.horizon for before in known)
    header.slowest = max(before.slowest for before in known)
    header.newest = max(before.newest for before in known)
    header.turns = max(before.turns for before in known)
    header.horizons = _highest(before.horizons for before in known)
    header.reached = _highest(before.reached for before in known)
    for before in known[place::intervals]:  # so that each old interval's counts go to one new interval
        header.records += before.records
        header.late_records += before.late_records
        header.outputs += before.outputs
        header.dropped += before.dropped


def _highest(known: Iterable[Mapping[str, int]]) -> dict[str, int]:
    highest: dict[str, int] = {}
    for times in known:
        highest |= {name: max(at, highest.get(name, MIN_TIME)) for name, at in times.items()}
    return highest


def install(image: bytes, store: IntervalStore) -> None:
    """Give an interval that has no state its image."""
    header, chunks = _decode(image)
    for number, chunk in chunks.items():
        store.set_chunk(number, chunk)
    store.set_timer(None, decode_header(header).timer_ms)
    store.set_header(header)
