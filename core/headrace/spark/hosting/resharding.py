"""Another number of key intervals for a job at rest (MillWheel 7.1: intervals are split and merged).

Rules of this file:

* The driver reads the state that the old intervals' last micro-batch has committed, and writes an **image** of each new interval.
  Until the job's shape names the images, they do not count; from then on the old intervals process nothing.
* A Python worker reads an image from the job's directory, if that is mounted; else the driver has sent it (`JobPlan.sent`).
* A new interval takes its image in the first micro-batch that touches it, and commits it with its own changes. So an image counts
  once, however often that micro-batch is run. The first micro-batch with any input wakes all intervals, old and new; the old ones
  clear their state. In the staged layout that is the first one of each computation's query, even without input.
* Rows move packed, and their pending work with them. What an interval knew of its input is the same for all intervals of a
  computation, except for those that had nothing to do: the new ones know what the best of the old ones knew.
* State that an old interval wrote after the images were made is refused (6.2): another driver has gone on with the old intervals.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from zlib import crc32

import msgspec

from headrace.api.time import MAX_TIME, MIN_TIME
from headrace.spark.errors import SparkHostError
from headrace.spark.hosting.chunks import Chunks, Header, IntervalStore, MemoryStore, decode_header
from headrace.spark.hosting.layout import JobPlan, Reshard, batch_of, computation_of
from headrace.spark.hosting.waiting import Limited, WaitingRoom
from headrace.spark.io_errors import CheckpointDamagedError
from headrace.spark.runtime.broadcasts import Sent
from headrace.spark.runtime.hadoop import HadoopPath, Place, create, write

Image = tuple[bytes, dict[int, bytes]]
"""An interval's header and chunks."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Image).decode
_DONE = "done"

TAKEN = "headrace.images_taken"
"""Local property of the query's thread, which Spark passes to its tasks: set when all intervals have committed their images."""


def images_of(plan: JobPlan, before: Mapping[str, Image], intervals: int, number: int) -> dict[str, Image]:
    """Return the images of all new intervals.

    Args:
        plan: the layout with the new intervals.
        before: the old intervals' headers and chunks, by group.
        intervals: number of the old intervals.
        number: see `Reshard`.
    """
    images: dict[str, Image] = {}
    held: dict[str, int] = {}
    for name in [name for level in plan.levels for name in level]:
        old = [
            _Interval(*image, intervals) for group, image in before.items() if computation_of(group) == name
        ]
        if not old:
            continue
        holds = {
            group: held[group] for sender in plan.pipeline.senders(name) for group in plan.groups.get(sender, ())
            if group in held and held[group] < MAX_TIME
        }  # fmt: skip
        groups = plan.groups[name]
        for place, group in enumerate(groups):
            store = MemoryStore()
            chunks = Chunks(store, plan.intervals)
            header = chunks.header
            _take_over(header, old, place, len(groups))
            header.generation, header.holds, header.told_to = number, holds, plan.pipeline.receivers(name)
            if plan.staged:  # told by logs, not by intervals
                header.holds = _highest(before.header.holds for before in old)
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
            header.held = held[group] = min([chunks.dues()[0], *holds.values(), room.earliest])
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


def _take_over(header: Header, old: list[_Interval], place: int, intervals: int) -> None:
    """Set what a new interval knows of its input, and its part of the counts."""
    known = [before.header for before in old]
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
    found: dict[str, int] = {}
    for times in known:
        found |= {name: max(at, found.get(name, MIN_TIME)) for name, at in times.items()}
    return found


def write_images(folder: Place, images: Mapping[str, Image]) -> None:
    """Write images to a new directory."""
    for group, image in images.items():
        data = _encode(image)
        create(folder / _file(group), crc32(data).to_bytes(4, "big") + data)


def read_image(folder: Place, group: str) -> bytes:
    """Read the file of an image.

    Raises:
        CheckpointDamagedError: it is missing.
    """
    path = folder / _file(group)
    try:
        return path.read_created() if isinstance(path, HadoopPath) else path.read_bytes()
    except FileNotFoundError:
        raise CheckpointDamagedError(str(path), "it is missing", _RESTORE) from None


