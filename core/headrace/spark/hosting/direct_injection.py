"""The fast path of an injected record: from a row of the source directly into its consumer's parcel (MillWheel 4.2, 5.2).

Rules of this file: only well-formed records take this path, and the result is the same as on the full path
(`headrace.injector.injection.productions_of`), which handles all others and reports what is wrong with them. Both call the
consumer's key extractor through `key_for`. Choice: two paths, because injection is a fourth of the total cost of a record.
"""

from typing import Any

from headrace.api.specs import OUTSIDE, same_key
from headrace.api.time import MAX_TIME, MIN_TIME
from headrace.delivery.addressing import key_for
from headrace.spark.hosting.layout import JobPlan, interval_of
from headrace.spark.hosting.parcels import Packed, Post


class Lane:
    """The fast path for one injector's records on a stream with a single consumer, into one post.

    Args:
        plan: the layout of the pipeline.
        post: takes the records.
        injector: the injector.
        stream: the stream.
        kept_ids_us: how long record ids are kept, event time in microseconds, unless the source tells how far it was read.
    """

    __slots__ = (
        "_boxes", "_codec", "_consumer", "_decode", "_extractor", "_groups", "_keeps_key", "_kept_ids_us", "_post", "_splits",
        "_stream", "_unsplit",
    )  # fmt: skip

    def __init__(
        self, plan: JobPlan, post: Post, injector: str, stream: str, kept_ids_us: int | None
    ) -> None:
        self._post = post
        self._stream = stream
        self._codec = plan.pipeline.codec(stream)
        self._decode = self._codec.decode
        ((self._consumer, self._extractor),) = plan.pipeline.consumers(stream)
        self._keeps_key = self._extractor is same_key
        self._groups = plan.groups[self._consumer]
        self._splits = plan.splits.get(self._consumer, ())
        self._unsplit = len(self._groups) - len(self._splits)
        self._kept_ids_us = None if injector in plan.timed_by_source else kept_ids_us
        self._boxes: dict[int, list[Packed]] = {}

    def send(self, name: str, key: Any, data: Any, timestamp: Any, arrived: int | None) -> bool:
        """Send a record and return ``True``; return ``False`` without sending it if it needs the full path."""
        if not (type(key) is str and type(data) is bytes and type(timestamp) is int):
            return False
        if not MIN_TIME < timestamp < MAX_TIME:
            return False
        try:
            if self._keeps_key:
                self._decode(data)
            else:
                key = key_for(
                    self._consumer, self._extractor, self._codec, self._stream, key, data, timestamp, name
                )
            place = interval_of(key, self._unsplit, self._splits)
        except Exception:  # noqa: BLE001  a codec and an extractor may raise anything; the full path reports it
            return False
        origin = MIN_TIME if arrived is None else arrived
        if self._kept_ids_us is not None:
            origin = timestamp + self._kept_ids_us
        box = self._boxes.get(place)
        if box is None:
            box = self._boxes[place] = self._post.to(self._groups[place]).records
        box.append((self._stream, name, key, data, timestamp, origin))
        return True


def has_lane(plan: JobPlan, injector: str, stream: str) -> bool:
    """Return whether a stream of an injector has a fast path.

    It has none if it is not the injector's, or goes to several consumers or outside, or if each record must be recorded in the
    History, or may have to wait.
    """
    pipeline = plan.pipeline
    if plan.history or injector in plan.limits:
        return False
    if stream not in pipeline.injectors[injector].all_outputs:
        return False
    consumers = pipeline.consumers(stream)
    return len(consumers) == 1 and consumers[0][0] != OUTSIDE
