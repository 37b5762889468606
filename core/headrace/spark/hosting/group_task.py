"""One of Spark's groups in one task (MillWheel 6.1, 7.1): a key interval, or all intervals of a job with one partition.

Rules of this file:

* Choice: with one partition a stateful operator for each level would exchange nothing, and Spark's own cost for an operator and a
  micro-batch is that of thousands of records. So one operator hosts all levels, as one group, and runs them in order: whatever a
  level sends has arrived before the next one runs, and its timers fire in the same micro-batch, as with an operator for each.
* The state is one variable: Spark sets up each again in every task, which costs more than all calls of a small micro-batch. The
  headers of all intervals are one value, so an interval that a micro-batch does not touch costs nothing.
* A group has one timer in Spark, for the interval that is due next.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import msgspec
import pyarrow as pa

from headrace.api.time import MILLISECOND
from headrace.spark.hosting.images import Image, encode_image, install
from headrace.spark.hosting.interval_task import run_interval
from headrace.spark.hosting.layout import EVERYTHING, BatchContext, JobPlan
from headrace.spark.hosting.parcels import Parcel, Post, record_batch

HEADERS = ""
"""In place of a group: the value of the state that holds all headers."""

_T = TypeVar("_T")


class GroupState(Protocol):
    """A group's part of Spark's state store."""

    def value(self, group: str, number: int) -> bytes | None:
        """Read a value: a chunk of an interval, or all headers."""
        ...

    def set_value(self, group: str, number: int, data: bytes | None) -> None:
        """Write a value; ``None``: remove it."""
        ...

    def set_timer(self, before_ms: int | None, at_ms: int | None) -> None:
        """Ask Spark to call the group when its watermark reaches ``at_ms``, and no longer at ``before_ms``."""
        ...


class Headers(msgspec.Struct, array_like=True):
    """What is known of a group's intervals without reading their rows.

    Attributes:
        by_group: header of each interval, encoded.
        timers_ms: for each interval with a timer, when it is due, event time in milliseconds.
        timer_ms: the group's timer in Spark, event time in milliseconds.
    """

    by_group: dict[str, bytes] = {}
    timers_ms: dict[str, int] = {}
    timer_ms: int | None = None


_encode = msgspec.msgpack.Encoder().encode
decode_headers = msgspec.msgpack.Decoder(Headers).decode
_decode_images = msgspec.msgpack.Decoder(dict[str, bytes]).decode
_decode_bundle = msgspec.msgpack.Decoder(list[tuple[str, Parcel]]).decode


def bundle_rows(post: Post) -> pa.RecordBatch:
    """Return what was posted as one row for the operator, whatever its groups."""
    return record_batch([EVERYTHING], [_encode(list(post.parcels.items()))])


def seed_rows(plan: JobPlan, images: Mapping[str, Image]) -> list[tuple[str, bytes]]:
    """Return the images of intervals, by interval, as rows for the operators."""
    encoded = {interval: encode_image(image) for interval, image in images.items()}
    hosts = {group: of for level in range(len(plan.levels)) for group, of in plan.hosted(level).items()}
    return [
        (group, _encode({interval: encoded[interval] for interval in intervals if interval in encoded}))
        for group, intervals in hosts.items()
    ]


def unbundled(bundles: Iterable[bytes]) -> dict[str, list[Parcel]]:
    """Return the parcels in bundles, by group."""
    parcels: dict[str, list[Parcel]] = {}
    for bundle in bundles:
        for group, parcel in _decode_bundle(bundle):
            parcels.setdefault(group, []).append(parcel)
    return parcels


class GroupTask:
    """A group in one task of Spark's, which may be called twice in a micro-batch: for its rows, and for its timer.

    Args:
        plan: the layout of the pipeline.
        state: the group's state.
        intervals: its intervals, level by level.
    """

    def __init__(self, plan: JobPlan, state: GroupState, intervals: Sequence[str]) -> None:
        self._plan, self._state, self._intervals = plan, state, intervals
        data = state.value(HEADERS, 0)
        self._headers = Headers() if data is None else decode_headers(data)
        self._begun: set[str] = set()

    def run(self, batch: BatchContext, parcels: Mapping[str, list[Parcel]]) -> Post:
        """Process one micro-batch.

        Args:
            batch: the micro-batch.
            parcels: by group, those for it; none if only Spark's watermark has moved.

        Returns:
            What goes to other groups.

        Raises:
            SparkHostError: the stored rows are not from before this batch.
            HeadraceError: user code failed for good.
        """
        plan, waiting, outside = self._plan, dict(parcels), Post()
        changed = _is_past(self._headers.timer_ms, batch)
        for group in self._intervals:
            received = waiting.pop(group, [])
            if received or _is_past(self._headers.timers_ms.get(group), batch):
                post = run_interval(plan, group, batch, received, self._interval(group))
                changed = True
                outside.tallies += post.tallies
                for to, parcel in post.parcels.items():
                    waiting.setdefault(to, []).append(parcel)
        for group, received in waiting.items():
            for parcel in received:
                outside.take(group, parcel)
        if changed:
            self._write_headers()
        return outside

    def take(self, images: bytes) -> None:
        """Take the images of its intervals, from `seed_rows`."""
        for group, image in _decode_images(images).items():
            install(image, self._interval(group))
        self._write_headers()

    def _interval(self, group: str) -> "_Interval":
        return _Interval(self._state, self._headers, self._begun, group)

    def _write_headers(self) -> None:
        headers = self._headers
        # Those of removed computations wait until they are back.
        soonest = min(
            [at for group in self._intervals if (at := headers.timers_ms.get(group)) is not None],
            default=None,
        )
        if soonest != headers.timer_ms:
            self._state.set_timer(headers.timer_ms, soonest)
            headers.timer_ms = soonest
        self._state.set_value(HEADERS, 0, _encode(headers))


def _is_past(timer_ms: int | None, batch: BatchContext) -> bool:
    return timer_ms is not None and timer_ms * MILLISECOND <= batch.low_watermark


@dataclass(frozen=True, slots=True)
class _Interval:
    """One interval's part of the state: an `IntervalStore`."""

    state: GroupState
    headers: Headers
    begun: set[str]
    group: str

    def is_begun(self) -> bool:
        return self.group in self.begun

    def header(self) -> bytes | None:
        return self.headers.by_group.get(self.group)

    def set_header(self, data: bytes | None) -> None:
        _set(self.headers.by_group, self.group, data)
        self.begun.add(self.group)

    def chunk(self, number: int) -> bytes | None:
        return self.state.value(self.group, number)

    def set_chunk(self, number: int, data: bytes | None) -> None:
        self.state.set_value(self.group, number, data)

    def set_timer(self, before_ms: int | None, at_ms: int | None) -> None:  # noqa: ARG002  one timer stands for all
        _set(self.headers.timers_ms, self.group, at_ms)


def _set(values: dict[str, _T], group: str, value: _T | None) -> None:
    if value is None:
        values.pop(group, None)
    else:
        values[group] = value