def installed(reshard: Reshard, group: str, store: IntervalStore, sent: Mapping[str, Sent]) -> Header | None:
    """Give an interval its image, unless it has it; return its header, or ``None`` if the stored one counts.

    Args:
        reshard: how the intervals came about.
        group: the interval.
        store: its state.
        sent: see `JobPlan`.

    Raises:
        SparkHostError: the interval has processed a micro-batch since the images were made.
        CheckpointDamagedError: the image is damaged or missing.
    """
    old = _stored(store)
    if old.generation >= reshard.number:
        return None
    _clear(reshard, group, old, store)
    if group in reshard.images:
        data, chunks = _decoded(reshard, group, sent)
        header = decode_header(data)
        for number, chunk in chunks.items():
            store.set_chunk(number, chunk)
    else:
        header = Header(generation=reshard.number)  # of a new computation
    header.timer_ms = old.timer_ms
    return header


def retire(reshard: Reshard, group: str, store: IntervalStore) -> None:
    """Clear the state of an old interval.

    Raises:
        SparkHostError: see `installed`.
    """
    old = _stored(store)
    _clear(reshard, group, old, store)
    store.set_timer(old.timer_ms, None)
    store.set_header(None)


def _stored(store: IntervalStore) -> Header:
    data = store.header()
    return Header() if data is None else decode_header(data)


def _clear(reshard: Reshard, group: str, old: Header, store: IntervalStore) -> None:
    if old.sequencer and batch_of(old.sequencer) > reshard.batch:
        problem = (
            f"key interval {group!r} has state of micro-batch {batch_of(old.sequencer)}, but the keys were divided anew after "
            f"micro-batch {reshard.batch}: another driver has gone on with {reshard.before} of them"
        )
        raise SparkHostError(problem, "Stop that driver, and restore the directory from before both")
    for number in (*range(old.chunks), *old.waiting):
        store.set_chunk(number, None)


def _decoded(reshard: Reshard, group: str, sent: Mapping[str, Sent]) -> Image:
    data = sent[group].read() if group in sent else read_image(Path(reshard.path), group)
    if int.from_bytes(data[:4], "big") != crc32(data[4:]):
        path = f"{reshard.path}/{_file(group)}"
        raise CheckpointDamagedError(path, "its content does not match its checksum", _RESTORE)
    found: Image = _decode(data[4:])
    return found


_RESTORE = "Restore it, or the whole directory of the job from one backup, and deploy again"


def _file(group: str) -> str:
    return group.encode().hex()


# Waking all intervals


def to_wake(plan: JobPlan, batch: int, *, taken: bool) -> Iterable[str]:
    """Return the groups that must be called in a micro-batch.

    All are called after a change of the intervals, until a micro-batch that has called them is known to be committed; and in the
    first ones after a change of who consumes what, since new consumers do not know yet what holds the watermark back.

    Args:
        plan: the layout.
        batch: number of the micro-batch.
        taken: whether all intervals have committed their images (`TAKEN`).
    """
    reshard = plan.reshard
    if batch <= plan.wake_until:
        return _all(plan)
    if reshard is None or (batch > reshard.batch + 1 and taken):
        return ()
    return _all(plan)


def _all(plan: JobPlan) -> Iterator[str]:
    for name in plan.pipeline.computations:
        yield from plan.groups[name]
        yield from plan.retired.get(name, ())


def is_done(folder: Place) -> bool:
    """Return whether all intervals have committed their images, from the directory of these."""
    return (folder / _DONE).exists()


class Watch:
    """The driver's side: notes when all intervals have committed their images.

    Args:
        plan: the layout with the new intervals.
        folder: directory of their images; ``None``: they have none.

    Attributes:
        taken: whether all have.
    """

    def __init__(self, plan: JobPlan, folder: Place | None) -> None:
        self._folder = folder
        self._missing = {group for name in plan.pipeline.computations for group in plan.groups[name]}
        self._last = -1
        self.taken = False

    def take(self, groups: Iterable[str], batch: int) -> None:
        """Take the groups that a micro-batch has called. Those that earlier ones have called are committed by now."""
        if self._folder is None or self.taken:
            return
        if not self._missing and batch > self._last:
            write(self._folder / _DONE, b"")
            self.taken = True
        called = self._missing & set(groups)
        if called:
            self._missing -= called
            self._last = batch
